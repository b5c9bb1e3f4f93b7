//! Looking at a meter while it is read: its steps, the driver's own samples, power beside the counter, and which process is how busy.
//!
//! Leaves out what follows from it (`calibration.rs`). What is kept for that is bounded: of a long run, its first ten minutes.

use super::calibration::{self, Track};
use super::offer::{self, Offer};
use energy_trace_counters::grown;
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{GpuMeter, GpuMeterKind, GpuUse};
use energy_trace_model::units::MicroWatts;
use nvml_wrapper::enum_wrappers::device::Sampling;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::{Device, Nvml};

/// Time between two looks at the driver's samples, which hold some seconds, and at the processes, which are sampled each second or so.
const RING_NS: u64 = 500_000_000;
const USES_NS: u64 = 1_000_000_000;
/// The most steps and samples that are kept: ten minutes of 100 ms, and of 20 ms.
const MOST_EDGES: usize = 6_000;
const MOST_SAMPLES: usize = 30_000;
/// A shorter time with both is no comparison of two sensors; nor is one whose standard error is larger than this part: the
/// counter shows all of a step, and the power only the moment at which the sensor looked.
const COMPARED_NS: u64 = 500_000_000;
const SURE: f64 = 0.02;

/// What was seen of one device's meter.
pub(super) struct Watch {
    instant: bool,
    ring: bool,
    utilization: bool,
    last: Option<(KtimeNs, u64)>,
    /// The last step, and the power over it.
    stepped: Option<(KtimeNs, u64)>,
    power: Option<MicroWatts>,
    edges: Track,
    samples: Track,
    compared: Vec<Compared>,
    /// Readings since the last step that repeated it.
    repeats: u32,
    stamps_us: (u64, u64),
    next_ring: KtimeNs,
    next_uses: KtimeNs,
    uses: Vec<GpuUse>,
    /// The counter went back: when first, from and to which value in microjoules, and how often in all.
    pub(super) reset: Option<(KtimeNs, u64, u64, u32)>,
    /// When the device was found to be lost.
    pub(super) lost: Option<KtimeNs>,
}

/// A step of the counter beside the instant power.
struct Compared {
    /// How long after the one before it was seen.
    ns: u64,
    uj: u64,
    /// The instant power at it, in milliwatts.
    mw: u64,
}

impl Watch {
    /// Nothing seen yet. Only a counter is compared with power: a sum of power agrees with itself. What both comparisons show is known when a
    /// recording ends, so that an agent makes none: the driver's samples took three quarters of what it read of a GPU.
    pub(super) fn new(offer: &Offer, kind: GpuMeterKind, always_on: bool) -> Self {
        let never = KtimeNs::from_ns(0);
        Self {
            instant: offer.instant && kind == GpuMeterKind::Counter && !always_on,
            ring: offer.ring && !always_on,
            utilization: offer.utilization,
            last: None,
            stepped: None,
            power: None,
            edges: Track::new(),
            samples: Track::new(),
            compared: Vec::new(),
            repeats: 0,
            stamps_us: (0, 0),
            next_ring: never,
            next_uses: never,
            uses: Vec::new(),
            reset: None,
            lost: None,
        }
    }

    /// Takes a good reading. True when the meter has made a step, and surely one: it was read between this one and the one before.
    pub(super) fn see_counter(&mut self, at: KtimeNs, uj: u64) -> bool {
        let Some((before, old)) = self.last.replace((at, uj)) else { return false };
        if uj == old {
            self.repeats = self.repeats.saturating_add(1);
            return false;
        }
        let seen_singly = std::mem::take(&mut self.repeats) > 0;
        if grown(old, uj).is_none() {
            let (first, from, to, times) = self.reset.unwrap_or((at, old, uj, 0));
            self.reset = Some((first, from, to, times + 1));
        }
        let edge = (before.midpoint(at), uj);
        self.power = self.stepped.replace(edge).and_then(|from| power_between(from, edge));
        let kept = self.edges.len() < MOST_EDGES;
        if kept {
            self.edges.push(edge);
        }
        seen_singly && kept
    }

    /// Notes that the device is lost.
    pub(super) fn see_loss(&mut self, at: KtimeNs) {
        self.lost.get_or_insert(at);
    }

    /// Asks for what is due. Whatever fails is not there this time.
    pub(super) fn look(&mut self, nvml: &Nvml, device: &Device<'_>, at: KtimeNs, stepped: bool) {
        if stepped && self.instant {
            self.compare(nvml, device);
        }
        if self.ring && at >= self.next_ring && self.samples.len() < MOST_SAMPLES {
            self.next_ring = after(at, RING_NS);
            self.read_ring(device);
        }
        if self.utilization && at >= self.next_uses {
            self.next_uses = after(at, USES_NS);
            self.read_uses(device);
        }
    }

    /// Adds a step, with the instant power at it: that is when the sensor looked.
    fn compare(&mut self, nvml: &Nvml, device: &Device<'_>) {
        let &[.., (from, from_uj), (to, to_uj)] = self.edges.as_slice() else { return };
        let Some(uj) = grown(from_uj, to_uj) else { return };
        let Ok(mw) = offer::read_power_mw(nvml, device, GpuMeterKind::InstantPower) else { return };
        self.compared.push(Compared { ns: to.ns_since(from), uj, mw });
    }

    /// The power over the last step.
    pub(super) const fn last_power(&self) -> Option<MicroWatts> {
        self.power
    }

    /// The counter over the power for steps of this length, in thousandths; `None` where too little of both was seen.
    pub(super) fn agreement_permille(&self, tick_ns: u64) -> Option<u32> {
        agreement_permille(&self.compared, tick_ns)
    }

    fn read_ring(&mut self, device: &Device<'_>) {
        let anchor = energy_trace_system::clock::anchor();
        let Ok(samples) = device.samples(Sampling::Power, self.stamps_us.0) else { return };
        for sample in samples {
            let mw = match sample.value {
                SampleValue::U32(mw) => u64::from(mw),
                SampleValue::U64(mw) => mw,
                _ => continue,
            };
            self.stamps_us.0 = self.stamps_us.0.max(sample.timestamp);
            self.samples.push((moment(anchor, sample.timestamp), mw));
        }
    }

    fn read_uses(&mut self, device: &Device<'_>) {
        let anchor = energy_trace_system::clock::anchor();
        let Ok(samples) = device.process_utilization_stats(self.stamps_us.1) else { return };
        let earlier = self.stamps_us.1;
        for sample in samples {
            let to = moment(anchor, sample.timestamp);
            // The first look back is over the driver's own second.
            let from = match earlier {
                0 => KtimeNs::from_ns(to.as_ns().saturating_sub(USES_NS)),
                stamp => moment(anchor, stamp),
            };
            self.stamps_us.1 = self.stamps_us.1.max(sample.timestamp);
            let sm_percent = u8::try_from(sample.sm_util.min(100)).unwrap_or(100);
            self.uses.push(GpuUse { from, to, pid: Pid::new(sample.pid), sm_percent });
        }
    }

    pub(super) fn take_uses(&mut self) -> Vec<GpuUse> {
        std::mem::take(&mut self.uses)
    }

    /// Writes into the meter what the whole run has shown of it.
    pub(super) fn conclude(&self, meter: &mut GpuMeter) {
        let Some(tick_ns) = meter.tick_ns else { return };
        meter.agreement_permille = self.agreement_permille(tick_ns).or(meter.agreement_permille);
        if let Some(fit) = calibration::fit(&self.edges, &self.samples, tick_ns) {
            (meter.lag_ns, meter.window_ns) = (Some(fit.lag_ns), Some(fit.window_ns));
        }
    }
}

/// The mean power between two readings; `None` where the counter went back.
fn power_between((from, from_uj): (KtimeNs, u64), (to, to_uj): (KtimeNs, u64)) -> Option<MicroWatts> {
    let uw = u128::from(grown(from_uj, to_uj)?) * 1_000_000_000 / u128::from(to.ns_since(from).max(1));
    Some(MicroWatts::from_uw(u64::try_from(uw).unwrap_or(u64::MAX)))
}

/// The same of these steps, as a ratio of sums (Cochran, Sampling techniques, 1977, 6.3). Left out are those that were not
/// seen one by one. When a step was seen says too little of how long it was.
fn agreement_permille(compared: &[Compared], tick_ns: u64) -> Option<u32> {
    let by_power = |step: &Compared| step.mw as f64 * tick_ns as f64 / 1e6;
    let singly = compared.iter().skip(1).filter(|step| step.ns <= tick_ns.saturating_mul(3) / 2);
    let steps: Vec<(f64, f64)> = singly.map(|step| (step.uj as f64, by_power(step))).collect();
    let count = steps.len() as u64;
    if count < 2 || count.saturating_mul(tick_ns) < COMPARED_NS {
        return None;
    }
    let (counted, powered) = steps.iter().fold((0.0, 0.0), |sums, step| (sums.0 + step.0, sums.1 + step.1));
    let ratio = counted / powered;
    let square: f64 = steps.iter().map(|(uj, by_power)| (uj - ratio * by_power).powi(2)).sum();
    let error = (square * count as f64 / (count - 1) as f64).sqrt() / powered;
    (error <= SURE).then(|| (1000.0 * ratio).round() as u32)
}

/// A stamp in microseconds since 1970, on the one clock.
pub(super) fn moment(anchor: WallAnchor, stamp_us: u64) -> KtimeNs {
    let ago = anchor.unix_ns.saturating_sub(stamp_us.saturating_mul(1000));
    KtimeNs::from_ns(anchor.ktime.as_ns().saturating_sub(ago))
}

fn after(at: KtimeNs, ns: u64) -> KtimeNs {
    KtimeNs::from_ns(at.as_ns().saturating_add(ns))
}

#[cfg(test)]
mod tests {
    use super::{Compared, KtimeNs, MicroWatts, agreement_permille, power_between};

    const TICK_NS: u64 = 100_000_000;

    fn step(ms: u64, uj: u64, mw: u64) -> Compared {
        Compared { ns: ms * 1_000_000, uj, mw }
    }

    /// Steps of 80 and 120 ms by when they were seen, of 78 W by both; then seven steps that were seen as one (while
    /// programs were loaded): the counter is 2 % above the power, and too few steps say nothing.
    #[test]
    fn compared_where_steps_are_seen_singly() {
        let mut steps: Vec<Compared> = (0..7).map(|i| step(80 + i % 2 * 40, 7_956_000, 78_000)).collect();
        assert_eq!(agreement_permille(&steps, TICK_NS), Some(1020));
        steps.push(step(700, 55_692_000, 78_000));
        assert_eq!(agreement_permille(&steps, TICK_NS), Some(1020));
        assert_eq!(agreement_permille(&steps[..5], TICK_NS), None);
        assert_eq!(agreement_permille(&[], TICK_NS), None);
    }

    /// A server on an H100: each step has a burst of 800 W beside 430 W, which the power shows in one step of six. Nothing is
    /// said after a second; after a minute that both agree (they were 13 % apart where only the five were compared).
    #[test]
    fn bursts_that_the_power_seldom_shows_are_no_disagreement() {
        let of = |i: u64| step(100, 49_166_667, if i.is_multiple_of(6) { 800_000 } else { 430_000 });
        let steps: Vec<Compared> = (0..601).map(of).collect();
        assert_eq!(agreement_permille(&steps[..11], TICK_NS), None);
        assert!(agreement_permille(&steps, TICK_NS).is_some_and(|permille| permille.abs_diff(1000) < 5));
    }

    /// 12 J in a tenth of a second are 120 W; a counter that goes back says nothing.
    #[test]
    fn power_of_a_step() {
        let (from, to) = (KtimeNs::from_ns(5), KtimeNs::from_ns(5 + TICK_NS));
        assert_eq!(power_between((from, 7), (to, 12_000_007)), MicroWatts::from_watts(120.0));
        assert_eq!(power_between((from, 7), (to, 3)), None);
    }
}
