//! What tells a code object of CPython from another one that comes to lie in its place: its first line, the places of its name and of its
//! line table, and what its file and its name say.
//!
//! Places alone do not: a program that runs one text after another gets the same memory for each, down to their names. Of a string its hash
//! is taken where the program has asked for it (always in names, and from 3.13 on in files), else its end. What a name says is looked at
//! where the file is no path (`<string>`): most functions have a file, where the line tells them apart, and each read costs. The probes and user
//! space do the same with what each reads its own way. Leaves out that user space reads many at once (`energy-trace-unwind`).

use crate::memory::{FRAME_WORDS, Memory};

/// Words that are read of a code object: the last is the pointer to its line table, before it stands that to its name.
pub const FIELDS: usize = 11;
/// Bytes of these.
pub const FIELD_BYTES: u32 = 8 * FIELDS as u32;
/// Bytes of a string's head: its length, its hash, how it is stored, and its first letters.
pub const HEAD_BYTES: u32 = 40;
/// Bytes of a string's end that are looked at.
const END_BYTES: u64 = 64;
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

/// What a string's head tells.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    sum: u64,
    /// It is the path of a file.
    pub is_path: bool,
    /// Where its end lies, and its bytes; none: the head tells all.
    pub end: (u64, u32),
}

/// The file of the code object before, and what it says: most callers are in the same.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LastFile {
    at: u64,
    sum: u64,
    is_path: u64,
}

/// What tells the code object at `code`; `None` where something of it cannot be read now.
#[inline(always)]
pub fn code_check(
    places: CheckPlaces,
    code: u64,
    (words, last): (&mut Words, &mut LastFile),
    memory: &impl Memory,
) -> Option<[u64; 2]> {
    if !memory.read_frame(code.wrapping_add(u64::from(places.fields)), FIELD_BYTES, words) {
        return None;
    }
    let fields = Fields::of(places, words);
    if fields.file != last.at {
        let (sum, is_path) = read_text(places, fields.file, words, memory)?;
        *last = LastFile { at: fields.file, sum, is_path: u64::from(is_path) };
    }
    let name = if last.is_path != 0 { 0 } else { read_text(places, fields.name, words, memory)?.0 };
    Some(fields.with(last.sum, name))
}

/// What a string says, and whether it is a path.
#[inline(always)]
fn read_text(places: CheckPlaces, at: u64, words: &mut Words, memory: &impl Memory) -> Option<(u64, bool)> {
    if !memory.read_frame(at.wrapping_add(u64::from(places.text)), HEAD_BYTES, words) {
        return None;
    }
    let text = Text::of(places, at, words);
    let (end, bytes) = text.end;
    if bytes == 0 {
        return Some((text.sum, text.is_path));
    }
    *words = [0; FRAME_WORDS];
    memory.read_frame(end, bytes, words).then(|| (text.with(words), text.is_path))
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
        let line = word(places.line) >> (u32::from(places.line & 7) * 8) & 0xffff_ffff;
        let (name, table) = (words[FIELDS - 2], words[FIELDS - 1]);
        Self { own: mix(mix(name, table), line), file: word(places.file), name }
    }

    /// With what file and name say; a name that is not looked at says 0.
    #[inline(always)]
    pub fn with(&self, file: u64, name: u64) -> [u64; 2] {
        [self.own, mix(file, name)]
    }
}

impl Text {
    /// Of the head of the string at `at`.
    #[inline(always)]
    pub fn of(places: CheckPlaces, at: u64, head: &Words) -> Self {
        let (length, hash, state) = (head[0], head[1], head[2] >> (places.kind_bit & 31));
        let is_ascii = state >> 4 & 1 == 1;
        let first = head[usize::from(places.ascii.wrapping_sub(places.text) >> 3) & (FRAME_WORDS - 1)] as u8;
        let is_path = is_ascii && first == b'/';
        if hash != NO_HASH {
            return Self { sum: mix(length, hash), is_path, end: (0, 0) };
        }
        let data = if is_ascii { places.ascii } else { places.wide };
        let all = (length & 0xffff_ffff) * (state & 7);
        let bytes = all.min(END_BYTES);
        let end = at.wrapping_add(u64::from(data)).wrapping_add(all - bytes);
        Self { sum: length, is_path, end: (end, bytes as u32) }
    }

    /// With its end; words that are not its own are zero.
    #[inline(always)]
    pub fn with(&self, end: &Words) -> u64 {
        end[..END_BYTES as usize / 8].iter().fold(self.sum, |sum, &word| mix(sum, word))
    }

    /// What it says where its head tells all.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// A word into a sum: multiply and rotate with the constant of FxHash (Firefox, rustc).
#[inline(always)]
const fn mix(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95)
}
