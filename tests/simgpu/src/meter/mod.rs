//! What NVML's meters do to the truth: they step, lag, look at a part of the time only, have a gain, average, get lost and start anew.
//!
//! The models of boards are those of Yang et al. (SC '24, 70 boards: update period and averaging window) and of ml.energy's and Zeus's
//! measurements for the counter; lags are plausible and no board's data. `warmth` has temperatures and clocks. Leaves out NVML's functions (`nvml`).

mod warmth;

use crate::clock::now_ns;
use crate::place::{Place, seconds};
use crate::scenario::whole;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
pub use warmth::Warmth;

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
    /// What the counter says over what the sensor says, where the two disagree.
    pub counter_gain: f64,
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
    /// How long a reading of the counter takes, in microseconds of a CPU.
    pub read_us: u32,
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
    /// How warm the device becomes.
    pub warmth: Warmth,
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
            counter_gain: 1.0,
            start_mj: 123_456,
            counter: true,
            instant: true,
            average_ms: 0,
            sample_ms: 20,
            read_us: 0,
            process_utilization: true,
            mig: false,
            vgpu: false,
            module: false,
            lost_after_s: None,
            reset_after_s: None,
            warmth: Warmth::default(),
            unsupported: Vec::new(),
        }
    }
}

/// What a counter with a window has summed up so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    first: u64,
    next: u64,
    uj: f64,
}

/// The models that `Meter::model` knows.
pub const MODELS: [&str; 7] = ["V100", "A100", "H100", "H200", "MIG", "AVERAGED", "IDEAL"];

impl Meter {
    /// The meter of a kind of board: `V100` (20 ms, looks at half), `A100` (100 ms, looks at 25 ms), `H100` (the same, and power averaged over a
    /// second), `H200` (as the check on one found it: looks all the time, 10 ms late, each reading takes 3 ms), `MIG` (A100 with MIG on), `AVERAGED` (no counter, nothing but power averaged over a second), `IDEAL` (1 ms, no lag).
    pub fn model(name: &str) -> Option<Self> {
        let a100 = Self::default();
        Some(match name {
            "V100" => Self { tick_ms: 20, lag_ms: 10, window_ms: 10, ..a100 },
            "A100" => a100,
            "H100" => Self { lag_ms: 40, average_ms: 1000, ..a100 },
            "H200" => Self { lag_ms: 10, window_ms: 100, average_ms: 1000, read_us: 3_000, ..a100 },
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

    /// Keeps the calling CPU busy for as long as a reading takes.
    pub(crate) fn take_time(&self) {
        let until = now_ns() + u64::from(self.read_us) * 1000;
        while now_ns() < until {
            std::hint::spin_loop();
        }
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

    /// The counter in millijoules; `seen` is the caller's memory between two calls for the same device.
    pub fn counter_mj(&self, place: &Place, device: usize, now_ns: u64, seen: &mut Seen) -> u64 {
        let (steps, until_ns) = self.step(place, now_ns);
        let since = self.reset_after_s.map_or(0, |s| whole(s * 1e9));
        let passed = now_ns.saturating_sub(place.shared.start_ns());
        let (from, base) = if since > 0 && passed >= since { (since, 0) } else { (0, self.start_mj) };
        let uj = if self.window_ms >= self.tick_ms {
            self.energy_uj(place, device, from.min(until_ns), until_ns)
        } else {
            let first = from / (u64::from(self.tick_ms.max(1)) * 1_000_000);
            if seen.first != first || seen.next > steps {
                *seen = Seen { first, next: first, uj: 0.0 };
            }
            while seen.next < steps {
                seen.uj += self.seen_uj(place, device, seen.next);
                seen.next += 1;
            }
            seen.uj
        };
        base + whole(uj * self.gain * self.counter_gain / 1000.0)
    }

    /// What the sensor takes one step for: the power at its end times its length.
    fn seen_uj(&self, place: &Place, device: usize, step: u64) -> f64 {
        let tick_ms = self.tick_ms.max(1);
        let window_ms = self.window_ms.clamp(1, tick_ms);
        let end_ns = (step + 1) * u64::from(tick_ms) * 1_000_000;
        let seen = self.energy_uj(place, device, end_ns - u64::from(window_ms) * 1_000_000, end_ns);
        seen * f64::from(tick_ms) / f64::from(window_ms)
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

#[cfg(test)]
mod tests {
    use super::{Meter, Seen, deserialize};
    use crate::shared::{Engine, Job, WHOLE};
    use crate::{Place, Scenario};

    const MS: u64 = 1_000_000;

    /// A machine that idles at 60 W and is to work at 200 W above that for some stretches, each from and to in milliseconds.
    fn machine(folder: &tempfile::TempDir, meter: Meter, work_ms: &[(u64, u64)]) -> Place {
        let place = Place::create(folder.path(), &Scenario::new(meter, &[])).unwrap();
        for &(from, to) in work_ms {
            let job = Job {
                ready_ns: place.shared.start_ns() + from * MS,
                duration_ns: (to - from) * MS,
                engine: Engine::Compute,
                share: WHOLE,
                microwatts: 200_000_000,
                pid: 1,
            };
            // The machine is younger than the first stretch, so nothing is late.
            let (start, _) = place.shared.schedule(0, &job).unwrap();
            assert_eq!(start, job.ready_ns);
        }
        place
    }

    fn counter_mj(place: &Place, at_ms: u64) -> u64 {
        let meter = &place.scenario.devices[0].meter;
        meter.counter_mj(place, 0, place.shared.start_ns() + at_ms * MS, &mut Seen::default())
    }

    /// The counter steps with its tick, shows what was true a lag ago, and with a full window it loses nothing.
    #[test]
    fn steps_and_lags() {
        let folder = tempfile::tempdir().unwrap();
        let meter = Meter { start_mj: 1000, ..Meter::default() }.full_duty();
        let place = machine(&folder, meter, &[(10_050, 10_150)]);
        assert_eq!(counter_mj(&place, 10_129), 1000 + 60 * 10_000);
        assert_eq!(counter_mj(&place, 10_130), 1000 + 60 * 10_100 + 200 * 50);
        assert_eq!(counter_mj(&place, 10_229), counter_mj(&place, 10_130));
        assert_eq!(counter_mj(&place, 10_230), 1000 + 60 * 10_200 + 200 * 100);
        assert_eq!(place.energy_uj(0, place.shared.start_ns() + 10_200 * MS).round(), 632_000_000.0);
    }

    /// A sensor that looks at a quarter of the time takes that for all of it: work beside its window is not seen, work in it four times.
    #[test]
    fn windows() {
        let folder = tempfile::tempdir().unwrap();
        let meter = Meter { start_mj: 0, lag_ms: 0, ..Meter::default() };
        let place = machine(&folder, meter, &[(10_000, 10_075), (10_175, 10_200)]);
        assert_eq!(counter_mj(&place, 10_100), 60 * 10_100);
        assert_eq!(counter_mj(&place, 10_200), 60 * 10_200 + 200 * 100);
    }

    /// The gain multiplies, a reset begins at zero again, a lost device stays lost.
    #[test]
    fn gain_reset_loss() {
        let folder = tempfile::tempdir().unwrap();
        let meter = Meter {
            gain: 1.05,
            lag_ms: 0,
            start_mj: 500,
            reset_after_s: Some(20.0),
            lost_after_s: Some(30.0),
            ..Meter::default()
        };
        let place = machine(&folder, meter.full_duty(), &[]);
        assert_eq!(counter_mj(&place, 10_000), 500 + 630_000);
        assert_eq!(counter_mj(&place, 20_100), 6_300);
        let meter = &place.scenario.devices[0].meter;
        let lost = |at_ms: u64| meter.is_lost(&place, place.shared.start_ns() + at_ms * MS);
        assert_eq!((lost(29_999), lost(30_000)), (false, true));
    }

    /// Power averaged over a second rises for a second; instant power is there at the next step.
    #[test]
    fn averages() {
        let folder = tempfile::tempdir().unwrap();
        let meter = Meter { lag_ms: 0, ..Meter::model("H100").unwrap() };
        let place = machine(&folder, meter, &[(10_000, 14_000)]);
        let meter = &place.scenario.devices[0].meter;
        let at = |ms: u64| place.shared.start_ns() + ms * MS;
        assert_eq!(meter.instant_mw(&place, 0, at(10_100)), 260_000);
        assert_eq!(meter.usage_mw(&place, 0, at(10_100)), 80_000);
        assert_eq!(meter.usage_mw(&place, 0, at(11_000)), 260_000);
        let ring = meter.ring(&place, 0, at(10_040));
        assert_eq!(ring.last(), Some(&(at(10_040), 260_000)));
        assert_eq!(ring.len(), 101);
    }

    /// In a scenario a meter is a name, or a name with differences; a wrong name is an error.
    #[test]
    fn scenarios_name_models() {
        let read = |text: &str| deserialize(&mut serde_json::Deserializer::from_str(text));
        assert_eq!(read("\"V100\"").unwrap().tick_ms, 20);
        let changed = read(r#"{ "model": "H100", "lag_ms": 55 }"#).unwrap();
        assert_eq!((changed.average_ms, changed.lag_ms), (1000, 55));
        assert!(read("\"H300\"").is_err());
        assert!(read(r#"{ "lagms": 55 }"#).is_err());
    }
}
