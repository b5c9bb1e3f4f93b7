//! The difference as a flame graph: width is the second side's energy, colour what changed, and by how much.
//!
//! Coloured are stacks of functions alone that the comparison of the sets marks: red for more, blue for less. Weights are microjoules of a
//! run, or of a unit of work, means of each side. Leaves out stacks that the second side does not have: the subtitle counts their joules.

use super::apart::PathDepths;
use super::diff::{Change, Comparison, DiffOptions, worst_quality};
use super::diff_parts::{called, keys};
use super::flame_rectangles::two_sides;
use super::folded::{Folded, Per, Selection, escape};
use super::rest::Rest;
use super::{ReportError, run};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Quality;
use energy_trace_names::native_frames;
use energy_trace_names::shorten_end;
use energy_trace_names::shown::shown;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// Characters of what was recorded, so that the joules behind it are in the picture.
const MOST_OF_TITLE: usize = 60;

/// Mean microjoules of a stack on both sides, and whether its innermost function is marked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stack {
    sides: [f64; 2],
    marked: bool,
}

/// Writes the differential flame graph as SVG.
///
/// # Errors
/// When the writer refuses, and when the second side has no energy to draw.
pub fn write(
    out: &mut dyn Write,
    compared: &Comparison<'_>,
    options: &DiffOptions<'_>,
) -> Result<(), ReportError> {
    let stacks = stacks(compared, options);
    let lines: Vec<String> = stacks.iter().filter_map(|(stack, of)| line(stack, of)).collect();
    if lines.is_empty() {
        let domain = compared.sides[1].first().map(run::headline).unwrap_or_default();
        return Err(ReportError::NoEnergy { domain, measured: !compared.sides[1].is_empty() });
    }
    two_sides(out, title(compared), subtitle(compared, &stacks), &lines)
}

/// A stack's line: its weight before, which is that after where nothing is known to have changed, and after.
fn line(stack: &str, of: &Stack) -> Option<String> {
    let [before, after] = of.sides.map(whole);
    let before = if of.marked { before } else { after };
    (after > 0).then(|| format!("{stack} {before} {after}"))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates; for showing")]
fn whole(uj: f64) -> u64 {
    uj.round() as u64
}

/// Both sides by stack; the mean of each side.
fn stacks(compared: &Comparison<'_>, options: &DiffOptions<'_>) -> BTreeMap<String, Stack> {
    let marked: BTreeSet<String> = (compared.changes.iter())
        .filter(|change| change.is_real())
        .filter_map(|change| change.name.as_deref())
        .map(|name| escape(name.into()).into_owned())
        .fill_set();
    let known = compared.changes.iter().filter_map(|change| change.name.as_deref()).fill_set();
    let mut stacks: BTreeMap<String, Stack> = BTreeMap::new();
    for (side, (runs, work)) in compared.sides.iter().zip(&compared.work).enumerate() {
        for (profile, work) in runs.iter().zip(work) {
            add_run(
                &mut stacks,
                profile,
                options,
                (side, work * runs.len() as f64),
                (&marked, &known, &compared.depths),
            );
        }
    }
    stacks
}

fn add_run(
    stacks: &mut BTreeMap<String, Stack>,
    profile: &Profile,
    options: &DiffOptions<'_>,
    (side, divisor): (usize, f64),
    (marked, known, depths): (&BTreeSet<String>, &BTreeSet<&str>, &PathDepths),
) {
    let profile = &*native_frames::folded(profile, options.native_frames);
    let selection =
        Selection { domain: run::headline(profile), per: Per::None, rest: Rest::default(), by_callee: false };
    let names = keys(profile, depths).iter().map(|key| called(key, known).to_owned()).collect();
    for line in Folded::new(profile, &selection, names).lines {
        let innermost = line.labels.last().is_some_and(|(_, name)| marked.contains(name.as_ref()));
        let stack = stacks.entry(line.stack()).or_default();
        stack.sides[side] += line.energy.as_uj() as f64 / divisor;
        stack.marked |= innermost;
    }
}

fn title(compared: &Comparison<'_>) -> String {
    let what = compared.sides[1].first().map_or_else(String::new, run::what_was_recorded);
    let [a, b] = compared.changes.first().map_or([0.0; 2], |whole| whole.sides.map(|side| side.joules));
    let estimated = compared.sides.iter().any(|side| worst_quality(side) == Some(Quality::Estimated));
    let word = if estimated { ", estimated" } else { "" };
    // Joules are the answer: what was recorded has the room that they leave.
    format!("{}: {b:.3} J, {a:.3} J before{word}", shorten_end(&shown(&what), MOST_OF_TITLE))
}

/// What colours mean, and what is not drawn.
fn subtitle(compared: &Comparison<'_>, stacks: &BTreeMap<String, Stack>) -> String {
    let gone = stacks.values().filter(|of| whole(of.sides[1]) == 0).map(|of| of.sides[0]).sum::<f64>() / 1e6;
    let gone = format!("{gone:.3} J of stacks that are gone are not drawn");
    let marked = compared.changes.iter().skip(1).filter(|change| Change::is_real(change)).count();
    let known = compared.sides.iter().all(|side| side.len() > 1);
    match marked {
        0 if !known => format!("one run of a side does not show what changed: nothing is coloured; {gone}"),
        0 => format!("nothing changed by more than chance explains; {gone}"),
        count => format!(
            "coloured: functions that changed by more than chance explains ({count}); red more, blue less; {gone}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Stack, line, write};
    use crate::By;
    use crate::diff::{DiffOptions, Divisor, compare};
    use crate::tests::training_runs::measured_training;
    use energy_trace_model::profile::Profile;
    use energy_trace_model::recording::record::DomainClass;
    use energy_trace_model::units::MicroJoules;
    use energy_trace_names::native_frames::NativeFrames;

    const OPTIONS: DiffOptions<'_> = DiffOptions {
        files: [&[]; 2],
        commands: [&[]; 2],
        work: Divisor::Counts([1.0; 2]),
        by: By::Function,
        native_frames: NativeFrames::Libraries,
        rows: 5,
        color: false,
        width: None,
    };

    fn drawn(before: &[Profile], after: &[Profile]) -> String {
        let mut out = Vec::new();
        write(&mut out, &compare([before, after], &OPTIONS).unwrap(), &OPTIONS).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The colours of the rectangles that are neither the white of what did not change nor the page's own black.
    fn colours(svg: &str) -> Vec<&str> {
        let fills = svg.split("fill=\"rgb(").skip(1).filter_map(|rest| rest.split(')').next());
        fills.filter(|rgb| !["250,250,250", "0,0,0"].contains(rgb)).collect()
    }

    /// Of sets the function that changed is coloured alone, red for more and blue for less; of single runs none is.
    #[test]
    fn only_what_changed_is_coloured() {
        let before = [measured_training(), measured_training()];
        let mut hot = measured_training();
        let more = MicroJoules::from_uj(hot.rows[7].energy[DomainClass::Package].as_uj());
        hot.rows[7].energy[DomainClass::Package] += more;
        hot.ledger[0].target += more;
        hot.ledger[0].measured += more;
        let after = [hot.clone(), hot];
        let (red, blue) = (drawn(&before, &after), drawn(&after, &before));
        let reds = colours(&red);
        assert!(!reds.is_empty() && reds.iter().all(|rgb| rgb.starts_with("255,")), "{reds:?}");
        let blues = colours(&blue);
        assert!(!blues.is_empty() && blues.iter().all(|rgb| rgb.ends_with(",255")), "{blues:?}");
        assert_eq!(reds.len(), blues.len());
        assert_eq!(colours(&drawn(&before[..1], &after[..1])), [""; 0]);
        assert_eq!(colours(&drawn(&before, &before)), [""; 0]);
    }

    /// A long command line leaves room for the joules.
    #[test]
    fn titles_are_shortened() {
        let mut long = measured_training();
        long.run.header.command = vec!["python3".into(), "x".repeat(3_000)];
        let drawn = drawn(&[measured_training()], &[long]);
        let title = drawn.split("<text id=\"title\"").nth(1).unwrap().split("</text>").next().unwrap();
        assert!(title.contains("xx…: ") && title.contains(" J before"), "{title}");
        assert!(title.len() < 250, "{title}");
    }

    /// What is not marked has one weight; what the second side lacks has no line.
    #[test]
    fn lines() {
        let of = |sides, marked| line("a;b", &Stack { sides, marked });
        assert_eq!(of([1.0, 3.4], true).unwrap(), "a;b 1 3");
        assert_eq!(of([1.0, 3.4], false).unwrap(), "a;b 3 3");
        assert_eq!(of([5.0, 0.2], true), None);
    }
}
