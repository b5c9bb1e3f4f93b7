//! Puts the events of several ring buffers in order of time.
//!
//! An event gets its time before it gets its place in a ring, and a sample its place only when its stack was walked; what one ring shows may
//! so be older than what another showed before. So events are kept until they are older than anything that may still come, and then handed
//! on, oldest first; of those of one time (a sample, its capture and its code objects) in the order in which they were added. An event that
//! has to be looked at at once takes along all that is older. Leaves out rings, clocks and what events mean.

/// Events in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct TimeOrder {
    events: Vec<Event>,
    /// The events' bytes, one after the other.
    bytes: Vec<u8>,
    /// The time of the last event that has to be looked at at once.
    urgent_ns: u64,
    /// What `bytes` becomes: kept for its memory.
    spare: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at_ns: u64,
    from: usize,
    bytes: usize,
}

impl TimeOrder {
    /// Takes in an event. One that is `urgent` is handed on the next time, with all that is older.
    pub(crate) fn add(&mut self, at_ns: u64, urgent: bool, bytes: &[u8]) {
        self.events.push(Event { at_ns, from: self.bytes.len(), bytes: bytes.len() });
        self.bytes.extend_from_slice(bytes);
        if urgent {
            self.urgent_ns = self.urgent_ns.max(at_ns);
        }
    }

    /// Hands on what is not newer than `until_ns` or an urgent event, but nothing newer than `at_most_ns`.
    pub(crate) fn hand_on(&mut self, until_ns: u64, at_most_ns: u64, mut take: impl FnMut(&[u8])) {
        self.events.sort_by_key(|event| event.at_ns);
        let until = until_ns.max(self.urgent_ns).min(at_most_ns);
        let due = self.events.partition_point(|event| event.at_ns <= until);
        for event in self.events.drain(..due) {
            take(self.bytes.get(event.from..event.from + event.bytes).unwrap_or_default());
        }
        if self.urgent_ns <= until {
            self.urgent_ns = 0;
        }
        self.close_up();
    }

    /// Whether all was handed on.
    pub(crate) const fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Gives back the bytes of what was handed on.
    fn close_up(&mut self) {
        self.spare.clear();
        for event in &mut self.events {
            let bytes = self.bytes.get(event.from..event.from + event.bytes).unwrap_or_default();
            event.from = self.spare.len();
            self.spare.extend_from_slice(bytes);
        }
        std::mem::swap(&mut self.bytes, &mut self.spare);
    }
}

#[cfg(test)]
mod tests {
    use super::TimeOrder;
    use proptest::prelude::*;

    const ALL: u64 = u64::MAX;

    fn handed(order: &mut TimeOrder, until: u64, at_most: u64) -> Vec<String> {
        let mut out = Vec::new();
        order.hand_on(until, at_most, |bytes| out.push(String::from_utf8(bytes.to_vec()).unwrap()));
        out
    }

    fn filled(events: &[(u64, bool, &str)]) -> TimeOrder {
        let mut order = TimeOrder::default();
        for &(at, urgent, name) in events {
            order.add(at, urgent, name.as_bytes());
        }
        order
    }

    /// Two rings read one after the other come out by time; what is too new waits for what may come before it.
    #[test]
    fn rings_are_merged_by_time() {
        let mut order = filled(&[(10, false, "slice"), (30, false, "wait"), (50, false, "late")]);
        order.add(20, false, b"sample");
        assert_eq!(handed(&mut order, 40, ALL), ["slice", "sample", "wait"]);
        order.add(45, false, b"sample");
        assert_eq!(handed(&mut order, 60, ALL), ["sample", "late"]);
        assert!(handed(&mut order, ALL, ALL).is_empty());
    }

    /// A sample stays behind its code objects and its capture, which have its time, whatever else has that time too.
    #[test]
    fn what_belongs_together_stays_in_order() {
        let mut order =
            filled(&[(7, false, "wait"), (7, false, "codes"), (7, false, "raw"), (7, false, "sample")]);
        order.add(3, false, b"slice");
        assert_eq!(handed(&mut order, 7, ALL), ["slice", "wait", "codes", "raw", "sample"]);
    }

    /// A new program is told of at once, with the samples of the old one before it; what is newer waits.
    #[test]
    fn urgent_events_do_not_wait() {
        let mut order =
            filled(&[(98, false, "slice"), (99, true, "exec"), (99, false, "with it"), (100, false, "new")]);
        order.add(97, false, b"old sample");
        assert_eq!(handed(&mut order, 50, ALL), ["old sample", "slice", "exec", "with it"]);
        assert!(handed(&mut order, 50, ALL).is_empty() && !order.is_empty());
        assert_eq!(handed(&mut order, ALL, ALL), ["new"]);
        assert!(order.is_empty());
    }

    /// Where a ring still holds something, even an urgent event waits for what lies before it there.
    #[test]
    fn nothing_overtakes_a_ring_that_is_not_empty() {
        let mut order = filled(&[(10, false, "sample"), (40, true, "exec")]);
        assert_eq!(handed(&mut order, 100, 20), ["sample"]);
        order.add(30, false, b"sample");
        assert_eq!(handed(&mut order, 1, ALL), ["sample", "exec"]);
    }

    proptest! {
        /// Whatever comes when: each event is handed on once, and none before one that is older and was there.
        #[test]
        fn nothing_is_lost(looks in prop::collection::vec((prop::collection::vec((0_u64..100, any::<bool>()), 0..8), 0_u64..100), 1..8)) {
            let (mut order, mut out, mut added) = (TimeOrder::default(), vec![], vec![]);
            for (events, until) in looks {
                for (at, urgent) in events {
                    order.add(at, urgent, &at.to_le_bytes());
                    added.push(at);
                }
                let before = out.len();
                order.hand_on(until, u64::MAX, |bytes| out.push(u64::from_le_bytes(bytes.try_into().unwrap())));
                prop_assert!(out[before..].is_sorted());
            }
            order.hand_on(u64::MAX, u64::MAX, |bytes| out.push(u64::from_le_bytes(bytes.try_into().unwrap())));
            out.sort_unstable();
            added.sort_unstable();
            prop_assert_eq!(out, added);
        }
    }
}
