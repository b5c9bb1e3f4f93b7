//! What attribution makes of a simulated GPU's recording, against its truth, and beside splits that know no energies.

use super::recording::{at, recording, stack_of};
use super::world::{Kind, Launch, MeterModel, World};
use energy_trace_attribution::attribute;
use energy_trace_certainty::{HowSure as _, Uncertainty};
use energy_trace_model::ids::{DomainId, ThreadKey};
use energy_trace_model::profile::Options;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{
    DomainClass, GpuBusy, GpuMeter, GpuMeterKind, LaunchDiagnostic, PowerDiagnostic, RecordingDiagnostic,
};
use energy_trace_model::units::MicroJoules;
use serde::Serialize;

/// Joules charged to each site.
fn charged(profile: &Profile, sites: usize) -> Vec<f64> {
    let of = |site: usize| {
        let rows = profile.rows.iter().filter(|row| row.stack == Some(stack_of(site)));
        rows.map(|row| row.energy[DomainClass::Gpu].as_joules()).sum()
    };
    (0..sites).map(of).collect()
}

/// What ledger and rows do not add up to, in microjoules.
pub fn imbalance_uj(profile: &Profile) -> i64 {
    let rows: MicroJoules = profile.rows.iter().map(|row| row.energy[DomainClass::Gpu]).sum();
    let gpus = || profile.ledger.iter().filter(|row| row.class == DomainClass::Gpu);
    let target: MicroJoules = gpus().map(|row| row.target).sum();
    gpus().map(|row| row.imbalance().as_uj().abs()).sum::<i64>() + (rows - target).as_uj().abs()
}

/// Whether a range holds so many joules.
pub fn within((low, high): (MicroJoules, MicroJoules), joules: f64) -> bool {
    (low.as_joules()..=high.as_joules()).contains(&joules)
}

/// Mean and worst error in percent.
pub fn errors(is: &[f64], should: &[f64]) -> (f64, f64) {
    let each: Vec<f64> =
        is.iter().zip(should).map(|(is, should)| 100.0 * (is - should).abs() / should).collect();
    (each.iter().sum::<f64>() / each.len() as f64, each.iter().copied().fold(0.0, f64::max))
}

/// What a split of each step of the counter gives, by how often each site launched in it.
pub fn by_count(world: &World, readings: &[(u64, u64)], sites: usize) -> Vec<f64> {
    naive(world, readings, sites, |launch| (launch.at, 1.0))
}

/// The same by how long what ran in it took, which the launch tier does not even know.
pub fn by_duration(world: &World, readings: &[(u64, u64)], sites: usize) -> Vec<f64> {
    naive(world, readings, sites, |launch| (launch.from, (launch.until - launch.from) as f64))
}

/// Splits each step by the weights of the launches whose moment is in it.
fn naive(
    world: &World,
    readings: &[(u64, u64)],
    sites: usize,
    of: impl Fn(&Launch) -> (u64, f64),
) -> Vec<f64> {
    let mut seen = readings.to_vec();
    seen.dedup_by_key(|reading| reading.1);
    let mut parts: Vec<(u64, f64, usize)> = vec![];
    parts.extend(world.launches.iter().map(|launch| (of(launch).0, of(launch).1, launch.site)));
    parts.sort_by_key(|part| part.0);
    let mut joules = vec![0.0; sites];
    for pair in seen.windows(2) {
        let &[(from, before), (until, after)] = pair else { continue };
        let idle = world.idle_watts * (until - from) as f64 / 1e9;
        let dynamic = ((after - before) as f64 / 1e6 - idle).max(0.0);
        let index = |at: u64| parts.partition_point(|part| part.0 < at);
        let here = &parts[index(from)..index(until)];
        let all: f64 = here.iter().map(|part| part.1).sum();
        here.iter().for_each(|(_, weight, site)| joules[*site] += dynamic * weight / all);
    }
    joules
}

/// How far into GPUs the product looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    Launch,
    Kernel,
}

impl Tier {
    /// The word behind `--gpu`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Kernel => "kernel",
        }
    }

    /// What is aimed at: mean and worst error in percent.
    pub const fn goal(self) -> (f64, f64) {
        match self {
            Self::Launch => (5.0, 15.0),
            Self::Kernel => (2.0, 5.0),
        }
    }
}

fn busy(launch: &Launch) -> GpuBusy {
    GpuBusy {
        device: 0,
        thread: ThreadKey::new(0),
        stack: stack_of(launch.site),
        launched: at(launch.at),
        from: at(launch.from),
        until: at(launch.until),
        count: 1,
        busy_ns: launch.until - launch.from,
    }
}

/// What attribution made of a world.
pub struct Outcome {
    pub profile: Profile,
    /// Joules of each site: what they are, and what was charged.
    pub truth: Vec<f64>,
    pub charged: Vec<f64>,
}

impl Outcome {
    pub fn of(world: &mut World, kinds: &[Kind], meter: MeterModel, baseline: f64) -> Self {
        Self::with(world, kinds, meter, baseline, Tier::Launch)
    }

    /// As a tier records it: with the time of each kernel or without.
    pub fn with(world: &mut World, kinds: &[Kind], meter: MeterModel, baseline: f64, tier: Tier) -> Self {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        let readings = world.readings(meter);
        let mut recording = recording(world, &names, &readings, Some(baseline));
        let kind = if meter.averaged > 0 { GpuMeterKind::AveragedPower } else { GpuMeterKind::Counter };
        let facts = GpuMeter { kind, tick_ns: None, lag_ns: None, window_ns: None, agreement_permille: None };
        recording.gpu_facts.meters.insert(DomainId::new(0), facts);
        if tier == Tier::Kernel {
            recording.gpu.busy = world.launches.iter().map(busy).collect();
        }
        let domain = || "gpu-0".to_owned();
        let mig = (meter.name == "MIG").then(|| PowerDiagnostic::GpuMig { domain: domain() });
        let streams =
            (world.streams > 1).then(|| LaunchDiagnostic::Streams { domain: domain(), percent: 50 });
        if let Some(summary) = &mut recording.summary {
            summary.diagnostics.extend(mig.map(RecordingDiagnostic::from));
            summary.diagnostics.extend(streams.map(RecordingDiagnostic::from));
        }
        let profile = attribute(&recording, &Options::default());
        assert_eq!(imbalance_uj(&profile), 0);
        let charged = charged(&profile, kinds.len());
        Self { truth: world.truth(kinds.len()), charged, profile }
    }

    pub fn uncertainty(&self, site: usize) -> Uncertainty {
        let row = self.profile.rows.iter().position(|row| row.stack == Some(stack_of(site)));
        let energy = MicroJoules::from_uj((self.charged[site] * 1e6) as i64);
        self.profile.certainty.of(&[row.expect("each site has a row")], |_| true, energy)
    }

    pub fn identified(&self, site: usize) -> bool {
        self.uncertainty(site).bounds.is_none()
    }

    /// Error of each site that is identified.
    pub fn errors(&self) -> (f64, f64) {
        let identified = |values: &[f64]| -> Vec<f64> {
            let known = values.iter().enumerate().filter(|(site, _)| self.identified(*site));
            known.map(|(_, value)| *value).collect()
        };
        errors(&identified(&self.charged), &identified(&self.truth))
    }

    pub fn has(&self, code: &str) -> bool {
        self.profile.diagnostics.iter().any(|found| found.code() == code)
    }

    /// Truths in their 95 % interval, and all truths.
    pub fn covered(&self) -> (usize, usize) {
        let inside = |site: &usize| within(self.uncertainty(*site).ci95, self.truth[*site]);
        ((0..self.truth.len()).filter(inside).count(), self.truth.len())
    }
}
