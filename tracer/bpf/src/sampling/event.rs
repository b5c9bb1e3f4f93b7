//! Which event drives the sampler: hardware cycles or the CPU clock. One function decides, for `record` and for `doctor`.
//!
//! Cycles interrupt by NMI and show kernel code that runs with interrupts off; the clock shows it where they come on again. In a guest
//! each access to the virtual PMU goes to the host: a sample by cycles cost 30 µs there and by the clock 6, and the first event of a guest
//! stands its CPUs still for 0.1 to 0.2 s. Leaves out opening the event (`sampler`).

pub use energy_trace_model::recording::record::SampleEvent;

use crate::arch::{is_pmu_of_cpus, is_virtual};
use std::path::Path;

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventChoice {
    /// Cycles where the CPU is real and has a PMU, else the CPU clock.
    #[default]
    Auto,
    /// Hardware cycles, or no recording.
    Cycles,
    /// The CPU clock.
    CpuClock,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The CPU says that it is a virtual one.
    pub is_virtual: bool,
    /// The kernel has a PMU of the CPU.
    pub has_pmu: bool,
}

impl Machine {
    /// Reads it of the machine below `root`.
    pub fn read_at(root: &Path) -> Self {
        let devices = std::fs::read_dir(root.join("sys/bus/event_source/devices"));
        let has_pmu = devices.is_ok_and(|devices| devices.flatten().any(|it| is_pmu_of_cpus(&it.path())));
        Self { is_virtual: is_virtual(root), has_pmu }
    }
}

/// An event, and why it is that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The event.
    pub event: SampleEvent,
    /// Whether another may take its place where the kernel refuses it.
    pub may_fall_back: bool,
    /// Why, for the reader.
    pub why: &'static str,
}

/// Decides.
pub const fn decide(choice: EventChoice, machine: Machine) -> Decision {
    let (event, why) = match (choice, machine) {
        (EventChoice::Cycles, Machine { is_virtual: true, .. }) => (
            SampleEvent::Cycles,
            "as asked; on a virtual CPU a sample costs several times as much, and the first one may stand it still for 0.2 s",
        ),
        (EventChoice::Cycles, _) => (SampleEvent::Cycles, "as asked"),
        (EventChoice::CpuClock, _) => (SampleEvent::CpuClock, "as asked"),
        (EventChoice::Auto, Machine { is_virtual: true, .. }) => (
            SampleEvent::CpuClock,
            "a timer: the CPU is virtual, where a sample by cycles costs several times as much",
        ),
        (EventChoice::Auto, Machine { has_pmu: false, .. }) => {
            (SampleEvent::CpuClock, "a timer: the kernel has no hardware PMU of this CPU")
        }
        (EventChoice::Auto, _) => (SampleEvent::Cycles, "counted by the hardware"),
    };
    Decision { event, may_fall_back: matches!(choice, EventChoice::Auto), why }
}

#[cfg(test)]
mod tests {
    use super::{EventChoice, Machine, SampleEvent, decide};
    use std::fs;

    /// Cycles on a real CPU with a PMU, the CPU clock on every other machine; what is asked for is taken, and only `auto` may fall back.
    #[test]
    fn the_rule() {
        let on = |choice, is_virtual, has_pmu| decide(choice, Machine { is_virtual, has_pmu });
        for (is_virtual, has_pmu, event) in [
            (false, true, SampleEvent::Cycles),
            (false, false, SampleEvent::CpuClock),
            (true, true, SampleEvent::CpuClock),
            (true, false, SampleEvent::CpuClock),
        ] {
            let auto = on(EventChoice::Auto, is_virtual, has_pmu);
            assert_eq!((auto.event, auto.may_fall_back), (event, true), "{is_virtual} {has_pmu}");
            let cycles = on(EventChoice::Cycles, is_virtual, has_pmu);
            assert_eq!((cycles.event, cycles.may_fall_back), (SampleEvent::Cycles, false));
            assert_eq!(on(EventChoice::CpuClock, is_virtual, has_pmu).event, SampleEvent::CpuClock);
        }
    }

    /// A guest is known by the CPU's own flag or by the firmware, a PMU by its place in sysfs or by a file there.
    #[test]
    fn machines_are_read() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Machine::read_at(root.path()), Machine::default());
        fs::create_dir_all(root.path().join("proc")).unwrap();
        let pmu = root.path().join("sys/bus/event_source/devices/cpu_core");
        fs::create_dir_all(&pmu).unwrap();
        fs::write(pmu.join("cpus"), "0-1\n").unwrap();
        fs::write(root.path().join("proc/cpuinfo"), "model name\t: hypervisor\nflags\t\t: fpu sse\n")
            .unwrap();
        assert_eq!(Machine::read_at(root.path()), Machine { is_virtual: false, has_pmu: true });
        fs::write(root.path().join("proc/cpuinfo"), "flags\t\t: fpu hypervisor sse\n").unwrap();
        fs::create_dir_all(root.path().join("sys/class/dmi/id")).unwrap();
        fs::write(root.path().join("sys/class/dmi/id/sys_vendor"), "QEMU\n").unwrap();
        assert!(Machine::read_at(root.path()).is_virtual);
    }
}
