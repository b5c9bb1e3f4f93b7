//! The frames of ranges that a program marks: the outermost ones of a thread's stack, one for each range that it is in.
//!
//! Leaves out what a range is (`energy-trace-cupti`) and reading it (`tracer-ebpf`).

use super::interner::Interner;
use super::spans::Spans;
use energy_trace_bpf::ranges::RangeMaps;
use energy_trace_model::ids::FrameId;
use energy_trace_model::recording::ranges::{
    MORE_RANGES, NAMELESS_RANGE, RangeDiagnostic, RangesNotRecorded, UNKNOWN_RANGE,
};
use energy_trace_model::recording::record::Frame;
use std::collections::HashMap;
use std::sync::Arc;
use tracer_ebpf::ranges::{DEEPEST, MOST};

/// Ranges of targets.
#[derive(Default)]
pub(crate) struct Ranges {
    maps: Option<RangeMaps>,
    paths: HashMap<u64, Path>,
    /// Stacks in any range, in ranges beyond what is told apart, and in those that nobody knows.
    seen: u64,
    more: u64,
    unknown: u64,
}

/// A path of ranges.
#[derive(Clone)]
struct Path {
    /// Their frames, innermost first.
    frames: Arc<[FrameId]>,
    /// One of them stands for those that are not told apart.
    has_more: bool,
}

impl Ranges {
    /// Of these maps.
    pub(crate) fn new(maps: RangeMaps) -> Self {
        Self { maps: Some(maps), ..Self::default() }
    }

    /// Puts the frames of a path behind those of a stack, whose innermost one is first.
    pub(crate) fn add(&mut self, number: u64, out: &mut Interner, stack: &mut Vec<FrameId>) {
        let Some(maps) = self.maps.as_ref().filter(|_| number != 0) else { return };
        self.seen += 1;
        let known = self.paths.get(&number).cloned().or_else(|| {
            let path = Path::of(&names(number, |number| maps.range(number))?, out);
            if self.paths.len() < MOST as usize {
                self.paths.insert(number, path.clone());
            }
            Some(path)
        });
        let Some(path) = known else {
            self.unknown += 1;
            stack.push(out.frame(Frame::range(UNKNOWN_RANGE)));
            return;
        };
        self.more += u64::from(path.has_more);
        stack.extend_from_slice(&path.frames);
    }

    /// What the reader must know; `lost`: threads, paths and labels that the probe could not keep.
    pub(crate) fn diagnostics(&self, spans: &Spans, lost: u64) -> Vec<RangeDiagnostic> {
        let (samples, of) = (spans.damaged, spans.seen);
        let damaged = (samples > 0).then_some(RangeDiagnostic::SpansDamaged { samples, of });
        let &Self { seen, more, unknown, .. } = self;
        let (seen, more) = (seen + spans.seen, more + spans.more);
        if self.maps.is_none() && seen == 0 {
            return Vec::new();
        }
        let none =
            (seen == 0 && lost == 0).then_some(RangeDiagnostic::NotRecorded(RangesNotRecorded::NotMarked));
        let limited = (more > 0).then_some(RangeDiagnostic::Limited { samples: more, of: seen });
        let unknown =
            (unknown + lost > 0).then_some(RangeDiagnostic::Unknown { samples: unknown, of: seen, lost });
        none.into_iter().chain(limited).chain(unknown).chain(damaged).collect()
    }
}

impl Path {
    fn of(names: &[String], out: &mut Interner) -> Self {
        let name = |name: &String| if name.is_empty() { NAMELESS_RANGE.to_owned() } else { name.clone() };
        let frames = names.iter().map(|of| out.frame(Frame::range(&name(of)))).collect();
        Self { frames, has_more: names.iter().any(|name| name.ends_with(MORE_RANGES)) }
    }
}

/// The names on a path, innermost first, by what was told of each; `None` where one was not, or there is no end.
fn names(path: u64, range: impl Fn(u64) -> Option<(u64, String)>) -> Option<Vec<String>> {
    let (mut names, mut next) = (Vec::new(), path);
    while next != 0 {
        if names.len() >= DEEPEST {
            return None;
        }
        let (around, name) = range(next)?;
        names.push(name);
        next = around;
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::{DEEPEST, names};
    use energy_trace_cupti::ranges::{LABEL_BYTES, OURS, tell};
    use energy_trace_model::recording::ranges::{
        MORE_RANGES, NAMELESS_RANGE, NOT_IN_TRACE, OUTSIDE_OF_RANGES, SPAN_WITHOUT_ATTRIBUTES, UNKNOWN_RANGE,
    };

    /// A path is followed to its outermost range; one with a gap, or that leads back to itself, is none.
    #[test]
    fn paths() {
        let told = |path: u64| match path {
            20..=99 => Some((if path == 20 { 0 } else { path - 1 }, path.to_string())),
            100 => Some((100, "loop".to_owned())),
            101 => Some((7, "gap".to_owned())),
            _ => None,
        };
        assert_eq!(names(22, told).unwrap(), ["22", "21", "20"]);
        assert_eq!(names(20 + DEEPEST as u64 - 1, told).unwrap().len(), DEEPEST);
        for path in [20 + DEEPEST as u64, 100, 101, 7] {
            assert_eq!(names(path, told), None, "{path}");
        }
    }

    /// The library in the program and the probes mean the same.
    #[test]
    fn one_protocol() {
        use tracer_ebpf::ranges as probes;
        assert_eq!(LABEL_BYTES, probes::LABEL_BYTES);
        assert_eq!(
            [tell::THREAD, tell::PATH, tell::LABEL],
            [probes::tell::THREAD, probes::tell::PATH, probes::tell::LABEL]
        );
        let ours = [MORE_RANGES, UNKNOWN_RANGE, NAMELESS_RANGE, SPAN_WITHOUT_ATTRIBUTES, NOT_IN_TRACE];
        assert_eq!(OURS, [&ours[..], &[OUTSIDE_OF_RANGES]].concat()[..]);
    }
}
