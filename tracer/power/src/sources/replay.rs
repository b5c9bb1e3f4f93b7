//! A log of another meter, named by the user.
//!
//! Leaves out the file itself (`meter_log`).

use crate::error::PowerError;
use crate::kind::{Discovered, Meter, Request, SourceKind};
use crate::meter_log::{NAME, Replay};
use energy_trace_model::recording::record::{IgnoredReason, Quality};
use std::path::Path;

/// A log of another meter.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: true,
    help: "A CSV file with the readings of another meter",
    title: "log of another meter",
    quality: Quality::Measured,
    why_not_auto: |_| Some(IgnoredReason::NeedsFile),
    discover,
};

fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let replay = Replay::open(request.file.unwrap_or(Path::new("")))?;
    let source = replay.describe();
    Ok(Discovered { source, meter: Some(Meter::Log(replay)), second_reader: None, diagnostics: Vec::new() })
}
