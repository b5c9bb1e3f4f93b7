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

/// The parts of pieces in intervals, by interval, line and time. `pieces` are ordered by CPU and start.
pub(crate) fn parts<'a>(
    intervals: &[EnergyInterval],
    pieces: impl Iterator<Item = &'a Piece>,
    conditions: &Conditions,
) -> Vec<Part> {
    let mut cpus: Vec<Vec<&Piece>> = vec![];
    for piece in pieces {
        match cpus.last_mut() {
            Some(of_cpu) if of_cpu.last().is_some_and(|last| last.cpu == piece.cpu) => of_cpu.push(piece),
            _ => cpus.push(vec![piece]),
        }
    }
    let mut parts = Vec::with_capacity(cpus.iter().map(|of_cpu| of_cpu.len() + intervals.len()).sum());
    // Of each CPU the first piece that is not over.
    let mut next = vec![0; cpus.len()];
    for (number, interval) in intervals.iter().enumerate() {
        let first = parts.len();
        for (of_cpu, next) in cpus.iter().zip(&mut next) {
            while of_cpu.get(*next).is_some_and(|piece| piece.span.end <= interval.span.start) {
                *next += 1;
            }
            let reached = of_cpu.get(*next..).unwrap_or_default();
            for piece in reached.iter().take_while(|piece| piece.span.start < interval.span.end) {
                if let Some(common) = interval.span.overlap(piece.span) {
                    let (shared, clock) = conditions.of_time(piece.cpu, common);
                    parts.push(Part { shared, clock, ..part(number, piece, common) });
                }
            }
        }
        parts[first..].sort_by_key(|part: &Part| (part.line, part.at));
    }
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
    use super::{
        Asleep, Blend, Conditions, EnergyInterval, KtimeNs, Mark, NO_GAP, NO_LINE, NOBODY, Part, Piece, Rate,
        Span, parts,
    };
    use crate::tests::vectors::{Vectors, list, near};
    use crate::time::owners::Segment;
    use crate::time::pieces::End;
    use energy_trace_model::ids::CpuId;
    use energy_trace_model::recording::Recording;
    use energy_trace_model::units::{KiloHertz, MicroJoules};

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

    /// The mean probability of each state between two samples, by the matrix exponential of the chain's generator and quadrature (SciPy).
    #[test]
    fn as_the_generator() {
        let vectors = Vectors::of("bridge");
        let pi = vectors.list("pi");
        for case in vectors.get("cases").as_array().unwrap() {
            let ns = |name: &str| (case[name].as_f64().unwrap() * 1e6).round() as u64;
            let state = case["right"].as_u64().map(|state| state as usize);
            let right = state.map_or(NOBODY, |state| u32::try_from(state).unwrap() + 1);
            let same = (state == Some(0)).then_some(pi[0]);
            let rate = awake(case["per_ms"].as_f64().unwrap() / 1e6);
            let blend = Blend::new(&part(right, ns("before_ms"), ns("ms"), ns("after_ms")), rate, same);
            let of = |i: usize| {
                let (is_left, is_right) =
                    (f64::from(u8::from(i == 0)), f64::from(u8::from(Some(i) == state)));
                blend.left * is_left + blend.right * is_right + blend.mix * pi[i]
            };
            near(&[of(0), of(1), of(2)], &list(&case["mean"]), 1e-8);
        }
    }

    /// The variance of the time average of a chain that forgets, in parts of that of one moment, by a double integral (SciPy); between two samples
    /// of a slow chain a third of it is left.
    #[test]
    fn spread_of_an_average() {
        let averaged = Vectors::of("bridge").table("averaged");
        for pair in averaged {
            let (x, expected) = (pair[0], pair[1]);
            let alone = Blend::new(&part(NOBODY, 0, 1_000_000, 0), awake(x / 1e6), None);
            assert!((alone.spread - expected).abs() < 1e-6, "{x}: {alone:?}");
            let between = Blend::new(&part(2, 0, 1_000_000, 0), awake(x / 1e6), None);
            assert!((between.spread - expected * (1.0 - 2.0 / 3.0 * (-x).exp())).abs() < 1e-6, "{between:?}");
        }
        let slow = Blend::new(&part(NOBODY, 0, 1_000_000, 0), awake(1e-12), None);
        assert!(slow.spread == 1.0 && (slow.left - 1.0).abs() < 1e-6, "{slow:?}");
    }

    /// A sleep is a distance as far as the chain forgets in it: not at all, as much as awake, or everything; two clocks that were read one after the
    /// other are no sleep.
    #[test]
    fn asleep() {
        let distance = |asleep: Asleep, ns| asleep.distance(ns);
        assert_eq!([distance(Asleep::Nothing, 5_000_000), distance(Asleep::AsAwake, 5_000_000)], [0.0, 5e6]);
        assert_eq!([distance(Asleep::All, 1_000), distance(Asleep::All, 1_001)], [0.0, 1e15]);
        let mut slept = part(NOBODY, 300_000, 200_000, 0);
        (slept.slept_before_ns, slept.slept_after_ns) = (700_000, 400_000);
        let of = |asleep| Blend::new(&slept, Rate { rate: 1e-6, asleep }, None);
        let awake = |before_ns| Blend::new(&part(NOBODY, before_ns, 200_000, 0), awake(1e-6), None);
        assert_eq!((of(Asleep::Nothing), of(Asleep::AsAwake)), (awake(300_000), awake(1_000_000)));
        assert!(of(Asleep::All).mix > 0.999_999);
        let between = Part { right: 2, ..slept };
        let both = Blend::new(&between, Rate { rate: 1e-6, asleep: Asleep::AsAwake }, None);
        let awake = Blend::new(
            &part(2, 1_000_000, 200_000, 400_000),
            Rate { rate: 1e-6, asleep: Asleep::Nothing },
            None,
        );
        assert_eq!(both, awake);
    }

    /// Of 4 ms that begin 1 ms behind a sample and end 3 ms before the next one, three quarters are nearer to the first; what is certain is certain.
    #[test]
    fn nearest_samples() {
        let of = |right, before, ns, after| Blend::nearest(&part(right, before, ns, after)).left;
        assert_eq!(of(2, 1_000_000, 4_000_000, 3_000_000), 0.75);
        assert_eq!([of(2, 0, 1_000, 9_000), of(2, 9_000, 1_000, 0), of(NOBODY, 9, 1, 0)], [1.0, 0.0, 1.0]);
        let blend = Blend::nearest(&part(2, 1_000_000, 4_000_000, 3_000_000));
        assert_eq!((blend.right, blend.mix, blend.spread), (0.25, 0.0, 0.0));
        let certain = Part { line: NO_LINE, ..part(2, 9_000, 1_000, 0) };
        assert_eq!(
            (Blend::nearest(&certain), Blend::new(&certain, awake(1.0), None)),
            (Blend::CERTAIN, Blend::CERTAIN)
        );
    }

    /// Samples of a line at 0, 10, 30 and 60 ms on the clock, after 0, 10, 20 and 30 ms of CPU time, and one of another line.
    fn five() -> [Mark; 5] {
        let mark = |line, at: u64, cpu: u64, owner| Mark {
            line,
            at: KtimeNs::from_ns(at * 1_000_000),
            cpu_ns: cpu * 1_000_000,
            owner,
        };
        [mark(0, 0, 0, 10), mark(0, 10, 10, 11), mark(0, 30, 20, 12), mark(0, 60, 30, 13), mark(1, 70, 0, 14)]
    }

    /// Without the sample on one side the next one further away is there, with its distance awake and asleep; without any, the other side.
    #[test]
    fn every_other_sample() {
        // Between the samples 1 and 2: 10 ms of CPU time, of which this is from 2 to 5.
        let between = Part {
            left: 11,
            right: 12,
            gap: 2,
            slept_after_ns: 10_000_000,
            ..part(12, 2_000_000, 3_000_000, 5_000_000)
        };
        let ends =
            |part: Part| (part.left, part.before_ns / 1_000_000, part.right, part.after_ns / 1_000_000);
        let odd = between.thinned(&five(), true);
        assert_eq!(ends(odd), (11, 2, 13, 15));
        assert_eq!((odd.slept_before_ns, odd.slept_after_ns), (0, 30_000_000));
        let even = between.thinned(&five(), false);
        assert_eq!(ends(even), (10, 12, 12, 5));
        assert_eq!((even.slept_before_ns, even.slept_after_ns, even.reversed), (0, 10_000_000, false));
        // Between the samples 2 and 3, the last of their line: without it only the one before is there.
        let last = Part { left: 12, right: 13, gap: 3, ..between };
        assert_eq!(ends(last.thinned(&five(), false)), (12, 2, NOBODY, 5));
        // Without the first sample of a line the second one is there alone, on the left as what is known is.
        let first = Part { left: 10, right: 11, gap: 1, slept_after_ns: 0, slept_before_ns: 7, ..between };
        let turned = first.thinned(&five(), true);
        assert_eq!(ends(turned), (11, 5, NOBODY, 2));
        assert_eq!((turned.reversed, turned.slept_after_ns), (true, 7));
        // The same piece when it stood the other way round already.
        assert_eq!(ends(first.turned().thinned(&five(), true)), (11, 5, NOBODY, 2));
        assert_eq!(ends(between.turned().thinned(&five(), true)), (11, 2, 13, 15));
        let certain = Part { line: NO_LINE, ..between };
        assert_eq!(ends(certain.thinned(&five(), true)), ends(certain));
        let alone = Part { gap: NO_GAP, ..between };
        assert_eq!(ends(alone.thinned(&five(), true)), ends(alone));
    }

    /// A piece from 5 to 45 ms in intervals of 20 ms is three parts: their distances to the samples at its ends add up. Time before all
    /// intervals and behind them is in none.
    #[test]
    fn pieces_are_cut_at_readings() {
        let ms = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let interval = |i: u64| EnergyInterval {
            span: Span { start: ms(20 * i), end: ms(20 * i + 20) },
            energy: MicroJoules::ZERO,
        };
        let end = |owner, ns: u64| End { owner, ns: ns * 1_000_000, slept_ns: ns };
        let piece = |cpu, from, to, left, right| Piece {
            cpu: CpuId::new(cpu),
            span: Span { start: ms(from), end: ms(to) },
            line: 3,
            left,
            right,
            gap: 9,
        };
        let pieces = [
            piece(0, 5, 45, end(1, 2), end(2, 4)),
            piece(1, 0, 10, end(NOBODY, 0), end(2, 6)),
            piece(1, 55, 75, end(1, 0), end(2, 0)),
        ];
        let found = parts(&[0_u64, 1, 2].map(interval), pieces.iter(), &Conditions::default());
        let of = |part: &Part| {
            let ms = [part.before_ns, part.ns, part.after_ns].map(|ns| ns / 1_000_000);
            (part.interval, part.left, part.right, ms, part.at.as_ns() / 100_000)
        };
        let expected = [
            (0, 2, NOBODY, [6, 10, 0], 50),
            (0, 1, 2, [2, 15, 29], 125),
            (1, 1, 2, [17, 20, 9], 300),
            (2, 1, 2, [37, 5, 4], 425),
            (2, 1, 2, [0, 5, 15], 575),
        ];
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!((found[0].reversed, found[1].reversed), (true, false));
        assert_eq!((found[1].slept_before_ns, found[1].slept_after_ns, found[1].gap), (2, 4, 9));
        assert!((Part { weight: 0.5, ..found[1] }.seconds() - 0.007_5).abs() < 1e-12);
    }

    /// Parts know the clock of their CPU, and for how much of them the other hardware thread of its core was busy.
    #[test]
    fn parts_know_their_conditions() {
        let ms = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let span = |from, until| Span { start: ms(from), end: ms(until) };
        let (slow, fast) = (CpuId::new(0), CpuId::new(1));
        let segments =
            [(slow, span(0, 20)), (fast, span(5, 10))].map(|(cpu, span)| Segment { cpu, span, owner: 1 });
        let clock = |mhz: u32| {
            vec![(ms(1), KiloHertz::from_khz(mhz * 1_000)), (ms(6), KiloHertz::from_khz(mhz * 1_000))]
        };
        let recording = Recording {
            cores: vec![vec![slow, fast]],
            clocks: [(slow, clock(1_000)), (fast, clock(3_000))].into_iter().collect(),
            ..Recording::default()
        };
        let pieces = segments.map(|segment| Piece::certain(segment.cpu, segment.span, 1));
        let interval = EnergyInterval { span: span(0, 20), energy: MicroJoules::ZERO };
        let found = parts(&[interval], pieces.iter(), &Conditions::of(&recording, &segments));
        let of: Vec<_> = found.iter().map(|part| (part.ns / 1_000_000, part.clock, part.shared)).collect();
        // The fast one idled at its first reading: 1, 1 and 3 GHz are 5 / 3 on average.
        assert_eq!(of.iter().map(|of| (of.0, of.2)).collect::<Vec<_>>(), [(5, 1.0), (20, 0.25)]);
        near(&[of[0].1, of[1].1], &[1.8, 0.6], 1e-12);
    }
}
