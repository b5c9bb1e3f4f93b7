//! What stands in the arguments of a GPU library's call: which function, how much, in which stream, for which node. Leaves out what becomes of it.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use aya_ebpf::programs::ProbeContext;
use tracer_ebpf::arch::{call::ARGUMENTS_AT, register};
use tracer_ebpf::gpu::{ELEMENT_SHIFT, STREAM_SHIFT, call, params};

/// The registers and the words on the stack that a call's arguments may be in.
pub(super) struct Arguments {
    pub(super) registers: [u64; register::ARGUMENTS.len()],
    pub(super) sp: u64,
    pub(super) returns_to: u64,
    stack: [u64; 4],
}

impl Arguments {
    /// One that may be on the stack, from 0 on: a constant, up to the eighth.
    #[inline(always)]
    const fn get(&self, number: usize) -> u64 {
        if number < register::ARGUMENTS.len() {
            self.registers[number]
        } else {
            self.stack[number - register::ARGUMENTS.len() + ARGUMENTS_AT]
        }
    }
}

#[inline(always)]
pub(super) fn arguments(ctx: &ProbeContext) -> Arguments {
    let (registers, sp) =
        (register::ARGUMENTS.map(|word| register_of(ctx, word)), register_of(ctx, register::SP));
    let mut stack = [0_u64; 4];
    // SAFETY: the helper checks the user address and fails rather than faults; `stack` has room for 32 bytes.
    let _failed = unsafe { bpf_probe_read_user(stack.as_mut_ptr().cast(), 32, sp as *const _) };
    let returns_to = match register::RETURNS_TO {
        Some(word) => register_of(ctx, word),
        None => stack[0],
    };
    Arguments { registers, sp, returns_to, stack }
}

/// Where a call returns to, `sp` being the stack pointer where its function begins.
#[inline(always)]
pub(super) fn returns_to(ctx: &ProbeContext, sp: u64) -> u64 {
    match register::RETURNS_TO {
        Some(word) => register_of(ctx, word),
        None => word(sp),
    }
}

/// A register of the process where a function is called or returns: a word of `register`.
#[inline(always)]
pub(super) fn register_of(ctx: &impl EbpfContext, word: usize) -> u64 {
    // SAFETY: the program's own context is the registers, of `register::COUNT` words.
    unsafe { ctx.as_ptr().cast::<u64>().add(word).read() }
}

/// A word of the process; 0 where it cannot be read.
#[inline(always)]
pub(super) fn word(address: u64) -> u64 {
    let mut word = 0_u64;
    // SAFETY: as above, 8 bytes.
    let _failed = unsafe { bpf_probe_read_user((&raw mut word).cast(), 8, address as *const _) };
    word
}

/// The GPU threads of a launch whose grid and block begin here, as six words of four bytes.
#[inline(always)]
fn threads_at(address: u64) -> u64 {
    let (x, y, z) = (word(address), word(address.wrapping_add(8)), word(address.wrapping_add(16)));
    let low = |word: u64| word & 0xffff_ffff;
    let threads = low(x).wrapping_mul(x >> 32).wrapping_mul(low(y));
    threads.wrapping_mul(y >> 32).wrapping_mul(low(z)).wrapping_mul(z >> 32)
}

/// A graph's node that a call adds or changes: what it does (0: nothing on a device), and the function and amount as of a launch.
/// The structures are those of cuda.h, 12.0 to 13.5.
#[inline(always)]
pub(super) fn node(cookie: u64, arguments: &Arguments) -> (u32, u64, u64) {
    let [_, _, third, _, fifth, sixth, ..] = arguments.registers;
    let mut at = match cookie >> STREAM_SHIFT & 7 {
        3 => third,
        5 => fifth,
        _ => sixth,
    };
    let mut structure = cookie >> ELEMENT_SHIFT & 0xff;
    if structure == params::ANY {
        // `CUgraphNodeType`; behind it and its padding a union, in which a copy has its flags and context first.
        (structure, at) = match word(at) & 0xffff_ffff {
            0 => (params::KERNEL_2, at.wrapping_add(16)),
            1 => (params::COPY, at.wrapping_add(32)),
            2 => (params::MEMSET, at.wrapping_add(16)),
            4 => return (call::NODE_CHILD, word(at.wrapping_add(16)), 0),
            _ => (0, at),
        };
    }
    match structure {
        params::KERNEL | params::KERNEL_2 => {
            let mut function = word(at);
            if function == 0 && structure == params::KERNEL_2 {
                function = word(at.wrapping_add(56));
            }
            (call::NODE_KERNEL, function, threads_at(at.wrapping_add(8)))
        }
        params::COPY => {
            let (width, height, depth) =
                (word(at.wrapping_add(176)), word(at.wrapping_add(184)), word(at.wrapping_add(192)));
            (call::NODE_COPY, 0, width.wrapping_mul(height).wrapping_mul(depth))
        }
        params::MEMSET => {
            let (element, width, height) =
                (word(at.wrapping_add(16)) >> 32, word(at.wrapping_add(24)), word(at.wrapping_add(32)));
            (call::NODE_MEMSET, 0, element.wrapping_mul(width).wrapping_mul(height))
        }
        _ => (0, 0, 0),
    }
}

/// The function, the GPU threads or bytes, and the stream of a launch.
#[inline(always)]
pub(super) fn launched(what: u32, cookie: u64, arguments: &Arguments) -> (u64, u64, u64) {
    let [a, b, c, d, e, f, ..] = arguments.registers;
    let low = |word: u64| word & 0xffff_ffff;
    match what {
        call::LAUNCH => {
            let threads = low(b).wrapping_mul(low(c)).wrapping_mul(low(d)).wrapping_mul(low(e));
            (a, threads.wrapping_mul(low(f)).wrapping_mul(low(arguments.get(6))), arguments.get(8))
        }
        call::STUB => {
            let grid = low(b).wrapping_mul(b >> 32).wrapping_mul(low(c));
            (a, grid.wrapping_mul(low(d)).wrapping_mul(d >> 32).wrapping_mul(low(e)), arguments.get(7))
        }
        call::LAUNCH_EX | call::STUB_EX => (b, threads_at(a), word(a.wrapping_add(32))),
        call::GRAPH => (a, 0, b),
        _ => {
            let element = if what == call::MEMSET { cookie >> ELEMENT_SHIFT & 0xff } else { 1 };
            let stream = match cookie >> STREAM_SHIFT & 7 {
                4 => d,
                5 => e,
                _ => 0,
            };
            (0, c.wrapping_mul(element), stream)
        }
    }
}
