//! Go's own tables: to unwind rows, how far the stack pointer is below a function's caller at each instruction, and to names of functions, which
//! a stripped program has still.
//!
//! Go writes no `.eh_frame`; its run-time walks stacks by `.gopclntab`. Sources: Go 1.19, 1.20, 1.26 and 1.27, `src/runtime/symtab.go`
//! (`pcHeader`, `moduledata`, `_func`, `step`). Leaves out tables of Go 1.17 and older, whose frames have frame pointers all the same, and
//! functions that the compiler put into others.

use super::arch::go;
use super::elf::{Elf, ElfError, with_elf};
use object::{Object as _, ObjectSection as _};
use std::borrow::Cow;
use std::ffi::CStr;
use std::fs::File;
use std::ops::Range;
use tracer_ebpf::rows::{Rule, rule};

/// Names of the section: of plain and of position-independent programs.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Where a C linker puts a position-independent program's table, with much else, and what says that a file was made by Go.
const SHARED_SECTION: &str = ".data.rel.ro";
const BUILD_INFO: &str = ".go.buildinfo";
/// First bytes of the table, by version.
const GO_1_18: u32 = 0xffff_fff0;
const GO_1_20: u32 = 0xffff_fff1;
/// Rows that are made of a file at most: a hundred times those of Kubernetes.
const MOST_ROWS: usize = 8 << 20;

/// Bits of `_func.flag`.
mod flag {
    /// Nothing called it.
    pub(super) const TOP_FRAME: u8 = 1;
    /// It changes its stack pointer in a way that the table does not know.
    pub(super) const SP_WRITE: u8 = 2;
}

/// Functions that go over to the thread's own stack, on which nothing called them: it begins with them. For which goroutine is not followed.
const SWITCHES: [&[u8]; 3] = [b"runtime.systemstack", b"runtime.mcall", b"runtime.morestack"];

/// Whether a file was made by Go.
pub(super) fn is_go(elf: &Elf<'_>) -> bool {
    SECTIONS.iter().chain([&BUILD_INFO]).any(|name| elf.section_by_name(name).is_some())
}

/// Where rules begin to hold, by address (SVMA); nothing for a file that is not Go's, or whose table is damaged or of another version.
///
/// # Errors
/// Where the table cannot be read.
pub(super) fn read_go_rows(elf: &Elf<'_>, code: impl Fn(u64) -> bool) -> Result<Vec<(u64, Rule)>, ElfError> {
    let Some(bytes) = TableBytes::read(elf)? else { return Ok(Vec::new()) };
    let table = bytes.parse().filter(|table| code(table.text));
    Ok(table.and_then(|table| table.rows()).unwrap_or_default())
}

/// What Go's own table calls the functions at these addresses (SVMA), one answer each, in their order.
///
/// # Errors
/// Where the table cannot be read.
pub fn read_go_names(file: &File, addresses: &[u64]) -> Result<Vec<Option<String>>, ElfError> {
    with_elf(file, |elf| {
        let bytes = TableBytes::read(elf)?;
        let table = bytes.as_ref().and_then(TableBytes::parse);
        Ok(addresses.iter().map(|&address| table.as_ref()?.name(address)).collect())
    })
}

/// A table as it stands in the file.
struct TableBytes<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where code begins (SVMA), by the module that the table is of: since Go 1.26 the table itself does not say.
    module_text: Option<u64>,
}

impl<'a> TableBytes<'a> {
    /// `None` for a file that is not Go's.
    fn read(elf: &Elf<'a>) -> Result<Option<Self>, ElfError> {
        let own = SECTIONS.iter().find_map(|name| elf.section_by_name(name));
        let shared = || is_go(elf).then(|| elf.section_by_name(SHARED_SECTION)).flatten();
        let Some(section) = own.or_else(shared) else { return Ok(None) };
        let module =
            elf.section_by_name(".go.module").map(|module| module.uncompressed_data()).transpose()?;
        let module_text = module.and_then(|module| module_text(&module, section.address()));
        Ok(Some(Self { bytes: section.uncompressed_data()?, module_text }))
    }

    fn parse(&self) -> Option<Table<'_>> {
        let mut places = (0..self.bytes.len()).step_by(8);
        let table = places.find_map(|at| self.bytes.get(at..).filter(|bytes| flag_at(bytes).is_some()))?;
        Table::parse(table, self.module_text)
    }
}

/// Where code begins by a module (`moduledata.text`), where it is of the table at this address.
fn module_text(module: &[u8], table: u64) -> Option<u64> {
    const TEXT: usize = 176;
    word(module, 0).filter(|&of| of == table).and_then(|_| word(module, TEXT))
}

/// Where `_func` has its flag, by the first bytes of a table; `None` for other bytes. Lengths of instructions are counted in `go::UNIT`, and
/// words have eight bytes.
fn flag_at(bytes: &[u8]) -> Option<usize> {
    let at = match half(bytes, 0)? {
        GO_1_18 => 37,
        GO_1_20 => 41,
        _ => return None,
    };
    (bytes.get(4..8)? == [0, 0, go::UNIT, 8]).then_some(at)
}

/// The table's parts.
struct Table<'a> {
    functions: usize,
    /// Where code begins (SVMA).
    text: u64,
    names: &'a [u8],
    /// Numbers by instruction.
    pc_tables: &'a [u8],
    /// The list of functions, then what is known of each.
    list: &'a [u8],
    /// Where `_func` has its flag.
    flag_at: usize,
}

/// What is known of a function.
struct Function {
    /// Its code (SVMA).
    code: Range<u64>,
    flag: u8,
    /// It is one of `SWITCHES`.
    is_switch: bool,
}

impl<'a> Table<'a> {
    /// The header (`pcHeader`).
    fn parse(bytes: &'a [u8], module_text: Option<u64>) -> Option<Self> {
        let part = |at: usize| bytes.get(usize::try_from(word(bytes, at)?).ok()?..);
        Some(Self {
            functions: usize::try_from(word(bytes, 8)?).ok()?,
            text: word(bytes, 24).filter(|&text| text != 0).or(module_text)?,
            names: part(32)?,
            pc_tables: part(56)?,
            list: part(64)?,
            flag_at: flag_at(bytes)?,
        })
    }

    /// What the function at an address (SVMA) is called.
    fn name(&self, address: u64) -> Option<String> {
        let place = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let (entries, end) = self.list.split_at_checked(self.functions.checked_mul(8)?)?;
        if place >= half(end, 0)? {
            return None;
        }
        let entries = entries.as_chunks::<8>().0;
        let after = entries.partition_point(|entry| half(entry, 0).is_some_and(|start| start <= place));
        let name = self.name_of(self.known(entries.get(after.checked_sub(1)?)?)?)?;
        Some(CStr::from_bytes_until_nul(name).ok()?.to_str().ok()?.to_owned())
    }

    /// What is known of the function of an entry (`_func`).
    fn known(&self, entry: &[u8]) -> Option<&'a [u8]> {
        self.list.get(half(entry, 4)? as usize..)
    }

    /// The name of a function, and what is behind it.
    fn name_of(&self, known: &[u8]) -> Option<&'a [u8]> {
        self.names.get(half(known, 4)? as usize..)
    }

    fn rows(&self) -> Option<Vec<(u64, Rule)>> {
        let mut rows = Vec::new();
        for number in 0..self.functions {
            self.add_function(number, &mut rows)?;
            if rows.len() > MOST_ROWS {
                return None;
            }
        }
        Some(rows)
    }

    /// Rows of one function: its list entry is where it begins and where more is known of it (`functab`, `_func`).
    fn add_function(&self, number: usize, rows: &mut Vec<(u64, Rule)>) -> Option<()> {
        let entry = number.checked_mul(8)?;
        let address = |at: usize| self.text.checked_add(u64::from(half(self.list, at)?));
        let code = address(entry)?..address(entry.checked_add(8)?)?;
        let known = self.known(self.list.get(entry..)?)?;
        let name = self.name_of(known)?;
        let is_switch = SWITCHES
            .iter()
            .any(|switch| name.strip_prefix(*switch).is_some_and(|rest| rest.starts_with(&[0])));
        let flag = *known.get(self.flag_at)?;
        let depths = half(known, 16)? as usize;
        self.add_depths(depths, &Function { code, flag, is_switch }, rows)
    }

    /// Rows of a function's table of depths: pairs of numbers, what the depth changes by and for how many bytes it holds (`step`).
    fn add_depths(&self, at: usize, function: &Function, rows: &mut Vec<(u64, Rule)>) -> Option<()> {
        if at == 0 {
            return Some(()); // It has none.
        }
        let mut numbers = self.pc_tables.get(at..)?;
        let (mut depth, mut pc) = (-1_i64, function.code.start);
        while pc < function.code.end && rows.len() <= MOST_ROWS {
            let change = take_number(&mut numbers)?;
            if change == 0 && pc != function.code.start {
                break;
            }
            depth = depth.checked_add(i64::from((change >> 1) as i32 ^ -((change & 1) as i32)))?;
            rows.push((pc, function.rule(depth)));
            let units = u64::from(take_number(&mut numbers)?);
            pc = pc.checked_add(units.checked_mul(u64::from(go::UNIT))?)?;
        }
        rows.push((pc.min(function.code.end), Rule::NONE));
        Some(())
    }
}

impl Function {
    /// The rule where the stack pointer is so many bytes below the return address.
    fn rule(&self, depth: i64) -> Rule {
        let rule = match (self.flag & flag::SP_WRITE != 0, depth) {
            _ if self.flag & flag::TOP_FRAME != 0 || self.is_switch => Rule::pack(rule::OUTERMOST, 0, 0),
            (true, 1..) => go::by_frame_pointer(depth),
            (false, _) => go::by_depth(depth),
            _ => None,
        };
        rule.unwrap_or(Rule::NONE)
    }
}

/// The next number, seven bits a byte, the lowest first.
fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Table, flag};
    use proptest::prelude::*;
    use tracer_ebpf::rows::{Rule, rule};

    /// A table of Go 1.19 with functions of 32 bytes: name, flag, numbers of their depths.
    fn table(functions: &[(&str, u8, &[u8])]) -> Vec<u8> {
        let (mut names, mut depths, mut known, mut list) = (Vec::new(), vec![0], Vec::new(), Vec::new());
        for (index, (name, flag, numbers)) in functions.iter().enumerate() {
            let begin = 8 * functions.len() + 4 + known.len();
            list.extend([index as u32 * 32, begin as u32].into_iter().flat_map(u32::to_le_bytes));
            let fields = [0, names.len() as u32, 0, 0, depths.len() as u32, 0, 0, 0, 0];
            known.extend(fields.into_iter().flat_map(u32::to_le_bytes));
            known.extend([0, *flag, 0, 0]);
            names.extend(name.bytes().chain([0]));
            depths.extend_from_slice(numbers);
        }
        list.extend((functions.len() as u32 * 32).to_le_bytes());
        list.extend(known);
        let mut bytes = vec![0xf0, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let at = [72, 72 + names.len(), 72 + names.len() + depths.len()];
        let words = [functions.len(), 0, 0x40_1000, at[0], 0, 0, at[1], at[2]];
        bytes.extend(words.into_iter().flat_map(|word| (word as u64).to_le_bytes()));
        bytes.extend([names, depths, list].concat());
        bytes
    }

    fn rows(functions: &[(&str, u8, &[u8])]) -> Vec<(u64, Rule)> {
        Table::parse(&table(functions), None).unwrap().rows().unwrap()
    }

    fn packed(kind: u32, offset: i64, fp: i64) -> Rule {
        Rule::pack(kind, offset, fp).unwrap()
    }

    /// Depths 0, 24 and 0 again: the caller is as many bytes higher, its `rbp` is saved below the return address; behind the code is nothing.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "depths as x86-64 counts them")]
    fn depths_are_rules() {
        let found = rows(&[("main.work", 0, &[2, 4, 48, 20, 47, 1, 0])]);
        let flat = packed(rule::SP, 8, 0);
        let expected = [
            (0x40_1000, flat),
            (0x40_1004, packed(rule::SP, 32, -16)),
            (0x40_1018, flat),
            (0x40_1019, Rule::NONE),
        ];
        assert_eq!(found, expected);
    }

    /// A goroutine's first frame and the switch to the thread's stack are outermost; what changes its stack pointer is left by `rbp` if it has
    /// a frame, and not at all if it has none; what is called like a switch is none.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "depths as x86-64 counts them")]
    fn ends_and_switches() {
        let frame = [2, 4, 48, 28, 0];
        let first = |name, flag| {
            rows(&[(name, flag, &frame)]).iter().map(|(_, rule)| *rule).take(2).collect::<Vec<_>>()
        };
        let outermost = vec![packed(rule::OUTERMOST, 0, 0); 2];
        assert_eq!(first("runtime.goexit", flag::TOP_FRAME), outermost);
        assert_eq!(first("runtime.systemstack", flag::SP_WRITE), outermost);
        assert_eq!(first("runtime.nanotime1", flag::SP_WRITE), [Rule::NONE, packed(rule::FP, 16, -16)]);
        assert_ne!(first("runtime.systemstack_switch", 0), outermost);
    }

    proptest! {
        /// Whatever the bytes behind a header: rows or none, in bounded time.
        #[test]
        fn any_table(garbage: Vec<u8>, functions in 0_u64..1 << 40, at in proptest::array::uniform3(0_u64..256)) {
            let mut bytes = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
            let words = [functions, 0, 0x40_1000, at[0], 0, 0, at[1], at[2]];
            bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
            bytes.extend(garbage);
            let table = Table::parse(&bytes, None);
            let _rows = table.as_ref().and_then(Table::rows);
            let _names = [0, 0x40_1000, 0x40_1010].map(|address| table.as_ref()?.name(address));
        }
    }
}
