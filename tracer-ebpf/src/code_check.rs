//! What tells a code object of CPython from another one that comes to lie in its place: its first line, the places of its name and of its
//! line table, and what its file and its name say.
//!
//! Places alone do not: a program that runs one text after another gets the same memory for each, down to their names. Of a string its hash
//! is taken where the program has asked for it (always in names, and from 3.13 on in files), else all its characters: of more than 480 bytes
//! its length and the last 480. The probes and user space do the same with what each reads its own way. Leaves out that user space reads many at
//! once (`energy-trace-unwind`).

use crate::memory::{FRAME_WORDS, Memory};

/// Words that are read of a code object: the last is the pointer to its line table, before it stands that to its name.
pub const FIELDS: usize = 11;
/// Bytes of these.
pub const FIELD_BYTES: u32 = 8 * FIELDS as u32;
/// Bytes of a string's head: its length, its hash, how it is stored, and what any string has behind that.
pub const HEAD_BYTES: u32 = 32;
/// Bytes of a string's characters that are read at once, of which most paths have fewer, and how many such parts are looked at.
const PART_BYTES: u32 = 120;
const MOST_PARTS: u32 = 4;
/// The hash of a string that nobody has asked for.
const NO_HASH: u64 = u64::MAX;

/// Words that were read.
pub type Words = [u64; FRAME_WORDS];

/// Where code objects and strings of a version have what is looked at; offsets in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckPlaces {
    /// Code object → the first of the words.
    pub fields: u16,
    /// From there to `co_firstlineno`.
    pub line: u8,
    /// From there to `co_filename`.
    pub file: u8,
    /// String → its length.
    pub text: u8,
    /// Bits of a string's state before its kind.
    pub kind_bit: u8,
    /// String → its characters, where all are ASCII.
    pub ascii: u8,
    /// The same where they are not.
    pub wide: u8,
}

/// What a code object's own words tell.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    own: u64,
    /// The string that its file is.
    pub file: u64,
    /// The same of its name.
    pub name: u64,
}

/// What a string's head tells, and those parts of its characters that were read.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// What it says, as far as it was read.
    pub said: Said,
    /// Where the characters lie that are to be read, and their bytes; none: the head tells all.
    characters: (u64, u32),
}

/// What a string says.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    sum: u64,
}

/// The file of the code object before, and what it says: most callers are in the same.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LastFile {
    at: u64,
    said: Said,
}

/// What tells the code object at `code`; `None` where something of it cannot be read now. `say` has `read_text` done for a string.
#[inline(always)]
pub fn code_check(
    places: CheckPlaces,
    code: u64,
    (words, last): (&mut Words, &mut LastFile),
    memory: &impl Memory,
    mut say: impl FnMut(u64) -> Option<Said>,
) -> Option<[u64; 2]> {
    if !memory.read_frame(code.wrapping_add(u64::from(places.fields)), FIELD_BYTES, words) {
        return None;
    }
    let fields = Fields::of(places, words);
    if fields.file != last.at {
        *last = LastFile { at: fields.file, said: say(fields.file)? };
    }
    Some(fields.with(last.said, say(fields.name)?))
}

/// What the own fields of the code object at `code` tell, the first half of `code_check`; `None` where they cannot be read now.
#[inline(always)]
pub fn own_check(places: CheckPlaces, code: u64, words: &mut Words, memory: &impl Memory) -> Option<u64> {
    let read = memory.read_frame(code.wrapping_add(u64::from(places.fields)), FIELD_BYTES, words);
    read.then(|| Fields::of(places, words).own)
}

/// What a string says; `None` where it cannot be read now.
#[inline(always)]
pub fn read_text(places: CheckPlaces, at: u64, words: &mut Words, memory: &impl Memory) -> Option<Said> {
    if !memory.read_frame(at.wrapping_add(u64::from(places.text)), HEAD_BYTES, words) {
        return None;
    }
    let mut text = Text::of(places, at, words);
    for number in 0..MOST_PARTS {
        let (part, bytes) = text.part(number);
        if bytes == 0 {
            break;
        }
        *words = [0; FRAME_WORDS];
        if !memory.read_frame(part, bytes, words) {
            return None;
        }
        text.add(words);
    }
    Some(text.said)
}

impl CheckPlaces {
    /// Of a version that is not known.
    pub const NONE: Self = Self { fields: 0, line: 0, file: 0, text: 0, kind_bit: 0, ascii: 0, wide: 0 };
}

impl Fields {
    /// Of these words.
    #[inline(always)]
    pub fn of(places: CheckPlaces, words: &Words) -> Self {
        let word = |offset: u8| words[usize::from(offset >> 3) & (FRAME_WORDS - 1)];
        let line = Self::line(places, words);
        let (name, table) = (words[FIELDS - 2], words[FIELDS - 1]);
        Self { own: mix(mix(name, table), line), file: word(places.file), name }
    }

    /// The first line.
    #[inline(always)]
    pub fn line(places: CheckPlaces, words: &Words) -> u64 {
        words[usize::from(places.line >> 3) & (FRAME_WORDS - 1)] >> (u32::from(places.line & 7) * 8)
            & 0xffff_ffff
    }

    /// With what file and name say.
    #[inline(always)]
    pub fn with(&self, file: Said, name: Said) -> [u64; 2] {
        [self.own, mix(file.sum, name.sum)]
    }
}

impl Text {
    /// Of the head of the string at `at`.
    #[inline(always)]
    pub fn of(places: CheckPlaces, at: u64, head: &Words) -> Self {
        let (length, hash, state) = (head[0], head[1], head[2] >> (places.kind_bit & 31));
        let is_ascii = state >> 4 & 1 == 1;
        if hash != NO_HASH {
            return Self { said: Said { sum: mix(length, hash) }, characters: (0, 0) };
        }
        let data = if is_ascii { places.ascii } else { places.wide };
        let all = (length & 0xffff_ffff) * (state & 7);
        let bytes = all.min(u64::from(MOST_PARTS * PART_BYTES));
        let from = at.wrapping_add(u64::from(data)).wrapping_add(all - bytes);
        Self { said: Said { sum: length }, characters: (from, bytes as u32) }
    }

    /// Bytes of the string at whose head these words stand, from its length on to its last character.
    #[inline(always)]
    pub fn bytes(places: CheckPlaces, head: &Words) -> u64 {
        let state = head[2] >> (places.kind_bit & 31);
        let data = if state >> 4 & 1 == 1 { places.ascii } else { places.wide };
        u64::from(data.wrapping_sub(places.text)) + (head[0] & 0xffff_ffff) * (state & 7)
    }

    /// Where a part of the characters lies that are to be read, and its bytes; no bytes: there are not so many.
    #[inline(always)]
    fn part(&self, number: u32) -> (u64, u32) {
        let (from, bytes) = self.characters;
        let before = number * PART_BYTES;
        (from.wrapping_add(u64::from(before)), bytes.saturating_sub(before).min(PART_BYTES))
    }

    /// All parts that are to be read.
    pub fn parts(self) -> impl Iterator<Item = (u64, u32)> {
        (0..MOST_PARTS).map(move |number| self.part(number)).take_while(|&(_, bytes)| bytes != 0)
    }

    /// The next part; words that are not its own are zero.
    #[inline(always)]
    pub fn add(&mut self, part: &Words) {
        let words = &part[..PART_BYTES as usize / 8];
        self.said.sum = words.iter().fold(self.said.sum, |sum, &word| mix(sum, word));
    }
}

/// A word into a sum: multiply and rotate with the constant of FxHash (Firefox, rustc).
#[inline(always)]
const fn mix(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95)
}
