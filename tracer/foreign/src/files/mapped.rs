//! The file behind a mapping: by the mapping itself, which holds for deleted files and other mount namespaces too, else by its path
//! below the process's root.

use super::regular::open_place;
use super::root::Root;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::address_space::{FileKey, Mapping};
use energy_trace_unwind::living::of_living;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens the mapped file of a process.
///
/// # Errors
/// When there is none, it is gone, or another one is in its place.
pub fn open_mapped(pid: Pid, mapping: &Mapping) -> io::Result<File> {
    let key = mapping.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
    of_living(pid, |pid| by_mapping(pid, mapping, key))
        .or_else(|_| by_path(&Root::of_process(pid)?, mapping, key))
}

fn by_mapping(pid: Pid, mapping: &Mapping, key: &FileKey) -> io::Result<File> {
    let link = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let place = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(link)?;
    // Where file systems lie above others, a mapping may show another device than the file; then the number says nothing either.
    open_place(&place, |found| file_key(found).device != key.device || found.ino() == key.inode)
}

fn by_path(root: &Root, mapping: &Mapping, key: &FileKey) -> io::Result<File> {
    let path = root.path_inside(Path::new(&mapping.path));
    root.open_if(&path, false, |found| found.ino() == key.inode)
}

/// What names a file while it is mapped, as `/proc/PID/maps` prints it (fs/proc/task_mmu.c, v6.1). Some file systems show another device
/// there.
pub fn file_key(found: &Metadata) -> FileKey {
    let device = format!("{:02x}:{:02x}", libc::major(found.dev()), libc::minor(found.dev()));
    FileKey { device, inode: found.ino() }
}

#[cfg(test)]
mod tests {
    use super::{by_mapping, by_path, file_key, open_mapped};
    use crate::files::Root;
    use energy_trace_model::ids::Pid;
    use energy_trace_unwind::address_space::{AddressSpace, FileKey, Mapping};
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;

    fn mapping(path: &std::path::Path, key: &FileKey) -> Mapping {
        Mapping {
            start: 0,
            end: 0x1000,
            offset: 0,
            file: Some(key.clone()),
            path: path.display().to_string(),
        }
    }

    /// This program is found by its mapping; a mapping of memory is no file.
    #[test]
    fn this_program() {
        let pid = Pid::new(std::process::id());
        let space = AddressSpace::read(pid).unwrap();
        let of_file = space.mappings().iter().find(|m| m.file.is_some()).unwrap();
        let mut magic = [0; 4];
        open_mapped(pid, of_file).unwrap().read_exact(&mut magic).unwrap();
        assert_eq!(&magic, b"\x7fELF");
        let other =
            FileKey { inode: of_file.file.as_ref().unwrap().inode + 1, ..of_file.file.clone().unwrap() };
        assert!(by_mapping(pid, of_file, &other).is_err());
        assert!(open_mapped(pid, &Mapping { file: None, ..of_file.clone() }).is_err());
    }

    /// By its path only the file itself is opened: not a pipe, link or device that took its place, which is not waited for either.
    #[test]
    fn what_took_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.so");
        std::fs::write(&path, "library").unwrap();
        let key = file_key(&std::fs::metadata(&path).unwrap());
        let root = Root::default();
        assert!(by_path(&root, &mapping(&path, &key), &key).is_ok());
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("moved", &path).unwrap();
        assert!(by_path(&root, &mapping(&path, &key), &key).is_err());
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let pipe = FileKey { inode: std::fs::symlink_metadata(&path).unwrap().ino(), ..key.clone() };
        assert!(by_path(&root, &mapping(&path, &pipe), &pipe).is_err());
    }
}
