//! Sentences for what was found while launches and kernels on GPUs were followed.

use super::{counted, in_millis};
use energy_trace_model::recording::record::{
    KernelFallback, LaunchDiagnostic, Names, NotTimed, ProbeFailure,
};

/// What was found about launches.
pub(super) fn launch_fact(found: &LaunchDiagnostic) -> String {
    match found {
        LaunchDiagnostic::ProbesFailed(ProbeFailure::Launches { error }) => {
            format!("launches on GPUs are not traced: {error}")
        }
        LaunchDiagnostic::ProbesFailed(ProbeFailure::Functions(names)) => {
            format!("some launches on GPUs are not seen, as probes failed on {}", list(names))
        }
        LaunchDiagnostic::Streams { domain, percent } => format!(
            "{domain}: {percent} % of the kernels were launched beside the busiest stream: which of those that ran side by side took how \
             much is not known from launches; --gpu kernel times them"
        ),
        LaunchDiagnostic::GraphChanged { times } => format!(
            "{} a node of a graph was given new work while it is not known whose work that replaced (the node was captured, \
             not added by a call): replays count for the stacks that captured the old work; --gpu kernel knows",
            counted(*times, "time")
        ),
        LaunchDiagnostic::SlowProbes(names) => format!(
            "the kernel has to step through the first instruction of {}, which makes each call of it some ten microseconds slower in a \
             virtual machine; --gpu device leaves launches alone",
            list(names)
        ),
        LaunchDiagnostic::ProbesLate { library, pid, late_ns } => format!(
            "{library} was probed {:.0} ms after it was noticed that process {pid} has it: what was launched before is not counted",
            in_millis(*late_ns)
        ),
        LaunchDiagnostic::KernelFallback(reason) => fallback(reason),
        LaunchDiagnostic::KernelFlood { messages, records, refused } => format!(
            "times of GPU kernels are missing: {messages} messages of injected libraries and {records} records came faster than they \
             could be taken in, and {refused} connections were turned away (too many at once, or of processes that are not recorded); \
             record fewer programs at once"
        ),
        LaunchDiagnostic::InjectionChained { library } => format!(
            "CUDA_INJECTION64_PATH named {library} already: it is loaded first, and GPU kernels are timed beside it if it leaves CUPTI \
             free"
        ),
    }
}

fn fallback(reason: &KernelFallback) -> String {
    match reason {
        KernelFallback::NoGpu => "GPU kernels are not timed: no GPU has a counter here".to_owned(),
        KernelFallback::NotStartedHere => format!("{NOT_STARTED_HERE}: {START_WITH_KERNELS}"),
        KernelFallback::NoLaunches { error: None } => {
            "GPU kernels are not timed: launches on GPUs are not traced".to_owned()
        }
        KernelFallback::NoLaunches { error: Some(error) } => format!("GPU kernels are not timed: {error}"),
        KernelFallback::NotPrepared { error } => {
            format!("GPU kernels are not timed, launches are counted: {error}")
        }
        KernelFallback::NotLoaded => NOT_LOADED.to_owned(),
        KernelFallback::Root { pid, folder, parent, error } => format!(
            "GPU kernels of programs below the root of process {pid} are not timed, launches are counted: the library that is injected \
             cannot be put into {folder} there: {error}; give that root a folder {parent} that can be written to and lets code run"
        ),
        KernelFallback::Process { pid, name, reason } => {
            let why = not_timed(reason);
            format!(
                "GPU kernels of process {pid} ({name}) are not timed: {why}; its launches are counted instead"
            )
        }
    }
}

const NOT_STARTED_HERE: &str = "GPU kernels are not timed: a library is injected where energy-trace starts the command itself, not into \
                                processes that run; launches are counted. For times of kernels start the program with it";
/// What to type for what attaching cannot show.
pub(super) const START_WITH_KERNELS: &str = "`energy-trace record --gpu kernel -- PROGRAM`";
const NOT_LOADED: &str = "no program loaded the library for --gpu kernel: none used CUDA, or its driver heeds no CUDA_INJECTION64_PATH; \
                          launches that were seen are counted instead";

fn not_timed(reason: &NotTimed) -> String {
    match reason {
        NotTimed::NotLoaded => {
            "it did not load the library: it used CUDA before that was at its place, its environment lacks \
                                CUDA_INJECTION64_PATH, or its driver heeds none"
                .to_owned()
        }
        NotTimed::Trouble(trouble) => trouble.clone(),
        NotTimed::Nonsense(what) => format!("what its library sent made no sense ({what})"),
    }
}

fn list(names: &Names) -> String {
    let first = names.first.join(", ");
    if names.more > 0 { format!("{first} and {} more", names.more) } else { first }
}
