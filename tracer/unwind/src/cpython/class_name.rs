//! The class of a method, for versions whose code objects do not know it (3.8 to 3.10).
//!
//! Where a class in the method resolution order has, under the code's name, a function with exactly this code, that function's own
//! qualified name is the truth. Where none has (decorated methods, methods given to instances), the class of `self` or `cls` is all that
//! is known: `Class?.name`, marked as a guess because the function may be a base's. Everything comes from another process that runs on:
//! what cannot be read gives no class. Leaves out functions whose first argument has another name.

use super::code::read_string;
use super::layout::{ClassLayout, CodeLayout};
use super::memory::Source;
use serde::{Deserialize, Serialize};

/// Offsets in classes, tuples and dictionaries: Include/cpython/object.h, dictobject.h and Objects/dict-common.h, 3.8 to 3.10; those in
/// classes, the sizes of tuples and the place of a dictionary's keys are the same up to 3.15.
pub(super) mod at {
    pub(in super::super) const TYPE_NAME: u64 = 24;
    pub(in super::super) const TYPE_FLAGS: u64 = 168;
    pub(in super::super) const TYPE_DICT: u64 = 264;
    pub(in super::super) const TYPE_MRO: u64 = 344;
    pub(in super::super) const TUPLE_SIZE: u64 = 16;
    pub(in super::super) const TUPLE_ITEMS: u64 = 24;
    pub(in super::super) const DICT_KEYS: u64 = 32;
    pub(in super::super) const KEYS_SIZE: u64 = 8;
    pub(in super::super) const KEYS_ENTRIES: u64 = 32;
    pub(in super::super) const KEYS_INDICES: u64 = 40;
    /// `classmethod` and `staticmethod`: the function; `property`: its getter, then setter and deleter.
    pub(in super::super) const WRAPPED: u64 = 16;
    /// `type.__flags__` of every class that is ready.
    pub(in super::super) const READY: u64 = 1 << 12;

    /// Bytes of a place in a dictionary's index of this size.
    pub(in super::super) const fn index_bytes(size: u64) -> u64 {
        match size {
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        }
    }
}

/// Classes of a resolution order that are looked at, and bytes of a dictionary's entries.
const MAX_CLASSES: u64 = 64;
const MAX_ENTRIES: u64 = 1 << 20;

/// What was found of a method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MethodName {
    /// Its qualified name, by the function that has its code.
    Exact(String),
    /// `Class?.name`, by the class of its first argument.
    Guess(String),
}

/// The name of a method with its class; `None` where the class cannot be read. `class` is that of the first argument, and `name` the code's
/// own.
pub fn find_name(
    source: &impl Source,
    layout: &CodeLayout,
    code: u64,
    class: u64,
    name: &str,
) -> Option<MethodName> {
    let classes = layout.classes.as_ref()?;
    if source.word(class.wrapping_add(at::TYPE_FLAGS))? & at::READY == 0 {
        return None;
    }
    let search =
        Search { source, layout, classes, code, key: source.word(code.wrapping_add(layout.qualname))? };
    if let Some(qualname) = search.qualname(class).filter(|q| q.rsplit('.').next() == Some(name)) {
        return Some(MethodName::Exact(qualname));
    }
    Some(MethodName::Guess(format!("{}?.{name}", type_name(source, class)?)))
}

/// The last part of `tp_name`, where it is a name.
pub(super) fn type_name(source: &impl Source, class: u64) -> Option<String> {
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
        let used = self.source.word(keys.wrapping_add(at::KEYS_ENTRIES))?;
        let entries =
            keys.wrapping_add(at::KEYS_INDICES).wrapping_add(size.checked_mul(at::index_bytes(size))?);
        let bytes = self.source.bytes(entries, used.checked_mul(24)?, MAX_ENTRIES)?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let found = bytes.chunks_exact(24).find(|entry| word(&entry[8..16]) == self.key)?;
        Some(word(&found[16..24])).filter(|&value| value != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{MethodName, at, find_name};
    use crate::cpython::layout::KNOWN;
    use crate::cpython::tests::memory::Words;

    impl Words {
        fn put(&mut self, at: u64, word: u64) {
            self.0.insert(at, word);
        }

        /// A compact ASCII string of up to 3.11.
        fn old_string(&mut self, at: u64, text: &str) {
            self.put(at + 16, text.len() as u64);
            self.put(at + 32, 1 << 2 | 1 << 5 | 1 << 6);
            self.text(at + 48, text);
        }
    }

    const CODE: u64 = 0x1000;
    const KEY: u64 = 0x2000;
    const CLASS: u64 = 0x3000;
    const BASE: u64 = 0x4000;
    const VALUE: u64 = 0x5000;
    const FUNCTION: u64 = 0x6000;
    const QUALNAME: u64 = 0x7000;

    /// `Class(Base)`, whose base has `value` under the code's name.
    fn memory(value: u64, qualname: &str) -> Words {
        let layout = KNOWN[0].code;
        let classes = layout.classes.unwrap();
        let mut words = Words::default();
        words.put(CODE + layout.qualname, KEY);
        words.put(CLASS + at::TYPE_FLAGS, at::READY);
        words.put(CLASS + at::TYPE_NAME, 0x8000);
        words.text(0x8000, "module.Class");
        words.put(CLASS + at::TYPE_MRO, 0x9000);
        words.put(0x9000 + at::TUPLE_SIZE, 2);
        words.put(0x9000 + at::TUPLE_ITEMS, CLASS);
        words.put(0x9000 + at::TUPLE_ITEMS + 8, BASE);
        words.put(CLASS + at::TYPE_DICT, 0xa000);
        words.put(BASE + at::TYPE_DICT, 0xb000);
        words.put(0xa000 + at::DICT_KEYS, 0xc000);
        words.put(0xb000 + at::DICT_KEYS, 0xd000);
        words.put(0xd000 + at::KEYS_SIZE, 8);
        words.put(0xd000 + at::KEYS_ENTRIES, 1);
        words.put(0xd000 + at::KEYS_INDICES + 8 + 8, KEY);
        words.put(0xd000 + at::KEYS_INDICES + 8 + 16, value);
        words.put(VALUE + at::WRAPPED, FUNCTION);
        words.put(FUNCTION + classes.function_code, CODE);
        words.put(FUNCTION + classes.function_qualname, QUALNAME);
        words.old_string(QUALNAME, qualname);
        words
    }

    /// A base's function with this code gives its own name, also behind a `classmethod`; another's name or none leaves the guess.
    #[test]
    fn classes_of_methods() {
        let find = |memory: &Words| find_name(memory, &KNOWN[0].code, CODE, CLASS, "run");
        let exact = Some(MethodName::Exact("Base.run".into()));
        let guess = Some(MethodName::Guess("Class?.run".into()));
        assert_eq!(find(&memory(FUNCTION, "Base.run")), exact);
        assert_eq!(find(&memory(VALUE, "Base.run")), exact);
        assert_eq!(find(&memory(FUNCTION, "Base.wrapped")), guess);
        assert_eq!(find(&memory(0x6100, "Base.run")), guess);
    }

    /// A class that is not one, and names that are none, give nothing; memory that cannot be read neither, and no panic.
    #[test]
    fn nonsense_is_no_class() {
        let mut words = memory(FUNCTION, "Base.run");
        words.put(CLASS + at::TYPE_FLAGS, 0);
        assert_eq!(find_name(&words, &KNOWN[0].code, CODE, CLASS, "run"), None);
        let mut words = memory(0, "");
        words.text(0x8000, "\u{7}");
        assert_eq!(find_name(&words, &KNOWN[0].code, CODE, CLASS, "run"), None);
        let mut words = memory(FUNCTION, "Base.run");
        words.put(0xd000 + at::KEYS_ENTRIES, u64::MAX);
        words.put(0xd000 + at::KEYS_SIZE, u64::MAX);
        assert_eq!(
            find_name(&words, &KNOWN[0].code, CODE, CLASS, "run"),
            Some(MethodName::Guess("Class?.run".into()))
        );
    }
}
