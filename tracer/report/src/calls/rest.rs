//! What a stack without a call is: the program's own code, the interpreter's start or end, a thread that nobody is known to have asked.
//!
//! Leaves out calls and imports (`path.rs`).

use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_model::recording::synthetic_frame::is_nameless_python;

/// What stacks without a call are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rest {
    /// The program's own code calls no package.
    OwnCode,
    /// The interpreter before the program's first line.
    InterpreterStart,
    /// The interpreter and the process after its last one.
    InterpreterEnd,
    /// An import of which nothing says what it imports.
    Import,
    /// A thread without Python that works for no known call.
    Thread,
    /// Python functions that could not be read.
    Unknown,
    /// A process without Python, by its name.
    NoPython(String),
}

impl Rest {
    /// Its row.
    pub(super) fn label(&self) -> String {
        match self {
            Self::OwnCode => "[own code]".to_owned(),
            Self::InterpreterStart => "[interpreter start]".to_owned(),
            Self::InterpreterEnd => "[interpreter end]".to_owned(),
            Self::Import => "[import]".to_owned(),
            Self::Thread => "[threads without a known call]".to_owned(),
            Self::Unknown => "[unknown Python code]".to_owned(),
            Self::NoPython(name) => format!("[no Python: {name}]"),
        }
    }
}

/// Functions below which a process ends: of the C library, of CPython, of its standard library, and of the kernel.
const ENDS: [&str; 9] = [
    "Py_FinalizeEx",
    "_Py_Finalize",
    "Py_EndInterpreter",
    "finalize_modules",
    "__run_exit_handlers",
    "exit",
    "do_exit",
    "do_group_exit",
    "_shutdown",
];

/// Modules of Python's own whose code on the main thread is its start.
const STARTS: [&str; 4] = ["site", "encodings", "sitecustomize", "usercustomize"];

/// What is known of the thread of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Where<'a> {
    /// The process's name, where it has no Python.
    pub(super) without_python: Option<&'a str>,
    /// Whether it is its process's first thread.
    pub(super) is_main: bool,
}

/// Whether the process ends below a frame.
pub(super) fn is_end(frame: &Frame) -> bool {
    frame.kind != FrameKind::Special && ENDS.contains(&bare(&frame.name))
}

/// What a stack without calls is that has no code of the program either.
pub(super) fn rest<'a>(place: Where<'_>, frames: impl Iterator<Item = &'a Frame>) -> Rest {
    let (mut python, mut starts, mut ends, mut unknown) = (false, false, false, false);
    for frame in frames {
        ends |= is_end(frame);
        starts |= STARTS.iter().any(|module| frame.module == *module);
        python |= frame.kind == FrameKind::Python;
        unknown |= is_nameless_python(frame);
    }
    if let Some(name) = place.without_python {
        return Rest::NoPython(name.to_owned());
    }
    match () {
        () if unknown => Rest::Unknown,
        () if ends => Rest::InterpreterEnd,
        () if python && !starts => Rest::OwnCode,
        () if place.is_main => Rest::InterpreterStart,
        () => Rest::Thread,
    }
}

fn bare(name: &str) -> &str {
    name.split(['(', '@', '.']).next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::{Rest, Where, rest};
    use energy_trace_model::recording::record::{Frame, FrameKind};

    fn of(is_main: bool, frames: &[(FrameKind, &str, &str)]) -> Rest {
        let frame = |&(kind, module, name): &(FrameKind, &str, &str)| {
            let (name, module) = (name.to_owned(), module.to_owned());
            Frame { kind, name, module, file: String::new(), line: 0, first_line: 0, address: 0 }
        };
        let frames: Vec<Frame> = frames.iter().map(frame).collect();
        rest(Where { without_python: None, is_main }, frames.iter())
    }

    /// Start, end, threads and Python's own library are told apart.
    #[test]
    fn stacks_without_calls() {
        use FrameKind::{Kernel, Native, Python, Special};
        assert_eq!(of(true, &[(Native, "/usr/bin/python3", "_start")]), Rest::InterpreterStart);
        assert_eq!(of(true, &[(Python, "site", "main"), (Python, "os", "stat")]), Rest::InterpreterStart);
        assert_eq!(of(true, &[(Native, "", "Py_FinalizeEx"), (Native, "", "free")]), Rest::InterpreterEnd);
        assert_eq!(of(true, &[(Kernel, "", "do_exit")]), Rest::InterpreterEnd);
        assert_eq!(of(true, &[(Python, "json.tool", "main")]), Rest::OwnCode);
        assert_eq!(of(false, &[(Native, "/usr/lib/libgomp.so.1", "")]), Rest::Thread);
        assert_eq!(of(true, &[(Special, "", "[unknown: Python function that is gone]")]), Rest::Unknown);
        let place = Where { without_python: Some("nice"), is_main: true };
        assert_eq!(rest(place, std::iter::empty()).label(), "[no Python: nice]");
    }
}
