//! Power sources as they were found: what was taken, what was not and why. Part of what a recording holds (`record`).
//!
//! Leaves out the domains that they give (`domain`) and the sentences for reasons and remarks, which the report makes.

use super::domain::Quality;
use crate::units::MicroWatts;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which source: what drives it. A new one stands last, here and in `ALL`, and makes a new file format.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SourceId {
    /// RAPL through sysfs.
    Powercap,
    /// RAPL through the kernel's perf PMUs.
    Perf,
    /// Energy sensors of `/sys/class/hwmon`.
    Hwmon,
    /// NVIDIA GPUs.
    Nvml,
    /// AMD GPUs.
    AmdGpu,
    /// No counter: power estimated from CPU time.
    Model,
    /// A log of another meter.
    Replay,
    /// Another, by its name.
    Other(String),
    /// Power sensors of `/sys/class/hwmon`.
    HwmonPower,
    /// A battery or a UPS that discharges.
    Battery,
    /// What the host says that this guest draws.
    Host,
    /// What the server's BMC says that it draws.
    Bmc,
}

impl SourceId {
    /// All sources that this version knows.
    pub const ALL: [Self; 11] = [
        Self::Powercap,
        Self::Perf,
        Self::Hwmon,
        Self::Nvml,
        Self::AmdGpu,
        Self::Model,
        Self::Replay,
        Self::HwmonPower,
        Self::Battery,
        Self::Host,
        Self::Bmc,
    ];

    /// Its name, on the command line and in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Powercap => "powercap",
            Self::Perf => "perf",
            Self::Hwmon => "hwmon",
            Self::Nvml => "nvml",
            Self::AmdGpu => "amdgpu",
            Self::Model => "model",
            Self::Replay => "replay",
            Self::Other(name) => name,
            Self::HwmonPower => "hwmon-power",
            Self::Battery => "battery",
            Self::Host => "host",
            Self::Bmc => "bmc",
        }
    }

    /// What is known of its counters before they are read.
    pub const fn traits(&self) -> CounterTraits {
        let usual = CounterTraits {
            own_clock: true,
            known_hardware: true,
            moves_each_millisecond: false,
            steps_seldom: false,
        };
        match self {
            Self::Powercap | Self::Perf => CounterTraits { moves_each_millisecond: true, ..usual },
            Self::Hwmon | Self::Nvml | Self::AmdGpu | Self::Model | Self::Other(_) => usual,
            Self::HwmonPower | Self::Battery | Self::Host | Self::Bmc => {
                CounterTraits { own_clock: false, steps_seldom: true, ..usual }
            }
            Self::Replay => CounterTraits { own_clock: false, known_hardware: false, ..usual },
        }
    }

    /// Whether a meter of the whole machine that it has is the outer line of all other counters.
    pub const fn is_outer_line(&self) -> bool {
        matches!(self, Self::HwmonPower | Self::Battery | Self::Replay | Self::Bmc)
    }

    /// The source of that name.
    pub fn from_name(name: &str) -> Self {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.unwrap_or_else(|| Self::Other(name.to_owned()))
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known of the counters of a source before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterTraits {
    /// Whether readings have the time of this machine's clock; else the clock may be off, and values late.
    pub own_clock: bool,
    /// Whether a domain's class tells what hardware is behind its counter, and so what it can draw.
    pub known_hardware: bool,
    /// Whether a counter of CPUs that are on moves in every millisecond.
    pub moves_each_millisecond: bool,
    /// Whether it is read as power, or written by a host: it has a new value a few times a second at most.
    pub steps_seldom: bool,
}

/// A power source as it was found on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Which one.
    pub id: SourceId,
    /// Names of the domains taken from it.
    pub domains: Vec<String>,
    /// Time between two readings as asked for; 0 for a source that is not read (the model).
    pub period_ns: u64,
    /// How much its numbers can be trusted.
    pub quality: Quality,
    /// What it offers and is not used.
    pub ignored: Vec<Ignored>,
    /// Parameters and remarks for the reader.
    pub notes: Vec<SourceNote>,
}

/// A domain or source that is there and is not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ignored {
    /// Its name.
    pub domain: String,
    /// Why.
    pub reason: IgnoredReason,
}

/// Why a domain or a source is not used. Texts of errors are the system's or the library's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IgnoredReason {
    /// The driver's folder does not exist.
    NoDriver {
        /// The folder.
        path: String,
        /// How to load the driver.
        driver: Driver,
    },
    /// A folder that is there cannot be listed.
    Unlistable {
        /// The folder.
        path: String,
        /// The system's reason.
        error: String,
    },
    /// The driver is loaded and found no counter.
    NoZones {
        /// Its folder.
        path: String,
    },
    /// No chip below the folder has an energy sensor.
    NoSensors {
        /// The folder.
        path: String,
    },
    /// No card below the folder has the table that holds energy.
    NoCards {
        /// The folder.
        path: String,
    },
    /// The counter moves in steps too coarse to be divided among functions.
    TooCoarse {
        /// Joules of a step.
        step_j: u64,
    },
    /// A part of a domain that is read as a whole.
    PartOf(Whole),
    /// What psys covers on a further socket differs from board to board.
    FurtherPsys,
    /// It shows the counter of a domain that is read.
    SameCounter {
        /// That domain, or its zone.
        first: String,
    },
    /// Not a domain that this version knows.
    UnknownDomain,
    /// What this chip's energy is of is not known to this version.
    UnknownChip,
    /// A file cannot be read.
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        error: String,
    },
    /// Root alone may read the file.
    RootOnly {
        /// The file as it was looked for.
        path: String,
        /// Where it lies after all links.
        real_path: String,
        /// How this program is given the capabilities to read it.
        capabilities: String,
    },
    /// A perf event cannot be opened.
    EventRefused {
        /// The event: `power/energy-pkg/`.
        event: String,
        /// The system's reason.
        error: String,
    },
    /// Root alone may open the perf event.
    EventRootOnly {
        /// The event.
        event: String,
    },
    /// Powercap reads it already; the two are compared before the start.
    ReadByPowercap,
    /// It is read from a file, and none was named.
    NeedsFile,
    /// Another source reads the sockets.
    OtherSourceReadsSockets,
    /// GPUs are switched off.
    GpusOff,
    /// The CPUs have a counter, so that no model is needed.
    CpusHaveCounter,
    /// Estimates are refused.
    EstimatesRefused,
    /// The NVML library cannot be loaded, or does not work.
    Library {
        /// The library.
        path: String,
        /// What is wrong with it.
        problem: LibraryProblem,
    },
    /// The driver shows no device.
    NoDevice,
    /// The device's energy counter cannot be read.
    DeviceUnreadable {
        /// The driver's reason.
        error: String,
    },
    /// The device has no energy counter, and no power that says what it is a mean of.
    NoEnergyNoPower,
    /// The device has no energy counter, and estimates are refused.
    NoEnergyMeasuredOnly,
    /// The metrics table of the card cannot be used.
    Metrics(MetricsProblem),
    /// The source cannot be had.
    Failed {
        /// Why, as the source says it.
        error: String,
    },
    /// No chip below the folder has a power sensor.
    NoPowerSensors {
        /// The folder.
        path: String,
    },
    /// Another source measures the whole machine.
    OtherSourceReadsMachine,
    /// No battery or UPS is in the folder.
    NoBattery {
        /// The folder.
        path: String,
    },
    /// On mains a battery says nothing of what the machine draws.
    NotDischarging,
    /// The battery's driver tells no power, and no current with its voltage.
    BatteryTellsNoPower,
    /// An APU's sensor measures the CPUs too.
    ApuPower,
    /// The host's exporter does not write: the file is older than it should be.
    Stale {
        /// The file.
        path: String,
        /// Its age in seconds.
        age_s: u64,
    },
    /// The folder or file holds no energy and no power.
    NothingOfHost {
        /// The path.
        path: String,
    },
    /// The card's driver tells power and counts no energy, and nobody asked for sums.
    CardTellsPowerOnly,
}

/// A driver that gives energy counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Driver {
    /// RAPL in sysfs.
    IntelRaplMsr,
    /// RAPL as a PMU.
    Rapl,
}

/// What a part belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Whole {
    /// The domain of that name.
    Package(String),
    /// The package of an event.
    AnyPackage,
    /// The graphics card.
    Card,
    /// The socket.
    Socket,
}

/// What is wrong with an NVML library. Texts are the loader's or the library's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LibraryProblem {
    /// It cannot be loaded.
    NotLoaded(String),
    /// It lacks what an NVML library has.
    NotNvml(String),
    /// The driver is not loaded.
    DriverNotLoaded,
    /// The library and the loaded driver have different versions.
    VersionMismatch,
    /// Something else.
    Failed(String),
}

/// Why a card's metrics table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetricsProblem {
    /// It has no head.
    NoHead,
    /// It is cut off.
    CutOff,
    /// It is that of an APU, which holds no energy.
    Apu,
    /// It has a revision that is not known.
    Revision(u8, u8),
    /// The firmware counts no energy.
    NoEnergy,
}

/// A parameter of a source, or a remark on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceNote {
    /// The range of a domain's counter cannot be read: one that returns to zero is a gap and not a wrap.
    NoRange {
        /// The domain.
        domain: String,
        /// The file that should hold the range.
        path: String,
    },
    /// The processor adds noise to its energy counters.
    FilterOn,
    /// The processor may add noise to its energy counters; whether it does could not be read.
    FilterPossible,
    /// What hardware a domain is.
    DomainIs {
        /// The domain.
        domain: String,
        /// The sensor, card or device.
        place: String,
    },
    /// The version of NVIDIA's driver.
    Driver(String),
    /// A device's model.
    DeviceModel {
        /// The domain.
        domain: String,
        /// The model as the driver names it.
        model: String,
    },
    /// The device is split into instances, and the counter is that of all of them.
    MigOn {
        /// The domain.
        domain: String,
    },
    /// The device's power reading is a mean over a second and is not used.
    AveragedPowerUnused {
        /// The domain.
        domain: String,
    },
    /// The counter may include the CPU of the module.
    MayIncludeCpu {
        /// The domain.
        domain: String,
    },
    /// How long a step of the meter takes.
    MeterStep {
        /// The domain.
        domain: String,
        /// Nanoseconds of a step; `None`: it could not be seen before the start.
        tick_ns: Option<u64>,
    },
    /// By how much the counter differs from the device's own power.
    CounterAgainstPower {
        /// The domain.
        domain: String,
        /// The counter's energy over that of the power, in thousandths.
        permille: u32,
    },
    /// By how much perf differs from powercap.
    PerfAgainstPowercap {
        /// The domain.
        domain: String,
        /// The difference in thousandths.
        permille: i64,
    },
    /// What the model takes.
    ModelParameters {
        /// Power of the machine all the time.
        idle: MicroWatts,
        /// Power that one busy CPU adds.
        core: MicroWatts,
        /// Logical CPUs.
        cpus: u64,
    },
    /// The model uses its defaults.
    ModelDefaults,
    /// A log that is replayed.
    Replayed {
        /// The file.
        path: String,
        /// Its rows.
        rows: u64,
        /// Whether its times are those of the wall; else they count from the start of the run.
        wall_time: bool,
    },
    /// The most power that the device's driver lets it draw, on average over some tens of milliseconds.
    PowerLimit {
        /// The domain.
        domain: String,
        /// The limit.
        limit: MicroWatts,
    },
    /// Energy is the sum of power readings.
    PowerReadings {
        /// The domain.
        domain: String,
        /// The sensor, battery or file.
        place: String,
        /// For how long before it is read each is a mean, in nanoseconds; `None`: a moment, or not known.
        mean_ns: Option<u64>,
    },
    /// The model takes the median watts of published servers with this kind of CPU, for each logical CPU. Three numbers are where nine in ten begin,
    /// the median, and where nine in ten end.
    ModelOfServers {
        /// The kind of CPU.
        kind: String,
        /// How many results are published.
        results: u64,
        /// At rest.
        idle: [MicroWatts; 3],
        /// At full load.
        busy: [MicroWatts; 3],
    },
    /// How the model's power above idle goes with the load of its CPUs, and not in a straight line.
    LoadCurve {
        /// At a tenth of the load, in thousandths of that at full load.
        tenth: u32,
        /// At half of it.
        half: u32,
        /// Whether this is a guest, of whose host nobody knows the load: then it only says how wide the range
        /// is.
        guest: bool,
    },
    /// Energy is for how much of the time the device was busy, times its power limit.
    UtilizationOfLimit {
        /// The domain.
        domain: String,
    },
}

/// Where nine in ten of the servers published since 2012 lie, in thousandths of what the model takes for CPUs
/// that it does not know (Cloud Carbon Footprint's 3.50 W): 1.24 to 9.62 W of a busy CPU
/// (tests/fixtures/server_watts/make.py).
const ANY_SERVER: [u64; 2] = [354, 2_749];

/// What code that is heavy on vector instructions, on memory or on both draws, in thousandths of what a mix of loads draws on as many busy
/// CPUs: the least and the most of 11 measurements of servers (tests/fixtures/server_watts/code.csv).
pub const RANGE_OF_CODE: [u64; 2] = [870, 1_500];

/// A GPU that is busy draws at least a sixth of its limit, which it draws open and at rest (an H200 120 of
/// 700 W, docs/results/real-gpus.md), and at most all of it.
const BUSY_GPU: [u64; 2] = [167, 1_000];

impl Source {
    /// How far the energy of one of its domains may be off, in thousandths of it; `None` where it is not an
    /// estimate, or nobody knows.
    pub fn range_of(&self, domain: &str) -> Option<[u64; 2]> {
        let is_by_use =
            |note: &SourceNote| matches!(note, SourceNote::UtilizationOfLimit { domain: of } if of == domain);
        if self.notes.iter().any(is_by_use) { Some(BUSY_GPU) } else { self.range_of_model() }
    }

    /// How far the model's energy may be off, in thousandths of it, by its notes; `None` where it is not a
    /// model's, or its watts were given.
    pub fn range_of_model(&self) -> Option<[u64; 2]> {
        let of = |note: &SourceNote| match note {
            SourceNote::ModelDefaults => Some(ANY_SERVER),
            SourceNote::ModelOfServers { busy: [low, median, high], .. } => {
                let parts = |power: &MicroWatts| power.as_uw().saturating_mul(1_000) / median.as_uw().max(1);
                Some([parts(low), parts(high)])
            }
            _ => None,
        };
        let [low, high] = self.notes.iter().find_map(of)?;
        // A CPU of a host at half load draws more than its part of the host at full load.
        let wider = self.notes.iter().find_map(|note| match note {
            SourceNote::LoadCurve { half, guest: true, .. } => Some(u64::from(*half) * 2),
            _ => None,
        });
        let high = high.saturating_mul(wider.unwrap_or(1_000).max(1_000)) / 1_000;
        // Nobody tells which code ran.
        let [least, most] = RANGE_OF_CODE;
        Some([low.saturating_mul(least) / 1_000, high.saturating_mul(most) / 1_000])
    }
}
