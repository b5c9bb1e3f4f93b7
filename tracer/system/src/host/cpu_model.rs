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

impl CpuModel {
    /// Of the machine that a sysfs tells of; `None` where it does not say.
    pub fn read_at(sysfs: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(sysfs.join("devices/system/cpu/modalias")).ok()?)
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

/// The CPU's model; empty where `/proc/cpuinfo` has none (some ARM machines).
pub fn read_cpu_model_at(root: &Path) -> String {
    parse_cpu_model(&fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default())
}

fn parse_cpu_model(cpuinfo: &str) -> String {
    let of_key = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    };
    cpuinfo.lines().find_map(of_key).unwrap_or_default()
}

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
    }
}
