//! Temperatures, clocks and slowdowns as the JSON report has them. Leaves out curves: those are in the exports with a time axis.

use crate::thermal::{Extent, gauges, slowed};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::SensorQuantity;
use energy_trace_names::shown::shown;
use serde::Serialize;

/// What the sensors of a run said.
#[derive(Serialize)]
pub(super) struct ThermalLine {
    temperatures: Vec<TemperatureLine>,
    clocks: Vec<ClockLine>,
    slowed: Vec<SlowedLine>,
    /// What reading the sensors took.
    reading: Option<ReadingLine>,
}

#[derive(Serialize)]
struct TemperatureLine {
    part: String,
    sensor: String,
    limit_c: Option<f64>,
    min_c: f64,
    mean_c: f64,
    max_c: f64,
}

#[derive(Serialize)]
struct ClockLine {
    part: String,
    sensor: String,
    of: &'static str,
    min_mhz: f64,
    mean_mhz: f64,
    max_mhz: f64,
}

#[derive(Serialize)]
struct SlowedLine {
    part: String,
    by: &'static str,
    ns: Option<u64>,
    times: Option<u64>,
}

#[derive(Serialize)]
struct ReadingLine {
    rounds: u64,
    failed: u64,
    cpu_ns: u64,
}

impl ThermalLine {
    /// `None` where nothing was read.
    pub(super) fn of(profile: &Profile) -> Option<Self> {
        let run = &profile.run;
        let (mut temperatures, mut clocks) = (Vec::new(), Vec::new());
        for gauge in gauges(profile) {
            let Some(found) = gauge.between(run.start, run.end) else { continue };
            let (part, sensor) = (gauge.part.clone(), shown(&gauge.place).into_owned());
            let [min, mean, max] =
                [found.min, found.mean, found.max].map(|value| (value * 1e3).round() / 1e3);
            if gauge.quantity == SensorQuantity::Temperature {
                let limit_c = gauge.limit;
                temperatures.push(TemperatureLine {
                    part,
                    sensor,
                    limit_c,
                    min_c: min,
                    mean_c: mean,
                    max_c: max,
                });
            } else {
                let of = if gauge.quantity == SensorQuantity::MemoryClock { "memory" } else { "cores" };
                clocks.push(ClockLine { part, sensor, of, min_mhz: min, mean_mhz: mean, max_mhz: max });
            }
        }
        let slowed = slowed(profile, run.start, run.end).into_iter().map(|slowed| {
            let (ns, times) = match slowed.extent {
                Extent::Ns(ns) => (Some(ns), None),
                Extent::Times(times) => (None, Some(times)),
            };
            SlowedLine { part: slowed.part.to_string(), by: slowed.by.name(), ns, times }
        });
        let reading = run.sensor_cost.map(|cost| ReadingLine {
            rounds: cost.rounds,
            failed: cost.failed,
            cpu_ns: cost.cpu_ns,
        });
        let is_empty = temperatures.is_empty() && clocks.is_empty() && run.sensors.is_empty();
        (!is_empty).then(|| Self { temperatures, clocks, slowed: slowed.collect(), reading })
    }
}
