//! What the probes know of each process, in the maps that user space writes: targets, address spaces, interpreters.
//!
//! The probes keep what they read for as long as nothing was written: each change is counted, after the writing. Leaves out what is
//! written (`processes/registry.rs`), and the tables that address spaces lead to (`row_maps.rs`).

use super::error::ProbeError;
use aya::maps::{Array, HashMap, IterableMap as _, Map, MapData};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{Pid, ProcessKey};
use energy_trace_unwind::cpython::detect::Interpreter;
use std::collections::BTreeSet;
use std::os::fd::AsFd as _;
use tracer_ebpf::thread_context::ThreadVariable;
use tracer_ebpf::wire::{AddressSpace, CodeMapping, HotspotLayout, OURS, PythonLayout, changes};

/// The processes that are targets, and since when.
pub(crate) type Targets = HashMap<MapData, u32, u64>;

/// The maps that user space writes.
pub struct Maps {
    pub(crate) targets: Targets,
    pub(crate) spaces: HashMap<MapData, u32, AddressSpace>,
    pub(crate) mappings: Array<MapData, CodeMapping>,
    pub(crate) pythons: HashMap<MapData, u32, PythonLayout>,
    pub(crate) hotspots: HashMap<MapData, u32, HotspotLayout>,
    pub(crate) contexts: HashMap<MapData, u32, ThreadVariable>,
    pub(crate) changes: Array<MapData, u64>,
    /// What `changes` says of user space.
    pub(crate) changed: u64,
}

impl Maps {
    /// Says whether a process is a target at that moment.
    ///
    /// # Errors
    /// Without another handle of the map.
    pub fn target_check(&self) -> Result<impl Fn(Pid) -> bool + Send + use<>, ProbeError> {
        let again = MapData::from_fd(self.targets.map().fd().as_fd().try_clone_to_owned()?)?;
        let targets: Targets = HashMap::try_from(Map::HashMap(again))?;
        Ok(move |pid: Pid| targets.get(&pid.get(), 0).is_ok())
    }

    /// Forgets a process that ended, unless its number came back meanwhile. While everybody is a target most are not in the map of targets.
    pub fn remove_process(&mut self, pid: Pid, ended_ns: u64) {
        let since = self.targets.get(&pid.get(), 0).ok();
        if since.is_some_and(|since| since >= ended_ns) {
            return;
        }
        if since.is_some() {
            let _gone = self.targets.remove(&pid.get());
        }
        self.remove_program(pid);
    }

    /// Forgets what is known of a process's memory: it is another program's. What was written after the probes forgot it was the old one's.
    pub fn remove_program(&mut self, pid: Pid) {
        let _gone = self.spaces.remove(&pid.get());
        let _gone = self.pythons.remove(&pid.get());
        let _gone = self.hotspots.remove(&pid.get());
        let _gone = self.contexts.remove(&pid.get());
        self.count();
    }

    /// The tracer's own processes, which are no targets while everybody else is.
    pub fn own(&self) -> BTreeSet<Pid> {
        let forked = self.targets.iter().flatten().filter(|(_, since)| *since == OURS);
        forked.map(|(pid, _)| pid).chain([std::process::id()]).map(Pid::new).fill_set()
    }

    /// Writes a block of the mapping pool and makes it the process's.
    pub fn set_space(&mut self, pid: Pid, space: AddressSpace, mappings: &[CodeMapping]) -> bool {
        let places = space.first..space.first + space.places;
        let padded = mappings.iter().chain(std::iter::repeat(&CodeMapping::UNUSED));
        places.zip(padded).all(|(place, mapping)| self.mappings.set(place, mapping, 0).is_ok())
            && self.spaces.insert(pid.get(), space, 0).is_ok()
            && self.count()
    }

    /// Makes a block that is already written a process's.
    pub fn point_space(&mut self, pid: Pid, space: AddressSpace) {
        if let Err(error) = self.spaces.insert(pid.get(), space, 0) {
            log::debug!("no address space for process {pid}: {error}");
        }
        self.count();
    }

    /// Tells the probes where a process keeps its interpreter.
    pub fn set_python(&mut self, pid: Pid, program: ProcessKey, interpreter: &Interpreter) -> bool {
        let walker = interpreter.layout.walker(interpreter.runtime);
        let layout = PythonLayout { program: program.get(), ..walker };
        self.pythons.insert(pid.get(), layout, 0).is_ok() && self.count()
    }

    /// Tells the probes where a process's HotSpot keeps what is needed; whether there was room.
    pub fn set_hotspot(&mut self, pid: Pid, layout: &HotspotLayout) -> bool {
        self.hotspots.insert(pid.get(), layout, 0).is_ok()
    }

    /// Tells the probes where the threads of a process have their span's record; whether there was room.
    pub fn set_context(&mut self, pid: Pid, variable: ThreadVariable) -> bool {
        self.contexts.insert(pid.get(), variable, 0).is_ok()
    }

    /// Counts a change; says whether the probes learn of it.
    fn count(&mut self) -> bool {
        self.changed += 1;
        self.changes.set(changes::BY_USER, self.changed, 0).is_ok()
    }
}
