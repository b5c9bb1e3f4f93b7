//! NVIDIA GPUs through NVML: which devices there are, and their readings. This file and its folder are the only ones that name `nvml_wrapper`.
//!
//! The counter is `nvmlDeviceGetTotalEnergyConsumption` (Volta and later): millijoules since the driver was loaded, moving in steps of
//! 20 to 100 ms, so a reading without a step is no proof that nothing was spent. Where a device has none, what it offers instead decides
//! (`nvml/offer.rs`): the counter of its module, or its power, summed up (`power_sum.rs`). `nvml/watch.rs` looks at the meter while it is
//! read, `nvml/calibration.rs` says from that how it behaves, `nvml/findings.rs` has the sentences, `nvml/in_use.rs` says whether
//! a device was at work, `nvml/sensors.rs` has temperatures and clocks. Leaves out instances of MIG (NVIDIA gives
//! energy for the whole device only), and everything about kernels.

mod calibration;
mod findings;
mod in_use;
mod offer;
mod sensors;
mod watch;

use crate::error::{PowerError, ignored_reasons};
use crate::idle::baseline;
use crate::kind::{Discovered, Request, SourceKind, unless_gpus_are_off};
use crate::plan::PowerPlan;
use crate::power_sum::PowerSum;
use crate::sensors::SensorReader;
use crate::source::{Attempt, Calibrator, Extra, GpuMeters, Learned, PowerSource, measured_source};
use calibration::Track;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    Domain, DomainClass, GpuMeter, GpuMeterKind, Ignored, IgnoredReason, Origin, PowerDiagnostic, Quality,
    Scope, Source, SourceId, SourceNote,
};
use energy_trace_model::units::MicroWatts;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use offer::Offer;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use watch::Watch;

/// NVIDIA GPUs.
pub(super) const KIND: SourceKind = SourceKind {
    word: NAME,
    takes_file: false,
    help: "NVIDIA GPUs, through the driver's NVML library",
    title: "NVIDIA GPUs (NVML)",
    quality: Quality::Measured,
    why_not_auto: unless_gpus_are_off,
    discover,
};

/// The source's name.
const NAME: &str = "nvml";

/// The library that the driver installs.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Time between two readings while the meter's step is measured: much shorter than any step.
const FAST: Duration = Duration::from_millis(2);

/// Readings come after this part of the shortest step at the latest: as fast as steps, they would show none in one and two in the next; and a whole
/// part would meet each step at the same distance, so that its delay could not be seen.
const READ_EACH: f64 = 0.4;
/// And not before this part of it: more readings of a step say nothing more.
const READ_AFTER: f64 = 0.2;
/// But not more often than this.
const SHORTEST_PERIOD: Duration = Duration::from_millis(4);
/// And so seldom that they take no more than this part of a CPU, as long as steps can be followed: one of an H200's counter takes 3 ms, all of it busy in
/// the kernel.
const MOST_OF_CPU: f64 = 0.04;

/// Steps that are read after the end: what the counter shows is late, and the device draws for a while what it draws open and at rest. A step that is no
/// more than so many watts above the baseline shows a device that nobody used.
const STEPS_AFTER_END: f64 = 6.5;
const AT_REST: MicroWatts = MicroWatts::from_uw(5_000_000);

/// A library that the user named must work.
fn discover(request: &Request) -> Result<Discovered, PowerError> {
    let plan = request.plan;
    let discovered = find(plan);
    if discovered.meter.is_none() && !request.named && plan.nvml_lib.is_some() {
        return Err(PowerError::NvmlLibrary { why: ignored_reasons(&discovered.source) });
    }
    Ok(discovered)
}

/// Looks for NVIDIA devices. No library, no driver or no device is an ordinary result, with the reason in `source.ignored`. Devices whose
/// energy would be a sum of power readings are left out where only what is `measured` is wanted.
fn find(plan: &PowerPlan) -> Discovered {
    let mut source = measured_source(NAME, plan.period);
    let mut diagnostics = Vec::new();
    let path = plan.nvml_lib.as_deref().unwrap_or_else(|| Path::new(LIBRARY));
    let gpus = match open(path, plan, &mut source, &mut diagnostics) {
        Ok(gpus) => gpus,
        Err(e) => {
            source.ignored.push(Ignored { domain: NAME.to_owned(), reason: findings::explain(path, &e) });
            return Discovered { diagnostics, ..Discovered::counters(source, None::<Gpus>) };
        }
    };
    source.domains = gpus.domains.iter().map(|d| d.name.clone()).collect();
    if !gpus.gpus.is_empty() && gpus.gpus.iter().all(|gpu| !is_counter(gpu.meter.kind)) {
        source.quality = Quality::Estimated;
    }
    let gpus = (!gpus.domains.is_empty()).then_some(gpus);
    Discovered { diagnostics, ..Discovered::counters(source, gpus) }
}

fn open(
    library: &Path,
    plan: &PowerPlan,
    source: &mut Source,
    diagnostics: &mut Vec<PowerDiagnostic>,
) -> Result<Gpus, NvmlError> {
    let nvml = Nvml::builder().lib_path(library.as_os_str()).init()?;
    let count = nvml.device_count()?;
    if count == 0 {
        source.ignored.push(Ignored { domain: NAME.to_owned(), reason: IgnoredReason::NoDevice });
    }
    if let Ok(version) = nvml.sys_driver_version() {
        source.notes.push(SourceNote::Driver(version));
    }
    let (mut domains, mut gpus) = (Vec::new(), Vec::new());
    for index in 0..count {
        let name = format!("gpu-{index}");
        let offer = nvml.device_by_index(index).and_then(|device| Offer::read(&nvml, &device, index));
        match offer {
            Ok(offer) => {
                diagnostics.extend(findings::of_offer(&name, &offer));
                match offer.meter(plan.measured_only) {
                    Ok(kind) => {
                        source.notes.extend(offer.notes(&name));
                        domains.push(domain(&name, index, &offer, kind));
                        let watch = Watch::new(&offer, kind, plan.always_on);
                        gpus.push(Gpu::new(index, name, kind, watch));
                    }
                    Err(reason) => source.ignored.push(Ignored { domain: name, reason }),
                }
            }
            Err(e) => source.ignored.push(Ignored { domain: name, reason: findings::explain_device(&e) }),
        }
    }
    Ok(Gpus { nvml: Arc::new(nvml), domains, gpus, told: false })
}

const fn is_counter(kind: GpuMeterKind) -> bool {
    matches!(kind, GpuMeterKind::Counter | GpuMeterKind::ModuleCounter)
}

fn domain(name: &str, index: u32, offer: &Offer, kind: GpuMeterKind) -> Domain {
    let place = format!("{} ({})", offer.model, offer.uuid);
    let quality = if is_counter(kind) { Quality::Measured } else { Quality::Estimated };
    Domain {
        id: DomainId::default(),
        name: name.to_owned(),
        class: DomainClass::Gpu,
        scope: Scope::Gpu(index),
        origin: Origin::Counter { source: SourceId::Nvml, place, max_range: None, quality },
        idle: None,
    }
}

/// Time between two readings of a counter with such steps, of which one takes so long.
fn period(wanted: Duration, step: Duration, cost: Duration) -> Duration {
    let (shortest, longest) = (step.mul_f64(READ_AFTER), step.mul_f64(READ_EACH));
    wanted.max(shortest).max(cost.div_f64(MOST_OF_CPU)).min(longest).max(SHORTEST_PERIOD)
}

/// The devices that are read.
struct Gpus {
    nvml: Arc<Nvml>,
    domains: Vec<Domain>,
    gpus: Vec<Gpu>,
    /// Whether what they are was handed on: who looks on while they are read wants to know.
    told: bool,
}

/// A device that is read.
struct Gpu {
    /// NVML's index of it.
    index: u32,
    name: String,
    meter: GpuMeter,
    sum: PowerSum,
    watch: Watch,
    /// What the quickest reading of its counter took.
    quickest: Option<Duration>,
    /// Its power before the start.
    idle: Option<MicroWatts>,
}

impl Gpu {
    fn new(index: u32, name: String, kind: GpuMeterKind, watch: Watch) -> Self {
        let meter = GpuMeter { kind, tick_ns: None, lag_ns: None, window_ns: None, agreement_permille: None };
        Self { index, name, meter, sum: sum_of(kind), watch, quickest: None, idle: None }
    }

    /// The counter in microjoules that was read at a moment as millijoules, or of which the power was read, in milliwatts.
    fn counter_uj(&mut self, at: KtimeNs, value: u64) -> u64 {
        let in_thousandths = value.saturating_mul(1000);
        if is_counter(self.meter.kind) { in_thousandths } else { self.sum.add(at, in_thousandths) }
    }

    fn attempt(&mut self, nvml: &Nvml) -> Attempt {
        let before = energy_trace_system::clock::now();
        let read = nvml.device_by_index(self.index).and_then(|device| {
            let value = offer::read_meter(nvml, &device, self.meter.kind)?;
            Ok((device, value))
        });
        let after = energy_trace_system::clock::now();
        let (at, took) = (before.midpoint(after), after - before);
        self.quickest = Some(self.quickest.map_or(took, |quickest| quickest.min(took)));
        match read {
            Ok((device, value)) => {
                let uj = self.counter_uj(at, value);
                let stepped = self.watch.see_counter(at, uj);
                self.watch.look(nvml, &device, at, stepped);
                Attempt { at, counter_uj: Ok(uj) }
            }
            Err(e) => {
                if matches!(e, NvmlError::GpuLost) {
                    self.watch.see_loss(at);
                }
                Attempt { at, counter_uj: Err(format!("{}: {e}", self.name)) }
            }
        }
    }
}

/// Power is told to be missing where its sum stands still for seconds. That of use may do so while nothing runs: behind a silence it begins again.
fn sum_of(kind: GpuMeterKind) -> PowerSum {
    match kind {
        GpuMeterKind::Utilization => PowerSum::read_each(Duration::ZERO),
        _ => PowerSum::default(),
    }
}

impl Gpus {
    /// The steps of the counters that are read.
    fn steps(&self) -> impl Iterator<Item = Duration> {
        let counters = self.gpus.iter().filter(|gpu| is_counter(gpu.meter.kind));
        counters.filter_map(|gpu| gpu.meter.tick_ns).map(Duration::from_nanos)
    }
}

impl PowerSource for Gpus {
    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, attempts: &mut Vec<Attempt>) {
        attempts.extend(self.gpus.iter_mut().map(|gpu| gpu.attempt(&self.nvml)));
    }

    fn sensors(&self) -> Option<Box<dyn SensorReader>> {
        sensors::of(self)
    }

    fn own_period(&self, wanted: Duration) -> Option<Duration> {
        let shortest = self.steps().min()?;
        let cost: Duration = self.gpus.iter().filter_map(|gpu| gpu.quickest).sum();
        Some(period(wanted, shortest, cost))
    }

    fn gpu_meters(&mut self) -> Option<&mut dyn GpuMeters> {
        Some(self)
    }
}

impl GpuMeters for Gpus {
    fn calibrator(&self) -> Calibrator {
        let nvml = Arc::clone(&self.nvml);
        let devices: Vec<(u32, GpuMeterKind)> = self.gpus.iter().map(|g| (g.index, g.meter.kind)).collect();
        Box::new(move |over| {
            let end = energy_trace_system::clock::now().as_ns()
                + u64::try_from(over.as_nanos()).unwrap_or(u64::MAX);
            let mut tracks = vec![Track::new(); devices.len()];
            while energy_trace_system::clock::now().as_ns() < end {
                for (&(index, kind), track) in devices.iter().zip(&mut tracks) {
                    let value = nvml.device_by_index(index).and_then(|d| offer::read_meter(&nvml, &d, kind));
                    track.extend(value.ok().map(|value| (energy_trace_system::clock::now(), value)));
                }
                std::thread::sleep(FAST);
            }
            tracks
        })
    }

    fn learn(&mut self, tracks: Vec<Track>) -> Learned {
        let (mut idle, mut in_use) = (Vec::new(), Vec::new());
        for (gpu, track) in self.gpus.iter_mut().zip(tracks) {
            let since = track.first().map(|(at, _)| *at);
            in_use.push(since.and_then(|since| in_use::since(since, &self.nvml, gpu.index)));
            gpu.meter.tick_ns = calibration::tick_ns(&track);
            gpu.meter.agreement_permille =
                gpu.meter.tick_ns.and_then(|tick| gpu.watch.agreement_permille(tick));
            // A counter's steps are seen to 2 ms here, and to 20 ms at the usual rate: of 100 ms, that is a matter of percents.
            let counter_uj: Track = track.into_iter().map(|(at, mj)| (at, mj.saturating_mul(1000))).collect();
            gpu.idle = is_counter(gpu.meter.kind).then(|| baseline(&counter_uj)).flatten();
            idle.push(gpu.idle);
        }
        let notes = self.gpus.iter().flat_map(|gpu| findings::describe(&gpu.name, &gpu.meter)).collect();
        Learned { notes, idle, in_use }
    }

    fn after_end(&self) -> Duration {
        let at_rest = |gpu: &Gpu| gpu.idle.map(|idle| idle.as_uw().saturating_add(AT_REST.as_uw()));
        let used = |gpu: &Gpu| gpu.watch.last_power().map(MicroWatts::as_uw) > at_rest(gpu);
        let used = self.gpus.iter().any(|gpu| is_counter(gpu.meter.kind) && used(gpu));
        let longest = self.steps().max().filter(|_| used);
        longest.map_or(Duration::ZERO, |longest| longest.mul_f64(STEPS_AFTER_END))
    }

    fn users(&self) -> Vec<(u32, Vec<u32>)> {
        let users = |index| self.nvml.device_by_index(index).ok().map(|device| in_use::computing(&device));
        self.gpus.iter().filter_map(|gpu| Some((gpu.index, users(gpu.index)?))).collect()
    }

    fn is_settling(&self) -> bool {
        let stays_up =
            |gpu: &Gpu| self.nvml.device_by_index(gpu.index).is_ok_and(|device| in_use::stays_up(&device));
        self.gpus.iter().any(stays_up)
    }

    fn extras(&mut self) -> Vec<(usize, Extra)> {
        let uses = |(place, gpu): (usize, &mut Gpu)| {
            let uses = gpu.watch.take_uses();
            (!uses.is_empty()).then_some((place, Extra::GpuUses(uses)))
        };
        let uses: Vec<_> = self.gpus.iter_mut().enumerate().filter_map(uses).collect();
        let is_new = !std::mem::replace(&mut self.told, true);
        let meters = self.gpus.iter().filter(|_| is_new).map(|gpu| Extra::GpuMeter(gpu.meter));
        meters.enumerate().chain(uses).collect()
    }

    fn finish(&mut self) -> (Vec<(usize, Extra)>, Vec<PowerDiagnostic>) {
        let (mut extras, mut warnings) = (self.extras(), Vec::new());
        for (place, gpu) in self.gpus.iter_mut().enumerate() {
            gpu.watch.conclude(&mut gpu.meter);
            warnings.extend(findings::of_run(&gpu.name, &gpu.meter, &gpu.watch));
            extras.push((place, Extra::GpuMeter(gpu.meter)));
        }
        (extras, warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::{GpuMeterKind, KtimeNs, PowerPlan, find, period, sum_of};
    use energy_trace_sentences::ignored_reason;
    use std::time::Duration;

    /// A library that does not exist is an ordinary result that names the library and the option.
    #[test]
    fn no_library() {
        let found = find(&PowerPlan {
            nvml_lib: Some("/nonexistent/libnvidia-ml.so.1".into()),
            ..PowerPlan::default()
        });
        assert!(found.meter.is_none());
        let why = &ignored_reason(&found.source.ignored[0].reason);
        assert!(why.contains("/nonexistent/libnvidia-ml.so.1") && why.contains("--nvml-lib"), "{why}");
    }

    /// A counter of 100 ms is read each 20 ms at the earliest, each 40 ms at the latest, and seldom where a reading takes long.
    #[test]
    fn readings_cost_little() {
        let ms = Duration::from_millis;
        let step = ms(100);
        for wanted in [ms(20), ms(10)] {
            assert_eq!(period(wanted, step, Duration::from_micros(2)), ms(20));
        }
        assert_eq!(period(ms(500), step, Duration::from_micros(2)), ms(40));
        assert_eq!(period(ms(20), step, ms(1)), ms(25));
        assert_eq!(period(ms(20), step, ms(3)), ms(40));
        assert_eq!(period(ms(20), ms(5), Duration::ZERO), ms(4));
    }

    /// What was used in three seconds without a reading is not known, and must not be taken for none.
    #[test]
    fn sums_behind_a_silence() {
        let sums = [GpuMeterKind::InstantPower, GpuMeterKind::Utilization].map(|kind| {
            let mut sum = sum_of(kind);
            [0, 1_000, 4_000].map(|ms| sum.add(KtimeNs::from_ns(ms * 1_000_000), 100_000_000) / 1_000_000)
        });
        assert_eq!(sums, [[0, 100, 100], [0, 100, 0]]);
    }
}
