//! What the namespace that a function runs in says of its module: `__name__`, `__package__`, `__file__`.
//!
//! Everything comes from another process that runs on: what is no dictionary or no name is nothing. Leaves out what a module is called to
//! users (`module_name`).

use super::attributes::entry;
use super::class_name::at;
use super::code::read_string;
use super::layout::{CodeLayout, ObjectHeader};
use super::memory::Source;
use super::module_name::{OwnName, may_be_elsewhere, source_of};

/// Flags of the classes of dictionaries and of strings (`Py_TPFLAGS_DICT_SUBCLASS`, `Py_TPFLAGS_UNICODE_SUBCLASS`).
const IS_DICT: u64 = 1 << 29;
const IS_TEXT: u64 = 1 << 28;
/// Bytes of a module's name, or of its file's, that are believed.
const LONGEST: usize = 4096;

/// What these globals say of their module, of which a function has this file; `None` where they have no `__name__`.
pub(super) fn own_name(
    source: &impl Source,
    layout: &CodeLayout,
    globals: u64,
    file: &str,
) -> Option<OwnName> {
    let globals = Globals { source, layout, address: globals };
    let name = globals.text("__name__")?;
    let package = if OwnName::is_main(&name) { globals.text("__package__") } else { None };
    let lies = || source_of(&globals.text("__file__")?, &name);
    let source = if may_be_elsewhere(file, &name) { lies() } else { None };
    let source = source.filter(|source| source != file);
    Some(OwnName { name, package, source })
}

struct Globals<'a, S> {
    source: &'a S,
    layout: &'a CodeLayout,
    address: u64,
}

impl<S: Source> Globals<'_, S> {
    /// What is under a name, where that is the name of a module.
    fn text(&self, name: &str) -> Option<String> {
        let text = read_string(self.source, &self.layout.string, self.value(name)?)?;
        let is_name = !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control);
        is_name.then_some(text)
    }

    /// The string under a name.
    fn value(&self, name: &str) -> Option<u64> {
        let dict = self.after_header();
        let word = |at: u64| self.source.word(self.address.wrapping_add(at));
        let (keys, values) = (word(dict + 16)?, word(dict + 24)?);
        if self.address == 0 || values != 0 || !self.is(self.address, IS_DICT) {
            return None;
        }
        let (_, place) = entry(self.source, self.layout, keys, name)?;
        self.source.word(place).filter(|&value| self.is(value, IS_TEXT))
    }

    /// Bytes in front of an object's own fields (Include/object.h).
    fn after_header(&self) -> u64 {
        if self.layout.header == ObjectHeader::Owned { 32 } else { 16 }
    }

    /// Whether the class of an object has a flag.
    fn is(&self, address: u64, flag: u64) -> bool {
        let header = self.after_header();
        let class = self.source.word(address.wrapping_add(header - 8)).unwrap_or(0);
        // A class begins with a header of its own, and its flags come later by as much as that is longer.
        let flags = self.source.word(class.wrapping_add(at::TYPE_FLAGS + header - 16)).unwrap_or(0);
        flags & (flag | at::READY) == flag | at::READY
    }
}

#[cfg(test)]
mod tests {
    use super::{IS_DICT, IS_TEXT, own_name};
    use crate::cpython::class_name::at;
    use crate::cpython::layout::{CodeLayout, KNOWN, ObjectHeader};
    use crate::cpython::module_name::OwnName;
    use crate::cpython::tests::memory::Words;

    const GLOBALS: u64 = 0x1000;
    const KEYS: u64 = 0x2000;

    /// Globals with these names, in a version whose dictionaries begin as `layout` says: `entries` bytes from the keys to the first entry.
    fn memory(layout: &CodeLayout, names: &[(&str, &str)]) -> Words {
        let header = if layout.header == ObjectHeader::Owned { 32 } else { 16 };
        let mut words = Words::default();
        for (class, flag) in [(0x10_0000, IS_DICT), (0x11_0000, IS_TEXT)] {
            words.0.insert(class + at::TYPE_FLAGS + header - 16, flag | at::READY);
        }
        words.0.extend([(GLOBALS + header - 8, 0x10_0000), (GLOBALS + header + 16, KEYS)]);
        words.0.insert(GLOBALS + header + 24, 0);
        let count = names.len() as u64;
        let (entries, size, key) = if layout.classes.is_some() {
            words.0.extend([(KEYS + at::KEYS_SIZE, 8), (KEYS + at::KEYS_ENTRIES, count)]);
            (KEYS + at::KEYS_INDICES + 8, 24, 8)
        } else {
            words.0.extend([(KEYS + 8, 3 | 3 << 8 | 1 << 16), (KEYS + 24, count)]);
            (KEYS + 32 + 8, 16, 0)
        };
        let texts = names.iter().flat_map(|&(name, value)| [name, value]);
        for (number, text) in (0..).zip(texts) {
            let at = 0x20_0000 + number * 0x1000;
            words.0.insert(entries + number / 2 * size + key + number % 2 * 8, at);
            words.0.insert(at + header - 8, 0x11_0000);
            words.0.insert(at + layout.string.length, text.len() as u64);
            words.0.insert(at + layout.string.state, (1 | 1 << 3 | 1 << 4) << layout.string.kind_bit);
            words.text(at + layout.string.ascii_data, text);
        }
        words
    }

    /// The name is found in dictionaries of every version, behind others, and with its package where it is the program.
    #[test]
    fn names_of_every_version() {
        let free_threaded = CodeLayout { header: ObjectHeader::Owned, ..KNOWN[6].code };
        for layout in KNOWN.iter().map(|known| known.code).chain([free_threaded]) {
            let of = |names: &[(&str, &str)]| own_name(&memory(&layout, names), &layout, GLOBALS, "/b/c.py");
            let known = |name: &str, package: Option<&str>| {
                Some(OwnName { name: name.into(), package: package.map(Into::into), source: None })
            };
            let moved = of(&[("__name__", "a.c"), ("__file__", "/x/a/c.pyc")]);
            assert_eq!(moved.and_then(|own| own.source).as_deref(), Some("/x/a/c.py"));
            let built = of(&[("__name__", "b.c"), ("__file__", "/x/b/c.pyc")]);
            assert_eq!(built.and_then(|own| own.source).as_deref(), Some("/x/b/c.py"));
            assert_eq!(of(&[("__name__", "b.c"), ("__file__", "/b/c.py")]), known("b.c", None));
            assert_eq!(of(&[("x", "y"), ("__name__", "a.b"), ("__package__", "a")]), known("a.b", None));
            let main = [("__name__", "__main__"), ("__package__", "a")];
            assert_eq!(of(&main), known("__main__", Some("a")));
            assert_eq!(of(&main[..1]), known("__main__", None));
            assert_eq!(of(&[("x", "y")]), None);
            assert_eq!(of(&[("__name__", "a\x1b[2J")]), None);
        }
    }

    /// What is no dictionary, or has gone, says nothing; nor does a name that is no string.
    #[test]
    fn nonsense_says_nothing() {
        let layout = KNOWN[6].code;
        let names = [("__name__", "a")];
        assert_eq!(own_name(&memory(&layout, &names), &layout, 0, ""), None);
        assert_eq!(own_name(&Words::default(), &layout, GLOBALS, ""), None);
        for (at, word) in
            [(GLOBALS + 8, 0x11_0000), (GLOBALS + 40, 1), (0x20_1008, 0x10_0000), (KEYS + 8, u64::MAX)]
        {
            let mut memory = memory(&layout, &names);
            memory.0.insert(at, word);
            assert_eq!(own_name(&memory, &layout, GLOBALS, ""), None, "{at:#x}");
        }
    }
}
