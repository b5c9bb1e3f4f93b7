//! Takes in events and gives each to the collector that it is for: samples, GPU calls, or the processes themselves.
//!
//! One instance, on a thread of its own. Leaves out emptying the ring buffers (`reader`) and native names (`naming/`).

use super::housekeeping::Housekeeping;
use super::live::LiveNames;
use super::samples::SampleCollector;
use super::sampling_gaps::SamplingGaps;
use super::totals::SummedTime;
use crate::count::Counting;
use crate::gpu::GpuCollector;
use crate::processes::registry::Scope;
use crate::range_probes::RangeProbes;
use crate::stacks::builder::StackBuilder;
use crate::stacks::python_frames::{note_code_objects, note_told_codes};
use energy_trace_bpf::config::TraceAccount;
use energy_trace_bpf::decode::{Event, EventContext, decode_event, peek};
use energy_trace_bpf::totals::CpuTimes;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, Pid};
use energy_trace_system::allocator::trim;
use energy_trace_unwind::address_space::FileKey;
use std::collections::{BTreeSet, HashSet};
use tracer_ebpf::wire::{EventHead, kind};

/// So many processes that are no targets are told apart in the account.
const OTHERS: usize = 8;

/// All that is collected.
pub(crate) struct Collector {
    /// Processes, frames and stacks.
    pub(crate) stacks: StackBuilder,
    samples: SampleCollector,
    /// Calls of GPU libraries.
    pub(crate) gpu: GpuCollector,
    /// Calls that are counted, where that was asked for.
    pub(crate) counting: Option<Counting>,
    /// Ranges between static probes, where there are some.
    pub(crate) range_probes: Option<RangeProbes>,
    housekeeping: Housekeeping,
    /// Where CPU time is summed.
    pub(crate) summed: Option<SummedTime>,
    /// The tracer's own processes then, as far as no other has the number of one since.
    own: BTreeSet<Pid>,
    /// Until when it is known who began and ended.
    lives: KtimeNs,
    /// Where somebody looks meanwhile.
    pub(crate) live: Option<LiveNames>,
    /// Events that could not be read: none, unless the build is inconsistent.
    pub(crate) damaged: u64,
}

impl Collector {
    pub(crate) fn new(stacks: StackBuilder) -> Self {
        Self {
            stacks,
            samples: SampleCollector::new(),
            gpu: GpuCollector::default(),
            counting: None,
            range_probes: None,
            summed: None,
            own: BTreeSet::new(),
            lives: KtimeNs::default(),
            live: None,
            housekeeping: Housekeeping::new(energy_trace_system::clock::now()),
            damaged: 0,
        }
    }

    /// From now on so many samples a second are to be expected.
    pub(crate) fn expect(&mut self, hz: u32, since: KtimeNs) {
        self.samples.sampling_gaps = SamplingGaps::new(hz, since);
    }

    /// Slices on these CPUs end only when their threads leave them.
    pub(crate) fn cannot_visit(&mut self, cpus: &[CpuId]) {
        self.samples.out_of_reach = cpus.iter().map(|&cpu| (cpu, None)).collect();
    }

    /// Samples so far.
    pub(crate) const fn sampled(&self) -> u64 {
        self.samples.sampled
    }

    /// Where targets ran and could not be seen.
    pub(crate) const fn sampling_gaps(&self) -> &SamplingGaps {
        &self.samples.sampling_gaps
    }

    /// What was seen of who ran.
    pub(crate) fn account(&self) -> TraceAccount {
        let (recorded_ns, paused_ns, switches_and_scheduler_ns) = self.samples.sampling_gaps.account();
        let others = self.samples.background.busiest(OTHERS);
        TraceAccount { recorded_ns, paused_ns, switches_and_scheduler_ns, others, ..TraceAccount::default() }
    }

    /// All events up to this moment that tell who began and ended were taken in.
    pub(crate) fn knows_lives(&mut self, until: KtimeNs) {
        self.lives = self.lives.max(until);
    }

    /// An agent looks ahead who has ended by the end of these events: most that are sampled in their first
    /// milliseconds.
    pub(crate) fn foresee<'a>(&mut self, events: impl Iterator<Item = &'a [u8]>) {
        let processes = &mut self.stacks.processes;
        if processes.scope == Scope::Agent {
            let is_end = |head: &EventHead| head.kind == kind::EXIT && head.pid == head.tid;
            let ends = events.filter_map(peek).filter(is_end);
            processes.ending.clear();
            processes.ending.extend(ends.map(|head| Pid::new(head.pid)));
        }
    }

    /// Takes in one event.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        match decode_event(bytes) {
            Some(event) => self.event(event),
            None => self.damaged += 1,
        }
        if self.samples.is_full() {
            self.samples.flush(self.stacks.records());
        }
    }

    fn event(&mut self, event: Event<'_>) {
        if let Some(at) = event.activity_at().filter(|_| !self.is_nobodys_work(&event)) {
            self.stacks.activity.mark_active(at);
        }
        let stacks = &mut self.stacks;
        match event {
            Event::Sample(mut head, comm, stack, record) => {
                head.span = stacks.span(head, comm, record);
                if self.samples.sampled == 0 {
                    self.housekeeping.log_first_sample(head, &stack, stacks);
                }
                self.samples.sample(head, comm.text(), &stack, stacks);
            }
            Event::Slice(head, start, ran_ns) => self.samples.slice(head, start, ran_ns, stacks),
            Event::Background(head, start, comm) => {
                self.samples.background_slice(head, start, comm, stacks.records());
            }
            Event::Fork(head, child) => {
                self.housekeeping.began(child);
                stacks.processes.fork(head, child, &mut stacks.maps, &stacks.out.records);
            }
            Event::Join(head) => self.joined(head),
            Event::Exec(head, comm) => {
                if !stacks.processes.exec_young(head.pid, comm) {
                    self.exec(head, comm.text());
                }
            }
            Event::Exit(head, _) if stacks.processes.young.ended(head) => (),
            Event::Exit(head, comm) => {
                stacks.processes.thread_ended(head, || comm.text(), &stacks.out.records);
                self.housekeeping.ended(head.pid, head.at);
                self.samples.sampling_gaps.exit(head.tid);
            }
            Event::Mmap(head) => stacks.processes.touch(head.pid, head.at),
            Event::Raw(capture) => stacks.raw.keep(&capture),
            Event::Wait(mut head, comm, stack, record) => {
                head.span = stacks.span(head, comm, record);
                self.samples.wait(head, comm.text(), &stack, stacks);
            }
            Event::WaitAgain(head) => self.samples.wait_again(head, stacks),
            Event::Wake(head, pid, tid) => self.samples.wake(head, (pid, tid), stacks),
            Event::Gpu(head, event) => self.gpu.call(head, &event, stacks),
            Event::GpuStack(mut head, comm, stack, record) => {
                head.span = stacks.span(head, comm, record);
                self.gpu.stack(head, comm.text(), &stack, stacks);
            }
            Event::GpuName(head, function, name) => self.gpu.set_name(head.pid, function, &name),
            Event::Told(head, told) => note_told_codes(&mut stacks.processes, head, &told),
            Event::Codes(head, sights) => {
                stacks.processes.meet(head.pid, &stacks.out.records);
                if note_code_objects(&mut stacks.processes, head, &sights) {
                    stacks.activity.mark_active(head.at);
                }
            }
        }
    }

    /// A process came into the recorded control group; or into another one, which concerns an agent alone.
    fn joined(&mut self, head: EventContext) {
        let stacks = &mut self.stacks;
        let (processes, out) = (&mut stacks.processes, &stacks.out.records);
        if processes.scope == Scope::Agent {
            return processes.moved(head.pid, &mut stacks.maps, out);
        }
        self.housekeeping.began(head.pid);
        processes.get_or_insert(head.pid, out);
        processes.touch(head.pid, head.at);
    }

    /// An agent reads nothing of processes that begin, move or end, or launch: who is sampled is read, and samples say so.
    fn is_nobodys_work(&self, event: &Event<'_>) -> bool {
        let is_life = matches!(event, Event::Fork(..) | Event::Join(..) | Event::Exec(..) | Event::Exit(..));
        let is_launch = matches!(event, Event::Gpu(..) | Event::GpuStack(..));
        (is_life || is_launch) && self.stacks.processes.scope == Scope::Agent
    }

    fn exec(&mut self, head: EventContext, name: String) {
        let stacks = &mut self.stacks;
        self.samples.release(head.at, Some(head.pid), stacks);
        stacks.processes.get_or_insert(head.pid, &stacks.out.records);
        stacks.maps.remove_program(head.pid);
        stacks.spans.forget(head.pid);
        stacks.processes.exec(head.pid, name, head.at, &stacks.out.records);
    }

    /// Reads the mappings of all processes that are known and waits for the tables of what they have mapped.
    pub(crate) fn ready_tables(&mut self, go_on: &mut dyn FnMut() -> bool) {
        let now = energy_trace_system::clock::now();
        self.refresh(&HashSet::new(), now);
        let updates = self.stacks.processes.files.await_updates(go_on);
        self.refresh(&updates, now);
        self.housekeeping.ready(energy_trace_system::clock::now());
    }

    fn refresh(&mut self, updated: &HashSet<FileKey>, now: KtimeNs) {
        let stacks = &mut self.stacks;
        stacks.processes.refresh(&mut stacks.maps, &stacks.out.records, updated, now);
    }

    /// Whether updates about files are on their way.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.stacks.processes.files.is_busy()
    }

    /// Whether nothing is to be read of any process soon, so that it does no harm to come late.
    pub(crate) const fn is_idle(&self, now: KtimeNs) -> bool {
        self.stacks.activity.is_idle(now)
    }

    /// What is done after the events up to `now` were taken in.
    pub(crate) fn housekeeping(&mut self, now: KtimeNs) {
        let updates = self.stacks.processes.files.drain_updates();
        self.refresh(&updates, now);
        self.samples.release(now, None, &mut self.stacks);
        let lives = self.lives;
        self.take_summed(|summed| summed.take(now, lives));
        self.stacks.processes.forget_young(now, &mut self.stacks.maps);
        self.gpu.housekeeping(now, &mut self.stacks);
        if let Some(counting) = &mut self.counting {
            counting.look(&mut self.stacks);
            counting.tell_units(now);
        }
        if let Some(probes) = &mut self.range_probes {
            probes.look(&self.stacks);
        }
        for pid in std::mem::take(&mut self.stacks.processes.met_late) {
            self.housekeeping.ended(pid, now);
        }
        self.housekeeping.log_table_usage(&self.stacks);
        for (pid, at) in self.housekeeping.take_gone(now, self.summed.is_some()) {
            self.stacks.forget(pid, at);
            self.gpu.forget(pid);
        }
        self.samples.flush(self.stacks.records());
        if let Some(live) = &mut self.live {
            live.look(now, &self.stacks);
        }
        let forgets = self.live.as_ref().is_some_and(|live| live.forgets);
        let holds = self.housekeeping.may_close(now) && self.close_unmapped(forgets);
        if forgets && (self.stacks.out.is_large() || holds && self.housekeeping.may_forget(now)) {
            self.begin_anew();
        }
    }

    /// Closes the files that stacks were unwound by and no process maps any more; where that is asked, whether some are open for their names.
    fn close_unmapped(&self, for_names: bool) -> bool {
        let mapped = self.stacks.processes.mapped();
        self.stacks.raw.files.borrow_mut().forget_unmapped(&mapped);
        for_names && self.stacks.libraries.holds_unmapped(&mapped)
    }

    /// Forgets frames and stacks, which are told of again when they are seen.
    fn begin_anew(&mut self) {
        self.samples.forget_stacks(self.stacks.records());
        self.stacks.processes.forget_frames();
        self.stacks.jit.clear();
        let kept = self.gpu.forget_stacks(&mut self.stacks);
        let moved = self.stacks.out.begin_anew(&kept);
        self.gpu.move_stacks(&moved);
        self.stacks.libraries.begin_anew();
        self.live.iter_mut().for_each(LiveNames::begin_anew);
        trim();
    }

    /// Takes in CPU time that was summed. Who ran is known: its events came before.
    fn take_summed(&mut self, take: impl FnOnce(&mut SummedTime) -> Vec<CpuTimes>) {
        let summed = self.summed.as_mut().map(take).unwrap_or_default();
        let is_known = |pid| self.own.contains(&pid) || self.stacks.processes.is_known(pid);
        if summed.iter().flat_map(|times| &times.of).any(|(pid, _)| !is_known(*pid)) {
            self.own = self.stacks.maps.own();
        }
        summed.into_iter().for_each(|times| self.samples.summed(times, &self.own, &mut self.stacks));
    }

    /// Sends all that was kept back; nothing comes any more.
    pub(crate) fn finish(&mut self, end: KtimeNs) {
        self.take_summed(SummedTime::take_last);
        self.samples.end_open_slices(end, &mut self.stacks);
        // Later than any waits.
        self.samples.release(KtimeNs::from_ns(u64::MAX), None, &mut self.stacks);
        self.gpu.finish(&mut self.stacks);
        self.samples.flush(self.stacks.records());
    }
}
