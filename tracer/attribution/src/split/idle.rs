//! What becomes of a domain's idle baseline, as the reader chose. Nothing appears or disappears: what is not
//! handed out stays idle.
//!
//! Who ran is asked once for the whole run and not in each interval: the baseline is the same power at every
//! moment, so that only the sums matter. A domain on whose CPUs nobody ran keeps its baseline whatever was
//! chosen.

use crate::time::owners::{Owner, OwnerTime};
use energy_trace_model::profile::options::IdlePolicy;
use energy_trace_model::units::MicroJoules;
use std::collections::BTreeMap;

/// Adds each owner's part of the baseline to its energy, and returns what stays idle; `time` is how long each
/// owner was present.
pub(crate) fn distribute_idle(
    policy: IdlePolicy,
    idle: MicroJoules,
    of_owner: &mut [MicroJoules],
    time: &[u64],
    owners: &[OwnerTime],
) -> MicroJoules {
    let parts = match policy {
        IdlePolicy::Separate | IdlePolicy::Exclude => None,
        IdlePolicy::ActiveTime => idle.split(time),
        IdlePolicy::Proportional => {
            let above_zero = |energy: &MicroJoules| u64::try_from(energy.as_uj()).unwrap_or(0);
            idle.split(&of_owner.iter().map(above_zero).collect::<Vec<_>>())
        }
        IdlePolicy::Equal => equal(idle, time, owners),
    };
    let Some(parts) = parts else { return idle };
    of_owner.iter_mut().zip(parts).for_each(|(energy, part)| *energy += part);
    MicroJoules::ZERO
}

/// One part to each thread that ran and one to all others, by time within a thread, or within the others.
fn equal(idle: MicroJoules, time: &[u64], owners: &[OwnerTime]) -> Option<Vec<MicroJoules>> {
    let mut parties: BTreeMap<Option<energy_trace_model::ids::ThreadKey>, Vec<usize>> = BTreeMap::new();
    for (number, owner) in
        owners.iter().enumerate().filter(|&(number, _)| time.get(number).is_some_and(|ns| *ns > 0))
    {
        let party = match owner.owner {
            Owner::Target(thread, _) => Some(thread),
            Owner::Other | Owner::Background(_) => None,
        };
        parties.entry(party).or_default().push(number);
    }
    let of_party = idle.split(&vec![1; parties.len()])?;
    let mut parts = vec![MicroJoules::ZERO; owners.len()];
    for (members, energy) in parties.values().zip(of_party) {
        let weights: Vec<u64> = members.iter().map(|&member| time[member]).collect();
        let of_members = energy.split(&weights)?;
        members.iter().zip(of_members).for_each(|(&member, part)| parts[member] = part);
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::{IdlePolicy, MicroJoules, Owner, OwnerTime, distribute_idle};
    use energy_trace_model::ids::ThreadKey;

    /// 1,000 µJ idle over others (10 ns, 100 µJ), a thread in two stacks (20 and 10 ns, 300 and −50 µJ) and a
    /// thread that did not run.
    fn distributed(policy: IdlePolicy) -> (Vec<i64>, i64) {
        let owner = |owner| OwnerTime { owner, time_ns: 0, samples: 0 };
        let target = |thread| owner(Owner::Target(ThreadKey::new(thread), None));
        let owners = [owner(Owner::Other), target(0), target(0), target(1)];
        let mut energy = [100, 300, -50, 0].map(MicroJoules::from_uj);
        let kept =
            distribute_idle(policy, MicroJoules::from_uj(1_000), &mut energy, &[10, 20, 10, 0], &owners);
        (energy.iter().map(|energy| energy.as_uj()).collect(), kept.as_uj())
    }

    /// Each policy gives whom it says, and keeps the sum.
    #[test]
    fn policies_keep_the_sum() {
        assert_eq!(distributed(IdlePolicy::Separate), (vec![100, 300, -50, 0], 1_000));
        assert_eq!(distributed(IdlePolicy::Exclude), (vec![100, 300, -50, 0], 1_000));
        assert_eq!(distributed(IdlePolicy::Proportional), (vec![350, 1_050, -50, 0], 0));
        assert_eq!(distributed(IdlePolicy::ActiveTime), (vec![350, 800, 200, 0], 0));
        assert_eq!(distributed(IdlePolicy::Equal), (vec![600, 633, 117, 0], 0));
    }

    /// Where nobody ran, the baseline stays.
    #[test]
    fn nobody_gets_nothing() {
        let mut energy = [MicroJoules::ZERO];
        let owners = [OwnerTime { owner: Owner::Other, time_ns: 0, samples: 0 }];
        for policy in [IdlePolicy::Proportional, IdlePolicy::ActiveTime, IdlePolicy::Equal] {
            assert_eq!(
                distribute_idle(policy, MicroJoules::from_uj(7), &mut energy, &[0], &owners).as_uj(),
                7
            );
        }
    }
}
