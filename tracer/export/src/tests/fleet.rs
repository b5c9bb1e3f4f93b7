//! Tables of a fleet: what engines sum is the recording's, to the microjoule, and a second export is the
//! first.

use super::parquet::{self, Cell};
use super::recording_builder::RecordingBuilder;
use super::training_runs::{gpu_training, measured_training};
use super::{export, over_time, target};
use crate::fleet::{AgentFacts, Fleet};
use crate::{ExportOptions, Format, Input, Object};
use energy_trace_model::ids::ProcessKey;
use energy_trace_model::profile::UnattributedReason::{CounterDoubted, NoLaunchData, SensorBlindSpot};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::profile::work::Work;
use energy_trace_model::profile::{LedgerRow, PartOfProfile, Profile, UnattributedReason};
use energy_trace_model::recording::record::{
    DomainClass, FrameKind, Host, Quality, WorkCounter, WorkReading, WorkSeries, WorkSource, WorkUnits,
};
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

type Columns = BTreeMap<String, Vec<Cell>>;

/// 2026-08-01T23:59:59.97Z: three hundredths of a second before another minute, and another day.
const ALMOST_MIDNIGHT_NS: u64 = 1_785_628_799_970_000_000;

fn objects(profile: &Profile, is_over_time: bool) -> Vec<Object> {
    let over_time = is_over_time.then(|| over_time(profile));
    let bins = over_time.as_ref().map_or(0..0, |over_time| 0..over_time.bins.count());
    let input = Input { profile, over_time: over_time.as_ref(), bins };
    Format::named("parquet-fleet").unwrap().objects(&input, &ExportOptions::default()).unwrap()
}

/// The tables of an agent's window.
fn objects_of_agent(profile: &Profile, facts: AgentFacts) -> Vec<Object> {
    let mut fleet = Fleet::of_agent(facts);
    fleet.add(&Input { profile, over_time: None, bins: 0..0 }, &ExportOptions::default()).unwrap();
    fleet.objects().unwrap()
}

/// The rows of a table, of all days.
fn table(objects: &[Object], name: &str) -> Columns {
    let mut all = Columns::new();
    for object in objects.iter().filter(|object| object.key.starts_with(&format!("{name}/"))) {
        for (column, cells) in parquet::columns(&object.bytes) {
            all.entry(column).or_default().extend(cells);
        }
    }
    all
}

fn known(mut profile: Profile) -> Profile {
    profile.run.host =
        Some(Host { name: "node7".into(), boot: "3f2a1b4c-99aa-4b5c-8d7e-0123456789ab".into() });
    profile
}

/// Rows sum to what programs were charged with, a ledger's parts to what was measured, by window and class,
/// however the run is cut.
#[test]
fn every_sum_is_exact() {
    for mut profile in [known(measured_training()), known(gpu_training(true))] {
        for anchor in [profile.run.header.anchor.unix_ns, ALMOST_MIDNIGHT_NS] {
            profile.run.header.anchor.unix_ns = anchor;
            for is_over_time in [false, true] {
                let objects = objects(&profile, is_over_time);
                let (energy, ledger) = (table(&objects, "energy"), table(&objects, "ledger"));
                assert_eq!(parquet::sum(&energy["microjoules"]), target(&profile));
                let parts = ["target", "other", "idle", "uncore", "residual", "unattributed"];
                let parts = parts.map(|part| parquet::sum(&ledger[&format!("{part}_uj")]));
                let measured = parquet::sum(&ledger["measured_uj"]);
                // The bins of this test have a part of the ledger alone, and not where the rows are.
                if !is_over_time {
                    assert_eq!(parts.iter().sum::<i64>(), measured);
                    let of_rows = by_window_and_class(&energy, "microjoules");
                    assert_eq!(of_rows, by_window_and_class(&ledger, "target_uj"));
                }
                let of_ledger = profile.ledger.iter().filter(|row| row.class.adds_up());
                assert_eq!(measured, of_ledger.map(|row| row.measured.as_uj()).sum::<i64>());
                let time: u64 = profile.rows.iter().map(|row| row.time_ns).sum();
                let samples: u64 = profile.rows.iter().map(|row| row.samples).sum();
                assert_eq!(parquet::sum(&energy["cpu_ns"]).cast_unsigned(), time);
                assert_eq!(parquet::sum(&energy["samples"]).cast_unsigned(), samples);
            }
        }
    }
}

/// Where nothing of a domain was read its parts are missing, and no zeros; the table says why.
#[test]
fn missing_is_no_zero() {
    let mut profile = known(gpu_training(true));
    let name = profile.ledger[0].domain.clone();
    let all = DomainDiagnostic::NoReading { missing_ns: 5, of_ns: 5, reasons: BTreeMap::new() };
    profile.diagnostics.push(Diagnostic::Domain { domain: name.clone(), what: all });
    let is_missing = |profile: &Profile| {
        let ledger = table(&objects(profile, false), "ledger");
        let rows = ledger["domain"].iter().zip(&ledger["measured_uj"]).zip(&ledger["warnings"]);
        let of = rows.filter(|((domain, _), _)| **domain == Cell::Text(name.clone()));
        of.map(|((_, uj), why)| (*uj == Cell::Missing, format!("{why:?}").contains("no-reading"))).collect()
    };
    let whole: Vec<(bool, bool)> = is_missing(&profile);
    assert_eq!(whole, [(false, true)], "it has energy all the same");
    let row = &mut profile.ledger[0];
    *row = LedgerRow::empty(name.clone(), row.class, row.quality);
    assert_eq!(is_missing(&profile), [(true, true)]);
}

/// What nobody has stands by its reason, with a row more for each further one: each row adds up, and so do all.
#[test]
fn nobodys_energy_has_its_reason() {
    for is_over_time in [false, true] {
        let mut profile = known(measured_training());
        let before = table(&objects(&profile, is_over_time), "ledger");
        let reasons = [(NoLaunchData, 5), (SensorBlindSpot, 0), (CounterDoubted, 70)];
        let reasons = reasons.map(|(reason, uj)| (reason, MicroJoules::from_uj(uj)));
        let mut over_time = over_time(&profile);
        let (row, bin) = (&mut profile.ledger[0], &mut over_time.domains[0][0]);
        (row.unattributed, bin.unattributed) = (reasons.into(), reasons.into());
        row.measured += MicroJoules::from_uj(75);
        bin.measured += MicroJoules::from_uj(75);
        let domain = Cell::Text(row.domain.clone());
        let bins = if is_over_time { 0..over_time.bins.count() } else { 0..0 };
        let input = Input { profile: &profile, over_time: is_over_time.then_some(&over_time), bins };
        let objects = Format::named("parquet-fleet").unwrap().objects(&input, &ExportOptions::default());
        let ledger = table(&objects.unwrap(), "ledger");
        let of = |reason: UnattributedReason| {
            let of_row = [domain.clone(), Cell::Text(reason.name().into())];
            let rows =
                ledger["domain"].iter().zip(&ledger["unattributed_reason"]).zip(&ledger["unattributed_uj"]);
            let rows = rows.filter(|((domain, reason), _)| [*domain, *reason] == of_row.each_ref());
            rows.map(|(_, uj)| uj.clone()).collect()
        };
        let found: [Vec<Cell>; 3] = [NoLaunchData, SensorBlindSpot, CounterDoubted].map(of);
        assert_eq!(found, [vec![Cell::Number(5)], vec![], vec![Cell::Number(70)]]);
        let sum = |ledger: &Columns, column: &str| parquet::sum(&ledger[column]);
        assert_eq!(sum(&ledger, "measured_uj"), sum(&before, "measured_uj") + 75);
        assert_eq!(ledger["host"].len(), before["host"].len() + 1);
    }
}

/// What only an agent knows stands in its ledger: windows that were removed once, the clock in every row; of a recording it is missing.
#[test]
fn facts_of_an_agent() {
    let profile = known(gpu_training(true));
    let of = |ledger: &Columns| {
        ["removed_windows", "clock_step_ns", "clock_error_ns"].map(|column| {
            let cells = ledger[column].iter().filter(|cell| **cell != Cell::Missing);
            cells.cloned().collect::<Vec<_>>()
        })
    };
    assert_eq!(of(&table(&objects(&profile, false), "ledger")), [vec![], vec![], vec![]]);
    let facts = AgentFacts { clock_step_ns: Some(-7), removed_windows: Some(3), ..AgentFacts::default() };
    let ledger = table(&objects_of_agent(&profile, facts), "ledger");
    let rows = ledger["host"].len();
    assert!(rows > 1);
    assert_eq!(of(&ledger), [vec![Cell::Number(3)], vec![Cell::Number(-7); rows], vec![]]);
}

/// Microjoules by window and class, where there are any.
fn by_window_and_class(table: &Columns, column: &str) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for ((start, class), uj) in table["window_start"].iter().zip(&table["class"]).zip(&table[column]) {
        *sums.entry(format!("{start:?} {class:?}")).or_default() += parquet::sum(std::slice::from_ref(uj));
    }
    sums.retain(|_, uj| *uj != 0);
    sums
}

/// The same recording gives the same objects; a run over midnight one of each day, with its own first window.
#[test]
fn keys_and_bytes_stay() {
    let mut profile = known(measured_training());
    profile.run.header.anchor.unix_ns = ALMOST_MIDNIGHT_NS;
    let once = objects(&profile, true);
    assert_eq!(once, objects(&profile, true));
    let keys: Vec<&str> = once.iter().map(|object| object.key.as_str()).collect();
    assert_eq!(keys[0], "energy/date=2026-08-01/node7-3f2a1b4c99aa-0000000005000.parquet");
    assert_eq!(keys[7], "work/date=2026-08-02/node7-3f2a1b4c99aa-0000000005050.parquet");
    assert_eq!(keys.len(), 8);
}

/// Every stack of `energy` is in `stacks` once, with its frames; its number does not hang on the machine.
#[test]
fn stacks_are_known_once() {
    let objects = objects(&known(measured_training()), true);
    let (energy, stacks) = (table(&objects, "energy"), table(&objects, "stacks"));
    let mut numbers = Vec::new();
    for ((number, frames), function) in
        stacks["stack_id"].iter().zip(&stacks["frames"]).zip(&stacks["function"])
    {
        let Cell::Texts(frames) = frames else { panic!("{frames:?}") };
        assert_eq!(frames.last().map(|last| Cell::Text(last.clone())), Some(function.clone()));
        numbers.push(format!("{number:?}"));
    }
    let mut once = numbers.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), numbers.len());
    assert!(energy["stack_id"].iter().all(|number| once.contains(&format!("{number:?}"))));
    assert!(stacks["api_call"].contains(&Cell::Text("torch.autograd.backward".into())), "{stacks:?}");
}

/// Stacks are those of `--format parquet`, by the same numbers, also where frames are folded.
#[test]
fn stacks_are_those_of_the_other_table() {
    let mut b = RecordingBuilder::new("python3 x.py", 1);
    let process = b.process(7, "python3", Some("3.11.2"));
    let thread = b.thread(process, 7, "python3");
    let main = b.python("x", "main", "x.py", 1);
    let interpreter = b.frame(FrameKind::Native, "/usr/bin/python3.11", "_PyEval_EvalFrameDefault");
    let (inner, outer) = (b.stack(&[main, interpreter]), b.stack(&[interpreter, main]));
    b.spent(thread, Some(inner), 5, 900, 90);
    b.spent(thread, Some(outer), 7, 900, 90);
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    let profile = known(b.build());
    let numbers = |columns: &Columns, name: &str| {
        let mut numbers: Vec<String> = columns[name].iter().map(|number| format!("{number:?}")).collect();
        numbers.sort();
        numbers.dedup();
        numbers
    };
    let other = parquet::columns(&export(&profile, "parquet", ExportOptions::default()));
    assert_eq!(numbers(&table(&objects(&profile, true), "energy"), "stack_id"), numbers(&other, "stack"));
}

const POD: &str = "7f1d2e3c-0a1b-4c5d-8e9f-001122334455";

/// A run of a pod's process, its child, and a job's rank.
pub(super) fn workloads() -> Profile {
    let mut b = RecordingBuilder::new("x", 1);
    let frame = b.frame(FrameKind::Native, "/x", "work");
    let stack = b.stack(&[frame]);
    for (pid, uj) in [(7, 1), (8, 20), (9, 300), (10, 4_000)] {
        let process = b.process(pid, "x", None);
        let thread = b.thread(process, pid, "x");
        b.spent(thread, Some(stack), uj, 900, 90);
    }
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    let mut profile = known(b.build());
    profile.processes[1].parent = Some(ProcessKey::new(0));
    let pod = format!("/kubepods/pod{POD}/web");
    profile.control_groups.insert(ProcessKey::new(0), pod);
    profile.control_groups.insert(ProcessKey::new(2), "/slurm/uid_0/job_6/step_0/task_3".into());
    profile
}

fn of_workloads(profile: &Profile, column: &str) -> Vec<(Cell, i64)> {
    let energy = table(&objects(profile, false), "energy");
    let uj = energy["microjoules"].iter().map(|uj| parquet::sum(std::slice::from_ref(uj)));
    energy[column].iter().cloned().zip(uj).collect()
}

/// A child is its parent's workload's; jobs and ranks are those of the control group.
#[test]
fn rows_have_their_workload() {
    let profile = workloads();
    let nobody = Cell::Missing;
    let mut containers = of_workloads(&profile, "container_id");
    containers.sort_by_key(|(_, uj)| *uj);
    let web = Cell::Text("web".into());
    assert_eq!(containers, [(web, 21), (nobody.clone(), 300), (nobody.clone(), 4_000)]);
    let mut ranks = of_workloads(&profile, "rank");
    ranks.sort_by_key(|(_, uj)| *uj);
    assert_eq!(ranks, [(nobody.clone(), 21), (Cell::Number(3), 300), (nobody, 4_000)]);
}

/// Pods have the namespace that an agent knows; nobody else has one.
#[test]
fn rows_have_their_namespace() {
    let profile = workloads();
    assert!(of_workloads(&profile, "namespace").iter().all(|(name, _)| *name == Cell::Missing));
    let namespaces = [(POD, "shop"), ("another", "x")].map(|(pod, name)| (pod.to_owned(), name.to_owned()));
    let facts = AgentFacts { namespaces: namespaces.into(), ..AgentFacts::default() };
    let energy = table(&objects_of_agent(&profile, facts), "energy");
    let of = |pod: &Cell| if *pod == Cell::Missing { Cell::Missing } else { Cell::Text("shop".into()) };
    assert_eq!(energy["namespace"], energy["pod_uid"].iter().map(of).collect::<Vec<_>>());
    assert!(energy["namespace"].contains(&Cell::Text("shop".into())));
}

/// Of a merged recording each part has its rank; of several machines it is refused.
#[test]
fn merged_recordings() {
    let mut profile = workloads();
    let part = |processes, rank| PartOfProfile { label: String::new(), processes, rank };
    profile.parts = vec![part(0..2, Some(0)), part(2..4, Some(1))];
    let ranks = of_workloads(&profile, "rank");
    assert!(
        ranks.contains(&(Cell::Number(1), 4_000)) && ranks.contains(&(Cell::Number(3), 300)),
        "{ranks:?}"
    );
    profile.run.host = None;
    let input = Input { profile: &profile, over_time: None, bins: 0..0 };
    let refused = Fleet::default().add(&input, &ExportOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("several machines"));
}

/// Names of control groups hold nothing that a terminal obeys, and windows of an agent stand one behind the
/// other.
#[test]
fn windows_are_added() {
    let mut profile = workloads();
    profile.control_groups.insert(ProcessKey::new(3), "/system.slice/a\u{1b}[2J.service".into());
    let mut fleet = Fleet::default();
    for _ in 0..2 {
        let input = Input { profile: &profile, over_time: None, bins: 0..0 };
        fleet.add(&input, &ExportOptions::default()).unwrap();
    }
    let energy = table(&fleet.objects().unwrap(), "energy");
    assert_eq!(parquet::sum(&energy["microjoules"]), 2 * 4_321);
    assert!(energy["unit"].contains(&Cell::Text("a\\x1b[2J.service".into())), "{:?}", energy["unit"]);
}

/// Units of work stand in the windows in which they were done.
#[test]
fn units_of_work() {
    let mut profile = workloads();
    let (start, end) = (profile.run.start, profile.run.end);
    let reading = |(at, units)| WorkReading { at, within_ns: 0, value: Ok(WorkUnits::whole(units)) };
    let readings = [(start, 2), (start.midpoint(end), 5), (end, 9)].map(reading).to_vec();
    let counter = WorkCounter { name: "token".into(), source: WorkSource::File("/x".into()) };
    profile.work = vec![Work::of(WorkSeries { counter, readings })];
    let work = |is_over_time| table(&objects(&profile, is_over_time), "work");
    assert_eq!(
        (&work(false)["work"], &work(false)["units"]),
        (&vec![Cell::Text("token".into())], &vec![Cell::Real(7.0)])
    );
    assert_eq!(work(false)["window_start"], table(&objects(&profile, false), "ledger")["window_start"]);
    assert_eq!(parquet::sum_of_reals(&work(true)["units"]), 7.0);
    profile.work.clear();
    assert!(table(&objects(&profile, false), "work").is_empty());
}

/// Beyond so many the smallest stacks are one, by a name of its own, and every sum stays.
#[test]
fn too_many_stacks() {
    let mut b = RecordingBuilder::new("x", 1);
    let process = b.process(7, "x", None);
    let thread = b.thread(process, 7, "x");
    for number in 1..=50 {
        let frame = b.frame(FrameKind::Native, "/x", &format!("work_{number}"));
        let stack = b.stack(&[frame]);
        b.spent(thread, Some(stack), number, 900, 90);
    }
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    let profile = known(b.build());
    let mut fleet = Fleet::default();
    let input = Input { profile: &profile, over_time: None, bins: 0..0 };
    fleet.add(&input, &ExportOptions::default()).unwrap();
    assert_eq!((fleet.limit_stacks(50), fleet.limit_stacks(10)), (0, 40));
    let objects = fleet.objects().unwrap();
    let (energy, stacks) = (table(&objects, "energy"), table(&objects, "stacks"));
    assert_eq!(parquet::sum(&energy["microjoules"]), 50 * 51 / 2);
    assert_eq!((energy["stack_id"].len(), stacks["stack_id"].len()), (11, 11));
    let functions = &stacks["function"];
    assert!(
        functions.contains(&Cell::Text("[other stacks]".into()))
            && functions.contains(&Cell::Text("work_41".into()))
    );
    assert!(!functions.contains(&Cell::Text("work_40".into())), "{functions:?}");
    assert!(energy["microjoules"].contains(&Cell::Number(40 * 41 / 2)));
}
