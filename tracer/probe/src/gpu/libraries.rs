//! Which GPU libraries are probed: each file once, when it is prefetched or when a process maps it.
//!
//! A probe is on a file's inode, so that it holds for every process that maps it; the programs themselves look whose process it is. The
//! driver's library is prefetched where loaders find it. Leaves out what probes say (`launches`).

use super::functions::{Function, functions_of};
use super::kept::Shares;
use crate::prologue::{Spot, spot};
use energy_trace_bpf::object::{Attached, LaunchProbes};
use energy_trace_bpf::uprobe_multi::drop_together;
use energy_trace_foreign::files::{Root, SeenFile, owner_of_process};
use energy_trace_foreign::peeker::{OpenedFile, Peeker};
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{LaunchDiagnostic, Names, Owner, ProbeFailure};
use energy_trace_system::arch::LIBRARIES;
use energy_trace_unwind::address_space::{FileKey, Mapping};
use energy_trace_unwind::elf::path_of;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracer_ebpf::gpu::{RUNTIME, call};

/// Where the driver's installer and distributions put its library.
const PLACES: [&str; 6] = [
    LIBRARIES,
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/cuda/lib64",
];
/// Files in them.
const FILES: [&str; 3] = ["libcuda.so.1", "libcudart.so.12", "libcudart.so.13"];
/// How the driver's library is called.
const DRIVER: &str = "libcuda.so";
/// What the injected library exports for us.
const LAUNCHED: &str = "energy_trace_launched";
/// Functions that are named in a warning.
const NAMED: usize = 4;
/// Files that are probed at most, half of them of one owner: programs may map any file under such a name.
const MOST_FILES: usize = 512;

/// The probed files.
pub(crate) struct Libraries {
    probes: LaunchProbes,
    worker: Arc<Worker>,
    peeker: Peeker,
    known: HashSet<(u64, u64)>,
    /// Of the owners of the processes that map them.
    shares: Shares,
    refused: HashSet<Owner>,
    seen: HashSet<FileKey>,
    /// Functions on whose first instruction the kernel has to step.
    steps: Vec<String>,
    failed: Vec<String>,
    /// Drivers that processes had before they were probed: name, process, and nanoseconds from when that was noticed.
    late: Vec<(String, Pid, u64)>,
    attached: usize,
    /// Probes on drivers, and those on runtimes.
    held: Vec<Attached>,
    of_runtimes: Vec<Attached>,
    /// Runtimes are left alone.
    left: bool,
}

impl Libraries {
    /// None yet. Once programs run, this worker looks into files and this peeker opens them. `always_on`: runtimes are left alone from the
    /// start; probes keep a file for as long as they are there, and each image has a runtime of its own.
    pub(crate) fn new(probes: LaunchProbes, worker: Arc<Worker>, peeker: Peeker, always_on: bool) -> Self {
        let (known, seen) = (HashSet::new(), HashSet::new());
        let (steps, failed, late) = (Vec::new(), Vec::new(), Vec::new());
        let (held, of_runtimes, left) = (Vec::new(), Vec::new(), always_on);
        Self {
            probes,
            worker,
            peeker,
            known,
            shares: Shares::new(MOST_FILES),
            refused: HashSet::new(),
            seen,
            steps,
            failed,
            late,
            attached: 0,
            held,
            of_runtimes,
            left,
        }
    }

    /// Probes the libraries that a program will find: where the loader looks first, as somebody without rights saw them, and in the usual
    /// places, which are root's.
    pub(crate) fn prefetch(&mut self, seen: &[SeenFile], worker: &Worker) {
        let first = seen.iter().filter_map(|seen| Some((seen.open().ok()?, seen.path().to_owned())));
        let usual = candidates(&[]).filter_map(|path| Some((Root::default().open(&path, true).ok()?, path)));
        for (file, path) in first.chain(usual) {
            if let Ok(found) = file.metadata() {
                self.probe(&file, (found.dev(), found.ino()), (name_of(&path), Owner::Root), worker);
            }
        }
    }

    /// The same for a program below another root, which has just started.
    pub(crate) fn prefetch_below(&mut self, search: &[PathBuf], (pid, noticed): (Pid, KtimeNs)) {
        let before = self.attached;
        let paths: Vec<PathBuf> = candidates(search).collect();
        let (worker, owner) = (Arc::clone(&self.worker), owner_of_process(pid));
        for (place, OpenedFile { file, identity, .. }) in
            self.peeker.open_some(pid, &paths, true).unwrap_or_default()
        {
            let name = paths.get(place).map_or("", |path| name_of(path));
            self.probe(&file, identity, (name, owner), &worker);
        }
        if self.attached == before {
            return;
        }
        // It did not wait for that.
        let space = self.peeker.mappings(pid, None).ok().flatten().unwrap_or_default();
        if space.mappings().iter().any(|mapping| mapping.path.contains(DRIVER)) {
            self.late.push((DRIVER.to_owned(), pid, energy_trace_system::clock::now().ns_since(noticed)));
        }
    }

    /// Probes what a process maps, as it was noticed at this time.
    pub(crate) fn probe_mapped(&mut self, pid: Pid, mappings: &[Mapping], noticed: KtimeNs) {
        for mapping in mappings {
            let name = mapping.path.rsplit('/').next().unwrap_or_default();
            let Some(key) = mapping.file.as_ref().filter(|_| !functions_of(name).is_empty()) else {
                continue;
            };
            if self.seen.contains(key) {
                continue;
            }
            let owner = owner_of_process(pid);
            // What one may not have probed, another may.
            if self.is_room(owner, name)
                && self.seen.insert(key.clone())
                && let Ok(Ok(OpenedFile { file, identity, .. })) = self.peeker.open(pid, mapping, false)
            {
                let before = self.attached;
                let worker = Arc::clone(&self.worker);
                self.probe(&file, identity, (name, owner), &worker);
                // What goes through a runtime that is probed late is still seen in the driver.
                if self.attached > before && name.starts_with(DRIVER) {
                    self.late.push((
                        name.to_owned(),
                        pid,
                        energy_trace_system::clock::now().ns_since(noticed),
                    ));
                }
            }
        }
    }

    /// Probes where the library that is injected into programs tells of launches.
    pub(crate) fn probe_injected(&mut self, path: &Path, worker: &Worker) {
        if let Ok(file) = Root::default().open(path, true) {
            self.probe_own(&file, worker);
        }
    }

    /// The same of an open copy of it, which is ours.
    pub(crate) fn probe_injected_file(&mut self, file: &File) {
        let worker = Arc::clone(&self.worker);
        self.probe_own(file, &worker);
    }

    fn probe_own(&mut self, file: &File, worker: &Worker) {
        let functions = vec![Function { name: LAUNCHED, cookie: u64::from(call::LAUNCHED), returns: false }];
        let Ok(found) = file.metadata() else { return };
        self.probe_all(file, (found.dev(), found.ino()), (LAUNCHED, Owner::Root, functions), worker);
    }

    fn probe(&mut self, file: &File, identity: (u64, u64), (name, owner): (&str, Owner), worker: &Worker) {
        self.probe_all(file, identity, (name, owner, functions_of(name)), worker);
    }

    /// Whether one more file of an owner can be probed; says once where not.
    fn is_room(&mut self, owner: Owner, name: &str) -> bool {
        let has_room = self.shares.has_room(owner);
        if !has_room && self.refused.insert(owner) {
            self.failed.push(format!("{name} of {owner}, who has too many such files"));
        }
        has_room
    }

    fn probe_all(
        &mut self,
        file: &File,
        identity: (u64, u64),
        (name, owner, functions): (&str, Owner, Vec<Function>),
        worker: &Worker,
    ) {
        let of_runtime = functions.iter().any(|function| function.cookie & RUNTIME != 0);
        if of_runtime && self.left {
            return;
        }
        let is_done = functions.is_empty() || self.known.contains(&identity);
        if is_done || !self.is_room(owner, name) {
            return;
        }
        self.known.insert(identity);
        self.shares.take(owner);
        let wanted: Vec<&str> = functions.iter().map(|function| function.name).collect();
        let facts = match worker.facts(name, file, &wanted) {
            Ok(facts) => facts,
            Err(error) => {
                self.failed.push(format!("{name}: {error}"));
                return;
            }
        };
        for function in functions {
            let place = facts.symbol(function.name).and_then(|svma| facts.file_offset(svma));
            if let Some(offset) = place {
                self.probe_function(file, function, offset);
            }
        }
        log::info!("GPU launches: {} probes, the last ones in {name}", self.attached);
    }

    fn probe_function(&mut self, file: &File, function: Function, offset: u64) {
        let mut code = [0; 16];
        let read = file.read_at(&mut code, offset).unwrap_or(0);
        let Spot { offset: within, steps } = spot(code.get(..read).unwrap_or_default());
        if steps {
            self.steps.push(function.name.to_owned());
        }
        match self.probes.attach(&path_of(file), offset + within, function.cookie, function.returns) {
            Ok(probes) => {
                self.attached += 1;
                let of_runtime = function.cookie & RUNTIME != 0;
                let list = if of_runtime { &mut self.of_runtimes } else { &mut self.held };
                list.extend(probes);
            }
            Err(why) => self.failed.push(format!("{}: {why}", function.name)),
        }
    }

    /// Leaves runtimes alone from now on: what goes through them is seen in the driver. The kernel takes its time to take probes away, on another
    /// thread.
    pub(crate) fn detach_runtimes(&mut self) {
        if self.left {
            return;
        }
        self.left = true;
        let of_runtimes = std::mem::take(&mut self.of_runtimes);
        match self.probes.detach_runtimes() {
            Ok(()) => {
                log::info!("GPU launches: {} probes on runtimes are taken away", of_runtimes.len());
                // Without a thread they are dropped here.
                let _ = std::thread::Builder::new().spawn(move || drop_together(of_runtimes));
            }
            Err(why) => {
                log::warn!("GPU launches: {why}");
                self.of_runtimes = of_runtimes;
            }
        }
    }

    /// What was found about the probes.
    pub(crate) fn diagnostics(&self) -> Vec<LaunchDiagnostic> {
        let named = |names: &[String]| (!names.is_empty()).then(|| Names::of(names, NAMED));
        let late = self.late.iter().map(|(library, pid, late_ns)| LaunchDiagnostic::ProbesLate {
            library: library.clone(),
            pid: pid.get(),
            late_ns: *late_ns,
        });
        let failed = named(&self.failed).map(ProbeFailure::Functions).map(LaunchDiagnostic::ProbesFailed);
        let slow = named(&self.steps).map(LaunchDiagnostic::SlowProbes);
        slow.into_iter().chain(late).chain(failed).collect()
    }
}

impl Drop for Libraries {
    fn drop(&mut self) {
        self.held.append(&mut self.of_runtimes);
        drop_together(std::mem::take(&mut self.held));
    }
}

/// Where the libraries are in a folder, if they are.
pub fn gpu_libraries_in(folder: &Path) -> [PathBuf; 3] {
    FILES.map(|file| folder.join(file))
}

/// Where a program's loader may find the libraries.
fn candidates(search: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    search.iter().map(PathBuf::as_path).chain(PLACES.map(Path::new)).flat_map(gpu_libraries_in)
}

/// The name of a library's file.
fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
