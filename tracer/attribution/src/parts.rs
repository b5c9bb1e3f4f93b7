//! Parts of the attribution of CPUs that can be left out, one or several: so it is found out what each is worth
//! (`cargo xtask bench judge`). No option of the product leaves any out.
//!
//! Leaves out what is not asked of each recording: GPUs, delegation, counters.

/// A part that an attribution works without, though perhaps worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What threads did between two samples by a chain; else the nearest sample says it.
    Bridge,
    /// Mixes of some seconds; else that of the whole run.
    LocalMixes,
    /// What threads forget while they sleep; else nothing.
    SleepMixing,
    /// Mixes give columns as much time as samples stand for; else as many samples as they have.
    Balance,
    /// The fastest rate that is possible; else the likeliest.
    CautiousRate,
    /// Call paths of which samples do not show when they ran are pooled with their callers.
    Reliability,
    /// Those that samples hardly show have a power where energies are likelier.
    HardlyReliable,
    /// Powers of one thread's short loop, by pairs of samples; else it is pooled.
    Pairs,
    /// Powers of other processes, each its own.
    BackgroundPowers,
    /// Powers are believed to be alike by callers and functions; else by nothing.
    Prior,
    /// Windows that are far off count less.
    Huber,
    /// Windows count for less where powers fluctuate.
    Fluctuation,
    /// Windows count for less where times are in doubt.
    TimesInWeights,
    /// Windows count for less by what a counter's steps put them off.
    CounterEdges,
    /// How far behind a counter is.
    CounterDelay,
    /// Power, or a counter, that follows slowly.
    Lag,
    /// A lag may be the counter's.
    LagDoubt,
    /// All power that goes up and down.
    Drift,
    /// A drift may be what ran just then.
    DriftDoubt,
    /// Power beside busy CPUs.
    Contention,
    /// What one draws beside others may be the others' doing.
    ContentionDoubt,
    /// Power of what the CPUs of a socket share.
    SharedParts,
    /// Power by the clock of a CPU.
    ClockSpeed,
    /// Power of hardware threads that share a core.
    SharedCores,
    /// What the nearest sample would give.
    NearestSample,
    /// What half of the samples would give.
    HalfSamples,
    /// What longer windows would give.
    LongerWindows,
    /// Powers are as sure as blocks of two seconds agree.
    Sandwich,
    /// What is left when all is explained.
    Birge,
    /// Powers that fluctuate make energies unsure.
    FluctuationInIntervals,
    /// For how long they stray alike.
    WindowChain,
    /// Call paths that share a power may differ.
    SharedPaths,
    /// Times that only samples saw make energies unsure.
    TimesInIntervals,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 33] = [
        Self::Bridge,
        Self::LocalMixes,
        Self::SleepMixing,
        Self::Balance,
        Self::CautiousRate,
        Self::Reliability,
        Self::HardlyReliable,
        Self::Pairs,
        Self::BackgroundPowers,
        Self::Prior,
        Self::Huber,
        Self::Fluctuation,
        Self::TimesInWeights,
        Self::CounterEdges,
        Self::CounterDelay,
        Self::Lag,
        Self::LagDoubt,
        Self::Drift,
        Self::DriftDoubt,
        Self::Contention,
        Self::ContentionDoubt,
        Self::SharedParts,
        Self::ClockSpeed,
        Self::SharedCores,
        Self::NearestSample,
        Self::HalfSamples,
        Self::LongerWindows,
        Self::Sandwich,
        Self::Birge,
        Self::FluctuationInIntervals,
        Self::WindowChain,
        Self::SharedPaths,
        Self::TimesInIntervals,
    ];
}

/// Parts that are left out; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(u64);

impl LeftOut {
    /// Nothing is left out.
    pub const NOTHING: Self = Self(0);

    /// This part as well.
    #[must_use]
    pub const fn and(self, part: Part) -> Self {
        Self(self.0 | 1 << part as u32)
    }

    /// Whether a part is.
    pub const fn has(self, part: Part) -> bool {
        self.0 & (1 << part as u32) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{LeftOut, Part};

    /// Each part is in the list once, and is left out alone.
    #[test]
    fn parts_are_left_out_one_by_one() {
        for part in Part::ALL {
            let without = LeftOut::NOTHING.and(part);
            let there: Vec<Part> = Part::ALL.into_iter().filter(|other| without.has(*other)).collect();
            assert_eq!(there, [part]);
        }
        let two = LeftOut::NOTHING.and(Part::Bridge).and(Part::Lag);
        assert_eq!(Part::ALL.into_iter().filter(|part| two.has(*part)).count(), 2);
    }
}
