//! Google's V8: which processes have one, and which of their code it makes at run time.
//!
//! Leaves out the walking (`tracer_ebpf::v8`), and names, which V8 itself writes down where it is asked to (`--perf-basic-prof`).

use super::address_space::Mapping;

/// A function of its API, which programs with V8 export to their extensions (`include/v8-isolate.h`).
pub const SYMBOL: &str = "_ZN2v87Isolate10GetCurrentEv";

/// Whether a file may hold a V8: the program itself, or its library.
pub fn may_hold_v8(path: &str, program: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path == program || ["libnode", "libv8"].iter().any(|start| name.starts_with(start))
}

/// Whether code is made by the V8 of a process that has one: it is in private memory, which newer ones give a name.
pub fn is_of_v8(mapping: &Mapping) -> bool {
    mapping.file.is_none() && mapping.is_anonymous()
}
