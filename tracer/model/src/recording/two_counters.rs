//! Whether a number that falls began anew, or two counters show it in turn, as where two servers answer at one address.
//!
//! What began anew did so at nothing, and comes back to where it had been step by step, or after it was gone. Where it comes back in a step that is more
//! than twice as large as all others since it fell, and fell to more than half or more than doubles, it was the other counter's number. Leaves out what becomes of such a series (`profile/work.rs`).

use super::work::{WorkFailure, WorkReading, WorkUnits};

/// A number, reading by reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoCounters {
    last: Option<WorkUnits>,
    /// Where it was before it fell, and after, until it is there again.
    fall: Option<[WorkUnits; 2]>,
    /// The largest step since.
    most: WorkUnits,
    are_seen: bool,
}

impl TwoCounters {
    /// Whether these are readings of two.
    pub fn show(readings: &[WorkReading]) -> bool {
        let mut two = Self::default();
        readings.iter().any(|reading| two.take(&reading.value))
    }

    /// Takes in the next reading; whether two were seen by now.
    pub fn take(&mut self, value: &Result<WorkUnits, WorkFailure>) -> bool {
        match (value, self.last) {
            (Err(_), _) => self.fall = None,
            (Ok(now), Some(before)) if *now < before => {
                (self.fall, self.most) = (Some([before, *now]), WorkUnits::ZERO);
            }
            (Ok(now), Some(before)) => self.rise(before, *now),
            (Ok(_), None) => (),
        }
        self.last = value.as_ref().ok().copied().or(self.last);
        self.are_seen
    }

    fn rise(&mut self, before: WorkUnits, now: WorkUnits) {
        let (step, twice) = (now.since(before), |of: WorkUnits| of.saturating_add(of));
        if let Some([high, low]) = self.fall.filter(|[high, _]| now >= *high) {
            let is_far = twice(low) > high || now > twice(before);
            self.are_seen |= step > twice(self.most) && is_far;
            self.fall = None;
        }
        self.most = self.most.max(step);
    }
}

impl WorkFailure {
    /// Why nothing is known of what two counters show.
    pub fn of_two_counters() -> Self {
        let error =
            "it jumps to and fro between two, as where two servers answer at one address: name that of one";
        Self::System { error: error.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::{TwoCounters, WorkFailure, WorkUnits};

    /// Two programs that answer in turn, or as it comes, whichever is first, are none that begins anew; one that does comes back step by step, or after
    /// nobody answered.
    #[test]
    fn two_at_one_address() {
        let are_seen = |numbers: &[Option<u64>]| {
            let mut two = TwoCounters::default();
            let value = |number: &Option<u64>| number.map(WorkUnits::whole).ok_or(WorkFailure::Missing);
            numbers.iter().any(|number| two.take(&value(number)))
        };
        let looks = |numbers: &[u64]| numbers.iter().copied().map(Some).collect::<Vec<_>>();
        for two in [
            &[5_000, 120, 5_010][..],
            &[120, 5_000, 130, 5_010],
            &[5_000, 4_900, 5_010],
            &[9, 0, 9],
            &[10, 12, 3, 4, 14, 16],
        ] {
            assert!(are_seen(&looks(two)), "{two:?}");
        }
        for one in
            [&[100, 0, 30, 60, 90, 120, 150][..], &[5, 7, 7, 9], &[60, 0, 1, 2, 4], &[6, 0, 1, 2, 5, 8]]
        {
            assert!(!are_seen(&looks(one)), "{one:?}");
        }
        assert!(!are_seen(&[Some(100), Some(0), None, Some(5_000)]));
    }
}
