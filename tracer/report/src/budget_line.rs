//! What became of a budget, in a line.
//!
//! Leaves out how it is checked (`budgets.rs`).

use crate::budgets::{Checked, Verdict, Wide};
use crate::missing::{Missing, NotKnown, Uncharged};
use crate::summary_rows::plus_minus;
use crate::table_cells::in_unit;
use energy_trace_model::recording::record::Quality;
use energy_trace_model::units::MicroJoules;
use energy_trace_sentences as sentences;

/// `budget exceeded: torch.autograd.backward used 2.41 J of 2.00 J (±4%)`.
pub fn budget(checked: &Checked) -> String {
    let Checked { budget, used, seen, verdict, .. } = checked;
    let unknown = checked.unknown.as_ref().map(not_known);
    let of_range = budget.range.as_ref().map(|name| format!("range {name}"));
    let what = of_range.as_deref().or(budget.call.as_deref()).unwrap_or("the program");
    let limit = in_unit(budget.limit.as_joules(), "J");
    match verdict {
        Verdict::NotJudged if unknown.is_none() => {
            let (least, most) = checked.possible.map_or((*used, *used), |of| (of.least, of.most));
            let [least, most] = [least, most].map(|energy| in_unit(energy.as_joules(), "J"));
            let more = match checked.possible.map(|of| of.why) {
                Some(Wide::Model) => {
                    "the range is the power model's: an energy counter tells more, or --model-watts with watts of this machine"
                }
                Some(Wide::Idle) => {
                    "idle power is above all that was measured; leave out --idle-watts, or give less"
                }
                _ => "a longer run on a quieter machine tells more",
            };
            format!(
                "budget cannot be judged: {what} used {least} to {most}, and the limit of {limit} is within that: {more}"
            )
        }
        Verdict::NotJudged => {
            let at_least =
                seen.then(|| format!("used {} of {limit} at least", in_unit(used.as_joules(), "J")));
            let known = at_least.filter(|_| *used > MicroJoules::ZERO).unwrap_or(format!("may use {limit}"));
            format!("budget cannot be judged: {what} {known}; {}", unknown.unwrap_or_default())
        }
        Verdict::NotMeasured => {
            format!(
                "budget cannot be judged: {what} may use {limit}, and no energy was measured; record without --power none"
            )
        }
        Verdict::Unknown if budget.range.is_some() => format!(
            "budget not checked: no sample shows a {what}; record with --ranges or --range-probes, and report with --by range shows names"
        ),
        Verdict::Unknown => unknown_call(what, checked.meant.as_deref()),
        Verdict::Kept if !seen => format!("budget kept: {what} may use {limit}, and no sample shows it"),
        Verdict::Exceeded | Verdict::Kept => {
            let word = if *verdict == Verdict::Exceeded { "exceeded" } else { "kept" };
            let at_most = checked.uncharged > MicroJoules::ZERO && *verdict == Verdict::Kept;
            let (more, most) = if at_most { (checked.uncharged, "at most ") } else { <_>::default() };
            let [used, limit] = told_apart(*used + more, budget.limit);
            format!("budget {word}: {what} used {most}{used} of {limit}{}", notes(checked))
        }
    }
}

fn not_known(of: &NotKnown) -> String {
    match of {
        NotKnown::Gap(of) => in_no_number(of),
        NotKnown::Uncharged(of) => charged_to_nobody(of),
        NotKnown::Cut(Some(ns)) => {
            format!(
                "the recording ends early, {:.2} s after its start: the rest is not known",
                *ns as f64 / 1e9
            )
        }
        NotKnown::Cut(None) => "the recording ends early: the rest is not known".to_owned(),
    }
}

/// `package-0: 1.52 s of 4.90 s are in no number (…)`.
fn in_no_number(of: &Missing) -> String {
    format!("{}: {}", of.domain, sentences::missing(of.ns, of.of_ns, &of.reasons))
}

/// `gpu-0: 141 J are charged to nobody, …`.
fn charged_to_nobody(of: &Uncharged) -> String {
    let energy = in_unit(of.energy.as_joules(), "J");
    let them = if of.domains.len() == 1 { "it" } else { "them" };
    format!(
        "{}: {energy} are charged to nobody, as launches on {them} cannot be recorded (where the program uses no GPU: --gpu off)",
        of.domains.join(", ")
    )
}

fn unknown_call(what: &str, meant: Option<&str>) -> String {
    let meant = meant.map(|name| format!("did you mean {name}? ")).unwrap_or_default();
    format!(
        "budget not checked: no sample shows a call, function or line of the name {what}; {meant}report with --by api shows names; \
         --budget-call-optional is for what a run may be without"
    )
}

/// Where the number comes from, and how sure it is. How much of a model's joules are this call's is what the model takes for granted.
fn notes(checked: &Checked) -> String {
    let is_estimated = checked.quality == Some(Quality::Estimated);
    let sure = checked.uncertainty.as_ref().filter(|_| !is_estimated);
    let sure = sure.map(|uncertainty| plus_minus(checked.used, Some(uncertainty)));
    let estimated = is_estimated.then(|| "estimated".to_owned());
    let notes: Vec<String> = estimated.into_iter().chain(sure.filter(|text| text != "-")).collect();
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) }
}

/// Two energies with three digits; to the microjoule where they differ and that does not show it.
fn told_apart(one: MicroJoules, other: MicroJoules) -> [String; 2] {
    let short = [one, other].map(|energy| in_unit(energy.as_joules(), "J"));
    if short[0] != short[1] || one == other { short } else { [one, other].map(whole) }
}

/// To the microjoule, without zeros at the end.
fn whole(energy: MicroJoules) -> String {
    let text = format!("{:.6}", energy.as_joules());
    format!("{} J", text.trim_end_matches('0').trim_end_matches('.'))
}
