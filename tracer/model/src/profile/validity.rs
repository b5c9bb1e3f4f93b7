//! Whether the watts that a run taught may split its energy: three checks, with what each found.
//!
//! * *Cross-validation*: watts fitted to the other four fifths of the run predict a fifth better than the mean power does. The value is the
//!   mean gain in its own standard errors.
//! * *Condition number*: how nearly some functions' times are a sum of others', as the largest over the smallest singular value of the
//!   times, each function's scaled to length one (Belsley, Kuh, Welsch: Regression diagnostics, 1980, §3.2: from 30 on they are in each
//!   other's way). Watts beyond it are the belief's, not the run's.
//! * *Split half*: watts fitted to every other half second agree with those fitted to the rest. The value is how far they are apart in
//!   their own standard deviations, root mean square over the functions by their energy. Functions that draw now this and now that fail here.
//!
//! Where one fails, energy is split by CPU time alone. Leaves out how the values are found (`attribution/`).

/// Standard errors that the gain must exceed.
pub const LEAST_GAIN: f64 = 2.0;
/// The condition number must be below this.
const MOST_CONDITION: f64 = 30.0;
/// The halves may be this many of their standard deviations apart.
const MOST_APART: f64 = 2.0;

/// What the validity checks found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidityChecks {
    /// Cross-validation: the gain in standard errors.
    pub gain: f64,
    /// The condition number; infinite where a function's times are a sum of others'.
    pub condition: f64,
    /// How far the halves' watts are apart, in standard deviations; infinite where a half has no watts.
    pub apart: f64,
}

/// A check that learned power has to pass before it splits energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValidityCheck {
    /// Power fitted to one part of the run predicts another.
    CrossValidation,
    /// No function's times are nearly a sum of others'.
    ConditionNumber,
    /// Two halves of the run show the same power.
    SplitHalf,
}

impl ValidityCheck {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CrossValidation => "cross_validation",
            Self::ConditionNumber => "condition_number",
            Self::SplitHalf => "split_half",
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
    /// What `value` must be above (cross-validation) or below (the others).
    pub limit: f64,
    /// Whether it passed.
    pub passed: bool,
}

impl ValidityChecks {
    /// All checks, in the order in which they are described.
    pub fn each(&self) -> [CheckResult; 3] {
        let check = |check, value, limit, passed| CheckResult { check, value, limit, passed };
        [
            check(ValidityCheck::CrossValidation, self.gain, LEAST_GAIN, self.gain > LEAST_GAIN),
            check(
                ValidityCheck::ConditionNumber,
                self.condition,
                MOST_CONDITION,
                self.condition < MOST_CONDITION,
            ),
            check(ValidityCheck::SplitHalf, self.apart, MOST_APART, self.apart < MOST_APART),
        ]
    }

    /// Whether the watts may split energy.
    pub fn passed(&self) -> bool {
        self.each().iter().all(|check| check.passed)
    }

    /// Whether the watts are those that the run shows, be they of use or not: all checks but the first passed.
    pub fn sound(&self) -> bool {
        let [_, condition, halves] = self.each();
        condition.passed && halves.passed
    }
}

#[cfg(test)]
mod tests {
    use super::ValidityChecks;

    /// Each check fails by itself, at its limit and at what is no number; only the first leaves the watts sound.
    #[test]
    fn each_check_fails_alone() {
        let passed = ValidityChecks { gain: 2.1, condition: 29.0, apart: 1.9 };
        assert!(passed.passed() && passed.sound());
        for failed in [
            ValidityChecks { condition: 30.0, ..passed },
            ValidityChecks { condition: f64::INFINITY, ..passed },
            ValidityChecks { apart: 2.0, ..passed },
            ValidityChecks { apart: f64::NAN, ..passed },
        ] {
            assert!(!failed.passed() && !failed.sound(), "{failed:?}");
        }
        let useless = ValidityChecks { gain: 2.0, ..passed };
        assert!(!useless.passed() && useless.sound());
    }
}
