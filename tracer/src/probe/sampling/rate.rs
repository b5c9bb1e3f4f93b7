//! How many samples a second the kernel lets come: `kernel.perf_event_max_sample_rate`, which it lowers itself when interrupts seem slow.
//!
//! Of one event it lets `ceil(limit / CONFIG_HZ)` samples come between two ticks; the sample that reaches this number stops the event until
//! the next tick (`__perf_event_account_interrupt`, kernel/events/core.c, v6.1). A rate with a whole number less between two ticks is so
//! never touched. A frequency above the limit is refused (`EINVAL`), a period is taken and then silently throttled. Nothing here writes
//! the limit.

use super::event::SampleEvent;
use energy_trace_model::recording::record::RecordingDiagnostic;
use energy_trace_report::sentences::limited_rate;
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
    pub fn describe(&self, limit: u32) -> String {
        limited_rate(self.hz, self.wanted_hz, self.in_step, limit)
    }
}

/// A limit under which as many samples come as are wanted.
fn enough(wanted_hz: u32) -> u32 {
    USUAL_LIMIT.max(wanted_hz.saturating_add(1_000))
}

/// What to do about it.
pub fn fix(wanted_hz: u32) -> String {
    format!("sudo sysctl kernel.perf_event_max_sample_rate={}", enough(wanted_hz))
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

    /// Whether fewer samples come than were wanted, from the start or since the kernel lowered its limit.
    pub(crate) fn diagnostics(&self) -> Vec<RecordingDiagnostic> {
        let enough = enough(self.rate.wanted_hz);
        let limited = |rate: Rate, limit, after_ns| {
            let Rate { hz, wanted_hz, in_step: aligned, .. } = rate;
            RecordingDiagnostic::SampleRateLimited { hz, wanted_hz, aligned, limit, enough, after_ns }
        };
        let first = self.first.filter(|_| self.rate.is_limited());
        let first = first.map(|limit| limited(self.rate, limit, None));
        let fallen = self.lowest.and_then(|(limit, after)| {
            let now = Rate::under(Some(limit), self.ticks, self.event, self.rate.hz);
            now.is_limited().then(|| limited(now, limit, Some(after)))
        });
        first.into_iter().chain(fallen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::RecordingDiagnostic;
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
        limits.note(Some(6_000), 1_000_000_000);
        assert_eq!(limits.diagnostics(), []);
        limits.note(Some(500), 7_000_000_000);
        limits.note(Some(1_000), 8_000_000_000);
        let found = limits.diagnostics();
        let RecordingDiagnostic::SampleRateLimited { hz: 249, after_ns: Some(7_000_000_000), .. } = found[0]
        else {
            panic!("{found:?}");
        };
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
