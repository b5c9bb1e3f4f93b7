//! Whether the powers that a run taught may split its energy: what was found when its windows were held against them.
//!
//! * *Lack of fit*: how far windows stray from what the powers say, beside what the counter's steps, the time of its readings and the times
//!   between samples explain: the mean square of the one over the variance of the other. About 1 where these explain all; more makes every interval wider and is said.
//! * *Fluctuation*: by how much one function's power differs from window to window, as a part of itself. Beyond the limit
//!   energy is split by CPU time alone, and the functions are flagged.
//!
//! Leaves out how the values are found (`attribution/`).

/// More than this is said.
const MOST_MISFIT: f64 = 3.0;
/// Powers that differ by more than this are of no use.
const MOST_FLUCTUATION: f64 = 0.35;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidityChecks {
    /// Lack of fit: mean square of residuals over the variance that physics gives them.
    pub misfit: f64,
    /// Standard deviation of a power from window to window, in parts of itself.
    pub fluctuation: f64,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValidityCheck {
    /// Windows hold what the powers say.
    LackOfFit,
    /// A function draws the same power each time.
    Fluctuation,
}

impl ValidityCheck {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LackOfFit => "lack_of_fit",
            Self::Fluctuation => "fluctuation",
        }
    }
}

/// What one check found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckResult {
    /// Which one.
    pub check: ValidityCheck,
    /// What was found.
    pub value: f64,
    /// What `value` must be below.
    pub limit: f64,
    /// Whether it passed.
    pub passed: bool,
}

impl ValidityChecks {
    /// All checks, in the order in which they are described.
    pub fn each(&self) -> [CheckResult; 2] {
        let check = |check, value, limit| CheckResult { check, value, limit, passed: value < limit };
        [
            check(ValidityCheck::LackOfFit, self.misfit, MOST_MISFIT),
            check(ValidityCheck::Fluctuation, self.fluctuation, MOST_FLUCTUATION),
        ]
    }

    /// Whether the powers may split energy.
    pub fn usable(&self) -> bool {
        let [_, fluctuation] = self.each();
        fluctuation.passed
    }
}

#[cfg(test)]
mod tests {
    use super::ValidityChecks;

    /// Each fails at its limit and at what is no number; a lack of fit alone is said, and powers are used.
    #[test]
    fn limits() {
        let good = ValidityChecks { misfit: 2.9, fluctuation: 0.34 };
        assert!(good.usable() && good.each().iter().all(|check| check.passed));
        let misfit = ValidityChecks { misfit: 3.0, ..good };
        assert!(misfit.usable() && !misfit.each()[0].passed);
        for fluctuation in [0.35, f64::NAN, f64::INFINITY] {
            assert!(!ValidityChecks { fluctuation, ..good }.usable());
        }
    }
}
