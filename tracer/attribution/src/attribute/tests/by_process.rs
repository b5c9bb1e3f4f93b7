//! Energy by process: the same as rows have, and windows of a run together what its counter has.

use super::small::{SOCKET, add_counter, add_threads, by_time, empty, ms, runs};
use crate::{CarriedPowers, attribute, attribute_by_process};
use energy_trace_model::ids::{Pid, ProcessKey};
use energy_trace_model::profile::diagnostics::GapReason;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CounterValue, DomainClass, Process, Scope, Summary};
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// Two processes that run in turn and beside each other, and others.
fn run() -> Recording {
    let mut run = empty(0, 100);
    add_counter(&mut run, SOCKET, Some(500_000), 10, |at| 1_337 * at + 2_000 * at.min(40));
    add_counter(&mut run, (DomainClass::Dram, Scope::Machine), None, 10, |at| 333 * at);
    add_threads(&mut run, 2);
    let second = Process { key: ProcessKey::new(1), pid: Pid::new(8), ..run.processes[0].clone() };
    run.threads[1].process = second.key;
    run.processes.push(second);
    runs(&mut run, 0, Some(0), 0, 30);
    runs(&mut run, 1, Some(1), 0, 55);
    runs(&mut run, 0, None, 30, 60);
    runs(&mut run, 0, Some(0), 60, 80);
    run
}

/// Each domain's row is the ledger's, and processes have what the rows of their threads have.
#[test]
fn as_rows_have_it() {
    let (run, options) = (run(), by_time());
    let profile = attribute(&run, &options);
    let found = attribute_by_process(run, &options, &mut CarriedPowers::default());
    assert_eq!(found.iter().map(|domain| domain.row.clone()).collect::<Vec<_>>(), profile.ledger);
    for domain in &found {
        let target: MicroJoules = domain.of_process.values().copied().sum();
        assert_eq!((target, domain.covered_ns), (domain.row.target, 100_000_000));
        for (process, energy) in &domain.of_process {
            let of = |row: &&energy_trace_model::profile::ProfileRow| {
                profile.threads[row.thread.get() as usize].process == *process
            };
            let rows = profile.rows.iter().filter(of).map(|row| row.energy[domain.row.class]);
            assert_eq!(rows.sum::<MicroJoules>(), *energy, "{process:?}");
        }
    }
    assert_eq!(found[0].of_process.len(), 2);
}

/// Windows that cut a reading's interval have all that the counter shows, between them.
#[test]
fn windows_have_all() {
    let window = |from, until| {
        let mut part = run();
        part.summary = Some(Summary { start: ms(from), end: ms(until), ..Summary::default() });
        let carried = &mut CarriedPowers::default();
        attribute_by_process(part, &by_time(), carried)
            .iter()
            .map(|domain| domain.row.measured.as_uj())
            .collect()
    };
    let windows: [Vec<i64>; 3] = [window(0, 37), window(37, 64), window(64, 100)];
    let sums: Vec<i64> = (0..2).map(|domain| windows.iter().map(|window| window[domain]).sum()).collect();
    assert_eq!(sums, [1_337 * 100 + 80_000, 33_300]);
}

/// What a counter that fails does not say is missing, with its reason, and charged to nobody.
#[test]
fn what_is_missing() {
    let mut run = run();
    let readings = run.readings.values_mut().next().unwrap();
    readings.iter_mut().filter(|reading| reading.at > ms(40)).for_each(|of| of.value = CounterValue::Failed);
    let found = attribute_by_process(run, &by_time(), &mut CarriedPowers::default());
    assert_eq!(found[0].row.measured.as_uj(), 1_337 * 40 + 80_000);
    assert_eq!(found[0].missing_ns, BTreeMap::from([(GapReason::NoReading, 60_000_000)]));
    assert_eq!((found[0].covered_ns, found[1].missing_ns.len()), (40_000_000, 0));
}
