//! A worker's time, call by call.
//!
//! What a worker does between two samples is not known, but for whom it works often is, exactly: slices and wake-ups say when it began and
//! when the next one asked. So a worker's time is cut where the answer to "for whom?" changes, and what it did for each requester is a line of
//! its own, with its own samples, its own mix of functions and its own memory: a sample in one call says nothing about the next call.
//!
//! That needs samples of each call. A worker has a line for each of a few requesters for whom it was seen often; what it does for all
//! others is one line, in which the function of a time comes from the samples of several calls, and the call itself from the cuts. Leaves out
//! threads that work for themselves in some stacks and for others in others: they stay one line, whose samples tell the call.

use super::call_context::{CallContext, Python};
use super::requesters::{Answer, Role};
use super::{NEXT, Refiner, SetId};
use crate::time::cpu_time::CpuTime;
use crate::time::lines::NEAREST_NS;
use crate::time::lines::{Ending, Line};
use crate::time::owners::{Owner, OwnerId, Segment};
use crate::time::pieces::{Mark, NOBODY, Run};
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::recording::record::Wait;
use std::collections::BTreeMap;

/// Fewer samples do not show what a worker does for a requester.
const FEWEST_MARKS: usize = 20;
/// Requesters with a line of their own, for each worker.
const MOST_CALLS: usize = 6;

/// A stack in which a thread slept may have this many times the time before its sleeps that samples show it in, and so many samples more.
const MOST_UNSEEN: f64 = 2.0;
const BY_CHANCE: f64 = 3.0;

/// What of a line is for one set of requesters; `None`: for all that have no line of their own.
type Key = Option<SetId>;

/// Runs, each with its set, and samples.
#[derive(Default)]
struct Part {
    runs: Vec<Run>,
    sets: Vec<SetId>,
    marks: Vec<Mark>,
    cpu_ns: u64,
}

impl Refiner<'_> {
    /// Makes marks and pieces of all lines, and gives them to the owners that they became.
    pub(super) fn add_lines(&mut self, certain: Vec<Segment>, mut lines: Vec<Line>, time: &mut CpuTime) {
        let marks: usize = lines.iter().map(|line| line.marks.len()).sum();
        let runs: usize = lines.iter().map(|line| line.runs.len()).sum();
        time.marks.reserve_exact(marks);
        time.pieces.reserve(certain.len() + marks + runs);
        for segment in certain {
            time.pieces.push_certain(segment);
        }
        self.ends(&mut lines, time);
        let mut own = vec![];
        for mut line in lines {
            match self.role_of(&line) {
                Some(role @ (Role::Native | Role::Pooled)) => self.by_call(&line, role, time),
                // Its pieces are cut nowhere, and can wait until those of all lines are made in their order.
                _ if self.role(line.unseen) == Role::Own => {
                    self.refine_samples(&mut line, time);
                    let here = time.add_marks(&mut line.marks);
                    own.push((line, here));
                }
                _ => self.by_sample(line, time),
            }
        }
        time.add_pieces(&own);
        time.pieces.sort();
    }

    /// The role of all samples of a line; `None` where they differ, or there are none.
    fn role_of(&self, line: &Line) -> Option<Role> {
        let first = self.role(line.marks.first()?.owner);
        line.marks.iter().all(|mark| self.role(mark.owner) == first).then_some(first)
    }

    /// One line, whose samples tell the call.
    fn by_sample(&mut self, mut line: Line, time: &mut CpuTime) {
        self.refine_samples(&mut line, time);
        time.add_line(line, |time, marks, _, piece| match piece.known_owner() {
            Some(owner) => self.by_time(Segment { cpu: piece.cpu, span: piece.span, owner }, time),
            None => time.pieces.push(&piece, marks),
        });
    }

    /// Gives a line's samples to the owners that they became.
    fn refine_samples(&mut self, line: &mut Line, time: &mut CpuTime) {
        let marks = line.marks.iter_mut().map(|mark| (mark.at, &mut mark.owner));
        for (at, owner) in marks.chain(line.ends.iter_mut().map(|ending| (ending.at, &mut ending.owner))) {
            let role = self.role(*owner);
            if role != Role::Own {
                let paths = self.requesters.who(role, line.thread, at).paths;
                *owner = self.refined(*owner, paths, time);
            }
        }
    }

    /// Time whose owner is certain, by the moments at which the answer changes.
    fn by_time(&mut self, segment: Segment, time: &mut CpuTime) {
        for (owner, span) in self.stretches(segment.owner, segment.span, time) {
            time.pieces.push_certain(Segment { owner, span, ..segment });
        }
    }

    /// One line for each call that has enough samples, and one for all others.
    fn by_call(&mut self, line: &Line, role: Role, time: &mut CpuTime) {
        let runs = self.runs_of_sets(line, role);
        let mut counts: BTreeMap<SetId, usize> = BTreeMap::new();
        for (set, _, marks) in &runs {
            *counts.entry(*set).or_default() += marks.len();
        }
        let mut often: Vec<(SetId, usize)> =
            counts.into_iter().filter(|(_, count)| *count >= FEWEST_MARKS).collect();
        often.sort_by_key(|&(set, count)| (std::cmp::Reverse(count), set));
        often.truncate(MOST_CALLS);
        let mut parts: BTreeMap<Key, Part> = BTreeMap::new();
        for (set, run, marks) in runs {
            let key = often.iter().any(|(often, _)| *often == set).then_some(set);
            let part = parts.entry(key).or_default();
            let cpu_ns = |at| part.cpu_ns + Span { start: run.span.start, end: at }.ns();
            let marks: Vec<Mark> =
                marks.iter().map(|mark| Mark { cpu_ns: cpu_ns(mark.at), ..*mark }).collect();
            for mark in marks {
                let owner = self.refined_in(mark.owner, set, time);
                part.marks.push(Mark { owner, ..mark });
            }
            part.runs.push(Run { cpu_ns: part.cpu_ns, ..run });
            part.sets.push(set);
            part.cpu_ns = part.cpu_ns.saturating_add(run.span.ns());
        }
        for (key, part) in parts {
            // All that a worker does for one requester is told by the samples of that, however far.
            let near_ns = if key.is_some() { u64::MAX } else { NEAREST_NS };
            self.add(part, near_ns, line, time);
        }
    }

    fn add(&mut self, part: Part, near_ns: u64, line: &Line, time: &mut CpuTime) {
        let Part { runs, sets, marks, .. } = part;
        let spans: Vec<Span> = runs.iter().map(|run| run.span).collect();
        let (thread, unseen, ends) = (line.thread, line.unseen, line.ends.clone());
        let of_part = Line { thread, runs, marks, ends, unseen, near_ns };
        time.add_line(of_part, |time, marks, position, mut piece| {
            for end in [&mut piece.left, &mut piece.right].into_iter().filter(|end| end.owner != NOBODY) {
                let base = match self.base_of.get(&end.owner) {
                    Some(&base) => base,
                    None if end.owner == line.unseen => nearest(line, spans[position]),
                    None => end.owner,
                };
                end.owner = self.refined_in(base, sets[position], time);
            }
            time.pieces.push(&piece, marks);
        });
    }

    /// Finds out in whose stacks threads went to sleep. A sleep shows Python frames only: it counts for the sample of the same thread and
    /// Python frames that is next to it in time.
    fn ends(&mut self, lines: &mut [Line], time: &mut CpuTime) {
        let mut waits: BTreeMap<ThreadKey, Vec<&Wait>> = BTreeMap::new();
        for wait in self.waits {
            waits.entry(wait.thread).or_default().push(wait);
        }
        let wakes = self.requesters.wakes_of_workers();
        for line in lines {
            let wakes = wakes.get(&line.thread).map_or(&[][..], Vec::as_slice);
            let Some(waits) = waits.get_mut(&line.thread) else { continue };
            waits.sort_by_key(|wait| wait.at);
            let mut seen: BTreeMap<Python, Vec<&Mark>> = BTreeMap::new();
            for mark in &line.marks {
                if let Some(python) = self.python_of(mark.owner, time) {
                    seen.entry(python).or_default().push(mark);
                }
            }
            let mut awake = KtimeNs::default();
            let mut endings: BTreeMap<Python, Vec<Ending>> = BTreeMap::new();
            for wait in waits {
                let slept = std::mem::replace(&mut awake, wait.at);
                let Some(python) = self.requesters.code.python_of(wait.stack) else { continue };
                let Some(marks) = seen.get(&python) else { continue };
                // It has not slept since then, and samples show nothing else.
                let other = line.marks.get(..line.marks.partition_point(|mark| mark.at <= wait.at));
                let other = other.into_iter().flatten().rev();
                let other = other
                    .take_while(|mark| wait.at.ns_since(mark.at) < NEAREST_NS)
                    .find(|mark| self.python_of(mark.owner, time) != Some(python));
                let after = other.map_or(slept, |mark| mark.at.max(slept));
                let requesters =
                    wakes.get(..wakes.partition_point(|wake| wake.1 <= wait.at)).unwrap_or_default();
                let requesters = requesters.iter().rev().take_while(|wake| wake.1 > after);
                let requesters = requesters.filter(|wake| {
                    self.requesters.code.call_context(wake.0, wait.stack) == CallContext::Inside
                });
                let since = requesters.last().map_or(wait.at, |wake| wake.1);
                let next = marks.partition_point(|mark| mark.at < wait.at);
                let around = [next.checked_sub(1).and_then(|i| marks.get(i)), marks.get(next)];
                let apart = |mark: &&&Mark| mark.at.ns_since(wait.at).max(wait.at.ns_since(mark.at));
                if let Some(mark) = around.into_iter().flatten().min_by_key(apart) {
                    endings.entry(python).or_default().push(Ending { since, at: wait.at, owner: mark.owner });
                }
            }
            endings.retain(|python, endings| is_seen(line, endings, seen[python].len()));
            line.ends = endings.into_values().flatten().collect();
            line.ends.sort_by_key(|ending| ending.at);
        }
    }

    fn python_of(&self, owner: OwnerId, time: &CpuTime) -> Option<Python> {
        match time.owners.get(owner as usize)?.owner {
            Owner::Target(_, Some(stack)) => self.requesters.code.python_of(stack),
            _ => None,
        }
    }

    /// A line's runs cut where the answer changes, each with its requesters and its samples.
    fn runs_of_sets<'l>(&mut self, line: &'l Line, role: Role) -> Vec<(SetId, Run, &'l [Mark])> {
        let mut cut: Vec<(SetId, Run, &[Mark])> = Vec::with_capacity(line.runs.len());
        for run in &line.runs {
            let (mut at, first) = (run.span.start, cut.len());
            while at < run.span.end {
                let Answer { paths, until } = self.requesters.who(role, line.thread, at);
                let until = until.max(at + NEXT).min(run.span.end);
                let set = self.set_of(paths);
                match cut.get_mut(first..).and_then(<[_]>::last_mut) {
                    Some((last, run, _)) if *last == set => run.span.end = until,
                    _ => cut.push((set, Run { span: Span { start: at, end: until }, ..*run }, &[])),
                }
                at = until;
            }
        }
        for (_, run, marks) in &mut cut {
            let from = line.marks.partition_point(|mark| mark.at < run.span.start);
            let to = line.marks.partition_point(|mark| mark.at < run.span.end);
            *marks = line.marks.get(from..to).unwrap_or_default();
        }
        cut
    }
}

/// Whether samples show a thread, often enough, in the stack in which it goes to sleep. One that hands work over, does something else and waits only
/// then comes to its wait in no time: what looks like one long call up to the sleep is not, and neither is the way from the last sample.
#[expect(clippy::cast_precision_loss, reason = "times")]
fn is_seen(line: &Line, endings: &[Ending], marks: usize) -> bool {
    let claimed = |ending: &Ending| {
        let before = line.marks.partition_point(|mark| mark.at < ending.at).checked_sub(1);
        let run = line.runs.partition_point(|run| run.span.start < ending.at).checked_sub(1);
        let begin = run.and_then(|run| line.runs.get(run)).map_or(ending.at, |run| run.span.start);
        let begin = before.and_then(|mark| line.marks.get(mark)).map_or(begin, |mark| mark.at.max(begin));
        let since = ending.since.max(begin);
        ending.at.ns_since(since) as f64 + 0.5 * since.ns_since(begin) as f64
    };
    let claimed: f64 = endings.iter().map(claimed).sum();
    let cpu_ns = line.runs.last().map_or(0, |run| run.cpu_ns.saturating_add(run.span.ns()));
    let of_mark = cpu_ns as f64 / line.marks.len().max(1) as f64;
    claimed <= MOST_UNSEEN * (marks as f64 + BY_CHANCE) * of_mark
}

/// Whose a time is that is near no sample of its own line: that of the thread's nearest one.
fn nearest(line: &Line, span: Span) -> OwnerId {
    let after = line.marks.partition_point(|mark| mark.at < span.start);
    let before = after.checked_sub(1).and_then(|i| line.marks.get(i));
    let before = before.map(|mark| (span.start.ns_since(mark.at), mark.owner));
    let after = line.marks.get(after).map(|mark| (mark.at.ns_since(span.end), mark.owner));
    let near = before.into_iter().chain(after).filter(|(ns, _)| *ns <= NEAREST_NS);
    near.min_by_key(|(ns, _)| *ns).map_or(line.unseen, |(_, owner)| owner)
}

#[cfg(test)]
mod tests {
    use super::{Ending, KtimeNs, Line, Mark, Run, Span, ThreadKey, is_seen, nearest};
    use energy_trace_model::ids::CpuId;

    const MS: u64 = 1_000_000;

    /// A hundred runs of 2 ms, each sampled in its middle and ended by a sleep in the stack of owner 2, in which it was for the last millisecond for sure.
    fn line() -> (Line, Vec<Ending>) {
        let at = KtimeNs::from_ns;
        let run = |i: u64| Run {
            cpu: CpuId::new(0),
            span: Span { start: at(10 * i * MS), end: at((10 * i + 2) * MS) },
            cpu_ns: 2 * i * MS,
        };
        let mark = |i: u64| Mark { line: 0, at: at((10 * i + 1) * MS), cpu_ns: (2 * i + 1) * MS, owner: 1 };
        let ending = |i: u64| Ending { since: at((10 * i + 1) * MS), at: at((10 * i + 2) * MS), owner: 2 };
        let line = Line {
            thread: ThreadKey::new(0),
            runs: (0..100).map(run).collect(),
            marks: (0..100).map(mark).collect(),
            ends: vec![],
            unseen: 0,
            near_ns: 500 * MS,
        };
        (line, (0..100).map(ending).collect())
    }

    /// Half of the thread's time is claimed for where it sleeps, so half of its samples should show that: a quarter is still believed, and a
    /// few are not.
    #[test]
    fn stacks_of_sleeps_are_seen_in_samples() {
        let (line, endings) = line();
        assert!(is_seen(&line, &endings, 50) && is_seen(&line, &endings, 22));
        assert!(!is_seen(&line, &endings, 21) && !is_seen(&line, &endings, 1));
        assert!(is_seen(&line, &endings[..6], 0) && !is_seen(&line, &endings[..13], 0));
    }

    /// A time is the nearest sample's before it or behind it, up to half a second away; then nobody's that is known.
    #[test]
    fn times_far_from_samples() {
        let (mut line, _) = line();
        line.marks.iter_mut().zip(10..).for_each(|(mark, owner)| mark.owner = owner);
        let at = |ms: u64| KtimeNs::from_ns(ms * MS);
        let of = |from, until| nearest(&line, Span { start: at(from), end: at(until) });
        assert_eq!([of(3, 4), of(8, 9), of(0, 0), of(12, 12)], [10, 11, 10, 11]);
        assert_eq!([of(1_491, 1_500), of(1_492, 1_500)], [109, line.unseen]);
    }
}
