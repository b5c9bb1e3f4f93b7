//! `bench cost --together`: builds record one process at the same time, so that what a sample costs differs by the builds alone.
//!
//! One after the other their means differ by up to 40 % between runs of one build, as the machine does. Each build is sampled beside the others,
//! whose samples push its data out of the caches: all cost more than alone. Leaves out how a sampler's time is read (`probe_stats`).

use super::intervals::Reading;
use super::probe_stats::Sampler;
use super::workloads::Workload;
use super::{Options, RATES, Running, settle, start};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Windows of a round.
const WINDOWS: u32 = 24;
/// What a run costs that takes no sample, with the kernel's bookkeeping (`bench cost` measures it).
const STRANGER_NS: u64 = 130;

/// Prints a line for each rate and build.
pub(super) fn compare(
    binaries: &[PathBuf],
    workload: &Workload,
    options: &Options,
    folder: &Path,
) -> Result<()> {
    for hz in RATES {
        let windows = measure(binaries, workload, hz, options, folder)?;
        for (at, binary) in binaries.iter().enumerate() {
            let of = |value: fn(f64, f64) -> f64| {
                let mut values: Vec<f64> = windows.iter().map(|w| value(w[at], w[0])).collect();
                values.sort_by(f64::total_cmp);
                [1, 2, 3].map(|quarter| values.get(values.len() * quarter / 4).copied().unwrap_or(f64::NAN))
            };
            let ([_, ns, _], [low, ratio, high]) = (of(|own, _| own), of(|own, first| own / first));
            let (name, build) = (&workload.name, binary.display());
            println!(
                "{name:<28} {hz:>4} Hz {ns:>7.0} ns a sample, {ratio:.3} ({low:.3} to {high:.3})  {build}"
            );
        }
    }
    Ok(())
}

/// Mean nanoseconds a sample of each build, in each window.
fn measure(
    binaries: &[PathBuf],
    workload: &Workload,
    hz: u32,
    options: &Options,
    folder: &Path,
) -> Result<Vec<Vec<f64>>> {
    let mut target = Running(workload.start()?);
    sleep(Duration::from_secs_f64(workload.warm_up));
    let recording = |at: usize| folder.join(format!("together-{at}.data"));
    let tracers =
        (0..).zip(binaries).map(|(at, binary)| start(binary, target.0.id(), hz, &recording(at)).map(Running));
    let mut tracers = tracers.collect::<Result<Vec<_>>>()?;
    let samplers = tracers.iter().map(|tracer| settle(tracer.0.id())).collect::<Result<Vec<_>>>();
    let samplers = samplers.with_context(|| format!("{} at {hz} Hz", workload.name))?;
    let read = || samplers.iter().map(Sampler::read).collect::<Result<Vec<Reading>>>();
    let (mut windows, mut before) = (Vec::new(), read()?);
    for _ in 0..WINDOWS * options.rounds.max(1) {
        sleep(Duration::from_secs_f64(options.seconds));
        let now = read()?;
        let means = now.iter().zip(&before).map(|(now, before)| now.since(*before).mean_less(STRANGER_NS));
        windows.push(means.map(|ns| ns as f64).collect());
        before = now;
    }
    drop(samplers);
    target.0.kill()?;
    tracers.iter_mut().try_for_each(|tracer| tracer.0.wait().map(drop))?; // They end when their target does.
    Ok(windows)
}
