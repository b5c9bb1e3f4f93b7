//! What is done between two batches of events beside sending records: ended processes are forgotten, and with `-v` progress is logged.
//!
//! Leaves out what is forgotten of a process, which each collector knows.

use crate::stacks::builder::StackBuilder;
use energy_trace_bpf::decode::EventContext;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::merge::WalkedStack;
use std::collections::HashMap;
use std::path::Path;

/// How long a process is remembered after it ended: its last slices may still be on their way.
const GRACE_NS: u64 = 2_000_000_000;
/// The same where CPU time is summed and very many end: it comes with the next reading of power, and each takes kilobytes.
const GRACE_IN_A_CROWD_NS: u64 = 300_000_000;
/// So many are very many.
const CROWD: usize = 4096;

/// Between two looks for open files that no process maps any more, and between two times that an agent forgets all for their sake.
const CLOSES_EACH_NS: u64 = 5_000_000_000;
const CLOSES_ANYWAY_NS: u64 = 30_000_000_000;
const FORGETS_EACH_NS: u64 = 300_000_000_000;

/// Ended processes, and what was logged.
pub(super) struct Housekeeping {
    ended: HashMap<Pid, KtimeNs>,
    /// Since when there can be samples, for the log.
    since: KtimeNs,
    /// How many tables were last logged.
    tables_logged: usize,
    /// Whether processes were forgotten since files were closed, and when that was; when all was forgotten.
    left: bool,
    closed: KtimeNs,
    forgot: KtimeNs,
}

impl Housekeeping {
    pub(super) fn new(since: KtimeNs) -> Self {
        Self { ended: HashMap::new(), since, tables_logged: 0, left: false, closed: since, forgot: since }
    }

    /// From now on there can be samples.
    pub(super) const fn ready(&mut self, now: KtimeNs) {
        self.since = now;
    }

    /// A process began under this number.
    pub(super) fn began(&mut self, pid: Pid) {
        self.ended.remove(&pid);
    }

    /// A process ended.
    pub(super) fn ended(&mut self, pid: Pid, at: KtimeNs) {
        self.ended.insert(pid, at);
    }

    /// Processes that are to be forgotten, and when each ended. `is_summed`: CPU time is.
    pub(super) fn take_gone(&mut self, now: KtimeNs, is_summed: bool) -> Vec<(Pid, KtimeNs)> {
        let grace = if is_summed && self.ended.len() > CROWD { GRACE_IN_A_CROWD_NS } else { GRACE_NS };
        let over = |at: KtimeNs| now.ns_since(at) > grace;
        let ended = self.ended.iter().filter(|(_, at)| over(**at));
        let mut gone: Vec<(Pid, KtimeNs)> = ended.map(|(&pid, &at)| (pid, at)).collect();
        for (pid, _) in &gone {
            self.ended.remove(pid);
        }
        gone.retain(|(pid, _)| !Path::new(&format!("/proc/{pid}")).exists());
        self.left |= !gone.is_empty();
        gone
    }

    /// Whether to look now for open files that no process maps: soon where one has ended, seldom where one may have closed a library.
    pub(super) fn may_close(&mut self, now: KtimeNs) -> bool {
        let wait = if self.left { CLOSES_EACH_NS } else { CLOSES_ANYWAY_NS };
        let may = now.ns_since(self.closed) > wait;
        if may {
            (self.left, self.closed) = (false, now);
        }
        may
    }

    /// Whether all may be forgotten for the sake of files that are open.
    pub(super) fn may_forget(&mut self, now: KtimeNs) -> bool {
        let may = now.ns_since(self.forgot) > FORGETS_EACH_NS;
        if may {
            self.forgot = now;
        }
        may
    }

    /// With `-v`: what the tables take, whenever all that were begun are there.
    pub(super) fn log_table_usage(&mut self, stacks: &StackBuilder) {
        let files = &stacks.processes.files;
        let (tables, bytes) = files.in_memory();
        if !files.is_busy() && std::mem::replace(&mut self.tables_logged, tables) != tables {
            let (mib, ms) =
                (bytes as f64 / f64::from(1 << 20), self.ms_until(energy_trace_system::clock::now()));
            log::info!("unwind tables: {tables} in {mib:.1} MiB, {ms:.1} ms after the start");
        }
    }

    /// With `-v`: when the first sample came, and from where.
    pub(super) fn log_first_sample(&self, head: EventContext, raw: &WalkedStack, stacks: &StackBuilder) {
        let space = stacks.processes.get(head.pid).map(|process| &process.space);
        let place = |pc: u64| space.and_then(|s| s.find(pc)).map_or("unknown code", |m| m.path.as_str());
        let outermost = raw.native.last().map_or("the kernel", |frame| place(frame.pc));
        let ms = self.ms_until(head.at);
        log::info!("first sample: {ms:.1} ms after the start, outermost frame in {outermost}");
    }

    fn ms_until(&self, at: KtimeNs) -> f64 {
        at.as_ns().saturating_sub(self.since.as_ns()) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::{CLOSES_ANYWAY_NS, CLOSES_EACH_NS, FORGETS_EACH_NS, GRACE_NS, Housekeeping, KtimeNs, Pid};

    /// Files are looked through some seconds after a process was forgotten, once; all is forgotten for their sake each few minutes at the most.
    #[test]
    fn files_are_closed_where_processes_ended() {
        let at = KtimeNs::from_ns;
        let mut keeping = Housekeeping::new(at(0));
        let closes = [CLOSES_ANYWAY_NS, CLOSES_ANYWAY_NS + 1, 2 * CLOSES_ANYWAY_NS];
        assert_eq!(closes.map(|ns| keeping.may_close(at(ns))), [false, true, false]);
        let mut keeping = Housekeeping::new(at(0));
        keeping.ended(Pid::new(u32::MAX >> 1), at(0));
        assert_eq!(keeping.take_gone(at(GRACE_NS + 1), false).len(), 1);
        let closes = [GRACE_NS + 1, CLOSES_EACH_NS + 1, 3 * CLOSES_EACH_NS];
        assert_eq!(closes.map(|ns| keeping.may_close(at(ns))), [false, true, false]);
        let forgets = [FORGETS_EACH_NS, FORGETS_EACH_NS + 1, 2 * FORGETS_EACH_NS];
        assert_eq!(forgets.map(|ns| keeping.may_forget(at(ns))), [false, true, false]);
    }
}
