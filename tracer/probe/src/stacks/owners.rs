//! Who started the processes whose stacks are seen, each looked up once.
//!
//! Leaves out what is counted against them.

use energy_trace_foreign::files::owner_of_process;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Owner;
use std::collections::HashMap;

/// The owners of processes.
#[derive(Default)]
pub(crate) struct Owners(HashMap<Pid, Owner>);

impl Owners {
    /// Of a process; nobody in particular where it is gone.
    pub(crate) fn of(&mut self, pid: Pid) -> Owner {
        *self.0.entry(pid).or_insert_with(|| owner_of_process(pid))
    }

    /// Forgets a process that is gone.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.0.remove(&pid);
    }
}
