//! Accuracy against a simulated truth, on a virtual clock that no busy machine can upset.
//!
//! A world of functions with known watts runs on a few CPUs. Its counter moves every millisecond (± 0.1 ms) in units of 61 µJ, as RAPL's
//! does; it is read every 20 ms (± 0.2 ms); a 99 Hz timer on each CPU samples the target. What attribution makes of these is compared with
//! the exact integral of each function's watts. Power is additive: shared uncore, turbo and heat are not simulated.

use energy_trace::attribution::attribute;
use energy_trace::clock::{KtimeNs, WallAnchor};
use energy_trace::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, StackId, ThreadKey, Tid};
use energy_trace::profile::energy_profile::EnergyProfile;
use energy_trace::profile::record::{
    CounterValue, Domain, DomainClass, Frame, FrameKind, Header, IdleBaseline, Occupant, Origin, Process,
    Quality, Reading, Sample, Scope, Slice, StackNode, Summary, Thread, Verdict,
};
use energy_trace::profile::recording::Recording;
use energy_trace::units::{MicroJoules, MicroWatts};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const BOOT: u64 = 5_000 * SECOND;
const IDLE_WATTS: f64 = 20.0;
/// Watts of the three functions, by number.
const FUNCTIONS: [f64; 3] = [5.0, 15.0, 40.0];

/// SplitMix64 (Steele, Lea, Flood: OOPSLA 2014): enough randomness for jitter, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from `0..below`.
    fn below(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }

    /// `mean` plus or minus up to `spread`.
    fn around(&mut self, mean: u64, spread: u64) -> u64 {
        mean - spread + self.below(2 * spread + 1)
    }
}

/// What one CPU did in a stretch of time: a function of the target's thread, or a stranger.
#[derive(Clone, Copy)]
struct Stretch {
    cpu: u32,
    from: u64,
    to: u64,
    /// `None` is a stranger.
    function: Option<usize>,
    thread: u32,
    watts: f64,
}

/// A world in time order of its stretches on each CPU. CPU and socket have the same number, except that CPU 2 is on socket 0.
struct World {
    stretches: Vec<Stretch>,
    length: u64,
    sockets: u32,
}

const fn socket_of(cpu: u32) -> u32 {
    cpu % 2
}

impl World {
    /// Exact joules of each function.
    fn truth(&self) -> [f64; 3] {
        let mut joules = [0.0; 3];
        for stretch in &self.stretches {
            if let Some(function) = stretch.function {
                joules[function] += stretch.watts * (stretch.to - stretch.from) as f64 / 1e9;
            }
        }
        joules
    }

    /// What a counter of this socket shows at each reading.
    fn readings(&self, socket: u32, random: &mut Random) -> Vec<Reading> {
        let mut changes: Vec<(u64, f64)> = vec![];
        for stretch in self.stretches.iter().filter(|s| socket_of(s.cpu) == socket) {
            changes.push((stretch.from, stretch.watts));
            changes.push((stretch.to, -stretch.watts));
        }
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut watts, mut joules, mut now, mut change) = (IDLE_WATTS, 0.0, 0_u64, 0);
        let mut readings = vec![];
        let (mut tick, mut due) = (0, 0);
        let mut shown = 0;
        while due <= self.length + 20 * MS {
            let read_at = due + random.below(200_000);
            while tick <= read_at {
                while changes.get(change).is_some_and(|c| c.0 <= tick) {
                    joules += watts * (changes[change].0 - now) as f64 / 1e9;
                    (now, watts) = (changes[change].0, watts + changes[change].1);
                    change += 1;
                }
                joules += watts * (tick - now) as f64 / 1e9;
                now = tick;
                shown = (joules * 1e6 / 61.0) as u64 * 61;
                tick += random.around(MS, MS / 10);
            }
            readings.push(Reading {
                at: KtimeNs::from_ns(BOOT + read_at),
                value: CounterValue::MicroJoules(shown),
            });
            due += 20 * MS;
        }
        readings
    }

    /// What a timer on each CPU sees of the target.
    fn samples(&self, hz: u64, random: &mut Random) -> Vec<Sample> {
        let mut samples = vec![];
        for cpu in 0..4 {
            let mut at = random.below(SECOND / hz);
            for stretch in self.stretches.iter().filter(|s| s.cpu == cpu) {
                while at < stretch.to {
                    if at >= stretch.from
                        && let Some(function) = stretch.function
                    {
                        samples.push(Sample {
                            at: KtimeNs::from_ns(BOOT + at),
                            cpu: CpuId::new(cpu),
                            thread: ThreadKey::new(stretch.thread),
                            stack: StackId::new(function as u32),
                            verdict: Verdict::Complete,
                        });
                    }
                    at += random.around(SECOND / hz, 100_000);
                }
            }
        }
        samples.sort_by_key(|sample| sample.at);
        samples
    }

    /// What `sched_switch` sees: a thread going from one function to the next is no switch.
    fn slices(&self) -> Vec<Slice> {
        let mut slices: Vec<Slice> = vec![];
        for stretch in &self.stretches {
            let who = stretch
                .function
                .map_or(Occupant::Other, |_| Occupant::Target(ThreadKey::new(stretch.thread)));
            let (start, end) = (KtimeNs::from_ns(BOOT + stretch.from), KtimeNs::from_ns(BOOT + stretch.to));
            let cpu = CpuId::new(stretch.cpu);
            match slices.iter_mut().rev().find(|s| s.cpu == cpu) {
                Some(before) if before.end == start && before.who == who => before.end = end,
                _ => slices.push(Slice { cpu, who, start, end }),
            }
        }
        slices
    }

    fn recording(&self, seed: u64, hz: u64) -> Recording {
        let mut random = Random(seed);
        let sockets = (0..4).map(|cpu| (CpuId::new(cpu), SocketId::new(socket_of(cpu)))).collect();
        let readings = (0..self.sockets).map(|s| (DomainId::new(s), self.readings(s, &mut random))).collect();
        let thread = |key| Thread {
            key: ThreadKey::new(key),
            process: ProcessKey::new(0),
            tid: Tid::new(42 + key),
            name: "phases".to_owned(),
        };
        let process = Process {
            key: ProcessKey::new(0),
            pid: Pid::new(42),
            parent: None,
            name: "phases".to_owned(),
            command: vec![],
            runtime: None,
        };
        Recording {
            header: header(sockets, hz),
            domains: (0..self.sockets).map(package).collect(),
            readings,
            processes: vec![process],
            threads: vec![thread(0), thread(1)],
            frames: (0..3).map(|f| frame(&format!("f{f}"))).collect(),
            stacks: (0..3).map(|f| StackNode { parent: None, frame: FrameId::new(f) }).collect(),
            slices: self.slices(),
            samples: self.samples(hz, &mut random),
            summary: Some(Summary {
                start: KtimeNs::from_ns(BOOT + MS),
                end: KtimeNs::from_ns(BOOT + self.length),
                ..Summary::default()
            }),
            warnings: vec![],
        }
    }
}

fn header(sockets: std::collections::BTreeMap<CpuId, SocketId>, hz: u64) -> Header {
    Header {
        version: "test".to_owned(),
        command: vec![],
        anchor: WallAnchor { ktime: KtimeNs::from_ns(BOOT), unix_ns: 0 },
        kernel: String::new(),
        cpu_model: String::new(),
        sockets,
        sample_hz: u32::try_from(hz).unwrap(),
        sample_event: "cpu-clock".to_owned(),
        system_wide: false,
        sources: vec![],
    }
}

fn package(socket: u32) -> Domain {
    Domain {
        id: DomainId::new(socket),
        name: format!("package-{socket}"),
        class: DomainClass::Package,
        scope: Scope::Socket(SocketId::new(socket)),
        origin: Origin::Counter {
            source: "powercap".to_owned(),
            place: String::new(),
            max_range: Some(MicroJoules::from_uj(262_143_328_788)),
            quality: Quality::Measured,
        },
        idle: Some(IdleBaseline {
            power: MicroWatts::from_watts(IDLE_WATTS).unwrap(),
            how: "--idle-watts".to_owned(),
        }),
    }
}

fn frame(name: &str) -> Frame {
    Frame {
        kind: FrameKind::Native,
        name: name.to_owned(),
        module: "phases".to_owned(),
        file: String::new(),
        line: 0,
        first_line: 0,
        address: 0,
    }
}

/// Joules charged to each function.
fn charged(profile: &EnergyProfile) -> [f64; 3] {
    let mut joules = [0.0; 3];
    for row in &profile.rows {
        if let Some(function) = row.stack.map(StackId::index) {
            joules[function] += row.energy[DomainClass::Package].as_joules();
        }
    }
    joules
}

/// Relative error of each function in percent, and of their sum.
fn errors(world: &World, seed: u64, hz: u64) -> ([f64; 3], f64) {
    let profile = attribute(&world.recording(seed, hz));
    for row in &profile.ledger {
        assert_eq!(row.imbalance(), MicroJoules::ZERO);
    }
    let (truth, charged) = (world.truth(), charged(&profile));
    let error = |is: f64, should: f64| 100.0 * (is - should) / should;
    let each = std::array::from_fn(|f| error(charged[f], truth[f]));
    let sum = error(charged.iter().sum(), truth.iter().sum());
    println!("seed {seed}: functions {each:+.2?} %, together {sum:+.2} %");
    (each, sum)
}

/// One thread that goes through the three functions in phases of 300 ms.
fn phases(length: u64) -> Vec<Stretch> {
    let phase = |i: u64| {
        let function = (i % 3) as usize;
        let (from, to) = (i * 300 * MS, ((i + 1) * 300 * MS).min(length));
        Stretch { cpu: 0, from, to, function: Some(function), thread: 0, watts: FUNCTIONS[function] }
    };
    (0..length.div_ceil(300 * MS)).map(phase).collect()
}

/// A stranger on a CPU for 40 % of the time, in bursts of 1 to 7 ms.
fn stranger(cpu: u32, length: u64, random: &mut Random) -> Vec<Stretch> {
    let mut stretches = vec![];
    let mut from = random.around(6 * MS, 4 * MS);
    while from < length {
        let to = (from + random.around(4 * MS, 3 * MS)).min(length);
        stretches.push(Stretch { cpu, from, to, function: None, thread: 0, watts: 12.0 });
        from = to + random.around(6 * MS, 4 * MS);
    }
    stretches
}

/// The same stretches with the thread moved between CPUs 0 and 1, which are on two sockets, every 50 ms or so.
fn migrating(stretches: Vec<Stretch>, random: &mut Random) -> Vec<Stretch> {
    let mut moved = vec![];
    let (mut cpu, mut next) = (0, 50 * MS);
    for mut stretch in stretches {
        while next < stretch.to {
            moved.push(Stretch { cpu, to: next, ..stretch });
            stretch.from = next;
            cpu = random.below(2) as u32;
            next += random.around(50 * MS, 30 * MS);
        }
        moved.push(Stretch { cpu, ..stretch });
    }
    moved
}

/// One thread, three functions of 5, 15 and 40 W in phases of 300 ms: each function within 1 %.
#[test]
fn phases_of_one_thread() {
    let world = World { stretches: phases(20 * SECOND), length: 20 * SECOND, sockets: 1 };
    for seed in 0..10 {
        let (each, sum) = errors(&world, seed, 99);
        assert!(each.iter().all(|e| e.abs() <= 1.0), "seed {seed}: {each:?}");
        assert!(sum.abs() <= 0.2, "seed {seed}: {sum}");
    }
}

/// The same beside a stranger who uses 40 % of a CPU of the socket and draws 12 W.
#[test]
fn a_stranger_on_the_socket() {
    for seed in 0..10 {
        let mut stretches = phases(20 * SECOND);
        stretches.extend(stranger(2, 20 * SECOND, &mut Random(seed)));
        let world = World { stretches, length: 20 * SECOND, sockets: 1 };
        let (each, sum) = errors(&world, seed, 99);
        assert!(each.iter().all(|e| e.abs() <= 1.0), "seed {seed}: {each:?}");
        assert!(sum.abs() <= 1.0, "seed {seed}: {sum}");
    }
}

/// The same on two sockets, the thread migrating between them every 50 ms or so, with the stranger on the second.
#[test]
fn two_sockets_and_migration() {
    for seed in 0..10 {
        let mut random = Random(seed);
        let mut stretches = migrating(phases(20 * SECOND), &mut random);
        stretches.extend(stranger(3, 20 * SECOND, &mut random));
        let world = World { stretches, length: 20 * SECOND, sockets: 2 };
        let (each, sum) = errors(&world, seed, 99);
        assert!(each.iter().all(|e| e.abs() <= 1.0), "seed {seed}: {each:?}");
        assert!(sum.abs() <= 1.0, "seed {seed}: {sum}");
    }
}
