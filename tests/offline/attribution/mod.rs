//! Attribution on recordings made by hand and on virtual clocks. Leaves out real programs (`tests/live/attribution`).

mod accuracy;
mod accuracy_table;
mod conservation;
mod faults;
mod frequency;
mod gpu;
mod long_runs;
mod merged;
mod outer_line;
mod over_time;
mod summed;
mod traced;
mod validity;
mod world;
mod worlds;
mod worlds_table;
