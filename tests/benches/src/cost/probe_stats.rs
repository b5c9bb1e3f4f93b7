//! The counters of a running energy-trace's sampler: time and runs from the kernel, samples from its own map.
//!
//! energy-trace has the kernel keep the times while it runs. Both are read from outside, so that the product is measured as it is.

use super::intervals::Reading;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use tracer_ebpf::wire::lost;

/// `BPF_PROG_TYPE_PERF_EVENT`, `BPF_MAP_TYPE_PERCPU_ARRAY` (include/uapi/linux/bpf.h, v6.1).
const PERF_EVENT: u64 = 7;
const PERCPU_ARRAY: u64 = 6;
/// `BPF_MAP_LOOKUP_ELEM`, `BPF_MAP_GET_FD_BY_ID`, `BPF_OBJ_GET_INFO_BY_FD`.
const LOOKUP: libc::c_long = 1;
const FD_BY_ID: libc::c_long = 14;
const INFO_BY_FD: libc::c_long = 15;

/// The sampler of one energy-trace.
pub(super) struct Sampler {
    /// Its entry in `/proc`, which is written anew for each reading.
    info: File,
    /// The map `LOST`.
    counters: OwnedFd,
    /// CPUs that the machine may have: a counter has a place for each.
    cpus: usize,
}

impl Sampler {
    /// Finds it among what a process has open.
    pub(super) fn of(tracer: u32) -> Result<Self> {
        let (mut info, mut counters) = (None, None);
        for entry in fs::read_dir(format!("/proc/{tracer}/fdinfo"))? {
            let path = entry?.path();
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let is = |key: &str, value: u64| parse_field(&text, key) == Some(value);
            if is("prog_type", PERF_EVENT) {
                // What it calls by tail calls has no runs of its own.
                let runs = parse_field(&text, "run_cnt").unwrap_or(0);
                if info.as_ref().is_none_or(|&(most, _)| runs > most) {
                    info = Some((runs, File::open(&path)?));
                }
            } else if is("map_type", PERCPU_ARRAY) && is("value_size", 8) {
                let map = parse_field(&text, "map_id").map(open_map).transpose()?;
                // By its name: how many counters it has is another number in other builds.
                counters = map.filter(|map| is_named(map, b"LOST")).or(counters);
            }
        }
        let (_, info) = info.context("no perf event program")?;
        let possible = fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let cpus = parse_possible(&possible).context("the kernel does not tell which CPUs are possible")?;
        Ok(Self { info, counters: counters.context("no map of counters")?, cpus })
    }

    /// Reads all three.
    pub(super) fn read(&self) -> Result<Reading> {
        let mut bytes = [0; 1024];
        let length = self.info.read_at(&mut bytes, 0).context("energy-trace ended")?;
        let text = String::from_utf8_lossy(&bytes[..length]);
        let field = |key| parse_field(&text, key).with_context(|| format!("the kernel does not tell {key}"));
        let (run_ns, runs) = (field("run_time_ns")?, field("run_cnt")?);
        Ok(Reading { run_ns, runs, taken: self.read_taken()? })
    }

    /// The sum over all CPUs.
    fn read_taken(&self) -> Result<u64> {
        let mut values = vec![0u64; self.cpus];
        let key = lost::TAKEN;
        let attributes = Lookup {
            map: u32::try_from(self.counters.as_raw_fd())?,
            padding: 0,
            key: &raw const key as u64,
            value: values.as_mut_ptr() as u64,
            flags: 0,
        };
        bpf(LOOKUP, &attributes).context("the map of counters cannot be read")?;
        Ok(values.iter().sum())
    }
}

/// The part of `union bpf_attr` for lookups.
#[repr(C)]
struct Lookup {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The part for opening by number.
#[repr(C)]
struct Open {
    id: u32,
    next: u32,
    flags: u32,
}

fn open_map(id: u64) -> Result<OwnedFd> {
    let fd = bpf(FD_BY_ID, &Open { id: u32::try_from(id)?, next: 0, flags: 0 })?;
    // SAFETY: the kernel just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd)?) })
}

/// The part of `union bpf_attr` that asks what an object is.
#[repr(C)]
struct Asked {
    object: u32,
    length: u32,
    info: u64,
}

/// `struct bpf_map_info` up to its name.
#[repr(C)]
#[derive(Default)]
struct MapInfo {
    kind: u32,
    id: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    name: [u8; 16],
}

fn is_named(map: &OwnedFd, name: &[u8]) -> bool {
    let mut info = MapInfo::default();
    let (Ok(object), Ok(length)) = (u32::try_from(map.as_raw_fd()), u32::try_from(size_of::<MapInfo>()))
    else {
        return false;
    };
    let asked = Asked { object, length, info: &raw mut info as u64 };
    bpf(INFO_BY_FD, &asked).is_ok() && info.name.split(|&byte| byte == 0).next() == Some(name)
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> Result<libc::c_long> {
    // SAFETY: `attributes` is a part of `union bpf_attr` with pointers to memory that outlives the call and is large enough: a value for
    // each CPU that the machine may have, or as many bytes as `length` says.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 {
        bail!("bpf({command}): {}", io::Error::last_os_error());
    }
    Ok(result)
}

/// One more than the last CPU of a list such as `0-3,8-11`.
fn parse_possible(list: &str) -> Option<usize> {
    let (_, last) = list.trim().rsplit_once([',', '-']).unwrap_or(("", list.trim()));
    last.parse::<usize>().ok()?.checked_add(1)
}

/// A number in an fdinfo.
pub(crate) fn parse_field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_field, parse_possible};

    /// Keys are whole, numbers are trimmed, what is no number is none.
    #[test]
    fn fields() {
        let text = "pos:\t0\nprog_type:\t7\nrun_time_ns:\t12345\nrun_cnt:\t6\nmemlock:\t-\n";
        assert_eq!(parse_field(text, "run_time_ns"), Some(12345));
        assert_eq!(parse_field(text, "run"), None);
        assert_eq!(parse_field(text, "memlock"), None);
    }

    /// A place for every CPU, in whichever form the kernel lists them.
    #[test]
    fn possible_cpus() {
        let counts = ["0\n", "0-1\n", "0-3,8-11\n", ""].map(parse_possible);
        assert_eq!(counts, [Some(1), Some(2), Some(12), None]);
    }
}
