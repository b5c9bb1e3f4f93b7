//! From a program to the joules of its functions. Leaves out virtual clocks (`tests/offline/attribution`).

mod closed_loop;
mod requesters;
