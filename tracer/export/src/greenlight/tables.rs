//! Series of a call, as tables: the machine's energy and the call's own in each bin, and temperatures. Leaves out the rest of an entry.

use super::sites::Site;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::over_time::OverTime;
use energy_trace_model::recording::record::{DomainClass, SensorQuantity};
use energy_trace_model::units::MicroJoules;
use energy_trace_report::thermal::Gauge;
use serde::Serialize;
use serde_json::{Value, json};

/// How often sensors are read, in seconds.
pub(super) const SENSOR_INTERVAL_S: f64 = 0.2;

/// A table as pandas' `split` has it.
#[derive(Serialize)]
pub(super) struct Table {
    columns: &'static [&'static str],
    index: Vec<usize>,
    data: Vec<Vec<Value>>,
}

impl Table {
    fn new(columns: &'static [&'static str], data: Vec<Vec<Value>>) -> Option<Self> {
        (!data.is_empty()).then(|| Self { columns, index: (0..data.len()).collect(), data })
    }
}

/// Moments of the run as the data set has them.
pub(super) struct Clock {
    start: KtimeNs,
    start_unix_ns: u64,
}

impl Clock {
    pub(super) fn of(profile: &Profile, over_time: &OverTime) -> Self {
        let start = over_time.bins.span(0).0;
        Self { start, start_unix_ns: profile.run.header.anchor.unix_ns_of(start) }
    }

    pub(super) const fn start_unix_ns(&self) -> u64 {
        self.start_unix_ns
    }

    pub(super) fn unix_ns(&self, at: KtimeNs) -> u64 {
        self.start_unix_ns.saturating_add(at.ns_since(self.start))
    }

    pub(super) fn elapsed_s(&self, at: KtimeNs) -> f64 {
        at.ns_since(self.start) as f64 / 1e9
    }
}

/// Energy of all domains of a class, and of the call, in each bin from the call's first to its last.
pub(super) fn of_class(
    profile: &Profile,
    over_time: &OverTime,
    site: &Site,
    class: DomainClass,
) -> Option<Table> {
    let clock = Clock::of(profile, over_time);
    let row = |bin: u32| {
        let (from, _) = over_time.bins.span(bin);
        let own = site.bins.get(&bin).map_or(MicroJoules::ZERO, |energy| energy[class]);
        let machine = machine(profile, over_time, class, bin)?;
        Some(vec![json!(clock.elapsed_s(from)), json!(machine.as_joules()), json!(own.as_joules())])
    };
    let rows: Option<Vec<Vec<Value>>> = bins_of(site).map(row).collect();
    Table::new(&["time_elapsed", "energy (J)", "energy of this call (J)"], rows?)
}

/// The temperatures of a run, of which the parts' names begin with one of these words.
fn temperatures<'a>(gauges: &'a [Gauge], parts: &'static [&'static str]) -> impl Iterator<Item = &'a Gauge> {
    let is_one = |part: &str| parts.iter().any(|word| part.starts_with(word));
    gauges.iter().filter(move |gauge| gauge.quantity == SensorQuantity::Temperature && is_one(&gauge.part))
}

/// Power and temperature of all GPUs; the temperature is that of the warmest.
pub(super) fn of_gpu(
    profile: &Profile,
    over_time: &OverTime,
    gauges: &[Gauge],
    site: &Site,
) -> Option<Table> {
    let clock = Clock::of(profile, over_time);
    let row = |bin: u32| {
        let (from, to) = over_time.bins.span(bin);
        let seconds = (to.ns_since(from).max(1)) as f64 / 1e9;
        let power = machine(profile, over_time, DomainClass::Gpu, bin)?.as_joules() / seconds;
        let warm = temperatures(gauges, &["gpu"]).filter_map(|gauge| gauge.between(from, to));
        let celsius = warm.map(|shown| shown.mean).reduce(f64::max);
        let own = site.bins.get(&bin).map_or(MicroJoules::ZERO, |energy| energy[DomainClass::Gpu]);
        Some(vec![
            json!(clock.unix_ns(from)),
            json!(power),
            json!(clock.elapsed_s(from)),
            json!(celsius),
            json!(own.as_joules()),
        ])
    };
    let rows: Option<Vec<Vec<Value>>> = bins_of(site).map(row).collect();
    let columns = &["timestamp", "power_draw (W)", "time_elapsed", "temperature", "energy of this call (J)"];
    Table::new(columns, rows?)
}

/// What the processors' sensors said while the call ran, and last before; the machine's where they have none.
pub(super) fn of_temperatures(gauges: &[Gauge], site: &Site, clock: &Clock) -> Option<Table> {
    let (from, to) = site.window;
    let mut rows: Vec<(KtimeNs, f64)> = Vec::new();
    for gauge in temperatures(gauges, &["cpu", "machine"]) {
        let known = |(at, value): (KtimeNs, Option<f64>)| Some((at, value?)).filter(|_| at < to);
        let moments: Vec<(KtimeNs, f64)> = gauge.moments().filter_map(known).collect();
        let first = moments.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        rows.extend(moments.into_iter().skip(first));
    }
    rows.order_by_key(|(at, _)| *at);
    let row = |(at, celsius): (KtimeNs, f64)| {
        vec![json!(clock.elapsed_s(at)), json!(celsius), json!(clock.unix_ns(at))]
    };
    Table::new(&["time_elapsed", "temperature", "timestamp"], rows.into_iter().map(row).collect())
}

fn bins_of(site: &Site) -> impl Iterator<Item = u32> {
    let (first, last) = (site.bins.keys().next().copied(), site.bins.keys().next_back().copied());
    first.zip(last).map(|(first, last)| first..=last).into_iter().flatten()
}

/// `None` where the machine has no such domain.
fn machine(profile: &Profile, over_time: &OverTime, class: DomainClass, bin: u32) -> Option<MicroJoules> {
    let of_class = profile.ledger.iter().zip(&over_time.domains).filter(|(row, _)| row.class == class);
    let energies: Vec<MicroJoules> =
        of_class.filter_map(|(_, bins)| bins.get(bin as usize)).map(|bin| bin.measured).collect();
    (!energies.is_empty()).then(|| energies.into_iter().sum())
}
