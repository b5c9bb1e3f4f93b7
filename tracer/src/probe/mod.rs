//! The probes: loading and attaching the BPF programs, reading what they send, and turning it into records.
//!
//! The only room that names `aya`. Data leaves it as `Record`s on a channel; nothing else does.

mod btf;
mod collector;
mod cpus;
mod decode;
mod error;
mod eval_frame;
mod files;
mod interner;
mod object;
mod pool;
mod pool_loops;
mod processes;
mod python_frames;
mod reader;
mod row_maps;

pub use btf::{BtfError, KernelTypes};
pub use cpus::read_online_cpus;
pub use error::ProbeError;

use crate::clock::KtimeNs;
use crate::ids::{CpuId, Pid};
use crate::profile::record::{Record, Warning};
use crate::symbolize;
use collector::Collector;
use files::Files;
use interner::Interner;
use object::Object;
use processes::Processes;
use reader::Reader;
use row_maps::MAX_MIB;
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use tracer_ebpf::wire::lost;

/// How to trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceConfig {
    /// Stack samples per CPU and second.
    pub sample_hz: u32,
    /// Every process is a target.
    pub system_wide: bool,
    /// Pass on what the BPF side logs.
    pub verbose: bool,
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
    /// Doubts for the reader.
    pub warnings: Vec<Warning>,
}

/// The loaded probes, from before the start to the end.
pub struct Tracer {
    object: Object,
    cpus: Vec<CpuId>,
    config: TraceConfig,
    followed: Vec<Pid>,
    event: &'static str,
    reader: Option<Reader>,
    warnings: Vec<Warning>,
    /// Serves the BPF side's log while it lives.
    _logger: Option<cpus::LogPump>,
}

impl Tracer {
    /// Loads the programs and has the kernel verify them; nothing runs yet.
    ///
    /// # Errors
    /// Without privileges, BTF, or a kernel that takes them; `ProbeError::advice` says what to do.
    pub fn load(config: &TraceConfig) -> Result<Self, ProbeError> {
        let cpus = read_online_cpus()?;
        let highest = cpus.iter().map(|c| c.get()).max().unwrap_or(0);
        let mut object = Object::load(config.system_wide, highest + 1)?;
        let logger = if config.verbose { cpus::LogPump::start(&mut object) } else { None };
        Ok(Self {
            object,
            cpus,
            config: *config,
            followed: Vec::new(),
            event: "",
            reader: None,
            warnings: Vec::new(),
            _logger: logger,
        })
    }

    /// Makes a process a target: all its threads, and from now on its children. Before the start its memory is read at once, later with its
    /// first event.
    ///
    /// # Errors
    /// When the map of targets is full.
    pub fn follow(&mut self, pid: Pid) -> Result<(), ProbeError> {
        self.object.add_target(pid, KtimeNs::now().as_ns())?;
        self.followed.push(pid);
        Ok(())
    }

    /// Attaches the programs. From now on events become records, on a thread of its own; gives the start of what is seen.
    ///
    /// # Errors
    /// When the kernel refuses to attach, or the thread cannot be started.
    pub fn start(&mut self, records: Sender<Record>) -> Result<KtimeNs, ProbeError> {
        let maps =
            self.object.maps.take().ok_or_else(|| ProbeError::Object("it was started already".into()))?;
        let mut processes = Processes::new(Files::start(self.object.take_rows()?)?);
        let out = Interner::new(records);
        self.object.enable_stats();
        if let Some(why) = self.object.attach_tracepoints()? {
            self.warn("no-mmap-events", format!("libraries loaded while it runs are noticed late: {why}"));
        }
        for &pid in &self.followed {
            processes.meet(pid, &out);
        }
        let mut collector = Collector::new(maps, processes, out);
        // What runs already is known before the first sample.
        collector.ready_tables();
        cpus::visit(&self.cpus);
        let start = KtimeNs::now();
        self.event = self.object.attach_sampler(&self.cpus, self.config.sample_hz)?;
        self.reader = Some(Reader::start(self.object.take_events()?, collector)?);
        Ok(start)
    }

    /// What drives the sampler: `cycles` or `cpu-clock`; empty before the start.
    pub const fn sample_event(&self) -> &'static str {
        self.event
    }

    /// Counts so far.
    pub fn live(&self) -> LiveCounts {
        let lost = self.object.read_lost();
        let samples = self.reader.as_ref().map_or(0, Reader::samples);
        LiveCounts { samples, lost: lost[lost::SAMPLES as usize] + lost[lost::SLICES as usize] }
    }

    /// Ends tracing: takes in what is left, finds the names of native frames, and sends them.
    pub fn stop(mut self) -> TraceEnd {
        let end = KtimeNs::now();
        // A switch on each CPU ends the slices that are open.
        cpus::visit(&self.cpus);
        self.object.detach();
        let bpf_ns = self.object.read_run_time_ns();
        let mut lost = name_losses(&self.object.read_lost());
        match self.reader.take().map(Reader::stop) {
            Some(Some(mut collector)) => {
                collector.flush();
                count_into(
                    &mut lost,
                    "names of Python frames: code object gone before it was read",
                    collector.nameless,
                );
                count_into(&mut lost, "events that could not be decoded", collector.damaged);
                if let Some(text) = name_refused_tables(collector.processes.files.refused()) {
                    self.warn("unwind-tables-full", text);
                }
                for (id, name) in symbolize::name_frames(&collector.out.unnamed) {
                    collector.out.send(Record::Name(id, name));
                }
                for (id, name) in symbolize::name_jit_frames(&collector.jit) {
                    collector.out.send(Record::Name(id, name));
                }
            }
            Some(None) => {
                self.warn("reader-died", "the reader of events died; the recording ends early".into());
            }
            None => (),
        }
        TraceEnd { end, lost, bpf_ns, warnings: self.warnings }
    }

    fn warn(&mut self, code: &str, text: String) {
        self.warnings.push(Warning { code: code.into(), text });
    }
}

/// What it means that files got no unwind table for want of room, and what to do; `None` where all did.
fn name_refused_tables(refused: usize) -> Option<String> {
    (refused > 0).then(|| {
        format!(
            "the unwind tables of {refused} files found no room in the {MAX_MIB} MiB for all, so native stacks through them are cut \
             ([no unwind info]); follow fewer programs at once: a command or --pid instead of --all"
        )
    })
}

/// The loss counters by name, those that are not zero.
fn name_losses(counters: &[u64]) -> BTreeMap<String, u64> {
    let names = [
        (lost::SAMPLES, "samples: ring buffer full"),
        (lost::SLICES, "slices: ring buffer full"),
        (lost::TASKS, "process events: ring buffer full"),
        (lost::TARGETS, "processes: map of targets full"),
        (lost::KERNEL_STACKS, "kernel stacks: not readable"),
        (lost::WAITS, "waits and wake-ups: ring buffer full"),
    ];
    let mut out = BTreeMap::new();
    for (index, name) in names {
        count_into(&mut out, name, counters.get(index as usize).copied().unwrap_or(0));
    }
    out
}

fn count_into(lost: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    if count > 0 {
        *lost.entry(name.into()).or_default() += count;
    }
}
