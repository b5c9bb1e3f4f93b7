//! Names of code that was made at run time, from `/tmp/perf-PID.map`: one line a function, `START SIZE NAME`, numbers in hex
//! (tools/perf/Documentation/jit-interface.txt, v6.1).
//!
//! A map has no times: where code was put in the place of older code, the line that comes last names both, as with `perf`. The process
//! writes that file, so it is read as far as names go and no further: only the addresses asked for are kept. Leaves out where the file
//! is (`jit.rs`).

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};

/// Bytes of a map that are read.
const LIMIT: u64 = 256 << 20;
/// Longest line; what follows is read as another one.
const LONGEST: u64 = 64 << 10;

/// The names of these addresses, which are sorted; those in no function have none. Reading stops where the file cannot be read, which
/// the log says.
pub fn read_map(from: impl BufRead, wanted: &[u64]) -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    let mut from = from.take(LIMIT);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => return names,
            Ok(_) => name_addresses(&line, wanted, &mut names),
            Err(error) => {
                log::debug!("a perf map ends early: {error}");
                return names;
            }
        }
    }
}

/// Gives a line's name to the addresses that it covers.
fn name_addresses(line: &[u8], wanted: &[u64], names: &mut BTreeMap<u64, String>) {
    let line = String::from_utf8_lossy(line);
    let Some((start, end, name)) = parse_line(&line) else { return };
    let first = wanted.partition_point(|&address| address < start);
    for &address in wanted.iter().skip(first).take_while(|&&address| address < end) {
        names.insert(address, name.to_owned());
    }
}

/// Start, end and name; `None` for a line that is not of the form.
fn parse_line(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let hex = |digits: &str| u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok();
    let start = hex(start)?;
    Some((start, start.checked_add(hex(size)?)?, kind_of(name.trim())))
}

/// The name without the number that oneDNN puts behind it: `jit_uni_reorder_kernel_f32.12` is one of many that do the same.
pub(super) fn kind_of(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((kind, number))
            if !kind.is_empty() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            kind
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::read_map;

    fn names(map: &str, wanted: &[u64]) -> Vec<Option<String>> {
        let names = read_map(map.as_bytes(), wanted);
        wanted.iter().map(|address| names.get(address).cloned()).collect()
    }

    /// Names by address, without oneDNN's numbers; gaps and nonsense lines have none.
    #[test]
    fn names_by_address() {
        let map = "7f0000001000 100 jit_avx512_conv_fwd.3\nnonsense\n7f0000000000 80 py::f:train.py\nffffffffffffffff 2 wraps\n";
        let found = names(map, &[1, 0x7f00_0000_007f, 0x7f00_0000_0080, 0x7f00_0000_10ff, u64::MAX]);
        let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, [None, Some("py::f:train.py"), None, Some("jit_avx512_conv_fwd"), None]);
    }

    /// Code in the place of older code: the later line names what it covers, the older one the rest.
    #[test]
    fn the_last_line_wins() {
        let found = names("1000 100 old\n1010 10 new\n", &[0x1000, 0x1010, 0x101f, 0x1020]);
        let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, [Some("old"), Some("new"), Some("new"), Some("old")]);
    }

    /// A name that ends in a dot is kept whole.
    #[test]
    fn odd_names() {
        assert_eq!(names("10 1 a.\n", &[0x10]), [Some("a.".to_owned())]);
    }
}
