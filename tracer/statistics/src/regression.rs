//! Straight lines: a fixed part, and a part for each unit of a size.
//!
//! [`line`] is the least-squares line through points, with the errors that SciPy's `linregress` has. They suppose that all points vary alike
//! and independently, which runs of a study do not: large ones vary more, and those of one round share its machine. So [`lines`] draws one
//! line through each round and asks how much these differ (Student's t over rounds), which supposes neither. Leaves out other curves: it
//! only says whether a line is one.

use crate::location::median;
use crate::student;
use statrs::function::beta::checked_beta_reg;

/// Fewest sizes by which a bend is seen.
const FOR_BEND: usize = 3;

/// A least-squares line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The value at size zero.
    pub intercept: f64,
    /// By how much it grows with each unit of size.
    pub slope: f64,
    /// Standard error of the intercept; NaN of two points.
    pub intercept_error: f64,
    /// Standard error of the slope; NaN of two points.
    pub slope_error: f64,
    /// Pearson's r of sizes and values.
    pub r: f64,
}

/// The line through points (size, value). `None` of fewer than two sizes, or of what is no number.
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    let n = points.len() as f64;
    let (mean_x, mean_y) = (mean(points.iter().map(|of| of.0)), mean(points.iter().map(|of| of.1)));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if !(xx > 0.0 && xx.is_finite() && xy.is_finite()) {
        return None;
    }
    let slope = xy / xx;
    let r = if yy > 0.0 { (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0) } else { 0.0 };
    let slope_error = if n > 2.0 { ((1.0 - r * r) * yy / xx / (n - 2.0)).sqrt() } else { f64::NAN };
    Some(Line {
        intercept: mean_y - slope * mean_x,
        slope,
        intercept_error: slope_error * (xx / n + mean_x * mean_x).sqrt(),
        slope_error,
        r,
    })
}

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Student's interval; `None` of fewer than two values.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p-value of its being zero; `None` of fewer than two values, and where they do not differ.
    pub p: Option<f64>,
}

/// The mean of values, with Student's interval. `None` of nothing.
pub fn mean_with_interval(values: &[f64]) -> Option<Estimate> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let (n, value) = (values.len() as f64, mean(values.iter().copied()));
    let squares: f64 = values.iter().map(|of| (of - value).powi(2)).sum();
    let error = (squares / (n - 1.0) / n).sqrt();
    let far = student::exceeded_with(0.025, n - 1.0) * error;
    let many = values.len() > 1;
    Some(Estimate {
        value,
        interval: many.then_some((value - far, value + far)),
        p: (many && error > 0.0).then(|| student::two_sided(value / error, n - 1.0)),
    })
}

/// How a value grows with a size, from rounds with one point a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Rounds with two sizes and more.
    pub rounds: usize,
    /// The value at size zero.
    pub fixed: Estimate,
    /// By how much it grows with each unit of size.
    pub each: Estimate,
    /// How much of the variance of all points one line explains.
    pub r2: f64,
    /// How far a parabola lies from the line at the most, as a part of the mean value, with the p-value of its being straight; `None`
    /// below three sizes or two rounds.
    pub bend: Option<(f64, f64)>,
}

/// Lines through rounds of points (size, value). `None` where no round has two sizes.
pub fn lines(rounds: &[Vec<(f64, f64)>]) -> Option<Growth> {
    let found: Vec<(Line, &Vec<(f64, f64)>)> =
        rounds.iter().filter_map(|round| Some((line(round)?, round))).collect();
    let over = |of: fn(&Line) -> f64| {
        mean_with_interval(&found.iter().map(|(line, _)| of(line)).collect::<Vec<_>>())
    };
    let (fixed, each) = (over(|line| line.intercept)?, over(|line| line.slope)?);
    let all: Vec<(f64, f64)> = found.iter().flat_map(|(_, round)| round.iter().copied()).collect();
    Some(Growth { rounds: found.len(), fixed, each, r2: line(&all)?.r.powi(2), bend: bend(&found, &all) })
}

/// How far a parabola departs from the line, and whether that is chance.
fn bend(rounds: &[(Line, &Vec<(f64, f64)>)], all: &[(f64, f64)]) -> Option<(f64, f64)> {
    let largest = all.iter().map(|of| of.0.abs()).fold(0.0, f64::max);
    let parts: Vec<(f64, f64)> = rounds.iter().filter_map(|(_, round)| curve(round, largest)).collect();
    let found = mean_with_interval(&parts.iter().map(|of| of.0).collect::<Vec<_>>())?;
    let depth = found.value.abs() * median(&parts.iter().map(|of| of.1).collect::<Vec<_>>());
    let middle = mean(all.iter().map(|of| of.1)).abs();
    found.interval.filter(|_| middle > 0.0)?;
    Some((depth / middle, found.p.unwrap_or(if found.value == 0.0 { 1.0 } else { 0.0 })))
}

/// The square's coefficient in the parabola through a round, of sizes as parts of the largest, and how far one square of that coefficient lies
/// from its line at the most.
fn curve(round: &[(f64, f64)], largest: f64) -> Option<(f64, f64)> {
    let sizes = || round.iter().map(|of| of.0 / largest);
    let mut distinct: Vec<f64> = sizes().collect();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    if distinct.len() < FOR_BEND {
        return None;
    }
    // What the line through the squares leaves of them is at right angles to every line.
    let squares: Vec<(f64, f64)> = sizes().map(|x| (x, x * x)).collect();
    let straight = line(&squares)?;
    let rest: Vec<f64> = squares.iter().map(|(x, y)| y - straight.intercept - straight.slope * x).collect();
    let size: f64 = rest.iter().map(|of| of * of).sum();
    let with: f64 = rest.iter().zip(round).map(|(rest, (_, value))| rest * value).sum();
    Some((with / size, rest.iter().map(|of| of.abs()).fold(0.0, f64::max)))
}

/// The two-sided p-value of a line's slope being zero, as `linregress` has it; NaN of two points.
pub fn p_of_slope(found: &Line, points: usize) -> f64 {
    let freedom = points as f64 - 2.0;
    // As Student's t of r, without the division that fails at r = 1.
    checked_beta_reg(freedom / 2.0, 0.5, 1.0 - found.r * found.r).unwrap_or(f64::NAN)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    sum / count
}
