//! What a thread was probably doing between two samples.
//!
//! A sample says what a thread did at one moment. A thread in function a at one sample and in b at the next went from one to the other
//! somewhere between, perhaps by way of others. Taken as a chain that leaves its function at rate λ and then draws the next one from the
//! thread's mix π (so that it forgets where it was with e^(−λt)), the probability of function i at distance s behind a and t before b is
//!
//! ```text
//! P(i | a, b) = P_ai(s) · P_ib(t) / P_ab(s + t),       P_ij(t) = e^(−λt) [i = j] + (1 − e^(−λt)) π_j
//! ```
//!
//! whose mean over a stretch has a closed form: α on a, β on b, γ on π. Why this and not "each sample owns the time around it": times
//! that are conditional expectations make the regression of watts unbiased (Berkson's error model; Carroll et al.: Measurement error in
//! nonlinear models, 2006, §1.4), where times with sampling noise in them pull all watts to the mean. For slow chains it is a
//! border that is anywhere between two samples with equal probability.
//!
//! Distances are in the thread's own CPU time, or in time on the clock where its samples say that it forgets while it sleeps, or endless
//! across any sleep where they say that it begins something else each time. Leaves out how λ and π are found (`switching_chain`).

use crate::time::conditions::Conditions;
use crate::time::owners::OwnerId;
use crate::time::pieces::{Mark, NO_GAP, NO_LINE, NOBODY, Piece};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;

/// A piece's time in one interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) interval: u32,
    pub(crate) line: u32,
    /// Its middle.
    pub(crate) at: KtimeNs,
    /// The sample before it, `NOBODY` where only the one behind it is near; then `before_ns` is the distance to that.
    pub(crate) left: OwnerId,
    pub(crate) right: OwnerId,
    pub(crate) before_ns: u64,
    pub(crate) ns: u64,
    pub(crate) after_ns: u64,
    /// The position among all marks of the sample behind it in time (`Piece::gap`).
    pub(crate) gap: u32,
    /// Whether it stands the other way round: the sample behind it in time on the left.
    pub(crate) reversed: bool,
    /// How long the thread was off its CPU between the part and the sample on either side.
    pub(crate) slept_before_ns: u64,
    pub(crate) slept_after_ns: u64,
    /// For what part of it another hardware thread of the core was busy.
    pub(crate) shared: f64,
    /// How busy the domain's other CPUs were beside it, from 0 to about 1 (`contention`); 0 where that makes no difference.
    pub(crate) beside: f64,
    /// Its CPU's clock, in parts of the mean (`dvfs`).
    pub(crate) clock: f64,
    /// What power is there, in parts of a lone thread's at the mean clock.
    pub(crate) weight: f64,
}

impl Part {
    /// The other way round.
    fn turned(self) -> Self {
        Self {
            left: self.right,
            right: self.left,
            before_ns: self.after_ns,
            after_ns: self.before_ns,
            slept_before_ns: self.slept_after_ns,
            slept_after_ns: self.slept_before_ns,
            reversed: !self.reversed,
            ..self
        }
    }

    /// The same part if only every other sample had been taken: those whose position is odd, or even. Neighbours are one of each.
    pub(crate) fn thinned(self, marks: &[Mark], odd: bool) -> Self {
        let forward = if self.reversed { self.turned() } else { self };
        let is_kept = |position: usize| (position % 2 == 1) == odd;
        let of_line = |position: usize| marks.get(position).filter(|mark| mark.line == self.line);
        let (before, behind) = ((self.gap as usize).checked_sub(1), self.gap as usize);
        let mut thinned = forward;
        if let Some(before) = before.filter(|&before| forward.left != NOBODY && !is_kept(before)) {
            let pair = of_line(before).zip(before.checked_sub(1).and_then(of_line));
            let awake = pair.map_or(0, |(near, far)| near.cpu_ns.saturating_sub(far.cpu_ns));
            thinned.left = pair.map_or(NOBODY, |(_, far)| far.owner);
            thinned.before_ns = thinned.before_ns.saturating_add(awake);
            let apart = pair.map_or(0, |(near, far)| near.at.ns_since(far.at));
            thinned.slept_before_ns = thinned.slept_before_ns.saturating_add(apart.saturating_sub(awake));
        }
        if forward.right != NOBODY && !is_kept(behind) {
            let pair = of_line(behind).zip(of_line(behind + 1));
            let awake = pair.map_or(0, |(near, far)| far.cpu_ns.saturating_sub(near.cpu_ns));
            thinned.right = pair.map_or(NOBODY, |(_, far)| far.owner);
            thinned.after_ns = thinned.after_ns.saturating_add(awake);
            let apart = pair.map_or(0, |(near, far)| far.at.ns_since(near.at));
            thinned.slept_after_ns = thinned.slept_after_ns.saturating_add(apart.saturating_sub(awake));
        }
        match (thinned.left, thinned.right) {
            _ if self.line == NO_LINE || self.gap == NO_GAP => self,
            (NOBODY, NOBODY) => self,
            (NOBODY, _) => thinned.turned(),
            _ => thinned,
        }
    }

    /// Its time in seconds as its energy goes: less where a core is shared or its clock is low.
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    pub(crate) const fn seconds(&self) -> f64 {
        self.weight * self.ns as f64 / 1e9
    }
}

/// The parts of pieces in intervals, by interval. `pieces` are ordered by CPU and start.
pub(crate) fn parts<'a>(
    intervals: &[EnergyInterval],
    pieces: impl Iterator<Item = &'a Piece>,
    conditions: &Conditions,
) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut cpu, mut first) = (None, 0);
    for piece in pieces {
        if cpu != Some(piece.cpu) {
            (cpu, first) = (Some(piece.cpu), 0);
        }
        while intervals.get(first).is_some_and(|interval| interval.span.end <= piece.span.start) {
            first += 1;
        }
        for (i, interval) in intervals.iter().enumerate().skip(first) {
            if interval.span.start >= piece.span.end {
                break;
            }
            if let Some(common) = interval.span.overlap(piece.span) {
                let (shared, clock) = conditions.of_time(piece.cpu, common);
                parts.push(Part { shared, clock, ..part(i, piece, common) });
            }
        }
    }
    parts.sort_by_key(|part| (part.interval, part.line, part.at));
    parts
}

fn part(interval: usize, piece: &Piece, common: Span) -> Part {
    let before_ns = piece.left.ns + common.start.ns_since(piece.span.start);
    let after_ns = piece.right.ns + piece.span.end.ns_since(common.end);
    let part = Part {
        interval: u32::try_from(interval).unwrap_or(u32::MAX),
        line: piece.line,
        at: common.start.midpoint(common.end),
        left: piece.left.owner,
        right: piece.right.owner,
        before_ns,
        ns: common.ns(),
        after_ns,
        gap: piece.gap,
        reversed: false,
        slept_before_ns: piece.left.slept_ns,
        slept_after_ns: piece.right.slept_ns,
        shared: 0.0,
        beside: 0.0,
        clock: 1.0,
        weight: 1.0,
    };
    // Backwards in time the chain is the same: what is known stands on the left.
    if part.left == NOBODY { part.turned() } else { part }
}

/// How fast a thread forgets what it was doing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    /// Per nanosecond.
    pub(crate) rate: f64,
    pub(crate) asleep: Asleep,
}

/// What a thread forgets while it is off its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asleep {
    /// Nothing: it goes on where it was.
    #[default]
    Nothing,
    /// As much as on the CPU.
    AsAwake,
    /// All: whenever it comes back it begins something.
    All,
}

impl Asleep {
    /// The distance that a sleep stands for, in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "a time for a probability")]
    pub(crate) const fn distance(self, slept_ns: u64) -> f64 {
        match self {
            Self::Nothing => 0.0,
            Self::AsAwake => slept_ns as f64,
            Self::All => {
                if slept_ns > SLEEP_NS {
                    FAR_NS
                } else {
                    0.0
                }
            }
        }
    }
}

/// Shorter than this no thread sleeps: two clocks were read one after the other.
const SLEEP_NS: u64 = 1_000;
/// Further than any chain remembers.
const FAR_NS: f64 = 1e15;

/// Mean probabilities over a part: of the left sample's function, of the right one's, of the thread's mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Blend {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) mix: f64,
    /// How far the part's time in a function strays from its mean, as part of the largest possible variance p (1 − p) t².
    pub(crate) spread: f64,
}

impl Blend {
    const CERTAIN: Self = Self { left: 1.0, right: 0.0, mix: 0.0, spread: 0.0 };

    /// Each moment is the nearest sample's: what is compared with the chain's times to see how much depends on them.
    #[expect(clippy::cast_precision_loss, reason = "a part of a time")]
    pub(crate) fn nearest(part: &Part) -> Self {
        if part.line == NO_LINE || part.right == NOBODY {
            return Self::CERTAIN;
        }
        let whole = part.before_ns.saturating_add(part.ns).saturating_add(part.after_ns);
        let of_left = (whole / 2).saturating_sub(part.before_ns).min(part.ns);
        let left = of_left as f64 / part.ns.max(1) as f64;
        Self { left, right: 1.0 - left, mix: 0.0, spread: 0.0 }
    }

    /// Of a part whose chain forgets at `rate` (per nanosecond). `same` is the mix's probability of the function that both samples show;
    /// `None` where they differ.
    #[expect(clippy::cast_precision_loss, reason = "probabilities")]
    pub(crate) fn new(part: &Part, Rate { rate, asleep }: Rate, same: Option<f64>) -> Self {
        if part.line == NO_LINE {
            return Self::CERTAIN;
        }
        let asleep = |ns: u64| asleep.distance(ns);
        let before = part.before_ns as f64 + asleep(part.slept_before_ns);
        let (ns, after) = (part.ns as f64, part.after_ns as f64 + asleep(part.slept_after_ns));
        let mean_decay = if rate * ns < 1e-9 { 1.0 } else { -(-rate * ns).exp_m1() / (rate * ns) };
        let (from_left, from_right) =
            ((-rate * before).exp() * mean_decay, (-rate * after).exp() * mean_decay);
        let both = (-rate * (before + ns + after)).exp();
        let neither = (1.0 - from_left - from_right + both).max(0.0);
        let x = rate * ns;
        // The variance of a time average of a process that forgets: 1 where slow, 2/x where fast.
        let averaged = if x < 1e-4 { 1.0 } else { 2.0 * (x + (-x).exp_m1()) / (x * x) };
        if part.right == NOBODY {
            return Self { left: from_left, right: 0.0, mix: 1.0 - from_left, spread: averaged };
        }
        // A single border between two samples is evenly distributed: a third of the largest variance.
        let spread = averaged * (1.0 - both * 2.0 / 3.0);
        match same {
            Some(pi) => {
                let whole = both + (1.0 - both) * pi;
                let left = (both + pi * (from_left + from_right - 2.0 * both)) / whole;
                Self { left, right: 0.0, mix: pi * neither / whole, spread }
            }
            None => {
                let whole = (1.0 - both).max(f64::MIN_POSITIVE);
                let (left, right) = ((from_left - both) / whole, (from_right - both) / whole);
                Self { left: left.max(0.0), right: right.max(0.0), mix: neither / whole, spread }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Asleep, Blend, KtimeNs, NOBODY, Part, Rate};

    const fn awake(rate: f64) -> Rate {
        Rate { rate, asleep: Asleep::Nothing }
    }

    fn part(right: u32, before_ns: u64, ns: u64, after_ns: u64) -> Part {
        let (slept_before_ns, slept_after_ns) = (0, 0);
        let at = KtimeNs::default();
        Part {
            interval: 0,
            line: 0,
            at,
            left: 1,
            right,
            before_ns,
            ns,
            after_ns,
            gap: 0,
            reversed: false,
            slept_before_ns,
            slept_after_ns,
            shared: 0.0,
            beside: 0.0,
            clock: 1.0,
            weight: 1.0,
        }
    }

    /// Between two different samples of a slow chain the border is anywhere: a quarter of the way in, three quarters are still the left
    /// one's. Nothing goes to others.
    #[test]
    fn slow_chains_have_one_border() {
        let blend = Blend::new(&part(2, 0, 5_000_000, 5_000_000), awake(1e-12), None);
        assert!((blend.left - 0.75).abs() < 1e-3 && (blend.right - 0.25).abs() < 1e-3, "{blend:?}");
        assert!(blend.mix < 1e-3 && (blend.spread - 1.0 / 3.0).abs() < 1e-2, "{blend:?}");
    }

    /// Far from any sample of a fast chain only the mix is known; probabilities always sum to one.
    #[test]
    fn fast_chains_forget() {
        let far = Blend::new(&part(2, 5_000_000, 1_000_000, 5_000_000), awake(1e-5), None);
        assert!(far.mix > 0.999_999, "{far:?}");
        for (right, same) in [(1, Some(0.3)), (2, None), (NOBODY, None)] {
            for rate in [1e-10, 1e-7, 1e-6, 1e-5] {
                let blend = Blend::new(&part(right, 300_000, 900_000, 2_000_000), awake(rate), same);
                let sum = blend.left + blend.right + blend.mix;
                assert!((sum - 1.0).abs() < 1e-6, "{right} {rate}: {blend:?}");
            }
        }
    }
}
