//! Ranges between static probes of binaries (USDT), on request: which there are, and probes in their places.
//!
//! Files that the command will map are probed before it begins; one that is met later is probed then. Only instructions that do nothing are probed. Leaves out what a thread is in
//! (`tracer-ebpf`, `ranges`) and notes in files (`unwind`, `static_probes`).

use crate::mapped_files::{FileName, MappedFiles};
use crate::stacks::builder::StackBuilder;
use energy_trace_bpf::ranges::MarkProbes;
use energy_trace_bpf::uprobe_multi::{MultiLink, Spot, drop_together};
use energy_trace_foreign::files::{Quota, SeenFile, owner_of_file, owner_of_process};
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::recording::ranges::{MOST_RANGE_PROBES, RangeDiagnostic, RangesNotRecorded};
use energy_trace_model::recording::record::Owner;
use energy_trace_unwind::elf::path_of;
use energy_trace_unwind::static_probes::{ProbeName, StaticProbe};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use tracer_ebpf::ranges::marks::{MOST_PAIRS, cookie};

const _: () = assert!(MOST_RANGE_PROBES as u64 == MOST_PAIRS);

/// Attempts to find those places of a file that the kernel refuses.
const MOST_TRIES: u32 = 64;
/// Places in all files together, shared by owners: the kernel keeps some hundred bytes for each, and a program may write files without end.
const MOST_PLACES: usize = 1 << 16;
/// Files that may wait for what ends their ranges, of one owner no more than others have left, and those of which is said that something failed.
const MOST_WAITING: usize = 256;
const MOST_FAILED: usize = 16;
/// What is wrong with a note.
const LIES: &str =
    "its note points to no nop, or to a counter outside of .probes: probing that would break the program";

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
    does: Vec<Does>,
    /// Which files have, and ranges that can end.
    found: BTreeSet<usize>,
    ending: BTreeSet<u64>,
    /// Probes that begin ranges of which none is known yet that ends them.
    waiting: Vec<(Probed, Vec<StaticProbe>)>,
    links: Vec<MultiLink>,
    places: Quota,
    probed: Vec<FileName>,
    mapped: MappedFiles,
    /// Probes that are not probed, by file and reason.
    failed: BTreeMap<(String, String), BTreeSet<usize>>,
}

/// A file, and whose program brought it here.
struct Probed {
    file: File,
    path: String,
    owner: Owner,
}

/// What a probe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Does {
    range: u64,
    ends: bool,
}

impl RangeProbes {
    /// Begins with the files that the command will map.
    pub(crate) fn start(
        probes: MarkProbes,
        worker: &Worker,
        ranges: &[RangeProbe],
        files: &[SeenFile],
    ) -> Self {
        let (wanted, does) = all_of(ranges);
        let mut started = Self {
            probes,
            wanted,
            does,
            found: BTreeSet::new(),
            ending: BTreeSet::new(),
            waiting: Vec::new(),
            links: Vec::new(),
            places: Quota::of_all(MOST_PLACES),
            probed: Vec::new(),
            mapped: MappedFiles::default(),
            failed: BTreeMap::new(),
        };
        for (file, name) in files.iter().filter_map(FileName::open) {
            let owner = owner_of_file(&file);
            started.probe((file, name), owner, worker);
        }
        started
    }

    /// Looks at mappings that were read since.
    pub(crate) fn look(&mut self, stacks: &StackBuilder) {
        let StackBuilder { processes, hasty, .. } = stacks;
        for new in self.mapped.look(processes.spaces()) {
            let is_probed = self.probed.iter().any(|name| name.is(new.mapping));
            if let Some(opened) = (!is_probed).then(|| new.open(&processes.peeker)).flatten() {
                self.probe(opened, owner_of_process(new.pid), hasty);
            }
        }
    }

    /// Probes what is wanted of a file: what ends ranges, then what begins those that can end.
    fn probe(&mut self, (file, name): (File, FileName), owner: Owner, worker: &Worker) {
        let mut found = worker.static_probes(name.label(), &file, &self.wanted).unwrap_or_default();
        found.retain(|of| of.wanted < self.does.len());
        if found.is_empty() {
            return;
        }
        self.found.extend(found.iter().map(|of| of.wanted));
        let of = Probed { file, path: name.path.clone(), owner };
        let sound = self.sound(found, &of.path);
        let ends = |of: &StaticProbe| self.does.get(of.wanted).is_some_and(|does| does.ends);
        let (ends, begins): (Vec<_>, Vec<_>) = sound.into_iter().partition(ends);
        self.attach(&of, &ends, &mut { MOST_TRIES });
        self.probed.push(name);
        if may_wait(self.waiting.iter().map(|(waiting, _)| waiting.owner), owner) {
            self.waiting.push((of, begins));
        } else {
            self.fail(&of.path, "there are too many files with ranges that nothing ends", &begins);
        }
        self.attach_waiting();
    }

    /// Those that harm nobody.
    fn sound(&mut self, found: Vec<StaticProbe>, path: &str) -> Vec<StaticProbe> {
        let is_sound = |of: &StaticProbe| of.is_at_nop && !of.counts_in_data;
        let (sound, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_sound);
        self.fail(path, LIES, &others);
        sound
    }

    /// Probes what begins ranges that can end.
    fn attach_waiting(&mut self) {
        for (of, begins) in std::mem::take(&mut self.waiting) {
            let can_end = |of: &StaticProbe| {
                self.does.get(of.wanted).is_some_and(|does| self.ending.contains(&does.range))
            };
            let (ready, rest): (Vec<_>, Vec<_>) = begins.into_iter().partition(can_end);
            self.attach(&of, &ready, &mut { MOST_TRIES });
            if !rest.is_empty() {
                self.waiting.push((of, rest));
            }
        }
    }

    /// Probes places of a file. The kernel takes all or none: where it refuses some, the others are found by halves.
    fn attach(&mut self, of: &Probed, found: &[StaticProbe], tries: &mut u32) {
        if found.is_empty() {
            return;
        }
        if !self.places.has_room(of.owner, found.len()) {
            let why = format!("too many places in files of {} are probed already", of.owner);
            return self.fail(&of.path, &why, found);
        }
        *tries = tries.saturating_sub(1);
        let does = found.iter().filter_map(|of| Some((of, self.does.get(of.wanted)?)));
        let spots: Vec<Spot> = does.clone().map(|(of, does)| does.spot(of)).collect();
        match self.probes.attach(&path_of(&of.file), &spots) {
            Ok(link) => {
                self.ending.extend(does.filter(|(_, does)| does.ends).map(|(_, does)| does.range));
                self.links.push(link);
                self.places.take(of.owner, found.len());
            }
            Err(_) if found.len() > 1 && *tries > 0 => {
                let (some, others) = found.split_at(found.len() / 2);
                self.attach(of, some, tries);
                self.attach(of, others, tries);
            }
            Err(error) => self.fail(&of.path, &error, found),
        }
    }

    fn fail(&mut self, path: &str, why: &str, found: &[StaticProbe]) {
        if found.is_empty() {
            return;
        }
        let mut key = (path.to_owned(), why.to_owned());
        if self.failed.len() >= MOST_FAILED && !self.failed.contains_key(&key) {
            key = ("other files".to_owned(), "as above".to_owned());
        }
        self.failed.entry(key).or_default().extend(found.iter().map(|of| of.wanted));
    }

    /// Takes the probes away; what the reader must know.
    pub(crate) fn finish(self) -> Vec<RangeDiagnostic> {
        drop_together(self.links);
        let name =
            |at: usize| Some(format!("{}:{}", self.wanted.get(at)?.provider, self.wanted.get(at)?.name));
        let missing = (0..self.wanted.len()).filter(|at| !self.found.contains(at));
        let names: Vec<String> = missing.filter_map(name).collect();
        let not_found = (!names.is_empty()).then_some(RangesNotRecorded::ProbesNotFound { names });
        let failed = self.failed.iter().map(|((path, why), of)| {
            let names: Vec<String> = of.iter().copied().filter_map(name).collect();
            RangesNotRecorded::ProbesFailed { error: format!("{} of {path}: {why}", names.join(", ")) }
        });
        not_found.into_iter().chain(failed).map(RangeDiagnostic::NotRecorded).collect()
    }
}

impl Does {
    fn spot(self, of: &StaticProbe) -> Spot {
        Spot { offset: of.offset, counter: of.counter, cookie: cookie(self.range, self.ends) }
    }
}

/// Whether one more file of an owner may wait beside those of these.
fn may_wait(waiting: impl Iterator<Item = Owner> + Clone, owner: Owner) -> bool {
    let own = waiting.clone().filter(|of| *of == owner).count();
    own < MOST_WAITING.saturating_sub(waiting.count())
}

/// All probes of ranges, and what each does.
fn all_of(ranges: &[RangeProbe]) -> (Vec<ProbeName>, Vec<Does>) {
    let of = |(range, of): (u64, &RangeProbe)| {
        let ends = of.ends.iter().map(move |end| (end.clone(), Does { range, ends: true }));
        std::iter::once((of.begin.clone(), Does { range, ends: false })).chain(ends).collect::<Vec<_>>()
    };
    (1..).zip(ranges).take(MOST_RANGE_PROBES).flat_map(of).unzip()
}

#[cfg(test)]
mod tests {
    use super::{MOST_WAITING, Owner, may_wait};

    /// Whoever has files wait without end leaves half of the places to others.
    #[test]
    fn whose_files_wait() {
        let mut waiting = Vec::new();
        let mut wait = |owner| {
            (0..MOST_WAITING)
                .filter(|_| {
                    let may = may_wait(waiting.iter().copied(), owner);
                    waiting.extend(may.then_some(owner));
                    may
                })
                .count()
        };
        assert_eq!([Owner::User(1), Owner::User(2), Owner::User(1)].map(&mut wait), [128, 64, 0]);
    }
}
