//! Joules per unit of work by function, call or line: what a token, a request or a step is made of.
//!
//! ```text
//! 0.31 J ±3% per token: 1,234 counted in 12.30 s of the run's 15.00 s
//!
//!   self   J per token   with callees  function
//!  41.0%       0.127 J        0.127 J  attention
//!  +6.0%       0.019 J        0.019 J  [idle baseline]
//! ```
//!
//! The profile is that of the stretches of this work alone (`OverTime::within_stretches`), so that the column of `self` sums to the first
//! line. What stands beside that is last: the idle baseline of the stretches, whether a unit was under way or not, and what the program took in
//! the rest of the run, by which all is the ledger's. Leaves out how sure a row is: of a part of a run nobody knows it.

use super::fold::{Cost, Spent};
use super::rows::{mark, notes, rows_at};
use super::run;
use super::table::TableOptions;
use super::table_cells::{DIM, FILE_WIDTH, Grid, GridRow, Look, TITLE, WARNING, in_unit, percent};
use super::work::{Known, number, of_all, sentence, work_named};
use super::{By, Level, diagnostics, phases};
use anstyle::Style;
use energy_trace_model::profile::phases::{Phase, Phases};
use energy_trace_model::profile::stretches::Span;
use energy_trace_model::profile::work::Work;
use energy_trace_model::profile::{OverTime, Profile};
use energy_trace_model::recording::record::{DomainClass, WorkUnits};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_names::short_names;
use energy_trace_names::shown::shown;
use energy_trace_names::{shorten, shorten_end, wrap};
use energy_trace_sentences as sentences;
use std::io::{self, Write};

/// Microjoules of a unit, where a profile is shown by one: of those of a phase, of all in any other row; `None` where no energy is known.
pub(crate) fn uj_per_unit(profile: &Profile, phase: Option<usize>, energy: MicroJoules) -> Option<f64> {
    run::split_quality(profile, run::headline(profile))?;
    let all = profile.per_work.as_ref()?.units;
    units_of(profile, phase).unwrap_or(all).uj_each(energy)
}

/// What was done in a phase.
fn units_of(profile: &Profile, phase: Option<usize>) -> Option<WorkUnits> {
    profile.phases.as_ref()?.found.get(phase?)?.units
}

/// Why no row of a part of a run has the mark.
const OPEN_OF_ALL: &str = "rows that cannot be separated from other code are marked (?) for the whole run only: report without --per-work";

/// Columns of a head where there is no room for all of it.
const NARROW_HEAD: usize = 14;

/// What stands beside a unit's rows.
const IDLE: &str = "[idle baseline]";
const REST: &str = "[rest of the run]";
/// What that is.
const BESIDE: &str = "+ on top of these: [idle baseline] is what counters show at rest in all of that time, between units too; [rest of the \
                      run] is the program's, outside of it";

/// What else there was for these units, where there was any: the idle baseline, and the rest of the run.
pub(crate) fn beside(profile: &Profile) -> Vec<(&'static str, Spent)> {
    let choice = run::headline(profile);
    let all = profile.per_work.iter().flat_map(|per| [(IDLE, per.idle), (REST, per.rest)]);
    let any = all.filter(|(_, energy)| run::chosen(energy, choice) != MicroJoules::ZERO);
    let spent = any.map(|(name, energy)| (name, Cost { energy, by_time: energy, ..Cost::default() }));
    spent.map(|(name, cost)| (name, Spent { own: cost, total: cost })).collect()
}

/// Writes the table. Of a profile that is not shown by a unit of work nothing is written.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &TableOptions) -> io::Result<()> {
    let profile = &*short_names::chosen(profile, options.short_names);
    let look = Look { color: options.color, width: Some(options.width.map_or(FILE_WIDTH, usize::from)) };
    let Some(done) = profile.per_work.as_ref().and_then(|per| work_named(profile, &per.name)) else {
        return Ok(());
    };
    let width = look.width.unwrap_or(FILE_WIDTH);
    look.line(out, TITLE, &shorten(&shown(&run::what_was_recorded(profile)), width))?;
    let each = sentence(profile, &done).unwrap_or_default();
    wrap(&each, width).iter().try_for_each(|line| look.line(out, TITLE, line))?;
    if done.known != Known::Nothing {
        by_domain(out, profile, look)?;
        look.bullets(out, " ", &of_all(profile, 1).into_iter().collect::<Vec<_>>())?;
        writeln!(out)?;
        let table = UnitTable::of(profile, (options.by, options.level), options.native_frames, done.name());
        table.grid(options.rows, width).write(out, look)?;
        look.bullets(out, " ", &table.notes(options.rows))?;
        let about: Vec<String> = profile.phases.iter().map(phases::about).collect();
        look.bullets(out, " ", &about)?;
    }
    let found = diagnostics::diagnostics(profile);
    let changing = found.iter().filter(|found| diagnostics::changes_numbers(found, profile));
    let warnings: Vec<String> = changing.map(sentences::diagnostic).collect();
    if warnings.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    look.line(out, WARNING, "Warnings")?;
    look.bullets(out, "!", &warnings)
}

/// `  CPU 0.25 J, DRAM 0.06 J`, where there are several.
fn by_domain(out: &mut dyn Write, profile: &Profile, look: Look) -> io::Result<()> {
    let of = |class: DomainClass| profile.rows.iter().map(|row| row.energy[class]).sum::<MicroJoules>();
    let part = |class: DomainClass| {
        let each = uj_per_unit(profile, None, of(class)).filter(|each| *each != 0.0)?;
        Some(format!("{} {}", class.name(), in_unit(each / 1e6, "J")))
    };
    let parts: Vec<String> = DomainClass::ALL.into_iter().filter_map(part).collect();
    if parts.len() < 2 { Ok(()) } else { look.line(out, Style::new(), &format!("  {}", parts.join(", "))) }
}

/// The same phases in the time alone in which this work was done, each with what was done in it.
pub fn phases_of(phases: Phases, profile: &Profile, over: &OverTime, work: &Work) -> Phases {
    let of_phase = |phase: Phase| {
        let common = |(from, to): &Span| {
            let stretches = work.stretches.iter();
            let spans = stretches.map(|stretch| (stretch.from.max(*from), stretch.to.min(*to)));
            spans.filter(|(from, to)| from < to).collect::<Vec<_>>()
        };
        let spans: Vec<Span> = phase.stretches.iter().flat_map(common).collect();
        let units = Some(work.units_within(&spans));
        let Phase { stretches, told_by, .. } = phase;
        Phase { stretches, told_by, units, ..phases::within(profile, over, spans) }
    };
    Phases { found: phases.found.into_iter().map(of_phase).collect(), ..phases }
}

/// What a unit is made of.
pub(crate) struct UnitTable {
    /// What stands above the numbers and the name.
    pub(crate) heads: [String; 4],
    /// The rows with the most energy of their own first.
    pub(crate) rows: Vec<UnitRow>,
    /// What stands beside them: its part is that which it would be on top.
    pub(crate) beside: Vec<UnitRow>,
    /// Of a part of a run it is not known which rows cannot be separated from other code.
    is_part: bool,
}

/// A row: its part of the energy, and joules of a unit without and with what it calls; of a phase its units and joules of each.
pub(crate) struct UnitRow {
    pub(crate) cells: [String; 3],
    pub(crate) name: String,
    /// What is doubtful about its numbers.
    pub(crate) mark: &'static str,
    /// Whether it is no code.
    special: bool,
}

impl UnitTable {
    /// Of a profile that is shown by a unit of this name.
    pub(crate) fn of(
        profile: &Profile,
        (by, level): (By, Level),
        native_frames: Option<NativeFrames>,
        unit: &str,
    ) -> Self {
        let native_frames = native_frames.or(Some(NativeFrames::Libraries));
        let profile = &*super::own_rows::with_frames(profile, by, native_frames);
        let choice = run::headline(profile);
        let whole = run::target(profile, choice).as_uj();
        let is_modelled = run::is_modelled(profile, choice);
        let sign = work_named(profile, unit).map_or("", |done| done.sign());
        let each = |phase, energy| match uj_per_unit(profile, phase, energy) {
            Some(uj) => format!("{sign}{}", in_unit(uj / 1e6, "J")),
            None => "-".to_owned(),
        };
        let rows = rows_at(profile, by, level).into_iter().map(|row| {
            let [own, total] =
                [&row.spent.own, &row.spent.total].map(|cost| run::chosen(&cost.energy, choice));
            let joules = match units_of(profile, row.phase) {
                Some(units) => [number(units), each(row.phase, own)],
                None => [each(None, own), each(None, total)],
            };
            let [first, second] = joules;
            let cells = [percent(own.as_uj(), whole), first, second];
            let mark = mark(&row.flags, is_modelled);
            let name = match row.phase {
                Some(number) => phases::lines(profile, number).join("\n"),
                None => shown(&(row.name + &row.inside)).into_owned(),
            };
            UnitRow { cells, mark, special: row.special, name }
        });
        let beside = beside(profile).into_iter().map(|(name, spent)| {
            let energy = run::chosen(&spent.own.energy, choice);
            let own = if by == By::Phase { String::new() } else { each(None, energy) };
            let cells = [format!("+{}", percent(energy.as_uj(), whole)), own, each(None, energy)];
            UnitRow { cells, mark: "", name: name.to_owned(), special: true }
        });
        let (unit, each) = (shown(unit).into_owned(), format!("J per {}", shown(unit)));
        let heads = match by {
            By::Phase => ["energy".to_owned(), unit, each, "phase".to_owned()],
            By::Function => ["self".to_owned(), each, "with callees".to_owned(), "function".to_owned()],
            By::Python => [
                "self".to_owned(),
                each,
                "with callees".to_owned(),
                "Python function, native included".to_owned(),
            ],
            by => ["self".to_owned(), each, "with callees".to_owned(), by.name().to_owned()],
        };
        let is_part = profile.part.is_some() && !is_modelled;
        Self { heads, rows: rows.collect(), beside: beside.collect(), is_part }
    }

    /// So many rows, and what stands beside them; their marks have a column where there are any, and heads give way where there is no room.
    fn grid(&self, most: usize, width: usize) -> Grid {
        let has_marks = self.rows.iter().take(most).any(|row| !row.mark.is_empty());
        let cells = |numbers: &[String], mark: &str, name: &str| {
            let mark = has_marks.then(|| mark.to_owned());
            numbers.iter().cloned().chain(mark).chain([name.to_owned()]).collect()
        };
        let rows = self.rows.iter().take(most).chain(&self.beside).map(|row| GridRow {
            cells: cells(&row.cells, row.mark, &row.name),
            style: if row.special { DIM } else { Style::new() },
        });
        let [numbers @ .., name] = &self.heads;
        let heads = cells(numbers, "", name);
        let grid = Grid { heads, words: 0, name_last: true, no_rule: true, rows: rows.collect() };
        if !grid.is_too_wide(Some(width)) {
            return grid;
        }
        let last = grid.heads.len().saturating_sub(1);
        let room = |at| if at == last { width } else { NARROW_HEAD };
        let heads = grid.heads.iter().enumerate().map(|(at, head)| shorten_end(head, room(at))).collect();
        Grid { heads, ..grid }
    }

    /// What stands below so many rows.
    fn notes(&self, most: usize) -> Vec<String> {
        let marks: Vec<&str> = self.rows.iter().take(most).map(|row| row.mark).collect();
        let beside = (!self.beside.is_empty()).then(|| BESIDE.to_owned());
        let open = self.is_part.then(|| OPEN_OF_ALL.to_owned());
        notes(self.rows.len().saturating_sub(most), &marks).into_iter().chain(open).chain(beside).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{MicroJoules, Profile, TableOptions, run, write};
    use crate::tests::training_runs::measured_training;
    use crate::tests::work::counted;
    use crate::{csv, json};
    use energy_trace_model::profile::EnergyByClass;
    use energy_trace_model::profile::over_time::PartOfRun;
    use energy_trace_model::profile::work::PerWork;
    use energy_trace_model::recording::record::{DomainClass, WorkUnits};

    fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Ten units, beside which there are 50 J of the idle baseline and 2 J in the rest of the run.
    fn of_ten() -> Profile {
        let mut profile = measured_training();
        profile.work = vec![counted(&profile, "token", 1)];
        let package = |uj| {
            let mut energy = EnergyByClass::default();
            energy[DomainClass::Package] = MicroJoules::from_uj(uj);
            energy
        };
        let (idle, rest) = (package(50_000_000), package(2_000_000));
        let (name, units) = ("token".into(), WorkUnits::whole(10));
        profile.per_work = Some(PerWork { name, units, idle, rest, ..PerWork::default() });
        profile
    }

    /// The idle baseline and the rest of the run have the last rows, by which a table, CSV and JSON hold all joules of the ledger.
    #[test]
    fn what_stands_beside_a_unit() {
        let profile = of_ten();
        let target = run::target(&profile, run::headline(&profile)).as_uj();
        let table = text(|out| write(out, &profile, &TableOptions { rows: 1, ..TableOptions::default() }));
        let rows: Vec<&str> =
            table.lines().filter(|line| line.contains("  [") && line.contains("%")).collect();
        let part = format!("+{:.1}%", 100.0 * 50e6 / target as f64);
        assert!(rows[0].contains(&part) && rows[0].ends_with("5.00 J  [idle baseline]"), "{table}");
        assert!(
            rows[1].ends_with("200 mJ  [rest of the run]") && table.contains("+ on top of these"),
            "{table}"
        );
        let lines = text(|out| csv::write(out, &profile));
        let column = |line: &str, name: &str| {
            let at = lines.lines().next().unwrap().split(',').position(|head| head == name).unwrap();
            line.split(',').nth(at).unwrap().parse::<f64>().unwrap()
        };
        let beside: Vec<&str> =
            lines.lines().filter(|line| line.contains(",special,false,")).rev().take(2).collect();
        assert!(
            beside[1].starts_with("[idle baseline],") && beside[0].starts_with("[rest of the run],"),
            "{lines}"
        );
        assert_eq!(beside.iter().map(|line| column(line, "self_uj_per_unit")).sum::<f64>(), 5_200_000.0);
        let report = text(|out| json::write(out, &profile, &json::JsonOptions::default()));
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let of = |at: usize, key: &str| report["beside"][at][key].clone();
        assert_eq!([of(0, "name"), of(1, "name")], ["[idle baseline]", "[rest of the run]"]);
        assert_eq!([of(0, "self_uj_per_unit"), of(1, "total_uj_per_unit")], [5e6, 2e5]);
        assert_eq!(of(0, "self_uj")["package"], 50_000_000);
    }

    /// However long names are, no line is wider than the terminal.
    #[test]
    fn narrow() {
        let mut profile = of_ten();
        profile.run.header.command = vec!["python3".into(), "x".repeat(100)];
        profile.work[0].series.counter.name = "request".repeat(8);
        profile.per_work.as_mut().unwrap().name = "request".repeat(8);
        let options = TableOptions { width: Some(80), ..TableOptions::default() };
        let table = text(|out| write(out, &profile, &options));
        assert!(table.lines().count() > 5 && table.lines().all(|line| line.chars().count() <= 80), "{table}");
    }

    /// Rows that are left out are counted, and numbers from few samples are marked, as in other tables.
    #[test]
    fn what_a_table_leaves_out() {
        let profile = of_ten();
        let said = |rows| text(|out| write(out, &profile, &TableOptions { rows, ..TableOptions::default() }));
        let (all, first) = (said(99), said(2));
        let rows = all.lines().filter(|line| line.contains("%  ")).count() - 2;
        assert!(all.contains("  ~  asm_exc_page_fault") && all.contains("~ fewer than 100 samples"), "{all}");
        assert!(!all.contains(" more") && !first.contains('~'), "{first}");
        assert!(first.contains(&format!("and {} more\n", rows - 2)), "{first}");
    }

    /// Rows of a part of a run have no mark of what the run does not tell; that is said, where it may be so.
    #[test]
    fn what_a_part_does_not_know() {
        let said = |profile: &Profile| text(|out| write(out, profile, &TableOptions::default()));
        let mut profile = of_ten();
        assert!(!said(&profile).contains("report without --per-work"));
        profile.part = Some(PartOfRun { from_ns: 0, to_ns: 1, of_ns: 1, bin_ns: 1 });
        let words = said(&profile).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(super::OPEN_OF_ALL), "{words}");
    }

    /// Where more units may have been done, joules of one are upper bounds in every row.
    #[test]
    fn units_that_may_be_more() {
        let mut profile = of_ten();
        profile.per_work.as_mut().unwrap().at_least = true;
        let table = text(|out| write(out, &profile, &TableOptions::default()));
        let rows: Vec<&str> = table.lines().filter(|line| line.contains("%  ")).collect();
        assert!(rows.len() > 3 && rows.iter().all(|row| row.matches('≤').count() == 2), "{table}");
    }
}
