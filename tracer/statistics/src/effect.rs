//! Vargha and Delaney's A: how often a value of one set is the larger. Leaves out whether that is chance.

/// How large an effect is, in words (Vargha and Delaney, Journal of Educational and Behavioral Statistics 25 (2000), 101–132).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Magnitude {
    /// A below 0.56, or as near 0.5 from below.
    Negligible,
    /// From 0.56.
    Small,
    /// From 0.64.
    Medium,
    /// From 0.71.
    Large,
}

impl Magnitude {
    /// The word of a value of A.
    pub fn of(a12: f64) -> Self {
        // As written in the source: 0.44, 0.36, 0.29 on the other side; a rounding error decides nothing.
        let away = (a12 - 0.5).abs() + 1e-12;
        match away {
            _ if away >= 0.21 => Self::Large,
            _ if away >= 0.14 => Self::Medium,
            _ if away >= 0.06 => Self::Small,
            _ => Self::Negligible,
        }
    }

    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Negligible => "negligible",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

/// Chance that a value of the first set is larger than one of the second, ties counting a half; NaN where a set is empty.
pub fn a12(first: &[f64], second: &[f64]) -> f64 {
    let pairs = first.iter().flat_map(|a| second.iter().map(move |b| (a, b)));
    let won = pairs.map(|(a, b)| match () {
        () if a > b => 1.0,
        () if a == b => 0.5,
        () => 0.0,
    });
    won.sum::<f64>() / (first.len() * second.len()) as f64
}
