//! The loaded probes: load, start, stop.
//!
//! Leaves out what becomes of events (`collect/`) and what samples (`sampling/`).

use super::collect::backlog::Refused;
use super::collect::collector::Collector;
use super::collect::live::LiveNames;
use super::collect::losses::{
    closed_files, count_into, events_refused, files_not_read, losses_of, lost_so_far, not_answering,
    push_times, shortages,
};
use super::collect::reader::Reader;
use super::collect::totals::TimeReader;
use super::count::{CountName, Counting, OfPython, ToCount, UnitsOfCalls, send_python_counts};
use super::gpu::{GpuDevice, Listener};
use super::processes::registry::{Processes, Scope};
use super::range_library::place_in;
use super::range_probes::{RangeProbe, RangeProbes};
use super::records::RecordSender;
use super::stacks::builder::StackBuilder;
use super::stacks::interner::Interner;
use super::stacks::naming::{send_names, send_public_names};
use super::stacks::ranges::Ranges;
use super::tables::files::Files;
use energy_trace_bpf::config::{LiveCounts, TraceAccount, TraceConfig, TraceEnd};
use energy_trace_bpf::error::ProbeError;
use energy_trace_bpf::log::LogPump;
use energy_trace_bpf::object::{LoadedProgram, Object};
use energy_trace_bpf::process_maps::Maps;
use energy_trace_bpf::sampling::cpus::{Cpus, visit};
use energy_trace_bpf::sampling::event::{Machine, SampleEvent, decide};
use energy_trace_bpf::sampling::rate::{Limits, Rate, read_limit_at, read_ticks};
use energy_trace_bpf::sampling::sampler::{Sampler, Started};
use energy_trace_bpf::sampling::watch::{Slowed, Watch};
use energy_trace_foreign::files::SeenFile;
use energy_trace_foreign::peeker::Peeker;
use energy_trace_foreign::resolver::Resolver;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, Pid};
use energy_trace_model::recording::ranges::{RangeDiagnostic, RangesNotRecorded};
use energy_trace_model::recording::record::{
    CallDiagnostic, Jitter, LaunchDiagnostic, LossReason, ProbeFailure, Record, RecordingDiagnostic,
    Unwinding,
};
use energy_trace_system::allocator::{RECORDING, return_large_blocks, trim};
use energy_trace_system::host::process_times::ProcessTimes;
use energy_trace_unwind::elf::path_of;
use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use tracer_ebpf::wire::{OURS, lost};

/// The loaded probes, from before the start to the end.
pub struct Tracer {
    object: Object,
    cpus: Cpus,
    config: TraceConfig,
    /// With who made each, where that is known.
    followed: Vec<(Pid, Option<Pid>)>,
    held: Option<Pid>,
    to_prefetch: Vec<SeenFile>,
    to_count: ToCount,
    gpu_libraries: Vec<SeenFile>,
    gpu_devices: Vec<GpuDevice>,
    injected: Option<(PathBuf, UnixListener)>,
    /// The library that tells of ranges.
    tells_ranges: Option<PathBuf>,
    /// Ranges between static probes, and files that may have some before the start.
    range_probes: (Vec<RangeProbe>, Vec<SeenFile>),
    /// What samples and how often, once it does.
    sampling: Option<(SampleEvent, Rate)>,
    sampler: Option<Arc<Mutex<Sampler>>>,
    slowed: Slowed,
    reader: Option<Reader>,
    time: Option<Arc<TimeReader>>,
    diagnostics: Vec<RecordingDiagnostic>,
    resolver: Option<Resolver>,
    peeker: Option<Peeker>,
    /// Serves the BPF side's log while it lives.
    _logger: Option<LogPump>,
}

impl Tracer {
    /// Loads the programs and has the kernel verify them; nothing runs yet.
    ///
    /// # Errors
    /// Without privileges, BTF, or a kernel that takes them; `ProbeError::advice` says what to do.
    pub fn load(config: &TraceConfig) -> Result<Self, ProbeError> {
        return_large_blocks(RECORDING);
        let cpus = Cpus::find()?;
        let online = u32::try_from(cpus.online().len()).unwrap_or(u32::MAX);
        let mut object = Object::load(config, cpus.bound(), online)?;
        trim();
        let logger = if config.verbose { LogPump::start(&mut object) } else { None };
        Ok(Self {
            object,
            cpus,
            config: config.clone(),
            followed: Vec::new(),
            held: None,
            to_prefetch: Vec::new(),
            to_count: ToCount::default(),
            gpu_libraries: Vec::new(),
            gpu_devices: Vec::new(),
            injected: None,
            tells_ranges: None,
            range_probes: (Vec::new(), Vec::new()),
            sampling: None,
            sampler: None,
            slowed: Slowed::default(),
            reader: None,
            time: None,
            diagnostics: Vec::new(),
            resolver: None,
            peeker: None,
            _logger: logger,
        })
    }

    /// What loading took, by program.
    pub fn loaded(&self) -> &[LoadedProgram] {
        &self.object.loaded
    }

    /// Makes a process a target, of which this parent is known: all its threads, and from now on its children. Before the start its memory is
    /// read at once, later with its first event.
    ///
    /// # Errors
    /// When the map of targets is full.
    pub fn follow(&mut self, pid: Pid, parent: Option<Pid>) -> Result<(), ProbeError> {
        self.object.add_target(pid, energy_trace_system::clock::now().as_ns())?;
        self.followed.push((pid, parent));
        Ok(())
    }

    /// The same of one that waits to become the command.
    ///
    /// # Errors
    /// When the map of targets is full.
    pub fn follow_command(&mut self, pid: Pid) -> Result<(), ProbeError> {
        self.held = Some(pid);
        self.follow(pid, None)
    }

    /// Processes of the tracer's own, with all that they fork: no targets when everybody is. Before the start.
    ///
    /// # Errors
    /// When the map of targets is full.
    pub fn leave_out(&mut self, ours: impl Iterator<Item = Pid>) -> Result<(), ProbeError> {
        if !self.config.system_wide {
            return Ok(());
        }
        ours.into_iter().try_for_each(|pid| self.object.add_target(pid, OURS))
    }

    /// Has files read at the start that a target will map as code.
    pub fn prefetch(&mut self, files: Vec<SeenFile>) {
        self.to_prefetch = files;
    }

    /// Has calls counted, if the configuration says so: of these functions, of which the first may be units of work, in the command's program and
    /// these libraries before the start.
    pub fn count(
        &mut self,
        (names, units): (Vec<CountName>, UnitsOfCalls),
        program: Option<SeenFile>,
        libraries: Vec<SeenFile>,
    ) {
        self.to_count = ToCount { names, program, libraries, units };
    }

    /// Records ranges between static probes, if the configuration says so; in these files before the start.
    pub fn probe_ranges(&mut self, ranges: Vec<RangeProbe>, files: Vec<SeenFile>) {
        self.range_probes = (ranges, files);
    }

    /// GPU libraries where the command looks for libraries before it looks in the usual places (`LD_LIBRARY_PATH`).
    pub fn prefetch_libraries(&mut self, files: Vec<SeenFile>) {
        self.gpu_libraries = files;
    }

    /// Sets which GPUs the machine has: NVML's number of each, and the place of its meter, `MODEL (UUID)`; and which processes have used
    /// each before the start.
    pub fn set_gpus<'a>(&mut self, gpus: impl Iterator<Item = (u32, &'a str)>, users: &[(u32, Vec<u32>)]) {
        self.gpu_devices = gpus.map(|(index, place)| GpuDevice::parse(index, place)).collect();
        for device in &mut self.gpu_devices {
            let of_device = users.iter().filter(|(index, _)| *index == device.index);
            device.users = of_device.flat_map(|(_, pids)| pids).copied().map(Pid::new).collect();
        }
    }

    /// Whether launches on GPUs can be traced; kernels can be timed only then. Says why not.
    ///
    /// # Errors
    /// The reason; `None`: it was not asked for.
    pub fn traces_launches(&self) -> Result<(), Option<String>> {
        match &self.object.launches {
            Ok(true) => Ok(()),
            Ok(false) => Err(None),
            Err(why) => Err(Some(why.clone())),
        }
    }

    /// Listens to the library that targets will load, once it is started.
    pub fn listen(&mut self, library: PathBuf, socket: UnixListener) {
        self.injected = Some((library, socket));
    }

    /// Listens to the library that tells of ranges and that targets will load, once it is started.
    pub fn listen_to_ranges(&mut self, library: PathBuf) {
        self.tells_ranges = Some(library);
    }

    /// Attaches the programs. From now on events become records, on a thread of its own; gives the start of what is seen.
    /// As soon as it is not to `go_on`, what runs already is waited for no more.
    ///
    /// # Errors
    /// When the kernel refuses to attach, or the thread cannot be started.
    pub fn start(
        &mut self,
        records: Sender<Record>,
        resolver: &Resolver,
        peeker: &Peeker,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<KtimeNs, ProbeError> {
        let maps = self.take_maps(peeker)?;
        (self.resolver, self.peeker) = (Some(resolver.clone()), Some(peeker.clone()));
        let unwinding = self.config.unwinding;
        let rows = match unwinding {
            Unwinding::Kernel => Some(self.object.take_rows(self.config.unwind_mib)?),
            Unwinding::User => None,
        };
        let files = Files::start(rows, resolver, peeker.clone())?;
        let scope = match (self.config.system_wide, self.config.sum_time) {
            (false, _) => Scope::Targets,
            (true, false) => Scope::Machine,
            (true, true) if self.config.is_always_on() => Scope::Agent,
            (true, true) => Scope::Always,
        };
        let mut processes = Processes::new(files, peeker.clone(), unwinding, scope);
        processes.finds_contexts = self.config.ranges;
        let out = Interner::new(RecordSender::new(records));
        // What runs always is timed now and then.
        self.object.keep_stats(!self.config.live);
        if let Some(why) = self.object.attach_lives(&self.config)? {
            self.diagnostics.push(RecordingDiagnostic::NoMmapEvents { error: why });
        }
        for file in &self.to_prefetch {
            processes.files.prefetch(file);
        }
        self.held.iter().for_each(|&pid| processes.files.hold(pid));
        processes.meet_followed(&self.followed, &out.records);
        let mut collector = Collector::new(StackBuilder::new(maps, processes, out, resolver)?);
        // What runs already is known before the first sample. That takes seconds for a program of large libraries:
        // until then nothing is attached whose events nobody would take.
        collector.ready_tables(go_on);
        self.object.forget_ended();
        self.attach_to_calls(&mut collector, peeker)?;
        let totals = self.config.sum_time.then(|| self.object.take_totals(self.cpus)).transpose()?;
        self.object.attach_switches(&self.config)?;
        if let Some(totals) = totals {
            let (reader, summed) = TimeReader::start(totals)?;
            (self.time, collector.summed) = (Some(reader), Some(summed));
            self.diagnostics.push(RecordingDiagnostic::TimeSummed);
        }
        if self.time.is_none() {
            collector.cannot_visit(&visit(&self.cpus.online()));
        }
        let start = energy_trace_system::clock::now();
        let watch = self.start_sampler(start)?;
        collector.expect(self.sample_hz(), start);
        collector.live = self.start_live(&collector, start)?;
        self.reader = Some(Reader::start(self.object.take_rings()?, collector, watch)?);
        Ok(start)
    }

    /// The maps, which say to the peeker whom it may look into where that is one user alone.
    fn take_maps(&mut self, peeker: &Peeker) -> Result<Maps, ProbeError> {
        let maps = self.object.maps.take();
        let maps = maps.ok_or_else(|| ProbeError::Object("it was started already".into()))?;
        if self.config.user.is_some() {
            peeker.look_only_into(maps.target_check()?);
        }
        Ok(maps)
    }

    /// Probes what launches on GPUs and what is counted.
    fn attach_to_calls(&mut self, collector: &mut Collector, peeker: &Peeker) -> Result<(), ProbeError> {
        if let Err(why) = &self.object.launches {
            let failure = ProbeFailure::Launches { error: why.clone() };
            self.diagnostics.push(LaunchDiagnostic::ProbesFailed(failure).into());
        } else if let Some(probes) = self.object.launch_probes() {
            let injected = self.injected.as_ref().map(|(library, _)| library.as_path());
            let (worker, hasty) = (&collector.stacks.worker, Arc::clone(&collector.stacks.hasty));
            let whom = (&**worker, hasty, peeker.clone());
            let how = (injected, self.config.is_always_on());
            collector.gpu.start(probes, whom, &self.gpu_libraries, &self.gpu_devices, how);
            if let Some((_, socket)) = self.injected.take() {
                collector.gpu.listen(Listener::start(socket)?);
            }
        }
        self.attach_to_ranges(collector);
        match self.object.counting.take() {
            Some(Ok(counts)) => {
                let to_count = std::mem::take(&mut self.to_count);
                let attaches = to_count.program.is_none();
                let mut counting = Counting::start(counts, &collector.stacks.worker, to_count);
                if attaches {
                    counting.attach(&mut collector.stacks);
                }
                collector.counting = Some(counting);
            }
            Some(Err(error)) => self.diagnostics.push(CallDiagnostic::NotCounted { error }.into()),
            None => (),
        }
        Ok(())
    }

    /// Listens to the library that targets load for their ranges, and probes where others begin and end.
    fn attach_to_ranges(&mut self, collector: &mut Collector) {
        let Some(maps) = self.object.ranges.take() else { return };
        let mut maps = match maps.and_then(|maps| self.listen_to_library(collector).map(|()| maps)) {
            Ok(maps) => maps,
            Err(error) => return self.miss_ranges(RangesNotRecorded::NoLibrary { error }),
        };
        let (wanted, files) = std::mem::take(&mut self.range_probes);
        maps.marks = wanted.iter().map(|range| range.name.clone()).collect();
        collector.stacks.ranges = Ranges::new(maps);
        match self.object.marks.take() {
            Some(Ok(probes)) => {
                let probes = RangeProbes::start(probes, &collector.stacks.worker, &wanted, &files);
                collector.range_probes = Some(probes);
            }
            Some(Err(error)) => self.miss_ranges(RangesNotRecorded::ProbesFailed { error }),
            None => (),
        }
    }

    fn listen_to_library(&mut self, collector: &Collector) -> Result<(), String> {
        let Some(library) = self.tells_ranges.take() else { return Ok(()) };
        let (file, offset) = place_in(&library, &collector.stacks.worker)?;
        self.object.attach_ranges(&path_of(&file), offset).map_err(|error| error.to_string())
    }

    fn miss_ranges(&mut self, why: RangesNotRecorded) {
        log::warn!("no ranges: {why:?}");
        self.diagnostics.push(RangeDiagnostic::NotRecorded(why).into());
    }

    /// Where somebody looks meanwhile.
    fn start_live(&self, collector: &Collector, start: KtimeNs) -> Result<Option<LiveNames>, ProbeError> {
        if !self.config.live {
            return Ok(None);
        }
        let worker = Arc::clone(&collector.stacks.worker);
        // Slices have an end to be seen; what is summed does not.
        let cpus = if self.time.is_none() { self.cpus.online() } else { Vec::new() };
        let mut live = LiveNames::start(cpus, self.config.naming, self.config.reader, worker, start)?;
        live.forgets = self.time.is_some() && !self.config.ranges && !self.config.count;
        Ok(Some(live))
    }

    /// Starts to sample, by the event and at the rate that can be had.
    fn start_sampler(&mut self, start: KtimeNs) -> Result<Watch, ProbeError> {
        let root = &self.config.rootfs;
        let (limit, ticks) = (read_limit_at(root), read_ticks());
        let decision = decide(self.config.sample_event, Machine::read_at(root));
        let rate = |event| Rate::under(limit, ticks, event, self.config.sample_hz);
        let Started { sampler, event, rate, refused } =
            Sampler::start(self.object.programs(), self.cpus, decision, rate)?;
        log::info!("samples: {} a second by {event} ({})", rate.hz, decision.why);
        let (sampler, root) = (Arc::new(Mutex::new(sampler)), root.clone());
        self.sampler = Some(Arc::clone(&sampler));
        self.sampling = Some((event, rate));
        if let Some(why) = refused {
            self.diagnostics.push(RecordingDiagnostic::SampleEventRefused { error: why });
        }
        let limits = Limits::new(rate, event, ticks, limit);
        Ok(Watch::new(sampler, (limits, self.slowed.clone()), root, start))
    }

    /// What is to be called whenever power is read; `None` where CPU time is not summed.
    pub fn at_readings(&self) -> Option<Arc<dyn Fn() + Send + Sync>> {
        let time = Arc::clone(self.time.as_ref()?);
        Some(Arc::new(move || time.read()))
    }

    /// The CPUs that are online.
    pub fn cpus(&self) -> Vec<CpuId> {
        self.cpus.online()
    }

    /// What drives the sampler; `None` before the start.
    pub fn sample_event(&self) -> Option<SampleEvent> {
        self.sampling.map(|(event, _)| event)
    }

    /// Samples a second on each CPU, as many as the kernel lets come.
    pub fn sample_hz(&self) -> u32 {
        self.sampling.map_or(self.config.sample_hz, |(_, rate)| rate.hz)
    }

    /// Takes one in so many samples from now on, of those that come at first.
    pub fn slow(&self, one_in: u32) {
        self.slowed.to(one_in);
    }

    /// From now on the kernel keeps the time of the programs: to be asked for soon.
    pub fn time_programs(&mut self) -> Option<u64> {
        self.object.keep_stats(true);
        self.object.read_run_time_ns()
    }

    /// What the programs have taken whenever that was kept, which ends; `None` where the kernel does not keep it.
    pub fn timed_programs(&mut self) -> Option<u64> {
        let ns = self.object.read_run_time_ns();
        self.object.keep_stats(false);
        ns
    }

    /// How much their distances vary.
    pub fn jitter(&self) -> Jitter {
        self.sampling.map_or(Jitter::NONE, |(_, rate)| rate.jitter)
    }

    /// Counts so far.
    pub fn live(&self) -> LiveCounts {
        let lost = self.object.read_lost();
        let samples = self.reader.as_ref().map_or(0, Reader::samples);
        LiveCounts {
            samples,
            lost: lost_so_far(&lost),
            no_room_ns: self.time.as_ref().map_or(0, |time| time.no_room_ns()),
        }
    }

    /// What became of the files, the memory and the names of targets.
    fn found_in_targets(&self, collector: &Collector) -> Vec<RecordingDiagnostic> {
        let stacks = &collector.stacks;
        let mut found: Vec<_> = not_answering(&stacks.processes)
            .into_iter()
            .chain(stacks.out.cut_names())
            .chain(stacks.out.cut_stacks())
            .collect();
        if let Some(resolver) = &self.resolver {
            found.extend(files_not_read(resolver, &stacks.processes.peeker));
            found.extend(resolver.diagnostics().into_iter().map(RecordingDiagnostic::from));
        }
        found
    }

    /// Processes that are followed and still there, with what the kernel has counted of each; of none where everybody is.
    pub fn living(&self) -> Vec<(Pid, ProcessTimes)> {
        if self.config.system_wide { Vec::new() } else { self.object.living_targets() }
    }

    fn helpers_cpu_ns(&self) -> u64 {
        let helpers =
            [self.resolver.as_ref().map(Resolver::cpu_ns), self.peeker.as_ref().map(Peeker::cpu_ns)];
        helpers.into_iter().flatten().sum()
    }

    /// A switch on each CPU ends the slices that are open; on how many there was none. Sums of CPU time are read once more instead.
    fn end_slices(&self) -> usize {
        let Some(time) = &self.time else { return visit(&self.cpus.online()).len() };
        time.read();
        0
    }

    /// Ends tracing: takes in what is left, finds the names of native frames, and sends them.
    ///
    /// `python`: what was told of calls of Python functions, where they were counted.
    pub fn stop(mut self, python: Option<&[u8]>) -> TraceEnd {
        let end = energy_trace_system::clock::now();
        self.object.stop_counting();
        let cpus_out_of_reach = self.end_slices();
        // A daemon forks twice just when its first process ends.
        let living = self.living();
        self.object.detach();
        if let Some(sampler) = &self.sampler {
            sampler.lock().unwrap_or_else(PoisonError::into_inner).stop();
        }
        let bpf_ns = self.object.read_run_time_ns();
        let counters = self.object.read_lost();
        let mut lost = losses_of(&counters);
        let (mut copies, mut account) = (BTreeMap::new(), TraceAccount::default());
        match self.reader.take().map(Reader::stop) {
            Some(Some((mut collector, mut watch, refused))) => {
                collector.finish(end);
                collector.stacks.raw.finish();
                self.diagnostics.extend(watch.end());
                let starved_ns = watch.starved_ns();
                account = TraceAccount { living, cpus_out_of_reach, starved_ns, ..collector.account() };
                self.diagnostics
                    .extend(collector.sampling_gaps().diagnostics(counters[lost::TAKEN as usize]));
                copies = std::mem::take(&mut collector.stacks.raw.counts);
                count_lost(&mut lost, &collector, &refused);
                self.diagnostics.extend(events_refused(&refused));
                self.diagnostics.extend(collector.gpu.diagnostics(&collector.stacks));
                self.diagnostics.extend(shortages(&collector.stacks.processes, self.config.unwind_mib));
                self.diagnostics.extend(collector.stacks.out.diagnostics());
                self.diagnostics.extend(ranges_found(&mut collector, counters[lost::RANGES as usize]));
                self.diagnostics.extend(closed_files(&collector.stacks.libraries));
                let found = send_counts(&mut collector, python);
                self.diagnostics.extend(found.into_iter().map(RecordingDiagnostic::from));
                // Who looked meanwhile has the names, and is not kept waiting for the rest.
                if !self.config.live {
                    send_names(&collector.stacks, self.config.names);
                    send_public_names(&collector.stacks, self.config.reader);
                }
                let found = self.found_in_targets(&collector);
                self.diagnostics.extend(found);
            }
            Some(None) => self.diagnostics.push(RecordingDiagnostic::ReaderDied),
            None => (),
        }
        if self.config.push_times {
            self.diagnostics.push(push_times(&self.object.read_push_times()));
        }
        TraceEnd {
            end,
            lost,
            bpf_ns,
            helpers_cpu_ns: self.helpers_cpu_ns(),
            unwinding: self.config.unwinding,
            copies,
            account,
            diagnostics: self.diagnostics,
        }
    }
}

/// What was found about ranges, of which the probes could not keep so many.
fn ranges_found(collector: &mut Collector, lost: u64) -> Vec<RecordingDiagnostic> {
    let of_probes = collector.range_probes.take().map(RangeProbes::finish).unwrap_or_default();
    let StackBuilder { ranges, spans, .. } = &collector.stacks;
    of_probes.into_iter().chain(ranges.diagnostics(spans, lost)).map(RecordingDiagnostic::from).collect()
}

/// What was lost since the probes had sent it.
fn count_lost(lost: &mut BTreeMap<LossReason, u64>, collector: &Collector, refused: &Refused) {
    refused.lost.iter().for_each(|(reason, count)| count_into(lost, *reason, *count));
    count_into(lost, LossReason::PythonNames, collector.stacks.nameless);
    count_into(lost, LossReason::Undecodable, collector.damaged);
    count_into(lost, LossReason::UnknownGpu, collector.gpu.without_device());
}

/// Sends how often functions were called, where that was counted.
fn send_counts(collector: &mut Collector, python: Option<&[u8]>) -> Vec<CallDiagnostic> {
    let told = python.map(|told| send_python_counts(told, &mut collector.stacks));
    let (mut found, of_python) = told.unwrap_or_else(|| (Vec::new(), OfPython::untold(&collector.stacks)));
    if let Some(counting) = collector.counting.take() {
        found.extend(counting.finish(&mut collector.stacks, of_python));
    }
    found
}
