//! A server with a meter of the whole: two packages, memory and a GPU with counters, and what is left over, to the microjoule.

use super::conservation::{assert_conserved, empty, ms, sample, slice};
use energy_trace_attribution::attribute;
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, ThreadKey, Tid};
use energy_trace_model::profile::{Options, Profile};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CounterValue, Domain, DomainClass, Frame, GpuMeter, GpuMeterKind, IdleBaseline, IdleOrigin, Origin,
    Process, Quality, Reading, Scope, Source, SourceId, SourceNote, StackNode, Thread,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use energy_trace_report::json::{self, JsonOptions};
use energy_trace_report::summary::{self, SummaryOptions};
use energy_trace_report::table::{self, TableOptions};
use energy_trace_tests::report::schema_errors;
use serde_json::Value;

const MS: u64 = 20_000;

/// A domain, its source, and its watts at rest and above that while the program runs, from the third second to the sixteenth.
struct Part {
    name: &'static str,
    class: DomainClass,
    scope: Scope,
    source: SourceId,
    read_ms: u64,
    watts: [u64; 2],
}

const fn part(
    name: &'static str,
    class: DomainClass,
    scope: Scope,
    source: SourceId,
    read_ms: u64,
    watts: [u64; 2],
) -> Part {
    Part { name, class, scope, source, read_ms, watts }
}

fn parts() -> [Part; 5] {
    let socket = |n| Scope::Socket(SocketId::new(n));
    [
        part("package-0", DomainClass::Package, socket(0), SourceId::Powercap, 10, [40, 90]),
        part("package-1", DomainClass::Package, socket(1), SourceId::Powercap, 10, [38, 0]),
        part("dram-0", DomainClass::Dram, socket(0), SourceId::Powercap, 10, [7, 11]),
        part("gpu-0", DomainClass::Gpu, Scope::Gpu(0), SourceId::Nvml, 20, [60, 0]),
        part("server", DomainClass::Psys, Scope::Machine, SourceId::HwmonPower, 1_000, [246, 124]),
    ]
}

impl Part {
    fn uj(&self, now: u64) -> u64 {
        let [idle, active] = self.watts;
        1_000 * (idle * now + active * now.clamp(2_000, 16_000).saturating_sub(2_000))
    }

    fn domain(&self, id: u32) -> Domain {
        let origin = Origin::Counter {
            source: self.source.clone(),
            place: String::new(),
            max_range: None,
            quality: Quality::Measured,
        };
        Domain {
            id: DomainId::new(id),
            name: self.name.into(),
            class: self.class,
            scope: self.scope,
            origin,
            idle: None,
        }
    }

    fn readings(&self) -> Vec<Reading> {
        let reading = |now| Reading { at: ms(now), value: CounterValue::MicroJoules(self.uj(now)) };
        (0..=MS).step_by(self.read_ms as usize).map(reading).collect()
    }
}

fn recording(parts: &[Part]) -> Recording {
    let mut recording = empty((0..).zip(parts).map(|(id, part)| part.domain(id)).collect(), ms(0), ms(MS));
    recording.header.command = vec!["program".to_owned()];
    for (id, part) in (0..).zip(parts) {
        recording.readings.insert(DomainId::new(id), part.readings());
        let domains = vec![part.name.to_owned()];
        let (ignored, notes) = (Vec::new(), Vec::new());
        recording.header.sources.push(Source {
            id: part.source.clone(),
            domains,
            period_ns: 0,
            quality: Quality::Measured,
            ignored,
            notes,
        });
    }
    let (process, tid, pid, name) = (ProcessKey::new(0), Tid::new(7), Pid::new(7), "program".to_owned());
    recording.processes =
        vec![Process { key: process, pid, parent: None, name: name.clone(), command: vec![], runtime: None }];
    recording.threads = vec![Thread { key: ThreadKey::new(0), process, tid, name }];
    recording.frames = vec![Frame::special("work")];
    recording.stacks = vec![StackNode { parent: None, frame: FrameId::new(0) }];
    recording.slices = vec![slice(0, Some(0), ms(2_000), ms(16_000))];
    recording.samples = (2_005..16_000).step_by(10).map(|at| sample(0, 0, ms(at))).collect();
    recording
}

fn json(profile: &Profile) -> Value {
    let mut out = Vec::new();
    json::write(&mut out, profile, &JsonOptions::default()).unwrap();
    let value: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(schema_errors(&value), [""; 0]);
    value
}

fn screens(profile: &Profile) -> [String; 2] {
    let (mut first, mut whole) = (Vec::new(), Vec::new());
    summary::write(&mut first, profile, &SummaryOptions::default()).unwrap();
    table::write(&mut whole, profile, &TableOptions::default()).unwrap();
    [first, whole].map(|out| String::from_utf8(out).unwrap())
}

/// The meter's joules are the counters' and the rest, exactly; the program's total is that of the counters, not of the meter; and both screens
/// say how much of the server is explained.
#[test]
fn nothing_is_added_twice() {
    let profile = attribute(&recording(&parts()), &Options::default());
    assert_conserved(&profile);
    let measured = |name: &str| profile.ledger.iter().find(|row| row.domain == name).unwrap().measured;
    for part in parts() {
        let error = measured(part.name).as_uj() as f64 / part.uj(MS) as f64 - 1.0;
        assert!(error.abs() < 0.005, "{}: {error}", part.name);
    }
    let value = json(&profile);
    let whole = &value["meta"]["whole"];
    let uj = |key: &str| MicroJoules::from_uj(whole[key].as_i64().unwrap());
    let counters =
        ["package-0", "package-1", "dram-0", "gpu-0"].map(measured).into_iter().sum::<MicroJoules>();
    assert_eq!((uj("measured_uj"), uj("explained_uj")), (measured("server"), counters));
    assert_eq!(uj("rest_uj") + counters, measured("server"));
    let [first, table] = screens(&profile);
    let sentence = "the machine drew 333 W (server), of which CPU, DRAM and GPU counters explain 64.8%";
    assert!(first.contains(sentence), "{first}");
    assert!(table.contains(sentence) && table.contains("rest of server"), "{table}");
    let total: MicroJoules =
        profile.ledger.iter().filter(|row| row.class.adds_up()).map(|row| row.target).sum();
    assert!(first.lines().nth(1).unwrap().contains(&format!("{:.0} J", total.as_joules())), "{first}");
}

/// Without counters the meter is all there is, and what a report leads with; a log of a meter is an outer line, RAPL's psys is none.
#[test]
fn a_meter_alone_and_psys() {
    let [.., server] = parts();
    let profile = attribute(&recording(&[server]), &Options::default());
    assert!(json(&profile)["meta"].get("whole").is_none());
    let [first, _] = screens(&profile);
    assert!(first.contains("from power sensors") && first.contains("whole"), "{first}");
    let mut with_psys = parts();
    with_psys[4].source = SourceId::Replay;
    let profile = attribute(&recording(&with_psys), &Options::default());
    assert!(screens(&profile)[0].contains("the machine drew"));
    with_psys[4].source = SourceId::Powercap;
    let profile = attribute(&recording(&with_psys), &Options::default());
    assert!(json(&profile)["meta"].get("whole").is_none());
    assert!(!screens(&profile)[0].contains("the machine drew"));
}

/// The number behind a name in a table.
fn shown(table: &str, name: &str) -> f64 {
    let line = table.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {table}"));
    let number = line.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    number.unwrap_or_else(|| panic!("{table}"))
}

/// Two modules each hold their package, and that its cores: each of the four has a rest of its own, and the leaves are the modules' joules exactly.
#[test]
fn modules_and_cores() {
    let socket = |n| Scope::Socket(SocketId::new(n));
    let core = |cpu| Scope::Core(CpuId::new(cpu), CpuId::new(cpu));
    let parts = [
        part("package-0", DomainClass::Package, socket(0), SourceId::HwmonPower, 50, [6, 11]),
        part("package-1", DomainClass::Package, socket(1), SourceId::HwmonPower, 50, [5, 0]),
        part("core-0", DomainClass::Core, core(0), SourceId::Hwmon, 10, [1, 9]),
        part("core-1", DomainClass::Core, core(1), SourceId::Hwmon, 10, [1, 0]),
        part("module-0", DomainClass::Psys, socket(0), SourceId::HwmonPower, 50, [15, 13]),
        part("module-1", DomainClass::Psys, socket(1), SourceId::HwmonPower, 50, [9, 0]),
    ];
    let profile = attribute(&recording(&parts), &Options::default());
    assert_conserved(&profile);
    let measured = |name: &str| profile.ledger.iter().find(|row| row.domain == name).unwrap().measured;
    let value = json(&profile);
    let held: Vec<_> = value["ledger"].as_array().unwrap().iter().map(|row| &row["holds"]).collect();
    let [core, package] =
        ["core", "package"].map(|name| [0, 1].map(|n| serde_json::json!([format!("{name}-{n}")])));
    assert_eq!(held, [&core[0], &core[1], &Value::Null, &Value::Null, &package[0], &package[1]]);
    let whole = &value["meta"]["whole"];
    let [first, table] = screens(&profile);
    let rest = MicroJoules::from_uj(whole["rest_uj"].as_i64().unwrap_or_else(|| panic!("{first}")));
    assert_eq!(whole["domains"], serde_json::json!(["module-0", "module-1"]));
    let both = |name: &str| measured(&format!("{name}-0")) + measured(&format!("{name}-1"));
    assert_eq!(rest + both("package"), both("module"));
    for (outer, inner) in [("package", "core"), ("module", "package")] {
        for n in 0..2 {
            let rest = measured(&format!("{outer}-{n}")) - measured(&format!("{inner}-{n}"));
            let row = shown(&table, &format!("rest of {outer}-{n}"));
            assert!((row - rest.as_joules()).abs() < 1.0, "{outer}-{n}: {table}");
        }
    }
}

/// Of a GPU that has only its module's counter, the joules are what package and memory leave of that: the total is the module's, once, also below a
/// server's meter and beside a sensor of the module. What the CPU draws in it is not the kernels'.
#[test]
fn a_gpu_that_counts_its_module() {
    let socket = Scope::Socket(SocketId::new(0));
    let domains = [
        part("package-0", DomainClass::Package, Scope::Machine, SourceId::HwmonPower, 50, [40, 60]),
        part("dram-0", DomainClass::Dram, Scope::Machine, SourceId::HwmonPower, 50, [10, 5]),
        part("gpu-0", DomainClass::Gpu, Scope::Gpu(0), SourceId::Nvml, 100, [150, 165]),
        part("module-0", DomainClass::Psys, socket, SourceId::HwmonPower, 50, [149, 165]),
        part("server", DomainClass::Psys, Scope::Machine, SourceId::Bmc, 1_000, [250, 183]),
    ];
    for parts in [&domains[..3], &domains[..4], &domains[..]] {
        let mut run = recording(parts);
        let meter = GpuMeter {
            kind: GpuMeterKind::ModuleCounter,
            tick_ns: None,
            lag_ns: None,
            window_ns: None,
            agreement_permille: None,
        };
        run.gpu_facts.meters.insert(DomainId::new(2), meter);
        for (place, watts) in [(0, 40), (1, 10), (2, 150)] {
            let (power, origin) = (MicroWatts::from_uw(watts * 1_000_000), IdleOrigin::Given);
            run.domains[place].idle = Some(IdleBaseline { power, origin });
        }
        let profile = attribute(&run, &Options::default());
        assert_conserved(&profile);
        let row = |name: &str| profile.ledger.iter().find(|row| row.domain == name).unwrap();
        let total: MicroJoules =
            profile.ledger.iter().filter(|row| row.class.adds_up()).map(|row| row.measured).sum();
        assert_eq!(total, MicroJoules::from_uj(parts[2].uj(MS) as i64));
        // The GPU draws 100 W at rest and 100 W more.
        let gpu = row("gpu-0");
        let joules = |energy: MicroJoules| energy.as_joules();
        assert!((joules(gpu.measured) - 3_400.0).abs() < 1.0, "{gpu:?}");
        assert!((joules(gpu.idle) - 2_000.0).abs() < 1.0 && gpu.quality == Quality::Measured, "{gpu:?}");
        let [first, table] = screens(&profile);
        let said = "gpu-0: its module's counter less package-0 and dram-0";
        assert!(table.contains(said) && !table.contains("rest of module"), "{table}");
        assert!(!first.contains("one of them is wrong"), "{first}");
        if parts.len() == 5 {
            let rest = row("server").measured - total;
            assert!((shown(&table, "rest of server") - rest.as_joules()).abs() < 1.0, "{table}");
        }
    }
}

/// A server's meter holds a module, which holds its package and the GPU that is soldered to it, and a GPU beside: each level's rest has a row,
/// all of it is the meter's to the microjoule, and a function's part of the meter is not counted twice.
#[test]
fn a_module_below_a_server() {
    let socket = Scope::Socket(SocketId::new(0));
    let gpu = |n| Scope::Gpu(n);
    let parts = [
        part("package-0", DomainClass::Package, socket, SourceId::HwmonPower, 50, [20, 60]),
        part("gpu-0", DomainClass::Gpu, gpu(0), SourceId::Nvml, 20, [90, 0]),
        part("gpu-1", DomainClass::Gpu, gpu(1), SourceId::Other("card".to_owned()), 20, [35, 0]),
        part("module-0", DomainClass::Psys, socket, SourceId::HwmonPower, 50, [130, 71]),
        part("server", DomainClass::Psys, Scope::Machine, SourceId::Bmc, 1_000, [250, 83]),
    ];
    let mut run = recording(&parts);
    run.header.sources[1].notes.push(SourceNote::MayIncludeCpu { domain: "gpu-0".to_owned() });
    let profile = attribute(&run, &Options::default());
    assert_conserved(&profile);
    let row = |name: &str| profile.ledger.iter().find(|row| row.domain == name).unwrap();
    let measured = |name: &str| row(name).measured;
    let value = json(&profile);
    assert_eq!(value["meta"]["whole"]["domains"], serde_json::json!(["server"]));
    let rest = MicroJoules::from_uj(value["meta"]["whole"]["rest_uj"].as_i64().unwrap());
    let in_module = measured("module-0") - measured("package-0") - measured("gpu-0");
    let beside = measured("server") - measured("module-0") - measured("gpu-1");
    assert_eq!(rest, in_module + beside);
    assert_eq!(row("module-0").target, MicroJoules::ZERO);
    let psys: i64 = profile.rows.iter().map(|row| row.energy[DomainClass::Psys].as_uj()).sum();
    assert_eq!(psys, row("server").target.as_uj());
    let [first, table] = screens(&profile);
    assert!(first.contains("(server), of which CPU and GPU counters explain"), "{first}");
    assert!(table.contains("module-0: ") && table.contains("which is split instead"), "{table}");
    // Of launches only a GPU is told.
    let launches: Vec<_> =
        profile.diagnostics.iter().filter(|found| found.code() == "gpu-unattributed").collect();
    assert!(
        launches.len() == 2 && launches.iter().all(|found| !format!("{found:?}").contains("module")),
        "{launches:?}"
    );
    for (name, joules) in [("rest of server", beside), ("rest of module-0", in_module)] {
        assert!((shown(&table, name) - joules.as_joules()).abs() < 1.0, "{table}");
    }
}

/// Whether the program runs at a moment: bursts of half a second to two, with rests as irregular.
fn runs(now: u64) -> bool {
    let mut from = 0;
    (0..)
        .map(|n: u64| 500 + n * 7_919 % 1_511)
        .map(|length| {
            from += length;
            from
        })
        .take_while(|end| *end <= now)
        .count()
        % 2
        == 1
}

/// A meter that shows a mean of half a second, 0.7 s late, is found to be late by what its energy says of the program's bursts; a counter is not asked.
#[test]
fn a_late_meter() {
    let late = |source: SourceId| {
        let [.., server] = parts();
        let mut recording = recording(&[Part { source, ..server }]);
        let watts = |now: u64| if runs(now) { 300 } else { 200 };
        let mut uj = vec![0];
        (0..MS).for_each(|now| uj.push(uj[now as usize] + 1_000 * watts(now)));
        let shown = |now: u64| uj[now.saturating_sub(700) as usize];
        let reading = |now| Reading { at: ms(now), value: CounterValue::MicroJoules(shown(now)) };
        let readings: Vec<Reading> = (0..=MS).step_by(500).map(reading).collect();
        recording.readings.insert(DomainId::new(0), readings);
        recording.slices = (0..MS)
            .step_by(10)
            .filter(|now| runs(*now))
            .map(|now| slice(0, Some(0), ms(now), ms(now + 10)))
            .collect();
        recording.samples =
            (5..MS).step_by(10).filter(|now| runs(*now - 5)).map(|now| sample(0, 0, ms(now))).collect();
        let profile = attribute(&recording, &Options::default());
        assert_conserved(&profile);
        profile.diagnostics.iter().any(|found| found.code() == "meter-lag")
    };
    assert!(late(SourceId::HwmonPower) && late(SourceId::Battery));
    assert!(!late(SourceId::Perf));
}

/// A meter that was read for a part of the run, and one that shows less than its parts draw, explain nothing: only what it drew is said.
#[test]
fn what_cannot_be_compared() {
    let mut cut = recording(&parts());
    cut.readings.get_mut(&DomainId::new(4)).unwrap().retain(|reading| reading.at <= ms(12_000));
    let low = recording(&parts().map(|part| match part.name {
        "server" => Part { watts: [100, 20], ..part },
        _ => part,
    }));
    let said = ["in the 12.0 s of 20.0 s in which that was measured", "less than counters of its parts show"];
    for (recording, said) in [cut, low].iter().zip(said) {
        let profile = attribute(recording, &Options::default());
        assert_conserved(&profile);
        assert_eq!(json(&profile)["meta"].get("whole"), None);
        let [first, table] = screens(&profile);
        assert!(first.contains(said) && !first.contains("explain"), "{first}");
        assert!(table.contains(said) && !table.contains("rest of server"), "{table}");
    }
}
