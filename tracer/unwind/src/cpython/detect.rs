//! Finds CPython in a process: the file that holds `_PyRuntime`, its version, and where it lies.
//!
//! The version is read from `Py_Version` in memory, before 3.11 from what `Py_GetVersion` answers with; it is never taken from a file's
//! name; Pythons that are not CPython are told by theirs, and only named. Leaves out programs that hold an interpreter without a symbol of it.

use super::before_runtime::{Exported, Variables, find_variables};
use super::debug_offsets::{TableError, read_layout};
use super::layout::{Version, VersionLayout, layout_of};
use super::memory::Source;
use super::running_thread::find_thread_variables;
use super::version_text::read_version;
use crate::address_space::Mapping;
use crate::elf::ElfFacts;
use energy_trace_model::recording::record::{OtherPython, Runtime, RuntimeRefusal};
use tracer_ebpf::wire::PythonLayout;

/// Symbols to look for in a file that may hold the interpreter.
pub const SYMBOLS: [&str; 9] =
    [RUNTIME, VERSION, GET_VERSION, EVAL, CHAINS_OBJECTS, CELL, INTERPRETERS, THIS_THREAD, CURRENT];

const RUNTIME: &str = "_PyRuntime";
const VERSION: &str = "Py_Version";
const GET_VERSION: &str = "Py_GetVersion";
const INTERPRETERS: &str = "PyInterpreterState_Head";
const THIS_THREAD: &str = "PyGILState_GetThisThreadState";
const CURRENT: &str = "_PyThreadState_Current";
const EVAL: &str = "_PyEval_EvalFrameDefault";
/// The type of cells.
const CELL: &str = "PyCell_Type";
/// Only builds that chain all objects (`--with-trace-refs`, up to 3.7 `--with-pydebug` too) have it, up to 3.12 (Objects/object.c): two words stand
/// in front of each object there. In other debug builds all that is read lies where it does in a release build (`layout`).
const CHAINS_OBJECTS: &str = "_Py_AddToAllObjects";

/// An interpreter that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// Address of `_PyRuntime` (AVMA); in 3.6, which has none, of the list of interpreters.
    pub runtime: u64,
    /// Its layout.
    pub layout: VersionLayout,
    /// Bytes of thread-local variables in which those are to be found that name the running thread's state; 0: none needed, or found.
    pub tls_block: u64,
    /// Where its evaluation function lies, in up to two parts: start and end (AVMA).
    pub eval: [(u64, u64); 2],
}

impl Interpreter {
    /// Whether a process has sub-interpreters now (`interpreters.head` stands before `interpreters.main`, and begins with the newest); true
    /// where it cannot be asked.
    pub fn has_sub_interpreters(&self, memory: &impl Source) -> bool {
        let walk = self.layout.walker(self.runtime);
        if walk.key_follows == PythonLayout::NO_MAIN {
            let newest = memory.word(walk.interpreter_at).unwrap_or(0);
            return memory.word(newest) != Some(0);
        }
        let newest = memory.word(walk.interpreter_at.wrapping_sub(8));
        newest.is_none() || newest != memory.word(walk.interpreter_at)
    }

    /// Looks for the thread-local variables that name the state that runs in a thread, where they are needed and not known; whether
    /// that is news.
    pub fn find_thread_variables(&mut self, memory: &impl Source) -> bool {
        let found = match self.tls_block {
            0 => [0; 2],
            block => find_thread_variables(memory, &self.layout, self.runtime, block),
        };
        if found == [0; 2] {
            return false;
        }
        self.tls_block = 0;
        self.layout.learn_thread_variables(found);
        true
    }

    /// Whether a pc (AVMA) is in the evaluation function.
    pub fn is_eval(&self, pc: u64) -> bool {
        self.eval.iter().any(|&(start, end)| start <= pc && pc < end)
    }
}

/// What a file says about the interpreter in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It can be unwound.
    Known(Box<Interpreter>),
    /// It cannot.
    Refused(Runtime),
    /// There is none in this file.
    None,
}

impl Finding {
    /// Memory that did not answer in time (`is_late`) is no reason to refuse: it is asked again.
    #[must_use]
    pub fn in_time(self, is_late: bool) -> Self {
        if is_late && matches!(self, Self::Refused(_)) { Self::None } else { self }
    }
}

/// Whether a file may hold an interpreter: the program itself, or a library named after Python.
pub fn may_hold_interpreter(path: &str, program: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path == program || name.starts_with("libpython") || name.starts_with("python")
}

/// The Python that a file of this name holds, where it is not CPython's.
pub fn other_python(path: &str) -> Option<OtherPython> {
    const NAMES: [(&str, OtherPython); 4] = [
        ("libpypy", OtherPython::PyPy),
        ("pypy", OtherPython::PyPy),
        ("libpythonvm", OtherPython::GraalPy),
        ("micropython", OtherPython::MicroPython),
    ];
    let name = path.rsplit('/').next().unwrap_or(path);
    NAMES.into_iter().find(|(start, _)| name.starts_with(start)).map(|(_, python)| python)
}

/// Looks at a file that is mapped in a process, in that process's memory.
pub fn find(memory: &impl Source, mapping: &Mapping, elf: &ElfFacts) -> Finding {
    let Some(bias) = elf.bias(mapping.start, mapping.offset) else { return Finding::None };
    let name = mapping.path.rsplit('/').next().unwrap_or_default();
    let runtime = elf.symbol(RUNTIME).or(elf.py_runtime).map(|at| bias.wrapping_add(at));
    let is_python = runtime.is_some() || elf.symbol(EVAL).is_some();
    let Some(version) = read_version_of(memory, bias, elf) else {
        let refusal = refused(None, name, RuntimeRefusal::NoVersion);
        return if is_python { refusal } else { Finding::None };
    };
    if version.minor().0 > 3 {
        return Finding::None; // Not mapped yet, and something else in its place.
    }
    let refuse = |reason| refused(Some(version), name, reason);
    let is_known = version.minor() >= (3, 13) || layout_of(version).is_some();
    if !is_known {
        return refuse(RuntimeRefusal::UnknownVersion);
    }
    let variables = (version.minor() == (3, 6)).then(|| variables_of(memory, bias, elf)).flatten();
    let Some(runtime) = variables.map(|found| found.interpreters).or(runtime) else {
        return refuse(RuntimeRefusal::NoSymbols);
    };
    if elf.symbol(CHAINS_OBJECTS).is_some() {
        return refuse(RuntimeRefusal::DebugBuild);
    }
    let layout = if version.minor() < (3, 13) {
        layout_of(version).ok_or(TableError::Unknown)
    } else {
        read_layout(memory, runtime, version)
    };
    let mut layout = match layout {
        Ok(layout) => layout,
        // The file's data may be mapped a moment after its code: it is looked at again.
        Err(TableError::Absent) => return Finding::None,
        Err(TableError::Unknown) => return refuse(RuntimeRefusal::UnknownVersion),
        Err(TableError::OtherVersion) => return refuse(RuntimeRefusal::OtherTable),
        Err(TableError::Damaged) => return refuse(RuntimeRefusal::DamagedTable),
    };
    if let Some(at) = elf.symbol(CELL) {
        layout.learn_cells(bias.wrapping_add(at));
    }
    if let Some(Variables { interpreters, key, current }) = variables {
        layout.learn_variables(current.wrapping_sub(interpreters), key.wrapping_sub(interpreters));
    }
    let eval = eval_ranges(bias, elf);
    let tls_block = if layout.is_named_by_variables() { elf.tls_block } else { 0 };
    Finding::Known(Box::new(Interpreter { version, runtime, layout, tls_block, eval }))
}

/// Where 3.6 keeps what is in `_PyRuntime` later.
fn variables_of(memory: &impl Source, bias: u64, elf: &ElfFacts) -> Option<Variables> {
    let symbol = |name| Some(bias.wrapping_add(elf.symbol(name)?));
    let (head, this_thread) = (symbol(INTERPRETERS)?, symbol(THIS_THREAD)?);
    find_variables(memory, Exported { head, this_thread, current: symbol(CURRENT)? })
}

fn refused(version: Option<Version>, file: &str, reason: RuntimeRefusal) -> Finding {
    let version = version.map(|version| version.to_string());
    Finding::Refused(Runtime::Refused { version, file: file.to_owned(), reason })
}

/// The version: a number in memory, or the text that the interpreter itself answers with.
fn read_version_of(memory: &impl Source, bias: u64, elf: &ElfFacts) -> Option<Version> {
    if let Some(at) = elf.symbol(VERSION) {
        return memory.half(bias.wrapping_add(at)).map(|hex| Version { hex });
    }
    let (at, size) = elf.symbols.iter().find(|(n, ..)| n == GET_VERSION).map(|&(_, at, size)| (at, size))?;
    read_version(memory, bias.wrapping_add(at), size)
}

/// Where the evaluation function lies (AVMA), and its cold part where that is told.
fn eval_ranges(bias: u64, elf: &ElfFacts) -> [(u64, u64); 2] {
    let mut ranges = [(0, 0); 2];
    let parts = elf.symbols.iter().filter(|(name, ..)| name.starts_with(EVAL));
    for (range, &(_, at, size)) in ranges.iter_mut().zip(parts) {
        let start = bias.wrapping_add(at);
        *range = (start, start.saturating_add(size));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::{Finding, VERSION, find, other_python, refused};
    use crate::address_space::Mapping;
    use crate::cpython::tests::memory::Words;
    use crate::elf::{CodeSegment, ElfFacts};
    use energy_trace_model::recording::record::{OtherPython, Runtime, RuntimeRefusal};

    /// An interpreter whose version did not come in time is not refused for good: on a busy machine all of its functions were nameless.
    #[test]
    fn late_answers_refuse_nothing() {
        let finding = || refused(None, "python3", RuntimeRefusal::NoVersion);
        assert_eq!((finding().in_time(true), finding().in_time(false)), (Finding::None, finding()));
    }

    /// A version that is not known is refused for that, whatever its file lacks: 2.7 has no `_PyRuntime`.
    #[test]
    fn an_old_version_is_not_known() {
        let code = vec![CodeSegment { svma: 0, offset: 0, size: 0x1000 }];
        let elf = ElfFacts { code, symbols: vec![(VERSION.to_owned(), 0x100, 8)], ..ElfFacts::default() };
        let path = "/usr/lib/libpython.so".to_owned();
        let mapping = Mapping { start: 0, end: 0x1000, offset: 0, file: None, path };
        let reason = |hex| match find(&Words([(0x100, hex)].into()), &mapping, &elf) {
            Finding::Refused(Runtime::Refused { reason, .. }) => Some(reason),
            _ => None,
        };
        let reasons = [RuntimeRefusal::UnknownVersion, RuntimeRefusal::NoSymbols].map(Some);
        assert_eq!([0x0207_12f0, 0x030b_02f0].map(reason), reasons);
    }

    /// PyPy, GraalPy and MicroPython are told by the names of their files; CPython and its libraries are none of them.
    #[test]
    fn pythons_that_are_not_cpython() {
        assert_eq!(other_python("/usr/lib/x86_64-linux-gnu/libpypy3.9-c.so"), Some(OtherPython::PyPy));
        assert_eq!(other_python("/opt/graalpy/lib/libpythonvm.so"), Some(OtherPython::GraalPy));
        assert_eq!(other_python("/usr/bin/micropython"), Some(OtherPython::MicroPython));
        assert_eq!(other_python("/usr/bin/python3.11"), None);
        assert_eq!(other_python("/usr/lib/libpython3.11.so.1.0"), None);
    }
}
