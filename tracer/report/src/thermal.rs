//! Temperatures and clocks of a run as curves: what they were on average in any stretch of it, their extremes, and what slowed parts down.
//!
//! Between two readings a temperature or a GPU's clock stands as it was read before; the clock of a CPU goes evenly from the one to the other
//! (`energy_trace_model::recording`). Leaves out how they are shown.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::diagnostics::{Diagnostic, SlowedBy};
use energy_trace_model::recording::record::{Part, SensorQuantity, SensorSeries, SensorValue, Slowdown};

/// The name of all CPUs' clocks together.
pub(crate) const CPUS: &str = "cpus";

/// A temperature or clock, in degrees Celsius or megahertz.
pub struct Gauge {
    /// `cpu-0`, `gpu-0`, `machine`; for the clocks of CPUs `cpus`.
    pub part: String,
    /// What it shows.
    pub quantity: SensorQuantity,
    /// Where it is read.
    pub(crate) place: String,
    /// Where the part slows down.
    pub(crate) limit: Option<f64>,
    /// One, or that of each CPU.
    curves: Vec<Curve>,
}

/// What a gauge showed in a stretch of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    pub(crate) min: f64,
    /// Over time.
    pub mean: f64,
    /// The highest.
    pub max: f64,
}

impl Gauge {
    /// Its unit.
    pub const fn unit(&self) -> &'static str {
        match self.quantity {
            SensorQuantity::Temperature => "°C",
            SensorQuantity::Clock | SensorQuantity::MemoryClock => "MHz",
            SensorQuantity::Slowdown | SensorQuantity::HeatSlowdowns => "",
        }
    }

    /// What it tells, in words.
    pub const fn word(&self) -> &'static str {
        match self.quantity {
            SensorQuantity::Temperature => "temperature",
            SensorQuantity::Clock => "clock",
            SensorQuantity::MemoryClock => "memory clock",
            SensorQuantity::Slowdown | SensorQuantity::HeatSlowdowns => "slowdown",
        }
    }

    /// What it showed between two moments; `None` where nothing is known.
    pub fn between(&self, from: KtimeNs, to: KtimeNs) -> Option<Shown> {
        let mut means = 0.0;
        let mut shown: Option<Shown> = None;
        let mut known = 0.0;
        for one in self.curves.iter().filter_map(|curve| curve.between(from, to)) {
            (means, known) = (means + one.mean, known + 1.0);
            let (min, max) =
                shown.map_or((one.min, one.max), |so_far| (so_far.min.min(one.min), so_far.max.max(one.max)));
            shown = Some(Shown { min, mean: means / known, max });
        }
        shown
    }

    /// The moments at which it was read, and what it said, each standing until the next.
    pub fn moments(&self) -> impl Iterator<Item = (KtimeNs, Option<f64>)> {
        self.curves.iter().flat_map(|curve| curve.points.iter().copied())
    }
}

/// All temperatures, then all clocks, of a run.
pub fn gauges(profile: &Profile) -> Vec<Gauge> {
    let of = |quantity| {
        let series = profile.run.sensors.iter().filter(move |series| series.sensor.quantity == quantity);
        series.map(of_sensor)
    };
    let mut gauges: Vec<Gauge> = of(SensorQuantity::Temperature).collect();
    gauges.extend(of_cpus(profile));
    gauges.extend(of(SensorQuantity::Clock));
    gauges.extend(of(SensorQuantity::MemoryClock));
    gauges.retain(|gauge| {
        gauge.curves.iter().any(|curve| curve.points.iter().any(|(_, value)| value.is_some()))
    });
    gauges
}

fn of_sensor(series: &SensorSeries) -> Gauge {
    let number = |value: SensorValue| match value {
        SensorValue::Temperature(at) => Some(f64::from(at.as_mc()) / 1e3),
        SensorValue::Clock(at) => Some(f64::from(at.as_khz()) / 1e3),
        SensorValue::Slowdown(_) | SensorValue::Count(_) => None,
    };
    let points = series.values.iter().map(|&(at, value)| (at, value.and_then(number))).collect();
    let sensor = &series.sensor;
    Gauge {
        part: sensor.part.to_string(),
        quantity: sensor.quantity,
        place: sensor.place.clone(),
        limit: sensor.limit.map(|at| f64::from(at.as_mc()) / 1e3),
        curves: vec![Curve { points, is_even: false }],
    }
}

/// The clocks of all CPUs together.
fn of_cpus(profile: &Profile) -> Option<Gauge> {
    let curve = |clock: &Vec<(KtimeNs, energy_trace_model::units::KiloHertz)>| {
        let points: Vec<_> =
            clock.iter().map(|&(at, value)| (at, Some(f64::from(value.as_khz()) / 1e3))).collect();
        // Before its first reading a clock stood.
        let first = points.first().map(|&(_, value)| (KtimeNs::default(), value));
        Curve { points: first.into_iter().chain(points).collect(), is_even: true }
    };
    let curves: Vec<Curve> = profile.run.clocks.values().map(curve).collect();
    (!curves.is_empty()).then(|| Gauge {
        part: CPUS.to_owned(),
        quantity: SensorQuantity::Clock,
        place: "cpufreq".to_owned(),
        limit: None,
        curves,
    })
}

/// A value over time.
struct Curve {
    points: Vec<(KtimeNs, Option<f64>)>,
    /// Whether it goes evenly from one point to the next, and does not stand until it.
    is_even: bool,
}

impl Curve {
    fn between(&self, from: KtimeNs, to: KtimeNs) -> Option<Shown> {
        let (mut area, mut known_ns) = (0.0, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let first = self.points.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        for (number, &(at, value)) in self.points.iter().enumerate().skip(first) {
            if at >= to {
                break;
            }
            let Some(value) = value else { continue };
            let next = self.points.get(number + 1);
            let end = next.map_or(to, |(at, _)| (*at).min(to));
            let start = at.max(from);
            let after = next.and_then(|(_, value)| *value).filter(|_| self.is_even).unwrap_or(value);
            let length = next.map_or(0, |(next, _)| next.ns_since(at));
            let on_the_way = |moment: KtimeNs| {
                let part = if length == 0 { 0.0 } else { moment.ns_since(at) as f64 / length as f64 };
                value + (after - value) * part
            };
            let (begun, ended, ns) = (on_the_way(start), on_the_way(end), end.ns_since(start) as f64);
            area += (begun + ended) / 2.0 * ns;
            known_ns += ns;
            (min, max) = (min.min(begun).min(ended), max.max(begun).max(ended));
        }
        (known_ns > 0.0).then(|| Shown { min, mean: area / known_ns, max })
    }
}

/// How a part was slowed down.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slowed {
    pub(crate) part: Part,
    pub(crate) by: SlowedBy,
    pub(crate) extent: Extent,
}

/// For how long, or how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extent {
    Ns(u64),
    Times(u64),
}

/// A cause, and whether a reading names it.
type Cause = (SlowedBy, fn(&Slowdown) -> bool);

const CAUSES: [Cause; 3] = [
    (SlowedBy::Heat, |why| why.heat),
    (SlowedBy::Power, |why| why.power),
    (SlowedBy::Unknown, |why| why.unknown),
];

/// What slowed parts down between two moments.
pub(crate) fn slowed(profile: &Profile, from: KtimeNs, to: KtimeNs) -> Vec<Slowed> {
    let mut found = Vec::new();
    for series in &profile.run.sensors {
        let part = series.sensor.part;
        let mut push = |by, extent| found.push(Slowed { part, by, extent });
        match series.sensor.quantity {
            SensorQuantity::Slowdown => {
                for (by, is_it) in CAUSES {
                    let ns = stretches(series, from, to, is_it);
                    if ns > 0 {
                        push(by, Extent::Ns(ns));
                    }
                }
            }
            SensorQuantity::HeatSlowdowns => {
                let times = counted(series, from, to);
                if times > 0 {
                    push(SlowedBy::Heat, Extent::Times(times));
                }
            }
            SensorQuantity::Temperature | SensorQuantity::Clock | SensorQuantity::MemoryClock => (),
        }
    }
    found
}

/// For how long something slowed a part down.
fn stretches(series: &SensorSeries, from: KtimeNs, to: KtimeNs, is_it: fn(&Slowdown) -> bool) -> u64 {
    let ends = series.values.iter().skip(1).map(|(at, _)| *at).chain([to]);
    let slowed = series.values.iter().zip(ends).filter(|((_, value), _)| match value {
        Some(SensorValue::Slowdown(why)) => is_it(why),
        _ => false,
    });
    slowed.map(|((at, _), end)| end.min(to).ns_since((*at).max(from))).fold(0, u64::saturating_add)
}

/// By how much a counter grew.
fn counted(series: &SensorSeries, from: KtimeNs, to: KtimeNs) -> u64 {
    let mut before = None;
    let mut grown = 0_u64;
    for &(at, value) in &series.values {
        let Some(SensorValue::Count(count)) = value else { continue };
        if at >= from && at <= to {
            grown = grown.saturating_add(before.map_or(0, |before| count.saturating_sub(before)));
        }
        before = Some(count);
    }
    grown
}

/// A GPU that draws as much power as it may does so by design; it is said where it was so for long.
const LONG: u64 = 20;

/// What the reader should know: a part that was slowed down draws less and takes longer, and the next run may be another.
pub(crate) fn slowdowns(profile: &Profile) -> Vec<Diagnostic> {
    let (start, end) = (profile.run.start, profile.run.end);
    let of_ns = end.ns_since(start);
    let found = slowed(profile, start, end).into_iter();
    found
        .filter_map(|Slowed { part, by, extent }| {
            let (ns, times) = match extent {
                Extent::Ns(ns) => (Some(ns), None),
                Extent::Times(times) => (None, Some(times)),
            };
            let is_short = ns.is_some_and(|ns| ns < of_ns / LONG);
            (by != SlowedBy::Power || !is_short).then_some(Diagnostic::SlowedDown {
                part,
                by,
                ns,
                times,
                of_ns,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Curve, Gauge, Shown, slowdowns};
    use crate::diagnostics::diagnostics;
    use crate::json::{self, JsonOptions};
    use crate::tests::warm::warm_training;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::recording::record::SensorQuantity;
    use energy_trace_sentences::diagnostic;

    fn gauge(is_even: bool, curves: &[&[(u64, Option<f64>)]]) -> Gauge {
        let curve = |points: &&[(u64, Option<f64>)]| Curve {
            points: points.iter().map(|&(at, value)| (KtimeNs::from_ns(at), value)).collect(),
            is_even,
        };
        let curves = curves.iter().map(curve).collect();
        Gauge {
            part: "cpu-0".into(),
            quantity: SensorQuantity::Temperature,
            place: "told".into(),
            limit: None,
            curves,
        }
    }

    fn between(gauge: &Gauge, from: u64, to: u64) -> Option<(f64, f64, f64)> {
        let Shown { min, mean, max } = gauge.between(KtimeNs::from_ns(from), KtimeNs::from_ns(to))?;
        Some((min, mean, max))
    }

    /// A temperature stands until its next reading; where it could not be read, nothing is known and the mean is of the rest.
    #[test]
    fn values_stand() {
        let warm = gauge(false, &[&[(10, Some(40.0)), (20, Some(60.0)), (30, None), (40, Some(50.0))]]);
        assert_eq!(between(&warm, 10, 30), Some((40.0, 50.0, 60.0)));
        assert_eq!(between(&warm, 15, 40), Some((40.0, (40.0 * 5.0 + 60.0 * 10.0) / 15.0, 60.0)));
        assert_eq!(between(&warm, 100, 200), Some((50.0, 50.0, 50.0)), "the last value stands");
        assert_eq!(between(&warm, 0, 10), None);
        assert_eq!(between(&warm, 31, 39), None);
    }

    /// A CPU's clock goes evenly from one reading to the next; several are averaged, with the extremes of all.
    #[test]
    fn clocks_move_evenly() {
        let clock = gauge(true, &[&[(0, Some(1000.0)), (10, Some(2000.0))]]);
        assert_eq!(between(&clock, 0, 10), Some((1000.0, 1500.0, 2000.0)));
        assert_eq!(between(&clock, 5, 10), Some((1500.0, 1750.0, 2000.0)));
        let two = gauge(true, &[&[(0, Some(1000.0))], &[(0, Some(3000.0)), (10, Some(3000.0))]]);
        assert_eq!(between(&two, 0, 5), Some((1000.0, 2000.0, 3000.0)));
    }

    fn thermal(profile: &energy_trace_model::profile::Profile) -> serde_json::Value {
        let mut out = Vec::new();
        json::write(&mut out, profile, &JsonOptions::default()).unwrap();
        serde_json::from_slice::<serde_json::Value>(&out).unwrap()["meta"]["thermal"].take()
    }

    /// The report has means over time and extremes, of the part of the run that it is of; a run without sensors has none.
    #[test]
    fn the_report_has_them() {
        let mut profile = warm_training();
        let found = thermal(&profile);
        let warm = &found["temperatures"][0];
        assert_eq!((&warm["part"], &warm["limit_c"]), (&"cpu-0".into(), &100.0.into()));
        assert_eq!(
            [&warm["min_c"], &warm["mean_c"], &warm["max_c"]].map(|v| v.as_f64().unwrap()),
            [40.0, 52.0, 60.0]
        );
        let means: Vec<(&str, f64)> = found["clocks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|clock| (clock["part"].as_str().unwrap(), clock["mean_mhz"].as_f64().unwrap()))
            .collect();
        assert_eq!(means, [("cpus", 2500.0), ("gpu-0", 1260.0), ("gpu-0", 5000.0)]);
        let slowed = serde_json::json!([
            { "part": "gpu-0", "by": "heat", "ns": 2_000_000_000_u64, "times": null },
            { "part": "cpu-0", "by": "heat", "ns": null, "times": 2 },
        ]);
        assert_eq!(found["slowed"], slowed);
        assert_eq!(found["reading"], serde_json::json!({ "rounds": 51, "failed": 1, "cpu_ns": 900_000 }));
        profile.run.end = KtimeNs::from_ns(profile.run.start.as_ns() + 4_000_000_000);
        assert_eq!(thermal(&profile)["temperatures"][0]["mean_c"], 40.0);
        assert_eq!(thermal(&profile)["slowed"], serde_json::json!([]));
        assert!(thermal(&crate::tests::training_runs::measured_training()).is_null());
    }

    /// A part that was slowed down is warned of, with why, how much, and what to do. A short time at the limit of power is not.
    #[test]
    fn slowdowns_are_told() {
        let mut profile = warm_training();
        let texts: Vec<String> =
            diagnostics(&profile).iter().filter(|d| d.code() == "slowed-down").map(diagnostic).collect();
        assert!(
            texts[0].starts_with("gpu-0 was slowed down for 20.0 % of the time because it was too warm"),
            "{texts:?}"
        );
        assert!(texts[1].starts_with("cpu-0 was slowed down 2 times because it was too warm"), "{texts:?}");
        let series = &mut profile.run.sensors[3];
        let why = |power| {
            Some(super::SensorValue::Slowdown(super::Slowdown { power, ..super::Slowdown::default() }))
        };
        series.values = vec![
            (profile.run.start, why(true)),
            (KtimeNs::from_ns(profile.run.start.as_ns() + 400_000_000), why(false)),
        ];
        assert_eq!(slowdowns(&profile).len(), 1, "the processor's alone");
    }
}
