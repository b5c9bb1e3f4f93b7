//! Attributes of an object, from CPython 3.11 on: where it keeps the pointer to what `object.name` is, in a slot of its class or among its own.
//!
//! Everything comes from another process that runs on: what cannot be read, or makes no sense, is nothing. An attribute is found by its name,
//! so that a wrong offset finds none. Leaves out attributes of base classes' slots and what properties make.

use super::class_name::{at, type_name};
use super::code::read_string;
use super::layout::CodeLayout;
use super::memory::Source;
use serde::{Deserialize, Serialize};
use tracer_ebpf::python_layout::object;

/// Entries of a dictionary that are looked at.
const MAX_ENTRIES: u64 = 64;
/// Bytes of an object in which slots are believed.
const MAX_OBJECT: u64 = 4096;
/// `PyDictKeysObject` from 3.11 on (Include/internal/pycore_dict.h): log2 of the table's size and of the bytes of its index, kind of keys,
/// entries in use, index.
pub(super) mod keys {
    pub(in super::super) const SHAPE: u64 = 8;
    pub(in super::super) const ENTRIES: u64 = 24;
    pub(in super::super) const INDICES: u64 = 32;
}
/// `PyDictObject` → values, where keys are shared among objects; `PyMemberDescrObject` → `PyMemberDef` → offset in the object.
const DICT_VALUES: u64 = 40;
const DESCRIPTOR_MEMBER: u64 = 40;
const MEMBER_OFFSET: u64 = 16;
/// `PyTypeObject.tp_basicsize`; `Py_TPFLAGS_INLINE_VALUES` (3.13) and `Py_TPFLAGS_MANAGED_DICT`.
const TYPE_BASIC_SIZE: u64 = 32;
const INLINE_VALUES: u64 = 1 << 2;
const MANAGED_DICT: u64 = 1 << 4;

/// Where objects of a version have their own attributes (Include/internal/pycore_object.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attributes {
    /// Not known: slots alone are looked for.
    Unknown,
    /// Pointers to values and to a dictionary in front of the object (3.11).
    Apart,
    /// One pointer in front of it, to either (3.12).
    Tagged,
    /// Values behind it, or a pointer to a dictionary in front of it (3.13).
    Inline,
}

impl Attributes {
    /// `PyHeapTypeObject.ht_cached_keys`: the names of the values.
    const fn class_keys(self) -> u64 {
        if matches!(self, Self::Apart) { 872 } else { 880 }
    }

    /// From what a dictionary has as its values to the first of them.
    const fn values_header(self) -> u64 {
        if matches!(self, Self::Inline) { 8 } else { 0 }
    }
}

/// Where an object keeps the pointer to one of its attributes.
pub(super) fn place_of(source: &impl Source, layout: &CodeLayout, of: u64, name: &str) -> Option<u64> {
    let class = source.word(of.wrapping_add(object::TYPE))?;
    let flags = source.word(class.wrapping_add(at::TYPE_FLAGS))?;
    if flags & at::READY == 0 {
        return None;
    }
    slot(source, layout, class, name).map(|offset| of.wrapping_add(offset)).or_else(|| {
        match values(source, layout.attributes, of, class, flags)? {
            Own::Values(values) => {
                let keys = source.word(class.wrapping_add(layout.attributes.class_keys()))?;
                let (number, _) = entry(source, layout, keys, name)?;
                Some(values.wrapping_add(number * 8))
            }
            Own::Dictionary(dict) => of_dictionary(source, layout, dict, name),
        }
    })
}

/// An object's own attributes.
enum Own {
    /// In the order of the names that its class has.
    Values(u64),
    Dictionary(u64),
}

fn values(source: &impl Source, kind: Attributes, of: u64, class: u64, flags: u64) -> Option<Own> {
    let before = |words: u64| source.word(of.wrapping_sub(words * 8)).filter(|&word| word != 0);
    match kind {
        Attributes::Inline if flags & INLINE_VALUES != 0 => {
            let values = of.wrapping_add(source.word(class.wrapping_add(TYPE_BASIC_SIZE))?);
            let [_, _, _, is_valid, ..] = source.word(values)?.to_le_bytes();
            let own = Own::Values(values.wrapping_add(kind.values_header()));
            if is_valid == 0 { before(3).map(Own::Dictionary) } else { Some(own) }
        }
        Attributes::Unknown => None,
        _ if flags & MANAGED_DICT == 0 => None,
        Attributes::Apart => before(4).map(Own::Values).or_else(|| before(3).map(Own::Dictionary)),
        Attributes::Tagged => match before(3)? {
            values if values & 1 == 1 => Some(Own::Values(values + 1)),
            dict => Some(Own::Dictionary(dict)),
        },
        Attributes::Inline => before(3).map(Own::Dictionary),
    }
}

fn of_dictionary(source: &impl Source, layout: &CodeLayout, dict: u64, name: &str) -> Option<u64> {
    let (number, value) = entry(source, layout, source.word(dict.wrapping_add(at::DICT_KEYS))?, name)?;
    let values = source.word(dict.wrapping_add(DICT_VALUES))?;
    let shared = values.wrapping_add(layout.attributes.values_header() + number * 8);
    Some(if values == 0 { value } else { shared })
}

/// The offset of a slot that a class has for an attribute of its objects.
fn slot(source: &impl Source, layout: &CodeLayout, class: u64, name: &str) -> Option<u64> {
    let descriptor = class_attribute(source, layout, class, name)?;
    let kind = type_name(source, source.word(descriptor.wrapping_add(object::TYPE))?)?;
    let member = source.word(descriptor.wrapping_add(DESCRIPTOR_MEMBER))?;
    let offset = source.word(member.wrapping_add(MEMBER_OFFSET))?;
    (kind == "member_descriptor" && (16..MAX_OBJECT).contains(&offset)).then_some(offset)
}

/// What a class has under a name in its own dictionary.
pub(super) fn class_attribute(
    source: &impl Source,
    layout: &CodeLayout,
    class: u64,
    name: &str,
) -> Option<u64> {
    let dict = source.word(class.wrapping_add(at::TYPE_DICT))?;
    let (_, value) = entry(source, layout, source.word(dict.wrapping_add(at::DICT_KEYS))?, name)?;
    source.word(value)
}

/// The number of a key among a dictionary's first entries, and where its value is where keys and values are in one table.
pub(super) fn entry(source: &impl Source, layout: &CodeLayout, keys: u64, name: &str) -> Option<(u64, u64)> {
    // Code objects that do not know their class are those of versions whose dictionaries begin in another way.
    let table = if layout.classes.is_some() { old_table(source, keys) } else { table(source, keys) }?;
    (0..table.count.min(MAX_ENTRIES)).find_map(|number| {
        let at = table.entries.wrapping_add(number * table.size + table.key);
        let found = source.word(at).filter(|&found| found != 0)?;
        let is_it = read_string(source, &layout.string, found).as_deref() == Some(name);
        is_it.then(|| (number, at.wrapping_add(8)))
    })
}

/// The entries of a dictionary.
struct Table {
    /// Address of the first.
    entries: u64,
    /// How many there are.
    count: u64,
    /// Bytes of one, and where its key is; the value follows.
    size: u64,
    key: u64,
}

fn table(source: &impl Source, keys: u64) -> Option<Table> {
    let [_, log2_index, kind, ..] = source.word(keys.wrapping_add(keys::SHAPE))?.to_le_bytes();
    let entries = keys.wrapping_add(keys::INDICES).wrapping_add(1_u64.checked_shl(u32::from(log2_index))?);
    let count = source.word(keys.wrapping_add(keys::ENTRIES))?;
    // Keys that are strings alone come without their hashes.
    let (size, key) = if kind == 0 { (24, 8) } else { (16, 0) };
    Some(Table { entries, count, size, key })
}

/// The same up to 3.10.
fn old_table(source: &impl Source, keys: u64) -> Option<Table> {
    let size = source.word(keys.wrapping_add(at::KEYS_SIZE))?;
    let entries = keys.wrapping_add(at::KEYS_INDICES).wrapping_add(size.checked_mul(at::index_bytes(size))?);
    Some(Table { entries, count: source.word(keys.wrapping_add(at::KEYS_ENTRIES))?, size: 24, key: 8 })
}
