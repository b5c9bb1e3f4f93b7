//! Against SciPy, and on studies whose truth is known. Leaves out how `compare` runs programs.

mod scipy;
mod studies;
