//! Empties the ring buffers on one thread, and hands their events to the collector on another, in order of time.
//!
//! The first does nothing else, so that nobody's program can hold it up; the second may have to wait a moment for a file or a process. The probes wake
//! the first for the life of processes and, now and then, for new Python functions; else it looks every twenty milliseconds, and every hundred where
//! nothing new is to be read of the processes: each look takes a CPU from the traced program, and its caches. At some looks it also sees to the
//! sampler (`watch`).

use super::backlog::{BatchReceiver, BatchSender, Refused, backlog};
use super::collector::Collector;
use energy_trace_bpf::error::ProbeError;
use energy_trace_bpf::rings::{HOLD_NS, Rings};
use energy_trace_bpf::sampling::watch::Watch;
use energy_trace_model::clock::KtimeNs;
use energy_trace_system::host::urgency;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Milliseconds between two reads of the ring buffers.
const READ_MS: u16 = 20;

/// The same while the processes stay as they are.
const IDLE_MS: u16 = 100;

/// The same where CPU time is summed, and few events come.
const SUMMED_IDLE_MS: u16 = 500;

/// More bytes than these in one read, a sixteenth of a ring buffer, and the next one comes soon.
const MUCH: usize = 512 << 10;

/// Between two looks at files that are being read: what an interpreter's file says is to be known before it runs.
const BUSY: Duration = Duration::from_millis(1);
/// The same where CPU time is summed: always on, the first samples of an interpreter matter less than a
/// thousand looks a second.
const SUMMED_BUSY: Duration = Duration::from_millis(READ_MS as u64);
/// So often all else is seen to, whether many events come or none.
const AT_LEAST: Duration = Duration::from_millis(IDLE_MS as u64);
const SUMMED_AT_LEAST: Duration = Duration::from_millis(SUMMED_IDLE_MS as u64);

/// What both threads know.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Nothing is to be read of any process soon.
    is_idle: AtomicBool,
    /// The last time, in nanoseconds, before which all was handed on that tells who began and ended.
    handed_on: AtomicU64,
    samples: AtomicU64,
}

/// The two threads.
pub(crate) struct Reader {
    rings: JoinHandle<(Watch, Refused)>,
    events: JoinHandle<Collector>,
    shared: Arc<Shared>,
}

impl Reader {
    pub(crate) fn start(rings: Rings, collector: Collector, watch: Watch) -> Result<Self, ProbeError> {
        let (shared, (sender, receiver)) = (Arc::<Shared>::default(), backlog());
        let [of_rings, of_events] = [(); 2].map(|()| Arc::clone(&shared));
        let is_summed = collector.summed.is_some();
        let rings = Builder::new().name("energy-rings".into()).spawn(move || {
            urgency::raise_above_all();
            empty(rings, watch, sender, (&of_rings, is_summed))
        })?;
        let events = Builder::new().name("energy-events".into()).spawn(move || {
            urgency::raise();
            collect(collector, &receiver, &of_events)
        })?;
        Ok(Self { rings, events, shared })
    }

    /// Samples so far.
    pub(crate) fn samples(&self) -> u64 {
        self.shared.samples.load(Ordering::Relaxed)
    }

    /// Reads what is left and gives the collector back, and what was not taken in; `None` if a thread died.
    pub(crate) fn stop(self) -> Option<(Collector, Watch, Refused)> {
        self.shared.stop.store(true, Ordering::Release);
        let rings = self.rings.join().ok();
        let ((watch, refused), collector) = rings.zip(self.events.join().ok())?;
        Some((collector, watch, refused))
    }
}

/// Empties the ring buffers until the end. `is_summed`: where CPU time is summed, no look comes sooner for a process that begins or ends.
fn empty(
    mut rings: Rings,
    mut watch: Watch,
    mut sender: BatchSender,
    (shared, is_summed): (&Shared, bool),
) -> (Watch, Refused) {
    loop {
        let begun = Instant::now();
        let last = shared.stop.load(Ordering::Acquire);
        let now = energy_trace_system::clock::now();
        let mut batch = sender.begin(now);
        rings.drain(last, |event| sender.push(&mut batch, event));
        let much = batch.len() >= MUCH;
        let is_taken = batch.is_empty() || sender.pass(batch);
        shared.handed_on.store(now.as_ns(), Ordering::Release);
        if last || !is_taken {
            return (watch, sender.refused);
        }
        watch.check(now);
        let is_idle = !much && !rings.holds_back() && shared.is_idle.load(Ordering::Relaxed);
        let is_woken = rings.wait(match (is_idle, is_summed) {
            (false, _) => READ_MS,
            (true, false) => IDLE_MS,
            (true, true) => SUMMED_IDLE_MS,
        });
        if is_summed {
            // What woke it is to be old enough to be handed on.
            let least = if is_woken { Duration::from_nanos(HOLD_NS) } else { Duration::ZERO };
            let rest = Duration::from_millis(READ_MS.into()).saturating_sub(begun.elapsed());
            std::thread::sleep(rest.max(least));
        }
    }
}

/// Takes in events as long as any come, and sees to all else in between.
fn collect(mut collector: Collector, receiver: &BatchReceiver, shared: &Shared) -> Collector {
    while let Ok(seen) = take_in(&mut collector, receiver, &shared.handed_on) {
        shared.samples.store(collector.sampled(), Ordering::Relaxed);
        collector.housekeeping(seen);
        shared.is_idle.store(collector.is_idle(seen), Ordering::Relaxed);
    }
    collector
}

/// Takes in what is there, for a stated time; until when everything was seen then.
fn take_in(
    collector: &mut Collector,
    receiver: &BatchReceiver,
    handed_on: &AtomicU64,
) -> Result<KtimeNs, RecvTimeoutError> {
    let (begun, mut seen) = (Instant::now(), None);
    let is_summed = collector.summed.is_some();
    let mut within = match (collector.is_waiting(), is_summed) {
        (true, false) => BUSY,
        (true, true) => SUMMED_BUSY,
        (false, false) => AT_LEAST,
        (false, true) => SUMMED_AT_LEAST,
    };
    loop {
        let all = KtimeNs::from_ns(handed_on.load(Ordering::Acquire));
        let Some(batch) = receiver.next(within)? else {
            collector.knows_lives(all);
            break;
        };
        collector.knows_lives(batch.at);
        collector.foresee(batch.events());
        batch.events().for_each(|event| collector.take(event));
        receiver.done(&batch);
        (seen, within) = (Some(batch.at), Duration::ZERO);
        if begun.elapsed() > AT_LEAST {
            break;
        }
    }
    Ok(seen.unwrap_or_else(energy_trace_system::clock::now))
}
