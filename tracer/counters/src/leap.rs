//! A meter of the whole machine that leaps and falls back once, by more joules than all that may have drawn them.
//!
//! What such a machine can draw bounds little (10 kW). What its CPUs and GPUs did around that time bounds more:
//! a meter may be late, so a burst of theirs within seconds explains a leap. Leaves out a leap that comes
//! again (load that nobody sees, as of a GPU that is not read, does), and one at either end.

use super::model::busy_of_cells;
use super::{EnergyInterval, GapReason, Span, Timeline, span_of};
use energy_trace_model::clock::KtimeNs;
use std::ops::Range;

/// So many times the usual power is a leap, as long as it is no longer than this, and no larger part of the time.
const LEAP: f64 = 4.0;
/// A meter that is written each second shows it for a little more than two.
const LONGEST_NS: u64 = 2_400_000_000;
const PART: u64 = 4;
/// Energy is compared over so long at least: a reading that came late holds that of others.
const SHORTEST_NS: u64 = 1_000_000_000;
/// How long before a leap, and behind it, is looked for what may have drawn it.
const EARLIER_NS: u64 = 10_000_000_000;
const LATER_NS: u64 = 2_000_000_000;
/// What a CPU that begins to work draws at most (50 W), twice: a piece of time may cut its work in two. And what
/// is neither CPU nor GPU: disks that start, fans, a phone that is charged.
const EACH_CPU_W: f64 = 100.0;
const REST_W: f64 = 500.0;

impl Timeline {
    /// The same without a leap that neither CPUs nor GPUs explain: nobody drew that. `busy` are the times in which
    /// one of the machine's CPUs was busy, `gpus` what each of its GPUs drew; neither is asked without a leap.
    pub fn without_leap<I: Iterator<Item = Span>>(
        self,
        busy: impl FnOnce() -> I,
        gpus: impl FnOnce() -> Vec<Self>,
    ) -> Self {
        let Some((leap, joules)) = only_leap(&self.intervals) else { return self };
        let of = span_of(&self.intervals[leap.clone()]);
        let around = around(of).overlap(span_of(&self.intervals)).unwrap_or(of);
        let piece_ns = of.ns().max(SHORTEST_NS);
        let drawn = |watts: f64| watts * piece_ns as f64 / 1e9;
        if joules <= drawn(REST_W) {
            return self;
        }
        let gpus: f64 = gpus().iter().map(|gpu| gpu.rise_watts(around)).sum();
        let cpus = EACH_CPU_W * cpus_that_began(busy(), around, piece_ns);
        if joules <= drawn(REST_W + cpus + gpus) {
            return self;
        }
        self.without(&[leap], GapReason::TooMuch)
    }

    /// How much more it drew at one time than at another; without end where that is not known.
    fn rise_watts(&self, around: Span) -> f64 {
        if self.gaps.iter().any(|gap| gap.span.overlap(around).is_some()) {
            return f64::INFINITY;
        }
        let near =
            self.intervals.iter().filter(|of| of.span.overlap(around).is_some()).map(EnergyInterval::watts);
        let (least, most) = near.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), watts| {
            (least.min(watts), most.max(watts))
        });
        if least.is_finite() { most - least } else { f64::INFINITY }
    }
}

/// The intervals of the only leap, and its joules beyond the usual power.
fn only_leap(intervals: &[EnergyInterval]) -> Option<(Range<usize>, f64)> {
    let mut powers: Vec<f64> = intervals.iter().map(EnergyInterval::watts).collect();
    powers.sort_unstable_by(f64::total_cmp);
    let usual = *powers.get(powers.len() / 2)?;
    let is_over = |at: &usize| intervals.get(*at).is_some_and(|of| of.watts() > LEAP * usual);
    let mut over = (0..intervals.len()).filter(is_over);
    let first = over.next().filter(|first| usual > 0.0 && *first > 0)?;
    let leap = first..over.next_back().unwrap_or(first) + 1;
    let (of, all) = (span_of(intervals.get(leap.clone())?), span_of(intervals));
    let is_short = of.ns() <= LONGEST_NS || leap.len() == 1;
    let is_one = leap.clone().all(|at| is_over(&at)) && leap.end < intervals.len();
    let joules: f64 = intervals[leap.clone()].iter().map(|of| of.energy.as_joules()).sum();
    (is_one && is_short && of.ns().saturating_mul(PART) <= all.ns())
        .then(|| (leap, joules - usual * of.ns() as f64 / 1e9))
}

/// How many more CPUs were busy in one piece of a span than in another.
fn cpus_that_began(busy: impl Iterator<Item = Span>, span: Span, piece_ns: u64) -> f64 {
    let mut cells = busy_of_cells(busy, span, piece_ns);
    cells.truncate(usize::try_from(span.ns() / piece_ns).unwrap_or(0));
    let ends = cells.iter().min().zip(cells.iter().max());
    ends.map_or(0.0, |(least, most)| (most - least) as f64 / piece_ns as f64)
}

/// Where work lies that a leap may show.
fn around(leap: Span) -> Span {
    let from = leap.start.as_ns().saturating_sub(EARLIER_NS);
    Span::new(KtimeNs::from_ns(from), KtimeNs::from_ns(leap.end.as_ns().saturating_add(LATER_NS)))
}

#[cfg(test)]
mod tests {
    use super::{EnergyInterval, GapReason, Span, Timeline};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::units::MicroJoules;

    fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(ms * 1_000_000)
    }

    /// 20 s, read each 50 ms, of so many watts at each moment.
    fn timeline(watts: impl Fn(u64) -> u64) -> Timeline {
        let interval = |ms: u64| EnergyInterval {
            span: Span::new(at(ms), at(ms + 50)),
            energy: MicroJoules::from_uj((watts(ms) * 50_000).cast_signed()),
        };
        Timeline { intervals: (0..20_000).step_by(50).map(interval).collect(), ..Timeline::default() }
    }

    /// 25 W, and so many more from the ninth second on.
    fn leap(watts: u64, ms: u64) -> Timeline {
        timeline(|now| 25 + if (8_000..8_000 + ms).contains(&now) { watts } else { 0 })
    }

    /// So many CPUs that work for a while.
    fn busy(cpus: usize, from_ms: u64, to_ms: u64) -> impl Iterator<Item = Span> {
        std::iter::repeat_n(Span::new(at(from_ms), at(to_ms)), cpus)
    }

    /// Joules that are believed, with these CPUs and GPUs.
    fn believed(of: Timeline, cpus: impl Iterator<Item = Span>, gpus: &[Timeline]) -> f64 {
        let found = of.without_leap(|| cpus, || gpus.to_vec());
        assert!(found.gaps.iter().all(|gap| gap.why == GapReason::TooMuch));
        found.energy().as_joules()
    }

    /// 1 kJ too much in one reading, in a second or in two is refused, also while a few CPUs begin to work.
    #[test]
    fn more_than_cpus_can_draw() {
        for (watts, ms) in [(9_900, 100), (1_000, 1_000), (600, 2_000)] {
            let good = 500.0 - 25.0 * ms as f64 / 1e3;
            assert_eq!(believed(leap(watts, ms), busy(0, 0, 0), &[]), good);
            let steady = busy(64, 0, 20_000);
            assert_eq!(believed(leap(watts, ms), steady, &[]), good);
        }
        assert_eq!(believed(leap(1_000, 1_000), busy(4, 3_000, 20_000), &[]), 475.0);
    }

    /// A burst of many CPUs explains a leap as it is, and one that is shown seconds late; so does a GPU that is
    /// read, or of which nothing is known.
    #[test]
    fn bursts() {
        let whole = 1_500.0;
        assert_eq!(believed(leap(1_000, 1_000), busy(10, 8_000, 9_000), &[]), whole);
        assert_eq!(believed(leap(1_000, 1_000), busy(10, 1_000, 2_000), &[]), whole);
        assert_eq!(believed(leap(20_000, 50), busy(256, 7_975, 8_025), &[]), whole);
        let gpu = || timeline(|now| if (7_000..8_000).contains(&now) { 700 } else { 60 });
        assert_eq!(believed(leap(1_000, 1_000), busy(0, 0, 0), &[gpu()]), whole);
        let gap = crate::Gap { span: Span::new(at(7_000), at(7_050)), why: GapReason::NoReading };
        let unknown = Timeline { gaps: vec![gap], ..timeline(|_| 60) };
        assert_eq!(believed(leap(1_000, 1_000), busy(0, 0, 0), &[unknown]), whole);
        assert_eq!(believed(leap(1_000, 1_000), busy(0, 0, 0), &[timeline(|_| 60)]), 475.0);
    }

    /// What comes again, lasts, rises by less, or has no power before or behind it is believed.
    #[test]
    fn no_leap() {
        let good = [
            timeline(|now| if (3_000..4_000).contains(&(now % 8_000)) { 1_025 } else { 25 }),
            leap(1_000, 2_500),
            leap(400, 1_000),
            leap(9_000, 50),
            leap(1_000, 12_000),
            timeline(|now| if now < 1_000 { 1_025 } else { 25 }),
            timeline(|now| if now < 19_000 { 25 } else { 1_025 }),
            timeline(|now| if (8_000..9_000).contains(&now) { 1_200 } else { 400 }),
            Timeline::default(),
        ];
        for of in good {
            assert_eq!(of.clone().without_leap(|| busy(0, 0, 0), Vec::new), of);
        }
    }
}
