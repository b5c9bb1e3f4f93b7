//! Gives up privileges for good: user, groups, capabilities, and every way back to them.
//!
//! What cannot be given up is an error, never a reason to go on with it. Leaves out who calls it when (`resolver/`, `finisher/`, `cli/`).

use caps::{CapSet, Capability, CapsHashSet};
use nix::unistd::{Gid, Uid, geteuid, getresgid, getresuid, setgroups, setresgid, setresuid};
use std::io;

/// The user and the groups that a role has from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Real, effective and saved user.
    pub uid: Uid,
    /// Real, effective and saved group.
    pub gid: Gid,
    /// Supplementary groups.
    pub groups: Vec<Gid>,
}

/// Becomes this user if the process is root's, gives up every capability, and sees to it that no `exec` brings one back. The process cannot
/// be traced by others of its user from then on. Must be called while the process has one thread: capabilities belong to threads.
///
/// # Errors
/// When anything of it fails, or the process could still become root.
pub fn renounce(identity: Option<&Identity>) -> io::Result<()> {
    renounce_all_but(identity, &CapsHashSet::new())
}

/// As `renounce`, but these capabilities stay, which makes sense for a root that stays root: as another user they would be lent.
///
/// # Errors
/// As `renounce`.
pub fn renounce_all_but(identity: Option<&Identity>, kept: &CapsHashSet) -> io::Result<()> {
    let was_root = geteuid().is_root();
    if was_root {
        drop_bounding_set()?;
    }
    if let Some(identity) = identity.filter(|_| was_root) {
        setgroups(&identity.groups)?;
        setresgid(identity.gid, identity.gid, identity.gid)?;
        setresuid(identity.uid, identity.uid, identity.uid)?;
        check_identity(identity)?;
    }
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).map_err(io::Error::other)?;
    }
    // What is not there cannot be kept; the change of users has taken all of it.
    let held = caps::read(None, CapSet::Permitted).map_err(io::Error::other)?;
    let kept: CapsHashSet = kept.intersection(&held).copied().collect();
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept).map_err(io::Error::other)?;
    }
    nix::sys::prctl::set_no_new_privs()?;
    nix::sys::prctl::set_dumpable(false)?;
    let left = caps::read(None, CapSet::Permitted).map_err(io::Error::other)?;
    if left == kept { Ok(()) } else { Err(io::Error::other("capabilities are left")) }
}

/// What the recorder does with privileges. A command that it executes as root has all of root's again, by the bounding set.
const OF_RECORDER: [Capability; 14] = [
    Capability::CAP_BPF,                // load programs
    Capability::CAP_PERFMON,            // open perf events, read the kernel's memory from programs
    Capability::CAP_SYS_ADMIN,          // both of these before Linux 5.8; mount tracefs; time of BPF programs
    Capability::CAP_CHECKPOINT_RESTORE, // open mapped files by their mapping
    Capability::CAP_SYS_PTRACE,         // read mappings and memory of targets
    Capability::CAP_DAC_READ_SEARCH,    // read counters, tracefs and the files of targets
    Capability::CAP_SYSLOG,             // addresses of kernel functions
    Capability::CAP_SYS_NICE,           // be in time for what is gone soon
    Capability::CAP_SYS_RESOURCE,       // memory of maps before Linux 5.11
    Capability::CAP_IPC_LOCK,           // the same
    Capability::CAP_SETUID,             // run the command as the invoking user
    Capability::CAP_SETGID,             // the same
    Capability::CAP_KILL,               // pass signals on to it
    Capability::CAP_SETPCAP,            // take capabilities from it
];

/// Gives up what recording does not need: above all the right to write to other users' files. `in_containers`: the library for `--gpu kernel`
/// is put below other roots, which takes that right. Must be called while the process has one thread.
///
/// # Errors
/// When the system refuses.
pub fn keep_for_recording(in_containers: bool) -> io::Result<()> {
    let mut wanted: CapsHashSet = OF_RECORDER.into_iter().collect();
    if in_containers {
        wanted.extend([Capability::CAP_DAC_OVERRIDE, Capability::CAP_CHOWN, Capability::CAP_FOWNER]);
    }
    let has = caps::read(None, CapSet::Permitted).map_err(io::Error::other)?;
    let kept = has.intersection(&wanted).copied().collect();
    caps::set(None, CapSet::Effective, &kept).map_err(io::Error::other)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(io::Error::other)
}

/// A root that executes a program has what is in the bounding set.
fn drop_bounding_set() -> io::Result<()> {
    let bounding = caps::read(None, CapSet::Bounding).map_err(io::Error::other)?;
    for capability in bounding {
        match caps::drop(None, CapSet::Bounding, capability) {
            // Root in a container without CAP_SETPCAP: `no_new_privs` and the empty sets remain.
            Err(_) if !has(Capability::CAP_SETPCAP) => return Ok(()),
            done => done.map_err(io::Error::other)?,
        }
    }
    Ok(())
}

fn has(capability: Capability) -> bool {
    caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false)
}

/// A number that the kernel takes for "unchanged" (-1) would leave root where it was.
fn check_identity(identity: &Identity) -> io::Result<()> {
    let (users, groups) = (getresuid()?, getresgid()?);
    let right = [users.real, users.effective, users.saved].iter().all(|&uid| uid == identity.uid)
        && [groups.real, groups.effective, groups.saved].iter().all(|&gid| gid == identity.gid);
    let back =
        !identity.uid.is_root() && setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok();
    if right && !back { Ok(()) } else { Err(io::Error::other("the user could not be changed for good")) }
}
