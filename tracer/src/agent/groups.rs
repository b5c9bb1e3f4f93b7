//! Whose each process is, by the path of its control group, which the kernel writes.
//!
//! A process is looked at when it is first recorded, and all that live at the end of each window, as some are
//! moved later. One that was gone before is its parent's. Who has ended is known by who lives. Leaves out
//! what paths mean (`names::workload`).

use energy_trace_model::ids::Pid;
use energy_trace_model::recording::live::NewProcess;
use energy_trace_names::shown::exact_lines;
use energy_trace_names::workload::{Workload, path_in};
use energy_trace_report::agent_totals::Who;
use energy_trace_unwind::living::has_ended;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the kubelet keeps the logs of pods, in folders `NAMESPACE_NAME_UID`.
pub(super) const PODS: &str = "/var/log/pods";
/// Between two looks for the namespaces of new pods.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Folders of pods that are looked at.
const MOST_PODS: usize = 10_000;

/// Records of a process come some seconds late.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same while very many have ended: their records come with the next reading of power.
const IN_A_CROWD: Duration = Duration::from_secs(2);
/// So many are very many.
const CROWD: usize = 20_000;
/// Bytes of `/proc/PID/cgroup` that are read: more than it has.
const MOST_OF_GROUPS: u64 = 1 << 20;
/// A process that there always is, and that is seen where programs of others are (proc(5), `hidepid`).
const FIRST: Pid = Pid::new(1);

/// A control group.
struct Group {
    who: Who,
    path: String,
}

/// What is known of processes, by the recorder's numbers, which nobody else gets later.
pub(super) struct Groups {
    proc: PathBuf,
    namespaces: Namespaces,
    /// By what the kernel writes of those who are in it: thousands of processes are in a few.
    groups: HashMap<Vec<u8>, Arc<Group>>,
    /// What it wrote last: kept for its memory.
    text: Vec<u8>,
    of: HashMap<u32, Arc<Group>>,
    /// The last program of each process that lives.
    last: HashMap<Pid, u32>,
    /// Programs that have ended, and since when that is known.
    ended: HashMap<u32, Instant>,
    /// For so long something of them may come.
    patience: Duration,
}

impl Groups {
    pub(super) fn new(proc: impl Into<PathBuf>, pods: impl Into<PathBuf>) -> Self {
        let namespaces = Namespaces { pods: pods.into(), of: HashMap::new(), looked: None };
        let (groups, text, of, last, ended) = Default::default();
        Self { proc: proc.into(), namespaces, groups, text, of, last, ended, patience: PATIENCE }
    }

    /// Whose it is.
    pub(super) fn who(&self, number: Option<u32>) -> Who {
        self.group(number).map_or(Who::Unseen, |group| group.who.clone())
    }

    /// The path of its control group, where it is known.
    pub(super) fn path(&self, number: Option<u32>) -> Option<&str> {
        self.group(number).map(|group| group.path.as_str())
    }

    /// Namespaces of the pods that are known, by their UIDs.
    pub(super) fn namespaces(&self) -> HashMap<String, String> {
        let of = |group: &Arc<Group>| match &group.who {
            Who::Known(workload, namespace) => workload.pod_uid.clone().zip(namespace.clone()),
            _ => None,
        };
        self.groups.values().filter_map(of).collect()
    }

    fn group(&self, number: Option<u32>) -> Option<&Arc<Group>> {
        self.of.get(&number?)
    }

    /// Looks at processes that are new.
    pub(super) fn look_at_new(&mut self, processes: Vec<NewProcess>) {
        for NewProcess { number, pid, parent } in processes {
            let before = self.last.insert(pid, number);
            self.ended.extend(before.map(|before| (before, Instant::now())));
            let above = self.group(parent).cloned();
            let own = self.read_or_before(pid, above.as_ref());
            own.or(above).into_iter().for_each(|group| _ = self.of.insert(number, group));
        }
    }

    /// Looks at all that live, and returns whose they are.
    pub(super) fn look_at_living(&mut self) -> BTreeSet<Who> {
        let (mut living, mut pids) = (BTreeSet::new(), HashSet::new());
        let entries = std::fs::read_dir(&self.proc).into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::new) {
            let known = self.last.get(&pid).and_then(|number| self.of.get(number)).cloned();
            let Some(group) = self.read_or_before(pid, known.as_ref()) else { continue };
            pids.insert(pid);
            living.insert(group.who.clone());
            if let Some(number) = self.last.get(&pid) {
                self.of.insert(*number, group);
            }
        }
        // Where programs of others cannot be seen nobody knows who has ended.
        if pids.contains(&FIRST) {
            let gone = self.last.extract_if(|pid, _| !pids.contains(pid));
            self.ended.extend(gone.map(|(_, number)| (number, Instant::now())));
        }
        living
    }

    /// Whether a program has ended, and nothing of it comes any more.
    pub(super) fn has_ended(&self, number: u32) -> bool {
        let patience = if self.ended.len() > CROWD { self.patience.min(IN_A_CROWD) } else { self.patience };
        self.ended.get(&number).is_some_and(|since| since.elapsed() >= patience)
    }

    /// Forgets processes that nobody knows any more, and their groups.
    pub(super) fn forget_unknown(&mut self, is_known: impl Fn(u32) -> bool) {
        self.of.retain(|number, _| is_known(*number));
        self.ended.retain(|number, _| is_known(*number));
        self.groups.retain(|_, group| Arc::strong_count(group) > 1);
        self.of.shrink_to(self.of.len() * 2);
        self.groups.shrink_to(self.groups.len() * 2);
    }

    /// Its group; the one before where its first thread has ended, which has left it for the first of all (cgroup v1).
    fn read_or_before(&mut self, pid: Pid, before: Option<&Arc<Group>>) -> Option<Arc<Group>> {
        let now = self.read(pid)?;
        let before = before.filter(|before| now.path == "/" && before.path != now.path);
        Some(before.filter(|_| has_ended(&self.proc.join(pid.to_string()))).map_or(now, Arc::clone))
    }

    /// `None`: it is gone, or not to be seen.
    fn read(&mut self, pid: Pid) -> Option<Arc<Group>> {
        self.text.clear();
        let file = File::open(self.proc.join(pid.to_string()).join("cgroup")).ok()?;
        file.take(MOST_OF_GROUPS).read_to_end(&mut self.text).ok()?;
        if let Some(known) = self.groups.get(&self.text).filter(|known| is_settled(&known.who)) {
            return Some(Arc::clone(known));
        }
        // Of a group that was removed while a process of it ends.
        let groups = exact_lines(&self.text).replace(" (deleted)\n", "\n");
        let path = path_in(&groups).unwrap_or_default();
        let workload = Workload { rank: None, ..Workload::of(path) };
        let namespace = workload.pod_uid.as_deref().and_then(|pod| self.namespaces.of(pod));
        let who = Who::Known(workload, namespace);
        if let Some(known) = self.groups.get(&self.text).filter(|known| known.who == who) {
            return Some(Arc::clone(known));
        }
        let group = Arc::new(Group { who, path: path.to_owned() });
        self.groups.insert(self.text.clone(), Arc::clone(&group));
        Some(group)
    }
}

/// Whether nothing more is to be found out: whoever is in no pod has no namespace.
fn is_settled(who: &Who) -> bool {
    matches!(who, Who::Known(workload, namespace) if namespace.is_some() || workload.pod_uid.is_none())
}

/// Namespaces of pods, where the kubelet's folder can be read.
struct Namespaces {
    pods: PathBuf,
    of: HashMap<String, String>,
    looked: Option<Instant>,
}

impl Namespaces {
    fn of(&mut self, pod: &str) -> Option<String> {
        if !self.of.contains_key(pod) && self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_AGAIN) {
            self.looked = Some(Instant::now());
            self.of = self.read();
        }
        self.of.get(pod).cloned()
    }

    fn read(&self) -> HashMap<String, String> {
        let entries = std::fs::read_dir(&self.pods).into_iter().flatten().flatten().take(MOST_PODS);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let parts = |name: String| {
            let ((namespace, _), (_, pod)) = (name.split_once('_')?, name.rsplit_once('_')?);
            Some((pod.to_owned(), namespace.to_owned()))
        };
        names.filter_map(parts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, Duration, Groups, NewProcess, Pid, Who, Workload};
    use std::path::Path;

    const POD: &str = "7f1d2e3c-0a1b-4c5d-8e9f-001122334455";

    fn put(proc: &Path, pid: u32, groups: &str) {
        let folder = proc.join(pid.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cgroup"), groups).unwrap();
    }

    const fn process(number: u32, pid: u32, parent: Option<u32>) -> NewProcess {
        NewProcess { number, pid: Pid::new(pid), parent }
    }

    fn unit(name: &str) -> Who {
        Who::Known(Workload { unit: Some(name.to_owned()), ..Workload::default() }, None)
    }

    /// Who has ended and waits for its parent stays in the group where it was, and is not forgotten, as other threads of it may run; who moves to
    /// the first group is there.
    #[test]
    fn who_waits_for_its_parent() {
        let proc = tempfile::tempdir().unwrap();
        let mut groups = Groups::new(proc.path(), proc.path());
        let state = |pid: u32, state| {
            let stat = format!("{pid} (a) Z) {state} 1 1");
            std::fs::write(proc.path().join(pid.to_string()).join("stat"), stat).unwrap();
        };
        [1, 7, 8].into_iter().for_each(|pid| put(proc.path(), pid, "0::/system.slice/a.service\n"));
        groups.look_at_new(vec![process(0, 7, None), process(1, 8, None)]);
        [7, 8, 9].into_iter().for_each(|pid| put(proc.path(), pid, "0::/\n"));
        [(7, 'Z'), (8, 'S'), (9, 'Z')].into_iter().for_each(|(pid, of)| state(pid, of));
        groups.look_at_new(vec![process(2, 9, Some(0))]);
        groups.look_at_living();
        let known = [0, 1, 2].map(|number| groups.who(Some(number)));
        assert_eq!([&known[0], &known[2]], [&unit("a.service"); 2]);
        assert_ne!(known[1], unit("a.service"));
        assert!([0, 2].iter().all(|number| !groups.ended.contains_key(number)));
    }

    /// A process is its group's, one that was gone its parent's, and one without a parent nobody's; who is moved later, or executes another
    /// program, is who he is by then; what has ended keeps what it was.
    #[test]
    fn whose_processes_are() {
        let proc = tempfile::tempdir().unwrap();
        let mut groups = Groups::new(proc.path(), "/nothing");
        put(proc.path(), 7, "0::/system.slice/a.service\n");
        put(proc.path(), 8, "0::/system.slice/b.service (deleted)\n");
        groups.look_at_new(vec![
            process(0, 7, None),
            process(1, 8, None),
            process(2, 9, Some(1)),
            process(3, 10, None),
        ]);
        let found: Vec<Who> = (0..5).map(|number| groups.who(Some(number))).collect();
        assert_eq!(
            found,
            [unit("a.service"), unit("b.service"), unit("b.service"), Who::Unseen, Who::Unseen]
        );
        put(proc.path(), 7, "0::/system.slice/c.service\n");
        std::fs::remove_dir_all(proc.path().join("8")).unwrap();
        assert_eq!(groups.look_at_living(), BTreeSet::from([unit("c.service")]));
        assert_eq!(groups.who(Some(0)), unit("c.service"));
        assert_eq!(groups.who(Some(1)), unit("b.service"));
        put(proc.path(), 8, "0::/system.slice/d.service\n");
        groups.look_at_new(vec![process(4, 8, None)]);
        groups.look_at_living();
        assert_eq!(groups.who(Some(1)), unit("b.service"));
        assert_eq!(
            (groups.who(Some(4)), groups.path(Some(4))),
            (unit("d.service"), Some("/system.slice/d.service"))
        );
    }

    /// What has ended is known by who lives, as far as programs of others are seen; what nobody knows is
    /// forgotten, with its group.
    #[test]
    fn what_has_ended() {
        let proc = tempfile::tempdir().unwrap();
        let mut groups = Groups::new(proc.path(), "/nothing");
        put(proc.path(), 7, "0::/system.slice/a.service\n");
        groups.look_at_new(vec![process(0, 7, None), process(1, 8, Some(0)), process(2, 7, None)]);
        groups.look_at_living();
        let ended = |groups: &Groups| [0, 1, 2].map(|number| groups.has_ended(number));
        assert_eq!(ended(&groups), [false; 3]);
        groups.patience = Duration::ZERO;
        assert_eq!(ended(&groups), [true, false, false]);
        put(proc.path(), 1, "0::/init.scope\n");
        groups.look_at_living();
        assert_eq!(ended(&groups), [true, true, false]);
        groups.forget_unknown(|number| number == 9);
        assert_eq!((groups.of.len(), groups.groups.len(), groups.ended.len()), (0, 0, 0));
    }

    /// Of very many that have ended nobody is known for long.
    #[test]
    fn a_crowd_is_forgotten_soon() {
        let proc = tempfile::tempdir().unwrap();
        let mut groups = Groups::new(proc.path(), "/nothing");
        let now = super::Instant::now();
        let Some(some_time_ago) = now.checked_sub(super::IN_A_CROWD) else { return };
        groups.ended.insert(0, some_time_ago);
        groups.ended.extend((1..=super::CROWD as u32).map(|number| (number, now)));
        assert!(groups.has_ended(0) && !groups.has_ended(1));
        groups.ended.remove(&1);
        assert!(!groups.has_ended(0));
    }

    /// Names that differ only in what no page can show are different workloads, and what they are called can
    /// be shown.
    #[test]
    fn names_that_cannot_be_shown() {
        let proc = tempfile::tempdir().unwrap();
        let mut groups = Groups::new(proc.path(), "/nothing");
        let names: [&[u8]; 6] = [b"a\x1b", b"a\\x1b", b"a\xff", b"a\xfe", "a\u{200b}".as_bytes(), b"a"];
        for (pid, name) in (7..).zip(names) {
            put(proc.path(), pid, "");
            let path = [b"0::/system.slice/", name, b".service\n"].concat();
            std::fs::write(proc.path().join(pid.to_string()).join("cgroup"), path).unwrap();
        }
        groups.look_at_new((0..6).map(|number| process(number, 7 + number, None)).collect());
        let units: BTreeSet<String> = groups
            .look_at_living()
            .into_iter()
            .filter_map(|who| match who {
                Who::Known(workload, _) => workload.unit,
                _ => None,
            })
            .collect();
        assert_eq!(units.len(), 6, "{units:?}");
        assert!(
            units.iter().all(|unit| !unit.contains(|c: char| c.is_control() || c == '\u{fffd}')),
            "{units:?}"
        );
        let paths: BTreeSet<&str> = (0..6).filter_map(|number| groups.path(Some(number))).collect();
        assert_eq!(paths.len(), 6);
    }

    /// Where the kubelet's folder can be read a pod has its namespace.
    #[test]
    fn namespaces_of_pods() {
        let (proc, pods) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(pods.path().join(format!("shop_web-0_{POD}"))).unwrap();
        std::fs::create_dir(pods.path().join("lost+found")).unwrap();
        put(proc.path(), 7, &format!("0::/kubepods/burstable/pod{POD}/web1\n"));
        let mut groups = Groups::new(proc.path(), pods.path());
        groups.look_at_new(vec![process(0, 7, None)]);
        let Who::Known(workload, namespace) = groups.who(Some(0)) else { panic!("unseen") };
        assert_eq!((workload.pod_uid.as_deref(), namespace.as_deref()), (Some(POD), Some("shop")));
        assert_eq!(groups.namespaces(), [(POD.to_owned(), "shop".to_owned())].into());
    }

    /// A pod's namespace is found when its folder is there, however often its processes were looked at
    /// before; those of one group have one.
    #[test]
    fn namespaces_come_late() {
        let (proc, pods) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut groups = Groups::new(proc.path(), pods.path());
        for pid in 7..10 {
            put(proc.path(), pid, &format!("0::/kubepods/burstable/pod{POD}/web1\n"));
        }
        groups.look_at_new((0..3).map(|number| process(number, 7 + number, None)).collect());
        let namespace = |groups: &Groups| match groups.who(Some(0)) {
            Who::Known(_, namespace) => namespace,
            _ => panic!("unseen"),
        };
        assert_eq!((namespace(&groups), groups.groups.len()), (None, 1));
        let held = groups.groups.values().map(std::sync::Arc::strong_count).sum::<usize>();
        assert_eq!(held, 4, "one group for three processes");
        std::fs::create_dir(pods.path().join(format!("shop_web-0_{POD}"))).unwrap();
        groups.namespaces.looked = None;
        groups.look_at_living();
        assert_eq!((namespace(&groups).as_deref(), groups.groups.len()), (Some("shop"), 1));
    }

    /// This very machine: this process lives, and is somebody's.
    #[test]
    fn this_machine() {
        let mut groups = Groups::new("/proc", "/nothing");
        groups.look_at_new(vec![process(0, std::process::id(), None)]);
        let own = groups.who(Some(0));
        assert!(own != Who::Unseen && groups.look_at_living().contains(&own), "{own:?}");
    }
}
