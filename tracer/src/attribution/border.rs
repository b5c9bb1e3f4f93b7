//! Where one function ended and the next began, as the counter says it.
//!
//! Samples place the border between two functions of a thread to within half their period (5 ms at 99 Hz). When the watts of both are known
//! and nothing else on the domain's CPUs is in doubt, the energy of the interval places it better: 450 mJ in 20 ms are 10 ms at 40 W and 10 ms
//! at 5 W. The times τ_c that fit the interval's energy D with the least change (minimum norm, Σ Δτ = 0) are
//!
//! ```text
//! Δτ_c = R · (w_c − w̄) / Σ (w_c − w̄)²        R = D − Σ w τ,  w̄: mean of the w_c
//! ```
//!
//! scaled down so that no time becomes negative or moves by more than half a sample period. A class that the thread was in just before or
//! just after the interval takes part with no time of its own, if the border as sampled is near enough to have been on this side.
//! This moves energy only: the times that are reported stay as sampled.

use super::class::{ClassId, OTHER_CLASS};
use super::occupancy::Presence;
use super::time::{OTHER, Owner, OwnerId, OwnerTime};
use crate::ids::ThreadKey;

/// The intervals around a border: who was present in one of them, and in those just before and after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    pub(super) before: &'a [Presence],
    pub(super) here: &'a [Presence],
    pub(super) after: &'a [Presence],
}

/// Seconds of one class in the interval: as sampled, then as settled.
struct ClassTime {
    class: ClassId,
    watts: f64,
    sampled: f64,
    settled: f64,
    /// How far it may move.
    reach: f64,
    /// Who stands for a class that has no time here.
    guest: Option<OwnerId>,
}

/// Settles borders, given what the classes draw.
pub(super) struct Settler<'a, W: Fn(ClassId) -> f64> {
    pub(super) owners: &'a [OwnerTime],
    /// The class of each owner.
    pub(super) class_of: &'a [ClassId],
    /// Watts of a class.
    pub(super) watts_of: W,
    /// How far a border between two samples can be off, in nanoseconds.
    pub(super) half_period_ns: u64,
}

impl<W: Fn(ClassId) -> f64> Settler<'_, W> {
    /// Seconds of each owner, settled, guests included; `None` unless one thread of the target was there, alone or beside others.
    pub(super) fn settle(&self, joules: f64, around: Surroundings<'_>) -> Option<Vec<(OwnerId, f64)>> {
        let mut threads = around.here.iter().filter_map(|presence| self.thread(presence));
        let lone = threads.next().filter(|first| threads.all(|thread| thread == *first))?;
        let mut times = self.hosts(around.here);
        let predicted: f64 =
            around.here.iter().map(|presence| self.watts(presence) * seconds(presence.ns)).sum();
        let hosts: Vec<ClassId> = times.iter().map(|time| time.class).collect();
        for neighbour in [around.before, around.after] {
            let own = neighbour.iter().filter(|presence| self.thread(presence) == Some(lone));
            if let Some(guest) = self.guest(own, &hosts)
                && !times.iter().any(|time| time.class == guest.class)
            {
                times.push(guest);
            }
        }
        shift(&mut times, joules - predicted);
        Some(self.of_owners(around.here, &times))
    }

    fn thread(&self, presence: &Presence) -> Option<ThreadKey> {
        match self.owners.get(presence.owner as usize)?.owner {
            Owner::Target(thread, _) => Some(thread),
            Owner::Other => None,
        }
    }

    fn class(&self, presence: &Presence) -> ClassId {
        self.class_of.get(presence.owner as usize).copied().unwrap_or(OTHER_CLASS)
    }

    fn watts(&self, presence: &Presence) -> f64 {
        (self.watts_of)(self.class(presence))
    }

    /// The thread's classes in the interval. Others' time is exact and takes no part.
    fn hosts(&self, here: &[Presence]) -> Vec<ClassTime> {
        let mut times: Vec<ClassTime> = Vec::new();
        for presence in here.iter().filter(|presence| presence.owner != OTHER) {
            let (class, sampled) = (self.class(presence), seconds(presence.ns));
            match times.iter_mut().find(|time| time.class == class) {
                Some(time) => time.sampled += sampled,
                None => {
                    let (watts, reach) = (self.watts(presence), seconds(self.half_period_ns));
                    times.push(ClassTime { class, watts, sampled, settled: 0.0, reach, guest: None });
                }
            }
        }
        times
    }

    /// The class that the thread was in on the other side of an interval's end, if its border may have been on this side: the border as
    /// sampled is as far away as this interval's classes reach into the neighbour.
    fn guest<'p>(
        &self,
        neighbour: impl Iterator<Item = &'p Presence>,
        hosts: &[ClassId],
    ) -> Option<ClassTime> {
        let (known, new): (Vec<&Presence>, Vec<&Presence>) =
            neighbour.partition(|presence| hosts.contains(&self.class(presence)));
        let distance = known.iter().fold(0_u64, |sum, presence| sum.saturating_add(presence.ns));
        let reach = seconds(self.half_period_ns.checked_sub(distance)?);
        let guest = new.into_iter().max_by_key(|presence| presence.ns)?;
        let (class, watts) = (self.class(guest), self.watts(guest));
        Some(ClassTime { class, watts, sampled: 0.0, settled: 0.0, reach, guest: Some(guest.owner) })
    }

    /// A class's settled time goes to its owners as their sampled times are; a guest's to the guest.
    fn of_owners(&self, here: &[Presence], times: &[ClassTime]) -> Vec<(OwnerId, f64)> {
        let factor = |presence: &Presence| {
            let own = |time: &&ClassTime| time.class == self.class(presence) && presence.owner != OTHER;
            times.iter().find(own).map_or(1.0, |time| time.settled / time.sampled)
        };
        let hosts = here.iter().map(|presence| (presence.owner, seconds(presence.ns) * factor(presence)));
        let guests = times.iter().filter_map(|time| time.guest.map(|owner| (owner, time.settled)));
        hosts.chain(guests).collect()
    }
}

/// Fills in the settled times, given the energy that the sampled ones do not explain.
#[expect(clippy::cast_precision_loss, reason = "a handful of classes")]
fn shift(times: &mut [ClassTime], missing: f64) {
    let mean = times.iter().map(|time| time.watts).sum::<f64>() / times.len() as f64;
    let spread: f64 = times.iter().map(|time| (time.watts - mean).powi(2)).sum();
    let per_watt = if spread > (1e-3 * mean).powi(2) { missing / spread } else { 0.0 };
    let within = |scale: f64, time: &ClassTime| {
        let change = per_watt * (time.watts - mean);
        let limit =
            if change < 0.0 && time.guest.is_none() { time.reach.min(time.sampled) } else { time.reach };
        if change.abs() * scale > limit { limit / change.abs() } else { scale }
    };
    // A guest that would lose time has none to lose: it stays at zero and does not hold the others back.
    let scale = times.iter().fold(1.0, within);
    for time in times {
        time.settled = (time.sampled + scale * per_watt * (time.watts - mean)).max(0.0);
    }
}

/// Nanoseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
