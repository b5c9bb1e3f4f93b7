//! The recording and its file. Leaves out what is made of it.

mod damage;
mod file;
pub(crate) mod records;
