//! What one process has of the simulated machine: its contexts, streams, events, functions and graphs, and how work gets from a stream to a
//! device. Leaves out the functions of CUDA that lead here (`driver`, `runtime`).

use crate::clock::{now_ns, wait_until};
use crate::cupti::OfNode;
use crate::driver::node_type;
use crate::place::{Place, truth_file};
use crate::raw::Text;
use crate::scenario::{Copy, Kernel, microwatts, whole};
use crate::shared::{Engine, Job, WHOLE};
use crate::truth::Launch;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The process's part of the machine.
pub(crate) struct World {
    pub(crate) place: Place,
    pub(crate) pid: u32,
    /// The devices that `CUDA_VISIBLE_DEVICES` leaves, as places in the scenario.
    pub(crate) visible: Vec<usize>,
    truth: File,
    tables: Mutex<Tables>,
}

/// What handles stand for.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) contexts: HashMap<u64, Context>,
    pub(crate) streams: HashMap<u64, Stream>,
    pub(crate) events: HashMap<u64, Event>,
    pub(crate) functions: HashMap<u64, Arc<Function>>,
    pub(crate) graphs: HashMap<u64, Arc<Vec<Node>>>,
    /// The default stream of each context, and of each thread in it.
    pub(crate) defaults: HashMap<(u64, u32), u64>,
}

pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) spin: bool,
    /// Whether it is the device's primary one.
    pub(crate) primary: bool,
}

pub(crate) struct Stream {
    pub(crate) context: u64,
    pub(crate) device: usize,
    /// Whether it waits for the default stream, and that for it.
    pub(crate) blocking: bool,
    pub(crate) default: bool,
    pub(crate) free_ns: u64,
    starts: VecDeque<u64>,
    pub(crate) capture: Option<Arc<Capture>>,
}

/// What is captured, and the graph that it will be.
pub(crate) struct Capture {
    pub(crate) graph: u64,
    pub(crate) nodes: Mutex<Vec<Node>>,
}

#[derive(Clone, Default)]
pub(crate) struct Event {
    /// When it happens; `None` before it was recorded.
    pub(crate) at_ns: Option<u64>,
    /// The capture that it was recorded in.
    pub(crate) capture: Option<Arc<Capture>>,
}

pub(crate) struct Function {
    pub(crate) name: String,
    /// The name with its zero, for `cuFuncGetName`.
    pub(crate) c_name: std::ffi::CString,
    pub(crate) kernel: Kernel,
    launches: AtomicU64,
}

impl Function {
    pub(crate) fn new(name: &str, kernel: Kernel) -> Self {
        let c_name = std::ffi::CString::new(name).unwrap_or_default();
        Self { name: name.to_owned(), c_name, kernel, launches: AtomicU64::new(0) }
    }
}

/// What a stream is given to do.
#[derive(Clone)]
pub(crate) enum Work {
    Kernel { function: Arc<Function>, blocks: u64 },
    Copy { kind: &'static str, bytes: u64 },
}

/// Work that was captured or added to a graph, and by whose call.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) work: Work,
    pub(crate) tag: String,
    /// Its number, by which CUPTI names it; each copy has its own.
    pub(crate) number: u64,
    /// The node that it is a copy of; 0: none.
    pub(crate) original: u64,
}

/// What happened to a piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// It runs: a launch, or the node of a graph (0: none).
    Ran(Launch, u64),
    /// It is a node.
    Captured(OfNode),
    /// The run is longer than what can be simulated.
    TooLate,
}

static WORLD: OnceLock<Option<World>> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(0x51_0000);
static CORRELATION: AtomicU32 = AtomicU32::new(1);
static FORKED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static TAG: RefCell<String> = const { RefCell::new(String::new()) };
    static TID: Cell<u32> = const { Cell::new(0) };
    pub(crate) static CURRENT: Cell<u64> = const { Cell::new(0) };
    /// The correlation number of the runtime's call that this thread is in; 0 outside.
    pub(crate) static OUTER: Cell<u32> = const { Cell::new(0) };
}

/// Says where the launches that follow in this thread come from; the truth log carries it.
#[unsafe(no_mangle)]
extern "C" fn simgpu_tag(tag: Text) {
    let Some(tag) = tag.bytes() else { return };
    TAG.with_borrow_mut(|current| {
        if current.as_bytes() != tag.to_bytes() {
            *current = tag.to_string_lossy().into_owned();
        }
    });
}

pub(crate) fn tag() -> String {
    TAG.with_borrow(Clone::clone)
}

/// A number for a handle, different from all others.
pub(crate) fn next_number() -> u64 {
    NEXT.fetch_add(16, Relaxed)
}

/// The number of a call, for CUPTI.
pub(crate) fn next_correlation() -> u32 {
    match OUTER.get() {
        0 => CORRELATION.fetch_add(1, Relaxed),
        outer => outer,
    }
}

pub(crate) fn tid() -> u32 {
    if TID.get() == 0 {
        // SAFETY: takes nothing and cannot fail.
        TID.set(unsafe { libc::gettid() }.cast_unsigned());
    }
    TID.get()
}

extern "C" fn forked() {
    FORKED.store(1, Relaxed);
    TID.set(0);
}

/// Opens the machine, once for a process; `None` when there is none.
pub(crate) fn open() -> Option<&'static World> {
    WORLD
        .get_or_init(|| match World::new() {
            Ok(world) => Some(world),
            Err(e) => {
                eprintln!("simgpu: {e}");
                None
            }
        })
        .as_ref()
        .filter(|_| FORKED.load(Relaxed) == 0)
}

/// The machine, if this process has opened it; a child that was forked since has not.
pub(crate) fn get() -> Option<&'static World> {
    WORLD.get().and_then(Option::as_ref).filter(|_| FORKED.load(Relaxed) == 0)
}

impl World {
    fn new() -> std::io::Result<Self> {
        let place = Place::from_env()?;
        let truth = OpenOptions::new().append(true).open(truth_file(place.folder()))?;
        // SAFETY: the handler only stores two numbers.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        let list = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        let uuids = place.scenario.devices.iter().enumerate().map(|(i, d)| d.uuid_at(i));
        let visible = parse_visible(list.as_deref(), &uuids.collect::<Vec<_>>());
        let pid = std::process::id();
        Ok(Self { place, pid, visible, truth, tables: Mutex::default() })
    }

    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives work to a stream. Waits while the stream's queue is full, as CUDA does.
    pub(crate) fn submit(&self, stream: u64, work: Work, correlation: u32) -> Option<Outcome> {
        self.await_room(stream)?;
        let mut tables = self.tables();
        let capture = tables.streams.get(&stream)?.capture.clone();
        if let Some(capture) = capture {
            let (graph, node, kind) = (capture.graph, next_number(), node_type(&work));
            let of = OfNode { graph, node, kind, ..OfNode::default() };
            let node = Node { work, tag: tag(), number: node, original: 0 };
            capture.nodes.lock().unwrap_or_else(PoisonError::into_inner).push(node);
            return Some(Outcome::Captured(of));
        }
        let outcome = self.execute(&mut tables, stream, &work, correlation, None)?;
        if let Outcome::Ran(launch, _) = &outcome {
            self.log(&launch.line());
        }
        Some(outcome)
    }

    /// Replays a graph on a stream, one node after the other.
    pub(crate) fn replay(&self, stream: u64, nodes: &[Node], correlation: u32) -> Option<Vec<Outcome>> {
        self.await_room(stream)?;
        let mut tables = self.tables();
        let mut outcomes = Vec::new();
        for node in nodes {
            outcomes.push(self.execute(&mut tables, stream, &node.work, correlation, Some(node))?);
        }
        let lines =
            outcomes.iter().filter_map(|o| if let Outcome::Ran(l, _) = o { Some(l.line()) } else { None });
        self.log(&lines.collect::<String>());
        Some(outcomes)
    }

    fn await_room(&self, stream: u64) -> Option<()> {
        loop {
            let first = {
                let mut tables = self.tables();
                let starts = &mut tables.streams.get_mut(&stream)?.starts;
                let now = now_ns();
                while starts.front().is_some_and(|&start| start <= now) {
                    starts.pop_front();
                }
                if starts.len() < self.place.scenario.queue.max(1) {
                    return Some(());
                }
                starts[0]
            };
            wait_until(first, self.place.scenario.spin);
        }
    }

    fn execute(
        &self,
        tables: &mut Tables,
        number: u64,
        work: &Work,
        correlation: u32,
        node: Option<&Node>,
    ) -> Option<Outcome> {
        let ready_ns = ready(tables, number)?;
        let stream = tables.streams.get_mut(&number)?;
        let device = stream.device;
        let job = Job { ready_ns, ..self.job(device, work)? };
        let Some((start_ns, end_ns)) = self.place.shared.schedule(device, &job) else {
            return Some(Outcome::TooLate);
        };
        stream.free_ns = end_ns;
        stream.starts.push_back(start_ns);
        #[expect(clippy::cast_precision_loss, reason = "both are far below 2⁵³")]
        let uj = job.microwatts as f64 * (end_ns - start_ns) as f64 / 1e9;
        let (kind, name, bytes) = work.describe();
        let launch = Launch {
            gpu: device,
            pid: self.pid,
            tid: tid(),
            correlation,
            kind: kind.to_owned(),
            name: name.to_owned(),
            tag: tag(),
            capture_tag: node.map(|node| node.tag.clone()).unwrap_or_default(),
            stream: number,
            bytes,
            start_ns,
            end_ns,
            uj,
        };
        Some(Outcome::Ran(launch, node.map_or(0, |node| node.number)))
    }

    fn job(&self, device: usize, work: &Work) -> Option<Job> {
        let device = self.place.scenario.devices.get(device)?;
        let (duration_ns, watts, share, engine) = match work {
            Work::Kernel { function, blocks } => {
                let kernel = &function.kernel;
                let unit =
                    unit(self.place.scenario.seed, &function.name, function.launches.fetch_add(1, Relaxed));
                let share = whole(kernel.share.clamp(0.0, 1.0) * f64::from(WHOLE));
                let share = u32::try_from(share).unwrap_or(WHOLE);
                (kernel.duration_ns(*blocks, unit), kernel.watts, share, Engine::Compute)
            }
            Work::Copy { kind, bytes } => {
                let (cost, share, engine): (&Copy, u32, Engine) = match *kind {
                    "h2d" => (&device.h2d, WHOLE, Engine::CopyIn),
                    "d2h" => (&device.d2h, WHOLE, Engine::CopyOut),
                    "d2d" => (&device.d2d, 0, Engine::Compute),
                    _ => (&device.memset, 0, Engine::Compute),
                };
                (cost.duration_ns(*bytes), cost.watts, share, engine)
            }
        };
        Some(Job { ready_ns: 0, duration_ns, engine, share, microwatts: microwatts(watts), pid: self.pid })
    }

    /// Appends lines to the log at once, so that a killed process loses none.
    fn log(&self, lines: &str) {
        if let Err(e) = (&self.truth).write_all(lines.as_bytes()) {
            eprintln!("simgpu: the truth log cannot be written: {e}");
        }
    }
}

impl Work {
    pub(crate) fn describe(&self) -> (&'static str, &str, u64) {
        match self {
            Self::Kernel { function, .. } => ("kernel", &function.name, 0),
            Self::Copy { kind, bytes } => (kind, kind, *bytes),
        }
    }
}

/// When a stream may go on: after its own work, and for the default stream and those that heed it, after each other's.
fn ready(tables: &Tables, number: u64) -> Option<u64> {
    let stream = tables.streams.get(&number)?;
    if !stream.blocking {
        return Some(stream.free_ns);
    }
    let heeded = tables.streams.values().filter(|other| {
        other.context == stream.context && other.blocking && (stream.default || other.default)
    });
    Some(heeded.map(|other| other.free_ns).max().unwrap_or(0).max(stream.free_ns))
}

/// A number from 0 to 1 that depends on the seed, the kernel and the launch only (SplitMix64's mixing: Steele, Lea, Flood, OOPSLA 2014).
fn unit(seed: u64, name: &str, launch: u64) -> f64 {
    let word = name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let z = word.wrapping_add(launch.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    f64::from(u32::try_from((z ^ (z >> 31)) >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

/// The devices of a `CUDA_VISIBLE_DEVICES` list, in its order; the first word that names none ends it, as in CUDA.
fn parse_visible(list: Option<&str>, uuids: &[String]) -> Vec<usize> {
    let Some(list) = list else { return (0..uuids.len()).collect() };
    let named = |word: &str| match word.trim() {
        uuid if uuid.starts_with("GPU-") => uuids.iter().position(|known| known.starts_with(uuid)),
        index => index.parse().ok().filter(|&index: &usize| index < uuids.len()),
    };
    list.split(',').map_while(named).collect()
}

impl Stream {
    pub(crate) fn new(context: u64, device: usize, blocking: bool, default: bool) -> Self {
        Self { context, device, blocking, default, free_ns: 0, starts: VecDeque::new(), capture: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_visible, unit};

    /// The list reorders, and ends at the first word that names no device.
    #[test]
    fn visible_devices() {
        let uuids = ["GPU-a".to_owned(), "GPU-b".to_owned(), "GPU-c".to_owned()];
        assert_eq!(parse_visible(None, &uuids), [0, 1, 2]);
        assert_eq!(parse_visible(Some("2,0"), &uuids), [2, 0]);
        assert_eq!(parse_visible(Some("1,-1,0"), &uuids), [1]);
        assert_eq!(parse_visible(Some("GPU-c"), &uuids), [2]);
        assert_eq!(parse_visible(Some(""), &uuids), [0_usize; 0]);
    }

    /// Draws are spread evenly and repeat with the seed.
    #[test]
    fn draws() {
        let mean: f64 = (0..10_000).map(|launch| unit(1, "gemm", launch)).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_eq!(unit(1, "gemm", 5).to_bits(), unit(1, "gemm", 5).to_bits());
        assert_ne!(unit(1, "gemm", 5).to_bits(), unit(2, "gemm", 5).to_bits());
    }
}
