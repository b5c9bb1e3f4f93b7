//! One diagnostic of each kind, for tests. Included by `#[path]` in the reports' tests too.

use energy_trace_model::ids::Pid;
use energy_trace_model::profile::PartOfRun;
use energy_trace_model::profile::diagnostics::{
    Diagnostic, DomainDiagnostic, GapReason, GpuSplit, IdleInUse, Imbalance, MeterFit, SlowedBy, SplitBy,
    WorkDiagnostic as W,
};
use energy_trace_model::profile::validity::ValidityCheck;
use energy_trace_model::recording::ranges::{RangeDiagnostic, RangesNotRecorded};
use energy_trace_model::recording::record::{
    AccountDiagnostic, CallDiagnostic, CounterKind, CutReason, GpuFeature, HiddenFile, InUse, KernelFallback,
    KernelTier, LaunchDiagnostic, LaunchStacks, LossReason, Names, OtherPython, Owner, OwnerDiagnostic, Part,
    PowerDiagnostic, ProbeFailure, PythonNotCounted, ReadFailure, RecordingDiagnostic, Runtime, StackStatus,
    TimeDifference, Truncation, Unanswering, WorkFailure,
};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use std::collections::BTreeMap;

pub(crate) fn word() -> String {
    "word".to_owned()
}

fn names() -> Names {
    Names { first: vec![word()], more: 2 }
}

/// One of each variant.
fn recorded() -> Vec<RecordingDiagnostic> {
    use CallDiagnostic as C;
    use OwnerDiagnostic as O;
    use RecordingDiagnostic as R;
    vec![
        R::RecordingCut { whole_bytes: Some(7), whole_ns: Some(1_500_000_000), reason: CutReason::Checksum },
        R::NoMmapEvents { error: word() },
        R::SampleEventRefused { error: word() },
        R::SampleRateLimited { hz: 9, wanted_hz: 99, aligned: true, limit: 10, enough: 1000, after_ns: None },
        R::MachinePaused { times: 2, cpu_ns: 1 },
        R::SamplesMissing { taken: 1, expected: 2, cpu_ns: 3 },
        R::UnwindTablesFull { mib: 1, dropped: 2, without: 3 },
        R::MappingsFull { processes: 1, places: 2, places_each: 3 },
        R::PythonNamesLimited { mib: 1, times: 2, mark: word() },
        R::NamesNotLookedUp { files: 1 },
        R::FilesNotRead {
            files: vec![(word(), ReadFailure::Died), (word(), ReadFailure::NotRoots { user: 7 })],
            more: 1,
        },
        R::ProcessesNotAnswering {
            processes: vec![Unanswering { pid: Pid::new(3), user: 7, name: word() }],
            more: 1,
        },
        R::CommandLinesCut { programs: 2 },
        R::ReaderDied,
        R::TimeSummed,
        R::Owners(O::FilesNotKept { files: vec![(Owner::User(7), 2)], most: 9 }),
        R::Owners(O::FilesRefused { questions: vec![(Owner::User(7), 2), (Owner::Several, 1)] }),
        R::Owners(O::ReaderLost { times: 2, again: true }),
        R::Owners(O::NamesCut { names: 3, longest: 4096 }),
        R::Owners(O::EventsRefused { events: vec![(Owner::User(7), 2)] }),
        R::Owners(O::StacksCut { samples: 3, most: 9 }),
        R::Ranges(RangeDiagnostic::NotRecorded(RangesNotRecorded::Taken {
            variable: "NVTX_INJECTION64_PATH".to_owned(),
            library: word(),
        })),
        R::Ranges(RangeDiagnostic::Limited { samples: 3, of: 9 }),
        R::Ranges(RangeDiagnostic::Unknown { samples: 3, of: 9, lost: 2 }),
        R::Ranges(RangeDiagnostic::SpansDamaged { samples: 3, of: 9 }),
        R::PushTimes { samples: vec![1], events: vec![2] },
        R::SamplesNotJittered { hz: 9, limit: 10, enough: 1000 },
        R::Calls(C::Cost { calls: 9, stepped: 1, call_ns: 900, stepped_ns: 9000, functions: 3 }),
        R::Calls(C::NotCounted { error: word() }),
        R::Calls(C::NotFound { names: vec![word()] }),
        R::Calls(C::TooMany { library: word(), most: 3 }),
        R::Calls(C::PythonCost { calls: 9, call_ns: 900, functions: 3 }),
        R::Calls(C::PythonNotCounted(PythonNotCounted::Version { version: word() })),
        R::Calls(C::InputSizes { looks: 9, left_out: 1, cost_ns: 5 }),
        R::Calls(C::InputSizesLimited { passed: 9, unseen: 1 }),
        R::Calls(C::Late { library: word(), pid: 3, late_ns: 4 }),
    ]
}

fn of_accounts() -> Vec<AccountDiagnostic> {
    use AccountDiagnostic as A;
    vec![
        A::CpuTime { recorded_ns: 1, kernel_ns: 2, cause: TimeDifference::Unknown },
        A::StillRunning { processes: 2, name: word(), pid: 7 },
        A::WorkedElsewhere { own_ns: 1, of_ns: 2, name: word(), pid: 7, other_ns: 3 },
        A::RecorderStarved { longest_ns: 1 },
        A::Hidden { files: HiddenFile::ALL.to_vec() },
    ]
}

fn of_launches() -> Vec<LaunchDiagnostic> {
    use LaunchDiagnostic as L;
    vec![
        L::ProbesFailed(ProbeFailure::Functions(names())),
        L::Streams { domain: word(), percent: 5 },
        L::GraphChanged { times: 1 },
        L::SlowProbes(names()),
        L::ProbesLate { library: word(), pid: 1, late_ns: 2 },
        L::KernelFallback(KernelFallback::NotLoaded),
        L::KernelFlood { messages: 1, records: 2, refused: 3 },
        L::InjectionChained { library: word() },
    ]
}

fn of_power() -> Vec<PowerDiagnostic> {
    use PowerDiagnostic as P;
    let domain = word;
    vec![
        P::GpuMig { domain: domain() },
        P::GpuVirtual { domain: domain() },
        P::GpuModule { domain: domain() },
        P::GpuNoCounter { domain: domain() },
        P::GpuAveragedPower { domain: domain() },
        P::GpuUnsupported { domain: domain(), missing: vec![GpuFeature::InstantPower] },
        P::GpuLost { domain: domain() },
        P::GpuCounterReset { domain: domain(), from_j: 2, to_j: 1, times: 1 },
        P::GpuSensorsDisagree { domain: domain(), permille: 300, counter: CounterKind::Counter },
        P::SourcesDisagree { domain: domain(), permille: 3000 },
        P::ReadFailed { domain: domain(), failed: 1, readings: 2, error: word() },
        P::ReaderDied { error: word() },
        P::ReplayChanged { error: word() },
        P::ReplayDoesNotCover { path: word() },
        P::GpuUtilization { domain: domain() },
    ]
}

fn of_domain() -> Vec<DomainDiagnostic> {
    use DomainDiagnostic as D;
    let split = |by, learned| GpuSplit { by, kinds: 2, steps: 9, learned, alone: false, misfit: None };
    let fit = MeterFit { late_s: 0.1, duty: 0.25, mean_s: 0.0, condition: 3.0 };
    vec![
        D::NoReading { missing_ns: 1, of_ns: 2, reasons: [(GapReason::Slept, 1)].into() },
        D::NoReading { missing_ns: 2, of_ns: 2, reasons: [(GapReason::StoodStill, 2)].into() },
        D::ReadingsLeftOut { readings: 1 },
        D::NotCounted,
        D::NoIdleBaseline,
        D::BusyBeforeStart {
            percent: 96,
            measured: MicroWatts::from_uw(30_000_000),
            taken: MicroWatts::from_uw(6_000_000),
        },
        D::GpuInUse { by: InUse { percent: Some(87), pids: vec![7] }, idle: IdleInUse::Unknown },
        D::GpuInUse { by: InUse { percent: Some(87), pids: vec![7] }, idle: IdleInUse::Pauses },
        D::GpuInUse { by: InUse { percent: None, pids: vec![7, 8] }, idle: IdleInUse::OfOthers },
        D::GpuUnattributed,
        D::GpuSplit(split(SplitBy::Waits, None)),
        D::GpuSplit(split(SplitBy::Kernels { crowded: 0.5, whole: true }, Some(fit))),
        D::GpuNotToldApart { names: vec![word()] },
        D::ModelCpuTime { failed: vec![ValidityCheck::Fluctuation] },
        D::LessBesideOthers { part: 0.75 },
        D::LackOfFit { times: 4.0 },
        D::IdleAboveCounter { negative: MicroJoules::from_uj(5), run: None },
        D::SameCounter { domain: word() },
        D::MeterLag { late_ns: 5, fit: 0.9, unshifted: 0.5 },
    ]
}

fn of_the_whole() -> Vec<Diagnostic> {
    let uj = MicroJoules::from_uj(5);
    let stacks = LaunchStacks { own: 3, thinned: 2, none: 1 };
    vec![
        Diagnostic::OverlappingSlices { times: 1 },
        Diagnostic::CpuWithoutSocket { cpu_ns: 1 },
        Diagnostic::KernelCost(KernelTier { launches: 1, ..KernelTier::default() }),
        Diagnostic::KernelsMissing(KernelTier { dropped: 1, ..KernelTier::default() }),
        Diagnostic::LaunchStacksThinned(stacks),
        Diagnostic::PartOfRun(PartOfRun { from_ns: 1, to_ns: 2, of_ns: 3, bin_ns: 1 }),
        Diagnostic::EventsLost(BTreeMap::from([(LossReason::Samples, 3)])),
        Diagnostic::NoEnergySource,
        Diagnostic::UnsampledTime { unsampled_ns: 1, of_ns: 2 },
        Diagnostic::NoPythonFrames {
            runtimes: vec![Runtime::NotCPython(OtherPython::PyPy)],
            native_ns: 1,
            of_ns: 2,
        },
        Diagnostic::StacksNotWhole { samples: 1, of: 2, most: StackStatus::Truncated(Truncation::Bits32) },
        Diagnostic::JitNotNamed { programs: vec![("node".to_owned(), 1), ("a".to_owned(), 1)], of_ns: 9 },
        Diagnostic::ProgramUncertain { least: MicroJoules::ZERO, most: MicroJoules::from_uj(9) },
        Diagnostic::ShortLoop { loop_ns: 10_020_000, hz: 2_999, power_hz: Some(1_000) },
        Diagnostic::FewSamples { samples: 3, cpu_ns: 9 },
        Diagnostic::CallsNotNamed {
            not_named: vec![("numpy".to_owned(), 5)],
            not_public: vec![("torch".to_owned(), 50)],
            of_ns: 100,
        },
        Diagnostic::GraphsNotKnown(uj),
        Diagnostic::ResidualLarge(vec![(word(), uj)]),
        Diagnostic::SlowedDown { part: Part::Cpu(0), by: SlowedBy::Heat, ns: None, times: Some(3), of_ns: 9 },
        Diagnostic::Work {
            name: word(),
            what: W::NotRead { source: word(), failure: Some(WorkFailure::TimedOut) },
        },
        Diagnostic::Work { name: word(), what: W::NeverMoved { readings: 1 } },
        Diagnostic::Work { name: word(), what: W::NotCounted { function: word() } },
        Diagnostic::Work {
            name: word(),
            what: W::InPart {
                restarts: 2,
                gone: 1,
                covered_ns: 1,
                of_ns: 2,
                failure: Some(WorkFailure::Missing),
            },
        },
        Diagnostic::Work { name: word(), what: W::StoodStill { still_ns: 1, covered_ns: 2 } },
        Diagnostic::Work { name: word(), what: W::Merged },
        Diagnostic::Work { name: word(), what: W::AndMore { more: 7 } },
        Diagnostic::LedgerImbalance(vec![(Imbalance::Domain(word()), uj), (Imbalance::Stacks("gpu"), uj)]),
    ]
}

/// One of each.
pub(crate) fn all() -> Vec<Diagnostic> {
    let launches = of_launches().into_iter().map(RecordingDiagnostic::from);
    let power = of_power().into_iter().map(RecordingDiagnostic::from);
    let accounts = of_accounts().into_iter().map(RecordingDiagnostic::from);
    let recorded =
        recorded().into_iter().chain(launches).chain(power).chain(accounts).map(Diagnostic::Recorded);
    let domain = of_domain().into_iter().map(|what| Diagnostic::of("package-0", what));
    recorded.chain(domain).chain(of_the_whole()).collect()
}
