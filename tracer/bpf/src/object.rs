//! The BPF object: loading, its maps, attaching its programs.
//!
//! This room is the only one that names `aya`. Leaves out what the events mean (`decode`, `collector`).

use super::arch::address_bits;
use super::call_counts::CallCounts;
use super::error::ProbeError;
use super::per_cpu;
use super::process_maps::{Maps, Targets};
use super::ranges::{self, MarkProbes, RangeMaps};
use super::rings::Rings;
use super::row_maps::RowMaps;
use super::sampling::cpus::Cpus;
use super::settings::read_settings;
use super::task_times::Tasks;
use super::totals::Totals;
use super::uprobe_multi::{MultiLink, MultiProbe};
use crate::config::TraceConfig;
use aya::maps::{Array, HashMap, Map, MapData, MapError};
use aya::programs::raw_trace_point::RawTracePointLink;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::trace_point::TracePointLink;
use aya::programs::uprobe::{UProbeAttachPoint, UProbeLink, UProbeScope};
use aya::programs::{
    BtfTracePoint, Iter, PerfEvent, Program, ProgramError, RawTracePoint, TracePoint, UProbe,
};
use aya::sys::Stats;
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Unwinding;
use energy_trace_system::host::kernel::read_kernel_at;
use energy_trace_system::host::process_times::{ProcessTimes, read_process_times};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracer_ebpf::count::MOST_FUNCTIONS;
use tracer_ebpf::ranges::MOST;
use tracer_ebpf::wire::{BY_TASK, CpuState, GroupSettings, MOST_TASKS, MOST_TOTALS, Settings, lost, push};

/// The object that `cargo xtask build` makes of `tracer-ebpf`.
pub(crate) static PROBES: &[u8] = aya::include_bytes_aligned!(env!("ENERGY_TRACE_PROBES"));

/// Bytes of each ring buffer: two seconds of 1 kHz samples of two busy CPUs, or of 70,000 switches a second.
const RING_BYTES: u32 = 8 << 20;

/// Processes that may end on CPUs between two readings of power, up to a second apart: each place is looked at then, taken or not.
const MOST_ENDED: u32 = 1 << 15;

/// Bytes of the samples' ring buffer: more where every sample carries a copy of its stack, for as many CPUs as send some.
fn sample_bytes(unwinding: Unwinding, cpus: u32) -> u32 {
    match unwinding {
        Unwinding::Kernel => RING_BYTES,
        Unwinding::User => RING_BYTES.saturating_mul(2 * cpus.div_ceil(4).next_power_of_two().min(16)),
    }
}

/// Maps that have more entries than the object says, or fewer. The kernel takes memory for each at once.
fn map_entries(config: &TraceConfig, by_task: bool, (cpus, online): (u32, u32)) -> Vec<(&'static str, u32)> {
    let scratch = if config.gpu { 2 * cpus } else { cpus };
    let functions = if config.count { MOST_FUNCTIONS } else { 1 };
    let totals = match (config.sum_time, by_task) {
        (false, _) => 1,
        (true, false) => MOST_TOTALS,
        (true, true) => MOST_ENDED,
    };
    let mut entries = vec![
        ("SCRATCH", scratch),
        ("RAW", scratch),
        ("SAMPLES", sample_bytes(config.unwinding, online)),
        ("EVENTS", RING_BYTES),
        ("TOTALS_EVEN", totals),
        ("TOTALS_ODD", totals),
        ("RAN", if by_task { MOST_TASKS } else { 1 }),
        ("CALL_COUNTS", functions),
        ("OUTERMOST", if config.count { 4 * functions } else { 1 }),
    ];
    if config.ranges {
        entries.extend(ranges::MAPS.map(|map| (map, MOST)));
        entries.extend(config.range_probes.then_some((ranges::MARKS, MOST)));
    }
    if !config.gpu {
        // What only programs on GPU libraries write.
        entries.extend(["CALLERS", "OPEN_CALLS", "SITES"].map(|map| (map, 1)));
    }
    entries
}

/// Raw tracepoints, program and tracepoint: of time on CPUs.
const SWITCHES: [(&str, &str); 2] = [("on_switch", "sched_switch"), ("on_waking", "sched_waking")];
/// The same of the lives of processes.
const LIVES: [(&str, &str); 3] =
    [("on_fork", "sched_process_fork"), ("on_exec", "sched_process_exec"), ("on_exit", "sched_process_exit")];

/// What user space runs at a reading of power, where CPU time is summed; it is loaded as what it might be attached to.
const ON_READING: (&str, &str) = ("on_reading", "sched_switch");

/// In their place where CPU time is summed, and nobody waits for anybody: it reads the kernel's structs in place (BTF, Linux 5.5).
const ON_TURN: (&str, &str) = ("on_turn", "sched_switch");

/// In the place of that for an agent: what tells of tasks that are no more. Those that are, an iterator asks.
const ON_FREE: (&str, &str) = ("on_free", "sched_process_free");
const ON_TASK: (&str, &str) = ("on_task", "task");

fn switches(config: &TraceConfig) -> impl Iterator<Item = (&'static str, &'static str)> {
    SWITCHES.into_iter().filter(|_| !config.sum_time)
}

/// The one for a control group, and for an agent.
const ATTACH: (&str, &str) = ("on_attach", "cgroup_attach_task");

fn attach(config: &TraceConfig) -> Option<(&'static str, &'static str)> {
    (config.group.is_some() || config.is_always_on()).then_some(ATTACH)
}

fn tracepoints(config: &TraceConfig) -> impl Iterator<Item = (&'static str, &'static str)> {
    let on_reading = config.sum_time.then_some(ON_READING);
    switches(config).chain(LIVES).chain(attach(config)).chain(on_reading)
}

/// Loaded programs and the maps that user space writes.
pub struct Object {
    /// Shared with whoever attaches to libraries that are loaded later.
    ebpf: Arc<Mutex<Ebpf>>,
    /// One more than the highest number that a CPU may ever have.
    cpus: u32,
    /// Whether launches on GPUs are traced, or why they are not.
    pub launches: Result<bool, String>,
    /// Its programs, where the kernel takes their probes away together.
    together: Option<Arc<[MultiProbe; 2]>>,
    /// What counts calls, or why nothing can; `None` where nothing is to be counted, or once it is taken.
    pub counting: Option<Result<CallCounts, String>>,
    /// What programs tell of their ranges, or why they cannot; `None` where nobody is to, or once it is taken.
    pub ranges: Option<Result<RangeMaps, String>>,
    /// What probes of ranges lead to, or why there can be none; `None` where there are none, or once it is taken.
    pub marks: Option<Result<MarkProbes, String>>,
    /// The program that counts, and that of probes of ranges.
    multi_fds: Vec<RawFd>,
    /// The maps, until the collector takes them.
    pub maps: Option<Maps>,
    /// The map of targets once more: processes become targets while the collector has `maps`.
    targets: Targets,
    /// Tasks are asked for their CPU time.
    by_task: bool,
    /// What is attached; dropping it detaches.
    links: Vec<Link>,
    stats: Option<OwnedFd>,
    /// What loading took, by program.
    pub loaded: Vec<LoadedProgram>,
}

/// What the kernel did to load a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedProgram {
    /// Its name in the object.
    pub name: &'static str,
    /// Instructions that the verifier went through, branches again and again; `None` before Linux 5.16, which does not tell.
    pub verified_instructions: Option<u32>,
    /// From handing it over to having it.
    pub took: Duration,
}

/// An attached program.
#[expect(dead_code, reason = "held to be dropped")]
enum Link {
    Raw(RawTracePointLink),
    Turns(BtfTracePointLink),
    Classic(TracePointLink),
    Probe(UProbeLink),
}

impl Object {
    /// Loads and verifies everything; nothing runs yet. `cpus`: one more than the highest number that a CPU may ever have; `online`: how many
    /// there are now.
    pub fn load(config: &TraceConfig, cpus: u32, online: u32) -> Result<Self, ProbeError> {
        let (mut settings, group) = read_settings(config)?;
        settings.gpu = if config.gpu { cpus } else { 0 };
        match Self::load_with(config, (settings, group), (cpus, online)) {
            Err(error) if settings.totals == BY_TASK => {
                log::info!("CPU time is summed at switches: {error}");
                settings.totals = 1;
                Self::load_with(config, (settings, group), (cpus, online))
            }
            loaded => loaded,
        }
    }

    fn load_with(
        config: &TraceConfig,
        (settings, group): (Settings, GroupSettings),
        (cpus, online): (u32, u32),
    ) -> Result<Self, ProbeError> {
        let entries = map_entries(config, settings.totals == BY_TASK, (cpus, online));
        let mut ebpf = load_maps(&settings, &group, &entries)?;
        let mut loaded = load_usual(config, settings.totals == BY_TASK, &mut ebpf)?;
        let together = if config.gpu { load_together(&ebpf, &mut loaded).map(Arc::new) } else { None };
        let launches = match together {
            None if config.gpu => load_launches(&mut ebpf, &mut loaded),
            _ => Ok(config.gpu),
        };
        let counter = config.count.then(|| load_multi(&ebpf, &mut loaded, "on_counted_call"));
        let marks =
            config.range_probes.then(|| load_multi(&ebpf, &mut loaded, ranges::ON_MARK).map(MarkProbes));
        let ranges = config.ranges.then(|| load_ranges(&mut ebpf, &mut loaded));
        let (targets, again) = twice(&mut ebpf, "TARGETS")?;
        let maps = Maps {
            targets: again,
            spaces: map(&mut ebpf, "ADDRESS_SPACES")?,
            mappings: map(&mut ebpf, "MAPPINGS")?,
            pythons: map(&mut ebpf, "PYTHONS")?,
            hotspots: map(&mut ebpf, "HOTSPOTS")?,
            contexts: map(&mut ebpf, "CONTEXTS")?,
            changes: map(&mut ebpf, "CHANGES")?,
            changed: 0,
        };
        let counting = counter.map(|program| {
            let counts = map(&mut ebpf, "CALL_COUNTS").map_err(|error| error.to_string())?;
            Ok(CallCounts::new(program?, counts))
        });
        let counter = counting.iter().flatten().map(CallCounts::program);
        let multi_fds = counter.chain(marks.iter().flatten().map(MarkProbes::program)).collect();
        let ebpf = Arc::new(Mutex::new(ebpf));
        let (links, stats) = (Vec::new(), None);
        Ok(Self {
            ebpf,
            cpus,
            launches,
            together,
            counting,
            ranges,
            marks,
            multi_fds,
            maps: Some(maps),
            targets,
            by_task: settings.totals == BY_TASK,
            links,
            stats,
            loaded,
        })
    }

    /// To attach to GPU libraries; `None` where launches are not traced.
    pub fn launch_probes(&self) -> Option<LaunchProbes> {
        (self.launches == Ok(true))
            .then(|| LaunchProbes { ebpf: Arc::clone(&self.ebpf), together: self.together.clone() })
    }

    /// The ring buffers of samples and of events; can be taken once.
    pub fn take_rings(&mut self) -> Result<Rings, ProbeError> {
        let mut ebpf = lock(&self.ebpf);
        Ok(Rings::new(map(&mut ebpf, "SAMPLES")?, map(&mut ebpf, "EVENTS")?))
    }

    /// What takes summed CPU time out, from now on; can be had once, before switches are followed.
    pub fn take_totals(&mut self, cpus: Cpus) -> Result<Totals, ProbeError> {
        let mut ebpf = lock(&self.ebpf);
        let program: &mut RawTracePoint = program(&mut ebpf, ON_READING.0)?;
        let program =
            program.fd().map_err(|e| ProbeError::Object(e.to_string()))?.as_fd().try_clone_to_owned()?;
        let mut take = |name: &str| {
            ebpf.take_map(name).ok_or_else(|| ProbeError::Object(format!("it has no map {name}")))
        };
        let maps = [take("TOTALS_EVEN")?, take("TOTALS_ODD")?];
        let others = [take("NO_ROOM")?, take("READ_AT")?];
        let tasks = if self.by_task { Some(begin_tasks(&mut ebpf)?) } else { None };
        Ok(Totals::new(program, maps, others, cpus, tasks))
    }

    /// Makes a process a target.
    pub fn add_target(&mut self, pid: Pid, at_ns: u64) -> Result<(), ProbeError> {
        self.targets.insert(pid.get(), at_ns, 0).map_err(|e| ProbeError::attach("the map of targets", &e))
    }

    /// Targets that run, and what the kernel has counted of each.
    pub fn living_targets(&self) -> Vec<(Pid, ProcessTimes)> {
        let pids = self.targets.keys().flatten().map(Pid::new);
        pids.filter_map(|pid| Some((pid, read_process_times(pid)?))).collect()
    }

    /// Forgets targets that have ended. For the time in which nobody takes the events that say so, and before slices come.
    pub fn forget_ended(&mut self) {
        let pids: Vec<u32> = self.targets.keys().flatten().collect();
        for pid in pids.into_iter().filter(|&pid| read_process_times(Pid::new(pid)).is_none()) {
            let _gone = self.targets.remove(&pid);
        }
    }

    /// The map of row tables; can be taken once.
    pub fn take_rows(&mut self, mib: u32) -> Result<RowMaps, ProbeError> {
        let mut ebpf = lock(&self.ebpf);
        let (rows, full) = (map(&mut ebpf, "ROWS")?, map(&mut ebpf, "FULL_RULES")?);
        Ok(RowMaps::new(rows, full, (mib as usize) << 20))
    }

    /// What follows the life of processes. Gives a doubt where the mmap hook is not to be had.
    pub fn attach_lives(&mut self, config: &TraceConfig) -> Result<Option<String>, ProbeError> {
        self.attach_raw(LIVES.into_iter().chain(attach(config)))?;
        let mut ebpf = lock(&self.ebpf);
        mount_tracefs();
        let mmap: &mut TracePoint = program(&mut ebpf, "on_mmap")?;
        match mmap.attach("syscalls", "sys_enter_mmap").and_then(|id| mmap.take_link(id)) {
            Ok(link) => self.links.push(Link::Classic(link)),
            Err(error) => return Ok(Some(error.to_string())),
        }
        Ok(None)
    }

    /// What follows the time on CPUs: from now on there are events all the time, and somebody has to take them.
    pub fn attach_switches(&mut self, config: &TraceConfig) -> Result<(), ProbeError> {
        // Who runs now came before. On CPUs that can be visited a switch says it better at once.
        let mut state = [0; size_of::<CpuState>() / 8];
        state[0] = energy_trace_system::clock::now().as_ns();
        if let Some(map) = lock(&self.ebpf).map("CPU_STATE") {
            per_cpu::write(map, 0, &state, self.cpus)?;
        }
        if config.sum_time { self.attach_turns() } else { self.attach_raw(switches(config)) }
    }

    fn attach_turns(&mut self) -> Result<(), ProbeError> {
        let mut ebpf = lock(&self.ebpf);
        let (name, tracepoint) = if self.by_task { ON_FREE } else { ON_TURN };
        let turns: &mut BtfTracePoint = program(&mut ebpf, name)?;
        let link = turns.attach().and_then(|id| turns.take_link(id));
        self.links.push(Link::Turns(link.map_err(|e| ProbeError::attach(tracepoint, &e))?));
        Ok(())
    }

    fn attach_raw(
        &mut self,
        tracepoints: impl Iterator<Item = (&'static str, &'static str)>,
    ) -> Result<(), ProbeError> {
        let mut ebpf = lock(&self.ebpf);
        for (name, tracepoint) in tracepoints {
            let raw: &mut RawTracePoint = program(&mut ebpf, name)?;
            let link = raw.attach(tracepoint).and_then(|id| raw.take_link(id));
            self.links.push(Link::Raw(link.map_err(|e| ProbeError::attach(tracepoint, &e))?));
        }
        Ok(())
    }

    /// Has programs tell of their ranges: where they call this place of a file.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn attach_ranges(&mut self, path: &Path, offset: u64) -> Result<(), ProbeError> {
        let mut ebpf = lock(&self.ebpf);
        let uprobe: &mut UProbe = program(&mut ebpf, ranges::ON_RANGE)?;
        let point = UProbeAttachPoint { location: offset.into(), cookie: None };
        let link = uprobe.attach(point, path, UProbeScope::AllProcesses).and_then(|id| uprobe.take_link(id));
        self.links.push(Link::Probe(link.map_err(|error| ProbeError::attach(ranges::ON_RANGE, &error))?));
        Ok(())
    }

    /// The programs, for the sampler.
    pub const fn programs(&self) -> &Arc<Mutex<Ebpf>> {
        &self.ebpf
    }

    /// Ends the counting of calls: what is called from now on is not counted.
    pub fn stop_counting(&mut self) {
        if let Err(error) = set_flag(&mut lock(&self.ebpf), "COUNTED") {
            log::warn!("calls are counted until their probes are gone, some too many: {error}");
        }
    }

    /// Detaches everything but the sampler.
    pub fn detach(&mut self) {
        self.links.clear();
    }

    /// Has the kernel keep the time of programs from now on, or no more: that takes as long as a short program.
    pub fn keep_stats(&mut self, keep: bool) {
        self.stats = if keep { aya::sys::enable_stats(Stats::RunTime).ok() } else { None };
    }

    /// Sums of the loss counters over all CPUs, by `wire::lost`.
    pub fn read_lost(&self) -> [u64; lost::COUNT as usize] {
        self.read_counters("LOST", |values| values.iter().sum())
    }

    /// How long pushes took, by `wire::push`; all zero where that was not asked for.
    pub fn read_push_times(&self) -> [u64; push::COUNT as usize] {
        let mut times = self.read_counters("PUSH_TIMES", |values| values.iter().sum());
        let most = self.read_counters::<{ push::COUNT as usize }>("PUSH_TIMES", |values| {
            values.iter().copied().max().unwrap_or(0)
        });
        for slot in [push::SAMPLES, push::EVENTS] {
            times[slot as usize] = most[slot as usize];
        }
        times
    }

    /// A map of counters on each CPU, of each what `sum` makes of it; zeros where it cannot be read.
    fn read_counters<const COUNT: usize>(&self, name: &str, sum: impl Fn(&[u64]) -> u64) -> [u64; COUNT] {
        let mut sums = [0; COUNT];
        let ebpf = lock(&self.ebpf);
        let Some(counters) = ebpf.map(name) else { return sums };
        for (index, place) in (0u32..).zip(&mut sums) {
            *place = per_cpu::read(counters, index, self.cpus).map_or(0, |values| sum(&values));
        }
        sums
    }

    /// Time that all programs took while it was kept; `None` where the kernel does not keep it.
    pub fn read_run_time_ns(&self) -> Option<u64> {
        self.stats.as_ref()?;
        let single: u64 =
            lock(&self.ebpf).programs().filter_map(|(_, program)| read_program_ns(program)).sum();
        let together = self.together.iter().flat_map(|both| both.iter()).map(MultiProbe::fd);
        let others = together.chain(self.multi_fds.iter().copied());
        Some(single + others.filter_map(|program| read_fdinfo(program, "run_time_ns:")).sum::<u64>())
    }

    /// Passes on what the BPF side logs.
    pub(crate) fn logger(&mut self) -> Option<aya_log::EbpfLogger<&'static dyn log::Log>> {
        if !log::log_enabled!(log::Level::Debug) {
            return None;
        }
        aya_log::EbpfLogger::init(&mut lock(&self.ebpf))
            .inspect_err(|e| log::debug!("no log of the BPF side: {e}"))
            .ok()
    }
}

/// What a panic on another thread left behind is whole: every change is one call.
fn lock(ebpf: &Mutex<Ebpf>) -> MutexGuard<'_, Ebpf> {
    ebpf.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads the programs of every recording.
fn load_usual(
    config: &TraceConfig,
    by_task: bool,
    ebpf: &mut Ebpf,
) -> Result<Vec<LoadedProgram>, ProbeError> {
    let mut loaded = vec![load::<PerfEvent>(ebpf, "on_sample", PerfEvent::load)?];
    for (name, _) in tracepoints(config) {
        loaded.push(load::<RawTracePoint>(ebpf, name, RawTracePoint::load)?);
    }
    if config.sum_time {
        let (name, tracepoint) = if by_task { ON_FREE } else { ON_TURN };
        let load_turn = |turn: &mut BtfTracePoint| turn.load(tracepoint, &Btf::from_sys_fs()?);
        loaded.push(load::<BtfTracePoint>(ebpf, name, load_turn)?);
    }
    if by_task {
        let load_task = |task: &mut Iter| task.load(ON_TASK.1, &Btf::from_sys_fs()?);
        loaded.push(load::<Iter>(ebpf, ON_TASK.0, load_task)?);
    }
    loaded.push(load::<TracePoint>(ebpf, "on_mmap", TracePoint::load)?);
    Ok(loaded)
}

/// Loads the programs on GPU libraries. They need Linux 5.15 (cookies of attachments); without them everything else goes on.
fn load_launches(ebpf: &mut Ebpf, loaded: &mut Vec<LoadedProgram>) -> Result<bool, String> {
    for name in [ON_CALL, ON_RETURN] {
        loaded.push(load::<UProbe>(ebpf, name, UProbe::load).map_err(|error| error.to_string())?);
    }
    Ok(true)
}

const ON_CALL: &str = "on_gpu_call";
const ON_RETURN: &str = "on_gpu_return";

/// The object with its maps, of which these have so many entries.
fn load_maps(
    settings: &Settings,
    group: &GroupSettings,
    entries: &[(&str, u32)],
) -> Result<Ebpf, ProbeError> {
    let level = if log::log_enabled!(log::Level::Debug) { 5u8 } else { 0 };
    let address_bits = address_bits();
    let mut loader = EbpfLoader::new();
    loader
        .verifier_log_level(VerifierLogLevel::STATS)
        .override_global("SETTINGS", settings, true)
        .override_global("GROUP", group, true)
        .override_global(aya_log::LEVEL, &level, false);
    if let Some(bits) = &address_bits {
        loader.override_global("ADDRESS_BITS", bits, true);
    }
    for (map, entries) in entries {
        loader.map_max_entries(map, *entries);
    }
    loader.load(PROBES).map_err(|e| ProbeError::load(&e))
}

/// Loads the program that is told of ranges, and gives what it keeps.
fn load_ranges(ebpf: &mut Ebpf, loaded: &mut Vec<LoadedProgram>) -> Result<RangeMaps, String> {
    let mut all = || {
        loaded.push(load::<UProbe>(ebpf, ranges::ON_RANGE, UProbe::load)?);
        Ok::<_, ProbeError>(RangeMaps {
            paths: map(ebpf, "RANGE_PATHS")?,
            labels: map(ebpf, "RANGE_LABELS")?,
            marks: Vec::new(),
        })
    };
    all().map_err(|error| error.to_string())
}

/// Loads a program that needs Linux 6.6, which takes thousands of probes at once.
fn load_multi(
    ebpf: &Ebpf,
    loaded: &mut Vec<LoadedProgram>,
    name: &'static str,
) -> Result<MultiProbe, String> {
    let start = Instant::now();
    let kernel = || read_kernel_at(Path::new("/"));
    let program = MultiProbe::load(PROBES, ebpf, name, false).map_err(|error| refused(&error, &kernel()))?;
    let verified = read_fdinfo(program.fd(), "verified_insns:").and_then(|count| count.try_into().ok());
    loaded.push(LoadedProgram { name, verified_instructions: verified, took: start.elapsed() });
    Ok(program)
}

/// Why there are no such probes; an older kernel's own words say nothing of that.
fn refused(error: &std::io::Error, kernel: &str) -> String {
    let mut numbers = kernel.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) < (6, 6) => {
            format!("they need Linux 6.6, and this is {kernel} ({error})")
        }
        _ => error.to_string(),
    }
}

/// The same programs as the kernel takes their probes away together; `None` where it is older than that.
fn load_together(ebpf: &Ebpf, loaded: &mut Vec<LoadedProgram>) -> Option<[MultiProbe; 2]> {
    let mut load = |name, returns| {
        let start = Instant::now();
        let program = MultiProbe::load(PROBES, ebpf, name, returns)?;
        let verified = read_fdinfo(program.fd(), "verified_insns:").and_then(|count| count.try_into().ok());
        loaded.push(LoadedProgram { name, verified_instructions: verified, took: start.elapsed() });
        Ok::<_, std::io::Error>(program)
    };
    let both = load(ON_CALL, false).and_then(|call| Ok([call, load(ON_RETURN, true)?]));
    both.inspect_err(|error| log::info!("GPU launches: probes one by one ({error})")).ok()
}

/// Asks all tasks for the first time.
fn begin_tasks(ebpf: &mut Ebpf) -> Result<Tasks, ProbeError> {
    let looks = map(ebpf, "LOOKS")?;
    let program: &mut Iter = program(ebpf, ON_TASK.0)?;
    let fd = program.fd().map_err(|e| ProbeError::Object(e.to_string()))?;
    Tasks::begin(fd.as_fd(), looks).map_err(|e| ProbeError::attach(ON_TASK.0, &e))
}

/// Attaches to functions of GPU libraries.
pub struct LaunchProbes {
    ebpf: Arc<Mutex<Ebpf>>,
    together: Option<Arc<[MultiProbe; 2]>>,
}

/// A probe, until it is dropped; that takes the kernel some 100 milliseconds (see `drop_together`).
pub enum Attached {
    /// At one place.
    Single(UProbeLink),
    /// At many places at once.
    Multi(MultiLink),
}

impl LaunchProbes {
    /// Probes a place in a file for all processes, and its function's return where that is wanted; says why it cannot.
    pub fn attach(
        &self,
        path: &Path,
        offset: u64,
        cookie: u64,
        returns: bool,
    ) -> Result<Vec<Attached>, String> {
        if let Some(programs) = &self.together {
            let wanted = programs.iter().take(1 + usize::from(returns));
            let links = wanted.map(|program| program.attach(path, offset, cookie).map(Attached::Multi));
            return links
                .collect::<Result<_, _>>()
                .map_err(|error| ProbeError::attach(ON_CALL, &error).to_string());
        }
        let mut ebpf = lock(&self.ebpf);
        let mut attached = Vec::new();
        for name in [ON_CALL, ON_RETURN].into_iter().take(1 + usize::from(returns)) {
            let point = UProbeAttachPoint { location: offset.into(), cookie: Some(cookie) };
            let uprobe: &mut UProbe = program(&mut ebpf, name).map_err(|error| error.to_string())?;
            let link = uprobe
                .attach(point, path, UProbeScope::AllProcesses)
                .and_then(|id| uprobe.take_link(id))
                .map_err(|error| ProbeError::attach(name, &error).to_string())?;
            attached.push(Attached::Single(link));
        }
        Ok(attached)
    }

    /// Has the programs pass over calls of runtime libraries.
    pub fn detach_runtimes(&self) -> Result<(), String> {
        set_flag(&mut lock(&self.ebpf), "RUNTIME_LEFT")
    }
}

/// Tells the programs that something is over, in a map of one word for that.
fn set_flag(ebpf: &mut Ebpf, name: &str) -> Result<(), String> {
    let map = ebpf.map_mut(name).ok_or_else(|| format!("no map {name}"))?;
    let mut flag: Array<_, u32> = Array::try_from(map).map_err(|error| error.to_string())?;
    flag.set(0, 1, 0).map_err(|error| error.to_string())
}

fn program<'a, P>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut P, ProbeError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let missing = || ProbeError::Object(format!("it has no program {name}"));
    let program = ebpf.program_mut(name).ok_or_else(missing)?;
    <&mut P>::try_from(program).map_err(|e| ProbeError::Object(e.to_string()))
}

/// Has the kernel verify and load one program.
fn load<P>(
    ebpf: &mut Ebpf,
    name: &'static str,
    load: impl FnOnce(&mut P) -> Result<(), ProgramError>,
) -> Result<LoadedProgram, ProbeError>
where
    for<'a> &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let start = Instant::now();
    load(program(ebpf, name)?).map_err(|e| ProbeError::verify(name, &e))?;
    let took = start.elapsed();
    let info = ebpf.program(name).and_then(|program| program.info().ok());
    let verified_instructions = info.and_then(|info| info.verified_instruction_count());
    log::debug!("{name}: loaded in {took:?}, {verified_instructions:?} verified instructions");
    Ok(LoadedProgram { name, verified_instructions, took })
}

/// Two handles of one hash map.
fn twice(ebpf: &mut Ebpf, name: &str) -> Result<(Targets, Targets), ProbeError> {
    let Some(Map::HashMap(data)) = ebpf.take_map(name) else {
        return Err(ProbeError::Object(format!("it has no hash map {name}")));
    };
    let again = MapData::from_fd(data.fd().as_fd().try_clone_to_owned()?)?;
    Ok((HashMap::try_from(Map::HashMap(data))?, HashMap::try_from(Map::HashMap(again))?))
}

fn map<T: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &str) -> Result<T, ProbeError> {
    let map = ebpf.take_map(name).ok_or_else(|| ProbeError::Object(format!("it has no map {name}")))?;
    T::try_from(map).map_err(|e| ProbeError::Object(e.to_string()))
}

/// `run_time_ns` of a program, from its fdinfo (Documentation/bpf/bpf_design_QA.rst; kernel/bpf/syscall.c `bpf_prog_show_fdinfo`).
fn read_program_ns(program: &Program) -> Option<u64> {
    let fd = match program {
        Program::PerfEvent(p) => p.fd(),
        Program::RawTracePoint(p) => p.fd(),
        Program::BtfTracePoint(p) => p.fd(),
        Program::TracePoint(p) => p.fd(),
        Program::Iter(p) => p.fd(),
        Program::UProbe(p) => p.fd(),
        _ => return None,
    };
    read_fdinfo(fd.ok()?.as_fd().as_raw_fd(), "run_time_ns:")
}

/// A line of a program's fdinfo.
fn read_fdinfo(program: RawFd, line_of: &str) -> Option<u64> {
    let path = format!("/proc/self/fdinfo/{program}");
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(line_of)?.trim().parse().ok())
}

/// The mmap hook is a classic tracepoint, whose number lies in tracefs. Where nobody mounted it, this does, at its usual place.
fn mount_tracefs() {
    let place = Path::new("/sys/kernel/tracing");
    if !place.join("events").exists() {
        let none = None::<&Path>;
        let result =
            nix::mount::mount(Some("tracefs"), place, Some("tracefs"), nix::mount::MsFlags::empty(), none);
        if let Err(error) = result {
            log::debug!("tracefs cannot be mounted: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::refused;

    /// Only a kernel that is too old is told so.
    #[test]
    fn an_older_kernel() {
        let error = std::io::Error::from_raw_os_error(libc::EINVAL);
        let is_told = |kernel| refused(&error, kernel).contains("Linux 6.6");
        assert_eq!(["5.15.0-91-generic", "6.5", "6.1.0"].map(is_told), [true; 3]);
        assert_eq!(["6.6.1", "6.18.44-fc-v782", "7.0", "", "unknown"].map(is_told), [false; 5]);
    }
}
