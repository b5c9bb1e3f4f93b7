//! How long a thread of another process has been on a CPU, up to this very moment.
//!
//! `/proc/PID/task/TID/schedstat` is up to a tick (4 ms) behind while the thread runs, and another process cannot read a thread's CPU
//! clock. A perf counter of the software event `task-clock` on the thread can be read at any time and is exact; one on each CPU also tells
//! the socket. Measured beside the thread's own clock: 0.5 ms apart after 3 s, so stretches between two messages are right to 0.02 %.

use perf_event::events::Software;
use perf_event::{Builder, Counter};
use std::fs;
use std::io;

/// How long a thread has been on a CPU, in nanoseconds from an unknown beginning, for each of `sockets` sockets.
pub trait CpuClock: Send {
    /// Reads the clock.
    fn on_cpu_ns(&mut self, sockets: usize) -> Vec<u64>;
}

/// The kernel's clock of one thread: a counter on each CPU.
pub struct TaskClock {
    counters: Vec<Counter>,
    last: Vec<u64>,
}

impl TaskClock {
    /// Begins to count for a thread of any process.
    ///
    /// # Errors
    /// Without root or `CAP_PERFMON`, and for a thread that is gone.
    pub fn open(tid: i32) -> io::Result<Self> {
        let open = |cpu| {
            let mut builder = Builder::new(Software::TASK_CLOCK);
            builder.observe_pid(tid).one_cpu(cpu).include_kernel();
            let mut counter = builder.build()?;
            counter.enable()?;
            Ok(counter)
        };
        let counters = online_cpus()?.into_iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let last = vec![0; counters.len()];
        Ok(Self { counters, last })
    }
}

impl CpuClock for TaskClock {
    fn on_cpu_ns(&mut self, sockets: usize) -> Vec<u64> {
        let mut sums = vec![0; sockets];
        for (cpu, (counter, last)) in self.counters.iter_mut().zip(&mut self.last).enumerate() {
            // A counter of a thread that ended keeps its value; one that cannot be read has not moved.
            *last = counter.read().unwrap_or(*last);
            if let Some(sum) = sums.get_mut(cpu % sockets) {
                *sum += *last;
            }
        }
        sums
    }
}

fn online_cpus() -> io::Result<Vec<usize>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    Ok(text.trim().split(',').filter_map(range).flatten().collect())
}
