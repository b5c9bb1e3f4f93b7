//! Reads the ring buffers on a thread of its own and hands each event to the collector, in order of time.
//!
//! The probes wake it for the life of processes and, now and then, for new Python functions; else it looks every twenty milliseconds, and
//! every hundred where nothing new is to be read of the processes: each look takes a CPU from the traced program, and its caches. At some
//! looks it also sees to the sampler (`watch`).

use super::ProbeError;
use super::collector::Collector;
use super::rings::Rings;
use super::watch::Watch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Milliseconds between two looks at the ring buffers.
const LOOK_MS: u16 = 20;

/// The same while the processes stay as they are.
const CALM_MS: u16 = 100;

/// More bytes than these at one look, a sixteenth of a ring buffer, and the next one comes soon.
const MUCH: usize = 512 << 10;

/// The same while files are being read: what an interpreter's file says is to be known before it runs.
const HURRY_MS: u16 = 1;

/// The reader's thread.
pub(super) struct Reader {
    thread: JoinHandle<(Collector, Watch)>,
    stop: Arc<AtomicBool>,
    samples: Arc<AtomicU64>,
}

impl Reader {
    pub(super) fn start(
        mut rings: Rings,
        mut collector: Collector,
        mut watch: Watch,
    ) -> Result<Self, ProbeError> {
        let stop = Arc::new(AtomicBool::new(false));
        let samples = Arc::new(AtomicU64::new(0));
        let (stopped, sampled) = (Arc::clone(&stop), Arc::clone(&samples));
        let thread = std::thread::Builder::new().name("energy-events".into()).spawn(move || {
            hurry();
            loop {
                let last = stopped.load(Ordering::Acquire);
                let bytes = rings.drain(last, |event| collector.take(event));
                sampled.store(collector.sampled, Ordering::Relaxed);
                let now = crate::clock::now();
                collector.rest(now);
                if last {
                    return (collector, watch);
                }
                watch.look(now);
                let is_calm = bytes < MUCH && collector.is_calm(now);
                rings.wait(match (collector.is_waiting(), is_calm) {
                    (true, _) => HURRY_MS,
                    (false, true) => CALM_MS,
                    (false, false) => LOOK_MS,
                });
            }
        })?;
        Ok(Self { thread, stop, samples })
    }

    /// Samples so far.
    pub(super) fn samples(&self) -> u64 {
        self.samples.load(Ordering::Relaxed)
    }

    /// Reads what is left and gives the collector back; `None` if the thread died.
    pub(super) fn stop(self) -> Option<(Collector, Watch)> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().ok()
    }
}

/// Puts this thread before others: it sleeps nearly all the time, and what it reads of a process may be gone soon.
pub(super) fn hurry() {
    // SAFETY: changes the priority of the calling thread only; it has no effect on memory.
    let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -15) } != 0;
    if failed {
        log::debug!("a thread of the reader keeps its priority: {}", std::io::Error::last_os_error());
    }
}
