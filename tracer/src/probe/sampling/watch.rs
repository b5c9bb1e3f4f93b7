//! Sees to the sampler while it runs: CPUs that come and go, the kernel's limit on samples, and periods that are drawn anew.
//!
//! Works at looks that the reader takes anyway, so that it wakes no CPU. A CPU that goes and comes back between two looks is taken for one
//! that stayed. Leaves out opening events (`sampler`) and what limits mean (`rate`).

use super::cpus::read_online_cpus;
use super::rate::{Limits, read_limit_at};
use super::sampler::Sampler;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::RecordingDiagnostic;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// How often CPUs are looked at.
const CPUS_EVERY_NS: u64 = 100_000_000;
/// How often the limit is.
const LIMIT_EVERY_NS: u64 = 1_000_000_000;

/// What is watched.
pub(crate) struct Watch {
    sampler: Arc<Mutex<Sampler>>,
    limits: Limits,
    rootfs: PathBuf,
    since: KtimeNs,
    cpus_at: KtimeNs,
    limit_at: KtimeNs,
}

impl Watch {
    pub(crate) fn new(sampler: Arc<Mutex<Sampler>>, limits: Limits, rootfs: PathBuf, now: KtimeNs) -> Self {
        Self { sampler, limits, rootfs, since: now, cpus_at: now, limit_at: now }
    }

    /// Looks at what is due.
    pub(crate) fn check(&mut self, now: KtimeNs) {
        if now.ns_since(self.cpus_at) >= CPUS_EVERY_NS {
            self.cpus_at = now;
            self.look_at_cpus();
        }
        if now.ns_since(self.limit_at) >= LIMIT_EVERY_NS {
            self.look_at_limit(now);
        }
    }

    /// The last look, and what all have shown.
    pub(crate) fn end(&mut self) -> Vec<RecordingDiagnostic> {
        self.look_at_limit(crate::clock::now());
        self.limits.diagnostics()
    }

    fn look_at_cpus(&self) {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        match read_online_cpus() {
            Ok(online) => {
                let came = sampler.follow(&online);
                if !came.is_empty() {
                    log::info!("CPUs that came online are sampled: {came:?}");
                }
            }
            Err(error) => log::debug!("CPUs are not looked at: {error}"),
        }
        sampler.draw_periods();
    }

    fn look_at_limit(&mut self, now: KtimeNs) {
        self.limit_at = now;
        if let Some(rate) = self.limits.note(read_limit_at(&self.rootfs), now.ns_since(self.since)) {
            self.sampler.lock().unwrap_or_else(PoisonError::into_inner).set_rate(rate);
        }
    }
}
