//! The recording as a file: written while the run goes on, readable after whatever ended it.
//!
//! The file opens with 8 bytes that name it, the number of its format and the version of energy-trace that wrote it; this opening never
//! changes, so that every version can say what it is looking at. Chunks follow, each with its kind, its length and a CRC-32 over all of
//! these; a chunk holds records one after the other (`wire.rs`). The writer only appends. It closes a chunk when it holds 4 KiB, so damage
//! stays as small as that, and hands chunks to the system when they are 64 KiB together or when a second has passed, so a tracer that is
//! killed loses a second at most, and a disk that fills up loses what comes after.
//!
//! ```text
//! \x89ETR\r\n\x1a\n   major: u16   minor: u16   length: u8, version: UTF-8     all integers little-endian
//! kind: u8 (1 = records, 2 = head of a merged recording)   length: u32   crc32(kind, length, payload): u32   payload …            repeated
//! ```
//!
//! Reading stops at the first chunk that is incomplete, fails its checksum or makes no sense (`assembly.rs`): everything before it is
//! the recording, and a diagnostic says where it ends. Only then is `summary` missing.
//!
//! This file is where the package touches the world (files, and a clock for the flush); its siblings do not. Leaves out where the file lies
//! and whose it is: it is handed over open (`finisher/`).

use super::assembly::{Assembly, Nonsense};
use super::format::{FORMAT, Format};
use super::parts::Reading;
use super::record::{CutReason, Record, RecordingDiagnostic};
use super::tables::Recording;
use super::wire::{decode_record, encode_record};
use crate::clock::KtimeNs;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// As PNG's: a byte that is no text, the name, and line ends that a careless copy would change.
const MAGIC: [u8; 8] = *b"\x89ETR\r\n\x1a\n";
pub(super) const KIND_RECORDS: u8 = 1;
/// Before each recording of a merged file.
pub(super) const KIND_PART: u8 = 2;
/// What a cut or a damaged byte takes with it at most, beside a longer record.
const CHUNK_BYTES: usize = 4 * 1024;
/// What is handed to the system at once.
const WRITE_BYTES: usize = 64 * 1024;
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// How long records are gathered before they are written.
const GATHER: Duration = Duration::from_millis(20);

/// What can go wrong with a recording file. The text is for the person who reads it.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the fields are the path and the system's reason, as each message shows")]
pub enum FileError {
    /// Writing stopped: the disk is full, or gone.
    #[error("writing {path} stopped: {source}; what it holds up to here stays readable")]
    Write { path: PathBuf, source: io::Error },
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// The file has no bytes.
    #[error("{path} is empty: nothing was recorded")]
    Empty { path: PathBuf },
    /// The file is something else.
    #[error("{path} is not a recording of energy-trace")]
    NotARecording { path: PathBuf },
    /// The file has a format that this version does not read.
    #[error(
        "{path} was written by energy-trace {version} in format {format}, and this energy-trace {} reads formats up to {FORMAT}: \
         read it with that version, or record again",
        env!("CARGO_PKG_VERSION")
    )]
    OtherVersion { path: PathBuf, version: String, format: Format },
    /// The file was cut off or damaged before anything could be learned from it.
    #[error("{path} holds nothing that can be read: {reason}")]
    NothingReadable { path: PathBuf, reason: CutReason },
}

/// Writes a recording, record by record.
#[derive(Debug)]
pub struct RecordingWriter {
    path: PathBuf,
    file: File,
    /// Records since the last whole chunk.
    chunk: Vec<u8>,
    /// Whole chunks that the system has not been given yet.
    whole: Vec<u8>,
    flushed: Instant,
    /// After an error nothing more is written: bytes behind a torn chunk would never be read.
    stopped: bool,
}

impl RecordingWriter {
    /// Writes the opening into an open file that is empty, so that a full disk is found out before the run. The path is for messages only.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn over(file: File, path: &Path) -> Result<Self, FileError> {
        let (path, flushed) = (path.to_owned(), Instant::now());
        let mut writer = Self { path, file, chunk: Vec::new(), whole: Vec::new(), flushed, stopped: false };
        writer.append(&opening())?;
        Ok(writer)
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a record. It is on disk after the next flush: after a second at most, if records keep coming (see `write_from`).
    ///
    /// An error is given once; after it, everything is dropped, and what is on disk stays readable.
    pub fn write(&mut self, record: &Record) -> Result<(), FileError> {
        let chunk = encode_record(record, std::mem::take(&mut self.chunk)).map_err(io::Error::other);
        self.chunk = chunk.map_err(|source| self.stop(source))?;
        if self.chunk.len() >= CHUNK_BYTES {
            self.close_chunk()?;
        }
        if self.whole.len() >= WRITE_BYTES || self.flushed.elapsed() >= FLUSH_EVERY {
            self.flush()?;
        }
        Ok(())
    }

    /// Closes the chunk and hands all whole chunks to the system.
    pub fn flush(&mut self) -> Result<(), FileError> {
        self.flushed = Instant::now();
        self.close_chunk()?;
        let mut whole = std::mem::take(&mut self.whole);
        self.append(&whole)?;
        whole.clear();
        self.whole = whole;
        Ok(())
    }

    fn close_chunk(&mut self) -> Result<(), FileError> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        put_chunk(&mut self.whole, KIND_RECORDS, &self.chunk).map_err(|source| self.stop(source))?;
        self.chunk.clear();
        Ok(())
    }

    /// Writes what comes through `records` until every sender is gone, flushing once a second also when nothing comes, then finishes.
    /// What comes is gathered for a while before it is written: to be woken for each record would cost the traced program its CPU.
    /// `change` has each record before. This is the whole life of a writer thread. It returns at the first error, and the senders then find the channel closed.
    pub fn write_from(
        mut self,
        records: &Receiver<Record>,
        change: &mut dyn FnMut(&mut Record),
    ) -> Result<(), FileError> {
        let mut write = |writer: &mut Self, mut record| {
            change(&mut record);
            writer.write(&record)
        };
        loop {
            match records.recv_timeout(FLUSH_EVERY.saturating_sub(self.flushed.elapsed())) {
                Ok(record) => {
                    write(&mut self, record)?;
                    std::thread::sleep(GATHER);
                    records.try_iter().try_for_each(|record| write(&mut self, record))?;
                }
                Err(RecvTimeoutError::Timeout) => self.flush()?,
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
        }
    }

    /// Writes what is left and waits until the disk has it. After an error that `write` gave there is nothing left to tell.
    pub fn finish(mut self) -> Result<(), FileError> {
        self.flush()?;
        match self.file.sync_data() {
            // A device or a pipe cannot be synced, and need not be.
            Err(source) if !self.stopped && source.kind() != io::ErrorKind::InvalidInput => {
                Err(self.stop(source))
            }
            _ => Ok(()),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        if self.stopped {
            return Ok(());
        }
        self.file.write_all(bytes).map_err(|source| self.stop(source))
    }

    fn stop(&mut self, source: io::Error) -> FileError {
        self.stopped = true;
        FileError::Write { path: self.path.clone(), source }
    }
}

/// Writes a chunk.
pub(super) fn put_chunk(out: &mut dyn Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
    out.write_all(&[kind])?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&checksum(kind, length, payload).to_le_bytes())?;
    out.write_all(payload)
}

/// What every file begins with.
pub(super) fn opening() -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORMAT.to_bytes());
    bytes.push(u8::try_from(version.len()).unwrap_or(u8::MAX));
    bytes.extend(version.iter().take(usize::from(u8::MAX)));
    bytes
}

fn checksum(kind: u8, length: u32, payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[kind]);
    crc.update(&length.to_le_bytes());
    crc.update(payload);
    crc.finalize()
}

/// Reads a recording. One that was cut off or damaged loads up to the first chunk that is not whole, without a summary and with a diagnostic
/// (`recording-cut`) that says where it ends.
///
/// Errors: the file cannot be read, is empty, is something else, has another format, or ends before its header.
pub fn read(path: &Path) -> Result<Recording, FileError> {
    let file = File::open(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    read_open(file, path)
}

/// Reads a recording from its beginning in an open file, whatever has its path by now. The path is for messages only.
///
/// Errors: as `read`.
pub fn read_open(mut file: File, path: &Path) -> Result<Recording, FileError> {
    let of = |source| FileError::Read { path: path.to_owned(), source };
    if file.metadata().map_err(of)?.is_dir() {
        return Err(of(io::ErrorKind::IsADirectory.into()));
    }
    // What cannot go back, a pipe, is at its beginning.
    match file.rewind() {
        Err(error) if error.kind() != io::ErrorKind::NotSeekable => Err(of(error)),
        _ => decode_recording(BufReader::new(file)).map_err(|problem| problem.at(path)),
    }
}

/// Why bytes are no recording.
#[derive(Debug)]
pub(super) enum Problem {
    Io(io::Error),
    Empty,
    NotARecording,
    OtherVersion(String, Format),
    NothingReadable(CutReason),
}

impl Problem {
    /// The same as an error of a file.
    pub(super) fn at(self, path: &Path) -> FileError {
        let path = path.to_owned();
        match self {
            Self::Io(source) => FileError::Read { path, source },
            Self::Empty => FileError::Empty { path },
            Self::NotARecording => FileError::NotARecording { path },
            Self::OtherVersion(version, format) => FileError::OtherVersion { path, version, format },
            Self::NothingReadable(reason) => FileError::NothingReadable { path, reason },
        }
    }
}

fn decode_recording(mut from: impl Read) -> Result<Recording, Problem> {
    let Opening { format, length: mut whole_bytes } = read_opening(&mut from)?;
    let mut reading = Reading::new(format);
    let cut = loop {
        match read_chunk(&mut from).map_err(Problem::Io)? {
            Chunk::End => break None,
            Chunk::Torn(reason) => break Some(reason),
            Chunk::Whole(kind, payload) => {
                let added = match kind {
                    KIND_PART => reading.begin(&payload),
                    _ => reading.add_records(&payload),
                };
                if let Err(reason) = added {
                    break Some(reason);
                }
                whole_bytes += 9 + payload.len() as u64;
            }
        }
    };
    reading.finish(cut, whole_bytes).map_err(Problem::NothingReadable)
}

/// A recording up to its end, or to where it was cut, which is said; `None` where not even its header is there.
pub(super) fn with_its_end(
    assembly: Assembly,
    cut: Option<CutReason>,
    whole_bytes: Option<u64>,
) -> Option<Recording> {
    let mut recording = assembly.finish()?;
    if cut.is_some() || recording.summary.is_none() {
        recording.summary = None;
        let reason = cut.unwrap_or(CutReason::NoEnd);
        let whole_ns = Some(last_moment(&recording).ns_since(recording.header.anchor.ktime));
        recording.diagnostics.push(RecordingDiagnostic::RecordingCut { whole_bytes, whole_ns, reason });
    }
    Some(recording)
}

/// The last moment of which a recording says anything.
fn last_moment(recording: &Recording) -> KtimeNs {
    let slices = recording.slices.iter().map(|slice| slice.end);
    let samples = recording.samples.iter().map(|sample| sample.at);
    let readings = recording.readings.values().flatten().map(|reading| reading.at);
    slices.chain(samples).chain(readings).max().unwrap_or_default()
}

/// Whether a file begins as a recording does, whole or not, of any version. Of what is no file, such as a pipe, nothing is read.
pub fn is_recording(path: &Path) -> bool {
    if !path.metadata().is_ok_and(|found| found.is_file()) {
        return false;
    }
    let start = File::open(path).and_then(|mut file| read_up_to(&mut file, MAGIC.len()));
    start.is_ok_and(|start| start == MAGIC)
}

/// What the opening of a file says.
pub(super) struct Opening {
    pub(super) format: Format,
    /// Its length in bytes.
    length: u64,
}

/// Reads the opening, and refuses a format that this version does not read.
pub(super) fn read_opening(from: &mut impl Read) -> Result<Opening, Problem> {
    let start = read_up_to(from, MAGIC.len() + 5).map_err(Problem::Io)?;
    if start.is_empty() {
        return Err(Problem::Empty);
    }
    let Some((&MAGIC, rest)) = start.split_first_chunk() else { return Err(Problem::NotARecording) };
    let Some((format, &[length])) = rest.split_first_chunk() else { return Err(Problem::NotARecording) };
    let format = Format::from_bytes(*format);
    let version = read_up_to(from, usize::from(length)).map_err(Problem::Io)?;
    if format.is_readable() {
        Ok(Opening { format, length: (start.len() + version.len()) as u64 })
    } else {
        // A version is short text; anything else is a damaged opening and is shown as such.
        let version: String = String::from_utf8_lossy(&version).chars().filter(|c| !c.is_control()).collect();
        Err(Problem::OtherVersion(version, format))
    }
}

/// What comes next in a file.
pub(super) enum Chunk {
    /// The file ends where a chunk ends.
    End,
    /// Not a whole chunk, and why.
    Torn(CutReason),
    /// Its kind and payload.
    Whole(u8, Vec<u8>),
}

/// Bytes of a chunk at the most: a writer closes one at some kilobytes, behind the record that it has then.
const LONGEST_CHUNK: u32 = 256 << 20;

pub(super) fn read_chunk(from: &mut impl Read) -> io::Result<Chunk> {
    let head = read_up_to(from, 9)?;
    if head.is_empty() {
        return Ok(Chunk::End);
    }
    let Ok([kind, l0, l1, l2, l3, c0, c1, c2, c3]) = <[u8; 9]>::try_from(head) else {
        return Ok(Chunk::Torn(CutReason::Chunk));
    };
    let (length, crc) = (u32::from_le_bytes([l0, l1, l2, l3]), u32::from_le_bytes([c0, c1, c2, c3]));
    if length > LONGEST_CHUNK {
        return Ok(Chunk::Torn(CutReason::Chunk));
    }
    let payload = read_up_to(from, length as usize)?;
    Ok(if payload.len() < length as usize {
        Chunk::Torn(CutReason::Chunk)
    } else if checksum(kind, length, &payload) != crc {
        Chunk::Torn(CutReason::Checksum)
    } else if ![KIND_RECORDS, KIND_PART].contains(&kind) {
        Chunk::Torn(CutReason::ChunkKind(kind))
    } else {
        Chunk::Whole(kind, payload)
    })
}

/// Adds the records of a chunk.
pub(super) fn add_chunk(
    mut payload: &[u8],
    mut add: impl FnMut(Record) -> Result<(), Nonsense>,
) -> Result<(), CutReason> {
    while !payload.is_empty() {
        let damaged = |error: &dyn std::error::Error| CutReason::Record(error.to_string());
        let (record, rest) = decode_record(payload).map_err(|e| damaged(&e))?;
        add(record).map_err(|e| damaged(&e))?;
        payload = rest;
    }
    Ok(())
}

/// Up to `length` bytes, fewer at the end. Memory grows with what is there, not with what a damaged length claims.
fn read_up_to(from: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::interpreter::OtherPython;
    use super::{
        Chunk, CutReason, FORMAT, Format, Problem, Record, RecordingDiagnostic, opening, read_chunk,
        read_opening,
    };
    use crate::clock::KtimeNs;
    use crate::ids::ThreadKey;
    use crate::recording::ranges::{RangeDiagnostic, RangesNotRecorded};
    use crate::recording::record::{
        AccountDiagnostic, CallDiagnostic, CopyOutcome, FrameKind, IdleOrigin, IgnoredReason, InUse,
        LaunchDiagnostic, LossReason, OwnerDiagnostic, PowerDiagnostic, PythonNotCounted, Runtime, SourceId,
        SourceNote, Span, WorkFailure, WorkSource,
    };
    use serde::Serialize;
    use std::io::Read as _;

    /// Formats of this major version are read up to this minor version; a newer one and one of another major version
    /// are not.
    #[test]
    fn known_formats_are_read() {
        let opened = |format: Format| {
            let mut bytes = opening();
            bytes[8..12].copy_from_slice(&format.to_bytes());
            read_opening(&mut bytes.as_slice())
        };
        let Format { major, minor } = FORMAT;
        (0..=minor).for_each(|minor| assert!(opened(Format { minor, ..FORMAT }).is_ok()));
        for (major, minor) in [(major, minor + 1), (major + 1, 0), (major - 1, u16::MAX)] {
            let other = Format { major, minor };
            assert!(matches!(opened(other), Err(Problem::OtherVersion(_, format)) if format == other));
        }
    }

    /// A chunk that says that it is longer than any is not read, however long the file is.
    #[test]
    fn a_chunk_of_gigabytes() {
        let head = [&[1][..], &u32::MAX.to_le_bytes(), &[0; 4]].concat();
        let mut file = head.chain(std::io::repeat(0));
        assert!(matches!(read_chunk(&mut file), Ok(Chunk::Torn(CutReason::Chunk))));
    }

    /// The number of the last variant of each type that is written. A new variant stands behind it and changes the
    /// number: then raise the minor version, so that an older version refuses the file.
    #[test]
    fn a_new_variant_is_a_new_format() {
        fn number(variant: &impl Serialize) -> u8 {
            postcard::to_extend(variant, Vec::new()).unwrap()[0]
        }
        let text = String::new;
        let last = [
            number(&Record::Span(ThreadKey::new(0), KtimeNs::default(), Span::default())),
            number(&WorkSource::Prometheus { url: text(), metric: text() }),
            number(&WorkFailure::System { error: text() }),
            number(&RecordingDiagnostic::Ranges(RangeDiagnostic::NotRecorded(RangesNotRecorded::NotMarked))),
            number(&RangeDiagnostic::SpansDamaged { samples: 0, of: 0 }),
            number(&RangesNotRecorded::ProbesFailed { error: text() }),
            number(&FrameKind::Range),
            number(&OwnerDiagnostic::StacksCut { samples: 0, most: 0 }),
            number(&AccountDiagnostic::Hidden { files: Vec::new() }),
            number(&CallDiagnostic::InputSizesLimited { passed: 0, unseen: 0 }),
            number(&PythonNotCounted::NotLoaded),
            number(&LaunchDiagnostic::InjectionChained { library: text() }),
            number(&PowerDiagnostic::ReplayDoesNotCover { path: text() }),
            number(&LossReason::CpuTotals),
            number(&CopyOutcome::ProcessGone),
            SourceId::ALL.iter().map(number).max().unwrap(),
            number(&IgnoredReason::CardTellsPowerOnly),
            number(&SourceNote::UtilizationOfLimit { domain: text() }),
            number(&IdleOrigin::InUse(InUse::default())),
            number(&Runtime::NotCPython(OtherPython::PyPy)),
        ];
        let known = [44, 3, 10, 22, 3, 5, 6, 5, 4, 8, 5, 7, 13, 16, 6, 11, 36, 19, 3, 2];
        assert_eq!((FORMAT, last), (Format { major: 1, minor: 7 }, known));
    }
}
