//! `gpu_facts`: what `tests/gpu_check` needs of energy-trace's own code and no command prints. Writes one object of JSON.
//!
//! `launches FILE` counts the launches of a recording by what was launched. `readings FILE` lists what the GPUs' meters said, with when the first launch
//! and the last wait were. `meter LIBRARY LOG -- COMMAND…` reads the GPUs' meters through the
//! product's sources while a command runs, needs no BPF, and splits the first GPU's joules by the launches that the command has logged
//! (`workloads/gpu_driver.c`), as if the probes had seen them. Leaves out everything that `report` says.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use anyhow::{Context as _, Result, bail, ensure};
use energy_trace_attribution::attribute;
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::ids::{FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
use energy_trace_model::profile::Options;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::record::{
    CounterValue, DomainClass, Frame, FrameKind, GpuWait, GpuWork, Header, Jitter, Launched, Launches,
    Process, Record, SampleEvent, StackNode, Summary, Thread,
};
use energy_trace_power::{self as power, PowerEnd, PowerPlan, SourceChoice};
use energy_trace_sentences::{diagnostic, ignored_reason, power_fact, source_note};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

/// The probes' tick.
const TICK_NS: u64 = 2_000_000;
/// How long the idle power is measured.
const IDLE: Duration = Duration::from_secs(2);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let found = match words.as_slice() {
        ["launches", file] => launches(Path::new(file))?,
        ["readings", file] => readings(Path::new(file))?,
        ["meter", library, log, "--", command @ ..] => meter(library, Path::new(log), command)?,
        _ => bail!(
            "gpu_facts launches FILE | gpu_facts readings FILE | gpu_facts meter LIBRARY LOG -- COMMAND…"
        ),
    };
    println!("{found}");
    Ok(())
}

/// Launches, waits and meters of a recording.
fn launches(file: &Path) -> Result<Value> {
    let recording = read(file)?;
    let mut counts = BTreeMap::<String, u64>::new();
    for launched in recording.gpu.launches.iter().flat_map(|batch| &batch.work) {
        let leaf = recording.frames_of(launched.stack).last().map(|(_, frame)| frame.name.clone());
        *counts.entry(leaf.unwrap_or_default()).or_default() += launched.count;
    }
    Ok(json!({ "launches": counts, "waits": recording.gpu.waits.len(), "meters": meters(&recording) }))
}

/// Seconds from the start and joules of each reading of a GPU's counter.
fn readings(file: &Path) -> Result<Value> {
    let recording = read(file)?;
    let start = recording.summary.as_ref().context("the recording was cut off")?.start;
    let seconds = |at: KtimeNs| at.ns_since(start) as f64 / 1e9 - start.ns_since(at) as f64 / 1e9;
    let of_gpu = recording.domains.iter().filter(|domain| domain.class == DomainClass::Gpu);
    let list = of_gpu.map(|domain| {
        let read = recording.readings.get(&domain.id).into_iter().flatten();
        let pairs = read.filter_map(|reading| match reading.value {
            CounterValue::MicroJoules(value) => Some(json!([seconds(reading.at), value as f64 / 1e6])),
            _ => None,
        });
        (domain.name.clone(), Value::Array(pairs.collect()))
    });
    let launches = &recording.gpu.launches;
    let first = launches.iter().map(|batch| seconds(batch.from)).fold(f64::INFINITY, f64::min);
    let last = recording.gpu.waits.iter().map(|wait| seconds(wait.until)).fold(0.0, f64::max);
    let launched = launches.iter().map(|batch| seconds(batch.until)).fold(last, f64::max);
    Ok(
        json!({ "readings": Value::Object(list.collect()), "first_launch": first, "last_work": launched, "meters": meters(&recording) }),
    )
}

fn meters(recording: &Recording) -> Value {
    let named = recording.domains.iter().filter_map(|domain| {
        let meter = recording.gpu_facts.meters.get(&domain.id)?;
        let idle = domain.idle.as_ref().map(|idle| idle.power.as_watts());
        Some((domain.name.clone(), json!({ "behaviour": meter, "idle_watts": idle })))
    });
    Value::Object(named.collect())
}

/// Runs the command beside the meters, and splits.
fn meter(library: &str, log: &Path, command: &[&str]) -> Result<Value> {
    let (program, arguments) = command.split_first().context("no command")?;
    let nvml_lib = (library != "default").then(|| library.into());
    let plan = PowerPlan { nvml_lib, choices: vec![SourceChoice::Source("nvml")], ..PowerPlan::default() };
    let (mut recording, end, said) = tokio::runtime::Runtime::new()?.block_on(async {
        let mut set = power::open(&plan)?;
        set.measure_idle(IDLE).await;
        let mut recording = empty();
        recording.domains = set.domains().to_vec();
        recording.header.sources = set.sources();
        let (sender, records) = channel();
        let task = set.start(sender)?;
        let start = energy_trace_system::clock::now();
        let work = Command::new(program).args(arguments).env("GPU_DRIVER_LOG", log).output();
        tokio::time::sleep(Duration::from_millis(400)).await;
        let summary = Summary { start, end: energy_trace_system::clock::now(), ..Summary::default() };
        recording.summary = Some(summary);
        let end = task.stop().await;
        records.into_iter().for_each(|record| keep(record, &mut recording));
        anyhow::Ok((recording, end, work.context("the command")?))
    })?;
    ensure!(said.status.success(), "{program} failed: {}", String::from_utf8_lossy(&said.stderr));
    let text = std::fs::read_to_string(log).with_context(|| format!("no log {}", log.display()))?;
    let kernels = add_launches(&mut recording, &text)?;
    Ok(split(&recording, &end, &kernels))
}

fn keep(record: Record, recording: &mut Recording) {
    match record {
        Record::Readings(id, batch) => recording.readings.entry(id).or_default().extend(batch),
        Record::GpuMeter(id, meter) => drop(recording.gpu_facts.meters.insert(id, meter)),
        Record::GpuUses(id, uses) => recording.gpu_facts.uses.entry(id).or_default().extend(uses),
        _ => {}
    }
}

fn split(recording: &Recording, end: &PowerEnd, kernels: &[String]) -> Value {
    let profile = attribute(recording, &Options::default());
    let joules = |stack: u32| -> f64 {
        let rows = profile.rows.iter().filter(|row| row.stack == Some(StackId::new(stack)));
        rows.map(|row| row.energy[DomainClass::Gpu].as_joules()).sum()
    };
    let split: BTreeMap<_, _> =
        (1_u32..).zip(kernels).map(|(stack, name)| (name.clone(), joules(stack))).collect();
    let ledger = profile.ledger.iter().map(|row| {
        let parts = [row.measured, row.target, row.other, row.idle, row.residual].map(|part| part.as_joules());
        let [measured, target, other, idle, residual] = parts;
        json!({ "domain": row.domain, "measured_j": measured, "target_j": target, "other_j": other, "idle_j": idle,
                "residual_j": residual, "balanced": row.imbalance().as_joules() == 0.0 })
    });
    let readings = recording.readings.values().flatten();
    let good = readings.filter(|reading| matches!(reading.value, CounterValue::MicroJoules(_))).count();
    let warned = profile.diagnostics.iter().map(|w| json!([w.code(), diagnostic(w)]));
    json!({
        "ledger": ledger.collect::<Vec<_>>(), "kernels_j": split, "meters": meters(recording), "readings": good,
        "notes": recording.header.sources.iter().flat_map(|source| source.notes.iter().map(source_note)).collect::<Vec<_>>(),
        "ignored": recording.header.sources.iter().flat_map(|s| &s.ignored).map(|i| json!([i.domain, ignored_reason(&i.reason)])).collect::<Vec<_>>(),
        "warnings": end.diagnostics.iter().map(|w| json!([w.code(), power_fact(w)])).chain(warned).collect::<Vec<_>>(),
    })
}

/// Puts the lines of a log into the recording as if probes had seen them, and returns the kernels: the first has stack 1.
fn add_launches(recording: &mut Recording, log: &str) -> Result<Vec<String>> {
    let mut kernels: Vec<String> = Vec::new();
    let mut work = GpuWork::default();
    let mut boundary = 0;
    for line in log.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [kernel, from, until] = fields.as_slice() else { bail!("{line:?} is no line of a launch log") };
        let (from, until): (u64, u64) = (from.parse()?, until.parse()?);
        let place = kernels.iter().position(|known| known == kernel).unwrap_or_else(|| {
            kernels.push((*kernel).to_owned());
            kernels.len() - 1
        });
        if from >= boundary {
            boundary = (from / TICK_NS + 1) * TICK_NS;
            let at = KtimeNs::from_ns(from);
            work.launches.push(Launches { device: 0, from: at, until: at, work: vec![] });
        }
        // Each launch is waited for, and a batch ends where a wait does.
        boundary = boundary.min(until);
        let (at, until) = (KtimeNs::from_ns(from), KtimeNs::from_ns(until));
        let thread = ThreadKey::new(0);
        work.waits.push(GpuWait { thread, device: 0, from: at, until });
        let stack = StackId::new(u32::try_from(place + 1)?);
        if let Some(batch) = work.launches.last_mut() {
            batch.until = at;
            batch.work.push(Launched { thread, stack, count: 1, amount: 0 });
        }
    }
    recording.gpu = work;
    for (number, kernel) in (1_u32..).zip(&kernels) {
        recording.frames.push(frame(FrameKind::Gpu, kernel));
        recording.stacks.push(StackNode { parent: Some(StackId::new(0)), frame: FrameId::new(number) });
    }
    Ok(kernels)
}

fn frame(kind: FrameKind, name: &str) -> Frame {
    let (module, file) = (String::new(), String::new());
    Frame { kind, name: name.to_owned(), module, file, line: 1, first_line: 1, address: 0 }
}

/// A recording of one thread that has no samples.
fn empty() -> Recording {
    let process = ProcessKey::new(0);
    let program = Process {
        key: process,
        pid: Pid::new(7),
        parent: None,
        name: "logged".to_owned(),
        command: vec![],
        runtime: None,
    };
    let thread = Thread { key: ThreadKey::new(0), process, tid: Tid::new(7), name: "main".to_owned() };
    Recording {
        header: header(),
        processes: vec![program],
        threads: vec![thread],
        frames: vec![frame(FrameKind::Native, "main")],
        stacks: vec![StackNode { parent: None, frame: FrameId::new(0) }],
        ..Recording::default()
    }
}

fn header() -> Header {
    Header {
        anchor: WallAnchor { ktime: energy_trace_system::clock::now(), unix_ns: 0 },
        sample_hz: 99,
        jitter: Jitter::NONE,
        sample_event: Some(SampleEvent::CpuClock),
        ..Header::default()
    }
}
