//! How fast CPUs' clocks ran, as the machine's cpufreq told while the recording went on. Part of what a recording holds (`record`).
//!
//! Between two entries of a CPU its clock went evenly from the one to the other; before the first and after the last it stood. What is read is
//! written where it strays from that: leaves out readings that a line between their neighbours shows well enough (`power/reading/cpu_clocks.rs`).

use crate::clock::KtimeNs;
use crate::ids::CpuId;
use crate::units::KiloHertz;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The clocks of some CPUs at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequencies {
    /// When.
    pub at: KtimeNs,
    /// Each CPU's.
    pub of: Vec<(CpuId, KiloHertz)>,
}

/// The clock of each CPU over time; empty where none was recorded.
pub type Clocks = BTreeMap<CpuId, Vec<(KtimeNs, KiloHertz)>>;
