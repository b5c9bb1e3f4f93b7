//! Names of code that was made at run time, from `jit-PID.dump` (tools/perf/Documentation/jitdump-specification.txt, v6.1): functions as
//! they were made and moved, with times, so that an address that was used twice has both names, each in its time.
//!
//! The process writes that file: sizes are checked against what is there, and only the addresses asked for are kept. Leaves out where
//! the file is (`jit.rs`), the code itself, its lines and its unwind information.

use super::perf_map::kind_of;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::names::{LONGEST_NAME, cut_of_bytes};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;
use thiserror::Error;

/// `JiTD` as a number, in the order of bytes of the machine that wrote it.
const MAGIC: u32 = 0x4A69_5444;
/// The newest version that is known, and the only one so far.
const VERSION: u32 = 1;
/// In the header's flags: times are of the processor's counter instead of `CLOCK_MONOTONIC`.
const ARCH_TIMESTAMP: u64 = 1;
/// Bytes of the header's known part, and of the beginning of each record.
const HEADER: usize = 40;
const RECORD_HEAD: usize = 16;
/// Bytes of `JIT_CODE_LOAD` before its name, and of `JIT_CODE_MOVE`, without the record's head.
const LOAD: usize = 40;
const MOVE: usize = 48;
/// Records that are read at most.
const MOST_RECORDS: usize = 8 << 20;
/// Bytes of names and histories that are kept at most.
const MOST_KEPT: usize = 64 << 20;
/// What an entry costs beside its name.
const ENTRY: usize = 48;

/// Kinds of records.
const JIT_CODE_LOAD: u32 = 0;
const JIT_CODE_MOVE: u32 = 1;
const JIT_CODE_CLOSE: u32 = 3;

/// Why a file is no jitdump.
#[derive(Debug, Error)]
pub enum JitDumpError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It does not begin as one.
    #[error("it does not begin as a jitdump of this machine")]
    NotADump,
    /// A version that is not known.
    #[error("it has version {0}, and version {VERSION} is known")]
    OtherVersion(u32),
}

/// What was at an address, in the order of time: from each moment on the name, or nothing any more.
pub type History = Vec<(KtimeNs, Option<Arc<str>>)>;

/// A function that was made: where it is now, and its name.
struct Function {
    start: u64,
    size: u64,
    name: Arc<str>,
}

/// What is known while records are read.
struct Reading<'a> {
    wanted: &'a [u64],
    functions: HashMap<u64, Function>,
    histories: BTreeMap<u64, History>,
    /// Whether the times can be compared with those of samples.
    timed: bool,
    /// Bytes that were kept.
    kept: usize,
}

/// The histories of these addresses, which are sorted; one that was in no function has none. A dump that was cut off, or is damaged from
/// some place on, gives what stands before it. Without usable times the last name stands for all times.
///
/// # Errors
/// When the file cannot be read, or does not begin as a jitdump.
pub fn read_dump(mut from: impl Read + Seek, wanted: &[u64]) -> Result<BTreeMap<u64, History>, JitDumpError> {
    from.rewind()?;
    let timed = read_header(&mut from)?;
    let mut reading =
        Reading { wanted, functions: HashMap::new(), histories: BTreeMap::new(), timed, kept: 0 };
    for _ in 0..MOST_RECORDS {
        if !read_record(&mut from, &mut reading)? {
            break;
        }
    }
    for history in reading.histories.values_mut() {
        history.sort_by_key(|(at, _)| *at);
    }
    Ok(reading.histories)
}

/// Reads the header; whether its times are of `CLOCK_MONOTONIC`.
fn read_header(from: &mut (impl Read + Seek)) -> Result<bool, JitDumpError> {
    let mut bytes = [0; HEADER];
    if !read_whole(from, &mut bytes)? || half(&bytes, 0) != MAGIC {
        return Err(JitDumpError::NotADump);
    }
    if half(&bytes, 4) != VERSION {
        return Err(JitDumpError::OtherVersion(half(&bytes, 4)));
    }
    let size = half(&bytes, 8);
    if (size as usize) < HEADER {
        return Err(JitDumpError::NotADump);
    }
    from.seek(SeekFrom::Start(u64::from(size)))?;
    Ok(word(&bytes, 32) & ARCH_TIMESTAMP == 0)
}

/// Reads one record; false where the file ends, or is of no use from here on.
fn read_record(from: &mut (impl Read + Seek), reading: &mut Reading<'_>) -> io::Result<bool> {
    let mut head = [0; RECORD_HEAD];
    if !read_whole(from, &mut head)? {
        return Ok(false);
    }
    let (kind, size) = (half(&head, 0), half(&head, 4) as usize);
    let at = KtimeNs::from_ns(if reading.timed { word(&head, 8) } else { 0 });
    let Some(body) = size.checked_sub(RECORD_HEAD) else { return Ok(false) };
    if kind == JIT_CODE_CLOSE {
        return Ok(false);
    }
    let wanted = match kind {
        JIT_CODE_LOAD => body.min(LOAD + LONGEST_NAME + 1),
        JIT_CODE_MOVE => body.min(MOVE),
        _ => 0,
    };
    let mut bytes = vec![0; wanted];
    if !read_whole(from, &mut bytes)? {
        return Ok(false); // Cut off.
    }
    match kind {
        JIT_CODE_LOAD => reading.load(&bytes, at),
        JIT_CODE_MOVE => reading.shift(&bytes, at),
        _ => (),
    }
    let rest = i64::try_from(body - wanted).unwrap_or(i64::MAX);
    from.seek_relative(rest)?;
    Ok(true)
}

impl Reading<'_> {
    /// `JIT_CODE_LOAD`: process, thread, vma, address, size, number, name.
    fn load(&mut self, bytes: &[u8], at: KtimeNs) {
        let Some(name) = bytes.get(LOAD..) else { return };
        let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        let name: Arc<str> = kind_of(&cut_of_bytes(&name[..end])).into();
        let function = Function { start: word(bytes, 16), size: word(bytes, 24), name };
        self.learn(function.start, function.size, Some(&function.name), at);
        if self.keep(ENTRY + function.name.len()) {
            self.functions.insert(word(bytes, 32), function);
        }
    }

    /// Whether there is room for so many bytes more, and takes it.
    const fn keep(&mut self, bytes: usize) -> bool {
        let fits = self.kept + bytes <= MOST_KEPT;
        if fits {
            self.kept += bytes;
        }
        fits
    }

    /// `JIT_CODE_MOVE`: process, thread, vma, old address, new address, size, number. What was at the old place is not there any more.
    fn shift(&mut self, bytes: &[u8], at: KtimeNs) {
        if bytes.len() < MOVE {
            return;
        }
        let Some(mut function) = self.functions.remove(&word(bytes, 40)) else { return };
        self.learn(function.start, function.size, None, at);
        (function.start, function.size) = (word(bytes, 24), word(bytes, 32));
        self.learn(function.start, function.size, Some(&function.name), at);
        self.functions.insert(word(bytes, 40), function);
    }

    /// From now on these addresses are in a function, or in none.
    fn learn(&mut self, start: u64, size: u64, name: Option<&Arc<str>>, at: KtimeNs) {
        let Some(end) = start.checked_add(size) else { return };
        let first = self.wanted.partition_point(|&address| address < start);
        let wanted = self.wanted;
        for &address in wanted.iter().skip(first).take_while(|&&address| address < end) {
            if self.timed && !self.keep(ENTRY) {
                return;
            }
            let history = self.histories.entry(address).or_default();
            if !self.timed {
                history.clear();
            }
            history.push((at, name.cloned()));
        }
    }
}

/// A 32-bit number; 0 behind the end.
fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// A 64-bit number; 0 behind the end.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Fills the slice; false where the file ends before.
fn read_whole(from: &mut impl Read, out: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(out) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::{JitDumpError, read_dump};
    use std::io::Cursor;

    fn header(flags: u64) -> Vec<u8> {
        let halves = [0x4A69_5444_u32, 1, 40, 62, 0, 7].map(u32::to_ne_bytes).concat();
        [halves, [0, flags].map(u64::to_ne_bytes).concat()].concat()
    }

    fn record(kind: u32, at: u64, body: &[u8]) -> Vec<u8> {
        let size = u32::try_from(16 + body.len()).unwrap();
        [&kind.to_ne_bytes()[..], &size.to_ne_bytes(), &at.to_ne_bytes(), body].concat()
    }

    fn load(at: u64, start: u64, size: u64, number: u64, name: &str) -> Vec<u8> {
        let words = [7 << 32 | 7, start, start, size, number].map(u64::to_ne_bytes).concat();
        record(0, at, &[&words, name.as_bytes(), &[0], &[0x90; 8]].concat())
    }

    fn shift(at: u64, old: u64, new: u64, size: u64, number: u64) -> Vec<u8> {
        record(1, at, &[7 << 32 | 7, new, old, new, size, number].map(u64::to_ne_bytes).concat())
    }

    /// Times and names of an address; a name that ended is `-`.
    fn history(dump: &[u8], address: u64) -> Vec<(u64, String)> {
        let found = read_dump(Cursor::new(dump), &[1, address]).unwrap();
        let text = |name: &Option<std::sync::Arc<str>>| name.as_deref().unwrap_or("-").to_owned();
        let of = |h: &super::History| h.iter().map(|(at, name)| (at.as_ns(), text(name))).collect();
        found.get(&address).map(of).unwrap_or_default()
    }

    /// An address that was used again has both names, each from its time on; records of other kinds are passed over.
    #[test]
    fn reused_addresses() {
        let other = record(2, 1, &[0; 24]);
        let dump =
            [header(0), load(10, 0x1000, 0x20, 1, "f"), other, load(30, 0x1010, 0x20, 2, "g.4")].concat();
        assert_eq!(history(&dump, 0x1008), [(10, "f".into())]);
        assert_eq!(history(&dump, 0x1018), [(10, "f".into()), (30, "g".into())]);
        assert_eq!(history(&dump, 0x1030), []);
    }

    /// Code that moved keeps its name at the new place and leaves the old one.
    #[test]
    fn moved_code() {
        let dump = [header(0), load(10, 0x1000, 0x20, 1, "f"), shift(20, 0x1000, 0x3000, 0x20, 1)].concat();
        assert_eq!(history(&dump, 0x1000), [(10, "f".into()), (20, "-".into())]);
        assert_eq!(history(&dump, 0x3000), [(20, "f".into())]);
    }

    /// Times of another clock say nothing: the last name stands for all times.
    #[test]
    fn other_clocks() {
        let dump = [header(1), load(10, 0x1000, 0x20, 1, "f"), load(30, 0x1000, 0x20, 2, "g")].concat();
        assert_eq!(history(&dump, 0x1000), [(0, "g".into())]);
    }

    /// A dump that was cut off gives what stands before the cut; one that is none is refused; no length panics.
    #[test]
    fn damaged_dumps() {
        let dump = [header(0), load(10, 0x1000, 0x20, 1, "f"), load(20, 0x1000, 0x20, 2, "g")].concat();
        for length in 0..dump.len() {
            match read_dump(Cursor::new(&dump[..length]), &[0x1000]) {
                Ok(_) => assert!(length >= 40),
                Err(error) => assert!(matches!(error, JitDumpError::NotADump) && length < 40),
            }
        }
        assert_eq!(history(&dump[..dump.len() - 20], 0x1000), [(10, "f".into())]);
        let mut newer = dump.clone();
        newer[4] = 2;
        assert!(matches!(read_dump(Cursor::new(newer), &[]), Err(JitDumpError::OtherVersion(2))));
        // A record that says to be smaller than its head would be read for ever.
        let endless = [header(0), [0; 16].to_vec()].concat();
        assert_eq!(history(&endless, 0x1000), []);
    }
}
