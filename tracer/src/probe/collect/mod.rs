//! Events become records, on the reader's thread.
//!
//! `reader` reads the rings and hands events to the `collector`; `pauses` finds where nobody could be seen, `background` numbers processes
//! that are no targets, `losses` says what was lost. Leaves out stacks (`stacks/`) and GPUs (`gpu/`).

mod background;
pub(super) mod collector;
pub(super) mod losses;
mod pauses;
pub(super) mod reader;
