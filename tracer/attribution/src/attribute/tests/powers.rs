//! Powers that are learned from a run of six seconds, of functions whose powers and times are known.

use super::small::{MS, SOCKET, add_counter, add_threads, assert_adds_up, by_time, empty, ms, near, runs};
use crate::{attribute, attribute_over_time};
use energy_trace_model::ids::{CpuId, ThreadKey};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::profile::{Options, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{DomainClass, IdleOrigin, Scope, Unsampled};

const LENGTH: u64 = 6_000;

/// Who runs where: CPU, thread, from and until when in ms.
type Slices = Vec<(u32, Option<u32>, u64, u64)>;

/// Whether a thread runs, at each ms.
fn busy(slices: &Slices, at: u64) -> Vec<usize> {
    let here = slices.iter().filter(|(_, _, from, until)| (*from..*until).contains(&at));
    here.map(|(_, thread, ..)| thread.map_or(9, |thread| thread as usize)).collect()
}

/// A recording of that, whose socket draws milliwatts as `power` says of those who run, and its memory a
/// tenth of that.
fn run(slices: &Slices, power: impl Fn(&[usize]) -> u64) -> Recording {
    let mut run = empty(0, LENGTH);
    let mut sums = vec![0];
    (0..LENGTH).for_each(|at| sums.push(sums[at as usize] + power(&busy(slices, at)) + 5_000));
    add_counter(&mut run, SOCKET, Some(5_000_000), 20, |at| sums[at as usize]);
    add_counter(&mut run, (DomainClass::Dram, Scope::Machine), Some(500_000), 20, |at| {
        sums[at as usize] / 10
    });
    run.domains[1].idle.as_mut().unwrap().origin =
        IdleOrigin::Measured { over_ns: 1_000_000_000, busy_percent: None };
    add_threads(&mut run, 4);
    slices.iter().for_each(|&(cpu, thread, from, until)| runs(&mut run, cpu, thread, from, until));
    run
}

/// Milliseconds in which a thread runs.
fn time(slices: &Slices, of: u32) -> i64 {
    let mine = slices.iter().filter(|(_, thread, ..)| *thread == Some(of));
    mine.map(|(_, _, from, until)| (until - from).cast_signed()).sum()
}

/// Turns of 3 to 40 ms of the given threads on one CPU, with pauses where `None` would stand for nobody.
fn turns(cpu: u32, threads: &[Option<u32>], seed: u64) -> Slices {
    let (mut slices, mut at, mut state) = (vec![], 0, seed);
    loop {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (who, length) = ((state >> 33) as usize % (threads.len() + 1), 3 + (state >> 43) % 38);
        if at + length > LENGTH {
            return slices;
        }
        if let Some(thread) = threads.get(who) {
            slices.push((cpu, *thread, at, at + length));
        }
        at += length;
    }
}

/// Millijoules of each row in a class.
fn millijoules(profile: &Profile, class: DomainClass) -> Vec<i64> {
    profile.rows.iter().map(|row| row.energy[class].as_uj() / 1_000).collect()
}

fn less_beside(profile: &Profile) -> Option<f64> {
    profile.diagnostics.iter().find_map(|found| match found {
        Diagnostic::Domain { what: DomainDiagnostic::LessBesideOthers { part }, .. } => Some(*part),
        _ => None,
    })
}

/// Functions of 30 and 10 W and another program of 20 W take turns: each has its power times its time, on the
/// socket and in memory. By time alone all have the same power. Only an idle power that was measured is in
/// doubt, by a hundredth.
#[test]
fn functions_have_their_powers() {
    let slices = turns(0, &[Some(0), Some(1), None], 1);
    let run =
        run(&slices, |busy| busy.iter().map(|who| [30_000, 10_000][..].get(*who).unwrap_or(&20_000)).sum());
    let (profile, over) = attribute_over_time(&run, &Options::default());
    assert_adds_up(&profile, &over);
    let expected = [30 * time(&slices, 0), 10 * time(&slices, 1)];
    near(&millijoules(&profile, DomainClass::Package), &expected, 150);
    near(&millijoules(&profile, DomainClass::Dram), &expected.map(|mj| mj / 10), 15);
    let others: i64 =
        slices.iter().filter(|slice| slice.1.is_none()).map(|s| (s.3 - s.2).cast_signed()).sum();
    near(&[profile.ledger[0].other.as_uj() / 1_000], &[20 * others], 250);
    let [package, dram] = profile.certainty.domains.as_slice() else { panic!("{:?}", profile.certainty) };
    assert!(package.weights.is_some_and(|weights| weights.used && weights.siblings.is_none()));
    assert_eq!((package.idle_joules, package.columns.len()), (0.0, 3));
    assert!((dram.idle_joules - 0.01 * 0.5 * 6.0).abs() < 1e-9, "{}", dram.idle_joules);
    for (row, thread) in (0..).zip([0, 1]) {
        let seconds = time(&slices, thread) as f64 / 1e3;
        assert!((package.seconds[row] - seconds).abs() < 1e-9, "{:?}", package.seconds);
        let [own] = package.energy[row].as_slice() else { panic!("{:?}", package.energy) };
        assert!(
            (own.joules - expected[row] as f64 / 1e3).abs() < 0.15 && (own.square - 1.0).abs() < 1e-9,
            "{own:?}"
        );
    }
    let all: u64 = slices.iter().map(|slice| slice.3 - slice.2).sum();
    assert!((package.all_seconds - all as f64 / 1e3).abs() < 1e-9);
    let plain = attribute(&run, &by_time());
    assert!(plain.certainty.domains[0].weights.is_some_and(|weights| !weights.used));
    let by_time: Vec<_> = plain.rows.iter().map(|row| row.energy).collect();
    assert_eq!(by_time, profile.rows.iter().map(|row| row.by_time).collect::<Vec<_>>());
    let each = |row: usize, thread| {
        by_time[row][DomainClass::Package].as_uj() as f64 / time(&slices, thread) as f64 / 1e3
    };
    // Intervals of 20 ms hold two of them at most times, and then no more than a third too much of one.
    assert!(
        each(0, 0) < 30.0 && each(0, 0) > each(1, 1) && each(1, 1) > 10.0,
        "{} {}",
        each(0, 0),
        each(1, 1)
    );
}

/// A machine that stands still for half a second at a time draws nothing then. A function that runs too
/// little to have a power of its own is not mixed with that: it draws as other functions do.
#[test]
fn a_pause_takes_nothing_from_functions() {
    let mut slices = turns(0, &[Some(0), Some(1)], 5);
    slices.iter_mut().step_by(40).for_each(|slice| slice.1 = Some(2));
    slices.iter_mut().filter(|slice| slice.1 == Some(2)).for_each(|slice| slice.3 = slice.2 + 3);
    let pauses = [1_000, 2_500, 4_000].map(|at| at..at + 500);
    let paused = |at: u64| pauses.iter().any(|pause| pause.contains(&at));
    slices.retain(|(_, _, from, until)| !paused(*from) && !paused(until - 1));
    let seen = slices.clone();
    slices.extend(pauses.iter().map(|pause| (0, Some(0), pause.start, pause.end)));
    let mut run = run(&seen, |busy| 20_000 * busy.len() as u64);
    for pause in &pauses {
        runs(&mut run, 0, Some(0), pause.start, pause.end);
        run.samples.retain(|sample| !pause.contains(&(sample.at.as_ns() / MS)));
        run.unsampled.push(Unsampled { cpu: CpuId::new(0), start: ms(pause.start), end: ms(pause.end) });
    }
    let profile = attribute(&run, &Options::default());
    let of_thread = |thread| {
        let rows =
            profile.rows.iter().filter(|row| row.thread == ThreadKey::new(thread) && row.stack.is_some());
        rows.map(|row| row.energy[DomainClass::Package].as_uj() / 1_000).sum::<i64>()
    };
    let expected = [0, 1, 2].map(|thread| 20 * time(&seen, thread));
    assert!(expected[2] < 300, "too much to be mixed: {expected:?}");
    near(&[0, 1, 2].map(of_thread), &expected, 10);
}

/// Two CPUs of which each draws 60 % when both are busy: powers are learned alone and beside each other, and
/// that is said.
#[test]
fn less_beside_each_other() {
    let mut slices = turns(0, &[Some(0)], 2);
    slices.extend(turns(1, &[Some(1)], 3));
    let watts = |who: usize| if who == 0 { 30_000 } else { 15_000 };
    let both = |busy: &[usize]| if busy.len() > 1 { 6 } else { 10 };
    let run = run(&slices, |busy| busy.iter().map(|who| watts(*who)).sum::<u64>() * both(busy) / 10);
    let profile = attribute(&run, &Options::default());
    let of = |thread: u32| {
        let mine = |at: u64| busy(&slices, at).contains(&(thread as usize));
        let part = |at: u64| both(&busy(&slices, at)).cast_signed();
        let power = watts(thread as usize).cast_signed() / 1_000;
        (0..LENGTH).filter(|at| mine(*at)).map(|at| power * part(at)).sum::<i64>() / 10
    };
    near(&millijoules(&profile, DomainClass::Package), &[of(0), of(1)], 5_000);
    let said = less_beside(&profile).unwrap();
    assert!((0.6..0.85).contains(&said), "{said}");
}

/// Shared parts of 25 W that are on while any of three CPUs is: they are told from the functions, and have a
/// row of the ledger.
#[test]
fn shared_parts() {
    let mut slices = turns(0, &[Some(0), Some(1)], 4);
    slices.extend(turns(1, &[Some(2)], 5));
    slices.extend(turns(2, &[Some(3)], 6));
    let watts = [10_000, 20_000, 15_000, 12_000];
    let run = run(&slices, |busy| {
        let shared = if busy.is_empty() { 0 } else { 25_000 };
        shared + busy.iter().map(|who| watts[*who]).sum::<u64>()
    });
    let (profile, over) = attribute_over_time(&run, &Options::default());
    assert_adds_up(&profile, &over);
    let any = (0..LENGTH).filter(|at| !busy(&slices, *at).is_empty()).count() as i64;
    near(&[profile.ledger[0].uncore.as_uj() / 1_000], &[25 * any], 4_000);
    let expected =
        [10 * time(&slices, 0), 20 * time(&slices, 1), 15 * time(&slices, 2), 12 * time(&slices, 3)];
    near(&millijoules(&profile, DomainClass::Package), &expected, 2_000);
    let of_bins: i64 = over.domains[0].iter().map(|bin| bin.uncore.as_uj()).sum();
    assert_eq!(of_bins, profile.ledger[0].uncore.as_uj());
    for (bin, found) in (0_u64..).zip(&over.domains[0]) {
        let here = (20 * bin..20 * bin + 20).filter(|at| !busy(&slices, *at).is_empty()).count() as i64;
        near(&[found.uncore.as_uj()], &[profile.ledger[0].uncore.as_uj() * here / any], 2);
    }
    let by_time = attribute(&run, &by_time());
    assert_eq!(by_time.ledger[0].uncore.as_uj(), 0);
    assert_eq!(run.summary.unwrap().end.as_ns(), LENGTH * MS);
}
