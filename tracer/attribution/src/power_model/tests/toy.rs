//! Small domains for the unit tests of this room: who ran when is certain, and what windows held is given.
//! Leaves out samples.

use crate::between_samples::expected_time::Times;
use crate::between_samples::interval_slices::{IntervalSlice, IntervalSlices};
use crate::between_samples::switching_chain::Chains;
use crate::power_model::columns::Columns;
use crate::power_model::counter_edges::Edges;
use crate::power_model::design::Design;
use crate::power_model::evidence::Evidence;
use crate::power_model::fit::Fit;
use crate::power_model::lack_of_fit::checks_of;
use crate::power_model::learn::{Model, PowerModel};
use crate::power_model::paths::{OTHER, Path, PathElement, PathId, PathTree};
use crate::power_model::prior::Prior;
use crate::power_model::settings::Settings;
use crate::power_model::windows::Windows;
use crate::tests::vectors::Vectors;
use crate::time::inter_sample::{NO_GAP, NO_TRACK};
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::units::MicroJoules;

/// A domain in which owner c runs in call path c, which is column c.
pub(crate) struct Toy {
    pub(crate) intervals: Vec<EnergyInterval>,
    pub(crate) dynamic: Vec<MicroJoules>,
    pub(crate) slices: Vec<IntervalSlice>,
    pub(crate) tree: PathTree,
    pub(crate) columns: usize,
}

pub(crate) fn at_ms(ms: f64) -> KtimeNs {
    KtimeNs::from_ns((ms * 1e6).round() as u64)
}

/// Time whose owner is certain.
pub(crate) fn slice(interval: usize, owner: u32, from_ms: f64, ms: f64) -> IntervalSlice {
    IntervalSlice {
        interval: u32::try_from(interval).unwrap(),
        track: NO_TRACK,
        at: at_ms(from_ms + ms / 2.0),
        left: owner,
        right: owner,
        ns: (ms * 1e6).round() as u64,
        gap: NO_GAP,
        ..IntervalSlice::nobodys()
    }
}

/// Functions that the target calls, one a column.
pub(crate) fn flat_tree(columns: usize) -> PathTree {
    let root = |parent| Path { parent, step: PathElement::Root };
    let function = |column| Path { parent: 1, step: PathElement::Function(column) };
    let count = u32::try_from(columns).unwrap();
    let paths = [root(OTHER), root(1)].into_iter().chain((0..count).map(function)).collect();
    PathTree::of_paths(paths, (0..count).map(|column| column + 2).collect())
}

/// Two functions whose times differ from window to window, and which draw these watts.
pub(crate) fn two_functions(windows: u32, watts: [f64; 2]) -> Toy {
    let row = |k: u32| vec![f64::from(1 + k * 7 % 11), f64::from(1 + k * 5 % 8)];
    let joules = |k: u32| row(k).iter().zip(watts).map(|(ms, watts)| ms * watts / 1e3).sum::<f64>();
    let ms: Vec<Vec<f64>> = (0..windows).map(row).collect();
    Toy::new(20.0, &ms, &(0..windows).map(joules).collect::<Vec<_>>(), 0.0)
}

/// The model, which was learned.
pub(crate) fn known(power_model: PowerModel) -> Model {
    match power_model {
        PowerModel::Known(model) => model,
        other => panic!("{other:?}"),
    }
}

impl Toy {
    /// Windows of so many milliseconds with so many joules above idle. In each the columns ran for these
    /// milliseconds, one after the other from its start.
    pub(crate) fn new(window_ms: f64, ms: &[Vec<f64>], joules: &[f64], idle_watts: f64) -> Self {
        let energy = |joules: f64| MicroJoules::from_uj((joules * 1e6).round() as i64);
        let (mut intervals, mut slices) = (vec![], vec![]);
        for (window, (row, joules)) in ms.iter().zip(joules).enumerate() {
            let mut from = window as f64 * window_ms;
            let span = Span { start: at_ms(from), end: at_ms(from + window_ms) };
            intervals.push(EnergyInterval { span, energy: energy(joules + idle_watts * window_ms / 1e3) });
            for (owner, &length) in (0..).zip(row) {
                slices.push(slice(window, owner, from, length));
                from += length;
            }
        }
        let (dynamic, columns) = (joules.iter().copied().map(energy).collect(), ms[0].len());
        Self { intervals, dynamic, slices, tree: flat_tree(columns), columns }
    }

    /// From vectors of these names.
    pub(crate) fn of(vectors: &Vectors) -> Self {
        let idle = vectors.get("idle_watts").as_f64().unwrap_or(0.0);
        Self::new(vectors.number("window_ms"), &vectors.table("ms"), &vectors.list("joules"), idle)
    }

    pub(crate) fn listed(&self) -> IntervalSlices<'static> {
        IntervalSlices::of_slices(&self.slices)
    }

    pub(crate) fn evidence(&self) -> Evidence<'_> {
        Evidence {
            intervals: &self.intervals,
            dynamic: &self.dynamic,
            slices: Box::leak(Box::new(self.listed())),
            points: &[],
            start: KtimeNs::default(),
            tree: &self.tree,
            carried: None,
            settings: Settings::default(),
        }
    }

    pub(crate) fn design(&self) -> Design {
        let windows = Windows::of_intervals(&self.intervals, &self.dynamic);
        Design::new(&windows, &self.listed(), (Times::Nearest, 0), (self.columns, false), |owner| owner)
    }

    pub(crate) fn edges(&self) -> Edges {
        Edges::new(&self.evidence(), Times::Nearest, |owner| owner)
    }

    /// With the fit that vectors tell.
    pub(crate) fn model(&self, vectors: &Vectors) -> Model {
        let fit = Fit {
            mean: vectors.number("mean"),
            watts: vectors.list("watts"),
            residuals: vectors.get("residuals").as_array().map_or(vec![], |_| vectors.list("residuals")),
            physical: vec![],
            fluctuation: vectors.get("fluctuation").as_f64().unwrap_or(0.0),
            weights: vectors.list("weights"),
            variances: vec![],
            likelihood: 0.0,
            by_pairs: None,
        };
        self.model_of(fit, vectors.matrix("precision"))
    }

    pub(crate) fn model_of(&self, fit: Fit, prior: impl Into<Prior>) -> Model {
        let paths: Vec<PathId> = (2..).take(self.columns).collect();
        let of_path = [0, 0].into_iter().chain((0..).take(self.columns)).collect();
        Model {
            columns: Columns::of_paths(paths, of_path),
            shown: std::sync::Arc::default(),
            chains: Chains::default().into(),
            design: self.design(),
            validity: checks_of(&fit),
            fit,
            prior: prior.into(),
            alternatives: vec![],
            settings: Settings::default(),
            edges: vec![0.0; self.intervals.len()],
            steady_likelihood: 0.0,
            steady_energies: None,
        }
    }
}
