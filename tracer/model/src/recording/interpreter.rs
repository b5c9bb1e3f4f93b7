//! The interpreter of a process. Part of what a recording holds (`record`).
//!
//! Leaves out finding them out (`unwind/`, `probe/`) and the sentences for a refusal, which the report makes.

use serde::{Deserialize, Serialize};

/// The interpreter of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Runtime {
    /// CPython whose frames are read.
    CPython {
        /// Its version: `3.11.2`.
        version: String,
    },
    /// CPython whose frames cannot be read: native frames only.
    Refused {
        /// Its version, where it is known.
        version: Option<String>,
        /// The file that holds it.
        file: String,
        /// Why.
        reason: RuntimeRefusal,
    },
    /// A Python that is not CPython: native frames only.
    NotCPython(OtherPython),
}

/// A Python that is not CPython.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OtherPython {
    /// PyPy.
    PyPy,
    /// GraalPy.
    GraalPy,
    /// MicroPython.
    MicroPython,
}

/// Why an interpreter's frames cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RuntimeRefusal {
    /// Its version cannot be read.
    NoVersion,
    /// A version whose layout is not known.
    UnknownVersion,
    /// It is a debug build that chains all objects, whose layout is not known.
    DebugBuild,
    /// Its table of offsets is that of another version.
    OtherTable,
    /// Its table of offsets is damaged.
    DamagedTable,
    /// Its file has no symbol by which its state is found.
    NoSymbols,
}
