//! Tables of a study in the layouts that published ones have.
//!
//! `models`: a model a row, frameworks side by side, with p/p_min and Bonferroni's correction (Georgiou et al., ICSE 2022, tables 2 and 3).
//! `correlations`: energy with time (their table 4). `calls`: what calls came to (their tables 5 to 8). `configurations`: a configuration a
//! row, with watts (Alizadeh and Castor, CAIN 2024, tables 1 and 3). `growth`: fixed and growing joules. Leaves out the numbers (`study`).

use super::numbers::{digits, p_value};
pub use super::sheet::As;
use super::sheet::{Field, Sheet};
use super::sweep;
use crate::sentences::study as sentences;
use crate::study::{Block, Cell, Group, Kind, Measured, Program, Run, Study, results};
use energy_trace_statistics::correlation::spearman;
use energy_trace_statistics::location::median;
use energy_trace_statistics::regression::mean_with_interval;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Calls below this part of a run's energy are left out of `calls`, but for those that the program counted.
const SMALLEST: f64 = 0.01;

/// Which layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A group of programs a row.
    Models,
    /// Energy with time, for each value of the compared variable.
    Correlations,
    /// A program a row.
    Configurations,
    /// A call of a program a row.
    Calls,
    /// A quantity that grows with a size a row.
    Growth,
}

/// Writes a study in a layout.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, study: &Study, layout: Layout, how: As) -> io::Result<()> {
    let groups = results(study);
    let mut sheet = match layout {
        Layout::Models => models(study, &groups),
        Layout::Correlations => correlations(study),
        Layout::Configurations => configurations(study, &groups),
        Layout::Calls => calls(study),
        Layout::Growth => sweep::sheet(study),
    };
    sheet.notes.splice(0..0, sentences::estimated(&groups));
    sheet.write(out, how)
}

/// What a program has of the compared variable; its label where all are compared.
fn side<'a>(study: &Study, program: &'a Program) -> &'a str {
    let variable = study.compared.as_ref().and_then(|name| program.variables.get(name));
    variable.unwrap_or(&program.label)
}

/// All sides, in the order of the study.
fn sides(study: &Study) -> Vec<&str> {
    let mut found = Vec::new();
    for program in &study.programs {
        let side = side(study, program);
        if !found.contains(&side) {
            found.push(side);
        }
    }
    found
}

/// Energies of the program, by class where there are several, and time: in the words of the results.
fn columns(groups: &[Group]) -> Vec<&str> {
    let blocks = || groups.iter().flat_map(|group| &group.blocks).filter(|block| block.kind == Kind::Run);
    let is_class = |block: &&Block| block.quantity.starts_with("energy of the program, ");
    let mut found: Vec<&str> = Vec::new();
    for block in blocks().filter(is_class) {
        if !found.contains(&block.quantity.as_str()) {
            found.push(&block.quantity);
        }
    }
    if found.is_empty() {
        found.push("energy of the program");
    }
    found.push("time");
    found
}

fn block<'a>(group: &'a Group, quantity: &str) -> Option<&'a Block> {
    group.blocks.iter().find(|block| block.kind == Kind::Run && block.quantity == quantity)
}

fn models(study: &Study, groups: &[Group]) -> Sheet {
    let (sides, columns) = (sides(study), columns(groups));
    let mut heads = vec!["model".to_owned()];
    for column in &columns {
        let unit = groups.iter().find_map(|group| block(group, column)).map_or("", |block| &block.unit);
        let short = column.replace("energy of the program, ", "").replace("energy of the program", "energy");
        heads.extend(sides.iter().map(|side| format!("{short} {unit}, {side}")));
        heads.extend([format!("{short}, p/p_min"), format!("{short}, p (Â12)")]);
    }
    let tests: usize = groups
        .iter()
        .flat_map(|group| columns.iter().filter_map(|column| block(group, column)))
        .map(|block| block.pairs.len())
        .sum();
    let row = |group: &Group| {
        let mut row = vec![Field::from(values_of(&group.name))];
        columns.iter().for_each(|column| {
            row.extend(match block(group, column) {
                Some(block) => of_model(study, block, &sides, tests),
                None => vec![Field::default(); sides.len() + 2],
            });
        });
        row
    };
    let notes = vec![
        "means of all runs; p/p_min: the largest mean over the least".to_owned(),
        format!(
            "p: Wilcoxon's signed-rank test over rounds, times {tests} for all tests of this table (Bonferroni); Â12: chance that a run of \
             the second uses more; of more than two, the pair with the largest p"
        ),
    ];
    Sheet { heads, words: 1, rows: groups.iter().filter(|of| !of.is_alone()).map(row).collect(), notes }
}

/// `model=ncf phase=train` without the names of variables.
fn values_of(group: &str) -> String {
    let words = group.split(' ').map(|word| word.split_once('=').map_or(word, |(_, value)| value));
    words.collect::<Vec<_>>().join(" ")
}

fn of_model(study: &Study, block: &Block, sides: &[&str], tests: usize) -> Vec<Field> {
    let mean = |cell: &Cell| mean_with_interval(&cell.values).map(|of| of.value);
    let cell_of = |wanted: &str| {
        let is_it =
            |cell: &&Cell| study.programs.get(cell.program).is_some_and(|of| side(study, of) == wanted);
        block.cells.iter().find(is_it)
    };
    let means: Vec<Option<f64>> = sides.iter().map(|side| cell_of(side).and_then(mean)).collect();
    let least = means.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let most = means.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let shown = means
        .iter()
        .map(|mean| Field { text: mean.map_or_else(String::new, digits), best: *mean == Some(least) });
    let ratio = if least > 0.0 { format!("{:.2}", most / least) } else { String::new() };
    let weakest = block.pairs.values().max_by(|one, other| one.0.total_cmp(&other.0));
    let p = weakest
        .map_or_else(String::new, |(p, a12)| format!("{} ({a12:.2})", p_value((p * tests as f64).min(1.0))));
    shown.chain([Field::from(ratio), Field::from(p)]).collect()
}

fn correlations(study: &Study) -> Sheet {
    let sides = sides(study);
    let runs = |side_wanted: &str| -> Vec<&Measured> {
        let is_its = |run: &&Run| {
            let program = run.program.and_then(|at| study.programs.get(at));
            run.counts() && program.is_some_and(|of| side(study, of) == side_wanted)
        };
        study.runs.iter().filter(is_its).filter_map(|run| run.measured.as_ref()).collect()
    };
    let of_sides: Vec<Vec<&Measured>> = sides.iter().map(|side| runs(side)).collect();
    let classes: BTreeSet<&String> = of_sides.iter().flatten().flat_map(|run| run.by_class.keys()).collect();
    let rho = |runs: &[&Measured], class: &str| {
        let joules: Vec<f64> =
            runs.iter().map(|run| run.by_class.get(class).copied().unwrap_or(0.0)).collect();
        let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
        let found = spearman(&joules, &seconds);
        Field::from(found.map_or_else(String::new, |of| format!("{:.2} (p {})", of.statistic, p_value(of.p))))
    };
    let row = |class: &&String| {
        let cells = of_sides.iter().map(|runs| rho(runs, class));
        std::iter::once(Field::from(format!("{class} energy, time"))).chain(cells).collect()
    };
    let counts = of_sides.iter().map(|runs| runs.len().to_string()).collect::<Vec<_>>().join(" and ");
    Sheet {
        heads: std::iter::once("pair").chain(sides.iter().copied()).map(str::to_owned).collect(),
        words: 1,
        rows: classes.iter().map(row).collect(),
        notes: vec![format!("Spearman's ρ over all runs of all models ({counts})")],
    }
}

fn configurations(study: &Study, groups: &[Group]) -> Sheet {
    let names: BTreeSet<&String> = study.programs.iter().flat_map(|of| of.variables.keys()).collect();
    let has = |kind| groups.iter().flat_map(|group| &group.blocks).any(|block| block.kind == kind);
    let columns = columns(groups);
    let several = columns.len() > 2;
    let mut heads: Vec<String> = names.iter().map(|name| (*name).clone()).collect();
    if names.is_empty() {
        heads.push("program".to_owned());
    }
    let words = heads.len();
    heads.push("power, W".to_owned());
    let classes =
        columns.iter().filter(|_| several).filter_map(|of| of.strip_prefix("energy of the program, "));
    heads.extend(classes.map(|class| format!("{class} energy, J")));
    heads.extend(["total energy, J", "time, s"].map(str::to_owned));
    if has(Kind::Counted) {
        heads.extend(["one input, J", "verdict, program", "verdict, one input"].map(str::to_owned));
    } else {
        heads.push("verdict".to_owned());
    }
    let mut rows = Vec::new();
    for group in groups {
        let programs: BTreeSet<usize> =
            group.blocks.iter().flat_map(|block| &block.cells).map(|cell| cell.program).collect();
        for at in programs {
            let Some(program) = study.programs.get(at) else { continue };
            let values = names.iter().map(|name| program.variables.get(*name).cloned().unwrap_or_default());
            let mut row: Vec<Field> = values.map(Field::from).collect();
            if names.is_empty() {
                row.push(program.label.clone().into());
            }
            row.extend(of_configuration(group, at, &columns, has(Kind::Counted)));
            rows.push(row);
        }
    }
    let notes = vec![
        "medians; the least of its group is set off; power: energy of the program over time; verdict: on energy, beside the least".to_owned(),
    ];
    Sheet { heads, words, rows, notes }
}

fn of_configuration(group: &Group, program: usize, columns: &[&str], counted: bool) -> Vec<Field> {
    let of = |block: Option<&Block>| {
        let cells = block.map(|block| block.cells.as_slice()).unwrap_or_default();
        let cell = cells.iter().find(|cell| cell.program == program);
        let least = cells.iter().map(|cell| cell.median).fold(f64::INFINITY, f64::min);
        let best = cells.len() > 1 && cell.is_some_and(|cell| cell.median == least);
        Field { text: cell.map_or_else(String::new, |cell| digits(cell.median)), best }
    };
    let median_of = |quantity: &str| {
        let cells = block(group, quantity).map(|block| block.cells.as_slice()).unwrap_or_default();
        cells.iter().find(|cell| cell.program == program).map_or(f64::NAN, |cell| cell.median)
    };
    let watts = median_of("energy of the program") / median_of("time");
    let mut row = vec![Field::from(digits(watts))];
    let classes = columns.iter().filter(|column| **column != "energy of the program");
    let classes = classes.filter(|column| **column != "time");
    row.extend(classes.map(|column| of(block(group, column))));
    row.extend(["energy of the program", "time"].map(|column| of(block(group, column))));
    let verdict = |block: Option<&Block>| {
        let cell = block.and_then(|block| block.cells.iter().find(|cell| cell.program == program));
        Field::from(cell.map(sentences::verdict).unwrap_or_default())
    };
    let input = group.blocks.iter().find(|block| block.kind == Kind::Counted);
    row.extend(counted.then(|| of(input)));
    row.push(verdict(block(group, "energy of the program")));
    row.extend(counted.then(|| verdict(input)));
    row
}

fn calls(study: &Study) -> Sheet {
    let mut rows = Vec::new();
    for (at, program) in study.programs.iter().enumerate() {
        let runs: Vec<&Run> =
            study.runs.iter().filter(|run| run.program == Some(at) && run.counts()).collect();
        let mut of_program = calls_of(&runs);
        of_program.sort_by(|one, other| other.joules.total_cmp(&one.joules));
        rows.extend(of_program.into_iter().map(|call| call.row(&program.label)));
    }
    let heads = ["program", "call", "n", "calls", "J", "of the run, %", "J of one call", "95 %"];
    let notes = vec![
        "J: median of runs, with what is called; of the run: of the energy of the program".to_owned(),
        "calls: median of what each run printed; J of one call: mean of runs with Student's 95 % interval; others are calls of packages with \
         1 % of the energy or more, uncounted"
            .to_owned(),
    ];
    Sheet { heads: heads.map(str::to_owned).into(), words: 2, rows, notes }
}

struct CallRow {
    name: String,
    runs: usize,
    count: Option<f64>,
    joules: f64,
    share: f64,
    each: Vec<f64>,
}

impl CallRow {
    fn row(self, program: &str) -> Vec<Field> {
        let each = mean_with_interval(&self.each);
        let interval = each.and_then(|of| of.interval);
        let cells = [
            program.to_owned(),
            self.name,
            self.runs.to_string(),
            self.count.map_or_else(String::new, |count| format!("{count:.0}")),
            digits(self.joules),
            format!("{:.1}", 100.0 * self.share),
            each.map_or_else(String::new, |of| digits(of.value)),
            interval.map_or_else(String::new, |(low, high)| format!("{} to {}", digits(low), digits(high))),
        ];
        cells.map(Field::from).into()
    }
}

fn calls_of(runs: &[&Run]) -> Vec<CallRow> {
    let measured = || runs.iter().filter_map(|run| Some((*run, run.measured.as_ref()?)));
    let mut names: BTreeMap<&String, bool> = BTreeMap::new();
    for (_, of) in measured() {
        names.extend(of.calls.keys().map(|name| (name, false)));
    }
    for (_, of) in measured() {
        names.extend(of.counted.keys().map(|name| (name, true)));
    }
    let row = |(name, counted): (&String, bool)| {
        let of = |of: &Measured| (if counted { &of.counted } else { &of.calls }).get(name).copied();
        let joules: Vec<f64> = measured().filter_map(|(_, measured)| of(measured)).collect();
        let shares: Vec<f64> = measured().filter_map(|(_, all)| Some(of(all)? / all.joules)).collect();
        let counts: Vec<f64> = runs.iter().filter_map(|run| run.counts.get(name).copied()).collect();
        let each = measured().filter_map(|(run, all)| Some(of(all)? / run.counts.get(name)?)).collect();
        CallRow {
            name: name.clone(),
            runs: joules.len(),
            count: counted.then(|| median(&counts)),
            joules: median(&joules),
            share: median(&shares),
            each: if counted { each } else { Vec::new() },
        }
    };
    names.into_iter().map(row).filter(|row| row.count.is_some() || row.share >= SMALLEST).collect()
}
