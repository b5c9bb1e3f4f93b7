//! Tables of a fleet of machines (Parquet), for engines that ask many hosts at once: `energy` by workload and
//! stack, `stacks` by what their frames are called, `ledger`, in which every domain adds up, and `work`, the units
//! that were done.
//!
//! Energy is in whole microjoules and no row is in two tables, so that any engine's sums are those of the
//! recording. Names of files and bytes follow from the recording alone: whoever uploads it twice has the same
//! objects.
//!
//! * `gather`: what each window of a profile holds; `objects`: the tables as files; `keys`: what these are
//!   called.
//!
//! Leaves out the questions (`sql/`), and where files go.

mod gather;
mod keys;
mod objects;

use crate::parquet::number_of;
use crate::{ExportOptions, Input, Object};
use energy_trace_model::collections::Order as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{DomainClass, FrameKind, WorkUnits};
use energy_trace_names::workload::Workload;
use energy_trace_report::csv::kind_word;
use indexmap::IndexSet;
use keys::Machine;
pub use keys::{is_day_of_fleet, is_file_of_fleet};
use std::collections::{HashMap, HashSet};
use std::io;

/// The one frame of stacks that are too many.
const OTHER_STACKS: &str = "[other stacks]";

/// Windows of one machine, to be written as four tables.
#[derive(Debug, Default)]
pub struct Fleet {
    facts: AgentFacts,
    machine: Machine,
    windows: Vec<Window>,
    programs: IndexSet<Program>,
    stacks: HashMap<i64, OfStack>,
    energy: HashMap<Key, Spent>,
    ledger: Vec<Accounts>,
    work: Vec<Done>,
}

/// What an agent knows beside the profile of its window; of a recording nothing of it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFacts {
    /// Kubernetes namespaces, by the UIDs of pods.
    pub namespaces: HashMap<String, String>,
    /// By how many nanoseconds the wall clock was set since the window before.
    pub clock_step_ns: Option<i64>,
    /// By how many it is off at the most; `None`: nobody keeps it right.
    pub clock_error_ns: Option<i64>,
    /// Windows that the spool has removed and no table has told of.
    pub removed_windows: Option<u64>,
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Window {
    /// Nanoseconds since 1970-01-01 UTC.
    start_ns: u64,
    length_ns: u64,
}

/// Whose energy it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Program {
    /// Of its pod.
    namespace: Option<String>,
    workload: Workload,
    name: String,
}

/// What tells rows of `energy` apart: positions in the tables above, and a stack's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    program: usize,
    stack: i64,
    window: usize,
    /// None where there is no power source.
    class: Option<DomainClass>,
}

/// What such a row holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent {
    uj: i64,
    cpu_ns: u64,
    samples: u64,
    /// 95 %, where the profile knows it.
    interval: Option<(i64, i64)>,
    quality: Option<&'static str>,
}

/// A stack by the names of its frames.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OfStack {
    /// Outermost first.
    frames: Vec<String>,
    kinds: Vec<&'static str>,
    module: Option<String>,
    api_call: Option<String>,
}

/// Numbers of a ledger's row.
const ACCOUNTS: usize = 7;

/// A domain's ledger in a window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Accounts {
    window: usize,
    domain: String,
    class: DomainClass,
    quality: &'static str,
    /// In the order of their columns: measured, target, other, idle, uncore, residual, unattributed.
    /// None where nothing of the window was read.
    uj: Option<[i64; ACCOUNTS]>,
    /// Of `unattributed`: what has another reason is a row more.
    reason: Option<&'static str>,
    /// Events that were lost, CPU time of energy-trace itself and windows that were removed, in the last window and first domain
    /// of a profile alone.
    lost: u64,
    tracer_cpu_ns: u64,
    removed: Option<u64>,
    warnings: Vec<String>,
}

/// What was done in a window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Done {
    name: String,
    window: usize,
    units: WorkUnits,
}

impl Fleet {
    /// Windows of an agent of which this is known.
    pub fn of_agent(facts: AgentFacts) -> Self {
        Self { facts, ..Self::default() }
    }

    /// Adds a profile: by windows of a minute where it is known over time, else as one window.
    ///
    /// # Errors
    /// When it is of several machines: their counters are told apart by labels alone.
    pub fn add(&mut self, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
        let machine = Machine::of(input.profile).ok_or_else(|| {
            io::Error::other(
                "the recording is of several machines: export those of each one, merged or not, by themselves",
            )
        })?;
        if self.windows.is_empty() {
            self.machine = machine;
        }
        gather::add(self, input, &options.of(input.profile));
        Ok(())
    }

    /// Puts stacks together beyond so many, those with the least energy first; how many these were. Sums
    /// stay.
    pub fn limit_stacks(&mut self, most: usize) -> usize {
        if self.stacks.len() <= most {
            return 0;
        }
        let mut of_stack: HashMap<i64, i64> = HashMap::new();
        for (key, spent) in &self.energy {
            let sum = of_stack.entry(key.stack).or_default();
            *sum = sum.saturating_add(spent.uj);
        }
        let mut largest: Vec<(i64, i64)> = of_stack.into_iter().map(|(stack, uj)| (-uj, stack)).collect();
        largest.sort_unstable();
        let kept: HashSet<i64> = largest.into_iter().map(|(_, stack)| stack).take(most).collect();
        let before = self.stacks.len();
        self.stacks.retain(|stack, _| kept.contains(stack));
        let merged = before - self.stacks.len();
        self.merge_others(&kept);
        merged
    }

    /// Rows of stacks that are not kept become those of one.
    fn merge_others(&mut self, kept: &HashSet<i64>) {
        let others = number_of(&[OTHER_STACKS]);
        let (frames, kinds) = (vec![OTHER_STACKS.to_owned()], vec![kind_word(FrameKind::Special)]);
        self.stacks.insert(others, OfStack { frames, kinds, module: None, api_call: None });
        for (key, spent) in std::mem::take(&mut self.energy) {
            let stack = if kept.contains(&key.stack) { key.stack } else { others };
            let is_merged = stack == others;
            let sum = self.energy.entry(Key { stack, ..key }).or_default();
            sum.add(spent);
            // Intervals of several rows do not add.
            sum.interval = spent.interval.filter(|_| !is_merged);
        }
    }

    /// The tables of each day.
    ///
    /// # Errors
    /// When a table is larger than its format can say.
    pub fn objects(&self) -> io::Result<Vec<Object>> {
        objects::of(self)
    }
}

/// All of a recording.
pub(super) fn write(input: &Input<'_>, options: &ExportOptions) -> io::Result<Vec<Object>> {
    let mut fleet = Fleet::default();
    fleet.add(input, options)?;
    fleet.objects()
}

/// Codes of what is to be known before a number is believed.
fn warnings(profile: &Profile) -> Vec<String> {
    let mut codes: Vec<String> = profile.diagnostics.iter().map(|found| found.code().to_owned()).collect();
    codes.order();
    codes.dedup();
    codes
}
