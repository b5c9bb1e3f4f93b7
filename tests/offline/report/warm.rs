//! A run on a machine with sensors: a processor that gets warm, and a GPU that slows down.

use super::training_runs::gpu_training;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, SensorId};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{
    Part, Sensor, SensorCost, SensorQuantity, SensorSeries, SensorValue, Slowdown,
};
use energy_trace_model::units::{KiloHertz, MilliCelsius};

/// Ten seconds: 40 °C for four of them, then 60 °C; the GPU at 1,400 MHz until it is slowed down to 700 in the last two. CPU 0 goes from
/// 1,000 to 3,000 MHz, CPU 1 stands at 3,000.
pub(crate) fn warm_training() -> Profile {
    let mut profile = gpu_training(true);
    let start = profile.run.start;
    let at = |s: u64| KtimeNs::from_ns(start.as_ns() + s * 1_000_000_000);
    let celsius = |c: i32| Some(SensorValue::Temperature(MilliCelsius::from_mc(c * 1000)));
    let mhz = |mhz: u32| Some(SensorValue::Clock(KiloHertz::from_khz(mhz * 1000)));
    let heat = |heat| Some(SensorValue::Slowdown(Slowdown { heat, ..Slowdown::default() }));
    let count = |count| Some(SensorValue::Count(count));
    let mut add = |part, quantity, limit: Option<i32>, values: Vec<(u64, Option<SensorValue>)>| {
        let id = SensorId::new(u32::try_from(profile.run.sensors.len()).unwrap());
        let limit = limit.map(|c| MilliCelsius::from_mc(c * 1000));
        let sensor = Sensor { id, part, quantity, place: "told <b>".into(), limit };
        let values = values.into_iter().map(|(s, value)| (at(s), value)).collect();
        profile.run.sensors.push(SensorSeries { sensor, values });
    };
    use SensorQuantity as Q;
    add(Part::Cpu(0), Q::Temperature, Some(100), vec![(0, celsius(40)), (4, celsius(60))]);
    add(Part::Gpu(0), Q::Clock, None, vec![(0, mhz(1400)), (8, mhz(700))]);
    add(Part::Gpu(0), Q::MemoryClock, None, vec![(0, mhz(5000))]);
    add(Part::Gpu(0), Q::Slowdown, None, vec![(0, heat(false)), (8, heat(true))]);
    add(Part::Cpu(0), Q::HeatSlowdowns, None, vec![(0, count(7)), (5, count(9))]);
    profile.run.sensor_cost = Some(SensorCost { rounds: 51, failed: 1, cpu_ns: 900_000 });
    let clock = |points: &[(u64, u32)]| {
        points.iter().map(|&(s, mhz)| (at(s), KiloHertz::from_khz(mhz * 1000))).collect::<Vec<_>>()
    };
    profile.run.clocks.insert(CpuId::new(0), clock(&[(0, 1000), (10, 3000)]));
    profile.run.clocks.insert(CpuId::new(1), clock(&[(0, 3000)]));
    profile
}
