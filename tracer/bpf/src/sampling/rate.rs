//! How often the sampler's event ticks, and how many samples a second come of it: random distances (`Countdown`, `Rate::tick_rate`), and
//! `kernel.perf_event_max_sample_rate`, which the kernel lowers itself when interrupts seem slow.
//!
//! Samples are a random number of ticks apart, one or two. With ticks of a half or a quarter of the period a loop of that period would still
//! be seen at two or four places only, so there are 1.618 of them in one: the golden section keeps step with no fraction of the period
//! (A. Hurwitz 1891: it is worst of all to approximate by fractions), and the distances of 0.62 and 1.24 periods vary as much as an even
//! draw from 0.5 to 1.5 does. Each tick costs an interrupt, so no more than these. A loop that keeps step with the ticks themselves loses it
//! when their rate is drawn anew, within ± 20 %, ten times a second, and each 16 ticks below 99 Hz (`watch`): distances are 0.57 to 1.72
//! periods. What is shorter than any distance no estimator sees, so one sample in ten is a tick of a second event, whose times have nothing
//! to do with the first one's: a fifth of all distances are any from nothing on, for fewer ticks in all (1.56 to a sample). Cycles are left
//! to the kernel, which adapts their period at every tick of its own.
//!
//! Of one event the kernel lets `ceil(limit / CONFIG_HZ)` ticks come between two of its own; the one that reaches this number stops the
//! event until the next tick (`__perf_event_account_interrupt`, kernel/events/core.c, v6.1). A rate with a whole number less between two
//! ticks is so never touched. A frequency above the limit is refused (`EINVAL`), a period is taken and then silently throttled. Nothing
//! here writes the limit.

use super::event::SampleEvent;
use super::tick::TickRate;
use energy_trace_model::recording::record::{Jitter, RecordingDiagnostic};
use energy_trace_sentences::{limited_rate, without_jitter};
use std::path::Path;
use tracer_ebpf::countdown::Countdown;

/// Ticks to a thousand samples.
const TICKS: u64 = 1_618;
/// One in so many samples is a tick of another event, whose time has nothing to do with the others': a fifth of all distances are any
/// from nothing to a whole one.
const NEAR: u64 = 10;
/// That event's rate is drawn anew at one in so many draws of the other's.
pub(super) const NEAR_DRAWS: usize = 16;
/// How far the rate of ticks is drawn from its mean, in thousandths, either way.
const DRAWN_PERMILLE: u64 = 200;
/// So many ticks at least are of one draw: a draw begins the period anew, so that one for each tick would let none come.
const DRAWN_TICKS: u64 = 16;
/// No more often than this.
const DRAWN_EVERY_NS: u64 = 100_000_000;

/// What it is unless somebody lowers it (`DEFAULT_MAX_SAMPLE_RATE`, kernel/events/core.c, v6.1).
const USUAL_LIMIT: u32 = 100_000;

/// The limit, of the machine below `root`; `None` where it cannot be read.
pub fn read_limit_at(root: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(root.join("proc/sys/kernel/perf_event_max_sample_rate")).ok()?;
    text.trim().parse().ok()
}

/// The kernel's ticks a second (`CONFIG_HZ`), from the coarse clock, which moves with them; 1,000 where it does not say.
pub fn read_ticks() -> u32 {
    let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `tick` is a valid, writable timespec, and this clock exists on every Linux.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) } != 0;
    let ns = u32::try_from(tick.tv_nsec).unwrap_or(0);
    if failed || tick.tv_sec != 0 || ns == 0 { 1_000 } else { (1_000_000_000_u32 + ns / 2) / ns }
}

/// A rate as it is asked for and as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What the user asked for.
    pub wanted_hz: u32,
    /// Ticks a second that the kernel is asked for, on average.
    pub ticks_hz: u32,
    /// Samples that come a second, on average.
    pub hz: u32,
    /// How much their distances vary.
    pub jitter: Jitter,
    /// Every sample comes a fixed time after a tick of the kernel.
    pub in_step: bool,
}

impl Rate {
    /// What can be had of `wanted_hz` samples a second under a limit.
    pub fn under(limit: Option<u32>, ticks: u32, event: SampleEvent, wanted_hz: u32) -> Self {
        let ticks = ticks.max(1);
        let between_ticks = limit.map_or(u32::MAX, |limit| limit.div_ceil(ticks));
        if between_ticks > 1 {
            return Self::untouched((between_ticks - 1).saturating_mul(ticks), event, wanted_hz);
        }
        // Each sample stops the event until the next tick, from where its period begins again.
        let ticks_hz = match (event, limit) {
            (SampleEvent::Cycles, Some(limit)) => wanted_hz.min(limit.max(1)),
            _ => wanted_hz,
        };
        let between_samples = ticks.div_ceil(ticks_hz.max(1));
        let hz = (ticks / between_samples).max(1);
        Self { wanted_hz, ticks_hz, hz, jitter: Jitter::NONE, in_step: true }
    }

    /// Under so many ticks a second as the kernel never touches: with jitter where the fastest ticks are fewer, else evenly.
    fn untouched(most: u32, event: SampleEvent, wanted_hz: u32) -> Self {
        let even = |hz| Self { wanted_hz, ticks_hz: hz, hz, jitter: Jitter::NONE, in_step: false };
        if fastest(wanted_hz) <= u64::from(most) {
            let (ticks, jitter) = match event {
                SampleEvent::CpuClock => (ticks_for(NEAR - 1, wanted_hz), Jitter::WHOLE),
                SampleEvent::Cycles => (ticks_for(NEAR, wanted_hz), Jitter::HALF),
            };
            let ticks_hz = u32::try_from(ticks).unwrap_or(u32::MAX);
            return Self { ticks_hz, jitter, ..even(wanted_hz) };
        }
        // One less than what just holds, so that it also does where a tick is late.
        even(if wanted_hz <= most { wanted_hz } else { (most - 1).max(1) })
    }

    /// Whether fewer come than were wanted, or not as they should.
    pub const fn is_limited(&self) -> bool {
        self.in_step || self.hz < self.wanted_hz
    }

    /// Whether the distances of samples are random.
    pub fn is_jittered(&self) -> bool {
        self.jitter != Jitter::NONE
    }

    /// What the limit does to it, in words; `None`: nothing.
    pub fn describe(&self, limit: u32) -> Option<String> {
        if self.is_limited() {
            return Some(limited_rate(self.hz, self.wanted_hz, self.in_step, limit));
        }
        (!self.is_jittered()).then(|| without_jitter(self.hz, limit))
    }

    /// How often the rate of ticks is drawn anew.
    pub(super) const fn drawn_every_ns(&self) -> u64 {
        let ns = DRAWN_TICKS * 1_000_000_000 / if self.ticks_hz == 0 { 1 } else { self.ticks_hz as u64 };
        if ns > DRAWN_EVERY_NS { ns } else { DRAWN_EVERY_NS }
    }

    /// Which ticks become samples.
    pub(super) const fn countdown(&self) -> Countdown {
        match self.jitter {
            Jitter::NONE => Countdown::new(0, 1),
            Jitter::WHOLE => {
                let (ticks, samples) = (self.ticks_hz as u64 * NEAR, self.hz as u64 * (NEAR - 1));
                Countdown::new(ticks as u32, samples as u32).beside_odd()
            }
            _ => Countdown::new(self.ticks_hz, self.hz),
        }
    }

    /// How often an event ticks. `random` is any number: the mean of many draws of the clock's rate is `ticks_hz`.
    pub(super) const fn tick_rate(&self, event: SampleEvent, random: u32) -> TickRate {
        let hz = if self.ticks_hz == 0 { 1 } else { self.ticks_hz as u64 };
        match (event, self.jitter) {
            (SampleEvent::Cycles, _) => TickRate::Hz(hz),
            (SampleEvent::CpuClock, Jitter::NONE) => TickRate::PeriodNs(1_000_000_000 / hz),
            (SampleEvent::CpuClock, _) => TickRate::PeriodNs(drawn_ns(1_000 * hz, random) & !1),
        }
    }

    /// How often the event beside it ticks, in periods that are odd; `None` where there is none.
    pub(super) fn near_rate(&self, random: u32) -> Option<TickRate> {
        let thousandths = 1_000 * u64::from(self.hz.max(1)) / NEAR;
        (self.jitter == Jitter::WHOLE).then(|| TickRate::PeriodNs(drawn_ns(thousandths, random) | 1))
    }
}

/// A period for so many thousandths of a hertz, drawn from 0.8 to 1.2 of them, evenly.
const fn drawn_ns(thousandths: u64, random: u32) -> u64 {
    let millionths = 1_000 * (1_000 - DRAWN_PERMILLE) + ((random as u64 * 2_000 * DRAWN_PERMILLE) >> 32);
    1_000_000_000_000_000_000 / (thousandths * millionths)
}

/// Ticks for so many of `NEAR` parts of samples.
const fn ticks_for(of_near: u64, hz: u32) -> u64 {
    (hz as u64 * TICKS * of_near).div_ceil(1_000 * NEAR)
}

/// The most ticks a second that are drawn for so many samples.
const fn fastest(hz: u32) -> u64 {
    (ticks_for(NEAR, hz) * (1_000 + DRAWN_PERMILLE)).div_ceil(1_000)
}

/// A limit under which as many samples come as are wanted, at random distances.
fn enough(wanted_hz: u32) -> u32 {
    let ticks = u32::try_from(fastest(wanted_hz)).unwrap_or(u32::MAX);
    USUAL_LIMIT.max(ticks.saturating_add(1_000))
}

/// What to do about it.
pub fn fix(wanted_hz: u32) -> String {
    format!("sudo sysctl kernel.perf_event_max_sample_rate={}", enough(wanted_hz))
}

/// The limit, before the start and since.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    rate: Rate,
    event: SampleEvent,
    ticks: u32,
    first: Option<u32>,
    /// The lowest since, and how long after the start it was seen.
    lowest: Option<(u32, u64)>,
    /// One in so many samples is wanted now.
    one_in: u32,
}

impl Limits {
    /// A new watch over `rate`; `first` is the limit as the run begins.
    pub const fn new(rate: Rate, event: SampleEvent, ticks: u32, first: Option<u32>) -> Self {
        Self { rate, event, ticks, first, lowest: None, one_in: 1 }
    }

    /// Takes a look's word, so long after the start; what can be had from now on, where that changed.
    pub(crate) fn note(&mut self, limit: Option<u32>, after_ns: u64) -> Option<Rate> {
        let before = self.lowest();
        let lower = limit.filter(|limit| before.is_none_or(|before| *limit < before))?;
        let rate = self.now(before);
        self.lowest = Some((lower, after_ns));
        Some(self.now(Some(lower))).filter(|now| *now != rate)
    }

    /// One in so many samples is wanted from now on; what can be had of them, where that changed.
    pub(crate) fn slow(&mut self, one_in: u32) -> Option<Rate> {
        let before = std::mem::replace(&mut self.one_in, one_in);
        (before != one_in).then(|| self.now(self.lowest()))
    }

    fn lowest(&self) -> Option<u32> {
        self.lowest.map(|(lowest, _)| lowest).or(self.first)
    }

    /// What can be had of the samples that are wanted now.
    fn now(&self, limit: Option<u32>) -> Rate {
        let wanted_hz = (self.rate.hz / self.one_in.max(1)).max(1);
        Rate::under(limit, self.ticks, self.event, wanted_hz)
    }

    /// What can be had of the rate with which the run began.
    fn under(&self, limit: Option<u32>) -> Rate {
        Rate::under(limit, self.ticks, self.event, self.rate.hz)
    }

    /// Whether fewer samples come than were wanted, or evenly, from the start or since the kernel lowered its limit.
    pub(crate) fn diagnostics(&self) -> Vec<RecordingDiagnostic> {
        let first = self.first.map(|limit| (self.rate, limit, None));
        let fallen = self.lowest.map(|(limit, after)| (self.under(Some(limit)), limit, Some(after)));
        let seen: Vec<_> = first.into_iter().chain(fallen).collect();
        let limited = seen.iter().filter(|(rate, ..)| rate.is_limited());
        let even = seen.iter().find(|(rate, ..)| !rate.is_jittered() && !rate.in_step);
        let limited = limited.map(|&(rate, limit, after_ns)| self.limited(rate, limit, after_ns));
        let even = even.map(|&(rate, limit, _)| RecordingDiagnostic::SamplesNotJittered {
            hz: rate.hz,
            limit,
            enough: self.enough(),
        });
        limited.chain(even).collect()
    }

    fn limited(&self, rate: Rate, limit: u32, after_ns: Option<u64>) -> RecordingDiagnostic {
        let Rate { hz, wanted_hz, in_step: aligned, .. } = rate;
        RecordingDiagnostic::SampleRateLimited {
            hz,
            wanted_hz,
            aligned,
            limit,
            enough: self.enough(),
            after_ns,
        }
    }

    fn enough(&self) -> u32 {
        enough(self.rate.wanted_hz)
    }
}

#[cfg(test)]
mod tests {
    use super::{Jitter, RecordingDiagnostic, TickRate};
    use super::{Limits, Rate, enough, fix, read_limit_at, read_ticks};
    use crate::sampling::event::SampleEvent::{self, CpuClock, Cycles};

    fn under(limit: u32, event: SampleEvent, wanted: u32) -> (u32, u32) {
        let rate = Rate::under(Some(limit), 250, event, wanted);
        (rate.ticks_hz, rate.hz)
    }

    /// As measured with 250 ticks a second: what is asked for comes, and no more is asked for than comes.
    #[test]
    fn rates_are_those_that_come() {
        for (limit, wanted, hz) in [
            (250, 99, 83),
            (250, 499, 250),
            (250, 999, 250),
            (500, 99, 99),
            (500, 249, 249),
            (500, 499, 249),
            (1_000, 499, 499),
            (1_000, 999, 749),
            (1_500, 499, 499),
            (2_000, 999, 999),
            (100_000, 4_999, 4_999),
        ] {
            assert_eq!(under(limit, CpuClock, wanted).1, hz, "limit {limit}, wanted {wanted}");
            assert!(under(limit, Cycles, wanted).0 <= limit, "a frequency above the limit is refused");
        }
        assert_eq!(under(250, CpuClock, 499).0, 499);
        assert_eq!(Rate::under(None, 250, CpuClock, 499).hz, 499);
    }

    /// Under the limit that is advised nothing is lowered on any kernel, and samples have random distances.
    #[test]
    fn what_is_advised_is_enough() {
        for ticks in [100, 250, 300, 1_000] {
            for wanted in [1, 99, 499, 999, 10_000] {
                for limit in [enough(wanted), 2 * wanted + 1_000] {
                    let rate = Rate::under(Some(limit), ticks, CpuClock, wanted);
                    assert!(!rate.is_limited() && rate.is_jittered(), "{ticks} {wanted} {limit}");
                }
            }
        }
        for strange in [0, 1, u32::MAX] {
            assert!(Rate::under(Some(strange), strange, Cycles, 99).hz > 0);
        }
    }

    /// Ticks that the kernel would hold back are not asked for: then samples come evenly, at the rate that was wanted.
    #[test]
    fn jitter_needs_room() {
        let jitter = |limit, wanted| {
            let rate = Rate::under(Some(limit), 250, CpuClock, wanted);
            (rate.hz, rate.jitter)
        };
        assert_eq!(jitter(1_250, 499), (499, Jitter::WHOLE));
        assert_eq!(jitter(1_000, 499), (499, Jitter::NONE));
        assert_eq!(jitter(500, 99), (99, Jitter::WHOLE));
        assert_eq!(jitter(250, 99), (83, Jitter::NONE));
        for (event, ticks_hz, jitter) in [(CpuClock, 727, Jitter::WHOLE), (Cycles, 808, Jitter::HALF)] {
            let rate = Rate::under(None, 250, event, 499);
            assert_eq!((rate.hz, rate.ticks_hz, rate.jitter), (499, ticks_hz, jitter));
            assert_eq!(rate.near_rate(7).is_some(), event == CpuClock);
            assert!(rate.countdown().two_ticks > 0);
            assert_eq!(Rate::under(Some(1_000), 250, event, 499).countdown().two_ticks, 0);
        }
    }

    /// One or two ticks are 0.56 periods to 1.72, as drawn; nine tenths of all samples are theirs, and one the seldom event's, whose
    /// periods are odd.
    #[test]
    fn distances_are_about_the_period() {
        for wanted in [4, 49, 99, 499, 999] {
            let rate = Rate::under(None, 250, CpuClock, wanted);
            let period = 1e9 / f64::from(wanted);
            let ns = |rate| match rate {
                TickRate::PeriodNs(ns) => ns,
                TickRate::Hz(_) => panic!("the clock has a period"),
            };
            let tick = |random| ns(rate.tick_rate(CpuClock, random)) as f64 / period;
            let near = |random| ns(rate.near_rate(random).unwrap()) as f64 / period;
            assert!(wanted == 4 || tick(u32::MAX) > 0.56 && 2.0 * tick(0) < 1.73, "{}", tick(0));
            assert!(near(u32::MAX) > 8.3 && near(0) < 12.6, "{} {}", near(u32::MAX), near(0));
            assert_eq!((ns(rate.tick_rate(CpuClock, 9)) % 2, ns(rate.near_rate(9).unwrap()) % 2), (0, 1));
            let two = f64::from(rate.countdown().two_ticks) / 2f64.powi(32);
            let draws = 1_000_u32;
            let of = |i| (1.0 / tick(i)) / (1.0 + two) + 1.0 / near(i);
            let mean = (0..draws).map(|i| of(i * (u32::MAX / draws))).sum::<f64>() / f64::from(draws);
            assert!((mean - 1.0).abs() < 1e-3, "{mean} of the {wanted} that are wanted");
        }
        assert_eq!(Rate::under(None, 250, Cycles, 499).tick_rate(Cycles, 7), TickRate::Hz(808));
        assert_eq!(
            Rate::under(Some(1_000), 250, CpuClock, 500).tick_rate(CpuClock, 7),
            TickRate::PeriodNs(2_000_000)
        );
    }

    /// Many ticks are of one draw, however few come.
    #[test]
    fn draws_leave_time_for_ticks() {
        let every_ms = |wanted| Rate::under(None, 250, CpuClock, wanted).drawn_every_ns() / 1_000_000;
        assert_eq!([1, 2, 19, 99, 499, 4_999].map(every_ms), [8_000, 5_333, 571, 110, 100, 100]);
    }

    /// A limit that was low, one that fell, and one that fell without effect: what is said has the rate and the command that lifts it.
    #[test]
    fn what_is_said() {
        let rate = Rate::under(Some(250), 250, CpuClock, 499);
        let mut limits = Limits::new(rate, CpuClock, 250, Some(250));
        assert_eq!(limits.note(Some(250), 1_000_000_000), None);
        let limited = |hz, limit, after_ns| RecordingDiagnostic::SampleRateLimited {
            hz,
            wanted_hz: 499,
            aligned: true,
            limit,
            enough: 100_000,
            after_ns,
        };
        assert_eq!(limits.diagnostics(), [limited(250, 250, None)]);

        let rate = Rate::under(Some(100_000), 250, CpuClock, 499);
        let mut limits = Limits::new(rate, CpuClock, 250, Some(100_000));
        assert_eq!(limits.note(Some(6_000), 1_000_000_000), None);
        assert_eq!(limits.diagnostics(), []);
        let even = |hz, limit| RecordingDiagnostic::SamplesNotJittered { hz, limit, enough: 100_000 };
        assert_eq!(
            limits.note(Some(1_000), 6_000_000_000).map(|now| (now.hz, now.ticks_hz)),
            Some((499, 499))
        );
        assert_eq!(limits.diagnostics(), [even(499, 1_000)]);
        assert_eq!(limits.note(Some(500), 7_000_000_000).map(|now| (now.hz, now.ticks_hz)), Some((249, 249)));
        assert_eq!(limits.note(Some(1_000), 8_000_000_000), None);
        let found = limits.diagnostics();
        let RecordingDiagnostic::SampleRateLimited { hz: 249, after_ns: Some(7_000_000_000), .. } = found[0]
        else {
            panic!("{found:?}");
        };
        assert_eq!(found[1..], [even(249, 500)]);
        assert_eq!(fix(499), "sudo sysctl kernel.perf_event_max_sample_rate=100000");
    }

    /// One in so many samples is had under every limit, and all again; that is no limit's doing.
    #[test]
    fn slower_by_steps() {
        let rate = Rate::under(Some(100_000), 250, CpuClock, 19);
        let mut limits = Limits::new(rate, CpuClock, 250, Some(100_000));
        let hz = |rate: Option<Rate>| rate.map(|rate| rate.hz);
        assert_eq!(
            [1, 2, 2, 8, 100].map(|one_in| hz(limits.slow(one_in))),
            [None, Some(9), None, Some(2), Some(1)]
        );
        assert_eq!(hz(limits.note(Some(250), 7)), Some(1));
        assert_eq!((hz(limits.slow(2)), hz(limits.slow(1))), (Some(8), Some(17)));
        let RecordingDiagnostic::SampleRateLimited { hz: 17, .. } = limits.diagnostics()[0] else {
            panic!("{:?}", limits.diagnostics());
        };
    }

    /// The limit is read below a root, and ticks are a number that kernels have.
    #[test]
    fn what_is_read() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read_limit_at(root.path()), None);
        std::fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        std::fs::write(root.path().join("proc/sys/kernel/perf_event_max_sample_rate"), "250\n").unwrap();
        assert_eq!(read_limit_at(root.path()), Some(250));
        assert!((24..=1_200).contains(&read_ticks()));
    }
}
