//! What programs told of their ranges: names by the numbers that samples carry.
//!
//! Leaves out the probe that is told (`object.rs`), and frames (`probe/stacks/ranges.rs`).

use super::uprobe_multi::{MultiLink, MultiProbe, Spot};
use aya::maps::{HashMap, MapData};
use energy_trace_model::recording::ranges::MORE_RANGES;
use std::os::fd::RawFd;
use std::path::Path;
use tracer_ebpf::ranges::marks::{self, MARKED};
use tracer_ebpf::ranges::{self, LABEL_BYTES};

/// The program that is told.
pub(super) const ON_RANGE: &str = "on_range";
/// The maps that have room where ranges are recorded.
pub(super) const MAPS: [&str; 4] = ["RANGE_WORDS", "RANGE_PATHS", "RANGE_LABELS", "CONTEXTS"];

/// The program that probes of ranges lead to, and its map.
pub(super) const ON_MARK: &str = "on_mark";
pub(super) const MARKS: &str = "RANGE_MARKS";

/// Ranges of all programs.
pub struct RangeMaps {
    pub(super) paths: HashMap<MapData, u64, ranges::Path>,
    pub(super) labels: HashMap<MapData, u64, [u8; LABEL_BYTES]>,
    /// The names of pairs of probes.
    pub marks: Vec<String>,
}

impl RangeMaps {
    /// The path around a path (0: none), and the name of its last range; `None` where it was not told.
    pub fn range(&self, path: u64) -> Option<(u64, String)> {
        if path & MARKED != 0 {
            return self.between_probes(path);
        }
        let [around, label] = self.paths.get(&path, 0).ok()?;
        let text = self.labels.get(&label, 0).ok()?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Some((around, String::from_utf8_lossy(text.get(..end)?).into_owned()))
    }

    fn between_probes(&self, path: u64) -> Option<(u64, String)> {
        let (around, pair) = marks::innermost(path);
        let Some(pair) = pair else { return Some((around, MORE_RANGES.to_owned())) };
        let place = usize::try_from(pair).ok()?.checked_sub(1)?;
        Some((around, self.marks.get(place)?.clone()))
    }
}

/// The program that probes of ranges lead to.
pub struct MarkProbes(pub(super) MultiProbe);

impl MarkProbes {
    pub(super) fn program(&self) -> RawFd {
        self.0.fd()
    }

    /// Probes places of a file.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn attach(&self, path: &Path, spots: &[Spot]) -> Result<MultiLink, String> {
        self.0.attach_spots(path, spots).map_err(|error| error.to_string())
    }
}
