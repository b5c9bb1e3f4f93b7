//! A study as data: one row a run (CSV, JSON), and the results (JSON). Leaves out tables for readers.

use crate::sentences::study as sentences;
use crate::shown::shown;
use crate::study::{Cell, Group, Measured, Run, Study, Sweep, results, sweeps};
use energy_trace_statistics::regression::Estimate;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Columns of every data set, before those of classes, metrics, variables and calls.
const COLUMNS: [&str; 15] = [
    "run",
    "round",
    "purpose",
    "program",
    "group",
    "outcome",
    "seconds",
    "joules",
    "machine_joules",
    "idle_joules",
    "other_joules",
    "energy",
    "busy_cpus_before",
    "celsius_before",
    "stable_before",
];

/// Writes a row for each run.
///
/// # Errors
/// When the writer refuses.
pub fn csv(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    let mut names: BTreeSet<(u8, String)> = BTreeSet::new();
    for run in &study.runs {
        names.extend(more(study, run).into_iter().map(|(kind, name, _)| (kind, name)));
    }
    let mut writer = csv::Writer::from_writer(out);
    let heads = COLUMNS.iter().map(|head| (*head).to_owned());
    writer.write_record(heads.chain(names.iter().map(|(kind, name)| head(*kind, name))))?;
    for run in &study.runs {
        let more = more(study, run);
        let value = |wanted: &(u8, String)| {
            let found = more.iter().find(|(kind, name, _)| *kind == wanted.0 && *name == wanted.1);
            found.map_or_else(String::new, |(.., value)| shown(value).into_owned())
        };
        writer.write_record(fixed(study, run).into_iter().chain(names.iter().map(value)))?;
    }
    writer.flush()
}

fn head(kind: u8, name: &str) -> String {
    let of = match kind {
        0 => "var",
        1 => "metric",
        2 => "joules",
        // Its name is that of the column.
        3 => return shown(name).into_owned(),
        4 => "call_joules",
        5 => "calls",
        6 => "counted_joules",
        7 => "fact",
        _ => "note",
    };
    format!("{of}:{}", shown(name))
}

/// What not every study has, in the order of columns: variables, metrics, classes, temperatures and clocks, calls, what was counted, facts, notes.
fn more(study: &Study, run: &Run) -> Vec<(u8, String, String)> {
    let program = run.program.and_then(|at| study.programs.get(at));
    let variables =
        program.into_iter().flat_map(|of| of.variables.clone()).map(|(name, value)| (0, name, value));
    let numbers = |kind: u8, of: std::collections::BTreeMap<String, f64>| {
        of.into_iter().map(move |(name, value)| (kind, name, value.to_string()))
    };
    let measured = run.measured.clone();
    let (classes, conditions, calls, counted) =
        measured.map_or_else(Default::default, |of| (of.by_class, of.conditions, of.calls, of.counted));
    let texts = |kind: u8, of: &std::collections::BTreeMap<String, String>| {
        of.clone().into_iter().map(move |(name, value)| (kind, name, value))
    };
    variables
        .chain(numbers(1, run.metrics.clone()))
        .chain(numbers(2, classes))
        .chain(numbers(3, conditions))
        .chain(numbers(4, calls))
        .chain(numbers(5, run.counts.clone()))
        .chain(numbers(6, counted))
        .chain(texts(7, &run.facts))
        .chain(texts(8, &study.noted))
        .collect()
}

fn fixed(study: &Study, run: &Run) -> Vec<String> {
    let program = run.program.and_then(|at| study.programs.get(at));
    let of = |value: fn(&Measured) -> f64| {
        run.measured.as_ref().map_or_else(String::new, |m| value(m).to_string())
    };
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let text = |text: &str| shown(text).into_owned();
    vec![
        run.number.to_string(),
        run.round.to_string(),
        sentences::purpose_word(run.purpose).to_owned(),
        program.map_or_else(String::new, |of| text(&of.label)),
        program.map_or_else(String::new, |of| text(&of.group)),
        text(&sentences::outcome(&run.outcome)),
        of(|m| m.seconds),
        of(|m| m.joules),
        of(|m| m.machine_joules),
        of(|m| m.idle_joules),
        of(|m| m.other_joules),
        sentences::grade_word(run.measured.as_ref().and_then(|m| m.grade)).to_owned(),
        number(run.busy_cpus),
        number(run.celsius),
        run.stable.map_or_else(String::new, |stable| stable.to_string()),
    ]
}

/// Writes every run as an object of an array, with its program.
///
/// # Errors
/// When the writer refuses.
pub fn rows_json(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    let row = |run: &Run| {
        let program = run.program.and_then(|at| study.programs.get(at));
        json!({ "program": program, "run": run })
    };
    serde_json::to_writer_pretty(&mut *out, &study.runs.iter().map(row).collect::<Vec<_>>())?;
    writeln!(out)
}

/// Writes the study whole: programs, every run, and the results. Schema `energy-trace/study/1`.
///
/// # Errors
/// When the writer refuses.
pub fn json(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    let groups = results(study);
    let whole = json!({
        "schema": "energy-trace/study/1",
        "seed": study.seed,
        "rounds": study.rounds,
        "programs": study.programs,
        "compared": study.compared,
        "against": study.against,
        "per": study.per,
        "noted": study.noted,
        "notes": sentences::notes(study, &groups),
        "growth": sweeps(study).iter().map(of_sweep).collect::<Vec<_>>(),
        "results": groups.iter().map(|group| of_group(study, group)).collect::<Vec<_>>(),
        "runs": study.runs,
    });
    serde_json::to_writer_pretty(&mut *out, &whole)?;
    writeln!(out)
}

fn of_group(study: &Study, group: &Group) -> Value {
    let blocks: Vec<Value> = group
        .blocks
        .iter()
        .map(|block| {
            let cells: Vec<Value> = block.cells.iter().map(|cell| of_cell(study, cell)).collect();
            json!({
                "kind": sentences::kind_word(block.kind), "quantity": block.quantity, "unit": block.unit,
                "tests": block.tests, "programs": cells,
            })
        })
        .collect();
    json!({
        "group": group.name,
        "energy": sentences::grade_word(group.grade),
        "energy_and_time": group.energy_and_time.map(|(rho, p)| json!({ "spearman": rho, "p": p })),
        "quantities": blocks,
    })
}

fn of_sweep(sweep: &Sweep) -> Value {
    let estimate =
        |of: &Estimate| json!({ "value": of.value, "ci95": of.interval.map(|(low, high)| [low, high]) });
    let points: Vec<Value> = sweep
        .points
        .iter()
        .map(|point| json!({ "size": point.size, "median": point.median, "runs": point.values }))
        .collect();
    json!({
        "programs": sweep.name, "kind": sentences::kind_word(sweep.kind), "quantity": sweep.quantity, "unit": sweep.unit,
        "rounds": sweep.found.rounds, "fixed": estimate(&sweep.found.fixed), "each": estimate(&sweep.found.each),
        "r2": sweep.found.r2, "bend": sweep.found.bend.map(|(depth, p)| json!({ "part_of_mean": depth, "p": p })),
        "points": points,
    })
}

fn of_cell(study: &Study, cell: &Cell) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("program", json!(study.programs.get(cell.program).map(|of| &of.label)));
    put("n", json!(cell.runs));
    put("failed", json!(cell.failed));
    put("median", json!(cell.median));
    put("quartiles", json!([cell.quartiles.0, cell.quartiles.1]));
    put("verdict", json!(sentences::verdict(cell)));
    if let Some(beside) = &cell.beside_least {
        put("ratio", json!(beside.found.ratio));
        put("ratio_ci95", json!(beside.found.interval.map(|(low, high)| [low, high])));
        put("p", json!(beside.found.p()));
        put("p_holm", json!(beside.p));
        put("a12", json!(beside.found.a12));
        put("effect", json!(sentences::magnitude(cell)));
        put("shift", json!(beside.found.shift));
        put("detectable", json!(beside.found.detectable));
    }
    Value::Object(object)
}
