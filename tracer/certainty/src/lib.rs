//! How sure the energy of any set of rows is, by what attribution found out (`energy_trace_model::profile::certainty`): a report asks for each function.
//!
//! ```
//! use energy_trace_certainty::{HowSure as _, Uncertainty};
//! use energy_trace_model::{profile::Profile, units::MicroJoules};
//!
//! // Of nothing nothing is unsure.
//! let nothing = Profile::default().certainty.of(&[], |_| true, MicroJoules::ZERO);
//! assert_eq!(nothing, Uncertainty::default());
//! ```
//!
//! ```text
//! Var E(S) = eᵀ R e  +  v (1 − v / v_all)  +  Σ_c pool_c  +  (σ_idle · T · time(S) / time)²  +  Σ_o w_o² p_o (1 − p_o)
//!                                                                    e: energy of S by column, v: Σ variance of its rows
//! pool_c   = (τ_p E_c)² ((1 − f)² A + f² (H − A)) + E_c² f (1 − f) / n_c        f: S's part of column c, A: Σ of squares of its paths' parts, H: of all
//! pools    = Σ_c pool_c + τ_f² Σ_g (Σ_c E_gc(S) − f_c E_gc)²         E_gc: energy of innermost function g in column c
//! ```
//!
//! R: relative covariance of the columns' energies, from the covariance of the watts. v: variance by times that only samples saw; what
//! one function of two has too much the other has too little, so that the variance of everything together is zero. A column
//! may hold several call paths that the run does not tell apart; they share its energy by time, though each may draw more or less than the
//! others (τ_p), and an innermost function more or less wherever it is called (τ_f); and into which path each of its n_c samples fell is chance. w_o: energy that was given in equal parts to several calls,
//! because nothing tells which of them asked, and of which S has the part p_o: it may all be one call's. Leaves out the sensor's own error, which no counter shows, and how much another run of the same program would differ.

use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::certainty::{Certainty, Column, DomainCertainty, Function, Part, Pool};
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// 97.5 % of a normal distribution lie below this.
const Z: f64 = 1.959_964;
/// The variance is that of an idealised model; deviations are this much larger. The least tenth with which each recorded program that is seen holds
/// 95 %, quiet and beside neighbours (`cargo xtask bench judge`).
const WIDEN: f64 = 1.1;
/// The same of a GPU's energies (`cargo xtask bench gpu-accuracy`).
const WIDEN_GPU: f64 = 1.4;
/// Bounds reach this many standard deviations of sampling beyond what watts allow.
const BOUND_SDS: f64 = 4.2;
/// What call paths may draw, as the regression believes: variances in parts of the square of their mean, of what callers have in common.
pub const OF_CALLERS: f64 = 0.12;
/// The same of a column.
pub const OF_COLUMN: f64 = 0.12;
/// The same of an innermost function, wherever it is called.
pub const OF_FUNCTION: f64 = 0.12;
/// Least and most that a function may draw in parts of the mean, where a run shows nothing.
pub const PLAUSIBLE: (f64, f64) = (0.1, 4.0);
/// What call paths in one column may draw, where the run does not show it.
const OF_PATH: f64 = OF_CALLERS + OF_COLUMN;
/// All of it: 0.6 of the mean as a standard deviation.
pub const OF_POWER: f64 = OF_PATH + OF_FUNCTION;
/// An energy whose interval reaches further than this part of it is flagged: the run does not show it.
const WIDE: f64 = 0.15;
/// An interval reaches no more than so many times (e³) up and down.
const MOST_TIMES: f64 = 3.0;
/// Where the doubt about who asked is more than this part of an energy, or what watts that the run does not show leave open is wider, bounds say
/// how far it goes; less of it is in the interval.
const UNCLEAR: f64 = 0.12;

/// How sure the energy of some rows is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncertainty {
    /// 95 % interval. Where the run leaves open whose energy it is, or windows contradict the powers, it reaches to the bounds: what is not
    /// known is no narrower for being computed.
    pub ci95: (MicroJoules, MicroJoules),
    /// Least and most that can be, where the interval is wide or the run does not show it at all.
    pub bounds: Option<(MicroJoules, MicroJoules)>,
}

/// Collects rows, and says how sure their sum is.
#[derive(Clone, Debug)]
struct Collector<'a> {
    of: &'a DomainCertainty,
    /// Joules, and the squares of parts, of each column.
    by_column: Vec<f64>,
    squares: Vec<f64>,
    /// Joules of each innermost function in each column.
    functions: BTreeMap<(usize, Function), f64>,
    variance: f64,
    seconds: f64,
    /// What the rows have together of each energy in parts.
    parts: BTreeMap<u32, Claim>,
    /// Whether these are all rows: the rest of the domain's energy is other processes'.
    is_all: bool,
}

/// What rows have of an energy in parts, beside all of it; and which weight it shares.
#[derive(Clone, Copy, Debug)]
struct Claim {
    joules: f64,
    of: Part,
    column: usize,
}

impl Claim {
    /// Whether another call's rows have some of it.
    fn is_open(&self) -> bool {
        (self.of.whole - self.joules).abs() > 1e-9 * self.of.whole.abs()
    }

    /// Which part of it the rows have.
    fn share(&self) -> f64 {
        (self.joules / self.of.whole).clamp(0.0, 1.0)
    }
}

/// Which doubts about watts count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// How far they may reach at most.
    Any,
    /// Those about what the run does not show.
    Unidentified,
}

/// What rows may have of columns that share a sum: of the sum no less than the least of the columns' parts that are theirs, and no
/// more than the largest.
#[derive(Clone, Copy, Debug)]
struct GroupRange {
    joules: f64,
    all: f64,
    /// How far the sum may be off, as a part of it.
    reach: f64,
    part: (f64, f64),
    by_columns: (f64, f64),
}

impl Default for GroupRange {
    fn default() -> Self {
        Self { joules: 0.0, all: 0.0, reach: 0.0, part: (1.0, 0.0), by_columns: (0.0, 0.0) }
    }
}

impl GroupRange {
    /// Adds a column: what the rows have of it, all of it, and how far that may be off below and above if it were alone.
    fn add(&mut self, joules: f64, all: f64, (below, above): (f64, f64)) {
        let part = if all > 0.0 { (joules / all).clamp(0.0, 1.0) } else { 0.0 };
        (self.joules, self.all) = (self.joules + joules, self.all + all);
        self.part = (self.part.0.min(part), self.part.1.max(part));
        self.by_columns = (self.by_columns.0 + below, self.by_columns.1 + above);
    }

    /// How far below and above what they were given.
    fn ends(&self) -> (f64, f64) {
        let below = (self.joules - (1.0 - self.reach) * self.all * self.part.0).max(0.0);
        let above = ((1.0 + self.reach) * self.all * self.part.1 - self.joules).max(0.0);
        (below.min(self.by_columns.0), above.min(self.by_columns.1))
    }
}

/// An end of what rows may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Least,
    Most,
}

impl<'a> Collector<'a> {
    fn new(of: &'a DomainCertainty) -> Self {
        Self {
            of,
            by_column: vec![0.0; of.columns.len().max(1)],
            squares: vec![0.0; of.columns.len().max(1)],
            functions: BTreeMap::new(),
            variance: 0.0,
            seconds: 0.0,
            parts: BTreeMap::new(),
            is_all: false,
        }
    }

    /// Of all rows.
    fn of_all(of: &'a DomainCertainty) -> Self {
        let mut all = Self { is_all: true, ..Self::new(of) };
        (of.first_row..of.first_row + of.energy.len()).for_each(|row| all.add(row));
        all
    }

    fn add(&mut self, row: usize) {
        let Some(row) = row.checked_sub(self.of.first_row) else { return };
        let at = |list: &[f64]| list.get(row).copied().unwrap_or(0.0);
        let of_row = self.of.energy.get(row).map_or(&[][..], Vec::as_slice);
        for part in of_row {
            self.by_column.get_mut(part.column).into_iter().for_each(|sum| *sum += part.joules);
            self.squares.get_mut(part.column).into_iter().for_each(|sum| *sum += part.square);
            *self.functions.entry((part.column, part.function)).or_default() += part.joules;
        }
        let column = of_row.first().map_or(0, |part| part.column);
        self.variance += at(&self.of.variance);
        self.seconds += at(&self.of.seconds);
        for part in self.of.parts.get(row).into_iter().flatten() {
            self.parts.entry(part.of).or_insert(Claim { joules: 0.0, of: *part, column }).joules +=
                part.joules;
        }
    }

    fn open_claims(&self) -> impl Iterator<Item = &Claim> {
        self.parts.values().filter(|claim| claim.is_open())
    }

    /// Variance by what may be another call's, and that what is another call's may be theirs.
    fn by_requesters(&self) -> f64 {
        let variance = |claim: &Claim| claim.joules * (claim.of.whole - claim.joules);
        self.open_claims().map(|claim| variance(claim).max(0.0)).sum()
    }

    fn variance(&self) -> f64 {
        let n = self.of.columns.len();
        let here: Vec<usize> = (0..n).filter(|&c| self.by_column[c] != 0.0).collect();
        let mut by_watts = 0.0;
        for &i in &here {
            for &j in &here {
                let relative = self.of.relative.get(i * n + j).copied().unwrap_or(0.0);
                by_watts += self.by_column[i] * self.by_column[j] * relative;
            }
        }
        let idle = self.of.idle_joules * self.seconds / self.of.all_seconds.max(1e-9);
        by_watts.max(0.0)
            + self.sampling(self.variance)
            + self.by_pools()
            + self.by_shares()
            + idle * idle
            + self.by_requesters()
    }

    /// The columns of which the rows have a part and other call paths the rest, with what the rows have of it.
    fn pooled(&self) -> impl Iterator<Item = (usize, Pool, f64)> {
        let pools = self.of.pools.iter().enumerate();
        pools.filter_map(|(column, &pool)| {
            let joules = self.by_column.get(column).copied()?;
            let part = if pool.joules > 0.0 { (joules / pool.joules).clamp(0.0, 1.0) } else { 0.0 };
            (part > 0.0).then_some((column, pool, part))
        })
    }

    /// Variance by what call paths of one column may draw more or less than each other.
    fn by_pools(&self) -> f64 {
        let square = |(column, pool, part): (usize, Pool, f64)| {
            let own = self.squares[column].min(pool.square);
            let apart = (1.0 - part).powi(2) * own + part * part * (pool.square - own).max(0.0);
            pool.joules.powi(2) * apart
        };
        let believed = OF_PATH * self.pooled().map(square).sum::<f64>() + OF_FUNCTION * self.by_functions();
        self.of.path_variance.map_or(believed, |variance| believed * variance / OF_POWER)
    }

    /// Variance by chance: which path of a column a sample fell into.
    fn by_shares(&self) -> f64 {
        let shares = self.pooled().filter(|(_, pool, _)| pool.samples > 0.0);
        shares.map(|(_, pool, part)| pool.joules.powi(2) * part * (1.0 - part) / pool.samples).sum()
    }

    /// Σ_g (Σ_c E_gc(S) − f_c E_gc)²: functions that the rows have add up over columns, the others' are taken column by column.
    fn by_functions(&self) -> f64 {
        let parts: BTreeMap<usize, (f64, f64)> =
            self.pooled().map(|(column, pool, part)| (column, (part, pool.functions))).fill_map();
        let mut others: f64 = parts.values().map(|(part, functions)| part * part * functions).sum();
        let mut apart: BTreeMap<Function, f64> = BTreeMap::new();
        for (&(column, function), joules) in &self.functions {
            let Some((part, _)) = parts.get(&column) else { continue };
            let all = part * self.of.functions.get(&(column, function)).copied().unwrap_or(0.0);
            *apart.entry(function).or_default() += joules - all;
            others -= all * all;
        }
        apart.values().map(|joules| joules * joules).sum::<f64>() + others.max(0.0)
    }

    /// How far below and above what they were given call paths may be for what others in their columns draw.
    fn pool_range(&self) -> (f64, f64) {
        let (least, most) = PLAUSIBLE;
        let of = |part: f64, own: f64, others: f64| part * own / (part * own + (1.0 - part) * others);
        let others =
            self.pooled().filter(|(column, pool, _)| self.squares[*column] < pool.square * (1.0 - 1e-9));
        others.fold((0.0, 0.0), |(below, above), (_, pool, part)| {
            (
                below + pool.joules * (part - of(part, least, most)),
                above + pool.joules * (of(part, most, least) - part),
            )
        })
    }

    fn sampling(&self, variance: f64) -> f64 {
        variance * (1.0 - variance / self.of.all_variance).max(0.0)
    }

    /// Least or most energy: none or all of what may be another call's, with the doubts about watts and times that this has itself.
    fn end(&self, end: End) -> f64 {
        let (mut energy, mut variance) = (self.by_column.clone(), self.variance);
        for claim in self.open_claims().filter(|claim| claim.of.whole > 0.0) {
            let change = match end {
                End::Least => -claim.share(),
                End::Most => 1.0 - claim.share(),
            };
            variance += change * claim.of.variance;
            energy.get_mut(claim.column).into_iter().for_each(|sum| *sum += change * claim.of.whole);
        }
        let slack = BOUND_SDS * self.sampling(variance.max(0.0)).sqrt();
        let (below, above) = self.range(Doubt::Any, |column, _| energy.get(column).copied().unwrap_or(0.0));
        let sum: f64 = energy.iter().sum();
        match end {
            End::Least => sum - below - slack,
            End::Most => sum + above + slack,
        }
    }

    fn energy(&self) -> f64 {
        self.by_column.iter().sum()
    }

    /// All energy that there is to have: none where the rows did not run, endless where it is not known.
    fn whole(&self) -> f64 {
        if self.energy() == 0.0 {
            return 0.0;
        }
        let whole: f64 = self.of.pools.iter().map(|pool| pool.joules.max(0.0)).sum();
        if self.of.pools.is_empty() { f64::INFINITY } else { whole.max(self.energy()) }
    }

    /// All that was measured above idle, but for what is in doubt about idle, which is a part of what was measured.
    fn most_of_all(&self) -> f64 {
        let above_idle = self.whole() + Z * self.widening() * self.of.idle_joules;
        above_idle.min(self.of.measured_joules.unwrap_or(f64::INFINITY))
    }

    /// Whether the run does not tell the rows from others that they share columns with.
    fn is_pooled(&self) -> bool {
        self.by_pools().sqrt() > UNCLEAR * self.energy().abs()
    }

    /// How far below and above what it was given the energy may be of columns whose watts the run does not show. What all rows have too much others have
    /// too little, whatever theirs may be.
    fn unobserved(&self) -> (f64, f64) {
        let (below, above) = self.range(Doubt::Unidentified, |_, energy| energy);
        if !self.is_all || self.of.pools.is_empty() {
            return (below, above);
        }
        let (others_below, others_above) =
            self.range(Doubt::Unidentified, |column, energy| self.of_others(column, energy));
        (below.min(others_above), above.min(others_below))
    }

    /// What is in a column and not in the rows, which have so much of it.
    fn of_others(&self, column: usize, energy: f64) -> f64 {
        let all = self.of.pools.get(column).map_or(0.0, |pool| pool.joules);
        (all - energy).max(0.0)
    }

    /// How much less and more than they were given all others may have together; endless where it is not known what they were given.
    fn others_may_have(&self) -> (f64, f64) {
        if self.of.pools.is_empty() {
            return (f64::INFINITY, f64::INFINITY);
        }
        self.range(Doubt::Any, |column, energy| self.of_others(column, energy))
    }

    /// How far below and above what it was given a part of each of some columns may be together; `part` is given a column's number and what the rows have
    /// of it.
    fn range(&self, doubt: Doubt, part: impl Fn(usize, f64) -> f64) -> (f64, f64) {
        let columns = self.by_column.iter().zip(&self.of.columns).enumerate();
        let (mut below, mut above, mut groups) = (0.0, 0.0, BTreeMap::<usize, GroupRange>::new());
        let counts = |column: &Column| doubt == Doubt::Any || !column.identified;
        for (number, (energy, column)) in columns.filter(|(_, (_, column))| counts(column)) {
            let energy = part(number, *energy);
            let less = energy.abs() * (1.0 - column.bounds.0).max(0.0);
            let more = energy.abs() * (column.bounds.1 - 1.0).max(0.0);
            match (column.group, self.of.pools.get(number)) {
                (Some(group), Some(pool)) => {
                    let reach = if doubt == Doubt::Any || !group.identified { group.reach } else { 0.0 };
                    let range = groups.entry(group.number).or_default();
                    range.reach = reach;
                    range.add(energy, pool.joules, (less, more));
                }
                _ => (below, above) = (below + less, above + more),
            }
        }
        groups
            .values()
            .map(GroupRange::ends)
            .fold((below, above), |sum, ends| (sum.0 + ends.0, sum.1 + ends.1))
    }

    /// By what standard deviations are larger than what is added up here.
    fn widening(&self) -> f64 {
        if self.of.class == Some(DomainClass::Gpu) { WIDEN_GPU } else { WIDEN }
    }

    /// Whether it is open who asked.
    fn is_unclear(&self) -> bool {
        self.by_requesters().sqrt() > UNCLEAR * self.energy().abs()
    }

    /// Whether the run leaves open what no interval says: who asked, or watts that it does not show; not if `shown`: what is not known of them
    /// makes no difference to the whole.
    fn is_open(&self, shown: bool) -> bool {
        let unobserved = !shown && (self.is_all || self.unobserved() != (0.0, 0.0));
        unobserved || (!self.is_all && self.is_unclear())
    }

    /// Least and most energy; `None` where nothing is open, and call paths that share a power do not matter.
    fn bounds(&self, shown: bool) -> Option<(f64, f64)> {
        if self.is_all {
            let (below, above) = self.unobserved();
            return (!shown).then(|| (self.energy() - below, self.energy() + above));
        }
        let (below, above) = if self.is_pooled() { self.pool_range() } else { (0.0, 0.0) };
        let (least, most) = (self.end(End::Least) - below, self.end(End::Most) + above);
        if self.is_unclear() || self.is_pooled() {
            return Some((least, most.min(self.whole())));
        }
        let (less, more) = self.others_may_have();
        let slack = BOUND_SDS * self.sampling(self.variance).sqrt();
        let (least, most) = (least.max(self.energy() - more - slack), most.min(self.energy() + less + slack));
        self.is_open(shown).then(|| (least, most.min(self.whole())))
    }
}

/// Asks what is known of a profile.
pub trait HowSure {
    /// How sure the energy of these rows (each once) is, over the domains whose class is `included`. `energy` is their sum.
    fn of(&self, rows: &[usize], included: impl Fn(DomainClass) -> bool, energy: MicroJoules) -> Uncertainty;

    /// The same of all rows together, over the domains whose place in the ledger and class are `included`: what has too much can only have it from
    /// what is in no row, that is, from other processes.
    fn of_all(&self, included: impl Fn(usize, DomainClass) -> bool, energy: MicroJoules) -> Uncertainty;
}

impl HowSure for Certainty {
    fn of(&self, rows: &[usize], included: impl Fn(DomainClass) -> bool, energy: MicroJoules) -> Uncertainty {
        let collect = |domain| {
            let mut collector = Collector::new(domain);
            rows.iter().for_each(|&row| collector.add(row));
            collector
        };
        let domains = self.domains.iter().filter(|domain| domain.class.is_some_and(&included));
        over(&domains.map(collect).collect::<Vec<_>>(), energy)
    }

    fn of_all(&self, included: impl Fn(usize, DomainClass) -> bool, energy: MicroJoules) -> Uncertainty {
        let is_included = |(place, domain): &(usize, &DomainCertainty)| {
            domain.class.is_some_and(|class| included(*place, class))
        };
        let domains = self.domains.iter().enumerate().filter(is_included);
        over(&domains.map(|(_, domain)| Collector::of_all(domain)).collect::<Vec<_>>(), energy)
    }
}

/// What collectors of several domains say together. `energy` is the sum of their rows.
fn over(collectors: &[Collector<'_>], energy: MicroJoules) -> Uncertainty {
    let unobserved = collectors.iter().map(Collector::unobserved);
    let (below, above) = unobserved.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let shown = below + above <= UNCLEAR * collectors.iter().map(|one| one.energy().abs()).sum::<f64>();
    let (mut variance, mut low, mut high, mut bounded, mut all) = (0.0, 0.0, 0.0, false, 0.0);
    for collector in collectors {
        all += match collector.of.class {
            // What a mean has not shown of the last work was not measured.
            Some(DomainClass::Gpu) if collector.is_all => f64::INFINITY,
            Some(DomainClass::Gpu) => (1.0 + UNCLEAR) * collector.whole(),
            _ => collector.most_of_all(),
        };
        variance += collector.variance() * collector.widening().powi(2);
        let own = collector.energy();
        let bounds = collector.bounds(shown);
        bounded |= bounds.is_some();
        let slack = BOUND_SDS * collector.sampling(collector.variance).sqrt();
        let (least, most) = bounds.unwrap_or((own - slack, own + slack));
        (low, high) = (low + least, high + most);
    }
    let open = collectors.iter().any(|collector| collector.is_open(shown));
    let half = Z * variance.sqrt();
    let (least, most) = if bounded { (joules(low), joules(high)) } else { (energy, energy) };
    let (low, high) = interval(energy, half);
    let (least, most) = if open { (least, most) } else { (least.min(low), most.max(high)) };
    let at_least = |bound: MicroJoules| {
        if energy < MicroJoules::ZERO { bound } else { bound.max(MicroJoules::ZERO) }
    };
    // Nobody has more than all that was measured.
    let most_of_all = joules(all).max(energy);
    let bounds = (at_least(least).min(energy), most.max(energy).min(most_of_all));
    // What is open is in the bounds, with everything else.
    let (ends, below, above) = if open { (bounds, 0.0, 0.0) } else { ((energy, energy), below, above) };
    let ci95 =
        (at_least(low - joules(below)).min(ends.0), (high + joules(above)).max(ends.1).min(most_of_all));
    let wide = half > WIDE * energy.as_joules().abs();
    Uncertainty { ci95, bounds: (open || wide).then_some(bounds) }
}

/// An interval around an energy. Powers are above zero, and what is unknown about one is a factor: it reaches as many times up as down.
fn interval(energy: MicroJoules, half: f64) -> (MicroJoules, MicroJoules) {
    let whole = energy.as_joules();
    if whole <= 0.0 {
        return (energy - joules(half), energy + joules(half));
    }
    let times = (half / whole).min(MOST_TIMES).exp();
    (joules(whole / times), joules((whole * times).max(whole + half)))
}

#[expect(clippy::cast_possible_truncation, reason = "`as` saturates; statistics")]
fn joules(joules: f64) -> MicroJoules {
    MicroJoules::from_uj((joules * 1e6).round() as i64)
}

#[cfg(test)]
mod tests;
