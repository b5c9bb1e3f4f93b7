//! Reading while the run lasts: one thread for each source, with a record of how late and how slow each round was.
//!
//! A source's rounds are on a thread of their own, so a driver that takes milliseconds (NVML) delays nobody else. Rounds that were missed
//! are left out, not made up for: the readings carry their own times. Leaves out every difference between readings except the watts that
//! the progress line shows.

use super::cpu_clocks::Clocks;
use super::pace::Pace;
use super::sensors::Sensors;
use crate::meter_log::{Replay, ReplayError};
use crate::source::{Attempt, Extra, GpuMeters, PowerSource};
use energy_trace_counters::grown;
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::DomainId;
use energy_trace_model::recording::record::{
    CounterValue, Histogram, PowerDiagnostic, Reading, Record, SourceId,
};
use energy_trace_model::units::MicroWatts;
use energy_trace_system::threads::run_on_thread;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

/// How often readings are handed on; a recording that is cut off lacks at most this and the time the writer needs.
const FLUSH_NS: u64 = 500_000_000;

/// So long a source may take to end: what it reads may lie on a file system that does not answer any more.
const MOST_WAIT: Duration = Duration::from_secs(10);
const NO_ANSWER: &str = "it gave no answer for 10 s";

/// Less than this is the distance between reading two clocks, on a machine that loses time.
const NAP_NS: u64 = 200_000_000;

/// A source at work: its hardware, and its domains' places in the recording.
pub(crate) struct OpenSource {
    /// The hardware.
    pub(crate) source: Box<dyn PowerSource>,
    /// Which source.
    pub(crate) id: SourceId,
    /// Each domain's id and name, in the source's order.
    pub(crate) domains: Vec<(DomainId, String)>,
    /// Whether a domain's power counts in the progress line: psys holds the others, and would count them twice.
    pub(crate) shown: Vec<bool>,
}

/// A log that is replayed into this run.
pub(crate) struct LiveReplay {
    /// The log.
    pub(crate) replay: Replay,
    /// Its domains' ids.
    pub(crate) ids: Vec<DomainId>,
}

/// What is called just before each reading of the counters of a machine; it has to be quick.
pub type AtReadings = Arc<dyn Fn() + Send + Sync>;

/// What is read beside the counters, each on a thread of its own.
pub(crate) struct Beside {
    /// The clocks of CPUs.
    pub(crate) clocks: Option<Clocks>,
    /// Temperatures, clocks of GPUs, and what slows parts down.
    pub(crate) sensors: Option<Sensors>,
}

impl Beside {
    fn start(
        self,
        records: &Sender<Record>,
        stopped: &watch::Receiver<bool>,
    ) -> io::Result<Vec<oneshot::Receiver<()>>> {
        let clocks = self
            .clocks
            .map(|clocks| run_on_thread("energy-clocks", clocks.run(records.clone(), stopped.clone())));
        let sensors = self
            .sensors
            .map(|sensors| run_on_thread("energy-sensors", sensors.run(records.clone(), stopped.clone())));
        clocks.into_iter().chain(sensors).collect()
    }
}

/// The power readings of a run that is going on.
pub struct PowerTask {
    stop: watch::Sender<bool>,
    readers: Vec<oneshot::Receiver<ReaderEnd>>,
    beside: Vec<oneshot::Receiver<()>>,
    gauges: Vec<Arc<AtomicU64>>,
    replays: Vec<LiveReplay>,
    start: WallAnchor,
    /// What was found wrong before the start.
    diagnostics: Vec<PowerDiagnostic>,
    records: Sender<Record>,
}

/// What is known of the readings when the run is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerEnd {
    /// How long a round of one source took.
    pub latency: Histogram,
    /// How late after its due time a round began.
    pub lateness: Histogram,
    /// What went wrong: `power-read-failed`, `power-reader-died`, `replay-changed`, `replay-does-not-cover`.
    pub diagnostics: Vec<PowerDiagnostic>,
}

/// Takes the first reading of every source, hands on what logs hold, and starts a thread for each source.
///
/// # Errors
/// When no thread can be had.
pub(crate) fn start(
    sources: Vec<OpenSource>,
    replays: Vec<LiveReplay>,
    beside: Beside,
    period: Duration,
    diagnostics: Vec<PowerDiagnostic>,
    records: Sender<Record>,
    at_readings: Option<&AtReadings>,
) -> io::Result<PowerTask> {
    let start = energy_trace_system::clock::anchor();
    let (stop, stopped) = watch::channel(false);
    let (mut readers, mut gauges) = (Vec::new(), Vec::new());
    for live in sources {
        let gauge = Arc::new(AtomicU64::new(UNKNOWN));
        let mut reader = Reader::new(live, records.clone(), Arc::clone(&gauge));
        reader.at_readings = at_readings.cloned().filter(|_| reader.live.source.gpu_meters().is_none());
        reader.round();
        reader.flush();
        readers.push(run_on_thread("energy-power", reader.run(period, stopped.clone()))?);
        gauges.push(gauge);
    }
    let beside = beside.start(&records, &stopped)?;
    for log in &replays {
        log.send(&log.replay, 0, start, &records);
    }
    Ok(PowerTask { stop, readers, beside, gauges, replays, start, diagnostics, records })
}

impl PowerTask {
    /// The power now, over the last half second or so, of all counters together without psys (psys alone where there is nothing else);
    /// `None` until it is known, and where there is no counter.
    pub fn watts(&self) -> Option<MicroWatts> {
        let known = self.gauges.iter().map(|g| g.load(Ordering::Relaxed)).filter(|&uw| uw != UNKNOWN);
        known.reduce(u64::saturating_add).map(MicroWatts::from_uw)
    }

    /// Takes the last readings, hands everything on and ends.
    pub async fn stop(self) -> PowerEnd {
        let end = energy_trace_system::clock::now();
        // Without a receiver every reader has ended by itself; what they found is in their results.
        let _ = self.stop.send(true);
        let mut all = ReaderEnd { diagnostics: self.diagnostics, ..ReaderEnd::default() };
        for reader in self.readers {
            let died = |error: String| PowerDiagnostic::ReaderDied { error };
            match tokio::time::timeout(MOST_WAIT, reader).await {
                Ok(Ok(one)) => all.add(one),
                Ok(Err(e)) => all.diagnostics.push(died(e.to_string())),
                Err(_) => all.diagnostics.push(died(NO_ANSWER.to_owned())),
            }
        }
        for beside in self.beside {
            // Without the last of them a clock stands as it was read before.
            let _ = beside.await;
        }
        for log in &self.replays {
            all.diagnostics.extend(log.finish(self.start, end, &self.records));
        }
        PowerEnd {
            latency: serialize(&all.latency),
            lateness: serialize(&all.lateness),
            diagnostics: all.diagnostics,
        }
    }
}

impl LiveReplay {
    fn send(&self, replay: &Replay, from: usize, start: WallAnchor, records: &Sender<Record>) {
        for (place, &id) in self.ids.iter().enumerate() {
            // Where the writer has ended, the session knows why.
            let _ = records.send(Record::Readings(id, replay.readings(place, from, start)));
        }
    }

    /// Hands on what a meter has written meanwhile, and says where the log does not cover the run.
    fn finish(&self, start: WallAnchor, end: KtimeNs, records: &Sender<Record>) -> Vec<PowerDiagnostic> {
        let (grown, mut found) = match self.read_again() {
            Ok(grown) => (grown, Vec::new()),
            Err(e) => (None, vec![PowerDiagnostic::ReplayChanged { error: e.to_string() }]),
        };
        if let Some(grown) = &grown {
            self.send(grown, self.replay.len(), start, records);
        }
        let log = grown.as_ref().unwrap_or(&self.replay);
        let first = (0..log.len()).find_map(|row| log.time_of(row, start));
        let last = log.len().checked_sub(1).and_then(|row| log.time_of(row, start));
        if first.is_none_or(|t| t > start.ktime) || last.is_none_or(|t| t < end) {
            let path = log.path().display().to_string();
            found.push(PowerDiagnostic::ReplayDoesNotCover { path });
        }
        found
    }

    fn read_again(&self) -> Result<Option<Replay>, ReplayError> {
        if !self.replay.grows() {
            return Ok(None);
        }
        let again = Replay::open(self.replay.path())?;
        let names = |replay: &Replay| replay.domains.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        if names(&again) != names(&self.replay) {
            let path: PathBuf = self.replay.path().to_owned();
            let what = "the columns are not those of the start".to_owned();
            return Err(ReplayError::Bad { path, line: 1, column: "1".to_owned(), what });
        }
        Ok((again.len() > self.replay.len()).then_some(again))
    }
}

/// No power is known yet.
const UNKNOWN: u64 = u64::MAX;

struct Reader {
    live: OpenSource,
    tracks: Vec<Track>,
    attempts: Vec<Attempt>,
    rounds: u64,
    last_flush: KtimeNs,
    slept_ns: u64,
    records: Sender<Record>,
    gauge: Arc<AtomicU64>,
    at_readings: Option<AtReadings>,
    end: ReaderEnd,
}

/// One domain's readings since the last flush, and what the diagnostics and the progress line need.
#[derive(Default)]
struct Track {
    batch: Vec<Reading>,
    failed: u64,
    first_failure: Option<String>,
    /// The last good reading of an earlier batch, and the power since.
    earlier: Option<(KtimeNs, u64)>,
    watts: Option<u64>,
}

#[derive(Clone)]
struct ReaderEnd {
    latency: hdrhistogram::Histogram<u64>,
    lateness: hdrhistogram::Histogram<u64>,
    diagnostics: Vec<PowerDiagnostic>,
}

impl Default for ReaderEnd {
    fn default() -> Self {
        Self { latency: histogram(), lateness: histogram(), diagnostics: Vec::new() }
    }
}

impl ReaderEnd {
    fn add(&mut self, other: Self) {
        // Histograms of one shape always add.
        let _ = self.latency.add(&other.latency);
        let _ = self.lateness.add(&other.lateness);
        self.diagnostics.extend(other.diagnostics);
    }
}

impl Reader {
    fn new(live: OpenSource, records: Sender<Record>, gauge: Arc<AtomicU64>) -> Self {
        let tracks = live.domains.iter().map(|_| Track::default()).collect();
        let last_flush = energy_trace_system::clock::now();
        let slept_ns = energy_trace_system::clock::slept_ns();
        let end = ReaderEnd::default();
        let (attempts, rounds, at_readings) = (Vec::new(), 0, None);
        Self { live, tracks, attempts, rounds, last_flush, slept_ns, records, gauge, at_readings, end }
    }

    async fn run(mut self, period: Duration, mut stopped: watch::Receiver<bool>) -> ReaderEnd {
        let mut pace = Pace::new(period, self.live.source.own_period(period), Instant::now());
        loop {
            let due = pace.next(Instant::now());
            tokio::select! {
                biased;
                _ = stopped.changed() => break,
                () = sleep_until(due) => self.due_round(due),
            }
        }
        self.round();
        let late = self.live.source.gpu_meters().map_or(Duration::ZERO, |meters| meters.after_end());
        let end = Instant::now() + late;
        loop {
            let due = pace.next(Instant::now());
            if due >= end {
                break;
            }
            sleep_until(due).await;
            self.round();
        }
        self.flush();
        self.into_end()
    }

    fn due_round(&mut self, due: Instant) {
        record(&mut self.end.lateness, Instant::now().saturating_duration_since(due));
        self.round();
        if energy_trace_system::clock::now().ns_since(self.last_flush) >= FLUSH_NS {
            self.flush();
        }
    }

    /// Reads every domain of the source once.
    fn round(&mut self) {
        self.notice_sleep(energy_trace_system::clock::slept_ns());
        if let Some(at_reading) = &self.at_readings {
            at_reading();
        }
        let before = energy_trace_system::clock::now();
        self.attempts.clear();
        self.live.source.read(&mut self.attempts);
        record(&mut self.end.latency, energy_trace_system::clock::now() - before);
        self.rounds += 1;
        for (track, attempt) in self.tracks.iter_mut().zip(self.attempts.drain(..)) {
            let value = match attempt.counter_uj {
                Ok(counter) => CounterValue::MicroJoules(counter),
                Err(why) => {
                    track.failed += 1;
                    track.first_failure.get_or_insert(why);
                    CounterValue::Failed
                }
            };
            track.batch.push(Reading { at: attempt.at, value });
        }
    }

    /// Marks the moment when the machine has slept since the round before.
    fn notice_sleep(&mut self, slept_ns: u64) {
        if slept_ns.saturating_sub(self.slept_ns) > NAP_NS {
            // Where the writer has ended, the session knows why.
            let _ = self.records.send(Record::Slept(energy_trace_system::clock::now()));
        }
        self.slept_ns = slept_ns;
    }

    /// Hands the readings on and works out the power for the progress line.
    fn flush(&mut self) {
        self.last_flush = energy_trace_system::clock::now();
        for (track, (id, _)) in self.tracks.iter_mut().zip(&self.live.domains) {
            track.update_watts();
            if !track.batch.is_empty() {
                // Where the writer has ended, the session knows why.
                let _ = self.records.send(Record::Readings(*id, std::mem::take(&mut track.batch)));
            }
        }
        let extras = self.live.source.gpu_meters().map(GpuMeters::extras).unwrap_or_default();
        self.hand_on(extras);
        let shown = self.tracks.iter().zip(&self.live.shown).filter(|&(_, &shown)| shown);
        let watts = shown.filter_map(|(track, _)| track.watts).reduce(u64::saturating_add);
        self.gauge.store(watts.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// Hands on what the source has learned beside its readings.
    fn hand_on(&self, extras: Vec<(usize, Extra)>) {
        for (place, extra) in extras {
            let Some(&(id, _)) = self.live.domains.get(place) else { continue };
            let record = match extra {
                Extra::GpuMeter(meter) => Record::GpuMeter(id, meter),
                Extra::GpuUses(uses) => Record::GpuUses(id, uses),
            };
            // Where the writer has ended, the session knows why.
            let _ = self.records.send(record);
        }
    }

    fn into_end(mut self) -> ReaderEnd {
        let mut found = self.live.source.finish();
        let (extras, of_gpus) = self.live.source.gpu_meters().map(GpuMeters::finish).unwrap_or_default();
        self.hand_on(extras);
        found.extend(of_gpus);
        // A device that is lost fails at every reading after; it is reported once.
        let lost = |name: &str| {
            let is_lost = |found: &PowerDiagnostic| matches!(found, PowerDiagnostic::GpuLost { domain } if domain == name);
            found.iter().any(is_lost)
        };
        for (track, (_, name)) in self.tracks.iter().zip(&self.live.domains) {
            if let Some(first) = track.first_failure.as_ref().filter(|_| !lost(name)) {
                self.end.diagnostics.push(PowerDiagnostic::ReadFailed {
                    domain: name.clone(),
                    failed: track.failed,
                    readings: self.rounds,
                    error: first.clone(),
                });
            }
        }
        self.end.diagnostics.extend(found);
        self.end
    }
}

impl Track {
    /// Power since the last flush; a counter that went backwards leaves the power of before.
    fn update_watts(&mut self) {
        let good = |r: &Reading| match r.value {
            CounterValue::MicroJoules(counter) => Some((r.at, counter)),
            CounterValue::Failed => None,
        };
        let Some(now) = self.batch.iter().rev().find_map(good) else { return };
        let before = self.earlier.replace(now).or_else(|| self.batch.iter().find_map(good));
        let Some(before) = before else { return };
        let (uj, ns) = (grown(before.1, now.1), now.0.ns_since(before.0));
        if let (Some(uj), true) = (uj, ns > 0) {
            let uw = u128::from(uj) * 1_000_000_000 / u128::from(ns);
            self.watts = Some(u64::try_from(uw).unwrap_or(UNKNOWN - 1));
        }
    }
}

/// Nanoseconds up to an hour to within 1 %, in about 40 kB; longer is recorded as an hour.
fn histogram() -> hdrhistogram::Histogram<u64> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    hdrhistogram::Histogram::new_with_max(HOUR_NS, 2)
        .unwrap_or_else(|_| unreachable!("two digits up to an hour are within the histogram's limits"))
}

fn record(histogram: &mut hdrhistogram::Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

/// In the V2 format; empty when nothing was recorded.
fn serialize(histogram: &hdrhistogram::Histogram<u64>) -> Histogram {
    let mut bytes = Vec::new();
    // Writing to memory does not fail, and no count comes near 2^63.
    let written = V2Serializer::new().serialize(histogram, &mut bytes);
    Histogram(if histogram.is_empty() || written.is_err() { Vec::new() } else { bytes })
}
