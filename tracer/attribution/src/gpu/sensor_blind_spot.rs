//! What a meter does not look at: how far its counter strays from what really was taken, and with it the
//! energy of every column.
//!
//! ```text
//! d_i = (what the work in the looked-at part of step i counts for) − (what the work of the whole step takes)
//! V_b = Σ_s (Σ_i d_i)²    s: stretches of a second, of which one's looks say nothing of another's; of a mean
//!                          over time the whole block: what it shows too late in one step it lacks in another
//! relative covariance of columns c and e: Σ_b f_cb f_eb V_b / E_b²
//! ```
//!
//! Energies are the learned ones; `b` is a block of steps that are shared out together, `E_b` its energy,
//! `f_cb` the part of column c's energy that falls into it: within a block all columns stray together. It is
//! 0 for a meter that looks all the time. Leaves out the errors of what is learned (`uncertainty`), and the
//! sensor's own.

use super::batches::{Batches, TimeRange};
use super::constants::CORRELATED_SECONDS;
use super::meter::{Meter, Step, Window, units_of};
use super::split::Costs;

/// What is known of the meter and the work.
pub(super) struct SensorBlindSpot<'a> {
    pub(super) batches: &'a Batches,
    pub(super) costs: &'a Costs,
    pub(super) meter: Meter,
    pub(super) steps: &'a [Step],
    /// The work that each step stands for, as it is shared out.
    pub(super) shown: &'a [TimeRange],
    /// Steps are shared out together until they are this long, in seconds.
    pub(super) block: f64,
}

/// Steps that are shared out together.
#[derive(Clone, Debug, Default)]
struct Block {
    seconds: f64,
    /// By column.
    joules: Vec<f64>,
    /// Of stretches that are whole.
    squares: f64,
    /// Of the stretch that is not, and its length.
    sum: f64,
    stretch: f64,
}

impl SensorBlindSpot<'_> {
    /// Relative covariance of this many columns' energies, row by row.
    pub(super) fn relative(&self, columns: usize) -> Vec<f64> {
        let mut relative = vec![0.0; columns * columns];
        if self.meter.duty >= 1.0 && self.meter.mean <= 0.0 {
            return relative;
        }
        let blocks = self.blocks(columns);
        let of_column: Vec<f64> = (0..columns)
            .map(|c| blocks.iter().map(|block| block.joules[c]).sum::<f64>().max(1e-12))
            .collect();
        for block in &blocks {
            let all: f64 = block.joules.iter().sum::<f64>().max(1e-12);
            let variance = block.squares + block.sum * block.sum;
            let part = |c: usize| block.joules[c] / of_column[c];
            for (place, sum) in relative.iter_mut().enumerate() {
                *sum += part(place / columns) * part(place % columns) * variance / (all * all);
            }
        }
        relative
    }

    fn blocks(&self, columns: usize) -> Vec<Block> {
        let new = || Block { joules: vec![0.0; columns], ..Block::default() };
        let (mut blocks, mut block) = (vec![], new());
        for (step, &shown) in self.steps.iter().zip(self.shown) {
            let costs = self.costs.at(shown.from.midpoint(shown.until));
            let mut whole = 0.0;
            self.batches.between(shown.from, shown.until, |cell, units| {
                let joules = units * costs.get(cell.column).copied().unwrap_or(0.0);
                block.joules[cell.column] += joules;
                whole += joules;
            });
            if whole <= 0.0 {
                continue;
            }
            let window = Window { time: step.time, ticks: step.ticks, joules: 0.0 };
            let looked = units_of(&[window], self.batches, self.meter, columns);
            let looked: f64 = looked.iter().zip(costs).map(|(units, joules)| units * joules).sum();
            block.sum += looked - whole;
            block.stretch += shown.length();
            block.seconds += shown.length();
            if self.meter.mean <= 0.0 && block.stretch >= CORRELATED_SECONDS {
                block.squares += block.sum * block.sum;
                (block.sum, block.stretch) = (0.0, 0.0);
            }
            if block.seconds >= self.block {
                blocks.push(std::mem::replace(&mut block, new()));
            }
        }
        blocks.push(block);
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::super::batches::Batch;
    use super::super::features::Cell;
    use super::{Batches, Costs, Meter, SensorBlindSpot, Step, TimeRange};

    /// Steps of a second whose last quarter is looked at. In each one kernel runs through all of it and
    /// another in a random one of its quarters: the counter strays by what the second one takes, as often up
    /// as down, and both columns with it.
    #[test]
    fn a_part_of_each_step_is_a_sample() {
        let (mut list, mut steps) = (vec![], vec![]);
        let mut random = 7_u64;
        for second in 0..400_u32 {
            let from = f64::from(second);
            let run = |column, from: f64, length: f64| {
                let executed = TimeRange { from, until: from + length };
                Batch {
                    launched: executed,
                    executed,
                    blur: 0.0,
                    cells: vec![Cell { owner: 1, column, units: length }],
                }
            };
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let quarter = f64::from(u32::try_from(random >> 62).unwrap()) / 4.0;
            list.extend([run(0, from, 1.0), run(1, from + quarter, 0.25)]);
            steps.push(Step { time: TimeRange { from, until: from + 1.0 }, ticks: 1 });
        }
        let batches = Batches::new(list);
        let shown: Vec<TimeRange> = steps.iter().map(|step| step.time).collect();
        let costs = Costs(vec![(f64::INFINITY, vec![3.0, 4.0])]);
        let meter = Meter { late: 0.0, duty: 0.25, mean: 0.0 };
        let unseen = |meter, steps, shown| {
            SensorBlindSpot { batches: &batches, costs: &costs, meter, steps, shown, block: 16.0 }.relative(2)
        };
        // Off by +3 J in one of four steps and by −1 J in the others: 3 J² a step of 4 J.
        let should = (3.0 / 400.0_f64).sqrt() / 4.0;
        for relative in unseen(meter, &steps, &shown) {
            assert!((relative.sqrt() / should - 1.0).abs() < 0.1, "{} instead of {should}", relative.sqrt());
        }
        assert_eq!(unseen(Meter::PROMPT, &steps, &shown), [0.0; 4]);
    }

    /// Two such steps by hand: 3 J of the one kernel in each, 1 J of the other in the quarter that is looked
    /// at, then 2 J in one that is not. The counter shows 7 J of 4, then 3 of 5. A mean of a quarter of a
    /// second strays by what is left of both together.
    #[test]
    fn two_steps_by_hand() {
        let batch = |column, from: f64, length: f64, units: f64| {
            let executed = TimeRange { from, until: from + length };
            Batch { launched: executed, executed, blur: 0.0, cells: vec![Cell { owner: 1, column, units }] }
        };
        let list = vec![batch(0, 0.0, 2.0, 2.0), batch(1, 0.75, 0.25, 0.25), batch(1, 1.0, 0.25, 0.5)];
        let batches = Batches::new(list);
        let costs = Costs(vec![(f64::INFINITY, vec![3.0, 4.0])]);
        let steps = [0.0, 1.0].map(|from| Step { time: TimeRange { from, until: from + 1.0 }, ticks: 1 });
        let shown = steps.map(|step| step.time);
        let relative = |meter, block| {
            let (batches, costs, steps, shown) = (&batches, &costs, &steps[..], &shown[..]);
            SensorBlindSpot { batches, costs, meter, steps, shown, block }.relative(2)
        };
        let near = |found: Vec<f64>, expected: [f64; 4]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?} {expected:?}");
        };
        let part = Meter { late: 0.0, duty: 0.25, mean: 0.0 };
        let (first, second) = (9.0 / 16.0, 4.0 / 25.0);
        let both = first / 6.0 + second / 3.0;
        near(relative(part, 1.0), [(first + second) / 4.0, both, both, first / 9.0 + second * 4.0 / 9.0]);
        near(relative(part, 16.0), [13.0 / 81.0; 4]);
        near(relative(Meter { duty: 1.0, mean: 0.25, ..part }, 16.0), [1.0 / 81.0; 4]);
    }
}
