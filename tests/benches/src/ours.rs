//! energy-trace itself, attached to a process that runs.

use anyhow::{Context as _, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use xtask::command::{read_output, run_logged};
use xtask::workspace::Workspace;

/// What its samples carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stacks {
    /// How many samples.
    pub(crate) samples: u64,
    /// By verdict, as the JSON report counts them.
    pub(crate) verdicts: BTreeMap<String, u64>,
    /// Of those whose native frames end early: with the full Python stack of their thread.
    pub(crate) python_whole: u64,
    /// CPU time, in nanoseconds, and that in functions that have a name.
    pub(crate) ran_ns: u64,
    pub(crate) named_ns: u64,
}

impl Stacks {
    /// Native frames from the leaf to the thread's root, gaps bridged.
    pub(crate) fn native_whole(&self) -> u64 {
        self.of("complete") + self.of("healed")
    }

    /// Those for which tables of `.eh_frame` were enough: without the scan and without going on at the interpreter.
    pub(crate) fn by_tables(&self) -> u64 {
        self.of("complete")
    }

    fn of(&self, verdict: &str) -> u64 {
        self.verdicts.get(verdict).copied().unwrap_or(0)
    }
}

/// Samples `pid` for `seconds`.
pub(crate) fn sample(
    workspace: &Workspace,
    folder: &Path,
    pid: u32,
    seconds: u32,
    hz: u32,
) -> Result<Stacks> {
    let file = folder.join("ours.data");
    let mut record = Command::new(workspace.binary());
    record.args(["record", "--no-svg", "--power", "none", "-p", &pid.to_string(), "-F", &hz.to_string()]);
    record.args(["--duration", &format!("{seconds}s"), "-o"]).arg(&file);
    run_logged(&mut record, &workspace.log())?;
    let report =
        read_output(Command::new(workspace.binary()).args(["report", "--format", "json"]).arg(&file))?;
    parse_stacks(&report)
}

/// The counters in a JSON report.
fn parse_stacks(report: &str) -> Result<Stacks> {
    let report: Value = serde_json::from_str(report)?;
    let sampling = &report["meta"]["sampling"];
    let verdicts = sampling["verdicts"].as_object().context("a report without verdicts")?;
    let functions = report["functions"].as_array().context("a report without functions")?;
    let ran =
        functions.iter().filter_map(|function| Some((&function["name"], function["self_ns"].as_u64()?)));
    let named = ran.clone().filter(|(name, _)| name.as_str().is_some_and(is_named));
    Ok(Stacks {
        samples: sampling["samples"].as_u64().context("a report without samples")?,
        verdicts: verdicts.iter().filter_map(|(word, n)| Some((word.clone(), n.as_u64()?))).collect(),
        python_whole: sampling["python_whole"].as_u64().context("a report of another version")?,
        ran_ns: ran.map(|(_, ns)| ns).sum(),
        named_ns: named.map(|(_, ns)| ns).sum(),
    })
}

/// Whether a row says which function it is: not a library's code without symbols, or code made at run time of which nobody knows what it is.
fn is_named(row: &str) -> bool {
    !row.starts_with('[') || row.starts_with("[oneDNN: ")
}

#[cfg(test)]
mod tests {
    use super::parse_stacks;

    /// Complete and healed stacks are whole; only the former would be without the scan. Generated code is named where its row says what it does.
    #[test]
    fn counters_of_a_report() {
        let text = r#"{"meta":{"sampling":{"samples":10,"python_whole":2,
            "verdicts":{"complete":4,"healed":3,"truncated:fault":3}}},
            "functions":[{"name":"f","self_ns":3},{"name":"[jit: node]","self_ns":2},
            {"name":"[oneDNN: reorder]","self_ns":1}]}"#;
        let stacks = parse_stacks(text).unwrap();
        assert_eq!((stacks.native_whole(), stacks.by_tables(), stacks.python_whole), (7, 4, 2));
        assert_eq!((stacks.named_ns, stacks.ran_ns), (4, 6));
        assert!(parse_stacks("{}").is_err());
    }
}
