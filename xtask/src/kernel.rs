//! Asking the kernel, before any test does, whether this process may load BPF programs.

use anyhow::{Context as _, Result, anyhow};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;

/// `BPF_PROG_LOAD` (include/uapi/linux/bpf.h, v6.1, `enum bpf_cmd`).
const BPF_PROG_LOAD: libc::c_int = 5;
/// `BPF_PROG_TYPE_PERF_EVENT` (the same file, `enum bpf_prog_type`).
const PERF_EVENT: u32 = 7;

/// The first fields of `union bpf_attr` for `BPF_PROG_LOAD`; the kernel takes what is left out as zero.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
}

/// Loads the smallest program of the kind that samples CPUs and drops it again. The error says what is in the way.
pub fn check_bpf() -> Result<()> {
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    btf.metadata().with_context(|| {
        format!("the tests need a kernel with BTF (CONFIG_DEBUG_INFO_BTF): no {}", btf.display())
    })?;
    load_nothing(PERF_EVENT).map(drop).map_err(|error| {
        anyhow!(
            "the tests load BPF programs, and this process may not ({error}). As root it may:\n    \
             sudo env \"PATH=$PATH\" \"CARGO_HOME=${{CARGO_HOME:-$HOME/.cargo}}\" \"RUSTUP_HOME=${{RUSTUP_HOME:-$HOME/.rustup}}\" \
             cargo xtask test"
        )
    })
}

/// Loads a program of a kind (`enum bpf_prog_type`) that returns 0 at once; it is there until what this gives is dropped.
pub fn load_nothing(prog_type: u32) -> io::Result<OwnedFd> {
    // r0 = 0; exit (Documentation/bpf/standardization/instruction-set.rst).
    let program: [u64; 2] = [0xb7, 0x95];
    let license = c"GPL";
    let attr = ProgLoad {
        prog_type,
        insn_cnt: 2,
        insns: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
    };
    // SAFETY: `attr` and what it points to outlive the call, and the kernel reads no more than the size given.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attr, size_of::<ProgLoad>()) };
    let fd = libc::c_int::try_from(fd).unwrap_or(-1);
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was returned just now and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
