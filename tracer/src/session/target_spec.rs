//! The target at the moment the recording starts: a command that is held, or processes that run.

use super::checks::exec_error;
use super::control::Control;
use super::error::SessionError;
use crate::plan::RecordPlan;
use crate::tracee::Target;
use crate::tracee::attach::{
    LeftOut, ProcessLife, ProcessTree, all_gone, check_at, ended_meanwhile, program_at, runs_at,
};
use crate::tracee::cgroup::Group;
use crate::tracee::launch::{Held, Terminal, launch};
use crate::tracee::peer::is_of;
use energy_trace_model::ids::Pid;
use energy_trace_probe::Tracer;
use nix::unistd::Uid;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;

const PROC: &str = "/proc";

/// Who is recorded.
#[derive(Debug)]
pub(super) enum TargetSpec {
    /// A command that waits before its first instruction, and its name.
    Command(Held, OsString),
    /// Processes that run: those that were named, and those that are followed already.
    Processes {
        /// Where the trees begin.
        roots: Vec<ProcessLife>,
        /// Whether the user named the roots one by one: then it is said of each that is not there when the recording starts.
        named: bool,
        /// The control group that they are of, where they are.
        group: Option<Group>,
        /// The roots and what is below them.
        followed: BTreeSet<ProcessLife>,
        /// The user whose processes alone may be recorded.
        user: Option<Uid>,
    },
    /// Everybody, until somebody stops it.
    Machine,
}

/// What the end of the recording waits for, apart from signals.
#[derive(Debug)]
pub(super) enum ExitCondition {
    /// The command's end, which `Control` reports.
    Command,
    /// The end of all these.
    Processes(Vec<ProcessLife>),
    /// The end of all these, and then a group without processes but ours.
    Group(Vec<ProcessLife>, Group),
    /// Nothing.
    Machine,
}

impl TargetSpec {
    /// Launches the command (held) or finds the processes.
    /// `stdout`: where what the command prints goes, where that is not our own. `environment` is what the kernel tier sets for the command beside what the plan does.
    pub(super) fn find(
        plan: &RecordPlan,
        control: &Control,
        mut environment: Vec<(&'static str, OsString)>,
        stdout: Option<OwnedFd>,
    ) -> Result<Self, SessionError> {
        let proc = Path::new(PROC);
        let user = plan.peer;
        let processes =
            |roots, named, group| Self::Processes { roots, named, group, followed: BTreeSet::new(), user };
        match &plan.target {
            Target::Command(words) => {
                environment.extend(plan.environment.iter().map(|&(name, value)| (name, value.into())));
                let terminal = match stdout {
                    stdout if plan.live => Terminal::NotTheirs(stdout),
                    Some(stdout) => Terminal::StdoutTo(stdout),
                    None => Terminal::Theirs,
                };
                let before = control.signals_for_command();
                let held = launch(words, plan.run_as.as_ref(), &environment, before, terminal)?;
                Ok(Self::Command(held, words.first().cloned().unwrap_or_default()))
            }
            Target::Processes(pids) => {
                let roots = pids.iter().map(|&pid| check_at(proc, pid)).collect::<Result<_, _>>()?;
                say_who_is_left_out(proc, pids);
                Ok(processes(roots, true, None))
            }
            Target::Cgroup(name) => {
                let group = Group::find(name)?;
                Ok(processes(lives_of(&group)?, false, Some(group)))
            }
            Target::Machine => Ok(Self::Machine),
        }
    }

    /// Makes the target known to the tracer, before it starts.
    pub(super) fn follow(&mut self, tracer: &mut Tracer) -> Result<(), SessionError> {
        match self {
            Self::Command(held, _) => Ok(tracer.follow_command(held.pid())?),
            Self::Processes { .. } => self.follow_late_comers(tracer),
            Self::Machine => Ok(()),
        }
    }

    /// Follows what was forked since the last look. Called once more after the tracer has started; later forks it sees itself.
    pub(super) fn follow_late_comers(&mut self, tracer: &mut Tracer) -> Result<(), SessionError> {
        let Self::Processes { roots, named, group, followed, user } = self else { return Ok(()) };
        let is_users = |life: &ProcessLife| user.is_none_or(|user| is_of(user, life.pid));
        // Into a group others may have come meanwhile.
        let of_group = group.as_ref().and_then(|group| lives_of(group).ok()).unwrap_or_default();
        roots.extend(of_group);
        follow_tree(roots, followed, tracer, &is_users)?;
        let runs = |life: &ProcessLife| runs_at(Path::new(PROC), *life);
        // It may have become another program just before it was followed.
        if let Some(life) = roots.iter().chain(followed.iter()).find(|life| runs(life) && !is_users(life)) {
            return Err(SessionError::Anothers(life.pid));
        }
        if *named {
            for pid in ended_meanwhile(roots, followed, runs)? {
                log::warn!("process {pid} ended before the recording started; the others are recorded");
            }
            roots.retain(runs);
        }
        Ok(())
    }

    /// Whether it is a command that is started here.
    pub(super) const fn starts_command(&self) -> bool {
        matches!(self, Self::Command(..))
    }

    /// The processes that are followed from the start.
    pub(super) fn pids(&self) -> Vec<Pid> {
        match self {
            Self::Command(held, _) => vec![held.pid()],
            Self::Processes { followed, .. } => followed.iter().map(|life| life.pid).collect(),
            Self::Machine => Vec::new(),
        }
    }

    /// The control group that is recorded.
    pub(super) const fn group(&self) -> Option<&Group> {
        match self {
            Self::Processes { group, .. } => group.as_ref(),
            _ => None,
        }
    }

    /// Lets a held command run; the error is `exec`'s.
    pub(super) async fn release(self, control: &mut Control) -> Result<ExitCondition, SessionError> {
        match self {
            Self::Command(held, name) => {
                let running = held.release().await.map_err(|source| exec_error(&name, source))?;
                control.command_runs(running);
                Ok(ExitCondition::Command)
            }
            Self::Processes { followed, group, .. } => {
                let lives = followed.into_iter().collect();
                Ok(match group {
                    Some(group) => ExitCondition::Group(lives, group),
                    None => ExitCondition::Processes(lives),
                })
            }
            Self::Machine => Ok(ExitCondition::Machine),
        }
    }
}

impl ExitCondition {
    /// Returns when there is nobody left to record. A command's end comes from `Control` instead.
    pub(super) async fn met(&self) {
        match self {
            Self::Processes(lives) => all_gone(Path::new(PROC), lives).await,
            Self::Group(lives, group) => {
                let mut lives = lives.clone();
                while !lives.is_empty() {
                    all_gone(Path::new(PROC), &lives).await;
                    // Those who came later.
                    lives = lives_of(group).unwrap_or_default();
                }
            }
            Self::Command | Self::Machine => std::future::pending().await,
        }
    }
}

/// Workers that are recorded without the others of their program: which process has all of them below it.
fn say_who_is_left_out(proc: &Path, roots: &[Pid]) {
    let Ok(tree) = ProcessTree::read_at(proc) else { return };
    for LeftOut { worker, head, others } in tree.left_out(roots, |pid| program_at(proc, pid)) {
        let others = match others {
            0 => "is not recorded".to_owned(),
            1 => "is not recorded, nor is another worker of it".to_owned(),
            _ => format!("is not recorded, nor are {others} other workers of it"),
        };
        log::warn!(
            "process {worker} is below process {head} of the same program, which {others}: -p {head} takes all"
        );
    }
}

/// The processes of a group. One that has just ended is nobody's error, and energy-trace does not record itself.
fn lives_of(group: &Group) -> Result<Vec<ProcessLife>, SessionError> {
    let tree = ProcessTree::read_at(Path::new(PROC))?;
    let pids = group.processes()?.into_iter().filter(|&pid| !is_ours(&tree, pid));
    Ok(pids.filter_map(|pid| check_at(Path::new(PROC), pid).ok()).collect())
}

/// Whether a process is energy-trace, or one of its own: those would wait for us while we wait for them.
fn is_ours(tree: &ProcessTree, pid: Pid) -> bool {
    tree.is_below(pid, Pid::new(std::process::id()))
}

/// Follows the roots and all below them until a look finds nobody new: a child that is forked while we look is in the next one.
fn follow_tree(
    roots: &[ProcessLife],
    followed: &mut BTreeSet<ProcessLife>,
    tracer: &mut Tracer,
    may_be: &impl Fn(&ProcessLife) -> bool,
) -> Result<(), SessionError> {
    let roots: Vec<Pid> = roots.iter().map(|life| life.pid).collect();
    loop {
        let tree = ProcessTree::read_at(Path::new(PROC))?;
        let found = tree.with_descendants(&roots).into_iter();
        let is_new =
            |life: &ProcessLife| !followed.contains(life) && !is_ours(&tree, life.pid) && may_be(life);
        let new: Vec<ProcessLife> = found.filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        for life in new {
            follow_one(life, tree.parent_of(life.pid), tracer)?;
            followed.insert(life);
        }
    }
}

/// Follows one process. That it ended meanwhile is no error here: whether it had to be there is the caller's question.
fn follow_one(life: ProcessLife, parent: Option<Pid>, tracer: &mut Tracer) -> Result<(), SessionError> {
    match tracer.follow(life.pid, parent) {
        Err(_) if !runs_at(Path::new(PROC), life) => Ok(()),
        followed => Ok(followed?),
    }
}
