//! Whoever has connected to the unix socket on stdin: recorded until it shuts its side down, and sent the recording (`--attach-socket`).
//!
//! Who that is the kernel says, of the moment of the connection; nothing that is sent is looked at. A number that is another process's by
//! now does no harm: only processes of that user are recorded. Leaves out what comes of it (`session/`, `finisher/send_back.rs`).

use super::user::{InvokingUser, UserError};
use energy_trace_model::ids::Pid;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Gid, Uid, geteuid};
use std::io::stdin;
use std::os::unix::fs::MetadataExt as _;

/// Why nobody can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// There is no other end.
    #[error(
        "--attach-socket records whoever has connected to the unix socket on stdin, and stdin is none: {0}; it is for a service that \
         systemd starts, as examples/agent/energy-trace-attach@.service"
    )]
    NoSocket(nix::Error),
    /// What was recorded would be the user's.
    #[error("--attach-socket needs root, as it gives to other users what they may not read themselves")]
    NotRoot,
    /// The kernel has no number for the process here.
    #[error(
        "the process at the other end of the socket has no number here: it is in a pid namespace that this one does not see"
    )]
    Unseen,
    /// Who it is could not be looked up.
    #[error(transparent)]
    User(#[from] UserError),
}

/// The process at the other end of stdin, and its user.
#[derive(Debug)]
pub struct Peer {
    /// The process that connected.
    pub pid: Pid,
    /// As whom.
    pub user: InvokingUser,
}

impl Peer {
    /// Asks the kernel.
    ///
    /// # Errors
    /// When there is nobody, or nobody that can be recorded.
    pub fn of_stdin() -> Result<Self, PeerError> {
        if !geteuid().is_root() {
            return Err(PeerError::NotRoot);
        }
        let told = getsockopt(&stdin(), PeerCredentials).map_err(PeerError::NoSocket)?;
        let pid = u32::try_from(told.pid()).ok().filter(|&pid| pid != 0).ok_or(PeerError::Unseen)?;
        let user = InvokingUser::look_up(Uid::from_raw(told.uid()), Some(Gid::from_raw(told.gid())))?;
        Ok(Self { pid: Pid::new(pid), user })
    }
}

/// Whether a process is this user's, who may look into it: programs with other rights (set-user-ID, capabilities) and those that cannot be
/// read have files of root's here (proc(5), `task_dump_owner`). What is gone is nobody's.
pub fn is_of(user: Uid, pid: Pid) -> bool {
    std::fs::metadata(format!("/proc/{pid}/environ")).is_ok_and(|found| found.uid() == user.as_raw())
}

#[cfg(test)]
mod tests {
    use super::{Pid, Uid, is_of};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::Command;

    /// Whether a process of user 7 that runs this program is that user's.
    fn is_own(program: &Path) -> bool {
        let mut child = Command::new(program).arg("60").uid(7).gid(7).spawn().unwrap();
        let found = is_of(Uid::from_raw(7), Pid::new(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        found
    }

    /// A process is its user's alone, and nobody's where its user may not read its program, as with any that has other rights.
    #[test]
    fn whose_a_process_is() {
        let (us, ours) = (nix::unistd::geteuid(), Pid::new(std::process::id()));
        assert!(is_of(us, ours) && !is_of(Uid::from_raw(7), ours) && !is_of(us, Pid::new(u32::MAX >> 1)));
        if !us.is_root() {
            // Nobody else may start others' processes.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let copy = |mode: &str| {
            let path = folder.path().join(mode);
            let made = Command::new("install").args(["-m", mode, "/bin/sleep"]).arg(&path).status().unwrap();
            assert!(made.success());
            path
        };
        assert!(is_own(&copy("755")) && !is_own(&copy("711")));
    }
}
