//! What became of a budget, in a line.
//!
//! Leaves out how it is checked (`budgets.rs`).

use crate::budgets::{Checked, Verdict};
use crate::sentences::counters::in_no_number;
use crate::summary_rows::plus_minus;
use energy_trace_model::recording::record::Quality;
use energy_trace_model::units::MicroJoules;

/// `budget exceeded: torch.autograd.backward used 2.41 J of 2 J (±4%)`.
pub fn budget(checked: &Checked) -> String {
    let Checked { budget, used, uncertainty, seen, quality, missing, verdict } = checked;
    let what = budget.call.as_deref().unwrap_or("the program");
    let limit = joules(budget.limit);
    match verdict {
        Verdict::NotJudged => {
            let at_least = seen.then(|| format!("used {} of {limit} at least", joules(*used)));
            let known = at_least.filter(|_| *used > MicroJoules::ZERO).unwrap_or(format!("may use {limit}"));
            let why = missing.as_ref().map(in_no_number).unwrap_or_default();
            format!("budget cannot be judged: {what} {known}; {why}")
        }
        Verdict::NotMeasured => {
            format!("budget cannot be checked: {what} may use {limit}, and no energy was measured")
        }
        _ if !seen => format!("budget kept: {what} may use {limit}, and no sample shows such a call"),
        Verdict::Exceeded | Verdict::Kept => {
            let word = if *verdict == Verdict::Exceeded { "exceeded" } else { "kept" };
            let sure = uncertainty.as_ref().map(|uncertainty| plus_minus(*used, Some(uncertainty)));
            let estimated = (*quality == Some(Quality::Estimated)).then(|| "estimated".to_owned());
            let notes: Vec<String> = estimated.into_iter().chain(sure.filter(|text| text != "-")).collect();
            let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
            format!("budget {word}: {what} used {} of {limit}{notes}", joules(*used))
        }
    }
}

/// To the microjoule, without zeros at the end: who compares two numbers must see that they differ.
fn joules(energy: MicroJoules) -> String {
    let text = format!("{:.6}", energy.as_joules());
    format!("{} J", text.trim_end_matches('0').trim_end_matches('.'))
}
