//! What a CPU is doing between two switches, and runs of background processes.
//!
//! Background processes are kept apart only because each may draw other power than the next, so a run ends where the process changes. Short
//! turns are put together: two processes that hand a CPU to and fro a hundred thousand times a second would else be as many events. At
//! most two runs then begin for each turn of `SHORT_NS` or more. Leaves out whose time the rest is (`sched.rs` of the probes).

use crate::mappings::Announced;
use crate::wire::EventHead;

/// Turns shorter than this are put together with their neighbours' short ones.
pub const SHORT_NS: u64 = 100_000;

/// Time on a CPU of processes that are not targets.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// When it began; 0: none is open.
    pub start_ns: u64,
    /// Its end so far.
    pub end_ns: u64,
    /// The process; 0: several, by turns.
    pub pid: u32,
    /// Zero.
    pub reserved: u32,
    /// The kernel's name of the thread with which it began.
    pub comm: [u8; 16],
}

impl Run {
    /// Adds a process's turn, and says whether it could: otherwise this run is over and another begins.
    #[inline(always)]
    pub fn takes(&mut self, pid: u32, start_ns: u64, end_ns: u64) -> bool {
        if self.start_ns == 0 {
            return false;
        }
        if self.pid != pid {
            let open_ended = self.pid == 0 || self.end_ns - self.start_ns < SHORT_NS;
            if end_ns - start_ns >= SHORT_NS || !open_ended {
                return false;
            }
            self.pid = 0;
        }
        self.end_ns = end_ns;
        true
    }
}

/// What a CPU is doing, between two switches.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuState {
    /// When the running thread came; 0 before the first switch was seen. Where CPU time is summed: the last switch by the scheduler's clock,
    /// or the last reading of power by ours where there was none since.
    pub since_ns: u64,
    /// Those who are not targets and ran since the last target, or since the CPU was last idle.
    pub run: Run,
    /// The last announcements of mappings.
    pub announced: Announced,
    /// How far our clock is ahead of the scheduler's, and whether that is known: it is looked at once after each reading.
    pub ahead_ns: u64,
    /// 1: there was a switch since the last reading.
    pub switched: u64,
    /// Into which of two maps CPU time is summed: 0 or 1.
    pub turn: u64,
    /// What is still to be added there: each process has one place, by its lowest bits, which the last one there holds.
    pub sums: [Sum; SUMS],
}

/// CPU time of a process that is not in a map yet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The process; 0: none.
    pub pid: u32,
    /// Zero.
    pub reserved: u32,
    /// Its time.
    pub ns: u64,
}

/// Processes whose time is summed beside the map, on each CPU: a power of two.
pub const SUMS: usize = 16;

impl CpuState {
    /// At a switch, `clock` by the scheduler's clock: nanoseconds since the switch or reading before. `now` asks our clock, which takes longer
    /// than all the rest.
    #[inline(always)]
    pub fn until_switch(&mut self, clock: u64, now: impl FnOnce() -> u64) -> u64 {
        let since = core::mem::replace(&mut self.since_ns, clock);
        if self.switched != 0 {
            return clock.saturating_sub(since);
        }
        let now = now();
        (self.switched, self.ahead_ns) = (1, now.wrapping_sub(clock));
        now.saturating_sub(since)
    }

    /// At a reading, `now` by our clock: the same.
    #[inline(always)]
    pub fn until_reading(&mut self, now: u64) -> u64 {
        let mut since = core::mem::replace(&mut self.since_ns, now);
        if core::mem::take(&mut self.switched) != 0 {
            since = since.wrapping_add(self.ahead_ns);
        }
        now.saturating_sub(since)
    }

    /// Adds to a process's time, and gives back the sum of another one that had its place.
    #[inline(always)]
    pub fn add(&mut self, pid: u32, ns: u64) -> Option<Sum> {
        let place = self.sums.get_mut(pid as usize % SUMS)?;
        if place.pid == pid {
            place.ns += ns;
            return None;
        }
        let old = *place;
        *place = Sum { pid, reserved: 0, ns };
        (old.pid != 0).then_some(old)
    }
}

/// Processes on CPUs whose time may be summed between two readings of power.
pub const MOST_TOTALS: u32 = 1 << 14;

/// `Settings::totals`: nothing runs at a switch.
pub const BY_TASK: u32 = 2;
/// Tasks that can be asked.
pub const MOST_TASKS: u32 = 1 << 17;

/// What is said before tasks are asked, the index into the `LOOKS` map.
pub mod looks {
    /// Nanoseconds that a task must have run to be told of.
    pub const LEAST_NS: u32 = 0;
    /// Of which processes tasks are told of in any case.
    pub const TURN: u32 = 1;
    /// How many numbers there are.
    pub const COUNT: u32 = 2;
    /// How many turns: a process's is its number's remainder.
    pub const TURNS: u32 = 10;
}

/// What a task has run since it was last asked.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct TaskTime {
    /// Its process.
    pub pid: u32,
    /// Where it ran last.
    pub cpu: u32,
    /// Nanoseconds.
    pub ns: u64,
}

/// Whose time is summed, and where.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TotalKey {
    /// The CPU.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
    /// The CPU that added it: each has entries of its own, which no other writes.
    pub by: u32,
}

/// Time on a CPU of those who are not targets; `head.at_ns` is its end, `head.pid` the process or 0, `head.tid` 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::Immutable, zerocopy::IntoBytes))]
pub struct BackgroundEvent {
    /// Kind `BACKGROUND`.
    pub head: EventHead,
    /// When it began.
    pub start_ns: u64,
    /// The kernel's name of the thread with which it began.
    pub comm: [u8; 16],
}

const _: () = {
    assert!(size_of::<Run>() == 40);
    assert!(size_of::<CpuState>() == 96 + SUMS * size_of::<Sum>());
    assert!(size_of::<Sum>() == 16);
    assert!(size_of::<TotalKey>() == 12);
    assert!(size_of::<TaskTime>() == 16);
    assert!(size_of::<BackgroundEvent>() == 48);
};

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{CpuState, Run, SHORT_NS, SUMS};
    use std::{vec, vec::Vec};

    /// The runs that turns of so many nanoseconds make, one after the other: process and length.
    fn runs(turns: &[(u32, u64)]) -> Vec<(u32, u64)> {
        let (mut run, mut now, mut ended) = (Run::default(), 1, vec![]);
        for &(pid, ns) in turns {
            if !run.takes(pid, now, now + ns) {
                ended.push(run);
                run = Run { start_ns: now, end_ns: now + ns, pid, ..Run::default() };
            }
            now += ns;
        }
        ended.push(run);
        ended.iter().skip(1).map(|run| (run.pid, run.end_ns - run.start_ns)).collect()
    }

    /// Long turns are runs of their process, whatever came between; short ones by turns are one run of several.
    #[test]
    fn long_turns_stand_alone() {
        let long = 10 * SHORT_NS;
        assert_eq!(runs(&[(7, long), (7, 5), (8, long)]), [(7, long + 5), (8, long)]);
        assert_eq!(runs(&[(7, long), (8, 5), (7, long)]), [(7, long), (8, 5), (7, long)]);
        assert_eq!(runs(&[(7, long), (8, 5), (9, 6), (7, long)]), [(7, long), (0, 11), (7, long)]);
        assert_eq!(runs(&[(8, 5), (8, 6)]), [(8, 11)]);
    }

    /// Whatever order processes run in, what was given back and what is left is each one's time.
    #[test]
    fn sums_are_whole() {
        let (mut state, mut given) = (CpuState::default(), [0; 40]);
        let mut take = |sum: super::Sum| given[sum.pid as usize] += sum.ns;
        for i in 0..10_000_u32 {
            // Some that share a place, and some that have one alone.
            let pid = 1 + (i * i + i / 7) % 39;
            state.add(pid, u64::from(pid)).into_iter().for_each(&mut take);
        }
        state.sums.into_iter().filter(|sum| sum.pid != 0).for_each(take);
        let truth = |pid: u32| {
            (0..10_000_u32).filter(|i| 1 + (i * i + i / 7) % 39 == pid).count() as u64 * u64::from(pid)
        };
        assert!((1..40).all(|pid| given[pid as usize] == truth(pid)), "{given:?}");
        assert!(given.iter().filter(|ns| **ns > 0).count() > SUMS);
    }

    /// Whatever the scheduler's clock is ahead or behind, turns between two readings are the time between them; the clock is asked once.
    #[test]
    fn turns_are_whole() {
        for ahead in [0_u64, 5_000, u64::MAX - 7_000] {
            let mut state = CpuState { since_ns: 1_000, ..CpuState::default() };
            let (mut now, mut asked) = (1_000_u64, 0);
            for reading in 0..4 {
                let before = now;
                let mut ran = 0;
                for _ in 0..reading {
                    now += 10;
                    ran += state.until_switch(now.wrapping_sub(ahead), || {
                        asked += 1;
                        now
                    });
                }
                now += 7;
                ran += state.until_reading(now);
                assert_eq!(ran, now - before, "{ahead} {reading}");
            }
            assert_eq!(asked, 3);
        }
    }

    /// Two processes by short turns are one run, however long it gets, and never more than two runs a long turn.
    #[test]
    fn short_turns_do_not_flood() {
        let turns: Vec<(u32, u64)> = (0..1_000).map(|i| (7 + i % 2, SHORT_NS / 5)).collect();
        assert_eq!(runs(&turns), [(0, 1_000 * SHORT_NS / 5)]);
        let mixed: Vec<(u32, u64)> =
            (0..1_000).map(|i| (7 + i % 3, if i % 10 == 0 { SHORT_NS } else { 50 })).collect();
        assert!(runs(&mixed).len() <= 201);
    }
}
