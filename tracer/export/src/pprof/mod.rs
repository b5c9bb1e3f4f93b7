//! The format of `go tool pprof`: energy in microjoules and CPU time in nanoseconds on the same stacks, as a gzipped protobuf.
//!
//! Every stack is there, those with energy below zero too, so that sums are exact. Process and thread are labels (`-tagroot process,thread`),
//! and frames too where the user asks for it. Leaves out times of samples, which the format has no place for.

mod messages;

use super::stacks::{FrameNumber, StackCost, Stacks};
use super::texts::Texts;
use super::{ExportOptions, Input};
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_report::folded::Per;
use flate2::Compression;
use flate2::write::GzEncoder;
use messages::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use prost::Message as _;
use std::collections::HashMap;
use std::io::{self, Write};

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let stacks = Stacks::new(input.profile, &options.stacks(Per::None));
    let profile = Writer::new(&stacks).profile(input);
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&profile.encode_to_vec())?;
    gzip.finish()?.flush()
}

/// Fills the tables of a profile.
struct Writer<'a> {
    stacks: &'a Stacks<'a>,
    texts: Texts<i64>,
    profile: Profile,
    mappings: HashMap<&'a str, u64>,
    functions: HashMap<Function, u64>,
    /// The location of each frame that was used.
    locations: HashMap<FrameNumber, u64>,
}

impl<'a> Writer<'a> {
    fn new(stacks: &'a Stacks<'a>) -> Self {
        Self {
            stacks,
            texts: Texts::new(),
            profile: Profile::default(),
            mappings: HashMap::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
        }
    }

    fn profile(mut self, input: &Input<'_>) -> Profile {
        self.head(input);
        for cost in &self.stacks.list {
            let sample = self.sample(cost);
            if sample.value.iter().any(|&value| value != 0) {
                self.profile.sample.push(sample);
            }
        }
        self.profile.string_table = self.texts.into_list();
        self.profile
    }

    /// What stands before the samples. The first mapping is what viewers call the program.
    fn head(&mut self, input: &Input<'_>) {
        let (run, stacks) = (&input.profile.run, self.stacks);
        let energy = self.kind("energy", "microjoules");
        let cpu = self.kind("cpu", "nanoseconds");
        let program = stacks.profile.run.header.command.first().map_or("", String::as_str);
        self.mapping(program, 0);
        self.profile.sample_type = vec![energy, cpu];
        self.profile.default_sample_type = if stacks.has_energy() { energy.kind } else { cpu.kind };
        self.profile.time_nanos = signed(run.header.anchor.unix_ns_of(run.start));
        self.profile.duration_nanos = signed(run.duration_ns());
        self.profile.period_type = Some(cpu);
        self.profile.period = 1_000_000_000 / i64::from(run.header.sample_hz.max(1));
        self.profile.comment =
            [stacks.quality(), stacks.title()].iter().map(|text| self.texts.number(text)).collect();
    }

    fn kind(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.texts.number(kind), unit: self.texts.number(unit) }
    }

    fn sample(&mut self, cost: &StackCost) -> Sample {
        let path = self.stacks.path(cost);
        Sample {
            location_id: path.iter().rev().map(|&frame| self.location(frame)).collect(),
            value: vec![cost.energy.as_uj(), signed(cost.time_ns)],
            label: self.labels(cost),
        }
    }

    fn labels(&mut self, cost: &StackCost) -> Vec<Label> {
        let Some(holder) = cost.holder else { return vec![] };
        let (process, thread) = self.stacks.holder_names(holder);
        let mut label = |key, text: &str, number| Label {
            key: self.texts.number(key),
            text: if text.is_empty() { 0 } else { self.texts.number(text) },
            number,
        };
        let mut labels = vec![label("process", &process, 0), label("thread", &thread, 0)];
        let known = self.stacks.profile.threads.get(holder.index());
        labels.extend(known.map(|thread| label("tid", "", i64::from(thread.tid.get()))));
        let process = known.and_then(|thread| self.stacks.profile.processes.get(thread.process.index()));
        labels.extend(process.map(|process| label("pid", "", i64::from(process.pid.get()))));
        labels
    }

    fn location(&mut self, number: FrameNumber) -> u64 {
        if let Some(&known) = self.locations.get(&number) {
            return known;
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(number, id);
        let stacks = self.stacks;
        let mut location = Location { id, ..Location::default() };
        if let Some(frame) = stacks.frame(number) {
            let function_id = self.function(frame, stacks.name(number));
            location.line = vec![Line { function_id, line: i64::from(frame.line) }];
            if matches!(frame.kind, FrameKind::Native | FrameKind::Inlined) {
                location.mapping_id = self.mapping(&frame.module, frame.address);
                location.address = frame.address;
            }
        }
        self.profile.location.push(location);
        id
    }

    fn function(&mut self, frame: &Frame, name: &str) -> u64 {
        let mut function = Function {
            id: 0,
            name: self.texts.number(name),
            system_name: self.texts.number(&frame.name),
            filename: self.texts.number(&frame.file),
            start_line: i64::from(frame.first_line),
        };
        let id = self.functions.len() as u64 + 1;
        let known = *self.functions.entry(function).or_insert(id);
        if known == id {
            function.id = id;
            self.profile.function.push(function);
        }
        known
    }

    /// A file of code, reaching at least to this address of it.
    fn mapping(&mut self, file: &'a str, address: u64) -> u64 {
        let id = *self.mappings.entry(file).or_insert(self.profile.mapping.len() as u64 + 1);
        if self.profile.mapping.len() as u64 + 1 == id {
            let build_id = self.stacks.profile.build_ids.get(file).map_or("", String::as_str);
            self.profile.mapping.push(Mapping {
                id,
                filename: self.texts.number(file),
                build_id: self.texts.number(build_id),
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
                ..Mapping::default()
            });
        }
        let at = usize::try_from(id - 1).unwrap_or(usize::MAX);
        if let Some(mapping) = self.profile.mapping.get_mut(at) {
            mapping.memory_limit = mapping.memory_limit.max(address.saturating_add(1));
        }
        id
    }
}

/// The format has no unsigned numbers; none of ours comes near the limit.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
