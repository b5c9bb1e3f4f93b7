//! Holds what was recorded against the kernel's own account of the program: its CPU time, and who still runs.
//!
//! The kernel's account is that which comes with the command's end, of processes that run on their clocks, and of a control group its own.
//! Leaves out the sentences.

use super::target_spec::TargetSpec;
use crate::tracee::attach::{ProcessTree, check_at};
use crate::tracee::cgroup::Group;
use crate::tracee::launch::CommandEnd;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{AccountDiagnostic, LossReason, TimeDifference};
use energy_trace_probe::{OtherProcess, TraceAccount};
use energy_trace_system::host::process_times::{ProcessTimes, read_process_times, read_stolen_ns};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const PROC: &str = "/proc";
/// What may be missing or too much: a part, and what short runs and the scheduler's ticks bring about.
const PART: f64 = 0.02;
const FEW_NS: u64 = 50_000_000;
/// So long the reader may have waited for a CPU without a word.
const PATIENCE_NS: u64 = 1_000_000_000;
/// A program that used less than this part of the time waited.
const WAITED: f64 = 0.1;
/// Somebody else worked who had a CPU for so long a part of the time, and who had worked less than half as much before.
const WORKED: f64 = 0.25;
const SHORT_NS: u64 = 1_000_000_000;
/// For so long it is looked at who works on after the end.
const LOOK: Duration = Duration::from_millis(100);

/// What the kernel had counted when the recording began.
#[derive(Debug)]
pub(super) struct Account {
    starts_command: bool,
    before: BTreeMap<Pid, ProcessTimes>,
    /// The control group and its own account, where it has one that is of targets alone.
    group: Option<(Group, u64)>,
    /// Others may come that no target made, with time of their own.
    others_join: bool,
    stolen_ns: Option<u64>,
}

/// What it has counted when it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtEnd {
    /// Of the control group, since the start.
    group_ns: Option<u64>,
    /// What the host took, since the start.
    stolen_ns: Option<u64>,
    /// How the command ended, if it has.
    pub(super) command: Option<CommandEnd>,
}

/// What was recorded, and what was lost of it.
pub(super) struct Recorded<'a> {
    pub(super) trace: &'a TraceAccount,
    pub(super) lost: &'a BTreeMap<LossReason, u64>,
    /// Length of the recording.
    pub(super) of_ns: u64,
}

impl Account {
    /// Just before a held command is let run, or just after processes are followed, of whom the probes know more by now: those who were
    /// forked while unwind tables were read.
    pub(super) fn begin(target: &TargetSpec, followed: Vec<(Pid, ProcessTimes)>) -> Self {
        let own = Pid::new(std::process::id());
        let group = target.group().filter(|group| group.processes().is_ok_and(|pids| !pids.contains(&own)));
        Self {
            starts_command: target.starts_command(),
            before: before(target, followed),
            group: group.and_then(|group| Some((group.clone(), group.cpu_ns()?))),
            others_join: target.group().is_some(),
            stolen_ns: read_stolen_ns(Path::new(PROC)),
        }
    }

    /// Just before the tracer stops: what runs on is recorded up to later, and nothing seems to be missing.
    pub(super) fn end(&self, command: Option<CommandEnd>) -> AtEnd {
        let group = self.group.as_ref();
        let stolen = read_stolen_ns(Path::new(PROC)).zip(self.stolen_ns);
        AtEnd {
            group_ns: group.and_then(|(group, before)| Some(group.cpu_ns()?.saturating_sub(*before))),
            stolen_ns: stolen.map(|(now, before)| now.saturating_sub(before)),
            command,
        }
    }

    /// What is found, once all is recorded.
    pub(super) fn diagnostics(&self, end: AtEnd, recorded: &Recorded<'_>) -> Vec<AccountDiagnostic> {
        let starved = recorded.trace.starved_ns.filter(|&waited| waited > PATIENCE_NS);
        let starved = starved.map(|longest_ns| AccountDiagnostic::RecorderStarved { longest_ns });
        let time = self.missing(end, recorded).or_else(|| stolen(end, recorded.trace));
        let of_command = self.starts_command && end.command.is_some();
        let running = of_command.then(|| still_running(&recorded.trace.living)).flatten();
        let elsewhere =
            self.starts_command.then(|| worked_elsewhere(recorded, end.command.is_some())).flatten();
        [time, running, elsewhere, starved].into_iter().flatten().collect()
    }

    /// CPU time that is not recorded.
    fn missing(&self, end: AtEnd, recorded: &Recorded<'_>) -> Option<AccountDiagnostic> {
        let (kernel_ns, recorded_ns) =
            (self.kernel_ns(end, &recorded.trace.living)?, recorded.trace.recorded_ns);
        is_far(recorded_ns, kernel_ns).then(|| AccountDiagnostic::CpuTime {
            recorded_ns,
            kernel_ns,
            cause: why_missing(recorded),
        })
    }

    /// What processes have used that could be recorded; a process that ended and was not waited for is not in it. What those who ended had
    /// used before is taken off: it is among the time of whoever waited for them.
    fn kernel_ns(&self, end: AtEnd, living: &[(Pid, ProcessTimes)]) -> Option<u64> {
        if self.before.is_empty() && self.group.is_none() {
            return None;
        }
        if end.group_ns.is_some() {
            return end.group_ns;
        }
        let before = |pid| self.before.get(&pid).map_or(0, |times| times.all_ns());
        let known = |pid: &Pid| !self.others_join || self.before.contains_key(pid);
        let on = living.iter().filter(|(pid, _)| known(pid));
        let on: u64 = on.map(|&(pid, times)| times.all_ns().saturating_sub(before(pid))).sum();
        if let Some(command) = end.command {
            let held: u64 = self.before.values().map(|times| times.all_ns()).sum();
            return Some(on + command.cpu_ns.saturating_sub(held));
        }
        let ended = self.before.iter().filter(|(pid, _)| living.iter().all(|(living, _)| living != *pid));
        Some(on.saturating_sub(ended.map(|(_, times)| times.all_ns()).sum()))
    }
}

/// What each had used; with everybody recorded, of the target's own processes alone.
fn before(target: &TargetSpec, followed: Vec<(Pid, ProcessTimes)>) -> BTreeMap<Pid, ProcessTimes> {
    if !followed.is_empty() {
        return followed.into_iter().collect();
    }
    target.pids().into_iter().filter_map(|pid| Some((pid, read_process_times(pid)?))).fill_map()
}

/// Whether the first is less than the second by more than chance.
fn is_far(less_ns: u64, than_ns: u64) -> bool {
    let missing = than_ns.saturating_sub(less_ns);
    missing > FEW_NS && missing as f64 > PART * than_ns as f64
}

fn why_missing(recorded: &Recorded<'_>) -> TimeDifference {
    let lost = |reasons: &[LossReason]| reasons.iter().any(|reason| recorded.lost.contains_key(reason));
    if lost(&[LossReason::Targets]) {
        TimeDifference::NotFollowed
    } else if recorded.trace.cpus_out_of_reach > 0 {
        TimeDifference::CpusOutOfReach
    } else if recorded.trace.starved_ns.is_some() {
        TimeDifference::Starved
    } else if lost(&[LossReason::Slices, LossReason::EventsBusy]) {
        TimeDifference::SlicesLost
    } else {
        TimeDifference::Unknown
    }
}

/// Recorded time in which the scheduler did not see threads run, because the host had their CPUs. Long stretches of it are pauses of the
/// machine, which are told by themselves; interrupts are such time too, and the host's none.
fn stolen(end: AtEnd, trace: &TraceAccount) -> Option<AccountDiagnostic> {
    let (recorded_ns, kernel_ns) = trace.switches_and_scheduler_ns;
    let more = recorded_ns.saturating_sub(kernel_ns);
    let is_hosts = end.stolen_ns? > more / 2 && trace.paused_ns < more / 2;
    let cause = TimeDifference::Stolen;
    (is_hosts && more > 2 * FEW_NS && is_far(kernel_ns, recorded_ns)).then_some(AccountDiagnostic::CpuTime {
        recorded_ns,
        kernel_ns,
        cause,
    })
}

/// Processes that run on, and were not about to end. A daemon forks twice: instead of one that has ended since, who is in its session.
fn still_running(living: &[(Pid, ProcessTimes)]) -> Option<AccountDiagnostic> {
    let proc = Path::new(PROC);
    let (on, ended): (Vec<_>, Vec<_>) = living.iter().partition(|(pid, _)| check_at(proc, *pid).is_ok());
    let tree = if ended.is_empty() { None } else { ProcessTree::read_at(proc).ok() };
    let began = |(pid, _): &&(Pid, ProcessTimes)| tree.as_ref().map(|tree| tree.in_session_of(*pid));
    let daemons = ended.iter().filter_map(began).flatten().map(|pid| (pid, 0));
    let on: Vec<(Pid, u64)> = on.iter().map(|(pid, times)| (*pid, times.own_ns)).chain(daemons).collect();
    let (pid, _) = on.iter().max_by_key(|(_, own_ns)| *own_ns)?;
    let name = std::fs::read(format!("{PROC}/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name).trim_end().to_owned();
    Some(AccountDiagnostic::StillRunning { processes: on.len() as u64, name, pid: pid.get() })
}

/// Somebody else who worked while the program waited, and does no longer where that has ended.
fn worked_elsewhere(recorded: &Recorded<'_>, has_ended: bool) -> Option<AccountDiagnostic> {
    let (own_ns, of_ns) = (recorded.trace.recorded_ns, recorded.of_ns);
    if of_ns < SHORT_NS || own_ns as f64 > WAITED * of_ns as f64 {
        return None;
    }
    let tree = ProcessTree::read_at(Path::new(PROC)).ok()?;
    let ours = Pid::new(std::process::id());
    let others = recorded.trace.others.iter().filter(|other| !tree.is_below(other.pid, ours));
    let worked = others.filter(|other| began_to_work(other, read_process_times(other.pid), of_ns));
    let worked: Vec<&OtherProcess> = worked.collect();
    let busy = if has_ended && !worked.is_empty() { still_busy(&worked, of_ns) } else { Vec::new() };
    let worked = worked.into_iter().filter(|other| !busy.contains(&other.pid));
    let most = worked.max_by_key(|other| other.cpu_ns)?;
    let (pid, name, other_ns) = (most.pid.get(), most.name.clone(), most.cpu_ns);
    Some(AccountDiagnostic::WorkedElsewhere { own_ns, of_ns, name, pid, other_ns })
}

/// Who works on as before: not for a program that has ended.
fn still_busy(worked: &[&OtherProcess], of_ns: u64) -> Vec<Pid> {
    let times = || worked.iter().map(|other| read_process_times(other.pid).map(|times| times.own_ns));
    let (begin, before) = (Instant::now(), times().collect::<Vec<_>>());
    std::thread::sleep(LOOK);
    let look_ns = begin.elapsed().as_nanos() as u64;
    let taken = times().zip(before).map(|(now, before)| Some(now?.saturating_sub(before?)));
    let busy = worked.iter().zip(taken).filter(|(other, ns)| works_on(other, of_ns, *ns, look_ns));
    busy.map(|(other, _)| other.pid).collect()
}

/// Whether a process that had so much time in a look has a tenth of what it had before: others may have its CPU by now.
fn works_on(other: &OtherProcess, of_ns: u64, ns: Option<u64>, look_ns: u64) -> bool {
    let part = |ns: u64, of_ns: u64| ns as f64 / of_ns.max(1) as f64;
    ns.is_some_and(|ns| part(ns, look_ns) >= part(other.cpu_ns, of_ns) / 10.0)
}

/// Whether a process worked much during the recording, and less than half as much of the time before. Of one that is gone nothing is known.
fn began_to_work(other: &OtherProcess, now: Option<ProcessTimes>, of_ns: u64) -> bool {
    let part = |ns: u64, of_ns: u64| ns as f64 / of_ns.max(1) as f64;
    let Some(now) = now else { return false };
    let rate = part(other.cpu_ns, of_ns);
    let before = part(now.own_ns.saturating_sub(other.cpu_ns), now.age_ns.saturating_sub(of_ns));
    !now.is_kernels && rate >= WORKED && (now.age_ns <= of_ns || before < rate / 2.0)
}

#[cfg(test)]
mod tests {
    use super::{
        Account, AccountDiagnostic, AtEnd, CommandEnd, OtherProcess, Pid, ProcessTimes, Recorded,
        TimeDifference, TraceAccount, began_to_work, still_running, works_on,
    };
    use energy_trace_model::recording::record::LossReason;
    use std::collections::BTreeMap;
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitStatus, Stdio};

    const MS: u64 = 1_000_000;

    fn account(before: &[(u32, u64)]) -> Account {
        let times = |ms: u64| ProcessTimes { own_ns: ms * MS, ..ProcessTimes::default() };
        let before = before.iter().map(|&(pid, ms)| (Pid::new(pid), times(ms))).collect();
        Account { starts_command: true, before, group: None, others_join: false, stolen_ns: Some(0) }
    }

    fn ended(cpu_ms: u64, stolen_ms: u64) -> AtEnd {
        let command = CommandEnd { status: ExitStatus::from_raw(0), cpu_ns: cpu_ms * MS };
        AtEnd { group_ns: None, stolen_ns: Some(stolen_ms * MS), command: Some(command) }
    }

    fn found(end: AtEnd, trace: &TraceAccount, lost: &[LossReason]) -> Vec<AccountDiagnostic> {
        let lost = lost.iter().map(|reason| (*reason, 1)).collect::<BTreeMap<_, _>>();
        account(&[(7, 10)]).diagnostics(end, &Recorded { trace, lost: &lost, of_ns: 0 })
    }

    fn recorded(ms: u64) -> TraceAccount {
        TraceAccount { recorded_ns: ms * MS, ..TraceAccount::default() }
    }

    /// CPU time that the kernel counted and the recording lacks is told with its cause; what the fork before the start took, a fiftieth, and
    /// what short runs miss, are not.
    #[test]
    fn missing_time_is_told() {
        let time = |recorded_ms, kernel_ms, cause| AccountDiagnostic::CpuTime {
            recorded_ns: recorded_ms * MS,
            kernel_ns: kernel_ms * MS,
            cause,
        };
        let of =
            |kernel_ms, trace: &TraceAccount, lost: &[LossReason]| found(ended(kernel_ms, 0), trace, lost);
        assert_eq!(of(10_010, &recorded(9_700), &[]), [time(9_700, 10_000, TimeDifference::Unknown)]);
        assert_eq!(of(10_010, &recorded(9_850), &[]), []);
        assert_eq!(of(110, &recorded(60), &[]), []);
        assert_eq!(of(10_010, &recorded(12_000), &[]), []);
        let lost = [LossReason::Slices, LossReason::Targets];
        assert_eq!(of(1_010, &recorded(500), &lost[..1]), [time(500, 1_000, TimeDifference::SlicesLost)]);
        assert_eq!(of(1_010, &recorded(500), &lost), [time(500, 1_000, TimeDifference::NotFollowed)]);
        let blind = TraceAccount { cpus_out_of_reach: 1, ..recorded(500) };
        assert_eq!(of(1_010, &blind, &[]), [time(500, 1_000, TimeDifference::CpusOutOfReach)]);
        let starved = TraceAccount { starved_ns: Some(2_000 * MS), ..recorded(500) };
        let waited = AccountDiagnostic::RecorderStarved { longest_ns: 2_000 * MS };
        assert_eq!(of(1_010, &starved, &lost[..1]), [time(500, 1_000, TimeDifference::Starved), waited]);
    }

    /// Of processes that run on, what they used since the start counts, less what those that ended had used before; and a group's own account
    /// before theirs.
    #[test]
    fn clocks_of_those_that_run_on() {
        let times =
            |ms: u64| ProcessTimes { own_ns: ms * MS, waited_ns: 100 * MS, ..ProcessTimes::default() };
        let living = [(Pid::new(7), times(1_010)), (Pid::new(9), times(400))];
        let end = AtEnd { group_ns: None, stolen_ns: None, command: None };
        let account = account(&[(7, 10), (8, 5)]);
        assert_eq!(account.kernel_ns(end, &living), Some(1_595 * MS));
        assert_eq!(account.kernel_ns(AtEnd { group_ns: Some(3), ..end }, &living), Some(3));
        // Of who came from elsewhere it is not known what is of before.
        let group = Account { others_join: true, ..account };
        assert_eq!(group.kernel_ns(end, &living), Some(1_095 * MS));
        assert_eq!(super::tests::account(&[]).kernel_ns(end, &living), None);
    }

    /// A daemon that its maker forked just when the recording ended is seen by its session.
    #[test]
    fn a_daemon_whose_maker_has_ended() {
        let mut maker = Command::new("setsid");
        maker.args(["sh", "-c", "sleep 60 & echo $!"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut maker = maker.spawn().unwrap();
        let (pid, mut daemon) = (Pid::new(maker.id()), String::new());
        BufReader::new(maker.stdout.take().unwrap()).read_line(&mut daemon).unwrap();
        maker.wait().unwrap();
        let found = still_running(&[(pid, ProcessTimes::default())]);
        let _ended = Command::new("kill").arg(daemon.trim()).status();
        let Some(AccountDiagnostic::StillRunning { processes: 1, pid, .. }) = found else {
            panic!("{found:?}")
        };
        assert_eq!(pid.to_string(), daemon.trim());
    }

    /// Time that the host took is told where the machine says so, and where no pause of the machine tells it.
    #[test]
    fn stolen_time_is_told() {
        let trace = TraceAccount { switches_and_scheduler_ns: (2_000 * MS, 1_500 * MS), ..recorded(2_000) };
        let cause = TimeDifference::Stolen;
        let told = AccountDiagnostic::CpuTime { recorded_ns: 2_000 * MS, kernel_ns: 1_500 * MS, cause };
        assert_eq!(found(ended(1_510, 400), &trace, &[]), [told]);
        assert_eq!(found(ended(1_510, 100), &trace, &[]), []);
        let paused = TraceAccount { paused_ns: 400 * MS, ..trace };
        assert_eq!(found(ended(1_510, 400), &paused, &[]), []);
    }

    /// Who worked during the recording and not before may have worked for the program; who always works, or hardly, has not.
    #[test]
    fn neighbours_are_not_servers() {
        let other = |ms: u64| OtherProcess { pid: Pid::new(7), name: "x".to_owned(), cpu_ns: ms * MS };
        let now = |own_ms: u64, age_ms: u64| {
            Some(ProcessTimes { own_ns: own_ms * MS, age_ns: age_ms * MS, ..ProcessTimes::default() })
        };
        let began = |ms, now| began_to_work(&other(ms), now, 5_000 * MS);
        assert!(began(4_000, now(5_000, 100_000)));
        assert!(began(4_000, now(4_000, 4_500)));
        assert!(!began(4_000, now(90_000, 100_000)));
        assert!(!began(1_000, now(1_000, 100_000)));
        assert!(!began(4_000, None));
        assert!(!began(4_000, now(5_000, 100_000).map(|now| ProcessTimes { is_kernels: true, ..now })));
    }

    /// Who works a tenth as much when the program has ended as while it ran is a neighbour; who rests, or is gone, may have worked for it.
    #[test]
    fn neighbours_work_on() {
        let other = OtherProcess { pid: Pid::new(7), name: "x".to_owned(), cpu_ns: 4_000 * MS };
        let on = |ms: Option<u64>| works_on(&other, 5_000 * MS, ms.map(|ms| ms * MS), 100 * MS);
        assert_eq!([Some(80), Some(8), Some(7), Some(0), None].map(on), [true, true, false, false, false]);
    }
}
