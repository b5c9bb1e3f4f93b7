//! The corrections of the plain regression, in one list and in their order.
//!
//! The regression takes power to depend on the call path alone, and a counter to be prompt and exact. Each
//! correction names one thing that is otherwise on some machines. It is looked for with those before it
//! applied (`detect`), applied where the run shows it clearly (`apply`), and what the run cannot tell of it
//! is a doubt that widens intervals (`doubt`). An assumption that nothing corrects is in the list for its
//! doubt alone.
//!
//! To add one, write its file beside the others and give it its place in `ALL`. What is detected is a `Part`
//! (`parts.rs`) and may be left out, and so is each doubt, which asks itself whether it is; its size is a
//! line in `tests/benches/judge/rows.rs`. What a trial finds is a field of `Settings`. A doubt is shaped by
//! `Doubt`: each alternative is a list of joules by column, and its distance from the regression's widens
//! intervals. Tests in `powers.rs` count alternatives. Leaves out the regression (`learn`, `fit`) and the
//! order of learning (`powers`).

mod clock_speed;
mod contention;
mod counter_delay;
mod drift;
mod lag;
mod sample_times;
mod shared_cores;
mod shared_parts;
pub(crate) mod trial;
mod window_length;

use crate::between_samples::interval_slices::IntervalSlices;
use crate::parts::{LeftOut, Part};
use crate::power_model::design::Design;
use crate::power_model::evidence::Evidence;
use crate::power_model::fit::Fit;
use crate::power_model::learn::Model;
use crate::power_model::powers::Powers;
use crate::power_model::settings::{Circumstances, Settings};
use crate::time::busy_cpus::{Activity, BusyCpus};
use crate::timeline::EnergyInterval;
use energy_trace_model::units::{MicroJoules, MicroWatts};
use trial::{Candidate, Trial};

/// All of them, in the order in which they are looked for. Doubts are added up from the last to the first.
pub(crate) const ALL: [Correction; 9] = [
    Correction {
        part: Some(Part::ClockSpeed),
        detect: Detect::ByTrial(clock_speed::detect),
        apply: Apply::ToWeights { usual: clock_speed::usual, weight: clock_speed::weight },
        doubt: Doubt::Nothing,
    },
    Correction {
        part: Some(Part::SharedCores),
        detect: Detect::ByTrial(shared_cores::detect),
        apply: Apply::ToWeights { usual: shared_cores::usual, weight: shared_cores::weight },
        doubt: Doubt::Nothing,
    },
    Correction {
        part: Some(Part::CounterDelay),
        detect: Detect::ByTrial(counter_delay::detect),
        apply: Apply::ToIntervals(counter_delay::apply),
        doubt: Doubt::Nothing,
    },
    Correction {
        part: Some(Part::Lag),
        detect: Detect::ByTrial(lag::detect),
        apply: Apply::ToExpectedTimes,
        doubt: Doubt::OfTheSplit(lag::is_in_doubt),
    },
    Correction {
        part: Some(Part::Drift),
        detect: Detect::InEachFit(drift::detect),
        apply: Apply::ToExpectedTimes,
        doubt: Doubt::Alternatives(drift::doubt),
    },
    Correction {
        part: None,
        detect: Detect::Never,
        apply: Apply::Nowhere,
        doubt: Doubt::Alternatives(window_length::doubt),
    },
    Correction {
        part: Some(Part::SharedParts),
        detect: Detect::ByLearning(shared_parts::detect),
        apply: Apply::ToEnergy(shared_parts::apply),
        doubt: Doubt::Nothing,
    },
    Correction {
        part: Some(Part::Contention),
        detect: Detect::ByLearning(contention::detect),
        apply: Apply::ToColumns(contention::apply),
        doubt: Doubt::Alternatives(contention::doubt),
    },
    Correction {
        part: None,
        detect: Detect::Never,
        apply: Apply::Nowhere,
        doubt: Doubt::Alternatives(sample_times::doubt),
    },
];

/// One correction.
#[derive(Clone, Copy)]
pub(crate) struct Correction {
    /// What it is left out by; its doubts are parts of their own.
    pub(crate) part: Option<Part>,
    pub(crate) detect: Detect,
    pub(crate) apply: Apply,
    pub(crate) doubt: Doubt,
}

/// Those that are not left out.
pub(crate) fn asked(left_out: LeftOut) -> impl Iterator<Item = Correction> {
    ALL.into_iter().filter(move |correction| !correction.part.is_some_and(|part| left_out.has(part)))
}

/// Fits powers to a design again; `None` where there is no power to speak of.
pub(crate) type Refit<'a> = &'a dyn Fn(&Design) -> Option<Fit>;

/// How it is looked for.
#[derive(Clone, Copy)]
pub(crate) enum Detect {
    /// Not at all: it is a doubt alone.
    Never,
    /// By trial, while columns and chains stay as they are. Takes a better candidate where energies are
    /// clearly likelier with it, and says whether.
    ByTrial(for<'p> fn(&Trial<'_, 'p>, &mut Candidate<'p>) -> bool),
    /// In each fit of powers, which it may do again.
    InEachFit(fn(Design, Fit, Refit<'_>) -> (Design, Fit)),
    /// By learning the powers again with it; they stay as they were where energies are not clearly likelier.
    ByLearning(fn(&mut Powers<'_>)),
}

/// What it changes.
#[derive(Clone, Copy)]
pub(crate) enum Apply {
    /// Nothing.
    Nowhere,
    /// What a time weighs, by its circumstances; and what is usual where a run may show it and does not.
    ToWeights { usual: fn(&mut Settings, &IntervalSlices<'_>), weight: fn(&Settings, &Circumstances) -> f64 },
    /// When intervals are taken to have been.
    ToIntervals(fn(&Settings, &[EnergyInterval]) -> Vec<EnergyInterval>),
    /// In which window the expected time of columns shows, and how much of it (`design`).
    ToExpectedTimes,
    /// Energy above idle, of which it takes a part that is nobody's.
    ToEnergy(fn(MicroWatts, &[Activity], &mut [MicroJoules]) -> MicroJoules),
    /// The columns, of which each call path has two.
    ToColumns(fn(&mut IntervalSlices<'_>, &BusyCpus)),
}

/// What it leaves in doubt.
#[derive(Clone, Copy)]
pub(crate) enum Doubt {
    /// Nothing.
    Nothing,
    /// Joules of each column as other assumptions have it: what differs shows how much rests on them.
    Alternatives(fn(&Model, &Evidence<'_>) -> Vec<Vec<f64>>),
    /// Whether the split follows another assumption than the regression: then what it charges is the
    /// alternative.
    OfTheSplit(fn(&Model) -> bool),
}
