//! Gives processes that are not targets their numbers, and tells the recording of each new one.
//!
//! A number stands for a process under one name. A pid that comes back to a process of the same name keeps its number: who draws what is
//! asked of all of a number's time together. Leaves out what becomes of it (`attribution::background`).

use crate::records::RecordSender;
use energy_trace_bpf::config::OtherProcess;
use energy_trace_bpf::decode::{Comm, EventContext};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{BackgroundKey, Pid};
use energy_trace_model::recording::record::{BackgroundProcess, CpuOwner, Record, Slice};
use std::collections::HashMap;

/// So many are told apart at most; time of others is nobody's in particular.
const MOST: usize = 1 << 16;

/// The background processes of a recording so far.
#[derive(Debug, Default)]
pub(crate) struct BackgroundProcesses {
    keys: HashMap<(Pid, Comm), BackgroundKey>,
    /// CPU time of each.
    times: HashMap<Pid, (Comm, u64)>,
}

impl BackgroundProcesses {
    /// The slice of a run that ended at the head's time.
    pub(crate) fn slice(
        &mut self,
        head: EventContext,
        start: KtimeNs,
        comm: Comm,
        out: &RecordSender,
    ) -> Slice {
        let who = self.occupant(head.pid, comm, out);
        if matches!(who, CpuOwner::Background(_)) {
            self.times.entry(head.pid).or_insert((comm, 0)).1 += head.at.ns_since(start);
        }
        Slice { cpu: head.cpu, who, start, end: head.at }
    }

    /// A process of the tracer's own, which ran for so long.
    pub(crate) fn own(&mut self, pid: Pid, ns: u64, out: &RecordSender) -> CpuOwner {
        let who = self.occupant(pid, Comm::OWN, out);
        self.times.entry(pid).or_insert((Comm::OWN, 0)).1 += ns;
        who
    }

    /// Those that had most CPU time, so many of them.
    pub(crate) fn busiest(&self, most: usize) -> Vec<OtherProcess> {
        let all = self.times.iter();
        let mut all: Vec<_> = all.map(|(&pid, &(comm, cpu_ns))| (cpu_ns, pid, comm)).collect();
        all.sort_unstable_by_key(|&(cpu_ns, pid, _)| (std::cmp::Reverse(cpu_ns), pid));
        all.truncate(most);
        all.into_iter().map(|(cpu_ns, pid, comm)| OtherProcess { pid, name: comm.text(), cpu_ns }).collect()
    }

    fn occupant(&mut self, pid: Pid, comm: Comm, out: &RecordSender) -> CpuOwner {
        if pid.get() == 0 {
            return CpuOwner::Other;
        }
        if let Some(&key) = self.keys.get(&(pid, comm)) {
            return CpuOwner::Background(key);
        }
        let Some(next) = u32::try_from(self.keys.len()).ok().filter(|_| self.keys.len() < MOST) else {
            return CpuOwner::Other;
        };
        let key = BackgroundKey::new(next);
        self.keys.insert((pid, comm), key);
        out.send(Record::Background(BackgroundProcess { key, pid, name: comm.text() }));
        CpuOwner::Background(key)
    }
}
