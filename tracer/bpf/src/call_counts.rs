//! The program that counts calls, and what it counted.
//!
//! Also measures what counting a call costs, by probing two functions of this program and calling them. Leaves out which functions are
//! counted (`probe/count`).

use super::arch::{emulated, stepped};
use super::error::ProbeError;
use super::uprobe_multi::{MultiLink, MultiProbe};
use aya::maps::{Array, MapData};
use energy_trace_model::ids::Pid;
use energy_trace_unwind::address_space::AddressSpace;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::Instant;
use tracer_ebpf::count::{Counted, MOST_FUNCTIONS, OWN};

/// Calls of a batch, and batches, of which the fastest counts: a machine that is busy only makes them slower.
const BATCH: u32 = 400;
const BATCHES: u32 = 9;

/// Counts calls of functions that are probed.
pub struct CallCounts {
    program: MultiProbe,
    counts: Array<MapData, [u64; 2]>,
}

/// What counting a call costs, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Where the kernel emulates the instruction that is probed.
    pub emulated_ns: u64,
    /// Where it has to step.
    pub stepped_ns: u64,
}

impl CallCounts {
    pub(super) const fn new(program: MultiProbe, counts: Array<MapData, [u64; 2]>) -> Self {
        Self { program, counts }
    }

    pub(super) fn program(&self) -> RawFd {
        self.program.fd()
    }

    /// Counts the calls of functions from now on: the places in a file where they begin, each with the function's number.
    pub fn attach(&self, path: &Path, offsets: &[u64], functions: &[u64]) -> Result<MultiLink, String> {
        let link = self.program.attach_all(path, offsets, functions);
        link.map_err(|error| ProbeError::attach("on_counted_call", &error).to_string())
    }

    /// What was counted of a function.
    pub fn read(&self, function: u32) -> Counted {
        let [calls, nested] = self.counts.get(&function, 0).unwrap_or_default();
        Counted { calls, nested }
    }

    /// Measures what counting costs.
    pub fn measure(&self) -> io::Result<Cost> {
        Ok(Cost { emulated_ns: self.measure_one(emulated)?, stepped_ns: self.measure_one(stepped)? })
    }

    fn measure_one(&self, function: extern "C" fn()) -> io::Result<u64> {
        let bare = fastest_ns(function);
        let space = AddressSpace::read(Pid::new(std::process::id()))?;
        let address = function as usize as u64;
        let mapping = space.find(address).ok_or(io::ErrorKind::NotFound)?;
        let offset = address - mapping.start + mapping.offset;
        let cookie = OWN | u64::from(MOST_FUNCTIONS - 1);
        let _probe = self.program.attach(Path::new("/proc/self/exe"), offset, cookie)?;
        Ok(fastest_ns(function).saturating_sub(bare))
    }
}

/// Nanoseconds of a call, in the fastest batch.
fn fastest_ns(function: extern "C" fn()) -> u64 {
    let batch = |_| {
        let start = Instant::now();
        for _ in 0..BATCH {
            function();
        }
        start.elapsed().as_nanos() / u128::from(BATCH)
    };
    let fastest = (0..BATCHES).map(batch).min().unwrap_or(0);
    u64::try_from(fastest).unwrap_or(u64::MAX)
}
