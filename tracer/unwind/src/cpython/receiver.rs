//! On what a method was called, from CPython 3.11 on, whose code objects name the class that defines it: the class of `self` or `cls`.
//!
//! The probes send the class of a frame's first variable. It counts where it inherits from a class with the name that the function's
//! qualified name begins with: `RandomForestClassifier` for `BaseForest.fit`; of a program's own class the first of the same package that it
//! inherits. Functions of one kind tell more by a string in its place:
//! TensorFlow runs the program's own functions under names of its own. Everything comes from another process that runs on: what cannot be
//! read, or makes no sense, is nothing. Leaves out classes in machine code, which have no Python functions.

use super::class_name::{at, type_name};
use super::code::{CodeObject, read_string};
use super::layout::CodeLayout;
use super::memory::Source;
use energy_trace_model::recording::record::CalledOn;
use tracer_ebpf::python_layout::object;

/// Classes of a resolution order, and entries of a class's dictionary, that are looked at.
const MAX_CLASSES: u64 = 64;
const MAX_ENTRIES: u64 = 64;
/// `PyDictKeysObject` from 3.11 on (Include/internal/pycore_dict.h): log2 of the table's size and of the bytes of its index, kind of keys,
/// entries in use, index.
mod keys {
    pub(super) const SHAPE: u64 = 8;
    pub(super) const ENTRIES: u64 = 24;
    pub(super) const INDICES: u64 = 32;
}

/// TensorFlow's way to run a function of the program, and what it puts around its name: `__inference_train_step_1234`.
const TEXT_FUNCTION: (&str, &str) = ("tensorflow/python/eager/execute.py", "quick_execute");
const TEXT_STARTS: [&str; 3] = ["__inference_", "__forward_", "__backward_"];

/// Whether a function may be called on something that tells more than its name.
pub(super) fn may_tell(qualname: &str, file: &str) -> bool {
    let is_method = qualname.split('.').count() == 2 && !qualname.contains('<');
    file.contains("-packages/") && (is_method || is_text_function(qualname, file))
}

fn is_text_function(qualname: &str, file: &str) -> bool {
    qualname == TEXT_FUNCTION.1 && file.ends_with(TEXT_FUNCTION.0)
}

/// What a function was called on, by what the probes sent of its first variable; `None` where that says nothing new.
pub fn called_on(
    source: &impl Source,
    layout: &CodeLayout,
    code: &CodeObject,
    first: u64,
) -> Option<CalledOn> {
    if tells_by_text(code) {
        return text_function(source, layout, first).map(CalledOn::Function);
    }
    let (defines, _) = code.qualname.split_once('.')?;
    let package = package_of(&code.file)?;
    let mut heirs = Vec::new();
    for class in order_of(source, class_of(source, first)?)? {
        let name = type_name(source, class)?;
        if name == defines {
            // A class that only stands beside in the order has no such method.
            let inherits = |heir| order_of(source, heir).is_some_and(|order| order.contains(&class));
            return heirs.into_iter().find_map(|(heir, name)| {
                let module = module_of(source, layout, heir)?;
                let is_own = module.split('.').next() == Some(package);
                (is_own && inherits(heir)).then_some(CalledOn::Class { module, name })
            });
        }
        heirs.push((class, name));
    }
    None
}

/// Whether it is a string that tells on what a function was called: the next call has another one, maybe in the same place.
pub fn tells_by_text(code: &CodeObject) -> bool {
    is_text_function(&code.qualname, &code.file)
}

/// The installed package that a file is of.
fn package_of(file: &str) -> Option<&str> {
    let (_, below) = file.rsplit_once("-packages/")?;
    let first = below.split('/').next()?;
    Some(first.strip_suffix(".py").unwrap_or(first))
}

/// The class that was sent, or that of the string that was.
fn class_of(source: &impl Source, sent: u64) -> Option<u64> {
    let kind = source.word(sent.wrapping_add(object::TYPE))?;
    let flags = source.word(kind.wrapping_add(object::TYPE_FLAGS))?;
    let class = if flags & u64::from(object::IS_CLASS) == 0 { kind } else { sent };
    let is_ready = source.word(class.wrapping_add(object::TYPE_FLAGS))? & at::READY != 0;
    is_ready.then_some(class)
}

/// The resolution order of a class, which begins with the class itself: that shows where a tuple's items are (3.14 put a hash in front of
/// them).
fn order_of(source: &impl Source, class: u64) -> Option<Vec<u64>> {
    let order = source.word(class.wrapping_add(at::TYPE_MRO))?;
    let count = source.word(order.wrapping_add(at::TUPLE_SIZE))?.min(MAX_CLASSES);
    let is_first = |items: &u64| source.word(order.wrapping_add(*items)) == Some(class);
    let items = [at::TUPLE_ITEMS, at::TUPLE_ITEMS + 8].into_iter().find(is_first)?;
    (0..count).map(|number| source.word(order.wrapping_add(items + number * 8))).collect()
}

/// `__module__` of a class, which is among the first entries of its dictionary.
fn module_of(source: &impl Source, layout: &CodeLayout, class: u64) -> Option<String> {
    let dict = source.word(class.wrapping_add(at::TYPE_DICT))?;
    let keys = source.word(dict.wrapping_add(at::DICT_KEYS))?;
    let [_, log2_index, kind, ..] = source.word(keys.wrapping_add(keys::SHAPE))?.to_le_bytes();
    // Keys that are strings alone come without their hashes.
    let (entry, key) = if kind == 0 { (24, 8) } else { (16, 0) };
    let entries = keys.wrapping_add(keys::INDICES).wrapping_add(1_u64.checked_shl(u32::from(log2_index))?);
    let count = source.word(keys.wrapping_add(keys::ENTRIES))?.min(MAX_ENTRIES);
    let value = (0..count).find_map(|number| {
        let at = entries.wrapping_add(number * entry + key);
        let name = source.word(at).filter(|&name| name != 0)?;
        let is_it = read_string(source, &layout.string, name).as_deref() == Some("__module__");
        if is_it { source.word(at.wrapping_add(8)) } else { None }
    });
    let module = read_string(source, &layout.string, value?)?;
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    module.split('.').all(is_part).then_some(module)
}

/// The name of a function of the program, between what TensorFlow puts around it; `None` for operations, and for strings that are gone.
fn text_function(source: &impl Source, layout: &CodeLayout, text: u64) -> Option<String> {
    let text = read_string(source, &layout.string, text)?;
    let name = TEXT_STARTS.iter().find_map(|start| text.strip_prefix(start))?;
    let (name, number) = name.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_number && is_name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{CalledOn, called_on, keys, may_tell};
    use crate::cpython::class_name::at;
    use crate::cpython::code::CodeObject;
    use crate::cpython::layout::{CodeLayout, KNOWN};
    use crate::cpython::tests::memory::Words;
    use tracer_ebpf::python_layout::object;

    const META: u64 = 0x1000;
    const TEXT_TYPE: u64 = 0x2000;
    const CLASS: u64 = 0x3000;
    const BASE: u64 = 0x4000;
    const MINE: u64 = 0xc000;
    const LAYOUT: CodeLayout = KNOWN[6].code;

    impl Words {
        /// A compact ASCII string of 3.12.
        fn string(&mut self, at: u64, text: &str) {
            self.0.extend([(at + 8, TEXT_TYPE), (at + 16, text.len() as u64)]);
            self.0.insert(at + 32, 1 << 2 | 1 << 5 | 1 << 6);
            self.text(at + 40, text);
        }

        fn class(&mut self, at: u64, name: &str) {
            self.0.extend([(at + object::TYPE, META), (at + at::TYPE_FLAGS, at::READY)]);
            self.0.insert(at + at::TYPE_NAME, at + 0x400);
            self.text(at + 0x400, name);
        }
    }

    /// `Forest(Base)` in a module, whose resolution order has its items `before` bytes later than up to 3.13, and whose dictionary has
    /// entries of this kind.
    fn memory(before: u64, kind: u64) -> Words {
        let mut words = Words::default();
        words.0.insert(META + at::TYPE_FLAGS, at::READY | u64::from(object::IS_CLASS));
        words.0.insert(TEXT_TYPE + at::TYPE_FLAGS, at::READY | u64::from(object::IS_TEXT));
        words.class(CLASS, "Forest");
        words.class(BASE, "Base");
        words.0.extend([(CLASS + at::TYPE_MRO, 0x5000), (0x5000 + at::TUPLE_SIZE, 2)]);
        let items = 0x5000 + at::TUPLE_ITEMS + before;
        words.0.extend([(items, CLASS), (items + 8, BASE)]);
        words.0.extend([(CLASS + at::TYPE_DICT, 0x6000), (0x6000 + at::DICT_KEYS, 0x7000)]);
        words.0.extend([(0x7000 + keys::SHAPE, 3 | 3 << 8 | kind << 16), (0x7000 + keys::ENTRIES, 2)]);
        let (size, key) = if kind == 0 { (24, 8) } else { (16, 0) };
        let second = 0x7000 + keys::INDICES + 8 + size + key;
        words.0.extend([(second, 0x8000), (second + 8, 0x9000)]);
        words.string(0x8000, "__module__");
        words.string(0x9000, "pkg._forest");
        words
    }

    /// A function of this name in this file, of which nothing else is known.
    fn code(qualname: &str, file: &str) -> CodeObject {
        let mut code = CodeObject::default();
        (code.qualname, code.file, code.may_tell) = (qualname.into(), file.into(), true);
        code
    }

    fn told(memory: &Words, qualname: &str, first: u64) -> Option<CalledOn> {
        called_on(memory, &LAYOUT, &code(qualname, "/v/site-packages/pkg/_forest.py"), first)
    }

    /// The class of the object with its module, in both layouts of tuples and of dictionaries; what inherits from nobody of that name, and the
    /// method's own class, say nothing.
    #[test]
    fn classes_that_inherit() {
        let forest = CalledOn::Class { module: "pkg._forest".into(), name: "Forest".into() };
        for memory in [memory(0, 1), memory(8, 1), memory(0, 0)] {
            assert_eq!(told(&memory, "Base.fit", CLASS), Some(forest.clone()));
            assert_eq!(told(&memory, "Forest.fit", CLASS), None);
            assert_eq!(told(&memory, "Other.fit", CLASS), None);
            assert_eq!(told(&memory, "Base.fit", BASE), None);
        }
    }

    /// Of a class of the program's it is the first class of the package that has the method itself, not one that only stands beside.
    #[test]
    fn classes_that_stand_beside() {
        let mut memory = memory(0, 1);
        memory.class(MINE, "Mine");
        memory.0.extend([(MINE + at::TYPE_MRO, 0xb000), (0xb000 + at::TUPLE_SIZE, 3)]);
        let places = (0..3).map(|number| 0xb000 + at::TUPLE_ITEMS + number * 8);
        memory.0.extend(places.zip([MINE, CLASS, BASE]));
        let forest = CalledOn::Class { module: "pkg._forest".into(), name: "Forest".into() };
        assert_eq!(told(&memory, "Base.fit", MINE), Some(forest));
        memory.0.insert(0x5000 + at::TUPLE_SIZE, 1);
        assert_eq!(told(&memory, "Base.fit", MINE), None);
    }

    /// Memory that makes no sense gives nothing and no panic.
    #[test]
    fn nonsense_says_nothing() {
        assert_eq!(told(&Words::default(), "Base.fit", CLASS), None);
        for (at, word) in
            [(0x7000 + keys::SHAPE, u64::MAX), (CLASS + at::TYPE_MRO, u64::MAX), (0x9000 + 16, 1 << 40)]
        {
            let mut memory = memory(0, 1);
            memory.0.insert(at, word);
            assert_eq!(told(&memory, "Base.fit", CLASS), None, "{at:#x}");
        }
    }

    /// TensorFlow's names of functions are taken apart; operations and what is no such name are left alone.
    #[test]
    fn functions_by_their_text() {
        let of = |text: &str| {
            let mut memory = memory(0, 1);
            memory.string(0xa000, text);
            let file = "/v/site-packages/tensorflow/python/eager/execute.py";
            called_on(&memory, &LAYOUT, &code("quick_execute", file), 0xa000)
        };
        assert_eq!(of("__inference_train_step_1234"), Some(CalledOn::Function("train_step".into())));
        for other in ["MatMul", "__inference_", "__inference_12", "__inference_x_", "__inference_a b_3", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// Methods of packages, and nothing else.
    #[test]
    fn which_functions() {
        let may = |qualname| may_tell(qualname, "/v/site-packages/pkg/a.py");
        assert!(
            may("Base.fit") && !may("fit") && !may("f.<locals>.g") && !may("A.<lambda>") && !may("A.B.f")
        );
        assert!(!may_tell("Base.fit", "/home/me/train.py"));
    }
}
