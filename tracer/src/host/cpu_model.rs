//! The CPU's model as `/proc/cpuinfo` gives it: its name for people, its family and number for what only these tell.
//!
//! Leaves out what a model can do.

use std::fs;
use std::path::Path;

/// Vendor, family and model of CPU 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuModel {
    intel: bool,
    family: u32,
    model: u32,
}

/// Sapphire Rapids and Emerald Rapids: their psys counter has a unit of one joule (`RAPL_UNIT_QUIRK_SPR`'s
/// `rapl_pmus_psys->hw_unit = 0` in arch/x86/events/rapl.c, Linux v6.12).
pub(crate) const PSYS_OF_ONE_JOULE: [CpuModel; 2] =
    [CpuModel { intel: true, family: 6, model: 0x8f }, CpuModel { intel: true, family: 6, model: 0xcf }];

impl CpuModel {
    /// Of this machine; `None` where the kernel does not say.
    pub(crate) fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/cpuinfo").ok()?)
    }

    fn parse(cpuinfo: &str) -> Option<Self> {
        let value = |key: &str| {
            let line =
                cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key))?;
            Some(line.split_once(':')?.1.trim())
        };
        Some(Self {
            intel: value("vendor_id")? == "GenuineIntel",
            family: value("cpu family")?.parse().ok()?,
            model: value("model")?.parse().ok()?,
        })
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

    /// The lines of a Sapphire Rapids server, and of an AMD CPU with the same numbers.
    #[test]
    fn models() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\n";
        assert!(PSYS_OF_ONE_JOULE.contains(&CpuModel::parse(text).unwrap()));
        let amd = text.replace("GenuineIntel", "AuthenticAMD");
        assert!(!PSYS_OF_ONE_JOULE.contains(&CpuModel::parse(&amd).unwrap()));
        assert_eq!(CpuModel::parse("processor : 0\n"), None);
    }

    /// The first CPU's model counts; a machine that names none gives an empty name, not a wrong one.
    #[test]
    fn cpu_models() {
        let x86 = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\n\nmodel name\t: other\n";
        assert_eq!(parse_cpu_model(x86), "Intel(R) Xeon(R)");
        assert_eq!(parse_cpu_model("processor : 0\nBogoMIPS : 50\n"), "");
    }
}
