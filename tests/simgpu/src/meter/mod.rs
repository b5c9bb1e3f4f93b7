//! What NVML's meters do to the truth: they step, lag, look at a part of the time only, have a gain, average, get lost and start anew.
//!
//! The models of boards are those of Yang et al. (SC '24, 70 boards: update period and averaging window) and of ml.energy's and Zeus's
//! measurements for the counter; lags are plausible and no board's data. Leaves out NVML's functions (`nvml`).

use crate::place::{Place, seconds};
use crate::scenario::whole;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A meter. In a scenario it may be a model's name, or an object with `model` and what is different.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Meter {
    /// Time between two steps of the counter and of the power, in milliseconds.
    pub tick_ms: u32,
    /// How old what the counter says is at its step, in milliseconds.
    pub lag_ms: u32,
    /// The part of each step, at its end, that the sensor looks at, in milliseconds; it takes that part's power for the whole step.
    pub window_ms: u32,
    /// What the sensor says over what is true.
    pub gain: f64,
    /// The counter at the start in millijoules.
    pub start_mj: u64,
    /// Whether there is an energy counter.
    pub counter: bool,
    /// Whether there is power without averaging (field 186).
    pub instant: bool,
    /// `nvmlDeviceGetPowerUsage` is the mean over so many milliseconds; 0: the same as the instant power.
    pub average_ms: u32,
    /// Time between two samples of the driver's own ring of power, in milliseconds; 0: the ring is not supported.
    pub sample_ms: u32,
    /// Whether the driver says how busy each process keeps the device.
    pub process_utilization: bool,
    /// Whether MIG is on.
    pub mig: bool,
    /// Whether this is a virtual GPU.
    pub vgpu: bool,
    /// Whether the counter belongs to a module of GPU and CPU, and the device itself has none.
    pub module: bool,
    /// From this time after the start on, in seconds, every call says that the GPU is lost.
    pub lost_after_s: Option<f64>,
    /// At this time after the start, in seconds, the counter begins at zero again.
    pub reset_after_s: Option<f64>,
    /// NVML's functions that say "not supported" on this device.
    pub unsupported: Vec<String>,
}

impl Default for Meter {
    /// A100.
    fn default() -> Self {
        Self {
            tick_ms: 100,
            lag_ms: 30,
            window_ms: 25,
            gain: 1.0,
            start_mj: 123_456,
            counter: true,
            instant: true,
            average_ms: 0,
            sample_ms: 20,
            process_utilization: true,
            mig: false,
            vgpu: false,
            module: false,
            lost_after_s: None,
            reset_after_s: None,
            unsupported: Vec::new(),
        }
    }
}

/// The models that `Meter::model` knows.
pub const MODELS: [&str; 6] = ["V100", "A100", "H100", "MIG", "AVERAGED", "IDEAL"];

impl Meter {
    /// The meter of a kind of board: `V100` (20 ms, looks at half), `A100` (100 ms, looks at 25 ms), `H100` (the same, and power averaged over a
    /// second), `MIG` (A100 with MIG on), `AVERAGED` (no counter, nothing but power averaged over a second), `IDEAL` (1 ms, no lag).
    pub fn model(name: &str) -> Option<Self> {
        let a100 = Self::default();
        Some(match name {
            "V100" => Self { tick_ms: 20, lag_ms: 10, window_ms: 10, ..a100 },
            "A100" => a100,
            "H100" => Self { lag_ms: 40, average_ms: 1000, ..a100 },
            "MIG" => Self { mig: true, process_utilization: false, ..a100 },
            "AVERAGED" => Self {
                counter: false,
                instant: false,
                average_ms: 1000,
                sample_ms: 0,
                process_utilization: false,
                ..a100
            },
            "IDEAL" => Self { tick_ms: 1, lag_ms: 0, window_ms: 1, ..a100 },
            _ => return None,
        })
    }

    /// The same without a window: the counter holds everything, only later.
    #[must_use]
    pub fn full_duty(self) -> Self {
        Self { window_ms: self.tick_ms, ..self }
    }

    /// How many steps the meter has made at a moment, and when what it shows then ended, both relative to the start.
    fn step(&self, place: &Place, now_ns: u64) -> (u64, u64) {
        let tick_ns = u64::from(self.tick_ms.max(1)) * 1_000_000;
        let lag_ns = u64::from(self.lag_ms) * 1_000_000;
        let steps = now_ns.saturating_sub(place.shared.start_ns()).saturating_sub(lag_ns) / tick_ns;
        (steps, steps * tick_ns)
    }

    /// The counter in millijoules.
    pub fn counter_mj(&self, place: &Place, device: usize, now_ns: u64) -> u64 {
        let (steps, until_ns) = self.step(place, now_ns);
        let since = self.reset_after_s.map_or(0, |s| whole(s * 1e9));
        let passed = now_ns.saturating_sub(place.shared.start_ns());
        let (from, base) = if since > 0 && passed >= since { (since, 0) } else { (0, self.start_mj) };
        let tick_ns = u64::from(self.tick_ms.max(1)) * 1_000_000;
        let uj = if self.window_ms >= self.tick_ms {
            self.energy_uj(place, device, from.min(until_ns), until_ns)
        } else {
            (from / tick_ns..steps).map(|step| self.seen_uj(place, device, step)).sum()
        };
        base + whole(uj * self.gain / 1000.0)
    }

    /// What the sensor takes one step for: the power at its end times its length.
    fn seen_uj(&self, place: &Place, device: usize, step: u64) -> f64 {
        let (tick, window) = (
            u64::from(self.tick_ms.max(1)),
            u64::from(self.window_ms.max(1)).min(self.tick_ms.max(1).into()),
        );
        let end_ns = (step + 1) * tick * 1_000_000;
        let ratio = f64::from(self.tick_ms.max(1)) / f64::from(self.window_ms.clamp(1, self.tick_ms.max(1)));
        self.energy_uj(place, device, end_ns - window * 1_000_000, end_ns) * ratio
    }

    fn energy_uj(&self, place: &Place, device: usize, from_ns: u64, to_ns: u64) -> f64 {
        let start = place.shared.start_ns();
        place.energy_uj(device, start + to_ns) - place.energy_uj(device, start + from_ns)
    }

    /// Power at the last step, without averaging, in milliwatts.
    pub fn instant_mw(&self, place: &Place, device: usize, now_ns: u64) -> u64 {
        let (_, until_ns) = self.step(place, now_ns);
        self.mean_mw(place, device, u64::from(self.window_ms.clamp(1, self.tick_ms.max(1))), until_ns)
    }

    /// What `nvmlDeviceGetPowerUsage` says, in milliwatts.
    pub fn usage_mw(&self, place: &Place, device: usize, now_ns: u64) -> u64 {
        match self.average_ms {
            0 => self.instant_mw(place, device, now_ns),
            over_ms => self.mean_mw(place, device, u64::from(over_ms), self.step(place, now_ns).1),
        }
    }

    /// The driver's ring of power: microseconds of `CLOCK_REALTIME`'s epoch are the caller's business; here nanoseconds of the common clock,
    /// and milliwatts, of the last two seconds.
    pub fn ring(&self, place: &Place, device: usize, now_ns: u64) -> Vec<(u64, u64)> {
        if self.sample_ms == 0 {
            return Vec::new();
        }
        let start = place.shared.start_ns();
        let every = u64::from(self.sample_ms) * 1_000_000;
        let last = now_ns.saturating_sub(start) / every;
        let first = last.saturating_sub(2_000 / u64::from(self.sample_ms)).max(1);
        let at =
            |n: u64| (start + n * every, self.mean_mw(place, device, u64::from(self.sample_ms), n * every));
        (first..=last).map(at).collect()
    }

    fn mean_mw(&self, place: &Place, device: usize, over_ms: u64, until_ns: u64) -> u64 {
        let from_ns = until_ns.saturating_sub(over_ms * 1_000_000);
        let passed = seconds(until_ns - from_ns);
        if passed <= 0.0 {
            return 0;
        }
        whole(self.energy_uj(place, device, from_ns, until_ns) * self.gain / passed / 1000.0)
    }

    /// Whether the device is lost by now.
    pub fn is_lost(&self, place: &Place, now_ns: u64) -> bool {
        let passed = seconds(now_ns.saturating_sub(place.shared.start_ns()));
        self.lost_after_s.is_some_and(|lost| passed >= lost)
    }
}

/// A model's name, or an object whose `model` gives what the rest does not say.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Meter, D::Error> {
    use serde::de::Error as _;
    let given = Value::deserialize(from)?;
    let known = |name: &str| {
        Meter::model(name).ok_or_else(|| D::Error::custom(format!("no meter {name}; known are {MODELS:?}")))
    };
    let Value::Object(mut fields) = given else {
        return known(given.as_str().unwrap_or_default());
    };
    let base = match fields.remove("model") {
        Some(model) => known(model.as_str().unwrap_or_default())?,
        None => Meter::default(),
    };
    let mut all = serde_json::to_value(base).map_err(D::Error::custom)?;
    if let Some(all) = all.as_object_mut() {
        all.extend(fields);
    }
    serde_json::from_value(all).map_err(D::Error::custom)
}
