//! Ranges between static probes of binaries (USDT), on request: which there are, and probes in their places.
//!
//! Files that the command will map are probed before it begins; one that is met later is probed then. Leaves out what a thread is in
//! (`tracer-ebpf`, `ranges`) and notes in files (`unwind`, `static_probes`).

use crate::mapped_files::{FileName, MappedFiles};
use crate::stacks::builder::StackBuilder;
use energy_trace_bpf::ranges::MarkProbes;
use energy_trace_bpf::uprobe_multi::{MultiLink, Spot, drop_together};
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::recording::ranges::{MOST_RANGE_PROBES, RangeDiagnostic, RangesNotRecorded};
use energy_trace_unwind::elf::path_of;
use energy_trace_unwind::static_probes::ProbeName;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use tracer_ebpf::ranges::marks::{MOST_PAIRS, cookie};

const _: () = assert!(MOST_RANGE_PROBES as u64 == MOST_PAIRS);

/// A range between static probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeProbe {
    /// What it is called.
    pub name: String,
    /// The probe that begins it.
    pub begin: ProbeName,
    /// Those that end it.
    pub ends: Vec<ProbeName>,
}

/// Probes in their places.
pub(crate) struct RangeProbes {
    probes: MarkProbes,
    /// All that are wanted, and what each does.
    wanted: Vec<ProbeName>,
    cookies: Vec<u64>,
    found: BTreeSet<usize>,
    links: Vec<MultiLink>,
    probed: Vec<FileName>,
    mapped: MappedFiles,
    failed: Option<String>,
}

impl RangeProbes {
    /// Begins with the files that the command will map.
    pub(crate) fn start(
        probes: MarkProbes,
        worker: &Worker,
        ranges: &[RangeProbe],
        files: &[PathBuf],
    ) -> Self {
        let (wanted, cookies) = all_of(ranges);
        let mut started = Self {
            probes,
            wanted,
            cookies,
            found: BTreeSet::new(),
            links: Vec::new(),
            probed: Vec::new(),
            mapped: MappedFiles::default(),
            failed: None,
        };
        for (file, name) in files.iter().filter_map(|path| FileName::open(path)) {
            started.probe(&file, name, worker);
        }
        started
    }

    /// Looks at mappings that were read since.
    pub(crate) fn look(&mut self, stacks: &StackBuilder) {
        let StackBuilder { processes, hasty, .. } = stacks;
        for new in self.mapped.look(processes.spaces()) {
            let is_probed = self.probed.iter().any(|name| name.is(new.mapping));
            if let Some((file, name)) = (!is_probed).then(|| new.open(&processes.peeker)).flatten() {
                self.probe(&file, name, hasty);
            }
        }
    }

    /// Probes what is wanted of a file.
    fn probe(&mut self, file: &File, name: FileName, worker: &Worker) {
        let label = name.label();
        let found = worker.static_probes(label, file, &self.wanted).unwrap_or_default();
        let spot = |(offset, counter, &cookie): (u64, u64, &u64)| Spot { offset, counter, cookie };
        let placed =
            found.iter().filter_map(|of| Some((of.offset, of.counter, self.cookies.get(of.wanted)?)));
        let spots: Vec<Spot> = placed.map(spot).collect();
        if spots.is_empty() {
            return;
        }
        match self.probes.attach(&path_of(file), &spots) {
            Ok(link) => self.links.push(link),
            Err(error) => self.failed = Some(format!("{label}: {error}")),
        }
        self.found.extend(found.iter().map(|of| of.wanted));
        self.probed.push(name);
    }

    /// Takes the probes away; what the reader must know.
    pub(crate) fn finish(self) -> Option<RangeDiagnostic> {
        drop_together(self.links);
        let missing = self.wanted.iter().enumerate().filter(|(at, _)| !self.found.contains(at));
        let names: Vec<String> = missing.map(|(_, of)| format!("{}:{}", of.provider, of.name)).collect();
        let why = match self.failed {
            Some(error) => RangesNotRecorded::ProbesFailed { error },
            None if names.is_empty() => return None,
            None => RangesNotRecorded::ProbesNotFound { names },
        };
        Some(RangeDiagnostic::NotRecorded(why))
    }
}

/// All probes of ranges, and what each does.
fn all_of(ranges: &[RangeProbe]) -> (Vec<ProbeName>, Vec<u64>) {
    let of = |(pair, range): (u64, &RangeProbe)| {
        let ends = range.ends.iter().map(move |end| (end.clone(), cookie(pair, true)));
        std::iter::once((range.begin.clone(), cookie(pair, false))).chain(ends).collect::<Vec<_>>()
    };
    (1..).zip(ranges).take(MOST_RANGE_PROBES).flat_map(of).unzip()
}
