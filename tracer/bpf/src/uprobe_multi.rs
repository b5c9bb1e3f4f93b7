//! Probes on user functions that the kernel takes away all at once (`BPF_TRACE_UPROBE_MULTI`, Linux 6.6), which aya 0.14 cannot load.
//!
//! A probe that is a perf event is taken away under one lock of the kernel, each after a grace period of some 100 ms (kernel 6.18,
//! kernel/trace/trace_event_perf.c, `perf_uprobe_destroy`): 90 probes hold a run's end up for nine seconds. These links have no such lock:
//! what several threads close shares a grace period. The program is the same; only the attach type that it is loaded for differs.
//! Leaves out where probes are put (`gpu/libraries`) and kernels without this: there the caller goes on with aya's.

use super::bpf_call::{fd_of, make};
use aya::Ebpf;
use aya_obj::Function;
use aya_obj::generated::{bpf_attach_type, bpf_cmd, bpf_prog_type};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// `BPF_F_UPROBE_MULTI_RETURN`: the probe is on the function's return.
const ON_RETURN: u32 = 1;
/// Threads that take probes away.
const THREADS: usize = 16;

/// The head of `union bpf_attr` for `BPF_PROG_LOAD` (include/uapi/linux/bpf.h, v6.6).
#[repr(C)]
#[derive(Default)]
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
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    padding: u32,
}

/// The same for `BPF_BTF_LOAD`.
#[repr(C)]
#[derive(Default)]
struct BtfLoad {
    btf: u64,
    btf_log_buf: u64,
    btf_size: u32,
    btf_log_size: u32,
    btf_log_level: u32,
    padding: u32,
}

/// The same for `BPF_LINK_CREATE` with `uprobe_multi`.
#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    cnt: u32,
    multi_flags: u32,
    pid: u32,
    padding: u32,
}

/// A loaded program.
pub(super) struct MultiProbe {
    program: OwnedFd,
    returns: bool,
}

/// A place of a file that is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Where it is.
    pub offset: u64,
    /// Where the program has 16 bits in which the kernel counts who listens; 0: it has none.
    pub counter: u64,
    /// What the BPF program is told.
    pub cookie: u64,
}

/// A place that is probed until this is dropped.
pub struct MultiLink(#[expect(dead_code, reason = "what counts is when it is dropped")] OwnedFd);

impl MultiProbe {
    /// Loads a program of the object with the maps of `ebpf`, which must still have all of them. Where the kernel is too old this fails.
    pub(super) fn load(object: &[u8], ebpf: &Ebpf, name: &str, returns: bool) -> io::Result<Self> {
        let Relocated { function, license, types } = relocate(object, ebpf, name)?;
        // Without its types the verifier would follow every call of a global function again and again.
        let (btf, btf_size) = (types.as_ptr() as u64, size(types.len())?);
        let types = make(bpf_cmd::BPF_BTF_LOAD, &BtfLoad { btf, btf_size, ..BtfLoad::default() })?;
        let (functions, lines) = (function.func_info.func_info_bytes(), function.line_info.line_info_bytes());
        let mut attr = ProgLoad {
            prog_type: bpf_prog_type::BPF_PROG_TYPE_KPROBE as u32,
            insn_cnt: size(function.instructions.len())?,
            insns: function.instructions.as_ptr() as u64,
            license: license.as_ptr() as u64,
            expected_attach_type: bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32,
            prog_btf_fd: types.as_raw_fd().cast_unsigned(),
            func_info_rec_size: size(function.func_info_rec_size)?,
            func_info: functions.as_ptr() as u64,
            func_info_cnt: size(function.func_info.len())?,
            line_info_rec_size: size(function.line_info_rec_size)?,
            line_info: lines.as_ptr() as u64,
            line_info_cnt: size(function.line_info.len())?,
            ..ProgLoad::default()
        };
        for (to, from) in attr.prog_name.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        let loaded = Self { program: make(bpf_cmd::BPF_PROG_LOAD, &attr)?, returns };
        loaded.check_kernel()?;
        Ok(loaded)
    }

    /// Kernels before 6.6 load such a program and refuse to attach it. Later ones go on to look at the path, and say of a folder that it is no file
    /// (`bpf_uprobe_multi_link_attach`, kernel/trace/bpf_trace.c, v6.6).
    fn check_kernel(&self) -> io::Result<()> {
        match self.attach(Path::new("/"), 0, 0) {
            Err(error) if error.raw_os_error() != Some(libc::EBADF) => Err(error),
            _ => Ok(()),
        }
    }

    /// Probes a place in a file for all processes.
    pub(super) fn attach(&self, path: &Path, offset: u64, cookie: u64) -> io::Result<MultiLink> {
        self.attach_all(path, &[offset], &[cookie])
    }

    /// Probes places in a file for all processes, each with its cookie.
    pub(super) fn attach_all(&self, path: &Path, offsets: &[u64], cookies: &[u64]) -> io::Result<MultiLink> {
        self.attach_counted(path, offsets, cookies, &[])
    }

    fn attach_counted(
        &self,
        path: &Path,
        offsets: &[u64],
        cookies: &[u64],
        counters: &[u64],
    ) -> io::Result<MultiLink> {
        if offsets.len() != cookies.len() || !counters.is_empty() && counters.len() != offsets.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let path = CString::new(path.as_os_str().as_bytes())?;
        let attr = LinkCreate {
            prog_fd: self.program.as_raw_fd().cast_unsigned(),
            attach_type: bpf_attach_type::BPF_TRACE_UPROBE_MULTI as u32,
            path: path.as_ptr() as u64,
            offsets: offsets.as_ptr() as u64,
            ref_ctr_offsets: if counters.is_empty() { 0 } else { counters.as_ptr() as u64 },
            cookies: cookies.as_ptr() as u64,
            cnt: size(offsets.len())?,
            multi_flags: if self.returns { ON_RETURN } else { 0 },
            ..LinkCreate::default()
        };
        make(bpf_cmd::BPF_LINK_CREATE, &attr).map(MultiLink)
    }

    /// The same of places that may have a counter of those who listen.
    pub(super) fn attach_spots(&self, path: &Path, spots: &[Spot]) -> io::Result<MultiLink> {
        let each = |of: fn(&Spot) -> u64| -> Vec<u64> { spots.iter().map(of).collect() };
        let (offsets, cookies) = (each(|spot| spot.offset), each(|spot| spot.cookie));
        self.attach_counted(path, &offsets, &cookies, &each(|spot| spot.counter))
    }

    /// The program itself.
    pub(super) fn fd(&self) -> RawFd {
        self.program.as_raw_fd()
    }
}

/// Takes things away on several threads: the kernel makes each of them wait, but all at the same time.
pub fn drop_together<T: Send>(links: Vec<T>) {
    let each = links.len().div_ceil(THREADS).max(1);
    let mut links = links.into_iter();
    std::thread::scope(|scope| {
        loop {
            let some: Vec<T> = links.by_ref().take(each).collect();
            if some.is_empty() {
                break;
            }
            // Without a thread they are dropped here.
            let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(some));
        }
    });
}

/// A program with the maps that aya made and the functions that it calls.
struct Relocated {
    function: Function,
    license: CString,
    /// The object's BTF.
    types: Vec<u8>,
}

fn relocate(object: &[u8], ebpf: &Ebpf, name: &str) -> io::Result<Relocated> {
    let mut object = aya_obj::Object::parse(object).map_err(io::Error::other)?;
    let missing = || io::Error::other(format!("no program {name}, or no types"));
    let features = aya::features();
    let types = features.btf().ok_or_else(missing)?;
    let types =
        object.fixup_and_sanitize_btf(types).map_err(io::Error::other)?.ok_or_else(missing)?.to_bytes();
    let maps = std::mem::take(&mut object.maps);
    let found = maps.iter().filter_map(|(name, map)| Some((name.as_str(), fd_of(ebpf.map(name)?)?, map)));
    let sections = object.functions.keys().map(|(section, _)| *section).collect();
    object.relocate_maps(found, &sections).map_err(io::Error::other)?;
    object.relocate_calls(&sections).map_err(io::Error::other)?;
    object.sanitize_functions(features);
    let program = object.programs.get(name).ok_or_else(missing)?;
    let function = object.functions.get(&program.function_key()).ok_or_else(missing)?;
    Ok(Relocated { function: function.clone(), license: program.license.clone(), types })
}

fn size(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(io::Error::other)
}
