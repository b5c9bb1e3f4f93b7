//! One recording from end to end: wires the stages and owns the order in which they start and stop.
//!
//! ```text
//!  checks ─► finisher forked: files ─► power + idle baseline ─► tracer loaded ─► command forked, held ─► followed
//!         ─► tracer starts ─► power starts ─► command released ─► … wait …
//!         ─► power stops ─► tracer stops ─► summary ─► finisher: attribution, flame graph ─► command's end ─► finisher: table
//! ```
//!
//! Each thing that can fail does so before the command's first instruction; a command that was forked and is not released ends without
//! a word. The recording's time lies between a moment after the first power reading was asked for and one before the last, so readings
//! cover it whole. Output paths are the finisher's alone. Leaves out what is recorded (`probe`, `power`) and what it means (`attribution`, `report`).

mod checks;
mod control;
mod error;
mod finish;
mod gpu_kernel_tier;
mod header;
mod limits;
mod progress;
mod target_spec;
mod writer;

pub use error::SessionError;
pub use limits::{LimitError, advise};

use crate::finisher::Finisher;
use crate::plan::RecordPlan;
use crate::power::{self, PowerSet, PowerTask};
use crate::probe::{TraceConfig, Tracer};
use crate::resolver::Resolver;
use crate::roles::renounce::keep_for_recording;
use crate::tracee::signals::Signals;
use control::{Control, Event};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::file::{FileError, RecordingWriter};
use energy_trace_model::recording::record::{Domain, DomainClass, Origin, Record, Scope};
use energy_trace_report::sentences::ignored_reason;
use gpu_kernel_tier::KernelTier;
use progress::Progress;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use target_spec::{Prey, Quarry};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};

/// How long the machine is watched for its idle power before the start.
const IDLE_BASELINE: Duration = Duration::from_secs(1);
/// Time between two drawings of the progress line.
const PROGRESS_PERIOD: Duration = Duration::from_millis(500);

/// The processes beside this one.
struct Roles {
    resolver: Resolver,
    finisher: Finisher,
}

/// Everything that runs while a recording does.
struct Stage {
    tracer: Tracer,
    power: PowerTask,
    prey: Prey,
    kernels: KernelTier,
    records: Sender<Record>,
    writer: oneshot::Receiver<Result<(), FileError>>,
    start: KtimeNs,
}

/// Why a recording stopped.
enum Stop {
    /// The command or all processes ended, time was up, or somebody asked.
    Asked,
    /// The file cannot be written any more.
    WriterEnded(Result<(), FileError>),
}

/// Records as planned. Returns the exit status to end with: the command's own, or 128 + the signal that ended energy-trace.
pub fn run(plan: &RecordPlan) -> Result<u8, SessionError> {
    let system = |doing| move |source| SessionError::System { doing, source };
    checks::check(plan)?;
    // While there is one thread: what others hold locked would stay so in a fork.
    let resolver =
        Resolver::start(plan.names.inlines).map_err(system("start the process that reads files"))?;
    let roles = Roles { resolver, finisher: Finisher::fork(plan)? };
    keep_for_recording(plan.kernels).map_err(system("give up privileges that recording does not need"))?;
    // Before any thread: threads inherit the signal mask.
    let signals = Signals::block().map_err(system("watch signals"))?;
    // On this thread: one of several panics where it gets no more of them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(system("wait for events"))?;
    let done = runtime.block_on(record(plan, Control::new(signals), roles));
    // After a second SIGINT some work is unfinished; nobody waits for it.
    runtime.shutdown_background();
    match done {
        Err(SessionError::Ended(signal)) => Ok(u8::try_from(128 + signal as i32).unwrap_or(128)),
        done => done,
    }
}

async fn record(plan: &RecordPlan, mut control: Control, roles: Roles) -> Result<u8, SessionError> {
    let file = control.set_up(roles.finisher.prepare()).await??;
    let writer = RecordingWriter::over(file, &plan.recording)?;
    let mut stage = start(plan, &mut control, &roles, writer).await?;
    let mut progress = Progress::new(plan.screen.progress);
    let stop = watch(plan, &mut control, &mut stage, &mut progress).await?;
    progress.clear();
    finish::finish(plan, control, &roles.finisher, stage, stop).await
}

/// Starts everything, the command last. When it fails nothing has run, and the finisher leaves the files as they were.
async fn start(
    plan: &RecordPlan,
    control: &mut Control,
    roles: &Roles,
    writer: RecordingWriter,
) -> Result<Stage, SessionError> {
    let (stage, opening, records) = start_stages(plan, control, roles).await?;
    roles.finisher.began();
    let failed = |source| SessionError::System { doing: "start the writer's thread", source };
    let writer = writer::write_all(writer, &opening, records).map_err(failed)?;
    Ok(Stage { writer, ..stage })
}

/// What runs, the recording's first records, and the channel of the others.
type Started = (Stage, Vec<Record>, Receiver<Record>);

async fn start_stages(
    plan: &RecordPlan,
    control: &mut Control,
    roles: &Roles,
) -> Result<Started, SessionError> {
    let mut power = power::open(&plan.power)?;
    say_sources(plan, &power);
    control.set_up(power.measure_idle(IDLE_BASELINE)).await?;
    let mut tracer = load(plan, &power)?;
    control.check()?;
    let kernels = KernelTier::prepare(plan, &power, &mut tracer);
    let mut quarry = Quarry::find(plan, control, kernels.environment())?;
    quarry.follow(&mut tracer)?;
    let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    tracer.foresee_libraries(std::env::split_paths(&search).filter(|path| path.is_absolute()).collect());
    tracer.know_gpus(power.domains().iter().filter_map(gpu_of));
    tracer.foresee(control.set_up(roles.finisher.foreseen()).await??);
    tracer.leave_out(roles.resolver.pid().into_iter().chain(roles.finisher.pid()))?;

    let (records, receiver) = channel();
    tracer.start(records.clone(), &roles.resolver)?;
    // What samples is known only now. The opening does not go through the channel, where the tracer's first records are already.
    let opening = opening(plan, &power, &tracer);
    quarry.follow_late_comers(&mut tracer)?;
    let started = power.start(records.clone());
    let power = started.map_err(|source| SessionError::System { doing: "start to read power", source })?;
    control.check()?;
    let start = crate::clock::now();
    let prey = quarry.release(control).await?;
    // Records wait in the channel until the file's thread is started: a command that cannot be executed leaves no file behind.
    let writer = oneshot::channel().1;
    Ok((Stage { tracer, power, prey, kernels, records, writer, start }, opening, receiver))
}

fn load(plan: &RecordPlan, power: &PowerSet) -> Result<Tracer, SessionError> {
    let config = TraceConfig {
        sample_hz: plan.sample_hz,
        sample_event: plan.sample_event,
        rootfs: plan.rootfs.clone(),
        push_times: plan.push_times,
        system_wide: plan.system_wide,
        unwinding: plan.unwinding,
        unwind_mib: plan.unwind_mib,
        verbose: plan.screen.verbose,
        names: plan.names,
        gpu: plan.launches && power.domains().iter().any(|domain| domain.class == DomainClass::Gpu),
        oldest_kernel: plan.oldest_kernel,
    };
    Ok(Tracer::load(&config)?)
}

/// The number of a GPU and the place of its meter.
fn gpu_of(domain: &Domain) -> Option<(u32, &str)> {
    match (domain.scope, &domain.origin) {
        (Scope::Gpu(index), Origin::Counter { place, .. }) => Some((index, place)),
        _ => None,
    }
}

/// The header and the domains: the first records.
fn opening(plan: &RecordPlan, power: &PowerSet, tracer: &Tracer) -> Vec<Record> {
    let header = header::header(plan, power.sources(), tracer);
    let domains = power.domains().iter().cloned().map(Record::Domain);
    let cores = header::cores(plan);
    let cores = (!cores.is_empty()).then_some(Record::Cores(cores));
    std::iter::once(Record::Header(header)).chain(cores).chain(domains).collect()
}

/// With `-v`: what the power sources are, before the run.
fn say_sources(plan: &RecordPlan, power: &PowerSet) {
    if !plan.screen.verbose {
        return;
    }
    for source in power.sources() {
        log::info!("power: {} ({:?}): {}", source.id, source.quality, source.domains.join(", "));
        for ignored in source.ignored {
            log::info!("power: {} ignored: {}", ignored.domain, ignored_reason(&ignored.reason));
        }
    }
}

/// Waits until the recording has to stop, drawing progress meanwhile.
async fn watch(
    plan: &RecordPlan,
    control: &mut Control,
    stage: &mut Stage,
    progress: &mut Progress,
) -> Result<Stop, SessionError> {
    let began = Instant::now();
    let gone = stage.prey.gone();
    tokio::pin!(gone);
    let mut tick = tokio::time::interval(PROGRESS_PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            event = control.event() => match event? {
                Event::Interrupt(..) => return Ok(Stop::Asked),
                // Recording the whole machine while a command runs ends with the command too.
                Event::CommandEnded => return Ok(Stop::Asked),
            },
            () = &mut gone => return Ok(Stop::Asked),
            () = time_is_up(began, plan.duration) => return Ok(Stop::Asked),
            ended = &mut stage.writer => return Ok(Stop::WriterEnded(ended.unwrap_or(Ok(())))),
            _ = tick.tick(), if plan.screen.progress => {
                progress.draw(began.elapsed(), &stage.tracer.live(), stage.power.watts());
            }
        }
    }
}

async fn time_is_up(began: Instant, duration: Option<Duration>) {
    match duration.and_then(|duration| began.checked_add(duration)) {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
