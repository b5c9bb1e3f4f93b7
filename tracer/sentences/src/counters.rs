//! Sentences for counters that say nothing of a stretch of time, or nothing that can be believed.
//!
//! Leaves out meters of GPUs and sources that fail (`power`).

use super::in_seconds;
use energy_trace_model::profile::diagnostics::GapReason;
use std::collections::BTreeMap;

/// `1.52 s of 4.90 s are in no number (the counter stood still); …`. Behind the semicolon: what to do.
pub(super) fn no_reading(missing_ns: u64, of_ns: u64, reasons: &BTreeMap<GapReason, u64>) -> String {
    let advice = if reasons.keys().any(|why| why.is_doubt()) {
        "; what was used then is not known. Look at the counter itself (`energy-trace doctor` has its place) and at the kernel's log; \
         --power with another source, or `--power model` for an estimate, does without it"
    } else {
        "; what was used then is not known"
    };
    format!("{}{advice}", missing(missing_ns, of_ns, reasons))
}

/// `1.52 s of 4.90 s are in no number (the counter stood still)`.
pub fn missing(missing_ns: u64, of_ns: u64, reasons: &BTreeMap<GapReason, u64>) -> String {
    let several = reasons.len() > 1;
    let reason = |(why, ns): (&GapReason, &u64)| {
        let how_long = if several { format!(" for {:.2} s", in_seconds(*ns)) } else { String::new() };
        format!("{}{how_long}", gap_reason(*why))
    };
    let reasons: Vec<String> = reasons.iter().map(reason).collect();
    let reasons = reasons.join(", ");
    if missing_ns >= of_ns {
        return format!("none of its energy is known ({reasons})");
    }
    format!("{:.2} s of {:.2} s are in no number ({reasons})", in_seconds(missing_ns), in_seconds(of_ns))
}

/// The same in a few words: why for most of that time.
pub(super) fn missing_in_brief(missing_ns: u64, of_ns: u64, reasons: &BTreeMap<GapReason, u64>) -> String {
    let most = reasons.iter().max_by_key(|(_, ns)| **ns).map(|(why, _)| *why).unwrap_or(GapReason::NoReading);
    let why = match most {
        GapReason::NoReading => "no reading",
        GapReason::WentBack => "the counter went back",
        GapReason::TooLong => "turned over unseen",
        GapReason::Slept => "the machine slept",
        GapReason::NeverMoved => "the counter did not move",
        GapReason::StoodStill => "the counter stood still",
        GapReason::TooMuch => "more than hardware draws",
        GapReason::BelowIdle => "far less than idle power",
    };
    if missing_ns >= of_ns {
        return format!("none of its energy is known: {why}");
    }
    format!("{:.2} of {:.2} s are in no number: {why}", in_seconds(missing_ns), in_seconds(of_ns))
}

/// Why nothing is known.
const fn gap_reason(reason: GapReason) -> &'static str {
    match reason {
        GapReason::NoReading => "no reading at the start or end",
        GapReason::WentBack => "the counter went back",
        GapReason::TooLong => "the counter may have turned over unseen",
        GapReason::Slept => "the machine slept meanwhile",
        GapReason::NeverMoved => "the counter did not move at all",
        GapReason::StoodStill => "the counter stood still",
        GapReason::TooMuch => "the counter showed more than such hardware can draw",
        GapReason::BelowIdle => "CPUs were busy and the counter showed far less than idle power",
    }
}

/// Readings that contradicted those around them.
pub(super) fn readings_left_out(readings: u64) -> String {
    let (were, those) = if readings == 1 { ("reading was", "it") } else { ("readings were", "them") };
    format!(
        "{readings} wrong {were} left out; the counter goes on after {those} as before, so no energy is missing"
    )
}

#[cfg(test)]
mod tests {
    use super::{GapReason, missing, no_reading, readings_left_out};

    /// One reason needs no time of its own; all of a run is said as such; only doubt asks for a look at the counter.
    #[test]
    fn what_is_missing() {
        const S: u64 = 1_000_000_000;
        let still = (GapReason::StoodStill, S);
        let text = missing(S, 4 * S, &[still].into());
        assert_eq!(text, "1.00 s of 4.00 s are in no number (the counter stood still)");
        let text = missing(2 * S, 4 * S, &[(GapReason::WentBack, S), still].into());
        assert_eq!(
            text,
            "2.00 s of 4.00 s are in no number (the counter went back for 1.00 s, the counter stood still for 1.00 s)"
        );
        let never = [(GapReason::NeverMoved, 4 * S)].into();
        assert_eq!(
            missing(4 * S, 4 * S, &never),
            "none of its energy is known (the counter did not move at all)"
        );
        assert!(no_reading(S, 4 * S, &never).contains("doctor"));
        assert!(!no_reading(S, 4 * S, &[(GapReason::Slept, S)].into()).contains("doctor"));
        assert!(readings_left_out(1).starts_with("1 wrong reading was left out; "));
    }
}
