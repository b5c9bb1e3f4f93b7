//! Perf events with a BPF program that returns at once: what a probe or a timer costs before anybody does anything in it.
//!
//! The kernel's own interface, because aya attaches only programs that it has loaded from an object file.

use anyhow::{Context as _, Result, bail};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use xtask::kernel::load_nothing;

/// `PERF_EVENT_IOC_ENABLE` and `PERF_EVENT_IOC_SET_BPF` (include/uapi/linux/perf_event.h, v6.1).
const ENABLE: libc::c_ulong = 0x2400;
const SET_BPF: libc::c_ulong = 0x4004_2408;
/// `PERF_FLAG_FD_CLOEXEC` (the same file).
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// `PERF_TYPE_SOFTWARE` and `PERF_COUNT_SW_CPU_CLOCK` (the same file).
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// `BPF_PROG_TYPE_KPROBE` and `BPF_PROG_TYPE_PERF_EVENT` (include/uapi/linux/bpf.h, v6.1).
const KPROBE: u32 = 2;
const PERF_EVENT: u32 = 7;

/// `struct perf_event_attr`, its first version and what a uprobe needs (`config1`: the path, `config2`: the offset).
#[repr(C)]
struct Attributes {
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

/// An event that is there until this is dropped.
#[derive(Debug)]
pub(crate) struct EmptyEvent {
    _link: OwnedFd,
    _program: OwnedFd,
}

impl EmptyEvent {
    /// A uprobe for all processes, at an offset in a file. `kind` is that of `/sys/bus/event_source/devices/uprobe/type`.
    pub(crate) fn uprobe(kind: u32, file: &CStr, offset: u64) -> Result<Self> {
        let attributes = Attributes { path: file.as_ptr() as u64, offset, ..Attributes::new(kind, 0, 1)? };
        Self::open(&attributes, KPROBE, -1, 0).context("an empty uprobe")
    }

    /// A timer of the CPU clock of one thread, each `period_ns` that it runs.
    pub(crate) fn timer(thread: u32, period_ns: u64) -> Result<Self> {
        let attributes = Attributes::new(SOFTWARE, CPU_CLOCK, period_ns)?;
        Self::open(&attributes, PERF_EVENT, libc::pid_t::try_from(thread)?, -1).context("an empty timer")
    }

    fn open(attributes: &Attributes, program: u32, thread: libc::pid_t, cpu: libc::c_int) -> Result<Self> {
        let program = load_nothing(program).context("an empty BPF program")?;
        // SAFETY: `attributes` says its own size, and what it points to outlives the call.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const *attributes, thread, cpu, -1, CLOSE_ON_EXEC)
        };
        if fd < 0 {
            bail!("perf_event_open: {}", io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor for us.
        let link = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd)?) };
        // SAFETY: both requests take a number.
        let failed = unsafe {
            libc::ioctl(link.as_raw_fd(), SET_BPF, program.as_raw_fd()) < 0
                || libc::ioctl(link.as_raw_fd(), ENABLE, 0) < 0
        };
        if failed {
            bail!("a BPF program on a perf event: {}", io::Error::last_os_error());
        }
        Ok(Self { _link: link, _program: program })
    }
}

impl Attributes {
    fn new(kind: u32, config: u64, period: u64) -> Result<Self> {
        let size = u32::try_from(size_of::<Self>())?;
        Ok(Self {
            kind,
            size,
            config,
            period,
            sample: 0,
            read: 0,
            flags: 0,
            wakeup: 0,
            breakpoint: 0,
            path: 0,
            offset: 0,
        })
    }
}
