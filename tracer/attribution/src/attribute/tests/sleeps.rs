//! Functions that always run next to a sleep have their time and their energy, however short they are.

use super::small::{SOCKET, add_counter, add_stack, add_threads, assert_adds_up, by_time, empty};
use crate::attribute_over_time;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CpuOwner, DomainClass, FrameKind, Sample, Slice, StackStatus};

/// A loop of 8 ms, 1 ms and 4 ms of sleep, in microseconds.
const PARTS: [u64; 2] = [8_000, 1_000];
const BUSY: u64 = 9_000;
const TURN: u64 = 13_000;
const LENGTH_MS: u64 = 300_000;

fn us(n: u64) -> KtimeNs {
    KtimeNs::from_ns(n * 1_000)
}

/// The loop, on a CPU that is looked at each 1 to 3 ms at random, whoever runs; 10 W while it runs.
fn run() -> Recording {
    let mut run = empty(0, LENGTH_MS);
    let busy = |at: u64| at / TURN * BUSY + (at % TURN).min(BUSY);
    add_counter(&mut run, SOCKET, Some(0), 10, |at| 10 * busy(at * 1_000));
    add_threads(&mut run, 1);
    add_stack(&mut run, &[(FrameKind::Native, "answer")]);
    let (cpu, thread) = (CpuId::new(0), ThreadKey::new(0));
    for start in (0..LENGTH_MS * 1_000 - TURN).step_by(TURN as usize) {
        run.slices.push(Slice {
            cpu,
            who: CpuOwner::Target(thread),
            start: us(start),
            end: us(start + BUSY),
        });
    }
    let (mut at, mut state) = (500, 1_u64);
    while at < LENGTH_MS * 1_000 - TURN {
        let stack = StackId::new(u32::from(at % TURN >= PARTS[0]));
        if at % TURN < BUSY {
            run.samples.push(Sample { at: us(at), cpu, thread, stack, status: StackStatus::Complete });
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        at += 1_000 + (state >> 33) % 2_001;
    }
    run
}

/// Of both functions time and energy are within 2 %, where moments of the nearest sample alone would leave the short
/// one a tenth too little; in sum they are the thread's, and over time they add up.
#[test]
fn short_functions_before_sleeps() {
    let (profile, over) = attribute_over_time(&run(), &by_time());
    assert_adds_up(&profile, &over);
    let ran = (LENGTH_MS * 1_000 / TURN * BUSY * 1_000) as f64;
    assert_eq!(profile.rows.iter().map(|row| row.time_ns).sum::<u64>(), ran as u64);
    for (row, part) in profile.rows.iter().zip(PARTS) {
        let due = ran * part as f64 / BUSY as f64;
        let time = row.time_ns as f64 / due;
        let energy = row.energy[DomainClass::Package].as_uj() as f64 / (due / 100.0);
        assert!((time - 1.0).abs() < 0.02 && (energy - 1.0).abs() < 0.02, "{part} us: {time} {energy}");
    }
}
