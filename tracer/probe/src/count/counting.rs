//! Puts probes on functions to count, and sends what they counted when the recording ends.
//!
//! Files that the command will map are probed before it begins, so that no call is missed; a file that is met later is probed then, and that
//! is said. Leaves out the probes themselves (`bpf/call_counts.rs`).

use super::OfPython;
use super::names::CountName;
use super::units::UnitsOfCalls;
use crate::mapped_files::{FileName, MappedFiles, NewFile};
use crate::prologue::{Spot, spot};
use crate::stacks::builder::StackBuilder;
use crate::stacks::interner::bare;
use energy_trace_bpf::call_counts::CallCounts;
use energy_trace_bpf::uprobe_multi::{MultiLink, drop_together};
use energy_trace_foreign::files::SeenFile;
use energy_trace_foreign::peeker::Peeker;
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::recording::record::{CallCount, CallDiagnostic, FrameKind, Record};
use energy_trace_unwind::address_space::FileKey;
use energy_trace_unwind::elf::path_of;
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;
use std::time::Instant;
use tracer_ebpf::count::{Counted, MOST_FUNCTIONS};

/// The last number is the recorder's own.
const MOST: usize = MOST_FUNCTIONS as usize - 1;

/// What is counted.
pub(crate) struct Counting {
    counts: CallCounts,
    wanted: Vec<CountName>,
    files: Vec<Probed>,
    links: Vec<MultiLink>,
    functions: usize,
    /// Names for which a function was found.
    found: BTreeSet<usize>,
    mapped: MappedFiles,
    diagnostics: Vec<CallDiagnostic>,
    units: UnitsOfCalls,
}

/// A file with functions that are probed.
struct Probed {
    file: FileName,
    /// Its name in the recording, once a process has mapped it.
    module: Option<Arc<str>>,
    functions: Vec<Function>,
}

struct Function {
    number: u32,
    offset: u64,
    name: String,
    steps: bool,
    /// Which units of work its calls are.
    units: Vec<usize>,
}

/// What was counted in all.
#[derive(Default)]
struct Sums {
    calls: u64,
    stepped: u64,
}

/// Which functions are counted, and where they are looked for before anything runs.
#[derive(Default)]
pub(crate) struct ToCount {
    pub(crate) names: Vec<CountName>,
    pub(crate) program: Option<SeenFile>,
    pub(crate) libraries: Vec<SeenFile>,
    /// Of the names the first ones, which are told over time.
    pub(crate) units: UnitsOfCalls,
}

impl Counting {
    /// Begins with the command's program, and libraries that it will or may map.
    pub(crate) fn start(
        counts: CallCounts,
        worker: &Worker,
        ToCount { names: wanted, program, libraries, units }: ToCount,
    ) -> Self {
        let mut counting = Self {
            counts,
            wanted,
            files: Vec::new(),
            links: Vec::new(),
            functions: 0,
            found: BTreeSet::new(),
            mapped: MappedFiles::default(),
            diagnostics: Vec::new(),
            units,
        };
        let libraries = libraries.iter().map(|seen| (seen, false));
        for (seen, is_program) in program.iter().map(|seen| (seen, true)).chain(libraries) {
            if let Some((file, name)) = FileName::open(seen) {
                counting.probe(&file, name, is_program, worker);
            }
        }
        counting
    }

    /// Probes what runs already: its calls count from the start of the recording, as its energy does.
    pub(crate) fn attach(&mut self, stacks: &mut StackBuilder) {
        self.look(stacks);
        self.diagnostics.retain(|found| !matches!(found, CallDiagnostic::Late { .. }));
    }

    /// Looks at mappings that were read since.
    pub(crate) fn look(&mut self, stacks: &mut StackBuilder) {
        let StackBuilder { processes, libraries, hasty, .. } = stacks;
        for new in self.mapped.look(processes.spaces()) {
            self.probe_mapped(&new, &processes.peeker, hasty);
            for probed in self.files.iter_mut().filter(|probed| probed.file.is(new.mapping)) {
                probed.module = Some(libraries.module_of(new.pid, new.mapping, &processes.peeker));
            }
        }
    }

    fn probe_mapped(&mut self, new: &NewFile<'_>, peeker: &Peeker, worker: &Worker) {
        let is_wanted = self.wanted.iter().any(|name| name.may_be_in(&new.mapping.path, new.is_program));
        if !is_wanted || self.files.iter().any(|probed| probed.file.is(new.mapping)) {
            return;
        }
        let Some((file, name)) = new.open(peeker) else { return };
        let library = name.label().to_owned();
        if self.probe(&file, name, new.is_program, worker) {
            let late_ns = energy_trace_system::clock::now().ns_since(new.read_at);
            self.diagnostics.push(CallDiagnostic::Late { library, pid: new.pid.get(), late_ns });
        }
    }

    /// Places of a file that are probed, by whatever path it was reached: two probes of a place count each call twice.
    fn places_in(&self, key: &FileKey) -> BTreeSet<u64> {
        let same = self.files.iter().filter(|probed| probed.file.key == *key);
        same.flat_map(|probed| &probed.functions).map(|function| function.offset).fill_set()
    }

    /// Probes the functions of a file that are wanted; false where there are none.
    fn probe(&mut self, file: &File, of: FileName, is_program: bool, worker: &Worker) -> bool {
        let label = of.label().to_owned();
        let wanted: Vec<(usize, &CountName)> =
            self.wanted.iter().enumerate().filter(|(_, name)| name.may_be_in(&of.path, is_program)).collect();
        if wanted.is_empty() {
            return false;
        }
        let patterns: Vec<&str> = wanted.iter().map(|(_, name)| name.name.as_str()).collect();
        let room = MOST.saturating_sub(self.functions);
        let known = self.places_in(&of.key);
        let most = room.saturating_add(known.len()).saturating_add(1);
        let mut functions = worker.functions(&label, file, &patterns, most).unwrap_or_default();
        let matched = functions.iter().flat_map(|function| &function.patterns);
        self.found.extend(matched.filter_map(|&pattern| wanted.get(pattern)).map(|(position, _)| position));
        functions.retain(|function| !known.contains(&function.offset));
        if functions.len() > room {
            let most = MOST as u64;
            self.diagnostics.push(CallDiagnostic::TooMany { library: label.clone(), most });
            functions.truncate(room);
        }
        let first = self.functions;
        let numbered = functions.into_iter().zip(first..).map(|(function, number)| {
            let Spot { offset: within, steps } = spot(&function.code);
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let named = function.patterns.iter().filter_map(|&pattern| wanted.get(pattern));
            let units = named.map(|(position, _)| *position).filter(|unit| *unit < self.units.count());
            let (units, offset, name) = (units.collect(), function.offset, function.name);
            (Function { number, offset, name, steps, units }, within)
        });
        let (functions, within): (Vec<Function>, Vec<u64>) = numbered.unzip();
        if functions.is_empty() {
            return false;
        }
        let offsets: Vec<u64> =
            functions.iter().zip(within).map(|(function, within)| function.offset + within).collect();
        let numbers: Vec<u64> = functions.iter().map(|function| u64::from(function.number)).collect();
        match self.counts.attach(&path_of(file), &offsets, &numbers) {
            Ok(link) => self.links.push(link),
            Err(error) => {
                self.diagnostics.push(CallDiagnostic::NotCounted { error: format!("{label}: {error}") });
                return false;
            }
        }
        log::info!("calls are counted: {} functions of {label}", functions.len());
        self.functions += functions.len();
        self.files.push(Probed { file: of, module: None, functions });
        true
    }

    /// Tells how often units of work were called so far, ten times a second.
    pub(crate) fn tell_units(&mut self, now: KtimeNs) {
        if self.units.is_due(now) {
            let begun = Instant::now();
            let calls = self.calls_of_units();
            self.units.put(&calls, &self.found, now, begun.elapsed());
        }
    }

    fn calls_of_units(&self) -> Vec<u64> {
        let mut sums = vec![0_u64; self.units.count()];
        let functions = self.files.iter().flat_map(|file| &file.functions);
        for function in functions.filter(|function| !function.units.is_empty()) {
            let Counted { calls, nested } = self.counts.read(function.number);
            for &unit in &function.units {
                let Some(sum) = sums.get_mut(unit) else { continue };
                *sum = sum.saturating_add(calls.saturating_sub(nested));
            }
        }
        sums
    }

    /// Takes the probes away and sends what they counted, beside what is known of Python's functions.
    pub(crate) fn finish(mut self, stacks: &mut StackBuilder, of_python: OfPython) -> Vec<CallDiagnostic> {
        self.look(stacks);
        drop_together(std::mem::take(&mut self.links));
        let mut sums = Sums::default();
        let mut counted = Vec::new();
        for file in &self.files {
            for function in &file.functions {
                let Counted { calls, nested } = self.counts.read(function.number);
                if calls == 0 {
                    continue;
                }
                sums.calls = sums.calls.saturating_add(calls);
                sums.stepped = sums.stepped.saturating_add(if function.steps { calls } else { 0 });
                let frame = stacks.out.frame(file.frame(function));
                counted.push(CallCount { frame, calls, nested, times: None });
            }
        }
        if !counted.is_empty() {
            stacks.out.send(Record::Calls(counted));
        }
        if of_python != OfPython::Counted {
            let calls = self.calls_of_units();
            let last = self.units.records(&calls, energy_trace_system::clock::now());
            last.for_each(|record| stacks.out.send(record));
        }
        self.diagnose(&sums, of_python == OfPython::None)
    }

    fn diagnose(mut self, sums: &Sums, no_python: bool) -> Vec<CallDiagnostic> {
        let missing = self.wanted.iter().enumerate().filter(|(position, _)| !self.found.contains(position));
        // A name without a library may be one of Python, counted or not: that is said by itself.
        let missing = missing.filter(|(_, name)| no_python || name.library.is_some());
        let names: Vec<String> = missing.map(|(_, name)| name.word()).collect();
        // The entry functions of a framework that the program does not have are not missing.
        let is_silent = self.is_default() && (!no_python || !self.found.is_empty());
        if !names.is_empty() && !is_silent {
            self.diagnostics.push(CallDiagnostic::NotFound { names });
        }
        // What was not called took nothing.
        if sums.calls > 0
            && let Ok(cost) = self.counts.measure()
        {
            self.diagnostics.push(CallDiagnostic::Cost {
                calls: sums.calls,
                stepped: sums.stepped,
                call_ns: cost.emulated_ns,
                stepped_ns: cost.stepped_ns,
                functions: self.functions as u64,
            });
        }
        self.diagnostics
    }

    fn is_default(&self) -> bool {
        self.wanted == super::count_names_of(&[])
    }
}

impl Probed {
    /// A frame of a function, which gets its name as all others of its file do; without a process that has it, the name by which it was found.
    fn frame(&self, function: &Function) -> energy_trace_model::recording::record::Frame {
        match &self.module {
            Some(module) => bare(FrameKind::Native, "", module, function.offset),
            None => bare(FrameKind::Native, &function.name, &self.file.path, function.offset),
        }
    }
}
