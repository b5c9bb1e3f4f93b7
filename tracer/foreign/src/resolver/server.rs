//! The process that forks workers: it never sees a file, only the recorder's requests for a worker and for a worker's end.
//!
//! It is forked by a process of one thread and has one thread itself, so that workers are forked from a process whose locks are free, at any
//! time and without a program to execute. Only one that takes the place of another, which was lost, executes this program anew. Its user is one
//! that nobody else has. Leaves out the workers' work (`serve.rs`).

use super::sandbox::{Allowed, close_worker, confine, go_first_without_memory, leave_terminal};
use super::serve::serve;
use energy_trace_system::allocator::{RECORDING, return_large_blocks};
use energy_trace_system::host::urgency::{NICENESS, set_niceness};
use energy_trace_system::roles::channel::Channel;
use energy_trace_system::roles::child::{Parent, executed_role, fork_role};
use energy_trace_system::roles::own_user::OwnUser;
use energy_trace_system::roles::renounce::renounce;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;

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

/// How it is called.
pub(super) const NAME: &CStr = c"et-resolver";

/// Is the server, where this process was started as one: the first is forked, one that takes the place of another is executed.
pub fn run_as_server() -> Option<ExitCode> {
    let status = executed_role(NAME, |parent| run(&parent, &OwnUser::find()))?;
    Some(u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The server's life, from its first instruction. Its first message says whether it could give up its rights. It ends when the recorder closes
/// its end of the channel, or has ended.
pub(super) fn run(parent: &Parent, user: &OwnUser) -> i32 {
    // Panics in parsers are a worker's end, which the recorder tells; nobody reads their text.
    std::panic::set_hook(Box::new(|_| ()));
    let prepared = prepare(parent, user).map_err(|error| error.to_string());
    // A recorder that is gone has no use for it.
    let told = parent.channel.send(&prepared, &[], None);
    if prepared.is_err() || told.is_err() {
        return 1;
    }
    obey(&parent.channel);
    0
}

fn prepare(parent: &Parent, user: &OwnUser) -> io::Result<()> {
    set_niceness(NICENESS);
    return_large_blocks(RECORDING);
    go_first_without_memory();
    renounce(user.identity())?;
    leave_terminal()?;
    confine(&Allowed::default())?;
    parent.die_with_it()
}

fn obey(channel: &Channel) {
    let mut workers: HashMap<u32, Pid> = HashMap::new();
    while let Ok((order, _)) = channel.receive::<Order>(LONGEST_ORDER, None) {
        workers.retain(|_, pid| runs(*pid));
        let answered = match order {
            Order::Start { number, urgent, lines } => match start(urgent, lines) {
                Ok((pid, end)) => {
                    workers.insert(number, pid);
                    channel.send(&Ok::<i32, String>(pid.as_raw()), &[end.as_fd()], None)
                }
                Err(error) => channel.send(&Err::<i32, _>(error.to_string()), &[], None),
            },
            Order::End { number } => {
                workers.remove(&number).into_iter().for_each(end);
                Ok(())
            }
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Whether a child of this process runs; one that has ended is collected.
fn runs(pid: Pid) -> bool {
    matches!(waitpid(pid, Some(WaitPidFlag::WNOHANG)), Ok(WaitStatus::StillAlive))
}

/// Ends a child of this process that was not collected yet, so that its number is its own.
fn end(pid: Pid) {
    let _ended = kill(pid, Signal::SIGKILL);
    let _status = waitpid(pid, None);
}

fn start(urgent: bool, lines: bool) -> io::Result<(Pid, OwnedFd)> {
    let child = fork_role(NAME, |parent| {
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
