//! The folder of one simulated machine: `scenario.json`, the device file that all processes share, and `truth.csv`.
//!
//! Leaves out what the device file holds (`shared`) and the log's lines (`truth`).

use crate::clock::now_ns;
use crate::scenario::Scenario;
use crate::shared::Shared;
use std::io::{Error, Result};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The environment variable with the folder's path.
pub const VARIABLE: &str = "SIMGPU_DIR";

/// A simulated machine, as one process sees it.
pub struct Place {
    folder: PathBuf,
    /// What is simulated.
    pub scenario: Scenario,
    /// The devices, shared with the other processes.
    pub shared: Shared,
}

impl Place {
    /// Makes the folder's files, and starts the clock of the counters. Whoever runs there may write them: programs under sudo do.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn create(folder: &Path, scenario: &Scenario) -> Result<Self> {
        Self::create_since(folder, scenario, now_ns())
    }

    /// The same with counters that began at this moment of the clock: at 0 for a machine that is yet to boot.
    ///
    /// # Errors
    /// As `create`.
    pub fn create_since(folder: &Path, scenario: &Scenario, start_ns: u64) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("scenario.json"), serde_json::to_vec_pretty(scenario)?)?;
        std::fs::write(truth_file(folder), format!("{}\n", crate::truth::HEADER))?;
        Shared::create(&folder.join("device"), scenario.devices.len(), start_ns)?;
        for (file, mode) in [("", 0o755), ("scenario.json", 0o644), ("truth.csv", 0o666), ("device", 0o666)] {
            std::fs::set_permissions(folder.join(file), std::fs::Permissions::from_mode(mode))?;
        }
        Self::open(folder)
    }

    /// Opens what `create` has made.
    ///
    /// # Errors
    /// When it is not there or not of this version.
    pub fn open(folder: &Path) -> Result<Self> {
        let text = std::fs::read(folder.join("scenario.json"))?;
        let scenario: Scenario = serde_json::from_slice(&text)?;
        let shared = Shared::open(&folder.join("device"), scenario.devices.len())?;
        Ok(Self { folder: folder.to_owned(), scenario, shared })
    }

    /// Opens the folder that the environment names.
    ///
    /// # Errors
    /// When there is none, or it cannot be opened.
    pub fn from_env() -> Result<Self> {
        let folder =
            std::env::var_os(VARIABLE).ok_or_else(|| Error::other(format!("{VARIABLE} is not set")))?;
        Self::open(Path::new(&folder))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The energy that a device really spent from the start to a moment, in microjoules: idle, with a context and without, and everything
    /// that ran.
    pub fn energy_uj(&self, device: usize, at_ns: u64) -> f64 {
        let Some(spec) = self.scenario.devices.get(device) else { return 0.0 };
        let seconds = seconds(at_ns.saturating_sub(self.shared.start_ns()));
        let with_context = self::seconds(self.shared.entered_for_ns(device, at_ns));
        let idle_uj = (spec.idle_watts * seconds + spec.context_watts * with_context) * 1e6;
        idle_uj + self.shared.active_uj(device, at_ns)
    }
}

/// Where the log lies.
pub fn truth_file(folder: &Path) -> PathBuf {
    folder.join("truth.csv")
}

/// Nanoseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "runs are far shorter than 2⁵³ ns")]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
