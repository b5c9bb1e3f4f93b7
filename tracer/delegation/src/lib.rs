//! Delegation: whose Python code a worker's energy is charged to.
//!
//! ```
//! use energy_trace_counters::Span;
//! use energy_trace_cpu_time::time::slices::SampledTime;
//! use energy_trace_model::recording::Recording;
//!
//! let (time, whose) =
//!     energy_trace_delegation::refine(&Recording::default(), SampledTime::default(), Span::default());
//! assert!(time.segments.is_empty() && whose.requesters_of(0).is_none());
//! ```
//!
//! Between 31 and 95 % of the CPU time of machine-learning programs is spent on threads that have no Python
//! frames, or in a pool's loop, while the Python thread that wants the result sleeps. The physical view
//! charges each thread for itself; the logical view joins the worker's stack to that of the thread that it
//! works for (blame shifting, as HPCToolkit names it: Tallent, Mellor-Crummey, PPoPP 2009).
//!
//! Both views come from one attribution. A worker's segments of time are cut where the answer to "for whom?"
//! changes (`requesters`), and each answer becomes an owner of its own, of the same class as before; energy
//! is split among owners as always. The physical view adds these owners up again, the logical view gives each
//! to its joined stack (`joined_stacks`), in equal parts where several threads wait. So energy counts once,
//! and the views agree to the microjoule for each thread and domain.
//!
//! `native_calls` finds the native call that a worker's stack stands below. `thread_activity` says what
//! Python threads did at every moment, `call_context` in whose code they were, `awake` when workers slept;
//! `requesters` and `native_rules` hold the rules. Leaves out how the facts are found (`probe/`).

mod awake;
mod call_context;
mod call_tracks;
mod joined_stacks;
mod native_calls;
mod native_rules;
mod requesters;
mod thread_activity;

use crate::call_tracks::ByCall;
use energy_trace_counters::Span;
use energy_trace_cpu_time::numerics::parallel::both;
use energy_trace_cpu_time::time::borders::Borders;
use energy_trace_cpu_time::time::compact_slices::InterSampleSlices;
use energy_trace_cpu_time::time::cpu_time::CpuTime;
use energy_trace_cpu_time::time::launchers::Launchers;
use energy_trace_cpu_time::time::owners::{OTHER, Owner, OwnerId, OwnerTime, Segment};
use energy_trace_cpu_time::time::slices::SampledTime;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, StackId, ThreadKey};
use energy_trace_model::profile::{EnergyByClass, ProfileRow};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    DomainClass, Frame, Launched, Launches, Sample, StackNode, Wait,
};
use energy_trace_model::units::MicroJoules;
use joined_stacks::JoinedStacks;
use requesters::{RequestHop, RequesterIndex, RequesterSet, Role};
use std::collections::{HashMap, HashSet};
use thread_activity::Threads;

/// Position in `Delegation::sets`.
type SetId = u32;

/// For whom owners work.
#[derive(Debug, Default)]
pub struct Delegation {
    /// By owner; beyond its end and where `None`: for itself.
    of_owner: Vec<Option<SetId>>,
    /// Paths of equal worth.
    sets: Vec<Vec<Vec<RequestHop>>>,
    /// The owner of each launch on a GPU, in the order of the recording.
    pub launchers: Launchers,
    /// Which threads samples show in which stacks, each once, in the order of the samples.
    seen: Vec<(ThreadKey, StackId)>,
}

impl Delegation {
    /// A number for those whom an owner works for; `None` where it works for itself.
    pub fn requesters_of(&self, owner: usize) -> Option<u32> {
        self.of_owner.get(owner).copied().flatten()
    }
}

/// What the logical view adds to a recording, and its rows.
#[derive(Debug, Default)]
pub struct Logical {
    /// Frames that no stack had before.
    pub frames: Vec<Frame>,
    /// Joined stacks.
    pub stacks: Vec<StackNode>,
    /// What each thread has in each stack.
    pub rows: Vec<Sourced>,
}

/// Makes an owner of its own of everything that a worker does on behalf of somebody. Conserves time and
/// samples.
pub fn refine(recording: &Recording, sampled: SampledTime, span: Span) -> (CpuTime, Delegation) {
    let threads = Threads::of(recording, span);
    let SampledTime { segments, owners, certain, tracks, borders, overlaps } = sampled;
    let requesters = RequesterIndex::new(recording, &threads);
    let mut refiner = Refiner::new(requesters, &recording.requests.waits, &owners, borders);
    let mut time =
        CpuTime { segments, owners, slices: InterSampleSlices::default(), points: vec![], overlaps };
    refiner.cut_segments(&certain, &mut time);
    refiner.recount_samples(&recording.samples, &mut time);
    let (seen, ()) = both(|| seen(&recording.samples), || refiner.add_tracks(&certain, tracks, &mut time));
    let launches = recording.gpu.launches.iter();
    let of_batches = launches.map(|batch| refiner.launchers(batch, &mut time)).collect();
    let busy = recording.gpu.busy.iter();
    let of_busy =
        busy.map(|busy| refiner.launcher(busy.thread, busy.stack, busy.launched, &mut time)).collect();
    let launchers = Launchers { of_batches, of_busy };
    (time, Delegation { launchers, seen, ..refiner.delegation })
}

/// Samples show few stacks again and again: so many of the last ones are remembered.
const RECENT: usize = 4_096;

/// Which threads samples show in which stacks, each once, in the order of the samples.
fn seen(samples: &[Sample]) -> Vec<(ThreadKey, StackId)> {
    let (mut all, mut recent, mut seen) = (HashSet::new(), vec![None; RECENT], vec![]);
    for sample in samples {
        let one = (sample.thread, sample.stack);
        let place = (sample.stack.index() ^ sample.thread.index().wrapping_mul(61)) % RECENT;
        if recent[place].replace(one) != Some(one) && all.insert(one) {
            seen.push(one);
        }
    }
    seen
}

struct Refiner<'a> {
    requesters: RequesterIndex<'a>,
    waits: &'a [Wait],
    roles: Vec<Role>,
    /// The owners that there were, and for each of them and each set the new one.
    numbers: HashMap<Owner, OwnerId>,
    refined: HashMap<(OwnerId, SetId), OwnerId>,
    base_of: HashMap<OwnerId, OwnerId>,
    set_ids: HashMap<Vec<Vec<RequestHop>>, SetId>,
    by_call: ByCall,
    /// Where the time of samples ends.
    borders: Borders,
    delegation: Delegation,
}

impl<'a> Refiner<'a> {
    fn new(
        requesters: RequesterIndex<'a>,
        waits: &'a [Wait],
        owners: &[OwnerTime],
        borders: Borders,
    ) -> Self {
        let role = |owner: &OwnerTime| match owner.owner {
            Owner::Target(thread, stack) => requesters.role(thread, stack),
            Owner::Other | Owner::Background(_) => Role::Own,
        };
        let roles = owners.iter().map(role).collect();
        let numbers = (0..).zip(owners).map(|(number, owner)| (owner.owner, number)).collect();
        let (refined, base_of, set_ids) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self {
            requesters,
            waits,
            roles,
            numbers,
            refined,
            base_of,
            set_ids,
            by_call: ByCall::default(),
            borders,
            delegation: Delegation::default(),
        }
    }

    fn role(&self, owner: OwnerId) -> Role {
        self.roles.get(owner as usize).copied().unwrap_or(Role::Own)
    }

    /// Cuts segments where the answer changes; most are one owner's before and after. Where nobody was
    /// looking nobody knows for whom a thread worked, and where it slept next says nothing of seconds before.
    fn cut_segments(&mut self, certain: &[Segment], time: &mut CpuTime) {
        if self.roles.iter().all(|role| *role == Role::Own) {
            return;
        }
        let place = |segment: &Segment| (segment.cpu, segment.span);
        let certain: HashSet<(CpuId, Span)> = certain.iter().map(place).collect();
        let mut segments = std::mem::take(&mut time.segments);
        let whole = segments.len();
        for at in 0..whole {
            let segment = segments[at];
            if self.role(segment.owner) == Role::Own || certain.contains(&place(&segment)) {
                continue;
            }
            let cut = self.stretches(segment.owner, segment.span, time);
            for (number, (owner, span)) in cut.into_iter().enumerate() {
                if owner != segment.owner {
                    move_time(time, segment.owner, owner, span.ns());
                }
                let part = Segment { owner, span, ..segment };
                if number == 0 { segments[at] = part } else { segments.push(part) }
            }
        }
        if segments.len() > whole {
            segments.sort_by_key(|segment| (segment.cpu, segment.span));
        }
        time.segments = segments;
    }

    /// Gives samples to the owners that their own became.
    fn recount_samples(&mut self, samples: &[Sample], time: &mut CpuTime) {
        let mut is_refined = vec![];
        for (owner, role) in time.owners.iter().zip(&self.roles) {
            if let (Owner::Target(thread, Some(_)), true) = (owner.owner, *role != Role::Own) {
                is_refined.resize(is_refined.len().max(thread.index() + 1), false);
                is_refined[thread.index()] = true;
            }
        }
        let of_refined = |sample: &&Sample| is_refined.get(sample.thread.index()).copied().unwrap_or(false);
        for sample in samples.iter().filter(of_refined) {
            self.recount(sample.thread, sample.stack, sample.at, time);
        }
    }

    /// Who owns an owner's time when, in time order.
    fn stretches(&mut self, owner: OwnerId, span: Span, time: &mut CpuTime) -> Vec<(OwnerId, Span)> {
        let role = self.role(owner);
        let thread = match time.owners.get(owner as usize).map(|owner| owner.owner) {
            Some(Owner::Target(thread, _)) if role != Role::Own => thread,
            _ => return vec![(owner, span)],
        };
        let mut stretches: Vec<(OwnerId, Span)> = Vec::new();
        let mut at = span.start;
        while at < span.end {
            let RequesterSet { paths, until } = self.requesters.who(role, thread, at);
            let until = until.max(at + NEXT).min(span.end);
            let refined = self.refined(owner, paths, time);
            match stretches.last_mut() {
                Some((last, stretch)) if *last == refined => stretch.end = until,
                _ => stretches.push((refined, Span { start: at, end: until })),
            }
            at = until;
        }
        stretches
    }

    /// The owners of launches: whoever is worked for at the time pays for them.
    fn launchers(&mut self, batch: &Launches, time: &mut CpuTime) -> Vec<OwnerId> {
        let mut owner =
            |launched: &Launched| self.launcher(launched.thread, launched.stack, batch.from, time);
        batch.work.iter().map(&mut owner).collect()
    }

    /// The owner of what a thread launches in a stack at a moment.
    fn launcher(&mut self, thread: ThreadKey, stack: StackId, at: KtimeNs, time: &mut CpuTime) -> OwnerId {
        let Some(&number) = self.numbers.get(&Owner::Target(thread, Some(stack))) else { return OTHER };
        let role = self.role(number);
        if role == Role::Own {
            return number;
        }
        let paths = self.requesters.who(role, thread, at).paths;
        self.refined(number, paths, time)
    }

    /// Counts a sample to the owner that it became.
    fn recount(&mut self, thread: ThreadKey, stack: StackId, at: KtimeNs, time: &mut CpuTime) {
        let Some(&from) = self.numbers.get(&Owner::Target(thread, Some(stack))) else { return };
        let role = self.role(from);
        if role == Role::Own {
            return;
        }
        let paths = self.requesters.who(role, thread, at).paths;
        let to = self.refined(from, paths, time);
        for (owner, change) in [(from, u64::wrapping_sub as fn(u64, u64) -> u64), (to, u64::wrapping_add)] {
            if let Some(owner) = time.owners.get_mut(owner as usize) {
                owner.samples = change(owner.samples, 1);
            }
        }
    }

    fn refined(&mut self, owner: OwnerId, paths: Vec<Vec<RequestHop>>, time: &mut CpuTime) -> OwnerId {
        let set = self.set_of(paths);
        self.refined_in(owner, set, time)
    }

    fn set_of(&mut self, paths: Vec<Vec<RequestHop>>) -> SetId {
        let next = SetId::try_from(self.delegation.sets.len()).unwrap_or(SetId::MAX);
        *self.set_ids.entry(paths).or_insert_with_key(|paths| {
            self.delegation.sets.push(paths.clone());
            next
        })
    }

    /// What an owner becomes for a set of requesters.
    fn refined_in(&mut self, owner: OwnerId, set: SetId, time: &mut CpuTime) -> OwnerId {
        *self.refined.entry((owner, set)).or_insert_with(|| {
            let number = time.owners.len();
            let Some(whose) = time.owners.get(owner as usize).map(|owner| owner.owner) else { return owner };
            let Ok(id) = OwnerId::try_from(number) else { return owner };
            time.owners.push(OwnerTime { owner: whose, time_ns: 0, samples: 0 });
            self.delegation.of_owner.resize(number, None);
            self.delegation.of_owner.push(Some(set));
            self.base_of.insert(id, owner);
            self.borders.copy(id, owner);
            id
        })
    }
}

/// An answer holds this long at least, so that slices are not many more than switches.
const NEXT: std::time::Duration = std::time::Duration::from_micros(10);

fn move_time(time: &mut CpuTime, from: OwnerId, to: OwnerId, ns: u64) {
    if let Some(from) = time.owners.get_mut(from as usize) {
        from.time_ns = from.time_ns.saturating_sub(ns);
    }
    if let Some(to) = time.owners.get_mut(to as usize) {
        to.time_ns = to.time_ns.saturating_add(ns);
    }
}

/// A row, and the owners that it is made of, each with its part.
pub type Sourced = (ProfileRow, Vec<(OwnerId, f64)>);

/// The physical view: one row for each thread and stack, whoever it worked for.
pub fn physical(owners: &[(OwnerId, ProfileRow)]) -> Vec<Sourced> {
    merged(owners.iter().map(|&(owner, row)| (row, vec![(owner, 1.0)])).collect())
}

/// The logical view. `owners` holds a row for each owner, by its number (0 is `Owner::Other`, which has
/// none).
pub fn logical(recording: &Recording, delegation: &Delegation, owners: &[(OwnerId, ProfileRow)]) -> Logical {
    let mut joined = JoinedStacks::new(recording, &delegation.seen);
    let mut above: HashMap<(SetId, usize, ThreadKey), Option<StackId>> = HashMap::new();
    let mut rows: Vec<Sourced> = Vec::with_capacity(owners.len());
    for &(owner, row) in owners {
        let set = delegation.of_owner.get(owner as usize).copied().flatten();
        let Some((set, paths)) = set.and_then(|set| Some((set, delegation.sets.get(set as usize)?))) else {
            rows.push((row, vec![(owner, 1.0)]));
            continue;
        };
        let share = 1.0 / f64::from(u32::try_from(paths.len().max(1)).unwrap_or(u32::MAX));
        for (at, (path, part)) in paths.iter().zip(parts(&row, paths.len())).enumerate() {
            let above = *above.entry((set, at, row.thread)).or_insert_with(|| joined.above(row.thread, path));
            let stack = if path.is_empty() { row.stack } else { Some(joined.join(above, row.stack)) };
            let on_behalf_of = match path.first() {
                Some(RequestHop::In(thread, _) | RequestHop::After(thread, _)) => Some(*thread),
                _ => None,
            };
            rows.push((ProfileRow { stack, on_behalf_of, ..part }, vec![(owner, share)]));
        }
    }
    let (frames, stacks) = joined.into_new();
    Logical { frames, stacks, rows: merged(rows) }
}

/// A row in `count` equal parts that sum to it, exactly.
fn parts(row: &ProfileRow, count: usize) -> Vec<ProfileRow> {
    let equal = vec![1; count];
    let nothing = EnergyByClass::default();
    let nobody = ProfileRow { energy: nothing, by_time: nothing, time_ns: 0, samples: 0, ..*row };
    let mut parts = vec![nobody; count];
    for class in DomainClass::ALL {
        let split = |energy: MicroJoules| energy.split(&equal).unwrap_or_default();
        for (part, energy) in parts.iter_mut().zip(split(row.energy[class])) {
            part.energy[class] = energy;
        }
        for (part, energy) in parts.iter_mut().zip(split(row.by_time[class])) {
            part.by_time[class] = energy;
        }
    }
    let count = count.max(1) as u64;
    for (at, part) in (0..).zip(&mut parts) {
        part.time_ns = row.time_ns / count + u64::from(at < row.time_ns % count);
        part.samples = row.samples / count + u64::from(at < row.samples % count);
    }
    parts
}

/// One row for each thread, stack and holder; rows of nothing are left out.
fn merged(mut rows: Vec<Sourced>) -> Vec<Sourced> {
    let key = |row: &ProfileRow| (row.thread, row.stack, row.on_behalf_of);
    rows.sort_by_key(|(row, _)| key(row));
    let mut merged: Vec<Sourced> = Vec::with_capacity(rows.len());
    for (row, sources) in rows {
        match merged.last_mut() {
            Some((last, of_last)) if key(last) == key(&row) => {
                last.energy += row.energy;
                last.by_time += row.by_time;
                last.time_ns = last.time_ns.saturating_add(row.time_ns);
                last.samples = last.samples.saturating_add(row.samples);
                of_last.extend(sources);
            }
            _ => merged.push((row, sources)),
        }
    }
    let nothing = EnergyByClass::default();
    merged.retain(|(row, _)| (row.time_ns, row.samples, row.energy, row.by_time) != (0, 0, nothing, nothing));
    merged
}

#[cfg(test)]
mod tests {
    use super::Delegation;

    /// An owner's set of requesters; those that work for themselves, or are not known, have none.
    #[test]
    fn sets_of_owners() {
        let delegation = Delegation { of_owner: vec![None, Some(3)], ..Delegation::default() };
        assert_eq!([0, 1, 2].map(|owner| delegation.requesters_of(owner)), [None, Some(3), None]);
    }
}
