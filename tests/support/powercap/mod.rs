//! A RAPL tree on FUSE with known truth.
//!
//! The counter of a socket is idle power × time + Σ over functions of their power × the exact on-CPU time of the threads in them. A
//! workload says over a socket which function each of its threads enters and leaves, with the thread's CPU clock (`channel`); between two
//! such messages the simulator asks the kernel how long the thread has run (`thread_clock`). What is charged is CPU time, so a virtual CPU
//! that stands still for 20 ms costs idle power only. Leaves out turbo, temperature, shared parts of a socket, and every other process:
//! they draw nothing here.

pub mod channel;
pub mod fault;
pub mod meter;
pub mod thread_clock;
pub mod tree;

use anyhow::Context;
use fault::Fault;
use meter::{Meter, Truth};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What hardware is simulated.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Power of all sockets together when nothing runs, in watts.
    #[arg(long, value_name = "W", default_value_t = 10.0)]
    pub idle_watts: f64,
    /// Number of sockets; CPU n is on socket n modulo this.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub sockets: u32,
    /// Largest value of a counter in microjoules (`max_energy_range_uj`); make it small to see wraps.
    #[arg(long, value_name = "UJ", default_value_t = 262_143_328_850)]
    pub range_uj: u64,
    /// Value of each counter at the start, in microjoules.
    #[arg(long, value_name = "UJ", default_value_t = 0)]
    pub start_uj: u64,
    /// The counter moves in steps of this many microjoules (Intel: 61).
    #[arg(long, value_name = "UJ", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub step_uj: u64,
    /// The counter moves only at multiples of this many microseconds (hardware: 1000); 0: at each read.
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub update_us: u64,
    /// An ACPI power meter of the whole server, which draws so many watts beside its sockets; 0: there is none. Its zone is `server`.
    #[arg(long, value_name = "W", default_value_t = 0)]
    pub server_watts: u64,
    /// The server's meter has a new mean after so many milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    pub server_ms: u64,
    /// Something that goes wrong, as ZONE@FROM[..TO]:KIND: seconds after the first read of a counter; KIND is `vanish`, `unreadable`,
    /// `error`, `text`, `empty`, `stuck`, `constant=UJ`, `backwards=UJ`, `ahead=UJ` or `times=N`. Example: intel-rapl:0@2..3:vanish. Repeatable.
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<Fault>,
    /// Faults are timed from the first function that a workload enters, and there are none before.
    #[arg(long)]
    pub faults_from_work: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            idle_watts: 10.0,
            sockets: 1,
            range_uj: 262_143_328_850,
            start_uj: 0,
            step_uj: 1,
            update_us: 0,
            server_watts: 0,
            server_ms: 1000,
            faults: Vec::new(),
            faults_from_work: false,
        }
    }
}

/// A tree that is mounted, and a channel that is open. Dropping it unmounts the tree.
pub struct Simulation {
    mount: PathBuf,
    socket: PathBuf,
    meter: Arc<Mutex<Meter>>,
    session: Option<fuser::BackgroundSession>,
    /// Holds the folder where the caller gave none.
    _folder: Option<tempfile::TempDir>,
}

impl Simulation {
    /// Mounts a tree in a temporary folder.
    ///
    /// # Errors
    /// When FUSE is not there or may not be used, or the channel cannot be opened.
    pub fn start(options: &Options) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("a temporary folder")?;
        // The workload may run as another user and must reach the channel.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let mount = folder.path().join("sys");
        std::fs::create_dir(&mount).context("a folder to mount on")?;
        let socket = folder.path().join("power.sock");
        let mut simulation = Self::start_at(options, &mount, &socket)?;
        simulation._folder = Some(folder);
        Ok(simulation)
    }

    /// Mounts a tree on the folder `mount` and opens the channel at `socket`.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_at(options: &Options, mount: &Path, socket: &Path) -> anyhow::Result<Self> {
        let meter = Arc::new(Mutex::new(Meter::new(options)));
        channel::serve(socket, &meter).with_context(|| format!("the channel {}", socket.display()))?;
        let tree = tree::Tree::new(options, Arc::clone(&meter));
        let session = tree::mount(tree, mount).with_context(|| {
            let mount = mount.display();
            format!("cannot mount on {mount} (needs /dev/fuse, and root or `apt-get install fuse3`)")
        })?;
        Ok(Self {
            mount: mount.to_owned(),
            socket: socket.to_owned(),
            meter,
            session: Some(session),
            _folder: None,
        })
    }

    /// The root of the simulated sysfs: what `--path.sysfs` takes.
    pub fn sysfs(&self) -> &Path {
        &self.mount
    }

    /// The channel: what a workload finds in `POWER_SIM_SOCKET`.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What was really spent up to now.
    pub fn truth(&self) -> Truth {
        meter::lock(&self.meter).truth()
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            tree::unmount(session, &self.mount);
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}
