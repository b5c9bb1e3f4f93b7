//! Times of functions that agree with the number of their samples.
//!
//! The chain between two samples (`markov_bridge`) knows one rate and one mix. A program has an order: one function may always be the last before
//! its thread sleeps, another one always short and between the same two. Then the chain's times are wrong on average, by a third for the
//! last function of slices as short as the timer's period. The number of samples is not: each stands for one period, wherever it falls, so
//! that a function has the part n / N of its line's time, give or take √(n (1 − n / N)) periods.
//!
//! Where the chain's sum for a function is further from that than two such deviations, probabilities lean towards what lacks time:
//!
//! ```text
//! p'_i = p_i r_i / Σ p_j r_j,      r so that Σ_parts t p'_i is at the nearest end of n_i / N ± 2 √(n_i (1 − n_i / N)) / N
//! ```
//!
//! This is raking to known margins (Deming, Stephan: On a least squares adjustment of a sampled frequency table, 1940). Where the chain fits the
//! program it knows times better than counts do, and nothing leans. Leaves out samples that come in step with the program (`aliasing`).

use crate::between_samples::expected_time::share;
use crate::between_samples::markov_bridge::{Part, Rate};
use crate::between_samples::switching_chain::Chains;
use crate::time::pieces::{Mark, NO_LINE};

/// Deviations of a count that the chain's times may be off.
const REACH: f64 = 2.0;
/// Fewer samples of a line tell nothing that is worth leaning to.
const FEWEST: f64 = 50.0;
const ROUNDS: usize = 6;
/// Times that differ by less than this part do not differ.
const NOTHING: f64 = 1e-3;
/// No probability leans by more than this factor.
const MOST: f64 = 20.0;

/// Makes functions more or less probable than the chain makes them, where their samples say so; whether any is.
pub(crate) fn rake(
    marks: &[Mark],
    parts: &[Part],
    chains: &mut Chains,
    rates: &[Rate],
    columns: usize,
    column: impl Fn(u32) -> usize,
) -> bool {
    let lines = chains.lines();
    let mut counts = vec![0.0; lines * columns];
    let mut lengths = vec![0.0; lines];
    for mark in marks {
        let line = mark.line as usize;
        counts.get_mut(line * columns + column(mark.owner)).into_iter().for_each(|count| *count += 1.0);
        #[expect(clippy::cast_precision_loss, reason = "a time")]
        lengths.get_mut(line).into_iter().for_each(|length| *length = mark.cpu_ns as f64 / 1e9);
    }
    let mut times = times_of(parts, chains, rates, columns, &column);
    let goals = goals_of(&times, &counts, &lengths, columns);
    let apart = |(time, goal): (&f64, &f64)| (time - goal).abs() > NOTHING * goal;
    if !times.iter().zip(&goals).any(apart) {
        return false;
    }
    let mut factors = vec![1.0; lines * columns];
    for _ in 0..ROUNDS {
        for ((factor, goal), time) in
            factors.iter_mut().zip(&goals).zip(&times).filter(|(_, time)| **time > 0.0)
        {
            *factor = (*factor * goal / time).clamp(1.0 / MOST, MOST);
        }
        chains.set_raking(factors.clone());
        times = times_of(parts, chains, rates, columns, &column);
    }
    true
}

/// What each function's time in each line should be: the chain's, or the nearest that its samples allow.
fn goals_of(times: &[f64], counts: &[f64], lengths: &[f64], columns: usize) -> Vec<f64> {
    let mut goals = times.to_vec();
    let lines = goals.chunks_mut(columns).zip(counts.chunks(columns)).zip(lengths);
    for ((goals, counts), length) in lines {
        let (seconds, all) = (goals.iter().sum::<f64>(), counts.iter().sum::<f64>());
        if all < FEWEST || seconds <= 0.0 {
            continue;
        }
        // Samples of the whole run; the domain may have some of the line's time only.
        let here = all * (seconds / length.max(1e-9)).min(1.0);
        for (goal, count) in goals.iter_mut().zip(counts) {
            let part = count / all;
            let reach = REACH * (part * (1.0 - part) / here).sqrt() + 1.0 / here;
            *goal = goal.clamp(seconds * (part - reach).max(0.0), seconds * (part + reach));
        }
    }
    goals
}

/// Expected seconds of each column in each line.
fn times_of(
    parts: &[Part],
    chains: &Chains,
    rates: &[Rate],
    columns: usize,
    column: &impl Fn(u32) -> usize,
) -> Vec<f64> {
    let mut times = vec![0.0; chains.lines() * columns];
    for part in parts.iter().filter(|part| part.line != NO_LINE) {
        let share = share(part, 0, chains, rates, column);
        // Time itself, whatever it weighs.
        #[expect(clippy::cast_precision_loss, reason = "a time")]
        let seconds = part.ns as f64 / 1e9;
        let first = part.line as usize * columns;
        let Some(times) = times.get_mut(first..first + columns) else { continue };
        times[share.left] += seconds * share.blend.left;
        times[share.right] += seconds * share.blend.right;
        for (time, pi) in times.iter_mut().zip(chains.drawn(part.line, part.at)) {
            *time += seconds * share.blend.mix * pi;
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::{Chains, rake, times_of};
    use crate::between_samples::markov_bridge::{Asleep, Rate, parts};
    use crate::time::background::BackgroundProcesses;
    use crate::time::conditions::Conditions;
    use crate::time::cpu_time::CpuTime;
    use crate::time::owners::Owner;
    use crate::time::slices::SampledTime;
    use crate::timeline::{EnergyInterval, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{CpuId, StackId, ThreadKey};
    use energy_trace_model::recording::record::{CpuOwner, Sample, Slice, StackStatus};
    use energy_trace_model::units::MicroJoules;

    const MS: u64 = 1_000_000;
    const SLICES: u64 = 2_000;

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    /// Slices of 10 ms, 10 ms apart: 8 ms in stack 0, then 2 ms in stack 1; samples each 4 to 6 ms.
    fn time() -> SampledTime {
        let who = CpuOwner::Target(ThreadKey::new(0));
        let slice = |i: u64| {
            let Span { start, end } = span(i * 20 * MS, (i * 20 + 10) * MS);
            Slice { cpu: CpuId::new(0), who, start, end }
        };
        let (mut samples, mut now, mut seed) = (vec![], 0, 7_u64);
        while now < SLICES * 20 * MS {
            let at = now % (20 * MS);
            if at < 10 * MS {
                samples.push(Sample {
                    at: KtimeNs::from_ns(now),
                    cpu: CpuId::new(0),
                    thread: ThreadKey::new(0),
                    stack: StackId::new(u32::from(at >= 8 * MS)),
                    status: StackStatus::Complete,
                });
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += 4 * MS + (seed >> 33) % (2 * MS);
        }
        let slices: Vec<Slice> = (0..SLICES).map(slice).collect();
        SampledTime::new(&slices, &samples, &BackgroundProcesses::default(), &[], span(0, u64::MAX))
    }

    /// A function that is always the last of short slices: the chain alone gives it another time than its samples say; leaning, it is
    /// within what these leave open, and all time is still somebody's.
    #[test]
    fn times_agree_with_counts() {
        let SampledTime { segments, owners, certain, lines, overlaps } = time();
        let mut time = CpuTime { segments, owners, pieces: certain, marks: vec![], overlaps };
        for line in lines {
            let pieces = time.add_line(line);
            time.pieces.extend(pieces.into_iter().map(|(_, piece)| piece));
        }
        let all = [EnergyInterval { span: span(0, SLICES * 20 * MS), energy: MicroJoules::ZERO }];
        let parts = parts(&all, time.pieces.iter(), &Conditions::default());
        let column = |owner: u32| {
            let of = time.owners.get(owner as usize).map(|owner| owner.owner);
            usize::from(of == Some(Owner::Target(ThreadKey::new(0), Some(StackId::new(1)))))
        };
        let mut chains = Chains::new(&time.marks, KtimeNs::default(), |mark| column(mark.owner), 2);
        // A chain that keeps what it saw last until the thread sleeps.
        let rates = [Rate { rate: 1e-12, asleep: Asleep::All }];
        let seconds = |chains: &Chains| times_of(&parts, chains, &rates, 2, &column);
        let before = seconds(&chains);
        assert!((before[1] / 4.0 - 1.0).abs() > 0.1, "{before:?}");
        assert!(rake(&time.marks, &parts, &mut chains, &rates, 2, column));
        let after = seconds(&chains);
        assert!((after[1] / 4.0 - 1.0).abs() < 0.1, "{after:?}");
        assert!((after.iter().sum::<f64>() - 20.0).abs() < 1e-6, "{after:?}");
    }
}
