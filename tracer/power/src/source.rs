//! What a power source is: the trait that each implements, the one that meters of GPUs have beside it, and what passes through them.
//!
//! Leaves out which sources there are (`sources/`) and when they are read (`reading/`).

use super::sensors::SensorReader;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::{
    Domain, GpuMeter, GpuUse, InUse, PowerDiagnostic, Quality, Source, SourceId, SourceNote,
};
use energy_trace_model::units::MicroWatts;
use std::time::Duration;

/// A source of energy counters that are read while the run lasts. One file of this room implements it for one kind of hardware.
pub trait PowerSource: Send {
    /// Its domains. Their ids are set when sources are put together.
    fn domains(&self) -> &[Domain];

    /// Reads every domain once, in the order of `domains`, and appends one attempt for each. A domain that cannot be read gives a text
    /// and is tried again at the next call; it never ends the run.
    fn read(&mut self, attempts: &mut Vec<Attempt>);

    /// How often it is to be read, where its steps are followed one by one; `None`: at the rate that is wanted, and at random distances.
    fn own_period(&self, _wanted: Duration) -> Option<Duration> {
        None
    }

    /// The temperatures and clocks of its devices, to be read on another thread.
    fn sensors(&self) -> Option<Box<dyn SensorReader>> {
        None
    }

    /// What the whole run has shown, for the reader.
    fn finish(&mut self) -> Vec<PowerDiagnostic> {
        Vec::new()
    }

    /// Its domains as meters of GPUs, where they say more than a counter does.
    fn gpu_meters(&mut self) -> Option<&mut dyn GpuMeters> {
        None
    }
}

/// Meters of GPUs, which step seldom and late, beside drivers that say who uses a device.
pub trait GpuMeters {
    /// Something that reads the meters quickly for a while, beside `read` and on another thread, to find out how they step.
    fn calibrator(&self) -> Calibrator;

    /// Takes what the calibrator has read, in the order of `domains`, and says what follows.
    fn learn(&mut self, tracks: Vec<Vec<(KtimeNs, u64)>>) -> Learned;

    /// NVML's numbers of devices, and the processes that compute on each now.
    fn users(&self) -> Vec<(u32, Vec<u32>)>;

    /// Whether a device still draws extra power for a program that has ended, so that its idle power cannot be measured yet.
    fn is_settling(&self) -> bool;

    /// How long they are still read after the run, because what they show is late.
    fn after_end(&self) -> Duration;

    /// What was learned beside the readings since the last call: the place in `domains`, and what.
    fn extras(&mut self) -> Vec<(usize, Extra)>;

    /// What the whole run has shown: extras, and findings for the reader.
    fn finish(&mut self) -> (Vec<(usize, Extra)>, Vec<PowerDiagnostic>);
}

/// Reads meters as fast as makes sense for so long, and returns what it read of each.
pub type Calibrator = Box<dyn FnOnce(Duration) -> Vec<Vec<(KtimeNs, u64)>> + Send>;

/// What quick readings of meters have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// For the reader of a report.
    pub notes: Vec<SourceNote>,
    /// The power of each domain meanwhile, in the order of `domains`, where it is known better than by readings at the usual rate.
    pub idle: Vec<Option<MicroWatts>>,
    /// What kept each domain busy meanwhile, so that its power was no idle power; empty where nothing is known of that.
    pub in_use: Vec<Option<InUse>>,
}

/// A fact beside the readings of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extra {
    /// How a GPU's meter behaves.
    GpuMeter(GpuMeter),
    /// Which processes kept a GPU busy.
    GpuUses(Vec<GpuUse>),
}

/// A source of counters of which nothing was found yet; `ignored` and `domains` tell what was.
pub(super) fn measured_source(name: &str, period: Duration) -> Source {
    Source {
        id: SourceId::from_name(name),
        domains: Vec::new(),
        period_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
        quality: Quality::Measured,
        ignored: Vec::new(),
        notes: Vec::new(),
    }
}

/// Reads, and says when: half-way between just before and just after.
pub(super) fn timed<T>(read: impl FnOnce() -> T) -> (KtimeNs, T) {
    let before = energy_trace_system::clock::now();
    let found = read();
    (before.midpoint(energy_trace_system::clock::now()), found)
}

/// One try at reading one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Half-way between just before and just after the read.
    pub at: KtimeNs,
    /// The counter in microjoules, or why it could not be read, as a sentence that names the place.
    pub counter_uj: Result<u64, String>,
}
