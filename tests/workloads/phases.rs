//! The native workload of the closed loop: three functions of 5, 15 and 40 W in turn, pure CPU work, declared to the power simulator.
//!
//! `phases SECONDS [PHASE_MS]`. Without `POWER_SIM_SOCKET` in the environment it does the same work and declares nothing.

use energy_trace_tests::declare::Declaration;
use energy_trace_tests::work;
use std::io;
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().map_or(Ok(10.0), |s| s.parse())?;
    let phase = Duration::from_millis(arguments.next().map_or(Ok(300), |s| s.parse())?);
    let mut declaration = Declaration::connect()?;
    for (name, watts) in [("five_watts", 5.0), ("fifteen_watts", 15.0), ("forty_watts", 40.0)] {
        declaration.as_mut().map_or(Ok(()), |d| d.function(name, watts))?;
    }
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        for function in [five_watts, fifteen_watts, forty_watts] {
            function(&mut declaration, phase)?;
        }
    }
    Ok(())
}

#[inline(never)]
fn five_watts(declaration: &mut Option<Declaration>, phase: Duration) -> io::Result<()> {
    work::run("five_watts", declaration, phase)
}

#[inline(never)]
fn fifteen_watts(declaration: &mut Option<Declaration>, phase: Duration) -> io::Result<()> {
    work::run("fifteen_watts", declaration, phase)
}

#[inline(never)]
fn forty_watts(declaration: &mut Option<Declaration>, phase: Duration) -> io::Result<()> {
    work::run("forty_watts", declaration, phase)
}
