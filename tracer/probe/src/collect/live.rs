//! While somebody looks at a recording that is still running (`top`): slices are ended every second, and names found a few at a time. An agent
//! wants names at the ends of its windows, if at all.
//!
//! Names are looked for on a thread of their own: the ring buffers are not kept waiting. Leaves out who looks.

use crate::stacks::builder::StackBuilder;
use crate::stacks::naming::names_of;
use energy_trace_bpf::config::LiveNaming;
use energy_trace_bpf::sampling::cpus::visit;
use energy_trace_foreign::files::Root;
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{CpuId, FrameId};
use energy_trace_model::recording::record::{CalledOn, Frame, Record};
use energy_trace_naming::{Library, find_public_names};
use energy_trace_system::clock::anchor;
use nix::unistd::{Gid, Uid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Between two ends of all slices, and between two turns of names.
const TURN: Duration = Duration::from_secs(1);
/// The same for an agent, whose windows may be shorter: the kernel's whole list is read for some names.
const SELDOM: Duration = Duration::from_secs(5);
/// So soon after the end of a window its samples have come; what is found then comes in time for it.
const COME: Duration = Duration::from_millis(500);
/// Until public names are looked up first; each later time is twice as far away.
const FIRST_PUBLIC_NAMES: Duration = Duration::from_secs(3);

/// What was done so far.
pub(crate) struct LiveNames {
    cpus: Vec<CpuId>,
    naming: LiveNaming,
    namer: Namer,
    next_turn: KtimeNs,
    next_names: KtimeNs,
    next_public_names: KtimeNs,
    wait: Duration,
    /// Frames that were taken from the interner, and those of each library that wait for their names.
    seen: usize,
    waiting: BTreeMap<String, Vec<usize>>,
    /// Whether frames and stacks are forgotten once they are many, as nobody else keeps their numbers.
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
        naming: LiveNaming,
        reader: Option<(Uid, Gid)>,
        worker: Arc<Worker>,
        now: KtimeNs,
    ) -> std::io::Result<Self> {
        let namer = Namer::start(reader, worker)?;
        Ok(Self {
            cpus,
            naming,
            namer,
            next_turn: now + TURN,
            next_names: next_names(naming, now),
            next_public_names: now + FIRST_PUBLIC_NAMES,
            wait: FIRST_PUBLIC_NAMES,
            seen: 0,
            waiting: BTreeMap::new(),
            forgets: false,
            is_stale: false,
        })
    }

    /// Frames have other numbers from now on.
    pub(super) fn begin_anew(&mut self) {
        self.seen = 0;
        self.waiting.clear();
        self.is_stale = self.namer.is_busy();
    }

    /// Does what is due.
    pub(super) fn look(&mut self, now: KtimeNs, stacks: &StackBuilder) {
        let found = self.namer.found();
        if !self.is_stale {
            found.into_iter().for_each(|record| stacks.records().send(record));
        }
        self.is_stale &= self.namer.is_busy();
        if now >= self.next_turn {
            self.next_turn = now + TURN;
            visit(&self.cpus);
        }
        if now >= self.next_names && !self.namer.is_busy() {
            self.next_names = next_names(self.naming, now);
            self.find_names(now, stacks);
        }
    }

    fn find_names(&mut self, now: KtimeNs, stacks: &StackBuilder) {
        self.name_some(stacks);
        if now >= self.next_public_names {
            self.wait = self.wait.saturating_mul(2);
            self.next_public_names = now + self.wait;
            let frames = stacks.out.frames().map(|(frame, on)| (frame.clone(), on.cloned()));
            self.namer.find(Job::Public(frames.collect(), stacks.libraries.roots.all()));
        }
    }

    /// Names for the library with the most frames without one; for all of them at the end of a window.
    fn name_some(&mut self, stacks: &StackBuilder) {
        let unnamed: &[(_, Frame)] = &stacks.out.unnamed;
        for (at, (_, frame)) in unnamed.iter().enumerate().skip(self.seen) {
            self.waiting.entry(frame.module.clone()).or_default().push(at);
        }
        self.seen = unnamed.len();
        let chosen = match self.naming {
            LiveNaming::Often => self.take_most(),
            LiveNaming::EachWindow(_) | LiveNaming::Never => std::mem::take(&mut self.waiting),
        };
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
        most.and_then(|module| self.waiting.remove_entry(&module)).into_iter().fill_map()
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
    /// Jobs that are not done.
    open: usize,
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
        Ok(Self { jobs, found, open: 0 })
    }

    fn find(&mut self, job: Job) {
        self.open += usize::from(self.jobs.send(job).is_ok());
    }

    const fn is_busy(&self) -> bool {
        self.open > 0
    }

    fn found(&mut self) -> Vec<Record> {
        let done: Vec<Vec<Record>> = self.found.try_iter().collect();
        self.open = self.open.saturating_sub(done.len());
        done.into_iter().flatten().collect()
    }
}

/// When names are looked for again.
fn next_names(naming: LiveNaming, now: KtimeNs) -> KtimeNs {
    match naming {
        LiveNaming::Often => now + TURN,
        LiveNaming::EachWindow(window) => after_window(window.max(SELDOM), now, anchor()),
        LiveNaming::Never => KtimeNs::from_ns(u64::MAX),
    }
}

/// Soon after the first end of a window for which that is still to come: windows end at multiples of their length in UTC.
fn after_window(window: Duration, now: KtimeNs, anchor: WallAnchor) -> KtimeNs {
    let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    let since_end = anchor.unix_ns_of(now).saturating_sub(COME.as_nanos() as u64) % window;
    now + Duration::from_nanos(window - since_end)
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

#[cfg(test)]
mod tests {
    use super::{COME, Duration, KtimeNs, LiveNaming, SELDOM, WallAnchor, after_window, next_names};

    /// Names are looked for half a second after each end of a window, once.
    #[test]
    fn after_each_window() {
        let seconds = |seconds: u64| KtimeNs::from_ns(seconds * 1_000_000_000);
        let anchor = WallAnchor { ktime: seconds(1_000), unix_ns: 1_800_000_005_000_000_000 };
        let minute = Duration::from_mins(1);
        let first = after_window(minute, seconds(1_000), anchor);
        assert_eq!(first, seconds(1_055) + COME);
        assert_eq!(after_window(minute, first, anchor), seconds(1_115) + COME);
        assert_eq!(after_window(minute, seconds(1_055), anchor), first);
    }

    /// Nobody's names are never looked for, and those of short windows seldom.
    #[test]
    fn when_names_are_looked_for() {
        let now = KtimeNs::from_ns(1 << 40);
        assert_eq!(next_names(LiveNaming::Never, now), KtimeNs::from_ns(u64::MAX));
        let next = next_names(LiveNaming::EachWindow(Duration::from_secs(1)), now);
        assert!(now < next && next <= now + SELDOM);
    }
}
