//! The report as Markdown, for the summary of a CI job, a pull request or an issue: headline, ledger, API calls, functions, warnings.
//!
//! GitHub's flavour (<https://github.github.com/gfm>). Names stand as code, so that nothing in them is
//! markup, a link or a mention. Leaves out intervals of what is CPU time alone, and everything that `json` is
//! for. Where a unit of work was chosen, rows have the joules of one.

use super::budget_line::budget;
use super::budgets::{Checked, Verdict};
use super::per_work::UnitTable;
use super::summary::used;
use super::summary_rows::{Measure, Top, TopRow, calls, functions, processes};
use super::table_cells::{in_unit, percent};
use super::{By, Level, diagnostics, run, work};
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::short_names;
use energy_trace_names::shown::shown;
use energy_trace_sentences as sentences;
use std::io::{self, Write};

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkdownOptions {
    /// Rows of each table.
    pub rows: usize,
    /// Budgets that were held against the run.
    pub budgets: Vec<Checked>,
}

/// Writes the report.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &MarkdownOptions) -> io::Result<()> {
    let profile = &short_names::unless_alike(profile);
    let measure = Measure::of(profile);
    let is_modelled = matches!(measure, Measure::Energy(choice) if run::is_modelled(profile, choice));
    let page = Page { profile, measure, is_modelled };
    writeln!(
        out,
        "## Energy of {}\n\n**{}**",
        code(&run::what_was_recorded(profile)),
        used(profile).replace("   ", ", ")
    )?;
    page.work(out)?;
    page.budgets(out, &options.budgets)?;
    page.ledger(out)?;
    match &profile.per_work {
        Some(per) => page.unit_tables(out, &per.name, options.rows)?,
        None => page.tables(out, options.rows)?,
    }
    page.warnings(out)?;
    let header = &profile.run.header;
    let (kernel, cpu) = (shown(&header.kernel), shown(&header.cpu_model));
    let version = env!("CARGO_PKG_VERSION");
    writeln!(out, "\n<sub>energy-trace {version}, kernel {}, {}</sub>", plain(&kernel), plain(&cpu))
}

struct Page<'a> {
    profile: &'a Profile,
    measure: Measure,
    is_modelled: bool,
}

impl Page<'_> {
    fn budgets(&self, out: &mut dyn Write, checked: &[Checked]) -> io::Result<()> {
        if !checked.is_empty() {
            writeln!(out)?;
        }
        checked.iter().try_for_each(|checked| {
            let mark = if checked.verdict == Verdict::Kept { "✅" } else { "❌" };
            writeln!(out, "- {mark} {}", plain(&shown(&budget(checked))))
        })
    }

    fn work(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = work::sentences(self.profile);
        if !lines.is_empty() {
            writeln!(out)?;
        }
        lines.iter().try_for_each(|line| writeln!(out, "- {}", plain(line)))
    }

    fn ledger(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = &self.profile.ledger;
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\n| domain | measured | this program | others | idle | nobody's |\n|---|--:|--:|--:|--:|--:|"
        )?;
        rows.iter().try_for_each(|row| {
            let LedgerRow { measured, target, other, idle, .. } = *row;
            let nobody = measured - target - other - idle;
            let cells = [measured, target, other, idle, nobody].map(joules).join(" | ");
            writeln!(out, "| {} | {cells} |", plain(&shown(&row.domain)))
        })
    }

    fn tables(&self, out: &mut dyn Write, rows: usize) -> io::Result<()> {
        let upper = if self.has_command() { calls } else { processes };
        for of in [upper, functions] {
            let mut top = of(self.profile, self.measure);
            top.keep(rows);
            if !top.rows.is_empty() {
                self.table(out, &top)?;
            }
        }
        Ok(())
    }

    /// What a unit of work is made of.
    fn unit_tables(&self, out: &mut dyn Write, unit: &str, rows: usize) -> io::Result<()> {
        let upper = if self.has_command() { By::Api } else { By::Process };
        for by in [upper, By::Function] {
            let table = UnitTable::of(self.profile, (by, Level::Outer), None, unit);
            let heads = table.heads.map(|head| plain(&head)).join(" | ");
            writeln!(out, "\n| {heads} |\n|--:|--:|--:|---|")?;
            for row in table.rows.iter().take(rows).chain(&table.beside) {
                writeln!(out, "| {}{} | {} |", row.cells.join(" | "), marked(row.mark), code(&row.name))?;
            }
        }
        Ok(())
    }

    /// Whether it is of a command; else its upper rows are programs.
    const fn has_command(&self) -> bool {
        let header = &self.profile.run.header;
        !header.command.is_empty() && !header.system_wide
    }

    fn table(&self, out: &mut dyn Write, top: &Top) -> io::Result<()> {
        let share = if top.inclusive { "total" } else { "self" };
        // Of joules by a model no row says more than the warning.
        let has_interval = self.measure != Measure::Time && !self.is_modelled;
        let unit = self.measure.head(top);
        let (interval, rule) = if has_interval { (" 95 % |", "--:|") } else { ("", "") };
        writeln!(out, "\n| {share} | {unit} |{interval} {} |\n|--:|--:|{rule}---|", top.head)?;
        top.rows.iter().try_for_each(|row| {
            let interval = if has_interval { format!(" {} |", self.interval(row)) } else { String::new() };
            let share = percent(self.measure.amount(&row.cost), self.measure.whole(self.profile));
            writeln!(
                out,
                "| {share} | {} |{interval} {} |",
                self.measure.show(&row.cost, top),
                code(&row.name)
            )
        })
    }

    fn interval(&self, row: &TopRow) -> String {
        format!("{}{}", self.measure.plus_minus(row), marked(row.mark(self.is_modelled)))
    }

    fn warnings(&self, out: &mut dyn Write) -> io::Result<()> {
        let found = diagnostics::diagnostics(self.profile);
        let changing = found.iter().filter(|found| diagnostics::changes_numbers(found, self.profile));
        let texts: Vec<String> = sentences::model_in_brief(self.profile)
            .into_iter()
            .chain(changing.map(sentences::diagnostic))
            .collect();
        if texts.is_empty() {
            return Ok(());
        }
        let count =
            if texts.len() == 1 { "1 warning".to_owned() } else { format!("{} warnings", texts.len()) };
        writeln!(out, "\n<details><summary>{count}</summary>\n")?;
        texts.iter().try_for_each(|text| writeln!(out, "- {}", plain(&shown(text))))?;
        writeln!(out, "\n</details>")
    }
}

/// A mark behind a number.
fn marked(mark: &str) -> &'static str {
    match mark {
        "?" => " ?",
        "~" => " \\~",
        _ => "",
    }
}

fn joules(energy: MicroJoules) -> String {
    in_unit(energy.as_joules(), "J")
}

/// A name as code in a cell. Backticks, bars and backslashes cannot all be had in a code span of a table; names with them are written with
/// character references.
fn code(name: &str) -> String {
    let name = shown(name);
    let name = name.trim();
    match name {
        "" => "`[no name]`".to_owned(),
        name if name.contains(['`', '|', '\\']) => {
            let escape = |c: char| match c {
                ' ' => c.to_string(),
                c if c.is_ascii_alphanumeric() || !c.is_ascii() => c.to_string(),
                c => format!("&#{};", u32::from(c)),
            };
            format!("<code>{}</code>", name.chars().map(escape).collect::<String>())
        }
        name => format!("`{name}`"),
    }
}

/// A sentence that means itself: what could be markup is escaped.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '@' => out.push_str("&#64;<!-- -->"),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '>' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{MarkdownOptions, code, plain, write};
    use crate::budgets::{Budget, check};
    use crate::tests::recording_builder::RecordingBuilder;
    use crate::tests::training_runs::{estimated_training, measured_training};
    use crate::tests::work::counted;
    use energy_trace_model::profile::Profile;
    use energy_trace_model::profile::work::PerWork;
    use energy_trace_model::recording::record::{DomainClass, FrameKind, Quality, WorkUnits};

    fn text(profile: &Profile, budgets: &[Budget]) -> String {
        let mut out = Vec::new();
        let options = MarkdownOptions { rows: 3, budgets: check(profile, budgets) };
        write(&mut out, profile, &options).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Headline, verdicts, ledger, calls and functions, with the word where joules are estimated.
    #[test]
    fn what_a_job_shows() {
        let budget: Budget = "80J".parse().unwrap();
        let page = text(&estimated_training(), &[budget]);
        for part in [
            "## Energy of `python3 examples/torch_train.py 20`\n\n**20.00 s, 281 J (estimated, 86.2 J to 1158 J)",
            "- ❌ budget exceeded: the program used 281 J of 80.0 J (estimated)\n",
            "| package-0 | 408 J | 281 J | 7.25 J | 120 J | 0 J |\n",
            "| total | J | API call |\n|--:|--:|---|\n| 30.4% | 85.37 | `torch_train.py:22 → torch.autograd.backward` |\n",
            "<details><summary>2 warnings</summary>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(text(&measured_training(), &[]).contains("| total | J | 95 % | API call |"));
        assert!(text(&Profile::default(), &[]).contains("no energy was measured"));
    }

    /// Where a unit was chosen, tables are of one unit.
    #[test]
    fn of_a_unit() {
        let mut profile = measured_training();
        profile.work = vec![counted(&profile, "to|ken", 1)];
        let (units, open) = (WorkUnits::whole(10), <[WorkUnits; 2]>::default());
        profile.per_work = Some(PerWork { name: "to|ken".into(), units, open, ..PerWork::default() });
        let page = text(&profile, &[]);
        for part in [
            "per to\\|ken: 10 counted in ",
            "| self | J per to\\|ken | with callees | api |\n|--:|--:|--:|---|\n| 36.0% |",
            "| 30.4% | 8.54 J | 8.54 J | `torch.autograd.backward` |\n",
            "| self | J per to\\|ken | with callees | function |\n",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("| 95 % |"), "{page}");
    }

    /// Whatever names hold, a table's rows have as many cells as its head.
    #[test]
    fn rows_are_whole() {
        let mut b = RecordingBuilder::new("x|y `z`", 1);
        let process = b.process(7, "a|b", None);
        let thread = b.thread(process, 7, "a|b");
        for name in ["operator|(a, b)", "`x`|\\|", "</table><script>", "a\n| b |", "\u{202e}@someone"] {
            let frame = b.frame(FrameKind::Native, "/lib/a|b", name);
            let stack = b.stack(&[frame]);
            b.spent(thread, Some(stack), 1_000_000, 900, 90);
        }
        b.ledger("pack|age", DomainClass::Package, Quality::Measured, [0, 0, 0]);
        let page = text(&b.build(), &[]);
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let tables: Vec<&str> = page.split("\n\n").filter(|part| part.starts_with('|')).collect();
        assert_eq!(tables.len(), 2, "{page}");
        for table in tables {
            let wanted = table.lines().next().map(cells);
            assert!(table.lines().all(|line| Some(cells(line)) == wanted), "{table}");
        }
        assert!(!page.contains("\u{202e}") && !page.contains("\n| b |"), "{page}");
    }

    /// No name ends its cell or its code, and none is markup.
    #[test]
    fn names_are_code() {
        assert_eq!(code("at::f<int>(a, b)"), "`at::f<int>(a, b)`");
        assert_eq!(code("a|b`c\\"), "<code>a&#124;b&#96;c&#92;</code>");
        assert_eq!(code("a\nb"), "<code>a&#92;x0ab</code>");
        assert_eq!(code(" "), "`[no name]`");
    }

    /// Nobody is mentioned by a sentence, and nothing in it is markup.
    #[test]
    fn sentences_are_text() {
        assert_eq!(plain("a *b* <c> @d & __e__"), "a \\*b\\* &lt;c\\> &#64;<!-- -->d &amp; \\_\\_e\\_\\_");
    }
}
