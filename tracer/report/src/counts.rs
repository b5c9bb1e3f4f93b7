//! Calls that were counted, and what one cost: by function, and by the public name of what is called.
//!
//! A mean alone: a counter is read every twenty milliseconds, so that the joules of a single call are not to be had. What is divided is the
//! total energy of all stacks that the function is in, whoever called it, as all its calls are counted. Leaves out counting.

use super::calls::CallTable;
use super::fold::{Cost, fold};
use super::functions::FunctionTable;
use super::{DomainChoice, run};
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::FrameId;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{
    CallCount, CallDiagnostic, CallTimes, Frame, FrameKind, PythonNotCounted, RecordingDiagnostic,
};
use energy_trace_names::api_names::ApiNames;
use energy_trace_names::frame_name;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Names all calls of which go through the function that the name means, by its rule in the table of names.
const THROUGH_ONE: [&str; 2] = ["torch.autograd.backward", "torch.nn.Module.__call__"];

/// Functions that a warning names.
const MOST_NAMED: usize = 3;

/// Calls of one function, or of several of one public name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsMade {
    /// All of them.
    pub calls: u64,
    /// Those within another call of the same function by the same thread.
    pub nested: u64,
    /// How long they took by the clock, where that is known.
    pub times: Option<CallTimes>,
    /// What was spent in all stacks that have the function.
    pub cost: Cost,
    /// Whether there may have been more: they were counted late, or not all were told.
    pub at_least: bool,
}

impl CallsMade {
    /// Calls that are not within another one.
    pub const fn outermost(&self) -> u64 {
        self.calls.saturating_sub(self.nested)
    }

    /// Microjoules of one call on average, at the most where more calls may have been made; `None` where there was none, or no sample shows
    /// it: that is not nothing.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn uj_per_call(&self, choice: DomainChoice) -> Option<f64> {
        let energy = run::chosen(&self.cost.energy, choice).as_uj();
        (self.outermost() > 0 && self.cost.samples > 0).then(|| energy as f64 / self.outermost() as f64)
    }
}

/// A function that was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountedFunction {
    pub(crate) frame: FrameId,
    /// Its public name, where it has one.
    pub(crate) api: Option<String>,
    pub(crate) made: CallsMade,
}

/// What was counted, by the number of a function's symbol.
struct Counted<'a> {
    profile: &'a Profile,
    symbols: FunctionTable<'a>,
    of: BTreeMap<usize, (FrameId, CallsMade)>,
}

impl<'a> Counted<'a> {
    fn new(profile: &'a Profile) -> Self {
        let symbols = FunctionTable::of_symbols(profile);
        let mut of: BTreeMap<usize, (FrameId, CallsMade)> = BTreeMap::new();
        let missed = missed(profile);
        for count in &profile.calls {
            let Some(number) = symbols.of(count.frame) else { continue };
            let (_, made) = of.entry(number).or_insert((count.frame, CallsMade::default()));
            made.calls = made.calls.saturating_add(count.calls);
            made.nested = made.nested.saturating_add(count.nested);
            made.times = count.times.filter(|_| made.calls == count.calls);
            made.at_least |=
                frame_of(profile, count).is_some_and(|frame| missed.iter().any(|of| of.is_of(frame)));
        }
        Self { profile, symbols, of }
    }

    /// Adds what was spent in the stacks of each group of functions, each stack once.
    fn costs(&self, group: impl Fn(usize) -> Option<usize>) -> HashMap<usize, Cost> {
        let groups = fold(self.profile, |row, path| {
            self.symbols.path(row, path);
            *path = path.iter().filter_map(|&number| group(number)).collect();
        });
        groups.into_iter().map(|(group, (spent, _))| (group, spent.total)).collect()
    }
}

/// Whose calls may be missing.
enum Missed<'a> {
    Library(&'a str),
    Python,
}

impl Missed<'_> {
    fn is_of(&self, frame: &Frame) -> bool {
        match self {
            Self::Library(file) => {
                frame.kind != FrameKind::Python && frame.module.rsplit('/').next() == Some(file)
            }
            Self::Python => frame.kind == FrameKind::Python,
        }
    }
}

fn missed(profile: &Profile) -> Vec<Missed<'_>> {
    let found = profile.run.summary.iter().flat_map(|summary| &summary.diagnostics);
    let missed = |found| match found {
        &RecordingDiagnostic::Calls(CallDiagnostic::Late { ref library, .. }) => {
            Some(Missed::Library(library))
        }
        RecordingDiagnostic::Calls(CallDiagnostic::PythonNotCounted(PythonNotCounted::Untold { .. })) => {
            Some(Missed::Python)
        }
        _ => None,
    };
    found.filter_map(missed).collect()
}

/// Whether more of these calls may have been made.
pub(crate) fn may_be_more(profile: &Profile, counts: &[&CallCount]) -> bool {
    let missed = missed(profile);
    let mut frames = counts.iter().filter_map(|count| frame_of(profile, count));
    frames.any(|frame| missed.iter().any(|of| of.is_of(frame)))
}

fn frame_of<'a>(profile: &'a Profile, count: &CallCount) -> Option<&'a Frame> {
    profile.frames.get(count.frame.index())
}

/// What was found, with the functions of a library that was probed late and their calls.
pub(crate) fn with_functions(found: RecordingDiagnostic, profile: &Profile) -> RecordingDiagnostic {
    let RecordingDiagnostic::Calls(CallDiagnostic::Late { library, pid, late_ns }) = found else {
        return found;
    };
    let is_there = |count: &&CallCount| {
        frame_of(profile, count).is_some_and(|frame| Missed::Library(&library).is_of(frame))
    };
    let mut counts: Vec<&CallCount> = profile.calls.iter().filter(is_there).collect();
    counts.order_by_key(|count| std::cmp::Reverse(count.calls));
    let named = |count: &&CallCount| {
        Some(format!("{} (at least {})", frame_name(frame_of(profile, count)?), count.calls))
    };
    let mut names: Vec<String> = counts.iter().take(MOST_NAMED).filter_map(named).collect();
    let more = counts.len().saturating_sub(MOST_NAMED);
    names.extend((more > 0).then(|| format!("{more} more")));
    let library = if names.is_empty() { library } else { format!("{} in {library}", names.join(", ")) };
    RecordingDiagnostic::Calls(CallDiagnostic::Late { library, pid, late_ns })
}

/// Every function that was counted, those with the most calls first.
pub(crate) fn counted(profile: &Profile) -> Vec<CountedFunction> {
    if profile.calls.is_empty() {
        return Vec::new();
    }
    let (counted, names) = (Counted::new(profile), CallTable::new(profile));
    let costs = counted.costs(|number| counted.of.contains_key(&number).then_some(number));
    let function = |(number, (frame, made)): (&usize, &(FrameId, CallsMade))| CountedFunction {
        frame: *frame,
        api: names.public_name(*frame).map(str::to_owned),
        made: CallsMade { cost: costs.get(number).copied().unwrap_or_default(), ..*made },
    };
    let mut functions: Vec<CountedFunction> = counted.of.iter().map(function).collect();
    functions.order_by_key(|function| std::cmp::Reverse(function.made.calls));
    functions
}

/// Calls by public name. Of a Python function and what it calls the first is meant, of a built-in function and its operators the function.
pub fn by_api(profile: &Profile) -> HashMap<String, CallsMade> {
    if profile.calls.is_empty() {
        return HashMap::new();
    }
    let (counted, names) = (Counted::new(profile), CallTable::new(profile));
    let mut of_name: BTreeMap<&str, BTreeMap<u8, Vec<usize>>> = BTreeMap::new();
    for (&number, &(frame, _)) in &counted.of {
        if let Some(name) = names.public_name(frame) {
            of_name.entry(name).or_default().entry(rank(profile, frame)).or_default().push(number);
        }
    }
    // Two Python functions of one name may call each other: nobody knows how many calls that makes.
    let is_sure = |rank: u8, functions: &[usize]| rank > 0 || functions.len() == 1;
    let chosen: Vec<(&str, Vec<usize>)> = of_name
        .into_iter()
        .filter_map(|(name, ranks)| ranks.into_iter().next().map(|(rank, functions)| (name, rank, functions)))
        .map(|(name, rank, functions)| (name, rank, through_one(name, functions, &counted)))
        .filter(|(_, rank, functions)| is_sure(*rank, functions))
        .map(|(name, _, functions)| (name, functions))
        .collect();
    let group_of: HashMap<usize, usize> = chosen
        .iter()
        .enumerate()
        .flat_map(|(group, (_, functions))| functions.iter().map(move |&number| (number, group)))
        .collect();
    let costs = counted.costs(|number| group_of.get(&number).copied());
    let made = |(group, (name, functions)): (usize, &(&str, Vec<usize>))| {
        let all = functions.iter().filter_map(|number| counted.of.get(number)).map(|(_, made)| made);
        let mut sum = all.fold(CallsMade::default(), |sum, made| CallsMade {
            calls: sum.calls.saturating_add(made.calls),
            nested: sum.nested.saturating_add(made.nested),
            times: made.times.filter(|_| functions.len() == 1),
            at_least: sum.at_least || made.at_least,
            ..sum
        });
        sum.cost = costs.get(&group).copied().unwrap_or_default();
        ((*name).to_owned(), sum)
    };
    chosen.iter().enumerate().map(made).collect()
}

/// The calls of a name: those of its public name, else the function's own. `None` where none was counted.
pub(crate) fn calls_named(profile: &Profile, name: &str) -> Option<CallsMade> {
    let public = by_api(profile).get(name).copied();
    let is_meant = |of: &CountedFunction| {
        profile.frames.get(of.frame.index()).is_some_and(|frame| frame_name(frame) == name)
    };
    let own = || counted(profile).into_iter().find(is_meant).map(|of| of.made);
    public.or_else(own).filter(|made| made.outermost() > 0)
}

/// Of functions of one name that all call the same one, that one.
fn through_one(name: &str, functions: Vec<usize>, counted: &Counted<'_>) -> Vec<usize> {
    if !THROUGH_ONE.contains(&name) {
        return functions;
    }
    let rule = |number: &usize| {
        let frame = counted.profile.frames.get(counted.of.get(number)?.0.index())?;
        ApiNames::built_in().name_of(frame).map(|api| api.rule)
    };
    functions
        .into_iter()
        .filter_map(|number| Some((rule(&number)?, number)))
        .min()
        .map(|(_, number)| number)
        .into_iter()
        .collect()
}

/// Which functions of one public name are meant: the lowest.
fn rank(profile: &Profile, frame: FrameId) -> u8 {
    match profile.frames.get(frame.index()) {
        Some(frame) if frame.kind == FrameKind::Python => 0,
        Some(frame) if frame.name.starts_with("at::_ops::") => 2,
        _ => 1,
    }
}

/// Calls by the numbers of a table of functions: of a row of several functions those of the one that it is shown as.
pub(crate) fn by_function(profile: &Profile, table: &FunctionTable<'_>) -> HashMap<usize, CallsMade> {
    if profile.calls.is_empty() {
        return HashMap::new();
    }
    let counted = Counted::new(profile);
    let costs = counted.costs(|number| counted.of.contains_key(&number).then_some(number));
    let mut made = HashMap::new();
    let mut taken = BTreeSet::new();
    for (number, (frame, calls)) in &counted.of {
        let Some(function) = table.of(*frame) else { continue };
        let is_shown = table.symbol(function) == counted.symbols.symbol(*number);
        if is_shown && taken.insert(function) {
            made.insert(
                function,
                CallsMade { cost: costs.get(number).copied().unwrap_or_default(), ..*calls },
            );
        }
    }
    made
}
