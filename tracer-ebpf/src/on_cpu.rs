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
    /// When the running thread came; 0 before the first switch was seen.
    pub since_ns: u64,
    /// Those who are not targets and ran since the last target, or since the CPU was last idle.
    pub run: Run,
    /// The last announcements of mappings.
    pub announced: Announced,
    /// Into which of two maps CPU time is summed: 0 or 1.
    pub turn: u64,
}

/// Processes on CPUs whose time may be summed between two readings of power.
pub const MOST_TOTALS: u32 = 1 << 14;

/// Whose time is summed, and where.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TotalKey {
    /// The CPU.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
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
    assert!(size_of::<CpuState>() == 80);
    assert!(size_of::<TotalKey>() == 8);
    assert!(size_of::<BackgroundEvent>() == 48);
};

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{Run, SHORT_NS};
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
