//! The CPU's family and model, as `/proc/cpuinfo` gives them, for what only the model tells.
//!
//! Leaves out marketing names.

use std::fs;

/// Vendor, family and model of CPU 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuModel {
    intel: bool,
    family: u32,
    model: u32,
}

/// Sapphire Rapids and Emerald Rapids: their psys counter has a unit of one joule (`RAPL_UNIT_QUIRK_SPR`'s
/// `rapl_pmus_psys->hw_unit = 0` in arch/x86/events/rapl.c, Linux v6.12).
pub(super) const PSYS_OF_ONE_JOULE: [CpuModel; 2] =
    [CpuModel { intel: true, family: 6, model: 0x8f }, CpuModel { intel: true, family: 6, model: 0xcf }];

impl CpuModel {
    /// Of this machine; `None` where the kernel does not say.
    pub(super) fn read() -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use super::{CpuModel, PSYS_OF_ONE_JOULE};

    /// The lines of a Sapphire Rapids server, and of an AMD CPU with the same numbers.
    #[test]
    fn models() {
        let text = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\n";
        assert!(PSYS_OF_ONE_JOULE.contains(&CpuModel::parse(text).unwrap()));
        let amd = text.replace("GenuineIntel", "AuthenticAMD");
        assert!(!PSYS_OF_ONE_JOULE.contains(&CpuModel::parse(&amd).unwrap()));
        assert_eq!(CpuModel::parse("processor : 0\n"), None);
    }
}
