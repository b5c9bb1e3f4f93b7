//! A study as one page: verdicts, every run as a dot, growth with a size, and what to know. No script, and nothing is loaded.
//!
//! Leaves out how dots are drawn (`plots`), and the numbers (`study`).

use super::numbers::Scale;
use super::plots;
use super::sweep::with_interval;
use super::table::{failed_runs, p_of, scale, shown_blocks};
use crate::data::{Block, Cell, Study, Sweep, results, sweeps};
use crate::sentences;
use energy_trace_names::shown::shown;
use energy_trace_report::html::source_of_style;
use quick_xml::escape::escape;
use std::io::{self, Write};

const STYLE: &str = include_str!("../../data/page.css");

/// Writes the page, with so many calls and functions of each group.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, study: &Study, rows: usize) -> io::Result<()> {
    let groups = results(study);
    let grade = groups.iter().filter_map(|group| group.grade).max();
    let title = safe(&sentences::title(study, grade));
    let style = source_of_style(STYLE);
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src '{style}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <h1>{title}</h1>"
    )?;
    let mut notes = sentences::notes(study, &groups);
    let all_sweeps = sweeps(study);
    notes.extend(sentences::sweep_notes(study, &all_sweeps));
    notes.extend(sentences::load(study));
    list(out, "what to know", &notes)?;
    growth(out, study, &all_sweeps)?;
    for group in groups.iter().filter(|group| all_sweeps.is_empty() || !group.is_alone()) {
        writeln!(out, "<h2>{}</h2>", safe(if group.name.is_empty() { "programs" } else { &group.name }))?;
        shown_blocks(group, rows).into_iter().try_for_each(|of| block(out, study, of))?;
    }
    let failed: Vec<String> = failed_runs(study).map(|run| sentences::failed(study, run)).collect();
    list(out, "failed runs", &failed)?;
    writeln!(out, "<h2>methods</h2>\n<p>{}</p>", safe(&sentences::methods(study)))?;
    programs(out, study)?;
    writeln!(out, "</body></html>")
}

/// Foreign text: neither markup, nor what moves a reader.
fn safe(text: &str) -> String {
    escape(shown(text).as_ref()).into_owned()
}

fn list(out: &mut dyn Write, title: &str, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2>{title}</h2>\n<ul>")?;
    lines.iter().try_for_each(|text| writeln!(out, "<li>{}</li>", safe(text)))?;
    writeln!(out, "</ul>")
}

fn growth(out: &mut dyn Write, study: &Study, all: &[Sweep]) -> io::Result<()> {
    let against = study.against.as_deref().unwrap_or_default();
    for family in all.chunk_by(|one, other| one.name == other.name) {
        let name = family.first().map_or("", |sweep| &sweep.name);
        writeln!(out, "<h2>{} against {}</h2>", safe(name), safe(against))?;
        for sweep in family {
            let name = sentences::quantity_of(sweep.kind, &sweep.quantity, &sweep.unit);
            let [fixed, each] = [&sweep.found.fixed, &sweep.found.each].map(with_interval);
            let bent = if sentences::is_bent(sweep) { "; no straight line" } else { "" };
            writeln!(
                out,
                "<details><summary><b>{}</b>: fixed {fixed}, each {each}, R² {:.3}{bent}</summary>\n{}</details>",
                safe(&name),
                sweep.found.r2,
                plots::growth(sweep, against, &shown(&name)),
            )?;
        }
    }
    Ok(())
}

fn block(out: &mut dyn Write, study: &Study, block: &Block) -> io::Result<()> {
    let scale = scale(block);
    let name = sentences::title_of(study, block, &block.quantity, &scale.unit);
    let unit = if scale.unit.is_empty() { String::new() } else { format!(", {}", scale.unit) };
    writeln!(
        out,
        "<section><h3>{}</h3>\n{}",
        safe(&name),
        plots::runs(study, block, (&shown(&name), &scale))
    )?;
    writeln!(
        out,
        "<table><tr><th>program<th>n<th>median{}<th>±<th>ratio<th>95 %<th>p (Holm)<th>Â12<th>verdict<th>effect</tr>",
        safe(&unit)
    )?;
    block.cells.iter().try_for_each(|cell| row(out, study, cell, &scale))?;
    writeln!(out, "</table></section>")
}

fn row(out: &mut dyn Write, study: &Study, cell: &Cell, scale: &Scale) -> io::Result<()> {
    let (low, high) = cell.quartiles;
    let label = study.programs.get(cell.program).map_or("", |program| &program.label);
    let beside = cell.beside_least.as_ref();
    let of = |text: Option<String>| text.unwrap_or_default();
    let cells = [
        label.to_owned(),
        sentences::runs(cell),
        scale.show(cell.median),
        if cell.runs > 0 { scale.show((high - low) / 2.0) } else { String::new() },
        of(beside.and_then(|of| of.found.ratio).map(|ratio| format!("{ratio:.3}"))),
        of(beside.and_then(|of| of.found.interval).map(|(low, high)| format!("{low:.3} to {high:.3}"))),
        of(beside.and_then(p_of)),
        of(beside.map(|of| format!("{:.2}", of.found.a12))),
        sentences::verdict(cell),
        sentences::magnitude(cell).to_owned(),
    ];
    let cells: Vec<String> = cells.iter().map(|cell| format!("<td>{}", safe(cell))).collect();
    writeln!(out, "<tr>{}</tr>", cells.concat())
}

fn programs(out: &mut dyn Write, study: &Study) -> io::Result<()> {
    writeln!(out, "<h2>commands</h2>\n<table>")?;
    for program in &study.programs {
        let command = program.command.join(" ");
        writeln!(out, "<tr><td>{}<td><code>{}</code></tr>", safe(&program.label), safe(&command))?;
    }
    writeln!(out, "</table>")
}
