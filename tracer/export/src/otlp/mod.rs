//! OpenTelemetry profiles: a `ProfilesData` message over one dictionary, in which each container has a resource of its own with two profiles,
//! energy in microjoules and CPU time in nanoseconds. Programs in no container have one a systemd unit, else one a program.
//!
//! Every stack is there, those with energy below zero too, so that sums are exact. Attributes are named as OpenTelemetry's conventions name
//! them. Leaves out sending it anywhere, names of pods, times of samples, and links to traces.

mod messages;

use super::stacks::{FrameNumber, StackCost, Stacks};
use super::texts::Texts;
use super::workloads::workloads_of;
use super::{ExportOptions, Input};
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_names::shown::shown;
use energy_trace_names::workload::Workload;
use energy_trace_report::folded::Per;
use indexmap::{IndexMap, IndexSet};
use messages::{
    AnyValue, Attribute, Dictionary, Function, KeyValue, Line, Link, Location, Mapping, Profile,
    ProfilesData, Resource, ResourceProfiles, Sample, Scope, ScopeProfiles, Stack, Value, ValueType,
};
use prost::Message as _;
use std::collections::HashMap;
use std::io::{self, Write};

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let stacks = Stacks::new(input.profile, &options.stacks(Per::None));
    out.write_all(&Writer::new(&stacks).data(input).encode_to_vec())?;
    out.flush()
}

/// A table that has each entry once; entry 0 means nothing.
type Table<T> = IndexSet<T>;

/// A position in a table; what is beyond the format's range means nothing.
fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or_default()
}

/// Fills the dictionary.
struct Writer<'a> {
    stacks: &'a Stacks<'a>,
    texts: Texts<i32>,
    attributes: Table<Attribute>,
    functions: Table<Function>,
    mappings: Vec<Mapping>,
    mapping_of: HashMap<&'a str, usize>,
    locations: Table<Location>,
    location_of: HashMap<FrameNumber, i32>,
    stack_table: Table<Stack>,
}

impl<'a> Writer<'a> {
    fn new(stacks: &'a Stacks<'a>) -> Self {
        Self {
            stacks,
            texts: Texts::new(),
            attributes: Table::from([Attribute::default()]),
            functions: Table::from([Function::default()]),
            mappings: vec![Mapping::default()],
            mapping_of: HashMap::new(),
            locations: Table::from([Location::default()]),
            location_of: HashMap::new(),
            stack_table: Table::from([Stack::default()]),
        }
    }

    fn data(mut self, input: &Input<'_>) -> ProfilesData {
        let stacks = self.stacks;
        let samples: Vec<(&StackCost, Sample)> =
            stacks.list.iter().map(|cost| (cost, self.sample(cost))).collect();
        let services = services_of(stacks);
        let mut by_service: IndexMap<&Service, Vec<&(&StackCost, Sample)>> = IndexMap::new();
        for (service, sample) in services.iter().zip(&samples) {
            by_service.entry(service).or_default().push(sample);
        }
        if by_service.is_empty() {
            by_service.insert(&NOBODY, vec![]);
        }
        let resources = by_service.iter().map(|(service, samples)| self.resource(input, service, samples));
        let resource_profiles = resources.collect();
        ProfilesData { resource_profiles, dictionary: Some(self.dictionary()) }
    }

    /// The profiles of one service.
    fn resource(
        &mut self,
        input: &Input<'_>,
        service: &Service,
        samples: &[&(&StackCost, Sample)],
    ) -> ResourceProfiles {
        let time = |cost: &StackCost| i64::try_from(cost.time_ns).unwrap_or(i64::MAX);
        let energy = self
            .stacks
            .has_energy()
            .then(|| self.profile(input, ("energy", "microjoules"), samples, |cost| cost.energy.as_uj()));
        let cpu = self.profile(input, ("cpu", "nanoseconds"), samples, time);
        let scope = Scope { name: "energy-trace".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let profiles =
            ScopeProfiles { scope: Some(scope), profiles: energy.into_iter().chain([cpu]).collect() };
        let resource = Some(service.resource(self.stacks));
        ResourceProfiles { resource, scope_profiles: vec![profiles] }
    }

    fn dictionary(self) -> Dictionary {
        Dictionary {
            mapping_table: self.mappings,
            location_table: self.locations.into_iter().collect(),
            function_table: self.functions.into_iter().collect(),
            link_table: vec![Link { trace_id: vec![0; 16], span_id: vec![0; 8] }],
            string_table: self.texts.into_list(),
            attribute_table: self.attributes.into_iter().collect(),
            stack_table: self.stack_table.into_iter().collect(),
        }
    }

    /// One value of every stack that has any.
    fn profile(
        &mut self,
        input: &Input<'_>,
        (kind, unit): (&str, &str),
        samples: &[&(&StackCost, Sample)],
        value: impl Fn(&StackCost) -> i64,
    ) -> Profile {
        let run = &input.profile.run;
        let spent = samples.iter().map(|(cost, sample)| (value(cost), sample));
        let samples = spent
            .filter(|(value, _)| *value != 0)
            .map(|(value, sample)| Sample { values: vec![value], ..sample.clone() })
            .collect();
        let quality = self.stacks.quality();
        Profile {
            sample_type: Some(self.kind(kind, unit)),
            samples,
            time_unix_nano: run.header.anchor.unix_ns_of(run.start),
            duration_nano: run.duration_ns(),
            period_type: Some(self.kind("cpu", "nanoseconds")),
            period: 1_000_000_000 / i64::from(run.header.sample_hz.max(1)),
            attribute_indices: vec![self.text_attribute("energy_trace.quality", &quality)],
        }
    }

    fn kind(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { kind: self.texts.number(kind), unit: self.texts.number(unit) }
    }

    fn sample(&mut self, cost: &StackCost) -> Sample {
        let path = self.stacks.path(cost);
        let location_indices = path.iter().rev().map(|&frame| self.location(frame)).collect();
        let stack_index = index(self.stack_table.insert_full(Stack { location_indices }).0);
        Sample { stack_index, attribute_indices: self.holder(cost), values: vec![] }
    }

    fn holder(&mut self, cost: &StackCost) -> Vec<i32> {
        let Some(holder) = cost.holder else { return vec![] };
        let (process, name) = self.stacks.holder_names(holder);
        let mut list = vec![
            self.text_attribute("process.executable.name", &process),
            self.text_attribute("thread.name", &name),
        ];
        let thread = self.stacks.profile.threads.get(holder.index());
        let owner = thread.and_then(|thread| self.stacks.profile.processes.get(thread.process.index()));
        list.extend(owner.map(|process| self.attribute("process.pid", number(process.pid.get()))));
        list.extend(thread.map(|thread| self.attribute("thread.id", number(thread.tid.get()))));
        list
    }

    fn text_attribute(&mut self, key: &str, text: &str) -> i32 {
        self.attribute(key, Value::Text(shown(text).into_owned()))
    }

    fn attribute(&mut self, key: &str, value: Value) -> i32 {
        let key = self.texts.number(key);
        let attribute = Attribute { key, value: Some(AnyValue { value: Some(value) }), unit: 0 };
        index(self.attributes.insert_full(attribute).0)
    }

    fn location(&mut self, frame_number: FrameNumber) -> i32 {
        if let Some(&known) = self.location_of.get(&frame_number) {
            return known;
        }
        let stacks = self.stacks;
        let mut location = Location::default();
        if let Some(frame) = stacks.frame(frame_number) {
            let function_index = self.function(frame, stacks.name(frame_number));
            location.lines = vec![Line { function_index, line: i64::from(frame.line) }];
            location.attribute_indices =
                vec![self.text_attribute("profile.frame.type", frame_type(frame.kind))];
            if matches!(frame.kind, FrameKind::Native | FrameKind::Inlined) {
                location.mapping_index = self.mapping(&frame.module, frame.address);
                location.address = frame.address;
            }
        }
        // Frames that differ in what this format does not show are one place.
        let at = index(self.locations.insert_full(location).0);
        self.location_of.insert(frame_number, at);
        at
    }

    fn function(&mut self, frame: &Frame, name: &str) -> i32 {
        let function = Function {
            name: self.texts.number(name),
            system_name: self.texts.number(&frame.name),
            filename: self.texts.number(&frame.file),
            start_line: i64::from(frame.first_line),
        };
        index(self.functions.insert_full(function).0)
    }

    /// A file of code, reaching at least to this address of it.
    fn mapping(&mut self, file: &'a str, address: u64) -> i32 {
        let next = self.mappings.len();
        let at = *self.mapping_of.entry(file).or_insert(next);
        if at == next {
            let build_id = self.stacks.profile.build_ids.get(file);
            let attribute_indices = build_id
                .map(|id| self.text_attribute("process.executable.build_id.gnu", id))
                .into_iter()
                .collect();
            let filename = self.texts.number(file);
            self.mappings.push(Mapping { memory_limit: 0, filename, attribute_indices });
        }
        if let Some(mapping) = self.mappings.get_mut(at) {
            mapping.memory_limit = mapping.memory_limit.max(address.saturating_add(1));
        }
        index(at)
    }
}

/// Whose stacks share a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Service {
    /// The unit, else the program; none of what is no program's.
    name: Option<String>,
    container: Option<String>,
    pod: Option<String>,
}

/// What is no program's, or nothing at all.
static NOBODY: Service = Service { name: None, container: None, pod: None };

/// Whose each stack is.
fn services_of(stacks: &Stacks<'_>) -> Vec<Service> {
    let workloads = workloads_of(&stacks.profile);
    let of = |cost: &StackCost| {
        let Some(holder) = cost.holder else { return Service::default() };
        let thread = stacks.profile.threads.get(holder.index());
        let workload = thread.and_then(|thread| workloads.get(thread.process.index()));
        let Workload { pod_uid, container_id, unit, .. } = workload.cloned().unwrap_or_default();
        let name = unit.unwrap_or_else(|| stacks.names_of(holder).0);
        Service { name: Some(name), container: container_id, pod: pod_uid }
    };
    stacks.list.iter().map(of).collect()
}

impl Service {
    fn resource(&self, stacks: &Stacks<'_>) -> Resource {
        let host = stacks.profile.run.host.as_ref().map(|host| shown(&host.name).into_owned());
        let name = self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("energy-trace");
        let attributes = [
            ("service.name", Some(name.to_owned())),
            ("container.id", self.container.clone()),
            ("k8s.pod.uid", self.pod.clone()),
            ("host.name", host),
            ("process.command_line", Some(stacks.title())),
        ];
        let known = attributes
            .into_iter()
            .filter_map(|(key, text)| Some((key, text.filter(|text| !text.is_empty())?)));
        let attribute = |(key, text): (&str, String)| KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(Value::Text(text)) }),
        };
        Resource { attributes: known.map(attribute).collect() }
    }
}

fn number(number: u32) -> Value {
    Value::Number(i64::from(number))
}

/// The values of `profile.frame.type`, and a word of ours where they have none.
const fn frame_type(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Python => "cpython",
        FrameKind::Native | FrameKind::Inlined => "native",
        FrameKind::Kernel => "kernel",
        FrameKind::Gpu => "gpu",
        FrameKind::Special => "mark",
        FrameKind::Range => "range",
    }
}
