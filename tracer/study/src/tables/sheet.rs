//! A plain table of any layout, for a terminal, a page, a paper or a spreadsheet. Leaves out what is in it (`layouts`, `sweep`).

use super::escaped::{in_latex, in_markdown, latex_head};
use anstyle::Style;
use energy_trace_names::shorten_end;
use energy_trace_names::shown::shown;
use energy_trace_report::csv_cells::Cells;
use energy_trace_report::table_cells::{FILE_WIDTH, Grid, GridRow, Look, TITLE};
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr as _;

/// A table of more columns than these is set in smaller letters on paper.
const WIDE: usize = 10;

/// Heads, rows, and what a reader needs to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sheet {
    pub(super) heads: Vec<String>,
    /// How many columns from the left are words.
    pub(super) words: usize,
    pub(super) rows: Vec<Vec<Field>>,
    pub(super) notes: Vec<String>,
    /// How the study was made.
    pub(super) methods: String,
}

/// A cell; the best of a row or group is set off.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) best: bool,
}

impl From<String> for Field {
    fn from(text: String) -> Self {
        Self { text, best: false }
    }
}

/// How a sheet is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// For a terminal of so many columns; `None`: a file.
    Text(Option<u16>),
    /// For a page.
    Markdown,
    /// For a paper, with booktabs.
    Latex,
    /// For a spreadsheet.
    Csv,
}

/// Whether columns side by side have room, their heads in lines.
fn fits(heads: &[String], rows: &[Vec<String>], width: usize) -> bool {
    let of_head = |head: &String| head.split(", ").map(str::width).max().unwrap_or(0);
    let of_rows =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width()).max().unwrap_or(0);
    let taken = heads.iter().enumerate().map(|(at, head)| of_head(head).max(of_rows(at)) + 2);
    taken.sum::<usize>() <= width
}

impl Sheet {
    pub(super) fn write(&self, out: &mut dyn Write, how: As) -> io::Result<()> {
        match how {
            As::Text(width) => self.text(out, width),
            As::Markdown => self.markdown(out),
            As::Latex => self.latex(out),
            As::Csv => self.csv(out),
        }
    }

    fn text(&self, out: &mut dyn Write, width: Option<u16>) -> io::Result<()> {
        let width = width.map_or(FILE_WIDTH, usize::from);
        let look = Look { color: false, width: Some(width) };
        let cell = |field: &Field| format!("{}{}", shown(&field.text), if field.best { "*" } else { "" });
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        let heads: Vec<String> = self.heads.iter().map(|head| shown(head).into_owned()).collect();
        if fits(&heads, &rows, width) {
            let heads = heads.iter().map(|head| head.replace(", ", "\n")).collect();
            let rows = rows.into_iter().map(|cells| GridRow { cells, style: Style::new() }).collect();
            Grid { heads, words: self.words, rows, ..Grid::default() }.write(out, look)?;
        } else {
            rows.iter().try_for_each(|row| self.record(out, look, &heads, row))?;
        }
        writeln!(out)?;
        look.bullets(out, "·", &self.notes)?;
        writeln!(out, "\nMethods")?;
        look.bullets(out, " ", std::slice::from_ref(&self.methods))
    }

    /// A row that is wider than the terminal: its words, and below them each number behind its head.
    fn record(&self, out: &mut dyn Write, look: Look, heads: &[String], row: &[String]) -> io::Result<()> {
        let (words, numbers) = row.split_at(self.words.min(row.len()));
        let named = heads.iter().skip(self.words).zip(numbers).filter(|(_, cell)| !cell.is_empty());
        let named: Vec<String> = named.map(|(head, cell)| format!("{head}: {cell}")).collect();
        let words = heads.iter().zip(words).map(|(head, word)| format!("{head} {word}"));
        look.line(
            out,
            TITLE,
            &shorten_end(&words.collect::<Vec<_>>().join(", "), look.width.unwrap_or(FILE_WIDTH)),
        )?;
        look.bullets(out, " ", &[named.join("; ")])
    }

    fn markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        let heads: Vec<String> = self.heads.iter().map(|head| in_markdown(head)).collect();
        let aligned = (0..heads.len()).map(|at| if at < self.words { "---|" } else { "---:|" });
        writeln!(out, "| {} |\n|{}", heads.join(" | "), aligned.collect::<String>())?;
        for row in &self.rows {
            let cell = |field: &Field| match (in_markdown(&field.text), field.best) {
                (text, true) => format!("**{text}**"),
                (text, false) => text,
            };
            writeln!(out, "| {} |", row.iter().map(cell).collect::<Vec<_>>().join(" | "))?;
        }
        writeln!(out)?;
        self.notes.iter().try_for_each(|note| writeln!(out, "- {}", in_markdown(note)))?;
        writeln!(out, "\nMethods: {}", in_markdown(&self.methods))
    }

    fn latex(&self, out: &mut dyn Write) -> io::Result<()> {
        let words = "l".repeat(self.words);
        let numbers = "r".repeat(self.heads.len().saturating_sub(self.words));
        let heads: Vec<String> = self.heads.iter().map(|head| latex_head(head)).collect();
        writeln!(out, "% needs \\usepackage{{booktabs}}")?;
        let is_wide = self.heads.len() > WIDE;
        if is_wide {
            writeln!(out, "{{\\footnotesize\\setlength{{\\tabcolsep}}{{3pt}}%")?;
        }
        writeln!(out, "\\begin{{tabular}}{{{words}{numbers}}}\n\\toprule")?;
        writeln!(out, "{} \\\\\n\\midrule", heads.join(" & "))?;
        for row in &self.rows {
            let cell = |field: &Field| match (in_latex(&field.text), field.best) {
                (text, true) => format!("\\textbf{{{text}}}"),
                (text, false) => text,
            };
            writeln!(out, "{} \\\\", row.iter().map(cell).collect::<Vec<_>>().join(" & "))?;
        }
        writeln!(out, "\\bottomrule\n\\end{{tabular}}{}", if is_wide { "}" } else { "" })?;
        self.notes.iter().try_for_each(|note| writeln!(out, "% {}", shown(note)))?;
        writeln!(out, "\\paragraph{{Methods.}} {}", in_latex(&self.methods))
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = Cells::new(out);
        writer.line(self.heads.iter().map(|head| shown(head).into_owned()))?;
        for row in &self.rows {
            writer.line(row.iter().map(|field| shown(&field.text).into_owned()))?;
        }
        writer.flush()
    }
}
