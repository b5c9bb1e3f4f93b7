//! When the mappings of a process are read and told to the probes: after what happened to it, and for a stated share of time.
//!
//! `/proc/PID/maps` is read as a whole, however little has changed in it, and the probes are told all mappings of a process, however few
//! have a new table. So what either takes is paid for with time in which there is none of it: a program that makes mappings without end
//! costs a sixteenth of a CPU, and so do many of them together. Each program has some time to begin with, which programs that start and
//! load their libraries do not use up. What is new meanwhile is seen at the next read. What is told because of new tables is paid for by
//! itself: a hundred libraries whose tables come one by one must not keep new mappings from being read. Leaves out what a read finds
//! (`registry.rs`).

use super::process::Process;
use super::registry::{Processes, Scope};
use crate::records::RecordSender;
use crate::tables::files::Mapped;
use energy_trace_bpf::decode::EventContext;
use energy_trace_bpf::process_maps::Maps;
use energy_trace_foreign::peeker::Unanswered;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::address_space::FileKey;
use energy_trace_unwind::vdso::key_of;
use foldhash::HashMap;
use std::collections::HashSet;
use std::time::Duration;

/// Between two reads of the mappings of a process that shows unknown addresses.
const READ_AGAIN_NS: u64 = 50_000_000;
/// After this long a mapping that was announced is there.
const SETTLED: Duration = Duration::from_millis(30);
/// So many times as long as work takes it has to be paid for.
const PRICE: u64 = 16;
/// Work is done on credit up to here: 100 ms of it.
const CREDIT_NS: u64 = PRICE * 100_000_000;
/// The longest rest after one piece of work.
const LONGEST_REST_NS: u64 = 2_000_000_000;

/// Time that may be spent on one kind of work for a process.
#[derive(Clone, Copy, Default)]
pub(crate) struct Credit {
    /// When what was done is paid for.
    paid_at: KtimeNs,
}

impl Credit {
    /// Whether more may be done.
    const fn is_left(self, now: KtimeNs) -> bool {
        self.paid_at.as_ns() <= now.as_ns().saturating_add(CREDIT_NS)
    }

    /// Takes in that work took so long and is over `now`, where `crowd` other processes have no credit left.
    fn spend(&mut self, now: KtimeNs, took_ns: u64, crowd: usize) {
        let price = took_ns.saturating_mul(PRICE).saturating_mul((crowd as u64).saturating_add(1));
        let at = self.paid_at.max(now).as_ns().saturating_add(price);
        self.paid_at = KtimeNs::from_ns(at.min(now.as_ns().saturating_add(CREDIT_NS + LONGEST_REST_NS)));
    }
}

/// What is to be done for a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Its mappings are read, and told to the probes.
    Read,
    /// The probes are told what is known.
    Tell,
}

impl Process {
    /// What is to be done now. `is_urgent`: a table that the probes go by for this process is about to be dropped.
    fn work(&self, is_urgent: bool, now: KtimeNs) -> Option<Task> {
        if self.has_ended {
            return is_urgent.then_some(Task::Tell);
        }
        let has_changed = self.dirty || self.again.is_some_and(|at| at <= now);
        if has_changed && self.reads.is_left(now) {
            return Some(Task::Read);
        }
        (is_urgent || self.has_news && self.uploads.is_left(now)).then_some(Task::Tell)
    }

    /// Whether it maps one of these files.
    fn maps_any(&self, files: &HashSet<FileKey>) -> bool {
        !files.is_empty()
            && self.space.mappings().iter().any(|m| key_of(m).is_some_and(|key| files.contains(key)))
    }
}

impl Processes {
    /// Its mappings may have changed.
    pub(crate) fn touch(&mut self, pid: Pid, at: KtimeNs) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.dirty = true;
            process.again = Some(at + SETTLED);
        }
    }

    /// A sample met an address that belongs to no known mapping: the process's mappings are read at once. Nothing announces memory that is
    /// made executable after it was mapped (V8's), and the samples that follow show it too.
    pub(crate) fn note_unmapped_pc(&mut self, head: EventContext, pc: u64) {
        let is_due = |process: &&mut Process| head.at.ns_since(process.read_for_pc_at) > READ_AGAIN_NS;
        let Some(process) = self.by_pid.get_mut(&head.pid).filter(is_due) else { return };
        process.read_for_pc_at = head.at;
        process.dirty = true;
        if self.may_read(head.pid, energy_trace_system::clock::now()) {
            self.read_again(head, pc);
        }
    }

    /// The files that processes map.
    pub(crate) fn mapped(&self) -> Mapped<'_> {
        mapped(&self.by_pid)
    }

    /// Reads the mappings of processes again that changed, and tells the probes of those that map a file of which something is known now.
    pub(crate) fn refresh(
        &mut self,
        maps: &mut Maps,
        out: &RecordSender,
        updated: &HashSet<FileKey>,
        now: KtimeNs,
    ) {
        self.look_late(out);
        let dropped = match self.files.is_over_budget() {
            true => self.files.make_room(&mapped(&self.by_pid), now),
            false => HashSet::new(),
        };
        if self.files.are_many() {
            self.files.forget_unmapped(&mapped(&self.by_pid));
        }
        let takes_more = self.files.takes_more();
        let mut todo: Vec<(Pid, Task)> = Vec::new();
        for pid in self.with_mappings() {
            let Some(process) = self.by_pid.get_mut(&pid) else { continue };
            process.has_news |= takes_more || process.maps_any(updated) || self.files.has_made_news(pid);
            todo.extend(process.work(process.maps_any(&dropped), now).map(|work| (pid, work)));
        }
        if !todo.is_empty() {
            self.work(todo, maps, out, now);
        }
        self.files.apply_pending();
    }

    fn work(&mut self, todo: Vec<(Pid, Task)>, maps: &mut Maps, out: &RecordSender, now: KtimeNs) {
        let with_mappings: Vec<&Process> =
            self.with_mappings().iter().filter_map(|pid| self.by_pid.get(pid)).collect();
        let crowd_of = |credit: fn(&Process) -> Credit| {
            with_mappings.iter().filter(|process| !credit(process).is_left(now)).count()
        };
        let (readers, told) = (crowd_of(|p| p.reads), crowd_of(|p| p.uploads));
        for (pid, work) in todo {
            match work {
                Task::Read => self.read(pid, readers, maps, out),
                Task::Tell => self.tell(pid, told, maps, out),
            }
        }
    }

    /// Processes whose mappings are read.
    fn with_mappings(&self) -> Vec<Pid> {
        match self.scope {
            Scope::Targets => self.by_pid.keys().copied().collect(),
            Scope::Machine | Scope::Always | Scope::Agent => self.sampled.iter().copied().collect(),
        }
    }

    fn read(&mut self, pid: Pid, crowd: usize, maps: &mut Maps, out: &RecordSender) {
        let begun = energy_trace_system::clock::now();
        // Where no answer comes in time they are read once more.
        let read = self.peeker.mappings(pid, None);
        self.with(pid, |process| (process.dirty, process.has_news) = (read == Err(Unanswered::Late), false));
        if let Ok(Some(space)) = read {
            self.with(pid, |process| process.set_space(space, begun));
        }
        self.find_interpreter(pid, maps, out);
        self.find_thread_places(pid, maps);
        self.find_hotspot(pid, maps);
        self.find_v8(pid);
        self.find_context(pid, maps);
        self.upload(pid, maps);
        let done = energy_trace_system::clock::now();
        self.with(pid, |process| {
            process.again = process.again.filter(|&at| at > begun);
            process.reads.spend(done, done.ns_since(begun), crowd);
        });
    }

    fn tell(&mut self, pid: Pid, crowd: usize, maps: &mut Maps, out: &RecordSender) {
        let begun = energy_trace_system::clock::now();
        self.with(pid, |process| process.has_news = false);
        self.find_interpreter(pid, maps, out);
        self.find_thread_places(pid, maps);
        self.find_hotspot(pid, maps);
        self.find_v8(pid);
        self.find_context(pid, maps);
        self.upload(pid, maps);
        let done = energy_trace_system::clock::now();
        self.with(pid, |process| {
            process.uploads.spend(done, done.ns_since(begun), crowd);
        });
    }

    /// Reads the mappings of a sample's process again, if that was not done since the sample was taken; false where they cannot be
    /// had: the process is gone, or is another program meanwhile, in which an address of the sample (its stack pointer or code) points
    /// nowhere.
    pub(crate) fn read_again(&mut self, head: EventContext, address: u64) -> bool {
        if !self.is_older(head) || self.ending.contains(&head.pid) {
            return false;
        }
        let now = energy_trace_system::clock::now();
        let Ok(Some(space)) = self.peeker.mappings(head.pid, Some(address)) else { return false };
        // What is new is the probes' to know as well.
        self.with(head.pid, |process| {
            process.set_space(space, now);
            process.dirty = true;
        });
        true
    }

    /// Whether the mappings of a sample's process were last read before the sample was taken.
    pub(crate) fn is_older(&self, head: EventContext) -> bool {
        self.by_pid.get(&head.pid).is_some_and(|process| process.read_at.is_none_or(|at| at < head.at))
    }

    /// Whether the mappings of a process may be read now: its share of time is not used up.
    pub(crate) fn may_read(&self, pid: Pid, now: KtimeNs) -> bool {
        self.by_pid.get(&pid).is_none_or(|process| process.reads.is_left(now))
    }
}

/// All files that are mapped, with one process for each.
fn mapped(processes: &HashMap<Pid, Process>) -> Mapped<'_> {
    let mappings = processes.iter().flat_map(|(&pid, p)| p.space.mappings().iter().map(move |m| (pid, m)));
    mappings.filter_map(|(pid, mapping)| Some((key_of(mapping)?, (pid, mapping)))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Credit, KtimeNs, Process, Task};
    use crate::processes::process::new_process;
    use energy_trace_model::ids::{Pid, ProcessKey};
    use energy_trace_model::recording::record;

    const MS: u64 = 1_000_000;

    /// Time that work takes within a minute, in milliseconds, where some is due at every millisecond.
    fn spent(each_ms: u64, crowd: usize) -> u64 {
        let (mut now, mut credit, mut spent) = (0, Credit::default(), 0);
        while now < 60_000 {
            now += 1;
            if credit.is_left(KtimeNs::from_ns(now * MS)) {
                now += each_ms;
                spent += each_ms;
                credit.spend(KtimeNs::from_ns(now * MS), each_ms * MS, crowd);
            }
        }
        spent
    }

    /// Work takes a sixteenth of the time in the long run, shared by all who have no credit left.
    #[test]
    fn work_has_its_share() {
        for each_ms in [1, 10, 50] {
            let alone = spent(each_ms, 0);
            assert!((60_000 / 16..=60_000 / 16 + 200).contains(&alone), "{each_ms}: {alone}");
        }
        for each_ms in [1, 10] {
            let in_crowd = spent(each_ms, 9);
            assert!(in_crowd < 60_000 / 160 + 200, "{each_ms}: {in_crowd}");
        }
    }

    /// A program that starts has its reads at once, and no read takes so long that there is never another one.
    #[test]
    fn some_work_is_done_at_once() {
        let (mut credit, now) = (Credit::default(), KtimeNs::from_ns(1 << 40));
        for _ in 0..100 {
            assert!(credit.is_left(now));
            credit.spend(now, MS, 0);
        }
        credit.spend(now, u64::MAX, usize::MAX);
        assert!(!credit.is_left(now));
        assert!(credit.is_left(KtimeNs::from_ns((1 << 40) + 2000 * MS)));
    }

    fn process() -> Process {
        let key = ProcessKey::new(0);
        let (name, command) = (String::new(), Vec::new());
        let record = record::Process { key, pid: Pid::new(1), parent: None, name, command, runtime: None };
        Process { dirty: false, ..new_process(record, 0, false) }
    }

    /// However much the probes were told of new tables, new mappings are read at once; and a table that is dropped is told at once.
    #[test]
    fn what_is_told_takes_nothing_from_reads() {
        let (mut process, now) = (process(), KtimeNs::from_ns(1 << 40));
        for _ in 0..10_000 {
            process.uploads.spend(now, MS, 0);
        }
        process.has_news = true;
        assert!(process.work(false, now).is_none());
        assert!(process.work(true, now) == Some(Task::Tell));
        process.dirty = true;
        assert!(process.work(false, now) == Some(Task::Read));
        process.has_ended = true;
        assert!(process.work(false, now).is_none() && process.work(true, now) == Some(Task::Tell));
    }
}
