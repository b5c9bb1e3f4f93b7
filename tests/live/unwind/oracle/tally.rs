//! Compares the samples of one interpreter with what its program said, and counts.

use super::seen::{Seen, has_symbols, is_by_name, python_frames};
use super::truth::{Stay, Told};
use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Sample, StackStatus};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use std::collections::{BTreeMap, BTreeSet};

/// What came of the samples of one interpreter.
#[derive(Default)]
pub(crate) struct Tally {
    /// Samples whose Python frames and lines are the truth, by region.
    pub(crate) equal: BTreeMap<String, u32>,
    /// Those that are not: region and what was seen.
    pub(crate) different: Vec<(String, Vec<Seen>)>,
    /// Samples that say that Python frames are missing, by what they say and region.
    pub(crate) refused: BTreeMap<(String, String), u32>,
    /// Samples whose interleaving could be compared.
    pub(crate) seams: u32,
    /// Those where it could not, by verdict and region: they say themselves that native frames are missing.
    pub(crate) unchecked: BTreeMap<(String, String), u32>,
    /// Those where native code stands elsewhere than it should: region, function, what was seen.
    pub(crate) misplaced: Vec<(String, String, Vec<Seen>)>,
    /// Whether names of C functions were compared, or only where C stands.
    pub(crate) by_name: bool,
}

/// What is compared of an interpreter.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// C functions have names in this build.
    by_name: bool,
    /// Python functions that Python calls are run in their caller's C frame (from 3.11 on).
    inlines_calls: bool,
}

impl Tally {
    /// Compares all samples that fall into a stay.
    pub(crate) fn of(recording: &Recording, stays: &[Stay], inlines_calls: bool) -> Self {
        let form = Form { by_name: has_symbols(recording), inlines_calls };
        let mut out = Self { by_name: form.by_name, ..Self::default() };
        for sample in &recording.samples {
            let tid = recording.threads[sample.thread.index()].tid.get();
            if let Some(stay) = stays.iter().find(|stay| stay.contains(tid, sample.at)) {
                out.compare(recording, sample, stay, form);
            }
        }
        out
    }

    fn compare(&mut self, recording: &Recording, sample: &Sample, stay: &Stay, form: Form) {
        if let StackStatus::PythonLost(loss) = sample.status {
            *self.refused.entry((format!("{loss:?}"), stay.region.clone())).or_default() += 1;
            return;
        }
        let Some(seen) = python_frames(recording, sample.stack) else {
            *self.refused.entry(("no name".into(), stay.region.clone())).or_default() += 1;
            return;
        };
        if !is_equal(&seen, &stay.frames) {
            self.different.push((stay.region.clone(), seen));
            return;
        }
        *self.equal.entry(stay.region.clone()).or_default() += 1;
        if let StackStatus::Truncated(why) = sample.status {
            *self.unchecked.entry((format!("{why:?}"), stay.region.clone())).or_default() += 1;
            return;
        }
        if came_before_tables(recording, sample.stack) {
            *self.unchecked.entry(("TablesNotReady".into(), stay.region.clone())).or_default() += 1;
            return;
        }
        self.seams += 1;
        if let Some(at) = misplaced(&seen, &stay.frames, form) {
            self.misplaced.push((stay.region.clone(), at, seen));
        }
    }

    /// Samples that are equal.
    pub(crate) fn equals(&self) -> usize {
        self.equal.values().sum::<u32>() as usize
    }

    /// What was not compared of the interleaving, the most first.
    pub(crate) fn left_out(&self) -> String {
        let mut parts: Vec<_> = self.unchecked.iter().collect();
        parts.sort_by_key(|&(_, &count)| std::cmp::Reverse(count));
        parts.iter().map(|((why, region), n)| format!("{n} {why} in {region}")).collect::<Vec<_>>().join(", ")
    }

    /// Samples that fell into a stay.
    pub(crate) fn inside(&self) -> usize {
        self.equals() + self.different.len() + self.refused.values().sum::<u32>() as usize
    }

    /// Regions without an equal sample.
    pub(crate) fn unseen<'a>(&self, stays: &'a [Stay]) -> BTreeSet<&'a str> {
        stays.iter().map(|stay| stay.region.as_str()).filter(|r| !self.equal.contains_key(*r)).collect()
    }

    /// Regions of which more samples say that Python frames are missing than are equal.
    pub(crate) fn mostly_refused(&self) -> BTreeSet<&str> {
        let equal = |region: &String| self.equal.get(region).copied().unwrap_or_default();
        let refused = self.refused.iter().filter(|((_, region), n)| **n > equal(region));
        refused.map(|((_, region), _)| region.as_str()).collect()
    }

    /// A line of the table.
    pub(crate) fn row(&self) -> String {
        let text = |((why, region), n): (&(String, String), &u32)| format!("{n} {why} in {region}");
        let refused: Vec<String> = self.refused.iter().map(text).collect();
        format!(
            "{:>7} in regions | {:>7} equal | {:>3} different | {:>3} refused{} | interleaving {:>7} checked ({}), {:>3} different",
            self.inside(),
            self.equals(),
            self.different.len(),
            self.refused.values().sum::<u32>(),
            if refused.is_empty() { String::new() } else { format!(" ({})", refused.join(", ")) },
            self.seams,
            if self.by_name { "by name" } else { "by place" },
            self.misplaced.len(),
        )
    }
}

/// Whether a stack says that native frames are missing at a file whose tables were not there yet, which neighbours delay.
fn came_before_tables(recording: &Recording, stack: StackId) -> bool {
    recording.frames_of(stack).any(|(_, frame)| SyntheticFrame::TablesNotReady.is(frame))
}

/// Whether the Python frames of a sample are those that were told, and `spin`.
fn is_equal(seen: &[Seen], told: &[Told]) -> bool {
    let Some((leaf, above)) = seen.split_last() else { return false };
    leaf.name == "spin"
        && above.len() == told.len()
        && above.iter().zip(told).all(|(seen, told)| seen.name == told.name && seen.line == told.line)
}

/// The first function before which native code stands that should not, or does not stand that should.
fn misplaced(seen: &[Seen], told: &[Told], form: Form) -> Option<String> {
    let spin = Told { name: "spin".into(), line: 0, words: Some(Vec::new()) };
    let pairs = seen.iter().zip(told.iter().chain(std::iter::once(&spin)));
    pairs.filter(|(seen, told)| !is_in_place(seen, told, form)).map(|(seen, _)| seen.name.clone()).next()
}

fn is_in_place(seen: &Seen, told: &Told, form: Form) -> bool {
    let Some(words) = &told.words else { return true };
    let wanted: Vec<&str> =
        words.iter().map(String::as_str).filter(|w| *w != "c" && (form.by_name || !is_by_name(w))).collect();
    let got: Vec<&str> = seen.words.iter().copied().filter(|w| form.by_name || !is_by_name(w)).collect();
    let from_c = seen.from_c != words.is_empty() || !form.inlines_calls;
    from_c && got == wanted
}
