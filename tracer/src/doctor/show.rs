//! Findings as text for people and as JSON for programs.

use super::finding::{Finding, Level, can_record};
use energy_trace_report::shown::shown_lines;
use serde::Serialize;
use std::io::{self, Write};

/// The JSON: `{"schema": "energy-trace/doctor/1", "can_record": bool, "findings": [{"area", "level", "text", "fix"}]}`.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    can_record: bool,
    findings: &'a [Finding],
}

/// Writes the findings as JSON.
pub fn write_json(out: &mut dyn Write, findings: &[Finding]) -> io::Result<()> {
    let json = Json { schema: "energy-trace/doctor/1", can_record: can_record(findings), findings };
    serde_json::to_writer_pretty(&mut *out, &json)?;
    writeln!(out)
}

/// Writes the findings one a line, each fix below what it fixes, and the verdict last. Lines are wrapped at `width` columns, if that is
/// known.
pub fn write_text(
    out: &mut dyn Write,
    findings: &[Finding],
    color: bool,
    width: Option<u16>,
) -> io::Result<()> {
    let areas = findings.iter().map(|finding| finding.area.len()).max().unwrap_or(0);
    for Finding { area, level, text, fix } in findings {
        let indent = MARK + 2 + areas + 2;
        write!(out, "{}  {area:areas$}  ", mark(*level, color))?;
        write_wrapped(out, &shown_lines(text), indent, width)?;
        if let Some(fix) = fix {
            write!(out, "{:indent$}fix: ", "")?;
            write_wrapped(out, &shown_lines(fix), indent + 5, width)?;
        }
    }
    writeln!(out)?;
    write_wrapped(out, verdict(findings), 0, width)
}

/// What the findings come to.
fn verdict(findings: &[Finding]) -> &'static str {
    let worst = findings.iter().map(|finding| finding.level).max();
    match worst {
        Some(Level::Fail) => {
            "This machine cannot record yet. Fix the items marked `fail` and run doctor again."
        }
        Some(Level::Warn) => {
            "This machine can record, with the limits marked `warn`: sudo energy-trace -- PROGRAM"
        }
        _ => "This machine can record: sudo energy-trace -- PROGRAM",
    }
}

/// Writes a text that begins at column `indent`; further lines begin there too. Without a width, and where too little is left of it, the
/// text is one line.
fn write_wrapped(out: &mut dyn Write, text: &str, indent: usize, width: Option<u16>) -> io::Result<()> {
    let room = width.map(|width| usize::from(width).saturating_sub(indent)).filter(|&room| room >= NARROWEST);
    let Some(room) = room else { return writeln!(out, "{text}") };
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            write!(out, "\n{:indent$}", "")?;
            used = 0;
        }
        let space = if used > 0 { " " } else { "" };
        write!(out, "{space}{word}")?;
        used += space.len() + length;
    }
    writeln!(out)
}

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
    use super::{Finding, write_json, write_text};

    fn findings() -> Vec<Finding> {
        vec![Finding::ok("kernel", "Linux 6.1"), Finding::fail("btf", "missing", "another kernel")]
    }

    /// Each fix stands below its finding, and one failure decides the verdict.
    #[test]
    fn text() {
        let mut out = Vec::new();
        write_text(&mut out, &findings(), false, None).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("fail  btf     missing\n              fix: another kernel\n"), "{text}");
        assert!(text.contains("cannot record yet"), "{text}");
        assert!(!text.contains('\x1b'));
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

    /// Long lines go on below their first word on a terminal, and stay whole in a pipe.
    #[test]
    fn wrapping() {
        let findings = [Finding::unused("power", "one two three four five six seven")];
        let shown = |width| {
            let mut out = Vec::new();
            write_text(&mut out, &findings, false, width).unwrap();
            String::from_utf8(out).unwrap()
        };
        let first = "-     power  one two three four";
        assert!(
            shown(Some(35)).starts_with(&format!("{first}\n             five six seven\n")),
            "{}",
            shown(Some(35))
        );
        assert!(shown(None).starts_with(&format!("{first} five six seven\n")));
    }
}
