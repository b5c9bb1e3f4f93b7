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
    /// Of all times so far, what found no room.
    no_room_ns: u64,
    to: Sender<Vec<CpuTimes>>,
}

/// The collector's end.
pub(crate) struct SummedTime {
    reader: Arc<TimeReader>,
    from: Receiver<Vec<CpuTimes>>,
    /// What was taken out of times of which it is not known yet who began and ended.
    early: Vec<CpuTimes>,
}

impl TimeReader {
    /// The reader, and the collector's end; it is read for the first time.
    pub(crate) fn start(totals: Totals) -> io::Result<(Arc<Self>, SummedTime)> {
        let (to, from) = channel();
        let reader = Arc::new(Self(Mutex::new(Inner { totals, at: KtimeNs::default(), no_room_ns: 0, to })));
        reader.lock().read()?;
        Ok((Arc::clone(&reader), SummedTime { reader, from, early: Vec::new() }))
    }

    /// Power is read now.
    pub(crate) fn read(&self) {
        if let Err(error) = self.lock().read() {
            log::warn!("CPU time that was summed comes late: {error}");
        }
    }

    /// CPU time so far that found no room to be summed by process.
    pub(crate) fn no_room_ns(&self) -> u64 {
        self.lock().no_room_ns
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

    fn pass(&mut self, times: Vec<CpuTimes>) {
        self.no_room_ns += times.iter().map(|times| times.no_room_ns).sum::<u64>();
        if !times.is_empty() {
            // Without a collector the recording is over.
            let _ = self.to.send(times);
        }
    }
}

impl SummedTime {
    /// What was taken out of times up to the one until which it is known who began and ended.
    pub(crate) fn take(&mut self, now: KtimeNs, known: KtimeNs) -> Vec<CpuTimes> {
        let last = self.reader.lock().at;
        if now.ns_since(last) > MOST_NS {
            self.reader.read();
        }
        let mut taken = self.taken();
        self.early = take_later(&mut taken, known);
        taken
    }

    /// The same at the end, when power was read for the last time.
    pub(crate) fn take_last(&mut self) -> Vec<CpuTimes> {
        let mut reader = self.reader.lock();
        match reader.totals.read_last_of_tasks() {
            Ok(times) => reader.pass(times),
            Err(error) => log::warn!("CPU time of the last second is missing: {error}"),
        }
        drop(reader);
        self.taken()
    }

    fn taken(&mut self) -> Vec<CpuTimes> {
        std::mem::take(&mut self.early).into_iter().chain(self.from.try_iter().flatten()).collect()
    }
}

/// Takes out times that end later than this.
fn take_later(times: &mut Vec<CpuTimes>, known: KtimeNs) -> Vec<CpuTimes> {
    times.extract_if(.., |times| times.end > known).collect()
}

#[cfg(test)]
mod tests {
    use super::{CpuTimes, KtimeNs, take_later};
    use energy_trace_model::ids::CpuId;

    /// Times of which it is known who lived are taken, others later, and all once.
    #[test]
    fn times_wait_for_who_lived() {
        let times = |end: u64| CpuTimes {
            cpu: CpuId::new(0),
            start: KtimeNs::from_ns(0),
            end: KtimeNs::from_ns(end),
            of: vec![],
            no_room_ns: 0,
        };
        let mut taken = vec![times(5), times(9), times(7)];
        assert_eq!(take_later(&mut taken, KtimeNs::from_ns(7)), [times(9)]);
        assert_eq!(taken, [times(5), times(7)]);
    }
}
