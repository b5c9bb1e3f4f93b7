//! The process that starts and ends those that look into targets. It looks into nothing itself, so that nobody can keep it.
//!
//! It is forked while the recorder has one thread, and keeps the rights to read memory and files of others and no more. What it has ended it does
//! not wait for: that may take as long as somebody's file system likes. Leaves out what is answered (`serve.rs`).

use super::serve::serve;
use crate::files::Mounts;
use crate::resolver::leave_terminal;
use caps::{Capability, CapsHashSet};
use energy_trace_system::host::urgency;
use energy_trace_system::roles::channel::Channel;
use energy_trace_system::roles::child::{Parent, fork_role};
use energy_trace_system::roles::renounce::renounce_all_but;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

/// What the recorder wants of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// A process under this number: answered with its process id and its end of a socket.
    Start {
        /// The number.
        number: u32,
    },
    /// That one's end; no answer.
    End {
        /// The number.
        number: u32,
    },
}

const LONGEST_ORDER: usize = 64;
/// Read memory and mappings of others, follow paths to their files, become a user who may read what root may not, and copy mounts, in the
/// namespaces that they are in.
const RIGHTS: [Capability; 7] = [
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_DAC_READ_SEARCH,
    Capability::CAP_CHECKPOINT_RESTORE,
    Capability::CAP_SETUID,
    Capability::CAP_SETGID,
    Capability::CAP_SYS_ADMIN,
    Capability::CAP_SYS_CHROOT,
];

/// Serves until the recorder ends; the status to end with.
pub(super) fn run(parent: &Parent) -> i32 {
    std::panic::set_hook(Box::new(|_| ()));
    match prepare(parent) {
        Ok(()) => {
            end(obey(&parent.channel));
            0
        }
        Err(error) => {
            let _gone = parent.channel.send(&Err::<(), _>(error.to_string()), &[], None);
            1
        }
    }
}

fn prepare(parent: &Parent) -> io::Result<()> {
    // As the threads that wait for the answers.
    urgency::raise();
    // SAFETY: no handler is set: children that end are collected by the kernel.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }?;
    leave_terminal()?;
    nix::unistd::chdir("/")?;
    renounce_all_but(None, &RIGHTS.into_iter().collect::<CapsHashSet>())?;
    // It writes no file; and a copy of its memory would be others' memory.
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    parent.die_with_it()?;
    parent.channel.send(&Ok::<(), String>(()), &[], None).map_err(io::Error::other)
}

/// Ends what it has started, and waits a moment: what hangs ends when it can.
fn end(mut started: HashMap<u32, Pid>) {
    for &pid in started.values() {
        let _ended = kill(pid, Signal::SIGKILL);
    }
    for _ in 0..100 {
        started.retain(|_, pid| kill(*pid, None).is_ok());
        if started.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Does what the recorder wants, until it has gone; gives what is left of what was started.
fn obey(channel: &Channel) -> HashMap<u32, Pid> {
    let (mounts, mut started) = (Mounts::now(), HashMap::new());
    while let Ok((order, _)) = channel.receive::<Order>(LONGEST_ORDER, None) {
        let answered = match order {
            Order::Start { number } => match start(&mounts) {
                Ok((pid, end)) => {
                    started.insert(number, pid);
                    channel.send(&Ok::<i32, String>(pid.as_raw()), &[end.as_fd()], None)
                }
                Err(error) => channel.send(&Err::<i32, _>(error.to_string()), &[], None),
            },
            Order::End { number } => {
                if let Some(pid) = started.remove(&number) {
                    let _ended = kill(pid, Signal::SIGKILL);
                }
                Ok(())
            }
        };
        if answered.is_err() {
            break;
        }
    }
    started
}

fn start(mounts: &Mounts) -> io::Result<(Pid, OwnedFd)> {
    let child = fork_role(c"et-peeker", |parent| {
        if parent.die_with_it().is_err() {
            return 1;
        }
        serve(&parent.channel, mounts);
        0
    })?;
    Ok((child.pid(), child.into_channel().into_socket()))
}
