//! Accuracy against a simulated truth, on a virtual clock that no busy machine can upset.
//!
//! A world of functions with known watts runs on a few CPUs. Its counter moves every millisecond (± 0.1 ms) in units of 61 µJ, as RAPL's
//! does; it is read every 20 ms (± 0.2 ms); a timer on each CPU samples the target,
//! by default at 499 Hz. What attribution makes of these is compared with
//! the exact integral of each function's watts. Power is additive: shared uncore, turbo and heat are not simulated.

use super::world::{FUNCTIONS, recording, stretch, truth, world};
use energy_trace_attribution::attribute;
use energy_trace_scenarios::cpu::engine::{MS, SECOND, Stretch, World};

use energy_trace_certainty::HowSure as _;
use energy_trace_model::ids::{DomainId, FrameId, StackId};
use energy_trace_model::profile::Options;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{DomainClass, StackNode};
use energy_trace_model::units::MicroJoules;
use energy_trace_tests::breadth::seeds;
use energy_trace_tests::random::Random;

/// Joules charged to each function.
fn charged(profile: &Profile) -> [f64; 3] {
    let mut joules = [0.0; 3];
    for row in &profile.rows {
        if let Some(function) = row.stack.map(StackId::index) {
            joules[function] += row.energy[DomainClass::Package].as_joules();
        }
    }
    joules
}

/// Relative error of each function in percent, and of their sum.
fn errors(world: &World, seed: u64) -> ([f64; 3], f64) {
    let profile = attribute(&recording(world, seed), &Options::default());
    for row in &profile.ledger {
        assert_eq!(row.imbalance(), MicroJoules::ZERO);
    }
    let rows: MicroJoules = profile.rows.iter().map(|row| row.energy[DomainClass::Package]).sum();
    assert_eq!(rows, profile.ledger.iter().map(|row| row.target).sum());
    let (truth, charged) = (truth(world), charged(&profile));
    let error = |is: f64, should: f64| 100.0 * (is - should) / should;
    let each = std::array::from_fn(|f| error(charged[f], truth[f]));
    let sum = error(charged.iter().sum(), truth.iter().sum());
    println!("seed {seed}: functions {each:+.2?} %, together {sum:+.2} %");
    (each, sum)
}

/// One thread that goes through the three functions in phases of 300 ms, the first one cut short so that borders and readings do not meet.
fn phases(length: u64, random: &mut Random) -> Vec<Stretch> {
    let cut = random.below(300 * MS);
    let phase = |i: u64| {
        let function = (i % 3) as usize;
        let from = (i * 300 * MS).saturating_sub(cut);
        let to = ((i + 1) * 300 * MS - cut).min(length);
        stretch(0, from, to, 0, Some(function), FUNCTIONS[function])
    };
    (0..(length + cut).div_ceil(300 * MS)).map(phase).collect()
}

/// A stranger on a CPU for 40 % of the time, in bursts of 1 to 7 ms.
fn stranger(cpu: u32, length: u64, random: &mut Random) -> Vec<Stretch> {
    let mut stretches = vec![];
    let mut from = random.around(6 * MS, 4 * MS);
    while from < length {
        let to = (from + random.around(4 * MS, 3 * MS)).min(length);
        stretches.push(stretch(cpu, from, to, 0, None, 12.0));
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

/// One thread, three functions of 5, 15 and 40 W in phases of 300 ms for 20 s: each function within 2.5 %. (A split by CPU time alone charges
/// the 5 W function with 4 to 17 % too much.)
#[test]
fn phases_of_one_thread() {
    for seed in 0..20 {
        let stretches = phases(20 * SECOND, &mut Random(seed));
        let world = world(stretches, 20 * SECOND, 1, 99);
        let (each, sum) = errors(&world, seed);
        assert!(each.iter().all(|e| e.abs() <= 2.5), "seed {seed}: {each:?}");
        assert!(sum.abs() <= 0.2, "seed {seed}: {sum}");
    }
}

/// A minute beside a stranger who uses 40 % of a CPU of the socket and draws 12 W: the target within 2 %, the 5 W function within 6 %, the
/// others within 2.5 %. (By CPU time alone: −11 %, +50 %, −21 %. That the thread never pauses is the hard part: only the stranger's
/// bursts tell their watts from the thread's.)
#[test]
fn a_stranger_on_the_socket() {
    for seed in seeds(0, 4, 20) {
        let mut random = Random(seed);
        let mut stretches = phases(60 * SECOND, &mut random);
        stretches.extend(stranger(2, 60 * SECOND, &mut random));
        let world = world(stretches, 60 * SECOND, 1, 499);
        let (each, sum) = errors(&world, seed);
        let within = [6.0, 2.5, 1.0];
        assert!(each.iter().zip(within).all(|(e, most)| e.abs() <= most), "seed {seed}: {each:?}");
        assert!(sum.abs() <= 2.0, "seed {seed}: {sum}");
    }
}

/// A minute on two sockets, the thread migrating between them every 50 ms or so, with the stranger on the second: the target within
/// 0.5 %, each function within 2.5 %. (By CPU time alone: −7 %, up to +34 %, −13 %.)
#[test]
fn two_sockets_and_migration() {
    for seed in seeds(0, 4, 20) {
        let mut random = Random(seed);
        let mut stretches = migrating(phases(60 * SECOND, &mut random), &mut random);
        stretches.extend(stranger(3, 60 * SECOND, &mut random));
        let world = world(stretches, 60 * SECOND, 2, 499);
        let (each, sum) = errors(&world, seed);
        assert!(each.iter().all(|e| e.abs() <= 2.5), "seed {seed}: {each:?}");
        assert!(sum.abs() <= 0.5, "seed {seed}: {sum}");
    }
}

/// Threads on CPUs 0 and 2, which share a socket, each going through functions drawn by `draw` for `mean` ± `spread` nanoseconds at a time.
fn side_by_side(mean: u64, spread: u64, length: u64, random: &mut Random) -> Vec<Stretch> {
    let mut stretches = vec![];
    for (thread, cpu) in [(0, 0), (1, 2)] {
        let mut from = 0;
        while from < length {
            let to = (from + random.around(mean, spread)).min(length);
            let function = random.below(3) as usize;
            stretches.push(stretch(cpu, from, to, thread, Some(function), FUNCTIONS[function]));
            from = to;
        }
    }
    stretches
}

/// Two threads at once on one socket, functions of about 20 ms, for a minute: the 5 W function within 8 %, the others within 4 %. (By CPU
/// time alone the 5 W function gets twice its due; what is left comes from borders that samples misplace.)
#[test]
fn threads_side_by_side() {
    for seed in seeds(0, 3, 10) {
        let stretches = side_by_side(20 * MS, 10 * MS, 60 * SECOND, &mut Random(seed));
        let world = world(stretches, 60 * SECOND, 1, 499);
        let (each, sum) = errors(&world, seed);
        let within = [8.0, 4.0, 4.0];
        assert!(each.iter().zip(within).all(|(e, most)| e.abs() <= most), "seed {seed}: {each:?}");
        assert!(sum.abs() <= 0.1, "seed {seed}: {sum}");
    }
}

/// Functions of half a millisecond, which 99 Hz cannot tell apart: all together no worse than giving each the mean power of 20 W, and in
/// every run each is flagged, with bounds that hold the truth.
#[test]
fn too_fast_to_see() {
    let by_mean = FUNCTIONS.map(|watts| 100.0 * (20.0 - watts) / watts);
    let mut told = 0;
    for seed in 0..10 {
        let stretches = side_by_side(MS / 2, MS / 4, 10 * SECOND, &mut Random(seed));
        let world = world(stretches, 10 * SECOND, 1, 99);
        let (each, _) = errors(&world, seed);
        let together =
            |errors: &[f64]| errors.iter().zip(FUNCTIONS).map(|(e, watts)| e.abs() * watts).sum::<f64>();
        assert!(together(&each) <= 1.1 * together(&by_mean), "seed {seed}: {each:?}");
        told += usize::from(is_flagged(&world, seed));
    }
    assert_eq!(told, 10, "told in {told} of 10 runs");
}

/// Whether each function has bounds, with the truth in them.
fn is_flagged(world: &World, seed: u64) -> bool {
    let profile = attribute(&recording(world, seed), &Options::default());
    truth(world).into_iter().enumerate().all(|(function, truth)| {
        let of = |row: &usize| profile.rows[*row].stack.map(StackId::index) == Some(function);
        let rows: Vec<usize> = (0..profile.rows.len()).filter(of).collect();
        let energy = rows.iter().map(|&row| profile.rows[row].energy[DomainClass::Package]).sum();
        let bounds = profile.certainty.of(&rows, |_| true, energy).bounds;
        bounds.is_some_and(|(low, high)| low.as_joules() <= truth && truth <= high.as_joules())
    })
}

/// How long attribution takes on ten minutes of a busy machine: 600,000 slices, 120,000 samples, 30,000 readings a domain.
#[test]
#[ignore = "a measurement: cargo test --release --test offline ten_minutes -- --ignored --nocapture"]
fn ten_minutes() {
    let length = 600 * SECOND;
    let mut random = Random(1);
    let mut stretches = vec![];
    for cpu in 0..4_u32 {
        let mut from = 0;
        while from < length {
            let to = from + random.around(3_900_000, 3_000_000);
            let function = (random.below(4) > 0).then(|| random.below(3) as usize);
            let watts = function.map_or(12.0, |f| FUNCTIONS[f]);
            stretches.push(stretch(cpu, from, to, cpu % 2, function, watts));
            from = to + random.below(200_000);
        }
    }
    let mut recording = recording(&world(stretches, length, 2, 99), 1);
    // Half of the samples get a stack of their own, as real ones do.
    for i in 0..60_000 {
        recording.stacks.push(StackNode { parent: Some(StackId::new(i % 3)), frame: FrameId::new(i % 3) });
    }
    for (i, sample) in recording.samples.iter_mut().enumerate().filter(|(i, _)| i % 2 == 0) {
        sample.stack = StackId::new(3 + (i as u32 / 2) % 60_000);
    }
    let began = std::time::Instant::now();
    let profile = attribute(&recording, &Options::default());
    let counts =
        (recording.slices.len(), recording.samples.len(), recording.readings[&DomainId::new(0)].len());
    println!("slices, samples, readings {counts:?}; rows {}; {:?}", profile.rows.len(), began.elapsed());
    assert!(profile.ledger.iter().all(|row| row.imbalance() == MicroJoules::ZERO));
}
