//! Names of code that was made at run time, from `/tmp/perf-PID.map`: one line a function, `START SIZE NAME`, numbers in hex
//! (tools/perf/Documentation/jit-interface.txt, v6.1).
//!
//! A map has no times: where code was put in the place of older code, the line that comes last names both, as with `perf`. So it is read from
//! its end, and an address that has its name is not looked at again: the time is that of lines and addresses together, not of each with each.
//! The process writes that file: only the addresses asked for are kept. Leaves out where the file is (`jit.rs`).

use energy_trace_model::recording::names::cut;
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes of a map that are read, from its end.
const LIMIT: u64 = 256 << 20;
/// Longest line; one that is longer names nothing.
const LONGEST: usize = 64 << 10;
/// Bytes that are read at once.
const BLOCK: u64 = 256 << 10;

/// The names of these addresses, which are sorted; those in no function have none. Reading stops where the file cannot be read, which
/// the log says.
pub fn read_map(from: impl Read + Seek, wanted: &[u64]) -> BTreeMap<u64, String> {
    let mut found = Found { wanted, next: (0..=wanted.len()).collect(), names: BTreeMap::new() };
    if let Err(error) = read_backwards(from, |line| found.take(line)) {
        log::debug!("a perf map cannot be read: {error}");
    }
    found.names
}

/// The addresses that have names, and those that have none yet.
struct Found<'a> {
    wanted: &'a [u64],
    /// By place in `wanted`: the place itself where it has no name, else one behind it that is closer to such a one. The last place is none.
    next: Vec<usize>,
    names: BTreeMap<u64, String>,
}

impl Found<'_> {
    /// Gives a line's name to the addresses that it covers and that have none; whether any address is left.
    fn take(&mut self, line: &[u8]) -> bool {
        if let Some((start, end, name)) = parse_line(line) {
            let mut at = self.without_name(self.wanted.partition_point(|&address| address < start));
            if self.wanted.get(at).is_some_and(|&address| address < end) {
                let name = cut(kind_of(String::from_utf8_lossy(name).trim()).to_owned());
                while let Some(&address) = self.wanted.get(at).filter(|&&address| address < end) {
                    self.names.insert(address, name.clone());
                    if let Some(next) = self.next.get_mut(at) {
                        *next = at + 1;
                    }
                    at = self.without_name(at + 1);
                }
            }
        }
        self.names.len() < self.wanted.len()
    }

    /// The first place from here on without a name. Halves the way for who comes after (Tarjan and van Leeuwen, "Worst-case analysis of set
    /// union algorithms", 1984).
    fn without_name(&mut self, mut at: usize) -> usize {
        let of = |next: &[usize], at: usize| next.get(at).copied().unwrap_or(at);
        while of(&self.next, at) != at {
            let further = of(&self.next, of(&self.next, at));
            if let Some(next) = self.next.get_mut(at) {
                *next = further;
            }
            at = further;
        }
        at
    }
}

/// Gives the lines of a file from the last to the first, until one is the last that is wanted.
fn read_backwards(mut from: impl Read + Seek, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut at = from.seek(SeekFrom::End(0))?;
    let first = at.saturating_sub(LIMIT);
    // The start of a line whose end was read already; `None`: of one that is too long.
    let mut rest: Option<Vec<u8>> = Some(Vec::new());
    while at > first {
        let begin = at.saturating_sub(BLOCK).max(first);
        let mut block = vec![0; usize::try_from(at - begin).map_err(io::Error::other)?];
        from.seek(SeekFrom::Start(begin))?;
        from.read_exact(&mut block)?;
        at = begin;
        let Some(newline) = block.iter().position(|&byte| byte == b'\n') else {
            rest = joined(block, rest);
            continue;
        };
        let tail = block.split_off(newline + 1);
        let mut lines = tail.rsplit(|&byte| byte == b'\n');
        let last = lines.next().unwrap_or_default().to_vec();
        if joined(last, rest).is_some_and(|line| !take(&line)) || lines.any(|line| !take(line)) {
            return Ok(());
        }
        block.truncate(newline);
        rest = joined(block, Some(Vec::new()));
    }
    if at == 0
        && let Some(line) = rest
    {
        take(&line);
    }
    Ok(())
}

/// A line's parts together, if it is not too long.
fn joined(mut start: Vec<u8>, end: Option<Vec<u8>>) -> Option<Vec<u8>> {
    let end = end.filter(|end| start.len() + end.len() <= LONGEST)?;
    start.extend(end);
    Some(start)
}

/// Start, end and name; `None` for a line that is not of the form.
fn parse_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut parts = line.splitn(3, |&byte| byte == b' ');
    let mut number = || {
        let digits = std::str::from_utf8(parts.next()?).ok()?;
        u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    Some((start, start.checked_add(size)?, parts.next()?))
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
    use super::{cut, read_map};
    use std::io::Cursor;

    fn names(map: &str, wanted: &[u64]) -> Vec<Option<String>> {
        let names = read_map(Cursor::new(map), wanted);
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

    /// Every line covers every address: the last one names them, and the work is that of lines and addresses together. Lines lie across the
    /// blocks in which the file is read, the first one too.
    #[test]
    fn many_lines_over_everything() {
        let wanted: Vec<u64> = (0..5_000).map(|n| 0x1000 + n).collect();
        let mut map = String::from("fff 1 first\n");
        for line in 0..200_000 {
            map.push_str(&format!("0 ffffffffffff name_{line}\n"));
        }
        let found = names(&map, &wanted);
        assert!(found.iter().all(|name| name.as_deref() == Some("name_199999")));
        assert_eq!(names(&map.replace("0 ffffffffffff", "0 1"), &[0xfff])[0].as_deref(), Some("first"));
    }

    /// A line that is too long names nothing and hides no other; a name is cut at a character.
    #[test]
    fn long_lines() {
        let map = format!("10 1 {}\n20 1 g\n30 1 {}", "x".repeat(600_000), "é".repeat(4_000));
        let found = names(&map, &[0x10, 0x20, 0x30]);
        assert_eq!((found[0].as_deref(), found[1].as_deref()), (None, Some("g")));
        assert_eq!(found[2], Some(cut("é".repeat(4_000))));
    }
}
