//! Reads the ring buffers on a thread of its own and hands each event to the collector, in order of time.
//!
//! The probes wake it for the life of processes and, now and then, for new Python functions; else it looks every twenty milliseconds, and
//! every hundred where nothing new is to be read of the processes: each look takes a CPU from the traced program, and its caches. At some
//! looks it also sees to the sampler (`watch`).

use super::collector::Collector;
use crate::probe::bpf::error::ProbeError;
use crate::probe::bpf::rings::Rings;
use crate::probe::priority::raise_priority;
use crate::probe::sampling::watch::Watch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Milliseconds between two reads of the ring buffers.
const READ_MS: u16 = 20;

/// The same while the processes stay as they are.
const IDLE_MS: u16 = 100;

/// More bytes than these in one read, a sixteenth of a ring buffer, and the next one comes soon.
const MUCH: usize = 512 << 10;

/// The same while files are being read: what an interpreter's file says is to be known before it runs.
const BUSY_MS: u16 = 1;

/// The reader's thread.
pub(crate) struct Reader {
    thread: JoinHandle<(Collector, Watch)>,
    stop: Arc<AtomicBool>,
    samples: Arc<AtomicU64>,
}

impl Reader {
    pub(crate) fn start(
        mut rings: Rings,
        mut collector: Collector,
        mut watch: Watch,
    ) -> Result<Self, ProbeError> {
        let stop = Arc::new(AtomicBool::new(false));
        let samples = Arc::new(AtomicU64::new(0));
        let (stopped, sampled) = (Arc::clone(&stop), Arc::clone(&samples));
        let thread = std::thread::Builder::new().name("energy-events".into()).spawn(move || {
            raise_priority();
            loop {
                let last = stopped.load(Ordering::Acquire);
                let bytes = rings.drain(last, |event| collector.take(event));
                sampled.store(collector.sampled(), Ordering::Relaxed);
                let now = crate::clock::now();
                collector.housekeeping(now);
                if last {
                    return (collector, watch);
                }
                watch.check(now);
                let is_idle = bytes < MUCH && collector.is_idle(now);
                rings.wait(match (collector.is_waiting(), is_idle) {
                    (true, _) => BUSY_MS,
                    (false, true) => IDLE_MS,
                    (false, false) => READ_MS,
                });
            }
        })?;
        Ok(Self { thread, stop, samples })
    }

    /// Samples so far.
    pub(crate) fn samples(&self) -> u64 {
        self.samples.load(Ordering::Relaxed)
    }

    /// Reads what is left and gives the collector back; `None` if the thread died.
    pub(crate) fn stop(self) -> Option<(Collector, Watch)> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().ok()
    }
}
