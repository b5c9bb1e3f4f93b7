//! Launches on GPUs: probes on the libraries that launch, and what they say.
//!
//! - `collector` takes in the calls: `calls` makes launches of them, `kernel_calls` joins what the injected library tells.
//! - `functions` says what is probed, `libraries` in which files, `containers` where programs below another
//!   root find them; `devices` and `environment` say which GPU a process means.
//! - `launches` counts launches (`launch`), and `graphs` knows what was captured; `kept` bounds what programs say of theirs.
//! - `listener` reads what the injected library sends, `connections` says who may send, and `kernels` joins that with launches.
//!
//! Leaves out what launches cost (`attribution/gpu`).

mod calls;
mod collector;
mod connections;
mod containers;
mod devices;
mod environment;
mod functions;
mod graphs;
mod kept;
mod kernel_calls;
mod kernels;
mod launch;
mod launches;
mod libraries;
mod listener;
mod replays;

pub(super) use collector::GpuCollector;
pub(super) use devices::Device as GpuDevice;
pub(super) use listener::Listener;

use containers::{Containers, NewProgram};
use devices::{DeviceVariables, index_of, only_index};
use environment::read_variables;
use graphs::Operation;
use kernels::{Kernels, Part, Waiting, demangled};
use launches::LaunchCounter;
use libraries::Libraries as GpuLibraries;
pub use libraries::gpu_libraries_in;
use listener::{Message, Received};
