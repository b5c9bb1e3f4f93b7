//! The rows of a summary: API calls with all they call, functions by what they spent themselves, programs.
//!
//! Leaves out how they look (`summary.rs`).

use super::apart::told_apart;
use super::calls::owner::is_generated;
use super::fold::{Cost, Interner, fold};
use super::functions::MISSING;
use super::inside::weight;
use super::own_rows::{Own, OwnCode, is_python_program, own_rows, with_packages};
use super::row::Row;
use super::rows::{self, rows};
use super::table_cells::{EnergyScale, percent, seconds};
use super::uncertainty::Uncertainties;
use super::{By, DomainChoice, Kind, run};
use energy_trace_certainty::Uncertainty;
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::{file_name, frame_name, is_nameless, place_name, shorten_end};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Rows with less than one in so many joules are crumbs.
const CRUMB: i128 = 200;
/// Crumbs are shown up to so many rows.
const FEWEST: usize = 3;
/// Of the program's own functions with what they call those are shown that are more than one in so many joules, and not nearly all.
const OWN_LEAST: i128 = 50;
const OWN_MOST: (i128, i128) = (9, 10);
/// Code that was generated is said where it calls one in so many joules, and what is in no row where it is more than that.
const GENERATED: i64 = 10;
const OUTSIDE: i64 = 2;
/// Columns of such code's file: `<string>`.
const FILE: usize = 10;
/// The code of a file, which calls everything.
const MODULE: &str = ".<module> ";

/// What rows are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Joules of a choice of domains.
    Energy(DomainChoice),
    /// CPU time, where no energy was measured or the program was charged with none.
    Time,
}

impl Measure {
    /// Joules, where there are any.
    pub(crate) fn of(profile: &Profile) -> Self {
        let choice = run::headline(profile);
        match run::target(profile, choice).as_uj() {
            1.. => Self::Energy(choice),
            _ => Self::Time,
        }
    }

    /// Microjoules, or nanoseconds.
    pub(crate) fn amount(self, cost: &Cost) -> i64 {
        match self {
            Self::Energy(choice) => run::chosen(&cost.energy, choice).as_uj(),
            Self::Time => i64::try_from(cost.time_ns).unwrap_or(i64::MAX),
        }
    }

    /// What shares are of.
    pub(crate) fn whole(self, profile: &Profile) -> i64 {
        match self {
            Self::Energy(choice) => run::target(profile, choice).as_uj(),
            Self::Time => {
                let time = profile.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.time_ns));
                i64::try_from(time).unwrap_or(i64::MAX)
            }
        }
    }

    /// The unit that stands above a column.
    pub(crate) fn head(self, table: &Top) -> &'static str {
        match self.scale(table) {
            Some(scale) => scale.unit,
            None => "CPU s",
        }
    }

    /// The number in that unit.
    pub(crate) fn show(self, cost: &Cost, table: &Top) -> String {
        match (self, self.scale(table)) {
            (Self::Energy(choice), Some(scale)) => scale.show(run::chosen(&cost.energy, choice)),
            _ => seconds(cost.time_ns),
        }
    }

    fn scale(self, table: &Top) -> Option<EnergyScale> {
        let Self::Energy(choice) = self else { return None };
        let energies = table.rows.iter().map(|row| run::chosen(&row.cost.energy, choice));
        Some(EnergyScale::for_largest(energies))
    }

    /// How far the true joules may be from those shown, as the 95 % interval says: `±12%`.
    pub(crate) fn plus_minus(self, row: &TopRow) -> String {
        match self {
            Self::Energy(choice) => {
                plus_minus(run::chosen(&row.cost.energy, choice), row.uncertainty.as_ref())
            }
            Self::Time => "-".to_owned(),
        }
    }
}

/// How far an energy may be from the one shown, by its interval, which is at least as wide as its bounds: `±12%`.
pub(crate) fn plus_minus(energy: MicroJoules, uncertainty: Option<&Uncertainty>) -> String {
    let Some(Uncertainty { ci95: (low, high), .. }) = uncertainty else { return "-".to_owned() };
    let (low, energy, high) = (low.as_uj(), energy.as_uj(), high.as_uj());
    deviation(energy, high.saturating_sub(energy).max(energy.saturating_sub(low)))
}

/// A deviation in percent of a number; never less than it is.
fn deviation(of: i64, far: i64) -> String {
    if of <= 0 || far <= 0 {
        return "-".to_owned();
    }
    match (i128::from(far) * 100 + i128::from(of) - 1) / i128::from(of) {
        percent @ ..100 => format!("±{percent}%"),
        _ => ">±99%".to_owned(),
    }
}

/// The first rows of a ranking.
pub(crate) struct Top {
    /// What a row is.
    pub(crate) head: &'static str,
    /// Whether rows hold what they call.
    pub(crate) inclusive: bool,
    pub(crate) rows: Vec<TopRow>,
    /// What is said of those that are left out.
    pub(crate) rest: Option<String>,
}

impl Top {
    /// Keeps so many rows.
    pub(crate) fn keep(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }

    /// Leaves out rows that are next to nothing of the whole, but for the first few.
    pub(crate) fn without_crumbs(&mut self, measure: Measure, whole: i64) {
        let matters = |row: &TopRow| i128::from(measure.amount(&row.cost)) * CRUMB >= i128::from(whole);
        let kept = self.rows.iter().take_while(|row| matters(row)).count();
        self.rows.truncate(kept.max(FEWEST));
    }

    /// Lines that its rows take.
    pub(crate) fn lines(&self) -> usize {
        self.rows.len() + 1
    }

    /// Lines that all of it takes, with a blank one before it.
    pub(crate) fn all_lines(&self) -> usize {
        let rows = if self.rows.is_empty() { 0 } else { self.lines() };
        let all = rows + usize::from(self.rest.is_some());
        if all > 0 { all + 1 } else { 0 }
    }

    fn ranked(head: &'static str, inclusive: bool, mut rows: Vec<TopRow>, measure: Measure) -> Self {
        rows.retain(|row| measure.amount(&row.cost) > 0);
        rows.order_by_cached_key(|row| (Reverse(measure.amount(&row.cost)), row.name.clone()));
        Self { head, inclusive, rows, rest: None }
    }
}

/// One row.
pub struct TopRow {
    /// What is shown of it.
    pub name: String,
    /// What it used.
    pub cost: Cost,
    /// How sure `cost` is.
    pub(crate) uncertainty: Option<Uncertainty>,
    flags: Vec<&'static str>,
    /// Whether it is no code.
    pub(crate) special: bool,
}

impl TopRow {
    /// What is doubtful about its number, in one character.
    pub(crate) fn mark(&self, is_modelled: bool) -> &'static str {
        rows::mark(&self.flags, is_modelled)
    }

    fn new(name: String, cost: Cost, rows: &[usize], uncertainties: &Uncertainties<'_>) -> Self {
        let uncertainty = uncertainties.uncertainty(&cost, rows);
        let flags = uncertainties.flags(&cost, uncertainty.as_ref());
        let special = name.starts_with('[') && name.ends_with(']');
        Self { name, cost, uncertainty, flags, special }
    }
}

/// What the program calls of installed packages, and where, with all that is called by that.
pub(crate) fn calls(profile: &Profile, measure: Measure) -> Top {
    let called = rows(profile, By::Call).into_iter().filter(|row| row.kind != Some(Kind::Rest));
    Top::ranked("API call", true, called.map(whole_row).collect(), measure)
}

/// Programs, where none was named.
pub(crate) fn processes(profile: &Profile, measure: Measure) -> Top {
    Top::ranked("program", true, rows(profile, By::Process).into_iter().map(whole_row).collect(), measure)
}

fn whole_row(row: Row) -> TopRow {
    let Row { name, inside, spent, uncertainty, flags, special, .. } = row;
    TopRow { name: name + &inside, cost: spent.total, uncertainty, flags, special }
}

/// So many functions of a Python program's own code that call others, with all of that: those that spend most themselves and in packages, so that
/// one that calls a costly one twice is seen, and not who calls that.
pub(crate) fn own_functions(profile: &Profile, measure: Measure, most: usize) -> Top {
    let python = native_frames::folded(profile, NativeFrames::None);
    let is_python = is_python_program(&python);
    let mut rows = if is_python { own_rows(&python, Own::Functions) } else { Vec::new() };
    let spend = with_packages(&python, Own::Functions);
    let spends = |row: &Row| spend.get(&row.name).map_or(0, |cost| measure.amount(cost));
    let whole = i128::from(measure.whole(profile));
    let (part, of) = OWN_MOST;
    rows.retain(|row| {
        let [own, total] = [row.spent.own, row.spent.total].map(|cost| i128::from(measure.amount(&cost)));
        let calls = own * of < total * part && !row.name.contains(MODULE);
        calls && total * OWN_LEAST >= whole && total * of < whole * part
    });
    rows.order_by_cached_key(|row| (Reverse(spends(row)), row.name.clone()));
    rows.truncate(most);
    let rest = is_python.then(|| outside(&python, &rows)).flatten();
    let rows = rows.into_iter().map(whole_row).collect();
    Top { rest, ..Top::ranked("function of this program, with callees", true, rows, measure) }
}

/// What is in none of these rows: `62.0% in none of these, 40.0% by generated code (<blob>)`, where that is much.
fn outside(python: &Profile, rows: &[Row]) -> Option<String> {
    let (code, weight) = (OwnCode::of(python, Own::Functions), weight(python));
    let shown: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).fill_set();
    let is_shown = |label: &usize| code.names().get(*label).is_some_and(|name| shown.contains(name.as_str()));
    let is_outside = |row: &&ProfileRow| {
        let mut path = Vec::new();
        code.path(row, &mut path);
        !path.iter().any(is_shown)
    };
    let all: i64 = python.rows.iter().map(&weight).sum();
    let outside: Vec<&ProfileRow> = python.rows.iter().filter(is_outside).collect();
    let callers = outside.iter().filter_map(|row| Some((generated_caller(python, row)?, weight(row))));
    let callers: Vec<(&Frame, i64)> = callers.collect();
    let [outside, called] =
        [outside.iter().copied().map(&weight).sum(), callers.iter().map(|(_, amount)| amount).sum::<i64>()];
    let is_much = outside.saturating_mul(OUTSIDE) > all && !rows.is_empty();
    let much = is_much.then(|| format!("{} in none of these", percent(outside, all)));
    let caller = callers.first().filter(|_| called.saturating_mul(GENERATED) >= all && called > 0);
    let generated = caller.map(|(caller, _)| {
        let file = shorten_end(file_name(&caller.file), FILE);
        format!("{} by generated code ({file})", percent(called, all))
    });
    let said: Vec<String> = much.into_iter().chain(generated).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// The outermost function of generated code that calls another one of Python.
fn generated_caller<'a>(python: &'a Profile, row: &ProfileRow) -> Option<&'a Frame> {
    let frames = python.frames_of(row.stack?).map(|(_, frame)| frame);
    let frames: Vec<&Frame> = frames.filter(|frame| frame.kind == FrameKind::Python).collect();
    let (_, callers) = frames.split_last()?;
    callers.iter().copied().find(|frame| is_generated(frame, &python.public_names))
}

/// Functions by what they spent themselves: of a Python program its Python functions, with all native code that they call.
pub(crate) fn functions(profile: &Profile, measure: Measure) -> Top {
    let python = native_frames::folded(profile, NativeFrames::None);
    if is_python_program(&python) {
        let rows = innermost(&python, told_apart(&python, place_name));
        return Top::ranked("Python function, native included", false, rows, measure);
    }
    Top::ranked("function", false, innermost(profile, told_apart(profile, name_and_place)), measure)
}

/// `hot` of `gen_7.hot gen_7.py:1`.
pub(crate) fn own_name(row: &str) -> &str {
    let function = row.split_once(' ').map_or(row, |(function, _)| function);
    function.rsplit_once('.').map_or(function, |(_, name)| name)
}

/// A function and its source line, or the library that it is in.
fn name_and_place(frame: &Frame) -> String {
    match (frame.kind, file_name(&frame.file), file_name(&frame.module)) {
        (FrameKind::Native | FrameKind::Inlined, "", library)
            if !library.is_empty()
                && !is_nameless(frame)
                && frame.name != library
                && !frame.name.starts_with('[') =>
        {
            format!("{} {library}", frame_name(frame))
        }
        _ => place_name(frame),
    }
}

/// Rows of the innermost frames alone, by the names of all frames: then the interval is that of the own energy.
pub fn innermost(profile: &Profile, frames: Vec<String>) -> Vec<TopRow> {
    let uncertainties = Uncertainties::new(profile);
    let mut names = Interner::new();
    let of_frame: Vec<usize> = frames.into_iter().map(|name| names.number(name)).collect();
    let (unsampled, missing) =
        (names.number(SyntheticFrame::Unsampled.name().to_owned()), names.number(MISSING.to_owned()));
    let groups = fold(profile, |row, path| {
        let node = row.stack.map(|stack| profile.stacks.get(stack.index()));
        path.push(match node {
            None => unsampled,
            Some(node) => node.and_then(|node| of_frame.get(node.frame.index()).copied()).unwrap_or(missing),
        });
    });
    let row = |(number, (spent, rows)): (usize, (super::fold::Spent, Vec<usize>))| {
        let name = names.labels().get(number).cloned().unwrap_or_else(|| MISSING.to_owned());
        TopRow::new(name, spent.own, &rows, &uncertainties)
    };
    groups.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::deviation;

    /// A deviation is never shown smaller than it is, and one that is as large as the number says so.
    #[test]
    fn deviations() {
        assert_eq!(deviation(1000, 120), "±12%");
        assert_eq!(deviation(1000, 121), "±13%");
        assert_eq!(deviation(1000, 1), "±1%");
        assert_eq!(deviation(1000, 991), ">±99%");
        assert_eq!(deviation(1, i64::MAX), ">±99%");
        assert_eq!((deviation(0, 5), deviation(5, 0)), ("-".to_owned(), "-".to_owned()));
    }
}
