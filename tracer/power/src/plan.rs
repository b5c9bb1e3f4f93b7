//! The request: which sources, where to look, which parameters. Leaves out whether they are there (`set.rs`).

use super::sources::{perf, powercap};
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
    /// RAPL counters, by whichever driver the kernel has them: powercap, else perf.
    Rapl,
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
    /// Whether for an agent: of a GPU's meter nothing is asked that only the end of a recording tells.
    pub always_on: bool,
}

impl Default for PowerPlan {
    /// `auto` on this machine, 100 readings a second: loops of 50 ms gain much from 50 to 100, and little beyond (docs/results/curves.md).
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
            period: Duration::from_millis(10),
            always_on: false,
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
        self.choices.iter().any(|choice| match choice {
            SourceChoice::Source(named) => *named == word,
            SourceChoice::Rapl => word == self.rapl(),
            SourceChoice::Auto | SourceChoice::None | SourceChoice::File(..) => false,
        })
    }

    /// The word by which the user named this source.
    pub(super) fn typed(&self, word: &'static str) -> &'static str {
        let is_itself = self.choices.contains(&SourceChoice::Source(word));
        if !is_itself && self.choices.contains(&SourceChoice::Rapl) && word == self.rapl() {
            "rapl"
        } else {
            word
        }
    }

    /// The source that `rapl` stands for on this machine.
    fn rapl(&self) -> &'static str {
        let zones = std::fs::read_dir(self.sysfs.join("class/powercap")).into_iter().flatten().flatten();
        let mut names = zones.map(|zone| zone.file_name());
        let has_zones = names.any(|name| name.to_string_lossy().starts_with("intel-rapl"));
        if has_zones { powercap::KIND.word } else { perf::KIND.word }
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

#[cfg(test)]
mod tests {
    use super::{PowerPlan, SourceChoice};

    /// The word that users know means the driver that this kernel has.
    #[test]
    fn rapl_is_powercap_or_perf() {
        let sysfs = tempfile::tempdir().unwrap();
        let plan = PowerPlan {
            choices: vec![SourceChoice::Rapl],
            sysfs: sysfs.path().to_owned(),
            ..PowerPlan::default()
        };
        assert_eq!((plan.names("powercap"), plan.names("perf")), (false, true));
        assert_eq!((plan.typed("perf"), plan.typed("hwmon")), ("rapl", "hwmon"));
        std::fs::create_dir_all(sysfs.path().join("class/powercap/intel-rapl:0")).unwrap();
        assert_eq!((plan.names("powercap"), plan.names("perf")), (true, false));
        assert!(!plan.is_auto());
    }
}
