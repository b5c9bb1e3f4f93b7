//! What was asked for: which sources, where to look, which parameters. Leaves out whether they are there (`set.rs`).

use energy_trace_model::units::MicroWatts;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// One `--power` word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// Every counter that is there; the model where the CPUs have none.
    Auto,
    /// RAPL through `/sys/class/powercap`.
    Powercap,
    /// RAPL through the perf PMUs.
    Perf,
    /// NVIDIA GPUs through `libnvidia-ml`.
    Nvml,
    /// AMD GPUs through the amdgpu driver's tables.
    AmdGpu,
    /// Energy sensors of `/sys/class/hwmon`.
    Hwmon,
    /// No counter: power estimated from CPU time.
    Model,
    /// A log of another meter.
    Replay(PathBuf),
    /// No energy at all: time only.
    None,
}

/// The words that `--power` takes, for help and errors.
const WORDS: &str = "auto, powercap, perf, nvml, amdgpu, hwmon, model, replay:FILE, none";

/// A `--power` word that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceChoiceError {
    /// Not one of the words.
    #[error("there is no power source `{0}`; known are {WORDS}")]
    Unknown(String),
    /// `replay:` without a file.
    #[error("`replay:` needs a CSV file behind the colon, as in replay:meter.csv")]
    NoFile,
}

impl FromStr for SourceChoice {
    type Err = SourceChoiceError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "auto" => Ok(Self::Auto),
            "powercap" => Ok(Self::Powercap),
            "perf" => Ok(Self::Perf),
            "nvml" => Ok(Self::Nvml),
            "amdgpu" => Ok(Self::AmdGpu),
            "hwmon" => Ok(Self::Hwmon),
            "model" => Ok(Self::Model),
            "none" => Ok(Self::None),
            _ => match word.strip_prefix("replay:") {
                Some("") => Err(SourceChoiceError::NoFile),
                Some(file) => Ok(Self::Replay(PathBuf::from(file))),
                None => Err(SourceChoiceError::Unknown(word.to_owned())),
            },
        }
    }
}

impl fmt::Display for SourceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Powercap => f.write_str("powercap"),
            Self::Perf => f.write_str("perf"),
            Self::Nvml => f.write_str("nvml"),
            Self::AmdGpu => f.write_str("amdgpu"),
            Self::Hwmon => f.write_str("hwmon"),
            Self::Model => f.write_str("model"),
            Self::Replay(file) => write!(f, "replay:{}", file.display()),
            Self::None => f.write_str("none"),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::{SourceChoice, SourceChoiceError};

    /// Every word is understood and printed as it was typed.
    #[test]
    fn words_round_trip() {
        for word in ["auto", "powercap", "perf", "nvml", "amdgpu", "hwmon", "model", "replay:a:b.csv", "none"]
        {
            assert_eq!(word.parse::<SourceChoice>().unwrap().to_string(), word);
        }
    }

    /// A wrong word and a replay without a file are told apart.
    #[test]
    fn wrong_words() {
        assert_eq!("rapl".parse::<SourceChoice>(), Err(SourceChoiceError::Unknown("rapl".into())));
        assert_eq!("replay:".parse::<SourceChoice>(), Err(SourceChoiceError::NoFile));
    }
}
