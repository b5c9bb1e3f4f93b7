//! Events become records.
//!
//! `reader` empties the rings on one thread and hands events over the `backlog` to the `collector` on another, which has `samples` and slices put into records and does its `housekeeping`;
//! `sampling_gaps` finds where nobody could be seen, `background` numbers processes
//! that are no targets, `totals` has CPU time that is summed taken out when power is read, `losses` says what was lost. Leaves out stacks (`stacks/`) and GPUs (`gpu/`).

mod background;
pub(super) mod backlog;
pub(super) mod collector;
mod housekeeping;
pub(crate) mod live;
pub(super) mod losses;
pub(super) mod reader;
mod samples;
mod sampling_gaps;
pub(super) mod totals;
