//! Who ran when, and in which stacks: slices, samples, waits and wake-ups, kept back until enough are there to be sent.
//!
//! Leaves out how stacks are built (`stacks/`) and events of GPU libraries (`gpu/`).

use super::background::BackgroundProcesses;
use super::sampling_gaps::{RunInterval, SamplingGaps};
use crate::processes::process::Process;
use crate::records::RecordSender;
use crate::stacks::builder::StackBuilder;
use crate::stacks::stack_copies::{Unwound, Waiting};
use energy_trace_bpf::decode::{Comm, EventContext};
use energy_trace_bpf::totals::CpuTimes;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, Pid, StackId, ThreadKey, Tid};
use energy_trace_model::recording::record::{
    CpuOwner, CpuTotals, Record, Sample, Slice, Unsampled, Wait, Wake,
};
use energy_trace_unwind::merge::WalkedStack;
use std::collections::{BTreeSet, HashMap};
use tracer_ebpf::wire::end;

/// Records that are kept back at most before they are sent on.
const BATCH: usize = 512;

/// How long a sample waits for code that was made at run time to be looked into, and how many of one process do.
const AWAITS_CODE_NS: u64 = 2_000_000_000;
const MOST_AWAITING_CODE: usize = 512;
/// Waits in functions without a name that are remembered at the most.
const MOST_NAMELESS: usize = 1024;

/// Slices, samples, waits and wake-ups that were not sent yet.
pub(super) struct SampleCollector {
    slices: Vec<Slice>,
    pub(super) background: BackgroundProcesses,
    /// Where targets ran and could not be seen, and how many samples their time should bring.
    pub(super) sampling_gaps: SamplingGaps,
    unseen: Vec<Unsampled>,
    /// CPUs that cannot be visited, and the first sample in the slice that is open there.
    pub(super) out_of_reach: HashMap<CpuId, Option<EventContext>>,
    totals: Vec<CpuTotals>,
    samples: Vec<Sample>,
    /// Samples of processes that may turn out to be Python.
    awaiting_interpreter: Vec<AwaitingInterpreter>,
    /// Samples whose stacks lead through files that are still being looked into.
    deferred: Vec<DeferredSample>,
    /// Samples whose callers are guessed until the code that ran has been looked into.
    awaiting_code: Vec<AwaitingCode>,
    waits: Vec<Wait>,
    wakes: Vec<Wake>,
    /// Where each thread last began to wait.
    waited_in: foldhash::HashMap<ThreadKey, StackId>,
    /// The last waits of threads in functions that had no name yet: they are asked for again with the next wait in the same place.
    nameless_waits: foldhash::HashMap<ThreadKey, (EventContext, WalkedStack)>,
    /// Samples so far.
    pub(super) sampled: u64,
}

/// A sample whose stack leads through a file that is still being looked into.
struct DeferredSample {
    head: EventContext,
    thread: ThreadKey,
    raw: WalkedStack,
    capture: Box<Waiting>,
}

/// A sample in code that was made at run time and is being looked into.
struct AwaitingCode {
    head: EventContext,
    thread: ThreadKey,
    raw: WalkedStack,
    code: Vec<u64>,
    /// What it is if nothing is found out.
    guessed: Option<Sample>,
}

/// A sample of a process that may turn out to be Python.
struct AwaitingInterpreter {
    head: EventContext,
    thread: ThreadKey,
    raw: WalkedStack,
    /// What it is if that has none, where all its addresses were in mappings that are known. Looked up when it came: what a program compiled
    /// may be gone later.
    without_python: Option<Sample>,
}

impl SampleCollector {
    pub(super) fn new() -> Self {
        Self {
            slices: Vec::new(),
            background: BackgroundProcesses::default(),
            sampling_gaps: SamplingGaps::new(1, energy_trace_system::clock::now()),
            unseen: Vec::new(),
            out_of_reach: HashMap::new(),
            totals: Vec::new(),
            samples: Vec::new(),
            awaiting_interpreter: Vec::new(),
            deferred: Vec::new(),
            awaiting_code: Vec::new(),
            waits: Vec::new(),
            wakes: Vec::new(),
            waited_in: foldhash::HashMap::default(),
            nameless_waits: foldhash::HashMap::default(),
            sampled: 0,
        }
    }

    /// A target's thread ran until the head's time.
    pub(super) fn slice(
        &mut self,
        head: EventContext,
        start: KtimeNs,
        ran_ns: u64,
        stacks: &mut StackBuilder,
    ) {
        if let Some(open) = self.out_of_reach.get_mut(&head.cpu) {
            *open = None;
        }
        let run = RunInterval { cpu: head.cpu, tid: head.tid, start, end: head.at, ran_ns };
        self.unseen.extend(self.sampling_gaps.add_run(run));
        let who = CpuOwner::Target(stacks.thread(head.pid, head.tid, None));
        self.slices.push(Slice { cpu: head.cpu, who, start, end: head.at });
    }

    /// What processes ran on a CPU between two readings of power; the tracer's `own` are no targets.
    pub(super) fn summed(&mut self, times: CpuTimes, own: &BTreeSet<Pid>, stacks: &mut StackBuilder) {
        let CpuTimes { cpu, start, end, of, no_room_ns } = times;
        let mut owned = Owned::default();
        for (pid, ns) in of {
            let who = if own.contains(&pid) && !stacks.processes.is_known(pid) {
                self.background.own(pid, ns, stacks.records())
            } else {
                self.sampling_gaps.add_time(ns);
                CpuOwner::Target(stacks.processes.owner_of_time(pid, end, &stacks.out.records))
            };
            owned.add(who, ns);
        }
        if no_room_ns > 0 {
            owned.add(CpuOwner::Other, no_room_ns);
        }
        self.totals.push(CpuTotals { cpu, start, end, of: owned.times });
    }

    /// Ends the slices of CPUs that could not be visited: who was sampled there has not left since.
    pub(super) fn end_open_slices(&mut self, end: KtimeNs, stacks: &mut StackBuilder) {
        let open: Vec<EventContext> =
            std::mem::take(&mut self.out_of_reach).into_values().flatten().collect();
        for head in open.into_iter().filter(|head| head.at < end) {
            self.slice(EventContext { at: end, ..head }, head.at, 0, stacks);
        }
    }

    /// A process that is no target ran until the head's time.
    pub(super) fn background_slice(
        &mut self,
        head: EventContext,
        start: KtimeNs,
        comm: Comm,
        out: &RecordSender,
    ) {
        self.slices.push(self.background.slice(head, start, comm, out));
    }

    pub(super) fn sample(
        &mut self,
        head: EventContext,
        comm: String,
        raw: &WalkedStack,
        stacks: &mut StackBuilder,
    ) {
        self.sampled += 1;
        if let Some(open) = self.out_of_reach.get_mut(&head.cpu) {
            open.get_or_insert(head);
        }
        self.sampling_gaps.sample(head.cpu, head.at);
        let thread = stacks.sampled_thread(head, comm);
        match stacks.unwind(head, raw) {
            Unwound::AsItIs => self.unwound(head, thread, raw, stacks),
            Unwound::Walked(walked) => self.unwound(head, thread, &walked, stacks),
            Unwound::Later(capture) => {
                self.deferred.push(DeferredSample { head, thread, raw: raw.clone(), capture });
            }
        }
    }

    /// A sample whose stack is as whole as it will be.
    fn unwound(
        &mut self,
        head: EventContext,
        thread: ThreadKey,
        raw: &WalkedStack,
        stacks: &mut StackBuilder,
    ) {
        let sample = whole_sample(head, thread, raw, stacks);
        if raw.python_end == end::NO_INTERPRETER
            && stacks.processes.may_be_python(head, energy_trace_system::clock::now())
        {
            let without_python = sample.filter(|_| stacks.are_mapped(head.pid, raw));
            self.awaiting_interpreter.push(AwaitingInterpreter {
                head,
                thread,
                raw: raw.clone(),
                without_python,
            });
            return;
        }
        let code = stacks.guessed_code(head.pid, raw);
        if code.is_empty() || !self.may_await_code(head.pid) {
            self.samples.extend(sample);
        } else {
            // The answer may have come meanwhile.
            self.awaiting_code.push(AwaitingCode { head, thread, raw: raw.clone(), code, guessed: sample });
        }
    }

    fn may_await_code(&self, pid: Pid) -> bool {
        self.awaiting_code.iter().filter(|waiting| waiting.head.pid == pid).count() < MOST_AWAITING_CODE
    }

    /// Records samples whose code was looked into, or will not be any more.
    fn release_checked(&mut self, now: KtimeNs, of: Option<Pid>, stacks: &mut StackBuilder) {
        for waiting in std::mem::take(&mut self.awaiting_code) {
            let AwaitingCode { head, thread, ref raw, ref code, guessed } = waiting;
            let is_over = of == Some(head.pid) || now.ns_since(head.at) > AWAITS_CODE_NS;
            if !is_over && stacks.awaits_code(head, code) {
                self.awaiting_code.push(waiting);
                continue;
            }
            let checked = stacks.check(head.pid, head.at, raw);
            let proved = checked.and_then(|walked| whole_sample(head, thread, &walked, stacks));
            self.samples.extend(proved.or(guessed));
        }
    }

    /// Records samples that waited for a file or code to be looked into, or for word of an interpreter, or of one process in any case.
    pub(super) fn release(&mut self, now: KtimeNs, of: Option<Pid>, stacks: &mut StackBuilder) {
        for mut waiting in std::mem::take(&mut self.deferred) {
            let DeferredSample { head, thread, raw, capture } = &mut waiting;
            let until = if of == Some(head.pid) { KtimeNs::from_ns(u64::MAX) } else { now };
            match stacks.unwind_again(capture, raw, (head.pid, until)) {
                Some(walked) => self.unwound(*head, *thread, &walked, stacks),
                None => self.deferred.push(waiting),
            }
        }
        self.release_checked(now, of, stacks);
        for waiting in std::mem::take(&mut self.awaiting_interpreter) {
            let AwaitingInterpreter { head, thread, ref raw, without_python } = waiting;
            if of != Some(head.pid) && stacks.processes.may_be_python(head, now) {
                self.awaiting_interpreter.push(waiting);
                continue;
            }
            let is_python = stacks.processes.get(head.pid).is_some_and(Process::is_python);
            let known = without_python.filter(|_| !is_python);
            self.samples.extend(known.or_else(|| whole_sample(head, thread, raw, stacks)));
        }
    }

    /// A Python thread goes to sleep.
    pub(super) fn wait(
        &mut self,
        head: EventContext,
        comm: String,
        raw: &WalkedStack,
        stacks: &mut StackBuilder,
    ) {
        let thread = stacks.thread(head.pid, head.tid, Some(comm));
        self.nameless_waits.remove(&thread);
        self.wait_in(thread, head, raw, stacks);
    }

    /// It goes to sleep in this stack.
    fn wait_in(
        &mut self,
        thread: ThreadKey,
        head: EventContext,
        raw: &WalkedStack,
        stacks: &mut StackBuilder,
    ) {
        let Some((stack, all_named)) = stacks.sleeping_stack(head, raw) else { return };
        self.waited_in.insert(thread, stack);
        self.waits.push(Wait { at: head.at, thread, stack });
        if !all_named {
            if self.nameless_waits.len() >= MOST_NAMELESS {
                self.nameless_waits.clear();
            }
            self.nameless_waits.insert(thread, (head, raw.clone()));
        }
    }

    /// It goes to sleep where it did before.
    pub(super) fn wait_again(&mut self, head: EventContext, stacks: &mut StackBuilder) {
        let thread = stacks.thread(head.pid, head.tid, None);
        if let Some((first, raw)) = self.nameless_waits.remove(&thread) {
            // Functions that were not read at the first wait may be by now.
            self.wait_in(thread, EventContext { at: head.at, ..first }, &raw, stacks);
        } else if let Some(&stack) = self.waited_in.get(&thread) {
            self.waits.push(Wait { at: head.at, thread, stack });
        }
    }

    /// A thread was woken by another one.
    pub(super) fn wake(&mut self, head: EventContext, (pid, tid): (Pid, Tid), stacks: &mut StackBuilder) {
        let waker = stacks.thread(pid, tid, None);
        let thread = stacks.thread(head.pid, head.tid, None);
        self.wakes.push(Wake { at: head.at, thread, waker });
    }

    /// Whether enough was kept back.
    pub(super) const fn is_full(&self) -> bool {
        self.slices.len() + self.samples.len() + self.waits.len() + self.wakes.len() >= BATCH
    }

    /// Stacks have other numbers from now on: those that were not sent yet are sent, and no other is
    /// remembered.
    pub(super) fn forget_stacks(&mut self, out: &RecordSender) {
        self.flush(out);
        self.waited_in.clear();
        self.nameless_waits.clear();
        self.awaiting_interpreter.iter_mut().for_each(|waiting| waiting.without_python = None);
    }

    /// Sends what was kept back.
    pub(super) fn flush(&mut self, out: &RecordSender) {
        send(&mut self.slices, Record::Slices, out);
        send(&mut self.unseen, Record::Unsampled, out);
        send(&mut self.totals, Record::CpuTotals, out);
        send(&mut self.samples, Record::Samples, out);
        send(&mut self.waits, Record::Waits, out);
        send(&mut self.wakes, Record::Wakes, out);
    }
}

/// CPU time by owner, each once.
#[derive(Default)]
struct Owned {
    times: Vec<(CpuOwner, u64)>,
    places: foldhash::HashMap<CpuOwner, usize>,
}

impl Owned {
    fn add(&mut self, who: CpuOwner, ns: u64) {
        let place = *self.places.entry(who).or_insert(self.times.len());
        match self.times.get_mut(place) {
            Some((_, sum)) => *sum += ns,
            None => self.times.push((who, ns)),
        }
    }
}

fn whole_sample(
    head: EventContext,
    thread: ThreadKey,
    raw: &WalkedStack,
    stacks: &mut StackBuilder,
) -> Option<Sample> {
    let (stack, status) = stacks.whole_stack(head, raw);
    Some(Sample { at: head.at, cpu: head.cpu, thread, stack: stack?, status })
}

fn send<T>(kept: &mut Vec<T>, record: impl FnOnce(Vec<T>) -> Record, out: &RecordSender) {
    if !kept.is_empty() {
        out.send(record(std::mem::take(kept)));
    }
}
