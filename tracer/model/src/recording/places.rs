//! Numbers of processes and threads in a recording that is read for as long as a machine runs: the recorder's
//! only grow, those here are places in tables of what is still there.
//!
//! What was forgotten and comes again has nobody's name: its samples are left out and counted, its CPU time
//! is other programs'. Frames and stacks begin anew where the recorder gives out their first number again;
//! those before go with the last that was sampled in them. Leaves out when something has ended, which whoever
//! reads knows.

use super::record::{CpuOwner, CpuTotals, Process, Record, Slice, StackNode, Thread};
use super::tables::Recording;
use crate::ids::{FrameId, Pid, ProcessKey, StackId, ThreadKey};
use std::collections::{HashMap, HashSet};

/// A process that was not known before, by the recorder's numbers, which nobody else gets later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewProcess {
    /// Its number.
    pub number: u32,
    /// Its process id.
    pub pid: Pid,
    /// The number of the process that started it.
    pub parent: Option<u32>,
}

/// Numbers of frames and stacks.
#[derive(Clone, Copy, Debug, Default)]
struct Code {
    frames: u32,
    stacks: u32,
}

impl Code {
    const fn frame(self, frame: FrameId) -> FrameId {
        FrameId::new(frame.get().saturating_add(self.frames))
    }

    const fn stack(self, stack: StackId) -> StackId {
        StackId::new(stack.get().saturating_add(self.stacks))
    }

    fn node(self, node: StackNode) -> StackNode {
        StackNode { parent: node.parent.map(|parent| self.stack(parent)), frame: self.frame(node.frame) }
    }
}

/// Where what the recorder numbered stands now.
#[derive(Debug, Default)]
pub(super) struct Places {
    processes: HashMap<u32, u32>,
    threads: HashMap<u32, u32>,
    /// The recorder's number of each process that is there.
    numbers: Vec<u32>,
    /// Where its frames and stacks begin that are given out now, and how many there are.
    first: Code,
    count: Code,
    pub(super) new: Vec<NewProcess>,
    /// Samples of those who were forgotten.
    pub(super) strays: u64,
}

impl Places {
    /// The recorder's number of a process.
    pub(super) fn number_of(&self, process: ProcessKey) -> Option<u32> {
        self.numbers.get(process.index()).copied()
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.iter().copied()
    }

    /// The record with places for numbers; `None` where it is about nothing that is known, or about names
    /// that come too late for any window.
    pub(super) fn place(&mut self, record: Record) -> Option<Record> {
        Some(match record {
            Record::Process(process) => Record::Process(self.add_process(process)),
            Record::Thread(thread) => Record::Thread(self.add_thread(thread)?),
            Record::ControlGroup(key, path) => Record::ControlGroup(self.process(key)?, path),
            Record::Slices(slices) => {
                let placed = slices.into_iter().map(|slice| Slice { who: self.owner(slice.who), ..slice });
                Record::Slices(placed.collect())
            }
            Record::CpuTotals(totals) => Record::CpuTotals(self.totals(totals)),
            Record::Inlined(..) | Record::Renamed(..) | Record::Span(..) => return None,
            Record::Frame(frame, of) => Record::Frame(self.add_frame(frame), of),
            Record::Stack(stack, node) => Record::Stack(self.add_stack(stack), self.first.node(node)),
            Record::Name(frame, name) => Record::Name(self.first.frame(frame), name),
            Record::PoolLoop(frame) => Record::PoolLoop(self.first.frame(frame)),
            Record::CalledOn(frame, on) => Record::CalledOn(self.first.frame(frame), on),
            other => self.place_threads(other),
        })
    }

    fn add_frame(&mut self, frame: FrameId) -> FrameId {
        if frame.get() == 0 && self.count.frames > self.first.frames {
            self.first = self.count;
        }
        let place = self.first.frame(frame);
        self.count.frames = self.count.frames.max(place.get().saturating_add(1));
        place
    }

    fn add_stack(&mut self, stack: StackId) -> StackId {
        let place = self.first.stack(stack);
        self.count.stacks = self.count.stacks.max(place.get().saturating_add(1));
        place
    }

    /// The same of lists of what threads did.
    fn place_threads(&mut self, record: Record) -> Record {
        let first = self.first;
        match record {
            Record::Samples(list) => Record::Samples(self.placed(list, |sample| {
                sample.stack = first.stack(sample.stack);
                [Some(&mut sample.thread), None]
            })),
            Record::Waits(list) => Record::Waits(self.placed(list, |wait| {
                wait.stack = first.stack(wait.stack);
                [Some(&mut wait.thread), None]
            })),
            Record::Wakes(list) => {
                Record::Wakes(self.placed(list, |wake| [Some(&mut wake.thread), Some(&mut wake.waker)]))
            }
            Record::GpuWaits(list) => {
                Record::GpuWaits(self.placed(list, |wait| [Some(&mut wait.thread), None]))
            }
            Record::GpuBusy(list) => Record::GpuBusy(self.placed(list, |busy| {
                busy.stack = first.stack(busy.stack);
                [Some(&mut busy.thread), None]
            })),
            Record::Launches(mut launches) => {
                launches.work = self.placed(launches.work, |work| {
                    work.stack = first.stack(work.stack);
                    [Some(&mut work.thread), None]
                });
                Record::Launches(launches)
            }
            other => other,
        }
    }

    /// Without those of threads that are not there, which are counted.
    fn placed<T>(&mut self, list: Vec<T>, threads: impl Fn(&mut T) -> [Option<&mut ThreadKey>; 2]) -> Vec<T> {
        let before = list.len();
        let place = |mut one: T| {
            for thread in threads(&mut one).into_iter().flatten() {
                *thread = ThreadKey::new(*self.threads.get(&thread.get())?);
            }
            Some(one)
        };
        let placed: Vec<T> = list.into_iter().filter_map(place).collect();
        self.strays += (before - placed.len()) as u64;
        placed
    }

    fn add_process(&mut self, process: Process) -> Process {
        let number = process.key.get();
        let next = length(&self.numbers);
        let place = *self.processes.entry(number).or_insert(next);
        if place == next {
            self.numbers.push(number);
            let parent = process.parent.map(ProcessKey::get);
            self.new.push(NewProcess { number, pid: process.pid, parent });
        }
        let parent =
            process.parent.and_then(|parent| self.process(parent)).filter(|parent| parent.get() < place);
        Process { key: ProcessKey::new(place), parent, ..process }
    }

    fn add_thread(&mut self, thread: Thread) -> Option<Thread> {
        let process = self.process(thread.process)?;
        let next = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let key = ThreadKey::new(*self.threads.entry(thread.key.get()).or_insert(next));
        Some(Thread { key, process, ..thread })
    }

    fn process(&self, key: ProcessKey) -> Option<ProcessKey> {
        self.processes.get(&key.get()).copied().map(ProcessKey::new)
    }

    fn owner(&self, who: CpuOwner) -> CpuOwner {
        match who {
            CpuOwner::Target(thread) => {
                let place = self.threads.get(&thread.get());
                place.map_or(CpuOwner::Other, |place| CpuOwner::Target(ThreadKey::new(*place)))
            }
            others => others,
        }
    }

    fn totals(&self, totals: Vec<CpuTotals>) -> Vec<CpuTotals> {
        let placed =
            |of: Vec<(CpuOwner, u64)>| of.into_iter().map(|(who, ns)| (self.owner(who), ns)).collect();
        totals.into_iter().map(|totals| CpuTotals { of: placed(totals.of), ..totals }).collect()
    }

    /// Forgets who has ended, by the recorder's numbers, as far as nothing that is left is theirs; what is
    /// there moves together.
    pub(super) fn forget(&mut self, recording: &mut Recording, has_ended: &dyn Fn(u32) -> bool) {
        let kept = self.kept(recording, has_ended);
        let of_kept = |thread: &Thread| kept.get(thread.process.index()).copied().unwrap_or(false);
        let processes = new_places(kept.iter().copied());
        let threads = new_places(recording.threads.iter().map(of_kept));
        self.renumber(&processes, &threads);
        renumber_tables(recording, &processes, &threads);
        renumber_lists(recording, &threads);
        self.forget_code(recording);
    }

    /// Frames and stacks before those that are given out now, once nothing is left that was sampled in them.
    fn forget_code(&mut self, recording: &mut Recording) {
        let gone = self.first;
        if gone.frames == 0 || stacks_in_use(recording).any(|stack| stack.get() < gone.stacks) {
            return;
        }
        recording.frames.drain(..recording.frames.len().min(gone.frames as usize));
        recording.frames.shrink_to_fit();
        recording.stacks.drain(..recording.stacks.len().min(gone.stacks as usize));
        recording.stacks.shrink_to_fit();
        move_code(recording, gone);
        self.count.frames -= gone.frames;
        self.count.stacks -= gone.stacks;
        self.first = Code::default();
    }

    /// Which processes stay.
    fn kept(&self, recording: &Recording, has_ended: &dyn Fn(u32) -> bool) -> Vec<bool> {
        let used = threads_in_use(recording);
        let lives = |process: &Process| self.number_of(process.key).is_some_and(|number| !has_ended(number));
        let mut kept: Vec<bool> = recording.processes.iter().map(lives).collect();
        for thread in recording.threads.iter().filter(|thread| used.contains(&thread.key)) {
            kept.get_mut(thread.process.index()).into_iter().for_each(|kept| *kept = true);
        }
        kept
    }

    fn renumber(&mut self, processes: &[Option<u32>], threads: &[Option<u32>]) {
        let moved = |places: &mut HashMap<u32, u32>, new: &[Option<u32>]| {
            places.retain(|_, place| match new.get(*place as usize).copied().flatten() {
                Some(new) => {
                    *place = new;
                    true
                }
                None => false,
            });
            places.shrink_to(places.len() * 2);
        };
        moved(&mut self.processes, processes);
        moved(&mut self.threads, threads);
        keep(&mut self.numbers, processes);
    }
}

fn length<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

/// Threads of which something is left.
fn threads_in_use(recording: &Recording) -> HashSet<ThreadKey> {
    let slices = recording.slices.iter().filter_map(|slice| match slice.who {
        CpuOwner::Target(thread) => Some(thread),
        _ => None,
    });
    let (requests, gpu) = (&recording.requests, &recording.gpu);
    let launched = gpu.launches.iter().flat_map(|launches| &launches.work).map(|work| work.thread);
    slices
        .chain(recording.samples.iter().map(|sample| sample.thread))
        .chain(requests.waits.iter().map(|wait| wait.thread))
        .chain(requests.wakes.iter().flat_map(|wake| [wake.thread, wake.waker]))
        .chain(launched)
        .chain(gpu.waits.iter().map(|wait| wait.thread))
        .chain(gpu.busy.iter().map(|busy| busy.thread))
        .collect()
}

/// Stacks of which something is left.
fn stacks_in_use(recording: &Recording) -> impl Iterator<Item = StackId> {
    let launched = recording.gpu.launches.iter().flat_map(|launches| &launches.work).map(|work| work.stack);
    let samples = recording.samples.iter().map(|sample| sample.stack);
    let waits = recording.requests.waits.iter().map(|wait| wait.stack);
    samples.chain(waits).chain(launched).chain(recording.gpu.busy.iter().map(|busy| busy.stack))
}

/// Everything that is named by frames and stacks moves to the front by so many.
fn move_code(recording: &mut Recording, by: Code) {
    let frame = |frame: FrameId| frame.get().checked_sub(by.frames).map(FrameId::new);
    let move_stack = |stack: &mut StackId| *stack = StackId::new(stack.get().saturating_sub(by.stacks));
    for node in &mut recording.stacks {
        node.frame = frame(node.frame).unwrap_or_default();
        node.parent.iter_mut().for_each(move_stack);
    }
    recording.samples.iter_mut().for_each(|sample| move_stack(&mut sample.stack));
    recording.requests.waits.iter_mut().for_each(|wait| move_stack(&mut wait.stack));
    let launched = recording.gpu.launches.iter_mut().flat_map(|launches| &mut launches.work);
    launched.for_each(|work| move_stack(&mut work.stack));
    recording.gpu.busy.iter_mut().for_each(|busy| move_stack(&mut busy.stack));
    let loops = std::mem::take(&mut recording.requests.pool_loops).into_iter();
    recording.requests.pool_loops = loops.filter_map(frame).collect();
    let called = std::mem::take(&mut recording.called_on).into_iter();
    recording.called_on = called.filter_map(|(of, on)| Some((frame(of)?, on))).collect();
}

/// The place of each entry once those that are not kept are gone.
fn new_places(kept: impl Iterator<Item = bool>) -> Vec<Option<u32>> {
    let mut next = 0..;
    kept.map(|kept| kept.then(|| next.next()).flatten()).collect()
}

fn keep<T>(list: &mut Vec<T>, places: &[Option<u32>]) {
    let mut places = places.iter();
    list.retain(|_| places.next().is_some_and(Option::is_some));
    list.shrink_to(list.len() * 2);
}

fn renumber_tables(recording: &mut Recording, processes: &[Option<u32>], threads: &[Option<u32>]) {
    let process = |key: ProcessKey| processes.get(key.index()).copied().flatten().map(ProcessKey::new);
    keep(&mut recording.processes, processes);
    for (place, of) in (0..).zip(&mut recording.processes) {
        of.key = ProcessKey::new(place);
        of.parent = of.parent.and_then(process);
    }
    keep(&mut recording.threads, threads);
    for (place, of) in (0..).zip(&mut recording.threads) {
        of.key = ThreadKey::new(place);
        // A thread without its process is not kept.
        of.process = process(of.process).unwrap_or_default();
    }
    let groups = std::mem::take(&mut recording.control_groups).into_iter();
    recording.control_groups = groups.filter_map(|(key, path)| Some((process(key)?, path))).collect();
}

/// Whose threads are used is kept, so that each has a place.
fn renumber_lists(recording: &mut Recording, threads: &[Option<u32>]) {
    let place = |thread: &mut ThreadKey| {
        if let Some(place) = threads.get(thread.index()).copied().flatten() {
            *thread = ThreadKey::new(place);
        }
    };
    for slice in &mut recording.slices {
        if let CpuOwner::Target(thread) = &mut slice.who {
            place(thread);
        }
    }
    recording.samples.iter_mut().for_each(|sample| place(&mut sample.thread));
    recording.requests.waits.iter_mut().for_each(|wait| place(&mut wait.thread));
    for wake in &mut recording.requests.wakes {
        place(&mut wake.thread);
        place(&mut wake.waker);
    }
    let launched = recording.gpu.launches.iter_mut().flat_map(|launches| &mut launches.work);
    launched.for_each(|work| place(&mut work.thread));
    recording.gpu.waits.iter_mut().for_each(|wait| place(&mut wait.thread));
    recording.gpu.busy.iter_mut().for_each(|busy| place(&mut busy.thread));
}
