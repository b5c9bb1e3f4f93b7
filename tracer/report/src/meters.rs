//! What a run's energy was read from: counters of energy, sensors of power, a log, a host; and whether two sides of a difference have the
//! same.
//!
//! Leaves out how far the numbers can be trusted (`run::quality`), and how much of a whole machine's meter its parts explain (`outer_line.rs`).

use super::{DomainChoice, run};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{Quality, SourceId};
use std::collections::BTreeSet;

/// `from energy counters`, `estimated`, …: for the headline.
pub(crate) fn basis(profile: &Profile, choice: DomainChoice, quality: Quality) -> &'static str {
    if quality == Quality::Estimated {
        return "estimated";
    }
    let words: BTreeSet<&str> = sources_of(profile, choice).map(basis_of).fill_set();
    match (words.first(), words.len()) {
        (Some(one), 1) => one,
        (None, _) => ENERGY_COUNTERS,
        _ => "from several kinds of meters",
    }
}

const ENERGY_COUNTERS: &str = "from energy counters";

const fn basis_of(source: &SourceId) -> &'static str {
    match source {
        SourceId::HwmonPower => "from power sensors",
        SourceId::Battery => "from the battery's power",
        SourceId::Host => "from what the host says",
        SourceId::Bmc => "from the server's BMC",
        SourceId::Replay => "from the log of a meter",
        _ => ENERGY_COUNTERS,
    }
}

/// The sources of the domains that a choice holds and that measured something.
fn sources_of(profile: &Profile, choice: DomainChoice) -> impl Iterator<Item = &SourceId> {
    let known = run::known_rows(profile, choice);
    known.filter_map(|row| run::source_of(profile, &row.domain))
}

/// What the headline of a side was read from: `package by RAPL`.
pub(crate) fn meters(side: &[Profile]) -> BTreeSet<String> {
    let of_run = |profile: &Profile| {
        let rows = run::known_rows(profile, run::headline(profile));
        let meter = |source: Option<&SourceId>| match source {
            Some(SourceId::Powercap | SourceId::Perf) => " by RAPL".to_owned(),
            Some(source) => format!(" by {source}"),
            None => String::new(),
        };
        rows.map(|row| format!("{}{}", row.class.name(), meter(run::source_of(profile, &row.domain))))
            .collect::<Vec<_>>()
    };
    side.iter().flat_map(of_run).fill_set()
}

/// That the two sides were measured by other meters, where they were: then their joules are not of the same things.
pub(crate) fn unlike(sides: [&[Profile]; 2]) -> Option<String> {
    let [a, b] = sides.map(meters);
    let list = |of: &BTreeSet<String>| of.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let is_unlike = a != b && !a.is_empty() && !b.is_empty();
    is_unlike.then(|| {
        format!(
            "A and B were read from different meters, so the difference is not the program's alone (A: {}; B: {})",
            list(&a),
            list(&b)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{basis, unlike};
    use crate::DomainChoice;
    use crate::tests::training_runs::measured_training;
    use energy_trace_model::profile::Profile;
    use energy_trace_model::recording::record::{Quality, SourceId};

    fn read_by(id: &SourceId) -> Profile {
        let mut run = measured_training();
        run.run.header.sources.iter_mut().for_each(|source| source.id = id.clone());
        run
    }

    /// Joules of sensors, logs and hosts are not said to come from energy counters.
    #[test]
    fn words_by_source() {
        let word = |run: &Profile| basis(run, DomainChoice::Total, Quality::Apportioned);
        assert_eq!(word(&measured_training()), "from energy counters");
        assert_eq!(word(&read_by(&SourceId::HwmonPower)), "from power sensors");
        assert_eq!(word(&read_by(&SourceId::Replay)), "from the log of a meter");
        let run = measured_training();
        assert_eq!(basis(&run, DomainChoice::Total, Quality::Estimated), "estimated");
    }

    /// RAPL is RAPL, however it is read; a battery is something else.
    #[test]
    fn two_sides() {
        let runs = [SourceId::Powercap, SourceId::Perf, SourceId::Battery].map(|id| [read_by(&id)]);
        assert_eq!(unlike([&runs[0], &runs[1]]), None);
        let said = unlike([&runs[0], &runs[2]]).unwrap();
        assert!(said.contains("package by RAPL") && said.contains("package by battery"), "{said}");
    }
}
