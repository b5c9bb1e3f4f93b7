//! Words for power sources: why something is not used, what to know of what is used, how idle power was found; and for interpreters.

use super::{counted, in_millis, in_percent, in_seconds};
use energy_trace_model::recording::record::{
    Driver, IdleOrigin, IgnoredReason, LibraryProblem, MetricsProblem, OtherPython, RANGE_OF_CODE, Runtime,
    RuntimeRefusal, SourceNote, Whole,
};
use energy_trace_model::units::MicroWatts;

/// Why a domain or a source is not used, and what to do about it.
pub fn ignored_reason(reason: &IgnoredReason) -> String {
    match reason {
        IgnoredReason::NoDriver { path, driver } => no_driver(path, *driver),
        IgnoredReason::Unlistable { path, error } => format!("{path} cannot be listed: {error}"),
        IgnoredReason::NoZones { path } => format!("{path} has no zones: {NO_ZONES}"),
        IgnoredReason::NoSensors { path } => format!("{path} has no energy sensor (energyN_input)"),
        IgnoredReason::NoCards { path } => format!("{path} has no card with gpu_metrics"),
        IgnoredReason::TooCoarse { step_j } => format!("it counts in steps of {step_j} J: {TOO_COARSE}"),
        IgnoredReason::PartOf(whole) => format!("part of {}, which is read as a whole", name_whole(whole)),
        IgnoredReason::FurtherPsys => FURTHER_PSYS.to_owned(),
        IgnoredReason::SameCounter { first } => format!("shows the same counter as {first}"),
        IgnoredReason::UnknownDomain => "not a domain that this version knows".to_owned(),
        IgnoredReason::UnknownChip => UNKNOWN_CHIP.to_owned(),
        IgnoredReason::Unreadable { path, error } => format!("{path} cannot be read: {error}"),
        IgnoredReason::RootOnly { path, real_path, capabilities } => root_only(path, real_path, capabilities),
        IgnoredReason::EventRefused { event, error } => format!("{event} cannot be opened: {error}"),
        IgnoredReason::EventRootOnly { event } => {
            format!("only root may count {event}: {EVENT_ROOT}")
        }
        IgnoredReason::ReadByPowercap => READ_BY_POWERCAP.to_owned(),
        IgnoredReason::NeedsFile => "it needs a file: --power replay:FILE".to_owned(),
        IgnoredReason::OtherSourceReadsSockets => "another source reads the sockets".to_owned(),
        IgnoredReason::GpusOff => "GPUs are switched off (--gpu off)".to_owned(),
        IgnoredReason::CpusHaveCounter => "the CPUs have a counter".to_owned(),
        IgnoredReason::EstimatesRefused => "--measured-only refuses estimates".to_owned(),
        IgnoredReason::Library { path, problem } => library_problem(path, problem),
        IgnoredReason::NoDevice => "the driver shows no device".to_owned(),
        IgnoredReason::DeviceUnreadable { error } => format!("its energy counter cannot be read: {error}"),
        IgnoredReason::NoEnergyNoPower => NO_ENERGY_NO_POWER.to_owned(),
        IgnoredReason::NoEnergyMeasuredOnly => NO_ENERGY_MEASURED_ONLY.to_owned(),
        IgnoredReason::Metrics(problem) => metrics_problem(*problem),
        IgnoredReason::Failed { error } => error.clone(),
        IgnoredReason::NoPowerSensors { path } => format!("{path} has no power sensor that is known"),
        IgnoredReason::OtherSourceReadsMachine => "another source measures the whole machine".to_owned(),
        IgnoredReason::NoBattery { path } => format!("{path} has no battery and no UPS"),
        IgnoredReason::NotDischarging => NOT_DISCHARGING.to_owned(),
        IgnoredReason::BatteryTellsNoPower => "its driver tells neither power nor current".to_owned(),
        IgnoredReason::ApuPower => "an APU's power is that of its CPUs too".to_owned(),
        IgnoredReason::Stale { path, age_s } => {
            format!("{path} was written {age_s} s ago: {STALE}")
        }
        IgnoredReason::NothingOfHost { path } => format!("{path}: {NOTHING_OF_HOST}"),
        IgnoredReason::CardTellsPowerOnly => CARD_TELLS_POWER_ONLY.to_owned(),
    }
}

const CARD_TELLS_POWER_ONLY: &str = "its driver tells power and counts no energy; --power auto --power hwmon-power sums it up, as an estimate";
const NOT_DISCHARGING: &str = "it is not discharging, and on mains it does not say what the machine draws: unplug the laptop to measure";
const STALE: &str = "whoever keeps it does not run, or its folder is not shared any more";
const NOTHING_OF_HOST: &str = "neither a folder with intel-rapl:0/energy_uj (as `scaphandre qemu` keeps) nor a file with a number of watts";

const NO_ZONES: &str = "the intel_rapl_msr driver found no counter";
const TOO_COARSE: &str = "too coarse to split among functions";
const FURTHER_PSYS: &str = "what psys covers on a further socket differs from board to board";
const UNKNOWN_CHIP: &str = "this version does not know what is measured there";
const READ_BY_POWERCAP: &str = "read through powercap; the two are compared before the start";
const EVENT_ROOT: &str = "run under sudo, or `sudo sysctl kernel.perf_event_paranoid=0` until the next boot";
const NO_ENERGY_NO_POWER: &str = "has no energy counter and no power, nor says how busy it is and what its power limit is (virtual GPUs, MIG)";
const NO_ENERGY_MEASURED_ONLY: &str =
    "has no energy counter, and --measured-only refuses sums of power and other estimates";

fn root_only(path: &str, real_path: &str, capabilities: &str) -> String {
    format!(
        "only root can read {path}; run under sudo, or `sudo chmod a+r {real_path}` for every user until the next boot, or give \
         this program capabilities: {capabilities}"
    )
}

fn no_driver(path: &str, driver: Driver) -> String {
    let how = match driver {
        Driver::IntelRaplMsr => "(on Intel and on AMD from Zen: `sudo modprobe intel_rapl_msr`)",
        Driver::Rapl => "(`sudo modprobe rapl`)",
    };
    format!("{path} does not exist: a virtual machine without RAPL, or a kernel without the driver {how}")
}

fn name_whole(whole: &Whole) -> &str {
    match whole {
        Whole::Package(name) => name,
        Whole::AnyPackage => "the package",
        Whole::Card => "the card",
        Whole::Socket => "the socket",
    }
}

fn library_problem(library: &str, problem: &LibraryProblem) -> String {
    match problem {
        LibraryProblem::NotLoaded(error) => format!(
            "{library} cannot be loaded ({error}): no NVIDIA driver is installed, or it is elsewhere (--nvml-lib FILE)"
        ),
        LibraryProblem::NotNvml(error) => format!("{library} is not an NVML library ({error})"),
        LibraryProblem::DriverNotLoaded => {
            format!("{library}: the NVIDIA driver is not loaded (`sudo modprobe nvidia`)")
        }
        LibraryProblem::VersionMismatch => {
            format!("{library} and the loaded driver have different versions: reboot or reload the driver")
        }
        LibraryProblem::Failed(error) => format!("{library}: {error}"),
    }
}

fn metrics_problem(problem: MetricsProblem) -> String {
    match problem {
        MetricsProblem::NoHead => "its metrics table has no head".to_owned(),
        MetricsProblem::CutOff => "its metrics table is cut off".to_owned(),
        MetricsProblem::Apu => "its metrics table is that of an APU, which holds no energy".to_owned(),
        MetricsProblem::Revision(format, content) => {
            format!("its metrics table has revision {format}.{content}, which is not known to this version")
        }
        MetricsProblem::NoEnergy => "its firmware counts no energy".to_owned(),
    }
}

/// That these domains have no counter.
pub fn no_counter(domains: &[&str]) -> String {
    format!("no energy counter for {}: joules are CPU time times a constant", domains.join(", "))
}

/// A parameter of a source, or a remark on it.
pub fn source_note(note: &SourceNote) -> String {
    match note {
        SourceNote::NoRange { domain, path } => format!("{domain}: {path} cannot be read, {NO_RANGE}"),
        SourceNote::FilterOn => FILTER_ON.to_owned(),
        SourceNote::FilterPossible => FILTER_POSSIBLE.to_owned(),
        SourceNote::DomainIs { domain, place } => format!("{domain} is {place}"),
        SourceNote::Driver(version) => format!("NVIDIA driver {version}"),
        SourceNote::DeviceModel { domain, model } => format!("{domain}: {model}"),
        SourceNote::MigOn { domain } => format!("{domain}: {MIG_ON}"),
        SourceNote::AveragedPowerUnused { domain } => format!("{domain}: {AVERAGED_UNUSED}"),
        SourceNote::MayIncludeCpu { domain } => format!("{domain}: {MAY_INCLUDE_CPU}"),
        SourceNote::MeterStep { domain, tick_ns } => match tick_ns {
            Some(tick) => format!("{domain}: the meter steps every {:.0} ms", in_millis(*tick)),
            None => format!("{domain}: the meter's step could not be seen before the start"),
        },
        SourceNote::CounterAgainstPower { domain, permille } => {
            let percent = f64::from(*permille) / 10.0 - 100.0;
            format!("{domain}: the counter differs from instant power by {percent:+.1} %")
        }
        SourceNote::PerfAgainstPowercap { domain, permille } => {
            let percent = in_percent(*permille);
            format!("{domain}: perf differs from powercap by {percent:+.1} %, as compared before the start")
        }
        SourceNote::ModelParameters { idle, core, cpus } => {
            format!("estimated as {idle} idle plus {core} per busy CPU ({})", counted(*cpus, "CPU"))
        }
        SourceNote::ModelDefaults => format!("{MODEL_DEFAULTS}; {}; {SHARES}", other_code()),
        SourceNote::Replayed { path, rows, wall_time } => {
            let since = if *wall_time { "by wall time" } else { "from the start of the run" };
            format!("{path}: {}, {since}", counted(*rows, "row"))
        }
        SourceNote::PowerLimit { domain, limit } => format!("{domain}: power limit {limit}"),
        SourceNote::UtilizationOfLimit { domain } => format!("{domain}: {BY_USE}"),
        SourceNote::PowerReadings { domain, place, mean_ns } => {
            let each = mean_ns.map(|mean| format!(", each a mean of {:.0} ms", in_millis(mean)));
            format!("{domain} is {place}: a sum of power readings{}", each.unwrap_or_default())
        }
        SourceNote::ModelOfServers { kind, results, idle, busy } => of_servers(kind, *results, idle, busy),
        SourceNote::LoadCurve { half, guest: true, .. } => {
            let times = f64::from(*half) / 500.0;
            format!("{LOAD_UNKNOWN} {times:.1} times as much as at full load ({OF_TEADS})")
        }
        SourceNote::LoadCurve { tenth, half, guest: false } => {
            let [tenth, half] = [tenth, half].map(|part| f64::from(*part) / 10.0);
            format!(
                "at a tenth of the load the CPUs draw {tenth:.0} % of their power above idle, at half {half:.0} % ({OF_TEADS})"
            )
        }
    }
}

fn of_servers(kind: &str, results: u64, idle: &[MicroWatts; 3], busy: &[MicroWatts; 3]) -> String {
    let range = |[low, median, high]: &[MicroWatts; 3]| {
        let [low, median, high] = [low, median, high].map(|power| power.as_watts());
        format!("{median:.2} W ({low:.2} to {high:.2} in nine of ten)")
    };
    let (idle, busy) = (range(idle), range(busy));
    format!(
        "the watts are medians of {results} servers with {kind} in SPECpower_ssj2008: each CPU {idle} idle, {busy} busy; {}; {SHARES}",
        other_code()
    )
}

/// What the model does not see of a busy CPU.
fn other_code() -> String {
    let [least, most] = RANGE_OF_CODE.map(|part| part as f64 / 1e3);
    format!(
        "code heavy on vector instructions or memory draws {least:.1} to {most:.1} times as much (11 servers that Teads measured)"
    )
}

const NO_RANGE: &str = "so a counter that returns to zero is a gap and not a wrap";
const FILTER_ON: &str = "the processor blurs its energy counters (energy filtering is on, MSR 0xbc): short functions are less certain \
                         than their intervals say";
const FILTER_POSSIBLE: &str = "SGX is on, and with it the processor may blur its energy counters; `sudo modprobe msr` lets energy-trace \
                               look";
const MIG_ON: &str = "MIG is on, and the counter is that of the whole device: all instances share it";
const BY_USE: &str = "its energy is the time that any kernel ran on it times the power limit, which is 1 to 6 times as much as it draws then; what it \
                      draws at rest is not in it";
const AVERAGED_UNUSED: &str = "its power reading is a mean over a second and is not used";
const MAY_INCLUDE_CPU: &str =
    "its module has a CPU too: where its counter includes that, the total has it twice";
const SHARES: &str = "trust shares more than totals, or set --model-watts idle=W,core=W";
const MODEL_DEFAULTS: &str = "the watts are Cloud Carbon Footprint's server averages (0.74 W idle, 3.50 W busy per CPU), where nine in ten \
                              servers with other CPUs have 1.2 to 9.6 W busy";
const OF_TEADS: &str = "medians of 23 kinds of CPU that Teads measured";
const LOAD_UNKNOWN: &str =
    "this is a guest, and how busy its host is is not known: each busy CPU of a host at half load draws";

/// How idle power was found, and what it is worth.
pub fn idle_origin(origin: &IdleOrigin) -> String {
    match origin {
        IdleOrigin::Measured { over_ns, .. } => {
            let busy = origin.too_busy().map(|percent| {
                format!(", while the CPUs were {percent} % busy: less is taken for idle power")
            });
            format!(
                "measured over {:.1} s before the start{}",
                in_seconds(*over_ns),
                busy.unwrap_or_default()
            )
        }
        IdleOrigin::Given => "--idle-watts".to_owned(),
        IdleOrigin::Model => "parameter of the model".to_owned(),
        IdleOrigin::InUse(_) => "measured while the GPU was in use".to_owned(),
    }
}

/// The interpreter of a process.
pub fn runtime(runtime: &Runtime) -> String {
    match runtime {
        Runtime::CPython { version } => format!("CPython {version}"),
        Runtime::Refused { version, file, reason } => {
            let what = version.as_ref().map_or_else(|| format!("in {file}"), Clone::clone);
            let why = match reason {
                RuntimeRefusal::NoVersion => "its version cannot be told",
                RuntimeRefusal::UnknownVersion => {
                    "a version that is not known to this version of energy-trace"
                }
                RuntimeRefusal::DebugBuild => {
                    "a debug build that chains all objects, --with-trace-refs, whose layout is not known"
                }
                RuntimeRefusal::OtherTable => "its table of offsets is of another version",
                RuntimeRefusal::DamagedTable => "its table of offsets is damaged",
                RuntimeRefusal::NoSymbols => "its file has no symbols, by which its state would be found",
            };
            format!("CPython {what} ({why}: native frames only)")
        }
        Runtime::NotCPython(python) => format!("{} (not CPython: native frames only)", other_python(*python)),
    }
}

/// The name of the only one among these, with its version; `the Python` where that is not told.
pub(super) fn only_python(runtimes: &[Runtime]) -> String {
    match runtimes {
        [Runtime::NotCPython(python)] => other_python(*python).to_owned(),
        [Runtime::Refused { version: Some(version), .. }] => format!("CPython {version}"),
        _ => "the Python".to_owned(),
    }
}

const fn other_python(python: OtherPython) -> &'static str {
    match python {
        OtherPython::PyPy => "PyPy",
        OtherPython::GraalPy => "GraalPy",
        OtherPython::MicroPython => "MicroPython",
    }
}
