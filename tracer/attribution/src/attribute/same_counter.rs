//! A counter that two domains show: a copy of a file, or a virtual machine whose sockets all show that of the host. Its energy is counted once.
//!
//! Read in order of time, one counter never goes back, whichever domain it was read for. Of two it goes back at every other reading, unless both have counted
//! the same since they began. Leaves out counters that hardly moved: nothing tells these apart.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CounterValue, Domain, DomainClass, Origin, Scope};
use std::borrow::Cow;

/// So often it must have moved.
const MOVES: usize = 20;
/// So many of a hundred readings may go back: when the counter turns, and where a reading's time is a little off.
const BACK_PERCENT: usize = 2;

/// Leaves the later ones of such domains out of a recording, and says so.
pub(super) fn leave_out(recording: &mut Cow<'_, Recording>) -> Vec<Diagnostic> {
    let found: Vec<_> = [DomainClass::Package, DomainClass::Dram]
        .iter()
        .flat_map(|class| of_class(recording, *class))
        .collect();
    for (kept, copy) in &found {
        let recording = recording.to_mut();
        recording.domains.retain(|domain| domain.id != copy.id);
        let kept = recording.domains.iter_mut().find(|domain| domain.id == kept.id);
        // What all sockets show is the machine's.
        kept.into_iter().filter(|kept| kept.scope != copy.scope).for_each(|kept| kept.scope = Scope::Machine);
    }
    let says = |(kept, copy): (Domain, Domain)| {
        Diagnostic::of(&kept.name, DomainDiagnostic::SameCounter { domain: copy.name })
    };
    found.into_iter().map(says).collect()
}

/// Domains of a class, and those that show the same counter. Sockets of which some count apart are left as they are: nobody knows whose it is.
fn of_class(recording: &Recording, class: DomainClass) -> Vec<(Domain, Domain)> {
    let of_class = recording.domains.iter().filter(|domain| domain.class == class);
    let counted: Vec<&Domain> =
        of_class.filter(|domain| matches!(domain.origin, Origin::Counter { .. })).collect();
    let Some((first, others)) = counted.split_first() else { return vec![] };
    let copies: Vec<&&Domain> = others.iter().filter(|other| is_same(recording, first, other)).collect();
    let are_all = copies.len() == others.len();
    let is_known = |copy: &&&Domain| are_all || copy.scope == first.scope;
    copies.into_iter().filter(is_known).map(|copy| ((*first).clone(), (*copy).clone())).collect()
}

fn is_same(recording: &Recording, one: &Domain, other: &Domain) -> bool {
    let [one, other] = [one, other].map(|domain| read_of(recording, domain));
    let fewest = one.len().min(other.len());
    // A counter that failed in between says nothing of the rest.
    let are_both_read = fewest * 10 > one.len().max(other.len()) * 9;
    let moves = steps(&one).filter(|(before, after)| before < after).count();
    let mut both = [one, other].concat();
    both.sort_unstable();
    let back = steps(&both).filter(|(before, after)| before > after).count();
    are_both_read && moves >= MOVES && back * 100 <= fewest * BACK_PERCENT
}

fn read_of(recording: &Recording, domain: &Domain) -> Vec<(KtimeNs, u64)> {
    let readings = recording.readings.get(&domain.id).into_iter().flatten();
    let read = readings.filter_map(|reading| match reading.value {
        CounterValue::MicroJoules(uj) => Some((reading.at, uj)),
        CounterValue::Failed => None,
    });
    read.collect()
}

fn steps(read: &[(KtimeNs, u64)]) -> impl Iterator<Item = (u64, u64)> + '_ {
    read.iter().zip(read.iter().skip(1)).map(|(before, after)| (before.1, after.1))
}
