//! Watts of servers by kind of CPU, for machines without a counter: what published results say of a logical CPU at rest and busy.
//!
//! The numbers are those of SPECpower_ssj2008's published results as Cloud Carbon Footprint collects them
//! (ccf-coefficients, `data/SPECpower-2026-03-09.csv` at b0032d92, grouped by its lists of processors;
//! tests/fixtures/server_watts/make.py): watts of the whole server in active idle and at full load, divided
//! by its logical CPUs; median, and where nine in ten results lie. How well they predict servers with CPUs
//! that set none of them is in docs/results/model-watts.md. Models are those of Linux
//! (arch/x86/include/asm/intel-family.h, arch/x86/kernel/cpu/amd.c, arch/arm64/include/asm/cputype.h);
//! steppings make no difference (Skylake 4.1 W, Cascade Lake 4.0 W). Leaves out desktops and other Arm CPUs,
//! of which no results are published: Cloud Carbon Footprint takes EPYC 7002's watts for Graviton.

use crate::sysfs::text;
use energy_trace_model::units::MicroWatts;
use energy_trace_system::host::firmware;
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
        published_range(self.results, self.idle_mw)
    }

    /// The same of one at full load.
    pub(super) fn busy(&self) -> [MicroWatts; 3] {
        published_range(self.results, self.busy_mw)
    }
}

/// The range of published results is too narrow for others: it is at least so many hundredths of the median
/// either way, and more where there are few. Then nine in ten of the results that were held out lie in it.
const LEAST_RANGE: u64 = 30;
const LEAST_RANGE_OF_FEW: u64 = 50;
const FEW: u64 = 10;

fn published_range(results: u64, [low, median, high]: [u64; 3]) -> [MicroWatts; 3] {
    let hundredths = if results < FEW { LEAST_RANGE_OF_FEW } else { LEAST_RANGE };
    let least = median * hundredths / 100;
    [low.min(median - least), median, high.max(median + least)].map(|mw| MicroWatts::from_uw(mw * 1_000))
}

const fn servers(kind: &'static str, results: u64, idle_mw: [u64; 3], busy_mw: [u64; 3]) -> Servers {
    Servers { kind, results, idle_mw, busy_mw }
}

static SANDY_BRIDGE: Servers = servers("Sandy Bridge Xeons", 94, [1514, 1761, 4032], [5932, 7778, 13058]);
static IVY_BRIDGE: Servers = servers("Ivy Bridge Xeons", 3, [1312, 1392, 2324], [5417, 5458, 5766]);
static HASWELL: Servers = servers("Haswell Xeons", 16, [552, 654, 857], [3667, 3812, 4291]);
static BROADWELL: Servers = servers("Broadwell Xeons", 15, [468, 519, 2000], [2755, 3057, 7106]);
static SMALL_XEON: Servers = servers("Xeons E3 v5 and E-2100", 13, [918, 1242, 2005], [3430, 5962, 7463]);
static SKYLAKE: Servers = servers("Skylake or Cascade Lake Xeons", 124, [384, 557, 1468], [3584, 4188, 4919]);
static ICE_LAKE: Servers = servers("Ice Lake Xeons", 30, [688, 830, 1070], [3477, 4056, 4176]);
static SAPPHIRE_RAPIDS: Servers =
    servers("Sapphire or Emerald Rapids Xeons", 46, [634, 849, 1688], [2929, 3988, 5309]);
static GRANITE_RAPIDS: Servers = servers("Granite Rapids Xeons", 25, [459, 624, 772], [1952, 2724, 3195]);
static SIERRA_FOREST: Servers = servers("Sierra Forest Xeons", 20, [339, 694, 890], [1132, 2557, 3067]);
static EPYC_7001: Servers = servers("EPYC 7001", 8, [615, 716, 1384], [2146, 2312, 3813]);
static EPYC_7002: Servers = servers("EPYC 7002", 24, [322, 408, 653], [1492, 1666, 1980]);
static EPYC_7003: Servers = servers("EPYC 7003", 21, [307, 422, 560], [1594, 1828, 2291]);
static EPYC_9004: Servers = servers("EPYC 9004 or 8004", 30, [309, 376, 3098], [1679, 1940, 5473]);
static EPYC_9005: Servers = servers("EPYC 9005", 34, [183, 219, 377], [1109, 1192, 1988]);
/// AWS's Graviton2 has the same cores, and the same number.
static ALTRA: Servers = servers("Neoverse N1 cores (Ampere Altra)", 5, [560, 611, 662], [1116, 1750, 2065]);

/// Power above idle at a tenth and at half of the load, in thousandths of that at full load: the medians of
/// Teads' measurements of 23 kinds of CPU on instances of AWS (`data/aws-instances.csv` of ccf-coefficients).
pub(super) const LOAD_CURVE: [u32; 2] = [226, 692];

/// Linux's numbers of vendors in `modalias` (arch/x86/include/asm/processor.h).
const INTEL: u32 = 0;
const AMD: u32 = 2;

/// Implementer and part of Arm's Neoverse N1 in the register that names a CPU (MIDR_EL1).
const NEOVERSE_N1: (u64, u64) = (0x41, 0xd0c);

/// The bit of a guest among the features of `modalias` (X86_FEATURE_HYPERVISOR,
/// arch/x86/include/asm/cpufeatures.h).
const OF_GUEST: &str = "009F";

/// The servers whose CPUs sysfs shows; `None` where none of their kind are published.
pub(super) fn servers_at(sysfs: &Path) -> Option<&'static Servers> {
    let cpus = sysfs.join("devices/system/cpu");
    match text(&cpus.join("modalias")).and_then(|modalias| parse(&modalias)) {
        Some(model) => of_family(model),
        None => {
            let midr = text(&cpus.join("cpu0/regs/identification/midr_el1"))?;
            let midr = u64::from_str_radix(midr.strip_prefix("0x")?, 16).ok()?;
            (((midr >> 24) & 0xff, (midr >> 4) & 0xfff) == NEOVERSE_N1).then_some(&ALTRA)
        }
    }
}

fn of_family(model: (u32, u32, u32)) -> Option<&'static Servers> {
    Some(match model {
        (INTEL, 6, 0x2d) => &SANDY_BRIDGE,
        (INTEL, 6, 0x3e) => &IVY_BRIDGE,
        (INTEL, 6, 0x3f) => &HASWELL,
        (INTEL, 6, 0x4f) => &BROADWELL,
        (INTEL, 6, 0x5e | 0x9e) => &SMALL_XEON,
        (INTEL, 6, 0x55) => &SKYLAKE,
        (INTEL, 6, 0x6a) => &ICE_LAKE,
        (INTEL, 6, 0x8f | 0xcf) => &SAPPHIRE_RAPIDS,
        (INTEL, 6, 0xad) => &GRANITE_RAPIDS,
        (INTEL, 6, 0xaf) => &SIERRA_FOREST,
        (AMD, 0x17, 0x01) => &EPYC_7001,
        (AMD, 0x17, 0x30..=0x3f) => &EPYC_7002,
        (AMD, 0x19, 0x00..=0x0f) => &EPYC_7003,
        (AMD, 0x19, 0x10..=0x1f | 0xa0..=0xaf) => &EPYC_9004,
        (AMD, 0x1a, 0x00..=0x1f) => &EPYC_9005,
        _ => return None,
    })
}

/// Whether a machine is a guest: an x86 CPU says it, of others the firmware. `None` where nothing does.
pub(super) fn is_guest_at(sysfs: &Path) -> Option<bool> {
    let modalias = text(&sysfs.join("devices/system/cpu/modalias")).unwrap_or_default();
    match modalias.strip_prefix("cpu:type:x86,").and_then(|rest| rest.split_once(":feature:")) {
        Some((_, features)) => Some(features.split(',').any(|feature| feature == OF_GUEST)),
        None => firmware::is_guest_at(sysfs),
    }
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
    use super::{ALTRA, EPYC_9004, SAPPHIRE_RAPIDS, SKYLAKE, is_guest_at, servers_at};
    use std::fs;

    /// By vendor, family and model, in hexadecimal digits, or implementer and part; what is not published,
    /// another vendor's and what makes no sense is none.
    #[test]
    fn kinds() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("devices/system/cpu");
        fs::create_dir_all(folder.join("cpu0/regs/identification")).unwrap();
        let kind = |modalias: &str| {
            fs::write(folder.join("modalias"), modalias).unwrap();
            servers_at(tree.path())
        };
        assert_eq!(kind("cpu:type:x86,ven0000fam0006mod0055:feature:,0000,0001\n"), Some(&SKYLAKE));
        assert_eq!(kind("cpu:type:x86,ven0000fam0006mod00CF:feature:,0000,0001\n"), Some(&SAPPHIRE_RAPIDS));
        assert_eq!(kind("cpu:type:x86,ven0002fam0019mod0011:feature:,0000\n"), Some(&EPYC_9004));
        for other in ["0000fam0006mod00AA", "0002fam0006mod0055", "fam0006mod0055", "0000famxmod0055"] {
            assert_eq!(kind(&format!("cpu:type:x86,ven{other}:feature:")), None, "{other}");
        }
        let arm = |midr: &str| {
            fs::write(folder.join("cpu0/regs/identification/midr_el1"), midr).unwrap();
            kind("cpu:type:aarch64:feature:,0000")
        };
        assert_eq!(arm("0x00000000413fd0c1\n"), Some(&ALTRA));
        for other in ["0x00000000413fd401\n", "0x00000000c03fd0c1\n", "413fd0c1\n", "0x\n"] {
            assert_eq!(arm(other), None, "{other}");
        }
    }

    /// A guest is told by its features, one of Arm by its firmware; a machine that does not say what it has is none of both.
    #[test]
    fn guests() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("devices/system/cpu");
        fs::create_dir_all(&folder).unwrap();
        let is_guest = |features: &str| {
            let modalias = format!("cpu:type:x86,ven0000fam0006mod0055:feature:{features}\n");
            fs::write(folder.join("modalias"), modalias).unwrap();
            is_guest_at(tree.path())
        };
        assert_eq!(
            [",0000,009F,00A0", ",0000,00A0", ""].map(is_guest),
            [Some(true), Some(false), Some(false)]
        );
        fs::write(folder.join("modalias"), "cpu:type:aarch64:feature:,009F\n").unwrap();
        assert_eq!(is_guest_at(tree.path()), None);
        let dmi = tree.path().join("class/dmi/id");
        fs::create_dir_all(&dmi).unwrap();
        for (vendor, is_guest) in [("Amazon EC2\n", true), ("GIGABYTE\n", false)] {
            fs::write(dmi.join("sys_vendor"), vendor).unwrap();
            assert_eq!(is_guest_at(tree.path()), Some(is_guest));
        }
    }

    /// The range is that of what is published, and at least three tenths of the median either way, or half of
    /// it where little is.
    #[test]
    fn ranges() {
        let watts = |of: [super::MicroWatts; 3]| of.map(|power| power.as_uw() / 1_000);
        assert_eq!(watts(SKYLAKE.busy()), [2_932, 4_188, 5_444]);
        assert_eq!(watts(SKYLAKE.idle()), [384, 557, 1_468]);
        assert_eq!(watts(ALTRA.busy()), [875, 1_750, 2_625]);
    }
}
