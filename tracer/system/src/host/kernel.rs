//! What the running kernel says of itself: its release, its name and boot, and whether this process sees the pids that it reports.
//!
//! Leaves out what it offers to a recorder (`privileges`, `doctor/kernel.rs`).

use energy_trace_model::recording::record::{HiddenFile, Host};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The inode of the first pid namespace: PROC_PID_INIT_INO (include/linux/proc_ns.h, v6.1).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The kernel's release, as `uname -r` says it; empty when it does not say.
pub fn read_kernel_at(root: &Path) -> String {
    std::fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default().trim().to_owned()
}

/// What the machine calls itself, and the kernel's number of this boot; empty where it does not say.
pub fn read_host_at(root: &Path) -> Host {
    let read = |name| std::fs::read_to_string(root.join(name)).unwrap_or_default().trim().to_owned();
    Host { name: read("proc/sys/kernel/hostname"), boot: read("proc/sys/kernel/random/boot_id") }
}

/// Files of the kernel that a container hides from this process: by a smaller `/proc`, or by an empty file or folder above them.
pub fn hidden_files() -> Vec<HiddenFile> {
    hidden_files_at(Path::new("/"))
}

fn hidden_files_at(root: &Path) -> Vec<HiddenFile> {
    let shows = |file: HiddenFile| {
        let place = root.join(file.path().trim_start_matches('/'));
        match file {
            HiddenFile::KernelSettings => place.join("osrelease").exists(),
            HiddenFile::CpuList => place.join("online").exists(),
            HiddenFile::KernelSymbols => shows_kernel_symbols_at(root),
            // Of an empty one there is no first byte.
            _ => File::open(place).and_then(|mut file| file.read(&mut [0])).is_ok_and(|bytes| bytes > 0),
        }
    };
    HiddenFile::ALL.into_iter().filter(|&file| !shows(file)).collect()
}

/// Whether names of kernel functions can be looked up: who lacks CAP_SYSLOG sees them at address 0 (`kallsyms_show_value`, kernel/kallsyms.c, v6.1).
pub fn shows_kernel_symbols_at(root: &Path) -> bool {
    /// Bytes of the beginning, where some symbols are at 0 for everybody.
    const BEGINNING: u64 = 1 << 18;
    let mut list = Vec::new();
    let read =
        File::open(root.join("proc/kallsyms")).and_then(|file| file.take(BEGINNING).read_to_end(&mut list));
    let has_address = |line: &[u8]| line.iter().take_while(|&&byte| byte != b' ').any(|&byte| byte != b'0');
    read.is_ok() && list.split(|&byte| byte == b'\n').any(has_address)
}

/// Whether processes have the numbers here that the kernel reports. What cannot be read is taken for the first one.
pub fn is_first_pid_namespace_at(root: &Path) -> bool {
    match std::fs::read_link(root.join("proc/self/ns/pid")) {
        Ok(name) => name == Path::new(FIRST_PID_NAMESPACE),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{HiddenFile, hidden_files_at, shows_kernel_symbols_at};

    /// What is missing, or empty, is hidden; so are symbols without addresses.
    #[test]
    fn what_containers_hide() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(hidden_files_at(root.path()), HiddenFile::ALL);
        for (path, text) in [("proc/stat", "cpu"), ("proc/kallsyms", ""), ("proc/sys/kernel/osrelease", "6")]
        {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let hidden = [HiddenFile::KernelSymbols, HiddenFile::CpuModel, HiddenFile::CpuList];
        assert_eq!(hidden_files_at(root.path()), hidden);
        for (text, shown) in
            [("0000000000000000 A a\n0000000000000000 T b\n", false), ("0 A a\nffffffff81000000 T b\n", true)]
        {
            std::fs::write(root.path().join("proc/kallsyms"), text).unwrap();
            assert_eq!(shows_kernel_symbols_at(root.path()), shown, "{text}");
        }
    }
}
