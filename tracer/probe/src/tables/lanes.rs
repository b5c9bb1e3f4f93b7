//! Workers for the files that are unwound through in user space, a few for the files of each user: what one user's file costs, another's does not.
//!
//! A worker is asked on a thread of its own, to look into a file or for one rule, and waited for a moment; what comes later is taken in later, and
//! the user's next file goes to another worker. A user whose files cost workers gets no rules, and who has waited for takes more than a share of the
//! time is waited for no more. Leaves out what the rules are for.

use energy_trace_foreign::resolver::{Resolver, Worker, question};
use energy_trace_model::recording::record::Owner;
use energy_trace_unwind::elf::ElfFacts;
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tracer_ebpf::rows::{FullRule, Rule};
use tracer_ebpf::wire::end;

/// Workers at the same time, and those for one user's files.
const MOST_LANES: usize = 8;
const MOST_OF_ONE: usize = 3;
/// Files that one worker is asked to keep.
const MOST_FILES: usize = 512;
/// Workers that one user's files may cost.
const MOST_LOST: u32 = 3;
/// What is waited for a file that is looked into: nearly all take less.
const A_MOMENT: Duration = Duration::from_millis(20);
/// What takes longer counts against its user, who has so much to begin with and one part in so many of the time.
const SLOW: Duration = Duration::from_millis(5);
const CREDIT: Duration = Duration::from_millis(500);
const SHARE: u32 = 8;

/// A file that a worker keeps.
pub(super) struct KeptFile {
    /// What it says of itself.
    pub(super) facts: ElfFacts,
    /// The lane that keeps it, and how many workers it had lost.
    lane: (u32, u32),
}

/// Work of a lane's thread, about the file of this number and path.
struct Job {
    number: u32,
    path: String,
    what: Wanted,
}

enum Wanted {
    /// The worker looks into the file and keeps it.
    Keep(Arc<File>),
    /// The rule at an address (SVMA) of a file that it keeps.
    Rule(u64),
    /// Keep the files of these numbers no longer.
    Forget(Vec<u32>),
}

/// A rule, and what it is in full; `None`: it cost the worker.
type Found = Option<(Rule, Option<FullRule>)>;

/// What became of it: the facts, and the worker's generation then; or the rule of an address.
enum Done {
    Kept(u32, Option<(ElfFacts, u32)>),
    Rule(u32, u64, Found),
    Forgotten,
}

/// What was found out of the file of a number.
pub(super) enum FileFinding {
    /// It is kept; `None`: there is nothing to unwind by.
    Kept(u32, Option<KeptFile>),
    /// A rule that was not waited for.
    Rule(u32, u64, Found),
}

struct Lane {
    number: u32,
    owner: Owner,
    worker: Arc<Worker>,
    jobs: Sender<Job>,
    done: Receiver<Done>,
    /// Files that are being looked into.
    asked: usize,
    used: Instant,
    /// Workers that it was seen to have lost.
    lost: u32,
    /// Files that its worker was asked to keep.
    files: usize,
}

/// All of them.
pub(super) struct Lanes {
    resolver: Resolver,
    lanes: Vec<Lane>,
    next: u32,
    begun: Instant,
    /// What users' files cost.
    owners: BTreeMap<Owner, Cost>,
}

/// What one user's files cost so far.
#[derive(Clone, Copy, Default)]
struct Cost {
    lost: u32,
    spent: Duration,
}

impl Lanes {
    pub(super) fn new(resolver: Resolver) -> Self {
        Self { resolver, lanes: Vec::new(), next: 0, begun: Instant::now(), owners: BTreeMap::new() }
    }

    /// Ends all workers.
    pub(super) fn end(&mut self) {
        self.lanes.clear();
    }

    /// Has a file of a user looked into; false where it will not be.
    pub(super) fn keep(&mut self, owner: Owner, number: u32, path: &str, file: &Arc<File>) -> bool {
        if self.cost(owner).lost >= MOST_LOST {
            return false;
        }
        // Its worker keeps as many as it may: those that are needed are looked into anew, by another one.
        self.lanes.retain(|lane| lane.files < MOST_FILES || lane.asked > 0);
        let Some(lane) = self.lane(owner) else { return false };
        lane.files += 1;
        lane.ask(Job { number, path: path.to_owned(), what: Wanted::Keep(Arc::clone(file)) })
    }

    /// Files that nobody needs any more, by their numbers.
    pub(super) fn forget(&mut self, files: &[(u32, KeptFile)]) {
        for lane in &mut self.lanes {
            let of_lane = files.iter().filter(|(_, kept)| kept.lane.0 == lane.number);
            let numbers: Vec<u32> = of_lane.map(|(number, _)| *number).collect();
            if !numbers.is_empty() {
                lane.files = lane.files.saturating_sub(numbers.len());
                lane.ask(Job {
                    number: 0,
                    path: "files that are gone".into(),
                    what: Wanted::Forget(numbers),
                });
            }
        }
    }

    fn cost(&self, owner: Owner) -> Cost {
        self.owners.get(&owner).copied().unwrap_or_default()
    }

    /// A lane of a user, an idle one if there is or may be one; where there are enough, the one that was used least lately makes room.
    fn lane(&mut self, owner: Owner) -> Option<&mut Lane> {
        let lanes = || self.lanes.iter().enumerate();
        let own = || lanes().filter(|(_, lane)| lane.owner == owner);
        let best = own().min_by_key(|(_, lane)| lane.asked).map(|(at, lane)| (at, lane.asked));
        if let Some((at, asked)) = best
            && (asked == 0 || own().count() >= MOST_OF_ONE)
        {
            return self.lanes.get_mut(at);
        }
        if self.lanes.len() >= MOST_LANES {
            let idle = lanes().filter(|(_, lane)| lane.asked == 0);
            match idle.min_by_key(|(_, lane)| lane.used).map(|(at, _)| at) {
                Some(oldest) => drop(self.lanes.swap_remove(oldest)),
                None => return self.lanes.get_mut(best?.0),
            }
        }
        self.next += 1;
        let lane = Lane::start(self.next, owner, self.resolver.worker(true)).ok()?;
        self.lanes.push(lane);
        self.lanes.last_mut()
    }

    /// What was found out since. Waits a moment for a file of this user's that was asked about just now.
    pub(super) fn collect(&mut self, of: Option<Owner>) -> Vec<FileFinding> {
        let mut out = Vec::new();
        let waits = of.filter(|&owner| !self.is_overdrawn(owner));
        let newest = self.lanes.iter().filter(|lane| lane.asked > 0 && Some(lane.owner) == waits);
        let newest =
            newest.max_by_key(|lane| lane.used).filter(|lane| lane.asked == 1).map(|lane| lane.number);
        for lane in &mut self.lanes {
            let begun = Instant::now();
            lane.collect(if newest == Some(lane.number) { A_MOMENT } else { Duration::ZERO }, &mut out);
            let cost = self.owners.entry(lane.owner).or_default();
            cost.spend(begun.elapsed());
            cost.lost += lane.newly_lost();
        }
        out
    }

    /// Waits a moment for what is asked of users who have time left; `None`: there is nothing to wait for.
    pub(super) fn wait(&mut self) -> Option<Vec<FileFinding>> {
        let at = self.lanes.iter().position(|lane| lane.asked > 0 && !self.is_overdrawn(lane.owner))?;
        let lane = self.lanes.get_mut(at)?;
        let (owner, begun, mut out) = (lane.owner, Instant::now(), Vec::new());
        lane.collect(A_MOMENT, &mut out);
        self.owners.entry(owner).or_default().spend(begun.elapsed());
        Some(out)
    }

    /// A rule of a file that a worker keeps; nothing where that worker is gone, and the file must be looked into again. Why there is none: the
    /// worker is busy with this or something else, or the file cost it.
    pub(super) fn rule(
        &mut self,
        kept: &KeptFile,
        (path, number): (&str, u32),
        svma: u64,
    ) -> Result<Option<(Rule, Option<FullRule>)>, u8> {
        let Some(at) = self.lanes.iter().position(|lane| lane.number == kept.lane.0) else { return Ok(None) };
        let Some(owner) = self.lanes.get(at).map(|lane| lane.owner) else { return Ok(None) };
        let is_overdrawn = self.is_overdrawn(owner);
        let Some(lane) = self.lanes.get_mut(at) else { return Ok(None) };
        // A worker that is busy is locked.
        if lane.asked > 0 {
            return Err(end::NOT_READY);
        }
        if lane.worker.generation() != kept.lane.1 {
            return Ok(None);
        }
        let begun = Instant::now();
        let patience = if is_overdrawn { Duration::ZERO } else { A_MOMENT };
        let rule = lane.rule(Job { number, path: path.to_owned(), what: Wanted::Rule(svma) }, patience);
        self.owners.entry(owner).or_default().spend(begun.elapsed());
        rule.map(Some)
    }

    /// Whether a user's files took more than their share. Those that root alone can have written mean no harm.
    fn is_overdrawn(&self, owner: Owner) -> bool {
        owner != Owner::Root && self.cost(owner).spent > CREDIT + self.begun.elapsed() / SHARE
    }
}

impl Cost {
    fn spend(&mut self, took: Duration) {
        self.spent += if took > SLOW { took } else { Duration::ZERO };
    }
}

impl Lane {
    fn start(number: u32, owner: Owner, worker: Worker) -> std::io::Result<Self> {
        let worker = Arc::new(worker);
        let ((jobs, todo), (found, done)) = (channel::<Job>(), channel());
        let keeper = Arc::clone(&worker);
        std::thread::Builder::new().name("energy-rules".into()).spawn(move || {
            energy_trace_system::host::urgency::raise();
            for job in todo {
                if found.send(job.done_by(&keeper, owner)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { number, owner, worker, jobs, done, asked: 0, used: Instant::now(), lost: 0, files: 0 })
    }

    /// Workers that were lost since this was asked last. One that is busy cannot be asked.
    fn newly_lost(&mut self) -> u32 {
        let lost = if self.asked == 0 { self.worker.generation() } else { self.lost };
        lost.saturating_sub(std::mem::replace(&mut self.lost, lost))
    }

    fn ask(&mut self, job: Job) -> bool {
        let is_asked = self.jobs.send(job).is_ok();
        self.asked += usize::from(is_asked);
        is_asked
    }

    /// Asks an idle worker for a rule, and waits so long.
    fn rule(&mut self, job: Job, patience: Duration) -> Result<(Rule, Option<FullRule>), u8> {
        if !self.ask(job) {
            return Err(end::NO_UNWIND_INFO);
        }
        match self.done.recv_timeout(patience) {
            Ok(Done::Rule(_, _, rule)) => {
                self.asked -= 1;
                rule.ok_or(end::NO_UNWIND_INFO)
            }
            _ => Err(end::NOT_READY),
        }
    }

    fn collect(&mut self, patience: Duration, out: &mut Vec<FileFinding>) {
        while self.asked > 0 {
            let Ok(done) = self.done.recv_timeout(patience) else { return };
            self.asked -= 1;
            self.used = Instant::now();
            let of_lane = |(facts, generation)| KeptFile { facts, lane: (self.number, generation) };
            out.push(match done {
                Done::Kept(number, kept) => FileFinding::Kept(number, kept.map(of_lane)),
                Done::Rule(number, svma, rule) => FileFinding::Rule(number, svma, rule),
                Done::Forgotten => continue,
            });
        }
    }
}

impl Job {
    fn done_by(self, worker: &Worker, owner: Owner) -> Done {
        let Self { number, path, what } = self;
        match what {
            Wanted::Keep(file) => {
                let kept = worker.keep(&path, &file, number);
                let kept = kept.inspect_err(|error| log::debug!("no unwind information: {error}")).ok();
                Done::Kept(number, kept.map(|facts| (facts, worker.generation())))
            }
            Wanted::Rule(svma) => {
                let rule = worker.rule(&path, number, svma);
                let rule = rule.inspect_err(|error| log::debug!("no rule of {path}: {error}")).ok();
                Done::Rule(number, svma, rule.map(question::rule))
            }
            Wanted::Forget(numbers) => {
                if let Err(error) = worker.forget(&path, owner, numbers) {
                    log::debug!("kept for nothing: {error}");
                }
                Done::Forgotten
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FileFinding, KeptFile, Lanes, MOST_FILES, MOST_LANES, MOST_OF_ONE, Owner};
    use energy_trace_foreign::resolver::{Resolver, Worker};
    use std::fs::File;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use tracer_ebpf::wire::end;

    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

    /// What becomes of the files that were asked about.
    fn collected(lanes: &mut Lanes, files: usize) -> Vec<(u32, Option<KeptFile>)> {
        let (begun, mut found) = (Instant::now(), Vec::new());
        while found.len() < files {
            assert!(begun.elapsed() < Duration::from_secs(60));
            found.extend(lanes.collect(None).into_iter().filter_map(|news| match news {
                FileFinding::Kept(number, kept) => Some((number, kept)),
                FileFinding::Rule(..) => None,
            }));
        }
        found.sort_by_key(|(number, _)| *number);
        found
    }

    /// A user whose file is being looked into has no rules meanwhile, and is not waited for; another user has.
    #[test]
    fn one_users_files_keep_nobody_else() {
        let (file, mut lanes) =
            (Arc::new(File::open(LIBC).unwrap()), Lanes::new(Resolver::start(false).unwrap()));
        assert!(lanes.keep(Owner::User(7), 0, LIBC, &file) && lanes.keep(Owner::User(8), 1, LIBC, &file));
        let kept: Vec<KeptFile> =
            collected(&mut lanes, 2).into_iter().map(|(_, kept)| kept.unwrap()).collect();
        let at = kept[0].facts.entry;
        let once = |lanes: &mut Lanes, of: usize| {
            let number = u32::try_from(of).unwrap();
            lanes.rule(&kept[of], (LIBC, number), at).map(|rule| rule.is_some())
        };
        // On a busy machine a rule may come after its moment.
        let rule = |lanes: &mut Lanes, of: usize| loop {
            match once(lanes, of) {
                Err(end::NOT_READY) => drop(lanes.collect(None)),
                known => return known,
            }
        };
        assert_eq!([rule(&mut lanes, 0), rule(&mut lanes, 1)], [Ok(true); 2]);
        assert!(lanes.keep(Owner::User(7), 2, LIBC, &file));
        assert_eq!(once(&mut lanes, 0), Err(end::NOT_READY));
        assert_eq!(rule(&mut lanes, 1), Ok(true));
        assert_eq!(rule(&mut lanes, 0), Ok(true));
    }

    /// A worker that keeps many files ends with them; one that is needed is looked into anew.
    #[test]
    fn files_without_end() {
        let (file, mut lanes) =
            (Arc::new(File::open("/bin/true").unwrap()), Lanes::new(Resolver::start(false).unwrap()));
        let mut keep = |number| {
            assert!(lanes.keep(Owner::User(7), number, "true", &file));
            collected(&mut lanes, 1).remove(0).1.unwrap()
        };
        let first = keep(0);
        let count = u32::try_from(MOST_FILES).unwrap();
        let last = (1..=count).map(&mut keep).last().unwrap();
        assert!(lanes.rule(&first, ("true", 0), first.facts.entry).is_ok_and(|rule| rule.is_none()));
        assert!(lanes.lanes.len() == 1 && lanes.lanes[0].files == 1 && lanes.lanes[0].number == last.lane.0);
    }

    /// A file that is needed no more is kept no more by its worker, which goes on with the others.
    #[test]
    fn what_is_forgotten() {
        let (file, mut lanes) =
            (Arc::new(File::open(LIBC).unwrap()), Lanes::new(Resolver::start(false).unwrap()));
        let keep = |lanes: &mut Lanes, number| {
            assert!(lanes.keep(Owner::User(7), number, LIBC, &file));
            collected(lanes, 1).remove(0).1.unwrap()
        };
        let (gone, other) = (keep(&mut lanes, 0), keep(&mut lanes, 1));
        let ask = |number| move |worker: &Worker| worker.rule(LIBC, number, 0).is_ok();
        let worker = Arc::clone(&lanes.lanes[0].worker);
        assert_eq!([ask(0)(&worker), ask(1)(&worker)], [true; 2]);
        lanes.forget(&[(0, gone)]);
        while lanes.lanes[0].asked > 0 {
            lanes.collect(None);
        }
        assert_eq!([ask(0)(&worker), ask(1)(&worker)], [false, true]);
        assert_eq!((lanes.lanes[0].files, other.lane.0), (1, lanes.lanes[0].number));
    }

    /// Any number of users and files has a stated number of workers; what is no ELF file has no rules.
    #[test]
    fn workers_are_few() {
        let (text, mut lanes) =
            (Arc::new(File::open("/etc/passwd").unwrap()), Lanes::new(Resolver::start(false).unwrap()));
        for number in 0..6 {
            assert!(lanes.keep(Owner::User(7), number, "passwd", &text));
        }
        assert_eq!(lanes.lanes.len(), MOST_OF_ONE);
        assert!(collected(&mut lanes, 6).iter().all(|(_, kept)| kept.is_none()));
        for owner in 0..20 {
            lanes.keep(Owner::User(owner), owner, "passwd", &text);
            assert!(lanes.lanes.len() <= MOST_LANES);
            lanes.collect(None);
        }
    }
}
