//! Temperatures, clocks of GPUs and what slows parts down: read five times a second beside the counters, and handed on where they moved.
//!
//! A round is one system call of some microseconds for each value in sysfs, and some calls of the driver for each GPU; what all of them took
//! is counted. A value stands until the next one that is handed on: a temperature that has not changed, or a clock that has moved by less than
//! one part in a hundred, is not. Leaves out which sensors there are (`sensors/`).

use crate::sensors::SensorReader;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::SensorId;
use energy_trace_model::recording::record::{Record, Sensor, SensorCost, SensorReadings, SensorValue};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Time between two rounds. Drivers have a new value once or a few times a second.
const PERIOD: Duration = Duration::from_millis(200);
/// A clock has moved when it differs by more than one part in so many.
const MOVED: u32 = 100;

/// The sensors of this machine, open and ready to be read.
pub(crate) struct Sensors {
    readers: Vec<Box<dyn SensorReader>>,
    sensors: Vec<Sensor>,
    /// What was handed on last of each; `None`: nothing yet.
    known: Vec<Option<Option<SensorValue>>>,
    cost: SensorCost,
}

impl Sensors {
    /// All sensors of these readers; `None` where there are none.
    pub(crate) fn of(readers: impl Iterator<Item = Box<dyn SensorReader>>) -> Option<Self> {
        let readers: Vec<_> = readers.collect();
        let all = readers.iter().flat_map(|reader| reader.sensors());
        let sensors: Vec<Sensor> =
            (0..).zip(all).map(|(id, sensor)| Sensor { id: SensorId::new(id), ..sensor.clone() }).collect();
        let known = vec![None; sensors.len()];
        (!sensors.is_empty()).then(|| Self { readers, sensors, known, cost: SensorCost::default() })
    }

    /// Which there are, each at the position of its id.
    pub(crate) fn all(&self) -> &[Sensor] {
        &self.sensors
    }

    /// What they say now, in the order of their ids.
    pub(crate) fn read(&mut self) -> Vec<Option<SensorValue>> {
        self.readers.iter_mut().flat_map(|reader| reader.read()).collect()
    }

    /// Reads until it is told to stop, and once more then. Needs tokio's timers.
    pub(crate) async fn run(mut self, records: Sender<Record>, mut stopped: watch::Receiver<bool>) {
        // Where the writer has ended, the session knows why.
        let send = |record| {
            let _ = records.send(record);
        };
        self.sensors.iter().cloned().map(Record::Sensor).for_each(send);
        let mut interval = tokio::time::interval(PERIOD);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let last = tokio::select! {
                biased;
                _ = stopped.changed() => true,
                _ = interval.tick() => false,
            };
            self.round(energy_trace_system::clock::now())
                .map(Record::SensorReadings)
                .into_iter()
                .for_each(send);
            if last {
                break;
            }
        }
        send(Record::SensorCost(SensorCost {
            cpu_ns: energy_trace_system::clock::thread_cpu_ns(),
            ..self.cost
        }));
    }

    /// Reads every sensor once: what has moved.
    fn round(&mut self, at: KtimeNs) -> Option<SensorReadings> {
        let values = self.read();
        self.cost.rounds += 1;
        self.cost.failed += values.iter().filter(|value| value.is_none()).count() as u64;
        let mut of = Vec::new();
        for ((sensor, known), value) in self.sensors.iter().zip(&mut self.known).zip(values) {
            if known.is_none_or(|known| has_moved(known, value)) {
                *known = Some(value);
                of.push((sensor.id, value));
            }
        }
        (!of.is_empty()).then_some(SensorReadings { at, of })
    }
}

fn has_moved(known: Option<SensorValue>, read: Option<SensorValue>) -> bool {
    match (known, read) {
        (Some(SensorValue::Clock(known)), Some(SensorValue::Clock(read))) => {
            known.as_khz().abs_diff(read.as_khz()) > known.as_khz() / MOVED
        }
        (known, read) => known != read,
    }
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, Sensor, SensorId, SensorReader, SensorReadings, SensorValue, Sensors};
    use energy_trace_model::recording::record::{Part, SensorQuantity};
    use energy_trace_model::units::{KiloHertz, MilliCelsius};

    /// A temperature and a clock that say one thing after the other.
    struct Told(Vec<Sensor>, Vec<[Option<SensorValue>; 2]>);

    impl SensorReader for Told {
        fn sensors(&self) -> &[Sensor] {
            &self.0
        }

        fn read(&mut self) -> Vec<Option<SensorValue>> {
            self.1.remove(0).to_vec()
        }
    }

    fn sensor(quantity: SensorQuantity) -> Sensor {
        Sensor { id: SensorId::default(), part: Part::Gpu(0), quantity, place: "told".into(), limit: None }
    }

    /// What has not moved, or by less than a hundredth, is not handed on; what cannot be read is, once, and is counted each time.
    #[test]
    fn what_moves_is_handed_on() {
        let celsius = |mc| Some(SensorValue::Temperature(MilliCelsius::from_mc(mc)));
        let clock = |mhz: u32| Some(SensorValue::Clock(KiloHertz::from_khz(mhz * 1_000)));
        let told = vec![
            [celsius(40_000), clock(1_000)],
            [celsius(40_000), clock(1_009)],
            [celsius(41_000), clock(1_011)],
            [None, clock(1_011)],
            [None, clock(1_011)],
        ];
        let sensors = vec![sensor(SensorQuantity::Temperature), sensor(SensorQuantity::Clock)];
        let reader: Box<dyn SensorReader> = Box::new(Told(sensors, told));
        let mut sensors = Sensors::of(std::iter::once(reader)).unwrap();
        let ids: Vec<u32> = sensors.all().iter().map(|sensor| sensor.id.get()).collect();
        assert_eq!(ids, [0, 1]);
        let mut round = |at| sensors.round(KtimeNs::from_ns(at));
        let entry = |at, of: &[(u32, Option<SensorValue>)]| {
            let of = of.iter().map(|&(id, value)| (SensorId::new(id), value)).collect();
            Some(SensorReadings { at: KtimeNs::from_ns(at), of })
        };
        assert_eq!(round(1), entry(1, &[(0, celsius(40_000)), (1, clock(1_000))]));
        assert_eq!(round(2), None);
        assert_eq!(round(3), entry(3, &[(0, celsius(41_000)), (1, clock(1_011))]));
        assert_eq!(round(4), entry(4, &[(0, None)]));
        assert_eq!(round(5), None);
        assert_eq!((sensors.cost.rounds, sensors.cost.failed), (5, 2));
        assert!(Sensors::of(std::iter::empty()).is_none());
    }
}
