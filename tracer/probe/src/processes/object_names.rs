//! The names that objects of one program have for what they run, such as a graph that a framework made.
//!
//! What was read of an object is true from then until it was last seen to be so, and of no sample outside. Leaves out the reading
//! (`python_frames.rs`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::CalledOn;
use energy_trace_unwind::cpython::receiver::Named;
use foldhash::HashMap;

/// An object that is looked at for the first time so soon after a sample is the one that was sampled: to trace another function, or to load
/// another model, takes longer.
const SOON_NS: u64 = 10_000_000;

/// The name that an object has for what it runs, and from when to when it is known to have it.
struct KnownName {
    named: Named,
    since: KtimeNs,
    until: KtimeNs,
}

/// All that were met, by code object and object.
#[derive(Default)]
pub(crate) struct ObjectNames {
    known: HashMap<(u64, u64), KnownName>,
}

impl ObjectNames {
    /// Looks at the name of the object that a sample of `at` has, as it is `now`, unless somebody looked since. One that was not met before had
    /// it when it was sampled, where that was just now; one whose name changed is another object, and nobody knows since when.
    pub(crate) fn see(
        &mut self,
        place: (u64, u64),
        (at, now): (KtimeNs, KtimeNs),
        is_still: impl FnOnce(&Named) -> bool,
        read: impl FnOnce() -> Option<Named>,
    ) {
        let known = self.known.get_mut(&place);
        if let Some(known) = known {
            if at <= known.until {
                return;
            }
            if is_still(&known.named) {
                known.until = now;
                return;
            }
            if let Some(named) = read() {
                *known = KnownName { named, since: now, until: now };
            }
        } else if let Some(named) = read() {
            let since = if now.ns_since(at) < SOON_NS { at } else { now };
            self.known.insert(place, KnownName { named, since, until: now });
        }
    }

    /// What the object of a sample of `at` runs, by the name that it had then.
    pub(crate) fn at(&self, place: (u64, u64), at: KtimeNs) -> Option<&CalledOn> {
        let known = self.known.get(&place)?;
        (known.since <= at && at <= known.until).then_some(&known.named.on)
    }

    /// Forgets what was called on a code object's objects.
    pub(super) fn forget(&mut self, code: u64) {
        self.known.retain(|&(of, _), _| of != code);
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.known.len() * size_of::<((u64, u64), KnownName)>()
    }
}

#[cfg(test)]
mod tests {
    use super::{CalledOn, Named, ObjectNames, SOON_NS};
    use energy_trace_model::clock::KtimeNs;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        /// However often objects replace each other in one place, each made in ten milliseconds at the least, and however late anybody looks:
        /// no sample gets the name of another object.
        #[test]
        fn never_another_objects_name(
            changes in proptest::collection::btree_set(0_u64..1000, 0..6),
            mut samples in proptest::collection::vec((0_u64..1000, 0_u64..40), 1..40),
        ) {
            const MS: u64 = SOON_NS / 10;
            let truth = |at: u64| (b'a' + changes.range(..=at).count() as u8) as char;
            samples.retain(|&(at, _)| changes.range(at + 1..at + 10).next().is_none());
            samples.sort_unstable();
            let mut names = ObjectNames::default();
            let mut looked = 0;
            for (at, late) in samples {
                looked = (at + late).max(looked);
                let named = Named { on: CalledOn::Function(truth(looked).to_string()), place: 0 };
                let times = (KtimeNs::from_ns(at * MS), KtimeNs::from_ns(looked * MS));
                names.see((1, 2), times, |known| *known == named, || Some(named.clone()));
                let name = names.at((1, 2), times.0).cloned();
                let is_true = name.clone().is_none_or(|name| name == CalledOn::Function(truth(at).to_string()));
                prop_assert!(is_true, "{name:?} at {at}");
            }
        }
    }
}
