//! While somebody looks at a recording that is still running (`top`): slices are ended every second, and names found a few at a time.
//!
//! Names are looked for on a thread of their own: the ring buffers are not kept waiting. Leaves out who looks.

use crate::stacks::builder::StackBuilder;
use crate::stacks::naming::names_of;
use energy_trace_bpf::sampling::cpus::visit;
use energy_trace_foreign::files::Root;
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, FrameId};
use energy_trace_model::recording::record::{CalledOn, Frame, Record};
use energy_trace_naming::{Library, find_public_names};
use nix::unistd::{Gid, Uid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Between two ends of all slices, and between two turns of names.
const TURN: Duration = Duration::from_secs(1);
/// Between two turns where nobody waits for names: the kernel's whole list is read for some of them.
const SELDOM: Duration = Duration::from_secs(5);
/// Until public names are looked up first; each later time is twice as far away.
const FIRST_PUBLIC_NAMES: Duration = Duration::from_secs(3);

/// What was done so far.
pub(crate) struct LiveNames {
    cpus: Vec<CpuId>,
    namer: Namer,
    next_turn: KtimeNs,
    next_public_names: KtimeNs,
    wait: Duration,
    /// Frames that were taken from the interner, and those of each library that wait for their names.
    seen: usize,
    waiting: BTreeMap<String, Vec<usize>>,
    /// Whether frames and stacks are forgotten once they are many, as nobody else keeps their numbers; nobody waits for their names then.
    pub(crate) forgets: bool,
    /// Names that are being looked for are of frames that were forgotten.
    is_stale: bool,
}

impl LiveNames {
    /// Names are found by this worker, public names with the rights of `reader`.
    ///
    /// # Errors
    /// When there is no thread for them.
    pub(crate) fn start(
        cpus: Vec<CpuId>,
        reader: Option<(Uid, Gid)>,
        worker: Arc<Worker>,
        now: KtimeNs,
    ) -> std::io::Result<Self> {
        let namer = Namer::start(reader, worker)?;
        let (next_turn, next_public_names) = (now + TURN, now + FIRST_PUBLIC_NAMES);
        let (wait, waiting) = (FIRST_PUBLIC_NAMES, BTreeMap::new());
        let (seen, forgets, is_stale) = Default::default();
        Ok(Self { cpus, namer, next_turn, next_public_names, wait, seen, waiting, forgets, is_stale })
    }

    /// Frames have other numbers from now on.
    pub(super) fn begin_anew(&mut self) {
        self.seen = 0;
        self.waiting.clear();
        self.is_stale = self.namer.is_busy;
    }

    /// Does what is due.
    pub(super) fn look(&mut self, now: KtimeNs, stacks: &StackBuilder) {
        if now < self.next_turn {
            return;
        }
        self.next_turn = now + if self.forgets { SELDOM } else { TURN };
        visit(&self.cpus);
        let found = self.namer.found();
        if !self.is_stale {
            found.into_iter().for_each(|record| stacks.records().send(record));
        }
        self.is_stale &= self.namer.is_busy;
        if self.namer.is_busy {
            return;
        }
        if now >= self.next_public_names {
            self.wait = self.wait.saturating_mul(2);
            self.next_public_names = now + self.wait;
            let frames = stacks.out.frames().map(|(frame, on)| (frame.clone(), on.cloned()));
            self.namer.find(Job::Public(frames.collect(), stacks.libraries.roots.all()));
        } else {
            self.name_some(stacks);
        }
    }

    /// Names for the library with the most frames without one; for all of them where that is done seldom.
    fn name_some(&mut self, stacks: &StackBuilder) {
        let unnamed: &[(_, Frame)] = &stacks.out.unnamed;
        for (at, (_, frame)) in unnamed.iter().enumerate().skip(self.seen) {
            self.waiting.entry(frame.module.clone()).or_default().push(at);
        }
        self.seen = unnamed.len();
        let chosen = if self.forgets { std::mem::take(&mut self.waiting) } else { self.take_most() };
        let frames: Vec<_> = chosen.values().flatten().filter_map(|at| unnamed.get(*at).cloned()).collect();
        if frames.is_empty() {
            return;
        }
        let open = stacks.libraries.open();
        let library = |module: String| Some((module.clone(), open.get(&module)?.try_clone().ok()?));
        let libraries = chosen.into_keys().filter_map(library).collect();
        self.namer.find(Job::Native(frames, libraries));
    }

    /// Takes the library with the most frames without a name.
    fn take_most(&mut self) -> BTreeMap<String, Vec<usize>> {
        let most = self.waiting.iter().max_by_key(|(_, waiting)| waiting.len());
        let most = most.map(|(module, _)| module.clone());
        most.and_then(|module| self.waiting.remove_entry(&module)).into_iter().collect()
    }
}

/// What names are to be found for.
enum Job {
    /// Frames of these libraries.
    Native(Vec<(FrameId, Frame)>, BTreeMap<String, Library>),
    /// All frames, below these roots.
    Public(Vec<(Frame, Option<CalledOn>)>, Vec<Root>),
}

/// The thread that finds them, one job at a time.
struct Namer {
    jobs: Sender<Job>,
    found: Receiver<Vec<Record>>,
    is_busy: bool,
}

impl Namer {
    fn start(reader: Option<(Uid, Gid)>, worker: Arc<Worker>) -> std::io::Result<Self> {
        let ((jobs, todo), (done, found)) = (channel::<Job>(), channel());
        std::thread::Builder::new().name("energy-names".into()).spawn(move || {
            for job in todo {
                if done.send(names(job, reader, &worker)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, found, is_busy: false })
    }

    fn find(&mut self, job: Job) {
        self.is_busy = self.jobs.send(job).is_ok();
    }

    fn found(&mut self) -> Vec<Record> {
        let found = self.found.try_recv();
        self.is_busy &= found.is_err();
        found.unwrap_or_default()
    }
}

fn names(job: Job, reader: Option<(Uid, Gid)>, worker: &Worker) -> Vec<Record> {
    match job {
        Job::Native(frames, libraries) => names_of(&frames, &libraries, worker),
        Job::Public(frames, roots) => {
            let frames = frames.iter().map(|(frame, on)| (frame, on.as_ref()));
            let (names, installed) = find_public_names(frames, &roots, reader, worker);
            let names = (!names.is_empty()).then_some(Record::PublicNames(names));
            let installed = (!installed.is_empty()).then_some(Record::Installed(installed));
            names.into_iter().chain(installed).collect()
        }
    }
}
