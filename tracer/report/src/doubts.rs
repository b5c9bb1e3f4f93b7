//! What the reader should know before believing a number, each with what to do about it.
//!
//! Gathers the recording's and the attribution's own warnings and adds those that only show in the whole: lost samples, time without
//! samples, an energy that no domain measured. Leaves out how sure each single number is (`sampling_error.rs`, flags).

use super::{DomainChoice, run};
use energy_trace_model::ids::StackId;
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::marks::UNSAMPLED;
use energy_trace_model::recording::record::{DomainClass, FrameKind, Quality, Warning};
use energy_trace_model::units::MicroJoules;

/// All doubts: the recording's, the attribution's, then those about the whole. One text is said once.
pub(crate) fn doubts(profile: &Profile) -> Vec<Warning> {
    let recorded = profile.run.summary.iter().flat_map(|summary| summary.warnings.iter().cloned());
    let mut doubts: Vec<Warning> = Vec::new();
    let whole = [
        cut_off(profile),
        lost(profile),
        no_energy(profile),
        unsampled(profile),
        few_samples(profile),
        residual(profile),
        imbalance(profile),
    ];
    for doubt in recorded.chain(profile.warnings.iter().cloned()).chain(whole.into_iter().flatten()) {
        let cut_twice = doubt.code == CUT && doubts.iter().any(|known| known.code == CUT);
        if !cut_twice && !doubts.contains(&doubt) {
            doubts.push(doubt);
        }
    }
    doubts
}

/// The code of the doubt that a recording ends early. Reading says it with the place of the cut; then it is not said again.
const CUT: &str = "recording-cut";

/// All that was lost, whatever the reason.
pub(crate) fn lost_total(profile: &Profile) -> u64 {
    let lost = profile.run.summary.iter().flat_map(|summary| summary.lost.values());
    lost.fold(0, |sum, count| sum.saturating_add(*count))
}

fn doubt(code: &str, text: String) -> Option<Warning> {
    Some(Warning { code: code.to_owned(), text })
}

fn cut_off(profile: &Profile) -> Option<Warning> {
    if profile.run.summary.is_some() {
        return None;
    }
    let text =
        "the recording was cut off before its end: what it holds is reported, and what was lost is not known";
    doubt(CUT, text.to_owned())
}

fn lost(profile: &Profile) -> Option<Warning> {
    let all = lost_total(profile);
    if all == 0 {
        return None;
    }
    let reasons =
        profile.run.summary.iter().flat_map(|summary| &summary.lost).filter(|(_, count)| **count > 0);
    let reasons: Vec<String> = reasons.map(|(reason, count)| format!("{reason}: {count}")).collect();
    let reasons = reasons.join("; ");
    let advice = if reasons.contains("ring buffer") { "; a lower rate, `-F`, loses fewer" } else { "" };
    doubt("events-lost", format!("{all} events were lost while recording ({reasons}){advice}"))
}

fn no_energy(profile: &Profile) -> Option<Warning> {
    if !profile.ledger.is_empty() {
        return None;
    }
    let text =
        "no energy source: only time is shown; `energy-trace doctor` says which sources this machine has";
    doubt("no-energy-source", text.to_owned())
}

/// Time that no sample saw, where it is more than a twentieth.
fn unsampled(profile: &Profile) -> Option<Warning> {
    // In the logical view it may stand below its callers.
    let is_unseen = |stack: StackId| {
        let innermost = profile.stacks.get(stack.index()).map(|node| node.frame.index());
        let frame = innermost.and_then(|frame| profile.frames.get(frame));
        frame.is_some_and(|frame| frame.kind == FrameKind::Special && frame.name == UNSAMPLED)
    };
    let time = |rows: &mut dyn Iterator<Item = u64>| rows.fold(0, u64::saturating_add);
    let all = time(&mut profile.rows.iter().map(|row| row.time_ns));
    let unseen =
        time(&mut profile.rows.iter().filter(|row| row.stack.is_none_or(is_unseen)).map(|row| row.time_ns));
    if unseen <= all / 20 {
        return None;
    }
    let share = percent_of(unseen, all);
    let text = format!(
        "{share} of the target's CPU time was seen by no sample and stands in `[unsampled]`; raise `-F`"
    );
    doubt("unsampled-time", text)
}

fn few_samples(profile: &Profile) -> Option<Warning> {
    let samples = profile.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.samples));
    let ran = profile.rows.iter().any(|row| row.time_ns > 0);
    if !ran || samples >= 100 {
        return None;
    }
    let text =
        format!("only {samples} samples: shares of functions are rough; record for longer or raise `-F`");
    doubt("few-samples", text)
}

/// Energy of windows in which nobody ran, where it is more than 1/200 of a domain: the bound that the design sets for a fitting idle
/// baseline.
fn residual(profile: &Profile) -> Option<Warning> {
    let large = |residual: MicroJoules, measured: MicroJoules| {
        residual.as_uj().unsigned_abs().saturating_mul(200) > measured.as_uj().unsigned_abs()
    };
    let rows = profile.ledger.iter().filter(|row| large(row.residual, row.measured));
    let domains: Vec<String> = rows.map(|row| format!("{} {}", row.domain, row.residual)).collect();
    if domains.is_empty() {
        return None;
    }
    let text = format!(
        "the idle baseline does not fit: more than 0.5 % is left over in windows in which nobody ran ({}); \
         measure it on a quiet machine or give `--idle-watts`",
        domains.join(", ")
    );
    doubt("residual-large", text)
}

fn imbalance(profile: &Profile) -> Option<Warning> {
    let broken = profile.ledger.iter().filter(|row| row.imbalance() != MicroJoules::ZERO);
    let mut domains: Vec<String> =
        broken.map(|row| format!("{} by {}", row.domain, row.imbalance())).collect();
    for class in DomainClass::ALL {
        let target = run::target(profile, DomainChoice::Class(class));
        let rows: MicroJoules = profile.rows.iter().map(|row| row.energy[class]).sum();
        if rows != target {
            domains.push(format!("stacks of {} by {}", class.name(), target - rows));
        }
    }
    if domains.is_empty() {
        return None;
    }
    let text = format!(
        "the ledger does not balance ({}): this is an error in energy-trace, please report it",
        domains.join(", ")
    );
    doubt("ledger-imbalance", text)
}

/// Whether any number of the run is estimated, and the sentence that says so.
pub(crate) fn estimate_note(profile: &Profile) -> Option<String> {
    let estimated: Vec<&str> = (profile.ledger.iter())
        .filter(|row| row.quality == Quality::Estimated)
        .map(|row| row.domain.as_str())
        .collect();
    if estimated.is_empty() {
        return None;
    }
    let sources = profile.run.header.sources.iter().filter(|source| source.quality == Quality::Estimated);
    let notes: Vec<&str> = sources.flat_map(|source| source.notes.iter().map(String::as_str)).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(": {}", notes.join("; ")) };
    Some(format!("estimated, there is no energy counter for {}{notes}", estimated.join(", ")))
}

#[expect(clippy::cast_precision_loss, reason = "for showing")]
fn percent_of(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * part as f64 / (whole.max(1)) as f64)
}
