//! What the hooks call. Exists in the BPF binary only.

pub(crate) mod maps;
pub(crate) mod sample;
pub(crate) mod sched;
pub(crate) mod tables;
pub(crate) mod tasks;
pub(crate) mod user_memory;
pub(crate) mod waits;
