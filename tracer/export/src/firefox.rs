//! The format of the Firefox Profiler (processed profile, gzip by whoever wants it): stacks by thread over time, each weighing its
//! microjoules, two power tracks for each domain, all of it and the program's
//! part, and a counter for each temperature and clock.
//!
//! <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>. The viewer calls weights "samples";
//! the product's name says what they are. Without energy they are microseconds of CPU time. Leaves out source lines.

use super::stacks::FrameNumber;
use super::timed::{DomainBin, DomainTrack, GaugeTrack, Stretch, Timed, domains, gauge_tracks};
use super::{ExportOptions, Input};
use energy_trace_model::ids::{ProcessKey, ThreadKey};
use energy_trace_model::recording::record::FrameKind;
use energy_trace_model::units::MicroJoules;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

/// Picowatt-hours in a microjoule: the unit of the viewer's power tracks.
const PWH_PER_UJ: f64 = 1e6 / 3600.0;

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let timed = input.over_time.map(|over_time| Timed::new(input, over_time, options));
    let tracks = input.over_time.map(|over_time| domains(input, over_time)).unwrap_or_default();
    let gauges = input.over_time.map(|over_time| gauge_tracks(input, over_time)).unwrap_or_default();
    let profile = timed.as_ref().map(|timed| Writer::new(timed, input).profile(&tracks, &gauges));
    let text = profile.map(|profile| serde_json::to_string(&profile)).transpose()?;
    out.write_all(text.unwrap_or_default().as_bytes())?;
    out.flush()
}

/// Fills a profile.
struct Writer<'a> {
    timed: &'a Timed<'a>,
    profile: Profile,
    categories: [(FrameKind, CategoryHandle); 7],
    processes: HashMap<Option<ProcessKey>, ProcessHandle>,
    has_energy: bool,
}

impl<'a> Writer<'a> {
    fn new(timed: &'a Timed<'a>, input: &Input<'_>) -> Self {
        let run = &input.profile.run;
        let start = Duration::from_nanos(run.header.anchor.unix_ns_of(run.start));
        let has_energy = timed.stacks.has_energy();
        let unit = if has_energy { "microjoules" } else { "microseconds" };
        let product = format!("{}: weights are {unit} ({})", timed.stacks.title(), timed.stacks.quality());
        let interval = SamplingInterval::from_nanos(1_000_000_000 / u64::from(run.header.sample_hz.max(1)));
        let mut profile =
            Profile::new(&product, ReferenceTimestamp::from_duration_since_unix_epoch(start), interval);
        profile.set_symbolicated(true);
        profile.set_os_name("Linux");
        let categories = [
            (FrameKind::Python, "Python", CategoryColor::Blue),
            (FrameKind::Native, "Native", CategoryColor::Green),
            (FrameKind::Inlined, "Native, inlined", CategoryColor::LightGreen),
            (FrameKind::Kernel, "Kernel", CategoryColor::Orange),
            (FrameKind::Gpu, "GPU", CategoryColor::Purple),
            (FrameKind::Special, "No code", CategoryColor::Gray),
            (FrameKind::Range, "Range", CategoryColor::Yellow),
        ]
        .map(|(kind, name, color)| (kind, profile.add_category(name, color)));
        Self { timed, profile, categories, processes: HashMap::new(), has_energy }
    }

    fn profile(mut self, tracks: &[DomainTrack], gauges: &[GaugeTrack]) -> Profile {
        let timed = self.timed;
        for (&thread, stretches) in &timed.threads {
            self.thread(thread, stretches);
        }
        self.tracks(tracks);
        self.gauges(gauges);
        self.profile
    }

    fn thread(&mut self, key: ThreadKey, stretches: &[Stretch]) {
        let start = Timestamp::from_nanos_since_reference(0);
        let known = self.timed.stacks.profile.threads.get(key.index());
        let tid = known.map_or(0, |thread| thread.tid.get());
        let process = self.process(known.map(|thread| thread.process));
        let pid = known.and_then(|thread| self.timed.stacks.profile.processes.get(thread.process.index()));
        let is_main = pid.is_some_and(|process| process.pid.get() == tid);
        let thread = self.profile.add_thread(process, tid, start, is_main);
        self.profile.set_thread_name(thread, &self.timed.stacks.holder_names(key).1);
        let mut known = HashMap::new();
        for stretch in stretches {
            let stack = self.stack(thread, &stretch.path, &mut known);
            let at = Timestamp::from_nanos_since_reference(stretch.span_ns.start);
            let mut cpu = CpuDelta::from_nanos(stretch.cpu_ns);
            for weight in weights(stretch, self.has_energy) {
                self.profile.add_sample(thread, at, stack, cpu, weight);
                cpu = CpuDelta::ZERO;
            }
        }
    }

    fn process(&mut self, key: Option<ProcessKey>) -> ProcessHandle {
        if let Some(&known) = self.processes.get(&key) {
            return known;
        }
        let process = key.and_then(|key| self.timed.stacks.profile.processes.get(key.index()));
        let name = process.map_or("unknown process", |process| process.name.as_str());
        let label = key.and_then(|key| self.timed.stacks.profile.label_of(key));
        let name = label.map_or_else(|| name.to_owned(), |label| format!("{label}: {name}"));
        let pid = process.map_or(0, |process| process.pid.get());
        let start = Timestamp::from_nanos_since_reference(0);
        let handle = self.profile.add_process(&energy_trace_names::shown::shown(&name), pid, start);
        self.processes.insert(key, handle);
        handle
    }

    /// The stack of a path, whose callers are shared with other stacks of the thread.
    fn stack(
        &mut self,
        thread: ThreadHandle,
        path: &[FrameNumber],
        known: &mut HashMap<Vec<FrameNumber>, Option<StackHandle>>,
    ) -> Option<StackHandle> {
        if let Some(&stack) = known.get(path) {
            return stack;
        }
        let mut stack = None;
        for &number in path {
            let name = self.profile.intern_string(self.timed.stacks.name(number));
            let info = FrameInfo {
                frame: Frame::Label(name),
                category_pair: self.category(number).into(),
                flags: FrameFlags::empty(),
            };
            let frame = self.profile.intern_frame(thread, info);
            stack = Some(self.profile.intern_stack(thread, stack, frame));
        }
        known.insert(path.to_vec(), stack);
        stack
    }

    fn category(&self, number: FrameNumber) -> CategoryHandle {
        let kind = self.timed.stacks.frame(number).map(|frame| frame.kind);
        let known = self.categories.iter().find(|(of, _)| Some(*of) == kind);
        known.map_or(CategoryHandle::OTHER, |&(_, category)| category)
    }

    fn tracks(&mut self, tracks: &[DomainTrack]) {
        if tracks.is_empty() {
            return;
        }
        let start = Timestamp::from_nanos_since_reference(0);
        let process = self.profile.add_process("power", 0, start);
        let thread = self.profile.add_thread(process, 0, start, true);
        self.profile.set_thread_name(thread, "power");
        for track in tracks {
            let all = format!("{} ({})", track.name, track.quality);
            self.track(process, &all, track, |bin| bin.measured);
            self.track(process, &format!("{all}, this program"), track, |bin| bin.target);
        }
    }

    /// Counters of their own for temperatures and clocks.
    fn gauges(&mut self, gauges: &[GaugeTrack]) {
        if gauges.is_empty() {
            return;
        }
        let process =
            self.profile.add_process("temperatures and clocks", 0, Timestamp::from_nanos_since_reference(0));
        for track in gauges {
            let what = if track.unit == "MHz" { "clock" } else { "temperature" };
            let name = format!("{} ({})", track.name, track.unit);
            let counter = self.profile.add_counter(process, &name, what, &name);
            let mut before = 0.0;
            // A sample is by how much the value is another one than before.
            for &(at_ns, value) in &track.bins {
                let Some(value) = value else { continue };
                let at = Timestamp::from_nanos_since_reference(at_ns);
                self.profile.add_counter_sample(
                    counter,
                    at,
                    value - std::mem::replace(&mut before, value),
                    0,
                );
            }
        }
    }

    /// A value of the viewer's counters is what was used since the value before.
    fn track(
        &mut self,
        process: ProcessHandle,
        name: &str,
        track: &DomainTrack,
        part: impl Fn(&DomainBin) -> MicroJoules,
    ) {
        let counter = self.profile.add_counter(process, name, "power", name);
        let at = Timestamp::from_nanos_since_reference;
        let first = track.bins.first().map_or(0, |bin| bin.span_ns.start);
        self.profile.add_counter_sample(counter, at(first), 0.0, 0);
        for bin in &track.bins {
            let pwh = part(bin).as_uj() as f64 * PWH_PER_UJ;
            self.profile.add_counter_sample(counter, at(bin.span_ns.end), pwh, 0);
        }
    }
}

/// The weight of a stretch, in pieces that the format can hold; none where it is zero.
fn weights(stretch: &Stretch, has_energy: bool) -> Vec<i32> {
    let mut left = match has_energy {
        true => stretch.energy.as_uj(),
        false => i64::try_from(stretch.cpu_ns / 1_000).unwrap_or(i64::MAX),
    };
    let mut pieces = Vec::new();
    while left != 0 {
        let piece = i32::try_from(left).unwrap_or(if left > 0 { i32::MAX } else { i32::MIN });
        left -= i64::from(piece);
        pieces.push(piece);
        // Two megajoules in one stack and bin: only a damaged recording says so.
        if pieces.len() == MOST_PIECES {
            break;
        }
    }
    pieces
}

/// Of one stack in one bin.
const MOST_PIECES: usize = 1_000;
