//! Commands that only read a recording and write a result run as the invoking user, whatever privileges the program was started with: files
//! are made by others, and so may be what stands in the place of an output.
//!
//! Leaves out recording, whose files are the finisher's.

use super::failure::Failure;
use crate::tracee::user::InvokingUser;
use energy_trace_system::privileges::are_lent;
use energy_trace_system::roles::renounce::{Identity, renounce};
use nix::unistd::{geteuid, getgid, getgroups, getuid};
use std::io;

/// Why privileges are still there. Then nothing is read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot give up privileges: {0}; run this command without sudo and without capabilities, which it does not need"
)]
struct StillPrivileged(#[source] io::Error);

/// Becomes the user behind `sudo`, or gives up capabilities that are not the caller's, for good. A root that nobody has called by sudo
/// stays root.
pub(super) fn give_up_privileges() -> Result<(), Failure> {
    let user = InvokingUser::from_environment().map_err(|error| Failure::own(&error))?;
    let given_up = match user {
        Some(user) => renounce(Some(&user.role())),
        None if geteuid().is_root() && !getuid().is_root() => as_caller().and_then(|us| renounce(Some(&us))),
        None if are_lent() => renounce(None),
        None => Ok(()),
    };
    given_up.map_err(|error| Failure::own(&StillPrivileged(error)))
}

/// The caller of a program that is setuid root.
fn as_caller() -> io::Result<Identity> {
    Ok(Identity { uid: getuid(), gid: getgid(), groups: getgroups()? })
}
