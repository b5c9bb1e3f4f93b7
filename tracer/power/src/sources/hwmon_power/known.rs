//! Which power sensors of which chips are understood: what each measures, by the driver's name and the sensor's label.
//!
//! Where the labels come from: `power_meter` (drivers/hwmon/acpi_power_meter.c) shows the firmware's own text
//! in `power1_oem_info`, and NVIDIA's firmware for Grace (edk2-nvidia, `TH500` power meters) writes there
//! which of its rails it is; `apm_xgene` is drivers/hwmon/xgene-hwmon.c (X-Gene, Ampere eMAG and Altra),
//! `smpro_hwmon` drivers/hwmon/smpro-hwmon.c (Altra), and the labels of `ina3221` are those of Jetson's
//! device trees (tegra234-p3701 and -p3767; NVIDIA's own for Nano, TX2 and Xavier). What supplies of 5 V feed
//! is not known, and the carrier board's inputs do not hold the module's. Labels of SCMI are in `scmi.rs`.
//! Leaves out which of them are read, as some contain others (`mod.rs`).

use crate::sources::scmi;

/// What a sensor measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The whole machine, which is called so.
    Machine(&'static str),
    /// A module of CPU, memory, perhaps a GPU, and its regulators.
    Module(u32),
    /// The CPUs of a socket, with all that their sensor contains.
    Package(u32),
    /// Other shared parts of a socket, which are called so and not in its package.
    Beside(&'static str, u32),
    /// Memory of a socket.
    Memory(&'static str, u32),
    /// A part of what is called a socket's package, and its name where nothing measures that.
    PartOfPackage(&'static str, u32),
}

/// What CPUs of a socket are called.
pub(super) const PACKAGE: &str = "package";

/// What a sensor measures; `number` counts the chips of this name. `None`: this version does not know.
pub(super) fn what_is(chip: &str, label: &str, number: u32) -> Option<What> {
    match (chip, label) {
        ("power_meter", label) => Some(grace(label).unwrap_or(What::Machine("server"))),
        ("apm_xgene", "CPU power") => Some(What::Package(number)),
        ("apm_xgene", "IO power") => Some(What::Beside("io", number)),
        ("smpro_hwmon", "power1 CORE VRD") => Some(What::Package(number)),
        ("smpro_hwmon", "power2 SoC") => Some(What::Beside("soc", number)),
        ("smpro_hwmon", "power3 DIMM VRD1") => Some(What::Memory("dram-vrd1", number)),
        ("smpro_hwmon", "power4 DIMM VRD2") => Some(What::Memory("dram-vrd2", number)),
        ("smpro_hwmon", "power5 RCA VRD") => Some(What::Beside("pcie", number)),
        ("ina3221", label) => jetson(label),
        (scmi::CHIP, label) => scmi::power_of(label).map(|name| What::Beside(name, 0)),
        _ => None,
    }
}

/// The rails of a Jetson's module.
fn jetson(label: &str) -> Option<What> {
    match label {
        "VDD_IN" | "POM_5V_IN" => Some(What::Machine("board")),
        "VDD_CPU_GPU_CV" | "VDD_CPU_GPU" | "VDD_CPU_CV" | "VDD_SYS_CPU" | "POM_5V_CPU" | "CPU" => {
            Some(What::Package(0))
        }
        "VDD_SOC" | "VDD_GPU_SOC" | "VDD_SYS_SOC" | "SOC" => Some(What::Beside("soc", 0)),
        "VDD_SYS_GPU" | "POM_5V_GPU" | "GPU" => Some(What::Beside("graphics", 0)),
        "CV" => Some(What::Beside("vision", 0)),
        "VDD_SYS_DDR" | "VDDRQ" | "VDDQ_VDD2_1V8AO" => Some(What::Memory("dram", 0)),
        _ => None,
    }
}

/// Grace: its module holds its CPU with memory, whose sensor holds the rails of cores and of the rest of the chip.
fn grace(label: &str) -> Option<What> {
    let (rail, socket) = label.split_once(" Power Socket ")?;
    let socket = socket.parse().ok()?;
    match rail {
        "Module" => Some(What::Module(socket)),
        "Grace" => Some(What::Package(socket)),
        "CPU" => Some(What::PartOfPackage(PACKAGE, socket)),
        "SysIO" => Some(What::PartOfPackage("io", socket)),
        _ => None,
    }
}

/// Drivers some of whose sensors are understood.
const CHIPS: [&str; 5] = ["power_meter", "apm_xgene", "smpro_hwmon", "ina3221", scmi::CHIP];

/// A driver's name where it may be shown: files may hold somebody's secret instead.
pub(super) fn shown_chip(chip: &str) -> &str {
    if CHIPS.contains(&chip) { chip } else { "another chip" }
}

/// Whether a label may be shown, likewise.
pub(super) fn is_usual(chip: &str, label: &str) -> bool {
    match chip {
        "power_meter" => grace(label).is_some(),
        _ => what_is(chip, label, 0).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::{What, is_usual, shown_chip, what_is};

    /// A meter with any other text is the server's, and its text is not repeated; a chip that is not known is nothing.
    #[test]
    fn labels() {
        assert_eq!(what_is("power_meter", "Grace Power Socket 1", 0), Some(What::Package(1)));
        assert_eq!(what_is("power_meter", "SysIO Power Socket 0", 0), Some(What::PartOfPackage("io", 0)));
        for other in ["", "Power Meter", "Grace Power Socket x", "Fan Power Socket 0"] {
            assert_eq!(what_is("power_meter", other, 0), Some(What::Machine("server")));
            assert!(!is_usual("power_meter", other));
        }
        assert_eq!(what_is("apm_xgene", "CPU power", 1), Some(What::Package(1)));
        assert_eq!(what_is("ina3221", "POM_5V_IN", 0), Some(What::Machine("board")));
        assert_eq!(what_is("ina3221", "VDDRQ", 0), Some(What::Memory("dram", 0)));
        for other in ["VIN_SYS_5V0", "SYS5V", "VDD_MUX", "NC"] {
            assert_eq!(what_is("ina3221", other, 0), None);
        }
        assert_eq!(what_is("corsairpsu", "power total", 0), None);
        assert_eq!(["ina3221", "corsairpsu"].map(shown_chip), ["ina3221", "another chip"]);
    }
}
