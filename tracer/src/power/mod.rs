//! Power sources: what this machine can say about its energy, read on one clock.
//!
//! A source turns hardware (or a file) into `Reading`s; it never computes a difference. Differences, wraps and gaps are `timeline/`'s.

use crate::profile::record::{Domain, Reading, Source};

/// A source of energy readings. One file of this room implements it for one kind of hardware.
pub trait PowerSource: Send {
    /// What it is, what it reads and what it ignores, for the recording's header.
    fn describe(&self) -> Source;

    /// Its domains. Their ids are set when sources are put together.
    fn domains(&self) -> &[Domain];

    /// Reads every domain once, in the order of `domains`. A domain that cannot be read gives `CounterValue::Failed` and a line in
    /// `problems`; it never ends the run.
    fn read(&mut self, problems: &mut Vec<String>) -> Vec<Reading>;
}
