//! The table of functions: what each spent itself and in total.
//!
//! A function is a code object (Python: module, qualified name, file, first line) or a symbol (native: library, name), whatever line it was
//! seen at; one that cells of a notebook define again is still the same. Functions that stand for one public API name (`api_names.rs`) are one row under that name: `Tensor.backward` and the
//! `torch.autograd.backward` that it calls are what users know as the latter, and a stack through both counts once.
//! Time that no sample saw is the row `[unsampled]`, so that for each class of domain Σ own energy = Σ targets of the ledger, exactly.

use super::apart::suffixes;
use super::calls::naming::exported_name;
use super::counts::by_function;
use super::fold::{Cost, Interner, Spent, fold};
use super::row::Row;
use super::uncertainty::Uncertainties;
use super::{DomainChoice, run};
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::ids::FrameId;
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_names::api_names::ApiNames;
use energy_trace_names::cell_of;
use energy_trace_names::{frame_name, is_nameless};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// The frame that stands for an entry that a damaged recording lacks.
pub const MISSING: &str = "[missing frame]";

/// One function (or one public API name): its row, under the public API name where there is one, and whose code it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// What it spent.
    pub row: Row,
    /// The real name: Python `module.qualname`, native demangled, kernel with `_[k]`.
    pub symbol: String,
    /// Python module, or path of the library; empty where there is none.
    pub module: String,
    /// Source file; empty where unknown.
    pub file: String,
    /// First line of the function where known, else a line that was seen; 0 where unknown.
    pub line: u32,
    /// Kind of frame.
    pub kind: FrameKind,
    /// Whether its row's name is a public name that users call it by.
    pub api: bool,
    /// Build id of the library in hex, where it has one.
    pub build_id: Option<String>,
}

/// What makes two frames one function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity<'a> {
    Api(String),
    Python {
        module: &'a str,
        name: &'a str,
        file: &'a str,
        first_line: u32,
    },
    /// All code of a library without a name is one function.
    Symbol {
        kind: FrameKind,
        module: &'a str,
        name: &'a str,
    },
    Mark(&'a str),
}

/// The function of each frame of a recording.
pub(crate) struct FunctionTable<'a> {
    profile: &'a Profile,
    identities: Interner<Identity<'a>>,
    of_frame: Vec<usize>,
    /// The frame that a function's symbol, file and line are taken from, with its API rule.
    speakers: Vec<Option<(usize, &'a Frame)>>,
    unsampled: usize,
    missing: usize,
}

impl<'a> FunctionTable<'a> {
    /// With frames of one public API name as one function.
    pub(crate) fn new(profile: &'a Profile) -> Self {
        Self::with(profile, |frame| {
            let known = ApiNames::built_in().name_of(frame);
            known
                .map(|api| (api.name.to_owned(), api.rule))
                .or_else(|| exported_name(frame, &profile.public_names).map(|name| (name, usize::MAX)))
        })
    }

    /// With every function under its real name.
    pub(crate) fn of_symbols(profile: &'a Profile) -> Self {
        Self::with(profile, |_| None)
    }

    fn with(profile: &'a Profile, api_name: impl Fn(&Frame) -> Option<(String, usize)>) -> Self {
        let mut identities = Interner::new();
        let unsampled = identities.number(Identity::Mark(SyntheticFrame::Unsampled.name()));
        let missing = identities.number(Identity::Mark(MISSING));
        let mut speakers: Vec<Option<(usize, &Frame)>> = vec![None; 2];
        let mut of_frame = Vec::with_capacity(profile.frames.len());
        for frame in &profile.frames {
            let api = api_name(frame);
            let rule = api.as_ref().map_or(0, |(_, rule)| *rule);
            let number =
                identities.number(api.map_or_else(|| identity(frame), |(name, _)| Identity::Api(name)));
            match speakers.get_mut(number) {
                Some(Some((best, speaker))) if rule < *best => (*best, *speaker) = (rule, frame),
                Some(_) => {}
                None => speakers.push(Some((rule, frame))),
            }
            of_frame.push(number);
        }
        Self { profile, identities, of_frame, speakers, unsampled, missing }
    }

    /// The functions of a row's stack, root first.
    pub(crate) fn path(&self, row: &ProfileRow, path: &mut Vec<usize>) {
        let Some(stack) = row.stack else { return path.push(self.unsampled) };
        let frames = self.profile.frames_of(stack);
        path.extend(
            frames.map(|(frame, _)| self.of_frame.get(frame.index()).copied().unwrap_or(self.missing)),
        );
        if path.is_empty() {
            path.push(self.missing);
        }
    }

    /// How many functions there are; their numbers are below that.
    pub(crate) fn count(&self) -> usize {
        self.identities.labels().len()
    }

    /// The function of a frame.
    pub(crate) fn of(&self, frame: FrameId) -> Option<usize> {
        self.of_frame.get(frame.index()).copied()
    }

    /// The real name of a function.
    pub(crate) fn symbol(&self, number: usize) -> String {
        self.speaker(number).map_or_else(|| self.name(number), frame_name)
    }

    /// Samples in which each function is more than the start of the interpreter: it is the outermost Python frame or inside it, or there is
    /// no Python frame.
    fn beyond_start(&self, profile: &Profile) -> HashMap<usize, u64> {
        let mut inside = HashMap::new();
        let mut path = Vec::new();
        for row in &profile.rows {
            path.clear();
            self.path(row, &mut path);
            let first = path.iter().position(|&number| self.kind(number) == FrameKind::Python).unwrap_or(0);
            let distinct: BTreeSet<usize> = path[first..].iter().copied().fill_set();
            for number in distinct {
                *inside.entry(number).or_default() += row.samples;
            }
        }
        inside
    }

    /// The name under which a function is shown.
    pub(crate) fn name(&self, number: usize) -> String {
        match self.identities.labels().get(number) {
            Some(Identity::Api(name)) => name.clone(),
            Some(Identity::Mark(name)) => (*name).to_owned(),
            _ => self.speaker(number).map_or_else(|| MISSING.to_owned(), frame_name),
        }
    }

    /// What stands behind the name of each.
    pub(crate) fn behind(&self) -> Vec<String> {
        let place = |number| self.speaker(number).map_or_else(String::new, place_of);
        let functions: Vec<_> = (0..self.count()).map(|number| (self.name(number), place(number))).collect();
        suffixes(&functions)
    }

    /// The kind of a function's frames.
    pub(crate) fn kind(&self, number: usize) -> FrameKind {
        self.speaker(number).map_or(FrameKind::Special, |frame| frame.kind)
    }

    fn speaker(&self, number: usize) -> Option<&'a Frame> {
        self.speakers.get(number).copied().flatten().map(|(_, frame)| frame)
    }

    fn function(
        &self,
        number: usize,
        spent: (Spent, Vec<usize>),
        uncertainties: &Uncertainties<'_>,
    ) -> Function {
        let frame = self.speaker(number);
        let text = |field: fn(&Frame) -> &str| frame.map(field).unwrap_or_default().to_owned();
        let mut row = Row::new(self.name(number), spent, uncertainties);
        row.special = self.kind(number) == FrameKind::Special;
        row.place = frame.map(place_of).unwrap_or_default();
        if frame.is_some_and(is_nameless) {
            row.flags.push("no-symbol");
        }
        Function {
            symbol: frame.map_or_else(|| row.name.clone(), frame_name),
            module: text(|frame| &frame.module),
            file: text(|frame| &frame.file),
            line: frame.map_or(0, |frame| if frame.first_line == 0 { frame.line } else { frame.first_line }),
            kind: self.kind(number),
            api: matches!(self.identities.labels().get(number), Some(Identity::Api(_))),
            build_id: frame.and_then(|frame| self.profile.build_ids.get(&frame.module)).cloned(),
            row,
        }
    }
}

/// Where a frame's function lies, as far as other places are other functions.
pub(crate) fn place_of(frame: &Frame) -> String {
    match identity(frame) {
        Identity::Python { file, first_line: 1.., .. } if !file.is_empty() => {
            format!("{file}:{}", frame.first_line)
        }
        _ => file_of(frame).to_owned(),
    }
}

/// The same without its line.
pub(crate) fn file_of(frame: &Frame) -> &str {
    match identity(frame) {
        Identity::Python { file, .. } => file,
        Identity::Symbol { module, .. } => module,
        Identity::Api(_) | Identity::Mark(_) => "",
    }
}

fn identity(frame: &Frame) -> Identity<'_> {
    let Frame { kind, name, module, file, first_line, .. } = frame;
    match kind {
        FrameKind::Python if !name.contains('<') && cell_of(file).is_some() => {
            Identity::Python { module, name, file: "", first_line: 0 }
        }
        FrameKind::Python => Identity::Python { module, name, file, first_line: *first_line },
        FrameKind::Special | FrameKind::Range => Identity::Mark(name),
        FrameKind::Native | FrameKind::Kernel | FrameKind::Gpu | FrameKind::Inlined => {
            let name = if is_nameless(frame) { "" } else { name };
            Identity::Symbol { kind: *kind, module, name }
        }
    }
}

/// All functions that spent time or energy, those with the most energy of their own first.
pub fn functions(profile: &Profile) -> Vec<Function> {
    let table = FunctionTable::new(profile);
    let uncertainties = Uncertainties::new(profile);
    let groups = fold(profile, |row, path| table.path(row, path));
    let inside = table.beyond_start(profile);
    let (calls, behind) = (by_function(profile, &table), table.behind());
    let function = |(number, spent): (usize, (Spent, Vec<usize>))| {
        let mut function = table.function(number, spent, &uncertainties);
        let row = &mut function.row;
        row.inside = behind.get(number).cloned().unwrap_or_default();
        row.calls = calls.get(&number).copied();
        row.starts = only_starts(inside.get(&number).copied().unwrap_or(0), &row.spent);
        function
    };
    let mut functions: Vec<Function> = groups.into_iter().map(function).collect();
    let choice = uncertainties.choice;
    functions.order_by_cached_key(|function| order(choice, &function.row.spent, &function.symbol));
    functions
}

/// Whether a function starts the interpreter in nearly all samples (19 of 20) that have it: before the first Python frame and after the last
/// it is seen without one.
const fn only_starts(beyond: u64, spent: &Spent) -> bool {
    spent.total.samples > 0 && beyond.saturating_mul(20) < spent.total.samples
}

/// Whether a function only starts others, whatever they are: no phase is told by it.
pub(crate) fn is_start(symbol: &str) -> bool {
    let is_of_libc = symbol.starts_with("__libc_start") || symbol.starts_with("clone3");
    is_of_libc || matches!(symbol, "_start" | "start_thread" | "__clone") || symbol.ends_with("<module>")
}

/// Most own energy first, then most energy in total, then most time, then the name.
pub(crate) fn order(choice: DomainChoice, spent: &Spent, name: &str) -> impl Ord + use<> {
    let energy = |cost: &Cost| Reverse(run::chosen(&cost.energy, choice));
    (
        energy(&spent.own),
        energy(&spent.total),
        Reverse(spent.own.time_ns),
        Reverse(spent.total.time_ns),
        name.to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::identity;
    use energy_trace_model::recording::record::{Frame, FrameKind};

    /// A function that two cells of a notebook define is one; the cells' own code, lambdas, and functions of files are not.
    #[test]
    fn functions_of_cells() {
        let frame = |name: &str, file: &str, first_line| Frame {
            kind: FrameKind::Python,
            name: name.to_owned(),
            module: "__main__".to_owned(),
            file: file.to_owned(),
            line: 0,
            first_line,
            address: 0,
        };
        let is_one = |name: &str, files: [&str; 2]| {
            identity(&frame(name, files[0], 1)) == identity(&frame(name, files[1], 2))
        };
        let cells = ["/tmp/ipykernel_47/1.py", "/tmp/ipykernel_47/2.py"];
        assert!(is_one("train", cells) && is_one("Net.forward", cells));
        assert!(!is_one("<module>", cells) && !is_one("<lambda>", cells));
        assert!(!is_one("train", ["/home/me/a.py", "/home/me/b.py"]));
    }
}
