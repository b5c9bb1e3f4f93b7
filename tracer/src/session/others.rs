//! What a user who may not record is not told by a recording: what others' processes are called, and where the kernel's code lies.
//!
//! Leaves out whose stacks are taken: of others none are (`tracee/peer.rs`, the BPF programs).

use energy_trace_model::ids::{FrameId, Pid};
use energy_trace_model::recording::record::{AccountDiagnostic, FrameKind, Record, RecordingDiagnostic};
use std::collections::{HashMap, HashSet};

/// Who is no other so far, and the numbers that others have instead of names.
#[derive(Debug, Default)]
pub(super) struct Others {
    targets: HashSet<Pid>,
    numbers: HashMap<String, usize>,
    kernel: HashSet<FrameId>,
}

/// No process has this number.
const NOBODY: Pid = Pid::new(0);

impl Others {
    /// Takes out of a record what is others'. One name has one number: what draws what is learned as before.
    pub(super) fn hide(&mut self, record: &mut Record) {
        match record {
            Record::Process(process) => {
                self.targets.insert(process.pid);
            }
            Record::Background(other) => {
                let next = self.numbers.len() + 1;
                let number = self.numbers.entry(std::mem::take(&mut other.name)).or_insert(next);
                (other.pid, other.name) = (NOBODY, format!("other {number}"));
            }
            Record::GpuUses(_, uses) => {
                let others = uses.iter_mut().filter(|used| !self.targets.contains(&used.pid));
                others.for_each(|used| used.pid = NOBODY);
            }
            Record::Frame(id, frame) if frame.kind == FrameKind::Kernel => {
                frame.address = 0;
                self.kernel.insert(*id);
            }
            Record::Name(id, name) if self.kernel.contains(id) && name.name.starts_with("0x") => {
                name.name = "[kernel]".to_owned();
            }
            Record::Summary(summary) => summary.diagnostics.retain(|of| !names_others(of)),
            _ => (),
        }
    }
}

const fn names_others(of: &RecordingDiagnostic) -> bool {
    matches!(of, RecordingDiagnostic::Account(AccountDiagnostic::WorkedElsewhere { .. }))
}

#[cfg(test)]
mod tests {
    use super::{FrameId, FrameKind, NOBODY, Others, Pid, Record};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{BackgroundKey, DomainId, ProcessKey};
    use energy_trace_model::recording::record::{
        AccountDiagnostic, BackgroundProcess, Frame, GpuUse, Name, Process, Summary,
    };

    fn hidden(records: Vec<Record>) -> Vec<Record> {
        let (mut others, mut records) = (Others::default(), records);
        records.iter_mut().for_each(|record| others.hide(record));
        records
    }

    /// Others have numbers for names, the same for the same, and no process ids; targets keep theirs.
    #[test]
    fn others_have_numbers() {
        let pid = Pid::new;
        let other = |key, of, name: &str| {
            let (key, name) = (BackgroundKey::new(key), name.to_owned());
            Record::Background(BackgroundProcess { key, pid: of, name })
        };
        let process = Process {
            key: ProcessKey::new(0),
            pid: pid(7),
            parent: None,
            name: "python3".to_owned(),
            command: Vec::new(),
            runtime: None,
        };
        let used = |pid| {
            let (from, to) = (KtimeNs::from_ns(0), KtimeNs::from_ns(1));
            Record::GpuUses(DomainId::new(0), vec![GpuUse { from, to, pid, sm_percent: 3 }])
        };
        let process = Record::Process(process);
        let found = hidden(vec![
            process.clone(),
            other(0, pid(8), "mail"),
            other(1, pid(9), "bank"),
            other(2, pid(10), "mail"),
            used(pid(7)),
            used(pid(9)),
        ]);
        let expected = [
            process,
            other(0, NOBODY, "other 1"),
            other(1, NOBODY, "other 2"),
            other(2, NOBODY, "other 1"),
            used(pid(7)),
            used(NOBODY),
        ];
        assert_eq!(found, expected);
    }

    /// Frames of the kernel have names and no addresses, those of programs both; a finding that names somebody else is left out.
    #[test]
    fn the_kernel_lies_nowhere() {
        let frame = |id, kind, address| {
            Record::Frame(FrameId::new(id), Frame { kind, address, ..Frame::special("") })
        };
        let name = |id, name: &str| {
            Record::Name(FrameId::new(id), Name { name: name.to_owned(), file: String::new(), line: 0 })
        };
        let elsewhere = AccountDiagnostic::WorkedElsewhere {
            own_ns: 1,
            of_ns: 9,
            name: "mail".to_owned(),
            pid: 8,
            other_ns: 8,
        };
        let summary = |diagnostics| Record::Summary(Summary { diagnostics, ..Summary::default() });
        let found = hidden(vec![
            frame(0, FrameKind::Kernel, 0xffff_ffff_8100_0000),
            frame(1, FrameKind::Native, 0x10),
            name(0, "0xffffffff81000000"),
            name(0, "vfs_read"),
            name(1, "0x10"),
            summary(vec![elsewhere.into()]),
        ]);
        let expected = [
            frame(0, FrameKind::Kernel, 0),
            frame(1, FrameKind::Native, 0x10),
            name(0, "[kernel]"),
            name(0, "vfs_read"),
            name(1, "0x10"),
            summary(Vec::new()),
        ];
        assert_eq!(found, expected);
    }
}
