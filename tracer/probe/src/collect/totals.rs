//! Takes CPU time that the probes sum out of them at each reading of power, and hands it to the collector.
//!
//! Where power is read seldom or never, the collector has it taken out. Leaves out how (`bpf::totals`) and whose it is (`samples`).

use energy_trace_bpf::totals::{CpuTimes, Totals};
use energy_trace_model::clock::KtimeNs;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So long after the last time it is taken out anyway.
const MOST_NS: u64 = 200_000_000;

/// What takes it out, for whoever reads power.
pub(crate) struct TimeReader(Mutex<Inner>);

struct Inner {
    totals: Totals,
    at: KtimeNs,
    to: Sender<Vec<CpuTimes>>,
}

/// The collector's end.
pub(crate) struct SummedTime {
    reader: Arc<TimeReader>,
    from: Receiver<Vec<CpuTimes>>,
}

impl TimeReader {
    /// The reader, and the collector's end; it is read for the first time.
    pub(crate) fn start(totals: Totals) -> io::Result<(Arc<Self>, SummedTime)> {
        let (to, from) = channel();
        let reader = Arc::new(Self(Mutex::new(Inner { totals, at: KtimeNs::default(), to })));
        reader.lock().read()?;
        Ok((Arc::clone(&reader), SummedTime { reader, from }))
    }

    /// Power is read now.
    pub(crate) fn read(&self) {
        if let Err(error) = self.lock().read() {
            log::warn!("CPU time that was summed comes late: {error}");
        }
    }

    /// What a panic on another thread left behind is whole, or comes with the next reading.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn read(&mut self) -> io::Result<()> {
        self.at = energy_trace_system::clock::now();
        let times = self.totals.read()?;
        self.pass(times);
        Ok(())
    }

    fn pass(&self, times: Vec<CpuTimes>) {
        if !times.is_empty() {
            // Without a collector the recording is over.
            let _ = self.to.send(times);
        }
    }
}

impl SummedTime {
    /// What was taken out since the last call.
    pub(crate) fn take(&self, now: KtimeNs) -> Vec<CpuTimes> {
        let last = self.reader.lock().at;
        if now.ns_since(last) > MOST_NS {
            self.reader.read();
        }
        self.taken()
    }

    /// The same at the end, when power was read for the last time.
    pub(crate) fn take_last(&self) -> Vec<CpuTimes> {
        let mut reader = self.reader.lock();
        match reader.totals.read_last_of_tasks() {
            Ok(times) => reader.pass(times),
            Err(error) => log::warn!("CPU time of the last second is missing: {error}"),
        }
        drop(reader);
        self.taken()
    }

    fn taken(&self) -> Vec<CpuTimes> {
        self.from.try_iter().flatten().collect()
    }
}
