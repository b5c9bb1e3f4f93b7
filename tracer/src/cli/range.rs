//! `--from` and `--to`: a part of the run, by seconds since its start or in percent of it.
//!
//! Leaves out how energy comes into that part (`energy-trace-attribution`).

use super::failure::Failure;
use clap::Args;
use energy_trace_model::profile::over_time::Bins;
use std::ops::Range;
use std::time::Duration;

/// What the user chose.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct RangeArgs {
    /// Show only what was used from this moment of the run on: seconds since its start, 500ms, 1m30s, or 10%
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub from: Option<Moment>,

    /// Show only what was used up to this moment of the run
    #[arg(long, value_name = "TIME", value_parser = parse)]
    pub to: Option<Moment>,
}

/// A moment of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Moment {
    /// So long after its start.
    After(Duration),
    /// After this part of it.
    Part(f64),
}

impl Moment {
    /// Nanoseconds since the start of a run of this length.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a u64")]
    fn ns_in(self, length_ns: u64) -> u64 {
        match self {
            Self::After(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Self::Part(part) => (length_ns as f64 * part).round() as u64,
        }
    }
}

impl RangeArgs {
    /// Whether a part was chosen.
    pub(super) const fn is_part(self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// The bins of the chosen part, or all of them; also of a recording that was cut off before it had any time.
    pub(super) fn bins_or_all(self, bins: &Bins) -> Result<Range<u32>, Failure> {
        if self.is_part() { self.bins(bins) } else { Ok(0..bins.count()) }
    }

    /// The bins of the chosen part.
    pub(super) fn bins(self, bins: &Bins) -> Result<Range<u32>, Failure> {
        let length = bins.length_ns();
        let from = self.from.map_or(0, |from| from.ns_in(length));
        let to = self.to.map_or(length, |to| to.ns_in(length));
        let seconds = |ns: u64| Duration::from_nanos(ns).as_secs_f64();
        if from >= length && length > 0 {
            let text = format!(
                "--from {} s is behind the end of the run, which took {:.3} s",
                seconds(from),
                seconds(length)
            );
            return Err(Failure::usage(text));
        }
        if to <= from {
            let text = format!("--to {} s is not after --from {} s", seconds(to), seconds(from));
            return Err(Failure::usage(text));
        }
        Ok(bins.touched(from, to))
    }
}

fn parse(text: &str) -> Result<Moment, String> {
    const HELP: &str = "write it as 1.5 (seconds), 500ms, 1m30s or 10%";
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        return percent.map(|percent| Moment::Part(percent / 100.0)).ok_or_else(|| HELP.into());
    }
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = seconds.or_else(|| humantime::parse_duration(text).ok());
    time.map(Moment::After).ok_or_else(|| HELP.into())
}

#[cfg(test)]
mod tests {
    use super::{Bins, Moment, RangeArgs, parse};
    use energy_trace_model::clock::KtimeNs;
    use std::time::Duration;

    /// Moments are seconds, times with a unit, or percents; nothing else.
    #[test]
    fn moments() {
        assert_eq!(parse("1.5"), Ok(Moment::After(Duration::from_millis(1500))));
        assert_eq!(parse("500ms"), Ok(Moment::After(Duration::from_millis(500))));
        assert_eq!(parse("10%"), Ok(Moment::Part(0.1)));
        for wrong in ["", "-1", "101%", "-1%", "nan", "NaN%", "inf", "soon", "%"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    /// A recording without any time has nothing to choose from, and is all there.
    #[test]
    fn no_time() {
        let bins = Bins::over(KtimeNs::from_ns(7), KtimeNs::from_ns(7));
        assert!(RangeArgs::default().bins(&bins).is_err());
        assert_eq!(RangeArgs::default().bins_or_all(&bins).unwrap(), 0..bins.count());
    }

    /// A part has all bins that it touches; one that is empty or behind the end is refused.
    #[test]
    fn parts_of_a_run() {
        let bins = Bins::over(KtimeNs::from_ns(0), KtimeNs::from_ns(1_000_000_000));
        let part = |from: &str, to: &str| {
            let moment = |text: &str| (!text.is_empty()).then(|| parse(text).unwrap());
            RangeArgs { from: moment(from), to: moment(to) }.bins(&bins)
        };
        assert_eq!(part("10%", "0.5").unwrap(), 5..25);
        assert_eq!(part("", "").unwrap(), 0..50);
        assert_eq!(part("0.99", "2h").unwrap(), 49..50);
        assert!(part("1", "").unwrap_err().is_usage());
        assert!(part("50%", "0.5").unwrap_err().is_usage());
    }
}
