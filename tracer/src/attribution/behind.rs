//! How far behind a counter is on average.
//!
//! A counter that moves each millisecond shows at a reading what was spent until up to a millisecond before: half of one on average. Where
//! power steps up, that half millisecond of the step is in the next interval, each time: a function that always runs first after a pause
//! seems to draw less than nothing, and what follows it pays. So time is looked at as much earlier, if the energy of windows becomes likelier
//! by that. A run whose power never steps shows nothing, and there it makes no difference.
//!
//! Leaves out how late a counter was at one reading (`late.rs`), and the log of a foreign meter, which is seconds off (`timeline/lag.rs`).

use super::bridge::{Part, Piece, parts};
use super::intensity::{Evidence, Intensity, learn};
use crate::clock::KtimeNs;
use crate::timeline::{EnergyInterval, Span};

/// What a counter may be behind: one that moves each millisecond, or each other one.
const BEHIND_NS: [u64; 2] = [500_000, 1_000_000];
/// By how much the log-likelihood must rise.
const CLEAR: f64 = 3.0;

/// Intervals as their counter saw them, and the parts of the time in them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) intervals: Vec<EnergyInterval>,
    pub(super) parts: Vec<Part>,
    pub(super) behind_ns: u64,
}

impl Seen {
    fn new<'p>(
        intervals: &[EnergyInterval],
        pieces: impl Iterator<Item = &'p Piece>,
        behind_ns: u64,
    ) -> Self {
        let earlier = |at: KtimeNs| KtimeNs::from_ns(at.as_ns().saturating_sub(behind_ns));
        let shifted = |interval: &EnergyInterval| EnergyInterval {
            span: Span { start: earlier(interval.span.start), end: earlier(interval.span.end) },
            ..*interval
        };
        let intervals: Vec<EnergyInterval> = intervals.iter().map(shifted).collect();
        let parts = parts(&intervals, pieces);
        Self { intervals, parts, behind_ns }
    }
}

impl<'a> Evidence<'a> {
    /// With intervals and parts.
    pub(super) fn seen<'s>(&self, seen: &'s Seen) -> Evidence<'s>
    where
        'a: 's,
    {
        Evidence { intervals: &seen.intervals, parts: &seen.parts, behind_ns: seen.behind_ns, ..*self }
    }
}

/// Learns the watts of each class, and how far behind the counter is. `with` is all other evidence.
pub(super) fn learn_behind<'p>(
    intervals: &[EnergyInterval],
    pieces: impl Iterator<Item = &'p Piece> + Clone,
    with: &Evidence<'_>,
) -> (Seen, Intensity) {
    let at_once = Seen::new(intervals, pieces.clone(), 0);
    let intensity = learn(&with.seen(&at_once));
    let Some(model) = intensity.model() else { return (at_once, intensity) };
    let now = model.likelihood(&with.seen(&at_once));
    let behind = BEHIND_NS.map(|ns| {
        let seen = Seen::new(intervals, pieces.clone(), ns);
        (model.likelihood(&with.seen(&seen)), seen)
    });
    match behind.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((then, seen)) if then > now + CLEAR => {
            let intensity = learn(&with.seen(&seen));
            (seen, intensity)
        }
        _ => (at_once, intensity),
    }
}
