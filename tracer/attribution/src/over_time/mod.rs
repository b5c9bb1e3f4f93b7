//! Cuts a profile into bins of time, when somebody asks for it: `profile::OverTime`.
//!
//! What the rows and the ledger have over the run is known already, and stays as it is, to the microjoule; so
//! is what the counter says in each bin. Sought is a table with these margins. It starts from each owner's
//! joules, spread over the bins by the time that the owner was on CPUs (on a GPU: by what it launched, or by
//! the times of its kernels), and is fitted to the margins by iterative proportional fitting (Deming,
//! Stephan, Annals of Mathematical Statistics 11, 1940): of all tables with these margins the one that
//! differs least from the start. First a domain's energy between the target and others (`ledger`), then a
//! class's target between rows. Rounding, and what cannot be fitted (a bin in which the counter shows less
//! than the idle baseline), is in a bin's residual.
//!
//! * `places`: who was where when; `fit`: fitting and rounding; `ledger`: the bins of a domain.
//!
//! Leaves out how sure a bin is.

mod fit;
mod ledger;
mod places;

use crate::delegation::Sourced;
use crate::ledger::result::DomainResult;
use crate::time::cpu_time::CpuTime;
use crate::time::cpus::Cpus;
use crate::time::launchers::Launchers;
use crate::time::occupancy::{Presence, presences};
use crate::time::on_cpus::OfDomain;
use crate::time::owners::Owner;
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::ids::CpuId;
use energy_trace_model::profile::over_time::{BinEnergy, Bins, RowBin};
use energy_trace_model::profile::{OverTime, ProfileRow};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use fit::{apportion, fit};
use places::{Place, Source};

/// What bins are made of.
pub(crate) struct Attributed<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) bins: Bins,
    pub(crate) time: &'a CpuTime,
    pub(crate) launchers: &'a Launchers,
    pub(crate) results: &'a [DomainResult],
    pub(crate) rows: &'a [Sourced],
}

impl Attributed<'_> {
    /// The energy of all rows and domains over time.
    pub(crate) fn over_time(&self) -> OverTime {
        let bins = self.bins;
        let cpus = Cpus::of(self.recording);
        let everywhere = self.presences(&bins, |_| true);
        let others_ns = self.others_ns(&bins, &everywhere);
        let mut sources = vec![Source::of_time(everywhere)];
        let mut domains = vec![];
        for (domain, result) in self.recording.domains.iter().zip(self.results) {
            let presences = match places::device(domain) {
                Some(device) => places::of_launches(self.recording, self.launchers, device, &bins),
                None => self.presences(&bins, |cpu| cpus.covers(domain.scope, cpu)),
            };
            let source = Source::of_domain(presences, result);
            let busy = OfDomain::new(&self.time.segments, |cpu| cpus.covers(domain.scope, cpu));
            domains.push(ledger::bins_of(result, &source, &self.time.owners, &bins, busy.busy().collect()));
            sources.push(source);
        }
        let places = places::places(&sources, self.rows, bins.count());
        let mut over = OverTime { bins, domains, others_ns, entries: vec![], firsts: vec![] };
        self.fill_in(&mut over, &places);
        over
    }

    fn presences(&self, bins: &Bins, is_of: impl Fn(CpuId) -> bool) -> Vec<Presence> {
        presences(&spans(bins), &OfDomain::new(&self.time.segments, is_of))
    }

    /// CPU time of all but the target.
    fn others_ns(&self, bins: &Bins, everywhere: &[Presence]) -> Vec<u64> {
        let mut others = vec![0_u64; bins.count() as usize];
        for presence in everywhere {
            let owner = self.time.owners.get(presence.owner as usize).map(|owner| owner.owner);
            if !matches!(owner, Some(Owner::Target(..))) {
                let sum = others.get_mut(presence.interval as usize);
                sum.into_iter().for_each(|sum| *sum = sum.saturating_add(presence.ns));
            }
        }
        others
    }

    /// Gives each row its bins, and the domains what rounding left over.
    fn fill_in(&self, over: &mut OverTime, places: &[Place]) {
        let bin = |place: &Place| RowBin { bin: place.bin, ..RowBin::default() };
        over.entries = places.iter().map(bin).collect();
        over.firsts = places::firsts(places, self.rows.len());
        self.fill_times(over, places);
        for class in DomainClass::ALL {
            if self.results.iter().any(|result| result.row.class == class) {
                self.fill_class(over, places, class);
            }
        }
    }

    fn fill_times(&self, over: &mut OverTime, places: &[Place]) {
        for ((row, _), range) in self.rows.iter().zip(over.firsts.windows(2)) {
            let here = range[0]..range[1];
            let weights: Vec<f64> = places[here.clone()].iter().map(|place| place.time).collect();
            let whole = MicroJoules::from_uj(i64::try_from(row.time_ns).unwrap_or(i64::MAX));
            let parts = apportion(whole, &weights);
            let entries = over.entries[here].iter_mut().zip(parts);
            entries.for_each(|(entry, part)| entry.time_ns = part.as_uj().unsigned_abs());
        }
    }

    /// The energy of one class of domain: what its domains charge to the target in each bin, split among the
    /// rows.
    fn fill_class(&self, over: &mut OverTime, places: &[Place], class: DomainClass) {
        let charged = target_by_bin(over, self.results, class);
        let weights = self.fitted(places, over, &charged, class);
        let mut given = vec![MicroJoules::ZERO; charged.len()];
        for ((row, _), range) in self.rows.iter().zip(over.firsts.windows(2)) {
            let here = range[0]..range[1];
            let parts = whole_parts(row, class, &weights[here.clone()], &places[here.clone()]);
            for (entry, part) in over.entries[here].iter_mut().zip(parts) {
                entry.energy[class] = part;
                given[entry.bin as usize] += part;
            }
        }
        let Some(first) = self.results.iter().position(|result| result.row.class == class) else { return };
        for (bin, (given, charged)) in over.domains[first].iter_mut().zip(given.iter().zip(&charged)) {
            bin.target += *given - *charged;
            bin.residual = bin.measured - bin.placed();
        }
    }

    /// Weights of all places for a class. What is below zero stays where it was.
    fn fitted(
        &self,
        places: &[Place],
        over: &OverTime,
        charged: &[MicroJoules],
        class: DomainClass,
    ) -> Vec<f64> {
        let mut columns: Vec<f64> = charged.iter().map(|energy| energy.as_joules()).collect();
        let rows: Vec<f64> = self.rows.iter().map(|(row, _)| row.energy[class].as_joules()).collect();
        let of_class = |place: &Place| place.weights[class as usize];
        let mut weights: Vec<f64> = places.iter().map(|place| of_class(place).max(0.0)).collect();
        for (row, range) in over.firsts.windows(2).enumerate().filter(|(row, _)| rows[*row] < 0.0) {
            let here = range[0]..range[1];
            let all: f64 = places[here.clone()].iter().map(|place| of_class(place).abs()).sum();
            for (place, weight) in places[here.clone()].iter().zip(&mut weights[here]) {
                *weight = 0.0;
                columns[place.bin as usize] -= rows[row] * of_class(place).abs() / all.max(f64::MIN_POSITIVE);
            }
        }
        fit(&mut weights, &rows, &columns, |at| (places[at].row as usize, places[at].bin as usize));
        weights
    }
}

/// A row's energy over its places: by what was fitted, else by where it was before.
fn whole_parts(row: &ProfileRow, class: DomainClass, fitted: &[f64], places: &[Place]) -> Vec<MicroJoules> {
    let before = || places.iter().map(|place| place.weights[class as usize].abs()).collect::<Vec<_>>();
    let times = || places.iter().map(|place| place.time).collect::<Vec<_>>();
    let is_some = |weights: &Vec<f64>| weights.iter().any(|weight| *weight > 0.0);
    let weights = Some(fitted.to_vec()).filter(is_some);
    let weights = weights.or_else(|| Some(before()).filter(is_some)).unwrap_or_else(times);
    apportion(row.energy[class], &weights)
}

fn target_by_bin(over: &OverTime, results: &[DomainResult], class: DomainClass) -> Vec<MicroJoules> {
    let mut charged = vec![MicroJoules::ZERO; over.bins.count() as usize];
    for (bins, _) in over.domains.iter().zip(results).filter(|(_, result)| result.row.class == class) {
        charged.iter_mut().zip(bins).for_each(|(sum, bin): (_, &BinEnergy)| *sum += bin.target);
    }
    charged
}

/// The bins as intervals.
fn spans(bins: &Bins) -> Vec<EnergyInterval> {
    let interval = |bin| {
        let (start, end) = bins.span(bin);
        EnergyInterval { span: Span::new(start, end), energy: MicroJoules::ZERO }
    };
    (0..bins.count()).map(interval).collect()
}
