//! A difference as a table: the program, what changed, and the largest of the rest; and what to do where one run of a side is all there is.
//!
//! Leaves out what counts as a change (`diff.rs`).

use super::diff::{Change, Comparison, DiffOptions, Divisor, crumb, worst_quality};
use super::diff_doubts::{doubts, is_any_cut, is_any_same, is_unknown};
use super::meters::unlike;
use super::rows::{mark, notes};
use super::table_cells::{FILE_WIDTH, Grid, GridRow, Look, TITLE, with_decimals};
use super::{By, run};
use anstyle::{AnsiColor, Style};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Quality;
use energy_trace_names as names;
use energy_trace_names::shown::shown;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr as _;

/// Below this width there is no column for chance: its verdict is the mark.
const NARROW: usize = 80;
/// Stands in the place of joules of a side that has runs without energy.
const NOT_KNOWN: &str = "not known";
/// Stands in the place of a chance that is more than there is.
const UNKNOWN: &str = "unknown";
const TOO_FEW: &str = "unknown: the runs are so few, or differ so much, that chance alone may explain any change; \
                       five runs of each side or more tell";

/// Writes the table.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, compared: &Comparison<'_>, options: &DiffOptions<'_>) -> io::Result<()> {
    let width = options.width.map_or(FILE_WIDTH, usize::from);
    let look = Look { color: options.color, width: Some(width) };
    for line in heading(compared, options) {
        look.line(out, TITLE, &names::shorten_end(&shown(&line), width))?;
    }
    let all = &compared.changes;
    let (real, rest): (Vec<&Change>, Vec<&Change>) = all.iter().skip(1).partition(|change| change.is_real());
    let rest_shown = rest.iter().copied().take(options.rows);
    let rows: Vec<&Change> = all.iter().take(1).chain(real.iter().copied()).chain(rest_shown).collect();
    writeln!(out)?;
    let before: Vec<String> = unlike(compared.sides).into_iter().chain(doubts(compared, options)).collect();
    if !before.is_empty() {
        look.bullets(out, "!", &before)?;
        writeln!(out)?;
    }
    grid(&rows, compared, options, width).write(out, look)?;
    let left_out = rest.len().saturating_sub(options.rows);
    if left_out > 0 {
        look.line(out, Style::new(), &format!("    and {left_out} more: --rows {}", rest.len()))?;
    }
    if let Some(crumbs) = compared.crumbs {
        let crumb = crumb(options.by);
        look.bullets(
            out,
            " ",
            &[format!("and {crumbs} of less than {crumb}% each, which are not compared")],
        )?;
    }
    writeln!(out)?;
    let marks: Vec<&str> = rows.iter().map(|change| mark_of(change)).collect();
    let marks = notes(0, &marks).into_iter().chain(of_a_part(compared));
    if let Some(which) = without_energy(compared.known) {
        let said = format!("no energy was measured in a run of {which}: what changed is not known");
        return look.bullets(out, " ", &[said]);
    }
    // What single runs show, and how more would, is no matter where one stands beside itself.
    if is_any_cut(compared.sides) || (!is_known(compared) && is_any_same(compared.sides)) {
        return look.bullets(out, " ", &marks.collect::<Vec<_>>());
    }
    if is_known(compared) {
        let is_unknown = |change: &&Change| is_unknown(change) && !change.is_unidentified();
        let unknown = (width >= NARROW && rows.iter().any(is_unknown)).then(|| TOO_FEW.to_owned());
        let found = (all.len() > 1).then(|| found(&real, &rest, options.by));
        let notes: Vec<String> = found.into_iter().chain(unknown).chain(marks).collect();
        return look.bullets(out, " ", &notes);
    }
    let (sentence, commands) = of_single_runs(compared, options.work);
    look.bullets(out, " ", &marks.chain([sentence]).collect::<Vec<_>>())?;
    let lines = commands.iter().flat_map(|words| typed_lines(words, width));
    lines.into_iter().try_for_each(|line| look.line(out, Style::new(), &line))
}

/// What is to be typed is never cut: its lines go on as a shell's do.
fn typed_lines(words: &[String], width: usize) -> Vec<String> {
    let mut lines = vec![format!("    {}", words.first().map_or("", String::as_str))];
    for word in words.iter().skip(1) {
        match lines.last_mut() {
            Some(line) if line.width() + word.width() + 3 <= width => *line += &format!(" {word}"),
            last => {
                last.into_iter().for_each(|line| line.push_str(" \\"));
                lines.push(format!("      {word}"));
            }
        }
    }
    lines
}

/// `A  before.data (1 run)` and `B  …`, and what was recorded: once where it is the same.
fn heading(compared: &Comparison<'_>, options: &DiffOptions<'_>) -> Vec<String> {
    let recorded = compared.sides.map(|side| side.first().map_or_else(String::new, run::what_was_recorded));
    let is_same = recorded[0] == recorded[1];
    let mut lines = Vec::new();
    for (at, letter) in ["A", "B"].into_iter().enumerate() {
        let (side, files) = (compared.sides[at], options.files[at]);
        let runs = if side.len() == 1 { "1 run".to_owned() } else { format!("{} runs", side.len()) };
        let what = if is_same { String::new() } else { format!(": {}", recorded[at]) };
        lines.push(format!("{letter}  {} ({runs}{}){what}", named(files), quality(side)));
    }
    let [what, _] = recorded;
    lines.extend(is_same.then(|| format!("   both: {what}")));
    let is_bound = compared.at_most.contains(&true);
    let bound = if is_bound { " (≤: not all were counted; chance leaves that out)" } else { "" };
    match options.work {
        Divisor::Counts(_) => {}
        Divisor::Calls(name) => lines.push(format!("joules per call of {name}, of all that ran{bound}")),
        Divisor::Units(name) => lines.push(format!("joules per {name}{bound}")),
    }
    lines
}

/// `a.data`, or `a1.data … a9.data`.
fn named(files: &[String]) -> String {
    match files {
        [] => String::new(),
        [one] => one.clone(),
        [first, between @ .., last] => {
            format!("{first} {} {last}", if between.is_empty() { "and" } else { "…" })
        }
    }
}

fn quality(side: &[Profile]) -> &'static str {
    match worst_quality(side) {
        None => ", no energy",
        Some(Quality::Estimated) => ", estimated",
        Some(_) => "",
    }
}

/// Whether each side shows how much its runs differ.
fn is_known(compared: &Comparison<'_>) -> bool {
    compared.sides.iter().all(|side| side.len() > 1)
}

/// Which sides have a run whose joules nobody knows.
fn without_energy(known: [bool; 2]) -> Option<&'static str> {
    match known {
        [true, true] => None,
        [false, true] => Some("A"),
        [true, false] => Some("B"),
        [false, false] => Some("either side"),
    }
}

/// That marks are missing where nobody knows them.
fn of_a_part(compared: &Comparison<'_>) -> Option<String> {
    let is_part = compared.sides.into_iter().flatten().any(|profile| profile.part.is_some());
    let has_rows = compared.changes.len() > 1;
    let words = "rows that cannot be separated from other code are marked (?) for whole runs only: without --per-work";
    (is_part && has_rows).then(|| words.to_owned())
}

/// `1 function changed by more than chance explains (*), 3 did not; of 2 these runs do not tell (?)`.
fn found(real: &[&Change], rest: &[&Change], by: By) -> String {
    let what = match by {
        By::Line => "line",
        By::Api | By::Call => "call",
        _ => "function",
    };
    let count = |count: usize| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (marked, told): (Vec<&Change>, Vec<&Change>) =
        rest.iter().copied().partition(|change: &&Change| change.is_unidentified());
    let unknown = told.iter().filter(|change| change.by_chance.is_none() || is_unknown(change)).count();
    let open = marked.len() + unknown;
    let mark = match (marked.len(), unknown) {
        (_, 0) => "?",
        (0, _) => "too few runs",
        _ => "?, or too few runs",
    };
    if real.is_empty() && open == rest.len() && open > 0 {
        return format!("whether {} changed, these runs do not tell ({mark})", count(open));
    }
    let told = format!(
        "{} changed by more than chance explains (*), {} did not",
        count(real.len()),
        count(rest.len() - open)
    );
    if open > 0 { format!("{told}; of {open} these runs do not tell ({mark})") } else { told }
}

/// What single runs say, and the commands that would make it certain.
fn of_single_runs(compared: &Comparison<'_>, work: Divisor<'_>) -> (String, [Vec<String>; 2]) {
    let by = match compared.changes.first() {
        Some(whole) if whole.sides[0].joules > 0.0 => format!(" by {}", relative(whole)),
        _ => String::new(),
    };
    let runs = match compared.sides.iter().all(|side| side.len() == 1) {
        true => format!("one run each: these two differ{by}"),
        false => format!("one run of a side: these runs differ{by}"),
    };
    let command = compared.sides[0].first().map_or(&[][..], |profile| &profile.run.header.command);
    let (option, counted) = match work {
        Divisor::Counts(_) => (None, ""),
        Divisor::Calls(_) => (None, "with the same --count, "),
        Divisor::Units(name) => {
            unit(compared.sides[0], name).map_or((None, "with the same --work, "), |unit| (Some(unit), ""))
        }
    };
    let again = match work {
        Divisor::Counts([1.0, 1.0]) => None,
        Divisor::Counts([a, b]) => Some(format!("--per-count {a},{b}")),
        Divisor::Calls(name) => Some(format!("--per {}", typed(name))),
        Divisor::Units(name) => Some(format!("--per-work {}", typed(name))),
    };
    let each = ["for i in 1 2 3 4 5; do", "sudo energy-trace", "-o a$i.data"].map(str::to_owned);
    let command = format!("{}; done", words(command));
    let commands = [
        each.into_iter().chain(option).chain(command.split(' ').map(str::to_owned)).collect(),
        ["energy-trace diff a*.data --vs b*.data".to_owned()].into_iter().chain(again).collect(),
    ];
    (
        format!(
            "{runs}; whether it repeats, five runs of each tell, {counted}b*.data with what you changed:"
        ),
        commands,
    )
}

/// The option that counts these units, as it is typed, where that is short and plain enough.
fn unit(side: &[Profile], name: &str) -> Option<String> {
    let work = side.first()?.work.iter().find(|work| work.series.counter.name == name)?;
    let typed = format!("{name}={}", work.series.counter.source.words());
    Some(format!("--work {}", quoted(&typed)?))
}

/// Longest command that is put into a line to be typed.
const LONGEST: usize = 120;

/// A name as it is typed, where it is short and plain enough.
fn typed(name: &str) -> String {
    match name {
        _ if words(&[name.to_owned()]) == name => name.to_owned(),
        _ => quoted(name).unwrap_or_else(|| "NAME".to_owned()),
    }
}

/// A word in quotes, where it is short and plain enough.
fn quoted(word: &str) -> Option<String> {
    let is_plain = shown(word) == word && !word.contains('\'') && word.len() <= LONGEST;
    is_plain.then(|| format!("'{word}'"))
}

/// A command as it is typed; the word for one where it is long, or would have to be quoted.
fn words(command: &[String]) -> String {
    let is_plain = |word: &String| {
        let is_plain = |c: char| c.is_alphanumeric() || "._-/=+:,@%".contains(c);
        !word.is_empty() && word.chars().all(is_plain)
    };
    let typed = command.join(" ");
    let fits = !command.is_empty() && command.iter().all(is_plain) && typed.len() <= LONGEST;
    if fits { typed } else { "COMMAND".to_owned() }
}

fn relative(change: &Change) -> String {
    match change.sides[0].joules {
        before if before > 0.0 => format!("{:+.1}%", 100.0 * change.joules() / before),
        _ => "new".to_owned(),
    }
}

/// The unit of a table and how many decimals it has. Joules of a unit of work have no more digits than chance leaves of the surest row; where
/// nothing says how sure they are, three.
struct Scale {
    unit: &'static str,
    joules: f64,
    decimals: usize,
}

impl Scale {
    fn of(rows: &[&Change], work: Divisor<'_>) -> Self {
        let sides = rows.iter().flat_map(|change| change.sides.iter().map(|side| side.joules));
        let largest = sides.fold(0.0, f64::max);
        let (unit, joules, most) = match largest {
            1e5.. => ("kJ", 1e3, 1),
            1e3.. => ("J", 1.0, 1),
            1.0.. => ("J", 1.0, 2),
            1e-4.. => ("mJ", 1e-3, 2),
            1e-7.. => ("µJ", 1e-6, 2),
            _ => ("nJ", 1e-9, 2),
        };
        let sure = rows.iter().filter(|change| !is_unknown(change)).filter_map(|change| change.by_chance);
        let surest = sure.filter(|far| *far > 0.0).fold(f64::INFINITY, f64::min);
        let needed =
            if surest.is_finite() { 2 - digits(surest / joules) } else { 3 - digits(largest / joules) };
        let decimals = match work {
            Divisor::Counts([1.0, 1.0]) => most,
            _ => usize::try_from(needed).unwrap_or(0).min(most),
        };
        Self { unit, joules, decimals }
    }

    fn show(&self, joules: f64) -> String {
        with_decimals(joules / self.joules, self.decimals)
    }
}

/// Digits before the point; zero or less where there are none.
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn digits(number: f64) -> i32 {
    number.max(1e-9).log10().floor() as i32 + 1
}

fn grid(rows: &[&Change], compared: &Comparison<'_>, options: &DiffOptions<'_>, width: usize) -> Grid {
    let scale = Scale::of(rows, options.work);
    let known = is_known(compared);
    let has_chance = known && width >= NARROW;
    let has_marks = known || rows.iter().any(|change| !mark_of(change).is_empty());
    let columns = |cells: [String; 7]| -> Vec<String> {
        let left_out = |at| at == 4 && !has_chance || at == 5 && !has_marks;
        cells.into_iter().enumerate().filter(|(at, _)| !left_out(*at)).map(|(_, cell)| cell).collect()
    };
    let row = |change: &&Change| {
        let most = compared.at_most.map(|at_most| if at_most { "≤" } else { "" });
        let [a, b] = [0, 1].map(|at: usize| match compared.known[at] {
            true => format!("{}{}", most[at], scale.show(change.sides[at].joules)),
            false => NOT_KNOWN.to_owned(),
        });
        let difference = scale.show(change.joules());
        let is_more = change.joules() > 0.0 && !difference.trim_matches(['0', '.']).is_empty();
        let sign = if is_more { "+" } else { "" };
        let [difference, part] = match compared.known {
            [true, true] => [format!("{sign}{difference}"), relative(change)],
            _ => [NOT_KNOWN.to_owned(), String::new()],
        };
        let chance = match change.by_chance {
            Some(_) if is_unknown(change) => UNKNOWN.to_owned(),
            Some(far) => format!("±{}", scale.show(far)),
            None => String::new(),
        };
        let mark = mark_of(change).to_owned();
        let name = change.name.as_deref().map_or("the program".into(), shown).into_owned();
        let cells = [a, b, difference, part, chance, mark, name];
        GridRow { cells: columns(cells), style: style(change) }
    };
    let unit = scale.unit;
    let heads = [
        format!("A {unit}"),
        format!("B {unit}"),
        "change".into(),
        "".into(),
        "chance".into(),
        "".into(),
        what(options.by).into(),
    ];
    let rows = rows.iter().map(row).collect();
    Grid { heads: columns(heads), words: 0, name_last: true, no_rule: true, rows }
}

/// A change that is more than all doubts has the mark of one alone.
fn mark_of(change: &Change) -> &'static str {
    if change.is_real() { "*" } else { mark(&change.flags, false) }
}

/// What a row is.
const fn what(by: By) -> &'static str {
    match by {
        By::Python => "Python function, with callees",
        By::Api => "API call, with callees",
        By::Call => "line → call, with callees",
        By::Line => "line of the program, with callees",
        _ => "function, itself",
    }
}

/// Red for more and green for less, where it is more than chance.
fn style(change: &Change) -> Style {
    match (change.is_real(), change.joules() > 0.0) {
        (false, _) => Style::new(),
        (true, true) => AnsiColor::Red.on_default(),
        (true, false) => AnsiColor::Green.on_default(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Change, mark_of, named, words, write};
    use crate::By;
    use crate::diff::tests::OPTIONS;
    use crate::diff::{DiffOptions, Divisor, Side, compare};
    use crate::diff_json;
    use crate::tests::recording_builder::RecordingBuilder;
    use crate::tests::training_runs::measured_training;
    use crate::tests::warnings::with_certainty;
    use crate::tests::work::counted;
    use crate::uncertainty::UNIDENTIFIED;
    use energy_trace_model::profile::Profile;
    use energy_trace_model::profile::work::PerWork;
    use energy_trace_model::recording::record::{DomainClass, Quality, SourceId, WorkSource, WorkUnits};
    use energy_trace_model::units::MicroJoules;

    pub(crate) fn hotter() -> Profile {
        let (mut run, more) = (measured_training(), MicroJoules::from_uj(50_500_000));
        run.rows[7].energy[DomainClass::Package] += more;
        (run.ledger[0].target, run.ledger[0].measured) =
            (run.ledger[0].target + more, run.ledger[0].measured + more);
        run
    }

    fn said(runs: usize, width: u16, by: By) -> String {
        let (before, after) = (vec![measured_training(); 3], vec![hotter(); 3]);
        let files = [["a1", "a2", "a3"], ["b1", "b2", "b3"]].map(|side| side.map(|of| format!("{of}.data")));
        let files = [&files[0][..runs], &files[1][..runs]];
        let options = DiffOptions { files, by, width: Some(width), ..OPTIONS };
        let compared = compare([&before[..runs], &after[..runs]], &options).unwrap();
        let mut out = Vec::new();
        write(&mut out, &compared, &options).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Sides have the names of their files, a table has one unit, and of single runs it says what they differ by and which commands tell more.
    #[test]
    fn what_it_says() {
        let several = said(3, 80, By::Function);
        for part in [
            "A  a1.data … a3.data (3 runs)",
            "   both: python3 examples",
            "+50.50",
            "+50.0%",
            "  *  ",
            "1 function changed",
        ] {
            assert!(several.contains(part), "{part}\n{several}");
        }
        assert!(!several.contains("mJ") && several.contains("±"), "{several}");
        let single = said(1, 80, By::Python);
        for part in [
            "B  b1.data (1 run)",
            "+50.50",
            "one run each: these two differ by +18.0%;",
            "sudo energy-trace -o a$i.data python3 \\\n      examples/torch_train.py 20; done",
            "each tell, b*.data with what you changed:",
            "energy-trace diff a*.data --vs b*.data\n",
        ] {
            assert!(single.contains(part), "{part}\n{single}");
        }
        assert!(!single.contains(['±', '?']) && !single.contains("nothing is known"), "{single}");
    }

    /// Of what may have changed by more than either side used, nobody says that it did not.
    #[test]
    fn what_is_unknown_did_not_stay() {
        let change = |by_chance| {
            let mut sides = [Side::default(); 2];
            sides.iter_mut().for_each(|side| side.joules = 1.0);
            Change { name: None, sides, by_chance, flags: vec![] }
        };
        let [unknown, same] = [change(Some(2.0)), change(Some(0.5))];
        let said = |rest: &[&Change]| super::found(&[], rest, By::Function);
        assert_eq!(said(&[&unknown]), "whether 1 function changed, these runs do not tell (too few runs)");
        let both = said(&[&unknown, &same]);
        assert!(both.ends_with(", 1 function did not; of 1 these runs do not tell (too few runs)"), "{both}");
    }

    /// A row has one mark: whether it changed, or else what is doubtful.
    #[test]
    fn one_mark() {
        let change = |joules, by_chance| {
            let mut sides = [Side::default(); 2];
            sides[1].joules = joules;
            Change { name: None, sides, by_chance, flags: vec![UNIDENTIFIED] }
        };
        assert_eq!(
            [(2.0, Some(1.0)), (2.0, Some(3.0)), (2.0, None)].map(|(j, by)| mark_of(&change(j, by))),
            ["*", "?", "?"]
        );
    }

    /// A side without energy has no zeros, and nothing has changed from it; what is too small to be asked is said where that is most.
    #[test]
    fn what_is_not_compared() {
        let said = |sides: [&[Profile]; 2]| {
            let compared = compare(sides, &OPTIONS).unwrap();
            let (mut out, mut json) = (Vec::new(), Vec::new());
            write(&mut out, &compared, &OPTIONS).unwrap();
            diff_json::write(&mut json, &compared, &OPTIONS).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            (String::from_utf8(out).unwrap(), json["program"].clone())
        };
        let (known, mut dark) = (vec![measured_training(); 2], vec![measured_training(); 2]);
        dark[1].ledger.clear();
        let (table, json) = said([&known, &dark]);
        assert!(
            table.contains("not known") && table.contains("no energy was measured in a run of B"),
            "{table}"
        );
        assert!(json["a_j"].is_f64() && json["b_j"].is_null() && json["change_j"].is_null(), "{json}");
        assert!(json["changed"].is_null(), "{json}");
        let (table, json) = said([&known, &known]);
        assert!(json["b_j"].is_f64() && !table.contains("not compared"), "{table}");
        let mut b = RecordingBuilder::new("python3 run.py", 9);
        let process = b.process(7, "python3", None);
        let thread = b.thread(process, 7, "python3");
        for number in 0..600 {
            let frame = b.python(&format!("gen{number}"), "f", &format!("gen{number}.py"), 1);
            let stack = b.stack(&[frame]);
            b.spent(thread, Some(stack), 1_000_000, 900, 90);
        }
        b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
        let many = [b.build()];
        let (table, _) = said([&many, &many]);
        assert!(table.contains("and 600 of less than 0.2% each, which are not compared"), "{table}");
    }

    /// What the runs do not tell from other code is marked as in a report, and changes by more than they leave open or not at all; JSON has the
    /// bounds. Of single runs it is marked too.
    #[test]
    fn what_no_run_tells() {
        let said = |identified, runs| {
            let known = |run| if identified { run } else { with_certainty(run, false) };
            let sides = [measured_training(), hotter()].map(|run| vec![known(run); runs]);
            let compared = compare([&sides[0], &sides[1]], &OPTIONS).unwrap();
            let (mut table, mut json) = (Vec::new(), Vec::new());
            write(&mut table, &compared, &OPTIONS).unwrap();
            diff_json::write(&mut json, &compared, &OPTIONS).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            let functions = json["functions"].as_array().unwrap().clone();
            let hot = functions.into_iter().find(|row| row["name"] == "[libgomp.so.1]").unwrap();
            (String::from_utf8(table).unwrap(), hot)
        };
        let (table, hot) = said(true, 3);
        assert!(table.contains("1 function changed") && !table.contains('?'), "{table}");
        assert_eq!([&hot["changed"], &hot["a_bounds_j"]], [&true.into(), &serde_json::Value::Null]);
        let (table, hot) = said(false, 3);
        let row = table.lines().find(|line| line.contains("[libgomp.so.1]")).unwrap();
        assert!(row.contains("  ?  ") && !row.contains('*'), "{table}");
        assert!(
            table.contains("    whether 5 functions changed, these runs do not tell (?)")
                && table.contains("? this run cannot"),
            "{table}"
        );
        assert!(!table.contains("runs are so few"), "{table}");
        assert!(
            hot["changed"].is_null() && hot["flags"].as_array().unwrap().contains(&"unidentified".into())
        );
        let [low, high] = [0, 1].map(|end: usize| hot["b_bounds_j"][end].as_f64().unwrap());
        assert!(low < hot["b_j"].as_f64().unwrap() && hot["b_j"].as_f64().unwrap() < high, "{hot}");
        let (table, _) = said(false, 1);
        assert!(table.contains(" ?  [libgomp.so.1]") && table.contains("? this run cannot"), "{table}");
    }

    /// Joules of a battery are not those of RAPL, and the table says so before its numbers.
    #[test]
    fn other_meters() {
        let (before, mut after) = (vec![measured_training(); 3], vec![hotter(); 3]);
        let sources = after.iter_mut().flat_map(|run| &mut run.run.header.sources);
        sources.for_each(|source| source.id = SourceId::Battery);
        let files = [["a1", "a2", "a3"], ["b1", "b2", "b3"]].map(|side| side.map(|of| format!("{of}.data")));
        let options = DiffOptions { files: [&files[0], &files[1]], width: Some(80), ..OPTIONS };
        let mut out = Vec::new();
        write(&mut out, &compare([&before, &after], &options).unwrap(), &options).unwrap();
        let text = String::from_utf8(out).unwrap();
        let [sentence, number] = ["different meters", "+50.50"].map(|part| text.find(part));
        assert!(sentence.is_some() && sentence < number, "{text}");
        assert!(!said(3, 80, By::Function).contains("different meters"));
    }

    /// Where not all units of a side were counted, its joules per unit are upper bounds, in JSON too.
    #[test]
    fn units_that_may_be_more() {
        let run = |at_least| {
            let per = PerWork { units: WorkUnits::whole(10), at_least, ..PerWork::default() };
            [Profile { per_work: Some(per), ..measured_training() }]
        };
        let (before, after) = (run(true), run(false));
        let options = DiffOptions { work: Divisor::Units("step"), ..OPTIONS };
        let compared = compare([&before, &after], &options).unwrap();
        let (mut table, mut json) = (Vec::new(), Vec::new());
        write(&mut table, &compared, &options).unwrap();
        diff_json::write(&mut json, &compared, &options).unwrap();
        let text = String::from_utf8(table).unwrap();
        let row = text.lines().find(|line| line.contains("the program")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().take(2).collect();
        assert_eq!(cells[0], format!("≤{}", cells[1]), "{text}");
        assert!(text.contains("joules per step (≤: not all were counted"), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!([&json["a"]["work_at_least"], &json["b"]["work_at_least"]], [true, false]);
    }

    /// Runs of which joules of a unit are wanted have to count it, by the option that did; where that cannot be typed so, it is named.
    #[test]
    fn the_unit_is_counted_again() {
        let of = |source: &str| {
            let mut run = measured_training();
            run.work = vec![counted(&run, "step", 1)];
            run.work[0].series.counter.source = WorkSource::Stdout(source.to_owned());
            let per = PerWork { name: "step".into(), units: WorkUnits::whole(10), ..PerWork::default() };
            let run = [Profile { per_work: Some(per), ..run }];
            let options = DiffOptions { work: Divisor::Units("step"), ..OPTIONS };
            let (mut later, mut out) = (run.clone(), Vec::new());
            later[0].run.header.anchor.unix_ns += 1;
            write(&mut out, &compare([&run, &later], &options).unwrap(), &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        let plain = of(r"step (\d+)/");
        let typed = plain.replace(" \\\n     ", "");
        assert!(typed.contains(r"-o a$i.data --work 'step=stdout:step (\d+)/' python3"), "{plain}");
        for odd in ["it's (\\d+)", "a\u{1b}(.)", &"x".repeat(200)] {
            let text = of(odd);
            assert!(text.contains("with the same --work") && !text.contains("--work '"), "{text}");
        }
    }

    /// Joules of a unit have the digits that are known, also where they are less than a microjoule, and what is to be typed divides by it again.
    #[test]
    fn digits_of_a_unit() {
        let said = |units: u64, runs: usize| {
            let per = PerWork { name: "tok en".into(), units: WorkUnits::whole(units), ..PerWork::default() };
            let of = |run: Profile| vec![Profile { per_work: Some(per.clone()), ..run }; runs];
            let (before, after) = (of(measured_training()), of(hotter()));
            let options = DiffOptions { work: Divisor::Units("tok en"), ..OPTIONS };
            let mut out = Vec::new();
            write(&mut out, &compare([&before, &after], &options).unwrap(), &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = said(1_000, 1);
        let row = text.lines().find(|line| line.contains("the program")).unwrap();
        assert_eq!(row.split_whitespace().take(3).collect::<Vec<_>>(), ["281", "331", "+50"], "{text}");
        assert!(text.contains("A mJ") && text.contains("--vs b*.data --per-work 'tok en'\n"), "{text}");
        assert!(said(10_000_000_000, 1).contains("A nJ"), "{}", said(10_000_000_000, 1));
        assert!(said(1_000, 3).contains("±"), "{}", said(1_000, 3));
    }

    /// Rows that are left out are told, with what shows them.
    #[test]
    fn rows_that_are_left_out() {
        let (before, after) = ([measured_training()], [hotter()]);
        let compared = compare([&before, &after], &OPTIONS).unwrap();
        let all = compared.changes.len() - 1;
        let said = |rows| {
            let mut out = Vec::new();
            write(&mut out, &compared, &DiffOptions { rows, ..OPTIONS }).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(said(1).contains(&format!("and {} more: --rows {all}", all - 1)), "{}", said(1));
        assert!(!said(all).contains(" more"));
    }

    /// What equal programs may differ by is no number where that is more than they used.
    #[test]
    fn too_few_runs() {
        let mut wild = [measured_training(), measured_training(), hotter(), hotter()];
        for (run, times) in wild.iter_mut().zip([1, 9, 1, 7]) {
            run.rows[7].energy[DomainClass::Package] = MicroJoules::from_uj(times * 10_000_000);
        }
        let files = [["a1", "a2"], ["b1", "b2"]].map(|side| side.map(|of| format!("{of}.data")));
        let mut options = DiffOptions { files: [&files[0], &files[1]], ..OPTIONS };
        let compared = compare([&wild[..2], &wild[2..]], &options).unwrap();
        let mut said = |width| {
            let mut out = Vec::new();
            options.width = Some(width);
            write(&mut out, &compared, &options).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = said(80);
        assert!(text.contains("  unknown  ") && text.contains("five runs of each side"), "{text}");
        assert!(!said(60).contains("unknown"));
    }

    /// The table keeps to the width, by whatever it compares.
    #[test]
    fn keeps_to_the_width() {
        for (by, width) in [By::Function, By::Python, By::Api, By::Call, By::Line]
            .into_iter()
            .flat_map(|by| [(by, 60), (by, 80)])
        {
            for runs in [1, 3] {
                let text = said(runs, width, by);
                assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            }
        }
    }

    /// A command that a shell would take apart is not put into a line to be typed.
    #[test]
    fn commands() {
        let of = |command: &[&str]| words(&command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["python3", "a.py", "--n=3"]), "python3 a.py --n=3");
        for odd in [&["sh", "-c", "rm -rf $x"][..], &["a\u{1b}[2J"], &[], &["x"; 90]] {
            assert_eq!(of(odd), "COMMAND");
        }
        assert_eq!(named(&["a".into(), "b".into()]), "a and b");
    }
}
