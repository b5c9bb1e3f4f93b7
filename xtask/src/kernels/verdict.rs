//! Whether what a guest recorded is right: samples, their verdicts, and the stacks that the programs are known to have.
//!
//! Samples taken before the row tables are ready do not count against a kernel: an emulated processor makes them slowly.

use super::PROGRAMS;
use crate::chain;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Functions of the chain that must be in each of its stacks, outermost first.
const LINKS: usize = 40;
/// Samples that a program must have at least: a tenth of what its seconds would give.
const FEWEST: u64 = 50;
/// Percent of the samples that must be complete or healed, once tables are ready.
const COMPLETE: f64 = 90.0;
/// Percent of the weight of a program's own stacks that must hold all of its functions.
const KNOWN: f64 = 99.0;

/// A line about the programs, or why they fail.
pub(crate) fn uncertainties(said: &str) -> Result<String> {
    let lines = PROGRAMS.iter().map(|(name, _)| judge_program(said, name)).collect::<Result<Vec<_>>>()?;
    let verified = said.lines().find_map(|line| line.strip_prefix("verified ")?.split_whitespace().nth(1));
    let verified = verified.map_or(String::new(), |count| format!("sampler {count} verified instructions; "));
    Ok(verified + &lines.join("; "))
}

fn judge_program(said: &str, name: &str) -> Result<String> {
    let told = |what: &str| {
        let start = format!("{what} {name} ");
        said.lines().filter_map(move |line| line.strip_prefix(&start).map(str::to_owned)).collect::<Vec<_>>()
    };
    let status = told("status");
    ensure!(status == ["0"], "{name}: energy-trace ended with {status:?}");
    let report = told("json");
    let report: Value = serde_json::from_str(report.first().context("no report")?)
        .with_context(|| format!("{name}: the report is no JSON"))?;
    let verdicts = report["meta"]["sampling"]["verdicts"].as_object().context("no verdicts")?;
    let samples: u64 = verdicts.values().filter_map(Value::as_u64).sum();
    let count = |key: &str| verdicts.get(key).and_then(Value::as_u64).unwrap_or(0);
    let waited = count("truncated:tables-not-ready");
    let whole = count("complete") + count("healed");
    ensure!(samples - waited >= FEWEST, "{name}: only {} samples with tables", samples - waited);
    let complete = 100.0 * whole as f64 / (samples - waited) as f64;
    ensure!(complete >= COMPLETE, "{name}: only {complete:.1} % complete: {verdicts:?}");
    let known = known_share(&told("folded"), name)?;
    ensure!(known >= KNOWN, "{name}: only {known:.1} % of its stacks hold its functions");
    Ok(format!(
        "{name} {samples} samples ({waited} before tables), {complete:.1} % complete, {known:.1} % with the known functions"
    ))
}

/// Percent of the weight of the program's own whole stacks that hold its functions in order.
fn known_share(folded: &[String], name: &str) -> Result<f64> {
    let (mut own, mut known) = (0.0, 0.0);
    for line in folded {
        let (stack, weight) = line.rsplit_once(' ').context("a folded line has a weight")?;
        let weight: f64 = weight.parse().context("a weight is a number")?;
        let frames: Vec<&str> = stack.split(';').collect();
        let (is_own, is_known) =
            if name == "native" { chain_frames(&frames) } else { sorted_frames(&frames) };
        if is_own && !stack.contains("[unknown") && !stack.contains("[no unwind info]") {
            own += weight;
            known += if is_known { weight } else { 0.0 };
        }
    }
    ensure!(own > 0.0, "{name}: none of its functions was seen");
    Ok(100.0 * known / own)
}

/// Whether a stack burns in the chain; whether every link is there, each called by the one before it.
fn chain_frames(frames: &[&str]) -> (bool, bool) {
    let links: Vec<String> = (0..LINKS).map(chain::function).collect();
    let first = frames.iter().position(|frame| *frame == links[0]);
    let known =
        first.is_some_and(|first| frames[first..].iter().zip(&links).all(|(frame, link)| frame == link));
    let burns = frames.contains(&"burn");
    (burns, known && first.is_some_and(|first| frames.get(first + LINKS) == Some(&"burn")))
}

/// Whether a stack is in `leaf`; whether Python's functions are there in order, with C code between `middle` and `by_key` only.
fn sorted_frames(frames: &[&str]) -> (bool, bool) {
    let place = |name: &str| frames.iter().position(|frame| *frame == name);
    let places = ["sorted.outer", "sorted.middle", "sorted.by_key", "sorted.leaf"].map(place);
    let known = match places {
        [Some(outer), Some(middle), Some(by_key), Some(leaf)] => {
            middle == outer + 1 && by_key > middle + 1 && leaf == by_key + 1
        }
        _ => false,
    };
    (places[3].is_some(), known)
}

#[cfg(test)]
mod tests {
    use super::{LINKS, chain_frames, sorted_frames, uncertainties};
    use crate::chain::function;

    /// A whole chain is known; one that lacks a link, or its end, is not.
    #[test]
    fn chains() {
        let links: Vec<String> = (0..LINKS).map(function).collect();
        let mut frames: Vec<&str> =
            ["chain", "main"].into_iter().chain(links.iter().map(String::as_str)).collect();
        frames.push("burn");
        assert_eq!(chain_frames(&frames), (true, true));
        frames.remove(10);
        assert_eq!(chain_frames(&frames), (true, false));
    }

    /// C code must stand where C was called, and nowhere else.
    #[test]
    fn sorted() {
        let whole = [
            "p",
            "sorted.outer",
            "sorted.middle",
            "list_sort",
            "sorted.by_key",
            "sorted.leaf",
            "PyObject_Free",
        ];
        assert_eq!(sorted_frames(&whole), (true, true));
        let no_c = ["p", "sorted.outer", "sorted.middle", "sorted.by_key", "sorted.leaf"];
        assert_eq!(sorted_frames(&no_c), (true, false));
        let c_elsewhere = ["p", "sorted.outer", "x", "sorted.middle", "y", "sorted.by_key", "sorted.leaf"];
        assert_eq!(sorted_frames(&c_elsewhere), (true, false));
    }

    /// A guest in which energy-trace failed is refused, with its status.
    #[test]
    fn a_failure_is_told() {
        let error = uncertainties("kernel 6.1\nstatus native 125\nend\n").unwrap_err().to_string();
        assert!(error.contains("125"), "{error}");
    }
}
