//! Who is on which CPU when: programs that run, sleep and meet, on CPUs with a queue each, to the nanosecond.
//!
//! A thread that wakes takes its last CPU if that is free, else another free one that it may use, else it queues; queued threads take turns
//! of about 3 ms. A CPU may be taken away altogether (steal): its thread then stands still and does not know. Leaves out power (`power.rs`).

use super::draw::even;
use super::stacks::Path;
use super::{MS, Span};
use energy_trace_tests::random::Random;
use std::collections::VecDeque;
use std::ops::Range;

/// How long a thread runs before the next in the queue does, in nanoseconds.
const TURN: f64 = 3e6;

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A thread of the program, by its number.
    Thread(u32),
    /// Another process, by its number.
    Stranger(u32),
}

/// What bounds the speed of some code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    #[default]
    Compute,
    /// Each of several busy CPUs draws less.
    Memory,
}

/// One path of functions at one power.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub path: Path,
    /// Time on a CPU that it needs.
    pub ns: u64,
    pub watts: f64,
    pub bound: Bound,
}

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Run(Run),
    Sleep(u64),
    /// Waits until all of its team do: running this path at these watts, or asleep.
    Meet(Option<(Path, f64)>),
}

/// What a thread does, step by step; it is told the time.
pub type Program = Box<dyn FnMut(u64) -> Step>;

/// A thread, or another process.
pub struct Task {
    pub who: Who,
    pub cpus: Range<u32>,
    /// The team that it meets.
    pub team: u32,
    pub program: Program,
}

/// What one CPU did from one moment to another.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub cpu: u32,
    pub from: u64,
    pub to: u64,
    pub who: Who,
    pub path: Path,
    pub watts: f64,
    pub bound: Bound,
    /// The CPU was taken away: nothing ran, though the kernel does not know.
    pub stolen: bool,
}

/// When a CPU is taken away.
#[derive(Clone, Copy, Debug)]
pub struct Steal {
    pub cpu: u32,
    pub span: Span,
}

#[derive(Clone, Copy)]
enum State {
    Runnable(Run),
    Asleep(u64),
    Meeting,
}

struct Thread {
    task: Task,
    state: State,
    cpu: u32,
}

#[derive(Default)]
struct Cpu {
    running: Option<usize>,
    turn_ends: u64,
    queue: VecDeque<usize>,
    /// Later ones first.
    steals: Vec<Span>,
    pieces: Vec<Piece>,
}

impl Cpu {
    fn stolen(&self, now: u64) -> Option<u64> {
        self.steals.last().filter(|span| span.start <= now).map(|span| span.end)
    }
}

struct Machine {
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    now: u64,
    random: Random,
}

/// What all CPUs did until `end`, ordered by CPU and time. Everybody begins at `begin`.
pub fn schedule(
    tasks: Vec<Task>,
    cpus: u32,
    steals: &[Steal],
    begin: u64,
    end: u64,
    seed: u64,
) -> Vec<Piece> {
    let thread = |task: Task| Thread { cpu: task.cpus.start, task, state: State::Asleep(begin) };
    let mut machine = Machine {
        threads: tasks.into_iter().map(thread).collect(),
        cpus: (0..cpus).map(|_| Cpu::default()).collect(),
        now: 0,
        random: Random(seed ^ 0x5c4e_d01e),
    };
    for steal in steals.iter().rev() {
        machine.cpus[steal.cpu as usize].steals.push(steal.span);
    }
    while machine.now < end {
        let next = machine.next_event().min(end);
        machine.advance(next);
        machine.react();
    }
    machine.cpus.into_iter().flat_map(|cpu| cpu.pieces).collect()
}

impl Machine {
    fn next_event(&self) -> u64 {
        let wakes = self.threads.iter().filter_map(|thread| match thread.state {
            State::Asleep(until) => Some(until),
            _ => None,
        });
        let on_cpus = self.cpus.iter().map(|cpu| {
            let pause = cpu.steals.last().map_or(u64::MAX, |span| span.start);
            if let Some(until) = cpu.stolen(self.now) {
                return until;
            }
            let turn = if cpu.queue.is_empty() { u64::MAX } else { cpu.turn_ends };
            let left = cpu.running.map_or(u64::MAX, |running| match self.threads[running].state {
                State::Runnable(run) => self.now.saturating_add(run.ns),
                _ => u64::MAX,
            });
            left.min(turn).min(pause)
        });
        wakes.chain(on_cpus).min().unwrap_or(u64::MAX).max(self.now + 1)
    }

    /// Lets time pass.
    fn advance(&mut self, to: u64) {
        for (number, cpu) in (0..).zip(&mut self.cpus) {
            let stolen = cpu.stolen(self.now).is_some();
            let thread = cpu.running.map(|running| &mut self.threads[running]);
            if let Some(Thread { task, state: State::Runnable(run), .. }) = thread {
                let piece = Piece {
                    cpu: number,
                    from: self.now,
                    to,
                    who: task.who,
                    path: run.path,
                    watts: run.watts,
                    bound: run.bound,
                    stolen,
                };
                match cpu.pieces.last_mut() {
                    Some(last) if last.continues(&piece) => last.to = to,
                    _ => cpu.pieces.push(piece),
                }
                if !stolen {
                    run.ns -= (to - self.now).min(run.ns);
                }
            }
            if cpu.stolen(self.now).is_some_and(|until| until <= to) {
                cpu.steals.pop();
            }
        }
        self.now = to;
    }

    /// Ends steps, wakes sleepers, gives CPUs to those who wait.
    fn react(&mut self) {
        for thread in 0..self.threads.len() {
            match self.threads[thread].state {
                State::Runnable(run) if run.ns == 0 => self.step(thread),
                State::Asleep(until) if until <= self.now => {
                    self.step(thread);
                    self.enqueue(thread);
                }
                _ => {}
            }
        }
        for number in 0..self.cpus.len() {
            self.dispatch(number);
        }
    }

    /// The next step of a thread; those that met go on.
    fn step(&mut self, number: usize) {
        let now = self.now;
        let thread = &mut self.threads[number];
        let team = thread.task.team;
        thread.state = match (thread.task.program)(now) {
            Step::Run(run) => State::Runnable(Run { ns: run.ns.max(1), ..run }),
            Step::Sleep(ns) => State::Asleep(now + ns.max(1)),
            Step::Meet(Some((path, watts))) => {
                State::Runnable(Run { path, ns: u64::MAX, watts, bound: Bound::Compute })
            }
            Step::Meet(None) => State::Meeting,
        };
        let waits = |thread: &Thread| match thread.state {
            State::Meeting => true,
            State::Runnable(run) => run.ns > u64::MAX / 2,
            State::Asleep(_) => false,
        };
        let of_team = |thread: &Thread| thread.task.team == team;
        if waits(&self.threads[number]) && self.threads.iter().filter(|t| of_team(t)).all(waits) {
            for thread in self.threads.iter_mut().filter(|thread| of_team(thread)) {
                // Asleep until now: the next reaction takes the next step.
                thread.state = match thread.state {
                    State::Runnable(run) => State::Runnable(Run { ns: 1, ..run }),
                    _ => State::Asleep(now + 1),
                };
            }
        }
    }

    fn enqueue(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        if !matches!(thread.state, State::Runnable(_)) {
            return;
        }
        let load = |cpu: u32| {
            let cpu = &self.cpus[cpu as usize];
            cpu.queue.len() + usize::from(cpu.running.is_some())
        };
        let choices = std::iter::once(thread.cpu).chain(thread.task.cpus.clone());
        thread.cpu = choices.min_by_key(|cpu| load(*cpu)).unwrap_or(0);
        self.cpus[thread.cpu as usize].queue.push_back(number);
    }

    fn dispatch(&mut self, number: usize) {
        let cpu = &mut self.cpus[number];
        if cpu.stolen(self.now).is_some() {
            return;
        }
        if let Some(running) = cpu.running {
            let runs = matches!(self.threads[running].state, State::Runnable(_));
            if runs && (cpu.queue.is_empty() || self.now < cpu.turn_ends) {
                return;
            }
            if runs {
                cpu.queue.push_back(running);
            }
        }
        cpu.running = cpu.queue.pop_front();
        cpu.turn_ends = self.now + even(&mut self.random, 0.8 * TURN, 1.2 * TURN) as u64;
    }
}

impl Piece {
    fn continues(&self, next: &Self) -> bool {
        (self.to, self.who, self.path, self.bound, self.stolen)
            == (next.from, next.who, next.path, next.bound, next.stolen)
            && self.watts.to_bits() == next.watts.to_bits()
    }
}

/// Pauses of CPUs: each takes all of these CPUs at once, lasts `ns` and comes once in `every` nanoseconds.
pub fn pauses(random: &mut Random, cpus: Range<u32>, ns: Range<u64>, every: f64, end: u64) -> Vec<Steal> {
    let (mut at, mut steals) = (100 * MS, vec![]);
    loop {
        at += even(random, 0.3 * every, 1.7 * every) as u64;
        let until = at + ns.start + random.below(ns.end - ns.start);
        if until >= end {
            return steals;
        }
        steals.extend(cpus.clone().map(|cpu| Steal { cpu, span: Span { start: at, end: until } }));
        at = until;
    }
}
