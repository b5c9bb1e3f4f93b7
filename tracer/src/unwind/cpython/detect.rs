//! Finds CPython in a process: the file that holds `_PyRuntime`, its version, and where it lies.
//!
//! The version is read from `Py_Version` in memory, never taken from a file's name. Leaves out interpreters older than 3.11, which do
//! not export it: they are refused by the name of their file.

use super::layout::{Version, VersionLayout, layout_of};
use super::memory::{ProcessMemory, Source as _};
use crate::ids::Pid;
use crate::unwind::address_space::Mapping;
use crate::unwind::elf::ElfFacts;

/// Symbols to look for in a file that may hold the interpreter.
pub const SYMBOLS: [&str; 2] = ["_PyRuntime", "Py_Version"];

/// Offset of `free_threaded` in `_Py_DebugOffsets`, at the start of `_PyRuntime` since 3.13 (Include/internal/pycore_runtime.h).
const FREE_THREADED: u64 = 16;
/// The first bytes of `_Py_DebugOffsets`.
const COOKIE: u64 = u64::from_ne_bytes(*b"xdebugpy");

/// An interpreter that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Its version.
    pub version: Version,
    /// Address of `_PyRuntime` (AVMA).
    pub runtime: u64,
    /// Its layout.
    pub layout: VersionLayout,
}

/// What a file says about the interpreter in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It can be unwound.
    Known(Interpreter),
    /// It cannot; the text names it and says why.
    Refused(String),
    /// There is none in this file.
    None,
}

/// Whether a file may hold an interpreter: the program itself, or a library named after Python.
pub fn may_hold_interpreter(path: &str, program: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path == program || name.starts_with("libpython") || name.starts_with("python")
}

/// Looks at a file that is mapped in a process.
pub fn find(pid: Pid, mapping: &Mapping, elf: &ElfFacts) -> Finding {
    let runtime = elf.symbol("_PyRuntime").or(elf.py_runtime);
    let (Some(runtime), Some(bias)) = (runtime, elf.bias(mapping.start, mapping.offset)) else {
        return Finding::None;
    };
    let name = mapping.path.rsplit('/').next().unwrap_or_default();
    let refused = |what: &str, why: &str| Finding::Refused(format!("{what} ({why}: native frames only)"));
    let memory = ProcessMemory::of(pid);
    let Some(at) = elf.symbol("Py_Version") else {
        return refused(
            &format!("CPython in {name}"),
            "older than 3.11, not known to this version of energy-trace",
        );
    };
    let Some(hex) = memory.half(bias.wrapping_add(at)) else { return Finding::None };
    let version = Version { hex };
    let what = format!("CPython {version}");
    if name.ends_with('d') && name.contains("3.") {
        return refused(&what, "a debug build, whose layout is not known");
    }
    let runtime = bias.wrapping_add(runtime);
    if version.minor() >= (3, 13)
        && memory.word(runtime) == Some(COOKIE)
        && memory.word(runtime + FREE_THREADED) != Some(0)
    {
        return refused(&what, "a free-threaded build, whose layout is not known");
    }
    match layout_of(version) {
        Some(layout) => Finding::Known(Interpreter { version, runtime, layout }),
        None => refused(&what, "a version that is not known to this version of energy-trace"),
    }
}
