//! What the fuzz targets share: memory made of the fuzzer's bytes, files without a folder, and the opening of a recording.

use energy_trace_model::recording::file::RecordingWriter;
use energy_trace_unwind::cpython::memory::Source;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::cell::Cell;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::LazyLock;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};

/// Reads that one walk may make: what is bounded ends far below.
pub const MOST_READS: u64 = 1 << 20;

/// Memory that repeats the fuzzer's bytes, counting what is read of it.
///
/// Bytes lie from address 0 on; higher addresses are folded down, so that pointers made of any bytes lead somewhere. The top of the address
/// space cannot be read.
#[derive(Debug)]
pub struct Arena<'a> {
    bytes: &'a [u8],
    reads: Cell<u64>,
}

impl<'a> Arena<'a> {
    /// Over these bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, reads: Cell::new(0) }
    }

    fn byte(&self, address: u64) -> Option<u8> {
        if self.bytes.is_empty() || address >> 60 == 15 {
            return None;
        }
        let place = address % self.bytes.len() as u64;
        self.bytes.get(usize::try_from(place).ok()?).copied()
    }

    fn count(&self) {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() < MOST_READS, "reads without end");
    }
}

impl Source for Arena<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        self.count();
        assert!(out.len() <= 1 << 20, "a read of {} bytes", out.len());
        for (place, byte) in (0..).zip(out.iter_mut()) {
            *byte = self.byte(address.wrapping_add(place))?;
        }
        Some(())
    }
}

impl Memory for Arena<'_> {
    fn read_word(&self, address: u64) -> Option<u64> {
        self.count();
        let mut word = [0; 8];
        for (place, byte) in (0..).zip(&mut word) {
            *byte = self.byte(address.wrapping_add(place))?;
        }
        Some(u64::from_le_bytes(word))
    }

    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
        assert!(bytes as usize <= FRAME_WORDS * 8, "a frame of {bytes} bytes");
        (0..u64::from(bytes / 8)).zip(out.iter_mut()).all(|(place, word)| {
            self.read_word(address.wrapping_add(place * 8)).map(|read| *word = read).is_some()
        })
    }
}

/// A file in memory, and the path that it has while it is open.
///
/// # Panics
/// When the system has no room for it: then there is nothing to fuzz with.
pub fn file_of(bytes: &[u8]) -> (File, PathBuf) {
    let memory = memfd_create("fuzz", MFdFlags::MFD_CLOEXEC).expect("a file in memory");
    let mut file = File::from(memory);
    file.write_all(bytes).expect("room for the file");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    (file, path.into())
}

/// How a recording opens, as this version writes it.
static OPENING: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("energy-trace-fuzz-{}", std::process::id()));
    let writer = RecordingWriter::over(File::create(&path).expect("a file"), &path).expect("a recording");
    writer.finish().expect("a recording");
    let bytes = std::fs::read(&path).expect("a recording");
    std::fs::remove_file(&path).expect("its removal");
    bytes
});

/// A recording with these records in one chunk, with the checksum that it needs.
///
/// # Panics
/// When no recording can be written to the folder for temporary files.
pub fn recording_of(records: &[u8]) -> Vec<u8> {
    const KIND_RECORDS: u8 = 1;
    let length = u32::try_from(records.len()).unwrap_or(0);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[KIND_RECORDS]);
    crc.update(&length.to_le_bytes());
    crc.update(records);
    let mut bytes = OPENING.clone();
    bytes.push(KIND_RECORDS);
    bytes.extend(length.to_le_bytes());
    bytes.extend(crc.finalize().to_le_bytes());
    bytes.extend(records);
    bytes
}

/// Length of the opening and of the head of a chunk: what `recording_of` puts before the records of a file with one chunk.
pub fn before_records() -> usize {
    OPENING.len() + 9
}

// Its runtime is needed by every program that is built with coverage, also by those that are no targets.
use libfuzzer_sys as _;
