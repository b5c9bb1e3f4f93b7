//! Processes of a machine that an agent has not met: most programs are over within milliseconds, and no stack is ever taken in them.
//!
//! A process is young from its fork until a stack is taken in it, it forks, or it runs at an age. Until then nothing is read of it and no record tells of
//! it; its CPU time is a stand-in's: that of all young processes of one parent and one name. Leaves out meeting one (`registry.rs`).

use energy_trace_bpf::decode::{Comm, EventContext};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{Pid, ProcessKey, ThreadKey};
use foldhash::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tracer_ebpf::wire::AddressSpace as Block;

/// Who runs at this age is not young any more.
const GROWN: Duration = Duration::from_millis(250);
/// So long after its end one is remembered: its CPU time comes with a later reading of power.
const GRACE: Duration = Duration::from_secs(2);
/// For so long a stand-in is one. It lives nowhere, and whoever takes the records forgets who has ended.
const STANDS: Duration = Duration::from_secs(1);
/// So many names are told apart in that time.
const MOST_NAMES: usize = 256;

/// A young process.
pub(super) struct Young {
    /// Who forked it, who is not young since.
    pub(super) parent: Pid,
    /// Which program that ran then, where it was known.
    pub(super) origin: Option<ProcessKey>,
    /// The program that it became; `None`: it is a copy of its parent.
    pub(super) program: Option<Comm>,
    /// The mappings that its probes go by: its parent's.
    pub(super) block: Option<Arc<Block>>,
    born: KtimeNs,
    has_ended: bool,
}

/// Whose young processes, and what they are called; `None`: as their parent.
pub(super) type Children = (Pid, Option<Comm>);

/// All of them.
#[derive(Default)]
pub(crate) struct YoungProcesses {
    by_pid: HashMap<Pid, Young>,
    /// Those that have ended, in order of time.
    ended: VecDeque<(KtimeNs, Pid)>,
    /// Threads of stand-ins, and until when they are.
    stand_ins: HashMap<Children, (ThreadKey, KtimeNs)>,
}

impl YoungProcesses {
    /// A process was forked by one that is this program with these mappings, where it is known; the young one that had its number before.
    pub(super) fn add(
        &mut self,
        pid: Pid,
        parent: Pid,
        known: Option<(ProcessKey, Option<Arc<Block>>)>,
        born: KtimeNs,
    ) -> Option<Young> {
        let (origin, block) = known.map_or((None, None), |(origin, block)| (Some(origin), block));
        let new = Young { parent, origin, program: None, block, born, has_ended: false };
        self.by_pid.insert(pid, new)
    }

    /// Whether a process is one.
    pub(super) fn has(&self, pid: Pid) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// One is not young any more.
    pub(super) fn take(&mut self, pid: Pid) -> Option<Young> {
        self.by_pid.remove(&pid)
    }

    /// One of them.
    pub(super) fn get_mut(&mut self, pid: Pid) -> Option<&mut Young> {
        self.by_pid.get_mut(&pid)
    }

    /// A thread has ended; whether it is of a young process, which ends with its first thread.
    pub(crate) fn ended(&mut self, head: EventContext) -> bool {
        let Some(young) = self.by_pid.get_mut(&head.pid) else { return false };
        if head.tid.get() == head.pid.get() {
            young.has_ended = true;
            self.ended.push_back((head.at, head.pid));
        }
        true
    }

    /// Takes those out of whom nothing comes any more.
    pub(super) fn take_gone(&mut self, now: KtimeNs) -> Vec<(Pid, Young)> {
        let mut gone = Vec::new();
        while let Some((_, pid)) = self.ended.pop_front_if(|(at, _)| *at + GRACE < now) {
            // Of its number there may be another.
            let has_ended = self.by_pid.get(&pid).is_some_and(|young| young.has_ended);
            gone.extend(has_ended.then(|| self.by_pid.remove(&pid)).flatten().map(|young| (pid, young)));
        }
        gone
    }

    /// For whom a process's CPU time up to this moment counts, where that is not for itself.
    pub(super) fn children_with(&self, pid: Pid, at: KtimeNs) -> Option<Children> {
        let young = self.by_pid.get(&pid).filter(|young| young.has_ended || at < young.born + GROWN)?;
        let are_few = || self.stand_ins.len() < MOST_NAMES;
        let of = (young.parent, young.program);
        Some(if self.stand_ins.contains_key(&of) || are_few() { of } else { (young.parent, None) })
    }

    /// The thread of a stand-in.
    pub(super) fn stand_in(&self, of: Children, now: KtimeNs) -> Option<ThreadKey> {
        self.stand_ins.get(&of).filter(|(_, until)| now < *until).map(|(thread, _)| *thread)
    }

    /// From now on this is one.
    pub(super) fn put_stand_in(&mut self, of: Children, thread: ThreadKey, now: KtimeNs) {
        self.stand_ins.retain(|_, (_, until)| now < *until);
        self.stand_ins.insert(of, (thread, now + STANDS));
    }
}

#[cfg(test)]
mod tests {
    use super::{Comm, EventContext, KtimeNs, MOST_NAMES, Pid, ThreadKey, YoungProcesses};
    use energy_trace_bpf::decode::{Event, decode_event};
    use energy_trace_model::ids::{CpuId, Tid};
    use tracer_ebpf::wire::{EventHead, TaskEvent, kind};
    use zerocopy::IntoBytes as _;

    const MS: u64 = 1_000_000;
    const PARENT: Pid = Pid::new(5);
    const CHILD: Pid = Pid::new(7);

    const fn at(ms: u64) -> KtimeNs {
        KtimeNs::from_ns(1_000_000 * MS + ms * MS)
    }

    const fn event(pid: u32, tid: u32, ms: u64) -> EventContext {
        EventContext {
            cpu: CpuId::new(0),
            pid: Pid::new(pid),
            tid: Tid::new(tid),
            at: at(ms),
            range: 0,
            span: 0,
        }
    }

    fn named(number: usize) -> Comm {
        let head = EventHead { kind: kind::EXEC, ..EventHead::default() };
        let mut event = TaskEvent { head, ..TaskEvent::default() };
        event.comm[..8].copy_from_slice(&number.to_le_bytes());
        let Some(Event::Exec(_, comm)) = decode_event(event.as_bytes()) else { panic!() };
        comm
    }

    /// Time of a process is its parent's children's until it runs at an age; of one that has ended before it stays so, and after two
    /// seconds nobody is left of whom anything comes.
    #[test]
    fn grows_or_ends() {
        let mut young = YoungProcesses::default();
        assert!(young.add(CHILD, PARENT, None, at(0)).is_none());
        assert_eq!(young.children_with(CHILD, at(249)), Some((PARENT, None)));
        assert_eq!(young.children_with(CHILD, at(250)), None);
        assert_eq!(young.children_with(PARENT, at(1)), None);
        assert!(young.ended(event(7, 8, 20)) && !young.ended(event(5, 5, 20)));
        assert_eq!(young.children_with(CHILD, at(250)), None);
        assert!(young.ended(event(7, 7, 30)));
        assert_eq!(young.children_with(CHILD, at(900)), Some((PARENT, None)));
        assert!(young.take_gone(at(2_030)).is_empty());
        let gone = young.take_gone(at(2_031));
        assert_eq!(gone.into_iter().map(|(pid, of)| (pid, of.parent)).collect::<Vec<_>>(), [(CHILD, PARENT)]);
        assert!(young.by_pid.is_empty() && young.ended.is_empty());
    }

    /// One whose number comes back is not taken for the one that ended.
    #[test]
    fn numbers_come_back() {
        let mut young = YoungProcesses::default();
        young.add(CHILD, PARENT, None, at(0));
        young.ended(event(7, 7, 1));
        assert!(young.add(CHILD, PARENT, None, at(2)).is_some());
        assert!(young.take_gone(at(5_000)).is_empty() && young.take(CHILD).is_some());
    }

    /// A stand-in is one for a second; there are so many names at most, and then again as many.
    #[test]
    fn stand_ins() {
        let mut young = YoungProcesses::default();
        for number in 0..MOST_NAMES {
            let pid = Pid::new(100 + number as u32);
            young.add(pid, PARENT, None, at(0));
            young.get_mut(pid).unwrap().program = Some(named(number));
            let of = young.children_with(pid, at(1)).unwrap();
            assert_eq!(of, (PARENT, Some(named(number))));
            young.put_stand_in(of, ThreadKey::new(number as u32), at(1));
        }
        assert_eq!(young.stand_in((PARENT, Some(named(3))), at(1_000)), Some(ThreadKey::new(3)));
        assert_eq!(young.stand_in((PARENT, Some(named(3))), at(1_001)), None);
        young.add(CHILD, PARENT, None, at(0));
        young.get_mut(CHILD).unwrap().program = Some(named(MOST_NAMES));
        assert_eq!(young.children_with(CHILD, at(1)), Some((PARENT, None)));
        young.put_stand_in((PARENT, None), ThreadKey::new(0), at(1_001));
        assert_eq!(young.children_with(CHILD, at(1)), Some((PARENT, Some(named(MOST_NAMES)))));
    }
}
