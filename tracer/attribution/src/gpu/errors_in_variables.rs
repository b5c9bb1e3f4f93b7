//! What windows show of columns that nearly always run in the same proportions: less than it looks like.
//!
//! A meter's looks begin and end somewhere among kernels whose order is known to a cell of a millisecond, or
//! to the stretch in which some were put together. So a window's units are off by a kernel or two at each
//! end. Where columns go up and down with each other, these errors are all that there is of one direction,
//! and least squares takes them for an observation: it draws parts towards zero and is sure of it.
//!
//! ```text
//! s_c = mean over windows of Σ_ends r_c (1 − r_c) · stretch_c · kernel_c / 6 + (σ r_c)²
//!      errors' variance (of a Brownian bridge, on average, and of the end's time); r_c: c's part of the time
//!         around the end
//! ```
//!
//! Parts are drawn to nothing by n S G⁻¹ for that (Fuller: Measurement error models, 1987, §1.2), which is a
//! doubt (`uncertainty`) and is not made good, as S is no more than an estimate. Leaves out the fit
//! (`launch_energies`).

use super::batches::Batches;
use super::constants::{END_SD, NEAR_END};
use super::meter::{Meter, Window, looks_of};

/// The mean of f (1 − f) for f between 0 and 1.
const BRIDGE: f64 = 1.0 / 6.0;

/// How coarse what is known of a column is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FeatureError {
    /// Units of one kernel.
    pub(super) kernel: f64,
    /// The stretch in which nothing is known of the order, in seconds.
    pub(super) stretch: f64,
}

/// Variance of the error of a window's units in each column.
pub(super) fn errors_of(
    windows: &[Window],
    batches: &Batches,
    meter: Meter,
    coarse: &[FeatureError],
) -> Vec<f64> {
    let mut errors = vec![0.0; coarse.len()];
    for (look, counted) in windows.iter().flat_map(|window| looks_of(window, meter)) {
        for end in [look.from, look.until] {
            batches.between(end - NEAR_END / 2.0, end + NEAR_END / 2.0, |cell, units| {
                let FeatureError { kernel, stretch } = coarse[cell.column];
                let part = (units / NEAR_END).min(1.0);
                let order = part * (1.0 - part) * stretch * kernel.min(stretch) * BRIDGE;
                errors[cell.column] += (order + (END_SD * part).powi(2)) * counted * counted;
            });
        }
    }
    errors.iter_mut().for_each(|sum| *sum /= windows.len().max(1) as f64);
    errors
}

#[cfg(test)]
mod tests {
    use super::super::batches::{Batch, TimeRange};
    use super::super::features::Cell;
    use super::{BRIDGE, Batches, END_SD, FeatureError, Meter, Window, errors_of};
    use crate::tests::vectors::Vectors;

    /// Two columns share the time around both ends of a window, a quarter and three: by the formula at the
    /// head, r (1 − r) stretch kernel / 6 + (σ r)² at each end.
    #[test]
    fn errors_at_the_ends_of_windows() {
        let time = TimeRange { from: 0.0, until: 4.0 };
        let cell = |column, units| Cell { owner: 1, column, units };
        let cells = vec![cell(0, 1.0), cell(1, 3.0)];
        let batches = Batches::new(vec![Batch { launched: time, executed: time, blur: 0.0, cells }]);
        let window = Window { time: TimeRange { from: 1.0, until: 3.0 }, ticks: 1, joules: 0.0 };
        let coarse =
            [FeatureError { kernel: 2e-4, stretch: 5e-3 }, FeatureError { kernel: 9e-3, stretch: 6e-3 }];
        let found = errors_of(&[window], &batches, Meter::PROMPT, &coarse);
        let should = |part: f64, stretch: f64, kernel: f64| {
            2.0 * (part * (1.0 - part) * stretch * kernel / 6.0 + (END_SD * part).powi(2))
        };
        assert!((found[0] / should(0.25, 5e-3, 2e-4) - 1.0).abs() < 1e-6, "{found:?}");
        assert!(
            (found[1] / should(0.75, 6e-3, 6e-3) - 1.0).abs() < 1e-6,
            "no kernel is longer than its stretch"
        );
        // A look at the last half counts twice; of two windows alike the mean is one's.
        let half = Meter { duty: 0.5, ..Meter::PROMPT };
        let twice = errors_of(&[window, window], &batches, half, &coarse);
        assert!(twice.iter().zip(&found).all(|(twice, once)| (twice / once - 4.0).abs() < 1e-6), "{twice:?}");
    }

    /// The mean of f (1 − f), by SciPy.
    #[test]
    fn of_a_bridge() {
        assert!((BRIDGE - Vectors::of("constants").number("bridge")).abs() < 1e-12);
    }
}
