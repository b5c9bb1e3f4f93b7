//! Sentences about sensors of temperature and clocks. Leaves out what slowed a part down during a run (`attribution.rs`).

use energy_trace_model::recording::record::{Sensor, SensorQuantity, SensorValue, Slowdown};

/// There is nothing that says how warm the machine is.
pub const NO_SENSORS: &str = "no sensor of temperature (hwmon, thermal zones, NVML): recordings do not say how warm the machine was, as usual on a virtual machine";

/// What a sensor says: `cpu-0 41 °C (coretemp Package id 0, slows down at 100 °C)`.
pub fn sensor_fact(sensor: &Sensor, value: Option<SensorValue>) -> String {
    let Sensor { part, quantity, place, limit, .. } = sensor;
    let what = match quantity {
        SensorQuantity::Temperature => "",
        SensorQuantity::Clock => "clock ",
        SensorQuantity::MemoryClock => "memory clock ",
        SensorQuantity::Slowdown => "slowed down now: ",
        SensorQuantity::HeatSlowdowns => "slowed down by heat since the start of the machine: ",
    };
    let limit = limit.map(|limit| format!(", slows down at {limit}")).unwrap_or_default();
    format!(
        "{part} {what}{} ({place}{limit})",
        value.map_or_else(|| "cannot be read".to_owned(), value_words)
    )
}

fn value_words(value: SensorValue) -> String {
    match value {
        SensorValue::Temperature(at) => at.to_string(),
        SensorValue::Clock(at) => at.to_string(),
        SensorValue::Count(1) => "once".to_owned(),
        SensorValue::Count(times) => format!("{times} times"),
        SensorValue::Slowdown(Slowdown { heat, power, unknown }) => {
            let words = [(heat, "by heat"), (power, "by its limit of power"), (unknown, "by its hardware")];
            let words: Vec<&str> = words.into_iter().filter_map(|(is, word)| is.then_some(word)).collect();
            if words.is_empty() { "no".to_owned() } else { words.join(" and ") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sensor, SensorQuantity, SensorValue, Slowdown, sensor_fact};
    use energy_trace_model::ids::SensorId;
    use energy_trace_model::recording::record::Part;
    use energy_trace_model::units::MilliCelsius;

    /// Part, value, place and limit; what cannot be read says so.
    #[test]
    fn facts() {
        let warm = Sensor {
            id: SensorId::new(0),
            part: Part::Cpu(0),
            quantity: SensorQuantity::Temperature,
            place: "coretemp Package id 0".into(),
            limit: Some(MilliCelsius::from_mc(100_000)),
        };
        let value = SensorValue::Temperature(MilliCelsius::from_mc(41_300));
        let text = sensor_fact(&warm, Some(value));
        assert_eq!(text, "cpu-0 41 °C (coretemp Package id 0, slows down at 100 °C)");
        let slow = Sensor { quantity: SensorQuantity::Slowdown, limit: None, part: Part::Gpu(1), ..warm };
        let why = SensorValue::Slowdown(Slowdown { heat: true, power: true, unknown: false });
        let text = sensor_fact(&slow, Some(why));
        assert_eq!(text, "gpu-1 slowed down now: by heat and by its limit of power (coretemp Package id 0)");
        assert!(sensor_fact(&slow, None).contains("cannot be read"));
    }
}
