//! Puts records together into a `Recording` and refuses those that make no sense.
//!
//! Ids are positions in tables: a record either defines the next position or replaces one that is there (a process whose interpreter is
//! learned later). A stack's parent is older than the stack, so chains of callers end. Leaves out bytes and files (`file.rs`).

use super::gpu_waits::mark_gpu_waits;
use super::late_names::LateNames;
use super::record::{
    CallCount, CalledOn, Clocks, CpuOwner, CpuTotals, Frame, Frequencies, GpuBusy, GpuMeter, GpuUse, GpuWait,
    InputSizes, InstalledPackage, KernelTier, LaunchStacks, Launches, Name, Process, PublicName, Reading,
    Record, Sample, SensorReadings, SensorSeries, Slice, Span, StackNode, Thread, Unsampled, Wait, Wake,
    WorkSeries,
};
use super::tables::Recording;
use super::totals::lay_out;
use crate::clock::KtimeNs;
use crate::collections::Order as _;
use crate::ids::{CpuId, DomainId, FrameId, ProcessKey, StackId, ThreadKey};
use thiserror::Error;

/// Why a record cannot belong to this recording.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum Nonsense {
    /// The first record is not the header.
    #[error("its first record is not a header")]
    NoHeader,
    /// A second header.
    #[error("it has a second header")]
    SecondHeader,
    /// A record uses an id that no record defined before it.
    #[error("{what} {id} is used before it is defined")]
    Undefined {
        /// The kind of thing: `thread`.
        what: &'static str,
        /// The id.
        id: u32,
    },
    /// A stack whose caller is not older than itself.
    #[error("stack {0} is its own caller")]
    CircularStack(u32),
}

/// A recording in the making.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    recording: Option<Recording>,
    late: LateNames,
}

impl Assembly {
    /// Adds one record; on an error everything before it stays as it was.
    pub(super) fn add(&mut self, record: Record) -> Result<(), Nonsense> {
        match (&mut self.recording, record) {
            (None, Record::Header(header)) => {
                self.recording = Some(Recording { header, clocks: Clocks::new(), ..Recording::default() });
                Ok(())
            }
            (None, _) => Err(Nonsense::NoHeader),
            (Some(_), Record::Header(_)) => Err(Nonsense::SecondHeader),
            (Some(recording), record) => add_to(recording, &mut self.late, record),
        }
    }

    /// Whether nothing was added.
    pub(super) const fn is_empty(&self) -> bool {
        self.recording.is_none()
    }

    /// Whether its last record came.
    pub(super) fn has_end(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.summary.is_some())
    }

    /// What was added so far, its lists in the order in which they came.
    pub(super) const fn so_far(&mut self) -> Option<&mut Recording> {
        self.recording.as_mut()
    }

    /// The recording with its lists in order, or `None` when there was not even a header.
    pub(super) fn finish(self) -> Option<Recording> {
        let mut recording = self.recording?;
        self.late.apply(&mut recording);
        mark_gpu_waits(&mut recording);
        lay_out(&mut recording);
        recording.slices.sort_by_key(|slice| (slice.cpu, slice.start));
        recording.unsampled.order_by_key(|stretch| (stretch.cpu, stretch.start));
        recording.samples.order_by_key(|sample| sample.at);
        recording.spans.values_mut().for_each(|spans| spans.order_by_key(|(at, _)| *at));
        recording.requests.waits.order_by_key(|wait| wait.at);
        recording.requests.wakes.order_by_key(|wake| wake.at);
        recording.gpu.launches.order_by_key(|launches| launches.from);
        recording.gpu.waits.order_by_key(|wait| wait.until);
        recording.gpu.busy.order_by_key(|busy| busy.from);
        for clock in recording.clocks.values_mut() {
            clock.order_by_key(|(at, _)| *at);
        }
        for series in &mut recording.sensors {
            series.values.order_by_key(|(at, _)| *at);
        }
        for readings in recording.readings.values_mut() {
            readings.order_by_key(|reading| reading.at);
        }
        recording.work.iter_mut().for_each(WorkSeries::put_in_order);
        Some(recording)
    }
}

fn add_to(to: &mut Recording, late: &mut LateNames, record: Record) -> Result<(), Nonsense> {
    match record {
        Record::Header(_) => Err(Nonsense::SecondHeader),
        Record::Domain(domain) => place(&mut to.domains, "domain", domain.id.get(), domain),
        Record::Readings(domain, readings) => add_readings(to, domain, readings),
        Record::Process(process) => add_process(to, process),
        Record::Thread(thread) => add_thread(to, thread),
        Record::Frame(id, frame) => place(&mut to.frames, "frame", id.get(), frame),
        Record::Stack(id, node) => add_stack(to, id, node),
        Record::Slices(slices) => add_slices(to, slices),
        Record::CpuTotals(totals) => add_totals(to, totals),
        Record::Samples(samples) => add_samples(to, samples),
        Record::Cores(cores) => add_cores(to, cores),
        Record::Frequencies(read) => add_frequencies(to, &read),
        Record::Slept(at) => add_sleep(to, at),
        Record::Name(id, name) => add_name(&mut to.frames, id, name),
        Record::Waits(waits) => add_waits(to, waits),
        Record::Wakes(wakes) => add_wakes(to, wakes),
        Record::PoolLoop(frame) => add_pool_loop(to, frame),
        Record::Background(process) => {
            place(&mut to.background, "background process", process.key.get(), process)
        }
        Record::Unsampled(stretches) => add_unseen(to, stretches),
        Record::PublicNames(names) => add_public_names(to, names),
        Record::Installed(packages) => add_installed(to, packages),
        Record::Calls(counts) => add_calls(to, counts),
        Record::Sensor(sensor) => {
            let id = sensor.id.get();
            place(&mut to.sensors, "sensor", id, SensorSeries { sensor, values: Vec::new() })
        }
        Record::SensorReadings(read) => add_sensor_readings(to, &read),
        Record::Work(..) | Record::WorkReadings(..) => add_of_work(to, record),
        Record::InputSizes(sizes) => add_input_sizes(to, sizes),
        Record::CalledOn(id, on) => add_called_on(to, id, on),
        Record::ControlGroup(process, path) => add_control_group(to, process, path),
        Record::Span(thread, at, span) => add_span(to, thread, at, span),
        Record::Inlined(id, names) => {
            defined(&to.frames, "frame", id.get()).map(|_| late.add_inlined(id, names))
        }
        Record::Renamed(id, at, name) => {
            defined(&to.frames, "frame", id.get()).map(|_| late.add_renamed(id, at, name))
        }
        Record::GpuMeter(..)
        | Record::GpuUses(..)
        | Record::Launches(_)
        | Record::GpuWaits(_)
        | Record::GpuBusy(_)
        | Record::KernelTier(_)
        | Record::LaunchStacks(_) => add_of_gpu(to, record),
        Record::SensorCost(_)
        | Record::Project(_)
        | Record::Rank(_)
        | Record::Summary(_)
        | Record::Host(_)
        | Record::Library(_) => {
            set(to, record);
            Ok(())
        }
    }
}

fn add_readings(to: &mut Recording, domain: DomainId, readings: Vec<Reading>) -> Result<(), Nonsense> {
    defined(&to.domains, "domain", domain.get())?;
    to.readings.entry(domain).or_default().extend(readings);
    Ok(())
}

fn add_control_group(to: &mut Recording, process: ProcessKey, path: String) -> Result<(), Nonsense> {
    defined(&to.processes, "process", process.get())?;
    to.control_groups.insert(process, path);
    Ok(())
}

fn add_pool_loop(to: &mut Recording, frame: FrameId) -> Result<(), Nonsense> {
    defined(&to.frames, "frame", frame.get())?;
    to.requests.pool_loops.insert(frame);
    Ok(())
}

/// Takes in what GPUs were given to do, and how their energy is read.
fn add_of_gpu(to: &mut Recording, record: Record) -> Result<(), Nonsense> {
    match record {
        Record::GpuMeter(domain, meter) => add_meter(to, domain, meter),
        Record::GpuUses(domain, uses) => add_uses(to, domain, uses),
        Record::Launches(launches) => add_launches(to, launches),
        Record::GpuWaits(waits) => add_gpu_waits(to, waits),
        Record::GpuBusy(busy) => add_gpu_busy(to, busy),
        Record::KernelTier(tier) => add_tier(to, tier),
        Record::LaunchStacks(stacks) => add_launch_stacks(to, stacks),
        _ => Ok(()),
    }
}

/// Takes in what a recording has once, and refers to nothing.
fn set(to: &mut Recording, record: Record) {
    match record {
        Record::SensorCost(cost) => to.sensor_cost = Some(cost),
        Record::Project(project) => to.project = Some(project),
        Record::Rank(rank) => to.rank = Some(rank),
        Record::Summary(summary) => to.summary = Some(summary),
        Record::Host(host) => to.host = Some(host),
        Record::Library(library) => {
            to.build_ids.insert(library.path, library.build_id);
        }
        _ => (),
    }
}

/// A process without a command line has its parent's: it was forked by it.
fn add_process(to: &mut Recording, mut process: Process) -> Result<(), Nonsense> {
    process.parent.map_or(Ok(()), |parent| defined(&to.processes, "process", parent.get()))?;
    let parent = process.parent.and_then(|parent| to.processes.get(parent.index()));
    if process.command.is_empty()
        && let Some(parent) = parent
    {
        process.command.clone_from(&parent.command);
    }
    place(&mut to.processes, "process", process.key.get(), process)
}

fn add_thread(to: &mut Recording, thread: Thread) -> Result<(), Nonsense> {
    defined(&to.processes, "process", thread.process.get())?;
    place(&mut to.threads, "thread", thread.key.get(), thread)
}

fn add_meter(to: &mut Recording, domain: DomainId, meter: GpuMeter) -> Result<(), Nonsense> {
    defined(&to.domains, "domain", domain.get())?;
    to.gpu_facts.meters.insert(domain, meter);
    Ok(())
}

fn add_uses(to: &mut Recording, domain: DomainId, uses: Vec<GpuUse>) -> Result<(), Nonsense> {
    defined(&to.domains, "domain", domain.get())?;
    to.gpu_facts.uses.entry(domain).or_default().extend(uses);
    Ok(())
}

fn add_cores(to: &mut Recording, cores: Vec<Vec<CpuId>>) -> Result<(), Nonsense> {
    to.cores = cores;
    Ok(())
}

fn add_public_names(to: &mut Recording, names: Vec<PublicName>) -> Result<(), Nonsense> {
    to.public_names.extend(names);
    Ok(())
}

fn add_installed(to: &mut Recording, packages: Vec<InstalledPackage>) -> Result<(), Nonsense> {
    packages.into_iter().for_each(|package| to.public_names.install(package));
    Ok(())
}

fn add_calls(to: &mut Recording, counts: Vec<CallCount>) -> Result<(), Nonsense> {
    counts.iter().try_for_each(|count| defined(&to.frames, "frame", count.frame.get()))?;
    to.calls.extend(counts);
    Ok(())
}

fn add_called_on(to: &mut Recording, id: FrameId, on: CalledOn) -> Result<(), Nonsense> {
    defined(&to.frames, "frame", id.get())?;
    to.called_on.insert(id, on);
    Ok(())
}

fn add_frequencies(to: &mut Recording, read: &Frequencies) -> Result<(), Nonsense> {
    for &(cpu, frequency) in &read.of {
        to.clocks.entry(cpu).or_default().push((read.at, frequency));
    }
    Ok(())
}

fn add_sensor_readings(to: &mut Recording, read: &SensorReadings) -> Result<(), Nonsense> {
    read.of.iter().try_for_each(|(sensor, _)| defined(&to.sensors, "sensor", sensor.get()))?;
    for &(sensor, value) in &read.of {
        if let Some(series) = to.sensors.get_mut(sensor.index()) {
            series.values.push((read.at, value));
        }
    }
    Ok(())
}

fn add_of_work(to: &mut Recording, record: Record) -> Result<(), Nonsense> {
    match record {
        Record::Work(id, counter) => {
            place(&mut to.work, "counter of work", id.get(), WorkSeries { counter, readings: Vec::new() })
        }
        Record::WorkReadings(id, readings) => {
            defined(&to.work, "counter of work", id.get())?;
            to.work
                .get_mut(id.index())
                .into_iter()
                .for_each(|series| series.readings.extend_from_slice(&readings));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn add_input_sizes(to: &mut Recording, sizes: Vec<InputSizes>) -> Result<(), Nonsense> {
    sizes.iter().try_for_each(|of| defined(&to.frames, "frame", of.frame.get()))?;
    to.input_sizes.extend(sizes);
    Ok(())
}

fn add_sleep(to: &mut Recording, at: KtimeNs) -> Result<(), Nonsense> {
    to.sleeps.push(at);
    Ok(())
}

fn add_unseen(to: &mut Recording, stretches: Vec<Unsampled>) -> Result<(), Nonsense> {
    to.unsampled.extend(stretches);
    Ok(())
}

fn add_slices(to: &mut Recording, slices: Vec<Slice>) -> Result<(), Nonsense> {
    slices.iter().try_for_each(|slice| owner_defined(to, slice.who))?;
    to.slices.extend(slices);
    Ok(())
}

fn add_totals(to: &mut Recording, totals: Vec<CpuTotals>) -> Result<(), Nonsense> {
    let mut owners = totals.iter().flat_map(|of_cpu| &of_cpu.of);
    owners.try_for_each(|(who, _)| owner_defined(to, *who))?;
    to.totals.extend(totals);
    Ok(())
}

fn owner_defined(to: &Recording, who: CpuOwner) -> Result<(), Nonsense> {
    match who {
        CpuOwner::Target(thread) => thread_defined(to, thread),
        CpuOwner::Background(key) => defined(&to.background, "background process", key.get()),
        CpuOwner::Other => Ok(()),
    }
}

fn add_samples(to: &mut Recording, samples: Vec<Sample>) -> Result<(), Nonsense> {
    for sample in &samples {
        thread_defined(to, sample.thread)?;
        defined(&to.stacks, "stack", sample.stack.get())?;
    }
    to.samples.extend(samples);
    Ok(())
}

fn add_waits(to: &mut Recording, waits: Vec<Wait>) -> Result<(), Nonsense> {
    for wait in &waits {
        thread_defined(to, wait.thread)?;
        defined(&to.stacks, "stack", wait.stack.get())?;
    }
    to.requests.waits.extend(waits);
    Ok(())
}

fn add_span(to: &mut Recording, thread: ThreadKey, at: KtimeNs, span: Span) -> Result<(), Nonsense> {
    thread_defined(to, thread)?;
    to.spans.entry(thread).or_default().push((at, span));
    Ok(())
}

fn add_wakes(to: &mut Recording, wakes: Vec<Wake>) -> Result<(), Nonsense> {
    for wake in &wakes {
        thread_defined(to, wake.thread)?;
        thread_defined(to, wake.waker)?;
    }
    to.requests.wakes.extend(wakes);
    Ok(())
}

fn add_launches(to: &mut Recording, launches: Launches) -> Result<(), Nonsense> {
    for launched in &launches.work {
        thread_defined(to, launched.thread)?;
        defined(&to.stacks, "stack", launched.stack.get())?;
    }
    to.gpu.launches.push(launches);
    Ok(())
}

fn add_gpu_waits(to: &mut Recording, waits: Vec<GpuWait>) -> Result<(), Nonsense> {
    waits.iter().try_for_each(|wait| thread_defined(to, wait.thread))?;
    to.gpu.waits.extend(waits);
    Ok(())
}

fn add_gpu_busy(to: &mut Recording, busy: Vec<GpuBusy>) -> Result<(), Nonsense> {
    for one in &busy {
        thread_defined(to, one.thread)?;
        defined(&to.stacks, "stack", one.stack.get())?;
    }
    to.gpu.busy.extend(busy);
    Ok(())
}

fn add_tier(to: &mut Recording, tier: KernelTier) -> Result<(), Nonsense> {
    to.gpu.tiers.push(tier);
    Ok(())
}

fn add_launch_stacks(to: &mut Recording, stacks: LaunchStacks) -> Result<(), Nonsense> {
    to.gpu.stacks += stacks;
    Ok(())
}

fn thread_defined(recording: &Recording, thread: ThreadKey) -> Result<(), Nonsense> {
    defined(&recording.threads, "thread", thread.get())
}

fn add_stack(to: &mut Recording, id: StackId, node: StackNode) -> Result<(), Nonsense> {
    defined(&to.frames, "frame", node.frame.get())?;
    if let Some(parent) = node.parent {
        defined(&to.stacks, "stack", parent.get())?;
        if parent >= id {
            return Err(Nonsense::CircularStack(id.get()));
        }
    }
    place(&mut to.stacks, "stack", id.get(), node)
}

/// Gives a frame the names that were found for it; what was not found stays as recorded.
fn add_name(frames: &mut [Frame], id: FrameId, name: Name) -> Result<(), Nonsense> {
    let frame = frames.get_mut(id.index()).ok_or(Nonsense::Undefined { what: "frame", id: id.get() })?;
    if !name.name.is_empty() {
        frame.name = name.name;
    }
    if !name.file.is_empty() {
        frame.file = name.file;
    }
    if name.line != 0 {
        frame.line = name.line;
    }
    Ok(())
}

fn defined<T>(table: &[T], what: &'static str, id: u32) -> Result<(), Nonsense> {
    if table.len() > id as usize { Ok(()) } else { Err(Nonsense::Undefined { what, id }) }
}

/// Puts an entry at its position: the next one, or one that is there already.
fn place<T>(table: &mut Vec<T>, what: &'static str, id: u32, entry: T) -> Result<(), Nonsense> {
    match (id as usize).cmp(&table.len()) {
        std::cmp::Ordering::Equal => table.push(entry),
        std::cmp::Ordering::Less => table[id as usize] = entry,
        // Ids are given out one after the other: a hole means that a record is missing.
        std::cmp::Ordering::Greater => {
            return Err(Nonsense::Undefined { what, id: u32::try_from(table.len()).unwrap_or(u32::MAX) });
        }
    }
    Ok(())
}
