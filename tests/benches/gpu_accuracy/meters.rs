//! Meters of the benchmark: the simulated GPU's models on a virtual clock. Leaves out NVML.

use energy_trace_scenarios::gpu::world::{MS, MeterModel};
use energy_trace_tests::gpu::Meter;

/// One meter of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metered {
    /// What the table says.
    pub(crate) name: &'static str,
    pub(crate) meter: MeterModel,
    /// Watts of another instance of the same board, half of the time; 0: there is none.
    pub(crate) neighbour: f64,
    /// Whether it is tried in the worlds of other makers as well.
    pub(crate) everywhere: bool,
}

/// The simulated GPU's model; `whole`: its sensor looks all the time.
fn model(name: &'static str, whole: bool) -> Option<MeterModel> {
    let meter = Meter::model(name)?;
    let looked = if whole { meter.tick_ms } else { meter.window_ms };
    let poll = if meter.tick_ms < 50 { 10 * MS } else { 20 * MS };
    Some(MeterModel {
        name,
        tick: u64::from(meter.tick_ms) * MS,
        lag: u64::from(meter.lag_ms) * MS,
        duty: f64::from(looked) / f64::from(meter.tick_ms),
        noise: 0.005,
        poll,
        averaged: if meter.counter { 0 } else { u64::from(meter.average_ms) * MS },
    })
}

/// All of them. How much of each step the energy counter's sensor looks at is known of the power reading only (Yang et al., SC '24), so
/// boards stand here with both.
pub(crate) fn all() -> Vec<Metered> {
    let metered = |(name, of, whole, neighbour): (&'static str, &'static str, bool, f64)| {
        let everywhere = matches!((of, whole), ("V100", true) | ("A100" | "AVERAGED", false));
        Some(Metered { name, meter: model(of, whole)?, neighbour, everywhere })
    };
    let rows = [
        ("V100, 20 ms", "V100", true, 0.0),
        ("V100, 10 of 20 ms", "V100", false, 0.0),
        ("A100, 100 ms", "A100", true, 0.0),
        ("A100, 25 of 100 ms", "A100", false, 0.0),
        ("H100, 100 ms", "H100", true, 0.0),
        ("H100, 25 of 100 ms", "H100", false, 0.0),
        ("MIG, neighbour idle", "MIG", true, 0.0),
        ("MIG, neighbour at work", "MIG", true, 120.0),
        ("averaged power only", "AVERAGED", false, 0.0),
    ];
    rows.into_iter().filter_map(metered).collect()
}
