//! Which sensors of SCMI firmware are understood: those of Arm's own firmware for its Juno board.
//!
//! SCMI (drivers/hwmon/scmi-hwmon.c) passes on whatever labels a board's firmware has. Juno's (SCP-firmware, product/juno, `config_sensor.c`
//! in its three spellings since 2019) has power and energy, in microjoules, of four supplies beside each other: of either cluster of cores,
//! of the graphics processor, and of the rest of the chip. Leaves out the driver's zones of powercap (`arm-scmi`), whose names no public
//! firmware says.

/// The driver's name.
pub(super) const CHIP: &str = "scmi_sensors";

/// How labels of energy begin, and those of power.
const ENERGY: [&str; 3] = ["Joule-", "adc-J-", "BRD_ENRG_"];
const POWER: [&str; 3] = ["Watt-", "adc-W-", "BRD_PWR_"];

/// What a sensor of energy measures, as its domain is called.
pub(super) fn energy_of(label: &str) -> Option<&'static str> {
    supply(label, ENERGY)
}

/// The same of a sensor of power.
pub(super) fn power_of(label: &str) -> Option<&'static str> {
    supply(label, POWER)
}

fn supply(label: &str, beginnings: [&str; 3]) -> Option<&'static str> {
    let rest = beginnings.iter().find_map(|beginning| label.strip_prefix(beginning))?;
    match rest.to_ascii_lowercase().as_str() {
        "big" => Some("big"),
        "little" => Some("little"),
        "gpu" => Some("graphics"),
        "sys" => Some("soc"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{energy_of, power_of};

    /// Each spelling is the same supply, energy is not power, and another board's label is neither.
    #[test]
    fn labels_of_juno() {
        assert_eq!(
            ["Joule-big", "adc-J-sys", "BRD_ENRG_GPU"].map(energy_of),
            [Some("big"), Some("soc"), Some("graphics")]
        );
        assert_eq!(["Watt-little", "BRD_PWR_SYS"].map(power_of), [Some("little"), Some("soc")]);
        for other in ["Watt-big", "Joule-", "Joule-pmic", "SYS_POW_SYS"] {
            assert_eq!(energy_of(other), None, "{other}");
        }
    }
}
