//! Can this machine record? Looks at everything a recording needs and says how to mend what is missing.
//!
//! A finding that fails stops the main job; a warning makes its result worse. Changes nothing on the machine: the BPF programs are
//! loaded for a trial and dropped. Leaves out repairing anything.

mod gpu_kernel_tier;
mod interpreters;
mod kernel;
mod power;
mod show;

pub use show::{write_json, write_text};

use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Recording works, with a worse result.
    Warn,
    /// Recording does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word: `kernel`, `power`.
    pub area: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What to do about it; where nothing is wrong, nothing.
    pub fix: Option<String>,
}

impl Finding {
    fn ok(area: &'static str, text: impl Into<String>) -> Self {
        Self { area, level: Level::Ok, text: text.into(), fix: None }
    }

    fn warn(area: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { area, level: Level::Warn, text: text.into(), fix: Some(fix.into()) }
    }

    fn fail(area: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { area, level: Level::Fail, text: text.into(), fix: Some(fix.into()) }
    }
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct DoctorPlan {
    /// Root of the file system, for what the kernel offers.
    pub rootfs: PathBuf,
    /// Where sysfs is mounted, for power.
    pub sysfs: PathBuf,
    /// The NVML library, when it is not where the driver puts it.
    pub nvml_lib: Option<PathBuf>,
    /// The command line as typed, for advice that repeats it.
    pub typed: Vec<OsString>,
}

/// Looks at everything.
pub fn examine(plan: &DoctorPlan) -> Vec<Finding> {
    let mut findings = kernel::examine(plan);
    findings.extend(power::examine(plan));
    findings.extend(interpreters::examine(plan));
    findings
}

/// Whether the main job can run.
pub fn can_record(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.level != Level::Fail)
}
