//! Files that belong to targets and other users: how they are opened, with privileges, so that opening does nothing else.
//!
//! First the place alone is opened (`O_PATH`), which asks no driver, wakes no reader of a pipe and waits for nobody; only what is a regular
//! file there, and the one that is meant, is opened to be read. Paths are followed inside the root that they are good in, and never through
//! the links that `/proc` makes up. Leaves out reading: what is opened here goes to the resolver.

pub mod install;
mod later_mounts;
mod mapped;
mod owner;
mod pool;
mod quota;
mod regular;
mod root;
mod seen;

pub use later_mounts::Mounts;
pub(crate) use later_mounts::list_of as mounts_of;
pub use mapped::{file_key, open_mapped};
pub use owner::{owner_of_file, owner_of_files, owner_of_process, user_of_process};
pub use pool::{Pool, Room};
pub use quota::Quota;
pub use regular::open_place;
pub use root::{FoundRoot, Identity, Root, Roots, root_facts};
pub use seen::SeenFile;
