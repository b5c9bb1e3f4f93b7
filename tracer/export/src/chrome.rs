//! Trace events as Chrome and Perfetto open them: a counter of watts for each domain, one for each
//! temperature and clock, and the stacks of each thread as slices.
//!
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>. A slice is what samples show, not a call: where a
//! stack follows itself it is one slice, and within a bin of `timed.rs` order is not the run's. `self_uj` of all slices is the program's energy.
//! Leaves out calls that were counted.

use super::stacks::FrameNumber;
use super::timed::{DomainBin, DomainTrack, GaugeTrack, Stretch, Timed, domains, gauge_tracks};
use super::{ExportOptions, Input};
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown_json;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The process that counters stand in.
const COUNTERS: u32 = 0;
/// And those of temperatures and clocks: no process of Linux has this number.
const GAUGES: u32 = u32::MAX - 1;

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let timed = input.over_time.map(|over_time| Timed::new(input, over_time, options));
    let stacks = timed.as_ref().map(|timed| &timed.stacks);
    let about = stacks.map(|stacks| json!({ "title": stacks.title(), "quality": stacks.quality() }));
    write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[", text(&about.into())?)?;
    let mut events = Events { out, comma: "" };
    let tracks = input.over_time.map(|over_time| domains(input, over_time)).unwrap_or_default();
    let gauges = input.over_time.map(|over_time| gauge_tracks(input, over_time)).unwrap_or_default();
    if !tracks.is_empty() {
        events.push(&name("process_name", (COUNTERS, 0), "power"))?;
    }
    tracks.iter().try_for_each(|track| counter(&mut events, track))?;
    if !gauges.is_empty() {
        events.push(&name("process_name", (GAUGES, 0), "temperatures and clocks"))?;
    }
    gauges.iter().try_for_each(|track| gauge(&mut events, track))?;
    if let Some(timed) = &timed {
        for (&thread, stretches) in &timed.threads {
            slices(&mut events, timed, thread, stretches)?;
        }
    }
    writeln!(events.out, "\n]}}")?;
    events.out.flush()
}

/// Events, each written when it is made: all at once take ten times as much memory as their text.
struct Events<'a> {
    out: &'a mut dyn Write,
    /// What stands before the next one.
    comma: &'static str,
}

impl Events<'_> {
    fn push(&mut self, event: &Value) -> io::Result<()> {
        write!(self.out, "{}\n{}", self.comma, text(event)?)?;
        self.comma = ",";
        Ok(())
    }
}

fn text(value: &Value) -> io::Result<String> {
    Ok(shown_json(&serde_json::to_string(value)?).into_owned())
}

fn name(what: &str, (pid, tid): (u32, u32), name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": { "name": name } })
}

/// Watts in each bin, and none behind the last.
fn counter(events: &mut Events<'_>, track: &DomainTrack) -> io::Result<()> {
    let name = format!("{} (W, {})", track.name, track.quality);
    let mut event = |at_ns, watts: [f64; 3]| {
        let [program, others, rest] = watts;
        let args = json!({ "this program": program, "other programs": others, "idle and nobody": rest });
        events.push(&json!({ "ph": "C", "name": name, "pid": COUNTERS, "ts": micros(at_ns), "args": args }))
    };
    let mut end = 0;
    for bin in &track.bins {
        let DomainBin { span_ns, target, others, rest, .. } = bin;
        let seconds = (span_ns.end - span_ns.start).max(1) as f64 / 1e9;
        event(span_ns.start, [*target, *others, *rest].map(|part| part.as_joules() / seconds))?;
        end = span_ns.end;
    }
    event(end, [0.0; 3])
}

/// The mean of each bin in which it is known.
fn gauge(events: &mut Events<'_>, track: &GaugeTrack) -> io::Result<()> {
    let name = format!("{} ({})", track.name, track.unit);
    for (at_ns, value) in &track.bins {
        let Some(value) = value else { continue };
        let (ts, args) = (micros(*at_ns), json!({ track.unit: value }));
        events.push(&json!({ "ph": "C", "name": name, "pid": GAUGES, "ts": ts, "args": args }))?;
    }
    Ok(())
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// A slice that is not over.
struct Open {
    frame: FrameNumber,
    from_ns: u64,
    energy: MicroJoules,
}

/// The slices of one thread.
struct Slices<'a> {
    timed: &'a Timed<'a>,
    holder: (u32, u32),
    open: Vec<Open>,
    /// Where the last stretch ended.
    end_ns: u64,
}

fn slices(
    events: &mut Events<'_>,
    timed: &Timed<'_>,
    thread: ThreadKey,
    stretches: &[Stretch],
) -> io::Result<()> {
    let profile = &timed.stacks.profile;
    let known = profile.threads.get(thread.index());
    let process = known.and_then(|thread| profile.processes.get(thread.process.index()));
    let pid = process.map_or(u32::MAX, |process| process.pid.get());
    let holder = (pid, known.map_or(thread.get(), |thread| thread.tid.get()));
    let (process, thread) = timed.stacks.holder_names(thread);
    events.push(&name("process_name", holder, &process))?;
    events.push(&name("thread_name", holder, &thread))?;
    let mut slices = Slices { timed, holder, open: Vec::new(), end_ns: 0 };
    stretches.iter().try_for_each(|stretch| slices.add(events, stretch))?;
    slices.close(events, 0)
}

impl Slices<'_> {
    fn add(&mut self, events: &mut Events<'_>, stretch: &Stretch) -> io::Result<()> {
        let span = &stretch.span_ns;
        // Rounding and the kernel's own short work on a CPU break no slice.
        let gap = span.start.saturating_sub(self.end_ns);
        let follows = gap <= MOST_GAP_NS;
        let same =
            self.open.iter().zip(&stretch.path).take_while(|(open, frame)| open.frame == **frame).count();
        self.close(events, if follows { same } else { 0 })?;
        for &frame in stretch.path.iter().skip(self.open.len()) {
            self.open.push(Open { frame, from_ns: span.start, energy: MicroJoules::ZERO });
        }
        // A shorter stack closed what was below it: the innermost open frame is the stack's.
        if let Some(innermost) = self.open.last_mut() {
            innermost.energy += stretch.energy;
        }
        self.end_ns = self.end_ns.max(span.end);
        Ok(())
    }

    /// Ends all slices but the outermost `keep`.
    fn close(&mut self, events: &mut Events<'_>, keep: usize) -> io::Result<()> {
        while self.open.len() > keep {
            let Some(slice) = self.open.pop() else { break };
            let (pid, tid) = self.holder;
            let dur = micros(self.end_ns.saturating_sub(slice.from_ns));
            events.push(&json!({
                "ph": "X", "name": self.timed.stacks.name(slice.frame), "cat": "sampled",
                "pid": pid, "tid": tid, "ts": micros(slice.from_ns), "dur": dur,
                "args": { "self_uj": slice.energy.as_uj() },
            }))?;
        }
        Ok(())
    }
}

/// The longest time without a sample within a slice.
const MOST_GAP_NS: u64 = 2_000_000;
