//! Launches on GPUs: probes on the libraries that launch, and what they say.
//!
//! `devices` and `environment` say which GPU a process means, `functions` says what is probed, `prologue` where in a function, `libraries` in which files; `launches` counts what the probes tell, and
//! `graphs` knows what was captured. Leaves out what launches cost (`attribution/gpu`).

mod devices;
mod environment;
mod functions;
mod graphs;
mod launches;
mod libraries;
mod prologue;

pub(super) use devices::{Device as GpuDevice, Told as GpuTold, index_of};
pub(super) use environment::read_told;
pub(super) use launches::{Launch, Launches, Work};
pub(super) use libraries::Libraries as GpuLibraries;
