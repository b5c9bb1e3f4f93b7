//! Functions of C extensions by their symbols: NumPy's methods of arrays, and whatever Cython compiled.
//!
//! `array_astype` in NumPy's core is `numpy.ndarray.astype`; `__pyx_pw_5numpy_6random_10_generator_9Generator_21integers` in
//! `numpy/random/_generator….so` is `numpy.random._generator.Generator.integers`. A library that was stripped has neither. Leaves out
//! PyTorch's (`builtins.rs`), and which frame of a stack is a call (`path.rs`).

use super::owner::{below_folder, package_of};
use energy_trace_model::recording::PublicNames;
use energy_trace_model::recording::record::Frame;

/// The library with NumPy's arrays.
const NUMPY_CORE: &str = "/_multiarray_umath.";

/// Methods of arrays whose C function is `array_` and their name (NumPy 2.4, `numpy/_core/src/multiarray/methods.c`).
const METHODS: [&str; 47] = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "astype",
    "byteswap",
    "choose",
    "clip",
    "compress",
    "conjugate",
    "copy",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "dump",
    "dumps",
    "fill",
    "flatten",
    "getfield",
    "item",
    "max",
    "mean",
    "min",
    "nonzero",
    "partition",
    "prod",
    "put",
    "ravel",
    "repeat",
    "reshape",
    "resize",
    "round",
    "searchsorted",
    "setfield",
    "sort",
    "squeeze",
    "sum",
    "swapaxes",
    "take",
    "tobytes",
    "tofile",
    "tolist",
    "trace",
    "view",
];

/// Functions of `numpy` itself that are made so (the same, `multiarraymodule.c`).
const FUNCTIONS: [&str; 11] = [
    "arange",
    "array",
    "asarray",
    "concatenate",
    "einsum",
    "empty",
    "frombuffer",
    "fromiter",
    "lexsort",
    "where",
    "zeros",
];

/// What has another name in Python: functions, and operators by the method that the language gives them.
const RENAMED: [(&str, &str); 16] = [
    ("stddev", "ndarray.std"),
    ("variance", "ndarray.var"),
    ("innerproduct", "inner"),
    ("matrixproduct", "dot"),
    ("transpose", "ndarray.transpose"),
    ("subscript", "ndarray.__getitem__"),
    ("assign_subscript", "ndarray.__setitem__"),
    ("add", "ndarray.__add__"),
    ("subtract", "ndarray.__sub__"),
    ("multiply", "ndarray.__mul__"),
    ("true_divide", "ndarray.__truediv__"),
    ("floor_divide", "ndarray.__floordiv__"),
    ("remainder", "ndarray.__mod__"),
    ("power", "ndarray.__pow__"),
    ("negative", "ndarray.__neg__"),
    ("matrix_multiply", "ndarray.__matmul__"),
];

/// Types of elements with which the loops of NumPy's universal functions begin (`numpy/_core/src/umath/loops.h.src`): `DOUBLE_exp_AVX512F`.
const ELEMENTS: [&str; 20] = [
    "BOOL",
    "BYTE",
    "UBYTE",
    "SHORT",
    "USHORT",
    "INT",
    "UINT",
    "LONG",
    "ULONG",
    "LONGLONG",
    "ULONGLONG",
    "HALF",
    "FLOAT",
    "DOUBLE",
    "LONGDOUBLE",
    "CFLOAT",
    "CDOUBLE",
    "CLONGDOUBLE",
    "DATETIME",
    "TIMEDELTA",
];

/// Universal functions whose loops have their name.
const UNIVERSAL: [&str; 62] = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "conjugate",
    "cos",
    "cosh",
    "divide",
    "divmod",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "reciprocal",
    "remainder",
    "rint",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tanh",
];

/// The universal function that a loop is of: its symbol may end with the processor's features, `_X86_V3`.
fn universal(symbol: &str) -> Option<&'static str> {
    let (elements, rest) = symbol.split_once('_')?;
    let is_whole = |name: &&&str| {
        let end = rest.strip_prefix(**name);
        end.is_some_and(|end| {
            end.is_empty() || end.strip_prefix('_').is_some_and(|end| end.starts_with(char::is_uppercase))
        })
    };
    UNIVERSAL.iter().find(is_whole).copied().filter(|_| ELEMENTS.contains(&elements))
}

/// The public name of one of NumPy's functions in C.
pub(super) fn numpy_name(frame: &Frame, names: &PublicNames) -> Option<String> {
    let is_core = package_of(&frame.module, names) == Some("numpy") && frame.module.contains(NUMPY_CORE);
    if let Some(name) = universal(&frame.name).filter(|_| is_core) {
        return Some(format!("numpy.{name}"));
    }
    let name = frame.name.strip_prefix("array_").filter(|_| is_core)?;
    let renamed = RENAMED.iter().find(|(symbol, _)| *symbol == name).map(|(_, public)| *public);
    match renamed {
        Some(public) => Some(format!("numpy.{public}")),
        None if METHODS.contains(&name) => Some(format!("numpy.ndarray.{name}")),
        None => FUNCTIONS.contains(&name).then(|| format!("numpy.{name}")),
    }
}

/// The name that a function had before Cython compiled it (Cython 3, `Naming.py`: `pywrap_prefix`; `Symtab.py`: `mangle`); `None` where
/// something in it is private.
pub(super) fn cython_name(frame: &Frame, names: &PublicNames) -> Option<String> {
    let mut rest = frame.name.strip_prefix("__pyx_pw_")?;
    let mut parts: Vec<&str> = module_of(&frame.module, names)?;
    for part in &parts {
        rest = segment(rest).filter(|(found, _)| found == part)?.1;
    }
    // Classes begin with a capital letter by custom; a function whose number is the length of its name's beginning is not taken for one.
    while let Some((class, behind)) = segment(rest).filter(|(class, _)| class.starts_with(char::is_uppercase))
    {
        parts.push(class);
        rest = behind;
    }
    let function = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_name = function.len() < rest.len() && function.starts_with(char::is_alphabetic);
    parts.push(function);
    is_name.then(|| parts.join("."))
}

/// A length, as many characters, and `_`: those, and what is behind them.
fn segment(text: &str) -> Option<(&str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (length, rest) = text.split_at_checked(digits)?;
    let (name, behind) = rest.split_at_checked(length.parse().ok()?)?;
    Some((name, behind.strip_prefix('_')?))
}

/// The parts of an extension module's name by its file: `numpy`, `random`, `_generator`.
fn module_of<'a>(library: &'a str, names: &PublicNames) -> Option<Vec<&'a str>> {
    let below = below_folder(library, names)?;
    let (folder, file) = below.rsplit_once('/').unwrap_or(("", below));
    let parts = folder.split('/').filter(|part| !part.is_empty());
    Some(parts.chain(file.split('.').next()).collect())
}

#[cfg(test)]
mod tests {
    use super::{cython_name, numpy_name};
    use energy_trace_model::recording::PublicNames;
    use energy_trace_model::recording::record::{Frame, FrameKind};

    fn none() -> PublicNames {
        PublicNames::default()
    }

    fn frame(module: &str, name: &str) -> Frame {
        let (name, module) = (name.to_owned(), format!("/v/lib/python3.12/site-packages/{module}"));
        Frame {
            kind: FrameKind::Native,
            name,
            module,
            file: String::new(),
            line: 0,
            first_line: 0,
            address: 0,
        }
    }

    /// NumPy's methods, functions and operators have the names that users call, and only those in its own library.
    #[test]
    fn numpys_own() {
        let name = |symbol| {
            numpy_name(
                &frame("numpy/_core/_multiarray_umath.cpython-312-x86_64-linux-gnu.so", symbol),
                &none(),
            )
        };
        assert_eq!(name("array_astype").as_deref(), Some("numpy.ndarray.astype"));
        assert_eq!(name("array_concatenate").as_deref(), Some("numpy.concatenate"));
        assert_eq!(name("DOUBLE_matmul").as_deref(), Some("numpy.matmul"));
        assert_eq!(name("DOUBLE_exp_X86_V3").as_deref(), Some("numpy.exp"));
        assert_eq!(name("LONG_floor_divide_AVX2").as_deref(), Some("numpy.floor_divide"));
        for other in ["DOUBLE_exp_helper", "OTHER_exp", "DOUBLE_", "exp"] {
            assert_eq!(name(other), None, "{other}");
        }
        assert_eq!(name("array_variance").as_deref(), Some("numpy.ndarray.var"));
        assert_eq!(name("array_subscript").as_deref(), Some("numpy.ndarray.__getitem__"));
        for none in ["array_dealloc", "array_finalizearray", "DOUBLE_nothing", "array_richcompare"] {
            assert_eq!(name(none), None, "{none}");
        }
        assert_eq!(numpy_name(&frame("other/_multiarray_umath.so", "array_astype"), &none()), None);
        assert_eq!(numpy_name(&frame("numpy/random/mtrand.so", "array_astype"), &none()), None);
    }

    /// A compiled function has its module's, its class's and its own name; what does not fit the library's place has none.
    #[test]
    fn what_cython_compiled() {
        let name = |module, symbol: &str| cython_name(&frame(module, &format!("__pyx_pw_{symbol}")), &none());
        let generator = "numpy/random/_generator.cpython-312-x86_64-linux-gnu.so";
        let integers = name(generator, "5numpy_6random_10_generator_9Generator_21integers");
        assert_eq!(integers.as_deref(), Some("numpy.random._generator.Generator.integers"));
        assert_eq!(name("a/b.so", "1a_1b_3get_2d").as_deref(), Some("a.b.get_2d"));
        assert_eq!(name("c.so", "1c_5_hidden"), None);
        assert_eq!(name("c.so", "1c_4Tree_3__init__"), None, "a special method is called otherwise");
        for damaged in ["", "1", "1c", "1c_", "1c_3", "2c_1f", "1é_1f", "1d_1f"] {
            assert_eq!(name("c.so", damaged), None, "{damaged}");
        }
    }
}
