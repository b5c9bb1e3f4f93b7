//! Watts of servers by kind of CPU, for machines without a counter: what published results say of a logical CPU at rest and busy.
//!
//! The numbers are those of SPECpower_ssj2008's published results as Cloud Carbon Footprint collects them (ccf-coefficients,
//! `data/SPECpower-2026-03-09.csv` at b0032d92, grouped by its lists of processors): watts of the whole server in active idle and at full
//! load, divided by its logical CPUs; median, and where nine in ten results lie. Kinds with ten results or more are here. How well
//! they predict other servers is in docs/results/model-watts.md. Models are those of Linux (arch/x86/include/asm/intel-family.h,
//! arch/x86/kernel/cpu/amd.c). Leaves out desktops and Arm, of which too few results are published, and load between idle and full.

use energy_trace_model::units::MicroWatts;
use std::fs;
use std::path::Path;

/// Servers of one kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Servers {
    /// The CPU, as people call it.
    pub(super) kind: &'static str,
    /// Published results.
    pub(super) results: u64,
    /// Power of an idle logical CPU in milliwatts: the fifth of a hundred, the median, the ninety-fifth.
    idle_mw: [u64; 3],
    /// The same of one at full load.
    busy_mw: [u64; 3],
}

impl Servers {
    /// Power of an idle logical CPU: low, median, high.
    pub(super) fn idle(&self) -> [MicroWatts; 3] {
        published_range(self.idle_mw)
    }

    /// The same of one at full load.
    pub(super) fn busy(&self) -> [MicroWatts; 3] {
        published_range(self.busy_mw)
    }
}

/// Of few results the range is too narrow for others: it is at least so many hundredths of the median either way. Then nine in ten of the
/// results that were held out lie in it.
const LEAST_RANGE: u64 = 30;

fn published_range([low, median, high]: [u64; 3]) -> [MicroWatts; 3] {
    let least = median * LEAST_RANGE / 100;
    [low.min(median - least), median, high.max(median + least)].map(|mw| MicroWatts::from_uw(mw * 1_000))
}

const fn servers(kind: &'static str, results: u64, idle_mw: [u64; 3], busy_mw: [u64; 3]) -> Servers {
    Servers { kind, results, idle_mw, busy_mw }
}

static SANDY_BRIDGE: Servers = servers("Sandy Bridge Xeons", 117, [1477, 1753, 3710], [6012, 7922, 12912]);
static HASWELL: Servers = servers("Haswell Xeons", 16, [552, 654, 857], [3667, 3812, 4291]);
static BROADWELL: Servers = servers("Broadwell Xeons", 17, [470, 530, 1984], [2757, 3091, 7042]);
static SKYLAKE: Servers = servers("Skylake or Cascade Lake Xeons", 153, [396, 553, 1182], [3154, 4085, 4648]);
static ICE_LAKE: Servers = servers("Ice Lake Xeons", 30, [688, 830, 1070], [3477, 4056, 4176]);
static SAPPHIRE_RAPIDS: Servers = servers("Sapphire Rapids Xeons", 47, [635, 946, 1720], [3127, 4000, 5403]);
static GRANITE_RAPIDS: Servers = servers("Granite Rapids Xeons", 30, [309, 595, 762], [1434, 2693, 3142]);
static EPYC_7001: Servers = servers("EPYC 7001", 10, [618, 744, 1319], [2161, 2320, 3662]);
static EPYC_7002: Servers = servers("EPYC 7002", 36, [313, 437, 707], [1517, 1664, 1961]);
static EPYC_7003: Servers = servers("EPYC 7003", 28, [308, 424, 682], [1655, 1916, 2278]);
static EPYC_9004: Servers = servers("EPYC 9004 or 8004", 42, [305, 377, 2140], [1633, 1849, 4216]);
static EPYC_9005: Servers = servers("EPYC 9005", 41, [180, 214, 374], [1086, 1169, 1984]);

/// Linux's numbers of vendors in `modalias` (arch/x86/include/asm/processor.h).
const INTEL: u32 = 0;
const AMD: u32 = 2;

/// The servers whose CPUs sysfs shows; `None` where none of their kind are published.
pub(super) fn servers_at(sysfs: &Path) -> Option<&'static Servers> {
    let modalias = fs::read_to_string(sysfs.join("devices/system/cpu/modalias")).ok()?;
    let (vendor, family, model) = parse(&modalias)?;
    Some(match (vendor, family, model) {
        (INTEL, 6, 0x2d) => &SANDY_BRIDGE,
        (INTEL, 6, 0x3f) => &HASWELL,
        (INTEL, 6, 0x4f) => &BROADWELL,
        (INTEL, 6, 0x55) => &SKYLAKE,
        (INTEL, 6, 0x6a) => &ICE_LAKE,
        (INTEL, 6, 0x8f) => &SAPPHIRE_RAPIDS,
        (INTEL, 6, 0xad) => &GRANITE_RAPIDS,
        (AMD, 0x17, 0x01) => &EPYC_7001,
        (AMD, 0x17, 0x30..=0x3f) => &EPYC_7002,
        (AMD, 0x19, 0x00..=0x0f) => &EPYC_7003,
        (AMD, 0x19, 0x10..=0x1f | 0xa0..=0xaf) => &EPYC_9004,
        (AMD, 0x1a, 0x00..=0x1f) => &EPYC_9005,
        _ => return None,
    })
}

/// Vendor, family and model of `cpu:type:x86,ven0000fam0006mod0055:feature:…`.
fn parse(modalias: &str) -> Option<(u32, u32, u32)> {
    let rest = modalias.strip_prefix("cpu:type:x86,ven")?;
    let (vendor, rest) = rest.split_once("fam")?;
    let (family, rest) = rest.split_once("mod")?;
    let (model, _) = rest.split_once(':')?;
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
    Some((number(vendor)?, number(family)?, number(model)?))
}

#[cfg(test)]
mod tests {
    use super::{EPYC_9004, SKYLAKE, servers_at};
    use std::fs;

    /// By vendor, family and model, in hexadecimal digits; what is not published, another vendor's and what makes no sense is none.
    #[test]
    fn kinds() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("devices/system/cpu");
        fs::create_dir_all(&folder).unwrap();
        let kind = |modalias: &str| {
            fs::write(folder.join("modalias"), modalias).unwrap();
            servers_at(tree.path())
        };
        assert_eq!(kind("cpu:type:x86,ven0000fam0006mod0055:feature:,0000,0001\n"), Some(&SKYLAKE));
        assert_eq!(kind("cpu:type:x86,ven0002fam0019mod0011:feature:,0000\n"), Some(&EPYC_9004));
        for other in ["0000fam0006mod00CF", "0002fam0006mod0055", "fam0006mod0055", "0000famxmod0055"] {
            assert_eq!(kind(&format!("cpu:type:x86,ven{other}:feature:")), None, "{other}");
        }
        assert_eq!(kind("cpu:type:aarch64:feature:,0000"), None);
    }

    /// The range is that of what is published, and at least three tenths of the median either way.
    #[test]
    fn ranges() {
        let watts = |of: [super::MicroWatts; 3]| of.map(|power| power.as_uw() / 1_000);
        assert_eq!(watts(SKYLAKE.busy()), [2_860, 4_085, 5_310]);
        assert_eq!(watts(SKYLAKE.idle()), [388, 553, 1_182]);
    }
}
