//! CPython: which version runs in a process, where it keeps its frames, and what a code object says about itself.
//!
//! Leaves out walking (`tracer_ebpf::python`). A version whose layout was not measured is refused by name, never guessed.

pub mod attributes;
mod before_runtime;
pub mod class_name;
pub mod code;
pub mod code_check;
pub mod debug_offsets;
pub mod detect;
mod globals;
mod kept;
pub mod layout;
pub mod lines;
pub mod memory;
pub mod module_name;
pub mod receiver;
pub mod running_thread;
pub mod thread_places;
pub mod version_text;

#[cfg(test)]
mod tests {
    pub(crate) mod memory;
}
