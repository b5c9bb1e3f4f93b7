//! The screen of `energy-trace top`, in the finisher's process: the invoking user's, without privileges.
//!
//! * `view`: reads the recording through a pipe while it is made, attributes windows of time, draws, and hears keys.
//! * `terminal`: the terminal as this needs it, and as it was before.
//!
//! Leaves out what the screen says (`report::top`), and recording.

mod terminal;
mod view;

pub(crate) use view::View;
