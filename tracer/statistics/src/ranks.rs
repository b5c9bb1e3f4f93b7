//! Ranks with ties: equal values share the mean of their ranks. Leaves out what is done with them.

/// Ranks from 1, and how many values each group of equal ones has.
pub(crate) struct Ranks {
    /// Rank of each value, in the order given.
    pub(crate) ranks: Vec<f64>,
    /// Sizes of the groups of two and more equal values.
    pub(crate) ties: Vec<f64>,
}

/// Ranks values; those that are no numbers come last.
pub(crate) fn rank(values: &[f64]) -> Ranks {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut found = Ranks { ranks: vec![0.0; values.len()], ties: Vec::new() };
    let mut before = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let size = group.len() as f64;
        let mean = before as f64 + (size + 1.0) / 2.0;
        group.iter().for_each(|&at| found.ranks[at] = mean);
        if group.len() > 1 {
            found.ties.push(size);
        }
        before += group.len();
    }
    found
}
