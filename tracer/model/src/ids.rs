//! Identifiers, each its own type so that a thread is never taken for a process.
//!
//! pid = thread group, tid = thread, both as the initial pid namespace numbers them. A pid comes back after its process is gone, and
//! `exec` puts another program behind it; `ProcessKey` and `ThreadKey` name one program's life in one recording.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name($raw);

        impl $name {
            /// From the raw number.
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// The raw number.
            pub const fn get(self) -> $raw {
                self.0
            }

            /// The raw number as a position in a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(/// A process (thread group) number.
    Pid(u32));
id!(/// A thread number.
    Tid(u32));
id!(/// A logical CPU number, as the kernel numbers them.
    CpuId(u32));
id!(/// A physical package (socket) number.
    SocketId(u32));
id!(/// A power domain of one recording.
    DomainId(u32));
id!(/// A temperature sensor, clock or other gauge of one recording.
    SensorId(u32));
id!(/// A counter of work of one recording.
    WorkId(u32));
id!(/// One program in one process, in one recording.
    ProcessKey(u32));
id!(/// One thread of one program, in one recording.
    ThreadKey(u32));
id!(/// A process that is not a target, under one name, in one recording.
    BackgroundKey(u32));
id!(/// An interned frame of one recording.
    FrameId(u32));
id!(/// An interned stack (a frame and its caller's stack) of one recording.
    StackId(u32));

/// What identifies a binary file across machines: the GNU build id, where there is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// From the bytes of the `.note.gnu.build-id` descriptor.
    pub const fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Whether it is long enough to name a file: debug files lie in a folder named by its first byte.
    pub const fn is_usable(&self) -> bool {
        self.0.len() > 1
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
