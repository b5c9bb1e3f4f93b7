//! Where the time of one sample ends and that of the next one begins.
//!
//! Half-way between them would give a short function that always runs before a sleep too little: on one side of
//! it nothing is nearer. What samples stand for (`sample_distances`) is right on average, and the whole time of a
//! thread is known exactly. So each owner has a weight, by which it draws the borders with others to itself or
//! away, such that all owners of a thread have their parts of its time by what their samples stand for.
//!
//! Leaves out which moments are a thread's (`slices`) and for whom it works (`delegation`).

use super::inter_sample::SamplePoint;
use super::owners::OwnerId;
use super::sample_distances::SampleDistances;
use super::tracks::Track;
use crate::numerics::parallel::map;

/// So often weights are corrected by what came of them; most are right after two or three.
const ROUNDS: usize = 8;
/// Fewer samples of a track do not show what is wrong half-way.
const FEWEST_SAMPLES: usize = 5;
/// A track of which less than this part is wrong half-way keeps its borders there.
const LEAST_WRONG: f64 = 1e-3;
/// No border is further from the middle than these weights put it: an owner has something next to each sample.
const WEIGHTS: (f64, f64) = (0.1, 10.0);

/// How much each owner draws borders to itself; what is not there draws as much as all: 1.
#[derive(Clone, Debug, Default)]
pub struct Borders {
    weights: Vec<f64>,
    distances: SampleDistances,
}

impl Borders {
    /// From all tracks.
    pub(super) fn of(tracks: &[Track]) -> Self {
        let distances = SampleDistances::of(tracks);
        let samples: usize = tracks.iter().map(|track| track.points.len()).sum();
        let found = map(tracks, samples, |track| of_track(track, &distances));
        let mut borders = Self { weights: vec![], distances };
        found.into_iter().flatten().for_each(|(owner, weight)| borders.set(owner, weight));
        borders
    }

    /// Those of one more track: a part of another one, whose owners were made of that one's and are in no other.
    pub fn add(&mut self, track: &Track) {
        let found = of_track(track, &self.distances);
        found.into_iter().for_each(|(owner, weight)| self.set(owner, weight));
    }

    fn set(&mut self, owner: usize, weight: f64) {
        self.weights.resize(self.weights.len().max(owner + 1), 1.0);
        self.weights[owner] = weight;
    }

    /// An owner that was made of another one draws as it does.
    pub fn copy(&mut self, to: OwnerId, from: OwnerId) {
        let weight = self.weight(from);
        if weight != 1.0 {
            self.set(to as usize, weight);
        }
    }

    fn weight(&self, owner: OwnerId) -> f64 {
        self.weights.get(owner as usize).copied().unwrap_or(1.0)
    }

    /// The part of the way from one sample to the next that is the first one's.
    fn part(&self, left: OwnerId, right: OwnerId) -> f64 {
        part(self.weight(left), self.weight(right))
    }

    /// A track's CPU time where that of a sample ends and that of the next one begins, in nanoseconds.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time"
    )]
    pub fn between(&self, left: &SamplePoint, right: &SamplePoint) -> u64 {
        let way = right.cpu_ns.saturating_sub(left.cpu_ns);
        left.cpu_ns.saturating_add((way as f64 * self.part(left.owner, right.owner)) as u64)
    }
}

/// The same, by their weights.
fn part(left: f64, right: f64) -> f64 {
    left / (left + right)
}

/// A track whose owners' weights are looked for. Owners are counted from the first; their numbers may be far apart.
struct Fit<'a> {
    track: &'a Track,
    first: usize,
    owners: Vec<usize>,
    /// Nanoseconds of the track, and by owner what its samples stand for.
    whole: f64,
    due: Vec<f64>,
}

/// Weights with which each owner of a track has what its samples stand for.
fn of_track(track: &Track, distances: &SampleDistances) -> Vec<(usize, f64)> {
    let owners = || track.points.iter().map(|point| point.owner as usize);
    let range = owners().min().zip(owners().max()).filter(|_| track.points.len() >= FEWEST_SAMPLES);
    let Some((first, last)) = range else { return vec![] };
    let (mut weights, mut due) = (vec![0.0; last - first + 1], vec![0.0; last - first + 1]);
    let mut here = vec![];
    for (owner, ns) in owners().map(|owner| owner - first).zip(distances.weights(track)) {
        if weights[owner] == 0.0 {
            weights[owner] = 1.0;
            here.push(owner);
        }
        due[owner] += ns;
    }
    let whole = whole_ns(track);
    let scale = whole / here.iter().map(|&owner| due[owner]).sum::<f64>().max(f64::MIN_POSITIVE);
    here.iter().for_each(|&owner| due[owner] *= scale);
    let fit = Fit { track, first, owners: here, whole, due };
    fit.correct(&mut weights);
    fit.owners.into_iter().map(|owner| (first + owner, weights[owner])).collect()
}

impl Fit<'_> {
    /// Corrects weights until owners have their time.
    fn correct(&self, weights: &mut [f64]) {
        let mut found = vec![0.0; weights.len()];
        for round in 0..ROUNDS {
            self.owners.iter().for_each(|&owner| found[owner] = 0.0);
            self.add_times(weights, &mut found);
            let wrong: f64 = self.owners.iter().map(|&owner| (found[owner] - self.due[owner]).abs()).sum();
            if round == 0 && wrong < LEAST_WRONG * self.whole {
                break;
            }
            for &owner in self.owners.iter().filter(|owner| found[**owner] > 0.0) {
                let weight = weights[owner] * self.due[owner] / found[owner];
                weights[owner] = weight.clamp(WEIGHTS.0, WEIGHTS.1);
            }
        }
    }

    /// Adds nanoseconds of each owner with these weights.
    #[expect(clippy::cast_precision_loss, reason = "times")]
    fn add_times(&self, weights: &[f64], times: &mut [f64]) {
        let at = |point: &SamplePoint| point.owner as usize - self.first;
        let points = &self.track.points;
        points.first().into_iter().zip(points.last()).for_each(|(one, last)| {
            times[at(one)] += one.cpu_ns as f64;
            times[at(last)] += self.whole - last.cpu_ns as f64;
        });
        for pair in points.windows(2) {
            let (left, right) = (at(&pair[0]), at(&pair[1]));
            let way = pair[1].cpu_ns.saturating_sub(pair[0].cpu_ns) as f64;
            let of_left = way * part(weights[left], weights[right]);
            times[left] += of_left;
            times[right] += way - of_left;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a time")]
fn whole_ns(track: &Track) -> f64 {
    track.runs.iter().map(|run| run.span.ns()).sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::{Borders, SamplePoint, Track};
    use crate::time::inter_sample::TrackRun;
    use crate::timeline::Span;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{CpuId, ThreadKey};

    const TURNS: u64 = 2_000;

    /// Runs of 4,000 ns, each with a sample of owner 3 or 4 at these times in it; 6,000 ns asleep behind each.
    fn track(samples: &[(u64, u32)], turns: u64) -> Track {
        let at = KtimeNs::from_ns;
        let run = |turn: u64| TrackRun {
            cpu: CpuId::new(0),
            span: Span { start: at(turn * 10_000), end: at(turn * 10_000 + 4_000) },
            cpu_ns: turn * 4_000,
        };
        let point = |turn: u64, &(into, owner): &(u64, u32)| SamplePoint {
            track: 0,
            at: at(turn * 10_000 + into),
            cpu_ns: turn * 4_000 + into,
            owner,
        };
        Track {
            thread: ThreadKey::new(0),
            runs: (0..turns).map(run).collect(),
            points: (0..turns)
                .flat_map(|turn| samples.iter().map(move |sample| point(turn, sample)))
                .collect(),
            ends: vec![],
            unseen: 0,
        }
    }

    /// Ticks each 1,000: half-way the last of four has 700 next to the sleep, and 500 of what is behind it. All four
    /// stand for as much: owner 4, which is the last, draws its borders out until it has a quarter.
    #[test]
    fn what_is_last_draws_borders() {
        let samples = [(100, 3), (1_100, 3), (2_100, 3), (3_900, 4)];
        let track = track(&samples, TURNS);
        let borders = Borders::of(std::slice::from_ref(&track));
        let (before, last, next) = (&track.points[2], &track.points[3], &track.points[4]);
        let time = borders.between(last, next) - borders.between(before, last);
        let due = super::SampleDistances::of(std::slice::from_ref(&track)).weights(&track);
        let due = 4_000.0 * due[3] / due[..4].iter().sum::<f64>();
        assert!((time as f64 / due - 1.0).abs() < 0.01, "{time} instead of {due}");
        assert!(borders.part(3, 4) < 0.5 && (borders.part(3, 4) + borders.part(4, 3) - 1.0).abs() < 1e-12);
    }

    /// Who is not known draws as much as who is right half-way, and who was made of another as that one; few samples
    /// change nothing.
    #[test]
    fn owners_without_weights() {
        let samples = [(100, 3), (1_100, 3), (2_100, 3), (3_900, 4)];
        let mut borders = Borders::of(&[track(&samples, TURNS)]);
        assert_eq!(borders.part(8, 9), 0.5);
        borders.copy(9, 4);
        assert_eq!((borders.part(3, 9), borders.part(9, 4)), (borders.part(3, 4), 0.5));
        assert_eq!(Borders::of(&[track(&samples, 1)]).part(3, 4), 0.5);
        assert_eq!(Borders::of(&[]).part(3, 4), 0.5);
    }
}
