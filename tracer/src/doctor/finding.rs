//! A finding, how bad it is, and where to look for one.
//!
//! Leaves out what is looked at.

use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something optional that is not here or not used. For programs it is `ok`.
    #[serde(rename = "ok")]
    Unused,
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
    /// What whoever records has to know of their energy first.
    #[serde(skip)]
    pub energy: Option<Energy>,
}

/// What a recording's energy would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Energy {
    /// Measured, of these parts of the machine: `CPUs, memory and the whole machine`.
    Measured(String),
    /// Estimated; how many times as much it may be, where that is known: `0.7 to 1.3`.
    Estimated(Option<String>),
}

impl Finding {
    pub(super) fn unused(area: &'static str, text: impl Into<String>) -> Self {
        Self { area, level: Level::Unused, text: text.into(), fix: None, energy: None }
    }

    pub(super) fn ok(area: &'static str, text: impl Into<String>) -> Self {
        Self { area, level: Level::Ok, text: text.into(), fix: None, energy: None }
    }

    pub(super) fn warn(area: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { area, level: Level::Warn, text: text.into(), fix: Some(fix.into()), energy: None }
    }

    pub(super) fn fail(area: &'static str, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { area, level: Level::Fail, text: text.into(), fix: Some(fix.into()), energy: None }
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

/// Whether nothing prevents a recording.
pub fn can_record(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.level != Level::Fail)
}
