//! On what a method was called, from CPython 3.11 on, whose code objects name the class that defines it: the class of `self` or `cls`.
//!
//! The probes send the class of a frame's first variable. It counts where it inherits from a class with the name that the function's
//! qualified name begins with: `RandomForestClassifier` for `BaseForest.fit`; of a program's own class the first of the same package that it
//! inherits. Of a few methods they send the object itself, which has a name for what it runs: a function of the program, a model. Everything
//! comes from another process that runs on: what cannot be read, or makes no sense, is nothing. Leaves out classes in machine code, which have
//! no Python functions.

use super::attributes::{class_attribute, place_of};
use super::class_name::{at, type_name};
use super::code::{CodeObject, read_string};
use super::layout::CodeLayout;
use super::memory::Source;
use energy_trace_model::recording::record::CalledOn;
use serde::{Deserialize, Serialize};
use tracer_ebpf::python_layout::object;

/// Classes of a resolution order that are looked at.
const MAX_CLASSES: u64 = 64;
/// Flags of the classes of strings and of bytes (`Py_TPFLAGS_UNICODE_SUBCLASS`, `Py_TPFLAGS_BYTES_SUBCLASS`).
const IS_TEXT: u64 = 1 << 28;
const IS_BYTES: u64 = 1 << 27;
/// Bytes of a name that is believed, and of the text that it is taken from.
const LONGEST: usize = 255;
const LONGEST_TEXT: u64 = 4096;

/// A method whose object has a name for what it runs.
struct Runner {
    file: &'static str,
    qualname: &'static str,
    attribute: &'static str,
    /// The name that users know.
    known_as: fn(&str) -> Option<&str>,
}

/// TensorFlow's functions (from 2.13 on, and up to 2.12), and ONNX Runtime's sessions.
const RUNNERS: [Runner; 3] = [
    Runner {
        file: "tensorflow/python/eager/polymorphic_function/atomic_function.py",
        qualname: "AtomicFunction.call_flat",
        attribute: "_name",
        known_as: tensorflow_function,
    },
    Runner {
        file: "tensorflow/python/eager/polymorphic_function/monomorphic_function.py",
        qualname: "_EagerDefinedFunction.call",
        attribute: "_name",
        known_as: tensorflow_function,
    },
    Runner {
        file: "onnxruntime/capi/onnxruntime_inference_collection.py",
        qualname: "Session.run",
        attribute: "_model_path",
        known_as: file_name,
    },
];
/// What TensorFlow puts around a function's name: `__inference_train_step_1234`.
const TEXT_STARTS: [&str; 3] = ["__inference_", "__forward_", "__backward_"];

/// Whether a function may be called on something that tells more than its name.
pub(super) fn may_tell(qualname: &str, file: &str) -> bool {
    let is_method = qualname.split('.').count() == 2 && !qualname.contains('<');
    file.contains("-packages/") && is_method
}

/// Whether it is called on something that has a name for what it runs.
pub(super) fn has_name(qualname: &str, file: &str) -> bool {
    may_tell(qualname, file) && runner(qualname, file).is_some()
}

fn runner(qualname: &str, file: &str) -> Option<&'static Runner> {
    RUNNERS.iter().find(|runner| runner.qualname == qualname && file.ends_with(runner.file))
}

/// The name that an object has for what it runs, and where it keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// What it runs.
    pub on: CalledOn,
    /// Address of the pointer to it.
    pub place: u64,
}

impl Named {
    /// By the object that a function was called on; `None` where it has no such name, or is gone.
    pub fn read(source: &impl Source, layout: &CodeLayout, code: &CodeObject, object: u64) -> Option<Self> {
        let runner = runner(&code.qualname, &code.file)?;
        let place = place_of(source, layout, object, runner.attribute)?;
        let on = name_at(source, layout, runner, place)?;
        Some(Self { on, place })
    }

    /// Whether it still has that name: an object may go, and another one come in its place.
    pub fn is_still(&self, source: &impl Source, layout: &CodeLayout, code: &CodeObject) -> bool {
        let runner = runner(&code.qualname, &code.file);
        runner.and_then(|runner| name_at(source, layout, runner, self.place)).as_ref() == Some(&self.on)
    }
}

fn name_at(source: &impl Source, layout: &CodeLayout, runner: &Runner, place: u64) -> Option<CalledOn> {
    let text = read_text(source, layout, source.word(place)?)?;
    let name = (runner.known_as)(&text).filter(|name| name.len() <= LONGEST)?;
    Some(CalledOn::Function(name.to_owned()))
}

/// A string, or bytes that are one.
fn read_text(source: &impl Source, layout: &CodeLayout, address: u64) -> Option<String> {
    let class = source.word(address.wrapping_add(object::TYPE))?;
    match source.word(class.wrapping_add(at::TYPE_FLAGS))? & (IS_TEXT | IS_BYTES) {
        IS_TEXT => read_string(source, &layout.string, address),
        IS_BYTES => {
            let length = source.word(address.wrapping_add(layout.bytes_size))?;
            let data = address.wrapping_add(layout.bytes_data);
            String::from_utf8(source.bytes(data, length, LONGEST_TEXT)?).ok()
        }
        _ => None,
    }
}

/// What a function was called on, by the class that the probes sent of its first variable; `None` where that says nothing new.
pub fn called_on(
    source: &impl Source,
    layout: &CodeLayout,
    code: &CodeObject,
    first: u64,
) -> Option<CalledOn> {
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

/// The installed package that a file is of.
fn package_of(file: &str) -> Option<&str> {
    let (_, below) = file.rsplit_once("-packages/")?;
    let first = below.split('/').next()?;
    Some(first.strip_suffix(".py").unwrap_or(first))
}

/// The class that was sent, or that of the object that was.
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
    let value = class_attribute(source, layout, class, "__module__")?;
    let module = read_string(source, &layout.string, value)?;
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    module.split('.').all(is_part).then_some(module)
}

/// The name of a function of the program, between what TensorFlow puts around it.
fn tensorflow_function(text: &str) -> Option<&str> {
    let name = TEXT_STARTS.iter().find_map(|start| text.strip_prefix(start))?;
    let (name, number) = name.rsplit_once('_')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_number && is_name).then_some(name)
}

/// The last part of a path.
fn file_name(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    (!name.is_empty() && !name.chars().any(char::is_control)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{CalledOn, IS_BYTES, IS_TEXT, Named, called_on, has_name, may_tell};
    use crate::cpython::attributes::{Attributes, keys};
    use crate::cpython::class_name::at;
    use crate::cpython::code::CodeObject;
    use crate::cpython::layout::{CodeLayout, KNOWN};
    use crate::cpython::tests::memory::Words;
    use tracer_ebpf::python_layout::object;

    const META: u64 = 0x1000;
    const TEXT_TYPE: u64 = 0x2000;
    const BYTES_TYPE: u64 = 0x2800;
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
        words.0.insert(TEXT_TYPE + at::TYPE_FLAGS, at::READY | IS_TEXT);
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

    const OBJECT: u64 = 0xf000;
    const NAME: u64 = 0xa000;
    const ATOMIC: (&str, &str) = (
        "AtomicFunction.call_flat",
        "/v/site-packages/tensorflow/python/eager/polymorphic_function/atomic_function.py",
    );
    const SESSION: (&str, &str) =
        ("Session.run", "/v/site-packages/onnxruntime/capi/onnxruntime_inference_collection.py");

    fn named(memory: &Words, layout: &CodeLayout, (qualname, file): (&str, &str)) -> Option<Named> {
        Named::read(memory, layout, &code(qualname, file), OBJECT)
    }

    /// An object of a class that has one key in its own dictionary, or in that of its objects' names: this one.
    fn object_with(key: &str) -> Words {
        let mut memory = memory(0, 1);
        memory.class(0x10000, "Runner");
        memory.0.insert(OBJECT + object::TYPE, 0x10000);
        memory.0.extend([(0x7100 + keys::SHAPE, 3 | 3 << 8 | 1 << 16), (0x7100 + keys::ENTRIES, 2)]);
        memory.0.extend([(0x7100 + keys::INDICES + 24, 0x8100), (0x7100 + keys::INDICES + 32, 0xd000)]);
        memory.string(0x8100, key);
        memory.string(NAME, "");
        memory
    }

    /// The same where the class has a slot for the name, which is bytes.
    fn object_with_slot(name: &str) -> Words {
        let mut memory = object_with("_name");
        memory.0.extend([(0x10000 + at::TYPE_DICT, 0x6100), (0x6100 + at::DICT_KEYS, 0x7100)]);
        memory.class(0xe000, "member_descriptor");
        memory.0.extend([(0xd000 + object::TYPE, 0xe000), (0xd000 + 40, 0xd100), (0xd100 + 16, 24)]);
        memory.0.extend([
            (OBJECT + 24, NAME),
            (NAME + object::TYPE, BYTES_TYPE),
            (NAME + 16, name.len() as u64),
        ]);
        memory.0.insert(BYTES_TYPE + at::TYPE_FLAGS, at::READY | IS_BYTES);
        memory.text(NAME + 32, name);
        memory
    }

    /// TensorFlow's names of functions are taken apart; operations and what is no such name are left alone.
    #[test]
    fn functions_by_their_object() {
        let of = |text: &str| named(&object_with_slot(text), &LAYOUT, ATOMIC).map(|named| named.on);
        assert_eq!(of("__inference_train_step_1234"), Some(CalledOn::Function("train_step".into())));
        for other in ["MatMul", "__inference_", "__inference_12", "__inference_x_", "__inference_a b_3", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// Another object in the place of one that is gone is not taken for it.
    #[test]
    fn an_object_in_anothers_place() {
        let first = named(&object_with_slot("__inference_train_step_12"), &LAYOUT, ATOMIC).unwrap();
        let is_still =
            |text: &str| first.is_still(&object_with_slot(text), &LAYOUT, &code(ATOMIC.0, ATOMIC.1));
        assert!(is_still("__inference_train_step_12") && !is_still("__inference_eval_step_12"));
        assert!(!first.is_still(&Words::default(), &LAYOUT, &code(ATOMIC.0, ATOMIC.1)));
    }

    /// A model has its file's name, which is among the session's own attributes: in front of it, behind it, or in a dictionary with its own
    /// keys or its class's, as the version has it.
    #[test]
    fn models_by_their_session() {
        let on = Some(CalledOn::Function("resnet.onnx".into()));
        let session = || {
            let mut memory = object_with("_model_path");
            memory.string(NAME, "/models/resnet.onnx");
            memory
        };
        let of = |memory: &Words, attributes| {
            named(memory, &CodeLayout { attributes, ..LAYOUT }, SESSION).map(|named| named.on)
        };
        let managed = (0x10000 + at::TYPE_FLAGS, at::READY | 1 << 4);
        let inline = (0x10000 + at::TYPE_FLAGS, at::READY | 1 << 4 | 1 << 2);
        // Values by the class's names: the second one.
        let cases = [
            (Attributes::Apart, managed, 872, vec![(OBJECT - 32, 0x11000), (0x11008, NAME)]),
            (Attributes::Tagged, managed, 880, vec![(OBJECT - 24, 0x10fff), (0x11008, NAME)]),
            (
                Attributes::Inline,
                inline,
                880,
                vec![(0x10000 + 32, 16), (OBJECT + 16, 1 << 24), (OBJECT + 32, NAME)],
            ),
        ];
        for (attributes, flags, class_keys, places) in cases {
            let mut memory = session();
            memory.0.extend(places.into_iter().chain([flags, (0x10000 + class_keys, 0x7100)]));
            assert_eq!(of(&memory, attributes), on, "{attributes:?}");
            assert_eq!(of(&memory, Attributes::Unknown), None);
            memory.string(0x8100, "_model_bytes");
            assert_eq!(of(&memory, attributes), None, "{attributes:?}, no such attribute");
        }
        for (attributes, flags, header) in [
            (Attributes::Apart, managed, 0),
            (Attributes::Tagged, managed, 0),
            (Attributes::Inline, inline, 8),
        ] {
            let mut memory = session();
            memory.0.extend([flags, (OBJECT - 24, 0x12000), (0x12000 + at::DICT_KEYS, 0x7100)]);
            memory.0.extend([(0x10000 + 32, 16), (0x7100 + keys::INDICES + 32, NAME)]);
            assert_eq!(of(&memory, attributes), on, "{attributes:?}, its own keys");
            memory.0.extend([(0x12000 + 40, 0x13000), (0x13000 + header + 8, NAME)]);
            memory.0.insert(0x7100 + keys::INDICES + 32, 0);
            assert_eq!(of(&memory, attributes), on, "{attributes:?}, its class's keys");
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
        assert!(has_name(ATOMIC.0, ATOMIC.1) && !has_name("Base.fit", ATOMIC.1));
    }
}
