//! A configuration a row: its variables, what programs printed of themselves, how many runs, power, energies with spread and test, time, metrics,
//! and one call of what they counted, with how much of the whole that was.
//!
//! Leaves out the other layouts (`layouts.rs`).

use super::layouts::{OF_CLASS, block, columns, scale_of, short};
use super::numbers::{Scale, digits};
use super::sheet::{Field, Sheet};
use super::table::p_of;
use crate::data::{Block, Cell, Group, Kind, Measured, Study};
use crate::sentences::{self, PROGRAM};
use energy_trace_model::collections::Fill as _;
use energy_trace_statistics::location::median;
use std::collections::BTreeSet;

/// Facts that the machine has, and no configuration of its own.
const OF_MACHINE: [&str; 4] = ["cpu", "kernel", "energy_trace", "git_commit"];

/// What of a block a column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Median,
    Spread,
    P,
    Verdict,
    /// How much of the program's energy calls of this name are.
    Part,
}

/// A column: of which block, in which unit.
struct Column<'a> {
    of: (Kind, &'a str),
    what: What,
    scale: Scale,
}

pub(super) fn configurations(study: &Study, groups: &[Group]) -> Sheet {
    let variables: BTreeSet<&String> = study.programs.iter().flat_map(|of| of.variables.keys()).fill_set();
    let facts = facts(study);
    let numbers = numbers(groups);
    let mut heads: Vec<String> = variables.iter().chain(&facts).map(|name| (*name).clone()).collect();
    if variables.is_empty() {
        heads.insert(0, "program".to_owned());
    }
    let words = heads.len();
    heads.extend(["n", "power, W", "busy CPUs"].map(str::to_owned));
    heads.extend(numbers.iter().map(Column::head));
    let mut rows = Vec::new();
    for group in groups {
        let cells = group.blocks.iter().flat_map(|block| &block.cells);
        for at in cells.map(|cell| cell.program).fill_set() {
            let Some(program) = study.programs.get(at) else { continue };
            let label = variables.is_empty().then(|| program.label.clone());
            let values =
                variables.iter().map(|name| program.variables.get(*name).cloned().unwrap_or_default());
            let known = facts.iter().map(|name| fact(study, at, name));
            let mut row: Vec<Field> = label.into_iter().chain(values).chain(known).map(Field::from).collect();
            row.extend(power(study, group, at));
            row.extend(numbers.iter().map(|column| column.cell(study, group, at)));
            rows.push(row);
        }
    }
    let notes = vec![
        "medians, ± half of the interquartile range; the least of its group is set off; power: median energy of the program over median time, \
         busy CPUs: its CPU time over time; p: Wilcoxon's signed-rank test beside the least, corrected by Holm; of the program: what calls of \
         this name are of its energy"
            .to_owned(),
    ];
    Sheet { heads, words, rows, notes, ..Sheet::default() }
}

/// What programs printed of themselves.
fn facts(study: &Study) -> BTreeSet<&String> {
    let names = study.runs.iter().flat_map(|run| run.facts.keys());
    names.filter(|name| !OF_MACHINE.contains(&name.as_str())).fill_set()
}

fn fact(study: &Study, program: usize, name: &str) -> String {
    let runs = study.runs.iter().filter(|run| run.program == Some(program) && run.counts());
    let values: BTreeSet<&String> = runs.filter_map(|run| run.facts.get(name)).fill_set();
    values.into_iter().cloned().collect::<Vec<_>>().join(", ")
}

/// The columns of numbers: energies, time, metrics, one call of what was counted.
fn numbers(groups: &[Group]) -> Vec<Column<'_>> {
    let column = |of: (Kind, &'_ str), what| (of.0, of.1.to_owned(), what);
    let mut wanted: Vec<(Kind, String, What)> = Vec::new();
    let energies =
        columns(groups).into_iter().filter(|(kind, name)| *kind == Kind::Run && name.starts_with(OF_CLASS));
    wanted.extend(energies.map(|of| column(of, What::Median)));
    wanted.extend(
        [What::Median, What::Spread, What::P, What::Verdict].map(|what| column((Kind::Run, PROGRAM), what)),
    );
    wanted.extend([What::Median, What::Spread].map(|what| column((Kind::Run, "time"), what)));
    let blocks = || groups.iter().flat_map(|group| &group.blocks);
    let metrics: BTreeSet<&str> = blocks()
        .filter(|block| block.kind == Kind::Run && block.unit.is_empty())
        .map(|block| block.quantity.as_str())
        .fill_set();
    wanted.extend(metrics.into_iter().map(|name| column((Kind::Run, name), What::Median)));
    let counted = columns(groups).into_iter().filter(|(kind, _)| *kind == Kind::Counted);
    for of in counted {
        let all = [What::Median, What::Spread, What::Part, What::P, What::Verdict];
        wanted.extend(all.map(|what| column(of, what)));
    }
    let known = |(kind, name, what): (Kind, String, What)| {
        let block = blocks().find(|block| block.kind == kind && block.quantity == name)?;
        let of = (kind, block.quantity.as_str());
        Some(Column { of, what, scale: scale_of(groups, of) })
    };
    wanted.into_iter().filter_map(known).collect()
}

impl Column<'_> {
    fn head(&self) -> String {
        let name = if self.of == (Kind::Run, PROGRAM) { "total energy".to_owned() } else { short(self.of) };
        let unit = if self.scale.unit.is_empty() { String::new() } else { format!(", {}", self.scale.unit) };
        match self.what {
            What::Median => format!("{name}{unit}"),
            What::Spread => "±".to_owned(),
            What::P => "p (Holm)".to_owned(),
            What::Verdict => "verdict".to_owned(),
            What::Part => "of the program, %".to_owned(),
        }
    }

    fn cell(&self, study: &Study, group: &Group, program: usize) -> Field {
        let block = block(group, self.of);
        let Some(cell) = cell_of(block, program).filter(|cell| cell.runs > 0) else {
            return Field::default();
        };
        let (low, high) = cell.quartiles;
        let text = match self.what {
            What::Median => {
                return Field {
                    text: self.scale.show(cell.median),
                    best: is_least(block, cell) && !self.scale.unit.is_empty(),
                };
            }
            What::Spread => self.scale.show((high - low) / 2.0),
            What::P => cell.beside_least.as_ref().and_then(p_of).unwrap_or_default(),
            What::Verdict => sentences::verdict(cell),
            What::Part => {
                let part = sentences::part_of_program(study, program, self.of.1);
                part.map_or_else(String::new, |part| format!("{:.1}", 100.0 * part))
            }
        };
        text.into()
    }
}

fn cell_of(block: Option<&Block>, program: usize) -> Option<&Cell> {
    block?.cells.iter().find(|cell| cell.program == program)
}

fn is_least(block: Option<&Block>, cell: &Cell) -> bool {
    let cells = block.map(|block| block.cells.as_slice()).unwrap_or_default();
    let least = cells.iter().map(|cell| cell.median).fold(f64::INFINITY, f64::min);
    cells.len() > 1 && cell.median == least
}

/// Runs, average watts, and CPUs that the program kept busy: power is less where it waited for them.
fn power(study: &Study, group: &Group, program: usize) -> [Field; 3] {
    let of = |quantity| cell_of(block(group, (Kind::Run, quantity)), program);
    let watts = of(PROGRAM).zip(of("time")).map(|(energy, time)| energy.median / time.median);
    let runs = study.runs.iter().filter(|run| run.program == Some(program) && run.counts());
    let busy = |of: &Measured| Some(of.cpu_seconds? / of.seconds).filter(|busy| busy.is_finite());
    let busy: Vec<f64> = runs.filter_map(|run| busy(run.measured.as_ref()?)).collect();
    let n = of("time").map_or_else(String::new, sentences::runs);
    let watts = watts.map_or_else(String::new, digits);
    let busy = if busy.is_empty() { String::new() } else { format!("{:.2}", median(&busy)) };
    [n, watts, busy].map(Field::from)
}
