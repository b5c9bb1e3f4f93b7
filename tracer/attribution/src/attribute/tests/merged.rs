//! Merged recordings: each machine has what it has alone, below its label; two recordings of one machine are
//! one.

use super::small::{MS, SOCKET, add_counter, add_threads, assert_adds_up, by_time, empty, ms, runs};
use crate::{attribute, attribute_over_time};
use energy_trace_model::ids::{CpuId, SocketId};
use energy_trace_model::profile::diagnostics::{Diagnostic, WorkDiagnostic};
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::{
    Host, RecordingDiagnostic, WorkCounter, WorkReading, WorkSeries, WorkSource, WorkUnits,
};
use energy_trace_model::recording::{Part, Recording};
use std::time::Duration;

/// A thread for 200 ms from `from` on, of a machine that was booted at `boot` ms of the wall; so many watts,
/// of which one is idle.
fn alone(from: u64, boot: u64, watts: u64, name: &str) -> Recording {
    let mut run = empty(from, from + 200);
    run.header.anchor.unix_ns = (boot + from) * 1_000_000;
    run.header.sockets = [(CpuId::new(0), SocketId::new(0))].into();
    run.host = Some(Host { name: name.to_owned(), boot: format!("{boot}") });
    add_counter(&mut run, SOCKET, Some(1_000_000), 10, |at| watts * 1_000 * at);
    add_threads(&mut run, 1);
    runs(&mut run, 0, Some(0), from, from + 200);
    run
}

fn merged(parts: &[(&str, &Recording)]) -> Recording {
    let part = |(label, recording): &(&str, &Recording)| Part {
        label: (*label).to_owned(),
        recording: (*recording).clone(),
    };
    Recording { parts: parts.iter().map(part).collect(), ..Recording::default() }
}

fn parts_of(row: &LedgerRow) -> [i64; 4] {
    [row.measured, row.target, row.other, row.idle].map(|energy| energy.as_uj())
}

/// The second machine was booted 300 ms after the first and began 100 ms after its own boot: on the wall's
/// clock it begins 200 ms behind the first one's start at 200 ms, as that ends.
#[test]
fn machines_stand_behind_each_other() {
    let (a, b) = (alone(200, 1_000, 3, "a"), alone(100, 1_300, 5, "b"));
    let all = merged(&[("x", &a), ("y", &b)]);
    let (profile, over) = attribute_over_time(&all, &by_time());
    assert_adds_up(&profile, &over);
    assert_eq!(attribute(&all, &by_time()), profile);
    let names: Vec<&str> = profile.ledger.iter().map(|row| row.domain.as_str()).collect();
    assert_eq!(names, ["x/package-0", "y/package-0"]);
    assert_eq!(parts_of(&profile.ledger[0]), [600_000, 400_000, 0, 200_000]);
    assert_eq!(parts_of(&profile.ledger[1]), [1_000_000, 800_000, 0, 200_000]);
    assert_eq!((profile.run.start, profile.run.end, over.bins.count()), (ms(200), ms(600), 20));
    let measured =
        |domain: usize| over.domains[domain].iter().map(|bin| bin.measured.as_uj()).collect::<Vec<_>>();
    assert_eq!(measured(0), [[60_000; 10], [0; 10]].concat());
    assert_eq!(measured(1), [[0; 10], [100_000; 10]].concat());
    assert_eq!(profile.parts.iter().map(|part| part.label.as_str()).collect::<Vec<_>>(), ["x", "y"]);
}

/// One machine keeps the names of its domains, and recordings of it that overlap read one counter; what was
/// found about the file stands first.
#[test]
fn one_machine_is_one() {
    let (a, b) = (alone(200, 1_000, 3, "a"), alone(300, 1_000, 3, "a"));
    let mut all = merged(&[("x", &a), ("y", &b)]);
    let profile = attribute(&all, &by_time());
    assert_eq!(profile.ledger.iter().map(|row| row.domain.as_str()).collect::<Vec<_>>(), ["package-0"]);
    assert_eq!(profile.parts.iter().map(|part| part.label.as_str()).collect::<Vec<_>>(), ["x", "y"]);
    // Beside another machine the two have the name of theirs, and both labels where it has none.
    let other = alone(200, 1_000_000, 3, "c");
    let label = |a: &Recording, b: &Recording| {
        let profile = attribute(&merged(&[("x", a), ("y", b), ("z", &other)]), &by_time());
        profile.ledger.iter().map(|row| row.domain.clone()).collect::<Vec<_>>()
    };
    assert_eq!(label(&a, &b), ["a/package-0", "z/package-0"]);
    let bare = |run: &Recording| {
        let mut run = run.clone();
        run.host.as_mut().unwrap().name.clear();
        run
    };
    assert_eq!(label(&bare(&a), &bare(&b)), ["x+y/package-0", "z/package-0"]);
    all.diagnostics = vec![RecordingDiagnostic::NoMmapEvents { error: "refused".to_owned() }];
    let found = attribute(&all, &by_time()).diagnostics;
    assert_eq!(found.len(), profile.diagnostics.len() + 1);
    assert_eq!(found[1..], profile.diagnostics[..]);
}

/// The same recording with a counter of this name, that moves by so many each 10 ms from 50 ms after the
/// start for 100 ms.
fn counting(run: &Recording, name: &str, source: WorkSource, step: u64) -> Recording {
    let mut run = run.clone();
    let from = run.summary.as_ref().unwrap().start;
    let reading = |number: u64| WorkReading {
        at: from + Duration::from_millis(50 + 10 * number),
        within_ns: 0,
        value: Ok(WorkUnits::whole(step * number)),
    };
    let counter = WorkCounter { name: name.to_owned(), source };
    run.work.push(WorkSeries { counter, readings: (0..=10).map(reading).collect() });
    run
}

/// Units that all recordings count are added, with the energy of each machine's own stretches; the rest of
/// all is the rest. What one does not count, calls of different functions, and what recordings of one machine
/// at one time count, are not.
#[test]
fn units_of_all() {
    let file = || WorkSource::File("/run/n".into());
    let prints = || WorkSource::Stdout("(.*)".into());
    let (a, b) = (alone(200, 1_000, 3, "a"), alone(100, 1_200, 5, "b"));
    let (a, b) = (counting(&a, "token", file(), 2), counting(&b, "token", prints(), 7));
    let a = counting(&a, "only", file(), 1);
    let a = counting(&a, "call", WorkSource::Calls("f".into()), 0);
    let b = counting(&b, "call", WorkSource::Calls("g".into()), 0);
    let all = merged(&[("x", &a), ("y", &b)]);
    let (profile, over) = attribute_over_time(&all, &by_time());
    assert_adds_up(&profile, &over);
    assert_eq!(attribute(&all, &by_time()), profile);
    let [work] = &profile.work[..] else { panic!("{:?}", profile.work) };
    assert_eq!((work.units(), work.covered_ns()), (WorkUnits::whole(20 + 70), 200 * MS));
    // Half of the time of each: 2 W and 4 W are the program's.
    assert_eq!(work.sum(|of| of.energy).total().as_uj(), 200_000 + 400_000);
    assert!(work.stretches.is_sorted_by_key(|stretch| stretch.from));
    let unsaid = |profile: &Profile| {
        let of_work = profile.diagnostics.iter().filter_map(|found| match found {
            Diagnostic::Work { name, what: WorkDiagnostic::Merged } => Some(name.clone()),
            _ => None,
        });
        of_work.collect::<Vec<_>>()
    };
    assert_eq!(unsaid(&profile), ["only", "call"]);
    let part = over.within(profile, 0..3);
    assert_eq!((part.work.len(), unsaid(&part)), (0, vec!["only".to_owned(), "call".into(), "token".into()]));
    let beside = counting(&alone(300, 1_000, 3, "a"), "token", file(), 1);
    let profile = attribute(&merged(&[("x", &a), ("y", &beside)]), &by_time());
    assert_eq!((profile.work.len(), unsaid(&profile).len()), (0, 3));
}
