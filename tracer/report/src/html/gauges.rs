//! Temperatures and clocks as the page draws them below the power: a mean for each bin, and the bins in which something slowed a part down.
//!
//! Leaves out the clocks of memory, which move seldom and are far above the others.

use crate::thermal::{Gauge, gauges, slowed};
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::over_time::Bins;
use energy_trace_model::recording::record::SensorQuantity;
use energy_trace_names::shown::shown;
use serde::Serialize;
use std::collections::BTreeMap;

/// A temperature or clock in each bin: its mean, where it is known.
#[derive(Serialize)]
pub(super) struct GaugeLine {
    name: String,
    place: String,
    unit: &'static str,
    limit: Option<f64>,
    values: Vec<Option<f64>>,
}

/// The bins in which something slowed a part down.
#[derive(Serialize)]
pub(super) struct SlowedLine {
    part: String,
    by: &'static str,
    bins: Vec<u32>,
}

pub(super) fn lines(profile: &Profile, bins: Bins) -> Vec<GaugeLine> {
    let line = |gauge: Gauge| {
        let mean = |bin| {
            let (from, to) = bins.span(bin);
            gauge.between(from, to).map(|shown| (shown.mean * 10.0).round() / 10.0)
        };
        GaugeLine {
            name: gauge.part.clone(),
            place: shown(&gauge.place).into_owned(),
            unit: gauge.unit(),
            limit: gauge.limit,
            values: (0..bins.count()).map(mean).collect(),
        }
    };
    let drawn = gauges(profile).into_iter().filter(|gauge| gauge.quantity != SensorQuantity::MemoryClock);
    drawn.map(line).collect()
}

pub(super) fn slowed_lines(profile: &Profile, bins: Bins) -> Vec<SlowedLine> {
    let mut lines: BTreeMap<(String, &'static str), Vec<u32>> = BTreeMap::new();
    for bin in 0..bins.count() {
        let (from, to) = bins.span(bin);
        for found in slowed(profile, from, to) {
            lines.entry((found.part.to_string(), found.by.name())).or_default().push(bin);
        }
    }
    lines.into_iter().map(|((part, by), bins)| SlowedLine { part, by, bins }).collect()
}
