//! Ranges that the program marks, of a recording: whether they can be seen in this target, and why not.
//!
//! Where they cannot, everything else goes on. Leaves out the library that tells of them (`tracee/range_injection.rs`).

use crate::plan::RecordPlan;
use crate::tracee::Target;
use crate::tracee::injection::find_library;
use crate::tracee::range_injection::{RangeInjection, tools};
use energy_trace_model::recording::ranges::{RangeDiagnostic, RangesNotRecorded};
use energy_trace_model::recording::record::RecordingDiagnostic;
use energy_trace_probe::Tracer;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What tells of ranges, and what the reader must know about it.
#[derive(Debug, Default)]
pub(super) struct MarkedRanges {
    pub(super) injection: Option<RangeInjection>,
    /// What who has this recorded loads by itself: the installed file, as only its own process may have code put into it.
    library: Option<PathBuf>,
    pub(super) found: Vec<RangeDiagnostic>,
}

impl MarkedRanges {
    /// Puts the library in place and has the tracer listen, if that was asked for and the command is started here.
    pub(super) fn prepare(plan: &RecordPlan, tracer: &mut Tracer) -> Self {
        let mut ranges = Self::default();
        if !plan.ranges {
            return ranges;
        }
        if !matches!(plan.target, Target::Command(_)) {
            ranges.attach(plan, tracer);
            return ranges;
        }
        for (variable, library) in tools() {
            let (variable, library) = (variable.to_owned(), library.to_string_lossy().into_owned());
            ranges.miss(RangesNotRecorded::Taken { variable, library });
        }
        match RangeInjection::prepare() {
            Ok(injection) => {
                tracer.listen_to_ranges(injection.library());
                ranges.injection = Some(injection);
            }
            Err(error) => ranges.miss(RangesNotRecorded::NoLibrary { error: error.to_string() }),
        }
        ranges
    }

    /// Of what runs already a caller alone can load the library.
    fn attach(&mut self, plan: &RecordPlan, tracer: &mut Tracer) {
        match plan.control.then(find_library) {
            Some(Ok(library)) => {
                tracer.listen_to_ranges(library.clone());
                self.library = Some(library);
            }
            Some(Err(error)) => self.miss(RangesNotRecorded::NoLibrary { error: error.to_string() }),
            None => self.miss(RangesNotRecorded::Attached),
        }
    }

    /// What who has this recorded is to load.
    pub(super) fn library(&self) -> Option<&Path> {
        self.library.as_deref()
    }

    /// Says it now, when the user can still begin again, and in every report.
    fn miss(&mut self, why: RangesNotRecorded) {
        let found = RangeDiagnostic::NotRecorded(why);
        log::warn!("{}", energy_trace_sentences::recorded(&found.clone().into()));
        self.found.push(found);
    }

    /// What is set in the command's environment.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.injection.as_ref().map(RangeInjection::environment).unwrap_or_default()
    }

    /// That no range was seen says nothing where a reason for it is known, or where a caller knows whether it marks any.
    pub(super) fn keep_reasons(&self, found: &mut Vec<RecordingDiagnostic>) {
        let is_of_none = |of: &RecordingDiagnostic| {
            matches!(of, RecordingDiagnostic::Ranges(RangeDiagnostic::NotRecorded(_)))
        };
        if self.library.is_some() || found.iter().filter(|of| is_of_none(of)).count() > 1 {
            let not_marked: RecordingDiagnostic =
                RangeDiagnostic::NotRecorded(RangesNotRecorded::NotMarked).into();
            found.retain(|of| *of != not_marked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MarkedRanges, RangeDiagnostic, RangesNotRecorded, RecordingDiagnostic};

    /// A reason is said once, and that there was none where no reason is known and nobody knows it anyway.
    #[test]
    fn one_warning() {
        let [none, library] = [
            RangesNotRecorded::NotMarked,
            RangesNotRecorded::NoLibrary { error: "no libenergy_trace_cupti.so".to_owned() },
        ]
        .map(|why| RecordingDiagnostic::from(RangeDiagnostic::NotRecorded(why)));
        let kept = |library, found: &[&RecordingDiagnostic]| {
            let mut found: Vec<_> = found.iter().copied().cloned().collect();
            MarkedRanges { library, ..MarkedRanges::default() }.keep_reasons(&mut found);
            found
        };
        assert_eq!(kept(None, &[&none, &library]), std::slice::from_ref(&library));
        let other = RecordingDiagnostic::TimeSummed;
        assert_eq!(kept(None, &[&none, &other]), [none.clone(), other.clone()]);
        assert_eq!(kept(Some("library.so".into()), &[&none, &other]), [other]);
    }
}
