//! Where joules come from: power domains and readings of them. Part of what a recording holds (`record`).
//!
//! Leaves out the sources (`sources`), reading them (`power/`) and what the readings mean (`timeline/`).

use super::sources::SourceId;
use crate::clock::KtimeNs;
use crate::ids::{CpuId, DomainId, Pid, SocketId};
use crate::units::{MicroJoules, MicroWatts};
use serde::{Deserialize, Serialize};

/// Where a number of joules comes from. The order is by trust; a sum is as good as its worst part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// Read from a counter.
    Measured,
    /// A counter split by a model.
    Apportioned,
    /// No counter at all.
    Estimated,
}

/// What kind of hardware a domain is. Classes are columns of a report. `psys` contains the others and `core`
/// is part of `package`: neither is added to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DomainClass {
    /// A CPU socket.
    Package,
    /// Memory.
    Dram,
    /// A GPU device.
    Gpu,
    /// The whole platform.
    Psys,
    /// One core of a CPU, where the hardware counts it: a part of its package.
    Core,
}

impl DomainClass {
    /// All classes, in the order in which reports show them.
    pub const ALL: [Self; 5] = [Self::Package, Self::Dram, Self::Gpu, Self::Psys, Self::Core];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Dram => "dram",
            Self::Gpu => "gpu",
            Self::Psys => "psys",
            Self::Core => "core",
        }
    }

    /// Whether its energy adds to that of the other classes: psys contains them, and a core is contained in its package.
    pub const fn adds_up(self) -> bool {
        !matches!(self, Self::Psys | Self::Core)
    }
}

/// A power domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Domain {
    /// Its number in this recording.
    pub id: DomainId,
    /// Its name, unique in this recording: `package-0`, `dram-1`, `psys`, `gpu-0`.
    pub name: String,
    /// What kind of hardware it is.
    pub class: DomainClass,
    /// Whose activity it pays for.
    pub scope: Scope,
    /// Where its numbers come from.
    pub origin: Origin,
    /// Power when nothing runs, where it is known.
    pub idle: Option<IdleBaseline>,
}

impl Domain {
    /// Whether it measures a module: a socket's CPUs and memory, the GPU soldered to it, and what feeds them.
    pub fn is_module(&self) -> bool {
        self.class == DomainClass::Psys && matches!(self.scope, Scope::Socket(_))
    }

    /// Whether it measures the whole machine.
    pub fn is_machine(&self) -> bool {
        self.class == DomainClass::Psys && self.scope == Scope::Machine
    }

    /// Where its numbers come from. Shares of a counter are at best apportioned: `LedgerRow::split_quality`.
    pub const fn quality(&self) -> Quality {
        match self.origin {
            Origin::Counter { quality, .. } => quality,
            Origin::Model { .. } => Quality::Estimated,
        }
    }

    /// What kept it busy while its idle power was to be measured, and the power that it drew then.
    pub fn in_use(&self) -> Option<(&InUse, MicroWatts)> {
        match self.idle.as_ref()? {
            IdleBaseline { power, origin: IdleOrigin::InUse(by) } => Some((by, *power)),
            _ => None,
        }
    }
}

/// The CPUs whose work draws on a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// The CPUs of one socket.
    Socket(SocketId),
    /// All CPUs.
    Machine,
    /// No CPU: a GPU, by its index. CPU time says nothing about its energy.
    Gpu(u32),
    /// The one or two CPUs of a core, the first and the last.
    Core(CpuId, CpuId),
}

/// How the energy of a domain is learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Origin {
    /// A counter that only grows, in microjoules.
    Counter {
        /// The source.
        source: SourceId,
        /// Where it is read (a path, a device).
        place: String,
        /// The counter returns to zero after this value; `None` when it never does or nobody knows.
        max_range: Option<MicroJoules>,
        /// `Measured` or, for a counter that is itself a model, `Estimated`.
        quality: Quality,
    },
    /// No counter: idle power all the time plus a power per busy CPU.
    Model {
        /// Power of the scope when nothing runs.
        idle: MicroWatts,
        /// Power that one busy CPU adds.
        core: MicroWatts,
    },
}

impl Origin {
    /// A counter that hardware measures.
    pub fn measured(source: &str, place: String, max_range: Option<MicroJoules>) -> Self {
        Self::Counter { source: SourceId::from_name(source), place, max_range, quality: Quality::Measured }
    }

    /// Where its counter is read; a model has none.
    pub fn place(&self) -> Option<&str> {
        match self {
            Self::Counter { place, .. } => Some(place),
            Self::Model { .. } => None,
        }
    }
}

/// Power of a domain when nothing runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleBaseline {
    /// The power.
    pub power: MicroWatts,
    /// How it was found.
    pub origin: IdleOrigin,
}

/// How the power of a domain when nothing runs was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdleOrigin {
    /// Measured before the start.
    Measured {
        /// For so long, in nanoseconds.
        over_ns: u64,
        /// How busy the CPUs were meanwhile, in percent, where that is known.
        busy_percent: Option<u64>,
    },
    /// Given on the command line.
    Given,
    /// A parameter of the model.
    Model,
    /// While a GPU was at work. The power is what it drew then: idle power and what those drew who used it.
    InUse(InUse),
}

/// What kept a GPU busy while its idle power was to be measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InUse {
    /// For how much of the time, in percent, where the driver says that.
    pub percent: Option<u64>,
    /// The processes that computed on it, some of them, as the driver numbers them.
    pub pids: Vec<u32>,
}

impl IdleOrigin {
    /// How busy the CPUs were while it was measured, in percent, where that is too much for a machine at rest: a tenth is what a desktop does.
    pub fn too_busy(&self) -> Option<u64> {
        match self {
            Self::Measured { busy_percent, .. } => busy_percent.filter(|percent| *percent >= 10),
            Self::Given | Self::Model | Self::InUse(_) => None,
        }
    }
}

/// What the energy of a GPU is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GpuMeterKind {
    /// The device's energy counter.
    Counter,
    /// The counter of its module, CPU included.
    ModuleCounter,
    /// A sum of power readings that are not averaged.
    InstantPower,
    /// A sum of power readings, each the mean of a second.
    AveragedPower,
    /// For how much of the time it was busy, times its power limit.
    Utilization,
}

/// How the meter of a GPU behaves, as far as it was found out. A later record of the same domain replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuMeter {
    /// What it is.
    pub kind: GpuMeterKind,
    /// Time between two steps in nanoseconds.
    pub tick_ns: Option<u64>,
    /// How much later a step is than what it measured, against the driver's own power samples, in nanoseconds.
    pub lag_ns: Option<u64>,
    /// The part at the end of each step that the sensor looks at, in nanoseconds.
    pub window_ns: Option<u64>,
    /// The counter's energy over that of the instant power, in thousandths.
    pub agreement_permille: Option<u32>,
}

/// How busy a process kept a GPU's multiprocessors over a stretch of time, as the driver samples it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUse {
    /// From here.
    pub from: KtimeNs,
    /// To here.
    pub to: KtimeNs,
    /// The process, as the driver's own pid namespace numbers it.
    pub pid: Pid,
    /// Percent of the time.
    pub sm_percent: u8,
}

/// One reading of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Half-way between just before and just after the read.
    pub at: KtimeNs,
    /// The counter.
    pub value: CounterValue,
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CounterValue {
    /// It could not be read; why is in the summary's diagnostics.
    Failed,
    /// Microjoules since some past moment.
    MicroJoules(u64),
}
