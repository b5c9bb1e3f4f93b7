//! `energy-trace debug frame RECORDING FRAME`: which rule named a frame, for whoever finds a wrong name.
//!
//! Hidden: it names files of energy-trace's source. Leaves out the stages (`report::frame_stages`).

use super::failure::Failure;
use super::output::{read_recording, write_to};
use clap::{Args, Subcommand};
use energy_trace_model::ids::FrameId;
use energy_trace_model::recording::Recording;
use energy_trace_report::frame_stages::{find, stages, write};
use energy_trace_unwind::cpython::module_name::ModuleRule;
use std::path::PathBuf;
use std::process::ExitCode;

/// Frames that are told of at once.
const MOST: usize = 20;

/// What the user typed after `debug`.
#[derive(Debug, Args)]
pub(super) struct DebugArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Say which rule named a frame
    Frame {
        /// Recording file
        #[arg(value_name = "RECORDING")]
        file: PathBuf,
        /// Its number, its name in a report, or a part of that
        #[arg(value_name = "FRAME-ID-OR-NAME")]
        frame: String,
    },
}

/// Says it.
pub(super) fn run(args: &DebugArgs) -> Result<ExitCode, Failure> {
    let What::Frame { file, frame } = &args.what;
    let recording = read_recording(file)?;
    let found = find(&recording, frame);
    if found.is_empty() {
        let most = recording.frames.len();
        return Err(Failure::usage(format!(
            "no frame of this recording is called {frame}: it has {most}, numbered from 0 on; a part of a name will do"
        )));
    }
    write_to(None, |out| {
        for id in found.iter().take(MOST) {
            write(out, &recording, *id, &stages(&recording, *id, named_module(&recording, *id)))?;
        }
        match found.len().checked_sub(MOST) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(out, "{more} more are called so: name one by its number"),
        }
    })
}

/// What named the module of a frame, as far as its name and its file tell.
fn named_module(recording: &Recording, id: FrameId) -> &'static str {
    let Some(frame) = recording.frames.get(id.index()) else { return "" };
    match ModuleRule::of(&frame.file, &frame.module) {
        ModuleRule::Frozen => "what is frozen into the interpreter is called so in the place of a file",
        ModuleRule::Main => "it is a cell of a notebook, or was typed or handed to the interpreter",
        ModuleRule::Path => "its file's path says so, and its own `__name__` the same or nothing",
        ModuleRule::OwnName => "its own `__name__`; of a program the name of its file, behind its package's",
    }
}
