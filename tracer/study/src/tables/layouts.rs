//! Tables of a study in the layouts that published ones have.
//!
//! `models`: a model a row, frameworks side by side, with p/p_min (Georgiou et al., ICSE 2022, tables 2 and 3). `correlations`: energy with
//! time (their table 4). `calls`: what calls came to (their tables 5 to 8). `configurations`: a configuration a row, with watts (Alizadeh and
//! Castor, CAIN 2024, tables 1 and 3; in `configurations.rs`). `growth`: fixed and growing joules. Medians and p-values are those of the main
//! tables. Leaves out the numbers (`study`).

use super::configurations::configurations;
use super::numbers::{Scale, p_value};
pub use super::sheet::As;
use super::sheet::{Field, Sheet};
use super::sweep;
use super::table::p_of;
use crate::data::{Block, Cell, Group, Kind, Measured, Program, Run, Study, results};
use crate::sentences::{self, PROGRAM};
use energy_trace_model::collections::{Fill as _, Order as _};
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
    sheet.notes.extend(sentences::not_found(study));
    sheet.notes.extend(sentences::load(study));
    sheet.methods = sentences::methods(study);
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

/// Energies of the program, by class where there are several, time, and one call of what programs counted: in the words of the results.
pub(super) fn columns(groups: &[Group]) -> Vec<(Kind, &str)> {
    let blocks = || groups.iter().flat_map(|group| &group.blocks);
    let is_class = |block: &&Block| block.quantity.starts_with(OF_CLASS);
    let mut classes: Vec<(Kind, &str)> = Vec::new();
    for block in blocks().filter(|block| block.kind == Kind::Run).filter(is_class) {
        if !classes.contains(&(Kind::Run, block.quantity.as_str())) {
            classes.push((Kind::Run, &block.quantity));
        }
    }
    if classes.is_empty() {
        classes.push((Kind::Run, PROGRAM));
    }
    // A note says of which calls nothing was found.
    let is_found = |block: &&Block| block.cells.iter().any(|cell| cell.runs > 0);
    let counted = blocks().filter(|block| block.kind == Kind::Counted).filter(is_found);
    let counted: BTreeSet<(Kind, &str)> =
        counted.map(|block| (block.kind, block.quantity.as_str())).fill_set();
    classes.into_iter().chain([(Kind::Run, "time")]).chain(counted).collect()
}

/// The energy of the program in a class of domains, in the words of the results.
pub(super) const OF_CLASS: &str = "energy of the program, ";

pub(super) fn block<'a>(group: &'a Group, (kind, quantity): (Kind, &str)) -> Option<&'a Block> {
    group.blocks.iter().find(|block| block.kind == kind && block.quantity == quantity)
}

/// A column's name above it.
pub(super) fn short((kind, quantity): (Kind, &str)) -> String {
    match kind {
        Kind::Counted => sentences::quantity_of(kind, quantity, ""),
        _ => match quantity.strip_prefix(OF_CLASS) {
            Some(class) => format!("{class} energy"),
            None => quantity.replace(PROGRAM, "energy"),
        },
    }
}

/// The unit of a column, with the prefix that its medians need.
pub(super) fn scale_of(groups: &[Group], column: (Kind, &str)) -> Scale {
    let blocks = || groups.iter().filter_map(|group| block(group, column));
    let unit = blocks().next().map_or("", |block| &block.unit);
    Scale::of(unit, blocks().flat_map(|block| &block.cells).map(|cell| cell.median))
}

fn models(study: &Study, groups: &[Group]) -> Sheet {
    let (sides, columns) = (sides(study), columns(groups));
    let scales: Vec<Scale> = columns.iter().map(|column| scale_of(groups, *column)).collect();
    let mut heads = vec!["model".to_owned()];
    for (column, scale) in columns.iter().zip(&scales) {
        let short = short(*column);
        heads.extend(sides.iter().map(|side| format!("median {short} {}, {side}", scale.unit)));
        heads.extend([format!("{short}, p/p_min"), format!("{short}, p by Holm (Â12)")]);
    }
    let row = |group: &Group| {
        let mut row = vec![Field::from(values_of(&group.name))];
        columns.iter().zip(&scales).for_each(|(column, scale)| {
            row.extend(match block(group, *column) {
                Some(block) => of_model(study, block, scale, &sides),
                None => vec![Field::default(); sides.len() + 2],
            });
        });
        row
    };
    let notes = vec![
        "medians of all runs; p/p_min: the largest over the least".to_owned(),
        "p: Wilcoxon's signed-rank test over rounds, corrected by Holm for the pairs of a row, as in the other tables; Â12: chance that a run of \
         the one with more uses more; of more than two, the pair with the largest p"
            .to_owned(),
    ];
    let rows = groups.iter().filter(|of| !of.is_alone()).map(row).collect();
    Sheet { heads, words: 1, rows, notes, ..Sheet::default() }
}

/// `batch=64 model=ncf phase=train` as programs are called: `ncf train, batch=64`.
fn values_of<'a>(group: &'a str) -> String {
    let is_word = |value: &str| value.parse::<f64>().is_err() && value.parse::<bool>().is_err();
    let value = |word: &'a str| word.split_once('=').map_or(word, |(_, value)| value);
    let (words, others): (Vec<&str>, Vec<&str>) = group.split(' ').partition(|word| is_word(value(word)));
    let words: Vec<&str> = words.into_iter().map(value).collect();
    let words = Some(words.join(" ")).filter(|words| !words.is_empty());
    words.into_iter().chain(others.into_iter().map(str::to_owned)).collect::<Vec<_>>().join(", ")
}

fn of_model(study: &Study, block: &Block, scale: &Scale, sides: &[&str]) -> Vec<Field> {
    let cell_of = |wanted: &str| {
        let is_it =
            |cell: &&Cell| study.programs.get(cell.program).is_some_and(|of| side(study, of) == wanted);
        block.cells.iter().find(is_it).map(|cell| cell.median).filter(|median| median.is_finite())
    };
    let medians: Vec<Option<f64>> = sides.iter().map(|side| cell_of(side)).collect();
    let least = medians.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let most = medians.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let shown = medians
        .iter()
        .map(|of| Field { text: of.map_or_else(String::new, |of| scale.show(of)), best: *of == Some(least) });
    let ratio = if least > 0.0 && most.is_finite() { format!("{:.2}", most / least) } else { String::new() };
    let weakest = block.pairs.values().max_by(|one, other| one.p.total_cmp(&other.p));
    let p = weakest.map_or_else(String::new, |beside| match p_of(beside) {
        Some(p) => format!("{p} ({:.2})", beside.found.a12),
        None => sentences::word(beside.verdict),
    });
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
    let classes: BTreeSet<&String> = of_sides.iter().flatten().flat_map(|run| run.by_class.keys()).fill_set();
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
        ..Sheet::default()
    }
}

fn calls(study: &Study) -> Sheet {
    let mut rows = Vec::new();
    for (at, program) in study.programs.iter().enumerate() {
        let runs: Vec<&Run> =
            study.runs.iter().filter(|run| run.program == Some(at) && run.counts()).collect();
        let mut of_program = calls_of(&runs);
        of_program.order_by(|one, other| other.joules.total_cmp(&one.joules));
        rows.extend(of_program.into_iter().map(|call| (program.label.as_str(), call)));
    }
    let each = rows.iter().flat_map(|(_, call)| mean_with_interval(&call.each)).map(|of| of.value);
    let scales = [Scale::of("J", rows.iter().map(|(_, call)| call.joules)), Scale::of("J", each)];
    let rows = rows.iter().map(|(program, call)| call.row(program, &scales)).collect();
    let [whole, one] = scales.map(|scale| scale.unit);
    let heads = [
        "program",
        "call",
        "n",
        "median calls",
        &format!("median {whole}"),
        "of the run, %",
        &format!("mean {one} of one call"),
        "95 %",
    ];
    let notes = vec![
        "J: median of runs, with what is called; of the run: of the energy of the program".to_owned(),
        "calls: median of what each run printed; J of one call: mean of runs with Student's 95 % interval; others are calls of packages with \
         1 % of the energy or more, uncounted"
            .to_owned(),
    ];
    Sheet { heads: heads.map(str::to_owned).into(), words: 2, rows, notes, ..Sheet::default() }
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
    fn row(&self, program: &str, [whole, one]: &[Scale; 2]) -> Vec<Field> {
        let each = mean_with_interval(&self.each);
        let interval = each.and_then(|of| of.interval);
        let cells = [
            program.to_owned(),
            self.name.clone(),
            self.runs.to_string(),
            self.count.map_or_else(String::new, |count| format!("{count:.0}")),
            whole.show(self.joules),
            format!("{:.1}", 100.0 * self.share),
            each.map_or_else(String::new, |of| one.show(of.value)),
            interval
                .map_or_else(String::new, |(low, high)| format!("{} to {}", one.show(low), one.show(high))),
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
