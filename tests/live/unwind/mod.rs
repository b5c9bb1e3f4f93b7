//! Stacks of real programs. Leaves out names of machine code (`symbols`).

mod bare;
mod cold;
mod java;
mod memory;
mod modules;
mod node;
mod one_place;
mod oracle;
mod rules;
mod runtimes;
mod stacks;
mod vdso;
