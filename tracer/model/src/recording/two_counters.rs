//! Whether a number that falls began anew, or two counters show it in turn, as where two servers answer at one address.
//!
//! What began anew did so at nothing, and comes back to where it had been step by step, or after it was gone. Where it comes
//! back in a step that is more than twice as large as all others since it fell, and fell to more than half or more than doubles,
//! it may have been the other counter's number; a program that works in batches and begins anew does the same once or twice, so
//! that only several such returns, none of them long ago, show two. Leaves out what becomes of such a series (`profile/work.rs`).

use super::work::{WorkFailure, WorkReading, WorkUnits};

/// Returns that show two counters, and readings without one after which they are forgotten.
const RETURNS: u32 = 3;
const FORGOTTEN: u32 = 100;

/// A number, reading by reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoCounters {
    last: Option<WorkUnits>,
    /// Where it was before it fell, and after, until it is there again.
    fall: Option<[WorkUnits; 2]>,
    /// The largest step since.
    most: WorkUnits,
    /// Returns that one counter hardly makes, and readings since the last of them.
    returns: u32,
    since: u32,
}

impl TwoCounters {
    /// Whether these are readings of two.
    pub fn show(readings: &[WorkReading]) -> bool {
        let mut two = Self::default();
        readings.iter().any(|reading| two.take(&reading.value))
    }

    /// Takes in the next reading; whether it shows, with those before it, two.
    pub fn take(&mut self, value: &Result<WorkUnits, WorkFailure>) -> bool {
        self.since = self.since.saturating_add(1);
        if self.since > FORGOTTEN {
            self.returns = 0;
        }
        match (value, self.last) {
            (Err(_), _) => self.fall = None,
            (Ok(now), Some(before)) if *now < before => {
                (self.fall, self.most) = (Some([before, *now]), WorkUnits::ZERO);
            }
            (Ok(now), Some(before)) => self.rise(before, *now),
            (Ok(_), None) => (),
        }
        self.last = value.as_ref().ok().copied().or(self.last);
        self.returns >= RETURNS
    }

    fn rise(&mut self, before: WorkUnits, now: WorkUnits) {
        let (step, twice) = (now.since(before), |of: WorkUnits| of.saturating_add(of));
        if let Some([high, low]) = self.fall.filter(|[high, _]| now >= *high) {
            let is_far = twice(low) > high || now > twice(before);
            if step > twice(self.most) && is_far {
                (self.returns, self.since) = (self.returns.saturating_add(1), 0);
            }
            self.fall = None;
        }
        self.most = self.most.max(step);
    }
}

impl WorkFailure {
    /// Why nothing is known of what two counters show.
    pub fn of_two_counters() -> Self {
        let error = "it alternates between the values of two counters, as where two servers answer at one address: give the address of one of them";
        Self::System { error: error.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::{TwoCounters, WorkFailure, WorkUnits};

    fn are_seen(numbers: &[Option<u64>]) -> bool {
        let mut two = TwoCounters::default();
        let value = |number: &Option<u64>| number.map(WorkUnits::whole).ok_or(WorkFailure::Missing);
        numbers.iter().any(|number| two.take(&value(number)))
    }

    fn looks(numbers: &[u64]) -> Vec<Option<u64>> {
        numbers.iter().copied().map(Some).collect()
    }

    /// Two programs that answer at one address, in turn or in any order, are seen. One program that begins anew is not taken for two: it comes
    /// back to where it was step by step, or after nobody answered.
    #[test]
    fn two_at_one_address() {
        for two in [
            &[5_000, 120, 5_010, 130, 5_020, 140, 5_030][..],
            &[120, 5_000, 130, 5_010, 5_011, 140, 5_020, 150, 151, 5_030],
            &[5_000, 4_900, 5_010, 4_910, 5_020, 4_920, 5_030],
        ] {
            assert!(are_seen(&looks(two)), "{two:?}");
        }
        for one in
            [&[100, 0, 30, 60, 90, 120, 150][..], &[5, 7, 7, 9], &[60, 0, 1, 2, 4], &[6, 0, 1, 2, 5, 8]]
        {
            assert!(!are_seen(&looks(one)), "{one:?}");
        }
        assert!(!are_seen(&[Some(100), Some(0), None, Some(5_000)].repeat(4)));
    }

    /// A program that works in batches and begins anew, twice or at long intervals, is one.
    #[test]
    fn batches() {
        assert!(!are_seen(&looks(&[0, 2_000, 0, 2_000, 0, 2_000])));
        let run = [[0].as_slice(), &[2_000; 120]].concat();
        assert!(!are_seen(&looks(&run.repeat(6))));
    }
}
