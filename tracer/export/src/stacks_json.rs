//! All stacks as JSON: schema `energy-trace/stacks/1.0`, energies in integer microjoules, without zeros.
//!
//! A table of frames, and stacks as positions in it, root first. Leaves out functions, the ledger and the rest of the report (`json.rs`).

use super::stacks::{StackCost, Stacks};
use super::{ExportOptions, Input};
use energy_trace_model::recording::record::{Frame, Quality};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown_json;
use energy_trace_report::csv::kind_word;
use energy_trace_report::folded::Per;
use energy_trace_report::{DomainChoice, run};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The schema's name. It changes when a reader of the old one would be misled.
const SCHEMA: &str = "energy-trace/stacks/1.0";

#[derive(Serialize)]
struct File<'a> {
    schema: &'static str,
    command: &'a [String],
    view: &'static str,
    quality: Option<Quality>,
    frames: Vec<FrameLine<'a>>,
    stacks: Vec<StackLine>,
}

#[derive(Serialize)]
struct FrameLine<'a> {
    name: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    module: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Serialize)]
struct StackLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Holder>,
    frames: Vec<usize>,
    energy_uj: i64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    by_class_uj: BTreeMap<&'static str, i64>,
    #[serde(skip_serializing_if = "is_zero")]
    cpu_ns: u64,
    #[serde(skip_serializing_if = "is_zero")]
    samples: u64,
}

#[derive(Serialize)]
struct Holder {
    process: String,
    pid: Option<u32>,
    thread: String,
    tid: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let stacks = Stacks::new(input.profile, &options.stacks(Per::None));
    let frames =
        (0..stacks.frame_count()).filter_map(|at| Some(frame_line(stacks.name(at), stacks.frame(at)?)));
    let spent = |cost: &&StackCost| (cost.energy, cost.time_ns, cost.samples) != (MicroJoules::ZERO, 0, 0);
    let file = File {
        schema: SCHEMA,
        command: &input.profile.run.header.command,
        view: input.profile.options.view.name(),
        quality: run::split_quality(input.profile, options.domain),
        frames: frames.collect(),
        stacks: stacks
            .list
            .iter()
            .filter(spent)
            .map(|cost| stack_line(&stacks, cost, options.domain))
            .collect(),
    };
    writeln!(out, "{}", shown_json(&serde_json::to_string(&file)?))?;
    out.flush()
}

fn frame_line<'a>(name: &'a str, frame: &'a Frame) -> FrameLine<'a> {
    FrameLine {
        name,
        kind: kind_word(frame.kind),
        module: &frame.module,
        file: &frame.file,
        line: (frame.line != 0).then_some(frame.line),
    }
}

fn stack_line(stacks: &Stacks<'_>, cost: &StackCost, domain: DomainChoice) -> StackLine {
    let chosen = cost.by_class.iter().filter(|(class, _)| domain.includes(*class));
    let by_class = chosen.map(|(class, energy)| (class.name(), energy.as_uj()));
    StackLine {
        holder: cost.holder.map(|thread| {
            let (process, name) = stacks.holder_names(thread);
            let thread = stacks.profile.threads.get(thread.index());
            let owner = thread.and_then(|thread| stacks.profile.processes.get(thread.process.index()));
            Holder {
                process,
                pid: owner.map(|process| process.pid.get()),
                thread: name,
                tid: thread.map(|thread| thread.tid.get()),
            }
        }),
        frames: stacks.path(cost),
        energy_uj: cost.energy.as_uj(),
        by_class_uj: by_class.filter(|(_, uj)| *uj != 0).collect(),
        cpu_ns: cost.time_ns,
        samples: cost.samples,
    }
}
