//! B13: Python threads that ask a pool of workers for work. The truth is what each Python call had done for it, kernel by kernel.
//!
//! A worker's own stack shows no Python. What the recording has beside samples is when Python threads fell asleep and where, and who woke
//! whom, as `sched_switch` and `sched_waking` show it. Leaves out workers that spin on after a call (`tracer/attribution/src/attribute/tests/delegation`).

use super::engine::{BOOT, MS, Stretch, Who, World, dwell};
use super::scenarios::{MINUTE, WIDE, one};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, StackId, ThreadKey, Tid};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind, StackNode, Wait, Wake};
use energy_trace_tests::random::Random;

/// The Python functions that energy is asked for, by the name of their frame.
const CALLS: [&str; 3] = ["prepare", "fit", "predict"];
/// The innermost frames of all that runs. The first two are the callers' own; each kernel serves one call alone, which its name does not
/// tell, so that energy below the wrong call cannot be made up for by energy that is missing there.
const LEAVES: [&str; 6] = ["prepare", "run", "gemm", "relu", "pack", "scale"];
/// Kernels of each call, as functions of the world.
const KERNELS: [[usize; 2]; 3] = [[0, 0], [3, 4], [5, 6]];
const FIRST_KERNEL: usize = 2;
/// The stack of each function of the world: what runs. A frame is `p:name` (Python) or `n:library/name`.
const STACKS: [&str; 7] = [
    "n:c/_start p:main p:prepare",
    "n:c/_start p:main p:fit n:pool/run",
    "n:c/_start p:main p:predict n:pool/run",
    "n:c/clone n:pool/gemm",
    "n:c/clone n:pool/relu",
    "n:c/clone n:pool/pack",
    "n:c/clone n:pool/scale",
];
/// Their watts.
const WATTS: [f64; 7] = [9.0, 4.0, 4.0, 16.0, 6.0, 12.0, 2.0];
/// Where a call's thread sleeps.
const WAITS: [&str; 3] = ["p:main p:prepare", "p:main p:fit", "p:main p:predict"];

/// Who asks whom, and what each call truly cost.
#[derive(Debug, Default)]
pub struct Asks {
    /// When which thread falls asleep in which call.
    waits: Vec<(u64, u32, usize)>,
    /// When which thread wakes which.
    wakes: Vec<(u64, u32, u32)>,
    /// Nobody recorded who woke whom.
    wakes_lost: bool,
    /// Joules of each group (`group_of`).
    pub truth: Vec<f64>,
}

/// A world of askers and workers that grows; a thread has the CPU of its number.
#[derive(Default)]
struct Building {
    stretches: Vec<Stretch>,
    asks: Asks,
}

impl Building {
    fn new() -> Self {
        Self {
            asks: Asks { truth: vec![0.0; CALLS.len() * LEAVES.len()], ..Asks::default() },
            ..Self::default()
        }
    }

    /// A thread runs a function for a call; returns when it ends.
    fn runs(&mut self, thread: u32, function: usize, call: usize, from: u64, ns: u64) -> u64 {
        let to = (from + ns).min(MINUTE);
        if from < to {
            self.stretches.push(Stretch {
                cpu: thread,
                from,
                to,
                who: Who::Target { thread, function },
                watts: None,
            });
            // `run` is two functions, one below each call.
            let leaf = function.saturating_sub(usize::from(function > 1));
            self.asks.truth[call * LEAVES.len() + leaf] += WATTS[function] * (to - from) as f64 / 1e9;
        }
        to
    }

    /// A worker runs kernels one after another.
    fn works(&mut self, worker: u32, call: usize, from: u64, random: &mut Random) -> u64 {
        let end = from + dwell(random, 15.0 * MS as f64);
        let mut at = from;
        while at < end.min(MINUTE) {
            let kernel = KERNELS[call][random.below(2) as usize];
            at = self.runs(worker, kernel, call, at, dwell(random, 5.0 * MS as f64).min(end - at));
        }
        at
    }

    /// A thread prepares, then calls: it hands work to these workers and sleeps until they are done. Each worker is woken by the caller, or
    /// where `chained` by the worker before it. Returns when the call ends.
    fn calls(
        &mut self,
        caller: u32,
        call: usize,
        workers: &[u32],
        chained: bool,
        from: u64,
        random: &mut Random,
    ) -> u64 {
        let in_run = self.runs(caller, 0, 0, from, dwell(random, 10.0 * MS as f64));
        let (mut begin, mut waker, mut last) = (in_run, caller, (0, caller));
        let asleep = self.runs(caller, call, call, in_run, MS + dwell(random, MS as f64));
        for &worker in workers {
            begin += 50_000 + random.below(100_000);
            if begin >= MINUTE {
                break;
            }
            self.asks.wakes.push((begin - 5_000, waker, worker));
            let end = self.works(worker, call, begin, random);
            last = last.max((end, worker));
            waker = if chained { worker } else { caller };
        }
        self.asks.waits.push((asleep, caller, call));
        let end = last.0.max(asleep) + 20_000;
        self.asks.wakes.push((end - 10_000, last.1, caller));
        end
    }

    fn world(mut self) -> World {
        self.asks.waits.sort_unstable();
        self.asks.wakes.sort_unstable();
        World { asks: Some(self.asks), watts: WATTS.to_vec(), ..one(self.stretches, WIDE) }
    }
}

/// One Python thread asks four workers, now for the one call, now for the other.
pub fn one_caller(random: &mut Random) -> World {
    let (mut building, mut at) = (Building::new(), 0);
    while at < MINUTE {
        let call = 1 + random.below(2) as usize;
        at = building.calls(0, call, &[1, 2, 3, 4], false, at, random);
    }
    building.world()
}

/// As `two_callers`, and wake-ups are not recorded: which of the two asked is open wherever both wait.
pub fn unheard_callers(random: &mut Random) -> World {
    let mut world = two_callers(random);
    world.asks.iter_mut().for_each(|asks| asks.wakes_lost = true);
    world
}

/// Two Python threads, each with a call of its own, ask the same pool of four for two workers at a time; the first worker wakes the second.
pub fn two_callers(random: &mut Random) -> World {
    let (mut building, mut at, mut taken) = (Building::new(), [0, 0], [[2, 3], [4, 5]]);
    while let Some(caller) = (0..2).min_by_key(|caller| at[*caller]).filter(|caller| at[*caller] < MINUTE) {
        // Those that the other one has not taken.
        let mut free: Vec<u32> = (2..6).filter(|worker| !taken[1 - caller].contains(worker)).collect();
        let first = free.swap_remove(random.below(free.len() as u64) as usize);
        taken[caller] = [first, free[0]];
        at[caller] = building.calls(caller as u32, 1 + caller, &taken[caller], true, at[caller], random);
    }
    building.world()
}

impl Asks {
    /// Gives the recording its stacks, and what was seen of sleeping and waking.
    pub fn observe(&self, recording: &mut Recording) {
        (recording.frames, recording.stacks) = (vec![], vec![]);
        let leaves = STACKS.map(|stack| stack_of(recording, stack));
        let waits = WAITS.map(|stack| stack_of(recording, stack));
        for sample in &mut recording.samples {
            sample.stack = leaves[sample.stack.index()];
        }
        // The first thread is its process's main one.
        recording.threads[0].tid = Tid::new(recording.processes[0].pid.get());
        let at = |ns: u64| KtimeNs::from_ns(BOOT + ns);
        let wait = |&(ns, thread, call): &(u64, u32, usize)| Wait {
            at: at(ns),
            thread: ThreadKey::new(thread),
            stack: waits[call],
        };
        let wake = |&(ns, waker, thread): &(u64, u32, u32)| Wake {
            at: at(ns),
            thread: ThreadKey::new(thread),
            waker: ThreadKey::new(waker),
        };
        recording.requests.waits = self.waits.iter().map(wait).collect();
        if !self.wakes_lost {
            recording.requests.wakes = self.wakes.iter().map(wake).collect();
        }
    }
}

/// What a stack counts for: its call and its innermost frame; `None` where no call stands in it.
pub fn group_of(profile: &Profile, stack: StackId) -> Option<usize> {
    Some(call_of(profile, stack)? * LEAVES.len() + leaf_of(profile, stack)?)
}

/// Whether a stack is a worker's, and if so, whether it stands below the call that its kernel serves.
pub fn is_right(profile: &Profile, stack: StackId) -> Option<bool> {
    let leaf = leaf_of(profile, stack).filter(|leaf| *leaf >= FIRST_KERNEL)?;
    let of = |call: usize| KERNELS[call].map(|function| function - 1).contains(&leaf);
    Some(call_of(profile, stack).is_some_and(|call| call > 0 && of(call)))
}

fn call_of(profile: &Profile, stack: StackId) -> Option<usize> {
    let call = |frame: &Frame| CALLS.iter().position(|call| *call == frame.name);
    profile.frames_of(stack).find_map(|(_, frame)| call(frame))
}

fn leaf_of(profile: &Profile, stack: StackId) -> Option<usize> {
    let innermost = profile.frames_of(stack).next_back()?.1;
    LEAVES.iter().position(|leaf| *leaf == innermost.name)
}

fn stack_of(recording: &mut Recording, text: &str) -> StackId {
    let mut parent = None;
    for word in text.split(' ') {
        let (kind, name) = word.split_once(':').unwrap_or(("n", word));
        let (module, name) = name.split_once('/').unwrap_or(("", name));
        let frame = Frame {
            kind: if kind == "p" { FrameKind::Python } else { FrameKind::Native },
            name: name.to_owned(),
            module: module.to_owned(),
            file: String::new(),
            line: 0,
            first_line: 0,
            address: 0,
        };
        let frame = FrameId::new(place(&mut recording.frames, frame));
        parent = Some(StackId::new(place(&mut recording.stacks, StackNode { parent, frame })));
    }
    parent.unwrap_or(StackId::new(0))
}

/// The place of an item in a list that has each once.
fn place<T: PartialEq>(list: &mut Vec<T>, item: T) -> u32 {
    let known = list.iter().position(|one| *one == item);
    known.unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    }) as u32
}
