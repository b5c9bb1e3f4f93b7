//! Findings as text for people and as JSON for programs.

use super::finding::{Energy, Finding, Level, can_record};
use energy_trace_model::collections::Order as _;
use energy_trace_names::lines_of;
use energy_trace_names::shown::shown_lines;
use serde::Serialize;
use std::io::{self, Write};

/// The JSON: `{"schema": "energy-trace/doctor/1.0", "can_record": bool, "findings": [{"area", "level", "text", "fix"}]}`.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    can_record: bool,
    findings: &'a [Finding],
}

/// Writes the findings as JSON.
pub fn write_json(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    let json = Json { schema: "energy-trace/doctor/1.0", can_record: can_record(findings), findings };
    serde_json::to_writer_pretty(&mut *out, &json)?;
    writeln!(out)
}

/// Writes what the findings come to, then what to do about it, then each of them. Lines are wrapped at `width` columns, and at those of a
/// file where there is no terminal.
pub fn write_text(
    out: &mut dyn Write,
    findings: &[Finding],
    color: bool,
    width: Option<u16>,
) -> io::Result<()> {
    let width = width.map_or(FILE_WIDTH, usize::from);
    write_wrapped(out, &verdict(findings), 0, width)?;
    write_fixes(out, findings, color, width)?;
    if can_record(findings) {
        writeln!(out)?;
        write_wrapped(out, "To record: sudo energy-trace PROGRAM", 0, width)?;
    }
    writeln!(out, "\nDetails")?;
    let areas = findings.iter().map(|finding| finding.area.len()).max().unwrap_or(0);
    for Finding { area, level, text, .. } in findings {
        write!(out, "{}  {area:areas$}  ", mark(*level, color))?;
        write_wrapped(out, &shown_lines(text), MARK + 2 + areas + 2, width)?;
    }
    Ok(())
}

/// What is wrong, the worst first, each with its fix.
fn write_fixes(out: &mut dyn Write, findings: &[Finding], color: bool, width: usize) -> io::Result<()> {
    let mut wrong: Vec<&Finding> = findings.iter().filter(|finding| finding.level >= Level::Warn).collect();
    wrong.order_by_key(|finding| std::cmp::Reverse(finding.level));
    if !wrong.is_empty() {
        writeln!(out, "\nWhat to do")?;
    }
    for Finding { area, level, text, fix, .. } in wrong {
        write!(out, "{}  ", mark(*level, color))?;
        write_wrapped(out, &format!("{area}: {}", shown_lines(text)), MARK + 2, width)?;
        if let Some(fix) = fix.as_ref().filter(|fix| !fix.is_empty()) {
            write!(out, "{:1$}fix: ", "", MARK + 2)?;
            write_wrapped(out, &shown_lines(fix), MARK + 2 + 5, width)?;
        }
    }
    Ok(())
}

/// What the findings come to, in one sentence.
fn verdict(findings: &[Finding]) -> String {
    let worst = findings.iter().map(|finding| finding.level).max();
    let energy = findings.iter().find_map(|finding| finding.energy.as_ref());
    let of = match energy {
        Some(Energy::Measured(parts)) if !parts.is_empty() => format!(" of {parts}"),
        _ => String::new(),
    };
    match (worst, energy) {
        (Some(Level::Fail), _) => {
            "This machine cannot record yet. Fix what is marked `fail` and run doctor again.".to_owned()
        }
        (_, Some(Energy::Estimated(range))) => {
            let times = range.as_ref().map(|range| format!(" (the truth may be {range} times that)"));
            format!(
                "This machine can record, but has no energy counter: joules would be ESTIMATES{}.",
                times.unwrap_or_default()
            )
        }
        (Some(Level::Warn), _) => {
            format!("This machine can record, and measures energy{of}, with the limits marked `warn`.")
        }
        _ => format!("This machine can record, and measures energy{of}."),
    }
}

/// Writes a text that begins at column `indent`; further lines begin there too. Where too little is left of the width, the text is one
/// line.
fn write_wrapped(out: &mut dyn Write, text: &str, indent: usize, width: usize) -> io::Result<()> {
    let room = width.saturating_sub(indent);
    if room < NARROWEST {
        return writeln!(out, "{text}");
    }
    for (at, line) in lines_of(text, room, room).into_iter().enumerate() {
        let indent = if at == 0 { 0 } else { indent };
        writeln!(out, "{:indent$}{line}", "")?;
    }
    Ok(())
}

/// Columns of what is written to a file.
const FILE_WIDTH: usize = 160;
/// Columns of a mark.
const MARK: usize = 4;
/// Text is not wrapped into less than this.
const NARROWEST: usize = 20;

/// The level in four columns, in color (ECMA-48 SGR: green, yellow, red) where wanted.
fn mark(level: Level, color: bool) -> String {
    let (word, code) = match level {
        Level::Unused => return "-   ".into(),
        Level::Ok => ("ok  ", 32),
        Level::Warn => ("warn", 33),
        Level::Fail => ("fail", 31),
    };
    if color { format!("\x1b[{code}m{word}\x1b[0m") } else { word.into() }
}

#[cfg(test)]
mod tests {
    use super::{Energy, Finding, write_json, write_text};

    fn findings() -> Vec<Finding> {
        vec![Finding::ok("kernel", "Linux 6.1"), Finding::fail("btf", "missing", "another kernel")]
    }

    fn text(findings: &[Finding], width: Option<u16>) -> String {
        let mut out = Vec::new();
        write_text(&mut out, findings, false, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The sentence that matters comes first, then each fix below what it fixes, then all that was looked at.
    #[test]
    fn the_answer_comes_first() {
        let said = text(&findings(), None);
        assert!(said.starts_with("This machine cannot record yet"), "{said}");
        assert!(
            said.contains(
                "fail  btf: missing\n      fix: another kernel\n\nDetails\nok    kernel  Linux 6.1\n"
            ),
            "{said}"
        );
        assert!(said.ends_with("fail  btf     missing\n") && !said.contains('\x1b'), "{said}");
    }

    /// Whether energy is measured or estimated is part of that sentence.
    #[test]
    fn estimates_are_announced() {
        let first = |findings: &[Finding]| text(findings, Some(160)).lines().next().unwrap().to_owned();
        let of = |energy, finding| Finding { energy: Some(energy), ..finding };
        let range = Energy::Estimated(Some("0.7 to 1.3".to_owned()));
        let no_counter = of(range, Finding::warn("power", "no counter", "buy one"));
        let counter = of(Energy::Measured("CPUs and memory".to_owned()), Finding::ok("power", "RAPL"));
        let fine = Finding::ok("kernel", "Linux 6.1");
        let estimated = first(&[fine.clone(), no_counter]);
        assert!(estimated.contains("ESTIMATES (the truth may be 0.7 to 1.3 times that)."), "{estimated}");
        let measured = first(&[fine.clone(), counter]);
        assert_eq!(measured, "This machine can record, and measures energy of CPUs and memory.");
        assert!(first(&[fine.clone(), Finding::warn("tracefs", "closed", "open it")]).contains("`warn`"));
        assert_eq!(first(&[fine]), "This machine can record, and measures energy.");
    }

    /// Programs read the verdict and the level as words.
    #[test]
    fn json() {
        let mut out = Vec::new();
        write_json(&mut out, &findings()).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["can_record"], false);
        assert_eq!(json["findings"][1]["level"], "fail");
    }

    /// Long lines go on below their first word, on a terminal and in a file.
    #[test]
    fn wrapping() {
        let long = "one two three four five six seven ".repeat(9);
        let findings = [Finding::unused("power", long.trim()), Finding::warn("x", long.trim(), long.trim())];
        for width in [Some(35), Some(80), Some(120), None] {
            let said = text(&findings, width);
            let most = usize::from(width.unwrap_or(160));
            assert_eq!(said.lines().find(|line| line.len() > most), None, "{said}");
        }
        let first = "-     power  one two three four";
        assert!(text(&findings, Some(35)).contains(&format!("{first}\n             five six seven")));
    }
}
