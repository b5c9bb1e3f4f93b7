//! When windows end: at multiples of their length in UTC, on the one clock, by the newest tie between both.
//!
//! A step of the wall clock, or a machine that slept, makes one window longer or shorter. Leaves out waiting for it.

use energy_trace_model::clock::{KtimeNs, WallAnchor};
use std::time::Duration;

/// The first end after a moment.
pub(super) fn end_after(moment: KtimeNs, window: Duration, anchor: WallAnchor) -> KtimeNs {
    let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    let left = window - anchor.unix_ns_of(moment) % window;
    moment + Duration::from_nanos(left)
}

/// So late windows are attributed one by one: records come seconds after what they tell of.
const LATE: Duration = Duration::from_secs(10);

/// The end of the window behind one that has ended and been attributed now: no sooner than after half a window,
/// as two ties between the clocks are never quite the same, and as a later full one where the machine slept, or
/// was too slow for those between.
pub(super) fn next_end(ended: KtimeNs, now: KtimeNs, window: Duration, anchor: WallAnchor) -> KtimeNs {
    let late = window.saturating_add(LATE).as_nanos() as u64;
    let latest = KtimeNs::from_ns(now.as_ns().saturating_sub(late));
    end_after((ended + window / 2).max(latest), window, anchor)
}

/// How many windows between two ends have none of their own: they are a part of the next.
pub(super) fn joined(ended: KtimeNs, next: KtimeNs, window: Duration) -> u64 {
    let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    // As many as are nearest: ends do not lie on one clock.
    (next.ns_since(ended).saturating_add(window / 2) / window).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::{Duration, KtimeNs, WallAnchor, end_after, joined, next_end};

    const MINUTE: Duration = Duration::from_mins(1);

    /// At this moment of the one clock it is so late, in seconds.
    fn anchor(ktime: u64, unix: u64) -> WallAnchor {
        WallAnchor { ktime: seconds(ktime), unix_ns: unix * 1_000_000_000 }
    }

    fn seconds(seconds: u64) -> KtimeNs {
        KtimeNs::from_ns(seconds * 1_000_000_000)
    }

    /// Windows end at full minutes, the next after one that has just ended a minute later.
    #[test]
    fn ends_are_full_minutes() {
        let wall = anchor(1_000, 1_800_000_005);
        assert_eq!(wall.unix_ns_of(end_after(seconds(1_000), MINUTE, wall)) % MINUTE.as_nanos() as u64, 0);
        let first = end_after(seconds(1_000), MINUTE, wall);
        assert_eq!(first, seconds(1_055));
        assert_eq!(end_after(first, MINUTE, wall), seconds(1_115));
        assert_eq!(end_after(seconds(900), MINUTE, wall), seconds(935));
    }

    /// Ties that differ by a microsecond make no window of a microsecond, and what was missed is one window.
    #[test]
    fn one_window_behind_the_other() {
        let wall = anchor(1_055, 1_800_000_060);
        for ns in [0, 1_000] {
            let moved = WallAnchor { unix_ns: wall.unix_ns - ns, ..wall };
            let next = next_end(seconds(1_055), seconds(1_058), MINUTE, moved);
            assert_eq!(next, KtimeNs::from_ns(1_115_000_000_000 + ns));
        }
        assert_eq!(next_end(seconds(1_055), seconds(1_300), MINUTE, wall), seconds(1_235));
        // A window of a second is attributed three seconds after its end.
        assert_eq!(next_end(seconds(1_055), seconds(1_058), MINUTE / 60, wall), seconds(1_056));
        let of = |next| joined(seconds(1_055), seconds(next), MINUTE);
        assert_eq!([1_056, 1_114, 1_115, 1_116, 1_175, 1_295].map(of), [0, 0, 0, 0, 1, 3]);
    }

    /// A clock that was set forth or back moves the next end, which is never more than a window away, nor before the moment.
    #[test]
    fn steps_of_the_clock() {
        for step in [0, 1, 7, 59, 60, 61, 3_600] {
            let end = end_after(seconds(1_055), MINUTE, anchor(1_055, 1_800_000_000 + step));
            assert!(seconds(1_055) < end && end <= seconds(1_115), "{step}: {end}");
            assert_eq!((end.as_ns() / 1_000_000_000 - 1_055 + step) % 60, 0);
        }
    }
}
