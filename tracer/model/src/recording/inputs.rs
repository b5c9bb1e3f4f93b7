//! What functions were called with: types and sizes of arguments, never their contents. On request only.
//!
//! Leaves out how they are learned (`tracer/data/count_python_calls.py`) and how they are shown.

use crate::ids::FrameId;
use serde::{Deserialize, Serialize};

/// Calls of a function with arguments of the same types and sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSizes {
    /// A frame of the function.
    pub frame: FrameId,
    /// The place in the program that called it, itself or by other packages.
    pub caller: Option<CallPlace>,
    /// Its arguments.
    pub inputs: Vec<Input>,
    /// So many of the calls that were looked at had these.
    pub seen: u64,
}

/// A line of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallPlace {
    /// Its file.
    pub file: String,
    /// Its number.
    pub line: u32,
}

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Input {
    /// The parameter's name.
    pub name: String,
    /// How it reached the function.
    pub role: InputRole,
    /// The type's name with its module: `numpy.ndarray`.
    pub of_type: String,
    /// What is known of its size.
    pub size: InputSize,
}

/// How an argument reached a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputRole {
    /// The object whose method it is.
    Object,
    /// A parameter of its own, whether it was passed by place or by name.
    Argument,
    /// Gathered by `*args`.
    Rest,
    /// Gathered by `**kwargs`.
    Keyword,
}

/// How large an argument is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InputSize {
    /// An array: its dimensions (`None` where one is not known yet), type of element, and bytes.
    Array {
        /// Dimensions.
        shape: Vec<Option<u64>>,
        /// Type of element.
        dtype: String,
        /// Bytes of all elements, where known.
        bytes: Option<u64>,
    },
    /// A collection or text: its length.
    Length(u64),
    /// Nothing that has a size that is known.
    Unknown,
}

impl InputSize {
    /// Bytes of an array's elements; `None` where they are not known, and for what is no array.
    pub const fn bytes(&self) -> Option<u64> {
        match self {
            Self::Array { bytes, .. } => *bytes,
            Self::Length(_) | Self::Unknown => None,
        }
    }
}
