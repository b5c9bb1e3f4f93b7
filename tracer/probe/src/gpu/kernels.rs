//! What the injected library reports, joined with launches: whose stack each kernel, copy and memset belongs to.
//!
//! A launch is seen by a probe and reported by the library right after, on the same thread: so the last launch of a thread has the
//! correlation number that the library gives (`matched`). The records of what it did come up to a second later with the same number, and
//! before its launch was read where the two ways differ in speed: those wait. A replay of a graph has the records of all that was
//! captured; each goes to the stack that captured its node, below the one that replays, and where CUPTI does not name the node, to the stacks that captured a kernel of
//! this name, in proportion to how often. Leaves out frames (the collector makes them).

use super::graphs::{Captures, Content, Operation};
use super::kept::keep;
use super::launch::{Launch, Launcher};
use super::launches::LaunchCounter;
use energy_trace_cupti::tally::Sum;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::{Pid, StackId, ThreadKey, Tid};
use energy_trace_model::recording::names::cut;
use energy_trace_model::recording::record::{GpuBusy, KernelTier, NotTimed};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Records wait so long for their launch.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Names of kernels of one program.
const MOST_NAMES: usize = 10_000;
/// A launch waits so long for records, in a queue; and so long for more once it has some.
const LONGEST_QUEUE_NS: u64 = 120_000_000_000;
const MORE_NS: u64 = 2_000_000_000;
/// Kernels of one stack that follow each other within such a stretch are one entry.
const MERGE_NS: u64 = 1_000_000;

/// A launch that was reported.
#[derive(Clone, Debug)]
struct Entry {
    /// Who, and the stack that launched, without what was launched.
    work: Launcher,
    /// What was in the graph then, of one that is known.
    graph: Option<Arc<Content>>,
    launched: KtimeNs,
    /// When it last had records.
    used: Option<KtimeNs>,
}

/// A process whose library speaks.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) tier: KernelTier,
    /// Why it tells nothing, or no more.
    pub(crate) trouble: Option<NotTimed>,
    names: HashMap<u32, String>,
}

impl Program {
    /// The name behind a number.
    pub(crate) fn name(&self, number: u32) -> &str {
        self.names.get(&number).map_or("[unknown: kernel without a name]", String::as_str)
    }
}

/// Records of a launch, and since when they wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) connection: u64,
    pub(crate) sum: Sum,
    pub(crate) since: KtimeNs,
}

/// One of those to whom records belong, and its part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) work: Launcher,
    /// Who replayed the graph that this was captured into.
    pub(crate) replayed_by: Option<Launcher>,
    pub(crate) launched: KtimeNs,
    pub(crate) busy_ns: u64,
    pub(crate) count: u64,
}

/// All that is known about kernels' times.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    pub(crate) programs: BTreeMap<u64, Program>,
    launched: HashMap<Pid, HashMap<u32, Entry>>,
    /// The last launch of each thread that the library has not reported.
    unmatched: HashMap<Tid, Launch>,
    pub(crate) waiting: Vec<Waiting>,
    /// Records that found no room among them.
    pub(crate) overflowed: u64,
    /// Processes whose launches were seen.
    seen: BTreeSet<Pid>,
    ready: Vec<GpuBusy>,
    swept: KtimeNs,
}

impl Kernels {
    /// A launch was seen.
    pub(crate) fn note_launch(&mut self, launch: Launch) {
        self.seen.insert(launch.head.pid);
        self.unmatched.insert(launch.head.tid, launch);
    }

    /// Processes that launched, and whose library never spoke.
    pub(crate) fn no_reply(&self) -> impl Iterator<Item = Pid> {
        let speaks = |pid: &&Pid| self.programs.values().any(|program| program.tier.pid == pid.get());
        self.seen.iter().filter(move |pid| !speaks(pid)).copied()
    }

    /// The launch of a thread that its library tells of now.
    pub(crate) fn matched(&mut self, tid: Tid) -> Option<Launch> {
        self.unmatched.remove(&tid)
    }

    /// The number by which the records of a launch will come.
    pub(crate) fn await_records(
        &mut self,
        launch: &Launch,
        work: Launcher,
        correlation: u32,
        graph: Option<Arc<Content>>,
    ) {
        let entry = Entry { work, graph, launched: launch.head.at, used: None };
        self.launched.entry(launch.head.pid).or_default().insert(correlation, entry);
    }

    /// A library begins to speak; true where an earlier program of the same process did, whose launches and nodes have other numbers.
    pub(crate) fn hello(&mut self, connection: u64, pid: Pid, cupti: u32, trouble: String) -> bool {
        let again = self.programs.values().any(|program| program.tier.pid == pid.get());
        if again {
            self.launched.remove(&pid);
        }
        let tier = KernelTier { pid: pid.get(), cupti, ..KernelTier::default() };
        let trouble = (!trouble.is_empty()).then_some(NotTimed::Trouble(trouble));
        self.programs.insert(connection, Program { tier, trouble, names: HashMap::new() });
        again
    }

    pub(crate) fn name(&mut self, connection: u64, number: u32, name: &str) {
        if let Some(program) = self.programs.get_mut(&connection) {
            keep(&mut program.names, MOST_NAMES, number, || demangled(name));
        }
    }

    /// To whom records belong; `None` while their launch is not known.
    pub(crate) fn parts(
        &mut self,
        launches: &LaunchCounter,
        waiting: &Waiting,
        now: KtimeNs,
    ) -> Option<Vec<Part>> {
        let Waiting { connection, sum, .. } = *waiting;
        let program = self.programs.get(&connection)?;
        let pid = Pid::new(program.tier.pid);
        let entry = self.launched.get_mut(&pid)?.get_mut(&sum.correlation)?;
        entry.used = Some(now);
        let owner = (sum.node != 0).then(|| launches.graphs.node_of(pid, sum.node)).flatten();
        let names = names_of(&sum, program.name(sum.name));
        // Whose the node is was concluded, after an update: by its kernel it may be somebody else's.
        let is_other = |(_, what): &(Launcher, Option<Operation>)| {
            what.as_ref().is_some_and(|what| !names.contains(what))
        };
        let is_open = owner.is_none_or(is_other);
        let of_graph = entry.graph.as_ref().filter(|_| is_open);
        let captured = of_graph.map(|graph| graph.captures_of(&names)).filter(|all| !all.is_empty());
        let replayed_by = (captured.is_some() || owner.is_some()).then_some(entry.work);
        let alone = || Captures::from([(owner.map_or(entry.work, |(work, _)| *work), 1)]);
        Some(parts_of(&sum, &captured.unwrap_or_else(alone), (replayed_by, entry.launched)))
    }

    /// Work that was done, with its whole stack.
    pub(crate) fn add(&mut self, busy: GpuBusy) {
        self.ready.push(busy);
    }

    /// What was done since the last call, neighbours of one stack put together. Forgets launches that will have no more records.
    pub(crate) fn take(&mut self, now: KtimeNs) -> Vec<GpuBusy> {
        if now.ns_since(self.swept) > MORE_NS {
            self.swept = now;
            for launched in self.launched.values_mut() {
                launched.retain(|_, entry| match entry.used {
                    Some(used) => now.ns_since(used) < MORE_NS,
                    None => now.ns_since(entry.launched) < LONGEST_QUEUE_NS,
                });
            }
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.order_by_key(|busy| (busy.device, busy.from));
        merge_neighbours(ready)
    }

    /// Whether records that wait have waited enough.
    pub(crate) fn is_overdue(waiting: &Waiting, now: KtimeNs) -> bool {
        now.ns_since(waiting.since) > PATIENCE_NS
    }

    /// Forgets a process that ended.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.launched.remove(&pid);
        self.unmatched.retain(|_, launch| launch.head.pid != pid);
    }
}

/// What a graph's records of this name may have been put in as.
fn names_of(sum: &Sum, name: &str) -> Vec<Operation> {
    if name.starts_with("[copy") {
        vec![Operation::Copy]
    } else if name == "[memset]" {
        vec![Operation::Memset]
    } else {
        vec![Operation::Kernel(sum.name), Operation::Named(name.to_owned())]
    }
}

/// Divides records in proportion to these counts; what does not divide goes to the first.
fn parts_of(sum: &Sum, among: &Captures, (replayed_by, launched): (Option<Launcher>, KtimeNs)) -> Vec<Part> {
    let all: u64 = among.values().sum::<u64>().max(1);
    let share = |of: u64, count: u64| u64::try_from(u128::from(of) * u128::from(count) / u128::from(all));
    let part = |(&work, &count): (&Launcher, &u64)| Part {
        work,
        replayed_by,
        launched,
        busy_ns: share(sum.busy_ns, count).unwrap_or(0),
        count: share(sum.count.into(), count).unwrap_or(0),
    };
    let mut parts: Vec<Part> = among.iter().map(part).collect();
    parts.order_by_key(|part| part.work);
    let busy: u64 = parts.iter().map(|part| part.busy_ns).sum();
    let count: u64 = parts.iter().map(|part| part.count).sum();
    if let Some(first) = parts.first_mut() {
        first.busy_ns += sum.busy_ns.saturating_sub(busy);
        first.count += u64::from(sum.count).saturating_sub(count);
    }
    parts
}

/// Puts neighbours of one stack together that follow each other without a pause that matters.
fn merge_neighbours(busy: Vec<GpuBusy>) -> Vec<GpuBusy> {
    let mut merged: Vec<GpuBusy> = Vec::with_capacity(busy.len());
    let whose = |busy: &GpuBusy| -> (u32, ThreadKey, StackId) { (busy.device, busy.thread, busy.stack) };
    for next in busy {
        match merged.last_mut() {
            Some(last)
                if whose(last) == whose(&next)
                    && next.from >= last.until
                    && next.until.ns_since(last.from) <= MERGE_NS =>
            {
                last.until = next.until;
                last.count += next.count;
                last.busy_ns += next.busy_ns;
            }
            _ => merged.push(next),
        }
    }
    merged
}

/// A C++ name as it stands in the source; others as they are, as far as names are kept.
pub(crate) fn demangled(name: &str) -> String {
    let symbol = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    cut(symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{
        Captures, GpuBusy, KtimeNs, Launcher, StackId, Sum, ThreadKey, demangled, merge_neighbours, parts_of,
    };

    fn at(ns: u64) -> KtimeNs {
        KtimeNs::from_ns(ns)
    }

    fn work(stack: u32) -> Launcher {
        Launcher { thread: ThreadKey::new(0), stack: StackId::new(stack) }
    }

    /// A graph's kernels are divided by how often each stack captured them, and nothing is lost by rounding.
    #[test]
    fn records_are_divided_whole() {
        let sum = Sum {
            correlation: 1,
            device: 0,
            name: 0,
            node: 0,
            count: 7,
            start_ns: 0,
            end_ns: 900,
            busy_ns: 101,
        };
        let parts = parts_of(&sum, &Captures::from([(work(1), 4), (work(2), 2)]), (None, at(0)));
        assert_eq!(
            parts.iter().map(|part| (part.busy_ns, part.count)).collect::<Vec<_>>(),
            [(68, 5), (33, 2)]
        );
    }

    /// Neighbours of one stack within a millisecond are one entry with all their time; another stack between them, an overlap or a longer
    /// stretch keeps them apart.
    #[test]
    fn neighbours_are_put_together() {
        let busy = |stack, from, until| GpuBusy {
            device: 0,
            thread: ThreadKey::new(0),
            stack: StackId::new(stack),
            launched: at(from),
            from: at(from),
            until: at(until),
            count: 1,
            busy_ns: until - from,
        };
        let us = |n: u64| n * 1000;
        let found = merge_neighbours(vec![
            busy(1, us(0), us(100)),
            busy(1, us(150), us(300)),
            busy(2, us(300), us(400)),
            busy(1, us(400), us(500)),
            busy(1, us(450), us(600)),
            busy(1, us(600), us(1600)),
        ]);
        let seen: Vec<(u64, u64)> = found.iter().map(|busy| (busy.count, busy.busy_ns)).collect();
        assert_eq!(seen, [(2, us(250)), (1, us(100)), (1, us(100)), (1, us(150)), (1, us(1000))]);
    }

    /// C++ names are shown as the source has them, others as they are.
    #[test]
    fn names_are_demangled() {
        assert_eq!(demangled("_Z4gemmIfEvPKT_i"), "void gemm<float>(float const*, int)");
        assert_eq!(demangled("gemm"), "gemm");
    }
}
