//! Samples of a track: all, or each second one, which show what fewer samples would.

use crate::time::inter_sample::SamplePoint;

/// Samples of a track in their order: all, or each second one.
#[derive(Clone, Copy)]
pub(crate) struct EveryNth<'a> {
    all: &'a [SamplePoint],
    step: usize,
}

impl<'a> EveryNth<'a> {
    /// Of a track whose first sample has this position among all: those at odd or at even positions, or all.
    pub(crate) fn of_track(of_track: &'a [SamplePoint], first: usize, odd: Option<bool>) -> Self {
        match odd {
            None => Self { all: of_track, step: 1 },
            Some(odd) => {
                let skipped = usize::from((first % 2 == 1) != odd);
                Self { all: of_track.get(skipped..).unwrap_or_default(), step: 2 }
            }
        }
    }

    pub(crate) const fn len(self) -> usize {
        self.all.len().div_ceil(self.step)
    }

    pub(crate) fn at(self, number: usize) -> &'a SamplePoint {
        &self.all[number * self.step]
    }

    pub(crate) fn last(self) -> Option<&'a SamplePoint> {
        self.all.get(self.len().checked_sub(1)? * self.step)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = &'a SamplePoint> {
        self.all.iter().step_by(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::{EveryNth, SamplePoint};
    use energy_trace_model::clock::KtimeNs;

    /// Each second sample of a track, as those at odd positions among all samples are, and those at even
    /// ones.
    #[test]
    fn halves_of_lines() {
        let point = |owner| SamplePoint { track: 3, at: KtimeNs::default(), cpu_ns: 0, owner };
        let points: Vec<SamplePoint> = (0..5).map(point).collect();
        let owners = |first, odd| {
            let points = EveryNth::of_track(&points, first, odd);
            assert_eq!(points.last().map(|last| last.owner), points.iter().last().map(|last| last.owner));
            assert_eq!(points.len(), points.iter().count());
            points.iter().map(|point| point.owner).collect::<Vec<_>>()
        };
        assert_eq!(owners(8, Some(true)), [1, 3]);
        assert_eq!(owners(8, Some(false)), [0, 2, 4]);
        assert_eq!(owners(7, Some(true)), [0, 2, 4]);
        assert_eq!(owners(7, None), [0, 1, 2, 3, 4]);
        assert!(EveryNth::of_track(&points[..0], 0, Some(true)).last().is_none());
    }
}
