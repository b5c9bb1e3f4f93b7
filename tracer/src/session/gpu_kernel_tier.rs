//! The kernel tier of a recording: whether its library can be injected into the command, and what is said where it cannot.
//!
//! Where it cannot, launches are counted as without it; the recording never fails for it. Leaves out what the library tells (`probe`).

use crate::plan::RecordPlan;
use crate::power::PowerSet;
use crate::probe::Tracer;
use crate::tracee::Target;
use crate::tracee::injection::Injection;
use energy_trace_model::recording::record::{DomainClass, Warning};
use std::ffi::OsString;

/// What is injected, and what the reader must know about it.
#[derive(Debug, Default)]
pub(super) struct KernelTier {
    injection: Option<Injection>,
    pub(super) warnings: Vec<Warning>,
}

impl KernelTier {
    /// Prepares the library and has the tracer listen, if `--gpu kernel` was asked for and can be.
    pub(super) fn prepare(plan: &RecordPlan, power: &PowerSet, tracer: &mut Tracer) -> Self {
        let mut tier = Self::default();
        if !plan.gpu.times_kernels() {
            return tier;
        }
        if let Some(why) = obstacle(plan, power, tracer) {
            tier.warn("gpu-kernel-fallback", format!("GPU kernels are not timed: {why}"));
            return tier;
        }
        match Injection::prepare() {
            Ok((injection, socket)) => {
                tracer.listen(injection.library(), socket);
                if let Some(next) = injection.next() {
                    let text = format!(
                        "CUDA_INJECTION64_PATH named {} already: it is loaded first, and GPU kernels are timed beside it if it leaves \
                         CUPTI free",
                        next.display()
                    );
                    tier.warn("gpu-injection-chained", text);
                }
                tier.injection = Some(injection);
            }
            Err(error) => tier.warn(
                "gpu-kernel-fallback",
                format!("GPU kernels are not timed, launches are counted: {error}"),
            ),
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

    fn warn(&mut self, code: &str, text: String) {
        self.warnings.push(Warning { code: code.into(), text });
    }
}

/// Why nothing can be injected into this target.
fn obstacle(plan: &RecordPlan, power: &PowerSet, tracer: &Tracer) -> Option<String> {
    if !power.domains().iter().any(|domain| domain.class == DomainClass::Gpu) {
        return Some("no GPU has a counter here".to_owned());
    }
    if !matches!(plan.target, Target::Command(_)) {
        let why = "a library is injected where energy-trace starts the command itself, not into processes that run; launches are counted";
        return Some(why.to_owned());
    }
    tracer.traces_launches().err()
}
