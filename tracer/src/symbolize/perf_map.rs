//! Names of code that was made at run time, from `/tmp/perf-PID.map`: one line a function, `START SIZE NAME`, numbers in hex
//! (tools/perf/Documentation/jit-interface.txt, v6.1).
//!
//! The process writes that file, so it is believed no further than names go: no link is followed, its size is bounded. Leaves out
//! jitdump files, and code that was overwritten by other code.

use crate::ids::{FrameId, Pid};
use crate::profile::record::Name;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// The module of frames in code that was made at run time, and the name of those that have no other.
pub const JIT: &str = "[jit]";
/// Bytes of a map that are read.
const LIMIT: u64 = 64 << 20;

/// A function that was made at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    end: u64,
    name: String,
}

/// Names of frames given by process and address; `[jit]` where the process wrote none.
pub fn name_jit_frames(frames: &HashMap<FrameId, (Pid, u64)>) -> Vec<(FrameId, Name)> {
    let mut maps: HashMap<Pid, Vec<Function>> = HashMap::new();
    let name = |(&id, &(pid, address)): (&FrameId, &(Pid, u64))| {
        let functions = maps.entry(pid).or_insert_with(|| parse_map(&read_map(pid)));
        let name = find(functions, address).unwrap_or(JIT).to_owned();
        (id, Name { name, file: String::new(), line: 0 })
    };
    frames.iter().map(name).collect()
}

fn read_map(pid: Pid) -> String {
    let mut text = Vec::new();
    let paths = [format!("/proc/{pid}/root/tmp/perf-{pid}.map"), format!("/tmp/perf-{pid}.map")];
    let opened = paths.iter().find_map(|path| {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
            .ok()?;
        file.metadata().is_ok_and(|m| m.is_file()).then_some(file)
    });
    if let Some(file) = opened
        && let Err(error) = file.take(LIMIT).read_to_end(&mut text)
    {
        log::debug!("the map of process {pid} cannot be read: {error}");
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Functions in order of address; lines that are not of the form are passed over.
fn parse_map(text: &str) -> Vec<Function> {
    let function = |line: &str| {
        let (start, rest) = line.split_once(' ')?;
        let (size, name) = rest.split_once(' ')?;
        let hex = |digits: &str| u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok();
        let start = hex(start)?;
        Some(Function { start, end: start.checked_add(hex(size)?)?, name: kind_of(name.trim()).to_owned() })
    };
    let mut functions: Vec<Function> = text.lines().filter_map(function).collect();
    functions.sort_by_key(|f| f.start);
    functions
}

/// The name without the number that oneDNN puts behind it: `jit_uni_reorder_kernel_f32.12` is one of many that do the same.
fn kind_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((kind, number)) if !kind.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => kind,
        _ => name,
    }
}

/// The last function that begins at or before the address, if it reaches it: code that was made later lies over older code.
fn find(functions: &[Function], address: u64) -> Option<&str> {
    let after = functions.partition_point(|f| f.start <= address);
    functions[..after].last().filter(|f| address < f.end).map(|f| f.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::{find, parse_map};

    /// Names by address, without oneDNN's numbers; gaps and nonsense lines have none.
    #[test]
    fn names_by_address() {
        let map = "7f0000001000 100 jit_avx512_conv_fwd.3\nnonsense\n7f0000000000 80 py::f:train.py\nffffffffffffffff 2 wraps\n";
        let functions = parse_map(map);
        assert_eq!(functions.len(), 2);
        assert_eq!(find(&functions, 0x7f00_0000_10ff), Some("jit_avx512_conv_fwd"));
        assert_eq!(find(&functions, 0x7f00_0000_007f), Some("py::f:train.py"));
        assert_eq!(find(&functions, 0x7f00_0000_0080), None);
        assert_eq!(find(&functions, 1), None);
    }
}
