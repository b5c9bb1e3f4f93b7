//! Choices of domains; and recordings made by hand, shared with the offline tests.

#[path = "../../../sentences/src/tests/all.rs"]
mod all_diagnostics;
#[path = "../../../../tests/offline/report/recording_builder.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
pub(crate) mod recording_builder;
#[path = "../../../../tests/offline/report/training_runs.rs"]
pub(crate) mod training_runs;
#[path = "../../../../tests/offline/report/warm.rs"]
pub(crate) mod warm;
pub(crate) mod warnings;
pub(crate) mod work;

use super::{DomainChoice, DomainClass};
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::record::SourceId;

/// A training of which nothing was measured but a GPU whose launches nobody can record.
pub(crate) fn only_an_amd_gpu() -> Profile {
    let mut run = training_runs::measured_training();
    run.ledger.retain(|row| row.class == DomainClass::Gpu);
    (run.rows.iter_mut())
        .for_each(|row| (row.energy, row.by_time) = <(EnergyByClass, EnergyByClass)>::default());
    let source = &mut run.run.header.sources[0];
    (source.id, source.domains) = (SourceId::AmdGpu, vec!["gpu-0".to_owned()]);
    run
}

/// A domain is named on the command line as it is shown, and a wrong one is answered with the right ones.
#[test]
fn domain_choice_round_trip() {
    for name in ["total", "package", "dram", "gpu", "psys"] {
        assert_eq!(name.parse::<DomainChoice>().unwrap().to_string(), name);
    }
    let message = "cpu".parse::<DomainChoice>().unwrap_err().to_string();
    assert_eq!(message, "unknown domain `cpu`: use total, package, dram, gpu or psys");
}

/// Psys contains the other domains, and a core is part of its package: the total leaves both out.
#[test]
fn total_leaves_psys_out() {
    assert!(!DomainChoice::Total.includes(DomainClass::Psys));
    assert!(!DomainChoice::Total.includes(DomainClass::Core));
    assert!(DomainChoice::Class(DomainClass::Psys).includes(DomainClass::Psys));
}
