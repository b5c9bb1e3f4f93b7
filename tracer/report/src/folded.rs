//! Folded stacks: one line a stack, root first, `process;thread;frame;frame weight`, the weight in whole microjoules.
//!
//! The lines are the program's, and sum to what it was charged with. What was measured beside it can stand beside it, as roots of its own
//! (`rest.rs`); with all of it the lines sum to what the domains measured, exactly.
//!
//! A weight below zero cannot be drawn, and readers of the format refuse it. Equal lines are added up first; what is still negative is
//! left out and counted in a comment at the end, with the difference that this makes: drawn - left out = measured. Lines of zero are
//! left out too; they change no sum.

use super::apart::told_apart;
use super::functions::MISSING;
use super::rest::{self, Rest};
use super::{DomainChoice, run};
use energy_trace_model::ids::{StackId, ThreadKey};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::FrameKind;
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::short_names;
use energy_trace_names::shown::{is_hidden, shown};
use energy_trace_names::{frame_name, process_name, thread_name};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Which of a stack's holders stand below its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Per {
    /// Process and thread.
    #[default]
    Thread,
    /// The process.
    Process,
    /// None: stacks of all threads together.
    None,
}

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldedOptions {
    /// The energy that weights are of.
    pub domain: DomainChoice,
    /// Without the arguments of templates.
    pub short_names: bool,
    /// Which frames of native code are kept.
    pub native_frames: NativeFrames,
    /// Which roots stacks have.
    pub per: Per,
    /// What stands beside the program.
    pub rest: Rest,
}

/// Writes folded stacks, sorted by frame.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &FoldedOptions) -> io::Result<()> {
    let profile = short_names::chosen(profile, options.short_names);
    let profile = native_frames::folded(&profile, options.native_frames);
    let selection =
        Selection { domain: options.domain, per: options.per, rest: options.rest, by_callee: false };
    let folded = Folded::new(&profile, &selection, told_apart(&profile, frame_name));
    for line in &folded.lines {
        writeln!(out, "{} {}", line.stack(), line.energy.as_uj())?;
    }
    let nothing = profile.ledger.is_empty().then(|| "no energy was recorded".to_owned());
    for note in folded.note().into_iter().chain(nothing) {
        writeln!(out, "# energy-trace: {note}")?;
    }
    Ok(())
}

/// Which stacks of a profile are taken, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) domain: DomainChoice,
    pub(crate) per: Per,
    pub(crate) rest: Rest,
    /// Innermost frame first, so that stacks merge by who spent the energy.
    pub(crate) by_callee: bool,
}

/// A frame of a folded stack: its kind (for colour) and its text, which holds no separator of the format.
pub type Label<'a> = (LabelKind, Cow<'a, str>);

/// What a label of a folded stack stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelKind {
    /// A process or thread.
    Holder,
    /// A frame of its stack.
    Frame(FrameKind),
    /// A part of the ledger that no stack was charged with.
    Ledger,
}

/// One stack with its energy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) labels: Vec<Label<'a>>,
    pub(crate) energy: MicroJoules,
    /// CPU time that the energy was spent in; for a part of the ledger, the time over which it counts.
    pub(crate) time_ns: u64,
    /// The part of the energy that was spent in this time: of a stack, what is not a GPU's.
    pub(crate) timed: MicroJoules,
    /// The rows of the profile that it holds.
    pub(crate) rows: Vec<usize>,
}

impl Line<'_> {
    /// The labels, joined as the format wants them.
    pub(crate) fn stack(&self) -> String {
        let labels: Vec<&str> = self.labels.iter().map(|(_, text)| text.as_ref()).collect();
        labels.join(";")
    }
}

/// What stands behind equal labels, as in `Line`.
#[derive(Debug, Default)]
struct Sum {
    energy: MicroJoules,
    timed: MicroJoules,
    time_ns: u64,
    rows: Vec<usize>,
}

type Sums<'a> = BTreeMap<Vec<Label<'a>>, Sum>;

/// All stacks of a choice of domains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Folded<'a> {
    /// Stacks with energy above zero, sorted by their labels, so that stacks that share a root are next to each other.
    pub(crate) lines: Vec<Line<'a>>,
    /// How many stacks had energy below zero and are not among the lines.
    pub(crate) negative: usize,
    /// Their energy together: zero or less.
    pub(crate) negative_energy: MicroJoules,
}

impl<'a> Folded<'a> {
    /// `names`: those of the profile's frames.
    pub(crate) fn new(profile: &'a Profile, selection: &Selection, names: Vec<String>) -> Self {
        let domain = selection.domain;
        let frames: Vec<Label<'a>> = (profile.frames.iter().zip(names))
            .map(|(frame, name)| (LabelKind::Frame(frame.kind), escape(name.into())))
            .collect();
        let mut sums = Sums::new();
        for (number, row) in profile.rows.iter().enumerate() {
            let holder = row.on_behalf_of.unwrap_or(row.thread);
            let sum = sums.entry(labels(profile, &frames, holder, row.stack, selection)).or_default();
            sum.energy += run::chosen(&row.energy, domain);
            sum.timed += run::of_cpus(&row.energy, domain);
            sum.time_ns = sum.time_ns.saturating_add(row.time_ns);
            sum.rows.push(number);
        }
        for (names, energy, time_ns) in rest::parts(profile, domain, selection.rest) {
            let labels = names.into_iter().map(|name| (LabelKind::Ledger, escape(name.into())));
            sums.insert(labels.collect(), Sum { energy, timed: energy, time_ns, rows: vec![] });
        }
        Self::of(sums)
    }

    fn of(sums: Sums<'a>) -> Self {
        let mut folded = Self { lines: Vec::new(), negative: 0, negative_energy: MicroJoules::ZERO };
        for (labels, Sum { energy, timed, time_ns, rows }) in sums {
            if energy > MicroJoules::ZERO {
                folded.lines.push(Line { labels, energy, time_ns, timed, rows });
            } else if energy < MicroJoules::ZERO {
                folded.negative += 1;
                folded.negative_energy += energy;
            }
        }
        folded
    }

    /// The energy of all lines together.
    pub(crate) fn drawn(&self) -> MicroJoules {
        self.lines.iter().map(|line| line.energy).sum()
    }

    /// Says what was left out, where anything was. Does not end with a number, so that no reader takes it for a stack.
    pub(crate) fn note(&self) -> Option<String> {
        let (drawn, left) = (self.drawn().as_uj(), self.negative_energy.as_uj());
        let stacks = if self.negative == 1 { "stack" } else { "stacks" };
        (self.negative > 0).then(|| {
            let measured = drawn.saturating_add(left);
            format!(
                "{} {stacks} with energy below zero left out, {left} µJ together: {drawn} µJ drawn, {measured} µJ measured",
                self.negative
            )
        })
    }
}

/// The labels of a thread's stack: process and thread as far as they are asked for, then frames; or all of it the other way round.
fn labels<'a>(
    profile: &'a Profile,
    frames: &[Label<'a>],
    thread: ThreadKey,
    stack: Option<StackId>,
    selection: &Selection,
) -> Vec<Label<'a>> {
    let mut labels = holders(profile, thread, selection.per);
    let mark = |name: &'static str| (LabelKind::Frame(FrameKind::Special), Cow::Borrowed(name));
    match stack {
        None => labels.push(mark(SyntheticFrame::Unsampled.name())),
        Some(stack) => labels.extend(
            profile
                .ranges_of(stack)
                .chain(profile.frames_of(stack))
                .map(|(id, _)| frames.get(id.index()).cloned().unwrap_or_else(|| mark(MISSING))),
        ),
    }
    if labels.is_empty() {
        labels.push(mark(MISSING));
    }
    if selection.by_callee {
        labels.reverse();
    }
    labels
}

fn holders(profile: &Profile, thread: ThreadKey, per: Per) -> Vec<Label<'_>> {
    let thread = profile.threads.get(thread.index());
    let process = thread.and_then(|thread| profile.processes.get(thread.process.index()));
    let names = match per {
        Per::Thread => vec![process_name(process), thread_name(thread)],
        Per::Process => vec![process_name(process)],
        Per::None => vec![],
    };
    let part = process.and_then(|process| profile.label_of(process.key));
    part.into_iter().chain(names).map(|name| (LabelKind::Holder, escape(Cow::Borrowed(name)))).collect()
}

/// Makes a name safe between the separators of the format: `;` divides frames, white space before a number divides the weight, and a
/// line that begins with `#` is a comment.
pub(crate) fn escape(name: Cow<'_, str>) -> Cow<'_, str> {
    let name = match name {
        name if name.contains([';', '#']) || name.contains(is_hidden) => Cow::Owned(replaced(&name)),
        name => name,
    };
    let trimmed = name.trim();
    if trimmed.is_empty() {
        return Cow::Borrowed("[no name]");
    }
    let is_number = |word: &str| word.parse::<f64>().is_ok();
    match trimmed.rsplit_once(char::is_whitespace) {
        Some((start, last)) if is_number(last) => Cow::Owned(format!("{}_{last}", start.trim_end())),
        _ if trimmed.len() == name.len() => name,
        _ => Cow::Owned(trimmed.to_owned()),
    }
}

/// `;` as `:`, a leading `#` as `_`, control characters and their like written out.
fn replaced(name: &str) -> String {
    let replace = |(at, c): (usize, char)| match c {
        ';' => ':',
        '#' if at == 0 => '_',
        c => c,
    };
    shown(name).char_indices().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::{Folded, LabelKind, MicroJoules, Sum, escape};
    use std::collections::BTreeMap;

    /// No name can be taken for a separator, a weight or a comment.
    #[test]
    fn separators_are_escaped() {
        let escaped = |name: &'static str| escape(name.into()).into_owned();
        assert_eq!(escaped("fn([u8; 8])"), "fn([u8: 8])");
        assert_eq!(escaped("conv 3"), "conv_3");
        assert_eq!(escaped("conv 3 4"), "conv 3_4");
        assert_eq!(escaped("# not a comment"), "_ not a comment");
        assert_eq!(escaped(" a\nb\t"), "a\\x0ab\\x09");
        assert_eq!(escaped(" "), "[no name]");
        assert_eq!(escaped("operator new(unsigned long)"), "operator new(unsigned long)");
    }

    /// Energy below zero is left out and said: drawn plus left out is what was measured.
    #[test]
    fn negative_energy_is_said() {
        let entry = |name: &'static str, uj| {
            let energy = MicroJoules::from_uj(uj);
            (vec![(LabelKind::Ledger, name.into())], Sum { energy, ..Sum::default() })
        };
        let folded = Folded::of(BTreeMap::from([entry("a", 100), entry("b", -7), entry("c", 0)]));
        assert_eq!(folded.lines.len(), 1);
        let note = folded.note().unwrap();
        assert_eq!(
            note,
            "1 stack with energy below zero left out, -7 µJ together: 100 µJ drawn, 93 µJ measured"
        );
        assert!(note.split(' ').next_back().unwrap().parse::<f64>().is_err());
    }
}
