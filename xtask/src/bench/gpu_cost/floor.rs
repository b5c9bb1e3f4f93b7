//! What a uprobe costs before anybody does anything in it: probes with a BPF program that returns at once.
//!
//! Leaves out where in a function a probe belongs: an `endbr64` is skipped, as the product skips it.

use crate::kernel::load_nothing;
use anyhow::{Context as _, Result, bail};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

/// `BPF_PROG_TYPE_KPROBE` (include/uapi/linux/bpf.h, v6.1).
const KPROBE: u32 = 2;
/// `PERF_EVENT_IOC_ENABLE` and `PERF_EVENT_IOC_SET_BPF` (include/uapi/linux/perf_event.h, v6.1).
const ENABLE: libc::c_ulong = 0x2400;
const SET_BPF: libc::c_ulong = 0x4004_2408;
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// `struct perf_event_attr`, its first version and what a uprobe needs (`config1`: the path, `config2`: the offset).
#[repr(C)]
struct Event {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    path: u64,
    offset: u64,
}

/// Probes that are there until this is dropped.
pub(super) struct Empty {
    _links: Vec<OwnedFd>,
    _program: OwnedFd,
}

impl Empty {
    /// On each of these functions of libraries, for all processes.
    pub(super) fn attach(functions: &[(&Path, &str)]) -> Result<Self> {
        let program = load_nothing(KPROBE).context("an empty BPF program")?;
        let links = functions.iter().map(|(library, function)| probe(&program, library, function));
        Ok(Self { _links: links.collect::<Result<_>>()?, _program: program })
    }
}

fn probe(program: &OwnedFd, library: &Path, function: &str) -> Result<OwnedFd> {
    let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?.trim().parse()?;
    let path = CString::new(library.to_string_lossy().as_bytes())?;
    let event = Event {
        kind,
        size: u32::try_from(size_of::<Event>())?,
        config: 0,
        period: 1,
        sample: 0,
        read: 0,
        flags: 0,
        wakeup: 0,
        breakpoint: 0,
        path: path.as_ptr() as u64,
        offset: spot(library, function)?,
    };
    // SAFETY: `event` says its own size, and its path outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const event, -1, 0, -1, 8) };
    if fd < 0 {
        bail!("perf_event_open of a uprobe: {}", io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor for us.
    let link = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd)?) };
    // SAFETY: both requests take a number.
    let failed = unsafe {
        libc::ioctl(link.as_raw_fd(), SET_BPF, program.as_raw_fd()) < 0
            || libc::ioctl(link.as_raw_fd(), ENABLE, 0) < 0
    };
    if failed {
        bail!("a BPF program on a uprobe: {}", io::Error::last_os_error());
    }
    Ok(link)
}

/// The offset in the file of a function's first instruction that is no `endbr64`.
fn spot(library: &Path, function: &str) -> Result<u64> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let file = object::File::parse(bytes.as_slice())?;
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(function));
    let address = symbol.with_context(|| format!("no {function} in {}", library.display()))?.address();
    let section = file
        .sections()
        .find(|section| (section.address()..section.address() + section.size()).contains(&address))
        .context("a function lies in a section")?;
    let (start, _) = section.file_range().context("a section of code lies in the file")?;
    let offset = start + address - section.address();
    let at = usize::try_from(offset)?;
    Ok(offset + if bytes.get(at..at + 4) == Some(&ENDBR64) { 4 } else { 0 })
}
