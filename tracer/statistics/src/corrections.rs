//! p-values of several tests at once. Leaves out which tests belong together.

/// Which error is kept below the level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Correction {
    /// Chance of any false finding: every p-value times the number of tests.
    Bonferroni,
    /// The same, with more power (Holm, Scandinavian Journal of Statistics 6 (1979), 65–70).
    #[default]
    Holm,
    /// Share of findings that are false (Benjamini and Hochberg, Journal of the Royal Statistical Society B 57 (1995), 289–300).
    BenjaminiHochberg,
}

impl Correction {
    /// Its name in a sentence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bonferroni => "Bonferroni",
            Self::Holm => "Holm",
            Self::BenjaminiHochberg => "Benjamini-Hochberg",
        }
    }

    /// Adjusted p-values, in the order given: below the level where the test is a finding.
    pub fn adjust(self, p: &[f64]) -> Vec<f64> {
        let tests = p.len() as f64;
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
        let mut adjusted = vec![0.0; p.len()];
        match self {
            Self::Bonferroni => adjusted.iter_mut().zip(p).for_each(|(to, p)| *to = (p * tests).min(1.0)),
            Self::Holm => {
                let mut least: f64 = 0.0;
                for (rank, &at) in order.iter().enumerate() {
                    least = least.max(p[at] * (tests - rank as f64)).min(1.0);
                    adjusted[at] = least;
                }
            }
            Self::BenjaminiHochberg => {
                let mut most: f64 = 1.0;
                for (rank, &at) in order.iter().enumerate().rev() {
                    most = most.min(p[at] * tests / (rank as f64 + 1.0));
                    adjusted[at] = most;
                }
            }
        }
        adjusted
    }
}
