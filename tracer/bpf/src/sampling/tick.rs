//! The event of one CPU whose ticks run the sampler: opened, and its period changed while it runs.
//!
//! Not by aya, which closes the event's descriptor, so that its period could not be changed. Leaves out which periods (`rate`).

use super::event::SampleEvent;
use energy_trace_model::ids::CpuId;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter};
use perf_event_open_sys::ioctls;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// How often an event ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TickRate {
    /// Each so many nanoseconds of the CPU clock.
    PeriodNs(u64),
    /// Cycles: the kernel chooses how many, again and again, so that so many ticks come a second.
    Hz(u64),
}

/// An event that ticks until this is dropped.
pub(super) struct TickEvent(Counter);

impl TickEvent {
    /// Runs the program at each tick on this CPU, whatever runs there.
    ///
    /// # Errors
    /// When the kernel refuses the event, its tick rate or the program.
    pub(super) fn open(
        program: BorrowedFd<'_>,
        event: SampleEvent,
        cpu: CpuId,
        rate: TickRate,
    ) -> io::Result<Self> {
        let mut builder = match event {
            SampleEvent::Cycles => Builder::new(Hardware::CPU_CYCLES),
            SampleEvent::CpuClock => Builder::new(Software::CPU_CLOCK),
        };
        match rate {
            TickRate::PeriodNs(ns) => builder.sample_period(ns),
            TickRate::Hz(hz) => builder.sample_frequency(hz),
        };
        let mut counter = builder.any_pid().one_cpu(cpu.index()).include_kernel().include_hv().build()?;
        counter.set_bpf(program.as_raw_fd())?;
        counter.enable()?;
        Ok(Self(counter))
    }

    /// Changes the tick rate, and begins a period anew. Its kind is that with which the event was opened.
    ///
    /// # Errors
    /// When the kernel refuses it, such as a rate above its limit.
    pub(super) fn set_tick_rate(&self, rate: TickRate) -> io::Result<()> {
        let (TickRate::PeriodNs(value) | TickRate::Hz(value)) = rate;
        // SAFETY: `PERF_EVENT_IOC_PERIOD` reads a u64 at the address that it is given (include/uapi/linux/perf_event.h, v6.1; the crate takes
        // the address as a number), and `value` outlives the call.
        let failed = unsafe { ioctls::PERIOD(self.0.as_raw_fd(), (&raw const value) as u64) } != 0;
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
