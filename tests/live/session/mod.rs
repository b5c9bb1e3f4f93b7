//! A run from its start to its end: what is recorded, signals, outputs, rights and limits. Leaves out what the numbers are.

mod attach_socket;
mod control;
mod elsewhere;
mod kill;
mod launch;
mod limits;
mod outputs;
mod privileges;
mod signals;
mod surroundings;
