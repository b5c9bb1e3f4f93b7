//! `--work NAME=SOURCE`: what people count, as it is typed.
//!
//! Leaves out reading it (`work/`).

use crate::work::{Metric, check, expression};
use energy_trace_model::recording::record::{WorkCounter, WorkSource};
use energy_trace_names::shown::shown;
use std::path::absolute;

/// Longest name of a unit.
const MOST: usize = 64;
/// What a source looks like.
const SOURCES: &str =
    "write it as NAME=calls:FUNCTION, NAME=stdout:REGEX, NAME=file:PATH or NAME=prometheus:URL#METRIC";
/// What those of an agent look like.
const SOURCES_OF_AGENT: &str = "write it as NAME=file:PATH or NAME=prometheus:URL#METRIC";

/// Why others are no units of an agent.
const OF_AGENT: &str = "calls: are counted, and stdout: is read, where energy-trace starts a program; an agent, which starts none, takes file: and \
     prometheus:";

/// A counter that an agent can read.
pub(super) fn parse_of_agent(text: &str) -> Result<WorkCounter, String> {
    let counter = parse_as(text, SOURCES_OF_AGENT)?;
    match counter.source {
        WorkSource::File(_) | WorkSource::Prometheus { .. } => Ok(counter),
        WorkSource::Calls(_) | WorkSource::Stdout(_) => Err(OF_AGENT.to_owned()),
    }
}

/// A counter of work.
pub(super) fn parse(text: &str) -> Result<WorkCounter, String> {
    parse_as(text, SOURCES)
}

/// The same, where sources look so.
fn parse_as(text: &str, sources: &str) -> Result<WorkCounter, String> {
    let (name, source) = text.split_once('=').ok_or(sources)?;
    let is_name = !name.trim().is_empty() && name.chars().count() <= MOST && shown(name) == name;
    if !is_name {
        return Err(format!("the name of a unit has 1 to {MOST} visible characters"));
    }
    let (kind, words) = source.split_once(':').ok_or(sources)?;
    if words.is_empty() {
        return Err(format!("{kind}: of what? {sources}"));
    }
    let source = match kind {
        "calls" => calls(words)?,
        "stdout" => expression(words).map(|_| WorkSource::Stdout(words.to_owned()))?,
        "file" => file(words)?,
        "prometheus" => prometheus(words)?,
        _ => return Err(format!("unknown source `{}`: {sources}", shown(kind))),
    };
    Ok(WorkCounter { name: name.to_owned(), source })
}

fn calls(function: &str) -> Result<WorkSource, String> {
    // --count, which counts them, takes several names with commas between them.
    if function.contains(',') {
        Err("one function each: write --work several times".into())
    } else {
        Ok(WorkSource::Calls(function.to_owned()))
    }
}

/// The path as it is from the folder in which energy-trace was started.
fn file(path: &str) -> Result<WorkSource, String> {
    let path = absolute(path).map_err(|error| error.to_string())?;
    path.into_os_string().into_string().map(WorkSource::File).map_err(|_| "the path is no text".into())
}

/// A page and a metric on it. Whether the page may be read is asked when all options are known.
fn prometheus(words: &str) -> Result<WorkSource, String> {
    let (url, metric) =
        words.split_once('#').ok_or("which metric? write URL#METRIC, or URL#METRIC{label=\"x\"}")?;
    check(url, true)?;
    Metric::parse(metric).ok_or_else(|| format!("no metric is called so: {}", shown(metric)))?;
    Ok(WorkSource::Prometheus { url: url.to_owned(), metric: metric.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{WorkSource, parse, parse_of_agent};

    /// The first `=` divides a name from its source, the first `:` a source's kind from its words.
    #[test]
    fn counters() {
        let calls = parse("step=calls:Net.step@libx=1:2").unwrap();
        assert_eq!(
            (calls.name.as_str(), calls.source),
            ("step", WorkSource::Calls("Net.step@libx=1:2".into()))
        );
        assert_eq!(parse("token=file:/run/x").unwrap().source, WorkSource::File("/run/x".into()));
        assert_eq!(parse(r"x=stdout:a=(\d+)").unwrap().source, WorkSource::Stdout(r"a=(\d+)".into()));
        let page = parse("t=prometheus:http://localhost:8000/metrics#a:b_total{x=\"1#=2\"}").unwrap().source;
        let (url, metric) = ("http://localhost:8000/metrics".into(), "a:b_total{x=\"1#=2\"}".into());
        assert_eq!(page, WorkSource::Prometheus { url, metric });
        let here = std::env::current_dir().unwrap().join("x");
        assert_eq!(parse("token=file:x").unwrap().source, WorkSource::File(here.to_str().unwrap().into()));
    }

    /// What names nothing, or something else, is refused; of an agent, which starts nothing, also calls and output.
    #[test]
    fn refused() {
        let advised = |text| parse_of_agent(text).unwrap_err();
        assert!(["foo", "x=y:z", "x=file:"].iter().all(|text| !advised(text).contains("stdout")));
        let of_agent = ["x=file:/x", "x=prometheus:http://localhost/#x", "x=calls:f", r"x=stdout:(\d+)"];
        assert_eq!(of_agent.map(|text| parse_of_agent(text).is_ok()), [true, true, false, false]);
        let long = format!("{}=file:/x", "n".repeat(65));
        for wrong in [
            "",
            "token",
            "token=",
            "=file:/x",
            "token=/x",
            "token=file:",
            "a\nb=file:/x",
            "token=net:/x",
            "s=calls:a,b",
            "s=stdout:step",
            "t=prometheus:http://localhost/",
            "t=prometheus:http://localhost/#",
            "t=prometheus:https://localhost/#x",
            "s=stdout:(",
            " =file:/x",
            &long,
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
