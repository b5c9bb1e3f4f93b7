//! The library that targets load for their ranges: ours, and looked into before anything is traced.
//!
//! Leaves out the ranges themselves (`stacks/ranges.rs`).

use crate::prologue::{Spot, spot};
use energy_trace_foreign::files::Root;
use energy_trace_foreign::resolver::Worker;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// What is called once for each thread, path and label.
const FUNCTION: &str = "energy_trace_range";

/// The library that targets will load, and where in it the function begins that they tell.
pub(crate) fn place_in(library: &std::path::Path, worker: &Worker) -> Result<(File, u64), String> {
    let file = Root::default().open(library, true).map_err(|error| error.to_string())?;
    let facts = worker.facts(FUNCTION, &file, &[FUNCTION]).map_err(|error| error.to_string())?;
    let offset = facts.symbol(FUNCTION).and_then(|svma| facts.file_offset(svma));
    let offset = offset.ok_or_else(|| format!("{} has no {FUNCTION}", library.display()))?;
    let mut code = [0; 16];
    let read = file.read_at(&mut code, offset).unwrap_or(0);
    let Spot { offset: within, .. } = spot(code.get(..read).unwrap_or_default());
    Ok((file, offset + within))
}
