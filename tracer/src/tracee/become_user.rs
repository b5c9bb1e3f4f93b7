//! What a forked child does before `exec` so that the program is the invoking user and has nothing of ours: user, groups, capabilities.
//!
//! Only system calls on numbers and memory that was there before the fork. Leaves out processes that are ours (`roles::renounce`).

use super::user::InvokingUser;
use energy_trace_system::host::own_limit;
use nix::errno::Errno;
use nix::unistd::{geteuid, getresgid, getresuid, setgroups, setresgid, setresuid};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Version 3 of the interface, whose sets have 64 bits (include/uapi/linux/capability.h, v6.1).
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Head {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Has a command run as this user, or as whoever we are, without capabilities that are ours.
pub fn run_as(command: &mut Command, user: Option<InvokingUser>) {
    // SAFETY: between fork and exec it makes only system calls, on memory that was there before the fork.
    unsafe { command.pre_exec(move || become_user(user.as_ref())) };
}

/// Becomes the user, and gives up what would survive `exec`: a program that is not root's has no capability of ours. Root stays as it is. Limits
/// are as before we raised them.
///
/// # Errors
/// When any of it fails, or the process is not the user afterwards.
pub(super) fn become_user(user: Option<&InvokingUser>) -> io::Result<()> {
    own_limit::restore()?;
    if let Some(user) = user {
        // In the one order in which each step is still allowed.
        setgroups(&user.groups)?;
        setresgid(user.gid, user.gid, user.gid)?;
        setresuid(user.uid, user.uid, user.uid)?;
        check(user)?;
    }
    if geteuid().is_root() { Ok(()) } else { clear_capabilities() }
}

/// A number that the kernel takes for "unchanged" would leave root where it was.
fn check(user: &InvokingUser) -> io::Result<()> {
    let (users, groups) = (getresuid()?, getresgid()?);
    let right = [users.real, users.effective, users.saved].iter().all(|&uid| uid == user.uid)
        && [groups.real, groups.effective, groups.saved].iter().all(|&gid| gid == user.gid);
    if right { Ok(()) } else { Err(Errno::EPERM.into()) }
}

/// Ambient capabilities are handed to any program, inheritable ones to some (capabilities(7)); the others end with `exec`.
fn clear_capabilities() -> io::Result<()> {
    // SAFETY: takes numbers.
    Errno::result(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) })?;
    let mut head = Head { version: VERSION, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: head and sets have the layout and, in this version, the number that the kernel writes.
    Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw mut head, sets.as_mut_ptr()) })?;
    sets = sets.map(|set| Sets { inheritable: 0, ..set });
    // SAFETY: as above; the kernel reads both.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw mut head, sets.as_ptr()) })?;
    Ok(())
}
