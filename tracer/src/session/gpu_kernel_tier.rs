//! The kernel tier of a recording: whether its library can be injected into the command, and what is reported where it cannot.
//!
//! Where it cannot, launches are counted as without it; the recording never fails for it. Leaves out what the library tells (`probe`).

use crate::plan::RecordPlan;
use crate::tracee::Target;
use crate::tracee::injection::Injection;
use energy_trace_model::recording::record::{DomainClass, KernelFallback, LaunchDiagnostic};
use energy_trace_power::PowerSet;
use energy_trace_probe::Tracer;
use std::ffi::OsString;

/// What is injected, and what the reader must know about it.
#[derive(Debug, Default)]
pub(super) struct KernelTier {
    injection: Option<Injection>,
    pub(super) found: Vec<LaunchDiagnostic>,
}

impl KernelTier {
    /// Prepares the library and has the tracer listen, if `--gpu kernel` was chosen and it can be.
    pub(super) fn prepare(plan: &RecordPlan, power: &PowerSet, tracer: &mut Tracer) -> Self {
        let mut tier = Self::default();
        if !plan.gpu.times_kernels() {
            return tier;
        }
        if let Some(why) = obstacle(plan, power, tracer) {
            tier.found.push(LaunchDiagnostic::KernelFallback(why));
            return tier;
        }
        match Injection::prepare() {
            Ok((injection, socket)) => {
                tracer.listen(injection.library(), socket);
                if let Some(next) = injection.next() {
                    let library = next.display().to_string();
                    tier.found.push(LaunchDiagnostic::InjectionChained { library });
                }
                tier.injection = Some(injection);
            }
            Err(error) => {
                let error = error.to_string();
                tier.found.push(LaunchDiagnostic::KernelFallback(KernelFallback::NotPrepared { error }));
            }
        }
        tier
    }

    /// What is set in the command's environment.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.injection.as_ref().map(Injection::environment).unwrap_or_default()
    }

    /// The command runs on: what its environment names stays.
    pub(super) fn leave(self) {
        if let Some(injection) = self.injection {
            injection.leave();
        }
    }
}

/// Why nothing can be injected into this target.
fn obstacle(plan: &RecordPlan, power: &PowerSet, tracer: &Tracer) -> Option<KernelFallback> {
    if !power.domains().iter().any(|domain| domain.class == DomainClass::Gpu) {
        return Some(KernelFallback::NoGpu);
    }
    if !matches!(plan.target, Target::Command(_)) {
        return Some(KernelFallback::NotStartedHere);
    }
    tracer.traces_launches().err().map(|error| KernelFallback::NoLaunches { error })
}
