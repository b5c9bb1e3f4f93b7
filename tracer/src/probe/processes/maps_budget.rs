//! When the mappings of a process are read: after updated of it, and for a stated share of time.
//!
//! `/proc/PID/maps` is read as a whole, however little has changed in it. So what reads take is paid for with time in which there are none: a
//! program that makes mappings without end costs a sixteenth of a CPU, and so do many of them together. Each has some time to begin with,
//! which programs that start and load their libraries do not use up. What is new meanwhile is seen at the next read. Leaves out what a read finds (`registry.rs`).

use super::process::Process;
use super::registry::Processes;
use crate::probe::bpf::decode::Head;
use crate::probe::bpf::process_maps::Maps;
use crate::probe::records::RecordSender;
use crate::probe::tables::files::Mapped;
use crate::unwind::address_space::{AddressSpace, FileKey};
use crate::unwind::vdso::key_of;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use foldhash::HashMap;
use std::collections::HashSet;
use std::time::Duration;

/// Between two reads of the mappings of a process that shows unknown addresses.
const READ_AGAIN_NS: u64 = 50_000_000;
/// After this long a mapping that was announced is there.
const SETTLED: Duration = Duration::from_millis(30);
/// So many times as long as a read takes it has to be paid for.
const PRICE: u64 = 16;
/// Reads are made on credit up to here: 100 ms of them.
const CREDIT_NS: u64 = PRICE * 100_000_000;
/// The longest time without a read.
const LONGEST_REST_NS: u64 = 2_000_000_000;

/// When a read will be paid for that took so long and is over `now`, where the ones before are paid for at `paid` and `crowd` other processes
/// have no credit left.
fn paid_at(paid: KtimeNs, now: KtimeNs, took_ns: u64, crowd: usize) -> KtimeNs {
    let price = took_ns.saturating_mul(PRICE).saturating_mul((crowd as u64).saturating_add(1));
    let at = paid.max(now).as_ns().saturating_add(price);
    KtimeNs::from_ns(at.min(now.as_ns().saturating_add(CREDIT_NS + LONGEST_REST_NS)))
}

/// Whether there is credit for another read.
const fn has_credit(paid: KtimeNs, now: KtimeNs) -> bool {
    paid.as_ns() <= now.as_ns().saturating_add(CREDIT_NS)
}

impl Processes {
    /// Its mappings may have changed.
    pub(crate) fn touch(&mut self, pid: Pid, at: KtimeNs) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.dirty = true;
            process.again = Some(at + SETTLED);
        }
    }

    /// A sample met an address that belongs to no known mapping.
    pub(crate) fn note_unmapped_pc(&mut self, pid: Pid, at: KtimeNs) {
        if let Some(process) = self.by_pid.get_mut(&pid)
            && at.ns_since(process.read_for_pc_at) > READ_AGAIN_NS
        {
            process.read_for_pc_at = at;
            process.dirty = true;
        }
    }

    /// Reads the mappings of processes again that changed, and uploads those that map a file of which something is known now.
    pub(crate) fn refresh(
        &mut self,
        maps: &mut Maps,
        out: &RecordSender,
        mut updated: HashSet<FileKey>,
        now: KtimeNs,
    ) {
        if self.files.is_over_budget() {
            updated.extend(self.files.make_room(&mapped(&self.by_pid), now));
        }
        let (when_sampled, any) = (self.when_sampled, !updated.is_empty());
        let awake = |p: &Process| !when_sampled || p.samples > 0;
        let crowd = self.by_pid.values().filter(|p| !has_credit(p.paid_at, now)).count();
        let due =
            |p: &Process| (p.dirty || p.again.is_some_and(|at| at <= now)) && has_credit(p.paid_at, now);
        let concerned = |p: &Process| {
            any && p.space.mappings().iter().any(|m| key_of(m).is_some_and(|key| updated.contains(key)))
        };
        let awake = self.by_pid.iter().filter(|(_, p)| awake(p));
        let pids: Vec<(Pid, bool)> = awake
            .map(|(&pid, p)| (pid, due(p), p))
            .filter(|(_, due, p)| *due || concerned(p))
            .map(|(pid, due, _)| (pid, due))
            .collect();
        for (pid, due) in pids {
            let begun = crate::clock::now();
            if due && let Ok(space) = AddressSpace::read(pid) {
                self.with(pid, |process| process.set_space(space, begun));
            }
            self.find_interpreter(pid, maps, out);
            self.upload(pid, maps);
            let done = crate::clock::now();
            self.with(pid, |process| {
                process.dirty &= !due;
                process.again = process.again.filter(|&at| !due || at > begun);
                process.paid_at = paid_at(process.paid_at, done, done.ns_since(begun), crowd);
            });
        }
        self.files.apply_pending();
    }

    /// Reads the mappings of a sample's process again, if that was not done since the sample was taken; false where they cannot be
    /// had: the process is gone, or is another program meanwhile, in which the sample's stack pointer points nowhere.
    pub(crate) fn read_again(&mut self, head: Head, sp: u64) -> bool {
        if !self.is_older(head) {
            return false;
        }
        let now = crate::clock::now();
        let Some(space) = AddressSpace::read_holding(head.pid, sp) else { return false };
        // What is new is the probes' to know as well.
        self.with(head.pid, |process| {
            process.set_space(space, now);
            process.dirty = true;
        });
        true
    }

    /// Whether the mappings of a sample's process were last read before the sample was taken.
    pub(crate) fn is_older(&self, head: Head) -> bool {
        self.by_pid.get(&head.pid).is_some_and(|process| process.read_at.is_none_or(|at| at < head.at))
    }

    /// Whether the mappings of a process may be read now: its share of time is not used up.
    pub(crate) fn may_read(&self, pid: Pid, now: KtimeNs) -> bool {
        self.by_pid.get(&pid).is_none_or(|process| has_credit(process.paid_at, now))
    }
}

/// All files that are mapped, with one process for each.
fn mapped(processes: &HashMap<Pid, Process>) -> Mapped<'_> {
    let mappings = processes.iter().flat_map(|(&pid, p)| p.space.mappings().iter().map(move |m| (pid, m)));
    mappings.filter_map(|(pid, mapping)| Some((key_of(mapping)?, (pid, mapping)))).collect()
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, has_credit, paid_at};

    const MS: u64 = 1_000_000;

    /// Time that reads take within a minute, in milliseconds, where one of so many is due at every millisecond.
    fn spent(read_ms: u64, crowd: usize) -> u64 {
        let (mut now, mut paid, mut spent) = (0, KtimeNs::default(), 0);
        while now < 60_000 {
            now += 1;
            if has_credit(paid, KtimeNs::from_ns(now * MS)) {
                now += read_ms;
                spent += read_ms;
                paid = paid_at(paid, KtimeNs::from_ns(now * MS), read_ms * MS, crowd);
            }
        }
        spent
    }

    /// Reads take a sixteenth of the time in the long run, shared by all who have no credit left.
    #[test]
    fn reads_have_their_share() {
        for read_ms in [1, 10, 50] {
            let alone = spent(read_ms, 0);
            assert!((60_000 / 16..=60_000 / 16 + 200).contains(&alone), "{read_ms}: {alone}");
        }
        for read_ms in [1, 10] {
            let in_crowd = spent(read_ms, 9);
            assert!(in_crowd < 60_000 / 160 + 200, "{read_ms}: {in_crowd}");
        }
    }

    /// A program that starts has its reads at once, and no read takes so long that there is never another one.
    #[test]
    fn some_reads_come_at_once() {
        let (mut paid, now) = (KtimeNs::default(), KtimeNs::from_ns(1 << 40));
        for _ in 0..100 {
            assert!(has_credit(paid, now));
            paid = paid_at(paid, now, MS, 0);
        }
        paid = paid_at(paid, now, u64::MAX, usize::MAX);
        assert!(!has_credit(paid, now));
        assert!(has_credit(paid, KtimeNs::from_ns((1 << 40) + 2000 * MS)));
    }
}
