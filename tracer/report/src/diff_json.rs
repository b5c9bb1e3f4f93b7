//! A difference as JSON, schema `energy-trace/diff/2.0`: every part that was asked, in joules of a run, or of a unit of work.
//!
//! Leaves out what counts as a change (`diff.rs`).

use super::diff::{Change, Comparison, DiffOptions, Divisor, worst_quality};
use super::diff_doubts::{changed, cut, is_any_same, is_one_command};
use super::meters::meters;
use super::run;
use energy_trace_names::shown::shown_json;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    /// The call that joules are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    per: Option<&'a str>,
    /// What `functions` are.
    by: &'static str,
    /// Whether a recording is on both sides: it says nothing of a change.
    same_recording: bool,
    /// Whether all runs are of one command with the same arguments; `null`: nobody knows.
    same_command: Option<bool>,
    a: SideOf<'a>,
    b: SideOf<'a>,
    program: Option<Row<'a>>,
    functions: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct SideOf<'a> {
    files: &'a [String],
    recorded: String,
    quality: Option<&'static str>,
    /// What the joules were read from, as `package by RAPL`; where they differ, joules of A and B are not of the same things.
    meters: BTreeSet<String>,
    /// What the joules of each run are divided by.
    work: &'a [f64],
    /// Whether a run may have done more: joules are an upper bound then.
    work_at_least: bool,
    /// Recordings that are cut off or damaged: their joules are of what was read.
    cut: Vec<Cut<'a>>,
}

#[derive(Serialize)]
struct Cut<'a> {
    file: &'a str,
    /// `null`: nobody knows.
    read_ns: Option<u64>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// `null`: the joules of that side are not known.
    a_j: Option<f64>,
    b_j: Option<f64>,
    change_j: Option<f64>,
    /// `null`: nobody knows.
    chance_j: Option<f64>,
    /// `null`: these runs do not tell.
    changed: Option<bool>,
    /// Least and most that each side's can be, where its runs do not tell them from other code's.
    a_bounds_j: Option<[f64; 2]>,
    b_bounds_j: Option<[f64; 2]>,
    flags: &'a [&'static str],
}

impl<'a> Row<'a> {
    fn of(change: &'a Change, known: [bool; 2]) -> Self {
        let [a_j, b_j] = [0, 1].map(|at: usize| known[at].then_some(change.sides[at].joules));
        let [a_bounds_j, b_bounds_j] = change.sides.map(|side| side.bounds);
        Self {
            name: change.name.as_deref(),
            a_j,
            b_j,
            change_j: a_j.and(b_j).map(|_| change.joules()),
            chance_j: change.by_chance,
            changed: changed(change),
            a_bounds_j,
            b_bounds_j,
            flags: &change.flags,
        }
    }
}

/// Writes the comparison as one JSON document.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, compared: &Comparison<'_>, options: &DiffOptions<'_>) -> io::Result<()> {
    let row = |change| Row::of(change, compared.known);
    let document = Document {
        schema: "energy-trace/diff/2.0",
        per: match options.work {
            Divisor::Calls(name) | Divisor::Units(name) => Some(name),
            Divisor::Counts(_) => None,
        },
        by: options.by.name(),
        same_recording: is_any_same(compared.sides),
        same_command: is_one_command(options),
        a: side(compared, options, 0),
        b: side(compared, options, 1),
        program: compared.changes.first().map(row),
        functions: compared.changes.iter().skip(1).map(row).collect(),
    };
    writeln!(out, "{}", shown_json(&serde_json::to_string_pretty(&document)?))
}

fn side<'a>(compared: &'a Comparison<'_>, options: &DiffOptions<'a>, at: usize) -> SideOf<'a> {
    let (runs, files) = (compared.sides[at], options.files[at]);
    let (work, work_at_least) = (&compared.work[at], compared.at_most[at]);
    let quality = worst_quality(runs).map(run::quality_word);
    let recorded = runs.first().map_or_else(String::new, run::what_was_recorded);
    let cut = cut(runs, files).map(|(file, read_ns)| Cut { file, read_ns }).collect();
    SideOf { files, recorded, quality, meters: meters(runs), work, work_at_least, cut }
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::By;
    use crate::diff::{DiffOptions, Divisor, compare};
    use crate::tests::training_runs::measured_training;
    use energy_trace_names::native_frames::NativeFrames;

    /// The program and its functions with both sides; of single runs chance is `null` and nothing is changed.
    #[test]
    fn document() {
        let options = DiffOptions {
            files: [&[]; 2],
            commands: [&[]; 2],
            work: Divisor::Counts([1.0, 2.0]),
            by: By::Function,
            native_frames: NativeFrames::Libraries,
            rows: 5,
            color: false,
            width: None,
        };
        let runs = [measured_training()];
        let mut out = Vec::new();
        write(&mut out, &compare([&runs, &runs], &options).unwrap(), &options).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["schema"], "energy-trace/diff/2.0");
        assert_eq!(
            [&json["same_recording"], &json["same_command"]],
            [&true.into(), &serde_json::Value::Null]
        );
        assert_eq!(json["b"]["work"], serde_json::json!([2.0]));
        let program = &json["program"];
        let [a, b] = ["a_j", "b_j"].map(|key| program[key].as_f64().unwrap());
        assert!(a > 0.0 && (a - 2.0 * b).abs() < 1e-9);
        let functions = json["functions"].as_array().unwrap();
        assert!(functions.len() > 3);
        for row in functions {
            assert!(row["chance_j"].is_null() && row["changed"].is_null() && row["name"].is_string());
        }
    }
}
