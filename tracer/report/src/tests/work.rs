//! Units of work of profiles that are made by hand.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::work::{Stretch, Work, WorkFindings};
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::record::{DomainClass, WorkCounter, WorkSeries, WorkSource, WorkUnits};
use energy_trace_model::units::MicroJoules;

/// Ten steps from the second tenth of the run's time to the ninth, in which so many units were done each,
/// with a tenth of the program's energy in the first five and none in the others.
pub(crate) fn counted(profile: &Profile, name: &str, units: u64) -> Work {
    let start = profile.run.start.as_ns();
    let twentieth = profile.run.duration_ns() / 20;
    let (mut energy, mut tenth) = <(EnergyByClass, EnergyByClass)>::default();
    profile.rows.iter().for_each(|row| energy += row.energy);
    for class in DomainClass::ALL {
        tenth[class] = MicroJoules::from_uj(energy[class].as_uj() / 10);
    }
    let step = |number: u64| Stretch {
        from: KtimeNs::from_ns(start + twentieth * (4 + number)),
        to: KtimeNs::from_ns(start + twentieth * (5 + number)),
        units: WorkUnits::whole(units),
        energy: if number < 5 { tenth } else { EnergyByClass::default() },
        ..Stretch::default()
    };
    let steps: Vec<Stretch> = (0..10).map(step).collect();
    let mut whole = Stretch { from: steps[0].from, to: steps[9].to, ..Stretch::default() };
    for step in &steps {
        whole.units = whole.units.saturating_add(step.units);
        whole.energy += step.energy;
    }
    let counter = WorkCounter { name: name.to_owned(), source: WorkSource::File("/run/n".into()) };
    let found = WorkFindings { read: 11, ..WorkFindings::default() };
    Work { series: WorkSeries { counter, readings: vec![] }, stretches: vec![whole], steps, found }
}
