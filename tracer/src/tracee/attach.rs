//! Processes that already run: whether they can be attached to, what is below them, and when the last of them is gone.
//!
//! Everything comes from `/proc` (proc(5)). Leaves out following what they start later: the BPF programs do that.

use super::launch::open_pidfd;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::living::living_thread_at;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Why a process cannot be attached to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AttachError {
    /// There is none of that number.
    #[error("process {0} does not exist")]
    NoSuchProcess(Pid),
    /// It has ended and waits for its parent to notice.
    #[error("process {0} has already ended (it is a zombie)")]
    Zombie(Pid),
    /// It was there and ended before the recording could start.
    #[error("process {0} ended while energy-trace attached to it, before the recording started")]
    EndedMeanwhile(Pid),
    /// The number is a thread's.
    #[error("{thread} is a thread of process {process}: use -p {process}")]
    Thread {
        /// The number that was given.
        thread: Pid,
        /// Its process.
        process: Pid,
    },
    /// energy-trace itself.
    #[error("process {0} is energy-trace itself")]
    Ourselves(Pid),
    /// `/proc` could not be listed.
    #[error("cannot read {path}: {reason}; is /proc mounted?")]
    Proc {
        /// What was read.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
}

/// One life of a process: its number and when it started, in clock ticks since boot. The number alone comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessLife {
    /// The process.
    pub pid: Pid,
    started: u64,
}

/// What `/proc/PID/stat` says that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: Pid,
    /// The process group.
    group: Pid,
    session: Pid,
    state: char,
    started: u64,
}

/// A worker that is recorded without the others of its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The worker that was named.
    pub worker: Pid,
    /// The process that all of them are below.
    pub head: Pid,
    /// How many others are below it and not recorded.
    pub others: usize,
}

/// The program that a process runs, where that can be read.
pub fn program_at(proc: &Path, pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(proc.join(pid.to_string()).join("exe")).ok()
}

/// The processes that run now, by number.
#[derive(Debug)]
pub struct ProcessTree(BTreeMap<Pid, Stat>);

impl ProcessTree {
    /// Reads all processes. One that ends meanwhile is left out.
    pub fn read_at(proc: &Path) -> Result<Self, AttachError> {
        let failed = |e: io::Error| AttachError::Proc { path: proc.to_owned(), reason: e.to_string() };
        let mut processes = BTreeMap::new();
        for entry in std::fs::read_dir(proc).map_err(failed)?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).map(Pid::new)
            else {
                continue;
            };
            if let Some(stat) = read_stat(proc, pid) {
                processes.insert(pid, stat);
            }
        }
        Ok(Self(processes))
    }

    /// Who made a process, or took it over.
    pub fn parent_of(&self, pid: Pid) -> Option<Pid> {
        self.0.get(&pid).map(|stat| stat.parent)
    }

    /// Who runs in the session that a process began.
    pub fn in_session_of(&self, pid: Pid) -> impl Iterator<Item = Pid> {
        let is_in = move |stat: &Stat| stat.session == pid && !matches!(stat.state, 'Z' | 'X');
        self.0.iter().filter(move |(_, stat)| is_in(stat)).map(|(&pid, _)| pid)
    }

    /// The roots that run and everything below them, each once.
    pub fn with_descendants(&self, roots: &[Pid]) -> Vec<ProcessLife> {
        let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
        for (&pid, stat) in &self.0 {
            children.entry(stat.parent).or_default().push(pid);
        }
        let mut found = BTreeSet::new();
        let mut open = roots.to_vec();
        while let Some(pid) = open.pop() {
            let Some(stat) = self.0.get(&pid) else { continue };
            if found.insert(ProcessLife { pid, started: stat.started }) {
                open.extend(children.get(&pid).into_iter().flatten());
            }
        }
        found.into_iter().collect()
    }

    /// Roots below a process that runs the same program (`program`) and is not recorded: each such process once.
    pub fn left_out(&self, roots: &[Pid], program: impl Fn(Pid) -> Option<PathBuf>) -> Vec<LeftOut> {
        let recorded: BTreeSet<Pid> = self.with_descendants(roots).iter().map(|life| life.pid).fill_set();
        let mut found = BTreeMap::new();
        for &worker in roots {
            let head = self.head(worker, &program).filter(|head| !recorded.contains(head));
            let Some(head) = head else { continue };
            let of = program(head);
            let below = self.with_descendants(&[head]).into_iter().map(|life| life.pid);
            let is_other = |pid: &Pid| *pid != head && !recorded.contains(pid) && program(*pid) == of;
            let others = below.filter(is_other).count();
            let group = |pid| self.0.get(&pid).map(|stat: &Stat| stat.group);
            if others > 0 || group(worker) == group(head) {
                found.entry(head).or_insert(LeftOut { worker, head, others });
            }
        }
        found.into_values().collect()
    }

    /// The highest process above one that runs the same program, as all between them do.
    fn head(&self, worker: Pid, program: &impl Fn(Pid) -> Option<PathBuf>) -> Option<Pid> {
        let of = program(worker)?;
        let mut head = worker;
        for _ in 0..=self.0.len() {
            let above = self.0.get(&head).map(|stat| stat.parent);
            let Some(above) = above.filter(|above| program(*above).as_ref() == Some(&of)) else { break };
            head = above;
        }
        (head != worker).then_some(head)
    }

    /// Whether `pid` is `ancestor` or somewhere below it.
    pub fn is_below(&self, pid: Pid, ancestor: Pid) -> bool {
        let mut at = pid;
        // The tree is read entry by entry and may be torn: a bound instead of a promise that there is no circle.
        for _ in 0..=self.0.len() {
            if at == ancestor {
                return true;
            }
            match self.0.get(&at) {
                Some(stat) => at = stat.parent,
                None => return false,
            }
        }
        false
    }
}

/// Checks that a process that the user named can be attached to.
pub fn check_at(proc: &Path, pid: Pid) -> Result<ProcessLife, AttachError> {
    if pid.get() == std::process::id() {
        return Err(AttachError::Ourselves(pid));
    }
    let stat = read_stat(proc, pid).ok_or(AttachError::NoSuchProcess(pid))?;
    // /proc/TID exists for threads too, though it is not listed.
    let process = read_process_of(proc, pid).ok_or(AttachError::NoSuchProcess(pid))?;
    match stat.state {
        _ if process != pid => Err(AttachError::Thread { thread: pid, process }),
        'Z' | 'X' if living_thread_at(proc, pid).is_none() => Err(AttachError::Zombie(pid)),
        _ => Ok(ProcessLife { pid, started: stat.started }),
    }
}

/// Whether this very process still runs.
pub fn runs_at(proc: &Path, life: ProcessLife) -> bool {
    read_stat(proc, life.pid).is_some_and(|stat| {
        let leads = !matches!(stat.state, 'Z' | 'X');
        stat.started == life.started && (leads || living_thread_at(proc, life.pid).is_some())
    })
}

/// Returns when the last of `lives` is gone, at once when all are. One descriptor is open at a time, so their number does not matter.
pub async fn all_gone(proc: &Path, lives: &[ProcessLife]) {
    for &life in lives {
        let Ok(pidfd) = open_pidfd(life.pid) else { continue };
        // The handle is only worth something if the pid had not been given to somebody else before it was opened.
        if !runs_at(proc, life) {
            continue;
        }
        // SAFETY: the AsyncFd owns the descriptor, which stays open until it has been deregistered.
        if let Ok(pidfd) = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) } {
            // A pidfd becomes readable when its process ends (pidfd_open(2)); an error means that waiting is over too.
            let _ = pidfd.readable().await;
        }
    }
}

/// Which of the roots have ended; an error where nobody is left to record.
pub fn ended_meanwhile(
    roots: &[ProcessLife],
    followed: &BTreeSet<ProcessLife>,
    runs: impl Fn(&ProcessLife) -> bool,
) -> Result<Vec<Pid>, AttachError> {
    let ended: Vec<Pid> = roots.iter().filter(|life| !runs(life)).map(|life| life.pid).collect();
    match ended.first() {
        Some(&pid) if !followed.iter().any(runs) => Err(AttachError::EndedMeanwhile(pid)),
        _ => Ok(ended),
    }
}

fn read_stat(proc: &Path, pid: Pid) -> Option<Stat> {
    // Its name may be any bytes.
    let line = std::fs::read(proc.join(pid.to_string()).join("stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&line))
}

/// Fields 3 (state), 4 (parent), 5 (group), 6 (session) and 22 (start) of proc_pid_stat(5). The name before them is in parentheses and may hold some itself.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = Pid::new(fields.next()?.parse().ok()?);
    let group = Pid::new(fields.next()?.parse().ok()?);
    let session = Pid::new(fields.next()?.parse().ok()?);
    // Fields 7 to 21 lie between the session and the start; `nth` counts from zero.
    let started = fields.nth(15)?.parse().ok()?;
    Some(Stat { parent, group, session, state, started })
}

fn read_process_of(proc: &Path, pid: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(proc.join(pid.to_string()).join("status")).ok()?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    number.trim().parse().ok().map(Pid::new)
}

#[cfg(test)]
mod tests {
    use super::{
        AttachError, BTreeSet, ProcessLife, ProcessTree, Stat, all_gone, check_at, ended_meanwhile,
        parse_stat,
    };
    use energy_trace_model::ids::Pid;
    use std::path::Path;

    fn tree(edges: &[(u32, u32)]) -> ProcessTree {
        let stat = |parent| Stat {
            parent: Pid::new(parent),
            group: Pid::new(0),
            session: Pid::new(0),
            state: 'S',
            started: 1,
        };
        ProcessTree(edges.iter().map(|&(pid, parent)| (Pid::new(pid), stat(parent))).collect())
    }

    /// A name with parentheses and spaces does not shift the fields.
    #[test]
    fn names_may_hold_anything() {
        let line = "42 (a) b (c)) S 7 42 41 0 -1 4194560 1 0 0 0 3 4 0 0 20 0 1 0 987654 1 2\n";
        assert_eq!(
            parse_stat(line),
            Some(Stat {
                parent: Pid::new(7),
                group: Pid::new(42),
                session: Pid::new(41),
                state: 'S',
                started: 987_654
            })
        );
        assert_eq!(parse_stat("42 (cut"), None);
        assert_eq!(parse_stat("42 (cut) S 7 1"), None);
    }

    /// Everything below the roots is found once, whatever hangs beside it.
    #[test]
    fn descendants() {
        let tree = tree(&[(1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (21, 20)]);
        let found: Vec<u32> = tree
            .with_descendants(&[Pid::new(10), Pid::new(11), Pid::new(99)])
            .iter()
            .map(|l| l.pid.get())
            .collect();
        assert_eq!(found, [10, 11, 12]);
        assert!(tree.is_below(Pid::new(12), Pid::new(10)));
        assert!(!tree.is_below(Pid::new(21), Pid::new(10)));
    }

    /// A worker's program has a process above and others beside it: they are told of once, unless they are recorded too. One of
    /// a shell's programs has none.
    #[test]
    fn workers_beside() {
        // A shell (2) started two servers (10, 20); the first has three workers, of which one has one, and a helper (14).
        let tree = tree(&[(2, 1), (10, 2), (11, 10), (12, 10), (13, 12), (14, 10), (20, 2), (21, 20)]);
        let program = |pid: Pid| match pid.get() {
            2 => Some("/bin/bash".into()),
            14 => Some("/bin/sleep".into()),
            10.. => Some("/usr/bin/python3".into()),
            _ => None,
        };
        let found = |roots: &[u32]| {
            let roots: Vec<Pid> = roots.iter().copied().map(Pid::new).collect();
            let left_out = tree.left_out(&roots, program).into_iter();
            left_out.map(|found| (found.worker.get(), found.head.get(), found.others)).collect::<Vec<_>>()
        };
        assert_eq!(found(&[11]), [(11, 10, 2)]);
        assert_eq!(found(&[13, 11, 21]), [(13, 10, 1), (21, 20, 0)]);
        assert_eq!(found(&[10, 11]), []);
        assert_eq!((found(&[2]), found(&[14]), found(&[99])), (vec![], vec![], vec![]));
    }

    /// A torn tree with a circle in it is walked to an end.
    #[test]
    fn a_circle_ends() {
        let tree = tree(&[(5, 6), (6, 5)]);
        assert!(!tree.is_below(Pid::new(5), Pid::new(1)));
        assert_eq!(tree.with_descendants(&[Pid::new(5)]).len(), 2);
        assert_eq!(tree.left_out(&[Pid::new(5)], |_| Some("/x".into())), []);
    }

    /// A thread's number is refused by the name of its process; our own and a missing one are refused too.
    #[test]
    fn only_processes_can_be_attached() {
        let proc = Path::new("/proc");
        let ours = Pid::new(std::process::id());
        assert_eq!(check_at(proc, ours), Err(AttachError::Ourselves(ours)));
        assert_eq!(check_at(proc, Pid::new(u32::MAX)), Err(AttachError::NoSuchProcess(Pid::new(u32::MAX))));
        let thread = std::thread::spawn(move || {
            let tid = Pid::new(nix::unistd::gettid().as_raw().cast_unsigned());
            (tid, check_at(proc, tid))
        });
        let (tid, refused) = thread.join().unwrap();
        assert_eq!(refused, Err(AttachError::Thread { thread: tid, process: ours }));
    }

    /// A child that has ended and was not collected is a zombie, and nobody waits for it.
    #[tokio::test]
    async fn the_dead_are_not_waited_for() {
        let proc = Path::new("/proc");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let life = check_at(proc, Pid::new(child.id())).unwrap();
        child.kill().unwrap();
        all_gone(proc, &[life]).await;
        assert_eq!(check_at(proc, life.pid), Err(AttachError::Zombie(life.pid)));
        all_gone(proc, &[life]).await;
        child.wait().unwrap();
    }

    /// Of several processes one may end before the recording starts; where nobody is left, there is nothing to record.
    #[test]
    fn others_are_recorded_on() {
        let life = |pid| ProcessLife { pid: Pid::new(pid), started: 1 };
        let (roots, followed) = ([life(7), life(8)], BTreeSet::from([life(7), life(8), life(9)]));
        let ended = |runs: &[u32]| ended_meanwhile(&roots, &followed, |life| runs.contains(&life.pid.get()));
        assert_eq!(ended(&[7, 8, 9]), Ok(vec![]));
        assert_eq!(ended(&[8]), Ok(vec![Pid::new(7)]));
        assert_eq!(ended(&[9]), Ok(vec![Pid::new(7), Pid::new(8)]));
        assert_eq!(ended(&[]), Err(AttachError::EndedMeanwhile(Pid::new(7))));
    }
}
