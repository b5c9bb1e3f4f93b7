//! The class of a method, for versions whose code objects do not know it (3.8 to 3.10).
//!
//! Where a class in the method resolution order has, under the code's name, a function with exactly this code, that function's own
//! qualified name is the truth. Where none has (decorated methods, methods given to instances), the class of `self` or `cls` is all that
//! is known: `Class?.name`, marked as a guess because the function may be a base's. Everything comes from another process that runs on:
//! what cannot be read gives no class. Leaves out functions whose first argument has another name.

use super::code::read_string;
use super::layout::{ClassLayout, CodeLayout};
use super::memory::Source;

/// Offsets in classes, tuples and dictionaries: Include/cpython/object.h, dictobject.h and Objects/dict-common.h, 3.8 to 3.10.
mod at {
    pub(super) const TYPE_NAME: u64 = 24;
    pub(super) const TYPE_FLAGS: u64 = 168;
    pub(super) const TYPE_DICT: u64 = 264;
    pub(super) const TYPE_MRO: u64 = 344;
    pub(super) const TUPLE_SIZE: u64 = 16;
    pub(super) const TUPLE_ITEMS: u64 = 24;
    pub(super) const DICT_KEYS: u64 = 32;
    pub(super) const KEYS_SIZE: u64 = 8;
    pub(super) const KEYS_ENTRIES: u64 = 32;
    pub(super) const KEYS_INDICES: u64 = 40;
    /// `classmethod` and `staticmethod`: the function; `property`: its getter, then setter and deleter.
    pub(super) const WRAPPED: u64 = 16;
    /// `type.__flags__` of every class that is ready.
    pub(super) const READY: u64 = 1 << 12;
}

/// Classes of a resolution order that are looked at, and bytes of a dictionary's entries.
const MAX_CLASSES: u64 = 64;
const MAX_ENTRIES: u64 = 1 << 20;

/// The name of a method with its class, `Class.name` or `Class?.name`; `None` where the class cannot be read. `class` is that of the first
/// argument, and `name` the code's own.
pub fn find_name(source: &impl Source, layout: &CodeLayout, code: u64, class: u64, name: &str) -> Option<String> {
    let classes = layout.classes.as_ref()?;
    if source.word(class.wrapping_add(at::TYPE_FLAGS))? & at::READY == 0 {
        return None;
    }
    let search = Search { source, layout, classes, code, key: source.word(code.wrapping_add(layout.qualname))? };
    if let Some(qualname) = search.qualname(class).filter(|q| q.rsplit('.').next() == Some(name)) {
        return Some(qualname);
    }
    Some(format!("{}?.{name}", type_name(source, class)?))
}

/// The last part of `tp_name`, where it is a name.
fn type_name(source: &impl Source, class: u64) -> Option<String> {
    let at = source.word(class.wrapping_add(at::TYPE_NAME))?;
    let mut text = Vec::new();
    for part in 0..8 {
        let word = source.word(at.wrapping_add(part * 8))?.to_le_bytes();
        let end = word.iter().position(|&b| b == 0);
        text.extend_from_slice(&word[..end.unwrap_or(8)]);
        if end.is_some() {
            break;
        }
    }
    let text = String::from_utf8(text).ok()?;
    let last = text.rsplit('.').next()?;
    let is_name = !last.is_empty() && last.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then(|| last.to_owned())
}

/// The search for the function that has a code object.
struct Search<'a, S> {
    source: &'a S,
    layout: &'a CodeLayout,
    classes: &'a ClassLayout,
    code: u64,
    /// The code's name: the key under which classes hold the function is the same string, both being interned.
    key: u64,
}

impl<S: Source> Search<'_, S> {
    fn qualname(&self, class: u64) -> Option<String> {
        let order = self.source.word(class.wrapping_add(at::TYPE_MRO))?;
        let count = self.source.word(order.wrapping_add(at::TUPLE_SIZE))?.min(MAX_CLASSES);
        (0..count).find_map(|i| self.of_class(self.source.word(order.wrapping_add(at::TUPLE_ITEMS + i * 8))?))
    }

    fn of_class(&self, class: u64) -> Option<String> {
        let value = self.entry(self.source.word(class.wrapping_add(at::TYPE_DICT))?)?;
        let wrapped = (0..3).map(|i| self.source.word(value.wrapping_add(at::WRAPPED + i * 8)));
        let mut functions = std::iter::once(Some(value)).chain(wrapped).flatten();
        let is_it = |function: &u64| {
            self.source.word(function.wrapping_add(self.classes.function_code)) == Some(self.code)
        };
        let function = functions.find(is_it)?;
        let name = self.source.word(function.wrapping_add(self.classes.function_qualname))?;
        read_string(self.source, &self.layout.string, name)
    }

    /// The value of the key in a dictionary with keys and values in one table, as classes have.
    fn entry(&self, dict: u64) -> Option<u64> {
        let keys = self.source.word(dict.wrapping_add(at::DICT_KEYS))?;
        let size = self.source.word(keys.wrapping_add(at::KEYS_SIZE))?;
        let index_bytes = match size {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        let used = self.source.word(keys.wrapping_add(at::KEYS_ENTRIES))?;
        let entries = keys.wrapping_add(at::KEYS_INDICES).wrapping_add(size.checked_mul(index_bytes)?);
        let bytes = self.source.bytes(entries, used.checked_mul(24)?, MAX_ENTRIES)?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let found = bytes.chunks_exact(24).find(|entry| word(&entry[8..16]) == self.key)?;
        Some(word(&found[16..24])).filter(|&value| value != 0)
    }
}
