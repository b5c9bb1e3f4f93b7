//! Whether the processor blurs its energy counters on purpose.
//!
//! Since 2020 Intel processors can add noise to RAPL against side channels (PLATYPUS, CVE-2020-8694). The switch is bit 0 of
//! `MSR_MISC_PACKAGE_CTLS` (0xbc), which exists where bit 11 of `IA32_ARCH_CAPABILITIES` (0x10a) says so (Intel SDM vol. 4, table 2-2;
//! "Running Average Power Limit Energy Reporting", Intel INTEL-SA-00389 guidance); it is always on while SGX is. Leaves out setting it.

use energy_trace_model::recording::record::SourceNote;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const ARCH_CAPABILITIES: u64 = 0x10a;
const ENERGY_FILTERING_CTL: u64 = 1 << 11;
const MISC_PACKAGE_CTLS: u64 = 0xbc;
const ENERGY_FILTERING_ENABLE: u64 = 1;

/// A remark for the reader where the counters are blurred or may be; `None` where nothing speaks for it. `dev` is `/dev`, whose
/// `cpu/0/msr` only root with the `msr` module can read.
pub(crate) fn describe(dev: &Path, cpuinfo: &str) -> Option<SourceNote> {
    let msr = File::open(dev.join("cpu/0/msr"));
    let read = |register: u64| {
        let mut bytes = [0; 8];
        msr.as_ref().ok()?.read_exact_at(&mut bytes, register).ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    match read(ARCH_CAPABILITIES) {
        Some(capabilities) if capabilities & ENERGY_FILTERING_CTL == 0 => None,
        Some(_) => read(MISC_PACKAGE_CTLS)
            .filter(|ctls| ctls & ENERGY_FILTERING_ENABLE != 0)
            .map(|_| SourceNote::FilterOn),
        None => has_sgx(cpuinfo).then_some(SourceNote::FilterPossible),
    }
}

/// Of this machine.
pub(crate) fn describe_here() -> Option<SourceNote> {
    describe(Path::new("/dev"), &fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

fn has_sgx(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "sgx")
}

#[cfg(test)]
mod tests {
    use super::SourceNote;
    use super::describe;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt as _;
    use std::path::Path;

    fn write_msr(dev: &Path, capabilities: u64, controls: u64) {
        fs::create_dir_all(dev.join("cpu/0")).unwrap();
        let file = File::create(dev.join("cpu/0/msr")).unwrap();
        file.write_all_at(&capabilities.to_le_bytes(), 0x10a).unwrap();
        file.write_all_at(&controls.to_le_bytes(), 0xbc).unwrap();
    }

    /// The registers decide where they can be read: a filter that is on is reported, one that is off or missing is not.
    #[test]
    fn registers() {
        let dev = tempfile::tempdir().unwrap();
        write_msr(dev.path(), 1 << 11, 1);
        assert_eq!(describe(dev.path(), ""), Some(SourceNote::FilterOn));
        write_msr(dev.path(), 1 << 11, 0);
        assert_eq!(describe(dev.path(), "flags : sgx\n"), None);
        write_msr(dev.path(), 0, 1);
        assert_eq!(describe(dev.path(), ""), None);
    }

    /// Without the registers SGX alone is a reason to say that it may be so.
    #[test]
    fn sgx() {
        let dev = tempfile::tempdir().unwrap();
        let sgx = "processor : 0\nflags\t\t: fpu sgx sgx_lc\n";
        assert_eq!(describe(dev.path(), sgx), Some(SourceNote::FilterPossible));
        assert_eq!(describe(dev.path(), "flags\t\t: fpu sgx_lc\n"), None);
    }
}
