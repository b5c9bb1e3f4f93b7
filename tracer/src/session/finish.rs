//! The end of a recording: stop the stages, sum up, attribute, draw, wait for the command, show the table.

use super::control::Control;
use super::{SessionError, Stage, Stop, outputs};
use crate::attribution;
use crate::clock::KtimeNs;
use crate::plan::RecordPlan;
use crate::power::PowerEnd;
use crate::probe::TraceEnd;
use crate::profile::energy_profile::EnergyProfile;
use crate::profile::file;
use crate::profile::record::{Record, Summary, Warning};
use crate::profile::recording::Recording;
use crate::report::flamegraph::{self, FlameOptions};
use crate::report::table::{self, TableOptions};
use crate::report::{By, DomainChoice, ReportError};
use crate::target::launch::shell_status;
use std::io::{self, Write};
use std::process::ExitStatus;
use tokio::task::spawn_blocking;

/// Rows of the summary table; `report --rows` shows more.
const ROWS: usize = 20;

/// Stops everything and shows the result. A second SIGINT ends it at any point, and what is on disk stays readable.
pub(super) async fn finish(
    plan: &RecordPlan,
    mut control: Control,
    mut stage: Stage,
    stop: Stop,
) -> Result<u8, SessionError> {
    let kernels = std::mem::take(&mut stage.kernels);
    let finished = finish_all(plan, &mut control, stage, stop, &kernels.warnings).await;
    if control.command_is_running() {
        kernels.leave();
    }
    finished
}

async fn finish_all(
    plan: &RecordPlan,
    control: &mut Control,
    stage: Stage,
    stop: Stop,
    warnings: &[Warning],
) -> Result<u8, SessionError> {
    let stopped = stop_stages(stage, stop, control.status(), warnings);
    if let Err(error) = control.finish(stopped).await? {
        if control.command_is_running() {
            log::warn!("recording has stopped, and the command runs on: {error}");
        }
        control.wait().await?;
        return Err(error);
    }
    let result = control.finish(work(plan)).await??;
    control.wait().await?;
    if !plan.screen.quiet {
        show(plan, &result);
    }
    Ok(control.status().map_or(0, shell_status))
}

/// A recording, read back from its file, and what it says.
struct Results {
    recording: Recording,
    profile: EnergyProfile,
    /// Why there is no flame graph, though one was wanted.
    no_flame_graph: Option<String>,
}

/// Stops power, then the tracer, and writes the summary.
async fn stop_stages(
    stage: Stage,
    stop: Stop,
    status: Option<ExitStatus>,
    warnings: &[Warning],
) -> Result<(), SessionError> {
    let Stage { tracer, power, records, writer, start, prey: _, kernels: _ } = stage;
    // The last readings are taken after this moment, and the tracer stops after it: both cover the recording's time.
    let end = KtimeNs::now();
    let power = power.stop().await;
    // Names are looked up here, which takes seconds for large programs.
    let mut trace =
        spawn_blocking(move || tracer.stop()).await.map_err(|error| panicked("stop the tracer", error))?;
    trace.warnings.extend_from_slice(warnings);
    let summary = summary(start, end, status, power, trace);
    // The writer may be gone already: then `stop` knows why.
    let _ = records.send(Record::Summary(summary));
    drop(records);
    match stop {
        Stop::WriterEnded(result) => Ok(result?),
        Stop::Asked => Ok(writer.await.map_err(|error| panicked("write the recording", error))??),
    }
}

/// A thread of ours ended without an answer.
fn panicked(doing: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> SessionError {
    SessionError::System { doing, source: io::Error::other(error) }
}

fn summary(
    start: KtimeNs,
    end: KtimeNs,
    status: Option<ExitStatus>,
    power: PowerEnd,
    trace: TraceEnd,
) -> Summary {
    let PowerEnd { latency, lateness, warnings: power_warnings } = power;
    Summary {
        start,
        end: end.min(trace.end).max(start),
        exit_code: status.map(|status| i32::from(shell_status(status))),
        lost: trace.lost,
        unwinding: trace.unwinding,
        raw: trace.raw,
        bpf_ns: trace.bpf_ns,
        tracer_cpu_ns: own_cpu_ns(),
        read_latency: latency,
        read_lateness: lateness,
        warnings: trace.warnings.into_iter().chain(power_warnings).collect(),
    }
}

/// CPU time of this process, all threads.
fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Attributes and draws, from the file as `report` would, on a thread where it may take its time.
async fn work(plan: &RecordPlan) -> Result<Results, SessionError> {
    let plan = plan.clone();
    let done = spawn_blocking(move || results(&plan)).await;
    done.unwrap_or_else(|error| Err(panicked("attribute the energy", error)))
}

fn results(plan: &RecordPlan) -> Result<Results, SessionError> {
    let mut recording = file::read(&plan.recording)?;
    let profile = attribution::attribute_logically(&mut recording);
    let mut no_flame_graph = None;
    if let Some(path) = &plan.svg {
        let options = FlameOptions { domain: DomainChoice::Total, inverted: false };
        let mut svg = Vec::new();
        match flamegraph::write(&mut svg, &recording, &profile, &options) {
            Ok(()) => outputs::write_svg(plan, path, &svg)?,
            // A command that ends at once burns nothing that a counter sees.
            Err(error @ ReportError::NoEnergy { .. }) => no_flame_graph = Some(error.to_string()),
            Err(error) => return Err(SessionError::FlameGraph(error)),
        }
    }
    Ok(Results { recording, profile, no_flame_graph })
}

/// The summary on stderr. A closed stderr is nobody's failure: the files are written.
fn show(plan: &RecordPlan, results: &Results) {
    let mut text = Vec::new();
    let screen = plan.screen;
    let options = TableOptions {
        by: By::Function,
        rows: ROWS,
        color: screen.color,
        verbose: screen.verbose,
        width: screen.width,
    };
    let written = table::write(&mut text, &results.recording, &results.profile, &options);
    let _ = written.and_then(|()| say_files(&mut text, plan, results));
    let _ = io::stderr().write_all(&text);
}

fn say_files(out: &mut Vec<u8>, plan: &RecordPlan, results: &Results) -> io::Result<()> {
    write!(out, "\nrecording: {}", plan.recording.display())?;
    match (&plan.svg, &results.no_flame_graph) {
        (Some(svg), None) => writeln!(out, ", flame graph: {}", svg.display()),
        (Some(_), Some(why)) => writeln!(out, "; no flame graph: {why}"),
        (None, _) => writeln!(out),
    }
}
