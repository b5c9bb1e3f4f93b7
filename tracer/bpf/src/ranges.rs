//! What programs told of their ranges: names by the numbers that samples carry.
//!
//! Leaves out the probe that is told (`object.rs`), and frames (`probe/stacks/ranges.rs`).

use aya::maps::{HashMap, MapData};
use tracer_ebpf::ranges::{self, LABEL_BYTES};

/// The program that is told.
pub(super) const ON_RANGE: &str = "on_range";
/// The maps that have room where ranges are recorded.
pub(super) const MAPS: [&str; 4] = ["RANGE_WORDS", "RANGE_PATHS", "RANGE_LABELS", "CONTEXTS"];

/// Ranges of all programs.
pub struct RangeMaps {
    pub(super) paths: HashMap<MapData, u64, ranges::Path>,
    pub(super) labels: HashMap<MapData, u64, [u8; LABEL_BYTES]>,
}

impl RangeMaps {
    /// The path around a path (0: none), and the name of its last range; `None` where it was not told.
    pub fn range(&self, path: u64) -> Option<(u64, String)> {
        let [around, label] = self.paths.get(&path, 0).ok()?;
        let text = self.labels.get(&label, 0).ok()?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        Some((around, String::from_utf8_lossy(text.get(..end)?).into_owned()))
    }
}
