//! Takes a recording from the pipe while it is made, attributes a window after the other, makes the page of
//! what they have together, and hands each to the outlets.
//!
//! Records may come late: a window is attributed some seconds after its end, when later ones have come. Where too much waits, as on a machine of
//! very many switches or processes, a window ends early. Leaves out when windows end, whose processes are, and who asks for the page.

use super::cost::Cost;
use super::groups::{Groups, PODS};
use super::listener::{Listener, Pages};
use super::outlets::Outlets;
use super::sandbox::enter_sandbox;
use super::spool;
use super::windows::{end_after, joined, next_end};
use crate::collector::Endpoint;
use crate::live::{LAG, PIECE, Pipe, Watcher};
use crate::plan::AgentPlan;
use energy_trace_attribution::{CarriedPowers, attribute_by_process, attribute_with_processes};
use energy_trace_export::fleet::AgentFacts;
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::ProcessKey;
use energy_trace_model::profile::work::Work;
use energy_trace_model::profile::{DomainByProcess, Options};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::live::IncrementalReader;
use energy_trace_model::recording::record::{LossReason, Process};
use energy_trace_report::agent_page::{Format, OwnCost, OwnShare, last_words, page};
use energy_trace_report::agent_totals::Totals;
use energy_trace_system::allocator::{RECORDING, return_large_blocks, trim};
use energy_trace_system::clock::{anchor, now, wall_error_ns};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Milliseconds between two looks at the clock.
const LOOK_MS: u16 = 250;
/// For so long records that should have come are waited for.
const LATEST: Duration = Duration::from_secs(10);
/// Bytes of records that may wait for the end of their window.
const MOST_WAITING: usize = 8 << 20;
/// Processes that may have begun in a window: each is known by some hundred bytes, twice where it is attributed.
const MOST_BEGUN: usize = 20_000;

/// A window in which a GPU works has at least so many readings of it, a tenth of a second apart, and at least this length: the energy of launches
/// is not learned from fewer than 40 (`FEWEST_WINDOWS`). Where readings are rare, a window is joined to the next up to the greatest length.
const GPU_READINGS: usize = 45;
const SHORTEST_JOINED: Duration = Duration::from_millis(4_500);
const LONGEST_JOINED: Duration = Duration::from_mins(1);

/// What the recorder has said: events that were lost, and what it takes.
type Heard = Mutex<(u64, OwnShare)>;

fn heard(of: &Heard) -> (u64, OwnShare) {
    *of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From the socket to the last window.
pub(crate) struct Agent {
    pipe: Pipe,
    listener: Option<Listener>,
    address: SocketAddr,
    /// With the collector's address in the place of its name.
    plan: AgentPlan,
    heard: Arc<Heard>,
    thread: Option<JoinHandle<io::Result<()>>>,
    /// The spool is this agent's.
    _lock: Option<File>,
}

impl Agent {
    /// Listens, and enters the sandbox. Nothing is answered yet.
    ///
    /// # Errors
    /// When nobody can listen there, or another agent has the spool, with what to do about it; and when the
    /// system refuses anything else.
    pub(crate) fn new(plan: &AgentPlan) -> io::Result<Self> {
        let socket = TcpListener::bind(plan.listen).map_err(|error| {
            let text = format!("cannot listen on {}: {error}; name another place with --listen", plan.listen);
            io::Error::new(error.kind(), text)
        })?;
        let address = socket.local_addr()?;
        let (pipe, listener) = (Pipe::new()?, Listener::new(socket)?);
        let collector = plan.collector.as_ref().map(look_up).transpose()?;
        let spool = plan.spool.as_ref().map(|spool| spool.folder.as_path());
        spool.map(spool::check).transpose()?;
        let lock = spool.map(spool::lock).transpose()?.flatten();
        enter_sandbox(spool, collector.as_ref().map(Endpoint::port))?;
        let plan = AgentPlan { collector, ..plan.clone() };
        Ok(Self {
            pipe,
            listener: Some(listener),
            address,
            plan,
            heard: Arc::default(),
            thread: None,
            _lock: lock,
        })
    }
}

/// Where it listens, and for whom.
fn listens(address: SocketAddr) -> String {
    let open = "; whoever reaches that address can read them, as there is no password: keep it behind a firewall, or --listen 127.0.0.1:9464";
    format!("metrics on http://{address}/metrics{}", if address.ip().is_loopback() { "" } else { open })
}

/// Before the sandbox, in which nobody looks up names.
fn look_up(collector: &Endpoint) -> io::Result<Endpoint> {
    collector.looked_up().map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot find the collector {collector}: {error}; name its address"),
        )
    })
}

impl Watcher for Agent {
    fn take_writing_end(&mut self) -> Option<OwnedFd> {
        self.pipe.writing.take()
    }

    fn begin(&mut self) {
        let (Some(pipe), Some(listener)) = (self.pipe.reading.take(), self.listener.take()) else { return };
        let outlets = match Outlets::start(self.plan.spool.take(), self.plan.collector.take()) {
            Ok(outlets) => outlets,
            Err(error) => return log::error!("the agent ends: {error}"),
        };
        return_large_blocks(RECORDING);
        let watching = Watching::new(self.plan.window, Arc::clone(&self.heard), outlets);
        let pages = watching.pages.clone();
        let thread = |name: &str| std::thread::Builder::new().name(name.into());
        // Without a thread nobody has the pipe, which ends the recording.
        self.thread = thread("windows").spawn(move || watching.run(pipe)).ok();
        let _ = thread("listener").spawn(move || listener.serve(&pages));
        log::warn!("{}", listens(self.address));
    }

    fn hear(&mut self, lost: u64, share: OwnShare) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = (lost, share);
    }

    fn end(&mut self) -> Result<(), String> {
        self.pipe.close();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(format!("the agent ended: {error}")),
            Some(Err(_)) | None => Err("the agent ended: an error in energy-trace".into()),
        }
    }
}

/// What is known now.
struct Watching {
    live: IncrementalReader,
    groups: Groups,
    totals: Totals,
    /// What windows so far have shown of powers.
    carried: CarriedPowers,
    cost: Cost,
    heard: Arc<Heard>,
    outlets: Outlets,
    /// Losses and CPU time of the agent up to the last window for an outlet.
    told: (u64, u64),
    pages: Pages,
    window: Duration,
    /// When the last window for an outlet was put together, by both clocks.
    anchor: WallAnchor,
    /// When the last one that was attributed ended, and when the window ends.
    from: KtimeNs,
    end: KtimeNs,
    /// Bytes that came since the last one ended.
    waiting: usize,
    /// Processes that began since.
    begun: usize,
    /// Windows that ended early.
    early: u64,
    /// Windows that are a part of the next.
    joined: u64,
}

impl Watching {
    fn new(window: Duration, heard: Arc<Heard>, outlets: Outlets) -> Self {
        let mut watching = Self {
            live: IncrementalReader::default(),
            groups: Groups::new("/proc", PODS),
            totals: Totals::default(),
            carried: CarriedPowers::default(),
            cost: Cost::of(nix::unistd::getppid()),
            heard,
            outlets,
            told: (0, 0),
            pages: Pages::default(),
            window,
            anchor: anchor(),
            from: now(),
            end: end_after(now(), window, anchor()),
            waiting: 0,
            begun: 0,
            early: 0,
            joined: 0,
        };
        watching.show(now());
        watching
    }

    /// Until the recording ends.
    fn run(mut self, mut pipe: File) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            if has_bytes(&pipe)? {
                let read = pipe.read(&mut piece)?;
                if read == 0 {
                    self.finish();
                    return Ok(());
                }
                self.take(piece.get(..read).unwrap_or_default())?;
            }
            self.end_windows();
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.live.push(bytes).map_err(io::Error::other)?;
        self.waiting = self.waiting.saturating_add(bytes.len());
        let new = self.live.new_processes();
        self.begun = self.begun.saturating_add(new.len());
        self.groups.look_at_new(new);
        Ok(())
    }

    /// Ends the window where it is time.
    fn end_windows(&mut self) {
        let now = now();
        if self.waiting > MOST_WAITING || self.begun > MOST_BEGUN {
            self.early += 1;
            let enough = self.live.last().as_ns().saturating_sub(LAG.as_nanos() as u64);
            self.attribute(KtimeNs::from_ns(enough));
        } else if now >= self.end + LATEST || now >= self.end + LAG && self.live.last() >= self.end + LAG {
            match self.is_too_short() {
                true => self.joined += 1,
                false => self.attribute(self.end),
            }
            self.begin_next(now);
        }
    }

    /// Whether it is a part of the next, as it says too little of what launches on a GPU draw.
    fn is_too_short(&mut self) -> bool {
        let length = Duration::from_nanos(self.end.ns_since(self.from));
        let is_little = |readings: usize| readings < GPU_READINGS || length < SHORTEST_JOINED;
        length < LONGEST_JOINED && self.live.gpu_readings(self.end).is_some_and(is_little)
    }

    /// Nothing comes any more: windows that are whole, each by itself, and what there is of the next.
    fn finish(mut self) {
        let last = self.live.last();
        while self.end < last {
            self.attribute(self.end);
            self.begin_next(last);
        }
        self.attribute(last);
        let windows = self.totals.windows();
        let (spool, sender) = self.outlets.end();
        log::warn!("{}", last_words(windows, spool, sender));
    }

    fn begin_next(&mut self, now: KtimeNs) {
        let next = next_end(self.end, now, self.window, anchor());
        self.joined += joined(self.end, next, self.window);
        self.end = next;
    }

    fn attribute(&mut self, until: KtimeNs) {
        (self.waiting, self.begun, self.from) = (0, 0, until);
        let Some(window) = self.live.window(until) else { return };
        self.totals.work.add(&window.work, until).iter().for_each(|news| log::warn!("{news}"));
        let living = self.groups.look_at_living();
        let energy = match self.outlets.are_there() {
            true => self.put(window),
            false => attribute_by_process(window, &Options::default(), &mut self.carried),
        };
        self.totals.add(&energy, until, &|process| self.groups.who(self.live.number_of(process)), &living);
        self.live.forget_ended(&|number| self.groups.has_ended(number));
        let known = self.live.numbers();
        self.groups.forget_unknown(|number| known.contains(&number));
        self.show(until);
        trim();
    }

    /// Attributes a window with its stacks, for whoever takes them; its time is that of the clock now, and
    /// its programs are whose they were at its end.
    fn put(&mut self, mut window: Recording) -> Vec<DomainByProcess> {
        let before = std::mem::replace(&mut self.anchor, anchor());
        window.header.anchor = self.anchor;
        let facts = AgentFacts {
            namespaces: self.groups.namespaces(),
            clock_step_ns: Some(self.anchor.step_since(before)),
            clock_error_ns: wall_error_ns(),
            removed_windows: None,
        };
        window.control_groups = self.paths(&window.processes);
        let so_far = (self.lost(), self.cost.now().0);
        let before = std::mem::replace(&mut self.told, so_far);
        if let Some(summary) = &mut window.summary {
            // The recorder does not say why each was lost.
            let lost = so_far.0.saturating_sub(before.0);
            summary.lost.extend((lost > 0).then_some((LossReason::Samples, lost)));
            summary.tracer_cpu_ns = so_far.1.saturating_sub(before.1);
        }
        let work = std::mem::take(&mut window.work).into_iter().map(Work::of).collect();
        let (energy, mut profile) = attribute_with_processes(window, &Options::logical(), &mut self.carried);
        profile.work = work;
        self.outlets.put(&profile, facts);
        energy
    }

    fn lost(&self) -> u64 {
        heard(&self.heard).0.saturating_add(self.live.strays())
    }

    /// Empty of those who were not seen.
    fn paths(&self, processes: &[Process]) -> BTreeMap<ProcessKey, String> {
        let path = |process: &Process| self.groups.path(self.live.number_of(process.key)).unwrap_or_default();
        processes.iter().map(|process| (process.key, path(process).to_owned())).fill_map()
    }

    /// Makes the page anew.
    fn show(&mut self, until: KtimeNs) {
        let (cpu_ns, resident_bytes) = self.cost.now();
        let (spool, sender) = self.outlets.counts();
        let share = heard(&self.heard).1;
        let cost = OwnCost {
            cpu_ns,
            resident_bytes,
            share,
            lost: self.lost(),
            early: self.early,
            joined: self.joined,
            spool,
            sender,
            window_end_unix_ns: anchor().unix_ns_of(until),
        };
        let [open_metrics, text] =
            [Format::OpenMetrics, Format::Text].map(|format| page(&self.totals, &cost, format));
        self.pages.set(open_metrics, text);
    }
}

/// Whether there is something to read, waiting for a moment.
fn has_bytes(pipe: &File) -> io::Result<bool> {
    let mut files = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    match poll(&mut files, PollTimeout::from(LOOK_MS)) {
        Err(Errno::EINTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::listens;

    /// A page that other machines can ask for is no secret, which is said.
    #[test]
    fn who_can_read() {
        let said = |address: &str| listens(address.parse().unwrap());
        assert_eq!(said("127.0.0.1:9464"), "metrics on http://127.0.0.1:9464/metrics");
        assert!(
            ["0.0.0.0:9464", "[::]:9464", "10.0.0.7:1"].iter().all(|open| said(open).contains("no password"))
        );
    }
}
