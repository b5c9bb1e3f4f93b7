//! Whose a file or a process is: what it costs is counted against that owner.
//!
//! A file that root owns and nobody else may write is root's, and trusted to mean no harm. Leaves out the counting (`pool.rs`, `resolver/`).

use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Owner;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;

/// Who may have written an open file.
pub fn owner_of_file(file: &File) -> Owner {
    file.metadata().map_or(Owner::Several, |found| owner_of(&found))
}

fn owner_of(found: &Metadata) -> Owner {
    /// Write permission of the group, and of everybody.
    const GROUP: u32 = 0o020;
    const ALL: u32 = 0o002;
    let by_group = found.mode() & GROUP != 0 && found.gid() != 0;
    match found.uid() {
        0 if found.mode() & ALL != 0 || by_group => Owner::Several,
        uid => Owner::of_user(uid),
    }
}

/// Whose a question about several files is: of the one who is not root; of several where two are not.
pub fn owner_of_files(files: &[&File]) -> Owner {
    let others = files.iter().map(|file| owner_of_file(file)).filter(|owner| *owner != Owner::Root);
    let together = |one: Owner, other: Owner| if one == other { one } else { Owner::Several };
    others.reduce(together).unwrap_or(Owner::Root)
}

/// Who started a process; of one that is gone, or is not shown, nobody in particular.
pub fn owner_of_process(pid: Pid) -> Owner {
    user_of_process(pid).map_or(Owner::Several, Owner::of_user)
}

/// The same by number; `None` where it is gone, or is not shown.
pub fn user_of_process(pid: Pid) -> Option<u32> {
    /// Bytes of the file in which the line is; behind it a list of groups may be long.
    const BEGINNING: u64 = 1024;
    let mut status = Vec::new();
    File::open(format!("/proc/{pid}/status")).ok()?.take(BEGINNING).read_to_end(&mut status).ok()?;
    parse_user(&String::from_utf8_lossy(&status))
}

/// By `Uid` of `/proc/PID/status`: the real user, who a set-user-ID program was started by; of a service that root started the user that it
/// became. The name in that file, which is the program's choice, is one line.
fn parse_user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut uids = line.split_whitespace().map(str::parse::<u32>);
    let (real, effective) = (uids.next()?.ok()?, uids.next()?.ok()?);
    Some(if real == 0 { effective } else { real })
}

#[cfg(test)]
mod tests {
    use super::{Owner, owner_of_file, owner_of_files, owner_of_process, parse_user};
    use energy_trace_model::ids::Pid;
    use std::fs::{File, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, fchown};

    fn file(uid: u32, gid: u32, mode: u32) -> File {
        let file = tempfile::tempfile().unwrap();
        fchown(&file, Some(uid), Some(gid)).unwrap();
        file.set_permissions(Permissions::from_mode(mode)).unwrap();
        file
    }

    /// What root owns is root's where nobody else may write it; of files together the one who is not root answers.
    #[test]
    fn whose_files() {
        let owner = |uid, gid, mode| owner_of_file(&file(uid, gid, mode));
        assert_eq!(owner(0, 0, 0o755), Owner::Root);
        assert_eq!(owner(0, 0, 0o775), Owner::Root);
        assert_eq!(owner(0, 5, 0o775), Owner::Several);
        assert_eq!(owner(0, 0, 0o646), Owner::Several);
        assert_eq!(owner(7, 0, 0o777), Owner::User(7));
        let [root, one, other] = [file(0, 0, 0o644), file(7, 7, 0o644), file(8, 8, 0o644)];
        assert_eq!(owner_of_files(&[]), Owner::Root);
        assert_eq!(owner_of_files(&[&root, &one, &root]), Owner::User(7));
        assert_eq!(owner_of_files(&[&one, &other]), Owner::Several);
    }

    /// A program that somebody runs with root's rights is theirs, and a service is its user's, whatever name it gives itself.
    #[test]
    fn whose_processes() {
        let owner = |uids: &str| {
            parse_user(&format!("Name:\tx\\nUid:\t0\nUmask:\t0022\nUid:\t{uids}\n")).map(Owner::of_user)
        };
        assert_eq!(owner("1000\t0\t0\t0"), Some(Owner::User(1000)));
        assert_eq!(owner("0\t33\t33\t33"), Some(Owner::User(33)));
        assert_eq!(owner("0\t0\t0\t0"), Some(Owner::Root));
        assert_eq!(owner("?"), None);
        let here = Owner::of_user(nix::unistd::getuid().as_raw());
        assert_eq!(owner_of_process(Pid::new(std::process::id())), here);
        assert_eq!(owner_of_process(Pid::new(u32::MAX >> 1)), Owner::Several);
    }
}
