//! What can be said of a counter before it is read: how much its hardware can draw, and how long it can stand
//! still.
//!
//! Bounds are far from what hardware does, so that no burst is refused: they tell a counter that lies, not
//! one that is off. What a machine says of itself is a tighter bound (`PowerLimit`: RAPL's constraints, a
//! GPU's board). Leaves out the judgement (`believed`).

use super::counter::{POWER_CEILING, STEP_NS};
use energy_trace_model::recording::record::{Domain, DomainClass, IdleBaseline, IdleOrigin, Origin, Scope};
use energy_trace_model::units::{MicroJoules, MicroWatts};

/// A package: its shared parts and graphics, and each logical CPU (one core of 60 W has two); no socket of
/// today draws the last (its limit is 0.5 kW).
const PACKAGE: MicroWatts = MicroWatts::from_uw(100_000_000);
const EACH_CPU: MicroWatts = MicroWatts::from_uw(50_000_000);
const ANY_PACKAGE: MicroWatts = MicroWatts::from_uw(2_000_000_000);
/// The memory of a socket (24 DIMMs of 20 W), a core, and a GPU (a module of two dies: 2.7 kW).
const DRAM: MicroWatts = MicroWatts::from_uw(500_000_000);
const CORE: MicroWatts = MicroWatts::from_uw(150_000_000);
const GPU: MicroWatts = MicroWatts::from_uw(4_000_000_000);
/// Of the machine's own limit, in tenths: for a second or more, and for a moment.
const LASTING: u64 = 15;
const MOMENT: u64 = 30;

/// A counter of CPUs or memory moves each millisecond, other meters each second; what is slower by itself is
/// seen (`believed`). GPUs step each 100 ms.
const STILL_NS: u64 = 500_000_000;
const STILL_GPU_NS: u64 = 2_000_000_000;
/// A counter that moves each millisecond, and has never moved for so long, does not count.
const NEVER_FAST_NS: u64 = 50_000_000;

/// What can be said of a counter before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Physics {
    /// The counter returns to zero after this value.
    pub max_range: Option<MicroJoules>,
    /// It steps so seldom that readings which repeat a value belong to the step after them.
    pub slow: bool,
    /// How much older the energy of a step may be than the reading before it.
    pub step_ns: u64,
    /// The most power for a moment.
    pub moment: MicroWatts,
    /// The most power for a second or more.
    pub lasting: MicroWatts,
    /// Power at rest, where it was measured at rest.
    pub idle: Option<MicroWatts>,
    /// How long it may stand still, if it is not slower by itself.
    pub still_ns: u64,
    /// How long it may have one value from the first reading on.
    pub never_ns: u64,
}

impl Physics {
    /// Of a domain with so many CPUs (0: not known), whose driver sets this limit.
    pub fn of(domain: &Domain, cpus: usize, limit: Option<MicroWatts>) -> Self {
        let Origin::Counter { source, max_range, .. } = &domain.origin else { return Self::of_gpu() };
        let traits = source.traits();
        let most = match domain.class {
            _ if !traits.known_hardware => POWER_CEILING,
            DomainClass::Package => most_of_package(cpus),
            DomainClass::Dram => DRAM,
            DomainClass::Core => CORE,
            DomainClass::Gpu => GPU,
            DomainClass::Psys => POWER_CEILING,
        };
        let by_limit = |tenths: u64| {
            let limited = limit.map(|limit| MicroWatts::from_uw(limit.as_uw().saturating_mul(tenths) / 10));
            limited.map_or(most, |limited| limited.min(most))
        };
        let is_gpu = matches!(domain.scope, Scope::Gpu(_));
        let steps_seldom = is_gpu || traits.steps_seldom;
        let still_ns = match domain.class {
            // A core may rest for as long as it likes.
            DomainClass::Core => u64::MAX,
            _ if is_gpu => STILL_GPU_NS,
            _ => STILL_NS,
        };
        Self {
            max_range: *max_range,
            slow: steps_seldom,
            step_ns: STEP_NS,
            moment: by_limit(MOMENT),
            lasting: by_limit(LASTING),
            idle: idle_of(domain).filter(|_| !is_gpu),
            still_ns,
            never_ns: if traits.moves_each_millisecond && domain.class == DomainClass::Package {
                NEVER_FAST_NS
            } else {
                still_ns
            },
        }
    }

    /// The same of a power that is summed up while it is read: each step is the energy of its own time.
    #[must_use]
    pub const fn summed(self) -> Self {
        Self { step_ns: 0, ..self }
    }

    /// The most energy that can be shown between two readings so far apart.
    pub(super) fn most_over(&self, ns: u64) -> MicroJoules {
        self.moment.over_ns(ns.saturating_add(self.step_ns))
    }

    /// Of a GPU of which nothing is known.
    pub const fn of_gpu() -> Self {
        Self {
            max_range: None,
            slow: true,
            step_ns: STEP_NS,
            moment: GPU,
            lasting: GPU,
            idle: None,
            still_ns: STILL_GPU_NS,
            never_ns: STILL_GPU_NS,
        }
    }
}

fn most_of_package(cpus: usize) -> MicroWatts {
    let by_cpus = EACH_CPU.as_uw().saturating_mul(cpus as u64).saturating_add(PACKAGE.as_uw());
    if cpus == 0 { ANY_PACKAGE } else { MicroWatts::from_uw(by_cpus).min(ANY_PACKAGE) }
}

/// Power that was measured while the CPUs were at rest.
fn idle_of(domain: &Domain) -> Option<MicroWatts> {
    let IdleBaseline { power, origin } = domain.idle.as_ref()?;
    let at_rest = matches!(origin, IdleOrigin::Measured { .. }) && origin.too_busy().is_none();
    at_rest.then_some(*power)
}

#[cfg(test)]
mod tests {
    use super::{Domain, DomainClass, IdleBaseline, IdleOrigin, MicroWatts, Origin, Physics, Scope};
    use energy_trace_model::ids::{DomainId, SocketId};

    fn domain(class: DomainClass, source: &str) -> Domain {
        let scope = if class == DomainClass::Gpu { Scope::Gpu(0) } else { Scope::Socket(SocketId::new(0)) };
        let origin = Origin::measured(source, String::new(), None);
        Domain { id: DomainId::new(0), name: String::new(), class, scope, origin, idle: None }
    }

    fn watts(watts: f64) -> MicroWatts {
        MicroWatts::from_watts(watts).unwrap()
    }

    /// A package may draw more the more CPUs it has; what the machine says of itself is tighter, and never
    /// wider.
    #[test]
    fn the_most_power() {
        let of = |class, source, cpus, limit| {
            let physics = Physics::of(&domain(class, source), cpus, limit);
            (physics.moment, physics.lasting)
        };
        let package = |cpus, limit| of(DomainClass::Package, "powercap", cpus, limit);
        assert_eq!(package(2, None), (watts(200.0), watts(200.0)));
        assert_eq!(package(512, None), (watts(2_000.0), watts(2_000.0)));
        assert_eq!(package(0, None), package(512, None));
        assert_eq!(package(16, Some(watts(125.0))), (watts(375.0), watts(187.5)));
        assert_eq!(package(2, Some(watts(4_095.0))), package(2, None));
        assert_eq!(of(DomainClass::Gpu, "nvml", 0, Some(watts(700.0))), (watts(2_100.0), watts(1_050.0)));
        assert_eq!(of(DomainClass::Package, "replay", 2, None), (watts(10_000.0), watts(10_000.0)));
    }

    /// Idle power counts where it was measured on CPUs at rest; a GPU's may have been that of clocks that
    /// were still up.
    #[test]
    fn power_at_rest() {
        let idle = |class, origin| {
            let power = watts(20.0);
            let idle = Some(IdleBaseline { power, origin });
            Physics::of(&Domain { idle, ..domain(class, "powercap") }, 4, None).idle
        };
        let measured = |busy| IdleOrigin::Measured { over_ns: 1_000_000_000, busy_percent: Some(busy) };
        assert_eq!(idle(DomainClass::Package, measured(3)), Some(watts(20.0)));
        assert_eq!(idle(DomainClass::Package, measured(30)), None);
        assert_eq!(idle(DomainClass::Package, IdleOrigin::Given), None);
        assert_eq!(idle(DomainClass::Gpu, measured(3)), None);
    }

    /// RAPL moves each millisecond, a GPU's counter seldom, and a core may rest.
    #[test]
    fn standing_still() {
        let of = |class, source| {
            let physics = Physics::of(&domain(class, source), 4, None);
            (physics.still_ns, physics.never_ns, physics.slow)
        };
        assert_eq!(of(DomainClass::Package, "perf"), (500_000_000, 50_000_000, false));
        assert_eq!(of(DomainClass::Package, "hwmon"), (500_000_000, 500_000_000, false));
        assert_eq!(of(DomainClass::Gpu, "amdgpu"), (2_000_000_000, 2_000_000_000, true));
        assert_eq!(of(DomainClass::Package, "hwmon-power"), (500_000_000, 500_000_000, true));
        assert!(!of(DomainClass::Package, "replay").2);
        assert_eq!(of(DomainClass::Core, "perf").0, u64::MAX);
    }
}
