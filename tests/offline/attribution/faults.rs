//! Counters that lie, of every source: what is believed of them, what is said, and what becomes of a budget.
//!
//! 20 s of a machine that draws 10 W at rest and 15 W more while the program runs, from the third second on: 470 J, of which 270 are the program's.
//! The table that this makes stands in `docs/results/counter-faults.md`.

use super::conservation::{assert_conserved, empty, ms, sample, slice};
use energy_trace_attribution::{attribute, attribute_over_time};
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, ThreadKey, Tid};
use energy_trace_model::profile::{Options, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CounterValue, Domain, DomainClass, Frame, GpuMeter, GpuMeterKind, IdleBaseline, IdleOrigin, Origin,
    Process, Quality, Reading, Scope, Source, SourceId, SourceNote, StackNode, Thread,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use energy_trace_report::budgets::{self, Budget, Verdict};
use energy_trace_report::summary::{self, SummaryOptions};
use std::path::Path;

const SECONDS: u64 = 20;
const TRUTH_UJ: i64 = 470_000_000;

/// A source of counters: how often its counter moves and is read, in milliseconds.
struct Meter {
    title: &'static str,
    name: &'static str,
    class: DomainClass,
    moves: u64,
    read: u64,
}

const fn meter(title: &'static str, name: &'static str, class: DomainClass, moves: u64, read: u64) -> Meter {
    Meter { title, name, class, moves, read }
}

const METERS: [Meter; 9] = [
    meter("powercap", "powercap", DomainClass::Package, 1, 10),
    meter("perf", "perf", DomainClass::Package, 1, 10),
    meter("hwmon", "hwmon", DomainClass::Package, 1, 10),
    meter("NVML", "nvml", DomainClass::Gpu, 100, 20),
    meter("amdgpu", "amdgpu", DomainClass::Gpu, 5, 10),
    meter("replayed log", "replay", DomainClass::Package, 1_000, 1_000),
    meter("host's share", "host", DomainClass::Package, 1_000, 1_000),
    meter("left in a battery", "battery", DomainClass::Psys, 1_000, 1_000),
    meter("BMC", "bmc", DomainClass::Psys, 1_000, 1_000),
];

/// What a reading says (milliseconds, microjoules, the reading's number from the ninth second on); `None`: it is no number.
type Fault = fn(u64, u64, Option<u64>) -> Option<u64>;

/// The microjoules of the machine up to a moment; the counter stood at 900 J before.
fn truth(ms: u64) -> u64 {
    900_000_000 + 10_000 * ms + 15_000 * ms.saturating_sub(2_000)
}

const FAULTS: [(&str, Fault); 20] = [
    ("none", |_, uj, _| Some(uj)),
    ("always 0", |_, _, _| Some(0)),
    ("always the same", |_, _, _| Some(7_000_000)),
    ("stands still from 8 s on, or its file is gone and stays open", |_, uj, _| Some(uj.min(truth(8_000)))),
    ("stands still from 8 s to 11 s, and goes on from there", |ms, uj, _| {
        Some(if ms < 11_000 { uj.min(truth(8_000)) } else { uj - 75_000_000 })
    }),
    ("stands still from 8 s to 11 s, and makes up for it", |ms, uj, _| {
        Some(if ms < 11_000 { uj.min(truth(8_000)) } else { uj })
    }),
    ("text or nothing from 8 s on", |_, uj, from| from.is_none().then_some(uj)),
    ("one reading 1 kJ too high", |_, uj, from| Some(if from == Some(1) { uj + 1_000_000_000 } else { uj })),
    ("one reading below the one before", |ms, uj, from| {
        Some(if from == Some(1) { truth(ms - 1_500) } else { uj })
    }),
    ("one reading cut short (`90` of `90123`)", |_, uj, from| {
        Some(if from == Some(1) { uj / 1_000 } else { uj })
    }),
    ("begins again from 0", |_, uj, from| Some(if from.is_some() { uj - truth(8_000) } else { uj })),
    ("100 kJ ahead from 8 s on", |_, uj, from| Some(if from.is_some() { uj + 100_000_000_000 } else { uj })),
    ("1,000 times too fast", |_, uj, _| Some((uj - 900_000_000) * 1_000)),
    ("its largest value from 8 s on", |_, uj, from| Some(if from.is_some() { 262_143_328_850 } else { uj })),
    ("each tenth reading 0", |_, uj, from| Some(if from.is_some_and(|n| n % 10 == 1) { 0 } else { uj })),
    ("two counters by turns from 8 s on", |_, uj, from| {
        Some(if from.is_some_and(|number| number % 2 == 1) { uj + 50_000_000_000 } else { uj })
    }),
    ("begins again from 0 each second", |ms, uj, _| Some(uj - truth(ms / 1_000 * 1_000))),
    ("energy since the last reading", |ms, _, _| Some(if ms < 2_000 { 100_000 } else { 250_000 } + ms % 7)),
    ("counts down", |_, uj, _| Some(1_800_000_000 - uj)),
    ("numbers by chance", |ms, _, _| Some(ms * 2_654_435_761 % 1_000_000_007)),
];

fn domain(meter: &Meter) -> Domain {
    let (scope, name) = match meter.class {
        DomainClass::Gpu => (Scope::Gpu(0), "gpu-0"),
        DomainClass::Psys => (Scope::Machine, meter.name),
        DomainClass::Core => (Scope::Core(CpuId::new(0), CpuId::new(0)), "core-0"),
        _ => (Scope::Socket(SocketId::new(0)), "package-0"),
    };
    let origin = Origin::Counter {
        source: SourceId::from_name(meter.name),
        place: String::new(),
        max_range: (meter.class == DomainClass::Package).then(|| MicroJoules::from_uj(262_143_328_850)),
        quality: Quality::Measured,
    };
    let origin_of_idle = IdleOrigin::Measured { over_ns: 1_000_000_000, busy_percent: Some(2) };
    let idle = Some(IdleBaseline { power: MicroWatts::from_uw(10_000_000), origin: origin_of_idle });
    Domain { id: DomainId::new(0), name: name.to_owned(), class: meter.class, scope, origin, idle }
}

fn readings(meter: &Meter, fault: Fault) -> Vec<Reading> {
    let mut number = 0;
    let mut reading = |ms_now: u64| {
        let shown = ms_now / meter.moves * meter.moves;
        number += u64::from(shown >= 8_000);
        let value = fault(shown, truth(shown), (number > 0).then_some(number));
        let value = value.map_or(CounterValue::Failed, CounterValue::MicroJoules);
        Reading { at: ms(ms_now), value }
    };
    (0..=SECONDS * 1_000).step_by(meter.read as usize).map(&mut reading).collect()
}

fn recording(meter: &Meter, fault: Fault) -> Recording {
    let mut recording = empty(vec![domain(meter)], ms(0), ms(SECONDS * 1_000));
    recording.header.sockets = [(CpuId::new(0), SocketId::new(0)), (CpuId::new(1), SocketId::new(0))].into();
    recording.header.command = vec!["program".to_owned()];
    recording.readings.insert(DomainId::new(0), readings(meter, fault));
    let (process, tid) = (ProcessKey::new(0), Tid::new(7));
    let (pid, name) = (Pid::new(7), "program".to_owned());
    recording.processes =
        vec![Process { key: process, pid, parent: None, name: name.clone(), command: vec![], runtime: None }];
    recording.threads = vec![Thread { key: ThreadKey::new(0), process, tid, name }];
    recording.frames = vec![Frame::special("work")];
    recording.stacks = vec![StackNode { parent: None, frame: FrameId::new(0) }];
    recording.slices = vec![slice(0, Some(0), ms(2_000), ms(SECONDS * 1_000))];
    recording.samples = (2_005..SECONDS * 1_000).step_by(10).map(|at| sample(0, 0, ms(at))).collect();
    recording
}

fn source(meter: &Meter, domain: &str, notes: Vec<SourceNote>) -> Source {
    let (id, domains) = (SourceId::from_name(meter.name), vec![domain.to_owned()]);
    Source { id, domains, period_ns: 0, quality: Quality::Measured, ignored: vec![], notes }
}

fn screen(profile: &Profile) -> String {
    let mut out = Vec::new();
    summary::write(&mut out, profile, &SummaryOptions::default()).unwrap();
    String::from_utf8(out).unwrap()
}

/// What becomes of a budget of all that the machine draws: only what is not known can be more.
fn verdict(profile: &Profile) -> Verdict {
    let budget = Budget { call: None, range: None, optional: false, limit: MicroJoules::from_uj(TRUTH_UJ) };
    budgets::worst(&budgets::check(profile, &[budget]))
}

/// The reason on the first screen, in its brackets; `None`: no warning of the counter.
fn said(text: &str) -> Option<String> {
    let domains =
        ["package-0", "gpu-0", "hwmon-power", "battery", "bmc"].map(|domain| format!("! {domain}:"));
    let of_counter = |line: &&str| domains.iter().any(|domain| line.starts_with(domain));
    let words = ["in no number", "none of its energy", "left out", "readings failed"];
    let line = text.lines().filter(of_counter).find(|line| words.iter().any(|word| line.contains(word)))?;
    Some(line.trim_start_matches("! ").to_owned())
}

/// Nothing is negative, nothing more than was drawn, and bins of time have the same.
fn assert_sane(meter: &Meter, fault: &str, recording: &Recording, profile: &Profile) {
    let row = &profile.ledger[0];
    let place = format!("{}, {fault}: {row:?}", meter.title);
    assert_conserved(profile);
    assert!([row.target, row.other, row.idle].iter().all(|part| *part >= MicroJoules::ZERO), "{place}");
    assert!(row.measured.as_uj() <= TRUTH_UJ + 5_000, "{place}");
    assert!(profile.rows.iter().all(|row| row.energy.total() >= MicroJoules::ZERO), "{place}");
    let (over, bins) = attribute_over_time(recording, &Options::default());
    super::over_time::assert_sums(&over, &bins);
}

/// Every fault of every source: sane numbers, a line on the first screen, and no budget that is kept by what is not known. A counter that is right
/// is left alone. The table is that of the page.
#[test]
fn every_source_and_fault() {
    let mut table = String::from("| counter |");
    table += &METERS.iter().map(|meter| format!(" {} |", meter.title)).collect::<String>();
    table += " said | budget |\n|---|";
    table += &"---|".repeat(METERS.len() + 2);
    for (name, fault) in FAULTS {
        table += &format!("\n| {name} |");
        let mut last = String::new();
        for meter in &METERS {
            let recording = recording(meter, fault);
            let profile = attribute(&recording, &Options::default());
            assert_sane(meter, name, &recording, &profile);
            let (text, verdict) = (screen(&profile), verdict(&profile));
            let said = said(&text);
            let measured = profile.ledger[0].measured;
            if name == "none" {
                assert_eq!((measured.as_uj(), said.as_deref()), (TRUTH_UJ, None), "{}: {text}", meter.title);
            }
            let late = name.ends_with("makes up for it");
            assert!(name == "none" || late || said.is_some(), "{}, {name}: {text}", meter.title);
            assert!(measured > MicroJoules::ZERO || text.contains("no energy was measured"), "{text}");
            table += &match measured.as_uj() {
                0 => " none |".to_owned(),
                uj => format!(" {:.0} J |", uj as f64 / 1e6),
            };
            if meter.name == "powercap" {
                let said =
                    said.as_deref().and_then(|said| said.split_once(": ")).map_or("–", |(_, said)| said);
                last = format!(" {said} | {} |", verdict.name());
            }
        }
        table += &last;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/counter-faults.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&table), "docs/results/counter-faults.md does not have this table:\n{table}");
}

/// What a power sensor shows (milliseconds, microwatts, milliseconds between readings); `None`: it is no number.
type PowerFault = fn(u64, u64, u64) -> Option<u64>;

const POWER_FAULTS: [(&str, PowerFault); 10] = [
    ("none", |_, uw, _| Some(uw)),
    ("always 0", |_, _, _| Some(0)),
    ("always the same", |_, _, _| Some(10_000_000)),
    ("stands still from 1 s on", |ms, uw, _| Some(if ms < 1_000 { uw } else { 10_000_000 })),
    ("text or nothing from 8 s to 9 s", |ms, uw, _| (!(8_000..9_000).contains(&ms)).then_some(uw)),
    ("text or nothing from 8 s to 11 s", |ms, uw, _| (!(8_000..11_000).contains(&ms)).then_some(uw)),
    ("text or nothing from 8 s on", |ms, uw, _| (ms < 8_000).then_some(uw)),
    ("one reading 1 kJ too high", |ms, uw, each| {
        Some(if ms == 8_000 { uw + 1_000_000_000_000 / each } else { uw })
    }),
    ("one reading of 1 MW", |ms, uw, _| Some(if ms == 8_000 { 1_000_000_000_000 } else { uw })),
    ("1,000 times too large", |_, uw, _| Some(uw * 1_000)),
];

/// Sensors of power, and how often each has a new value and is read: one of hwmon as the mean of that time.
const SENSORS: [Meter; 6] = [
    meter("hwmon", "hwmon-power", DomainClass::Package, 50, 50),
    meter("whole server", "hwmon-power", DomainClass::Psys, 50, 50),
    meter("battery or UPS", "battery", DomainClass::Psys, 1_000, 1_000),
    meter("BMC", "bmc", DomainClass::Psys, 1_000, 1_000),
    meter("GPU's power", "nvml", DomainClass::Gpu, 20, 20),
    meter("GPU's use of its limit", "nvml", DomainClass::Gpu, 200, 200),
];

/// What a GPU's sensor is.
fn facts_of(sensor: &Meter) -> Option<GpuMeter> {
    let kind = match sensor.moves {
        20 => GpuMeterKind::InstantPower,
        _ => GpuMeterKind::Utilization,
    };
    let meter = GpuMeter { kind, tick_ns: None, lag_ns: None, window_ns: None, agreement_permille: None };
    (sensor.class == DomainClass::Gpu).then_some(meter)
}

/// What the machine draws, in microwatts, with the noise of a sensor: a milliwatt up and down.
fn noisy(now: u64, sensor: &Meter) -> u64 {
    let uw = if now <= 2_000 { 10_000_000 } else { 25_000_000 };
    if (now / sensor.moves).is_multiple_of(2) { uw - 1_000 } else { uw + 1_000 }
}

/// Sums as a recording has them (`PowerSum`): means, each times the time since the one before; behind a silence they begin again, but a GPU's power.
fn summed(fault: PowerFault, sensor: &Meter) -> Vec<Reading> {
    let silence = (4 * sensor.read).max(2_000);
    let (mut sum_uj, mut last) = (0, 0);
    let mut reading = |now: u64| {
        let shown = fault(now, noisy(now, sensor), sensor.read);
        let value = shown.map(|uw| {
            let silent = now - last > silence;
            sum_uj = match silent {
                false => sum_uj + uw * (now - last) / 1_000,
                // A GPU's power.
                true if sensor.moves == 20 => sum_uj,
                true => 0,
            };
            last = now;
            sum_uj
        });
        Reading { at: ms(now), value: value.map_or(CounterValue::Failed, CounterValue::MicroJoules) }
    };
    (0..=SECONDS * 1_000).step_by(sensor.read as usize).map(&mut reading).collect()
}

/// The same of sensors of power: what one says of a moment is believed or not, and no power is made up for a
/// silence. A sensor that stands still while the program begins to work is found out, one that never shows
/// another value is not. The table is that of the page.
#[test]
fn every_fault_of_a_power_sensor() {
    let mut table = String::from("| power sensor |");
    table += &SENSORS.iter().map(|sensor| format!(" {} |", sensor.title)).collect::<String>();
    table += " said of hwmon's | said of the BMC's | said of a GPU's power | said of its use |\n|---|";
    table += &"---|".repeat(SENSORS.len() + 4);
    for (name, fault) in POWER_FAULTS {
        table += &format!("\n| {name} |");
        let mut all_said = Vec::new();
        for sensor in &SENSORS {
            let mut recording = recording(sensor, FAULTS[0].1);
            recording.readings.insert(DomainId::new(0), summed(fault, sensor));
            recording.gpu_facts.meters.extend(facts_of(sensor).map(|meter| (DomainId::new(0), meter)));
            let domain = recording.domains[0].name.clone();
            let note =
                SourceNote::PowerReadings { domain: domain.clone(), place: String::new(), mean_ns: None };
            recording.header.sources = vec![source(sensor, &domain, vec![note])];
            let profile = attribute(&recording, &Options::default());
            assert_sane(sensor, name, &recording, &profile);
            let said = said(&screen(&profile));
            let said = said.as_deref().and_then(|said| said.split_once(": ")).map_or("–", |(_, said)| said);
            all_said.push(said.to_owned());
            table += &match profile.ledger[0].measured {
                MicroJoules::ZERO => " none |".to_owned(),
                known => format!(" {:.0} J |", known.as_joules()),
            };
        }
        table += &[0, 3, 4, 5].map(|number| format!(" {} |", all_said[number])).concat();
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/counter-faults.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&table), "docs/results/counter-faults.md does not have this table:\n{table}");
}

/// A GPU whose launches nobody can record, as the only meter: no headline of zero joules and no budget that is kept, of the program or of a call,
/// whatever its counter says.
#[test]
fn launches_that_nobody_can_record() {
    let amdgpu = METERS.iter().find(|meter| meter.name == "amdgpu").unwrap();
    let budgets = ["100J".parse(), Budget::of_call("no.such=100J").map(Budget::that_may_be_absent)];
    let budgets = budgets.map(Result::unwrap);
    for (name, fault) in FAULTS {
        let mut recording = recording(amdgpu, fault);
        recording.header.sources = vec![source(amdgpu, "gpu-0", vec![])];
        let profile = attribute(&recording, &Options::default());
        let text = screen(&profile);
        let unknown = ["its energy is not known", "no energy was measured"];
        assert!(unknown.iter().any(|words| text.contains(words)) && !text.contains(" 0 J"), "{name}: {text}");
        let checked = budgets::check(&profile, &budgets);
        assert!(checked.iter().all(|of| of.verdict == Verdict::NotJudged), "{name}: {checked:?}");
    }
}

/// What the machine says of its own limit tells a counter that runs ten times too fast, and does not touch one that is right.
#[test]
fn ten_times_the_limit() {
    for meter in METERS.iter().filter(|meter| !["replay", "host", "battery", "bmc"].contains(&meter.name)) {
        let of = |fault: Fault| {
            let mut recording = recording(meter, fault);
            let domain = recording.domains[0].name.clone();
            let limit = MicroWatts::from_uw(65_000_000);
            let limit = SourceNote::PowerLimit { domain: domain.clone(), limit };
            recording.header.sources = vec![source(meter, &domain, vec![limit])];
            attribute(&recording, &Options::default()).ledger[0].measured.as_uj()
        };
        let ten_times: Fault = |_, uj, _| Some((uj - 900_000_000) * 10);
        assert_eq!([of(FAULTS[0].1), of(ten_times)], [TRUTH_UJ, 0], "{}", meter.title);
    }
}

/// A core's counter may stand still while the core rests, and not while it works, also where nobody knows what it draws at rest.
#[test]
fn a_core_that_works() {
    let known = |fault: Fault| {
        let mut recording = recording(&meter("core", "hwmon", DomainClass::Core, 1, 10), fault);
        recording.domains[0].idle = None;
        let profile = attribute(&recording, &Options::default());
        assert_conserved(&profile);
        let is_doubted = profile.diagnostics.iter().any(|found| found.code() == "counter-doubted");
        (profile.ledger[0].measured.as_uj(), is_doubted)
    };
    let at_rest_nothing: Fault = |ms, _, _| Some(900_000_000 + 15_000 * ms.saturating_sub(2_000));
    assert_eq!(known(at_rest_nothing), (270_000_000, false));
    assert_eq!(known(FAULTS[0].1), (TRUTH_UJ, false));
    let [zero, stands_still] = [1, 3].map(|fault| known(FAULTS[fault].1));
    assert!(zero.1 && stands_still.1, "{zero:?} {stands_still:?}");
    assert!(stands_still.0 <= 170_000_000, "{stands_still:?}");
}

/// Another part of the machine goes on as it was: a memory that not every machine counts is no failure, and one that stands still is.
#[test]
fn other_domains() {
    let with_memory = |fault: Fault| {
        let mut recording = recording(&METERS[0], FAULTS[0].1);
        let memory = Domain {
            id: DomainId::new(1),
            name: "dram-0".to_owned(),
            class: DomainClass::Dram,
            ..recording.domains[0].clone()
        };
        recording.domains.push(memory);
        recording.readings.insert(DomainId::new(1), readings(&METERS[0], fault));
        let profile = attribute(&recording, &Options::default());
        let codes: Vec<&str> = profile.diagnostics.iter().map(|found| found.code()).collect();
        let found = ["not-counted", "counter-doubted"].map(|code| codes.contains(&code));
        assert_eq!(profile.ledger[0].measured.as_uj(), TRUTH_UJ);
        (found, verdict(&profile))
    };
    assert_eq!(with_memory(FAULTS[0].1), ([false, false], Verdict::Exceeded));
    assert_eq!(with_memory(FAULTS[1].1), ([true, false], Verdict::Kept));
    assert_eq!(with_memory(FAULTS[3].1), ([false, true], Verdict::NotJudged));
}
