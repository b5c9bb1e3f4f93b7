//! Studies: programs that ran again and again, and whether they differ.
//!
//! `measured` takes the numbers of one run from its profile, `quantities` says what is asked of runs, `results` compares programs, and
//! `sweeps` asks how a quantity grows with a size. Leaves out running them (`conductor`), and tables (`tables`).

mod measured;
mod quantities;
mod results;
mod sweeps;

pub use measured::{Grade, Measured, Units};
pub use quantities::Kind;
pub use results::{Beside, Block, Cell, Group, results};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use sweeps::{Sweep, SweepPoint, sweeps};

/// A study: what was planned, and the runs so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// The seed of the order of runs and of intervals.
    pub seed: u64,
    /// Rounds that were planned: in each, every program runs once.
    pub rounds: u32,
    /// The variable whose values are compared; `None`: all programs are.
    #[serde(default)]
    pub compared: Option<String>,
    /// The variable that is a size, against which quantities are held.
    #[serde(default)]
    pub against: Option<String>,
    /// The metric or unit that counts the work of a run, by which energies and times are divided.
    #[serde(default)]
    pub per: Option<String>,
    /// What the user noted.
    #[serde(default)]
    pub noted: BTreeMap<String, String>,
    /// What is compared.
    pub programs: Vec<Program>,
    /// Runs, in the order in which they were made.
    pub runs: Vec<Run>,
    /// What a reader should know of the machine, a sentence each.
    pub notes: Vec<String>,
    /// How runs were made.
    #[serde(default)]
    pub design: Design,
}

/// How the runs of a study are made, beside their number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Runs of each program before the first round.
    pub warm_ups: u32,
    /// Seconds of pause before each run.
    pub rest_s: f64,
    /// The part within which power had to be the same in a row of looks before each run; `None`: nobody waited for that.
    pub stable: Option<f64>,
    /// Options of recordings.
    pub record: Vec<String>,
}

/// One program of a study.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name in tables.
    pub label: String,
    /// The command.
    pub command: Vec<String>,
    /// Programs of one group are compared with each other.
    pub group: String,
    /// The variables of a suite, with their values here.
    pub variables: BTreeMap<String, String>,
}

/// What a run was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// It counts.
    #[default]
    Counted,
    /// It warmed the machine and its caches.
    WarmUp,
    /// Nothing ran: the machine's idle power.
    Idle,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome", content = "why")]
pub enum Outcome {
    /// With status 0.
    #[default]
    Done,
    /// With another status; 128 and more are signals.
    Failed(i32),
    /// It took longer than it may.
    TimedOut,
    /// Its recording could not be made or read.
    NotRecorded(String),
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its number in the plan, from 1.
    pub number: usize,
    /// Which program; `None`: nothing.
    pub program: Option<usize>,
    /// In which round, from 1; 0 before them.
    pub round: u32,
    /// What for.
    pub purpose: Purpose,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its numbers; `None` where there is no recording of it.
    pub measured: Option<Measured>,
    /// What the program printed of itself.
    pub metrics: BTreeMap<String, f64>,
    /// How often it called what, as it printed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, f64>,
    /// Versions and the like: of the machine, and what the program printed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Whether power became stable before it in time; `None` where nobody waited for that.
    #[serde(default)]
    pub stable: Option<bool>,
    /// CPUs that other programs kept busy before it; `None` where nobody looked.
    pub busy_cpus: Option<f64>,
    /// Highest temperature of the machine's sensors before it, in degrees Celsius.
    pub celsius: Option<f64>,
}

impl Run {
    /// Energy of the program; `None` where none was recorded.
    pub(crate) fn joules(&self) -> Option<f64> {
        let of = self.measured.as_ref()?;
        of.grade.map(|_| of.joules)
    }

    /// Whether its numbers count.
    pub fn counts(&self) -> bool {
        self.purpose == Purpose::Counted && self.outcome == Outcome::Done
    }
}
