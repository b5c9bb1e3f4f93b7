//! Ranges that the program marks (NVTX, ITT): which are open in each thread, kept where a sampler reads them.
//!
//! A range costs no trap: each thread has a word with the number of the path of its open ranges (`thread`), and a probe at
//! `energy_trace_range` is told once where that word lies, and of each path once what it is (`paths`). So the sampler reads one word. The
//! numbers are hashes of the names, hence the same in a forked child. Leaves out who calls (`nvtx`, `itt`, `plain`) and what is measured.

mod itt;
mod label;
mod nvtx;
mod paths;
mod plain;
mod thread;

pub use label::{LABEL_BYTES, OURS};

use super::guarded;
use label::Label;
use std::sync::{Mutex, MutexGuard, Once, TryLockError};

/// What `energy_trace_range` is told.
pub mod tell {
    /// The address of the calling thread's word; 0: it has none any more.
    pub const THREAD: u64 = 1;
    /// A path's number, that of the path around it (0: none), and its label's.
    pub const PATH: u64 = 2;
    /// A label's number, and the address of its text, which ends with a zero.
    pub const LABEL: u64 = 3;
}

/// Times that a lock is tried that another thread has for some nanoseconds. It may be held for good: by this thread below a signal's handler, or
/// by one that a forked child does not have.
const TRIES: u32 = 10_000;

/// Where a probe hears of threads, paths and labels (`tell`). It begins with a `nop`, which kernels emulate.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn energy_trace_range(what: u64, number: u64, around: u64, label: u64) {
    std::arch::naked_asm!("nop", "ret")
}

/// The calling thread begins a range in a domain; says how many it is in.
fn push(domain: usize, label: &Label) -> i32 {
    let mut depth = -1;
    guarded(|| depth = thread::push(domain, label).and_then(|depth| i32::try_from(depth).ok()).unwrap_or(-1));
    depth
}

/// It ends the innermost one of this domain.
fn pop(domain: usize) -> i32 {
    let mut depth = -1;
    guarded(|| depth = thread::pop(domain).and_then(|depth| i32::try_from(depth).ok()).unwrap_or(-1));
    depth
}

/// The calling thread begins a range that any thread may end, by its number.
fn start(domain: usize, label: &Label) -> u64 {
    let mut number = 0;
    guarded(|| number = thread::start(domain, label));
    number
}

/// Ends it.
fn end(number: u64) {
    guarded(|| thread::end(number));
}

/// Has forked children tell of their thread.
fn follow_forks() {
    static FOLLOWED: Once = Once::new();
    FOLLOWED.call_once(|| {
        // SAFETY: the handler tells a probe one number.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

extern "C" fn forked() {
    guarded(thread::tell);
}

/// What is behind a lock; `None` where it is held for good.
fn lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..TRIES {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}
