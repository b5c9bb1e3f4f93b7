//! Joins recordings of one machine whose times overlap: as if one recorder had watched the programs of all.
//!
//! Programs, threads, frames and stacks get new numbers behind those before them. Counters are the first recording's, and another's where the
//! first had not begun or had ended, with a gap between the two: a counter of one recorder need not go on from another's. What one recording has as
//! other programs' time and another as its own program's is the program's. Leaves out which recordings these are (`machines.rs`).

use super::machines::span;
use super::record::{
    BackgroundProcess, CallCount, CounterValue, CpuOwner, Domain, GpuBusy, GpuWait, Histogram, InputSizes,
    Launched, Launches, Process, Reading, Sample, Sensor, SensorSeries, Slice, StackNode, Summary, Thread,
    Wait, Wake,
};
use super::tables::Recording;
use crate::clock::KtimeNs;
use crate::collections::Order as _;
use crate::ids::{BackgroundKey, CpuId, DomainId, FrameId, ProcessKey, SensorId, StackId, ThreadKey};
use std::collections::BTreeMap;
use std::ops::Range;

/// Joins recordings; the numbers of the processes of each are its range.
pub fn joined(recordings: Vec<Recording>) -> (Recording, Vec<Range<u32>>) {
    let mut all = recordings.into_iter();
    let mut whole = all.next().unwrap_or_default();
    let own = 0..number(whole.processes.len());
    let mut ranges = vec![own];
    for other in all {
        let first = number(whole.processes.len());
        join(&mut whole, other);
        ranges.push(first..number(whole.processes.len()));
    }
    (whole, ranges)
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn join(to: &mut Recording, from: Recording) {
    let behind = Behind::of(to);
    let (old, new) = (span(to), span(&from));
    join_slices(to, &from, &behind, old, new);
    join_power(to, &from, old);
    join_header(to, &from);
    to.summary = both_ends(to.summary.take(), from.summary.clone());
    if let Some(summary) = &mut to.summary {
        (summary.start, summary.end) = (old.0.min(new.0), old.1.max(new.1));
    }
    join_samples(to, &from, &behind);
    join_requests(to, &from, &behind);
    join_gpu(to, &from, &behind);
    join_clocks(to, &from, old);
    join_sensors(to, &from, old);
    join_programs(to, from, &behind);
}

fn join_header(to: &mut Recording, from: &Recording) {
    let (header, other) = (&mut to.header, &from.header);
    if header.command != other.command {
        header.command = Vec::new();
    }
    if other.anchor.ktime < header.anchor.ktime {
        header.anchor = other.anchor;
    }
    header.system_wide |= other.system_wide;
    header.sockets.extend(&other.sockets);
    if to.project != from.project {
        to.project = None;
    }
}

/// Who ran what: behind what is there.
fn join_programs(to: &mut Recording, from: Recording, behind: &Behind) {
    to.processes.extend(from.processes.into_iter().map(|process| behind.process(process)));
    to.threads.extend(from.threads.into_iter().map(|thread| behind.thread(thread)));
    to.frames.extend(from.frames);
    to.stacks.extend(from.stacks.into_iter().map(|node| behind.node(node)));
    to.build_ids.extend(from.build_ids);
    to.public_names.join(from.public_names);
    to.calls.extend(from.calls.into_iter().map(|count| behind.count(count)));
    to.called_on.extend(from.called_on.into_iter().map(|(frame, on)| (behind.frame(frame), on)));
    let groups = from.control_groups.into_iter();
    to.control_groups.extend(groups.map(|(key, group)| (behind.process_key(key), group)));
    if to.rank != from.rank {
        to.rank = None;
    }
    let moved = |sizes: InputSizes| InputSizes { frame: behind.frame(sizes.frame), ..sizes };
    to.input_sizes.extend(from.input_sizes.into_iter().map(moved));
    to.background.extend(from.background.into_iter().map(|process| behind.other(process)));
    to.diagnostics.extend(from.diagnostics);
}

fn join_samples(to: &mut Recording, from: &Recording, behind: &Behind) {
    to.samples.extend(from.samples.iter().map(|sample| behind.sample(*sample)));
    // Millions, and two runs one behind the other: the standard library merges them without a list of positions.
    to.samples.sort_by_key(|sample| sample.at);
    let spans = from.spans.iter().map(|(thread, spans)| (behind.thread_key(*thread), spans.clone()));
    to.spans.extend(spans);
    to.unsampled.extend(&from.unsampled);
    to.unsampled.order_by_key(|stretch| (stretch.cpu, stretch.start));
}

fn join_requests(to: &mut Recording, from: &Recording, behind: &Behind) {
    let (requests, other) = (&mut to.requests, &from.requests);
    requests.waits.extend(other.waits.iter().map(|wait| behind.wait(*wait)));
    requests.waits.order_by_key(|wait| wait.at);
    requests.wakes.extend(other.wakes.iter().map(|wake| behind.wake(*wake)));
    requests.wakes.order_by_key(|wake| wake.at);
    requests.pool_loops.extend(other.pool_loops.iter().map(|frame| behind.frame(*frame)));
}

fn join_gpu(to: &mut Recording, from: &Recording, behind: &Behind) {
    let (gpu, other) = (&mut to.gpu, &from.gpu);
    gpu.launches.extend(other.launches.iter().map(|launches| behind.launches(launches.clone())));
    gpu.launches.order_by_key(|launches| launches.from);
    gpu.waits.extend(other.waits.iter().map(|wait| behind.gpu_wait(*wait)));
    gpu.waits.order_by_key(|wait| wait.until);
    gpu.busy.extend(other.busy.iter().map(|busy| behind.busy(*busy)));
    gpu.busy.order_by_key(|busy| busy.from);
    gpu.stacks += other.stacks;
    gpu.tiers.extend(other.tiers.iter().cloned());
}

/// What the machine did where the first recording does not say.
fn join_clocks(to: &mut Recording, from: &Recording, old: Stretch) {
    let is_outside = |at: KtimeNs| at < old.0 || at > old.1;
    to.sleeps.extend(from.sleeps.iter().copied().filter(|at| is_outside(*at)));
    to.sleeps.order();
    for (&cpu, clock) in &from.clocks {
        let of_cpu = to.clocks.entry(cpu).or_default();
        of_cpu.extend(clock.iter().copied().filter(|(at, _)| is_outside(*at)));
        of_cpu.order_by_key(|(at, _)| *at);
    }
}

/// Sensors are the first recording's; another's where the first had not begun or had ended.
fn join_sensors(to: &mut Recording, from: &Recording, old: Stretch) {
    for SensorSeries { sensor, values } in &from.sensors {
        let id = SensorId::new(number(to.sensors.len()));
        let known = to.sensors.iter_mut().find(|known| known.sensor.is_the_same(sensor));
        let Some(known) = known else {
            let sensor = Sensor { id, ..sensor.clone() };
            to.sensors.push(SensorSeries { sensor, values: values.clone() });
            continue;
        };
        let outside = values.iter().filter(|(at, _)| *at < old.0 || *at > old.1);
        known.values.extend(outside.copied());
        known.values.order_by_key(|(at, _)| *at);
    }
}

/// What each kind of number is behind.
struct Behind {
    processes: u32,
    threads: u32,
    frames: u32,
    stacks: u32,
    background: u32,
}

impl Behind {
    fn of(recording: &Recording) -> Self {
        Self {
            processes: number(recording.processes.len()),
            threads: number(recording.threads.len()),
            frames: number(recording.frames.len()),
            stacks: number(recording.stacks.len()),
            background: number(recording.background.len()),
        }
    }

    const fn thread_key(&self, key: ThreadKey) -> ThreadKey {
        ThreadKey::new(key.get().saturating_add(self.threads))
    }

    const fn stack(&self, stack: StackId) -> StackId {
        StackId::new(stack.get().saturating_add(self.stacks))
    }

    const fn frame(&self, frame: FrameId) -> FrameId {
        FrameId::new(frame.get().saturating_add(self.frames))
    }

    const fn background(&self, key: BackgroundKey) -> BackgroundKey {
        BackgroundKey::new(key.get().saturating_add(self.background))
    }

    const fn count(&self, mut count: CallCount) -> CallCount {
        count.frame = self.frame(count.frame);
        count
    }

    fn other(&self, process: BackgroundProcess) -> BackgroundProcess {
        BackgroundProcess { key: self.background(process.key), ..process }
    }

    fn process(&self, process: Process) -> Process {
        let parent = process.parent.map(|parent| self.process_key(parent));
        Process { key: self.process_key(process.key), parent, ..process }
    }

    const fn process_key(&self, key: ProcessKey) -> ProcessKey {
        ProcessKey::new(key.get().saturating_add(self.processes))
    }

    fn thread(&self, thread: Thread) -> Thread {
        Thread { key: self.thread_key(thread.key), process: self.process_key(thread.process), ..thread }
    }

    fn node(&self, node: StackNode) -> StackNode {
        StackNode { parent: node.parent.map(|parent| self.stack(parent)), frame: self.frame(node.frame) }
    }

    const fn sample(&self, sample: Sample) -> Sample {
        Sample { thread: self.thread_key(sample.thread), stack: self.stack(sample.stack), ..sample }
    }

    const fn wait(&self, wait: Wait) -> Wait {
        Wait { thread: self.thread_key(wait.thread), stack: self.stack(wait.stack), ..wait }
    }

    const fn wake(&self, wake: Wake) -> Wake {
        Wake { thread: self.thread_key(wake.thread), waker: self.thread_key(wake.waker), ..wake }
    }

    fn launches(&self, mut launches: Launches) -> Launches {
        launches.work.iter_mut().for_each(|launched| {
            let (thread, stack) = (self.thread_key(launched.thread), self.stack(launched.stack));
            *launched = Launched { thread, stack, ..*launched };
        });
        launches
    }

    const fn gpu_wait(&self, wait: GpuWait) -> GpuWait {
        GpuWait { thread: self.thread_key(wait.thread), ..wait }
    }

    const fn busy(&self, busy: GpuBusy) -> GpuBusy {
        GpuBusy { thread: self.thread_key(busy.thread), stack: self.stack(busy.stack), ..busy }
    }

    const fn slice(&self, slice: Slice) -> Slice {
        let who = match slice.who {
            CpuOwner::Target(thread) => CpuOwner::Target(self.thread_key(thread)),
            CpuOwner::Background(key) => CpuOwner::Background(self.background(key)),
            CpuOwner::Other => CpuOwner::Other,
        };
        Slice { who, ..slice }
    }
}

/// A stretch of time, from and to.
type Stretch = (KtimeNs, KtimeNs);

/// Two recorders see one switch one after the other, and have the clock of the one who looked later: so much is no lost switch.
const ONE_SWITCH_NS: u64 = 1_000_000;

/// Targets of both, others of the first, and others of the second where the first does not say; what is a target's is no other's. Each says
/// something of its own time alone: what came before or behind is cut off.
fn join_slices(to: &mut Recording, from: &Recording, behind: &Behind, old: Stretch, new: Stretch) {
    let is_target = |slice: &Slice| matches!(slice.who, CpuOwner::Target(_));
    let mut targets: BTreeMap<CpuId, Vec<Stretch>> = BTreeMap::new();
    let within = |slices: &[Slice], of: Stretch| -> Vec<Slice> {
        slices.iter().filter_map(|slice| part_within(slice, of)).collect()
    };
    let (first, second) = (within(&to.slices, old), within(&from.slices, new));
    for slice in second.iter().filter(|slice| is_target(slice)) {
        targets.entry(slice.cpu).or_default().push((slice.start, slice.end));
    }
    let none = Vec::new();
    let mut slices: Vec<Slice> = Vec::with_capacity(first.len() + second.len());
    for slice in &first {
        let taken = if is_target(slice) { &none } else { targets.get(&slice.cpu).unwrap_or(&none) };
        slices.extend(without(slice, taken));
    }
    for slice in &second {
        let taken = if is_target(slice) { &none } else { &vec![old] };
        slices.extend(without(&behind.slice(*slice), taken));
    }
    slices.sort_by_key(|slice| (slice.cpu, slice.start, slice.end));
    let is_second = |slice: &Slice| matches!(slice.who, CpuOwner::Target(key) if key.get() >= behind.threads);
    for at in 1..slices.len() {
        let [.., before, slice] = slices.get_mut(..=at).unwrap_or_default() else { continue };
        if is_second(before) != is_second(slice) && is_one_switch(before, slice) {
            before.end = slice.start;
        }
    }
    slices.retain(|slice| slice.start < slice.end);
    to.slices = slices;
}

/// Whether two slices overlap as two views of the switch between them do.
fn is_one_switch(before: &Slice, slice: &Slice) -> bool {
    let is_overlap = before.cpu == slice.cpu && slice.start < before.end && before.end <= slice.end;
    is_overlap && before.end.ns_since(slice.start) <= ONE_SWITCH_NS
}

/// What of a slice is in a stretch.
fn part_within(slice: &Slice, (from, to): Stretch) -> Option<Slice> {
    let (start, end) = (slice.start.max(from), slice.end.min(to));
    (start < end).then_some(Slice { start, end, ..*slice })
}

/// What is left of a slice beside stretches that are in order.
fn without(slice: &Slice, taken: &[Stretch]) -> Vec<Slice> {
    let first = taken.partition_point(|(_, end)| *end <= slice.start);
    let (mut left, mut from) = (Vec::new(), slice.start);
    for &(start, end) in taken.iter().skip(first).take_while(|(start, _)| *start < slice.end) {
        if from < start {
            left.push(Slice { start: from, end: start, ..*slice });
        }
        from = from.max(end);
    }
    if from < slice.end {
        left.push(Slice { start: from, ..*slice });
    }
    left
}

/// Domains by name, and their readings.
fn join_power(to: &mut Recording, from: &Recording, old: Stretch) {
    for domain in &from.domains {
        let id = known_domain(to, domain);
        let before = to.readings.entry(id).or_default();
        let more = from.readings.get(&domain.id).map_or(&[][..], Vec::as_slice);
        *before = joined_readings(before, more);
        if let Some(meter) = from.gpu_facts.meters.get(&domain.id) {
            to.gpu_facts.meters.entry(id).or_insert(*meter);
        }
        let uses = from.gpu_facts.uses.get(&domain.id).into_iter().flatten();
        let uses = uses.filter(|of| of.from >= old.1 || of.to <= old.0).copied();
        to.gpu_facts.uses.entry(id).or_default().extend(uses);
    }
}

fn known_domain(to: &mut Recording, domain: &Domain) -> DomainId {
    if let Some(known) = to.domains.iter().find(|known| known.name == domain.name) {
        return known.id;
    }
    let id = DomainId::new(number(to.domains.len()));
    to.domains.push(Domain { id, ..domain.clone() });
    id
}

/// The first readings, and those of others before and behind them, each behind a reading that failed: a gap.
fn joined_readings(first: &[Reading], more: &[Reading]) -> Vec<Reading> {
    let (Some(begin), Some(end)) = (first.first(), first.last()) else { return more.to_vec() };
    let before = more.iter().filter(|reading| reading.at < begin.at).copied();
    let behind = more.iter().filter(|reading| reading.at > end.at).copied();
    let gap = |at: KtimeNs| Reading { at, value: CounterValue::Failed };
    let (before, behind): (Vec<Reading>, Vec<Reading>) = (before.collect(), behind.collect());
    let mut all = before.clone();
    all.extend(before.last().map(|_| gap(begin.at)));
    all.extend(first);
    all.extend(behind.first().map(|_| gap(end.at)));
    all.extend(behind);
    all
}

/// Both ends together; one that was cut has none, and then the whole is as one that was cut.
pub fn both_ends(one: Option<Summary>, other: Option<Summary>) -> Option<Summary> {
    let (mut whole, other) = one.zip(other)?;
    (whole.start, whole.end) = (whole.start.min(other.start), whole.end.max(other.end));
    for (reason, count) in other.lost {
        *whole.lost.entry(reason).or_default() += count;
    }
    for (outcome, count) in other.copies {
        *whole.copies.entry(outcome).or_default() += count;
    }
    whole.exit_code = whole.exit_code.max(other.exit_code);
    whole.bpf_ns = whole.bpf_ns.zip(other.bpf_ns).map(|(one, other)| one.saturating_add(other));
    whole.tracer_cpu_ns = whole.tracer_cpu_ns.saturating_add(other.tracer_cpu_ns);
    // Nothing here adds up histograms.
    (whole.read_latency, whole.read_lateness) = (Histogram::default(), Histogram::default());
    whole.diagnostics.extend(other.diagnostics);
    Some(whole)
}
