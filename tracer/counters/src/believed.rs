//! Which readings of a counter are believed: raw values become runs of readings that go on from each other,
//! and gaps with their reasons.
//!
//! ```text
//! readings     o----o----X----o----o    o....o....o    o----o     X: fits no neighbour, these fit each other
//! runs         |---------------|---|    |              |----|
//! gaps                             |----|--------------|             went back or too much | stood still
//! ```
//!
//! 1. A step back that is no turn, or one beyond what the hardware can draw, breaks the counter. If a few
//!    readings before or after it are left out and the rest goes on at a power as usual, these were wrong and
//!    cost no energy. If not, there is a gap: what the counter says on both sides of it still holds.
//! 2. A counter that stands still for long, beside how often it moves by itself, either makes up for it
//!    afterwards (then it was late: one long interval), or it did not count: a gap. CPUs and memory that are
//!    on draw power at any moment.
//!
//! Good readings come out as they went in. Pure; leaves out what takes longer to see (`lasting`).

use super::counter::{CounterStep, STEP_NS, grown, step};
use super::physics::Physics;
use super::{EnergyInterval, Gap, GapReason, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::units::MicroJoules;

/// A good reading: when, and the counter in microjoules.
pub(super) type Value = (KtimeNs, u64);

/// The most readings that are left out side by side, and how long they may last together.
const MOST_LEFT_OUT: usize = 100;
const LEFT_OUT_NS: u64 = 2_000_000_000;
/// Power is looked at over stretches of this length, as counters move in steps.
const POWER_OVER_NS: u64 = 100_000_000;
/// More than this times the usual power is a leap; less than these parts of the usual and of the idle power
/// is no power of a machine that is on.
const LEAP: f64 = 4.0;
const LEAST_OF_USUAL: f64 = 0.1;
const LEAST_OF_IDLE: f64 = 0.5;
/// A counter stands still when it has not moved for so many times as long as it usually does, while so many
/// of its units were due at least.
const STILL_TIMES: u64 = 3;
const STILL_UNITS: f64 = 2.0;
/// Fewer readings of one value are no evidence that it never moves.
const NEVER_READINGS: usize = 3;
/// What goes back so often, and in so large a part of its changes, does not count.
const BACK_TIMES: usize = 3;
const BACK_PART: usize = 4;

/// What is believed of a counter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Believed {
    /// Readings that go on from each other, in order.
    pub(super) runs: Vec<Vec<Value>>,
    /// What lies between runs, and why.
    pub(super) gaps: Vec<Gap>,
    /// Energy that it showed in gaps, and that hardware can draw.
    pub(super) doubted: Vec<EnergyInterval>,
    /// Readings that were left out.
    pub(super) left_out: u64,
}

impl Believed {
    /// Of readings in order, no two at one moment.
    pub(super) fn of(good: &[Value], physics: &Physics) -> Self {
        let usual = Usual::of(good, physics);
        if let (None, Some(&(first, _)), Some(&(last, _))) = (usual.change_ns, good.first(), good.last())
            && good.len() >= NEVER_READINGS
            && last.ns_since(first) >= physics.never_ns
        {
            let gap = Gap { span: Span::new(first, last), why: GapReason::NeverMoved };
            return Self { runs: vec![], gaps: vec![gap], ..Self::default() };
        }
        if is_no_counter(good) {
            return Self::before_it_went_back(good, physics);
        }
        let judge = Judge { physics, usual };
        let unbroken = judge.without_breaks(good);
        judge.without_stills(unbroken)
    }

    /// Of what goes up and down later: what it said before stays, where that is a good part of all.
    fn before_it_went_back(good: &[Value], physics: &Physics) -> Self {
        let ups = good.windows(2).take_while(|two| !is_step(u64::gt, two)).count() + 1;
        let kept = good.get(..ups).filter(|kept| kept.len() * BACK_PART >= good.len()).unwrap_or_default();
        let mut found = if kept.is_empty() { Self::default() } else { Self::of(kept, physics) };
        if let (Some(&(from, _)), Some(&(to, _))) = (kept.last().or(good.first()), good.last()) {
            found.gaps.push(Gap { span: Span::new(from, to), why: GapReason::WentBack });
        }
        found
    }
}

/// How a counter usually moves.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    /// Its median power in watts; 0 where it was read too shortly.
    watts: f64,
    /// The median time between two changes; `None`: it has one value only.
    change_ns: Option<u64>,
    /// What all its steps are multiples of, in microjoules: whole joules of some meters, next to nothing of
    /// most.
    unit: u64,
}

impl Usual {
    fn of(good: &[Value], physics: &Physics) -> Self {
        let mut changes = vec![];
        let (mut powers, mut unit) = (vec![], 0);
        let (mut changed, mut from) = (None, good.first().copied().unwrap_or_default());
        for pair in good.windows(2) {
            let &[(_, before), (at, value)] = pair else { continue };
            if value == before {
                continue;
            }
            let since = changed.replace(at).unwrap_or(from.0);
            changes.push(at.ns_since(since));
            unit = gcd(grown(before, value).unwrap_or(unit), unit);
            let ns = at.ns_since(from.0);
            match grown(from.1, value).and_then(energy).filter(|energy| *energy <= physics.most_over(ns)) {
                Some(energy) if ns >= POWER_OVER_NS => {
                    powers.push(watts(energy, ns));
                    from = (at, value);
                }
                Some(_) => {}
                None => from = (at, value),
            }
        }
        powers.sort_by(f64::total_cmp);
        changes.sort_unstable();
        let change_ns = changes.get(changes.len() / 2).copied();
        Self { watts: powers.get(powers.len() / 2).copied().unwrap_or(0.0), change_ns, unit }
    }
}

/// Whether values go up and down.
fn is_no_counter(good: &[Value]) -> bool {
    let count = |of: fn(&u64, &u64) -> bool| good.windows(2).filter(|two| is_step(of, two)).count();
    let back = count(u64::gt);
    back >= BACK_TIMES && back * BACK_PART >= count(u64::ne)
}

/// Whether this is so of two readings.
fn is_step(of: fn(&u64, &u64) -> bool, two: &[Value]) -> bool {
    matches!(two, [(_, before), (_, after)] if of(before, after))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn energy(uj: u64) -> Option<MicroJoules> {
    i64::try_from(uj).ok().map(MicroJoules::from_uj)
}

pub(super) fn watts(energy: MicroJoules, ns: u64) -> f64 {
    energy.as_joules() / (ns.max(1) as f64 / 1e9)
}

struct Judge<'a> {
    physics: &'a Physics,
    usual: Usual,
}

impl Judge<'_> {
    /// The energy from one reading to a later one; the counter has shown the first value since `since`.
    fn step(&self, since: KtimeNs, from: Value, to: Value) -> Result<MicroJoules, GapReason> {
        let most = self.physics.most_over(to.0.ns_since(since));
        match step(from.1, to.1, to.0.ns_since(from.0), self.physics.max_range, most) {
            CounterStep::Normal(energy) | CounterStep::Wrapped(energy) => Ok(energy),
            CounterStep::Unknown(why) => Err(why),
        }
    }

    /// The least power of the machine, in watts.
    fn least(&self) -> f64 {
        let idle = self.physics.idle.map(|idle| LEAST_OF_IDLE * idle.as_watts());
        idle.unwrap_or(LEAST_OF_USUAL * self.usual.watts)
    }

    /// Whether a counter goes on from one reading to the other as it usually does.
    fn goes_on(&self, from: Value, to: Value) -> bool {
        let ns = to.0.ns_since(from.0);
        let power = self.step(from.0, from, to).map(|energy| watts(energy, ns));
        ns <= LEFT_OUT_NS
            && power
                .is_ok_and(|watts| watts >= self.least() && watts > 0.0 && watts <= LEAP * self.usual.watts)
    }

    /// Whether the counter goes back between two readings, or forward by far more than it usually does.
    fn leaps(&self, from: Value, to: Value) -> bool {
        let ns = to.0.ns_since(from.0).saturating_add(STEP_NS);
        grown(from.1, to.1).and_then(energy).is_none_or(|energy| watts(energy, ns) > LEAP * self.usual.watts)
    }

    /// Runs without steps that nobody believes.
    fn without_breaks(&self, good: &[Value]) -> Believed {
        let mut found = Believed::default();
        let mut run: Vec<Value> = Vec::with_capacity(good.len());
        let (mut at, mut since) = (0, KtimeNs::default());
        while let Some(&next) = good.get(at) {
            let last = run.last().copied().unwrap_or(next);
            match self.step(since.min(last.0), last, next) {
                Ok(_) => {
                    since = if next.1 == last.1 && !run.is_empty() { since } else { next.0 };
                    run.push(next);
                    at += 1;
                }
                Err(why) => {
                    if let Some((before, after)) = self.left_out(&run, &good[at..]) {
                        run.truncate(run.len() - before);
                        at += after;
                        found.left_out += (before + after) as u64;
                    } else {
                        // A slow counter's step is of all the time since the one before.
                        let from = if self.physics.slow { since.min(last.0) } else { last.0 };
                        run.truncate(run.partition_point(|kept| kept.0 <= from));
                        found.gaps.push(Gap { span: Span::new(from, next.0), why });
                        found.runs.push(std::mem::take(&mut run));
                    }
                    since = run.last().map_or(next.0, |last| last.0);
                }
            }
        }
        found.runs.push(run);
        found
    }

    /// How many readings at the end of a run, or at the start of the rest, have to be left out for one to go
    /// on from the other.
    fn left_out(&self, run: &[Value], rest: &[Value]) -> Option<(usize, usize)> {
        (1..=MOST_LEFT_OUT).find_map(|n| {
            if let (Some(&last), Some(&wrong), Some(&next)) = (run.last(), rest.get(n - 1), rest.get(n))
                && self.goes_on(last, next)
                && (n == 1 || self.leaps(wrong, next))
            {
                return Some((0, n));
            }
            let kept = run.len().checked_sub(n)?;
            let (last, wrong, next) = (run.get(kept.checked_sub(1)?)?, run.get(kept)?, rest.first()?);
            (self.goes_on(*last, *next) && (n == 1 || self.leaps(*last, *wrong))).then_some((n, 0))
        })
    }

    /// The same without stretches in which the counter stood still.
    fn without_stills(&self, broken: Believed) -> Believed {
        let mut found = Believed { runs: vec![], ..broken };
        for run in broken.runs {
            self.split_stills(&run, &mut found);
        }
        found.gaps.order_by_key(|gap| gap.span);
        found
    }

    /// Whether a counter that has not moved for so long did not count.
    fn is_still(&self, ns: u64) -> bool {
        let usually = self.usual.change_ns.unwrap_or(0).saturating_mul(STILL_TIMES);
        let due = self.least() * ns as f64 / 1e3;
        ns >= self.physics.still_ns.max(usually)
            && (due <= 0.0 || due >= STILL_UNITS * self.usual.unit as f64)
    }

    fn split_stills(&self, run: &[Value], found: &mut Believed) {
        let mut kept: Vec<Value> = Vec::with_capacity(run.len());
        let mut at = 0;
        for same in run.chunk_by(|before, after| before.1 == after.1) {
            at += same.len();
            let (Some(&first), Some(&last)) = (same.first(), same.last()) else { continue };
            let stood = self.is_still(last.0.ns_since(first.0));
            let next = run.get(at).copied();
            // What it makes up for is one long interval.
            if !stood || next.is_some_and(|next| self.goes_on_late(first, last, next)) {
                kept.extend(if stood { &same[..1] } else { same });
                continue;
            }
            kept.push(first);
            found.runs.push(std::mem::take(&mut kept));
            match next.filter(|next| self.is_late(last, *next)) {
                // Some of it came late, and nobody knows of when.
                Some(next) => found.doubt(Span::new(first.0, next.0), next.1.checked_sub(first.1)),
                None => {
                    found.doubt(Span::new(first.0, last.0), None);
                    kept.push(last);
                }
            }
        }
        found.runs.push(kept);
    }

    /// Whether the step after a counter stood still holds more than its own time.
    fn is_late(&self, last: Value, next: Value) -> bool {
        let shown = grown(last.1, next.1).and_then(energy);
        shown.is_some_and(|energy| watts(energy, next.0.ns_since(last.0)) > LEAP * self.usual.watts)
    }

    /// Whether a counter that stood still has made up for it with its next value, beyond what is usual since
    /// it was read last.
    fn goes_on_late(&self, stood: Value, last: Value, next: Value) -> bool {
        let own = self.usual.watts * next.0.ns_since(last.0) as f64 / 1e9;
        let late = self.step(stood.0, stood, next).map(|energy| energy.as_joules() - own);
        late.is_ok_and(|late| late > 0.0 && late >= self.least() * last.0.ns_since(stood.0) as f64 / 1e9)
    }
}

impl Believed {
    /// Adds a stretch in which the counter stood still, and what it showed at its end.
    fn doubt(&mut self, span: Span, shown: Option<u64>) {
        self.gaps.push(Gap { span, why: GapReason::StoodStill });
        self.doubted.extend(shown.and_then(energy).map(|energy| EnergyInterval { span, energy }));
    }
}

#[cfg(test)]
mod tests {
    use super::{Believed, Gap, GapReason, Physics, Value};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::{MicroJoules, MicroWatts};
    use proptest::prelude::*;

    /// A package of two CPUs, 10 W of which are idle.
    fn package() -> Physics {
        let watts = |watts: u64| MicroWatts::from_uw(watts * 1_000_000);
        Physics {
            max_range: Some(MicroJoules::from_uj(262_143_328_850)),
            slow: false,
            step_ns: super::STEP_NS,
            moment: watts(200),
            lasting: watts(200),
            idle: Some(watts(10)),
            still_ns: 500_000_000,
            never_ns: 50_000_000,
        }
    }

    fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * 1_000_000)
    }

    /// Read each 10 ms for 5 s: 25 W, but for what `fault` makes of it (milliseconds, microjoules).
    fn read(fault: impl Fn(u64, u64) -> u64) -> Vec<Value> {
        let value = |ms| (at(ms), fault(ms, 1_000_000_000 + 25_000 * ms));
        (0..=5_000).step_by(10).map(value).collect()
    }

    /// Gaps as (from ms, to ms, why), joules that are believed and doubted, readings that were left out.
    type Found = (Vec<(u64, u64, GapReason)>, f64, f64, u64);

    fn found(good: &[Value], physics: &Physics) -> Found {
        let Believed { runs, gaps, doubted, left_out } = Believed::of(good, physics);
        let ms = |at: KtimeNs| at.as_ns() / 1_000_000;
        let gaps = gaps.iter().map(|Gap { span, why }| (ms(span.start), ms(span.end), *why)).collect();
        let ends = runs.iter().filter_map(|run| Some((run.first()?.1, run.last()?.1)));
        let joules: u64 = ends.map(|(first, last)| last - first).sum();
        let doubted: MicroJoules = doubted.iter().map(|interval| interval.energy).sum();
        (gaps, joules as f64 / 1e6, doubted.as_joules(), left_out)
    }

    fn of(fault: impl Fn(u64, u64) -> u64) -> Found {
        found(&read(fault), &package())
    }

    use GapReason::{NeverMoved, StoodStill, TooMuch, WentBack};

    /// A counter that counts is believed as it is.
    #[test]
    fn good() {
        let readings = read(|_, uj| uj);
        let believed = Believed::of(&readings, &package());
        assert_eq!(believed, Believed { runs: vec![readings], ..Believed::default() });
    }

    /// One value from beginning to end, 0 or another, says nothing; nor do two readings.
    #[test]
    fn never_moved() {
        for value in [0, 7_000_000] {
            assert_eq!(of(|_, _| value), (vec![(0, 5_000, NeverMoved)], 0.0, 0.0, 0));
        }
        assert_eq!(found(&read(|_, _| 0)[..2], &package()), (vec![], 0.0, 0.0, 0));
    }

    /// A counter that stands still midway, to the end or for a while, is believed before and after. If it
    /// makes up for all of it, it was late; if for a part, nobody knows of when that is.
    #[test]
    fn stood_still() {
        let stuck = |uj: u64| uj.min(1_000_000_000 + 25_000 * 3_000);
        assert_eq!(of(|_, uj| stuck(uj)), (vec![(3_000, 5_000, StoodStill)], 75.0, 0.0, 0));
        let lost = |ms, uj| if ms < 4_000 { stuck(uj) } else { uj - 25_000_000 };
        assert_eq!(of(lost), (vec![(3_000, 4_000, StoodStill)], 100.0, 0.0, 0));
        let late = |ms, uj| if ms < 4_000 { stuck(uj) } else { uj };
        assert_eq!(of(late), (vec![], 125.0, 0.0, 0));
        let part = |ms, uj| if ms < 4_000 { stuck(uj) } else { uj - 22_000_000 };
        assert_eq!(of(part), (vec![(3_000, 4_000, StoodStill)], 100.0, 3.0, 0));
        assert_eq!(of(|ms, uj| if ms < 3_400 { stuck(uj) } else { uj - 9_000_000 }).0, []);
    }

    /// Readings that are off for a moment are left out and cost nothing: far or a little too high, too low,
    /// text that begins like the number, one or many.
    #[test]
    fn off_for_a_moment() {
        let whole = |left_out| (vec![], 125.0, 0.0, left_out);
        for (until, left_out) in [(3_010, 1), (3_030, 3), (3_500, 50)] {
            let off =
                |by: fn(u64) -> u64| of(move |ms, uj| if (3_000..until).contains(&ms) { by(uj) } else { uj });
            assert_eq!(off(|uj| uj + 1_000_000_000), whole(left_out));
            assert_eq!(off(|uj| uj + 20_000_000), whole(left_out));
            assert_eq!(off(|uj| uj - 900_000_000), whole(left_out));
            assert_eq!(off(|_| 0), whole(left_out));
            assert_eq!(off(|uj| uj / 1_000), whole(left_out));
        }
        let back = of(|ms, uj| if ms == 3_000 { uj - 25_000 * 10 - 1_000 } else { uj });
        assert_eq!(back, whole(1));
    }

    /// A counter that begins again, or goes back or ahead and stays there, has a gap of one reading; what it
    /// says before and after holds.
    #[test]
    fn another_value_from_now_on() {
        let from_3_s = |by: fn(u64) -> u64| of(move |ms, uj| if ms < 3_000 { uj } else { by(uj) });
        for by in [|uj| uj - 1_075_000_000, |uj| uj - 30_000_000, |uj| uj - 700_000] {
            assert_eq!(from_3_s(by), (vec![(2_990, 3_000, WentBack)], 124.75, 0.0, 0));
        }
        assert_eq!(from_3_s(|uj| uj + 1_000_000_000), (vec![(2_990, 3_000, TooMuch)], 124.75, 0.0, 0));
        assert_eq!(from_3_s(|uj| uj + 30_000_000), (vec![(2_990, 3_000, TooMuch)], 124.75, 0.0, 0));
    }

    /// Slow counters are slow by themselves: whole joules each second, and one that is read faster than it
    /// moves.
    #[test]
    fn slow_counters() {
        let whole_joules = read(|_, uj| uj / 25_000_000 * 25_000_000);
        let believed = Believed::of(&whole_joules, &package());
        assert_eq!(believed.runs, [whole_joules]);
        // 1 J at 1 W, on a machine that draws 25 else: a second each.
        let slowly = |ms: u64, uj: u64| if ms < 2_000 { uj } else { 1_050_000_000 + 1_000 * (ms - 2_000) };
        let rests = read(|ms, uj| slowly(ms, uj) / 1_000_000 * 1_000_000);
        let at_rest = Physics { idle: MicroWatts::from_watts(1.0), ..package() };
        assert_eq!(Believed::of(&rests, &at_rest).runs, [rests]);
        let turns = read(|_, uj| (262_143_328_850 - 1_050_000_000 + uj) % 262_143_328_911);
        assert_eq!(Believed::of(&turns, &package()).runs, [turns]);
    }

    /// Power from rest to all that the hardware draws, with a reader that is held up now and then, is no lie.
    #[test]
    fn bursts() {
        let burst = |ms: u64, uj: u64| if ms < 3_000 { uj } else { uj + 170_000 * (ms - 3_000) };
        let held_up: Vec<Value> =
            read(burst).into_iter().filter(|(at, _)| at.as_ns() / 1_000_000 % 700 < 400).collect();
        let believed = Believed::of(&held_up, &package());
        assert_eq!(believed, Believed { runs: vec![held_up], ..Believed::default() });
    }

    proptest! {
        /// Whatever a counter says: runs and gaps are in order and do not overlap, and each step of a run can
        /// be believed.
        #[test]
        fn any_counter(values in prop::collection::vec((1_u64..2_000, prop_oneof![0_u64..50, 0_u64..1 << 40, any::<u64>()]), 0..60)) {
            let mut ms = 0;
            let good: Vec<Value> = values.iter().map(|&(after, uj)| { ms += after; (at(ms), uj) }).collect();
            let believed = Believed::of(&good, &package());
            let kept: usize = believed.runs.iter().map(Vec::len).sum();
            prop_assert!(kept as u64 + believed.left_out <= good.len() as u64 + believed.gaps.len() as u64);
            let mut spans: Vec<(KtimeNs, KtimeNs)> = believed.gaps.iter().map(|gap| (gap.span.start, gap.span.end)).collect();
            spans.extend(believed.runs.iter().filter_map(|run| Some((run.first()?.0, run.last()?.0))));
            spans.sort();
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
        }
    }
}
