//! A sampled stack in the oracle's words: its Python frames, and what native code stands between them.

use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind};

/// Words for native code by the library that it is in: these need no symbols.
const BY_LIBRARY: [(&str, &str); 2] = [("_ctypes", "ctypes"), ("_multiarray_umath", "numpy")];

/// Words for native code by the beginning of a function's name, in any version.
const BY_NAME: [(&str, &str); 35] = [
    ("list_sort", "sort"),
    ("functools_reduce", "reduce"),
    ("_functools_reduce", "reduce"),
    ("map_next", "map"),
    ("gen_iternext", "generator"),
    ("gen_send_ex", "generator"),
    ("gen_send", "generator"),
    ("PyGen_am_send", "generator"),
    ("_PyGen_Send", "generator"),
    ("_gen_send", "generator"),
    ("gen_throw", "throw"),
    ("_gen_throw", "throw"),
    ("builtin_sum", "sum"),
    ("qsort", "qsort"),
    ("__qsort_r", "qsort"),
    ("msort_with_tmp", "qsort"),
    ("slot_tp_finalize", "finalizer"),
    ("handle_callback", "weakref"),
    ("PyObject_ClearWeakRefs", "weakref"),
    ("builtin___build_class__", "class"),
    ("context_run", "context"),
    ("slot_tp_hash", "hash"),
    ("slot_tp_richcompare", "compare"),
    ("lru_cache", "cache"),
    ("infinite_lru_cache", "cache"),
    ("bounded_lru_cache", "cache"),
    ("uncached_lru_cache", "cache"),
    ("builtin_exec", "exec"),
    ("trace_trampoline", "trace"),
    ("call_trampoline", "trace"),
    ("call_trace", "trace"),
    ("sys_trace", "trace"),
    ("call_trace_func", "trace"),
    ("_PyEval_CallTracing", "trace"),
    ("call_tracing", "trace"),
];

/// Words that only functions with names of their own give.
pub(crate) fn is_by_name(word: &str) -> bool {
    word != "c" && BY_LIBRARY.iter().all(|(_, by_library)| *by_library != word)
}

/// A Python frame of a sample.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) line: u32,
    /// Whether native frames stand between its caller and it.
    pub(crate) from_c: bool,
    /// These, as words; the same word once where it repeats itself.
    pub(crate) words: Vec<&'static str>,
}

/// The Python frames of a stack, outermost first; `None` where one of them has no name.
pub(crate) fn python_frames(recording: &Recording, stack: StackId) -> Option<Vec<Seen>> {
    let mut out = Vec::new();
    let (mut from_c, mut words) = (false, Vec::new());
    for (_, frame) in recording.frames_of(stack) {
        match frame.kind {
            FrameKind::Python => {
                let (name, line) = (frame.name.clone(), frame.line);
                out.push(Seen { name, line, from_c, words: std::mem::take(&mut words) });
                from_c = false;
            }
            FrameKind::Native | FrameKind::Inlined => {
                from_c = true;
                let word = word_of(frame);
                words.extend(word.filter(|word| words.last() != Some(word)));
            }
            FrameKind::Special if frame.name.starts_with("[unknown: Python function") => return None,
            _ => (),
        }
    }
    Some(out)
}

fn word_of(frame: &Frame) -> Option<&'static str> {
    let library = frame.module.rsplit('/').next().unwrap_or_default();
    let by_library = BY_LIBRARY.iter().find(|(start, _)| library.starts_with(start));
    let by_name = || BY_NAME.iter().find(|(start, _)| frame.name.starts_with(start));
    by_library.or_else(by_name).map(|(_, word)| *word)
}

/// Whether a recording's interpreter has symbols of its own: else the words by name cannot be seen.
pub(crate) fn has_symbols(recording: &Recording) -> bool {
    recording
        .frames
        .iter()
        .any(|frame| frame.kind == FrameKind::Native && frame.name.starts_with("list_sort"))
}
