//! Reads a code object: qualified name, file, module, first line, line table.
//!
//! Everything comes from another process and may change under us or be nonsense: sizes are bounded, text is decoded leniently. A name that is
//! longer than `LONGEST_NAME` is cut, and ends in `…`: nobody reads more, and a program may make as many as it likes.

use super::code_check::{Check, read_checks};
use super::globals::own_name;
use super::kept::Kept;
use super::layout::{ClassLayout, CodeLayout, StringLayout};
use super::lines::LineTable;
use super::memory::Source;
use super::module_name::{OwnName, module_named};
use super::receiver::{has_name, may_tell};
use energy_trace_model::recording::names::{LONGEST_NAME, cut};
use serde::{Deserialize, Serialize};
use tracer_ebpf::wire::ToldCode;

/// Longest line table that is read, in bytes.
const LIMIT: u64 = 1 << 20;
/// A string that says to have more characters than this is none.
const LONGEST_STRING: u64 = 1 << 32;

/// What a code object says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeObject {
    /// `co_qualname`; before 3.11 `co_name`, which does not tell the class (`class_name` looks for that).
    pub qualname: String,
    /// `co_filename`, or the file that it was compiled from elsewhere.
    pub file: String,
    /// `co_filename`, where `file` is the other.
    compiled_as: Option<String>,
    /// Its module's name, by the globals that it ran with; `None` where these are not known, or have none.
    pub module: Option<String>,
    /// `__name__` of these globals.
    pub own_name: Option<String>,
    /// `co_firstlineno`.
    pub first_line: u32,
    /// Its line table.
    linetable: Vec<u8>,
    /// How that is written.
    lines: LineTable,
    /// Addresses of its bytecode: its own, then copies for threads.
    bytecode: Vec<u64>,
    /// Bytes of the bytecode, where there may be copies; 0 where there are none.
    bytes: u64,
    /// Its first argument is named `self` or `cls`, and its class is not known.
    pub is_method: bool,
    /// What it was called on may tell more than its name (`receiver`).
    pub may_tell: bool,
    /// What it was called on has a name for what it runs (`receiver::Named`).
    pub on_named: bool,
    check: Check,
}

impl CodeObject {
    /// Reads the code object at `address`, which runs with these globals (0: not known); `None` where there is none, or none any more when the
    /// last of it was read.
    pub fn read(source: &impl Source, layout: &CodeLayout, address: u64, globals: u64) -> Option<Self> {
        let check = read_check(source, layout, address)?;
        let mut read = Self::read_parts(source, layout, address, check)?;
        if globals != 0 {
            read.name_module(source, layout, globals);
        }
        let lives = layout.header.may_live(read_header(source, address)?);
        (lives && read_check(source, layout, address)? == check).then_some(read)
    }

    /// What the probes copied of one that may be gone, without its lines; `None` where a text had no room.
    pub fn told(layout: &CodeLayout, told: &ToldCode) -> Option<Self> {
        // A copy begins with the length.
        let text = |copy| read_string(&Copy(copy), &layout.string, 0_u64.wrapping_sub(layout.string.length));
        Some(Self {
            qualname: text(&told.name)?,
            file: text(&told.file)?,
            first_line: u32::try_from(told.line).ok()?,
            bytes: 1,
            check: told.check,
            ..Self::default()
        })
    }

    /// Whether it is only what the probes copied.
    pub const fn is_told(&self) -> bool {
        self.bytecode.is_empty()
    }

    /// What the probes copied of a text (its file is no file), beside one that was read and ran with the same globals: they name its module.
    pub fn told_beside(&self, read: &Self) -> Option<Self> {
        let is_text = self.is_told() && self.file.starts_with('<');
        let name = read.own_name.clone().filter(|_| is_text)?;
        let own = OwnName { name, package: None, source: None };
        Some(Self { module: Some(module_named(&self.file, &own)), ..self.clone() })
    }

    /// Takes in what its globals say of its module, and of its file where it was compiled elsewhere.
    fn name_module(&mut self, source: &impl Source, layout: &CodeLayout, globals: u64) {
        let Some(own) = own_name(source, layout, globals, &self.file) else { return };
        self.module = Some(module_named(&self.file, &own));
        self.own_name = Some(own.name);
        if let Some(file) = own.source {
            self.may_tell = layout.sees_receivers && may_tell(&self.qualname, &file);
            self.on_named = layout.sees_receivers && has_name(&self.qualname, &file);
            self.compiled_as = Some(std::mem::replace(&mut self.file, file));
        }
    }

    /// Its name, file and first line as it says them itself.
    pub fn said(&self) -> (&str, &str, u32) {
        (&self.qualname, self.compiled_as.as_ref().unwrap_or(&self.file), self.first_line)
    }

    /// The same one, which was read before with the globals that name its module and file.
    pub fn named_as(self, before: &Self) -> Self {
        let (module, own_name) = (before.module.clone(), before.own_name.clone());
        Self { module, own_name, file: before.file.clone(), compiled_as: before.compiled_as.clone(), ..self }
    }

    fn read_parts(source: &impl Source, layout: &CodeLayout, address: u64, check: Check) -> Option<Self> {
        let table = source.word(address.wrapping_add(layout.linetable))?;
        let length = source.word(table.wrapping_add(layout.bytes_size))?;
        let linetable = source.bytes(table.wrapping_add(layout.bytes_data), length, LIMIT)?;
        let mut bytecode = vec![address.wrapping_add(layout.bytecode)];
        let mut bytes = 0;
        if let Some(copies) = layout.copies {
            bytes = layout.lines.units(&linetable)?.checked_mul(2)?;
            bytecode.extend(read_copies(source, address.wrapping_add(copies)).unwrap_or_default());
        }
        let kept = Kept::read(source, layout, address)?;
        if kept.is_whole && read_check(&kept, layout, address)? != check {
            return None;
        }
        let text = |at: u64| read_string(&kept, &layout.string, kept.word(address.wrapping_add(at))?);
        let (qualname, file) = (text(layout.qualname)?, text(layout.filename)?);
        Some(Self {
            may_tell: layout.sees_receivers && may_tell(&qualname, &file),
            on_named: layout.sees_receivers && has_name(&qualname, &file),
            qualname,
            file,
            compiled_as: None,
            module: None,
            own_name: None,
            first_line: kept.half(address.wrapping_add(layout.first_line))?,
            lines: layout.lines,
            linetable,
            bytecode,
            bytes,
            is_method: (layout.classes)
                .is_some_and(|classes| is_method(source, layout, classes, address).unwrap_or(false)),
            check,
        })
    }

    /// The same under its qualified name, once that was found.
    pub fn with_qualname(&self, qualname: String) -> Self {
        Self { qualname, is_method: false, ..self.clone() }
    }

    /// Name and file alone: what `receiver` goes by.
    pub fn name_and_file(&self) -> Self {
        Self { qualname: self.qualname.clone(), file: self.file.clone(), ..Self::default() }
    }

    /// What tells it from others.
    pub const fn check(&self) -> Check {
        self.check
    }

    /// Bytes of memory that it takes, but for the module of one that is only told of, which comes and goes.
    pub fn size(&self) -> usize {
        let names = [&self.module, &self.own_name].into_iter().flatten().filter(|_| !self.is_told());
        size_of::<Self>()
            + self.qualname.len()
            + self.file.len()
            + self.compiled_as.as_ref().map_or(0, String::len)
            + names.map(String::len).sum::<usize>()
            + self.linetable.len()
            + 8 * self.bytecode.len()
    }

    /// Whether this, read at its address, is what tells this code object from others.
    pub fn is_still(&self, check: &Check) -> bool {
        self.check == *check
    }

    /// Whether an instruction is in a copy of the bytecode that is not known: one that was made since.
    pub fn lacks(&self, instruction: u64) -> bool {
        self.bytes != 0 && self.start_of(instruction).is_none()
    }

    /// Where the bytecode begins that holds an instruction. The first may be pointed at from right before it.
    fn start_of(&self, instruction: u64) -> Option<u64> {
        let holds = |&&start: &&u64| (start.wrapping_sub(2)..start + self.bytes).contains(&instruction);
        self.bytecode.iter().find(holds).copied()
    }

    /// Line of an instruction, as frames of this version give it; the first line where the table has none (before the first
    /// instruction), 0 where it is in a copy of the bytecode that is not known.
    pub fn line_at(&self, instruction: u64) -> u32 {
        if self.lacks(instruction) {
            return 0;
        }
        let start = if self.bytes == 0 { self.bytecode.first().copied() } else { self.start_of(instruction) };
        let index = match self.lines {
            LineTable::Locations => instruction.wrapping_sub(start.unwrap_or(0)) / 2,
            // `f_lasti`: an `int`, -1 before the first instruction.
            LineTable::Lnotab | LineTable::Ranges => instruction & 0xffff_ffff,
        };
        self.lines.line_of(&self.linetable, self.first_line, index).unwrap_or(self.first_line)
    }
}

/// What was copied, from address 0 on.
struct Copy<'a>(&'a [u8]);

impl Source for Copy<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let from = self.0.get(usize::try_from(address).ok()?..)?;
        out.copy_from_slice(from.get(..out.len())?);
        Some(())
    }
}

fn read_check(source: &impl Source, layout: &CodeLayout, address: u64) -> Option<Check> {
    read_checks(source, layout, &[address]).pop().flatten()
}

fn read_header(source: &impl Source, address: u64) -> Option<[u64; 4]> {
    let mut bytes = [0; 32];
    source.read(address, &mut bytes)?;
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word));
    Some([word(0)?, word(8)?, word(16)?, word(24)?])
}

/// The copies of a code object's bytecode: a count and as many addresses, 0 for a thread that has none (`_PyCodeArray`,
/// Include/cpython/code.h, 3.14).
fn read_copies(source: &impl Source, at: u64) -> Option<Vec<u64>> {
    let array = source.word(at)?;
    let count = source.word(array)?;
    let bytes = source.bytes(array.wrapping_add(8), count.checked_mul(8)?, LIMIT)?;
    let words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    Some(words.filter(|&address| address != 0 && address < u64::MAX - LIMIT * 2).collect())
}

/// Whether the first argument of a function is named `self` or `cls` (offsets: Include/code.h and cpython/code.h, 3.6 to 3.10).
fn is_method(source: &impl Source, layout: &CodeLayout, classes: ClassLayout, code: u64) -> Option<bool> {
    const ARGUMENTS: u64 = 16;
    const FIRST_ITEM: u64 = 24;
    if source.half(code.wrapping_add(ARGUMENTS))? == 0 {
        return Some(false);
    }
    let names = source.word(code.wrapping_add(classes.names))?;
    let first = read_string(source, &layout.string, source.word(names.wrapping_add(FIRST_ITEM))?)?;
    Some(first == "self" || first == "cls")
}

/// Reads the beginning of a compact string of any kind, at most `LONGEST_NAME` bytes (Include/cpython/unicodeobject.h: behind `interned`, kind has 3 bits,
/// compact 1, ascii 1).
pub(super) fn read_string(source: &impl Source, layout: &StringLayout, address: u64) -> Option<String> {
    let length = source.word(address.wrapping_add(layout.length))?;
    let state = source.half(address.wrapping_add(layout.state))? >> layout.kind_bit;
    let (kind, compact, ascii) = (state & 7, state >> 3 & 1 == 1, state >> 4 & 1 == 1);
    if !compact || length > LONGEST_STRING {
        return None;
    }
    let data = address.wrapping_add(if ascii { layout.ascii_data } else { layout.unicode_data });
    let characters = length.min(LONGEST_NAME as u64 + 1);
    let bytes = source.bytes(data, characters * u64::from(kind), LIMIT)?;
    let wide = |size: usize, unit: fn(&[u8]) -> u32| {
        bytes
            .chunks_exact(size)
            .map(|c| char::from_u32(unit(c)).unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect::<String>()
    };
    let text = match kind {
        1 => wide(1, |c| u32::from(c[0])),
        2 => wide(2, |c| u32::from(u16::from_ne_bytes([c[0], c[1]]))),
        4 => wide(4, |c| u32::from_ne_bytes([c[0], c[1], c[2], c[3]])),
        _ => return None,
    };
    Some(cut(text))
}

#[cfg(test)]
mod tests {
    use super::{CodeObject, LONGEST_NAME, ToldCode, read_string};
    use crate::cpython::layout::{KNOWN, StringLayout};
    use crate::cpython::lines::LineTable;
    use crate::cpython::memory::Source;

    /// Memory in which every byte is the same.
    struct Filled(u8);

    impl Source for Filled {
        fn read(&self, _address: u64, out: &mut [u8]) -> Option<()> {
            out.fill(self.0);
            Some(())
        }
    }

    /// An instruction has its line in each copy of the bytecode; in a copy that is not known it has none.
    #[test]
    fn lines_in_copies() {
        let code = CodeObject {
            qualname: String::new(),
            file: String::new(),
            compiled_as: None,
            module: None,
            own_name: None,
            first_line: 7,
            // Two units on the first line, two on the next: no columns (Objects/locations.md).
            linetable: vec![0x80 | 13 << 3 | 1, 0, 0x80 | 13 << 3 | 1, 2],
            lines: LineTable::Locations,
            bytecode: vec![0x1000, 0x5000],
            bytes: 8,
            is_method: false,
            may_tell: false,
            on_named: false,
            check: [0; 2],
        };
        assert_eq!(LineTable::Locations.units(&code.linetable), Some(4));
        assert_eq!([0x1002, 0x1004, 0x5002, 0x5006].map(|at| code.line_at(at)), [7, 8, 7, 8]);
        assert!(code.lacks(0x9000) && !code.lacks(0x5000));
        assert_eq!(code.line_at(0x9000), 0);
    }

    /// A string's state says how wide its characters are; in free-threaded builds from 3.14 on the flag before that has a byte.
    #[test]
    fn strings_of_free_threaded_builds() {
        struct Text(u32);
        impl Source for Text {
            fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
                let layout = KNOWN[6].code.string;
                let mut memory = [0; 256];
                memory[usize::try_from(layout.length).ok()?] = 3;
                memory[usize::try_from(layout.state).ok()?..][..4].copy_from_slice(&self.0.to_le_bytes());
                memory[usize::try_from(layout.ascii_data).ok()?..][..3].copy_from_slice(b"abc");
                out.copy_from_slice(memory.get(usize::try_from(address).ok()?..)?.get(..out.len())?);
                Some(())
            }
        }
        let read = |state, kind_bit| {
            read_string(&Text(state), &StringLayout { kind_bit, ..KNOWN[6].code.string }, 0)
        };
        // One byte a character, compact, ASCII; interned.
        let with_lock = 1 | (1 | 1 << 3 | 1 << 4) << 2;
        let free_threaded = 1 | (1 | 1 << 3 | 1 << 4) << 8;
        assert_eq!(read(with_lock, 2).as_deref(), Some("abc"));
        assert_eq!(read(free_threaded, 8).as_deref(), Some("abc"));
        assert_eq!((read(free_threaded, 2), read(with_lock, 8)), (None, None));
    }

    /// What the probes copied has name, file and first line, in letters of any width, and no lines; what had no room in it has no name.
    #[test]
    fn what_probes_copied() {
        for layout in KNOWN.map(|known| known.code) {
            let string = layout.string;
            let mut told = ToldCode { address: 0, check: [1, 2], line: 7, name: [0; 192], file: [0; 384] };
            let mut write = |text: &str| {
                let ascii = text.is_ascii();
                let (kind, data) =
                    if ascii { (25_u32, string.ascii_data) } else { (10, string.unicode_data) };
                let letters: Vec<u8> = match ascii {
                    true => text.bytes().collect(),
                    false => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
                };
                let at = |offset: u64| usize::try_from(offset - string.length).unwrap();
                told.name[..8].copy_from_slice(&(text.chars().count() as u64).to_le_bytes());
                told.name[at(string.state)..][..4].copy_from_slice(&(kind << string.kind_bit).to_le_bytes());
                let room = letters.len().min(told.name.len() - at(data));
                told.name[at(data)..][..room].copy_from_slice(&letters[..room]);
                told.file[..192].copy_from_slice(&told.name);
                CodeObject::told(&layout, &told)
            };
            for name in ["run", "Größe.длина"] {
                let code = write(name).unwrap();
                assert_eq!((code.qualname.as_str(), code.file.as_str(), code.first_line), (name, name, 7));
                assert_eq!((code.is_told(), code.line_at(0x1000), code.check()), (true, 0, [1, 2]));
            }
            assert_eq!(write(&"n".repeat(200)), None);
        }
    }

    /// A text that was gone before it was read has the module of a function that ran with its globals; a file of its own has none by that.
    #[test]
    fn texts_beside_what_was_read() {
        let of = |file: &str| CodeObject { file: file.to_owned(), bytes: 1, ..CodeObject::default() };
        let read = |name: &str| CodeObject { own_name: Some(name.to_owned()), ..of("/srv/app.py") };
        let module = |file, name| of(file).told_beside(&read(name)).and_then(|named| named.module);
        assert_eq!(module("<a>", "__main__").as_deref(), Some("__main__"));
        assert_eq!(module("<a>", "pkg.make").as_deref(), Some("pkg.make"));
        assert_eq!(module("/srv/a.html", "pkg.make"), None);
        assert_eq!(of("<a>").told_beside(&of("<b>")), None);
    }

    /// A string of any length in the process is read as far as a name goes, and no further.
    #[test]
    fn long_strings_are_read_in_part() {
        let layout = KNOWN[6].code.string;
        let read = |length: u64| read_string(&Text { length }, &layout, 0x1000);
        assert_eq!(read(5).unwrap(), "nnnnn");
        for length in [5000, 1 << 20, 1 << 30] {
            assert_eq!(read(length).unwrap().len(), LONGEST_NAME);
        }
        assert_eq!(read(1 << 40), None);
    }

    /// A string of one-byte characters, all `n`, at 0x1000. No more of it than one read of a name is there.
    struct Text {
        length: u64,
    }

    impl Source for Text {
        fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
            let string = KNOWN[6].code.string;
            let state: u64 = 1 << 2 | 1 << 5 | 1 << 6;
            let words = [(0x1000 + string.length, self.length), (0x1000 + string.state, state)];
            out.fill(b'n');
            if let Some((_, word)) = words.iter().find(|(at, _)| *at == address) {
                out.copy_from_slice(word.to_le_bytes().get(..out.len())?);
            }
            (out.len() <= 2 * LONGEST_NAME).then_some(())
        }
    }

    /// Memory of a code object that was freed is anything: that gives no code object, and no panic.
    #[test]
    fn nonsense_is_no_code_object() {
        for layout in KNOWN {
            for byte in [0, 1, 0x7f, 0xdd, 0xff] {
                assert_eq!(
                    CodeObject::read(&Filled(byte), &layout.code, u64::MAX - 64, 1 << 20),
                    None,
                    "{byte}"
                );
            }
        }
    }
}
