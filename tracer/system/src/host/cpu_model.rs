//! The CPU's model: its name for people as `/proc/cpuinfo` gives it, its family and number as sysfs does, for what only these tell.
//!
//! Leaves out what a model can do.

use std::fs;
use std::path::Path;

/// Vendor, family and model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuModel {
    intel: bool,
    family: u32,
    model: u32,
}

/// Sapphire Rapids and Emerald Rapids: their psys counter has a unit of one joule (`RAPL_UNIT_QUIRK_SPR`'s
/// `rapl_pmus_psys->hw_unit = 0` in arch/x86/events/rapl.c, Linux v6.12).
pub const PSYS_OF_ONE_JOULE: [CpuModel; 2] =
    [CpuModel { intel: true, family: 6, model: 0x8f }, CpuModel { intel: true, family: 6, model: 0xcf }];

/// Whether the machine that a sysfs tells of is an Arm one (`cpu:type:aarch64:feature:…`, `print_cpu_modalias`).
pub fn is_arm_at(sysfs: &Path) -> bool {
    read_modalias_at(sysfs).is_some_and(|modalias| modalias.starts_with("cpu:type:aarch64:"))
}

fn read_modalias_at(sysfs: &Path) -> Option<String> {
    fs::read_to_string(sysfs.join("devices/system/cpu/modalias")).ok()
}

impl CpuModel {
    /// Of the machine that a sysfs tells of; `None` where it does not say.
    pub fn read_at(sysfs: &Path) -> Option<Self> {
        Self::parse(&read_modalias_at(sysfs)?)
    }

    /// `cpu:type:x86,ven0000fam0006mod00CF:feature:,0000,…`: all numbers but the features' have four hexadecimal digits
    /// (`print_cpu_modalias` in drivers/base/cpu.c, `CPU_FEATURE_TYPEFMT` in arch/x86/include/asm/cpufeature.h, Linux v6.12), and vendor 0 is Intel (`X86_VENDOR_INTEL`).
    fn parse(modalias: &str) -> Option<Self> {
        let numbers = modalias.strip_prefix("cpu:type:x86,ven")?;
        let (vendor, numbers) = numbers.split_once("fam")?;
        let (family, numbers) = numbers.split_once("mod")?;
        let (model, _) = numbers.split_once(':')?;
        let number = |digits| u32::from_str_radix(digits, 16).ok();
        Some(Self { intel: number(vendor)? == 0, family: number(family)?, model: number(model)? })
    }
}

/// The CPU's model; empty where `/proc/cpuinfo` has none, and no number that is known.
pub fn read_cpu_model_at(root: &Path) -> String {
    parse_cpu_model(&fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default())
}

fn parse_cpu_model(cpuinfo: &str) -> String {
    let value_of = |wanted: &str| {
        let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.filter(|(key, _)| key.trim() == wanted).map(|(_, value)| value.trim()).next()
    };
    if let Some(name) = value_of("model name") {
        return name.to_owned();
    }
    let number = |wanted| u32::from_str_radix(value_of(wanted)?.strip_prefix("0x")?, 16).ok();
    let (implementer, part) = (number("CPU implementer"), number("CPU part"));
    let (Some(implementer), Some(part)) = (implementer, part) else { return String::new() };
    let known = PARTS.iter().find(|(of, number, _)| (*of, *number) == (implementer, part));
    known.map_or_else(
        || format!("implementer {implementer:#x}, part {part:#x}"),
        |(.., name)| (*name).to_owned(),
    )
}

/// Implementers, parts and what these are called, where the kernel gives numbers alone (`arch/arm64/include/asm/cputype.h`, v6.12).
const PARTS: [(u32, u32, &str); 17] = [
    (0x41, 0xd03, "Arm Cortex-A53"),
    (0x41, 0xd07, "Arm Cortex-A57"),
    (0x41, 0xd08, "Arm Cortex-A72"),
    (0x41, 0xd0b, "Arm Cortex-A76"),
    (0x41, 0xd0c, "Arm Neoverse N1"),
    (0x41, 0xd40, "Arm Neoverse V1"),
    (0x41, 0xd42, "Arm Cortex-A78AE"),
    (0x41, 0xd49, "Arm Neoverse N2"),
    (0x41, 0xd4f, "Arm Neoverse V2"),
    (0x41, 0xd84, "Arm Neoverse V3"),
    (0x41, 0xd8e, "Arm Neoverse N3"),
    (0x42, 0x516, "Broadcom Vulcan"),
    (0x43, 0x0af, "Cavium ThunderX2"),
    (0x46, 0x001, "Fujitsu A64FX"),
    (0x48, 0xd01, "HiSilicon TSV110"),
    (0xc0, 0xac3, "Ampere-1"),
    (0xc0, 0xac4, "Ampere-1A"),
];

#[cfg(test)]
mod tests {
    use super::{CpuModel, PSYS_OF_ONE_JOULE, parse_cpu_model};

    /// What a Sapphire Rapids server says, an AMD CPU with the same numbers, and an ARM CPU.
    #[test]
    fn models() {
        let text = "cpu:type:x86,ven0000fam0006mod008F:feature:,0000,0001,0002\n";
        assert!(PSYS_OF_ONE_JOULE.contains(&CpuModel::parse(text).unwrap()));
        let amd = text.replace("ven0000", "ven0002");
        assert!(!PSYS_OF_ONE_JOULE.contains(&CpuModel::parse(&amd).unwrap()));
        assert_eq!(CpuModel::parse("cpu:type:aarch64:feature:,0000,0001\n"), None);
        assert_eq!(CpuModel::parse(""), None);
    }

    /// The first CPU's model counts; a machine that names none gives an empty name, not a wrong one.
    #[test]
    fn cpu_models() {
        let x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\n\nmodel name\t: other\n";
        assert_eq!(parse_cpu_model(x86), "Intel(R) Xeon(R)");
        assert_eq!(parse_cpu_model("processor : 0\nBogoMIPS : 50\n"), "");
        let by_number = |part| parse_cpu_model(&format!("CPU implementer\t: 0x41\nCPU part\t: {part}\n"));
        assert_eq!(by_number("0xd4f"), "Arm Neoverse V2");
        assert_eq!(by_number("0xfff"), "implementer 0x41, part 0xfff");
        assert_eq!(by_number("none"), "");
    }
}
