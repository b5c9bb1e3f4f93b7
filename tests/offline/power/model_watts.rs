//! The model's watts against published results of servers whose CPUs set none of them
//! (`fixtures/server_watts/held_out.csv`).
//!
//! The table that this makes stands in `docs/results/model-watts.md`.

use super::machines::lay_out;
use energy_trace_model::recording::record::{Origin, RANGE_OF_CODE, Source, SourceNote};
use energy_trace_power::{self as power, PowerPlan};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A published result: watts of a logical CPU of a server at rest and at full load.
struct Published {
    cpu: String,
    says: String,
    idle: f64,
    busy: f64,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn held_out() -> Vec<Published> {
    let mut reader = csv::Reader::from_path(fixture("tests/fixtures/server_watts/held_out.csv")).unwrap();
    let rows = reader.records().map(|row| {
        let row = row.unwrap();
        let number = |at: usize| row[at].parse().unwrap();
        Published { cpu: row[0].to_owned(), says: row[1].to_owned(), idle: number(3), busy: number(4) }
    });
    rows.collect()
}

/// What the model takes for a CPU that says so of itself: its kind, watts at rest and busy, and the range of
/// these.
struct Taken {
    kind: String,
    idle: f64,
    busy: f64,
    range: [f64; 2],
}

fn model_of(says: &str) -> Taken {
    let sysfs = tempfile::tempdir().unwrap();
    let cpus = sysfs.path().join("devices/system/cpu");
    let file = if says.starts_with("0x") { "cpu0/regs/identification/midr_el1" } else { "modalias" };
    fs::create_dir_all(cpus.join(file).parent().unwrap()).unwrap();
    fs::write(cpus.join(file), says).unwrap();
    fs::write(cpus.join("online"), "0\n").unwrap();
    let (idle, busy, source) = model_at(sysfs.path());
    let kind = source.notes.iter().find_map(|note| match note {
        SourceNote::ModelOfServers { kind, busy: [low, _, high], .. } => Some((kind.clone(), [*low, *high])),
        _ => None,
    });
    let (kind, range) = kind.unwrap_or_else(|| panic!("{says}: not known"));
    Taken { kind, idle, busy, range: range.map(|end| end.as_watts()) }
}

/// Watts of a logical CPU at rest and busy, and the model as a report has it.
fn model_at(sysfs: &Path) -> (f64, f64, Source) {
    let choices = vec!["model".parse().unwrap()];
    let plan = PowerPlan { choices, sysfs: sysfs.to_owned(), gpu: false, ..PowerPlan::default() };
    let set = power::open(&plan).unwrap();
    let Origin::Model { core, .. } = set.domains()[0].origin else { panic!("a counter") };
    let source = set.sources().remove(0);
    let idle = source.notes.iter().find_map(|note| match note {
        SourceNote::ModelParameters { idle, cpus, .. } => Some(idle.as_watts() / *cpus as f64),
        _ => None,
    });
    (idle.unwrap(), idle.unwrap() + core.as_watts(), source)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    let (one, other) = (of[(of.len() - 1) / 2], of[of.len() / 2]);
    f64::midpoint(one, other)
}

/// Nine in ten of the results lie in the range that is printed, and half of the CPUs are within a fifth. The
/// table is that of the page.
#[test]
fn cpus_that_set_no_watts() {
    let mut by_cpu = BTreeMap::<String, Vec<Published>>::new();
    held_out().into_iter().for_each(|result| by_cpu.entry(result.cpu.clone()).or_default().push(result));
    assert!(by_cpu.len() >= 10, "{}", by_cpu.len());
    let mut table = String::from(
        "| CPU | servers with | results | idle, W | taken | busy, W | taken | error | range | inside |\n\
         |---|---|--:|--:|--:|--:|--:|--:|---|--:|",
    );
    let (mut errors, mut inside, mut all) = (Vec::new(), 0, 0);
    for (cpu, results) in &by_cpu {
        let Taken { kind, idle, busy, range: [low, high] } = model_of(&results[0].says);
        let of = |watts: fn(&Published) -> f64| median(results.iter().map(watts).collect());
        let (published_idle, published) = (of(|result| result.idle), of(|result| result.busy));
        let error = busy / published - 1.0;
        let within = results.iter().filter(|result| (low..=high).contains(&result.busy)).count();
        table += &format!(
            "\n| {cpu} | {kind} | {} | {published_idle:.2} | {idle:.2} | {published:.2} | {busy:.2} | {:+.0}% | {low:.2} to {high:.2} | {within} |",
            results.len(),
            100.0 * error
        );
        errors.push(error.abs());
        inside += within;
        all += results.len();
    }
    let error = median(errors);
    table += &format!(
        "\n\nOf {all} results {inside} are inside ({:.0} %); the median of the errors is {:.0} %.",
        100.0 * inside as f64 / all as f64,
        100.0 * error
    );
    assert!(inside * 10 >= all * 9 && error < 0.2, "{table}");
    let page = fs::read_to_string(fixture("docs/results/model-watts.md")).unwrap();
    assert!(page.contains(&table), "docs/results/model-watts.md does not have this table:\n{table}");
}

/// What is taken on guests of the fixtures beside what every CPU had before: the page's second table.
#[test]
fn what_changed_on_guests() {
    let mut table = String::from(
        "| machine | servers with | idle, W, before | now | busy, W, before | now | range of joules |\n\
         |---|---|--:|--:|--:|--:|---|",
    );
    for name in ["virtual_machine_psys", "amd_epyc_guest", "aws_graviton2_guest", "aws_graviton3_guest"] {
        let machine = lay_out(&fixture(&format!("tests/fixtures/machines/{name}.txt")));
        let (idle, busy, source) = model_at(machine.sysfs.path());
        let kind = source.notes.iter().find_map(|note| match note {
            SourceNote::ModelOfServers { kind, .. } => Some(kind.as_str()),
            _ => None,
        });
        let [low, high] = source.range_of_model().unwrap().map(|part| part as f64 / 1_000.0);
        let kind = kind.unwrap_or("(none known)");
        table += &format!(
            "\n| `{name}` | {kind} | 0.74 | {idle:.2} | 3.50 | {busy:.2} | {low:.2} to {high:.2} times |"
        );
    }
    let page = fs::read_to_string(fixture("docs/results/model-watts.md")).unwrap();
    assert!(page.contains(&table), "docs/results/model-watts.md does not have this table:\n{table}");
}

/// Code heavy on vector instructions or memory draws what the model's range leaves it, on each server of which that was measured. The page has
/// the figures.
#[test]
fn code_that_draws_more() {
    let mut reader = csv::ReaderBuilder::new();
    let path = fixture("tests/fixtures/server_watts/code.csv");
    let rows = reader.comment(Some(b'#')).from_path(path).unwrap().into_records();
    let times: Vec<[f64; 3]> = rows
        .map(|row| {
            let row = row.unwrap();
            let watts = |at: usize| row[at].parse::<f64>().unwrap();
            [4, 5, 6].map(|at| watts(at) / watts(3))
        })
        .collect();
    assert_eq!(times.len(), 11);
    let [least, most] = RANGE_OF_CODE.map(|part| part as f64 / 1e3);
    let mut table = String::from("| code | least | median | most |\n|---|--:|--:|--:|");
    for (at, code) in ["vector instructions", "memory", "the largest values"].iter().enumerate() {
        let mut of: Vec<f64> = times.iter().map(|of| of[at]).collect();
        of.sort_by(f64::total_cmp);
        table += &format!("\n| {code} | {:.2} | {:.2} | {:.2} |", of[0], median(of.clone()), of[10]);
        assert!(of.iter().all(|times| (least - 0.005..most + 0.005).contains(times)), "{of:?}");
    }
    let page = fs::read_to_string(fixture("docs/results/model-watts.md")).unwrap();
    assert!(page.contains(&table), "docs/results/model-watts.md does not have this table:\n{table}");
}
