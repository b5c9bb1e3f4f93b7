//! Launches on GPUs: probes on the libraries that launch, and what they say.
//!
//! `functions` says what is probed, `prologue` where in a function, `libraries` in which files; `launches` counts what the probes tell, and
//! `graphs` knows what was captured. Leaves out what launches cost (`attribution/gpu`).

mod functions;
mod graphs;
mod launches;
mod libraries;
mod prologue;

pub(super) use launches::{Launch, Launches, Work};
pub(super) use libraries::Libraries as GpuLibraries;
