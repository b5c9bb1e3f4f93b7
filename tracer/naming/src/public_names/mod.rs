//! What users call the functions and classes of a package, by the package's own re-exports.
//!
//! `modules`: the package's modules as they are asked for; `search`: from the package's root along what it re-exports to the names that
//! were seen; `classes`: private classes by those that inherit them; `installed`: which folders hold packages. Opened by `files`, read by a resolver's worker. Leaves out which names
//! were seen (`probe/stacks`), and what a call is (`tracer/report`).

mod classes;
mod files;
mod installed;
mod modules;
mod search;

pub use files::find_public_names;
