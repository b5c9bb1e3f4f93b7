//! Runs that are cut into phases: where these begin, what tells them, what is shown of them. Leaves out the cutting itself (`statistics`).

use super::{Phases, Work, count, find, of_work, phase_rows, without_imports};
use crate::By;
use crate::json::{self, JsonOptions};
use crate::summary::{self, SummaryOptions};
use crate::table::{self, TableOptions};
use crate::tests::recording_builder::RecordingBuilder;
use crate::uncertainty::Uncertainties;
use energy_trace_model::ids::StackId;
use energy_trace_model::profile::over_time::{Bins, RowBin};
use energy_trace_model::profile::work::{PerWork, WorkFindings};
use energy_trace_model::profile::{OverTime, Profile};
use energy_trace_model::recording::record::{
    DomainClass, FrameKind, Quality, WorkCounter, WorkReading, WorkSeries, WorkSource, WorkUnits,
};
use energy_trace_model::units::MicroJoules;
use std::time::Duration;

/// What a program does for a time: the number of a stack, and its chance.
type Doing = &'static [(usize, f64)];

/// `main` calls `train`, of which a third is `forward` and the rest `backward`, and `evaluate`, which is `forward` alone; `save` beside.
const STACKS: [&[&str]; 8] = [
    &["main", "train", "forward", "gemm"],
    &["main", "train", "backward", "gemm"],
    &["main", "evaluate", "forward", "gemm"],
    &["main", "save"],
    &["main", "train", "optimizer"],
    &["_start", "__libc_start_main", "app.<module>", "solve"],
    &["_start", "__libc_start_main", "app.<module>"],
    &["clone3", "start_thread", "serve"],
];
const TRAIN: Doing = &[(0, 0.3), (1, 0.5), (3, 0.02), (4, 0.18)];
const EVALUATE: Doing = &[(2, 0.95), (3, 0.05)];

/// A run that does this for so many tenths of a second each, with ten samples in each.
fn run(seed: u64, plan: &[(Doing, u32)], has_energy: bool) -> (Profile, OverTime) {
    let mut random = fastrand::Rng::with_seed(seed);
    let tenths: u32 = plan.iter().map(|(_, tenths)| tenths).sum();
    let mut b = RecordingBuilder::new("train", u64::from(tenths) / 10);
    let process = b.process(7, "train", None);
    let thread = b.thread(process, 7, "train");
    let mut bins: Vec<Vec<RowBin>> = vec![Vec::new(); STACKS.len()];
    let doing = plan.iter().flat_map(|&(doing, tenths)| vec![doing; tenths as usize]);
    for (bin, doing) in (0..).zip(doing) {
        for _ in 0..10 {
            let entries = &mut bins[drawn(&mut random, doing)];
            if entries.last().is_none_or(|last| last.bin != bin) {
                entries.push(RowBin { bin, ..RowBin::default() });
            }
            let entry = entries.last_mut().unwrap();
            entry.time_ns += 10_000_000;
            let uj = if has_energy { random.i64(5_000..15_000) } else { 0 };
            entry.energy[DomainClass::Package] += MicroJoules::from_uj(uj);
        }
    }
    let mut over = OverTime { firsts: vec![0], ..OverTime::default() };
    for (names, entries) in STACKS.iter().zip(bins) {
        let frames: Vec<_> =
            names.iter().map(|name| b.frame(FrameKind::Native, "/bin/train", name)).collect();
        let stack: StackId = b.stack(&frames);
        let (uj, ns) = entries.iter().fold((0, 0), |(uj, ns), entry| {
            (uj + entry.energy[DomainClass::Package].as_uj(), ns + entry.time_ns)
        });
        b.spent(thread, Some(stack), uj, ns / 1_000_000, ns / 10_000_000);
        over.entries.extend(entries);
        over.firsts.push(over.entries.len());
    }
    if has_energy {
        b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    }
    let profile = b.build();
    over.bins = Bins::over(profile.run.start, profile.run.end);
    assert_eq!(over.bins.width_ns(), 100_000_000);
    (profile, over)
}

fn drawn(random: &mut fastrand::Rng, doing: Doing) -> usize {
    let mut left = random.f64();
    let found = doing.iter().find(|(_, chance)| {
        left -= chance;
        left < 0.0
    });
    found.unwrap_or(&doing[0]).0
}

/// The ends of all stretches in tenths of a second, with the number of their phase.
fn ends(profile: &Profile, found: &Phases) -> Vec<(u64, usize)> {
    let of_phase = |(number, phase): (usize, &super::Phase)| {
        let ends = phase.stretches.iter().map(|(_, to)| to.ns_since(profile.run.start) / 100_000_000);
        ends.map(|end| (end, number)).collect::<Vec<_>>()
    };
    let mut ends: Vec<_> = found.found.iter().enumerate().flat_map(of_phase).collect();
    ends.sort_unstable();
    ends
}

/// Training and evaluation by turns are two phases, each limit right to a step, with their joules to the microjoule, and are told by the
/// functions that make the difference; by CPU time where no energy was measured.
#[test]
fn training_and_evaluation() {
    let plan = [(TRAIN, 90), (EVALUATE, 30), (TRAIN, 90), (EVALUATE, 30), (TRAIN, 60)];
    let truth = [(90, 0), (120, 1), (210, 0), (240, 1), (300, 0)];
    for (seed, has_energy) in (0..12).map(|seed| (seed, seed % 3 != 0)) {
        let (profile, over) = run(seed, &plan, has_energy);
        let found = find(&profile, &over);
        let ends = ends(&profile, &found);
        assert_eq!(ends.len(), truth.len(), "seed {seed}: {ends:?}");
        for (found, truth) in ends.iter().zip(truth) {
            assert!(found.0.abs_diff(truth.0) <= 1 && found.1 == truth.1, "seed {seed}: {ends:?}");
        }
        let told: Vec<Vec<&str>> =
            found.found.iter().map(|phase| phase.told_by.iter().map(|by| &*by.function).collect()).collect();
        assert_eq!(told, [["train", "backward", "optimizer"], ["evaluate", "forward", "gemm"]]);
        let sum: MicroJoules = found.found.iter().map(|phase| phase.energy.total()).sum();
        assert_eq!(sum, profile.ledger.iter().map(|row| row.target).sum());
        assert_eq!(found.found.iter().map(|phase| phase.time_ns).sum::<u64>(), 30_000_000_000);
    }
}

/// The page has each phase with its stretches in bins, its joules and what tells it; the summary says how many there are and what shows them.
/// One phase is none.
#[test]
fn page_and_summary() {
    let (mut profile, over) = run(1, &[(TRAIN, 120), (EVALUATE, 60), (TRAIN, 120)], true);
    profile.phases = Some(find(&profile, &over));
    let found = &profile.phases.as_ref().unwrap().found;
    let page = |profile: &Profile, over: &OverTime| {
        let mut out = Vec::new();
        crate::html::write(&mut out, profile, over, &(0..over.bins.count()), false).unwrap();
        let page = String::from_utf8(out).unwrap();
        let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        serde_json::from_str::<serde_json::Value>(data).unwrap()["phases"].clone()
    };
    let shown = page(&profile, &over);
    let ends: Vec<u64> = ends(&profile, &profile.phases.clone().unwrap()).iter().map(|of| of.0).collect();
    assert_eq!(shown[0]["bins"], serde_json::json!([[0, ends[0]], [ends[1], 300]]));
    assert_eq!(
        (&shown[1]["name"], &shown[1]["bins"]),
        (&"phase 2".into(), &serde_json::json!([[ends[0], ends[1]]]))
    );
    assert_eq!(shown[1]["energy"], found[1].energy.total().as_uj());
    assert!(shown[1]["told_by"].as_str().unwrap().contains(" elsewhere: evaluate"), "{shown}");
    let summary = |profile: &Profile| {
        let recording = Some("energy-trace.data".to_owned());
        let phases = profile.phases.as_ref().map_or(0, |phases| phases.found.len());
        let options = SummaryOptions { recording, phases, ..SummaryOptions::default() };
        let mut out = Vec::new();
        summary::write(&mut out, profile, &options).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = summary(&profile);
    assert!(text.contains("2 phases, found from what ran: report --by phase\n"), "{text}");
    assert_eq!(count(&profile, &over), 2);
    let (begins, over) = run(1, &[(EVALUATE, 12), (TRAIN, 288)], true);
    assert_eq!(
        (find(&begins, &over).found.len(), count(&begins, &over)),
        (2, 1),
        "its start is no phase of it"
    );
    let (mut steady, over) = run(1, &[(TRAIN, 300)], true);
    steady.phases = Some(find(&steady, &over));
    assert_eq!((page(&steady, &over), count(&steady, &over)), (serde_json::json!([]), 1));
    assert!(!summary(&steady).contains("phases"));
}

/// A program that always runs the same functions has a phase for each rate at which its joules do its work; none where that is steady.
#[test]
fn rates_of_work() {
    let told = |numbers: &[(u64, f64)]| {
        let (mut profile, over) = run(3, &[(TRAIN, 300)], true);
        let reading = |&(tenths, number): &(u64, f64)| WorkReading {
            at: profile.run.start + Duration::from_millis(100 * tenths),
            within_ns: 0,
            value: Ok(WorkUnits::from_number(number).unwrap()),
        };
        let counter = WorkCounter { name: "token".to_owned(), source: WorkSource::File("/run/n".into()) };
        let series = WorkSeries { counter, readings: numbers.iter().map(reading).collect() };
        let found = WorkFindings::default();
        profile.work = vec![Work { series, stretches: vec![], steps: vec![], found }];
        let found = find(&profile, &over);
        (ends(&profile, &found), found.found[0].told_by.clone())
    };
    let steady: Vec<(u64, f64)> = (0..=60).map(|number| (5 * number, 10.0 * number as f64)).collect();
    assert_eq!(told(&steady), (vec![(300, 0)], vec![]));
    let (ends, told_by) = told(&[(0, 0.0), (50, 500.0), (200, 2_000.0), (250, 2_100.0), (300, 2_200.0)]);
    assert_eq!(ends, [(200, 0), (300, 1)]);
    let [by] = &told_by[..] else { panic!("{told_by:?}") };
    assert!(
        by.function == "[token per joule, of the most]" && by.here > 0.9 && (by.elsewhere - 0.2).abs() < 0.03,
        "{by:?}"
    );
}

/// Each phase has its units with the joules of each, in text, JSON and CSV: its energy is that of the time in which the unit was done, all units are
/// the run's, and the rest is not lost.
#[test]
fn units_of_phases() {
    let (mut profile, over) = run(1, &[(TRAIN, 200), (EVALUATE, 100)], true);
    let reading = |(tenths, number): (u64, u64)| WorkReading {
        at: profile.run.start + Duration::from_millis(100 * tenths),
        within_ns: 0,
        value: Ok(WorkUnits::whole(number)),
    };
    let found = find(&profile, &over);
    let counter = WorkCounter { name: "step".to_owned(), source: WorkSource::Stdout("(.*)".into()) };
    let readings = [(50, 0), (200, 60), (250, 70)].map(reading).to_vec();
    let series = [WorkSeries { counter, readings }];
    profile.work = over.work(&series, &profile.ledger, profile.run.start, profile.run.end);
    let work = profile.work[0].clone();
    let phases = of_work(found, &profile, &over, &work);
    let units: Vec<f64> = phases.found.iter().map(|of| of.units.unwrap().as_number()).collect();
    assert!((units[0] - 60.0).abs() < 0.5 && (units[1] - 10.0).abs() < 0.5, "{units:?}");
    let energy: MicroJoules = phases.found.iter().map(|of| of.energy.total()).sum();
    assert_eq!(energy, work.sum(|of| of.energy).total());
    let done = crate::work::work_named(&profile, "step").unwrap();
    let (all, rest, each) = (done.units, done.rest, phases.found[1].energy.total().as_uj() as f64 / units[1]);
    let mut profile =
        over.within_stretches(profile.clone(), &[(work.stretches[0].from, work.stretches[0].to)]);
    profile.phases = Some(phases);
    profile.per_work = Some(PerWork { name: "step".into(), units: all, rest, ..PerWork::default() });
    let options = TableOptions { by: By::Phase, width: Some(80), ..TableOptions::default() };
    let mut text = Vec::new();
    crate::per_work::write(&mut text, &profile, &options).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("J per step  phase\n") && text.contains("phase 2: 20.0 to 30.0 s\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let mut out = Vec::new();
    let options = JsonOptions { rows: Some((By::Phase, crate::Level::All)), ..JsonOptions::default() };
    json::write(&mut out, &profile, &options).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let (row, work) = (&report["rows"][1], &report["work"][0]);
    assert_eq!(row["phase"]["units"], units[1]);
    assert!((row["self_uj_per_unit"].as_f64().unwrap() / each - 1.0).abs() < 1e-9, "{row} {each}");
    // Joules outside of the stretches are in both lists.
    assert_eq!(work["rest_uj"], report["beside"][0]["self_uj"]);
    let mut lines = Vec::new();
    crate::csv::write_rows(&mut lines, &profile, By::Phase, crate::Level::All).unwrap();
    assert!(String::from_utf8(lines).unwrap().contains(&format!(",{each:.3}\n")));
}

/// A phase is told by what runs in it, or what does not, and never by what starts a program, a thread or a module.
#[test]
fn told_by_no_start() {
    let told = |plan: &[(Doing, u32)]| {
        let (profile, over) = run(2, plan, true);
        let told = |phase: &super::Phase| {
            let of = phase.told_by.iter().map(|by| (by.function.clone(), by.here > by.elsewhere));
            of.collect::<Vec<_>>()
        };
        find(&profile, &over).found.iter().map(told).collect::<Vec<_>>()
    };
    let by = |name: &str, more| vec![(name.to_owned(), more)];
    let (solve, module, serve): (Doing, Doing, Doing) = (&[(5, 1.0)], &[(6, 1.0)], &[(7, 1.0)]);
    assert_eq!(told(&[(solve, 150), (serve, 150)]), [by("solve", true), by("serve", true)]);
    assert_eq!(told(&[(solve, 150), (module, 150)]), [by("solve", true), by("solve", false)]);
}

/// What modules run while others import them is one; what a module runs later is not.
#[test]
fn imports() {
    let is_module = [false, true, true, false];
    assert_eq!(without_imports(vec![0, 1, 3, 2, 3, 2], &is_module), [0, 1, 3, 4]);
    assert_eq!(without_imports(vec![1, 3, 0], &is_module), [1, 3, 0]);
}

/// A steady run is one phase, whatever the draw.
#[test]
fn steady() {
    for seed in 0..10 {
        for doing in [TRAIN, EVALUATE, &[(0, 0.5), (1, 0.5)]] {
            let (profile, over) = run(seed, &[(doing, 300)], seed % 2 == 0);
            let found = find(&profile, &over);
            assert_eq!(ends(&profile, &found), [(300, 0)], "seed {seed}");
            assert_eq!(found.found[0].told_by, []);
        }
    }
}

/// The table says what phases are and what they are not, within 80 columns; the JSON has limits and functions.
#[test]
fn shown() {
    let (mut profile, over) = run(1, &[(TRAIN, 200), (EVALUATE, 100)], true);
    let options = TableOptions { by: By::Phase, width: Some(80), ..TableOptions::default() };
    let text = |profile: &Profile| {
        let mut out = Vec::new();
        table::write(&mut out, profile, &options).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(text(&profile).contains("[whole run]"));
    profile.phases = Some(find(&profile, &over));
    let shown = text(&profile);
    for part in [
        "found from what ran, not marked",
        "phase 1: 0.0 to 20.0 s",
        "phase 2: 20.0 to 30.0 s",
        "95% here, 0% elsewhere: evaluate",
        "right to 0.1 s",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let mut out = Vec::new();
    let options = JsonOptions { rows: Some((By::Phase, crate::Level::All)), ..JsonOptions::default() };
    json::write(&mut out, &profile, &options).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let phase = &report["rows"][1]["phase"];
    assert_eq!(phase["stretches_ns"], serde_json::json!([[20_000_000_000_u64, 30_000_000_000_u64]]));
    assert_eq!(
        (&phase["step_ns"], &phase["told_by"][0]["function"]),
        (&100_000_000.into(), &"evaluate".into())
    );
    assert_eq!(phase_rows(&profile, &Uncertainties::new(&profile)).len(), 2);
    let (mut steady, over) = run(1, &[(TRAIN, 300)], true);
    steady.phases = Some(find(&steady, &over));
    assert!(text(&steady).contains("one phase: nowhere"), "{}", text(&steady));
    assert_eq!(find(&Profile::default(), &OverTime::default()).found.len(), 1);
}
