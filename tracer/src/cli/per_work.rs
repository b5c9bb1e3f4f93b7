//! `--per-work NAME`: a recording's energy in the time alone in which units of this work were done.
//!
//! Leaves out how that is cut (`energy_trace_model::profile::stretches`).

use super::failure::Failure;
use super::output::read_recording;
use super::range::RangeArgs;
use energy_trace_attribution::attribute_over_time_owned;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::over_time::PartOfRun;
use energy_trace_model::profile::work::PerWork;
use energy_trace_model::profile::{Options, Profile};
use energy_trace_model::recording::record::{WorkSource, WorkUnits};
use energy_trace_names::shown::shown;
use energy_trace_report::per_work::phases_of;
use energy_trace_report::work::work_named;
use energy_trace_report::{By, phases};
use std::path::Path;

/// The recording by this unit, for rows of this kind.
pub(super) fn read(
    path: &Path,
    options: &Options,
    range: RangeArgs,
    (name, by): (&str, By),
) -> Result<Profile, Failure> {
    let (mut profile, over_time) = attribute_over_time_owned(read_recording(path)?, options);
    if !profile.parts.is_empty() {
        let text = format!("{} is merged: --per-work takes one recording alone", path.display());
        return Err(Failure::usage(shown(&text).into_owned()));
    }
    if range.is_part() {
        let bins = range.bins(&over_time.bins)?;
        let (from, to) = (over_time.bins.span(bins.start).0, over_time.bins.span(bins.end - 1).1);
        over_time.count_work(&mut profile, from, to);
        // Calls of a part are those that were counted in it.
        let since = |at: KtimeNs| at.ns_since(profile.run.start);
        let (of_ns, bin_ns) = (over_time.bins.length_ns(), over_time.bins.width_ns());
        profile.part = Some(PartOfRun { from_ns: since(from), to_ns: since(to), of_ns, bin_ns });
    }
    let done = work_named(&profile, name).ok_or_else(|| unknown(&profile, path, name))?;
    let is_calls = matches!(done.work.series.counter.source, WorkSource::Calls(_));
    // Older recordings do not say when calls were.
    let is_whole = is_calls && done.work.stretches.is_empty();
    if done.units == WorkUnits::ZERO || is_whole && range.is_part() {
        return Err(Failure::usage(nothing(done.name(), path, (range.is_part(), is_whole))));
    }
    if is_whole && by == By::Phase {
        return Err(Failure::usage(shown(&NO_PHASES.replace("{}", done.name())).into_owned()));
    }
    let spans: Vec<_> = done.work.stretches.iter().map(|stretch| (stretch.from, stretch.to)).collect();
    let (units, at_least, open) = (done.units, done.at_least, done.open);
    let (idle, rest, ci95) = (done.idle, done.rest, done.uncertainty.map(|of| of.ci95));
    let of_work = || phases_of(phases::find(&profile, &over_time), &profile, &over_time, done.work);
    let phases = (by == By::Phase).then(of_work);
    if !is_calls || range.is_part() {
        profile = over_time.within_stretches(profile, &spans);
    }
    profile.phases = phases;
    profile.per_work = Some(PerWork { name: name.to_owned(), units, at_least, ci95, open, idle, rest });
    Ok(profile)
}

/// Why calls of an older recording have no phases.
const NO_PHASES: &str = "calls of {} are known of the whole run alone: leave out --by phase or --per-work";

fn unknown(profile: &Profile, path: &Path, name: &str) -> Failure {
    let known: Vec<&str> = profile.work.iter().map(|work| work.series.counter.name.as_str()).collect();
    let known = if known.is_empty() {
        "it counted no work".to_owned()
    } else {
        format!("it has {}", known.join(", "))
    };
    Failure::usage(
        shown(&format!("{} has no work {name}: {known} (record --work NAME=SOURCE)", path.display()))
            .into_owned(),
    )
}

/// That there are no units, of a part or not, of calls or not.
fn nothing(name: &str, path: &Path, (is_part, is_calls): (bool, bool)) -> String {
    let (of, why) = match (is_part, is_calls) {
        (false, _) => ("", "`energy-trace report` says why"),
        (true, true) => {
            ("this part of ", "its calls are known of the whole run alone: leave out --from and --to")
        }
        (true, false) => ("this part of ", "its number did not move there, or was not read twice"),
    };
    shown(&format!("nothing was counted of {name} in {of}{}: {why}", path.display())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::nothing;

    /// A part that is too short, or of which nothing can be counted, has its own reason, which no other report says.
    #[test]
    fn why_there_are_none() {
        let of = |is_part, is_calls| nothing("token", "a.data".as_ref(), (is_part, is_calls));
        assert_eq!(
            of(false, false),
            "nothing was counted of token in a.data: `energy-trace report` says why"
        );
        assert!(of(true, false).contains(" in this part of a.data: its number did not move there"));
        assert!(of(true, true).contains("leave out --from and --to"));
    }
}
