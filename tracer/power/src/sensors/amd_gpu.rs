//! Temperature and clocks of AMD GPUs: the `hwmon` folder of each card whose energy is read.
//!
//! `temp1` is the edge of the die in thousandths of a degree, `freq1` the graphics clock and `freq2` that of memory, both in hertz (Linux
//! v6.12, Documentation/gpu/amdgpu/thermal.rst). Leaves out the other sensors of the die, memory, fans, and what slows a card down.

use super::SensorReader;
use crate::counter_file::CounterFile;
use energy_trace_model::ids::SensorId;
use energy_trace_model::recording::record::{Part, Sensor, SensorQuantity, SensorValue};
use energy_trace_model::units::{KiloHertz, MilliCelsius};
use std::fs;
use std::path::{Path, PathBuf};

const FILES: [(SensorQuantity, &str); 3] = [
    (SensorQuantity::Temperature, "temp1_input"),
    (SensorQuantity::Clock, "freq1_input"),
    (SensorQuantity::MemoryClock, "freq2_input"),
];

/// Those of cards, each by its number and its folder.
pub(crate) fn of_cards(cards: impl Iterator<Item = (u32, PathBuf)>) -> Option<Box<dyn SensorReader>> {
    let (sensors, files): (Vec<_>, Vec<_>) =
        cards.flat_map(|(number, folder)| of_card(number, &folder)).unzip();
    (!sensors.is_empty()).then(|| Box::new(AmdGpus { sensors, files }) as Box<dyn SensorReader>)
}

fn of_card(number: u32, folder: &Path) -> Vec<(Sensor, CounterFile)> {
    let chips = fs::read_dir(folder.join("hwmon")).into_iter().flatten().flatten();
    let Some(chip) = chips.map(|entry| entry.path()).min() else { return Vec::new() };
    let limit = fs::read_to_string(chip.join("temp1_crit")).ok();
    let limit = limit.and_then(|text| text.trim().parse().ok()).map(MilliCelsius::from_mc);
    let sensor = |(quantity, name): &(SensorQuantity, &str)| {
        let file = CounterFile::open_signed(chip.join(name)).ok()?;
        let limit = limit.filter(|_| *quantity == SensorQuantity::Temperature);
        let place = format!("amdgpu {}", name.trim_end_matches("_input"));
        Some((
            Sensor { id: SensorId::default(), part: Part::Gpu(number), quantity: *quantity, place, limit },
            file,
        ))
    };
    FILES.iter().filter_map(sensor).collect()
}

struct AmdGpus {
    sensors: Vec<Sensor>,
    files: Vec<CounterFile>,
}

impl SensorReader for AmdGpus {
    fn sensors(&self) -> &[Sensor] {
        &self.sensors
    }

    fn read(&mut self) -> Vec<Option<SensorValue>> {
        let value = |(sensor, file): (&Sensor, &mut CounterFile)| {
            let number = file.read_signed().ok()?;
            Some(match sensor.quantity {
                SensorQuantity::Temperature => {
                    SensorValue::Temperature(MilliCelsius::from_mc(i32::try_from(number).ok()?))
                }
                _ => SensorValue::Clock(KiloHertz::from_khz(u32::try_from(number / 1_000).ok()?)),
            })
        };
        self.sensors.iter().zip(&mut self.files).map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{KiloHertz, MilliCelsius, Part, SensorValue, of_cards};
    use std::fs;

    /// What a card has is read in its own units; a card without such a folder has nothing.
    #[test]
    fn a_card() {
        let tree = tempfile::tempdir().unwrap();
        let chip = tree.path().join("one/hwmon/hwmon4");
        fs::create_dir_all(&chip).unwrap();
        for (file, text) in
            [("temp1_input", "48000"), ("temp1_crit", "100000"), ("freq1_input", "1700000000")]
        {
            fs::write(chip.join(file), format!("{text}\n")).unwrap();
        }
        let cards = [(1, tree.path().join("one")), (2, tree.path().join("two"))];
        let mut found = of_cards(cards.into_iter()).unwrap();
        let known: Vec<_> = found.sensors().iter().map(|s| (s.part, s.place.clone(), s.limit)).collect();
        let limit = Some(MilliCelsius::from_mc(100_000));
        assert_eq!(
            known,
            [
                (Part::Gpu(1), "amdgpu temp1".to_owned(), limit),
                (Part::Gpu(1), "amdgpu freq1".to_owned(), None)
            ]
        );
        let celsius = Some(SensorValue::Temperature(MilliCelsius::from_mc(48_000)));
        assert_eq!(found.read(), [celsius, Some(SensorValue::Clock(KiloHertz::from_khz(1_700_000)))]);
    }
}
