//! `perf record --call-graph dwarf`: registers and 32 KiB of stack a sample, unwound afterwards.
//!
//! 32 KiB is four times its default: OpenBLAS and MKL have frames of more than 8 KiB, and the comparison is to be with perf at its best.

use anyhow::Result;
use std::path::Path;
use std::process::Command;
use xtask::command::{read_output, run_logged};

/// Functions in which threads begin. perf names them by `libc6-dbg`.
const ROOTS: [&str; 6] = ["_start", "clone3", "__clone3", "clone", "__clone", "start_thread"];

/// How many stacks there are, and how many end where the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stacks {
    /// Samples.
    pub(crate) samples: u64,
    /// Of these, with the outermost frame.
    pub(crate) whole: u64,
}

/// Samples `pid` for `seconds`.
pub(crate) fn sample(folder: &Path, log: &Path, pid: u32, seconds: u32, hz: u32) -> Result<Stacks> {
    let file = folder.join("perf.data");
    let mut record = Command::new("perf");
    record.args(["record", "--quiet", "--event", "cpu-clock", "--freq", &hz.to_string()]);
    record.args(["--call-graph", "dwarf,32768", "--pid", &pid.to_string(), "--output"]).arg(&file);
    run_logged(record.args(["--", "sleep", &seconds.to_string()]), log)?;
    // Without --no-inline it starts addr2line for every frame.
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "--fields", "comm,tid,ip,sym", "--input"]).arg(&file);
    Ok(parse_script(&read_output(&mut script)?))
}

/// Counts what `perf script` prints: blocks of a heading and a line a frame, innermost first.
fn parse_script(text: &str) -> Stacks {
    let mut stacks = Stacks::default();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        stacks.samples += 1;
        let outermost =
            block.trim_end().lines().skip(1).last().and_then(|line| line.split_whitespace().nth(1));
        stacks.whole += u64::from(outermost.is_some_and(|name| ROOTS.contains(&name)));
    }
    stacks
}

#[cfg(test)]
mod tests {
    use super::{Stacks, parse_script};

    /// A stack is whole when its last line is a function in which threads begin; one without frames is not.
    #[test]
    fn stacks_of_a_script() {
        let text = "python 1 \n\t  12 leaf\n\t  34 _start\n\npython 2 \n\t  12 leaf\n\t  56 [unknown]\n\npython 3 \n\n";
        assert_eq!(parse_script(text), Stacks { samples: 3, whole: 1 });
    }
}
