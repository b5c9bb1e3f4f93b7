//! How energy is attributed: choices that are made when a recording is read, not when it is made.

use std::fmt;

/// What becomes of the idle baseline. Each keeps the sum: `LedgerRow` balances to the microjoule under all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IdlePolicy {
    /// A row of its own, `[idle package-0]` or `[GPU idle]`, charged to nobody.
    #[default]
    Separate,
    /// As `Separate` in the ledger, and left out of what is drawn and exported.
    Exclude,
    /// Charged to whoever ran, in proportion to their energy above idle; what was charged below zero gets none.
    Proportional,
    /// Charged to whoever ran on the domain's CPUs, in proportion to their time.
    ActiveTime,
    /// Charged in equal parts to each thread of the target that ran on the domain's CPUs, and one part to all others together.
    Equal,
}

/// How energy above idle is split among those who ran at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// By CPU time alone.
    Time,
    /// By CPU time and learned watts, where the run shows them; by CPU time elsewhere.
    #[default]
    Weighted,
}

/// What becomes of the idle baseline, and how the rest is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accounting {
    /// What becomes of the idle baseline.
    pub idle: IdlePolicy,
    /// How energy is split.
    pub method: Method,
}

/// Whose joules a worker thread's are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// Those of the Python call that it works for.
    Logical,
    /// Its own.
    #[default]
    Physical,
}

/// All choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Whose joules a worker thread's are.
    pub view: View,
    /// How energy is accounted for.
    pub accounting: Accounting,
}

impl Options {
    /// The logical view; all else by default.
    pub fn logical() -> Self {
        Self { view: View::Logical, ..Self::default() }
    }
}

impl View {
    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Logical => "logical",
            Self::Physical => "physical",
        }
    }
}

impl IdlePolicy {
    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Exclude => "exclude",
            Self::Proportional => "proportional",
            Self::ActiveTime => "active-time",
            Self::Equal => "equal",
        }
    }
}

impl Method {
    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Weighted => "weighted",
        }
    }
}

impl fmt::Display for IdlePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
