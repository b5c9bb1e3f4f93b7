//! The format of speedscope: one view in microjoules, one of CPU time in nanoseconds, over the same stacks.
//!
//! <https://www.speedscope.app/file-format-schema.json>. Weights cannot be below zero: such stacks are left out, and the view's name says how
//! many and how much. There is no unit for energy; the name says microjoules. Leaves out when samples were taken.

use super::stacks::{FrameNumber, StackCost, Stacks};
use super::{ExportOptions, Input};
use energy_trace_model::collections::Order as _;
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_names::shown::{shown, shown_json};
use energy_trace_report::folded::Per;
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Write};

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: String,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    shared: Shared,
    profiles: Vec<View>,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<FrameLine>,
}

#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct FrameLine {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
    #[serde(skip_serializing_if = "is_zero")]
    line: u32,
}

#[derive(Serialize)]
struct View {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: i64,
    #[serde(rename = "endValue")]
    end: i64,
    samples: Vec<Vec<usize>>,
    weights: Vec<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(line: &u32) -> bool {
    *line == 0
}

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let stacks = Stacks::new(input.profile, &options.stacks(Per::Thread));
    let mut frames = Frames::new(&stacks);
    let mut paths: Vec<(&StackCost, Vec<usize>)> =
        stacks.list.iter().map(|cost| (cost, frames.places(&stacks.path(cost)))).collect();
    // Stacks that share a root are next to each other, as the view in order of time shows them.
    paths.order_by(|one, other| one.1.cmp(&other.1));
    let time = view("CPU time".to_owned(), "nanoseconds", &paths, |cost| {
        i64::try_from(cost.time_ns).unwrap_or(i64::MAX)
    });
    let name = format!("Energy in microjoules ({})", stacks.quality());
    let energy = stacks.has_energy().then(|| view(name, "none", &paths, |cost| cost.energy.as_uj()));
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name: &stacks.title(),
        exporter: format!("energy-trace@{}", env!("CARGO_PKG_VERSION")),
        active: 0,
        shared: Shared { frames: frames.list },
        profiles: energy.into_iter().chain([time]).collect(),
    };
    out.write_all(shown_json(&serde_json::to_string(&file)?).as_bytes())?;
    out.flush()
}

fn view(
    name: String,
    unit: &'static str,
    paths: &[(&StackCost, Vec<usize>)],
    weight: impl Fn(&StackCost) -> i64,
) -> View {
    let of = |is_wanted: fn(i64) -> bool| {
        paths.iter().map(|(cost, path)| (path, weight(cost))).filter(move |(_, weight)| is_wanted(*weight))
    };
    let (samples, weights): (Vec<_>, Vec<_>) =
        of(|weight| weight > 0).map(|(path, weight)| (path.clone(), weight)).unzip();
    let (count, sum) = of(|weight| weight < 0).fold((0, 0), |(count, sum), (_, w)| (count + 1, sum + w));
    let name = match count {
        0 => name,
        _ => format!("{name}; left out: {count} stacks below zero, {sum} together"),
    };
    View { kind: "sampled", name, unit, start: 0, end: weights.iter().sum(), samples, weights }
}

/// The frames in use: functions, not addresses, so that a function is one thing to the viewer.
struct Frames<'a> {
    stacks: &'a Stacks<'a>,
    list: Vec<FrameLine>,
    known: HashMap<FrameLine, usize>,
    places: HashMap<FrameNumber, usize>,
}

impl<'a> Frames<'a> {
    fn new(stacks: &'a Stacks<'a>) -> Self {
        Self { stacks, list: Vec::new(), known: HashMap::new(), places: HashMap::new() }
    }

    fn places(&mut self, path: &[FrameNumber]) -> Vec<usize> {
        path.iter().map(|&number| self.place(number)).collect()
    }

    fn place(&mut self, number: FrameNumber) -> usize {
        if let Some(&place) = self.places.get(&number) {
            return place;
        }
        let frame = self.stacks.frame(number);
        // Of native code without a source file the library tells functions of one name apart.
        let file = |frame: &Frame| match (&*frame.file, frame.kind) {
            ("", FrameKind::Native) => shown(&frame.module).into_owned(),
            (file, _) => shown(file).into_owned(),
        };
        let line = FrameLine {
            name: self.stacks.name(number).to_owned(),
            file: frame.map_or_else(String::new, file),
            line: frame.map_or(0, |frame| frame.first_line),
        };
        let place = *self.known.entry(line.clone()).or_insert_with(|| {
            self.list.push(line);
            self.list.len() - 1
        });
        self.places.insert(number, place);
        place
    }
}
