//! The file system: a sysfs with a powercap class as Linux has it, and everything else of the real `/sys` behind links.
//!
//! Zones lie in `devices/virtual/powercap/intel-rapl/…`, with links in `class/powercap`. With more than one socket the CPUs' topology is
//! simulated too. Leaves out writing, constraints and psys.

use super::Options;
use super::fault::{Fault, FaultKind};
use super::meter::{Meter, lock};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, Request, SessionACL,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// Mounts the tree for every user.
///
/// A tree that a killed simulator left behind in the same folder is taken away first.
///
/// # Errors
/// When FUSE is not there or may not be used.
pub fn mount(tree: Tree, folder: &Path) -> std::io::Result<fuser::BackgroundSession> {
    if std::fs::metadata(folder).is_err_and(|e| e.raw_os_error() == Some(libc::ENOTCONN)) {
        detach(folder);
    }
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.mount_options = vec![
        MountOption::RO,
        MountOption::FSName("powercap-sim".to_owned()),
        // The kernel checks the modes, so that `energy_uj` is root's alone, as on real machines.
        MountOption::DefaultPermissions,
    ];
    fuser::spawn_mount(tree, folder, &config)
}

/// Ends a mount; where a file in it is still open, the folder is free at once and the tree goes with the last file.
pub fn unmount(session: fuser::BackgroundSession, folder: &Path) {
    if session.umount_and_join().is_err() {
        detach(folder);
    }
}

fn detach(folder: &Path) {
    // One that is not mounted any more is as good.
    let _ = nix::mount::umount2(folder, nix::mount::MntFlags::MNT_DETACH);
}

enum Node {
    Directory(BTreeMap<String, u64>),
    Link(String),
    Text(String),
    Counter(Counter),
    /// The power of the whole server.
    Server,
}

/// What the server's meter has shown last: the mean since its value before.
#[derive(Clone, Copy, Default)]
struct Latched {
    at_ns: u64,
    uj: u64,
    mean_uw: u64,
}

/// A counter file.
#[derive(Clone)]
struct Counter {
    /// Its zone's directory.
    zone: String,
    socket: usize,
    /// Whether idle power counts: not in `core`.
    idle: bool,
}

/// The file system.
pub struct Tree {
    /// By inode minus one; the first is the root.
    nodes: Vec<Node>,
    meter: Arc<Mutex<Meter>>,
    options: Options,
    /// What each zone showed when it got stuck.
    stuck: Mutex<BTreeMap<String, u64>>,
    latched: Mutex<Latched>,
}

/// The zone of the server's meter, as faults name it.
const SERVER: &str = "server";

/// What of the real sysfs is not in the tree: its devices, and the energy counters of perf.
const LEFT_OUT: [&str; 3] =
    ["devices", "bus/event_source/devices/power", "bus/event_source/devices/power_core"];

impl Tree {
    /// Lays the tree out.
    pub fn new(options: &Options, meter: Arc<Mutex<Meter>>) -> Self {
        let nodes = vec![Node::Directory(BTreeMap::new())];
        let mut tree = Self {
            nodes,
            meter,
            options: options.clone(),
            stuck: Mutex::default(),
            latched: Mutex::default(),
        };
        tree.add_powercap();
        tree.add_server();
        tree.add_topology();
        // What is within others first: it stays.
        for dir in ["bus/event_source/devices", "bus/event_source", "bus"] {
            tree.add_links(dir, &format!("/sys/{dir}"));
        }
        tree.add_links("", "/sys");
        tree.add_links("class", "/sys/class");
        tree.add_links("devices/system", "/sys/devices/system");
        tree
    }

    fn add_powercap(&mut self) {
        const DEVICES: &str = "devices/virtual/powercap/intel-rapl";
        self.add(&format!("{DEVICES}/enabled"), Node::Text("1\n".to_owned()));
        self.add("class/powercap/intel-rapl", Node::Link(format!("../../{DEVICES}")));
        for socket in 0..self.options.sockets {
            let package = format!("intel-rapl:{socket}");
            let core = format!("{package}:0");
            let (package_dir, core_dir) =
                (format!("{DEVICES}/{package}"), format!("{DEVICES}/{package}/{core}"));
            self.add_zone(&package_dir, &package, &format!("package-{socket}"), socket, true);
            self.add_zone(&core_dir, &core, "core", socket, false);
            self.add(&format!("class/powercap/{package}"), Node::Link(format!("../../{package_dir}")));
            self.add(&format!("class/powercap/{core}"), Node::Link(format!("../../{core_dir}")));
        }
    }

    fn add_zone(&mut self, dir: &str, zone: &str, name: &str, socket: u32, idle: bool) {
        let range = format!("{}\n", self.options.range_uj);
        let counter = Counter { zone: zone.to_owned(), socket: socket as usize, idle };
        self.add(&format!("{dir}/name"), Node::Text(format!("{name}\n")));
        self.add(&format!("{dir}/enabled"), Node::Text("1\n".to_owned()));
        self.add(&format!("{dir}/max_energy_range_uj"), Node::Text(range));
        self.add(&format!("{dir}/energy_uj"), Node::Counter(counter));
    }

    /// The files of drivers/hwmon/acpi_power_meter.c, as before Linux 6.15: with the device. Modes are the kernel's.
    fn add_server(&mut self) {
        if self.options.server_watts == 0 {
            return;
        }
        const DEVICE: &str = "class/hwmon/hwmon0/device";
        let interval = format!("{}\n", self.options.server_ms);
        self.add(&format!("{DEVICE}/name"), Node::Text("power_meter\n".to_owned()));
        self.add(&format!("{DEVICE}/power1_oem_info"), Node::Text("\n".to_owned()));
        self.add(&format!("{DEVICE}/power1_average_interval"), Node::Text(interval));
        self.add(&format!("{DEVICE}/power1_average"), Node::Server);
    }

    fn add_topology(&mut self) {
        if self.options.sockets == 1 {
            return;
        }
        const CPU: &str = "devices/system/cpu";
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for file in ["online", "possible", "present"] {
            self.add(&format!("{CPU}/{file}"), Node::Text(format!("0-{}\n", cpus - 1)));
        }
        for cpu in 0..cpus {
            let socket = cpu % self.options.sockets as usize;
            let file = format!("{CPU}/cpu{cpu}/topology/physical_package_id");
            self.add(&file, Node::Text(format!("{socket}\n")));
        }
    }

    /// Links to everything in the real folder that the tree does not have itself; but for the machine's own energy counters.
    fn add_links(&mut self, dir: &str, real: &str) {
        for entry in std::fs::read_dir(real).into_iter().flatten().flatten() {
            if let Ok(name) = entry.file_name().into_string() {
                let path = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
                if !LEFT_OUT.contains(&path.as_str()) {
                    self.add(&path, Node::Link(format!("{real}/{name}")));
                }
            }
        }
    }

    /// Adds a node with the folders above it; what is there already stays.
    fn add(&mut self, path: &str, node: Node) {
        let (mut at, mut node) = (1, Some(node));
        let parts: Vec<&str> = path.split('/').collect();
        for (i, part) in parts.iter().enumerate() {
            let next = self.nodes.len() as u64 + 1;
            let Some(Node::Directory(entries)) = self.nodes.get_mut(at as usize - 1) else { return };
            if let Some(&inode) = entries.get(*part) {
                at = inode;
                continue;
            }
            entries.insert((*part).to_owned(), next);
            let last = i + 1 == parts.len();
            let folder = Node::Directory(BTreeMap::new());
            self.nodes.push(if last { node.take().unwrap_or(folder) } else { folder });
            at = next;
        }
    }

    fn node(&self, inode: INodeNo) -> Option<&Node> {
        self.nodes.get(usize::try_from(inode.0).ok()?.checked_sub(1)?)
    }

    fn fault(&self, zone: &str) -> Option<FaultKind> {
        let at_s = if self.options.faults_from_work {
            lock(&self.meter).since_first_work_s()?
        } else {
            lock(&self.meter).since_first_read_s()
        };
        self.options.faults.iter().find(|f: &&Fault| f.holds(zone, at_s)).map(|f| f.kind)
    }

    /// What opening the counter says, or what stops it.
    fn check_open(&self, node: &Node) -> Result<(), Errno> {
        let zone = match node {
            Node::Counter(counter) => counter.zone.as_str(),
            Node::Server => SERVER,
            _ => return Ok(()),
        };
        match self.fault(zone) {
            Some(FaultKind::Vanish) => Err(Errno::ENOENT),
            Some(FaultKind::Unreadable) => Err(Errno::EACCES),
            _ => Ok(()),
        }
    }

    /// What the file of the server's power holds.
    fn text_of_server(&self) -> Result<String, Errno> {
        let fault = self.fault(SERVER);
        let mean_uw = self.server_uw(fault != Some(FaultKind::Stuck));
        shown(fault, || altered(fault, mean_uw))
    }

    /// The mean power since the value before, or that value as long as it is not due.
    fn server_uw(&self, goes_on: bool) -> u64 {
        let truth = {
            let mut meter = lock(&self.meter);
            meter.read();
            meter.truth()
        };
        let uj = truth.total_uj + truth.time_ns / 1_000 * self.options.server_watts;
        let mut latched = self.latched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let ns = truth.time_ns - latched.at_ns;
        if goes_on && ns >= self.options.server_ms * 1_000_000 {
            let mean_uw = u128::from(uj.saturating_sub(latched.uj)) * 1_000_000_000 / u128::from(ns.max(1));
            let mean_uw = u64::try_from(mean_uw).unwrap_or(u64::MAX);
            *latched = Latched { at_ns: truth.time_ns, uj, mean_uw };
        }
        latched.mean_uw
    }

    /// What the counter's file holds.
    fn text_of(&self, counter: &Counter) -> Result<String, Errno> {
        let fault = self.fault(&counter.zone);
        shown(fault, || self.read_counter(counter, fault))
    }

    fn read_counter(&self, counter: &Counter, fault: Option<FaultKind>) -> Result<u64, Errno> {
        let energy = lock(&self.meter).read();
        let active = energy.active_uj.get(counter.socket).copied().unwrap_or(0);
        let idle = if counter.idle { energy.idle_uj } else { 0 };
        // No two sockets of a machine have counted the same.
        let start = self.options.start_uj + ((counter.socket as u64) << 30);
        let total = start.saturating_add(active).saturating_add(idle);
        let mut stuck = self.stuck.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if fault != Some(FaultKind::Stuck) {
            stuck.remove(&counter.zone);
        }
        let total = match fault {
            Some(FaultKind::Stuck) => *stuck.entry(counter.zone.clone()).or_insert(total),
            _ => altered(fault, total)?,
        };
        let step = self.options.step_uj.max(1);
        // The register has one state more than the largest value shows steps.
        Ok(total / step * step % self.options.range_uj.saturating_add(step))
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match self.node(inode)? {
            Node::Directory(_) => (FileType::Directory, 0o755, 0),
            Node::Link(target) => (FileType::Symlink, 0o777, target.len() as u64),
            Node::Text(_) => (FileType::RegularFile, 0o444, 4096),
            Node::Counter(_) => (FileType::RegularFile, 0o400, 4096),
            Node::Server => (FileType::RegularFile, 0o444, 4096),
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<INodeNo, Errno> {
        let Some(Node::Directory(entries)) = self.node(parent) else { return Err(Errno::ENOTDIR) };
        let inode = name.to_str().and_then(|name| entries.get(name)).ok_or(Errno::ENOENT)?;
        let inode = INodeNo(*inode);
        match self.node(inode) {
            Some(Node::Counter(c)) if self.fault(&c.zone) == Some(FaultKind::Vanish) => Err(Errno::ENOENT),
            Some(Node::Server) if self.fault(SERVER) == Some(FaultKind::Vanish) => Err(Errno::ENOENT),
            _ => Ok(inode),
        }
    }
}

/// What a file shows whose number is read so.
fn shown(fault: Option<FaultKind>, read: impl FnOnce() -> Result<u64, Errno>) -> Result<String, Errno> {
    match fault {
        Some(FaultKind::Text) => Ok("<unknown>\n".to_owned()),
        Some(FaultKind::Empty) => Ok(String::new()),
        _ => read().map(|number| format!("{number}\n")),
    }
}

/// A number as a fault alters it; one that is stuck is where it is stuck.
fn altered(fault: Option<FaultKind>, number: u64) -> Result<u64, Errno> {
    match fault {
        Some(FaultKind::Vanish) => Err(Errno::ENODEV),
        Some(FaultKind::Unreadable) => Err(Errno::EACCES),
        Some(FaultKind::Error) => Err(Errno::EIO),
        Some(FaultKind::Backwards(by)) => Ok(number.saturating_sub(by)),
        Some(FaultKind::Ahead(by)) => Ok(number.saturating_add(by)),
        Some(FaultKind::Constant(constant)) => Ok(constant),
        Some(FaultKind::Times(times)) => Ok(number.saturating_mul(times)),
        Some(FaultKind::Stuck | FaultKind::Text | FaultKind::Empty) | None => Ok(number),
    }
}

/// Nothing is cached: a fault holds from its first moment on.
const NOT_CACHED: Duration = Duration::ZERO;

impl Filesystem for Tree {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name).map(|inode| self.attributes(inode)) {
            Ok(Some(attributes)) => reply.entry(&NOT_CACHED, &attributes, Generation(0)),
            Ok(None) => reply.error(Errno::ENOENT),
            Err(e) => reply.error(e),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&NOT_CACHED, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.node(inode) {
            Some(Node::Link(target)) => reply.data(target.as_bytes()),
            _ => reply.error(Errno::EINVAL),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.node(inode).ok_or(Errno::ENOENT).and_then(|node| self.check_open(node)) {
            // Past the page cache: each read asks the meter.
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let text = match self.node(inode) {
            // A program that reads until the end asks once more behind the text: no reading of the counter.
            Some(Node::Counter(_) | Node::Server) if offset > 0 => Ok(String::new()),
            Some(Node::Server) => self.text_of_server(),
            Some(Node::Counter(counter)) => self.text_of(counter),
            Some(Node::Text(text)) => Ok(text.clone()),
            _ => Err(Errno::EISDIR),
        };
        match text {
            Ok(text) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = text.as_bytes().get(from..).unwrap_or_default();
                reply.data(rest.get(..size as usize).unwrap_or(rest));
            }
            Err(e) => reply.error(e),
        }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(Node::Directory(entries)) = self.node(inode) else { return reply.error(Errno::ENOTDIR) };
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        for (i, (name, &entry)) in entries.iter().enumerate().skip(skip) {
            let kind = self.attributes(INodeNo(entry)).map_or(FileType::RegularFile, |a| a.kind);
            if reply.add(INodeNo(entry), i as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
