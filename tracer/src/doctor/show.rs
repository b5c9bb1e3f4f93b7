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

/// Writes the findings one a line, each fix below what it mends, and the verdict last.
pub fn write_text(out: &mut dyn Write, findings: &[Finding], color: bool) -> io::Result<()> {
    let width = findings.iter().map(|finding| finding.area.len()).max().unwrap_or(0);
    for Finding { area, level, text, fix } in findings {
        writeln!(out, "{}  {area:width$}  {}", mark(*level, color), shown_lines(text))?;
        if let Some(fix) = fix {
            writeln!(out, "      {:width$}  fix: {}", "", shown_lines(fix))?;
        }
    }
    let verdict = if can_record(findings) {
        "This machine can record: sudo energy-trace -- COMMAND"
    } else {
        "This machine cannot record yet: mend what is marked `fail`."
    };
    writeln!(out, "\n{verdict}")
}

/// The level in four columns, in colour (ECMA-48 SGR: green, yellow, red) where wanted.
fn mark(level: Level, color: bool) -> String {
    let (word, code) = match level {
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
        write_text(&mut out, &findings(), false).unwrap();
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
}
