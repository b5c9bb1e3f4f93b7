//! What a reader must know about an attribution: each doubt a stable word and a sentence.

use crate::gpu::{Known, Learned};
use crate::ledger::account::Account;
use crate::power_model::learn::Intensity;
use crate::timeline::{GapReason, Lag, Span};
use energy_trace_model::profile::validity::Gate;
use energy_trace_model::recording::record::{Domain, KernelTier, LaunchStacks, Origin, Scope, Warning};
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// Silence at the ends shorter than this is the ordinary distance between a reading and the recording's end.
const ORDINARY_NS: u64 = 100_000_000;

fn warning(code: &str, text: String) -> Warning {
    Warning { code: code.to_owned(), text }
}

/// Doubts about one domain.
pub(crate) fn of_domain(domain: &Domain, account: &Account, span: Span) -> Vec<Warning> {
    let mut doubts = Vec::new();
    doubts.extend(of_gaps(domain, account, span));
    if account.timeline.implausible > 0 {
        doubts.push(warning(
            "implausible-power",
            format!(
                "{}: {} intervals hold more power than any such hardware draws; they are counted as the counter says",
                domain.name, account.timeline.implausible
            ),
        ));
    }
    if account.timeline.intervals.is_empty() {
        return doubts;
    }
    if domain.idle.is_none() && matches!(domain.origin, Origin::Counter { .. }) {
        doubts.push(warning(
            "no-idle-baseline",
            format!(
                "{}: no idle power is known, so it is charged to whoever ran; --idle-watts W sets it",
                domain.name
            ),
        ));
    }
    if let Some(learned) = &account.launched {
        doubts.extend(of_launches(&domain.name, learned));
    } else if matches!(domain.scope, Scope::Gpu(_)) {
        doubts.push(warning(
            "gpu-unattributed",
            format!(
                "{}: its energy above idle is not charged to functions, as no launches on it are recorded",
                domain.name
            ),
        ));
    }
    doubts.extend(of_weights(domain, &account.intensity));
    if account.certainty.in_step {
        doubts.push(warning(
            "samples-in-step",
            format!(
                "{}: samples came in step with the program, so that they show one moment of its loop or creep through it; record \
                 again with another rate (-F 97, -F 499) to see what runs",
                domain.name
            ),
        ));
    }
    doubts.extend(account.company.map(|eta| of_company(&domain.name, eta)));
    doubts.extend(of_negative(domain, account));
    doubts.extend(account.lag.map(|lag| of_lag(domain, lag)));
    doubts
}

/// How a GPU's energy was split, and what could not be told apart.
fn of_launches(name: &str, learned: &Learned) -> Vec<Warning> {
    let Learned { kinds, windows, late, duty, mean, condition, known, .. } = learned;
    let (code, by) = match known {
        Known::Records { .. } => ("gpu-by-kernels", "by the time that kernels ran"),
        Known::Waits | Known::Launches => ("gpu-by-launches", "by launches"),
    };
    let how = if learned.believed {
        let looks = if *mean > 0.0 {
            format!(" and says the mean of {mean:.0} s")
        } else if *duty < 1.0 {
            format!(" and looks at {:.0} % of the time", duty * 100.0)
        } else {
            String::new()
        };
        format!(
            "its energy is split {by}; what each of {kinds} kinds takes was learned from {windows} steps of the counter, which is \
             {:.0} ms late{looks} (condition number {condition:.0}){}",
            late * 1e3,
            side_by_side(*known)
        )
    } else {
        let alike = match known {
            Known::Launches => ", as if each took the same",
            Known::Waits => ", each by the time that it runs",
            Known::Records { .. } => ", as if all drew the same power",
        };
        format!(
            "its energy is split {by}{alike}: the run does not show what each of {kinds} kinds takes ({windows} steps of the \
             counter)"
        )
    };
    let shared = if learned.alone {
        ""
    } else {
        "; each function's joules are a guess, as the meter shows what others on its board take as well, or kernels of several \
         streams ran side by side"
    };
    let mut doubts = vec![warning(code, format!("{name}: {how}{shared}"))];
    for group in &learned.groups {
        let names = group.join(", ");
        let text = format!("{name}: these run in such proportions that only their sum is known: {names}");
        doubts.push(warning("gpu-not-told-apart", text));
    }
    doubts
}

/// How kernels count that ran at the same time.
fn side_by_side(known: Known) -> String {
    let Known::Records { crowded, whole } = known else { return String::new() };
    if crowded < 0.005 {
        return String::new();
    }
    let how = if whole { "each counts with its whole time" } else { "each has its part of the moment" };
    format!("; in {:.0} % of the busy time several ran at once: {how}", crowded * 100.0)
}

/// The run does not show watts; where there was a fit, at which gate it failed.
fn of_weights(domain: &Domain, intensity: &Intensity) -> Option<Warning> {
    let Intensity::Unidentified(model) = intensity else { return None };
    let reason = |gate: &Gate| match gate.name {
        "cross_validation" => "watts predict no other part of the run",
        "condition_number" => "the times of some functions depend on each other",
        _ => "two halves of the run show different watts",
    };
    let failed = model.iter().flat_map(|model| model.gates.each()).filter(|gate| !gate.passed);
    let reasons: Vec<_> = failed.map(|gate| reason(&gate)).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
    let text = format!(
        "{}: the run does not show how much power each function draws{reasons}, so functions that ran at the same time are split by \
         CPU time alone",
        domain.name
    );
    Some(warning("model-cpu-time", text))
}

/// CPUs drew less beside others.
fn of_company(name: &str, eta: f64) -> Warning {
    let text = format!(
        "{name}: each CPU drew up to {:.0} % less while others were busy as well (they share cores, a clock or turbo; the recording does not \
         say which), and functions' time counts by that",
        50.0 * (1.0 - eta)
    );
    warning("less-beside-others", text)
}

/// The log of a meter was moved in time.
fn of_lag(domain: &Domain, lag: Lag) -> Warning {
    let way = if lag.late_ns > 0 { "late" } else { "early" };
    let text = format!(
        "{}: the meter's log is {:.2} s {way}, as its power goes with the work of the CPUs (r² {:.2} instead of {:.2}); it was moved by that",
        domain.name,
        in_seconds(lag.late_ns.unsigned_abs()),
        lag.fit,
        lag.unshifted,
    );
    warning("meter-lag", text)
}

/// How much time has no reading, and why.
fn of_gaps(domain: &Domain, account: &Account, span: Span) -> Option<Warning> {
    let mut by_reason: BTreeMap<GapReason, u64> = BTreeMap::new();
    for gap in &account.timeline.gaps {
        *by_reason.entry(gap.why).or_default() += gap.span.ns();
    }
    by_reason.retain(|why, ns| *why != GapReason::NoReading || *ns > ORDINARY_NS || *ns == span.ns());
    let total: u64 = by_reason.values().sum();
    if total == 0 {
        return None;
    }
    let reasons: Vec<_> = by_reason.keys().map(|why| why.text()).collect();
    let text = format!(
        "{}: {:.2} s of {:.2} s have no reading ({}); what was used then is in no number",
        domain.name,
        in_seconds(total),
        in_seconds(span.ns()),
        reasons.join("; ")
    );
    Some(warning("no-reading", text))
}

/// A baseline that is above the counter while something runs makes shares negative: said when it is more than 1 % of the whole.
fn of_negative(domain: &Domain, account: &Account) -> Option<Warning> {
    let negative = -account.negative;
    let whole = account.row.measured.as_uj().saturating_abs();
    (negative > MicroJoules::ZERO && negative.as_uj() > whole / 100).then(|| {
        let text = format!(
            "{}: while something ran, the counter was below the idle power in part of the run; {negative} were charged as \
             negative shares. Was the machine busy when its idle power was measured? --idle-watts W sets it",
            domain.name
        );
        warning("idle-above-counter", text)
    })
}

/// What the kernel tier told of each process, what it cost, and what is missing.
pub(crate) fn of_kernels(tiers: &[KernelTier]) -> Vec<Warning> {
    let mut doubts = Vec::new();
    for tier in tiers.iter().filter(|tier| tier.launches > 0) {
        let KernelTier { pid, cupti, launches, cost_ns, .. } = *tier;
        let each = cost_ns / launches;
        let text = format!(
            "kernels of process {pid} were timed by its CUPTI (version {cupti}): {launches} launches, {each} ns of the process's own time \
             each for the library and its probe, without what CUPTI itself took",
        );
        doubts.push(warning("gpu-kernel-cost", text));
        doubts.extend(missing(tier));
    }
    doubts
}

fn missing(tier: &KernelTier) -> Option<Warning> {
    let parts = [
        (tier.dropped, "records were dropped by CUPTI"),
        (tier.untimed, "records had no times"),
        (tier.unplaced, "kernels have no stack, as their launch was not seen"),
    ];
    let mut parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !tier.whole {
        parts.push(
            "it ended, or the recording did, before it said what ran last (a tenth of a second)".to_owned(),
        );
    }
    let text = format!(
        "of the kernels of process {} some are missing or have no stack: {}",
        tier.pid,
        parts.join("; ")
    );
    (!parts.is_empty()).then(|| warning("gpu-kernels-missing", text))
}

/// Launches that stand in another launch's stack, or in none.
pub(crate) fn of_launch_stacks(stacks: LaunchStacks) -> Option<Warning> {
    let LaunchStacks { own, thinned, none } = stacks;
    let all = own.saturating_add(thinned).saturating_add(none);
    let thinned = (thinned > 0).then(|| {
        format!(
            "{thinned} came faster than a thousand a second and thread and stand in the last stack of their place: where several callers \
             share a place, they are shared out as the stacks that were taken"
        )
    });
    let none = (none > 0).then(|| format!("{none} stand in no stack, as none was taken at their place"));
    let parts: Vec<String> = thinned.into_iter().chain(none).collect();
    let text = format!(
        "of {all} GPU launches {own} had their own stack taken; {}. All are counted, and their joules",
        parts.join("; ")
    );
    (!parts.is_empty()).then(|| warning("gpu-stacks-thinned", text))
}

/// Doubts about the whole recording.
pub(crate) fn of_recording(overlaps: u64, without_socket_ns: u64) -> Vec<Warning> {
    let mut doubts = Vec::new();
    if overlaps > 0 {
        doubts.push(warning(
            "overlapping-slices",
            format!(
                "{overlaps} times two threads seemed to be on one CPU at once, because a switch was lost; the earlier one was \
                 taken to end where the later one began"
            ),
        ));
    }
    if without_socket_ns > 0 {
        doubts.push(warning(
            "cpu-without-socket",
            format!(
                "{:.2} s were spent on CPUs whose socket is not known (plugged in during the run?); no socket's energy is \
                 charged for them",
                in_seconds(without_socket_ns)
            ),
        ));
    }
    doubts
}

#[expect(clippy::cast_precision_loss, reason = "for showing")]
fn in_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
