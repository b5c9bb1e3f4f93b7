//! Probes that a file has for those who trace it (USDT: `sys/sdt.h` of SystemTap, `dtrace -G`): a `nop` each, with a note that says where it is and what it
//! is called.
//!
//! A note of type 3 has three words (where the `nop` is, where `.stapsdt.base` was when that was written, where the program looks whether anybody listens)
//! and three texts: provider, name, arguments (SystemTap, UserSpaceProbeImplementation). Leaves out arguments.

use super::arch::instruction::begins_at;
use super::arch::is_nop;
use super::elf::{ENDIAN, ElfError};
use super::file_bytes::FileBytes;
use object::Endianness;
use object::elf::{FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Notes of a file that are looked at, and probes that are found: the largest programs have some thousand.
const MOST_NOTES: usize = 1 << 16;
const MOST_FOUND: usize = 4096;
/// Bytes before a probe by which it is known where instructions begin.
const BEFORE: u64 = 64;
const OWNER: &[u8] = b"stapsdt";
const TYPE: u32 = 3;

type Segment = ProgramHeader64<Endianness>;

/// A probe, as the user calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeName {
    /// Who has it: `postgresql`.
    pub provider: String,
    /// Its own name: `transaction__start`.
    pub name: String,
}

/// A place of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticProbe {
    /// Which of those that are wanted.
    pub wanted: usize,
    /// Its place in the file.
    pub offset: u64,
    /// Place in the file of the 16 bits by which the program knows that somebody listens; 0: it has none.
    pub counter: u64,
    /// These lie among other data, which would change when somebody listens.
    pub counts_in_data: bool,
    /// An instruction that does nothing is there. A probe elsewhere, in the middle of an instruction, would break the program.
    pub is_at_nop: bool,
}

/// The places of probes in a file; none where it has none. Its symbols are not read.
///
/// # Errors
/// When it is no ELF file, or damaged.
pub fn find_probes(file: &File, wanted: &[ProbeName]) -> Result<Vec<StaticProbe>, ElfError> {
    let bytes = &FileBytes::new(file)?;
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let sections = header.sections(ENDIAN, bytes)?;
    let Some((_, section)) = sections.section_by_name(ENDIAN, b".note.stapsdt") else {
        return Ok(Vec::new());
    };
    let base = sections.section_by_name(ENDIAN, b".stapsdt.base").map(|(_, base)| base.sh_addr(ENDIAN));
    let counters = sections.section_by_name(ENDIAN, b".probes").map_or(0..0, |(_, of)| {
        of.sh_addr(ENDIAN)..of.sh_addr(ENDIAN).saturating_add(of.sh_size(ENDIAN)).saturating_sub(1)
    });
    let places = Places { segments: header.program_headers(ENDIAN, bytes)?, base, counters };
    let Some(mut notes) = section.notes(ENDIAN, bytes)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for _ in 0..MOST_NOTES {
        let Some(note) = notes.next()? else { break };
        if note.name() == OWNER && note.n_type(ENDIAN) == TYPE && found.len() < MOST_FOUND {
            let probe = places.probe(note.desc(), wanted);
            found
                .extend(probe.map(|probe| StaticProbe { is_at_nop: is_at_nop(file, probe.offset), ..probe }));
        }
    }
    Ok(found)
}

/// Whether a file has an instruction there that does nothing; the same bytes within another one are none.
fn is_at_nop(file: &File, offset: u64) -> bool {
    let before = offset.min(BEFORE);
    let mut code = [0; BEFORE as usize + 16];
    let read = file.read_at(&mut code, offset - before).unwrap_or(0);
    let (code, place) = (code.get(..read).unwrap_or_default(), before as usize);
    is_nop(code.get(place..).unwrap_or_default()) && begins_at(code, place)
}

/// Where things are in a file.
struct Places<'a> {
    segments: &'a [Segment],
    base: Option<u64>,
    /// What `sys/sdt.h` makes for counters (SVMA).
    counters: Range<u64>,
}

impl Places<'_> {
    /// What a note says, where its probe is wanted and lies in the file's code.
    fn probe(&self, note: &[u8], wanted: &[ProbeName]) -> Option<StaticProbe> {
        let word = |at: usize| Some(u64::from_le_bytes(note.get(at..at + 8)?.try_into().ok()?));
        let (at, base_then, counter) = (word(0)?, word(8)?, word(16)?);
        let mut texts = note.get(24..)?.split(|&byte| byte == 0);
        let (provider, name) = (texts.next()?, texts.next()?);
        let is_it = |of: &ProbeName| of.provider.as_bytes() == provider && of.name.as_bytes() == name;
        let wanted = wanted.iter().position(is_it)?;
        // Who moves a file's parts afterwards does not change its notes.
        let moved = |svma: u64| svma.wrapping_add(self.base.unwrap_or(base_then).wrapping_sub(base_then));
        let offset = file_offset(self.segments, moved(at), object::elf::PF_X)?;
        if counter == 0 {
            return Some(StaticProbe { wanted, offset, counter, counts_in_data: false, is_at_nop: false });
        }
        let counts_in_data = !self.counters.contains(&moved(counter));
        let counter = file_offset(self.segments, moved(counter), object::elf::PF_W)?;
        Some(StaticProbe { wanted, offset, counter, counts_in_data, is_at_nop: false })
    }
}

/// The place in a file of an address (SVMA) in a part that is loaded with this right.
fn file_offset(segments: &[Segment], svma: u64, right: u32) -> Option<u64> {
    segments.iter().find_map(|header| {
        let within = svma.checked_sub(header.p_vaddr(ENDIAN))?;
        let is_loaded = header.p_type(ENDIAN) == object::elf::PT_LOAD && header.p_flags(ENDIAN) & right != 0;
        let is_in = is_loaded && within < header.p_filesz(ENDIAN);
        is_in.then(|| header.p_offset(ENDIAN).checked_add(within)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::{ElfError, MOST_FOUND, ProbeName, StaticProbe, find_probes, is_at_nop};
    use std::io::Write as _;

    /// Where the file's code and its data are loaded (SVMA); both are the whole file.
    const CODE: u64 = 0x10_0000;
    const DATA: u64 = 0x20_0000;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// A note about a probe at a place, which says that the base was at 0.
    fn note(at: u64, counter: u64, texts: &[u8]) -> Vec<u8> {
        let desc = [words(&[at, 0, counter]), texts.to_vec()].concat();
        let head = [8, u32::try_from(desc.len()).unwrap(), 3].map(u32::to_le_bytes).concat();
        let mut note = [head, b"stapsdt\0".to_vec(), desc].concat();
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    /// What is found in a file with these notes, whose base is so far from where it was.
    fn find(notes: &[u8], moved: u64) -> Result<Vec<StaticProbe>, ElfError> {
        const NAMES: &[u8] = b"\0.note.stapsdt\0.stapsdt.base\0.probes\0";
        let begin = 64 + 2 * 56;
        let names_at = begin + 5 * 64;
        let notes_at = names_at + NAMES.len() as u64;
        let length = notes_at + notes.len() as u64;
        let mut file = [b"\x7fELF\x02\x01\x01".to_vec(), vec![0; 9]].concat();
        file.extend([3, object::elf::EM_X86_64].map(u16::to_le_bytes).concat());
        file.extend(1_u32.to_le_bytes());
        file.extend(words(&[0, 64, begin]));
        file.extend([0, 0, 64, 56, 2, 64, 5, 1].map(u16::to_le_bytes).concat());
        for (rights, at) in [(5_u64, CODE), (6, DATA)] {
            file.extend(words(&[rights << 32 | 1, 0, at, at, length, length, 4096]));
        }
        file.extend([0; 64]);
        for [name, kind, at, address, size] in [
            [0, 3, names_at, 0, NAMES.len() as u64],
            [1, 7, notes_at, 0, notes.len() as u64],
            [15, 1, names_at, moved, 1],
            [29, 1, 32, DATA + 32, 4],
        ] {
            file.extend(words(&[kind << 32 | name, 0, address, at, size, 0, 4, 0]));
        }
        let mut whole = tempfile::tempfile().unwrap();
        whole.write_all(&[&file, NAMES, notes].concat()).unwrap();
        let wanted = ["begin", "end"].map(|name| ProbeName { provider: "app".into(), name: name.into() });
        find_probes(&whole, &wanted)
    }

    /// Each place of a probe that is wanted, in the file's numbering, also where its parts were moved; its counter lies in data.
    #[test]
    fn places() {
        let notes = [
            note(CODE + 8, 0, b"app\0begin\0"),
            note(CODE, 0, b"lib\0begin\0\0"),
            note(CODE + 16, DATA + 32, b"app\0end\0-4@%eax\0"),
            note(CODE + 24, 0, b"app\0begin\0\0"),
        ];
        let probe = |wanted, offset, counter| StaticProbe {
            wanted,
            offset,
            counter,
            counts_in_data: false,
            is_at_nop: false,
        };
        let [first, counted, again] = [probe(0, 8, 0), probe(1, 16, 32), probe(0, 24, 0)];
        assert_eq!(find(&notes.concat(), 0).unwrap(), [first, counted, again]);
        let moved = find(&note(CODE - 64, 0, b"app\0begin\0"), 72).unwrap();
        assert_eq!(moved, [first]);
    }

    /// A counter lies where those of probes are, with all its bytes.
    #[test]
    fn a_counter_among_data() {
        let is_in_data = |counter| {
            let found = find(&note(CODE, counter, b"app\0begin\0"), 0).unwrap();
            found.iter().map(|of| of.counts_in_data).collect::<Vec<_>>()
        };
        let at = |of: u64| is_in_data(DATA + of);
        assert_eq!([at(31), at(32), at(34), at(35), at(8)].concat(), [true, false, false, true, true]);
    }

    /// A probe is where the file does nothing, and nowhere else.
    #[test]
    fn places_of_nothing() {
        let mut file = tempfile::tempfile().unwrap();
        let nothing: &[u8] =
            if cfg!(target_arch = "x86_64") { &[0x90] } else { &0xd503_201f_u32.to_le_bytes() };
        file.write_all(&[&[0x50; 8], nothing].concat()).unwrap();
        assert!(is_at_nop(&file, 8) && ![0, 7, 99].into_iter().any(|offset| is_at_nop(&file, offset)));
    }

    /// A number in an instruction is none, though it looks like one; behind it one is. Also near the file's begin.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn nothing_within_an_instruction() {
        for before in [1, 3, 200] {
            let mut file = tempfile::tempfile().unwrap();
            // push %rax; mov $0x90909090, %ecx; nop
            file.write_all(&[&vec![0x50; before][..], &[0xb9, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3]].concat())
                .unwrap();
            let nops: Vec<_> = (0..7).map(|at| is_at_nop(&file, before as u64 + at)).collect();
            assert_eq!(nops, [false, false, false, false, false, true, false], "{before}");
        }
    }

    /// A function may begin behind zeros, which fill a section up: as instructions these would reach into it.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn behind_what_fills_a_section() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[&[0; 80][..], &[0x90, 0x51, 0x90, 0xc3]].concat()).unwrap();
        assert!(is_at_nop(&file, 80) && is_at_nop(&file, 82));
    }

    /// What lies in no code, has its counter in code, is cut, is not text or has no end is passed over; so many are found.
    #[test]
    fn hostile_notes() {
        let cut = note(CODE, 0, b"app\0begin\0");
        for notes in [
            note(DATA + 8, 0, b"app\0begin\0"),
            note(u64::MAX, 0, b"app\0begin\0"),
            note(CODE + 8, CODE + 8, b"app\0begin\0"),
            note(CODE + 8, u64::MAX, b"app\0begin\0"),
            note(CODE, 0, b"app"),
            note(CODE, 0, &[0xff; 4096]),
            b"\x08\0\0\0\x04\0\0\0\x03\0\0\0stapsdt\0abcd".to_vec(),
            Vec::new(),
        ] {
            assert_eq!(find(&notes, 0).unwrap(), [], "{notes:?}");
        }
        assert!(find(&cut[..cut.len() - 8], 0).is_err());
        let most = find(&note(CODE, 0, b"app\0begin\0").repeat(2 * MOST_FOUND), 0).unwrap();
        assert_eq!(most.len(), MOST_FOUND);
    }
}
