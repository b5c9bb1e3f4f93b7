//! Sees to the sampler while it runs: CPUs that come and go, the kernel's limit on samples, and periods that are drawn anew.
//!
//! Works at looks that the reader takes anyway, so that it wakes no CPU. A CPU that goes and comes back between two looks is taken for one
//! that stayed. Leaves out opening events (`sampler`) and what limits mean (`rate`).

use super::rate::{Limits, read_limit_at};
use super::sampler::Sampler;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::RecordingDiagnostic;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How often the limit is looked at.
const LIMIT_EVERY_NS: u64 = 1_000_000_000;

/// So late a look is seldom, unless this thread gets no CPU.
const LATE_NS: u64 = 500_000_000;

/// One in so many samples of those that were asked for, as whoever holds a copy says.
#[derive(Clone, Debug)]
pub struct Slowed(Arc<AtomicU32>);

impl Default for Slowed {
    fn default() -> Self {
        Self(Arc::new(AtomicU32::new(1)))
    }
}

impl Slowed {
    /// From the next look on.
    pub fn to(&self, one_in: u32) {
        self.0.store(one_in.max(1), Ordering::Relaxed);
    }
}

/// What is watched.
pub struct Watch {
    sampler: Arc<Mutex<Sampler>>,
    limits: Limits,
    slowed: Slowed,
    rootfs: PathBuf,
    since: KtimeNs,
    /// How often the sampler is looked at.
    sampler_every_ns: u64,
    sampler_at: KtimeNs,
    cpus_at: KtimeNs,
    limit_at: KtimeNs,
    checked_at: KtimeNs,
    /// How long this thread had waited for a CPU when that was last read.
    waited_ns: u64,
    starved_ns: Option<u64>,
}

impl Watch {
    /// Over this sampler.
    pub fn new(
        sampler: Arc<Mutex<Sampler>>,
        (limits, slowed): (Limits, Slowed),
        rootfs: PathBuf,
        now: KtimeNs,
    ) -> Self {
        let sampler_every_ns = sampler.lock().unwrap_or_else(PoisonError::into_inner).look_every_ns();
        Self {
            sampler,
            limits,
            slowed,
            rootfs,
            since: now,
            sampler_every_ns,
            sampler_at: now,
            cpus_at: now,
            limit_at: now,
            checked_at: now,
            waited_ns: 0,
            starved_ns: None,
        }
    }

    /// Looks at what is due.
    pub fn check(&mut self, now: KtimeNs) {
        self.notice_waiting(now);
        if now.ns_since(self.sampler_at) >= self.sampler_every_ns {
            self.sampler_at = now;
            self.look_at_sampler(now);
        }
        if now.ns_since(self.limit_at) >= LIMIT_EVERY_NS {
            self.look_at_limit(now);
        }
    }

    /// The longest time that this thread waited for a CPU between two looks, where it was long.
    pub const fn starved_ns(&self) -> Option<u64> {
        self.starved_ns
    }

    /// Between two looks there is a tenth of a second at most, unless others have the CPU: then the scheduler says so.
    fn notice_waiting(&mut self, now: KtimeNs) {
        if now.ns_since(self.checked_at) > LATE_NS {
            let waited = waited_for_cpu_ns();
            let longest = waited.saturating_sub(self.waited_ns).min(now.ns_since(self.checked_at));
            self.waited_ns = waited;
            self.starved_ns = self.starved_ns.max((longest > LATE_NS / 2).then_some(longest));
        }
        self.checked_at = now;
    }

    /// The last look, and what all have shown.
    pub fn end(&mut self) -> Vec<RecordingDiagnostic> {
        self.look_at_limit(energy_trace_system::clock::now());
        self.limits.diagnostics()
    }

    fn look_at_sampler(&mut self, now: KtimeNs) {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        if now.ns_since(self.cpus_at) >= sampler.cpus().look_every_ns() {
            self.cpus_at = now;
            let came = sampler.follow();
            if !came.is_empty() {
                log::info!("CPUs that came online are sampled: {came:?}");
            }
        }
        sampler.draw_periods();
    }

    fn look_at_limit(&mut self, now: KtimeNs) {
        self.limit_at = now;
        let slower = self.limits.slow(self.slowed.0.load(Ordering::Relaxed));
        let limited = self.limits.note(read_limit_at(&self.rootfs), now.ns_since(self.since));
        if let Some(rate) = limited.or(slower) {
            let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
            sampler.set_rate(rate);
            self.sampler_every_ns = sampler.look_every_ns();
        }
    }
}

/// How long this thread has waited for a CPU so far (`run_delay`, the second number; Documentation/scheduler/sched-stats.rst, v6.1).
fn waited_for_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}
