//! Launches on GPUs: probes on the libraries that launch, and what they say.
//!
//! `devices` and `environment` say which GPU a process means, `functions` says what is probed, `prologue` where in a function, `libraries` in which
//! files, `containers` where programs below another root find them; `launches` counts what the probes tell, and `graphs` knows what was captured; `listener` hears what the library says that is injected
//! into programs, and `kernels` joins that with launches. Leaves out what launches cost (`attribution/gpu`).

pub(super) mod calls;
mod containers;
mod devices;
mod environment;
mod functions;
mod graph_calls;
mod graphs;
mod guests;
mod kernel_calls;
mod kernels;
mod launches;
mod libraries;
mod listener;
mod prologue;

pub(super) use containers::{Containers, Started};
pub(super) use devices::{Device as GpuDevice, Told as GpuTold, index_of};
pub(super) use environment::read_told;
pub(super) use graphs::{Pending, Piece, What};
pub(super) use kernels::{Kernels, Part, Waiting, demangled};
pub(super) use launches::{Launch, Launches, Work};
pub(super) use libraries::Libraries as GpuLibraries;
pub(super) use listener::{Listener, Said, Told};
