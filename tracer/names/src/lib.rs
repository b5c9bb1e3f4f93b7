//! What frames, threads and processes are called, and how a name may be shown.
//!
//! `names` makes a frame's name from what is recorded of it, `short_names` leaves out the arguments of templates, `native_frames` folds frames
//! of native code into the Python frames that they serve, `api_names` knows calls of frameworks by their public names, `patterns` matches the
//! names of functions that are counted, `workload` knows whose work a control group does, and `shown` writes out what a terminal would obey:
//!
//! ```
//! use energy_trace_names::{file_name, shown::shown};
//!
//! assert_eq!(file_name("/usr/lib/libc.so.6"), "libc.so.6");
//! assert_eq!(shown("red\x1b[31m"), "red\\x1b[31m");
//! ```
//!
//! Pure: no files, no clock. Leaves out looking names up (packages `symbols` and `naming`).

pub mod api_names;
mod cells;
mod names;
pub mod native_frames;
pub mod patterns;
pub mod short_names;
pub mod shown;
pub mod workload;

pub use cells::cell_of;
pub use names::{
    BEHIND, CALLS, INSIDE, NameRule, PARTLY_INSIDE, file_name, frame_name, is_nameless, library_name,
    line_name, lines_of, name_and_rule, part_of, place_name, process_name, process_row_name, process_title,
    shorten, shorten_all, shorten_end, thread_name, thread_row_name, without_brackets, wrap,
};
