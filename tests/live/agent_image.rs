//! The image of `examples/agent` in a container of `runc`, with what the DaemonSet there gives it: for `cargo xtask fleet-prometheus`.
//!
//! Power is simulated; folders of the node are made for the test. Leaves out Kubernetes: what a kubelet adds is written here as containerd has it.

use super::agent::{Agent, PROGRAM, Pod, UIDS, files, simulation};
use super::agent_prometheus::{Container, PROMETHEUS};
use nix::sched::{CloneFlags, setns};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agent").join(name)
}

/// What the file says of its container.
struct DaemonSet {
    words: Vec<String>,
    capabilities: Vec<String>,
    mounts: Vec<Mount>,
}

struct Mount {
    name: String,
    path: String,
    is_read_only: bool,
}

impl DaemonSet {
    /// By its lines, which are plain enough.
    fn read() -> Self {
        let text = fs::read_to_string(example("daemonset.yaml")).unwrap();
        for known in [
            "hostPID: true",
            "runAsUser: 0",
            "readOnlyRootFilesystem: true",
            "allowPrivilegeEscalation: false",
            "drop: [ALL]",
            "seccompProfile: {type: Unconfined}",
            "limits: {cpu: 500m, memory: 512Mi}",
        ] {
            assert!(text.contains(known), "the configuration below says {known}");
        }
        let list = |head: &str| {
            let below = text.lines().map(str::trim).skip_while(|line| *line != head).skip(1);
            let items = below.map_while(|line| line.strip_prefix("- "));
            items.filter_map(|item| item.split(' ').next()).map(str::to_owned).collect::<Vec<_>>()
        };
        let mounts = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("- {name: ")?.split_once(", mountPath: "));
        let mounts = mounts.map(|(name, of)| Mount {
            name: name.to_owned(),
            path: of.split([',', '}']).next().unwrap().to_owned(),
            is_read_only: of.contains("readOnly: true"),
        });
        let (words, mounts) = (list("args:"), mounts.collect::<Vec<_>>());
        let (given, missing): (Vec<_>, Vec<_>) = list("add:").into_iter().partition(|name| is_given(name));
        println!("{words:?} with {given:?}; this machine's root has no {missing:?}");
        assert!(
            (words.len(), given.len() + missing.len(), mounts.len()) == (4, 13, 4),
            "the file is read otherwise"
        );
        let capabilities = given.iter().map(|name| format!("CAP_{name}")).collect();
        Self { words, capabilities, mounts }
    }

    /// The container's configuration; its folders stand below `node`.
    fn config(&self, container: &Container<'_>, entry: &[String], node: &Path) -> Value {
        let own = self.mounts.iter().map(|mount| {
            let access = if mount.is_read_only { "ro" } else { "rw" };
            let source = if mount.name == "tracing" { "/sys/kernel/tracing".into() } else { node.join(&mount.name) };
            json!({"destination": mount.path, "source": source, "type": "bind", "options": ["rbind", "rprivate", access]})
        });
        let ones = ["nosuid", "noexec", "nodev"];
        let kubelets = [
            json!({"destination": "/proc", "source": "proc", "type": "proc", "options": ones}),
            json!({"destination": "/dev", "source": "tmpfs", "type": "tmpfs", "options": ["nosuid", "strictatime", "mode=755"]}),
            json!({"destination": "/sys", "source": "sysfs", "type": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]}),
        ];
        // Windows of a minute would take the test as long.
        let namespaces = ["mount", "network", "ipc", "uts", "cgroup"].map(|kind| json!({"type": kind}));
        let words = [entry, &self.words, &["--window=2s".to_owned()]].concat();
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": words,
                "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "NODE_IP=127.0.0.1"],
                "cwd": "/",
                "noNewPrivileges": true,
                "capabilities": {"bounding": self.capabilities, "effective": self.capabilities, "permitted": self.capabilities},
            },
            "root": {"path": "rootfs", "readonly": true},
            "mounts": kubelets.into_iter().chain(own).collect::<Vec<_>>(),
            "linux": {
                "cgroupsPath": container.group(),
                "namespaces": namespaces,
                "resources": {"cpu": {"period": 100_000, "quota": 50_000}, "memory": {"limit": 512 << 20}},
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware", "/sys/devices/virtual/powercap"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
            },
        })
    }
}

/// Whether this machine's root has a capability to give.
fn is_given(name: &str) -> bool {
    let said = Command::new("setpriv").arg("--dump").output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap().to_uppercase();
    let set = said.lines().find_map(|line| line.strip_prefix("CAPABILITY BOUNDING SET: ")).unwrap();
    set.split(',').any(|known| known == name)
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// Makes an image of this program, as of a release, and unpacks it into `root`; what it runs.
fn unpack(place: &Path, root: &Path) -> Vec<String> {
    let (bin, image) = (place.join("energy-trace-0/bin"), place.join("image"));
    [&bin, &image].into_iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    symlink(PROGRAM, bin.join("energy-trace")).unwrap();
    let [release, packed] = ["release.tar.gz", "image.tar"].map(|name| place.join(name));
    run(Command::new("tar")
        .args(["-C"])
        .arg(place)
        .arg("-czhf")
        .args([&release, Path::new("energy-trace-0")]));
    run(Command::new("python3").arg(example("oci_image.py")).args([&release, &packed]));
    let extract =
        |archive: &Path, to: &Path| run(Command::new("tar").arg("-C").arg(to).arg("-xf").arg(archive));
    extract(&packed, &image);
    let blob = |of: &Value| image.join("blobs").join(of["digest"].as_str().unwrap().replace(':', "/"));
    let json = |path: PathBuf| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let manifest = json(blob(&json(image.join("index.json"))["manifests"][0]));
    manifest["layers"].as_array().unwrap().iter().for_each(|layer| extract(&blob(layer), root));
    let config = json(blob(&manifest["config"]));
    let words = config["config"]["Entrypoint"].as_array().unwrap().iter();
    words.map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Folders of a node: simulated counters, logs of a pod, and what the init container leaves.
fn node(place: &Path, sysfs: &Path) -> PathBuf {
    let node = place.join("node");
    fs::create_dir_all(node.join("state/spool")).unwrap();
    chown(node.join("state/spool"), Some(60_700), Some(60_700)).unwrap();
    fs::create_dir_all(node.join("pods").join(format!("shop_web-0_{}", UIDS[0]))).unwrap();
    symlink(sysfs, node.join("sys")).unwrap();
    node
}

/// Names of functions in a spool.
fn functions(spool: &Path) -> BTreeSet<String> {
    let rows = |file: &PathBuf| {
        let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect::<Vec<_>>()
    };
    let function = |row: &parquet::record::Row| {
        let mut cells = row.get_column_iter().filter(|(name, _)| name.as_str() == "function");
        cells.find_map(|(_, cell)| if let Field::Str(name) = cell { Some(name.clone()) } else { None })
    };
    files(spool, "stacks").iter().flat_map(rows).filter_map(|row| function(&row)).collect()
}

/// The image runs as the DaemonSet has it, in a network and a namespace of control groups of its own: the sum rule holds, pods of the node have
/// their UIDs, one its Kubernetes namespace, their functions names, and windows are written.
#[test]
#[ignore = "needs `runc`: `cargo xtask fleet-prometheus`"]
fn daemon_set() {
    let root =
        PathBuf::from(std::env::var_os(PROMETHEUS).expect("`cargo xtask fleet-prometheus` says where it is"));
    let (runc, place, simulation) = (root.join("usr/sbin/runc"), tempfile::tempdir().unwrap(), simulation());
    let container = Container::new(&runc, "7f1d2e3c-0a1b-4c5d-8e9f-001122334404", "agent");
    let bundle = container.state.path();
    let entry = unpack(place.path(), &bundle.join("rootfs"));
    let node = node(place.path(), simulation.sysfs());
    let config = DaemonSet::read().config(&container, &entry, &node);
    let agent = Agent::that_runs(container.run(&config));
    let pid = fs::read_to_string(bundle.join("pid")).unwrap();
    setns(File::open(format!("/proc/{pid}/ns/net")).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
    let _pods = [Pod::start(&simulation, 0, 5), Pod::start(&simulation, 1, 20)];
    let page = agent.page_with("three windows with energy of both pods", |page| {
        let written = page.sum("energy_trace_agent_spool_windows_total", &["written"]);
        UIDS.iter().all(|uid| page.pod(uid) > 0) && written >= 3_000_000
    });
    let of_shop = ["namespace=\"shop\"", &format!("pod_uid=\"{}\"", UIDS[0])];
    let shops = page.sum("energy_trace_workload_joules_total", &of_shop);
    println!(
        "pods {:?} µJ, of a namespace {shops}; it said: {}",
        UIDS.map(|uid| page.pod(uid)),
        agent.said()
    );
    assert_eq!(shops, page.pod(UIDS[0]));
    assert_eq!(agent.end(), 0);
    let functions = functions(&node.join("state/spool"));
    println!("{functions:?}");
    assert!(functions.contains("__main__.<genexpr>"), "{functions:?}");
}
