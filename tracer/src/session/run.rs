//! A recording from its first check to its exit status: what happens in which order, and what ends it.
//!
//! Leaves out how the stages are started (`stage.rs`) and stopped (`finish.rs`).

use super::caller::{Caller, gone_silent};
use super::checks;
use super::control::{Control, Event};
use super::error::SessionError;
use super::finish::{finish, set_up};
use super::own_share::CostWatch;
use super::progress::Progress;
use super::stage::{Roles, Stage, Stop, start};
use crate::finisher::Finisher;
use crate::plan::RecordPlan;
use crate::tracee::signals::Signals;
use crate::work::{Forward, WorkReader};
use energy_trace_foreign::peeker::Peeker;
use energy_trace_foreign::resolver::Resolver;
use energy_trace_model::recording::file::RecordingWriter;
use energy_trace_probe::{Before, leave_command};
use energy_trace_report::budgets::Verdict;
use energy_trace_system::allocator::trim;
use energy_trace_system::roles::renounce::keep_for_recording;
use std::fs::File;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, MissedTickBehavior};

/// Bytes of a recording that is sent to somebody, at which it ends; names come after them.
const MOST_SENT: u64 = 256 << 20;
/// Between two looks at its size.
const LOOK: Duration = Duration::from_millis(250);

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The command's own exit status, or 128 + the signal that ended energy-trace.
    pub status: u8,
    /// What became of the budgets.
    pub budgets: Verdict,
}

/// Records as planned.
pub fn run(plan: &RecordPlan) -> Result<Ended, SessionError> {
    let system = |doing| move |source| SessionError::System { doing, source };
    checks::check(plan)?;
    // What reading the command line took: each role would dirty a copy of it.
    trim();
    // While there is one thread: what others hold locked would stay so in a fork.
    let starts_command = !plan.target.command().is_empty();
    let command = starts_command.then(leave_command);
    let resolver = Resolver::start(plan.names.inlines);
    let peeker = Peeker::start();
    command.into_iter().for_each(Before::restore);
    let resolver = resolver.map_err(system("start the process that reads files"))?;
    let peeker = peeker.map_err(system("start the process that looks into programs"))?;
    let work = WorkReader::fork(plan).map_err(system("start the process that reads units of work"))?;
    let forward = Forward::start(plan).map_err(system("put a pipe behind the command's stdout"))?;
    let (readers, lookers) = (resolver.clone(), peeker.clone());
    let roles = Roles { resolver, peeker, finisher: Finisher::fork(plan)?, work, forward };
    keep_for_recording(plan.gpu.times_kernels())
        .map_err(system("give up privileges that recording does not need"))?;
    // Before any thread: threads inherit the signal mask.
    let signals = Signals::block().map_err(system("watch signals"))?;
    // On this thread: one of several panics where it gets no more of them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(system("wait for events"))?;
    let done = runtime.block_on(record(plan, Control::new(signals), roles));
    // After a second SIGINT some work is unfinished; nobody waits for it.
    runtime.shutdown_background();
    // Threads that were started before a failure may hold them for a moment longer.
    readers.end();
    lookers.end();
    match done {
        Err(SessionError::Ended(signal)) => {
            let status = u8::try_from(128 + signal as i32).unwrap_or(128);
            Ok(Ended { status, budgets: Verdict::Kept })
        }
        done => done,
    }
}

async fn record(plan: &RecordPlan, mut control: Control, mut roles: Roles) -> Result<Ended, SessionError> {
    let file = set_up(&mut control, &roles.finisher, roles.finisher.prepare()).await??;
    let viewer = if plan.live { Some(Viewer::at(&file)?) } else { None };
    let caller = plan.control.then(Caller::listen_to).transpose()?;
    let sent = plan.peer.map(|_| file.try_clone()).transpose();
    let sent = sent.map_err(|source| SessionError::System { doing: "watch the recording's size", source })?;
    let writer = RecordingWriter::over(file, &plan.recording)?;
    let mut progress = Progress::new(plan.screen.progress, plan.screen.width);
    if plan.target.command().is_empty() {
        progress.attaching(plan.live && plan.agent.is_none());
    }
    // Large states of stages that are over by then would stay on the stack.
    let started = Box::pin(start(plan, &mut control, &mut roles, writer)).await;
    // The screen of `top` is drawn by now.
    if !plan.live || started.is_err() {
        progress.clear();
    }
    let mut stage = started?;
    if caller.is_some() {
        Caller::tell_beginning(stage.start, stage.ranges.library());
    }
    let watched = Watched { viewer, caller, sent, finisher: &roles.finisher };
    let stop = Box::pin(watch(plan, &mut control, &mut stage, &mut progress, &watched)).await?;
    // Whoever looks waits for the end of the pipe, of which this is one end too.
    drop(watched);
    if let Some(forward) = roles.forward.as_ref().filter(|_| !control.command_is_running()) {
        // What the command printed stands before what we say, and is counted.
        forward.drain();
    }
    Box::pin(finish(plan, control, &roles.finisher, stage, stop, progress)).await
}

/// Who sees the recording while it is made, or has a say in when it ends.
struct Watched<'a> {
    viewer: Option<Viewer>,
    caller: Option<Caller>,
    /// The recording, where it is sent to somebody.
    sent: Option<File>,
    finisher: &'a Finisher,
}

/// Waits until the recording has to stop, drawing progress meanwhile.
async fn watch(
    plan: &RecordPlan,
    control: &mut Control,
    stage: &mut Stage,
    progress: &mut Progress,
    watched: &Watched<'_>,
) -> Result<Stop, SessionError> {
    let began = Instant::now();
    let gone = stage.exit_condition.met();
    tokio::pin!(gone);
    let period = progress.period();
    let mut tick = tokio::time::interval(period.unwrap_or(Duration::from_mins(1)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut own = plan.agent.as_ref().map(|agent| CostWatch::new(agent.most_share));
    loop {
        tokio::select! {
            event = control.event() => match event? {
                Event::Interrupt(..) => return Ok(Stop::Requested),
                // Recording the whole machine while a command runs ends with the command too.
                Event::CommandEnded => return Ok(Stop::Requested),
            },
            () = &mut gone => return Ok(Stop::Requested),
            () = time_is_up(began, plan.duration) => return Ok(Stop::Requested),
            () = gone_silent(watched.caller.as_ref()) => return Ok(Stop::Requested),
            () = is_large(watched.sent.as_ref(), MOST_SENT) => return Ok(Stop::Requested),
            () = gone_away(watched.viewer.as_ref()) => {
                control.interrupt_command();
                return Ok(Stop::Requested);
            }
            ended = &mut stage.writer => {
                if plan.live {
                    control.interrupt_command();
                }
                return Ok(Stop::WriterEnded(ended.unwrap_or(Ok(()))));
            }
            _ = tick.tick(), if period.is_some() => {
                progress.draw(began.elapsed(), &stage.tracer.live(), stage.power.watts());
            }
            () = next_look(own.as_ref()) => {
                if let Some(share) = own.as_mut().and_then(|own| own.look(&mut stage.tracer)) {
                    watched.finisher.tell(stage.tracer.live().lost, share);
                }
            }
        }
    }
}

/// When an agent looks at what it takes.
async fn next_look(own: Option<&CostWatch>) {
    match own {
        Some(own) => tokio::time::sleep_until(own.due()).await,
        None => std::future::pending().await,
    }
}

/// Where somebody looks: their end of the pipe that the recording goes into.
struct Viewer(AsyncFd<File>);

impl Viewer {
    fn at(recording: &File) -> Result<Self, SessionError> {
        let ours = recording.try_clone().and_then(|file| {
            // SAFETY: the file is this struct's own, and is open for as long as it lives.
            let registered = unsafe { AsyncFd::register_with_interest(file, Interest::ERROR) };
            registered.map_err(std::io::Error::from)
        });
        ours.map(Self).map_err(|source| SessionError::System { doing: "watch the screen's process", source })
    }
}

/// Whoever looked has had enough, or is gone.
async fn gone_away(viewer: Option<&Viewer>) {
    match viewer {
        Some(Viewer(pipe)) => drop(pipe.ready(Interest::ERROR).await),
        None => std::future::pending().await,
    }
}

/// What is recorded has reached this size.
async fn is_large(recording: Option<&File>, most: u64) {
    match recording {
        Some(file) => {
            while file.metadata().is_ok_and(|found| found.len() < most) {
                tokio::time::sleep(LOOK).await;
            }
        }
        None => std::future::pending().await,
    }
}

async fn time_is_up(began: Instant, duration: Option<Duration>) {
    match duration.and_then(|duration| began.checked_add(duration)) {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, File, is_large};
    use std::io::Write as _;

    /// A recording that has reached its size is noticed, a smaller one is waited for, and a file that is not watched for ever.
    #[tokio::test]
    async fn large_recordings() {
        let mut file: File = tempfile::tempfile().unwrap();
        file.write_all(b"four").unwrap();
        let waits = |recording, most| tokio::time::timeout(Duration::from_secs(1), is_large(recording, most));
        assert!(waits(Some(&file), 4).await.is_ok());
        assert!(waits(Some(&file), 5).await.is_err());
        assert!(waits(None, 0).await.is_err());
    }
}
