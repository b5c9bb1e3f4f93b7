//! The numbers of all corrections, and under what circumstances a time was.
//!
//! Leaves out how they are found (`corrections`).

use crate::parts::LeftOut;
use energy_trace_model::units::MicroWatts;

/// The numbers of all corrections, as far as a run shows them; those before any was looked for are the
/// default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The exponent by which power goes with the clock (`clock_speed`); `None` where clocks do not differ, or
    /// nobody knows, and 0 where they make no difference.
    pub(crate) exponent: Option<f64>,
    /// η of hardware threads that share a core (`shared_cores`); `None` where none did.
    pub(crate) eta: Option<f64>,
    /// How far behind the counter is taken to be (`counter_delay`); intervals are that much earlier.
    pub(crate) delay_ns: u64,
    /// By which first-order lag power follows what runs, or the counter follows power (`lag`).
    pub(crate) lag_ns: u64,
    /// Whether what each fit may show is corrected (`drift`).
    pub(crate) in_fits: bool,
    /// The power of a socket's shared parts, whose energy is taken out (`shared_parts`).
    pub(crate) shared_parts: Option<MicroWatts>,
    /// Whether a call path may draw more or less while other CPUs are busy (`contention`); then times say how
    /// busy these were.
    pub(crate) contended: bool,
    /// Parts that are not asked.
    pub(crate) left_out: LeftOut,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            exponent: None,
            eta: None,
            delay_ns: 0,
            lag_ns: 0,
            in_fits: true,
            shared_parts: None,
            contended: false,
            left_out: LeftOut::NOTHING,
        }
    }
}

/// Under what circumstances a time on a CPU was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    /// For what part of it another hardware thread of the core was busy.
    pub(crate) shared: f64,
    /// The CPU's clock, in parts of the mean of all.
    pub(crate) clock: f64,
}
