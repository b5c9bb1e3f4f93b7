//! Where a thread's mix of functions changed: the borders that its samples show.
//!
//! Samples are taken as draws from one mix after another. Neighbouring cells of samples are put together as long as that costs less
//! likelihood than a border and a mix of its own (Schwarz: Estimating the dimension of a model, 1978); then each border is moved to where
//! it makes the samples likeliest. That is bottom-up segmentation (Keogh et al.: An online algorithm for segmenting time series, ICDM 2001)
//! with a multinomial cost. A mean over a fixed width would smear every border over that width, and watts that are fitted to smeared
//! mixes lie too far apart. Leaves out whether the samples are such draws at all, which `switching_chain` asks their likelihood.

/// Samples in a cell: with fewer, the first cells that are put together are put together by chance.
const CELL: usize = 16;
/// Cells of a thread, at most.
const MOST_CELLS: usize = 2_048;

/// A stretch of one mix.
#[derive(Clone, Debug)]
struct Stretch {
    /// Position of its first sample.
    first: usize,
    counts: Vec<f64>,
    likelihood: f64,
}

impl Stretch {
    fn new(first: usize, counts: Vec<f64>) -> Self {
        let likelihood = likelihood(&counts);
        Self { first, counts, likelihood }
    }

    fn with(&self, next: &Self) -> Self {
        Self::new(self.first, self.counts.iter().zip(&next.counts).map(|(a, b)| a + b).collect())
    }
}

/// The log-likelihood of counts at their own shares.
fn likelihood(counts: &[f64]) -> f64 {
    let all: f64 = counts.iter().sum();
    counts.iter().filter(|count| **count > 0.0).map(|count| count * (count / all).ln()).sum()
}

/// Positions of the samples that begin a new mix, in order; `columns_of` are a thread's samples in time order, each below `columns`.
#[expect(clippy::cast_precision_loss, reason = "counts")]
pub(crate) fn borders(columns_of: &[usize], columns: usize) -> Vec<usize> {
    let cell = CELL.max(columns_of.len().div_ceil(MOST_CELLS));
    let mut stretches: Vec<Stretch> = (0..)
        .zip(columns_of.chunks(cell))
        .map(|(number, samples)| {
            let mut counts = vec![0.0; columns];
            samples.iter().for_each(|&column| counts[column] += 1.0);
            Stretch::new(number * cell, counts)
        })
        .collect();
    let price = 0.5 * (columns_of.len().max(2) as f64).ln();
    let loss = |pair: &[Stretch]| {
        let [a, b] = pair else { return f64::INFINITY };
        let both = a.with(b);
        // A mix more has as many unknowns as there are functions in it, less one; its border is one more.
        let unknowns = both.counts.iter().filter(|count| **count > 0.0).count() as f64;
        a.likelihood + b.likelihood - both.likelihood - price * unknowns
    };
    let mut losses: Vec<f64> = stretches.windows(2).map(loss).collect();
    while let Some(least) = (0..losses.len()).min_by(|&a, &b| losses[a].total_cmp(&losses[b])) {
        if losses[least] >= 0.0 {
            break;
        }
        stretches[least] = stretches[least].with(&stretches[least + 1]);
        stretches.remove(least + 1);
        losses.remove(least);
        for pair in [least.wrapping_sub(1), least] {
            if let (Some(slot), Some(both)) =
                (losses.get_mut(pair), stretches.get(pair..pair.saturating_add(2)))
            {
                *slot = loss(both);
            }
        }
    }
    for after in 1..stretches.len() {
        let end = stretches.get(after + 1).map_or(columns_of.len(), |next| next.first);
        shift(&mut stretches[after - 1..=after], columns_of, end, cell);
    }
    stretches.iter().skip(1).map(|stretch| stretch.first).collect()
}

/// Moves the border between two stretches to where it makes their samples likeliest, at most a few cells away.
fn shift(pair: &mut [Stretch], columns_of: &[usize], end: usize, cell: usize) {
    let [a, b] = pair else { return };
    let from = (a.first + 1).max(b.first.saturating_sub(3 * cell));
    let to = end.min(b.first + 3 * cell);
    let (mut left, mut right) = (a.counts.clone(), b.counts.clone());
    for &column in columns_of.get(from..b.first).unwrap_or_default() {
        (left[column], right[column]) = (left[column] - 1.0, right[column] + 1.0);
    }
    let (mut best, mut best_sum) = (b.first, f64::NEG_INFINITY);
    let mut found = (a.counts.clone(), b.counts.clone());
    for (border, &column) in columns_of.iter().enumerate().take(to).skip(from) {
        let sum = likelihood(&left) + likelihood(&right);
        if sum > best_sum {
            (best, best_sum, found) = (border, sum, (left.clone(), right.clone()));
        }
        (left[column], right[column]) = (left[column] + 1.0, right[column] - 1.0);
    }
    (*a, *b) = (Stretch::new(a.first, found.0), Stretch::new(best, found.1));
}

#[cfg(test)]
mod tests {
    use super::borders;

    /// Samples of one mix after another: a border where the mix changes, within a few samples, and none where it does not.
    #[test]
    fn borders_where_the_mix_changes() {
        let mut seed = 7_u64;
        let mut draw = |from: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            from + usize::try_from((seed >> 33) % 3).unwrap()
        };
        let mut samples: Vec<usize> = (0..500).map(|_| draw(0)).collect();
        assert_eq!(borders(&samples, 6), [0; 0]);
        samples.extend((0..300).map(|_| draw(3)));
        samples.extend((0..410).map(|_| draw(0)));
        let found = borders(&samples, 6);
        assert!(found.len() == 2 && found[0].abs_diff(500) < 3 && found[1].abs_diff(800) < 3, "{found:?}");
        assert_eq!(borders(&[], 2), [0; 0]);
    }
}
