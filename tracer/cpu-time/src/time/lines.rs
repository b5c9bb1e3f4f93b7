//! Lines: what is followed from sample to sample as one chain of functions.
//!
//! A line is a thread's time, or that part of a worker's time which it works for one requester (`delegation::call_lines`): between two samples nobody knows
//! the function that runs, but for whom a worker works is often known exactly, and what it does for one requester says nothing about what it
//! does for another. Leaves out what a line was probably doing between its samples (`markov_bridge`).

use crate::numerics::search::partition_near;
use crate::time::owners::OwnerId;
use crate::time::pieces::{End, Mark, NO_GAP, NO_LINE, NOBODY, Piece, Run};
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::ThreadKey;

/// A sample further away than this says nothing about a slice. Nearer ones are, on average over slices, the mix that the thread was in.
pub const NEAREST_NS: u64 = 500_000_000;

/// Runs and samples of one line, both in time order.
#[derive(Clone, Debug)]
pub struct Line {
    /// The thread.
    pub thread: ThreadKey,
    /// When it ran.
    pub runs: Vec<Run>,
    /// Their number is given when the line is bridged.
    pub marks: Vec<Mark>,
    /// What else than samples is known of its stacks, in time order.
    pub ends: Vec<Ending>,
    /// Who owns the thread's time that is near no sample.
    pub unseen: OwnerId,
    /// How far a sample may be away to say anything.
    pub near_ns: u64,
}

/// A thread went to sleep, and in whose stack is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Since when it was in that stack for sure.
    pub since: KtimeNs,
    /// When.
    pub at: KtimeNs,
    /// Whose stack it is.
    pub owner: OwnerId,
}

/// A stack that was taken this long before a thread left its CPU is what it left in.
const LEAVING_NS: u64 = 100_000;

impl Line {
    /// The pieces of a run between samples, in time order; gaps count from the first of `marks`, which are all of the line's.
    pub(super) fn pieces_of(&self, run: &Run, marks: &[Mark], mut add: impl FnMut(Piece)) {
        let end_ns = run.cpu_ns.saturating_add(run.span.ns());
        let first = marks.partition_point(|mark| mark.cpu_ns < run.cpu_ns);
        let after = partition_near(marks, first, |mark| mark.cpu_ns < end_ns);
        let before = first.checked_sub(1).and_then(|i| marks.get(i));
        let before = before.filter(|mark| run.span.start.ns_since(mark.at) <= self.near_ns);
        let behind = marks.get(after).filter(|mark| mark.at.ns_since(run.span.end) <= self.near_ns);
        let inside = marks.get(first..after).unwrap_or_default();
        let (mut from, mut left) = (run.cpu_ns, before);
        for (number, right) in (first..).zip(inside.iter().map(Some).chain([behind])) {
            let to = right.map_or(end_ns, |mark| mark.cpu_ns).min(end_ns);
            if from < to {
                let gap = u32::try_from(number).unwrap_or(NO_GAP);
                let add = |piece: Piece| {
                    add(Piece { gap: if piece.line == NO_LINE { NO_GAP } else { gap }, ..piece });
                };
                self.pieces_between(run, (from, to), (left, right), add);
            }
            (from, left) = (to, right);
        }
    }

    /// A run's piece between two samples; two where its end is known for longer.
    fn pieces_between(
        &self,
        run: &Run,
        (from, to): (u64, u64),
        (left, right): (Option<&Mark>, Option<&Mark>),
        mut add: impl FnMut(Piece),
    ) {
        let moment = |cpu_ns: u64| KtimeNs::from_ns(run.span.start.as_ns() + (cpu_ns - run.cpu_ns));
        let span = Span { start: moment(from), end: moment(to) };
        let Some(any) = left.or(right) else {
            return add(Piece::certain(run.cpu, span, self.unseen));
        };
        let nobody = End { owner: NOBODY, ns: 0, slept_ns: 0 };
        let end = |owner, ns: u64, apart: u64| End { owner, ns, slept_ns: apart.saturating_sub(ns) };
        let left = left.map_or(nobody, |mark| {
            end(mark.owner, from.saturating_sub(mark.cpu_ns), span.start.ns_since(mark.at))
        });
        let right = right.map_or(nobody, |mark| {
            end(mark.owner, mark.cpu_ns.saturating_sub(to), mark.at.ns_since(span.end))
        });
        let piece = Piece { cpu: run.cpu, span, line: any.line, left, right, gap: NO_GAP };
        let Some(ending) = self.ending_of(run).filter(|_| span.end == run.span.end) else {
            return add(piece);
        };
        let known = End { owner: ending.owner, ..nobody };
        let since = ending.since.max(span.start);
        if since > span.start {
            add(Piece { span: Span { end: since, ..span }, right: known, ..piece });
        }
        if since < span.end {
            add(Piece { span: Span { start: since, ..span }, left: known, right: known, ..piece });
        }
    }

    /// What is known of a run's end, where it ended in a sleep that was recorded.
    fn ending_of(&self, run: &Run) -> Option<Ending> {
        let before = self.ends.partition_point(|ending| ending.at <= run.span.end).checked_sub(1)?;
        let ending = self.ends.get(before)?;
        (ending.at >= run.span.start && run.span.end.ns_since(ending.at) <= LEAVING_NS).then_some(*ending)
    }
}

#[cfg(test)]
mod tests {
    use super::{End, Ending, KtimeNs, Line, Mark, NOBODY, Run, Span};
    use energy_trace_model::ids::{CpuId, ThreadKey};

    const fn at(ns: u64) -> KtimeNs {
        KtimeNs::from_ns(ns)
    }

    /// A run from 1,000 to 2,000 with a sample of owner 1 at 1,400, and a sleep in owner 2's stack at its end.
    fn ends(since: u64) -> Vec<(u64, End, End)> {
        let run = Run { cpu: CpuId::new(0), span: Span { start: at(1_000), end: at(2_000) }, cpu_ns: 0 };
        let line = Line {
            thread: ThreadKey::new(0),
            runs: vec![run],
            marks: vec![Mark { line: 0, at: at(1_400), cpu_ns: 400, owner: 1 }],
            ends: vec![Ending { since: at(since), at: at(1_999), owner: 2 }],
            unseen: 9,
            near_ns: 500,
        };
        let mut ends = vec![];
        line.pieces_of(&run, &line.marks, |piece| ends.push((piece.span.ns(), piece.left, piece.right)));
        ends
    }

    /// What a thread slept in is on the right of its slice's last piece; where it is known for longer, both sides of a piece of its own.
    #[test]
    fn slices_end_where_threads_sleep() {
        let end = |owner, ns| End { owner, ns, slept_ns: 0 };
        let first = (400, end(NOBODY, 0), end(1, 0));
        assert_eq!(ends(1_999), [first, (599, end(1, 0), end(2, 0)), (1, end(2, 0), end(2, 0))]);
        assert_eq!(ends(1_700), [first, (300, end(1, 0), end(2, 0)), (300, end(2, 0), end(2, 0))]);
        assert_eq!(ends(500), [first, (600, end(2, 0), end(2, 0))]);
    }
}
