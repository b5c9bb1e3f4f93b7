//! What the program (`workloads/oracle.py`) says of itself.

use energy_trace_model::clock::KtimeNs;
use std::path::Path;

/// A frame above the innermost, as the interpreter has it.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(from = "(String, u32, Option<Vec<String>>)")]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) line: u32,
    /// C functions between its caller and it, as words; `None`: not compared.
    pub(crate) words: Option<Vec<String>>,
}

impl From<(String, u32, Option<Vec<String>>)> for Told {
    fn from((name, line, words): (String, u32, Option<Vec<String>>)) -> Self {
        Self { name, line, words }
    }
}

/// One stay of one thread in a region.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Stay {
    pub(crate) region: String,
    pub(crate) thread: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Outermost first, without `spin`.
    pub(crate) frames: Vec<Told>,
}

impl Stay {
    /// Whether a thread was in it at that time.
    pub(crate) fn contains(&self, thread: u32, at: KtimeNs) -> bool {
        self.thread == thread && (self.from..self.to).contains(&at.as_ns())
    }
}

/// Reads what the program wrote.
pub(crate) fn read(path: &Path) -> Vec<Stay> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
