//! What something used by the name that a user typed, as a budget has it: names and labels of the summary and of `report`, whole or elided.
//!
//! In this order: an API call, a function (all of that name, unless its file stands behind it), a line and its call, a line, the end of a
//! function's name. Leaves out limits (`budgets.rs`).

use super::By;
use super::calls::Kind;
use super::fold::{Cost, fold};
use super::functions::{Function, functions};
use super::rows::rows;
use super::run::chosen;
use super::uncertainty::Uncertainties;
use energy_trace_certainty::Uncertainty;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::{CALLS, INSIDE, PARTLY_INSIDE, frame_name, place_name};
use std::collections::BTreeSet;

/// Of a name of so many letters one may be wrong.
const LETTERS_A_SLIP: usize = 5;
/// So many may be wrong in a short one.
const SLIPS: usize = 2;
/// Names of more bytes are not compared letter by letter.
const LONGEST: usize = 300;

/// An energy, and how sure it is.
type Used = (MicroJoules, Option<Uncertainty>);

/// What something of this name used, with all that it called; `None` where no sample shows it.
pub(crate) fn used(profile: &Profile, typed: &str) -> Option<Used> {
    let name = Name::of(typed);
    let uncertainties = Uncertainties::new(profile);
    let energy = |cost: Cost| chosen(&cost.energy, uncertainties.choice);
    let largest = |by: By| {
        let named = rows(profile, by).into_iter().filter(|row| name.is(&row.name));
        let used = named.map(|row| (energy(row.spent.total), row.uncertainty));
        used.max_by_key(|(energy, _)| *energy)
    };
    let of_frames = |is_it: &dyn Fn(&Frame) -> bool| of_frames(profile, &uncertainties, is_it);
    let function = || {
        let all = functions(profile);
        let is_in_file = |Function { row, .. }: &&Function| {
            !row.inside.is_empty() && name.is(&format!("{}{}", row.name, row.inside))
        };
        let mut alike = all.iter().filter(|of| name.is(&of.row.name) || name.is(&of.symbol));
        let found = all.iter().find(is_in_file).or_else(|| alike.next())?;
        // One of several functions of a name would keep a budget that all of them together exceed.
        let several = alike.next().and_then(|_| of_frames(&|frame| name.is(&frame_name(frame))));
        several.or_else(|| Some((energy(found.row.spent.total), found.row.uncertainty)))
    };
    largest(By::Api)
        .or_else(function)
        .or_else(|| largest(By::Call))
        .or_else(|| of_frames(&|frame| name.is(&place_name(frame))))
        .or_else(|| of_frames(&|frame| name.is_place(frame, frame.line)))
        .or_else(|| of_frames(&|frame| name.is_place(frame, frame.first_line)))
        .or_else(|| of_frames(&|frame| name.ends(&frame_name(frame))))
}

/// A name that the profile has and that the user may have meant.
pub(crate) fn meant(profile: &Profile, typed: &str) -> Option<String> {
    let typed = Name::of(typed).text;
    let is_named = |kind| matches!(kind, Some(Kind::Call | Kind::Import));
    let calls = [By::Api, By::Call].into_iter().flat_map(|by| rows(profile, by));
    let calls = calls.filter(|row| is_named(row.kind)).map(|row| row.name);
    let functions = profile.frames.iter().filter(|frame| frame.kind == FrameKind::Python).map(frame_name);
    let all: BTreeSet<String> = calls.chain(functions).fill_set();
    let most = (typed.chars().count() / LETTERS_A_SLIP).max(SLIPS);
    let dots = typed.matches('.').count();
    let near = |name: String| {
        let whole = slips(&typed, bare(&name), most);
        let end = slips(&typed, bare(last_parts(&name, dots)), most);
        Some((whole.into_iter().chain(end).min()?, name))
    };
    all.into_iter().filter_map(near).min().map(|(_, name)| name)
}

/// The end of a name, with so many dots.
fn last_parts(name: &str, dots: usize) -> &str {
    let dot = name.rmatch_indices('.').nth(dots);
    dot.and_then(|(at, _)| name.get(at + 1..)).unwrap_or(name)
}

/// A name as it was typed, without what a summary puts around it.
struct Name {
    text: String,
}

impl Name {
    fn of(typed: &str) -> Self {
        let inside = typed.find(INSIDE.trim_start()).or_else(|| typed.find(PARTLY_INSIDE.trim_start()));
        let name = typed.get(..inside.unwrap_or(typed.len())).unwrap_or(typed);
        let parts: Vec<&str> = name.split("->").flat_map(|part| part.split('→')).map(str::trim).collect();
        Self { text: bare(&parts.join(CALLS)).to_owned() }
    }

    /// Whether a name is this one; what was elided may be anything.
    fn is(&self, name: &str) -> bool {
        let name = bare(name);
        match self.text.split_once('…') {
            None => name == self.text,
            Some((start, end)) => {
                let rest = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
                rest.is_some() && !(start.is_empty() && end.is_empty())
            }
        }
    }

    /// Whether it is this line of a frame's file.
    fn is_place(&self, frame: &Frame, line: u32) -> bool {
        let place = self.text.rsplit_once(':');
        let is_file = |file: &str| frame.file == file || frame.file.ends_with(&format!("/{file}"));
        let is_line = |text: &str| text.parse() == Ok(line);
        line > 0 && place.is_some_and(|(file, text)| !file.is_empty() && is_line(text) && is_file(file))
    }

    /// Whether a function's name ends with it, behind its module or class.
    fn ends(&self, function: &str) -> bool {
        let before = bare(function).strip_suffix(&self.text);
        !self.text.is_empty() && before.is_some_and(|before| before.ends_with('.') || before.ends_with("::"))
    }
}

/// A constructor is `torch.optim.Adam()` in reports, and typed without the brackets.
fn bare(name: &str) -> &str {
    name.trim().trim_end_matches("()")
}

/// What all stacks with such a frame used; `None` where there is none.
fn of_frames(
    profile: &Profile,
    uncertainties: &Uncertainties<'_>,
    is_it: &dyn Fn(&Frame) -> bool,
) -> Option<Used> {
    let fits: Vec<bool> = profile.frames.iter().map(is_it).collect();
    let has_one = |stack| profile.frames_of(stack).any(|(id, _)| fits.get(id.index()) == Some(&true));
    let groups =
        fold(profile, |row, path| path.extend(row.stack.filter(|stack| has_one(*stack)).map(|_| ())));
    let (spent, rows) = groups.into_values().next()?;
    let energy = chosen(&spent.total.energy, uncertainties.choice);
    Some((energy, uncertainties.uncertainty(&spent.total, &rows)))
}

/// How many letters were left out, added, replaced or swapped with their neighbour; `None` for more than `most`.
fn slips(typed: &str, meant: &str, most: usize) -> Option<usize> {
    let [typed, meant] = [typed, meant].map(str::to_lowercase);
    let is_near = typed.len().abs_diff(meant.len()) <= 4 * most && typed.len().max(meant.len()) <= LONGEST;
    is_near.then(|| strsim::osa_distance(&typed, &meant)).filter(|slips| *slips <= most)
}

#[cfg(test)]
mod tests {
    use super::{meant, slips, used};
    use crate::tests::training_runs::measured_training;

    fn joules(name: &str) -> Option<f64> {
        used(&measured_training(), name).map(|(energy, _)| energy.as_joules())
    }

    /// Every label that a report prints of a call, a line or a function names it, with and without what surrounds it there.
    #[test]
    fn labels_are_names() {
        let backward = joules("torch.autograd.backward");
        assert!(backward.is_some());
        for label in [
            "torch.autograd.backward()",
            "torch_train.py:22 → torch.autograd.backward",
            "torch_train.py:22 → …backward",
            "torch_train.py:22->torch.autograd.backward()  (in :20)",
            "…autograd.backward",
            "torch.autograd.backward __init__.py:103",
        ] {
            assert_eq!(joules(label), backward, "{label}");
        }
        let forward = joules("torch_train.Net.forward");
        for label in
            ["Net.forward", "forward", "torch_train.Net.forward torch_train.py:9", "torch_train.py:11"]
        {
            assert_eq!(joules(label), forward, "{label}");
        }
        assert_eq!(joules("examples/torch_train.py:22"), joules("torch_train.train"));
        assert_eq!(joules("torch_train.py:9"), forward);
        for unknown in ["", "…", "torch", "ward", "torch_train.py:23", "x.py:22", "torch_train.py:", ":22"]
        {
            assert_eq!(joules(unknown), None, "{unknown}");
        }
    }

    /// A slip of a finger is answered with the name; what resembles nothing is not.
    #[test]
    fn did_you_mean() {
        let run = measured_training();
        let of = |typed| meant(&run, typed);
        assert_eq!(of("torch.autograd.bakcward").as_deref(), Some("torch.autograd.backward"));
        assert_eq!(of("Torch.nn.module.__call__").as_deref(), Some("torch.nn.Module.__call__"));
        assert_eq!(
            of("torch_train.py:23 → torch.autograd.backward").as_deref(),
            Some("torch_train.py:22 → torch.autograd.backward")
        );
        assert_eq!(of("Net.fordward").as_deref(), Some("torch_train.Net.forward"));
        assert_eq!(of("numpy.linalg.svd"), None);
        assert_eq!(
            (slips("Adma", "adam", 2), slips("ab", "abcde", 2), slips("", "", 0)),
            (Some(1), None, Some(0))
        );
    }
}
