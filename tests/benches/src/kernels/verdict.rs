//! Whether what a guest recorded is right: samples, their verdicts, launches, and the stacks that the programs are known to have.
//!
//! Samples taken before the row tables are ready do not count against a kernel: an emulated processor makes them slowly.

use super::ON_GPU;
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

/// A line about the programs, and the launches where some were done, or why they fail.
pub(crate) fn uncertainties(said: &str, programs: &[(&str, &str)], on_gpu: bool) -> Result<String> {
    let mut lines = programs.iter().map(|(name, _)| judge_program(said, name)).collect::<Result<Vec<_>>>()?;
    if on_gpu {
        lines.push(judge_launches(said)?);
    }
    let verified = |what: &str, name: &str| {
        let count = told(said, "verified", name).into_iter().next();
        count.map_or(String::new(), |count| format!("{what} {count} verified instructions; "))
    };
    let first = programs.first().map_or("", |(name, _)| *name);
    let verified = verified("sampler", first) + &verified("launches", ON_GPU.0);
    Ok(format!("{verified}{}", lines.join("; ")))
}

/// What the guest said of a program.
fn told(said: &str, what: &str, name: &str) -> Vec<String> {
    let start = format!("{what} {name} ");
    said.lines().filter_map(|line| line.strip_prefix(&start).map(|rest| rest.trim_end().to_owned())).collect()
}

/// The report of a recording that went well.
fn read_report(said: &str, name: &str) -> Result<Value> {
    let status = told(said, "status", name);
    ensure!(status == ["0"], "{name}: energy-trace ended with {status:?}");
    let report = told(said, "json", name);
    serde_json::from_str(report.first().context("no report")?)
        .with_context(|| format!("{name}: the report is no JSON"))
}

/// Launches: each that the simulator did is counted, none without a stack, and the stacks go through the functions that launch.
fn judge_launches(said: &str) -> Result<String> {
    let name = ON_GPU.0;
    let report = read_report(said, name)?;
    let done: u64 = told(said, "launches", name).first().context("no log of launches")?.parse()?;
    let stacks = report["meta"]["sampling"]["launch_stacks"].as_object().context("no stacks of launches")?;
    let counted: u64 = stacks.values().filter_map(Value::as_u64).sum();
    ensure!(done >= FEWEST && counted == done, "{name}: {counted} of {done} launches: {stacks:?}");
    let own = stacks.get("own").and_then(Value::as_u64).unwrap_or(0);
    let without: u64 =
        stacks.iter().filter(|(kind, _)| kind.starts_with("none")).filter_map(|(_, n)| n.as_u64()).sum();
    ensure!(own >= FEWEST && without == 0, "{name}: launches without stacks: {stacks:?}");
    let known = share(&told(said, "launched", name), name, launch_frames)?;
    ensure!(known >= KNOWN, "{name}: only {known:.1} % of its launches' joules are where it launches");
    Ok(format!(
        "{name} {counted} of {done} launches, {own} with a stack of their own, {known:.1} % with the known functions"
    ))
}

fn judge_program(said: &str, name: &str) -> Result<String> {
    let report = read_report(said, name)?;
    let verdicts = report["meta"]["sampling"]["verdicts"].as_object().context("no verdicts")?;
    let samples: u64 = verdicts.values().filter_map(Value::as_u64).sum();
    let count = |key: &str| verdicts.get(key).and_then(Value::as_u64).unwrap_or(0);
    let waited = count("truncated:tables-not-ready");
    let whole = count("complete") + count("healed");
    ensure!(samples - waited >= FEWEST, "{name}: only {} samples with tables", samples - waited);
    let complete = 100.0 * whole as f64 / (samples - waited) as f64;
    ensure!(complete >= COMPLETE, "{name}: only {complete:.1} % complete: {verdicts:?}");
    let frames = match name {
        "go" => go_frames,
        "python-9" => sorted_through_c_frames,
        _ if name.starts_with("python") => sorted_frames,
        _ => chain_frames,
    };
    let known = share(&told(said, "folded", name), name, frames)?;
    ensure!(known >= KNOWN, "{name}: only {known:.1} % of its stacks hold its functions");
    Ok(format!(
        "{name} {samples} samples ({waited} before tables), {complete:.1} % complete, {known:.1} % with the known functions"
    ))
}

/// Percent of the weight of the program's own whole stacks that hold its functions in order. `judge` says whether a stack is its own, and whether
/// it holds them.
fn share(folded: &[String], name: &str, judge: fn(&[&str]) -> (bool, bool)) -> Result<f64> {
    let (mut own, mut known) = (0.0, 0.0);
    for line in folded {
        let (stack, weight) = line.rsplit_once(' ').context("a folded line has a weight")?;
        let weight: f64 = weight.parse().context("a weight is a number")?;
        let frames: Vec<&str> = stack.split(';').collect();
        let (is_own, is_known) = judge(&frames);
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
    judge_sorted(frames, |[in_outer, _, in_by_key]| in_outer == 1 && in_by_key == 1)
}

/// The same of a Python before 3.11: its functions call each other through C, fewer functions of it than sort.
fn sorted_through_c_frames(frames: &[&str]) -> (bool, bool) {
    judge_sorted(frames, |[in_outer, in_middle, in_by_key]| in_outer == in_by_key && in_outer < in_middle)
}

/// By how many frames further in the next of Python's functions is.
fn judge_sorted(frames: &[&str], judge: fn([usize; 3]) -> bool) -> (bool, bool) {
    let place = |name: &str| frames.iter().position(|frame| *frame == name);
    let places = ["sorted.outer", "sorted.middle", "sorted.by_key", "sorted.leaf"].map(place);
    let known = match places {
        [Some(outer), Some(middle), Some(by_key), Some(leaf)] => {
            outer < middle
                && middle + 1 < by_key
                && by_key < leaf
                && judge([middle - outer, by_key - middle, leaf - by_key])
        }
        _ => false,
    };
    (places[3].is_some(), known)
}

/// Whether a stack is in one of Go's functions that work; whether the goroutine's function called it.
fn go_frames(frames: &[&str]) -> (bool, bool) {
    let works = ["main.fib", "main.sorting", "main.texts"];
    let first = frames.iter().position(|frame| works.contains(frame));
    let called = |first: usize| first.checked_sub(1).and_then(|caller| frames.get(caller));
    (first.is_some(), first.and_then(called) == Some(&"main.main.func1"))
}

/// Whether a stack launches a kernel; whether it does so from `main` through the function of `gpu_mix` that launches this one.
fn launch_frames(frames: &[&str]) -> (bool, bool) {
    let place = |name: &str| frames.iter().position(|frame| *frame == name);
    let sites: &[&str] = match frames.last().copied().unwrap_or_default() {
        "gemm_[g]" => &["forward"],
        "gemm_grad_[g]" => &["backward"],
        "relu_[g]" => &["forward", "backward"],
        "adam_[g]" => &["optimizer"],
        _ => return (false, false),
    };
    let site = sites.iter().find_map(|site| place(site));
    let known = place("main").is_some_and(|main| {
        place("eager") == Some(main + 1) && place("phase") == Some(main + 2) && site == Some(main + 3)
    });
    (true, known)
}

#[cfg(test)]
mod tests {
    use super::{
        LINKS, chain_frames, go_frames, launch_frames, sorted_frames, sorted_through_c_frames, uncertainties,
    };
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
        let old = [
            "sorted.outer",
            "_PyEval_EvalFrameDefault",
            "sorted.middle",
            "list_sort",
            "_PyObject_Vectorcall",
            "sorted.by_key",
            "_PyEval_EvalFrameDefault",
            "sorted.leaf",
        ];
        assert_eq!((sorted_through_c_frames(&old), sorted_frames(&old)), ((true, true), (true, false)));
        assert_eq!(sorted_through_c_frames(&no_c), (true, false));
        assert_eq!(sorted_through_c_frames(&c_elsewhere), (true, false));
    }

    /// What works must be called by the goroutine's function.
    #[test]
    fn goroutine() {
        let whole = ["work", "runtime.goexit", "main.main.func1", "main.fib", "main.fib"];
        assert_eq!(go_frames(&whole), (true, true));
        assert_eq!(go_frames(&whole[3..]), (true, false));
        assert_eq!(go_frames(&whole[..3]), (false, false));
    }

    /// A kernel must be launched where the program launches it.
    #[test]
    fn launches() {
        let whole = |site| ["p", "main", "eager", "phase", site, "launch", "cuLaunchKernel", "gemm_[g]"];
        assert_eq!(launch_frames(&whole("forward")), (true, true));
        assert_eq!(launch_frames(&whole("backward")), (true, false));
        assert_eq!(launch_frames(&["p", "main", "[GPU wait]"]), (false, false));
        assert_eq!(launch_frames(&["p", "[unwinding stopped]", "gemm_[g]"]), (true, false));
    }

    /// A guest in which energy-trace failed is refused, with its status.
    #[test]
    fn a_failure_is_told() {
        let error = uncertainties("kernel 6.1\nstatus native 125\nend\n", &[("native", "")], false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("125"), "{error}");
    }
}
