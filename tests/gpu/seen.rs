//! Launches as a recording has them, beside the simulator's own log. Leaves out who records.

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::FrameKind;
use energy_trace_tests::gpu::{Launch, launched, site_of};
use energy_trace_tests::process::Guard;
use energy_trace_tests::report::Report;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(crate) const LIMIT: Duration = Duration::from_secs(180);

pub(crate) type Counts = BTreeMap<(String, String), u64>;

/// Launches by the site in their stack and what was launched.
pub(crate) fn seen(recording: &Recording) -> Counts {
    let mut counts = Counts::new();
    for launched in recording.gpu.launches.iter().flat_map(|batch| &batch.work) {
        let frames: Vec<_> = recording.frames_of(launched.stack).map(|(_, frame)| frame).collect();
        let leaf = frames.last().unwrap();
        assert!(matches!(leaf.kind, FrameKind::Gpu | FrameKind::Special), "{leaf:?}");
        let site = site_of(frames.iter().map(|frame| frame.name.as_str()));
        *counts.entry((site.to_owned(), leaf.name.clone())).or_default() += launched.count;
    }
    counts
}

/// The same by the simulator's log.
pub(crate) fn truth(launches: &[Launch]) -> Counts {
    let mut counts = Counts::new();
    for launch in launches {
        *counts.entry(launched(launch)).or_default() += 1;
    }
    counts
}

/// Each kind is counted exactly, and nearly all of it in the stacks that launched it: where two callers launch the same from one place of
/// one helper, their stacks are drawn at random, and what is launched between two of them goes with the one before.
#[track_caller]
pub(crate) fn assert_counts(seen: &Counts, truth: &Counts) {
    assert_eq!(by_kind(seen), by_kind(truth), "{seen:?} instead of {truth:?}");
    let missed: u64 =
        truth.iter().map(|(key, &count)| count.saturating_sub(seen.get(key).copied().unwrap_or(0))).sum();
    println!("{missed} of {} launches in another stack than their own", total(truth));
    assert!(missed * 20 <= total(truth), "{seen:?} instead of {truth:?}");
}

/// Launches by what was launched.
pub(crate) fn by_kind(counts: &Counts) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    counts.iter().for_each(|((_, what), count)| *sums.entry(what.clone()).or_insert(0) += count);
    sums
}

/// All of them.
pub(crate) fn total(counts: &Counts) -> u64 {
    counts.values().sum()
}

/// The JSON report of a recording.
pub(crate) fn report(data: &Path) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_energy-trace"));
    let arguments = [OsStr::new("report"), OsStr::new("--format"), OsStr::new("json"), data.as_os_str()];
    let done = Guard::spawn(command.args(arguments)).unwrap().finish(LIMIT).unwrap();
    assert!(done.status.success(), "{}", done.stderr);
    Report::parse(&done.stdout).unwrap()
}
