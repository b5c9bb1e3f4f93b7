//! A GPU's energy by what was launched on it, of runs of ten seconds whose kernels take known energies.

use super::small::{MS, add_counter, add_stack, add_threads, by_time, empty, ms, near};
use crate::{CarriedPowers, attribute, attribute_by_process};
use energy_trace_model::ids::{StackId, ThreadKey};
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, GpuSplit, SplitBy};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    DomainClass, FrameKind, GpuBusy, GpuWait, Launched, Launches, Scope,
};

const GPU: (DomainClass, Scope) = (DomainClass::Gpu, Scope::Gpu(0));
/// Steps of the counter, a tenth of a second each.
const STEPS: u64 = 100;

/// A thread that launches `gemm` and one that launches `copy`, on a GPU whose counter shows `uj` in each
/// step; idle are 20 W.
fn run(uj: impl Fn(u64) -> u64) -> Recording {
    let mut run = empty(0, STEPS * 100);
    let energies: Vec<u64> = (0..STEPS)
        .scan(0, |sum, step| {
            *sum += uj(step) + 2_000_000;
            Some(*sum)
        })
        .collect();
    let at = |ms: u64| if ms == 0 { 0 } else { energies[ms as usize / 100 - 1] };
    add_counter(&mut run, GPU, Some(20_000_000), 100, at);
    add_threads(&mut run, 2);
    add_stack(&mut run, &[(FrameKind::Native, "main"), (FrameKind::Gpu, "gemm")]);
    add_stack(&mut run, &[(FrameKind::Native, "main"), (FrameKind::Gpu, "copy")]);
    run
}

/// The stack of a thread's kernel: two stacks of one function, then two of two.
fn kernel(thread: u32) -> (ThreadKey, StackId) {
    (ThreadKey::new(thread), StackId::new(3 + 2 * thread))
}

fn launches(at: u64, counts: [u64; 2]) -> Launches {
    let of = |thread: u32| {
        let (thread_key, stack) = kernel(thread);
        Launched { thread: thread_key, stack, count: counts[thread as usize], amount: 0 }
    };
    let work = [0, 1].map(of).into_iter().filter(|work| work.count > 0).collect();
    Launches { device: 0, from: ms(at), until: ms(at + 10), work }
}

/// Millijoules of both kernels, of others, idle and left over.
fn millijoules(profile: &Profile) -> Vec<i64> {
    let of = |thread: u32| {
        let rows = profile.rows.iter().filter(|row| row.stack == Some(kernel(thread).1));
        rows.map(|row| row.energy[DomainClass::Gpu]).sum()
    };
    let row = &profile.ledger[0];
    [of(0), of(1), row.other, row.idle, row.residual].map(|energy| energy.as_uj() / 1_000).to_vec()
}

fn split(profile: &Profile) -> GpuSplit {
    let of = |found: &Diagnostic| match found {
        Diagnostic::Domain { what: DomainDiagnostic::GpuSplit(split), .. } => Some(*split),
        _ => None,
    };
    profile.diagnostics.iter().find_map(of).unwrap()
}

/// So many launches of each kernel in a step.
const fn counts(step: u64) -> [u64; 2] {
    [step * 7 % 5, step * 5 % 7]
}

/// 2 J a launch of the one and 0.5 J of the other are found from what steps hold, and how late the meter is:
/// launches run for a tenth of a second each, three tenths of it in the step behind.
#[test]
fn launches_of_two_kernels() {
    for late in [0, 2] {
        let end = STEPS - late - 1;
        let joules = |step: Option<u64>| {
            let [gemm, copy] = step.filter(|step| *step < end).map_or([0, 0], counts);
            2_000_000 * gemm + 500_000 * copy
        };
        let energy = |step: u64| {
            let here = step.checked_sub(late);
            let before = here.and_then(|here| here.checked_sub(1));
            (7 * joules(here) + 3 * joules(before)) / 10
        };
        let mut run = run(energy);
        let batch = |step: u64| {
            let launched = launches(100 * step + 30, counts(step));
            Launches { until: ms(100 * step + 130), ..launched }
        };
        run.gpu.launches = (0..end).map(batch).collect();
        let profile = attribute(&run, &by_time());
        let windows = attribute_by_process(run, &by_time(), &mut CarriedPowers::default());
        assert!(windows[0].by_power && windows[0].row == profile.ledger[0]);
        let sum = |kernel: usize| (0..end).map(|step| counts(step)[kernel].cast_signed()).sum::<i64>();
        near(&millijoules(&profile), &[2_000 * sum(0), 500 * sum(1), 0, 200_000, 0], 300);
        let found = split(&profile);
        assert_eq!((found.by, found.kinds, found.alone, found.misfit), (SplitBy::Launches, 2, true, None));
        let learned = found.learned.unwrap();
        assert!((learned.late_s - 0.1 * late as f64).abs() < 2e-3 && learned.duty == 1.0, "{learned:?}");
    }
}

/// While the program has the GPU open it draws 30 W more, which steps without launches show: idle as well,
/// from the first launch to the last. Somebody else's 250 W afterwards are others'.
#[test]
fn open_and_used_by_others() {
    let is_open = |step: &u64| (10..81).contains(step);
    let of = |step: u64| if is_open(&step) && (step / 3).is_multiple_of(2) { counts(step) } else { [0, 0] };
    let energy = |step: u64| {
        let [gemm, copy] = of(step);
        let open = if is_open(&step) { 3_000_000 } else { 0 };
        let others = if step >= 90 { 25_000_000 } else { 0 };
        2_000_000 * gemm + 500_000 * copy + open + others
    };
    let mut run = run(energy);
    let batch = |step: u64| Launches { until: ms(100 * step + 100), ..launches(100 * step, of(step)) };
    run.gpu.launches = (0..STEPS).map(batch).filter(|batch| !batch.work.is_empty()).collect();
    let (first, last) = (run.gpu.launches[0].from, run.gpu.launches.last().unwrap().until);
    let profile = attribute(&run, &by_time());
    let sum = |kernel: usize| (0..STEPS).map(|step| of(step)[kernel].cast_signed()).sum::<i64>();
    let open = (30 * last.ns_since(first) / MS).cast_signed();
    near(&millijoules(&profile), &[2_000 * sum(0), 500 * sum(1), 250_000, 200_000 + open, 0], 10_000);
}

/// Rounds of launches that a thread waits for: one kernel takes 4 ms at 100 W, the other 12 ms at 200 W. The
/// waits show durations, and the counter powers.
#[test]
fn waits_show_durations() {
    let round = |number: u64| [1 + number / 8 * 7 % 5, number / 8 * 5 % 4];
    let mut starts = vec![0_u64];
    for number in 0_u64.. {
        let [gemm, copy] = round(number);
        let end = starts[number as usize] + 4 * gemm + 12 * copy;
        if end > STEPS * 100 {
            break;
        }
        starts.push(end);
    }
    let rounds = starts.len() as u64 - 1;
    // Kernels run in turn within a round: first all of the one, then all of the other.
    let watts = |at: u64| {
        let number = starts.partition_point(|start| *start <= at) as u64 - 1;
        match number < rounds {
            true if at < starts[number as usize] + 4 * round(number)[0] => 100,
            true => 200,
            false => 0,
        }
    };
    let mut run = run(|step| (100 * step..100 * step + 100).map(|at| 1_000 * watts(at)).sum());
    for number in 0..rounds {
        let (from, until) = (starts[number as usize], starts[number as usize + 1]);
        run.gpu.launches.push(Launches { until: ms(from + 1), ..launches(from, round(number)) });
        let thread = ThreadKey::new(0);
        run.gpu.waits.push(GpuWait { thread, device: 0, from: ms(from + 2), until: ms(until) });
    }
    let profile = attribute(&run, &by_time());
    let sum = |kernel: usize| (0..rounds).map(|number| round(number)[kernel].cast_signed()).sum::<i64>();
    let expected = [400 * sum(0), 2_400 * sum(1), 0, 200_000, 0];
    let found = millijoules(&profile);
    near(&found, &expected, 10_000);
    assert_eq!(split(&profile).by, SplitBy::Waits);
}

fn busy(thread: u32, from: u64, until: u64, busy_ms: u64) -> GpuBusy {
    let (thread, stack) = kernel(thread);
    let count = 1;
    let busy_ns = busy_ms * MS;
    GpuBusy { device: 0, thread, stack, launched: ms(from), from: ms(from), until: ms(until), count, busy_ns }
}

/// Milliseconds of each kernel in a step.
const fn lengths(step: u64) -> [u64; 2] {
    [10 * (step * 7 % 5), 10 * (step * 5 % 6)]
}

/// Records say when kernels ran: 200 and 50 W of each one's time.
#[test]
fn records_show_times() {
    let energy = |step: u64| {
        let [gemm, copy] = lengths(step);
        200_000 * gemm + 50_000 * copy
    };
    let mut run = run(energy);
    for step in 0..STEPS {
        let ([gemm, copy], from) = (lengths(step), 100 * step);
        run.gpu.busy.push(busy(0, from, from + gemm, gemm));
        run.gpu.busy.push(busy(1, from + 50, from + 50 + copy, copy));
    }
    run.gpu.busy.retain(|busy| busy.busy_ns > 0);
    let profile = attribute(&run, &by_time());
    let sum = |kernel: usize| (0..STEPS).map(|step| lengths(step)[kernel].cast_signed()).sum::<i64>();
    near(&millijoules(&profile), &[200 * sum(0), 50 * sum(1), 0, 200_000, 0], 200);
    let found = split(&profile);
    assert_eq!((found.by, found.kinds), (SplitBy::Kernels { crowded: 0.0, whole: false }, 2));
}

/// Kernels side by side, of which the counter shows the sum of both, count with their whole time; where it
/// shows no more than one of them, each has half.
#[test]
fn records_side_by_side() {
    for both in [true, false] {
        let energy = |step: u64| {
            let [gemm, copy] = lengths(step);
            let side_by_side = if both { 0 } else { gemm.min(copy) };
            100_000 * (gemm + copy - side_by_side)
        };
        let mut run = run(energy);
        for step in 0..STEPS {
            let ([gemm, copy], from) = (lengths(step), 100 * step);
            run.gpu.busy.push(busy(0, from, from + gemm, gemm));
            run.gpu.busy.push(busy(1, from, from + copy, copy));
        }
        run.gpu.busy.retain(|busy| busy.busy_ns > 0);
        let profile = attribute(&run, &by_time());
        let of = |kernel: usize| {
            let halves = |step: u64| {
                let [gemm, copy] = lengths(step);
                let taken = if both { 0 } else { gemm.min(copy) };
                (2 * lengths(step)[kernel] - taken).cast_signed()
            };
            50 * (0..STEPS).map(halves).sum::<i64>()
        };
        near(&millijoules(&profile), &[of(0), of(1), 0, 200_000, 0], 300);
        let SplitBy::Kernels { crowded, whole } = split(&profile).by else { panic!("{profile:?}") };
        let sum = |of: fn(u64, u64) -> u64| {
            (0..STEPS).map(|step| of(lengths(step)[0], lengths(step)[1])).sum::<u64>()
        };
        let expected = sum(u64::min) as f64 / sum(u64::max) as f64;
        assert!((crowded - expected).abs() < 1e-9 && whole == both, "{crowded} {expected} {whole}");
    }
}

/// Stretches of 20 ms in which one kernel runs at 100 W, the other at 200 W, or none, by chance.
fn by_chance() -> Vec<Option<u32>> {
    let mut state = 7_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) % 3
    };
    let mut stretches: Vec<Option<u32>> =
        (0..STEPS * 5).map(|_| [None, Some(0), Some(1)][next() as usize]).collect();
    // What runs at the ends is seen like all else.
    stretches[..10].fill(None);
    stretches[STEPS as usize * 5 - 10..].fill(None);
    stretches
}

/// What a meter shows of that which looks at the last 25 ms of each step of 100 and takes that for the whole.
fn looked_at(stretches: &[Option<u32>], step: u64) -> u64 {
    let watts = |at: u64| [0, 100, 200][stretches[at as usize / 20].map_or(0, |kernel| kernel as usize + 1)];
    (100 * step + 75..100 * step + 100).map(|at| 4 * 1_000 * watts(at)).sum()
}

/// A meter that looks at a quarter of each step is found out by launches; what the counter shows in all is
/// theirs, in parts of their energies.
#[test]
fn a_meter_that_looks_at_a_quarter() {
    let stretches = by_chance();
    let mut run = run(|step| looked_at(&stretches, step));
    let batch = |(kernel, from): (u32, u64)| {
        let counts = if kernel == 0 { [20, 0] } else { [0, 20] };
        Launches { until: ms(from + 20), ..launches(from, counts) }
    };
    let launched = stretches.iter().zip(0..).filter_map(|(kernel, at)| Some(((*kernel)?, 20 * at)));
    run.gpu.launches = launched.map(batch).collect();
    let profile = attribute(&run, &by_time());
    let found = split(&profile);
    let learned = found.learned.unwrap();
    assert!(learned.duty == 0.25 && learned.late_s.abs() < 2e-3, "{learned:?}");
    let shown: i64 = (0..STEPS).map(|step| looked_at(&stretches, step).cast_signed()).sum::<i64>() / 1_000;
    let count = |of: u32| stretches.iter().filter(|kernel| **kernel == Some(of)).count() as i64;
    let (gemm, copy) = (2_000 * count(0), 4_000 * count(1));
    let found = millijoules(&profile);
    near(&[found[0] + found[1]], &[shown], 2);
    near(&found[..1], &[shown * gemm / (gemm + copy)], shown.unsigned_abs() / 50);
}

/// Where records tell all times, such a counter's sum is not believed: each kernel has its power times its
/// time, and what the counter shows beyond that, or less, is nobody's.
#[test]
fn times_are_believed_before_a_quarter() {
    use energy_trace_model::profile::UnattributedReason;
    let stretches = by_chance();
    let mut run = run(|step| looked_at(&stretches, step));
    let ran = stretches.iter().zip(0..).filter_map(|(kernel, at)| Some(((*kernel)?, 20 * at)));
    run.gpu.busy = ran.map(|(kernel, from)| busy(kernel, from, from + 20, 20)).collect();
    let profile = attribute(&run, &by_time());
    let count = |of: u32| stretches.iter().filter(|kernel| **kernel == Some(of)).count() as i64;
    let (gemm, copy) = (2_000 * count(0), 4_000 * count(1));
    let found = millijoules(&profile);
    near(&found[..2], &[gemm, copy], (gemm + copy).unsigned_abs() / 100);
    let shown: i64 = (0..STEPS).map(|step| looked_at(&stretches, step).cast_signed()).sum::<i64>() / 1_000;
    let nobodys = profile.ledger[0].unattributed[&UnattributedReason::SensorBlindSpot].as_uj() / 1_000;
    near(&[nobodys], &[shown - found[0] - found[1] - found[2] - found[4]], 3);
    assert!(nobodys != 0);
}

/// Of kernels that are told apart the powers are known, each in a column of its own; by launches alone each
/// would have the same energy.
#[test]
fn what_is_known_of_kernels() {
    let energy = |step: u64| {
        let [gemm, copy] = counts(step);
        2_000_000 * gemm + 500_000 * copy
    };
    let mut run = run(energy);
    let batch = |(step, of): (u64, usize)| {
        let (from, mut mine) = (100 * step + 50 * of as u64, [0, 0]);
        mine[of] = counts(step)[of];
        Launches { until: ms(from + 50), ..launches(from, mine) }
    };
    let batches = (0..STEPS).flat_map(|step| [(step, 0), (step, 1)]).map(batch);
    run.gpu.launches = batches.filter(|batch| !batch.work.is_empty()).collect();
    let profile = attribute(&run, &by_time());
    let [gpu] = profile.certainty.domains.as_slice() else { panic!("{:?}", profile.certainty) };
    assert_eq!(gpu.columns.len(), 2);
    assert!(gpu.columns.iter().all(|column| column.identified && column.bounds.1 < 1.001), "{gpu:?}");
    assert!(gpu.relative.iter().all(|part| part.abs() < 1e-4) && gpu.relative[0] > 0.0, "{:?}", gpu.relative);
    let columns: Vec<usize> =
        gpu.energy.iter().filter(|row| row[0].joules > 0.0).map(|row| row[0].column).collect();
    assert!(columns == [0, 1] || columns == [1, 0], "{columns:?}");
    let sum = |of: usize| (0..STEPS).map(|step| counts(step)[of].cast_signed()).sum::<i64>();
    let each = (2_000 * sum(0) + 500 * sum(1)) as f64 / (sum(0) + sum(1)) as f64;
    let by_launches: Vec<i64> = [0, 1]
        .map(|of| {
            profile
                .rows
                .iter()
                .filter(|row| row.stack == Some(kernel(of).1))
                .map(|row| row.by_time[DomainClass::Gpu])
                .sum()
        })
        .map(|energy: energy_trace_model::units::MicroJoules| energy.as_uj() / 1_000)
        .to_vec();
    // Steps hold both, and each step's energy is shared out among its launches.
    near(&[by_launches.iter().sum()], &[2_000 * sum(0) + 500 * sum(1)], 2);
    near(&by_launches, &[(each * sum(0) as f64) as i64, (each * sum(1) as f64) as i64], 25_000);
}

/// Of a launch of another device nothing is charged here; launches in several streams, or a meter of other
/// devices as well, are said.
#[test]
fn other_devices_have_their_own() {
    let mut run = run(|_| 1_000_000);
    run.gpu.launches = (0..STEPS).map(|step| launches(100 * step, counts(step))).collect();
    run.gpu.launches.iter_mut().for_each(|batch| batch.device = 1);
    let profile = attribute(&run, &by_time());
    assert_eq!(millijoules(&profile), [0, 0, 0, 200_000, 0]);
    assert!(
        profile.diagnostics.iter().any(|found| found.code() == "gpu-unattributed"),
        "{:?}",
        profile.diagnostics
    );
    run.gpu.launches.iter_mut().for_each(|batch| batch.device = 0);
    let mine = millijoules(&attribute(&run, &by_time()));
    near(&[mine[0] + mine[1] + mine[2] + mine[4]], &[100_000], 2);
}
