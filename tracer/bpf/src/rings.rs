//! The two ring buffers of the probes, read in order of time: the sampler's own, and that of all other programs.
//!
//! Leaves out when they are looked at (`reader`) and what events mean (`collector`).

use super::decode::peek;
use super::time_order::TimeOrder;
use aya::maps::{MapData, RingBuf};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::AsFd as _;
use tracer_ebpf::wire::kind;

/// Nothing older than this before a look comes later: a sample is in its ring some microseconds after its time, and more where the CPU was
/// taken away meanwhile.
pub const HOLD_NS: u64 = 5_000_000;
/// Within a ring events go back in time by less than this, a tenth of a millisecond as measured.
const DISORDER_NS: u64 = 1_000_000;
/// Bytes that are taken from each ring before what is due is handed on: so much more memory it takes than the rings, however full they are.
const ROUND: usize = 1 << 20;

/// The ring buffers, and events of which it is not known yet that nothing older comes.
pub struct Rings {
    rings: [RingBuf<MapData>; 2],
    order: TimeOrder,
}

impl Rings {
    pub(crate) fn new(samples: RingBuf<MapData>, events: RingBuf<MapData>) -> Self {
        Self { rings: [samples, events], order: TimeOrder::default() }
    }

    /// Hands on what has come, in order of time; how many bytes that was. The newest events are kept back for the next look, but for those
    /// that must be seen at once and what came before them. At the `last` look nothing is kept back.
    pub fn drain(&mut self, last: bool, mut take: impl FnMut(&[u8])) -> usize {
        let mut bytes = 0;
        loop {
            let until = energy_trace_system::clock::now().as_ns().saturating_sub(HOLD_NS);
            let mut at_most = u64::MAX;
            for ring in &mut self.rings {
                let (taken, rest) = fill(ring, &mut self.order);
                bytes += taken;
                at_most = at_most.min(rest);
            }
            let until = if last { u64::MAX } else { until };
            self.order.hand_on(until, at_most, &mut take);
            if at_most == u64::MAX {
                return bytes;
            }
        }
    }

    /// Whether there are events that were kept back.
    pub const fn holds_back(&self) -> bool {
        !self.order.is_empty()
    }

    /// Waits until a probe wakes it, so long at most; whether one did.
    pub fn wait(&self, most_ms: u16) -> bool {
        let mut fds = self.rings.each_ref().map(|ring| PollFd::new(ring.as_fd(), PollFlags::POLLIN));
        poll(&mut fds, PollTimeout::from(most_ms)).is_ok_and(|ready| ready > 0)
    }
}

/// Takes a round's events; their bytes, and a time that all that is left in the ring is later than.
fn fill(ring: &mut RingBuf<MapData>, order: &mut TimeOrder) -> (usize, u64) {
    let (mut bytes, mut newest) = (0, 0);
    while let Some(event) = ring.next() {
        bytes += event.len();
        let head = peek(&event).unwrap_or_default();
        order.add(head.at_ns, is_urgent(head.kind), &event);
        newest = newest.max(head.at_ns);
        if bytes >= ROUND {
            return (bytes, newest.saturating_sub(DISORDER_NS));
        }
    }
    (bytes, u64::MAX)
}

/// What has to be looked at in the process at once: it may be gone soon, or what it holds. All samples of what was before are there by then:
/// the thread that tells of it was interrupted for them before, and others that could have been are gone or run on as they were.
const fn is_urgent(of: u32) -> bool {
    matches!(of, kind::FORK | kind::EXEC | kind::EXIT | kind::MMAP | kind::CODES)
}
