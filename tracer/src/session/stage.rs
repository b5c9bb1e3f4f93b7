//! The stages of a recording, started in their order, the command last.
//!
//! Leaves out stopping them (`finish.rs`).

use super::account::Account;
use super::control::Control;
use super::error::SessionError;
use super::finish::set_up;
use super::gpu_kernel_tier::KernelTier;
use super::marked_ranges::MarkedRanges;
use super::python_counts::PythonCounts;
use super::target_spec::{ExitCondition, TargetSpec};
use super::{header, writer};
use crate::finisher::{CommandFiles, Finisher};
use crate::plan::RecordPlan;
use crate::tracee::Target;
use crate::tracee::cgroup::Group;
use crate::work::{Forward, WorkReader, WorkReadings};
use energy_trace_foreign::files::SeenFile;
use energy_trace_foreign::peeker::Peeker;
use energy_trace_foreign::resolver::Resolver;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{Pid, WorkId};
use energy_trace_model::recording::file::{FileError, RecordingWriter};
use energy_trace_model::recording::record::{Domain, DomainClass, Record, Scope, SourceId};
use energy_trace_power::{self as power, PowerSet, PowerTask};
use energy_trace_probe::{
    GroupId, LiveNaming, TraceConfig, Tracer, UnitsOfCalls, is_counted_by_default, leave_command,
};
use energy_trace_sentences::{ignored_reason, no_counter};
use energy_trace_system::host::kernel::read_host_at;
use nix::unistd::Uid;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the machine is watched for its idle power before the start.
const IDLE_BASELINE: Duration = Duration::from_secs(1);

/// The processes beside this one.
pub(super) struct Roles {
    pub(super) resolver: Resolver,
    pub(super) peeker: Peeker,
    pub(super) finisher: Finisher,
    /// Where work is read.
    pub(super) work: Option<WorkReader>,
    /// Where what the command prints goes through.
    pub(super) forward: Option<Forward>,
}

impl Roles {
    /// Their processes.
    fn pids(&self) -> impl Iterator<Item = Pid> {
        let of_work = self.work.as_ref().map(WorkReader::pid);
        let forward = self.forward.as_ref().map(Forward::pid);
        let others = self.resolver.pid().into_iter().chain(self.peeker.pid()).chain(self.finisher.pid());
        others.chain(of_work).chain(forward)
    }
}

/// Everything that runs while a recording does.
pub(super) struct Stage {
    pub(super) tracer: Tracer,
    pub(super) power: PowerTask,
    pub(super) exit_condition: ExitCondition,
    pub(super) account: Account,
    pub(super) kernels: KernelTier,
    pub(super) ranges: MarkedRanges,
    pub(super) python: PythonCounts,
    pub(super) work: Option<WorkReadings>,
    pub(super) records: Sender<Record>,
    pub(super) writer: oneshot::Receiver<Result<(), FileError>>,
    pub(super) start: KtimeNs,
}

/// Why a recording stopped.
pub(super) enum Stop {
    /// The command or all processes ended, time was up, or a signal came.
    Requested,
    /// The file cannot be written any more.
    WriterEnded(Result<(), FileError>),
}

/// Starts everything, the command last. When it fails nothing has run, and the finisher leaves the files as they were.
pub(super) async fn start(
    plan: &RecordPlan,
    control: &mut Control,
    roles: &mut Roles,
    writer: RecordingWriter,
) -> Result<Stage, SessionError> {
    let (stage, opening, records) = start_stages(plan, control, roles).await?;
    roles.finisher.began();
    let failed = |source| SessionError::System { doing: "start the writer's thread", source };
    let writer = writer::write_all(writer, &opening, records, plan.peer.is_some()).map_err(failed)?;
    Ok(Stage { writer, ..stage })
}

/// What runs, the recording's first records, and the channel of the others.
type Started = (Stage, Vec<Record>, Receiver<Record>);

async fn start_stages(
    plan: &RecordPlan,
    control: &mut Control,
    roles: &mut Roles,
) -> Result<Started, SessionError> {
    let mut power = power::open(&plan.power)?;
    log_sources(plan, &power);
    control.set_up(power.measure_idle(IDLE_BASELINE)).await?;
    let mut tracer = load(plan, &power)?;
    control.check()?;
    let kernels = KernelTier::prepare(plan, &power, &mut tracer);
    let ranges = MarkedRanges::prepare(plan, &mut tracer);
    let mut python = PythonCounts::prepare(plan);
    let mut environment: Vec<_> = kernels.environment().into_iter().chain(ranges.environment()).collect();
    python.set_in(&mut environment);
    let stdout = roles.forward.as_mut().and_then(Forward::take_command);
    let mut target = TargetSpec::find(plan, control, environment, stdout)?;
    if !plan.target.command().is_empty() {
        // The command has its process; threads that are started from now on are the recorder's.
        leave_command();
    }
    python.start();
    target.follow(&mut tracer)?;
    name_gpus(&mut tracer, &mut power);
    let files = set_up(control, &roles.finisher, roles.finisher.files_to_prefetch()).await??;
    prefetch(&mut tracer, plan, files, units_of_calls(roles)?);
    tracer.leave_out(roles.pids())?;

    let (records, receiver) = channel();
    start_tracing(&mut tracer, control, roles, records.clone())?;
    // What samples is known only now. The opening does not go through the channel, where the tracer's first records are already.
    let opening = opening(plan, &power, &tracer);
    target.follow_late_comers(&mut tracer)?;
    let project = set_up(control, &roles.finisher, roles.finisher.project()).await??;
    // The receiver is here.
    project.into_iter().for_each(|project| drop(records.send(Record::Project(project))));
    let power = start_power(power, &tracer, &records)?;
    control.check()?;
    let start = energy_trace_system::clock::now();
    let work = start_work(roles, (python.take_told(), python.is_old()), &records)?;
    let account = Account::begin(&target, tracer.living());
    let exit_condition = target.release(control).await?;
    // Records wait in the channel until the file's thread is started: a command that cannot be executed leaves no file behind.
    let writer = oneshot::channel().1;
    let stage = Stage {
        tracer,
        power,
        exit_condition,
        account,
        kernels,
        ranges,
        python,
        work,
        records,
        writer,
        start,
    };
    Ok((stage, opening, receiver))
}

/// Units of work are read from now on, where there are any.
fn start_work(
    roles: &mut Roles,
    told: (Option<OwnedFd>, Arc<AtomicBool>),
    records: &Sender<Record>,
) -> Result<Option<WorkReadings>, SessionError> {
    let copies = roles.forward.as_mut().and_then(Forward::take_copies);
    let work = roles.work.take().map(|work| work.start(copies, told, records.clone())).transpose();
    work.map_err(|source| SessionError::System { doing: "start to read units of work", source })
}

/// Power is read from now on.
fn start_power(
    mut power: PowerSet,
    tracer: &Tracer,
    records: &Sender<Record>,
) -> Result<PowerTask, SessionError> {
    power.call_at_readings(tracer.at_readings());
    let started = power.start(records.clone());
    started.map_err(|source| SessionError::System { doing: "start to read power", source })
}

/// Attaches, until a signal ends that.
fn start_tracing(
    tracer: &mut Tracer,
    control: &mut Control,
    roles: &Roles,
    records: Sender<Record>,
) -> Result<(), SessionError> {
    let mut heard = Ok(());
    let mut go_on = || {
        heard = control.check();
        heard.is_ok()
    };
    tracer.start(records, &roles.resolver, &roles.peeker, &mut go_on)?;
    heard
}

/// Where numbers of calls that are units of work are put.
fn units_of_calls(roles: &Roles) -> Result<UnitsOfCalls, SessionError> {
    let units = roles.work.as_ref().map(WorkReader::units_of_calls).transpose();
    let failed = |source| SessionError::System { doing: "start to read units of work", source };
    units.map(Option::unwrap_or_default).map_err(failed)
}

/// Has the files that the command will map looked into before it starts.
fn prefetch(tracer: &mut Tracer, plan: &RecordPlan, files: CommandFiles, units: UnitsOfCalls) {
    let CommandFiles { program, libraries, of_gpus } = files;
    tracer.prefetch_libraries(of_gpus);
    let all: Vec<SeenFile> = program.iter().chain(&libraries).cloned().collect();
    if !plan.range_probes.is_empty() {
        tracer.probe_ranges(plan.range_probes.clone(), all.clone());
    }
    tracer.prefetch(all.into_iter().filter(|file| !is_mapped_later(file)).collect());
    if let Some(names) = &plan.count {
        tracer.count((names.clone(), units), program, libraries);
    }
}

/// Whether the command maps a file only when it imports a package.
fn is_mapped_later(file: &SeenFile) -> bool {
    file.path().file_name().is_some_and(|name| is_counted_by_default(&name.to_string_lossy()))
}

fn load(plan: &RecordPlan, power: &PowerSet) -> Result<Tracer, SessionError> {
    let config = TraceConfig {
        sample_hz: plan.sample_hz,
        sample_event: plan.sample_event,
        rootfs: plan.rootfs.clone(),
        push_times: plan.push_times,
        system_wide: plan.system_wide,
        sum_time: plan.system_wide && !plan.slices,
        group: group_of(plan)?,
        user: plan.peer.map(Uid::as_raw),
        unwinding: plan.unwinding,
        unwind_mib: plan.unwind_mib,
        // A line for each program that is executed is too much of a day.
        verbose: plan.screen.verbose && plan.agent.is_none(),
        names: plan.names,
        reader: plan.owner.as_ref().map(|user| (user.uid, user.gid)),
        gpu: plan.gpu.traces_launches()
            && power.domains().iter().any(|domain| domain.class == DomainClass::Gpu),
        count: plan.count.is_some(),
        ranges: plan.ranges || !plan.range_probes.is_empty(),
        range_probes: !plan.range_probes.is_empty(),
        live: plan.live,
        naming: naming(plan),
        oldest_kernel: plan.oldest_kernel,
    };
    Ok(Tracer::load(&config)?)
}

/// An agent's names go where stacks go.
fn naming(plan: &RecordPlan) -> LiveNaming {
    match &plan.agent {
        None => LiveNaming::Often,
        Some(agent) if agent.spool.is_none() && agent.collector.is_none() => LiveNaming::Never,
        Some(agent) => LiveNaming::EachWindow(agent.window),
    }
}

/// What the kernel calls the control group that is recorded.
fn group_of(plan: &RecordPlan) -> Result<Option<GroupId>, SessionError> {
    match &plan.target {
        Target::Cgroup(name) => Ok(Some(Group::find(name)?.id()?)),
        _ => Ok(None),
    }
}

/// Which GPUs there are, and who uses them now.
fn name_gpus(tracer: &mut Tracer, power: &mut PowerSet) {
    let users = power.gpu_users();
    tracer.set_gpus(power.domains().iter().filter_map(gpu_of), &users);
}

/// The number of a GPU and the place of its meter.
fn gpu_of(domain: &Domain) -> Option<(u32, &str)> {
    let Scope::Gpu(index) = domain.scope else { return None };
    Some((index, domain.origin.place()?))
}

/// The header and the domains: the first records.
fn opening(plan: &RecordPlan, power: &PowerSet, tracer: &Tracer) -> Vec<Record> {
    let header = header::header(plan, power.sources(), tracer);
    let domains = power.domains().iter().cloned().map(Record::Domain);
    let cores = header::cores(plan);
    let cores = (!cores.is_empty()).then_some(Record::Cores(cores));
    let host = Record::Host(read_host_at(Path::new("/")));
    let rank = plan.rank.map(Record::Rank);
    let work = (0..).zip(&plan.work).map(|(id, counter)| Record::Work(WorkId::new(id), counter.clone()));
    [Record::Header(header), host].into_iter().chain(rank).chain(cores).chain(domains).chain(work).collect()
}

/// Says of which domains joules are a model's.
fn tell_estimated(power: &PowerSet) {
    let sources = power.sources();
    let modelled = sources.iter().filter(|source| source.id == SourceId::Model);
    let domains: Vec<&str> = modelled.flat_map(|source| &source.domains).map(String::as_str).collect();
    if !domains.is_empty() {
        log::warn!("{}; energy-trace doctor says what gives one", no_counter(&domains));
    }
}

/// With `-v`: what the power sources are, before the run.
fn log_sources(plan: &RecordPlan, power: &PowerSet) {
    if plan.agent.is_some() {
        // It has no summary that would say so.
        tell_estimated(power);
    }
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
