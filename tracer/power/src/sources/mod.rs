//! The kinds of power source, one file or folder each, and the table of them.
//!
//! To add a power source, write its file here, with a `KIND`, and name it below, as a `mod` and in `SOURCES`: the word of `--power`, its help,
//! errors, the choice of `auto` and `doctor` follow. `doctor` looks for what `auto` takes, and is silent about sources that take a file: a hint
//! at one is a finding of its own (`doctor/power.rs`, as for `bmc`). The source's `SourceId` (`model/src/recording/sources.rs`) tells how its
//! counters behave, and whether it is a meter of the whole machine. `hwmon.rs` has counters, `battery.rs` sums power, `bmc.rs` reads a file of
//! somebody else's (`kept_file`). Leaves out choosing among them (`set.rs`); `rapl_filter` says whether the processor blurs RAPL,
//! `server_watts` what servers draw, for the model, `scmi` what Arm firmware measures, for both of hwmon's.

mod amdgpu;
mod battery;
mod bmc;
mod host;
mod hwmon;
mod hwmon_power;
pub(super) mod model;
mod nvml;
pub(super) mod perf;
pub(super) mod powercap;
mod rapl_filter;
mod replay;
mod scmi;
mod server_watts;

use super::kind::SourceKind;

/// Every kind of power source, in the order in which they are looked for: a later one sees which domains the
/// earlier ones have. Logs and files of a machine's meter, which the user names, stand before other meters
/// of the whole machine.
pub const SOURCES: [&SourceKind; 11] = [
    &powercap::KIND,
    &perf::KIND,
    &nvml::KIND,
    &amdgpu::KIND,
    &hwmon::KIND,
    &host::KIND,
    &replay::KIND,
    &bmc::KIND,
    &hwmon_power::KIND,
    &battery::KIND,
    &model::KIND,
];

#[cfg(test)]
mod tests {
    use super::SOURCES;
    use crate::survey::survey;
    use crate::{PowerPlan, SourceChoice, open, source_words};
    use energy_trace_model::recording::record::SourceId;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    /// Each row of the table is complete: a word of its own that `--power` takes and explains, an id that tells how its counters behave, a
    /// name for people, and an answer on a machine that has nothing: an error that names the source where it was named, a reason in the survey.
    #[test]
    fn every_source_is_whole() {
        let nothing = tempfile::tempdir().unwrap();
        let plan = |choices| PowerPlan {
            choices,
            sysfs: nothing.path().to_owned(),
            nvml_lib: Some(nothing.path().join("no.so")),
            ..PowerPlan::default()
        };
        let surveyed = survey(&plan(Vec::new())).sources;
        let mut words = BTreeSet::new();
        for kind in SOURCES {
            assert!(words.insert(kind.word), "{} is there twice", kind.word);
            assert!(SourceId::ALL.contains(&SourceId::from_name(kind.word)), "{} has no SourceId", kind.word);
            assert!(!kind.help.is_empty() && !kind.title.is_empty(), "{}", kind.word);
            assert!(source_words().any(|(word, help)| word.starts_with(kind.word) && help == kind.help));
            let choice: SourceChoice = match kind.takes_file {
                true => format!("{}:/nonexistent", kind.word).parse().unwrap(),
                false => kind.word.parse().unwrap(),
            };
            let expected = match kind.takes_file {
                true => SourceChoice::File(kind.word, PathBuf::from("/nonexistent")),
                false => SourceChoice::Source(kind.word),
            };
            assert_eq!(choice, expected);
            match open(&plan(vec![choice])) {
                Ok(set) => assert_eq!(set.sources()[0].id.name(), kind.word),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(kind.word) || text.contains("/nonexistent"), "{text}");
                }
            }
            let line = surveyed.iter().find(|source| source.id.name() == kind.word);
            assert!(line.is_none_or(|source| !source.domains.is_empty() || !source.ignored.is_empty()));
        }
    }
}
