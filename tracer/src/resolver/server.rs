//! The process that forks workers: it never sees a file, only the recorder's requests for a worker and for a worker's end.
//!
//! It is forked while the recorder has one thread and has one thread itself, so that workers are forked from a process whose locks are
//! free, at any time and without a program to execute. Leaves out the workers' work (`serve.rs`).

use super::sandbox::{close_worker, close_world};
use super::serve::serve;
use crate::allocator::{RECORDING, return_large_blocks};
use crate::roles::channel::Channel;
use crate::roles::child::{Parent, fork_role};
use crate::roles::renounce::{Identity, renounce};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

/// What the recorder wants of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// A worker under a number that was not given before. The answer, `Result<i32, String>`, has its process id and brings its end of a
    /// channel.
    Start {
        /// The worker's number.
        number: u32,
        /// Whether it comes before others when a CPU is wanted.
        urgent: bool,
        /// Whether it reads debug information, which takes memory.
        lines: bool,
    },
    /// The end of this worker. No answer.
    End {
        /// The worker's number.
        number: u32,
    },
}

/// Bytes of an order at the most.
const LONGEST_ORDER: usize = 64;
/// Niceness of what is waited for: what it reads may be gone soon.
const URGENT: i32 = -15;

/// The server's life, from its first instruction.
pub(super) fn run(parent: &Parent) -> i32 {
    // Panics in parsers are a worker's end, which the recorder tells; nobody reads their text.
    std::panic::set_hook(Box::new(|_| ()));
    match prepare(parent) {
        Ok(()) => {
            obey(&parent.channel);
            0
        }
        Err(error) => {
            // The recorder takes the first message for the reason.
            let _gone = parent.channel.send(&Err::<(), _>(error.to_string()), &[], None);
            1
        }
    }
}

fn prepare(parent: &Parent) -> io::Result<()> {
    set_niceness(URGENT);
    return_large_blocks(RECORDING);
    renounce(Some(&Identity::nobody()))?;
    close_world()?;
    parent.die_with_it()?;
    parent.channel.send(&Ok::<(), String>(()), &[], None).map_err(io::Error::other)
}

/// That it stays as it was is no failure.
fn set_niceness(niceness: i32) {
    // SAFETY: changes a number of this process; no memory is passed.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, niceness) };
}

fn obey(channel: &Channel) {
    let mut workers: HashMap<u32, Pid> = HashMap::new();
    while let Ok((order, _)) = channel.receive::<Order>(LONGEST_ORDER, None) {
        collect(&mut workers);
        let answered = match order {
            Order::Start { number, urgent, lines } => match start(urgent, lines) {
                Ok((pid, end)) => {
                    workers.insert(number, pid);
                    channel.send(&Ok::<i32, String>(pid.as_raw()), &[end.as_fd()], None)
                }
                Err(error) => channel.send(&Err::<i32, _>(error.to_string()), &[], None),
            },
            Order::End { number } => {
                if let Some(pid) = workers.remove(&number) {
                    // It is this process's child and not collected yet, so its number is its own.
                    let _ended = kill(pid, Signal::SIGKILL);
                    let _status = waitpid(pid, None);
                }
                Ok(())
            }
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Collects workers that have ended.
fn collect(workers: &mut HashMap<u32, Pid>) {
    workers.retain(|_, pid| matches!(waitpid(*pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive)));
}

fn start(urgent: bool, lines: bool) -> io::Result<(Pid, OwnedFd)> {
    let child = fork_role(c"et-resolver", |parent| {
        if !urgent {
            set_niceness(0);
        }
        if parent.die_with_it().and_then(|()| close_worker(lines)).is_err() {
            return 1;
        }
        serve(&parent.channel);
        0
    })?;
    Ok((child.pid(), child.into_channel().into_socket()))
}
