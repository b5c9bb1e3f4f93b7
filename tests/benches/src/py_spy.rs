//! `py-spy record --native`: Python frames read from outside, native frames between them, while the process is stopped.
//!
//! It shows the threads that hold Python frames and no others, so beside its stacks stands the share of CPU time in the threads that
//! it showed.

use super::workload::thread_times;
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use xtask::command::run_logged;

/// What it saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stacks {
    /// Stacks that it took.
    pub(crate) samples: u64,
    /// Of these, from the thread's first Python function to a leaf that is known.
    pub(crate) whole: u64,
    /// CPU time in threads that it showed, of all, in thousandths.
    pub(crate) time_shown: u64,
}

/// Samples `pid` for `seconds`.
pub(crate) fn sample(
    program: &Path,
    folder: &Path,
    log: &Path,
    pid: u32,
    seconds: u32,
    hz: u32,
) -> Result<Stacks> {
    let file = folder.join("py-spy.raw");
    let before = thread_times(pid);
    let mut record = Command::new(program);
    record.args(["record", "--native", "--threads", "--format", "raw", "--pid", &pid.to_string()]);
    record.args(["--duration", &seconds.to_string(), "--rate", &hz.to_string(), "--output"]).arg(&file);
    run_logged(&mut record, log)?;
    let after = thread_times(pid);
    let (stacks, shown) = parse_raw(&fs::read_to_string(&file).context("py-spy wrote nothing")?);
    let used = |tid: &u32| after.get(tid).map_or(0, |time| time - before.get(tid).copied().unwrap_or(0));
    let all: u64 = after.keys().map(used).sum();
    let seen: u64 = shown.iter().map(used).sum();
    Ok(Stacks { time_shown: seen * 1000 / all.max(1), ..stacks })
}

/// Counts the lines of the raw format, `thread (TID): NAME;frame;frame COUNT`, and lists the threads.
fn parse_raw(text: &str) -> (Stacks, BTreeSet<u32>) {
    let (mut stacks, mut threads) = (Stacks::default(), BTreeSet::new());
    for (stack, count) in text.lines().filter_map(|line| line.rsplit_once(' ')) {
        let count: u64 = count.parse().unwrap_or(0);
        let mut frames = stack.split(';');
        let thread = frames.next().unwrap_or_default();
        let tid = thread.strip_prefix("thread (").and_then(|rest| rest.split_once(')'));
        threads.extend(tid.and_then(|(tid, _)| tid.parse::<u32>().ok()));
        stacks.samples += count;
        if is_whole(&frames.collect::<Vec<_>>()) {
            stacks.whole += count;
        }
    }
    (stacks, threads)
}

/// From `<module>` or a thread's `_bootstrap`, before which native frames may stand, to a leaf that is more than a bare address.
fn is_whole(frames: &[&str]) -> bool {
    let is_root = |frame: &&str| frame.starts_with("<module>") || frame.contains("_bootstrap");
    let is_known = |frame: &&str| !(frame.starts_with("0x") && frame.ends_with("(?)"));
    frames.iter().take(4).any(is_root) && frames.last().is_some_and(is_known)
}

#[cfg(test)]
mod tests {
    use super::parse_raw;

    /// A leaf at a bare address is not whole, nor is a stack that begins in the middle; each thread is listed.
    #[test]
    fn lines_of_the_raw_format() {
        let text = "thread (7): MainThread;0x7f (libc.so.6);<module> (a.py:1);f (libx.so) 3\n\
                    thread (7): MainThread;<module> (a.py:1);0x7f21 (?) 2\n\
                    thread (8): T;g (a.py:3) 1\n";
        let (stacks, threads) = parse_raw(text);
        assert_eq!((stacks.samples, stacks.whole), (6, 3));
        assert_eq!(threads.into_iter().collect::<Vec<_>>(), [7, 8]);
    }
}
