//! The probes: loading and attaching the BPF programs, reading what they send, and turning it into records.
//!
//! The only room that names `aya`. Data leaves it as `Record`s on a channel; nothing else does.

mod btf;
mod code_objects;
mod collector;
mod cpus;
pub mod decode;
mod error;
mod eval_frame;
pub mod event;
mod files;
mod frame_cache;
mod frames;
mod gpu;
mod gpu_calls;
mod gpu_graphs;
mod gpu_kernels;
mod interner;
mod libraries;
mod looks;
mod losses;
mod naming;
mod object;
mod pauses;
mod pool;
mod pool_loops;
mod process;
mod process_maps;
mod processes;
mod python_frames;
mod rate;
mod raw_stacks;
mod reader;
mod residents;
mod rings;
mod row_maps;
mod sampler;
mod settings;
mod strangers;
mod time_order;
mod unwind_files;
mod uprobe_multi;
mod watch;

pub use btf::{BtfError, KernelTypes};
pub use cpus::read_online_cpus;
pub use error::ProbeError;
pub use object::LoadedProgram;
pub use rate::{Rate, fix as rate_fix, read_limit_at, read_ticks};

use crate::allocator::{return_large_blocks, trim};
use crate::resolver::Resolver;
use crate::symbolize;
use collector::Collector;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, Pid};
use energy_trace_model::recording::record::{Record, Unwinding, Warning};
use event::{EventChoice, Machine, SampleEvent, decide};
use files::Files;
use gpu::Listener;
use interner::Interner;
use losses::{count_into, name_closed_files, name_losses, name_mishaps, name_shortages, told_pushes};
use naming::send_names;
use object::Object;
use processes::Processes;
use rate::Limits;
use reader::Reader;
use sampler::{Sampler, Started};
use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use tracer_ebpf::wire::{OURS, lost};
use watch::Watch;

/// How to trace.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// Stack samples per CPU and second.
    pub sample_hz: u32,
    /// What drives the sampler.
    pub sample_event: EventChoice,
    /// Where the root of the file system is, for what the kernel says of the CPU and of its limits.
    pub rootfs: PathBuf,
    /// Keep how long the programs' pushes take, and say it at the end.
    pub push_times: bool,
    /// Every process is a target.
    pub system_wide: bool,
    /// Who unwinds native frames.
    pub unwinding: Unwinding,
    /// Mebibytes of kernel memory that unwind tables may take.
    pub unwind_mib: u32,
    /// Pass on what the BPF side logs.
    pub verbose: bool,
    /// How much is looked up of native frames.
    pub names: symbolize::Detail,
    /// Trace launches on GPUs.
    pub gpu: bool,
    /// Use only what the oldest kernel has that the probes run on: for tests on newer ones.
    pub oldest_kernel: bool,
}

/// Counts while it runs, for the progress line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveCounts {
    /// Samples so far.
    pub samples: u64,
    /// Events lost so far.
    pub lost: u64,
}

/// What is known when tracing ends.
#[derive(Clone, Debug)]
pub struct TraceEnd {
    /// The end of what was seen.
    pub end: KtimeNs,
    /// What was lost, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Time that the BPF programs took.
    pub bpf_ns: Option<u64>,
    /// CPU time of the processes that read files.
    pub resolver_cpu_ns: u64,
    /// Who unwound native frames.
    pub unwinding: Unwinding,
    /// Copies of stacks that user space unwound, by what became of them.
    pub raw: BTreeMap<String, u64>,
    /// Doubts for the reader.
    pub warnings: Vec<Warning>,
}

/// The loaded probes, from before the start to the end.
pub struct Tracer {
    object: Object,
    cpus: Vec<CpuId>,
    config: TraceConfig,
    followed: Vec<Pid>,
    foreseen: Vec<PathBuf>,
    gpu_search: Vec<PathBuf>,
    gpu_devices: Vec<gpu::GpuDevice>,
    injected: Option<(PathBuf, UnixListener)>,
    /// What samples and how often, once it does.
    sampling: Option<(SampleEvent, u32)>,
    sampler: Option<Arc<Mutex<Sampler>>>,
    reader: Option<Reader>,
    warnings: Vec<Warning>,
    resolver: Option<Resolver>,
    /// Serves the BPF side's log while it lives.
    _logger: Option<cpus::LogPump>,
}

impl Tracer {
    /// Loads the programs and has the kernel verify them; nothing runs yet.
    ///
    /// # Errors
    /// Without privileges, BTF, or a kernel that takes them; `ProbeError::advice` says what to do.
    pub fn load(config: &TraceConfig) -> Result<Self, ProbeError> {
        return_large_blocks();
        let cpus = read_online_cpus()?;
        let online = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        let mut object = Object::load(config, cpus::read_cpu_bound()?, online)?;
        trim();
        let logger = if config.verbose { cpus::LogPump::start(&mut object) } else { None };
        Ok(Self {
            object,
            cpus,
            config: config.clone(),
            followed: Vec::new(),
            foreseen: Vec::new(),
            gpu_search: Vec::new(),
            gpu_devices: Vec::new(),
            injected: None,
            sampling: None,
            sampler: None,
            reader: None,
            warnings: Vec::new(),
            resolver: None,
            _logger: logger,
        })
    }

    /// What loading took, by program.
    pub fn loaded(&self) -> &[LoadedProgram] {
        &self.object.loaded
    }

    /// Makes a process a target: all its threads, and from now on its children. Before the start its memory is read at once, later with its
    /// first event.
    ///
    /// # Errors
    /// When the map of targets is full.
    pub fn follow(&mut self, pid: Pid) -> Result<(), ProbeError> {
        self.object.add_target(pid, crate::clock::now().as_ns())?;
        self.followed.push(pid);
        Ok(())
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
    pub fn foresee(&mut self, files: Vec<PathBuf>) {
        self.foreseen = files;
    }

    /// Where targets look for libraries before they look in the usual places (`LD_LIBRARY_PATH`).
    pub fn foresee_libraries(&mut self, folders: Vec<PathBuf>) {
        self.gpu_search = folders;
    }

    /// Which GPUs the machine has: NVML's number of each, and the place of its meter, `MODEL (UUID)`.
    pub fn know_gpus<'a>(&mut self, gpus: impl Iterator<Item = (u32, &'a str)>) {
        self.gpu_devices = gpus.map(|(index, place)| gpu::GpuDevice::parse(index, place)).collect();
    }

    /// Whether launches on GPUs can be traced; kernels can be timed only then. Says why not.
    ///
    /// # Errors
    /// The reason.
    pub fn traces_launches(&self) -> Result<(), String> {
        match &self.object.launches {
            Ok(true) => Ok(()),
            Ok(false) => Err("launches on GPUs are not traced".to_owned()),
            Err(why) => Err(why.clone()),
        }
    }

    /// Listens to the library that targets will load, once it is started.
    pub fn listen(&mut self, library: PathBuf, socket: UnixListener) {
        self.injected = Some((library, socket));
    }

    /// Attaches the programs. From now on events become records, on a thread of its own; gives the start of what is seen.
    ///
    /// # Errors
    /// When the kernel refuses to attach, or the thread cannot be started.
    pub fn start(&mut self, records: Sender<Record>, resolver: &Resolver) -> Result<KtimeNs, ProbeError> {
        let maps =
            self.object.maps.take().ok_or_else(|| ProbeError::Object("it was started already".into()))?;
        self.resolver = Some(resolver.clone());
        let unwinding = self.config.unwinding;
        let rows = match unwinding {
            Unwinding::Kernel => Some(self.object.take_rows(self.config.unwind_mib)?),
            Unwinding::User => None,
        };
        let mut processes = Processes::new(Files::start(rows, resolver)?, unwinding, self.config.system_wide);
        let out = Interner::new(records);
        self.object.enable_stats();
        if let Some(why) = self.object.attach_tracepoints()? {
            self.warn("no-mmap-events", format!("libraries loaded while it runs are noticed late: {why}"));
        }
        for path in &self.foreseen {
            processes.files.foresee(path);
        }
        for &pid in &self.followed {
            processes.meet(pid, &out);
        }
        let mut collector = Collector::new(maps, processes, out, resolver.worker(true));
        if let Err(why) = &self.object.launches {
            let text = format!("launches on GPUs are not traced: {why}");
            self.warn("gpu-probes-failed", text);
        } else if let Some(probes) = self.object.launch_probes() {
            let injected = self.injected.as_ref().map(|(library, _)| library.as_path());
            let worker = Arc::clone(&collector.worker);
            collector.gpu.start(probes, worker, &self.gpu_search, &self.gpu_devices, injected);
            if let Some((_, socket)) = self.injected.take() {
                collector.listen(Listener::start(socket)?);
            }
        }
        // What runs already is known before the first sample.
        collector.ready_tables();
        cpus::visit(&self.cpus);
        let start = crate::clock::now();
        let watch = self.start_sampler(start)?;
        collector.expect(self.sample_hz(), start);
        self.reader = Some(Reader::start(self.object.take_rings()?, collector, watch)?);
        Ok(start)
    }

    /// Starts to sample, by the event and at the rate that can be had.
    fn start_sampler(&mut self, start: KtimeNs) -> Result<Watch, ProbeError> {
        let root = &self.config.rootfs;
        let (limit, ticks) = (read_limit_at(root), read_ticks());
        let decision = decide(self.config.sample_event, Machine::read_at(root));
        let rate = |event| Rate::under(limit, ticks, event, self.config.sample_hz);
        let Started { sampler, event, rate, refused } =
            Sampler::start(self.object.programs(), &self.cpus, decision, rate)?;
        log::info!("samples: {} a second by {event} ({})", rate.hz, decision.why);
        let (sampler, root) = (Arc::new(Mutex::new(sampler)), root.clone());
        self.sampler = Some(Arc::clone(&sampler));
        self.sampling = Some((event, rate.hz));
        if let Some(why) = refused {
            self.warn("sample-event-refused", format!("{why}; the CPU clock samples instead"));
        }
        Ok(Watch::new(sampler, Limits::new(rate, event, ticks, limit), root, start))
    }

    /// What drives the sampler: `cycles` or `cpu-clock`; empty before the start.
    pub fn sample_event(&self) -> &'static str {
        self.sampling.map_or("", |(event, _)| event.name())
    }

    /// Samples a second on each CPU, as many as the kernel lets come.
    pub fn sample_hz(&self) -> u32 {
        self.sampling.map_or(self.config.sample_hz, |(_, hz)| hz)
    }

    /// Counts so far.
    pub fn live(&self) -> LiveCounts {
        let lost = self.object.read_lost();
        let samples = self.reader.as_ref().map_or(0, Reader::samples);
        LiveCounts {
            samples,
            lost: lost[lost::SAMPLES as usize]
                + lost[lost::SAMPLES_BUSY as usize]
                + lost[lost::SLICES as usize],
        }
    }

    /// Ends tracing: takes in what is left, finds the names of native frames, and sends them.
    pub fn stop(mut self) -> TraceEnd {
        let end = crate::clock::now();
        // A switch on each CPU ends the slices that are open.
        cpus::visit(&read_online_cpus().unwrap_or_default());
        self.object.detach();
        if let Some(sampler) = &self.sampler {
            sampler.lock().unwrap_or_else(PoisonError::into_inner).stop();
        }
        let bpf_ns = self.object.read_run_time_ns();
        let counters = self.object.read_lost();
        let mut lost = name_losses(&counters);
        let mut raw = BTreeMap::new();
        match self.reader.take().map(Reader::stop) {
            Some(Some((mut collector, mut watch))) => {
                collector.finish();
                self.warnings.extend(watch.end());
                self.warnings.extend(collector.pauses.doubts(counters[lost::TAKEN as usize]));
                raw = collector.raw.counts.iter().map(|(&what, &count)| (what.into(), count)).collect();
                count_into(
                    &mut lost,
                    "names of Python frames: code object gone before it was read",
                    collector.nameless,
                );
                count_into(&mut lost, "events that could not be decoded", collector.damaged);
                count_into(&mut lost, "launches: GPU not known", collector.gpu.launches.strays);
                self.warnings.extend(collector.gpu.doubts());
                self.warnings.extend(collector.kernel_doubts());
                for (code, text) in name_shortages(&collector.processes, self.config.unwind_mib) {
                    self.warn(code, text);
                }
                self.warnings.extend(collector.out.doubts());
                if let Some(text) = name_closed_files(collector.libraries.closed) {
                    self.warn("names-not-looked-up", text);
                }
                send_names(&collector, self.config.names);
                if let Some(text) =
                    self.resolver.as_ref().and_then(|resolver| name_mishaps(&resolver.mishaps()))
                {
                    self.warn("files-not-read", text);
                }
            }
            Some(None) => {
                self.warn("reader-died", "the reader of events died; the recording ends early".into());
            }
            None => (),
        }
        if self.config.push_times {
            self.warn("push-times", told_pushes(&self.object.read_push_times()));
        }
        let resolver_cpu_ns = self.resolver.as_ref().map_or(0, Resolver::cpu_ns);
        TraceEnd {
            end,
            lost,
            bpf_ns,
            resolver_cpu_ns,
            unwinding: self.config.unwinding,
            raw,
            warnings: self.warnings,
        }
    }

    fn warn(&mut self, code: &str, text: String) {
        self.warnings.push(Warning { code: code.into(), text });
    }
}
