//! A GPU of which no launches are known, attached to while it worked: its counter of units shows when it was at rest.

use super::super::conservation::{assert_conserved, empty, ms};
use energy_trace_attribution::{attribute, attribute_over_time};
use energy_trace_model::ids::{DomainId, Pid, ProcessKey};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, IdleInUse};
use energy_trace_model::profile::{Options, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CounterValue, Domain, DomainClass, IdleBaseline, IdleOrigin, InUse, Origin, Process, Reading, Scope,
    WorkCounter, WorkReading, WorkSeries, WorkSource, WorkUnits,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// Five turns of 4 s: 300 W for 2.5 s, of which tokens are told for 2.2 s, and 60 W at rest; before the start it drew 300 W.
const TENTHS: u64 = 200;
const WORKS: u64 = 25;
const TELLS: u64 = 22;

fn served(source: Option<WorkSource>) -> Recording {
    let (power, by) = (MicroWatts::from_uw(300_000_000), InUse { percent: Some(80), pids: vec![7] });
    let gpu = Domain {
        id: DomainId::new(0),
        name: "gpu-0".to_owned(),
        class: DomainClass::Gpu,
        scope: Scope::Gpu(0),
        origin: Origin::measured("nvml", String::new(), None),
        idle: Some(IdleBaseline { power, origin: IdleOrigin::InUse(by) }),
    };
    let mut recording = empty(vec![gpu], ms(0), ms(100 * TENTHS));
    let (mut uj, mut tokens) = (0, 0);
    let (mut readings, mut told) = (Vec::new(), Vec::new());
    for tenth in 0..=TENTHS {
        let at = ms(100 * tenth);
        readings.push(Reading { at, value: CounterValue::MicroJoules(uj) });
        told.push(WorkReading { at, within_ns: 0, value: Ok(WorkUnits::whole(tokens)) });
        uj += if tenth % 40 < WORKS { 30_000_000 } else { 6_000_000 };
        tokens += u64::from(tenth % 40 < TELLS);
    }
    recording.readings.insert(DomainId::new(0), readings);
    let counter = source.map(|source| WorkCounter { name: "token".to_owned(), source });
    recording.work =
        counter.into_iter().map(|counter| WorkSeries { counter, readings: told.clone() }).collect();
    let (pid, name) = (Pid::new(7), "server".to_owned());
    recording.processes =
        vec![Process { key: ProcessKey::new(0), pid, parent: None, name, command: vec![], runtime: None }];
    recording
}

fn idle_and_found(profile: &Profile) -> (i64, Option<IdleInUse>) {
    let found = profile.diagnostics.iter().find_map(|found| match found {
        Diagnostic::Domain { what: DomainDiagnostic::GpuInUse { idle, .. }, .. } => Some(*idle),
        _ => None,
    });
    (profile.ledger[0].idle.as_uj() / 1_000_000, found)
}

/// What the counter agrees on while no token is told is idle power, though it works on for a moment in each pause, and bins of time have the same; of
/// a number that the program prints a pause is none, and without units nothing is known.
#[test]
fn pauses_between_units_show_idle_power() {
    let page = WorkSource::Prometheus { url: "http://localhost/".to_owned(), metric: "tokens".to_owned() };
    let (profile, over) = attribute_over_time(&served(Some(page)), &Options::default());
    assert_eq!(idle_and_found(&profile), (60 * TENTHS as i64 / 10, Some(IdleInUse::Pauses)));
    assert_eq!(profile.ledger[0].unattributed.values().copied().sum::<MicroJoules>().as_uj(), 3_000_000_000);
    assert_conserved(&profile);
    super::super::over_time::assert_sums(&profile, &over);
    for source in [None, Some(WorkSource::Stdout("(.*)".to_owned()))] {
        let profile = attribute(&served(source), &Options::default());
        assert_eq!(idle_and_found(&profile), (0, Some(IdleInUse::Unknown)));
    }
}
