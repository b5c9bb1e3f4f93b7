//! The end of a recording: stop the stages, sum up, have the finisher make the results, wait for the command, have them shown.

use super::account::Recorded;
use super::control::Control;
use super::error::SessionError;
use super::progress::Progress;
use super::run::Ended;
use super::stage::{Stage, Stop};
use crate::finisher::Finisher;
use crate::plan::RecordPlan;
use crate::tracee::launch::{CommandEnd, ended_by, shell_status};
use crate::tracee::range_injection::RangeInjection;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::file::FileError;
use energy_trace_model::recording::record::{AccountDiagnostic, Record, RecordingDiagnostic, Summary};
use energy_trace_power::PowerEnd;
use energy_trace_probe::TraceEnd;
use energy_trace_report::budgets::Verdict;
use energy_trace_system::host::kernel::hidden_files;
use energy_trace_system::threads::on_thread;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// Stops everything and shows the result. A second SIGINT ends it at any point, and what is on disk stays readable.
pub(super) async fn finish(
    plan: &RecordPlan,
    mut control: Control,
    finisher: &Finisher,
    mut stage: Stage,
    stop: Stop,
    mut progress: Progress,
) -> Result<Ended, SessionError> {
    if !control.command_is_running() {
        progress.attributing(&stage.tracer.live());
    }
    let (kernels, of_ranges) = (std::mem::take(&mut stage.kernels), stage.ranges.injection.take());
    let of_kernels = kernels.found.iter().cloned().map(RecordingDiagnostic::from);
    let found = of_kernels.chain(stage.ranges.found.iter().cloned().map(RecordingDiagnostic::from)).collect();
    let finished = finish_all(plan, &mut control, finisher, stage, stop, found, &mut progress).await;
    if control.command_is_running() {
        kernels.leave();
        of_ranges.into_iter().for_each(RangeInjection::leave);
    }
    finished
}

async fn finish_all(
    plan: &RecordPlan,
    control: &mut Control,
    finisher: &Finisher,
    stage: Stage,
    stop: Stop,
    before: Vec<RecordingDiagnostic>,
    progress: &mut Progress,
) -> Result<Ended, SessionError> {
    let stopped = stop_stages(stage, stop, control.end(), before);
    // Where nobody looks, nobody is waited for yet.
    let stopped = match plan.live {
        true => within(plan, finisher, control.finish(stopped)).await??,
        false => control.finish(stopped).await?,
    };
    if let Err(error) = stopped.or_else(|error| unless_nobody_looks(plan, error)) {
        return Err(after_the_command(control, error).await);
    }
    match within(plan, finisher, control.finish(finisher.finish())).await {
        Ok(finished) => finished??,
        Err(error) => return Err(after_the_command(control, error).await),
    }
    if plan.live {
        control.wait_and_say().await?;
    } else {
        control.wait().await?;
    }
    progress.end();
    if !plan.screen.quiet {
        if let Some(text) = control.status().and_then(ended_by) {
            log::warn!("{text}");
        }
        within(plan, finisher, control.finish(finisher.show())).await???;
    }
    let status = control.status().map_or(0, shell_status);
    if plan.budgets.is_empty() {
        return Ok(Ended { status, budgets: Verdict::Kept });
    }
    let budgets = within(plan, finisher, control.finish(finisher.budgets())).await???;
    Ok(Ended { status, budgets })
}

/// For so long an agent waits for its own process; a service is asked to end once.
const AGENT_ENDS_WITHIN: Duration = Duration::from_secs(20);
/// Between two looks whether somebody has stopped that process.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// What a person waits for is given up when it was stopped in so many looks: who stopped all of us may continue us one after the other.
const LOOKS: u32 = 10;

/// Why recording failed, once the command has ended: that is no reason to leave it alone.
async fn after_the_command(control: &mut Control, error: SessionError) -> SessionError {
    if control.command_is_running() {
        log::warn!("recording has stopped; the command keeps running: {error}");
    }
    control.wait().await.err().unwrap_or(error)
}

/// What a person waits for may take as long as it likes, but not what somebody has stopped.
async fn within<T>(
    plan: &RecordPlan,
    finisher: &Finisher,
    work: impl Future<Output = T>,
) -> Result<T, SessionError> {
    let serves = plan.agent.is_some();
    let why = tokio::select! {
        done = work => return Ok(done),
        () = stopped(finisher, 1), if serves => SessionError::AgentStopped,
        () = tokio::time::sleep(AGENT_ENDS_WITHIN), if serves => SessionError::AgentSilent(AGENT_ENDS_WITHIN),
        () = stopped(finisher, LOOKS), if !serves => SessionError::FinisherStopped(plan.recording.clone()),
    };
    finisher.give_up();
    Err(why)
}

/// Works through the set-up, and does not wait for a process that somebody has stopped either.
pub(super) async fn set_up<T>(
    control: &mut Control,
    finisher: &Finisher,
    work: impl Future<Output = T>,
) -> Result<T, SessionError> {
    tokio::select! {
        done = control.set_up(work) => return done,
        () = stopped(finisher, LOOKS) => (),
    }
    finisher.resume();
    Err(SessionError::StoppedInSetUp)
}

/// Waits until somebody has stopped that process, for so many looks in a row.
async fn stopped(finisher: &Finisher, looks: u32) {
    let mut seen = 0;
    loop {
        seen = if finisher.is_stopped() { seen + 1 } else { 0 };
        if seen >= looks {
            return;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Whoever looked at the recording may have gone before its end.
fn unless_nobody_looks(plan: &RecordPlan, error: SessionError) -> Result<(), SessionError> {
    match error {
        SessionError::Recording(FileError::Write { source, .. })
            if plan.live && source.kind() == io::ErrorKind::BrokenPipe =>
        {
            Ok(())
        }
        error => Err(error),
    }
}

/// Stops power, then the tracer, and writes the summary.
async fn stop_stages(
    stage: Stage,
    stop: Stop,
    command: Option<CommandEnd>,
    before: Vec<RecordingDiagnostic>,
) -> Result<(), SessionError> {
    let Stage { tracer, power, records, writer, start, account, python, work, ranges, .. } = stage;
    if let Some(work) = work {
        // Its last readings are of the recording's time.
        work.stop().await;
    }
    let counted = account.end(command);
    // The last readings are taken after this moment, and the tracer stops after it: both cover the recording's time.
    let end = energy_trace_system::clock::now();
    // Names are looked up here, which takes seconds for large programs; counters that are late are read meanwhile.
    let stopping = on_thread("energy-stop", move || {
        let (told, found) = python.finish();
        (tracer.stop(told.as_deref()), found)
    });
    let stopping = stopping.map_err(|source| SessionError::System { doing: "stop the tracer", source })?;
    let power = power.stop().await;
    let (mut trace, found) = stopping.await.map_err(|error| panicked("stop the tracer", error))?;
    trace.diagnostics.extend(found.into_iter().map(RecordingDiagnostic::from));
    trace.diagnostics.extend(before);
    ranges.keep_reasons(&mut trace.diagnostics);
    let recorded = Recorded { trace: &trace.account, lost: &trace.lost, of_ns: end.ns_since(start) };
    let found = account.diagnostics(counted, &recorded);
    trace.diagnostics.extend(found.into_iter().map(RecordingDiagnostic::from));
    let hidden = hidden_files();
    if !hidden.is_empty() {
        trace.diagnostics.push(AccountDiagnostic::Hidden { files: hidden }.into());
    }
    let summary = summary(start, end, command.map(|command| command.status), power, trace);
    // The writer may be gone already: then `stop` knows why.
    let _ = records.send(Record::Summary(summary));
    drop(records);
    match stop {
        Stop::WriterEnded(result) => Ok(result?),
        Stop::Requested => Ok(writer.await.map_err(|error| panicked("write the recording", error))??),
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
    let PowerEnd { latency, lateness, diagnostics } = power;
    Summary {
        start,
        end: end.min(trace.end).max(start),
        exit_code: status.map(|status| i32::from(shell_status(status))),
        lost: trace.lost,
        unwinding: trace.unwinding,
        copies: trace.copies,
        bpf_ns: trace.bpf_ns,
        tracer_cpu_ns: own_cpu_ns().saturating_add(trace.helpers_cpu_ns),
        read_latency: latency,
        read_lateness: lateness,
        diagnostics: trace
            .diagnostics
            .into_iter()
            .chain(diagnostics.into_iter().map(RecordingDiagnostic::from))
            .collect(),
    }
}

/// CPU time of this process, all threads.
fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec, and this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
