//! Workers for the files that are unwound through in user space, one for the files of each user: what one user's file costs, another's does not.
//!
//! Looking into a file is asked for on a thread of each worker's own, and waited for a moment; rules, which take microseconds, are asked for
//! directly. A user whose files cost workers, or take more than a share of the time, gets no rules. Leaves out what the rules are for.

use crate::resolver::{Resolver, Worker, question};
use energy_trace_unwind::elf::ElfFacts;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tracer_ebpf::rows::{FullRule, Rule};
use tracer_ebpf::wire::end;

/// Users whose files have a worker at the same time.
const MOST_LANES: usize = 8;
/// Workers that one user's files may cost.
const MOST_LOST: u32 = 3;
/// What is waited for a file that is looked into: nearly all take less.
const A_MOMENT: Duration = Duration::from_millis(20);
/// What takes longer counts against its user, who has so much to begin with and one part in so many of the time.
const SLOW: Duration = Duration::from_millis(2);
const CREDIT: Duration = Duration::from_millis(100);
const SHARE: u32 = 16;

/// A file that a worker keeps.
pub(super) struct Kept {
    /// What it says of itself.
    pub(super) facts: ElfFacts,
    /// Of the worker that keeps it, and of its user's lane.
    generation: (u32, u32),
}

/// Work of a lane's thread.
struct Job {
    number: u32,
    path: String,
    file: Arc<File>,
}

/// What became of it: the facts, and the worker's generation then.
type Done = (u32, Option<(ElfFacts, u32)>);

struct Lane {
    number: u32,
    worker: Arc<Worker>,
    jobs: Sender<Job>,
    done: Receiver<Done>,
    /// Files that are being looked into.
    asked: usize,
    begun: Instant,
    used: Instant,
    /// What slow rules took.
    spent: Duration,
}

/// All of them, by user.
pub(super) struct Lanes {
    resolver: Resolver,
    by_owner: HashMap<u32, Lane>,
    next: u32,
}

impl Lanes {
    pub(super) fn new(resolver: Resolver) -> Self {
        Self { resolver, by_owner: HashMap::new(), next: 0 }
    }

    /// Ends all workers.
    pub(super) fn end(&mut self) {
        self.by_owner.clear();
    }

    /// Has a file of a user looked into; false where it will not be.
    pub(super) fn keep(&mut self, owner: u32, number: u32, path: &str, file: &Arc<File>) -> bool {
        let Some(lane) = self.lane(owner) else { return false };
        let job = Job { number, path: path.to_owned(), file: Arc::clone(file) };
        let is_asked = lane.worker.generation() < MOST_LOST && lane.jobs.send(job).is_ok();
        lane.asked += usize::from(is_asked);
        is_asked
    }

    /// The lane of a user; where there are enough, the one that was used least lately makes room.
    fn lane(&mut self, owner: u32) -> Option<&mut Lane> {
        if !self.by_owner.contains_key(&owner) {
            if self.by_owner.len() >= MOST_LANES {
                let idle = self.by_owner.iter().filter(|(_, lane)| lane.asked == 0);
                let (&oldest, _) = idle.min_by_key(|(_, lane)| lane.used)?;
                self.by_owner.remove(&oldest);
            }
            self.next += 1;
            let lane = Lane::start(self.next, self.resolver.worker(true)).ok()?;
            self.by_owner.insert(owner, lane);
        }
        self.by_owner.get_mut(&owner)
    }

    /// What was found out since, of files by number; `None`: there is nothing to unwind by. Waits a moment for one of this user's that was asked
    /// about just now.
    pub(super) fn collect(&mut self, of: Option<u32>) -> Vec<(u32, Option<Kept>)> {
        let mut out = Vec::new();
        for (owner, lane) in &mut self.by_owner {
            let is_waited_for = of == Some(*owner) && lane.asked == 1 && !lane.is_overdrawn();
            lane.collect(if is_waited_for { A_MOMENT } else { Duration::ZERO }, &mut out);
        }
        out
    }

    /// A rule of a file that a worker keeps; nothing where that worker is gone, and the file must be looked into again. Why there is none: its
    /// user's worker is busy, or the file cost it.
    pub(super) fn rule(
        &mut self,
        owner: u32,
        kept: &Kept,
        (path, number): (&str, u32),
        svma: u64,
    ) -> Result<Option<(Rule, Option<FullRule>)>, u8> {
        let Some(lane) = self.by_owner.get_mut(&owner) else { return Ok(None) };
        if (lane.worker.generation(), lane.number) != kept.generation {
            return Ok(None);
        }
        if lane.asked > 0 || lane.is_overdrawn() {
            return Err(end::NOT_READY);
        }
        lane.used = Instant::now();
        let rule = lane.worker.rule(path, number, svma);
        lane.spend(lane.used.elapsed());
        rule.map(|plain| Some(question::rule(plain))).map_err(|error| {
            log::debug!("no rule of {path}: {error}");
            end::NO_UNWIND_INFO
        })
    }
}

impl Lane {
    fn start(number: u32, worker: Worker) -> std::io::Result<Self> {
        let worker = Arc::new(worker);
        let ((jobs, todo), (found, done)) = (channel::<Job>(), channel());
        let keeper = Arc::clone(&worker);
        std::thread::Builder::new().name("energy-rules".into()).spawn(move || {
            crate::probe::priority::raise_priority();
            for Job { number, path, file } in todo {
                let kept = keeper.keep(&path, &file, number);
                let kept = kept.inspect_err(|error| log::debug!("no unwind information: {error}")).ok();
                if found.send((number, kept.map(|facts| (facts, keeper.generation())))).is_err() {
                    return;
                }
            }
        })?;
        let now = Instant::now();
        Ok(Self { number, worker, jobs, done, asked: 0, begun: now, used: now, spent: Duration::ZERO })
    }

    fn collect(&mut self, patience: Duration, out: &mut Vec<(u32, Option<Kept>)>) {
        while self.asked > 0 {
            let begun = Instant::now();
            let found = self.done.recv_timeout(patience);
            self.spend(begun.elapsed());
            let Ok((number, found)) = found else { return };
            self.asked -= 1;
            self.used = Instant::now();
            let of_lane = |(facts, generation)| Kept { facts, generation: (generation, self.number) };
            out.push((number, found.map(of_lane)));
        }
    }

    fn spend(&mut self, took: Duration) {
        self.spent += if took > SLOW { took } else { Duration::ZERO };
    }

    /// Whether its user's files took more than their share.
    fn is_overdrawn(&self) -> bool {
        self.spent > CREDIT + self.begun.elapsed() / SHARE
    }
}
