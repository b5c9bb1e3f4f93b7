//! Names of native and kernel functions, in files and beside them: the only package that depends on `blazesym`.
//!
//! What parses here runs in a resolver's worker: `places` looks into a file and its debug file (`image`, `packed_symbols`), `perf_map` and `jitdump` into what
//! programs write about code that they made, `python_module` into what a module of Python imports, `python_packages`
//! into what is installed beside it, `process_context` into what a process says of itself, `python_calls` and `python_inputs` into what was counted
//! and noted in one. `symbolizer` asks blazesym; `kallsyms` reads names of the kernel's own functions, which are the kernel's word, without a
//! worker. Leaves out which files are looked into (package `naming`).
//!
//! ```
//! use energy_trace_symbols::perf_map::read_map;
//! use std::io::Cursor;
//!
//! let names = read_map(Cursor::new("1000 100 py::f:train.py\n"), &[0x1010]);
//! assert_eq!(names[&0x1010], "py::f:train.py");
//! ```

mod image;
pub mod jitdump;
mod kallsyms;
mod packed_symbols;
pub mod perf_map;
mod place;
mod places;
pub mod process_context;
pub mod python_calls;
pub mod python_inputs;
pub mod python_module;
pub mod python_packages;
mod symbolizer;

pub use kallsyms::name_kernel;
pub use place::{Detail, Place, Proof};
pub use places::name_places;
