//! The recording and its file. Leaves out what is made of it.

mod damage;
pub(crate) mod file;
mod golden;
mod live;
mod merged;
pub(crate) mod records;
