//! Events become records, on the reader's thread.
//!
//! `reader` reads the rings and hands events to the `collector`, which has `samples` and slices put into records and does its `housekeeping`;
//! `pauses` finds where nobody could be seen, `background` numbers processes
//! that are no targets, `losses` says what was lost. Leaves out stacks (`stacks/`) and GPUs (`gpu/`).

mod background;
pub(super) mod collector;
mod housekeeping;
pub(crate) mod live;
pub(super) mod losses;
mod pauses;
pub(super) mod reader;
mod samples;
