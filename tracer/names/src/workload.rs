//! Whose work a process does, by the path of its control group: a pod and its container (Kubernetes, Docker,
//! containerd, CRI-O, Podman), a systemd unit, a Slurm job and step.
//!
//! Read from the outside inwards, and what is found first stays: who may make groups below its own cannot
//! name itself another. Leaves out names of pods and users, which no path holds, and reading files.

/// What the path of a control group says of a process. Nothing of it: it is the machine's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Workload {
    /// The pod, as the API server calls it.
    pub pod_uid: Option<String>,
    /// The container, as its runtime calls it.
    pub container_id: Option<String>,
    /// The systemd unit; below a user's own manager behind that: `user@1000.service/app.scope`.
    pub unit: Option<String>,
    /// The Slurm job.
    pub slurm_job: Option<u64>,
    /// Its step: a number, `batch`, `extern` or `interactive`.
    pub slurm_step: Option<String>,
    /// The task's number in its step, which is its rank.
    pub rank: Option<u32>,
}

/// What runtimes write before a container's id: `docker-ID.scope`.
const RUNTIMES: [&str; 9] = [
    "cri-containerd",
    "containerd",
    "nerdctl",
    "docker",
    "crio-conmon",
    "crio",
    "libpod-conmon",
    "libpod-payload",
    "libpod",
];
/// Digits of a container's id.
const ID_DIGITS: usize = 64;
/// Numbers from here on are no tasks but Slurm's own marks.
const NO_TASK: u32 = 0xffff_0000;

impl Workload {
    /// Of a path below the mount of control groups.
    pub fn of(path: &str) -> Self {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let mut found = Self::default();
        if is_of_slurm(path) {
            parts.for_each(|part| found.take_slurm(part));
            return found;
        }
        while let Some(part) = parts.next() {
            // containerd also writes `POD:RUNTIME:ID`.
            let (group, inner) =
                part.split_once(':').map_or((part, None), |(group, inner)| (group, Some(inner)));
            if let Some(uid) = pod_uid(group) {
                found.pod_uid = Some(uid);
                // Whatever stands next below a pod is a container of it.
                let container = inner.and_then(|inner| inner.rsplit(':').next()).or_else(|| parts.next());
                found.container_id = container.map(|part| id_of(part).to_owned());
                return found;
            }
            if let Some(id) = container_id(part) {
                found.container_id = Some(id.to_owned());
                return found;
            }
            found.take_unit(part);
        }
        found
    }

    /// Of what `/proc/PID/cgroup` holds: by the hierarchy that says most, and of equals the first.
    pub fn of_process(groups: &str) -> Self {
        path_in(groups).map_or_else(Self::default, Self::of)
    }

    fn take_unit(&mut self, part: &str) {
        if !is_unit(part) {
            return;
        }
        match &mut self.unit {
            None => self.unit = Some(part.to_owned()),
            Some(manager) if is_user_manager(manager) => *manager = format!("{manager}/{part}"),
            Some(_) => {}
        }
    }

    fn take_slurm(&mut self, part: &str) {
        let Some((kind, value)) = part.split_once('_').filter(|(_, value)| !value.is_empty()) else { return };
        match kind {
            "job" if self.slurm_job.is_none() => self.slurm_job = value.parse().ok(),
            "step" if self.slurm_step.is_none() => self.slurm_step = Some(value.to_owned()),
            "task" if self.rank.is_none() => self.rank = value.parse().ok().filter(|rank| *rank < NO_TASK),
            _ => {}
        }
    }

    /// How much is known.
    fn facts(&self) -> usize {
        let texts = [&self.pod_uid, &self.container_id, &self.unit, &self.slurm_step];
        let texts = texts.into_iter().flatten().count();
        texts + usize::from(self.slurm_job.is_some()) + usize::from(self.rank.is_some())
    }
}

/// The path in what `/proc/PID/cgroup` holds (`4:memory:/…`, `0::/…`) that says most of its process.
pub fn path_in(groups: &str) -> Option<&str> {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut best: Option<(usize, &str)> = None;
    for path in paths {
        let facts = Workload::of(path).facts();
        if best.is_none_or(|(most, _)| facts > most) {
            best = Some((facts, path));
        }
    }
    best.map(|(_, path)| path)
}

/// Slurm's own groups: `/slurm/…` or `/slurm_NODE/…` (version 1), `/system.slice/[NODE_]slurmstepd.scope/…`
/// (version 2). Who reads this in a namespace of control groups finds `..` before what lies beside and above its own
/// root, and of `/system.slice` nothing more where that is in it.
fn is_of_slurm(path: &str) -> bool {
    let is_scope = |part: &str| part == "slurmstepd.scope" || part.ends_with("_slurmstepd.scope");
    let mut parts = path.split('/').filter(|part| !part.is_empty()).skip_while(|part| *part == "..");
    match (parts.next(), parts.next()) {
        (Some("system.slice"), Some(scope)) => is_scope(scope),
        (Some(first), _) => {
            first == "slurm" || first.starts_with("slurm_") || path.starts_with("/../") && is_scope(first)
        }
        (None, _) => false,
    }
}

/// `pod0a1b…`, or `kubepods-burstable-pod0a1b_….slice` as systemd writes it.
fn pod_uid(part: &str) -> Option<String> {
    let slice = part.strip_suffix(".slice").filter(|slice| slice.contains("kubepods"));
    let uid = match slice {
        Some(slice) => slice.rsplit_once("-pod")?.1,
        None => part.strip_prefix("pod")?,
    };
    let is_hex = |uid: &str| uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let uid = uid.replace('_', "-");
    ((32..=36).contains(&uid.len()) && is_hex(&uid)).then_some(uid)
}

/// The id of a part that can be nothing but a container's.
fn container_id(part: &str) -> Option<&str> {
    let id = id_of(part);
    (id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// A part without what its runtime wrote around the id.
fn id_of(part: &str) -> &str {
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    let id =
        RUNTIMES.iter().find_map(|runtime| bare.strip_prefix(*runtime)?.strip_prefix('-')).unwrap_or(bare);
    // Nothing left would be no container.
    if id.is_empty() { part } else { id }
}

fn is_unit(part: &str) -> bool {
    part.ends_with(".service") || part.ends_with(".scope")
}

fn is_user_manager(unit: &str) -> bool {
    unit.starts_with("user@") && !unit.contains('/')
}

#[cfg(test)]
mod tests {
    use super::{Workload, path_in};

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "7f1d2e3c-0a1b-4c5d-8e9f-001122334455";

    /// A group below a pod is never the pod's own, whatever it is called.
    #[test]
    fn containers_without_an_id() {
        for name in [".scope", "docker-", "crio-.scope"] {
            assert_eq!(Workload::of(&format!("/kubepods/pod{UID}/{name}")), pod(name));
        }
    }

    fn pod(container: &str) -> Workload {
        let (pod_uid, container_id) = (Some(UID.to_owned()), Some(container.to_owned()));
        Workload { pod_uid, container_id, ..Workload::default() }
    }

    fn unit(name: &str) -> Workload {
        Workload { unit: Some(name.to_owned()), ..Workload::default() }
    }

    /// Pods and containers as the runtimes of Kubernetes write them, with both drivers.
    #[test]
    fn pods() {
        let escaped = UID.replace('-', "_");
        let slice = format!("kubepods-burstable-pod{escaped}.slice");
        for path in [
            format!("/kubepods/burstable/pod{UID}/{ID}"),
            format!("/kubepods/pod{UID}/{ID}"),
            format!("/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{ID}.scope"),
            format!("/kubepods.slice/kubepods-burstable.slice/{slice}/crio-{ID}.scope"),
            format!("/kubepods.slice/kubepods-burstable.slice/{slice}/docker-{ID}.scope/inner"),
            format!("/kubepods.slice/kubepods-pod{escaped}.slice/crio-conmon-{ID}.scope"),
            format!("/{slice}:cri-containerd:{ID}"),
            format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-{slice}/cri-containerd-{ID}.scope"),
        ] {
            assert_eq!(Workload::of(&path), pod(ID), "{path}");
        }
        assert_eq!(Workload::of(&format!("/kubepods/burstable/pod{UID}/web1")), pod("web1"));
        let of_service =
            Workload::of(&format!("/system.slice/containerd.service/{slice}:cri-containerd:{ID}"));
        assert_eq!(of_service, Workload { unit: Some("containerd.service".into()), ..pod(ID) });
        let alone = Workload { container_id: None, ..pod(ID) };
        assert_eq!(Workload::of(&format!("/kubepods.slice/{slice}")), alone);
    }

    /// Containers without pods, units, and what is nobody's.
    #[test]
    fn containers_and_units() {
        let container = Workload { container_id: Some(ID.into()), ..Workload::default() };
        for path in
            ["/docker/ID", "/system.slice/docker-ID.scope", "/machine.slice/libpod-ID.scope/container"]
        {
            assert_eq!(Workload::of(&path.replace("ID", ID)), container, "{path}");
        }
        assert_eq!(Workload::of("/system.slice/nginx.service/worker"), unit("nginx.service"));
        assert_eq!(Workload::of("/user.slice/user-1000.slice/session-3.scope"), unit("session-3.scope"));
        assert_eq!(Workload::of("/system.slice/dbus-:1.2-a@0.service"), unit("dbus-:1.2-a@0.service"));
        for path in ["", "/", "/user.slice", "/../x", "//:/:", "/podx/y", "/system.slice"] {
            assert_eq!(Workload::of(path), Workload::default(), "{path}");
        }
    }

    /// Slurm's jobs, steps and tasks, by both versions of control groups.
    #[test]
    fn jobs() {
        let job = |step: Option<&str>, rank| Workload {
            slurm_job: Some(6),
            slurm_step: step.map(str::to_owned),
            rank,
            ..Workload::default()
        };
        assert_eq!(Workload::of("/slurm_n1/uid_0/job_6/step_0/task_3"), job(Some("0"), Some(3)));
        assert_eq!(Workload::of("/slurm/uid_0/job_6/step_batch/task_4294967293"), job(Some("batch"), None));
        assert_eq!(Workload::of("/slurm/uid_0/job_6/step_0/task_special"), job(Some("0"), None));
        assert_eq!(Workload::of("/slurm/uid_0/job_6"), job(None, None));
        let two = "/system.slice/n1_slurmstepd.scope/job_6/step_extern/user/task_0";
        assert_eq!(Workload::of(two), job(Some("extern"), Some(0)));
        assert_eq!(Workload::of("/slurm/uid_0/job_x/step_"), Workload::default());
    }

    /// Read from within a namespace of control groups, as a container has one: from another slice, from the same one, from below.
    #[test]
    fn from_a_namespace() {
        let job = |path: &str| Workload::of(path).slurm_job;
        assert_eq!(job("/../../system.slice/n1_slurmstepd.scope/job_6/step_0/user/task_0"), Some(6));
        assert_eq!(job("/../slurmstepd.scope/job_6/step_0"), Some(6));
        assert_eq!(job("/../../../../slurm_n1/uid_0/job_6"), Some(6));
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        for path in [
            format!("/../../{slice}/cri-containerd-{ID}.scope"),
            format!("/../../../kubepods-burstable.slice/{slice}/crio-{ID}.scope"),
            format!("/../../pod{UID}/{ID}"),
        ] {
            assert_eq!(Workload::of(&path), pod(ID), "{path}");
        }
        assert_eq!(Workload::of("/../../system.slice/nginx.service"), unit("nginx.service"));
        assert_eq!(Workload::of("/slurmstepd.scope/job_7"), unit("slurmstepd.scope"));
    }

    /// Who may make groups below its own is taken for nobody else.
    #[test]
    fn nobody_names_another() {
        let other = format!("/kubepods/pod{UID}/{ID}/kubepods/pod00000000-0000-0000-0000-000000000000/x");
        assert_eq!(Workload::of(&other), pod(ID));
        let docker = Workload { container_id: Some(ID.into()), ..Workload::default() };
        assert_eq!(Workload::of(&format!("/docker/{ID}/slurm/uid_0/job_7/step_0")), docker);
        let user = "/user.slice/user-1000.slice/user@1000.service";
        let path = format!("{user}/app.slice/nginx.service/slurm/job_7");
        assert_eq!(Workload::of(&path), unit("user@1000.service/nginx.service"));
        let podman = Workload::of(&format!("{user}/user.slice/libpod-{ID}.scope"));
        assert_eq!(podman, Workload { unit: Some("user@1000.service".into()), ..docker });
        assert_eq!(Workload::of("/system.slice/a.service/b.service"), unit("a.service"));
    }

    /// Of several hierarchies the one that says most; of what is no such file, nothing.
    #[test]
    fn hierarchies() {
        let hybrid =
            "4:freezer:/slurm_n1/uid_0/job_6/step_0\n1:name=systemd:/system.slice/slurmd.service\n0::/\n";
        assert_eq!(path_in(hybrid), Some("/slurm_n1/uid_0/job_6/step_0"));
        assert_eq!(Workload::of_process(hybrid).slurm_job, Some(6));
        assert_eq!(path_in("0::/system.slice/a:b.service\n"), Some("/system.slice/a:b.service"));
        for nothing in ["", "\n", "0:", "x"] {
            assert_eq!((path_in(nothing), Workload::of_process(nothing)), (None, Workload::default()));
        }
    }
}
