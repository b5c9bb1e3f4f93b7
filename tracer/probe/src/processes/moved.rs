//! A process that an agent follows to another control group: from then on it counts as another one.
//!
//! Leaves out whose groups are (`energy_trace::agent`), and the moment, which the probes tell.

use super::registry::{Processes, next_key};
use crate::records::RecordSender;
use energy_trace_bpf::process_maps::Maps;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Record;

impl Processes {
    /// All that is known of it stays, but its number and those of its threads.
    pub(crate) fn moved(&mut self, pid: Pid, maps: &mut Maps, out: &RecordSender) {
        // Each hierarchy of groups tells of it. Who has not run since the last time counts where it is found to be.
        let Some(process) = self.by_pid.get_mut(&pid).filter(|process| !process.threads.is_empty()) else {
            return;
        };
        process.record.key = next_key(&mut self.next_process);
        process.threads.clear();
        out.send(Record::Process(process.record.clone()));
        self.tell_python(pid, maps);
    }
}
