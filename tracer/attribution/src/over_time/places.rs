//! Where rows were when: the places of a table of rows and bins, with what each owner's time there is worth.
//!
//! Time on CPUs is exact. A GPU's owners are where they launched, or where their kernels ran; a bin in which
//! the GPU worked and nobody launched belongs to those who launched last. Leaves out fitting.

use crate::delegation::Sourced;
use crate::ledger::result::DomainResult;
use crate::time::launchers::Launchers;
use crate::time::occupancy::Presence;
use crate::time::owners::{Owner, OwnerId, OwnerTime};
use energy_trace_model::profile::over_time::{BinEnergy, Bins};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Domain, DomainClass, GpuBusy, Scope};

/// A place of the table: a row in a bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) row: u32,
    pub(super) bin: u32,
    /// Time on CPUs, in nanoseconds.
    pub(super) time: f64,
    /// Joules by class of domain, if each owner drew the same power all the time.
    pub(super) weights: [f64; 5],
}

/// Who was in which bin for how long; and what a nanosecond of each owner is worth.
pub(super) struct Source {
    /// `None`: this is time.
    class: Option<DomainClass>,
    /// Ordered by bin.
    presences: Vec<Presence>,
    /// Joules of a nanosecond, by owner.
    joules: Vec<f64>,
}

impl Source {
    /// Time itself.
    pub(super) const fn of_time(presences: Vec<Presence>) -> Self {
        Self { class: None, presences, joules: vec![] }
    }

    /// A domain's energy.
    pub(super) fn of_domain(presences: Vec<Presence>, result: &DomainResult) -> Self {
        let mut times = vec![0.0; result.of_owner.len()];
        for presence in &presences {
            times.get_mut(presence.owner as usize).into_iter().for_each(|sum| *sum += presence.ns as f64);
        }
        let joules = result.of_owner.iter().zip(&times);
        let joules = joules.map(|(energy, time)| if *time > 0.0 { energy.as_joules() / time } else { 0.0 });
        Self { class: Some(result.row.class), joules: joules.collect(), presences }
    }

    fn of_bin(&self, bin: u32) -> &[Presence] {
        let from = self.presences.partition_point(|presence| presence.interval < bin);
        let to = self.presences.partition_point(|presence| presence.interval <= bin);
        &self.presences[from..to]
    }

    fn joules_of(&self, presence: &Presence) -> f64 {
        self.joules.get(presence.owner as usize).copied().unwrap_or(0.0) * presence.ns as f64
    }

    /// Joules of the target and of others by bin. Nothing says when others used a GPU: there they are
    /// everywhere.
    pub(super) fn target_and_others(
        &self,
        result: &DomainResult,
        owners: &[OwnerTime],
        found: &[BinEnergy],
    ) -> [Vec<f64>; 2] {
        let mut target = vec![0.0; found.len()];
        let mut others = vec![0.0; found.len()];
        for presence in &self.presences {
            let at = presence.interval as usize;
            match owners.get(presence.owner as usize).map(|owner| owner.owner) {
                Some(Owner::Target(..)) => target[at] += self.joules_of(presence).max(0.0),
                _ => others[at] += presence.ns as f64,
            }
        }
        if result.row.class == DomainClass::Gpu {
            others = found.iter().map(|bin| bin.covered_ns as f64).collect();
        }
        let all = others.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let joules = result.row.other.as_joules();
        others.iter_mut().for_each(|ns| *ns *= joules.max(0.0) / all);
        [target, others]
    }
}

/// The GPU of a domain.
pub(super) const fn device(domain: &Domain) -> Option<u32> {
    match domain.scope {
        Scope::Gpu(device) => Some(device),
        Scope::Socket(_) | Scope::Machine | Scope::Core(..) => None,
    }
}

/// Whose launches are in which bin.
pub(super) fn of_launches(
    recording: &Recording,
    launchers: &Launchers,
    device: u32,
    bins: &Bins,
) -> Vec<Presence> {
    let busy = recording.gpu.busy.iter().zip(&launchers.of_busy).filter(|(busy, _)| busy.device == device);
    let ran = |(busy, &owner): (&GpuBusy, &OwnerId)| Presence {
        interval: bins.at(busy.from.midpoint(busy.until)),
        owner,
        ns: busy.until.ns_since(busy.from).max(1),
    };
    let mut found: Vec<Presence> = busy.map(ran).collect();
    if found.is_empty() {
        let batches = recording.gpu.launches.iter().zip(&launchers.of_batches);
        for (batch, owners) in batches.filter(|(batch, _)| batch.device == device) {
            let interval = bins.at(batch.from.midpoint(batch.until));
            let launched = batch.work.iter().zip(owners);
            found.extend(launched.map(|(work, &owner)| Presence { interval, owner, ns: work.count.max(1) }));
        }
    }
    found.sort_unstable_by_key(|presence| (presence.interval, presence.owner));
    carried_on(&found, bins)
}

/// A GPU works through a queue: a bin without launches goes on with those of the bin before.
fn carried_on(found: &[Presence], bins: &Bins) -> Vec<Presence> {
    let mut all: Vec<Presence> = Vec::with_capacity(found.len());
    let mut last = 0..0;
    for bin in 0..bins.count() {
        let from = found.partition_point(|presence| presence.interval < bin);
        let to = found.partition_point(|presence| presence.interval <= bin);
        if from < to {
            last = from..to;
            all.extend_from_slice(&found[from..to]);
        } else {
            // A trace of them, that counts only where the counter shows energy and nobody else is there.
            let trace = |presence: &Presence| Presence { interval: bin, ns: 1, ..*presence };
            all.extend(found[last.clone()].iter().map(trace));
        }
    }
    all
}

/// All places, ordered by row and bin. A row that was nowhere has one, the first.
pub(super) fn places(sources: &[Source], rows: &[Sourced], bins: u32) -> Vec<Place> {
    let rows_of = rows_of_owners(rows);
    let mut slot: Vec<usize> = vec![usize::MAX; rows.len()];
    let mut places: Vec<Place> = vec![];
    for bin in 0..bins {
        let first = places.len();
        for source in sources {
            for presence in source.of_bin(bin) {
                for &(row, part) in rows_of.get(presence.owner as usize).into_iter().flatten() {
                    let at = &mut slot[row as usize];
                    if *at == usize::MAX || *at < first {
                        *at = places.len();
                        places.push(Place { row, bin, ..Place::default() });
                    }
                    places[*at].add(source, presence, part);
                }
            }
        }
    }
    let nowhere = slot.iter().enumerate().filter(|(_, at)| **at == usize::MAX);
    let nowhere = nowhere.map(|(row, _)| u32::try_from(row).unwrap_or(u32::MAX));
    places.extend(nowhere.map(|row| Place { row, ..Place::default() }));
    places.sort_unstable_by_key(|place| (place.row, place.bin));
    places
}

impl Place {
    fn add(&mut self, source: &Source, presence: &Presence, part: f64) {
        match source.class {
            None => self.time += part * presence.ns as f64,
            Some(class) => self.weights[class as usize] += part * source.joules_of(presence),
        }
    }
}

/// The rows that each owner has a part in.
fn rows_of_owners(rows: &[Sourced]) -> Vec<Vec<(u32, f64)>> {
    let owners = rows.iter().flat_map(|(_, owners)| owners).map(|(owner, _)| owner + 1).max();
    let mut rows_of = vec![vec![]; owners.unwrap_or(0) as usize];
    for (row, (_, owners)) in (0..).zip(rows) {
        for &(owner, part) in owners {
            rows_of[owner as usize].push((row, part));
        }
    }
    rows_of
}

/// Where the places of each row begin, and behind them the number of all.
pub(super) fn firsts(places: &[Place], rows: usize) -> Vec<usize> {
    let mut firsts = vec![0; rows + 1];
    places.iter().for_each(|place| firsts[place.row as usize + 1] += 1);
    for row in 0..rows {
        firsts[row + 1] += firsts[row];
    }
    firsts
}
