//! Records summed up for each launch: one sum for each correlation number, device, name and node of a graph.
//!
//! A plain launch makes one sum of one record; a graph launch, one for each node of the graph, with the time from the first start to the
//! last end and the time in which the kernel ran, and another one for every two milliseconds in which something of it starts. Records of one
//! graph that come in two ticks make a sum in each. Leaves out where records come from (`listen`).

use std::collections::BTreeMap;

/// What starts in one stretch of this length is summed up together.
const STRETCH_NS: u64 = 2_000_000;

/// What a launch made a device do under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// CUPTI's number of the launching call, unique in the process.
    pub correlation: u32,
    /// The device, as CUDA numbers it in this process.
    pub device: u32,
    /// The number of the kernel's name, or of `[copy H2D]` and its like.
    pub name: u32,
    /// The node of a graph that was captured; 0: none.
    pub node: u64,
    /// How many records there were.
    pub count: u32,
    /// The first start, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// The last end.
    pub end_ns: u64,
    /// The durations of all, added up.
    pub busy_ns: u64,
}

/// One record of something that a device did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity<'a> {
    /// As in `Sum`.
    pub correlation: u32,
    /// As in `Sum`.
    pub device: u32,
    /// The name itself.
    pub name: &'a str,
    /// The node of a graph; 0: none.
    pub node: u64,
    /// When it started; 0 when CUPTI does not know.
    pub start_ns: u64,
    /// When it ended; 0 when CUPTI does not know.
    pub end_ns: u64,
}

/// The sums since they were last taken, and the names so far.
#[derive(Debug, Default)]
pub struct Tally {
    sums: BTreeMap<(u32, u32, u32, u64, u64), Sum>,
    names: BTreeMap<String, u32>,
    new_names: Vec<(u32, String)>,
    untimed: u64,
}

impl Tally {
    /// An empty one.
    pub const fn new() -> Self {
        Self { sums: BTreeMap::new(), names: BTreeMap::new(), new_names: Vec::new(), untimed: 0 }
    }

    /// Adds a record. One without times is counted and makes no sum.
    pub fn add(&mut self, activity: &Activity<'_>) {
        let Activity { correlation, device, name, node, start_ns, end_ns } = *activity;
        if start_ns == 0 || end_ns < start_ns {
            self.untimed += 1;
            return;
        }
        let name = self.number(name);
        let busy_ns = end_ns - start_ns;
        self.sums
            .entry((correlation, device, name, node, start_ns / STRETCH_NS))
            .and_modify(|sum| {
                sum.count = sum.count.saturating_add(1);
                sum.start_ns = sum.start_ns.min(start_ns);
                sum.end_ns = sum.end_ns.max(end_ns);
                sum.busy_ns = sum.busy_ns.saturating_add(busy_ns);
            })
            .or_insert(Sum { correlation, device, name, node, count: 1, start_ns, end_ns, busy_ns });
    }

    /// The number of a name, which is sent with the next tick if it is new.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.insert(name.to_owned(), number);
        self.new_names.push((number, name.to_owned()));
        number
    }

    /// The names that are new, the sums since the last call, and how many records had no times since the beginning.
    pub fn take(&mut self) -> (Vec<(u32, String)>, Vec<Sum>, u64) {
        let sums = std::mem::take(&mut self.sums).into_values().collect();
        (std::mem::take(&mut self.new_names), sums, self.untimed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, Sum, Tally};

    fn activity(correlation: u32, name: &str, start_ns: u64, end_ns: u64) -> Activity<'_> {
        Activity { correlation, device: 0, name, node: 0, start_ns, end_ns }
    }

    /// What runs again is summed up by kernel and node, launches are kept apart, and names are sent once.
    #[test]
    fn sums() {
        let mut tally = Tally::new();
        for one in [
            activity(1, "gemm", 10, 20),
            activity(1, "relu", 20, 25),
            activity(1, "gemm", 25, 40),
            activity(2, "gemm", 50, 60),
        ] {
            tally.add(&one);
        }
        let (names, sums, untimed) = tally.take();
        assert_eq!(names, [(0, "gemm".to_owned()), (1, "relu".to_owned())]);
        let first = Sum {
            correlation: 1,
            device: 0,
            name: 0,
            node: 0,
            count: 2,
            start_ns: 10,
            end_ns: 40,
            busy_ns: 25,
        };
        assert_eq!(sums[0], first);
        assert_eq!((sums.len(), untimed), (3, 0));
        tally.add(&activity(3, "relu", 70, 80));
        tally.add(&Activity { node: 5, ..activity(3, "relu", 80, 90) });
        let (names, sums, _) = tally.take();
        assert_eq!((names.len(), sums.len(), sums[0].name, sums[1].node), (0, 2, 1, 5));
    }

    /// Records without times are counted and are no work of zero length.
    #[test]
    fn untimed() {
        let mut tally = Tally::new();
        tally.add(&activity(1, "gemm", 0, 0));
        tally.add(&activity(1, "gemm", 9, 8));
        let (_, sums, untimed) = tally.take();
        assert_eq!((sums.len(), untimed), (0, 2));
    }
}
