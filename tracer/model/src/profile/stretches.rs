//! The profile of some stretches of a run's time alone: those in which a counter of work says what was done.
//!
//! Each row's energy in a bin is cut as `work` does it, so that the rows' sum is the stretches' energy to the microjoule. Leaves out how
//! sure it is.

use super::over_time::{BinEnergy, OverTime, PartOfRun, RowBin, become_part, split_or_equal};
use super::tables::{EnergyByClass, LedgerRow, Profile, ProfileRow};
use crate::clock::KtimeNs;
use crate::recording::record::DomainClass;
use crate::units::MicroJoules;

/// From one moment to another.
pub type Span = (KtimeNs, KtimeNs);

/// The stretches that touch each bin.
struct Stretches<'a> {
    over: &'a OverTime,
    in_bins: Vec<Vec<Span>>,
}

impl OverTime {
    /// The profile of these stretches, which do not overlap. Nothing says how sure it is, and calls that were counted over the whole run are
    /// left out.
    pub fn within_stretches(&self, mut profile: Profile, spans: &[Span]) -> Profile {
        let stretches = Stretches::new(self, spans);
        let rows = profile.rows.iter().enumerate();
        profile.rows = rows.filter_map(|(number, row)| stretches.row(row, self.of_row(number))).collect();
        for (row, bins) in profile.ledger.iter_mut().zip(&self.domains) {
            stretches.ledger_row(row, bins);
        }
        charge_rows(&mut profile);
        profile.run.samples = profile.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.samples));
        let since = |at: KtimeNs| at.ns_since(profile.run.start);
        let ends = spans.first().zip(spans.last()).map(|(first, last)| (since(first.0), since(last.1)));
        let (from_ns, to_ns) = ends.unwrap_or_default();
        let (of_ns, bin_ns) = (self.bins.length_ns(), self.bins.width_ns());
        let part = PartOfRun { from_ns, to_ns, of_ns, bin_ns };
        become_part(&mut profile, part);
        profile
    }
}

impl<'a> Stretches<'a> {
    fn new(over: &'a OverTime, stretches: &[Span]) -> Self {
        let mut in_bins = vec![vec![]; over.bins.count() as usize];
        for &(from, to) in stretches {
            let bins = over.bins.at(from) as usize..=over.bins.at(to) as usize;
            in_bins.get_mut(bins).into_iter().flatten().for_each(|bin| bin.push((from, to)));
        }
        Self { over, in_bins }
    }

    /// What of a number in a bin lies in the stretches.
    fn part(&self, bin: u32, whole: i64) -> i64 {
        let before = |moment| self.over.before_uj(bin, moment, whole);
        let here = self.in_bins.get(bin as usize).into_iter().flatten();
        here.map(|&(from, to)| before(to).saturating_sub(before(from))).fold(0, i64::saturating_add)
    }

    fn energy(&self, bin: u32, whole: MicroJoules) -> MicroJoules {
        MicroJoules::from_uj(self.part(bin, whole.as_uj()))
    }

    /// What of a number that is spread over bins lies in the stretches.
    fn spread(&self, whole: i64, weights: &[u64], entries: &[RowBin]) -> i64 {
        let parts = split_or_equal(whole, weights);
        parts
            .iter()
            .zip(entries)
            .map(|(part, entry)| self.energy(entry.bin, *part))
            .sum::<MicroJoules>()
            .as_uj()
    }

    fn row(&self, row: &ProfileRow, entries: &[RowBin]) -> Option<ProfileRow> {
        let nothing = ProfileRow {
            energy: EnergyByClass::default(),
            by_time: EnergyByClass::default(),
            time_ns: 0,
            samples: 0,
            ..*row
        };
        let mut part = nothing;
        let times: Vec<u64> = entries.iter().map(|entry| entry.time_ns).collect();
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        part.samples = self.spread(whole(row.samples), &times, entries).unsigned_abs();
        for entry in entries {
            part.time_ns =
                part.time_ns.saturating_add(self.part(entry.bin, whole(entry.time_ns)).unsigned_abs());
        }
        for class in DomainClass::ALL {
            part.energy[class] =
                entries.iter().map(|entry| self.energy(entry.bin, entry.energy[class])).sum();
            let weights: Vec<u64> =
                entries.iter().map(|entry| entry.energy[class].as_uj().unsigned_abs()).collect();
            let weights = if weights.iter().all(|&weight| weight == 0) { &times } else { &weights };
            part.by_time[class] =
                MicroJoules::from_uj(self.spread(row.by_time[class].as_uj(), weights, entries));
        }
        (part != nothing).then_some(part)
    }

    fn ledger_row(&self, row: &mut LedgerRow, bins: &[BinEnergy]) {
        let sum = |of: &dyn Fn(&BinEnergy) -> MicroJoules| {
            (0..).zip(bins).map(|(number, bin)| self.energy(number, of(bin))).sum::<MicroJoules>()
        };
        row.measured = sum(&|bin| bin.measured);
        row.target = sum(&|bin| bin.target);
        row.other = sum(&|bin| bin.other);
        row.idle = sum(&|bin| bin.idle);
        row.uncore = sum(&|bin| bin.uncore);
        for (reason, energy) in &mut row.unattributed {
            *energy = sum(&|bin| bin.unattributed.get(reason).copied().unwrap_or_default());
        }
        row.residual = MicroJoules::ZERO;
        row.residual = row.imbalance();
    }
}

/// Makes the ledger's targets what rows have: both were rounded, each for itself.
fn charge_rows(profile: &mut Profile) {
    for class in DomainClass::ALL {
        let of_rows: MicroJoules = profile.rows.iter().map(|row| row.energy[class]).sum();
        let mut of_class = profile.ledger.iter_mut().filter(|row| row.class == class);
        let Some(first) = of_class.next() else { continue };
        let others: MicroJoules = of_class.map(|row| row.target).sum();
        first.target = of_rows - others;
        first.residual = MicroJoules::ZERO;
        first.residual = first.imbalance();
    }
}
