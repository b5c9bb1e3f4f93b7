//! `--control`: the program that had a recording started is told when it begins, and ends it through stdin.
//!
//! Signals would not do: a user may send none to what sudo runs. Pipes on stdin and stdout come through sudo, and a caller that is killed
//! closes them. Leaves out what a recording does when it is to end (`run.rs`).

use super::error::SessionError;
use energy_trace_model::clock::KtimeNs;
use std::io::{Write as _, stdin, stdout};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The caller's end of stdin.
pub(super) struct Caller(AsyncFd<OwnedFd>);

impl Caller {
    /// An error where stdin is nothing that can be waited for, such as a file.
    pub(super) fn listen_to() -> Result<Self, SessionError> {
        let ours = stdin().as_fd().try_clone_to_owned().and_then(|file| {
            // SAFETY: the descriptor is this struct's own, and is open for as long as it lives.
            let registered = unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) };
            registered.map_err(std::io::Error::from)
        });
        ours.map(Self).map_err(|source| match source.raw_os_error() {
            // What epoll says of files, and of /dev/null.
            Some(libc::EPERM) => SessionError::NoPipe,
            _ => SessionError::System { doing: "wait for stdin", source },
        })
    }

    /// Says that the recording has begun, when (by CLOCK_MONOTONIC, as all of its times), and what to load for ranges.
    pub(super) fn tell_beginning(start: KtimeNs, ranges: Option<&Path>) {
        let mut told = serde_json::json!({ "event": "recording", "start_ns": start.as_ns() });
        if let (Some(library), Some(told)) = (ranges, told.as_object_mut()) {
            told.insert("ranges".to_owned(), library.to_string_lossy().into());
        }
        tell(&told);
    }
}

/// Says to whoever is recorded through a socket that there is no recording, and why.
pub fn tell_failure(reason: &str) {
    tell(&serde_json::json!({ "event": "failed", "reason": reason }));
}

fn tell(told: &serde_json::Value) {
    let mut out = stdout().lock();
    // A caller that has gone is seen by its stdin.
    let _ = writeln!(out, "{told}").and_then(|()| out.flush());
}

/// The caller wants no more: its end is closed, or says something.
pub(super) async fn gone_silent(caller: Option<&Caller>) {
    match caller {
        Some(Caller(stdin)) => drop(stdin.ready(Interest::READABLE).await),
        None => std::future::pending().await,
    }
}
