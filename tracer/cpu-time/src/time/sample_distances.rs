//! How much CPU time each sample stands for.
//!
//! The sampler ticks on each CPU, whoever runs there, at random distances. So a sample stands for half of the
//! distance to the tick before it and half of that to the next one. Where the thread ran until then, that tick is
//! its own next sample. Where it left its CPU first, nobody saw the tick: all that is known is that the distance
//! was longer than what the thread still ran. Then the mean of all distances that are so long is taken, from their
//! distribution by Kaplan and Meier ("Nonparametric estimation from incomplete observations", 1958), which counts
//! the unseen ones as at least so long. So each function has the CPU time that it had, on average, whether it runs
//! next to sleeps or not, and no sample counts for more than its surroundings where these are known.
//!
//! Leaves out to whom a moment belongs (`tracks`) and that a thread's whole time is known (`borders`).

use super::tracks::Track;
use energy_trace_model::clock::KtimeNs;

/// Bins of the distribution, and how many of them a mean distance has. What is longer is in the last one.
const BINS: usize = 1_024;
const TO_MEAN: f64 = 128.0;

/// The distribution of distances between ticks, from all samples of a recording.
#[derive(Clone, Debug, Default)]
pub struct SampleDistances {
    /// Nanoseconds of a bin; 0 without samples.
    bin_ns: f64,
    /// The mean of the distances that end in each bin or behind it, in nanoseconds.
    longer: Vec<f64>,
}

/// What is known of the distance between a sample and the tick before or behind it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Distance {
    Known(f64),
    /// The thread was not on this CPU so far away.
    AtLeast(f64),
}

#[derive(Clone, Copy, Default)]
struct Bin {
    known: f64,
    sum_ns: f64,
    at_least: f64,
}

impl SampleDistances {
    /// From the samples of all tracks.
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    pub fn of(tracks: &[Track]) -> Self {
        let samples: usize = tracks.iter().map(|track| track.points.len()).sum();
        if samples == 0 {
            return Self::default();
        }
        let ran: f64 = tracks.iter().flat_map(|track| &track.runs).map(|run| run.span.ns() as f64).sum();
        let mean_ns = ran / samples as f64;
        let mut distances = Self { bin_ns: mean_ns / TO_MEAN, longer: vec![] };
        let mut bins = vec![Bin::default(); BINS];
        for track in tracks {
            each_sample(track, |sides| sides.into_iter().for_each(|side| distances.count(side, &mut bins)));
        }
        distances.longer = means_of_longer(&bins, distances.bin_ns, mean_ns);
        distances
    }

    /// Nanoseconds that each sample of a track stands for, in order.
    pub fn weights(&self, track: &Track) -> Vec<f64> {
        let mut weights = Vec::with_capacity(track.points.len());
        each_sample(track, |[before, behind]| {
            weights.push((self.expected(before) + self.expected(behind)) / 2.0);
        });
        weights
    }

    fn expected(&self, distance: Distance) -> f64 {
        match distance {
            Distance::Known(ns) => ns,
            Distance::AtLeast(ns) => self.longer.get(self.bin(ns)).map_or(ns, |longer| longer.max(ns)),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded down, and within bounds"
    )]
    fn bin(&self, ns: f64) -> usize {
        ((ns / self.bin_ns.max(f64::MIN_POSITIVE)) as usize).min(BINS - 1)
    }

    fn count(&self, distance: Distance, bins: &mut [Bin]) {
        match distance {
            Distance::Known(ns) => {
                let bin = &mut bins[self.bin(ns)];
                (bin.known, bin.sum_ns) = (bin.known + 1.0, bin.sum_ns + ns);
            }
            Distance::AtLeast(ns) => bins[self.bin(ns)].at_least += 1.0,
        }
    }
}

/// The mean of all that is as long as each bin or longer. What none is seen to be as long as has what makes the mean
/// of all distances right.
fn means_of_longer(bins: &[Bin], bin_ns: f64, mean_ns: f64) -> Vec<f64> {
    let mut at_risk: f64 = bins.iter().map(|bin| bin.known + bin.at_least).sum();
    let (mut left, mut seen_ns, mut last) = (1.0, 0.0, 0.0);
    let mut parts = Vec::with_capacity(bins.len());
    for (bin, begins) in bins.iter().zip((0..).map(|number| f64::from(number) * bin_ns)) {
        let part = if bin.known > 0.0 { left * bin.known / (at_risk - bin.at_least / 2.0) } else { 0.0 };
        let mean = if bin.known > 0.0 { bin.sum_ns / bin.known } else { 0.0 };
        at_risk -= bin.known + bin.at_least;
        (left, seen_ns) = ((left - part).max(0.0), seen_ns + part * mean);
        parts.push((part, part * mean));
        if bin.known + bin.at_least > 0.0 {
            last = begins;
        }
    }
    let unseen_ns = ((mean_ns - seen_ns) / left.max(f64::MIN_POSITIVE)).clamp(last, last + mean_ns);
    let (mut part, mut sum) = (left, left * unseen_ns);
    let mut means: Vec<f64> = parts
        .iter()
        .rev()
        .map(|(of_bin, ns)| {
            (part, sum) = (part + of_bin, sum + ns);
            if part > 0.0 { sum / part } else { 0.0 }
        })
        .collect();
    means.reverse();
    means
}

/// Calls `of` with what is known before and behind each sample.
fn each_sample(track: &Track, mut of: impl FnMut([Distance; 2])) {
    #[expect(clippy::cast_precision_loss, reason = "a time")]
    let ns = |from: KtimeNs, until: KtimeNs| until.ns_since(from) as f64;
    let mut points = track.points.iter().peekable();
    for run in &track.runs {
        let mut before = None;
        while let Some(point) = points.next_if(|point| point.at < run.span.end) {
            let next = points.peek().filter(|next| next.at < run.span.end);
            let left = before.map_or(Distance::AtLeast(ns(run.span.start, point.at)), Distance::Known);
            let right = next.map(|next| ns(point.at, next.at));
            of([left, right.map_or(Distance::AtLeast(ns(point.at, run.span.end)), Distance::Known)]);
            before = right;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Distance, SampleDistances};
    use crate::time::inter_sample::{SamplePoint, TrackRun};
    use crate::time::tracks::Track;
    use crate::timeline::Span;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{CpuId, ThreadKey};

    const fn at(ns: u64) -> KtimeNs {
        KtimeNs::from_ns(ns)
    }

    /// A thread that runs for the sum of `parts` and sleeps, again and again, ticked at these times; owners are the parts.
    fn track(ticks: impl IntoIterator<Item = u64>, parts: &[u64], sleep: u64, turns: u64) -> Track {
        let turn: u64 = parts.iter().sum();
        let run = |number: u64| TrackRun {
            cpu: CpuId::new(0),
            span: Span { start: at(number * (turn + sleep)), end: at(number * (turn + sleep) + turn) },
            cpu_ns: number * turn,
        };
        let point = |when: u64| {
            let (number, into) = (when / (turn + sleep), when % (turn + sleep));
            let ends = parts.iter().scan(0, |end, part| Some(std::mem::replace(end, *end + part) + part));
            let owner = ends.clone().take_while(|end| *end <= into).count() as u32;
            let point = SamplePoint { track: 0, at: at(when), cpu_ns: number * turn + into, owner };
            (number < turns && into < turn).then_some(point)
        };
        Track {
            thread: ThreadKey::new(0),
            runs: (0..turns).map(run).collect(),
            points: ticks.into_iter().filter_map(point).collect(),
            ends: vec![],
            unseen: 9,
        }
    }

    /// Ticks 500 to 1,500 apart, evenly.
    fn jittered(until: u64) -> impl Iterator<Item = u64> {
        let next = |(now, state): &(u64, u64)| {
            let state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some((now + 500 + (state >> 33) % 1_001, state))
        };
        std::iter::successors(Some((300, 7)), next).map(|(now, _)| now).take_while(move |now| *now < until)
    }

    /// Of a loop that sleeps each part has its time within 2 % by what samples stand for, however short it is and where:
    /// before a sleep, behind one, or as all there is between two.
    #[test]
    fn parts_next_to_sleeps_have_their_time() {
        for (parts, sleep) in
            [(vec![3_000, 500], 2_000), (vec![200, 800, 200], 700), (vec![300, 9_000, 400], 5_000)]
        {
            let (turn, turns) = (parts.iter().sum::<u64>(), 40_000);
            let track = track(jittered(turns * (turn + sleep)), &parts, sleep, turns);
            let weights = SampleDistances::of(std::slice::from_ref(&track)).weights(&track);
            let mut sums = vec![0.0; parts.len()];
            track
                .points
                .iter()
                .zip(&weights)
                .for_each(|(point, weight)| sums[point.owner as usize] += weight);
            let all = (turn * turns) as f64;
            for (sum, part) in sums.iter().zip(&parts) {
                let share = sum / all / (*part as f64 / turn as f64);
                assert!((share - 1.0).abs() < 0.02, "{parts:?} {sleep}: {part} {share}");
            }
        }
    }

    /// Where a thread runs on, a sample stands for half of the ways to its neighbours; with even ticks each other
    /// way is a whole distance, however near the sleep is.
    #[test]
    fn even_ticks() {
        let ticks = || (0..3_000).map(|number| 250 + number * 1_000);
        let track = track(ticks(), &[1_500], 1_100, 1_000);
        let distances = SampleDistances::of(std::slice::from_ref(&track));
        for weight in distances.weights(&track) {
            assert!((weight - 1_000.0).abs() < 20.0, "{weight}");
        }
        assert!((distances.expected(Distance::AtLeast(10.0)) - 1_000.0).abs() < 20.0);
        assert_eq!(distances.expected(Distance::AtLeast(70_000.0)), 70_000.0);
    }

    /// Of runs in which no two ticks ever fall all samples stand for as much. Without samples there is nothing.
    #[test]
    fn runs_shorter_than_distances() {
        let track = track(jittered(4_000_000), &[100, 300], 900, 3_000);
        let weights = SampleDistances::of(std::slice::from_ref(&track)).weights(&track);
        assert!(weights.iter().all(|weight| (weight / weights[0] - 1.0).abs() < 0.01), "{weights:?}");
        let none = Track { points: vec![], ..track };
        assert!(SampleDistances::of(std::slice::from_ref(&none)).weights(&none).is_empty());
    }
}
