//! What a recording's options resolve to on this machine.
//!
//! Reads the environment and asks the terminal, but changes nothing. Leaves out doing it (`session`).

use super::common::{Common, is_dumb};
use super::range_probes;
use super::rank::{self, NotNamed, flame_graph, with_rank};
use super::record::{RecordArgs, SVG};
use crate::plan::{GpuLevel, ProgressStyle, RecordPlan, Screen};
use crate::tracee::Target;
use crate::tracee::peer::{Peer, PeerError};
use crate::tracee::user::{InvokingUser, UserError};
use crate::work::check;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::ranges::MOST_RANGE_PROBES;
use energy_trace_model::recording::record::{WorkCounter, WorkSource};
use energy_trace_power::{PowerPlan, SourceChoice};
use energy_trace_probe::{CountName, RangeProbe, count_names_of};
use energy_trace_symbols::Detail;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most units of work: each is looked at ten times a second, and those of files and pages have a thread each.
const MOST_UNITS: usize = 256;

/// Why the options make no recording.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    /// Nothing to record was named.
    #[error(
        "nothing to record: name a program, as in `energy-trace python3 train.py`, or -p PID, --cgroup PATH or -a"
    )]
    NoTarget,
    /// Recording and flame graph would overwrite each other.
    #[error(
        "the recording and the flame graph would both be written to {0}: name another file with -o or --svg"
    )]
    SameFile(PathBuf),
    /// They are told apart by their number.
    #[error("--range-probes can be given {MOST_RANGE_PROBES} times at the most")]
    TooManyRangeProbes,
    /// A static probe is in two places of `--range-probes`.
    #[error("{0} is named twice in --range-probes: a static probe begins or ends one range")]
    RangeProbeTwice(String),
    /// A recording is no stream.
    #[error(
        "a recording and its flame graph are files, and `-` is none: name a file; `energy-trace export` \
         writes to stdout"
    )]
    Stdout,
    /// More units of work than are looked at.
    #[error("--work can be given {MOST_UNITS} times at the most")]
    TooManyUnits,
    /// Two units of work have one name.
    #[error("two --work have the name {0}: name each unit once")]
    WorkTwice(String),
    /// What is printed is seen of a command alone.
    #[error(
        "--work …=stdout:REGEX reads what a program prints that is started here: name one, or use file: or calls:"
    )]
    NobodyPrints,
    /// A page of metrics cannot be read, or is another machine's.
    #[error("{0}")]
    Page(String),
    /// What is counted without names is not what is counted with names.
    #[error(
        "--work …=calls:FUNCTION counts named functions, and --count alone the entry functions of frameworks: name them, --count=NAME"
    )]
    CountsAll,
    /// A file's name has a place for the rank, and there is none.
    #[error(transparent)]
    Rank(#[from] NotNamed),
    /// What an option tells is not recorded without slices.
    #[error("{0} needs to know who runs when: leave --slices no out")]
    NeedsSlices(&'static str),
    /// Nobody is at the other end of stdin who could be recorded.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// Who typed `sudo` could not be made out.
    #[error(transparent)]
    User(#[from] UserError),
}

/// Has oneDNN, under its names of all versions, write `/tmp/perf-PID.map` (its developer guide, "Profiling with Linux perf").
const JIT_NAMES: [(&str, &str); 2] = [("ONEDNN_JIT_PROFILE", "2"), ("DNNL_JIT_PROFILE", "2")];

/// A file that goes when nobody has it open any more.
const NO_FILE: &str = "/dev/null";
/// How long somebody else's process is recorded at the most, where the service does not say so.
const LONGEST_FOR_PEER: Duration = Duration::from_hours(1);

/// Resolves what was typed.
pub(super) fn resolve(args: &RecordArgs, common: &Common) -> Result<RecordPlan, PlanError> {
    let peer = args.attach_socket.then(Peer::of_stdin).transpose()?;
    let target = target(args, peer.as_ref())?;
    let rank = rank::rank(|name| std::env::var(name).ok());
    let kept = if peer.is_some() { Path::new(NO_FILE) } else { &args.output };
    let recording = with_rank(kept, &rank)?;
    let svg = (!args.no_svg && peer.is_none()).then(|| flame_graph(&args.svg, &args.output, OsStr::new(SVG)));
    let svg = svg.map(|svg| with_rank(&svg, &rank)).transpose()?;
    if [Some(&recording), svg.as_ref()].contains(&Some(&PathBuf::from("-"))) {
        return Err(PlanError::Stdout);
    }
    if svg.as_ref() == Some(&recording) {
        return Err(PlanError::SameFile(recording));
    }
    let (user, of_peer) = (peer.as_ref().map(|peer| peer.user.uid), peer.map(|peer| peer.user));
    let owner = of_peer.map_or_else(InvokingUser::from_environment, |user| Ok(Some(user)))?;
    let run_as = if args.as_root { None } else { owner.clone() };
    Ok(RecordPlan {
        target,
        system_wide: args.all,
        slices: args.slices,
        run_as,
        environment: if args.jit_names { JIT_NAMES.to_vec() } else { Vec::new() },
        owner,
        names: Detail { inlines: args.inlines, alone: user.is_some() },
        sample_hz: args.frequency,
        sample_event: args.sample_event,
        push_times: args.push_times,
        unwinding: args.unwind,
        unwind_mib: args.unwind_memory,
        gpu: gpu(args)?,
        work: work(args)?,
        count: counted(args)?,
        ranges: args.ranges,
        range_probes: probed_ranges(args)?,
        input_sizes: args.input_sizes,
        oldest_kernel: args.oldest_kernel,
        power: power(args),
        duration: args.duration.or(user.map(|_| LONGEST_FOR_PEER)),
        control: args.control || user.is_some(),
        peer: user,
        recording,
        // Of what ran already nobody knows it.
        rank: rank.ok().filter(|_| !args.command.is_empty()),
        svg,
        budgets: args.budgets.all(),
        live: false,
        agent: None,
        screen: Screen { quiet: common.quiet || user.is_some(), ..screen(common, !args.command.is_empty()) },
        rootfs: args.rootfs.clone(),
        typed: std::env::args_os().collect(),
        program: None,
    })
}

/// Ranges between static probes: so many are told apart, and a probe does one thing.
fn probed_ranges(args: &RecordArgs) -> Result<Vec<RangeProbe>, PlanError> {
    if args.range_probes.len() > MOST_RANGE_PROBES {
        return Err(PlanError::TooManyRangeProbes);
    }
    let twice = range_probes::named_twice(&args.range_probes);
    twice.map_or_else(|| Ok(args.range_probes.clone()), |probe| Err(PlanError::RangeProbeTwice(probe)))
}

/// How far GPU energy is followed: kernels are timed in a command, which an agent has none of.
fn gpu(args: &RecordArgs) -> Result<GpuLevel, PlanError> {
    match args.gpu {
        GpuLevel::Kernel if !args.slices => Err(PlanError::NeedsSlices("--gpu kernel")),
        level => Ok(level),
    }
}

/// The units of work, where each can be counted here.
fn work(args: &RecordArgs) -> Result<Vec<WorkCounter>, PlanError> {
    check_work(args)?;
    let reads_output = args.work.iter().any(|counter| matches!(counter.source, WorkSource::Stdout(_)));
    if reads_output && args.command.is_empty() {
        return Err(PlanError::NobodyPrints);
    }
    Ok(args.work.clone())
}

/// Whether units of work are few enough, have names of their own and pages that may be read.
pub(super) fn check_work(args: &RecordArgs) -> Result<(), PlanError> {
    if args.work.len() > MOST_UNITS {
        return Err(PlanError::TooManyUnits);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = args.work.iter().find(|counter| !names.insert(&counter.name)) {
        return Err(PlanError::WorkTwice(twice.name.clone()));
    }
    for counter in &args.work {
        if let WorkSource::Prometheus { url, .. } = &counter.source {
            check(url, args.work_allow_remote).map_err(PlanError::Page)?;
        }
    }
    Ok(())
}

/// The functions whose calls are counted: those of `--count`, and those that are units of work.
fn counted(args: &RecordArgs) -> Result<Option<Vec<CountName>>, PlanError> {
    let of_work = args.work.iter().filter_map(|counter| match &counter.source {
        WorkSource::Calls(function) => Some(function.clone()),
        _ => None,
    });
    let mut words: Vec<String> = of_work.collect();
    if !words.is_empty() && args.count.iter().any(String::is_empty) {
        return Err(PlanError::CountsAll);
    }
    words.extend(args.count.iter().cloned());
    Ok((!words.is_empty()).then(|| count_names_of(&words)))
}

fn target(args: &RecordArgs, peer: Option<&Peer>) -> Result<Target, PlanError> {
    if let Some(peer) = peer {
        return Ok(Target::Processes(vec![peer.pid]));
    }
    if !args.command.is_empty() {
        return Ok(Target::Command(args.command.clone()));
    }
    if !args.pid.is_empty() {
        return Ok(Target::Processes(args.pid.iter().copied().map(Pid::new).collect()));
    }
    match &args.cgroup {
        Some(group) => Ok(Target::Cgroup(group.clone())),
        None if args.all => Ok(Target::Machine),
        None => Err(PlanError::NoTarget),
    }
}

fn power(args: &RecordArgs) -> PowerPlan {
    let model = args.model_watts.unwrap_or_default();
    PowerPlan {
        choices: if args.power.is_empty() { vec![SourceChoice::Auto] } else { args.power.clone() },
        sysfs: args.sysfs.clone(),
        nvml_lib: args.nvml_lib.clone(),
        idle: args.idle_watts,
        model_idle: model.idle,
        model_core: model.core,
        measured_only: args.measured_only,
        gpu: args.gpu != GpuLevel::Off,
        period: Duration::from_secs(1) / args.power_hz.max(1),
        always_on: false,
    }
}

fn screen(common: &Common, has_command: bool) -> Screen {
    let is_terminal = stderr().is_terminal();
    Screen {
        quiet: common.quiet,
        verbose: common.verbose,
        color: common.color.resolve(is_terminal),
        progress: match (common.quiet, is_terminal && !is_dumb(), has_command) {
            (true, _, _) => ProgressStyle::Off,
            (false, false, _) => ProgressStyle::EachMinute,
            (false, true, true) => ProgressStyle::AfterCommand,
            (false, true, false) => ProgressStyle::Line,
        },
        width: terminal_size::terminal_size_of(stderr()).map(|(width, _)| width.0),
    }
}
