//! Calls of Python functions of a recording: whether they can be counted in this target, and why not.
//!
//! Where they cannot, everything else goes on. Leaves out the module that counts (`tracee/python_counting.rs`).

use crate::plan::RecordPlan;
use crate::tracee::Target;
use crate::tracee::python_counting::PythonCounting;
use energy_trace_model::recording::record::{CallDiagnostic, PythonNotCounted, WorkSource};
use energy_trace_probe::{count_names_of, python_names};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What counts, and what the reader must know about it.
#[derive(Debug, Default)]
pub(super) struct PythonCounts {
    counting: Option<PythonCounting>,
    found: Vec<CallDiagnostic>,
}

impl PythonCounts {
    /// Puts the module in place, if calls are to be counted and the command is started here.
    pub(super) fn prepare(plan: &RecordPlan) -> Self {
        let mut counts = Self::default();
        let counted = plan.count.as_ref().and_then(|names| python_names(names));
        // Without names the module looks at the public functions of packages.
        let Some(names) = counted.or_else(|| plan.input_sizes.then(Vec::new)) else { return counts };
        if !matches!(plan.target, Target::Command(_)) {
            counts.found.push(CallDiagnostic::PythonNotCounted(PythonNotCounted::Attached));
            return counts;
        }
        match PythonCounting::prepare(
            (names, units(plan)),
            plan.input_sizes,
            plan.run_as.as_ref().map(|user| user.uid),
        ) {
            Ok(counting) => counts.counting = Some(counting),
            Err(error) => counts.fail(&error),
        }
        counts
    }

    /// Where calls that are units of work are told, if anything is.
    pub(super) fn take_told(&mut self) -> Option<OwnedFd> {
        self.counting.as_mut().and_then(PythonCounting::take_told)
    }

    /// Whether a Python was started that reports no calls.
    pub(super) fn is_old(&self) -> Arc<AtomicBool> {
        self.counting.as_ref().map(PythonCounting::is_old).unwrap_or_default()
    }

    /// Sets what belongs into the command's environment.
    pub(super) fn set_in(&self, environment: &mut Vec<(&'static str, OsString)>) {
        self.counting.iter().for_each(|counting| counting.set_in(environment));
    }

    /// Begins to listen.
    pub(super) fn start(&mut self) {
        if let Some(Err(error)) = self.counting.as_mut().map(PythonCounting::start) {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        let why = PythonNotCounted::NoModule { error: error.to_string() };
        self.found.push(CallDiagnostic::PythonNotCounted(why));
    }

    /// What was told, where anything was listened to, and what was found.
    pub(super) fn finish(self) -> (Option<Vec<u8>>, Vec<CallDiagnostic>) {
        (self.counting.map(PythonCounting::finish), self.found)
    }
}

/// Names of functions that are units of work, by number; an empty one can be none of Python.
fn units(plan: &RecordPlan) -> Vec<String> {
    let words = plan.work.iter().filter_map(|counter| match &counter.source {
        WorkSource::Calls(words) => Some(words.clone()),
        _ => None,
    });
    let of_python = |words| python_names(&count_names_of(&[words])).and_then(|mut names| names.pop());
    words.map(|words| of_python(words).unwrap_or_default()).collect()
}
