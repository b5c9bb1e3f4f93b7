//! What the running kernel says of itself: its release, its name and boot, and whether this process sees the pids that it reports.
//!
//! Leaves out what it offers to a recorder (`privileges`, `doctor/kernel.rs`).

use energy_trace_model::recording::record::Host;
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

/// Whether processes have the numbers here that the kernel reports. What cannot be read is taken for the first one.
pub fn is_first_pid_namespace_at(root: &Path) -> bool {
    match std::fs::read_link(root.join("proc/self/ns/pid")) {
        Ok(name) => name == Path::new(FIRST_PID_NAMESPACE),
        Err(_) => true,
    }
}
