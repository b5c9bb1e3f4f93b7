//! Worlds of three functions on four CPUs, as the tests of this room use them: the virtual world of the benchmarks (`scenarios/cpu`), made small.

use energy_trace_model::recording::Recording;
use energy_trace_scenarios::cpu::engine::{Counter, Sampler, Stretch, Who, World};
use energy_trace_scenarios::cpu::recording as recordings;

/// Watts of the three functions, by number.
pub(crate) const FUNCTIONS: [f64; 3] = [5.0, 15.0, 40.0];
const IDLE_WATTS: f64 = 20.0;

/// A CPU in a function of a thread, or (`None`) in the one background process, with so many watts.
pub(crate) fn stretch(
    cpu: u32,
    from: u64,
    to: u64,
    thread: u32,
    function: Option<usize>,
    watts: f64,
) -> Stretch {
    let who =
        function.map_or(Who::Background { key: 0, watts: 0 }, |function| Who::Target { thread, function });
    Stretch { cpu, from, to, who, watts: Some(watts) }
}

/// A world sampled at so many hertz. On two sockets CPU n is on socket n % 2.
pub(crate) fn world(stretches: Vec<Stretch>, length: u64, sockets: u32, hz: u64) -> World {
    World {
        stretches,
        length,
        socket_of: (0..4).map(|cpu| cpu % sockets).collect(),
        watts: FUNCTIONS.into(),
        process_of: vec![0, 0],
        idle_watts: IDLE_WATTS,
        uncore_watts: 0.0,
        smt: None,
        cores_known: false,
        swing: None,
        counter: Counter::default(),
        sampler: Sampler { hz, jitter: 0.3, lost_percent: 0 },
        asks: None,
    }
}

/// What is recorded of a world.
pub(crate) fn recording(world: &World, seed: u64) -> Recording {
    let mut recording = recordings::of(world);
    world.observe(&mut recording, &world.integrate(&[]).1, seed);
    recording
}

/// Exact joules of each function.
pub(crate) fn truth(world: &World) -> Vec<f64> {
    world.integrate(&[]).0.functions
}
