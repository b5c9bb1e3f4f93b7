//! The sampler: one perf event on each CPU that is online, and no CPU twice.
//!
//! Leaves out which event and which rate are wanted (`event`, `rate`), and when CPUs are looked at (`watch`).

use super::cpus::read_online_cpus;
use super::event::{Decision, SampleEvent};
use super::rate::Rate;
use crate::probe::bpf::error::ProbeError;
use aya::Ebpf;
use aya::programs::perf_event::{
    HardwareEvent, PerfEventConfig, PerfEventLink, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::{PerfEvent, ProgramError};
use energy_trace_model::ids::CpuId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The events that are open.
pub(crate) struct Sampler {
    ebpf: Arc<Mutex<Ebpf>>,
    event: SampleEvent,
    rate: Rate,
    links: BTreeMap<CpuId, PerfEventLink>,
    /// It was stopped: no CPU is sampled again.
    is_over: bool,
}

/// A sampler that runs, and what happened on the way.
pub(crate) struct Started {
    pub(crate) sampler: Sampler,
    pub(crate) event: SampleEvent,
    pub(crate) rate: Rate,
    /// Why the event is not the one that was decided for.
    pub(crate) refused: Option<String>,
}

impl Sampler {
    /// Opens the event on all of these CPUs, or another one where that may take its place. `rate` says what can be had with an event.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(crate) fn start(
        ebpf: &Arc<Mutex<Ebpf>>,
        cpus: &[CpuId],
        decision: Decision,
        rate: impl Fn(SampleEvent) -> Rate,
    ) -> Result<Started, ProbeError> {
        let open = |event| {
            let rate = rate(event);
            let links = BTreeMap::new();
            let mut sampler = Self { ebpf: Arc::clone(ebpf), event, rate, links, is_over: false };
            // Where a later CPU's is refused the sampler is dropped, and those of earlier CPUs with it: else they were sampled twice.
            cpus.iter().try_for_each(|&cpu| match sampler.open(cpu) {
                Err(_) if is_gone(cpu) => Ok(()),
                opened => opened,
            })?;
            Ok::<_, ProgramError>(Started { sampler, event, rate, refused: None })
        };
        match open(decision.event) {
            Ok(started) => Ok(started),
            Err(error) if decision.event == SampleEvent::Cycles => {
                let refused = ProbeError::cycles(&error);
                if !decision.may_fall_back {
                    return Err(refused);
                }
                let started =
                    open(SampleEvent::CpuClock).map_err(|e| ProbeError::attach("the CPU clock", &e))?;
                Ok(Started { refused: Some(refused.to_string()), ..started })
            }
            Err(error) => Err(ProbeError::attach("the CPU clock", &error)),
        }
    }

    /// Samples the CPUs that are online and no others; which ones came.
    pub(crate) fn follow(&mut self, online: &[CpuId]) -> Vec<CpuId> {
        if self.is_over {
            return Vec::new();
        }
        // The kernel takes the event of a CPU that goes offline out of use for good.
        self.links.retain(|cpu, _| online.contains(cpu));
        let new: Vec<CpuId> = online.iter().copied().filter(|cpu| !self.links.contains_key(cpu)).collect();
        new.into_iter()
            .filter(|&cpu| {
                let opened = self.open(cpu).inspect_err(|e| log::debug!("CPU {cpu} is not sampled yet: {e}"));
                opened.is_ok()
            })
            .collect()
    }

    /// Closes all events: no sample comes after this.
    pub(crate) fn stop(&mut self) {
        self.is_over = true;
        self.links.clear();
    }

    fn open(&mut self, cpu: CpuId) -> Result<(), ProgramError> {
        let hz = u64::from(self.rate.asked_hz.max(1));
        let (config, policy) = match self.event {
            SampleEvent::Cycles => {
                (PerfEventConfig::Hardware(HardwareEvent::CpuCycles), SamplePolicy::Frequency(hz))
            }
            SampleEvent::CpuClock => {
                (PerfEventConfig::Software(SoftwareEvent::CpuClock), SamplePolicy::Period(1_000_000_000 / hz))
            }
        };
        // What a panic on another thread left behind is whole: every change is one call.
        let mut ebpf = self.ebpf.lock().unwrap_or_else(PoisonError::into_inner);
        let perf: &mut PerfEvent =
            ebpf.program_mut("on_sample").ok_or(ProgramError::NotLoaded)?.try_into()?;
        let id = perf.attach(config, PerfEventScope::AllProcessesOneCpu { cpu: cpu.get() }, policy, false)?;
        self.links.insert(cpu, perf.take_link(id)?);
        Ok(())
    }
}

/// Whether a CPU went offline since it was listed.
fn is_gone(cpu: CpuId) -> bool {
    read_online_cpus().is_ok_and(|online| !online.contains(&cpu))
}
