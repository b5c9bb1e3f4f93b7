//! Processes that ran before the recording: they are met together, so that each knows its parent.
//!
//! Leaves out which those are (the program), and forks that are seen (`registry`).

use super::registry::Processes;
use crate::records::RecordSender;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Record;

impl Processes {
    /// Meets these, each with who made it: what a pool's worker does is for its parent.
    pub(crate) fn meet_followed(&mut self, followed: &[(Pid, Option<Pid>)], out: &RecordSender) {
        for (pid, _) in followed {
            self.get_or_insert(*pid, out);
        }
        for (pid, parent) in followed {
            let parent = parent.and_then(|parent| self.by_pid.get(&parent)).map(|parent| parent.record.key);
            let Some(process) = self.by_pid.get_mut(pid).filter(|_| parent.is_some()) else { continue };
            process.record.parent = parent;
            out.send(Record::Process(process.record.clone()));
        }
    }
}
