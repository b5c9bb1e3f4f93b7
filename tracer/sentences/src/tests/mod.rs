//! Every diagnostic has a code of its own and a sentence.

mod all;

use super::{NoPython, counted, diagnostic, in_brief, no_such_functions};
use all::{all, word};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::recording::record::{
    AccountDiagnostic, CallDiagnostic, LaunchDiagnostic, LossReason, PythonNotCounted, ReadFailure,
    RecordingDiagnostic, TimeDifference,
};
use std::collections::{BTreeMap, BTreeSet};

/// How much is missing and why stands in the part of a sentence that the first screen shows, and what to do behind it.
#[test]
fn a_difference_has_its_cause() {
    let found = |recorded_ns, cause| {
        let found = AccountDiagnostic::CpuTime { recorded_ns, kernel_ns: 4_000_000_000, cause };
        diagnostic(&Diagnostic::Recorded(found.into()))
    };
    let text = found(3_000_000_000, TimeDifference::SlicesLost);
    assert!(
        text.starts_with(
            "3.00 s of CPU time were recorded, 25% less than the kernel's 4.00 s: slices were lost; "
        ),
        "{text}"
    );
    assert!(found(5_000_000_000, TimeDifference::Stolen).contains("25% more than the kernel's"));
}

/// A higher rate of samples is advised where it would show functions, a loop where no rate would.
#[test]
fn a_short_program_has_advice() {
    let texts = |samples, cpu_ns| {
        let found = Diagnostic::FewSamples { samples, cpu_ns };
        [diagnostic(&found), in_brief(std::iter::once(&found)).concat()]
    };
    for (samples, cpu_ns) in [(0, 1_200_000), (9, 99_900_000)] {
        for text in texts(samples, cpu_ns) {
            assert!(
                text.contains(" ms of CPU time") && text.contains("loop") && !text.contains("-F"),
                "{text}"
            );
        }
    }
    assert_eq!(
        texts(0, 1_200_000)[1],
        "no samples in 1.2 ms of CPU time: too short, repeat the work in a loop"
    );
    assert!(texts(9, 99_900_000)[1].len() <= 78);
    assert!(texts(0, 0).iter().all(|text| text.contains("no CPU time was used")));
    assert!(texts(9, 100_000_000).iter().all(|text| text.contains("-F") && !text.contains("loop")));
}

/// One is one, in every sentence and line that counts.
#[test]
fn one_is_one() {
    use RecordingDiagnostic as R;
    let one = [
        Diagnostic::FewSamples { samples: 1, cpu_ns: 1 },
        Diagnostic::OverlappingSlices { times: 1 },
        Diagnostic::EventsLost(BTreeMap::from([(LossReason::Samples, 1)])),
        Diagnostic::of("gpu-0", DomainDiagnostic::ReadingsLeftOut { readings: 1 }),
        Diagnostic::Recorded(R::MachinePaused { times: 1, cpu_ns: 1 }),
        Diagnostic::Recorded(R::MappingsFull { processes: 1, places: 9, places_each: 9 }),
        Diagnostic::Recorded(R::NamesNotLookedUp { files: 1 }),
        Diagnostic::Recorded(R::FilesNotRead { files: vec![(word(), ReadFailure::Died)], more: 0 }),
        Diagnostic::Recorded(R::PythonNamesLimited { mib: 9, times: 1, mark: word() }),
        Diagnostic::Recorded(R::UnwindTablesFull { mib: 9, dropped: 1, without: 1 }),
        Diagnostic::Recorded(R::SamplesMissing { taken: 1, expected: 9, cpu_ns: 9 }),
        Diagnostic::Recorded(R::from(LaunchDiagnostic::GraphChanged { times: 1 })),
        Diagnostic::Recorded(R::Calls(CallDiagnostic::PythonCost { calls: 1, call_ns: 900, functions: 1 })),
        Diagnostic::Recorded(R::Calls(CallDiagnostic::InputSizesLimited { passed: 1, unseen: 1 })),
        Diagnostic::Recorded(R::Calls(CallDiagnostic::PythonNotCounted(PythonNotCounted::Untold {
            processes: 1,
        }))),
    ];
    for found in &one {
        for text in [diagnostic(found), in_brief(std::iter::once(found)).concat()] {
            for word in [
                "samples",
                "times",
                "events",
                "intervals",
                "processes",
                "files",
                "functions",
                "calls",
                "readings",
            ] {
                assert!(!format!("{text} ").contains(&format!(" 1 {word} ")), "{text}");
                assert!(!text.starts_with(&format!("1 {word}")) && !text.contains("1 file were"), "{text}");
            }
            assert!(!text.contains("1 Python functions") && !text.contains("1 Python processes"), "{text}");
        }
    }
    let untold = PythonNotCounted::Untold { processes: 3 };
    let untold = Diagnostic::Recorded(R::Calls(CallDiagnostic::PythonNotCounted(untold)));
    assert!(diagnostic(&untold).starts_with("3 Python processes ended without reporting their counts"));
    assert_eq!([0, 1, 2].map(|n| counted(n, "process")), ["0 processes", "1 process", "2 processes"]);
}

/// Why nothing is counted is said on the first screen and while it goes on, of very many units as of one.
#[test]
fn calls_that_are_not_counted() {
    let attached = RecordingDiagnostic::Calls(CallDiagnostic::PythonNotCounted(PythonNotCounted::Attached));
    let line = in_brief(std::iter::once(&Diagnostic::Recorded(attached))).concat();
    assert!(line.ends_with("not counted: the program ran already") && line.len() <= 76, "{line}");
    let said = no_such_functions(&["a", "b", "c", "d", "e"], NoPython::Uncalled);
    assert!(
        said.contains(" of calls:a, calls:b, calls:c and 2 more: ") && said.contains("NAME@LIBRARY"),
        "{said}"
    );
    assert!(
        no_such_functions(&["a"], NoPython::Attached)
            .contains("calls:a: no machine code of that name was found, and Python's are counted only in")
    );
    let old = no_such_functions(&["a"], NoPython::Old);
    assert!(old.contains("this Python cannot be counted") && !old.contains("was called so"), "{old}");
}

/// Codes are unique, of small letters and hyphens; sentences are there and say what they are about.
#[test]
fn each_has_a_code_and_a_sentence() {
    let all = all();
    let codes: BTreeSet<&str> = all.iter().map(Diagnostic::code).collect();
    assert_eq!(codes.len(), all.len(), "{codes:?}");
    for found in &all {
        let code = found.code();
        assert!(code.split('-').all(|word| word.chars().all(|c| c.is_ascii_lowercase())), "{code}");
        let text = diagnostic(found);
        assert!(text.len() > 10 && !text.contains('\n') && !text.contains("  "), "{text}");
    }
}

/// A full buffer has its advice.
#[test]
fn a_full_buffer_has_advice() {
    let lost = |reason| diagnostic(&Diagnostic::EventsLost(BTreeMap::from([(reason, 17)])));
    assert!(lost(LossReason::Samples).contains("`-F`"));
    assert!(!lost(LossReason::SamplesBusy).contains("`-F`"));
}
