//! Names for the frames of a recording that ends.
//!
//! Files that were mapped are kept open until then: what was deleted meanwhile, or belongs to a container that is gone, still has its names. A
//! frame without a name keeps its library and offset: "could not" is an answer, with its reason in the log. On request debug information
//! gives source lines and the functions that the compiler put into others.
//!
//! `frames` names them all, by `library` and `debug_file`; `jit` and `made_by` know code that was made at run time; `public_names` what
//! users call the functions of packages; `turns` says whose files come first. Leaves out looking into files: a resolver's worker does
//! (package `symbols`).
//!
//! ```
//! use energy_trace_model::recording::record::Owner;
//! use std::time::Duration;
//!
//! // Who took least so far is next.
//! let files = [(Owner::User(1), "slow.so"), (Owner::User(2), "quick.so")];
//! let spent = |owner| Duration::from_secs(if owner == Owner::User(1) { 30 } else { 1 });
//! assert_eq!(energy_trace_naming::in_turn(files, spent, |file| file), ["quick.so", "slow.so"]);
//! ```

mod debug_file;
mod frames;
mod jit;
mod library;
mod made_by;
mod public_names;
mod turns;

pub use frames::{FrameNames, name_frames};
pub use jit::{JitNames, JitProcess};
pub use library::Library;
pub use made_by::Callers;
pub use public_names::find_public_names;
pub use turns::in_turn;
