//! Samples that come in step with the program: then they show one moment of its loop, or creep through it,
//! and not what it did.
//!
//! A timer without jitter and a loop of its period meet at the same place each time; a loop of nearly its
//! period is seen like a film of a wheel that seems to stand or to turn slowly. Two signs, in a thread whose
//! samples are evenly spaced:
//!
//! * *One place*: the timer's period is a whole number of milliseconds, as those of programs often are, and
//!   all but one sample in a hundred show one and the same stack, address for address.
//! * *A pattern that comes again*: what samples show recurs after some number of them, though not after
//!   fewer, and the counter sees no difference between the functions that seemed to take turns, though they
//!   had many of its intervals each.
//!
//! The first leaves all of the thread's energy in doubt, the second how its functions share it. A program
//! that truly has equal functions in turns is flagged as well; one whose loop by chance has a timer's odd
//! period and meets it at one place is not found. Leaves out the remedy, which is another rate.

use crate::numerics::parallel::map;
use crate::time::inter_sample::SamplePoint;

/// Fewer samples of a thread prove nothing.
const FEWEST: usize = 200;
/// Distances within this part of the period are even.
const EVEN: f64 = 0.02;
/// So many of a thread's distances must be even.
const MOSTLY: f64 = 0.8;
/// So many samples in one place are all of them.
const ALL: f64 = 0.99;
/// Periods of programs are often multiples of this.
const ROUND_NS: f64 = 1e6;
/// How near to one the timer's period must be, in parts of itself, to be round.
const NEARLY: f64 = 5e-4;
/// Samples are alike again: this part of the way from chance to certainty; and unlike: below this.
const AGAIN: f64 = 0.8;
const UNLIKE: f64 = 0.3;
/// The longest pattern, and how many of the timer's turns are searched for it.
const LONGEST: usize = 2_000;
const SEARCHED: usize = 20_000;
/// Watts that differ by less than this factor are no difference.
const EQUAL: f64 = 1.25;
/// A column with this part of a thread's samples belongs to its pattern; one that has this part of its own
/// from such threads is in doubt.
const TAKES_PART: f64 = 0.05;

/// What is in doubt about a column because its samples came in step with the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Aliasing {
    /// Nothing.
    #[default]
    Free,
    /// How the functions of a recurring pattern share their energy.
    Recurs,
    /// Whether what the samples show was all that ran.
    OnePlace,
}

/// What is in doubt about each column. `points` are ordered by thread and time; `watts` are the columns',
/// where a fit found some.
#[expect(clippy::cast_precision_loss, reason = "counts")]
pub(crate) fn aliasing_of(
    points: &[SamplePoint],
    column: impl Fn(&SamplePoint) -> usize + Sync,
    columns: usize,
    watts: Option<&[f64]>,
) -> Vec<Aliasing> {
    let mut all = vec![0.0; columns];
    let mut doubted = vec![(Aliasing::Free, 0.0); columns];
    let threads: Vec<&[SamplePoint]> = points.chunk_by(|a, b| a.track == b.track).collect();
    let of_threads = map(&threads, points.len(), |of_thread| {
        let mut counts = vec![0.0; columns];
        of_thread.iter().for_each(|point| counts[column(point)] += 1.0);
        let step = aliasing_of_track(of_thread, &column, &counts, watts);
        // A thread is in few of all columns.
        let counts = counts.into_iter().enumerate().filter(|(_, count)| *count > 0.0);
        (step, counts.collect::<Vec<(usize, f64)>>())
    });
    for (of_thread, (step, counts)) in threads.iter().zip(of_threads) {
        let least = TAKES_PART * of_thread.len() as f64;
        for (column, count) in counts {
            all[column] += count;
            // Of a thread that shows one place, what the odd sample shows is in doubt as well.
            let takes_part = step == Aliasing::OnePlace || count >= least;
            if step != Aliasing::Free && takes_part {
                let (worst, sum) = doubted[column];
                doubted[column] = (worst.max(step), sum + count);
            }
        }
    }
    let of_column = |((step, count), all): (&(Aliasing, f64), &f64)| {
        if *count > TAKES_PART * all { *step } else { Aliasing::Free }
    };
    doubted.iter().zip(&all).map(of_column).collect()
}

fn aliasing_of_track(
    points: &[SamplePoint],
    column: &impl Fn(&SamplePoint) -> usize,
    counts: &[f64],
    watts: Option<&[f64]>,
) -> Aliasing {
    let Some(period) = even_period(points) else { return Aliasing::Free };
    let rounded = (period / ROUND_NS).round() * ROUND_NS;
    if (period - rounded).abs() <= NEARLY * period && in_one_place(points) {
        return Aliasing::OnePlace;
    }
    let sum: f64 = counts.iter().sum();
    let taking_part = (0..counts.len()).filter(|&c| counts[c] >= TAKES_PART * sum);
    // Where no powers could be told apart the counter saw no difference.
    let watts = |c: usize| watts.map_or(1.0, |watts| watts[c]);
    let (least, most, number) = taking_part.fold((f64::INFINITY, 0.0_f64, 0), |(least, most, n), c| {
        (least.min(watts(c)), most.max(watts(c)), n + 1)
    });
    if number < 2 || most > EQUAL * least || !recurs(points, period, column, counts) {
        return Aliasing::Free;
    }
    Aliasing::Recurs
}

/// The period of a timer without jitter, in nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "a time between two samples")]
fn even_period(points: &[SamplePoint]) -> Option<f64> {
    let mut apart: Vec<u64> = points.windows(2).map(|pair| pair[1].at.ns_since(pair[0].at)).collect();
    if apart.len() < FEWEST {
        return None;
    }
    let middle = apart.len() / 2;
    let period = *apart.select_nth_unstable(middle).1 as f64;
    // Some are lost, and threads sleep: what is about one period must be one.
    let single: Vec<f64> = apart.into_iter().map(|ns| ns as f64).filter(|ns| *ns < 1.5 * period).collect();
    let even = single.iter().filter(|ns| (**ns - period).abs() <= EVEN * period);
    let even: Vec<f64> = even.copied().collect();
    (period > 0.0 && even.len() as f64 >= MOSTLY * single.len() as f64)
        .then(|| even.iter().sum::<f64>() / even.len() as f64)
}

#[expect(clippy::cast_precision_loss, reason = "counts")]
fn in_one_place(points: &[SamplePoint]) -> bool {
    let mut owners: Vec<u32> = points.iter().map(|point| point.owner).collect();
    owners.sort_unstable();
    let most = owners.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
    most as f64 >= ALL * points.len() as f64
}

/// Whether samples are unlike those some turns of the timer before, and alike again those more turns before.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "turns of a timer"
)]
fn recurs(
    points: &[SamplePoint],
    period: f64,
    column: &impl Fn(&SamplePoint) -> usize,
    counts: &[f64],
) -> bool {
    let Some(first) = points.first() else { return false };
    let turn = |point: &SamplePoint| (point.at.ns_since(first.at) as f64 / period).round() as usize;
    let mut seen: Vec<Option<usize>> = vec![];
    for point in points {
        let turn = turn(point);
        if turn >= SEARCHED {
            break;
        }
        seen.resize(turn.max(seen.len().saturating_sub(1)) + 1, None);
        seen[turn] = Some(column(point));
    }
    let sum: f64 = counts.iter().sum();
    let chance: f64 = counts.iter().map(|count| (count / sum).powi(2)).sum();
    let alike = |lag: usize| {
        let pairs =
            seen.iter().zip(seen.iter().skip(lag)).filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)));
        let (same, all) =
            pairs.fold((0_u32, 0_u32), |(same, all), (a, b)| (same + u32::from(a == b), all + 1));
        (all as usize >= FEWEST / 2).then(|| (f64::from(same) / f64::from(all) - chance) / (1.0 - chance))
    };
    let mut unlike = false;
    for lag in 1..=LONGEST.min(seen.len() / 4) {
        let Some(alike) = alike(lag) else { continue };
        unlike |= alike < UNLIKE;
        if unlike && alike > AGAIN {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Aliasing, SamplePoint, aliasing_of};
    use energy_trace_model::clock::KtimeNs;

    /// Samples each `period_ns`, perhaps later by up to `late_ns`, of what `owner` says ran at that moment.
    fn points(period_ns: u64, late_ns: u64, owner: impl Fn(u64) -> u32) -> Vec<SamplePoint> {
        let mixed = |i: u64| (i ^ (i << 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let late = |i: u64| (mixed(i) ^ (mixed(i) >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) % (late_ns + 1);
        let at = |i: u64| i * period_ns + late(i);
        let point =
            |i| SamplePoint { track: 0, at: KtimeNs::from_ns(at(i)), cpu_ns: at(i), owner: owner(at(i)) };
        (0..2_000).map(point).collect()
    }

    /// A loop of 10 ms: the first 3 ms in 0, then 3 ms in 1, 4 ms in 2.
    const fn looping(at: u64) -> u32 {
        match at % 10_000_000 {
            0..3_000_000 => 0,
            3_000_000..6_000_000 => 1,
            _ => 2,
        }
    }

    fn aliasing(points: &[SamplePoint], watts: [f64; 3]) -> Vec<Aliasing> {
        aliasing_of(points, |point| point.owner as usize, 3, Some(&watts))
    }

    /// A round timer that always meets one place is in step; one of an odd period, or with jitter, is not.
    #[test]
    fn one_place() {
        let same = [10.0; 3];
        assert_eq!(
            aliasing(&points(10_000_000, 0, looping), same),
            [Aliasing::OnePlace, Aliasing::Free, Aliasing::Free]
        );
        assert_eq!(aliasing(&points(10_101_010, 0, |_| 0), same), [Aliasing::Free; 3]);
        assert_eq!(aliasing(&points(10_000_000, 3_000_000, |_| 0), same), [Aliasing::Free; 3]);
    }

    /// A loop of nearly the timer's period recurs, unless the counter sees a difference; with jitter nothing
    /// recurs.
    #[test]
    fn creeping_through_a_loop() {
        let creeping = points(10_101_010, 0, looping);
        assert_eq!(aliasing(&creeping, [10.0, 10.5, 9.8]), [Aliasing::Recurs; 3]);
        assert_eq!(aliasing(&creeping, [16.0, 2.0, 6.0]), [Aliasing::Free; 3]);
        assert_eq!(aliasing(&points(10_101_010, 3_000_000, looping), [10.0; 3]), [Aliasing::Free; 3]);
    }
}
