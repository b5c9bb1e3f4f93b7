//! Energy over the time of a run: the profile's rows and the ledger, cut into bins of time.
//!
//! Over all bins, to the microjoule: the bins of a row are the row, and the bins of a domain are its row of the ledger. In each bin
//! `measured = target + other + idle + uncore + residual + Σ unattributed`, and the rows' energy is the domains' `target`, class by class.
//! There are at most `MAX_BINS` bins, and a row has only those in which it has something.
//!
//! Leaves out how energy comes into bins (`energy-trace-attribution`), and how sure a bin is: nobody knows that.

use super::diagnostics::Diagnostic;
use super::tables::{EnergyByClass, LedgerRow, Profile, ProfileRow, UnattributedReason};
use crate::clock::KtimeNs;
use crate::profile::certainty::Certainty;
use crate::recording::record::DomainClass;
use crate::units::MicroJoules;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Most bins of a run.
pub const MAX_BINS: u32 = 500;
/// The narrowest bin in nanoseconds: counters are read at about this distance.
const NARROWEST_NS: u64 = 20_000_000;

/// Bins of equal width from a run's start on; the last one may reach beyond its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bins {
    start: KtimeNs,
    end: KtimeNs,
    width_ns: u64,
}

impl Bins {
    /// Of a run: as narrow as may be, with a width of 1, 2 or 5 times a power of ten.
    pub fn over(start: KtimeNs, end: KtimeNs) -> Self {
        let length = end.ns_since(start);
        let mut width_ns = NARROWEST_NS;
        for factor in [[5, 2], [2, 1], [2, 1]].into_iter().cycle() {
            if length.div_ceil(width_ns) <= u64::from(MAX_BINS) {
                break;
            }
            width_ns = width_ns.saturating_mul(factor[0]) / factor[1];
        }
        Self { start, end: end.max(start), width_ns }
    }

    /// The width of a bin in nanoseconds.
    pub const fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The run's length in nanoseconds.
    pub const fn length_ns(&self) -> u64 {
        self.end.ns_since(self.start)
    }

    /// How many there are: at least one.
    pub fn count(&self) -> u32 {
        let bins = self.length_ns().div_ceil(self.width_ns.max(1)).clamp(1, u64::from(MAX_BINS));
        u32::try_from(bins).unwrap_or(MAX_BINS)
    }

    /// From when to when a bin is, cut off at the run's end.
    pub fn span(&self, bin: u32) -> (KtimeNs, KtimeNs) {
        let edge = |bin: u32| {
            let after = self.width_ns.saturating_mul(u64::from(bin)).min(self.length_ns());
            self.start + Duration::from_nanos(after)
        };
        (edge(bin), edge(bin.saturating_add(1)))
    }

    /// The bin of a moment; of one outside the run, the nearest.
    pub fn at(&self, moment: KtimeNs) -> u32 {
        let bin = moment.ns_since(self.start) / self.width_ns.max(1);
        u32::try_from(bin).unwrap_or(u32::MAX).min(self.count() - 1)
    }

    /// All bins that a stretch of the run touches, in nanoseconds since its start; at least one.
    pub fn touched(&self, from_ns: u64, to_ns: u64) -> Range<u32> {
        let width = self.width_ns.max(1);
        let number = |bin: u64| u32::try_from(bin).unwrap_or(u32::MAX);
        let first = number(from_ns / width).min(self.count() - 1);
        first..number(to_ns.div_ceil(width)).clamp(first + 1, self.count())
    }
}

/// Where one domain's energy went in one bin: the parts of a `LedgerRow`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinEnergy {
    /// For so long the counter (or the model) says what was drawn, in nanoseconds.
    pub covered_ns: u64,
    /// What it says.
    pub measured: MicroJoules,
    /// Charged to the target's threads.
    pub target: MicroJoules,
    /// Charged to other processes and the kernel's own threads.
    pub other: MicroJoules,
    /// The idle baseline.
    pub idle: MicroJoules,
    /// Shared parts of the socket.
    pub uncore: MicroJoules,
    /// What is left: of windows in which nobody ran, and what could not be placed any better.
    pub residual: MicroJoules,
    /// What could not be charged, by reason.
    pub unattributed: BTreeMap<UnattributedReason, MicroJoules>,
}

impl BinEnergy {
    /// All parts but the residual.
    pub fn placed(&self) -> MicroJoules {
        let parts = [self.target, self.other, self.idle, self.uncore];
        parts.into_iter().chain(self.unattributed.values().copied()).sum()
    }
}

/// What one row has in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowBin {
    /// Which.
    pub bin: u32,
    /// Time on a CPU in nanoseconds.
    pub time_ns: u64,
    /// Energy.
    pub energy: EnergyByClass,
}

/// A part of a run, in nanoseconds since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartOfRun {
    /// Its start.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// The run's length.
    pub of_ns: u64,
    /// The width of the bins that it is made of.
    pub bin_ns: u64,
}

/// A profile over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverTime {
    /// The bins.
    pub bins: Bins,
    /// Each domain's energy in each bin, in the order of the ledger.
    pub domains: Vec<Vec<BinEnergy>>,
    /// CPU time in each bin of everything that is not the target, in nanoseconds.
    pub others_ns: Vec<u64>,
    /// What each row has in bins, in the order of the rows, and in order of time.
    pub entries: Vec<RowBin>,
    /// Where the entries of each row begin, and behind them the number of all.
    pub firsts: Vec<usize>,
}

impl OverTime {
    /// What a row has in bins.
    pub fn of_row(&self, row: usize) -> &[RowBin] {
        let (from, to) = (self.firsts.get(row), self.firsts.get(row.saturating_add(1)));
        from.zip(to).and_then(|(&from, &to)| self.entries.get(from..to)).unwrap_or_default()
    }

    /// The profile of some bins alone. Nothing says how sure it is, and calls that were counted over the whole run are left out. All bins
    /// together are the profile itself.
    pub fn within(&self, mut profile: Profile, bins: Range<u32>) -> Profile {
        if bins.start == 0 && bins.end >= self.bins.count() {
            return profile;
        }
        let rows = profile.rows.iter().enumerate();
        profile.rows = rows.filter_map(|(number, row)| self.row_within(number, row, &bins)).collect();
        for (row, of_domain) in profile.ledger.iter_mut().zip(&self.domains) {
            sum_up(row, of_domain, &bins);
        }
        let others = self.others_ns.iter().skip(bins.start as usize).take(bins.len());
        profile.run.other_ns = others.fold(0, |sum: u64, ns| sum.saturating_add(*ns));
        profile.run.samples = profile.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.samples));
        let (from, to) = (self.bins.span(bins.start).0, self.bins.span(bins.end.saturating_sub(1)).1);
        (profile.run.start, profile.run.end) = (from, to);
        let since = |at: KtimeNs| at.ns_since(self.bins.start);
        let (of_ns, bin_ns) = (self.bins.length_ns(), self.bins.width_ns);
        let part = PartOfRun { from_ns: since(from), to_ns: since(to), of_ns, bin_ns };
        become_part(&mut profile, part);
        self.count_work(&mut profile, from, to);
        profile
    }

    fn row_within(&self, number: usize, row: &ProfileRow, bins: &Range<u32>) -> Option<ProfileRow> {
        let entries = self.of_row(number);
        let from = entries.partition_point(|entry| entry.bin < bins.start);
        let here = from..entries.partition_point(|entry| entry.bin < bins.end);
        if here.is_empty() {
            return None;
        }
        let mut part = ProfileRow { energy: EnergyByClass::default(), time_ns: 0, ..*row };
        for entry in &entries[here.clone()] {
            part.energy += entry.energy;
            part.time_ns = part.time_ns.saturating_add(entry.time_ns);
        }
        // Where samples and a split by time fell is not kept: they go with time and energy.
        let times: Vec<u64> = entries.iter().map(|entry| entry.time_ns).collect();
        part.samples = share(i64::try_from(row.samples).unwrap_or(i64::MAX), &times, &here).unsigned_abs();
        for class in DomainClass::ALL {
            let weights: Vec<u64> =
                entries.iter().map(|entry| entry.energy[class].as_uj().unsigned_abs()).collect();
            let weights = if weights.iter().all(|&weight| weight == 0) { &times } else { &weights };
            part.by_time[class] = MicroJoules::from_uj(share(row.by_time[class].as_uj(), weights, &here));
        }
        let nothing = EnergyByClass::default();
        let is_empty = (part.energy, part.by_time, part.time_ns, part.samples) == (nothing, nothing, 0, 0);
        (!is_empty).then_some(part)
    }
}

/// The part of a whole that some places have by their weights; by equal ones where there are none.
fn share(whole: i64, weights: &[u64], here: &Range<usize>) -> i64 {
    split_or_equal(whole, weights)[here.clone()].iter().copied().sum::<MicroJoules>().as_uj()
}

/// A whole in parts by weights; in equal ones where there are none.
pub(super) fn split_or_equal(whole: i64, weights: &[u64]) -> Vec<MicroJoules> {
    let whole = MicroJoules::from_uj(whole);
    let parts = whole.split(weights).or_else(|| whole.split(&vec![1; weights.len()]));
    parts.unwrap_or_default()
}

/// Makes a profile that of a part of its run: nothing says how sure it is, and what was counted over the whole run is left out.
pub(super) fn become_part(profile: &mut Profile, part: PartOfRun) {
    profile.diagnostics.insert(0, Diagnostic::PartOfRun(part));
    profile.part = Some(part);
    profile.certainty = Certainty::default();
    profile.calls.clear();
    profile.input_sizes.clear();
}

/// Makes a row of the ledger the sum of some bins.
fn sum_up(row: &mut LedgerRow, of_domain: &[BinEnergy], bins: &Range<u32>) {
    let here = of_domain.iter().skip(bins.start as usize).take(bins.len());
    let sum = |part: fn(&BinEnergy) -> MicroJoules| here.clone().map(part).sum::<MicroJoules>();
    row.measured = sum(|bin| bin.measured);
    row.target = sum(|bin| bin.target);
    row.other = sum(|bin| bin.other);
    row.idle = sum(|bin| bin.idle);
    row.uncore = sum(|bin| bin.uncore);
    row.residual = sum(|bin| bin.residual);
    row.unattributed.clear();
    for (&reason, &energy) in here.clone().flat_map(|bin| &bin.unattributed) {
        *row.unattributed.entry(reason).or_default() += energy;
    }
}

#[cfg(test)]
mod tests {
    use super::{Bins, KtimeNs, MAX_BINS};

    fn bins(ms: u64) -> Bins {
        Bins::over(KtimeNs::from_ns(5), KtimeNs::from_ns(5 + ms * 1_000_000))
    }

    /// Widths are round, and there are never more bins than may be, however long a run is.
    #[test]
    fn widths_are_round_and_bins_are_few() {
        let width = |ms| bins(ms).width_ns() / 1_000_000;
        assert_eq!(
            [0, 1, 10_000, 10_001, 25_001, 50_001, 100_001, 3_600_000].map(width),
            [20, 20, 20, 50, 100, 200, 500, 10_000]
        );
        for ms in [0, 1, 20, 21, 9_999, 123_456, u64::MAX / 1_000_000 - 1] {
            assert!((1..=MAX_BINS).contains(&bins(ms).count()), "{ms}");
        }
    }

    /// Bins lie one behind the other from start to end, and each moment is in its own.
    #[test]
    fn bins_tile_the_run() {
        let bins = bins(90);
        let spans: Vec<_> = (0..bins.count()).map(|bin| bins.span(bin)).collect();
        assert_eq!(spans.len(), 5);
        assert_eq!((spans[0].0.as_ns(), spans[4].1.as_ns()), (5, 5 + 90_000_000));
        assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert!(spans.iter().zip(0..).all(|(span, bin)| bins.at(span.0) == bin));
        assert_eq!((bins.at(KtimeNs::from_ns(0)), bins.at(KtimeNs::from_ns(u64::MAX))), (0, 4));
    }

    /// A stretch has all bins that it touches, and never none.
    #[test]
    fn stretches_are_widened_to_bins() {
        let ms = 1_000_000;
        let bins = bins(90);
        assert_eq!(bins.touched(20 * ms, 60 * ms), 1..3);
        assert_eq!(bins.touched(19 * ms, 61 * ms), 0..4);
        assert_eq!(bins.touched(30 * ms, 30 * ms), 1..2);
        assert_eq!(bins.touched(u64::MAX, u64::MAX), 4..5);
        assert_eq!(bins.touched(0, u64::MAX), 0..5);
    }
}
