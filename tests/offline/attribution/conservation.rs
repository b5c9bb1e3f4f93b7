//! The ledger balances, whatever a recording says: not a microjoule and not a nanosecond appears or disappears in attribution.

use super::over_time::assert_sums;
use energy_trace_attribution::{attribute, attribute_over_time};

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{BackgroundKey, CpuId, DomainId, Pid, SocketId, StackId, ThreadKey};
use energy_trace_model::profile::Options;
use energy_trace_model::profile::UnattributedReason;
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::profile::options::{Accounting, IdlePolicy, Method};
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    BackgroundProcess, CounterValue, CpuOwner, CutReason, Domain, DomainClass, Header, IdleBaseline,
    IdleOrigin, Jitter, Origin, Quality, Reading, RecordingDiagnostic, Sample, SampleEvent, Scope, Slice,
    SourceId, StackStatus, Summary, Unsampled,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use energy_trace_sentences as sentences;
use energy_trace_tests::breadth::cases;
use proptest::prelude::*;

/// Times in the properties below are small numbers of these, so that slices, samples and readings meet.
const TICK: u64 = 997_003;
const MS: u64 = 1_000_000;
const CPUS: u32 = 3;

fn ticks(n: u64) -> KtimeNs {
    KtimeNs::from_ns(n * TICK)
}

pub(super) fn ms(n: u64) -> KtimeNs {
    KtimeNs::from_ns(n * MS)
}

pub(super) fn empty(domains: Vec<Domain>, start: KtimeNs, end: KtimeNs) -> Recording {
    let header = Header {
        version: "test".to_owned(),
        anchor: WallAnchor { ktime: start, unix_ns: 0 },
        sockets: [(CpuId::new(0), SocketId::new(0)), (CpuId::new(1), SocketId::new(1))].into(),
        sample_hz: 99,
        jitter: Jitter::NONE,
        sample_event: Some(SampleEvent::CpuClock),
        ..Header::default()
    };
    Recording {
        header,
        domains,
        background: (0..3).map(stranger).collect(),
        summary: Some(Summary { start, end, ..Summary::default() }),
        ..Recording::default()
    }
}

fn stranger(key: u32) -> BackgroundProcess {
    BackgroundProcess { key: BackgroundKey::new(key), pid: Pid::new(key), name: "cc1".to_owned() }
}

pub(super) fn counter(id: u32, class: DomainClass, scope: Scope, idle_uw: Option<u64>) -> Domain {
    let origin = Origin::Counter {
        source: SourceId::Powercap,
        place: String::new(),
        max_range: Some(MicroJoules::from_uj(262_143_328_788)),
        quality: Quality::Measured,
    };
    let idle = idle_uw.map(|uw| IdleBaseline { power: MicroWatts::from_uw(uw), origin: IdleOrigin::Given });
    Domain { id: DomainId::new(id), name: format!("{}-{id}", class.name()), class, scope, origin, idle }
}

fn model(id: u32) -> Domain {
    let origin = Origin::Model { idle: MicroWatts::from_uw(7_654_321), core: MicroWatts::from_uw(9_876_543) };
    Domain { origin, ..counter(id, DomainClass::Package, Scope::Machine, None) }
}

pub(super) fn reading(at: KtimeNs, uj: u64) -> Reading {
    Reading { at, value: CounterValue::MicroJoules(uj) }
}

/// Of the target, or of one of three strangers, a fourth that no record defined, or those that are not told apart, by when it begins.
pub(super) fn slice(cpu: u32, thread: Option<u32>, start: KtimeNs, end: KtimeNs) -> Slice {
    let stranger = match (start.as_ns() / TICK % 5) as u32 {
        4 => CpuOwner::Other,
        key => CpuOwner::Background(BackgroundKey::new(key)),
    };
    let who = thread.map_or(stranger, |key| CpuOwner::Target(ThreadKey::new(key)));
    Slice { cpu: CpuId::new(cpu), who, start, end }
}

pub(super) fn sample(thread: u32, stack: u32, at: KtimeNs) -> Sample {
    let (thread, stack) = (ThreadKey::new(thread), StackId::new(stack));
    Sample { at, cpu: CpuId::new(0), thread, stack, status: StackStatus::Complete }
}

/// Every row balances, and the rows of each class sum to its targets.
pub(super) fn assert_conserved(profile: &Profile) {
    for row in &profile.ledger {
        assert_eq!(row.imbalance(), MicroJoules::ZERO, "{row:?}");
    }
    let mut rows = EnergyByClass::default();
    profile.rows.iter().for_each(|row| rows += row.energy);
    let mut targets = EnergyByClass::default();
    profile.ledger.iter().for_each(|row| targets[row.class] += row.target);
    assert_eq!(rows, targets);
}

/// Every way of accounting: conserved, the same measured energy, the same time; and what one of them does not give to anybody stays idle.
/// `plain` is the recording by default.
fn assert_all_accountings(recording: &Recording, plain: &Profile) {
    let policies = [
        IdlePolicy::Separate,
        IdlePolicy::Exclude,
        IdlePolicy::Proportional,
        IdlePolicy::ActiveTime,
        IdlePolicy::Equal,
    ];
    for (idle, method) in
        policies.into_iter().flat_map(|idle| [(idle, Method::Time), (idle, Method::Weighted)])
    {
        let profile =
            attribute(recording, &Options { accounting: Accounting { idle, method }, ..Options::default() });
        assert_conserved(&profile);
        let measured = |profile: &Profile| profile.ledger.iter().map(|row| row.measured).collect::<Vec<_>>();
        assert_eq!(measured(&profile), measured(plain));
        let time = |profile: &Profile| profile.rows.iter().map(|row| row.time_ns).sum::<u64>();
        assert_eq!(time(&profile), time(plain));
        if method == Method::Time {
            // By time alone, both columns are one.
            assert!(profile.rows.iter().all(|row| row.energy == row.by_time), "{profile:?}");
        }
        for (row, separate) in profile.ledger.iter().zip(&plain.ledger) {
            let kept = row.idle == separate.idle;
            let handed_out = row.idle == MicroJoules::ZERO;
            assert!(
                kept || (handed_out && idle != IdlePolicy::Separate && idle != IdlePolicy::Exclude),
                "{row:?}"
            );
        }
    }
}

fn codes(profile: &Profile) -> Vec<&str> {
    profile.diagnostics.iter().map(Diagnostic::code).collect()
}

/// Nanoseconds of the target, by brute force: at each tick a CPU belongs to the slice that began last, if that has not ended.
fn target_ns(slices: &[(u32, Option<u32>, u64, u64)], start: u64, end: u64) -> u64 {
    let owner_at = |cpu: u32, tick: u64| {
        let begun = slices.iter().filter(|s| s.0 == cpu && s.2 < s.3 && s.2 <= tick);
        begun.max_by_key(|s| (s.2, s.3)).filter(|s| tick < s.3).and_then(|s| s.1)
    };
    let busy = |cpu| (start..end).filter(|&tick| owner_at(cpu, tick).is_some()).count() as u64;
    (0..CPUS).map(busy).sum::<u64>() * TICK
}

prop_compose! {
    fn any_slices()(
        slices in prop::collection::vec((0..CPUS, prop::option::of(0_u32..4), 0_u64..150, 0_u64..150), 0..40)
    ) -> Vec<(u32, Option<u32>, u64, u64)> {
        // Two different slices that begin and end together have no right order: keep one.
        let mut seen = std::collections::BTreeSet::new();
        slices.into_iter().filter(|s| seen.insert((s.0, s.2, s.3))).collect()
    }
}

fn any_readings() -> impl Strategy<Value = Vec<(u64, Option<u64>)>> {
    let value = prop_oneof![
        4 => (0_u64..2_000_000).prop_map(Some),
        1 => (0_u64..1 << 40).prop_map(Some),
        1 => Just(None)
    ];
    prop::collection::vec((0_u64..200, value), 0..40)
}

fn as_readings(readings: &[(u64, Option<u64>)]) -> Vec<Reading> {
    let value = |uj: Option<u64>| uj.map_or(CounterValue::Failed, CounterValue::MicroJoules);
    readings.iter().map(|&(at, uj)| Reading { at: ticks(at), value: value(uj) }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(96, 256)))]

    /// Any slices, stretches that nobody saw, samples and readings, in any order and overlapping: energy to 0 µJ, time to 0 ns, every sample counted, twice the same.
    #[test]
    fn nothing_appears_or_disappears(
        slices in any_slices(),
        samples in prop::collection::vec((0_u32..4, 0_u32..6, 0_u64..200), 0..40),
        unseen in prop::collection::vec((0..CPUS, 0_u64..150, 0_u64..150), 0..4),
        package in any_readings(),
        dram in any_readings(),
        gpu in any_readings(),
        idle in prop::option::of(0_u64..100_000_000),
        bounds in (0_u64..150, 0_u64..150),
    ) {
        let domains = vec![
            counter(0, DomainClass::Package, Scope::Socket(SocketId::new(0)), idle),
            counter(1, DomainClass::Dram, Scope::Socket(SocketId::new(1)), None),
            counter(2, DomainClass::Gpu, Scope::Gpu(0), idle),
            counter(3, DomainClass::Psys, Scope::Machine, idle),
            model(4),
        ];
        let mut recording = empty(domains, ticks(bounds.0), ticks(bounds.1));
        recording.slices = slices.iter().map(|s| slice(s.0, s.1, ticks(s.2), ticks(s.3))).collect();
        recording.samples = samples.iter().map(|s| sample(s.0, s.1, ticks(s.2))).collect();
        let stretch = |s: &(u32, u64, u64)| Unsampled { cpu: CpuId::new(s.0), start: ticks(s.1), end: ticks(s.2) };
        recording.unsampled = unseen.iter().map(stretch).collect();
        for (domain, readings) in [(0, &package), (1, &dram), (2, &gpu), (3, &package)] {
            recording.readings.insert(DomainId::new(domain), as_readings(readings));
        }
        let profile = attribute(&recording, &Options::default());
        assert_conserved(&profile);
        let time: u64 = profile.rows.iter().map(|row| row.time_ns).sum();
        prop_assert_eq!(time, target_ns(&slices, bounds.0, bounds.1));
        prop_assert_eq!(profile.rows.iter().map(|row| row.samples).sum::<u64>(), samples.len() as u64);
        prop_assert_eq!(&attribute(&recording, &Options::default()), &profile);
        assert_all_accountings(&recording, &profile);
        for options in [Options::default(), Options::logical()] {
            let (profile, over) = attribute_over_time(&recording, &options);
            prop_assert_eq!(&attribute(&recording, &options), &profile);
            assert_sums(&profile, &over);
        }
    }

    /// Numbers that no machine gives (any 64 bits for every time, counter and power) never make it panic.
    #[test]
    fn nonsense_never_panics(
        slices in prop::collection::vec((any::<u32>(), prop::option::of(any::<u32>()), any::<u64>(), any::<u64>()), 0..9),
        samples in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u64>()), 0..9),
        readings in prop::collection::vec((any::<u64>(), any::<u64>()), 0..9),
        idle: u64,
        hz: u32,
        bounds: Option<(u64, u64)>,
    ) {
        let at = KtimeNs::from_ns;
        let domains = [
            counter(0, DomainClass::Package, Scope::Machine, Some(idle)),
            counter(1, DomainClass::Gpu, Scope::Gpu(0), Some(idle)),
        ];
        let mut recording = empty(domains.into(), KtimeNs::default(), KtimeNs::default());
        recording.header.sample_hz = hz;
        recording.summary = bounds.map(|(start, end)| Summary { start: at(start), end: at(end), ..Summary::default() });
        recording.slices = slices.iter().map(|s| slice(s.0, s.1, at(s.2), at(s.3))).collect();
        recording.samples = samples.iter().map(|s| sample(s.0, s.1, at(s.2))).collect();
        for domain in 0..2 {
            recording.readings.insert(DomainId::new(domain), readings.iter().map(|r| reading(at(r.0), r.1)).collect());
        }
        let (profile, over) = attribute_over_time(&recording, &Options::default());
        over.within(profile, 0..1);
    }
}

/// 30 W over one second beside an idle baseline of 10 W: 20 J, split by CPU time between the target and others; what nobody used is
/// the residual, negative where the baseline was too high.
#[test]
fn one_socket_by_hand() {
    let package = counter(0, DomainClass::Package, Scope::Socket(SocketId::new(0)), Some(10_000_000));
    let mut recording = empty(vec![package], ms(0), ms(2000));
    let readings = [reading(ms(0), 0), reading(ms(1000), 30_000_000), reading(ms(2000), 39_000_000)];
    recording.readings.insert(DomainId::new(0), readings.into());
    recording.slices = vec![slice(0, Some(0), ms(0), ms(300)), slice(0, None, ms(400), ms(500))];
    recording.samples = vec![sample(0, 7, ms(100))];
    let profile = attribute(&recording, &Options::default());
    assert_conserved(&profile);
    let row = &profile.ledger[0];
    let uj = MicroJoules::from_uj;
    assert_eq!((row.measured, row.idle), (uj(39_000_000), uj(20_000_000)));
    assert_eq!((row.target, row.other), (uj(15_000_000), uj(5_000_000)));
    assert_eq!(row.residual, uj(-1_000_000));
    assert_eq!((row.quality, row.split_quality()), (Quality::Measured, Quality::Apportioned));
    let [stack] = profile.rows.as_slice() else { panic!("one row: {:?}", profile.rows) };
    assert_eq!((stack.stack, stack.time_ns, stack.samples), (Some(StackId::new(7)), 300 * MS, 1));
}

/// A socket pays for the time on its own CPUs only: the same thread is charged on each socket for the time it spent there.
#[test]
fn migration_is_charged_where_it_ran() {
    let package = |s| counter(s, DomainClass::Package, Scope::Socket(SocketId::new(s)), Some(0));
    let mut recording = empty(vec![package(0), package(1)], ms(0), ms(1000));
    recording.readings.insert(DomainId::new(0), vec![reading(ms(0), 0), reading(ms(1000), 5_000_000)]);
    recording.readings.insert(DomainId::new(1), vec![reading(ms(0), 0), reading(ms(1000), 7_000_000)]);
    recording.slices = vec![
        slice(0, Some(0), ms(0), ms(100)),
        slice(1, Some(0), ms(100), ms(200)),
        slice(1, Some(1), ms(200), ms(800)),
    ];
    let profile = attribute(&recording, &Options::default());
    assert_conserved(&profile);
    let package: Vec<_> = profile.rows.iter().map(|row| row.energy[DomainClass::Package].as_uj()).collect();
    assert_eq!(package, [5_000_000 + 1_000_000, 6_000_000]);
}

/// A GPU's energy above idle is nobody's until launches are recorded: unattributed, with the reason, and said.
#[test]
fn gpus_are_unattributed() {
    let gpu = counter(0, DomainClass::Gpu, Scope::Gpu(0), Some(50_000_000));
    let mut recording = empty(vec![gpu], ms(0), ms(1000));
    recording.readings.insert(DomainId::new(0), vec![reading(ms(0), 0), reading(ms(1000), 80_000_000)]);
    recording.slices = vec![slice(0, Some(0), ms(0), ms(1000))];
    let profile = attribute(&recording, &Options::default());
    assert_conserved(&profile);
    assert_eq!(
        profile.ledger[0].unattributed[&UnattributedReason::NoLaunchData],
        MicroJoules::from_uj(30_000_000)
    );
    assert!(codes(&profile).contains(&"gpu-unattributed"));
}

/// A machine that stood still: of a slice of twenty seconds with one sample the sample has its own periods, and its energy with them; the rest
/// is `[unsampled]`, and the ledger is exact.
#[test]
fn a_pause_is_nobodys() {
    let package = counter(0, DomainClass::Package, Scope::Machine, Some(0));
    let mut recording = empty(vec![package], ms(0), ms(20_000));
    recording.readings.insert(DomainId::new(0), vec![reading(ms(0), 0), reading(ms(20_000), 200_000_000)]);
    recording.slices = vec![slice(0, Some(0), ms(0), ms(20_000))];
    recording.samples = vec![sample(0, 1, ms(5_000))];
    let whole = attribute(&recording, &Options::default());
    assert_eq!(whole.rows.iter().map(|row| row.time_ns / MS).collect::<Vec<_>>(), [20_000]);
    let stretch = |start, end| Unsampled { cpu: CpuId::new(0), start: ms(start), end: ms(end) };
    recording.unsampled = vec![stretch(0, 4_990), stretch(5_010, 20_000)];
    let profile = attribute(&recording, &Options::default());
    assert_conserved(&profile);
    let mut rows: Vec<_> = profile
        .rows
        .iter()
        .map(|row| (row.stack.is_some(), row.time_ns / MS, row.by_time[DomainClass::Package].as_uj()))
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [(false, 19_980, 199_800_000), (true, 20, 200_000)]);
}

/// A gap adds nothing to any number, and the reader is told how long it was.
#[test]
fn gaps_are_told() {
    let package = counter(0, DomainClass::Package, Scope::Machine, Some(0));
    let mut recording = empty(vec![package], ms(0), ms(4000));
    let values = [(0, 800_000), (1000, 900_000), (2000, 100_000), (4000, 150_000)];
    recording.readings.insert(DomainId::new(0), values.map(|(at, uj)| reading(ms(at), uj)).into());
    let profile = attribute(&recording, &Options::default());
    assert_conserved(&profile);
    assert_eq!(profile.ledger[0].measured, MicroJoules::from_uj(150_000));
    let found = profile.diagnostics.iter().find(|found| found.code() == "no-reading").unwrap();
    let text = sentences::diagnostic(found);
    assert!(text.contains("package-0: 1.00 s of 4.00 s"), "{text}");
}

/// A model's energy is estimated and exact: idle power for the time, core power for the busy time, no residual.
#[test]
fn the_model_is_estimated_and_exact() {
    let mut recording = empty(vec![model(0)], ms(0), ms(1000));
    recording.slices = vec![slice(0, Some(0), ms(0), ms(333)), slice(2, None, ms(100), ms(450))];
    let profile = attribute(&recording, &Options::default());
    assert_conserved(&profile);
    let row = &profile.ledger[0];
    assert_eq!((row.quality, row.split_quality()), (Quality::Estimated, Quality::Estimated));
    assert_eq!(row.idle, MicroWatts::from_uw(7_654_321).over_ns(1000 * MS));
    assert_eq!(row.target + row.other, MicroWatts::from_uw(9_876_543).over_ns(683 * MS));
    assert_eq!(row.residual, MicroJoules::ZERO);
    assert_eq!(profile.diagnostics, []);
}

/// Lost switches, a missing baseline, a baseline above the counter and a cut-off recording are each told.
#[test]
fn diagnostics_are_found() {
    let package = |idle| counter(0, DomainClass::Package, Scope::Machine, idle);
    let with = |idle| {
        let mut recording = empty(vec![package(idle)], ms(0), ms(1000));
        recording.readings.insert(DomainId::new(0), vec![reading(ms(0), 0), reading(ms(1000), 1_000_000)]);
        recording.slices = vec![slice(0, Some(0), ms(0), ms(500)), slice(0, Some(1), ms(400), ms(600))];
        recording
    };
    assert_eq!(
        codes(&attribute(&with(None), &Options::default())),
        ["no-idle-baseline", "overlapping-slices"]
    );
    assert_eq!(
        codes(&attribute(&with(Some(5_000_000)), &Options::default())),
        ["idle-above-counter", "overlapping-slices"]
    );
    let mut cut = with(Some(0));
    cut.summary = None;
    cut.slices.truncate(1);
    cut.diagnostics = vec![RecordingDiagnostic::RecordingCut {
        whole_bytes: None,
        whole_ns: None,
        reason: CutReason::NoEnd,
    }];
    let profile = attribute(&cut, &Options::default());
    assert_eq!(codes(&profile), ["recording-cut"]);
    assert_eq!(profile.ledger[0].measured, MicroJoules::from_uj(1_000_000));
}
