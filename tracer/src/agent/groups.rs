//! Whose each process is, by the path of its control group, which the kernel writes.
//!
//! A process is looked at when it is first recorded, and all that live at the end of each window, as some are moved later. One that was gone
//! before is its parent's. Leaves out what paths mean (`names::workload`).

use energy_trace_model::ids::{Pid, ProcessKey};
use energy_trace_model::recording::record::Process;
use energy_trace_names::workload::Workload;
use energy_trace_report::agent_totals::Who;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where the kubelet keeps the logs of pods, in folders `NAMESPACE_NAME_UID`.
pub(super) const PODS: &str = "/var/log/pods";
/// Between two looks for the namespaces of new pods.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Folders of pods that are looked at.
const MOST_PODS: usize = 10_000;

/// What is known of all processes.
pub(super) struct Groups {
    proc: PathBuf,
    namespaces: Namespaces,
    /// Each once.
    whos: Vec<Who>,
    numbers: HashMap<Who, u32>,
    /// The number of each process's, by its key.
    of: Vec<u32>,
    /// The last program of each process that lives.
    last: HashMap<Pid, usize>,
}

impl Groups {
    pub(super) fn new(proc: impl Into<PathBuf>, pods: impl Into<PathBuf>) -> Self {
        let namespaces = Namespaces { pods: pods.into(), of: HashMap::new(), looked: None };
        let (whos, numbers, of, last) = Default::default();
        Self { proc: proc.into(), namespaces, whos, numbers, of, last }
    }

    /// Whose it is.
    pub(super) fn who(&self, process: ProcessKey) -> Who {
        let number = self.of.get(process.get() as usize);
        let who = number.and_then(|&number| self.whos.get(number as usize));
        who.cloned().unwrap_or(Who::Unseen)
    }

    /// Looks at processes that are new; all are in the order of their keys.
    pub(super) fn look_at_new(&mut self, processes: &[Process]) {
        for process in processes.iter().skip(self.of.len()) {
            let who = self.read(process.pid);
            let who = who.unwrap_or_else(|| process.parent.map_or(Who::Unseen, |parent| self.who(parent)));
            let number = self.number(who);
            self.last.insert(process.pid, self.of.len());
            self.of.push(number);
        }
    }

    /// Looks at all that live, and returns whose they are.
    pub(super) fn look_at_living(&mut self) -> BTreeSet<Who> {
        let (mut living, mut pids) = (BTreeSet::new(), HashSet::new());
        let entries = std::fs::read_dir(&self.proc).into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::new) {
            let Some(who) = self.read(pid) else { continue };
            pids.insert(pid);
            let number = self.number(who.clone());
            living.insert(who);
            let process = self.last.get(&pid).and_then(|&process| self.of.get_mut(process));
            process.into_iter().for_each(|of| *of = number);
        }
        self.last.retain(|pid, _| pids.contains(pid));
        living
    }

    /// `None`: it is gone, or not to be seen.
    fn read(&mut self, pid: Pid) -> Option<Who> {
        let groups = std::fs::read(self.proc.join(pid.to_string()).join("cgroup")).ok()?;
        // Of a group that was removed while a process of it ends.
        let groups = String::from_utf8_lossy(&groups).replace(" (deleted)\n", "\n");
        let workload = Workload { rank: None, ..Workload::of_process(&groups) };
        let namespace = workload.pod_uid.as_deref().and_then(|pod| self.namespaces.of(pod));
        Some(Who::Known(workload, namespace))
    }

    fn number(&mut self, who: Who) -> u32 {
        let next = u32::try_from(self.whos.len()).unwrap_or(u32::MAX);
        let (whos, numbers) = (&mut self.whos, &mut self.numbers);
        *numbers.entry(who).or_insert_with_key(|who| {
            whos.push(who.clone());
            next
        })
    }
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
    use super::{BTreeSet, Groups, Pid, Process, ProcessKey, Who, Workload};
    use std::path::Path;

    const POD: &str = "7f1d2e3c-0a1b-4c5d-8e9f-001122334455";

    fn put(proc: &Path, pid: u32, groups: &str) {
        let folder = proc.join(pid.to_string());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cgroup"), groups).unwrap();
    }

    fn process(key: u32, pid: u32, parent: Option<u32>) -> Process {
        let parent = parent.map(ProcessKey::new);
        let (name, command, runtime) = Default::default();
        Process { key: ProcessKey::new(key), pid: Pid::new(pid), parent, name, command, runtime }
    }

    fn unit(name: &str) -> Who {
        Who::Known(Workload { unit: Some(name.to_owned()), ..Workload::default() }, None)
    }

    /// A process is its group's, one that was gone its parent's, and one without a parent nobody's; who is moved later, or executes another
    /// program, is who he is by then; what has ended keeps what it was.
    #[test]
    fn whose_processes_are() {
        let proc = tempfile::tempdir().unwrap();
        let mut groups = Groups::new(proc.path(), "/nothing");
        put(proc.path(), 7, "0::/system.slice/a.service\n");
        put(proc.path(), 8, "0::/system.slice/b.service (deleted)\n");
        let mut processes =
            vec![process(0, 7, None), process(1, 8, None), process(2, 9, Some(1)), process(3, 10, None)];
        groups.look_at_new(&processes);
        let found: Vec<Who> = (0..5).map(|key| groups.who(ProcessKey::new(key))).collect();
        assert_eq!(
            found,
            [unit("a.service"), unit("b.service"), unit("b.service"), Who::Unseen, Who::Unseen]
        );
        put(proc.path(), 7, "0::/system.slice/c.service\n");
        std::fs::remove_dir_all(proc.path().join("8")).unwrap();
        assert_eq!(groups.look_at_living(), BTreeSet::from([unit("c.service")]));
        assert_eq!(groups.who(ProcessKey::new(0)), unit("c.service"));
        assert_eq!(groups.who(ProcessKey::new(1)), unit("b.service"));
        put(proc.path(), 8, "0::/system.slice/d.service\n");
        processes.push(process(4, 8, None));
        groups.look_at_new(&processes);
        groups.look_at_living();
        assert_eq!(groups.who(ProcessKey::new(1)), unit("b.service"));
        assert_eq!(groups.who(ProcessKey::new(4)), unit("d.service"));
    }

    /// Where the kubelet's folder can be read a pod has its namespace.
    #[test]
    fn namespaces_of_pods() {
        let (proc, pods) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(pods.path().join(format!("shop_web-0_{POD}"))).unwrap();
        std::fs::create_dir(pods.path().join("lost+found")).unwrap();
        put(proc.path(), 7, &format!("0::/kubepods/burstable/pod{POD}/web1\n"));
        let mut groups = Groups::new(proc.path(), pods.path());
        groups.look_at_new(&[process(0, 7, None)]);
        let Who::Known(workload, namespace) = groups.who(ProcessKey::new(0)) else { panic!("unseen") };
        assert_eq!((workload.pod_uid.as_deref(), namespace.as_deref()), (Some(POD), Some("shop")));
    }

    /// This very machine: this process lives, and is somebody's.
    #[test]
    fn this_machine() {
        let mut groups = Groups::new("/proc", "/nothing");
        groups.look_at_new(&[process(0, std::process::id(), None)]);
        let own = groups.who(ProcessKey::new(0));
        assert!(own != Who::Unseen && groups.look_at_living().contains(&own), "{own:?}");
    }
}
