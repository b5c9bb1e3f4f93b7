//! Merged recordings: each machine has the numbers that it has alone, and recordings of one machine at one time count no joule twice.

use super::conservation::{assert_conserved, counter, empty, ms, reading, sample, slice};
use super::over_time::assert_sums;
use energy_trace_attribution::{attribute, attribute_over_time};
use energy_trace_certainty::HowSure as _;
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, StackId, ThreadKey, Tid};
use energy_trace_model::profile::{LedgerRow, Options, Profile};
use energy_trace_model::recording::machines::{Refusal, refusal};
use energy_trace_model::recording::record::{
    DomainClass, Frame, Host, Origin, Process, Scope, StackNode, Thread,
};
use energy_trace_model::recording::{Part, Recording};
use energy_trace_model::units::MicroJoules;

/// A process of this number on this CPU for a second from `from` on, and another program on the other CPU; 20 W, of which 5 are idle.
/// The recording's own clock begins where the machine was booted, at `boot` of the wall.
fn rank(pid: u32, cpu: u32, from: u64, boot: u64) -> Recording {
    let package = counter(0, DomainClass::Package, Scope::Socket(SocketId::new(0)), Some(5_000_000));
    let mut recording = empty(vec![package], ms(from), ms(from + 1_000));
    recording.header.anchor = WallAnchor { ktime: ms(from), unix_ns: boot + from * 1_000_000 };
    recording.header.sockets = [0, 1].map(|cpu| (CpuId::new(cpu), SocketId::new(0))).into();
    recording.header.command = vec!["rank".into(), pid.to_string()];
    recording.host = Some(Host { name: format!("node{boot}"), boot: boot.to_string() });
    let readings = (0..=100).map(|step| reading(ms(from + 10 * step), 200_000 * (from / 10 + step)));
    recording.readings.insert(DomainId::new(0), readings.collect());
    let key = ProcessKey::new(0);
    let name = "rank".to_owned();
    recording.processes.push(Process {
        key,
        pid: Pid::new(pid),
        parent: None,
        name: name.clone(),
        command: vec![],
        runtime: None,
    });
    recording.threads.push(Thread { key: ThreadKey::new(0), process: key, tid: Tid::new(pid), name });
    recording.frames.push(Frame { name: format!("work{pid}"), ..Frame::special("") });
    recording.stacks.push(StackNode { parent: None, frame: FrameId::new(0) });
    recording.slices = vec![
        slice(cpu, Some(0), ms(from), ms(from + 1_000)),
        slice(1 - cpu, None, ms(from), ms(from + 1_000)),
    ];
    recording.slices.sort_by_key(|slice| slice.cpu);
    recording.samples = (0..99).map(|step| sample(0, 0, ms(from + 10 * step + 5))).collect();
    recording
}

fn merged(recordings: &[Recording]) -> Recording {
    let part = |(number, recording): (usize, &Recording)| Part {
        label: format!("rank{number}"),
        recording: recording.clone(),
    };
    Recording { parts: recordings.iter().enumerate().map(part).collect(), ..Recording::default() }
}

fn numbers(row: &LedgerRow) -> [MicroJoules; 5] {
    [row.measured, row.target, row.other, row.idle, row.residual]
}

/// The innermost function of a row, its process's label, and its joules.
fn rows(profile: &Profile) -> Vec<(String, String, MicroJoules)> {
    let of = |row: &energy_trace_model::profile::ProfileRow| {
        let frame = profile.frames_of(row.stack.unwrap_or(StackId::new(0))).next_back().unwrap().1;
        let process = profile.threads[row.thread.index()].process;
        (frame.name.clone(), profile.label_of(process).unwrap_or_default().to_owned(), row.energy.total())
    };
    profile.rows.iter().map(of).collect()
}

/// Two machines: the ledger and rows of each are those of its own recording, on one axis of time, each below its label.
#[test]
fn machines_keep_their_numbers() {
    // The second machine was booted a second later and started half a second after the first.
    let [a, b] = [rank(7, 0, 5_000, 1_000_000_000), rank(8, 1, 4_500, 2_000_000_000)];
    let (profile, over) = attribute_over_time(&merged(&[a.clone(), b.clone()]), &Options::default());
    assert_conserved(&profile);
    assert_sums(&profile, &over);
    for (number, alone) in [a, b].iter().enumerate() {
        let alone = attribute(alone, &Options::default());
        let label = format!("rank{number}");
        assert_eq!(profile.ledger[number].domain, format!("{label}/package-0"));
        assert_eq!(numbers(&profile.ledger[number]), numbers(&alone.ledger[0]));
        let here: Vec<_> = rows(&profile).into_iter().filter(|(_, of, _)| *of == label).collect();
        let wanted: Vec<_> =
            rows(&alone).into_iter().map(|(name, _, energy)| (name, label.clone(), energy)).collect();
        assert_eq!(here, wanted);
        let one = [0];
        let (own, all) = (
            alone.certainty.of(&one, |_| true, alone.rows[0].energy.total()),
            profile.rows[number].energy.total(),
        );
        assert_eq!(profile.certainty.of(&[number], |_| true, all), own);
    }
    assert_eq!(profile.run.duration_ns(), 1_500_000_000);
    let half = over.bins.count() / 3;
    let early = over.within(profile.clone(), 0..half);
    assert_eq!(numbers(&early.ledger[1])[0], MicroJoules::ZERO);
    assert!(numbers(&early.ledger[0])[0] > MicroJoules::from_uj(9_000_000));
    assert_eq!(
        attribute(&merged(&[rank(7, 0, 5_000, 1), rank(8, 1, 4_500, 2)]), &Options::default()).run.samples,
        198
    );
}

/// Two recordings of one machine: its counter once, the programs of both, and nothing of one in the other's other programs.
#[test]
fn one_machine_is_counted_once() {
    let [a, b] = [rank(7, 0, 5_000, 1), rank(8, 1, 5_200, 1)];
    let alone = attribute(&a, &Options::default());
    assert!(alone.ledger[0].other > MicroJoules::from_uj(7_000_000));
    let (profile, over) = attribute_over_time(&merged(&[a, b]), &Options::default());
    assert_conserved(&profile);
    assert_sums(&profile, &over);
    let [row] = profile.ledger.as_slice() else { panic!("{:?}", profile.ledger) };
    assert_eq!(row.domain, "package-0");
    // 1.2 s of 20 W, but for the interval between the readings of the one and the other.
    let measured = row.measured.as_joules();
    assert!((23.7..=24.0).contains(&measured), "{measured}");
    // The second rank is another program to the first for as long as it was not recorded itself, and the first one after its end.
    let [first, second] = rows(&profile).try_into().unwrap();
    assert_eq!((first.1.as_str(), second.1.as_str()), ("rank0", "rank1"));
    for energy in [first.2, second.2] {
        assert!((7.0..8.0).contains(&energy.as_joules()), "{energy}");
    }
    assert!((2.5..3.5).contains(&row.other.as_joules()), "{}", row.other);
    assert_eq!(profile.run.other_ns, 400_000_000);
}

/// Two ranks that take turns on one CPU: each recorder sees a switch some microseconds before or after the other, and may have seen what was before
/// its start or behind its end. None of that is a lost switch; an overlap that no switch explains still is.
#[test]
fn two_views_of_a_switch_are_no_overlap() {
    let found = |at_switch_ns: i64, torn_ns: u64| {
        let [mut a, mut b] = [rank(7, 0, 5_000, 1), rank(8, 0, 5_200, 1)];
        let at = |ms: u64, by: i64| KtimeNs::from_ns((ms * 1_000_000).saturating_add_signed(by));
        let turns = |begin: u64, end: u64| (begin..end).step_by(20);
        a.slices = turns(4_980, 6_040).map(|from| slice(0, Some(0), at(from, 0), at(from + 10, 0))).collect();
        a.slices.extend(turns(4_990, 6_040).map(|from| slice(0, None, at(from, 0), at(from + 10, 0))));
        b.slices = turns(5_190, 6_240)
            .map(|from| slice(0, Some(0), at(from, -at_switch_ns), at(from + 10, at_switch_ns)))
            .collect();
        b.slices.extend(
            turns(5_180, 6_240)
                .map(|from| slice(0, None, at(from, at_switch_ns), at(from + 10, -at_switch_ns))),
        );
        let torn = b.slices.iter_mut().find(|slice| slice.start > at(5_500, 0)).unwrap();
        torn.end = torn.end + std::time::Duration::from_nanos(torn_ns);
        for run in [&mut a, &mut b] {
            run.slices.sort_by_key(|slice| (slice.cpu, slice.start));
        }
        let profile = attribute(&merged(&[a, b]), &Options::default());
        assert_conserved(&profile);
        profile.diagnostics.iter().any(|found| found.code() == "overlapping-slices")
    };
    for at_switch_ns in [0, 2_000, -2_000, 40_000] {
        assert!(!found(at_switch_ns, 0), "{at_switch_ns} ns");
    }
    assert!(found(2_000, 5_000_000));
}

/// What does not go together is refused, with the reason.
#[test]
fn refusals() {
    let asked = |a: &Recording, b: &Recording| refusal(&merged(&[a.clone(), b.clone()]).parts);
    let a = rank(7, 0, 5_000, 1);
    assert!(matches!(asked(&a, &a), Some(Refusal::Same(..))));
    assert!(matches!(asked(&a, &rank(7, 0, 5_500, 1)), Some(Refusal::SameProcess { .. })));
    assert_eq!(asked(&a, &rank(7, 0, 6_000, 1)), None);
    assert_eq!(asked(&a, &rank(8, 1, 5_500, 1)), None);
    assert_eq!(asked(&a, &rank(7, 0, 5_500, 2)), None);
    let mut modelled = rank(8, 1, 5_500, 1);
    modelled.domains[0].origin = Origin::Model { idle: Default::default(), core: Default::default() };
    assert!(matches!(asked(&a, &modelled), Some(Refusal::OtherPower { .. })));
    let twice = Recording {
        parts: vec![
            Part { label: "x".into(), recording: a },
            Part { label: "x".into(), recording: modelled },
        ],
        ..Recording::default()
    };
    assert!(refusal(&twice.parts).unwrap().to_string().contains("two recordings would be called `x`"));
}

/// Recordings of older versions do not name their machine: those whose clocks agree are of one.
#[test]
fn machines_without_names() {
    let without = |pid, cpu, from, boot| Recording { host: None, ..rank(pid, cpu, from, boot) };
    let same = merged(&[without(7, 0, 5_000, 9), without(8, 1, 5_200, 9)]);
    assert_eq!(attribute(&same, &Options::default()).ledger.len(), 1);
    let other = merged(&[without(7, 0, 5_000, 9), without(8, 1, 5_200, 3_000_000_000)]);
    assert_eq!(attribute(&other, &Options::default()).ledger.len(), 2);
}

/// A clock that is set later keeps the wall's time.
#[test]
fn clocks_are_set() {
    let recording = rank(7, 0, 5_000, 1_000);
    let later = recording.clone().later_by(std::time::Duration::from_millis(250));
    let wall = |recording: &Recording, at: KtimeNs| recording.header.anchor.unix_ns_of(at);
    assert_eq!(later.samples[3].at, ms(5_285));
    assert_eq!(wall(&later, later.samples[3].at), wall(&recording, recording.samples[3].at));
    let [moved, alone] = [later, recording].map(|of| attribute(&of, &Options::default()));
    assert_eq!((numbers(&moved.ledger[0]), rows(&moved)), (numbers(&alone.ledger[0]), rows(&alone)));
}
