//! The request: which sources, where to look, which parameters. Leaves out whether they are there (`set.rs`).

use energy_trace_model::units::MicroWatts;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One `--power` word. Parsing and printing it is `choice.rs`'s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// Every counter that is there; the model where the CPUs have none.
    Auto,
    /// No energy at all: time only.
    None,
    /// A source, by its word.
    Source(&'static str),
    /// A source that reads a file: its word, and the file.
    File(&'static str, PathBuf),
}

/// Everything that decides what is read, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerPlan {
    /// The `--power` words; none means `auto`.
    pub choices: Vec<SourceChoice>,
    /// Root of sysfs (`--path.sysfs`).
    pub sysfs: PathBuf,
    /// The NVML library (`--nvml-lib`); `None` looks for the installed one.
    pub nvml_lib: Option<PathBuf>,
    /// Idle power of all sockets together (`--idle-watts`); `None` measures it where there is a counter.
    pub idle: Option<MicroWatts>,
    /// The model's idle power of the whole machine (`--model-watts idle=`).
    pub model_idle: Option<MicroWatts>,
    /// The model's power of one busy logical CPU, above idle (`--model-watts core=`).
    pub model_core: Option<MicroWatts>,
    /// Refuse to estimate.
    pub measured_only: bool,
    /// Whether `auto` takes GPUs (`--gpu` other than `off`).
    pub gpu: bool,
    /// Time between two readings of a counter.
    pub period: Duration,
}

impl Default for PowerPlan {
    /// `auto` on this machine, 50 readings a second: attribution is best with windows of 5 to 100 ms (S1 in the design notes' simulation).
    fn default() -> Self {
        Self {
            choices: vec![SourceChoice::Auto],
            sysfs: PathBuf::from("/sys"),
            nvml_lib: None,
            idle: None,
            model_idle: None,
            model_core: None,
            measured_only: false,
            gpu: true,
            period: Duration::from_millis(20),
        }
    }
}

impl PowerPlan {
    /// Whether `auto` decides which sources are taken, beside those that are named.
    pub(super) fn is_auto(&self) -> bool {
        self.choices.is_empty() || self.choices.contains(&SourceChoice::Auto)
    }

    /// Whether the user named this source.
    pub(super) fn names(&self, word: &str) -> bool {
        self.choices.iter().any(|choice| matches!(choice, SourceChoice::Source(named) if *named == word))
    }

    /// The files that this source is to read.
    pub(super) fn files(&self, word: &str) -> impl Iterator<Item = &Path> {
        self.choices.iter().filter_map(move |choice| match choice {
            SourceChoice::File(named, file) if *named == word => Some(file.as_path()),
            _ => None,
        })
    }

    /// Whether a source reads a file that the user names.
    pub fn reads_files(&self) -> bool {
        self.choices.iter().any(|choice| matches!(choice, SourceChoice::File(..)))
    }
}
