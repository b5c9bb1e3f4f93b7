//! A simulated NVIDIA GPU at the hardware's own interface: programs link `libcuda.so.1`, `libcudart.so.12`, `libnvidia-ml.so.1` and
//! `libcupti.so.13` as they would on a machine with a GPU, and a log tells what each launch really spent.
//!
//! This crate is the engine, `libsimgpu.so`. The four libraries are thin faces made of assembler (`faces`), so that their first instructions
//! can be chosen; each function jumps to `simgpu_` and its name in here. All processes of a run share one device file in a folder
//! (`place`) that `SIMGPU_DIR` names, with the scenario (`scenario`) and the log (`truth`) beside it.
//!
//! Nothing is computed: memory is not copied and kernels leave no results. Left out too: frequencies and temperatures, contexts that
//! raise the idle power, textures, peer copies, device-side launches, and everything that profilers do not look at.

pub mod clock;
pub mod faces;
pub mod meter;
pub mod place;
pub mod scenario;
pub mod shared;
pub mod truth;

mod calls;
mod driver;
mod nvml;
mod raw;
mod runtime;
mod world;

pub use place::{Place, VARIABLE};
pub use scenario::Scenario;
