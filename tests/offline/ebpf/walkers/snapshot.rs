//! Memory and unwind rules of a stopped thread, written down by a test.

use std::collections::HashMap;
use std::ops::Range;
use tracer_ebpf::cycle::CycleDetector;
use tracer_ebpf::memory::{FRAME_WORDS, Memory};
use tracer_ebpf::native::{NativeFrame, NativeWalk, Tables, step};
use tracer_ebpf::python::PythonWalk;
use tracer_ebpf::rows::{FullRule, Rule};
use tracer_ebpf::wire::{MAX_FRAMES, end};

/// Memory, byte by byte; what was not written cannot be read.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    bytes: HashMap<u64, u8>,
}

impl Snapshot {
    /// Of these words.
    pub(crate) fn of(words: &[(u64, u64)]) -> Self {
        let mut out = Self::default();
        for &(address, word) in words {
            out.write(address, &word.to_le_bytes());
        }
        out
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) {
        self.bytes.extend((address..).zip(bytes.iter().copied()));
    }
}

impl Memory for Snapshot {
    fn read_word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        for (place, byte) in (0..).zip(&mut word) {
            *byte = *self.bytes.get(&address.wrapping_add(place))?;
        }
        Some(u64::from_le_bytes(word))
    }

    fn read_frame(&self, address: u64, bytes: u32, out: &mut [u64; FRAME_WORDS]) -> bool {
        read_words(self, address, bytes, out)
    }
}

/// A frame word by word.
pub(crate) fn read_words(
    memory: &impl Memory,
    address: u64,
    bytes: u32,
    out: &mut [u64; FRAME_WORDS],
) -> bool {
    (0..u64::from(bytes / 8)).zip(out.iter_mut()).all(|(place, word)| {
        memory.read_word(address.wrapping_add(place * 8)).map(|read| *word = read).is_some()
    })
}

/// Rules of stretches of code; elsewhere nothing is mapped.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) rules: Vec<(Range<u64>, Rule)>,
    /// Rules in full.
    pub(crate) full: Vec<FullRule>,
    /// Registers of the interrupted code, by DWARF's number.
    pub(crate) registers: HashMap<u32, u64>,
}

impl Rules {
    /// One rule for each function of 0x100 bytes, by its start.
    pub(crate) fn of(functions: &[(u64, u32, i64, i64)]) -> Self {
        let pack = |&(start, kind, offset, fp): &(u64, u32, i64, i64)| {
            (start..start + 0x100, Rule::pack(kind, offset, fp).expect("offsets that fit"))
        };
        Self { rules: functions.iter().map(pack).collect(), ..Self::default() }
    }

    /// One more function.
    pub(crate) fn with(mut self, start: u64, rule: Rule) -> Self {
        self.rules.push((start..start + 0x100, rule));
        self
    }
}

impl Tables for &Rules {
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        let found = self.rules.iter().find(|(code, _)| code.contains(&pc));
        found.map(|(_, rule)| *rule).ok_or(end::UNMAPPED)
    }

    fn full(&mut self, index: u32) -> Option<FullRule> {
        self.full.get(index as usize).copied()
    }

    fn interrupted(&mut self, register: u32) -> Option<u64> {
        self.registers.get(&register).copied()
    }
}

/// A Python walk that has not begun.
pub(crate) const fn python_walk() -> PythonWalk {
    let cycle = CycleDetector::new();
    PythonWalk {
        thread: 0,
        frame: 0,
        cframe: 0,
        root_cframe: 0,
        unproved: 0,
        all_classes: 0,
        last_first: 0,
        last_class: 0,
        cycle,
        words: [0; FRAME_WORDS],
    }
}

/// Walks to the end as the probes do; the frames and why it ended.
pub(crate) fn walk(mut from: NativeWalk, rules: &Rules, memory: &impl Memory) -> (Vec<NativeFrame>, u8) {
    let mut frames = Vec::new();
    for _ in 0..MAX_FRAMES {
        let (frame, code) = step(&mut from, &mut &*rules, memory);
        frames.push(frame);
        if code != end::RUNNING {
            return (frames, code);
        }
    }
    (frames, end::TOO_DEEP)
}
