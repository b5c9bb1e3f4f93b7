//! The stacks of a profile as other tools' formats need them: each once for a thread, with what it spent, as numbers into one table of frames.
//!
//! Nothing is left out here: energies of all stacks sum to what the program was charged with, those below zero too. Leaves out how a format
//! writes them (the files beside this one) and when samples were taken (`timed.rs`).

use super::StackOptions;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::{StackId, ThreadKey};
use energy_trace_model::profile::{EnergyByClass, Profile, ProfileRow};
use energy_trace_model::recording::record::Frame;
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames;
use energy_trace_names::short_names;
use energy_trace_names::shown::shown;
use energy_trace_names::{frame_name, part_of, process_name, thread_name};
use energy_trace_report::apart::told_apart;
use energy_trace_report::folded::Per;
use energy_trace_report::functions::MISSING;
use energy_trace_report::{DomainChoice, rest, run};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// A position in the table of frames.
pub(crate) type FrameNumber = usize;

/// All stacks of an export.
#[derive(Debug)]
pub(crate) struct Stacks<'a> {
    pub(crate) profile: Cow<'a, Profile>,
    /// Frames that stand for no code, behind those of the profile.
    marks: Vec<Frame>,
    /// The names of all frames, as they may be shown.
    names: Vec<String>,
    /// One entry a thread and stack, then what stands beside the program.
    pub(crate) list: Vec<StackCost>,
    domain: DomainChoice,
}

/// What one stack spent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackCost {
    /// The thread below which it stands; `None` for a part of the ledger.
    pub(crate) holder: Option<ThreadKey>,
    /// Frames at its root that are none of its code: process, thread, marks.
    roots: Vec<FrameNumber>,
    /// Its code.
    stack: Option<StackId>,
    /// The energy of the chosen domains.
    pub(crate) energy: MicroJoules,
    /// The same by class of domain; of a part of the ledger, nothing.
    pub(crate) by_class: EnergyByClass,
    /// Time on a CPU in nanoseconds; of a part of the ledger, none: it is no program's.
    pub(crate) time_ns: u64,
    pub(crate) samples: u64,
}

impl<'a> Stacks<'a> {
    pub(crate) fn new(profile: &'a Profile, options: &StackOptions) -> Self {
        let mut stacks = Self::of_frames(profile, options);
        let mut known: HashMap<(ThreadKey, Option<StackId>), usize> = HashMap::new();
        let mut roots = BTreeMap::new();
        for at in 0..stacks.profile.rows.len() {
            let Some(row) = stacks.profile.rows.get(at).copied() else { continue };
            let holder = row.on_behalf_of.unwrap_or(row.thread);
            let number = *known.entry((holder, row.stack)).or_insert(stacks.list.len());
            if number == stacks.list.len() {
                let of_holder =
                    roots.entry(holder).or_insert_with(|| stacks.roots(holder, options.per)).clone();
                let cost = stacks.empty(holder, of_holder, row.stack);
                stacks.list.push(cost);
            }
            if let Some(cost) = stacks.list.get_mut(number) {
                cost.add(&row, options.domain);
            }
        }
        stacks.add_rest(options);
        stacks
    }

    /// The frames alone, folded and named as was chosen.
    pub(crate) fn of_frames(profile: &'a Profile, options: &StackOptions) -> Self {
        let profile = match short_names::chosen(profile, options.short_names) {
            Cow::Borrowed(profile) => native_frames::folded(profile, options.native_frames),
            Cow::Owned(profile) => {
                Cow::Owned(native_frames::folded(&profile, options.native_frames).into_owned())
            }
        };
        let names = profile.frames.iter().map(|frame| shown(&frame_name(frame)).into_owned()).collect();
        let (marks, list) = (Vec::new(), Vec::new());
        let mut stacks = Self { profile, marks, names, list, domain: options.domain };
        stacks.mark(MISSING);
        stacks.mark(SyntheticFrame::Unsampled.name());
        stacks
    }

    /// With names that tell functions apart, for formats that have no field for a frame's file.
    pub(crate) fn told_apart(mut self) -> Self {
        for (name, apart) in self.names.iter_mut().zip(told_apart(&self.profile, frame_name)) {
            *name = shown(&apart).into_owned();
        }
        self
    }

    /// A frame that stands for no code; the same number for the same name.
    fn mark(&mut self, name: &str) -> FrameNumber {
        let first = self.profile.frames.len();
        if let Some(at) = self.marks.iter().position(|mark| mark.name == name) {
            return first + at;
        }
        self.marks.push(Frame::special(name));
        self.names.push(shown(name).into_owned());
        first + self.marks.len() - 1
    }

    /// Process and thread as frames, as far as they are asked for.
    fn roots(&mut self, thread: ThreadKey, per: Per) -> Vec<FrameNumber> {
        let label = part_of(&self.profile, thread).map(str::to_owned);
        let (process, thread) = self.names_of(thread);
        let names = match per {
            Per::Thread => vec![process, thread],
            Per::Process => vec![process],
            Per::None => vec![],
        };
        label.iter().chain(&names).map(|name| self.mark(name)).collect()
    }

    /// The names of a thread's process, with the label of its recording where several were merged, and of the thread.
    pub(crate) fn holder_names(&self, thread: ThreadKey) -> (String, String) {
        let (process, name) = self.names_of(thread);
        match part_of(&self.profile, thread) {
            Some(label) => (format!("{}: {process}", shown(label)), name),
            None => (process, name),
        }
    }

    /// The names alone.
    pub(crate) fn names_of(&self, thread: ThreadKey) -> (String, String) {
        let thread = self.profile.threads.get(thread.index());
        let process = thread.and_then(|thread| self.profile.processes.get(thread.process.index()));
        (shown(process_name(process)).into_owned(), shown(thread_name(thread)).into_owned())
    }

    fn empty(&self, holder: ThreadKey, mut roots: Vec<FrameNumber>, stack: Option<StackId>) -> StackCost {
        let first = self.profile.frames.len();
        let is_damaged = |stack| self.profile.frames_of(stack).next().is_none();
        match stack {
            None => roots.push(first + 1),
            Some(stack) if is_damaged(stack) => roots.push(first),
            Some(_) => {}
        }
        StackCost { holder: Some(holder), roots, stack, ..StackCost::default() }
    }

    /// What was measured beside the program, as far as it is asked for.
    fn add_rest(&mut self, options: &StackOptions) {
        for (names, energy, _) in rest::parts(&self.profile, options.domain, options.rest) {
            let roots = names.iter().map(|name| self.mark(name)).collect();
            self.list.push(StackCost { roots, energy, ..StackCost::default() });
        }
    }

    /// The frames of a stack, root first; never none.
    pub(crate) fn path(&self, cost: &StackCost) -> Vec<FrameNumber> {
        let mut path = cost.roots.clone();
        if let Some(stack) = cost.stack {
            let ranges = self.profile.ranges_of(stack);
            path.extend(ranges.chain(self.profile.frames_of(stack)).map(|(id, _)| id.index()));
        }
        path
    }

    /// The frames of a row of the profile without its thread, root first; never none.
    pub(crate) fn path_of_row(&self, row: &ProfileRow) -> Vec<FrameNumber> {
        self.path(&self.empty(row.thread, vec![], row.stack))
    }

    /// A frame by its number.
    pub(crate) fn frame(&self, number: FrameNumber) -> Option<&Frame> {
        let own = self.profile.frames.len();
        self.profile.frames.get(number).or_else(|| self.marks.get(number.checked_sub(own)?))
    }

    /// Its name.
    pub(crate) fn name(&self, number: FrameNumber) -> &str {
        self.names.get(number).map_or(MISSING, String::as_str)
    }

    /// How many frames there are.
    pub(crate) fn frame_count(&self) -> usize {
        self.names.len()
    }

    /// Whether there is any energy to show, or only time.
    pub(crate) fn has_energy(&self) -> bool {
        run::ledger_of(&self.profile, self.domain).next().is_some()
    }

    /// How far the energies can be trusted, as a sentence for who opens the file.
    pub(crate) fn quality(&self) -> String {
        let classes: std::collections::BTreeSet<&str> =
            run::ledger_of(&self.profile, self.domain).map(|row| row.class.name()).fill_set();
        match run::split_quality(&self.profile, self.domain) {
            None => "no energy was recorded: CPU time only".to_owned(),
            Some(quality) => {
                let classes: Vec<&str> = classes.into_iter().collect();
                format!("energy of {}, {}", classes.join(" + "), run::quality_word(quality))
            }
        }
    }

    /// What was recorded, as it may be shown.
    pub(crate) fn title(&self) -> String {
        shown(&run::what_was_recorded(&self.profile)).into_owned()
    }
}

impl StackCost {
    fn add(&mut self, row: &ProfileRow, domain: DomainChoice) {
        self.energy += run::chosen(&row.energy, domain);
        self.by_class += row.energy;
        self.time_ns = self.time_ns.saturating_add(row.time_ns);
        self.samples = self.samples.saturating_add(row.samples);
    }
}
