//! A study as data: one row a run (CSV, Parquet, JSON), and the results (JSON). Leaves out the columns (`columns`), and tables for readers.

use super::columns::{Column, columns};
use crate::data::{Cell, Group, Run, Study, Sweep, results, sweeps};
use crate::sentences;
use energy_trace_export::parquet_file::{Table, Values};
use energy_trace_report::csv_cells::Cells;
use energy_trace_statistics::regression::Estimate;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Writes a row for each run, as CSV.
///
/// # Errors
/// When the writer refuses.
pub fn csv(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    let mut writer = Cells::new(out);
    let columns = columns(study);
    writer.line(columns.iter().map(|column| &column.head))?;
    for row in 0..study.runs.len() {
        writer.line(columns.iter().map(|column| column.text(row)))?;
    }
    writer.flush()
}

/// Writes a row for each run, as Parquet: the columns of the CSV, numbers as numbers, what is not known as missing.
///
/// # Errors
/// When the writer refuses.
pub fn parquet(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    let columns = columns(study);
    let mut table = Table::new(columns.iter().map(|column| (column.head.as_str(), column.kind)))?;
    let values: Vec<Values<'_>> = columns.iter().map(Column::values).collect();
    if !study.runs.is_empty() {
        table.add(&values)?;
    }
    table.write(out)
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

/// Writes the study whole: programs, every run, and the results. Schema `energy-trace/study/1.0`.
///
/// # Errors
/// When the writer refuses.
pub fn json(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    let groups = results(study);
    let whole = json!({
        "schema": "energy-trace/study/1.0",
        "seed": study.seed,
        "rounds": study.rounds,
        "programs": study.programs,
        "compared": study.compared,
        "against": study.against,
        "per": study.per,
        "noted": study.noted,
        "notes": sentences::notes(study, &groups),
        "methods": sentences::methods(study),
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
