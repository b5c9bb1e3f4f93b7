//! The recording and its file. Leaves out what is made of it.

mod damage;
mod file;
mod live;
mod merged;
pub(crate) mod records;
