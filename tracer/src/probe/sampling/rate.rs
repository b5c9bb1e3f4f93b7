//! How many samples a second the kernel lets come: `kernel.perf_event_max_sample_rate`, which it lowers itself when interrupts seem slow.
//!
//! Of one event it lets `ceil(limit / CONFIG_HZ)` samples come between two ticks; the sample that reaches this number stops the event until
//! the next tick (`__perf_event_account_interrupt`, kernel/events/core.c, v6.1). A rate with a whole number less between two ticks is so
//! never touched. A frequency above the limit is refused (`EINVAL`), a period is taken and then silently throttled. Nothing here writes
//! the limit.

use super::event::SampleEvent;
use energy_trace_model::recording::record::Warning;
use std::path::Path;

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
    /// What the kernel is asked for.
    pub asked_hz: u32,
    /// What comes.
    pub hz: u32,
    /// Every sample comes a fixed time after a tick.
    pub in_step: bool,
}

impl Rate {
    /// What can be had of `wanted_hz` samples a second under a limit.
    pub fn under(limit: Option<u32>, ticks: u32, event: SampleEvent, wanted_hz: u32) -> Self {
        let free = Self { wanted_hz, asked_hz: wanted_hz, hz: wanted_hz, in_step: false };
        let (Some(limit), ticks) = (limit, ticks.max(1)) else { return free };
        let between_ticks = limit.div_ceil(ticks);
        if between_ticks > 1 {
            let most = (between_ticks - 1).saturating_mul(ticks);
            // One less than what just holds, so that it also does where a tick is late.
            let hz = if wanted_hz <= most { wanted_hz } else { (most - 1).max(1) };
            return Self { asked_hz: hz, hz, ..free };
        }
        // Each sample stops the event until the next tick, from where its period begins again.
        let asked_hz = match event {
            SampleEvent::Cycles => wanted_hz.min(limit.max(1)),
            SampleEvent::CpuClock => wanted_hz,
        };
        let between_samples = ticks.div_ceil(asked_hz.max(1));
        Self { asked_hz, hz: (ticks / between_samples).max(1), in_step: true, ..free }
    }

    /// Whether fewer come than were wanted, or not as they should.
    pub const fn is_limited(&self) -> bool {
        self.in_step || self.hz < self.wanted_hz
    }

    /// What it means, in words.
    pub fn told(&self, limit: u32) -> String {
        let Self { wanted_hz, hz, in_step, .. } = *self;
        let step = if in_step {
            ", each a fixed time after the kernel's tick, so that what runs in step with it is seen too often or never"
        } else {
            ""
        };
        format!(
            "{hz} samples a second on each CPU instead of {wanted_hz}{step} (kernel.perf_event_max_sample_rate is {limit})"
        )
    }
}

/// What to do about it.
pub fn fix(wanted_hz: u32) -> String {
    format!(
        "sudo sysctl kernel.perf_event_max_sample_rate={}",
        USUAL_LIMIT.max(wanted_hz.saturating_add(1_000))
    )
}

/// The limit, before the start and since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    rate: Rate,
    event: SampleEvent,
    ticks: u32,
    first: Option<u32>,
    /// The lowest since, and how long after the start it was seen.
    lowest: Option<(u32, u64)>,
}

impl Limits {
    pub(crate) const fn new(rate: Rate, event: SampleEvent, ticks: u32, first: Option<u32>) -> Self {
        Self { rate, event, ticks, first, lowest: None }
    }

    /// Takes a look's word, so long after the start.
    pub(crate) fn note(&mut self, limit: Option<u32>, after_ns: u64) {
        let before = self.lowest.map(|(lowest, _)| lowest).or(self.first);
        if let Some(limit) = limit
            && before.is_none_or(|before| limit < before)
        {
            self.lowest = Some((limit, after_ns));
        }
    }

    /// Doubts for the reader.
    pub(crate) fn doubts(&self) -> Vec<Warning> {
        let code = "sample-rate-limited".to_owned();
        let mut doubts = Vec::new();
        let fix = fix(self.rate.wanted_hz);
        if let Some(limit) = self.first.filter(|_| self.rate.is_limited()) {
            let text = format!(
                "the kernel lets come {}; `{fix}` before the next recording lifts that",
                self.rate.told(limit)
            );
            doubts.push(Warning { code: code.clone(), text });
        }
        let fallen = self.lowest.map(|(limit, after)| {
            (limit, after, Rate::under(Some(limit), self.ticks, self.event, self.rate.hz))
        });
        if let Some((limit, after, now)) = fallen.filter(|(.., now)| now.is_limited()) {
            let text = format!(
                "{:.0} s after the start the kernel lowered its limit, as interrupts seemed slow to it; since then it lets come at most {}; CPU                  time is exact all the same, and `{fix}` lifts the limit before the next recording",
                after as f64 / 1e9,
                now.told(limit)
            );
            doubts.push(Warning { code, text });
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, Rate, fix, read_limit_at, read_ticks};
    use crate::probe::event::SampleEvent::{self, CpuClock, Cycles};

    fn under(limit: u32, event: SampleEvent, wanted: u32) -> (u32, u32) {
        let rate = Rate::under(Some(limit), 250, event, wanted);
        (rate.asked_hz, rate.hz)
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

    /// With the limit at least 1,000 above the rate nothing is lowered on any kernel.
    #[test]
    fn a_thousand_more_is_enough() {
        for ticks in [100, 250, 300, 1_000] {
            for wanted in [1, 99, 499, 999, 10_000] {
                assert!(
                    !Rate::under(Some(wanted + 1_000), ticks, CpuClock, wanted).is_limited(),
                    "{ticks} {wanted}"
                );
            }
        }
        for strange in [0, 1, u32::MAX] {
            assert!(Rate::under(Some(strange), strange, Cycles, 99).hz > 0);
        }
    }

    /// A limit that was low, one that fell, and one that fell without effect: what is said has the rate and the command that lifts it.
    #[test]
    fn what_is_said() {
        let rate = Rate::under(Some(250), 250, CpuClock, 499);
        let mut limits = Limits::new(rate, CpuClock, 250, Some(250));
        limits.note(Some(250), 1_000_000_000);
        let [doubt] = &limits.doubts()[..] else { panic!("one doubt") };
        assert_eq!(doubt.code, "sample-rate-limited");
        assert!(
            doubt.text.contains("250 samples a second") && doubt.text.contains("sudo sysctl"),
            "{}",
            doubt.text
        );

        let rate = Rate::under(Some(100_000), 250, CpuClock, 499);
        let mut limits = Limits::new(rate, CpuClock, 250, Some(100_000));
        limits.note(Some(6_000), 1_000_000_000);
        assert_eq!(limits.doubts(), []);
        limits.note(Some(500), 7_000_000_000);
        limits.note(Some(1_000), 8_000_000_000);
        let [doubt] = &limits.doubts()[..] else { panic!("one doubt") };
        assert!(
            doubt.text.starts_with("7 s after the start") && doubt.text.contains("249 samples"),
            "{}",
            doubt.text
        );
        assert_eq!(fix(499), "sudo sysctl kernel.perf_event_max_sample_rate=100000");
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
