//! Whether the machine stands still: one thread on each CPU, before all others, that wakes every 5 ms and measures how late it was.
//!
//! A CPU that an interrupt holds for a quarter of a second wakes nobody. Leaves out why: on a shared host the CPU may have been taken away.

use anyhow::{Result, bail};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often each thread wakes.
const EVERY: Duration = Duration::from_millis(5);
/// A gap as long as this counts: opening the first hardware event of a guest takes it up to 200 ms, with or without a recording.
pub(super) const LONG_MS: u64 = 250;
/// Before all ordinary threads, behind the kernel's own (`sched(7)`).
const PRIORITY: i32 = 50;

/// What one watch saw.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    /// Gaps of `LONG_MS` and more, on any CPU.
    pub(super) long: u64,
    /// The longest, in nanoseconds.
    pub(super) longest_ns: u64,
}

/// The threads. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Watchdog {
    over: Arc<AtomicBool>,
    counted: Arc<Counted>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counted {
    long: AtomicU64,
    longest_ns: AtomicU64,
}

impl Watchdog {
    /// Starts to watch all CPUs that this process may use.
    ///
    /// # Errors
    /// When a thread may not go before others.
    pub(super) fn start() -> Result<Self> {
        let allowed = nix::sched::sched_getaffinity(Pid::from_raw(0))?;
        let cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
        let (over, counted) = (Arc::new(AtomicBool::new(false)), Arc::new(Counted::default()));
        let mut watchdog = Self { over, counted, threads: Vec::new() };
        for cpu in cpus {
            let (told, ready) = channel();
            let (over, counted) = (Arc::clone(&watchdog.over), Arc::clone(&watchdog.counted));
            watchdog.threads.push(thread::spawn(move || watch(cpu, &over, &counted, &told)));
            if let Ok(Err(why)) = ready.recv() {
                bail!("the watchdog of CPU {cpu} cannot start: {why}");
            }
        }
        Ok(watchdog)
    }

    /// Forgets what was seen so far.
    pub(super) fn begin(&self) {
        self.counted.long.store(0, Ordering::Relaxed);
        self.counted.longest_ns.store(0, Ordering::Relaxed);
    }

    /// What was seen since.
    pub(super) fn gaps(&self) -> Gaps {
        let Counted { long, longest_ns } = &*self.counted;
        Gaps { long: long.load(Ordering::Relaxed), longest_ns: longest_ns.load(Ordering::Relaxed) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}

fn watch(cpu: usize, over: &AtomicBool, counted: &Counted, told: &Sender<Result<(), String>>) {
    let ready = go_first(cpu);
    let failed = ready.is_err();
    let _nobody = told.send(ready);
    let mut last = now_ns();
    while !failed && !over.load(Ordering::Relaxed) {
        thread::sleep(EVERY);
        let now = now_ns();
        let gap = now.saturating_sub(std::mem::replace(&mut last, now));
        counted.longest_ns.fetch_max(gap, Ordering::Relaxed);
        if gap >= LONG_MS * 1_000_000 {
            counted.long.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Puts this thread on a CPU, before all others there.
fn go_first(cpu: usize) -> Result<(), String> {
    let mut only = CpuSet::new();
    only.set(cpu).map_err(|error| error.to_string())?;
    sched_setaffinity(Pid::from_raw(0), &only).map_err(|error| error.to_string())?;
    let priority = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: `priority` is a valid parameter for the call's length; it concerns the calling thread only.
    let failed = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) } != 0;
    if failed { Err(std::io::Error::last_os_error().to_string()) } else { Ok(()) }
}

fn now_ns() -> u64 {
    let now =
        clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| now.tv_sec() * 1_000_000_000 + now.tv_nsec());
    now.cast_unsigned()
}
