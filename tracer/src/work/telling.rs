//! Which looks are worth a record: every number, and a reason why there is none when it is new and lasts.
//!
//! Leaves out looking.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::recording::record::{WorkFailure, WorkReading, WorkUnits};
use std::time::Duration;

/// A counter that was there may be gone for so long before that is said: a file is empty for a moment while it is written anew.
const GRACE: Duration = Duration::from_secs(1);

/// What was told of one counter.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// When it last had a number.
    seen: Option<KtimeNs>,
    /// Why it has none, where that was told.
    told: Option<WorkFailure>,
}

impl Telling {
    /// What to tell of a look that began and ended then.
    pub(super) fn tell(
        &mut self,
        (began, ended): (KtimeNs, KtimeNs),
        value: Result<WorkUnits, WorkFailure>,
    ) -> Option<WorkReading> {
        match &value {
            Ok(_) => (self.seen, self.told) = (Some(ended), None),
            Err(failure) => {
                let is_new = self.told.as_ref() != Some(failure);
                let is_lasting = self.seen.is_none_or(|seen| ended.ns_since(seen) >= GRACE.as_nanos() as u64);
                if !is_new || !is_lasting {
                    return None;
                }
                self.told = Some(failure.clone());
            }
        }
        Some(WorkReading { at: began.midpoint(ended), within_ns: ended.ns_since(began) / 2, value })
    }
}

#[cfg(test)]
mod tests {
    use super::{KtimeNs, Telling, WorkFailure, WorkUnits};

    /// Every number is told, with the middle of the look; a reason once, at once where nothing was there before, else when it lasts.
    #[test]
    fn what_is_told() {
        let at = |ms: u64| KtimeNs::from_ns(ms * 1_000_000);
        let mut telling = Telling::default();
        let mut tell = |ms: u64, value| telling.tell((at(ms), at(ms + 10)), value).map(|told| told.value);
        let (five, missing) = (Ok(WorkUnits::whole(5)), Err(WorkFailure::Missing));
        assert_eq!(tell(0, missing.clone()), Some(missing.clone()));
        assert_eq!(tell(100, missing.clone()), None);
        assert_eq!(tell(200, five.clone()), Some(five.clone()));
        assert_eq!(tell(300, five.clone()), Some(five.clone()));
        for ms in [400, 1_200] {
            assert_eq!(tell(ms, missing.clone()), None, "{ms}");
        }
        assert_eq!(tell(1_400, missing.clone()), Some(missing.clone()));
        assert_eq!(tell(1_500, missing.clone()), None);
        assert_eq!(tell(1_600, Err(WorkFailure::Denied)), Some(Err(WorkFailure::Denied)));
        let reading = telling.tell((at(10), at(30)), five).unwrap();
        assert_eq!((reading.at, reading.within_ns), (at(20), 10_000_000));
    }
}
