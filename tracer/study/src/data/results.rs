//! Programs of a study held against each other: for each quantity, the program with the least, and every other beside it.
//!
//! Runs of one round are pairs: they share the machine's temperature and load. A quantity of whole runs is a question of its own, and Holm
//! corrects for the pairs of programs; functions and calls are asked together, and Holm corrects for all of them; so are calls that programs counted. Leaves out how it looks.

use super::quantities::{Kind, Quantity, counted_quantities, part_quantities, whole_quantities};
use super::{Grade, Measured, Run, Study};
use energy_trace_model::collections::Fill as _;
use energy_trace_statistics::bootstrap::Round;
use energy_trace_statistics::comparison::{Comparison, Verdict, compare, judge};
use energy_trace_statistics::corrections::Correction;
use energy_trace_statistics::correlation::spearman;
use energy_trace_statistics::location::{median, quantile};
use std::collections::{BTreeMap, BTreeSet};

/// Programs that are compared with each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name; empty where there is one.
    pub name: String,
    /// Quantities: of runs first, then calls and functions, the largest first.
    pub blocks: Vec<Block>,
    /// Spearman's ρ of energy and time over all runs, with its p-value.
    pub energy_and_time: Option<(f64, f64)>,
    /// How good the energies are: as the worst of them.
    pub grade: Option<Grade>,
}

impl Group {
    /// Whether it is one program, with nothing beside it.
    pub fn is_alone(&self) -> bool {
        self.blocks.iter().all(|block| block.cells.len() < 2)
    }
}

/// One quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it is of.
    pub kind: Kind,
    /// Its name.
    pub quantity: String,
    /// Its unit; empty for a program's own metric.
    pub unit: String,
    /// One for each program, in the order of the study.
    pub cells: Vec<Cell>,
    /// How many tests were corrected for.
    pub tests: usize,
    /// Each two programs beside each other, by their positions in the study, the first one first; with the p-values of every table.
    pub pairs: BTreeMap<(usize, usize), Beside>,
}

/// One quantity of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Position of the program in the study.
    pub program: usize,
    /// Runs that count and have a value.
    pub runs: usize,
    /// Runs that count and have none.
    pub without: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Its value in each run that counts, in order of rounds.
    pub values: Vec<f64>,
    /// Median; NaN where there is no run.
    pub median: f64,
    /// First and third quartile.
    pub quartiles: (f64, f64),
    /// Whether there is no program to compare it with.
    pub alone: bool,
    /// Beside the program with the least; `None` for that one.
    pub beside_least: Option<Beside>,
}

/// A program beside another one, as beside the one with the least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// The numbers.
    pub found: Comparison,
    /// The p-value, corrected.
    pub p: f64,
    /// What may be said.
    pub verdict: Verdict,
}

/// The results of a study, a group at a time.
pub fn results(study: &Study) -> Vec<Group> {
    let mut names: Vec<&str> = Vec::new();
    for program in &study.programs {
        if !names.contains(&program.group.as_str()) {
            names.push(&program.group);
        }
    }
    names.into_iter().map(|name| group(study, name)).collect()
}

fn group(study: &Study, name: &str) -> Group {
    let programs: Vec<usize> = (0..study.programs.len())
        .filter(|&at| study.programs.get(at).is_some_and(|of| of.group == name))
        .collect();
    let runs: Vec<&Run> = study
        .runs
        .iter()
        .filter(|run| run.counts() && run.program.is_some_and(|program| programs.contains(&program)))
        .collect();
    let whole = whole_quantities(study, &runs).into_iter();
    let of_runs: Vec<Block> = whole.flat_map(|one| blocks(study, &programs, vec![one])).collect();
    let counted = blocks(study, &programs, counted_quantities(&runs));
    let parts = blocks(study, &programs, part_quantities(study, &runs));
    let measured: Vec<&Measured> = runs.iter().filter_map(|run| run.measured.as_ref()).collect();
    let with_energy = || measured.iter().filter(|of| of.grade.is_some());
    let joules: Vec<f64> = with_energy().map(|of| of.joules).collect();
    let seconds: Vec<f64> = with_energy().map(|of| of.seconds).collect();
    Group {
        name: name.to_owned(),
        blocks: of_runs.into_iter().chain(counted).chain(parts).collect(),
        energy_and_time: spearman(&joules, &seconds).map(|tested| (tested.statistic, tested.p)),
        grade: measured.iter().filter_map(|of| of.grade).max(),
    }
}

/// Compares programs in these quantities, and corrects for all of it.
fn blocks(study: &Study, programs: &[usize], quantities: Vec<Quantity<'_>>) -> Vec<Block> {
    let compared: Vec<Compared> = quantities.iter().map(|one| Compared::of(study, programs, one)).collect();
    let p: Vec<f64> = compared.iter().flat_map(|of| of.pairs.values().map(Comparison::p)).collect();
    let adjusted = Correction::Holm.adjust(&p);
    let mut adjusted_of = adjusted.iter();
    let tests = p.len();
    let with_p = compared.into_iter().zip(quantities).map(|(of, quantity)| {
        let adjusted: BTreeMap<Pair, f64> =
            of.pairs.keys().copied().zip(adjusted_of.by_ref().copied()).fill_map();
        of.into_block(quantity, &adjusted, tests)
    });
    with_p.collect()
}

/// Two programs, the first of the study first.
type Pair = (usize, usize);

struct Compared {
    cells: Vec<Cell>,
    least: Option<usize>,
    /// Each with the program with less energy first.
    pairs: BTreeMap<Pair, Comparison>,
}

impl Compared {
    fn of(study: &Study, programs: &[usize], quantity: &Quantity<'_>) -> Self {
        let mut values: BTreeMap<usize, BTreeMap<u32, f64>> =
            programs.iter().map(|&program| (program, values(study, program, quantity))).fill_map();
        // A call that a program never makes is no question; that all of its runs failed is said of the whole ones.
        let is_part = matches!(quantity.kind, Kind::Call | Kind::Function);
        values.retain(|_, of_rounds| !is_part || !of_rounds.is_empty());
        let programs: Vec<usize> = programs.iter().copied().filter(|at| values.contains_key(at)).collect();
        let cells: Vec<Cell> = programs.iter().map(|&at| cell(study, at, &values[&at])).collect();
        let known = cells.iter().filter(|cell| !cell.median.is_nan());
        let least = known.min_by(|one, other| one.median.total_cmp(&other.median)).map(|cell| cell.program);
        let mut pairs = BTreeMap::new();
        for (at, &one) in programs.iter().enumerate() {
            for &other in programs.iter().skip(at + 1) {
                // The one with less is what the other is held against, the one with the least above all.
                let median_of =
                    |program| cells.iter().find(|cell| cell.program == program).map(|cell| cell.median);
                let is_more = median_of(one).zip(median_of(other)).is_some_and(|(one, other)| one > other);
                let turned = least != Some(one) && (is_more || least == Some(other));
                let (base, beside) = if turned { (other, one) } else { (one, other) };
                let [base, beside] = [base, beside].map(|program| &values[&program]);
                let all: BTreeSet<u32> = base.keys().chain(beside.keys()).copied().fill_set();
                let of = |round: u32| (base.get(&round).copied(), beside.get(&round).copied());
                let rounds: Vec<Round> = all.into_iter().map(of).collect();
                pairs.insert((one, other), compare(&rounds, study.seed));
            }
        }
        Self { cells, least, pairs }
    }

    fn into_block(mut self, quantity: Quantity<'_>, adjusted: &BTreeMap<Pair, f64>, tests: usize) -> Block {
        let alone = self.cells.len() < 2;
        let beside = |(pair, found): (&Pair, &Comparison)| {
            let p = adjusted.get(pair).copied().unwrap_or(1.0);
            let verdict = judge(found, p, tests);
            // So many tests may take more pairs than one does.
            let is_few = matches!(verdict, Verdict::TooFew { .. });
            let found = Comparison { detectable: found.detectable.filter(|_| !is_few), ..*found };
            (*pair, Beside { found, p, verdict })
        };
        let pairs: BTreeMap<Pair, Beside> = self.pairs.iter().map(beside).fill_map();
        for cell in &mut self.cells {
            cell.alone = alone;
            let Some(least) = self.least.filter(|least| *least != cell.program) else { continue };
            let pair = (least.min(cell.program), least.max(cell.program));
            cell.beside_least = pairs.get(&pair).copied();
        }
        let Quantity { kind, name, unit, .. } = quantity;
        Block { kind, quantity: name, unit, cells: self.cells, tests, pairs }
    }
}

/// A program's value in each round.
pub(super) fn values(study: &Study, program: usize, quantity: &Quantity<'_>) -> BTreeMap<u32, f64> {
    let runs = study.runs.iter().filter(|run| run.program == Some(program) && run.counts());
    runs.filter_map(|run| Some((run.round, (quantity.value)(run).filter(|value| value.is_finite())?)))
        .fill_map()
}

fn cell(study: &Study, program: usize, values: &BTreeMap<u32, f64>) -> Cell {
    let of_program = study.runs.iter().filter(|run| run.program == Some(program));
    let counted: Vec<&Run> = of_program.filter(|run| run.purpose == super::Purpose::Counted).collect();
    let failed = counted.iter().filter(|run| !run.counts()).count();
    let all: Vec<f64> = values.values().copied().collect();
    Cell {
        program,
        runs: all.len(),
        without: counted.len().saturating_sub(failed + all.len()),
        failed,
        median: median(&all),
        quartiles: (quantile(&all, 0.25), quantile(&all, 0.75)),
        alone: false,
        beside_least: None,
        values: all,
    }
}
