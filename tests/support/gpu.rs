//! A simulated GPU for one test: its folder, its libraries, workloads that use it, and what they really spent. Leaves out the engine (`tests/simgpu`).

pub use simgpu::faces::Prologue;
pub use simgpu::meter::Meter;
pub use simgpu::scenario::{Device, Kernel, Scenario, WORKLOADS};
pub use simgpu::truth::{Launch, read as truth_of};
pub use simgpu::{Place, VARIABLE};
use std::collections::BTreeMap;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// One GPU with this meter, and the kernels of the workloads. Programs sleep while they wait for it: CUDA's default is to spin, and then tests
/// that run beside each other have no CPU left.
pub fn one_gpu(meter: Meter) -> Scenario {
    Scenario { spin: false, ..Scenario::new(meter, &WORKLOADS) }
}

/// A simulated machine with GPUs.
pub struct Gpu {
    dir: TempDir,
    place: Place,
}

impl Gpu {
    /// A machine with this scenario, whose libraries begin their functions so.
    ///
    /// # Errors
    /// When the engine was not built, a file cannot be written, or there is no `cc`.
    pub fn new(scenario: &Scenario, prologue: Prologue) -> Result<Self> {
        Self::without(scenario, prologue, &[])
    }

    /// The same, but its libraries lack these functions, as older ones do.
    ///
    /// # Errors
    /// As `new`.
    pub fn without(scenario: &Scenario, prologue: Prologue, missing: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        // The target may run as somebody else.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open)?;
        let engine =
            simgpu::faces::engine().ok_or_else(|| Error::other("no libsimgpu.so beside the tests"))?;
        simgpu::faces::build_without(&dir.path().join("lib"), &engine, prologue, missing)?;
        let place = Place::create(&dir.path().join("machine"), scenario)?;
        Ok(Self { dir, place })
    }

    /// One GPU with this meter, and the kernels of the workloads.
    ///
    /// # Errors
    /// As `new`.
    pub fn with_meter(meter: Meter) -> Result<Self> {
        Self::new(&Scenario::new(meter, &WORKLOADS), Prologue::EndbrPush)
    }

    /// The folder with the libraries.
    pub fn libraries(&self) -> PathBuf {
        self.dir.path().join("lib")
    }

    /// The folder for `SIMGPU_DIR`.
    pub fn machine(&self) -> &Path {
        self.place.folder()
    }

    /// The machine itself: its energy, its clock.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Sets what a command needs to find the GPU.
    pub fn env<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_LIBRARY_PATH", self.libraries()).env(VARIABLE, self.machine())
    }

    /// A command that finds the GPU.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        self.env(&mut command);
        command
    }

    /// Compiles a workload of `tests/workloads`, `gpu_mix` or another, with more arguments for `cc`. `gpu_mix` is linked with the runtime, `gpu_built` with the driver as well.
    ///
    /// # Errors
    /// When `cc` fails, with what it said.
    pub fn workload(&self, name: &str, arguments: &[&str]) -> Result<PathBuf> {
        let source = super::process::tests_dir().join("workloads").join(format!("{name}.c"));
        let program = self.dir.path().join(name);
        let mut all = arguments.to_vec();
        let faces = self.libraries();
        // Found by these names where `command` says, so that the program is the same in all folders.
        let (runtime, driver, engine) = ("-l:libcudart.so.12", "-l:libcuda.so.1", "-l:libsimgpu.so");
        match name {
            "gpu_mix" => all.extend([runtime, engine]),
            "gpu_built" => all.extend([runtime, driver, engine]),
            _ => all.push("-ldl"),
        }
        simgpu::faces::compile(&source, &program, &faces, &all)?;
        Ok(program)
    }

    /// All that the GPUs did so far.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn truth(&self) -> Result<Vec<Launch>> {
        simgpu::truth::read(self.machine())
    }
}

/// The functions of the workloads that launch: the tags of launches.
pub const SITES: [&str; 16] = [
    "forward",
    "backward",
    "optimizer",
    "upload",
    "download",
    "clear",
    "attention",
    "linear",
    "gemm_backward",
    "optimizer_step",
    "rate",
    "dense",
    "activate",
    "backprop",
    "update",
    "wide",
];

/// The innermost function of a stack that launches; names from the root on.
pub fn site_of<'a>(names: impl DoubleEndedIterator<Item = &'a str>) -> &'a str {
    names.rev().find(|name| SITES.contains(name)).unwrap_or("no site")
}

/// Whose a launch is: the tag of its capture where there is one, else its own.
pub fn tag_of(launch: &Launch) -> &str {
    if launch.capture_tag.is_empty() { &launch.tag } else { &launch.capture_tag }
}

/// Whose a launch is, and its innermost frame in the launch tier.
pub fn launched(launch: &Launch) -> (String, String) {
    let what = match launch.kind.as_str() {
        "kernel" => &launch.name,
        "memset" => "[GPU memset]",
        _ => "[GPU copy]",
    };
    (tag_of(launch).to_owned(), what.to_owned())
}

/// The same in the kernel tier, which knows where copies go.
pub fn timed(launch: &Launch) -> (String, String) {
    match launch.kind.as_str() {
        "kernel" | "memset" => launched(launch),
        copy => (tag_of(launch).to_owned(), format!("[GPU copy {}]", copy.to_uppercase())),
    }
}

/// Energy above idle by what launched it, in microjoules: the tag of the capture where there is one, else of the launch; and the kernel.
pub fn by_tag(launches: &[Launch]) -> BTreeMap<(String, String), f64> {
    let mut sums = BTreeMap::new();
    for launch in launches {
        *sums.entry((tag_of(launch).to_owned(), launch.name.clone())).or_default() += launch.uj;
    }
    sums
}
