//! Sentences for what the attribution found, and for what only shows in the whole.

use super::counters::{no_reading, readings_left_out};
use super::jit::jit_not_named;
use super::launches::START_WITH_KERNELS;
use super::losses::loss;
use super::sources::runtime;
use super::stacks::not_whole;
use super::work::work_fact;
use super::{counted, in_seconds, percent_of, recorded, were};
use energy_trace_model::profile::diagnostics::{
    Diagnostic, DomainDiagnostic, GpuMisfit, GpuSplit, IdleInUse, Imbalance, MeterFit, SlowedBy, SplitBy,
};
use energy_trace_model::profile::over_time::PartOfRun;
use energy_trace_model::profile::validity::ValidityCheck;
use energy_trace_model::recording::record::{InUse, KernelTier, LaunchStacks, LossReason, Part};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::short_names::in_a_sentence;
use std::collections::BTreeMap;

/// What was found, what it changes, and what to do about it.
pub fn diagnostic(found: &Diagnostic) -> String {
    match found {
        Diagnostic::Recorded(found) => recorded(found),
        Diagnostic::Domain { domain, what } => format!("{domain}: {}", domain_fact(what)),
        Diagnostic::OverlappingSlices { times } => format!(
            "the switch from one thread to the next was missed {}, so two threads seemed to run on one CPU at once; the first is \
             counted until the second begins",
            counted(*times, "time")
        ),
        Diagnostic::CpuWithoutSocket { cpu_ns } => format!(
            "{:.2} s of CPU time ran on CPUs whose socket is not known (plugged in during the run?); it is charged no energy",
            in_seconds(*cpu_ns)
        ),
        Diagnostic::KernelCost(tier) => kernel_cost(tier),
        Diagnostic::KernelsMissing(tier) => kernels_missing(tier),
        Diagnostic::LaunchStacksThinned(stacks) => stacks_thinned(*stacks),
        Diagnostic::PartOfRun(part) => part_of_run(*part),
        Diagnostic::Work { name, what } => work_fact(name, what),
        Diagnostic::EventsLost(lost) => events_lost(lost),
        Diagnostic::NoEnergySource => NO_ENERGY_SOURCE.to_owned(),
        Diagnostic::UnsampledTime { unsampled_ns, of_ns } => format!(
            "no sample was taken in {} of the program's CPU time, which is shown as `{}`; a higher rate, `-F`, leaves less",
            percent_of(*unsampled_ns, *of_ns),
            SyntheticFrame::Unsampled.name()
        ),
        Diagnostic::NoPythonFrames { runtimes, native_ns, of_ns } => format!(
            "Python functions are missing for {} of the program's CPU time, because this Python cannot be read: {}; the joules are right, \
             and are shown under the interpreter's native functions",
            percent_of(*native_ns, *of_ns),
            runtimes.iter().map(runtime).collect::<Vec<_>>().join(", ")
        ),
        Diagnostic::StacksNotWhole { samples, of, most } => not_whole(*samples, *of, *most),
        Diagnostic::JitNotNamed { programs, of_ns } => jit_not_named(programs, *of_ns),
        Diagnostic::ProgramUncertain { least, most } => format!(
            "the program's own energy is somewhere between {least} and {most}, because other programs ran beside it, or the machine was \
             busy while its idle power was measured; record on a quieter machine, for longer, or with --idle-watts"
        ),
        Diagnostic::ShortLoop { loop_ns, hz, power_hz } => short_loop(*loop_ns, *hz, *power_hz),
        Diagnostic::FewSamples { samples, cpu_ns } => few_samples(*samples, *cpu_ns),
        Diagnostic::CallsNotNamed { not_named, not_public, of_ns } => {
            calls_not_named(not_named, not_public, *of_ns)
        }
        Diagnostic::GraphsNotKnown(energy) => format!(
            "{energy} of CUDA graphs captured earlier have no kernels: [GPU graph]; for these start the program with energy-trace, \
             {START_WITH_KERNELS}, or have it capture anew while it is recorded"
        ),
        Diagnostic::ResidualLarge(domains) => {
            let domains: Vec<String> =
                domains.iter().map(|(domain, residual)| format!("{domain} {residual}")).collect();
            format!(
                "the idle power does not fit the counter: while nothing ran, more than 0.5 % of the energy is left over ({}); measure it \
                 on a quiet machine, or give `--idle-watts`",
                domains.join(", ")
            )
        }
        Diagnostic::LedgerImbalance(broken) => imbalance(broken),
        Diagnostic::SlowedDown { part, by, ns, times, of_ns } => slowed_down(*part, *by, *ns, *times, *of_ns),
    }
}

/// Its first part is what the first screen says.
fn short_loop(loop_ns: u64, hz: u32, power_hz: Option<u32>) -> String {
    let ms = in_seconds(loop_ns) * 1e3;
    let turn = if ms < 4.95 { format!("{ms:.1}") } else { format!("{ms:.0}") };
    let power = power_hz.map(|power_hz| format!(" --power-hz {power_hz}")).unwrap_or_default();
    format!(
        "loop of {turn} ms, too short for this: record with -F {hz}{power}; its functions alternate faster than samples and readings show, so \
         that what each of them draws is not known"
    )
}

fn few_samples(samples: u64, cpu_ns: u64) -> String {
    if cpu_ns == 0 {
        return "no CPU time was used: the program waited, or was stopped by a signal or a debugger; record it while it works".to_owned();
    }
    let few = few(samples);
    if !is_too_short(cpu_ns) {
        return format!("{few}: shares of functions are rough; record for longer or raise `-F`");
    }
    let ms = in_seconds(cpu_ns) * 1e3;
    format!(
        "{few} in {ms:.1} ms of CPU time: too short to tell shares of functions; repeat the work in a loop"
    )
}

/// Whether no rate of samples shows who used so much CPU time: -F 999 would take less than a hundred.
pub(super) const fn is_too_short(cpu_ns: u64) -> bool {
    cpu_ns < 100_000_000
}

pub(super) fn few(samples: u64) -> String {
    if samples == 0 { "no samples".to_owned() } else { format!("only {}", counted(samples, "sample")) }
}

/// Slower clocks draw less, and everything takes longer.
fn slowed_down(part: Part, by: SlowedBy, ns: Option<u64>, times: Option<u64>, of_ns: u64) -> String {
    let extent = match (ns, times) {
        (Some(ns), _) => format!("for {} of the time", percent_of(ns, of_ns)),
        (None, Some(1)) => "once".to_owned(),
        (None, times) => format!("{} times", times.unwrap_or(0)),
    };
    let why = match by {
        SlowedBy::Heat => "because it was too warm",
        SlowedBy::Power => "because it drew as much power as it may",
        SlowedBy::Unknown => "by its hardware, which does not say why",
    };
    let advice = match by {
        SlowedBy::Heat => "cool it better, or let it rest before each run",
        SlowedBy::Power => "compare only runs with the same limit of power",
        SlowedBy::Unknown => "look at its power supply and cooling",
    };
    format!(
        "{part} was slowed down {extent} {why}; at a slower clock the program draws less and takes longer: {advice}"
    )
}

fn calls_not_named(not_named: &[(String, u64)], not_public: &[(String, u64)], of_ns: u64) -> String {
    let list = |packages: &[(String, u64)]| {
        let share = |(package, ns): &(String, u64)| format!("{package} {}", percent_of(*ns, of_ns));
        packages.iter().map(share).collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if !not_named.is_empty() {
        let which = list(not_named);
        parts.push(format!(
            "calls of these packages have no names, because their machine code has no symbols or its stacks were cut \
             ({which} of the time)"
        ));
    }
    if !not_public.is_empty() {
        let which = list(not_public);
        parts.push(format!(
            "calls of these packages are shown by module, because their public names were not found when the recording ended ({which} of \
             the time)"
        ));
    }
    parts.join("; ")
}

const NO_ENERGY_SOURCE: &str =
    "no energy source: only time is shown; `energy-trace doctor` says which sources this machine has";

fn imbalance(broken: &[(Imbalance, MicroJoules)]) -> String {
    let which = |(sum, by): &(Imbalance, MicroJoules)| match sum {
        Imbalance::Domain(domain) => format!("{domain} by {by}"),
        Imbalance::Stacks(class) => format!("stacks of {class} by {by}"),
    };
    let broken: Vec<String> = broken.iter().map(which).collect();
    format!(
        "the ledger does not balance ({}): this is an error in energy-trace, please report it",
        broken.join(", ")
    )
}

fn events_lost(lost: &BTreeMap<LossReason, u64>) -> String {
    let all = lost.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let reasons: Vec<String> =
        lost.iter().map(|(reason, count)| format!("{}: {count}", loss(reason))).collect();
    let full = lost.keys().any(LossReason::is_full_buffer);
    let advice = if full { "; a lower rate, `-F`, loses fewer" } else { "" };
    format!("{} lost while recording ({}){advice}", were(all, "event"), reasons.join("; "))
}

/// The sentence behind `package-0: `.
pub(super) fn domain_fact(what: &DomainDiagnostic) -> String {
    match what {
        DomainDiagnostic::NoReading { missing_ns, of_ns, reasons } => {
            no_reading(*missing_ns, *of_ns, reasons)
        }
        DomainDiagnostic::ReadingsLeftOut { readings } => readings_left_out(*readings),
        DomainDiagnostic::NotCounted => {
            "its counter never moved: this machine does not measure it, and it is in no number".to_owned()
        }
        DomainDiagnostic::SameCounter { domain } => {
            format!(
                "{domain} shows the same counter: it is counted once; who ran on either is charged for it"
            )
        }
        DomainDiagnostic::NoIdleBaseline => NO_IDLE_BASELINE.to_owned(),
        DomainDiagnostic::BusyBeforeStart { percent, measured, taken } => format!(
            "its CPUs were {percent} % busy while its idle power was measured: of the {measured} that it drew, {taken} count as idle power, \
             judged by how the counter follows the CPUs' work in the run, and by what servers draw at rest; for less doubt record on a \
             quiet machine, or give --idle-watts W"
        ),
        DomainDiagnostic::GpuInUse { by, idle } => gpu_in_use(by, *idle),
        DomainDiagnostic::GpuUnattributed => GPU_UNATTRIBUTED.to_owned(),
        DomainDiagnostic::GpuSplit(split) => gpu_split(*split),
        DomainDiagnostic::GpuNotToldApart { names } => {
            format!("these run in such proportions that only their sum is known: {}", some_of(names))
        }
        DomainDiagnostic::ModelCpuTime { failed } => model_cpu_time(failed),
        DomainDiagnostic::LessBesideOthers { part } => format!(
            "each CPU drew {:.0} % less while others were busy as well (they share cores, memory, a clock or turbo); what functions are \
             charged takes that into account",
            100.0 * (1.0 - part)
        ),
        DomainDiagnostic::LackOfFit { times } => format!(
            "the same functions drew different power at different times (the spread of the readings is {:.1} times what is expected), so \
             intervals are wider",
            times.sqrt()
        ),
        DomainDiagnostic::IdleAboveCounter { run: Some((idle, measured)), .. } => format!(
            "idle power comes to {idle} over the run, and the counter showed {measured} in all: the run contradicts it. What ran used more than \
             is shown, by how much is not known. Leave out --idle-watts, or give less"
        ),
        DomainDiagnostic::IdleAboveCounter { negative, run: None } => format!(
            "in a part of the run the counter was below idle power although something ran, by {negative} in all, which is deducted from \
             what ran. Was the machine busy while its idle power was measured? --idle-watts W sets it"
        ),
        DomainDiagnostic::MeterLag { late_ns, fit, unshifted } => {
            let way = if *late_ns > 0 { "late" } else { "early" };
            format!(
                "the meter's log is {:.2} s {way}, judged by how its power follows the CPUs' work (r² {fit:.2} instead of {unshifted:.2}); \
                 it was shifted by that much",
                in_seconds(late_ns.unsigned_abs())
            )
        }
    }
}

/// Kernels that are named; how many there are beside them.
const NAMED: usize = 3;

/// The first of some kernels, and how many more there are.
pub(super) fn some_of(kernels: &[String]) -> String {
    let named: Vec<String> = kernels.iter().take(NAMED).map(|name| in_a_sentence(name)).collect();
    match kernels.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{}, and {more} more", named.join(", ")),
    }
}

const NO_IDLE_BASELINE: &str =
    "its idle power is not known, so it is charged to whatever ran; --idle-watts W sets it";

/// What happened, what it changes, what to do.
fn gpu_in_use(by: &InUse, idle: IdleInUse) -> String {
    let percent = by.percent.map(|percent| format!(" {percent} % busy")).unwrap_or_default();
    let pids: Vec<String> = by.pids.iter().map(u32::to_string).collect();
    let whom = match pids.as_slice() {
        [] => format!("it was in use{percent}"),
        [pid] => format!("process {pid} used it{percent}"),
        _ => format!("processes {} used it{percent}", pids.join(", ")),
    };
    let changes = match idle {
        IdleInUse::Unknown => GPU_IN_USE,
        IdleInUse::Pauses => GPU_IN_USE_WITH_PAUSES,
        IdleInUse::OfOthers => GPU_IN_USE_BY_OTHERS,
    };
    format!("{whom} while its idle power was measured; {changes}")
}

const GPU_IN_USE: &str = "so its idle power is not known, and is charged to whoever uses the GPU: the run has too few pauses to show it. \
                          To leave it out, start the recording while the GPU is idle";
const GPU_IN_USE_WITH_PAUSES: &str = "what it drew in pauses of the run counts as idle power";
const GPU_IN_USE_BY_OTHERS: &str = "what it drew then counts as idle power. If their load changes, the program is charged too much or too \
                                    little: record while nobody else uses the GPU";

const GPU_UNATTRIBUTED: &str =
    "its energy above idle is not charged to functions, as no launches on it are recorded";
fn model_cpu_time(failed: &[ValidityCheck]) -> String {
    let varies = failed.contains(&ValidityCheck::Fluctuation);
    let reason = if varies {
        "power differs from moment to moment while the same functions run"
    } else {
        "functions alternate faster than they are sampled, or always run in the same proportion"
    };
    format!(
        "the run does not show how much power each function draws ({reason}), so the energy of functions that ran at the same time is \
         divided by CPU time alone"
    )
}

/// How a GPU's energy was split.
fn gpu_split(split: GpuSplit) -> String {
    let by = match split.by {
        SplitBy::Kernels { .. } => "by the time that kernels ran",
        SplitBy::Waits | SplitBy::Launches => "by launches",
    };
    let how = split.learned.map_or_else(|| split_alike(split, by), |fit| split_by_fit(split, by, fit));
    let shared = if split.alone {
        ""
    } else {
        "; each function's joules are a guess, because the meter also shows what others on its board draw, or because kernels of several \
         streams ran at the same time"
    };
    let misfit = split.misfit.map_or("", gpu_misfit);
    format!("{how}{shared}{misfit}")
}

const fn gpu_misfit(misfit: GpuMisfit) -> &'static str {
    match misfit {
        GpuMisfit::SlowSensor => {
            "; each function's joules are a guess, because the sensor follows the board's power slowly: a window of its counter also shows \
             work of the window before"
        }
        GpuMisfit::Unexplained => {
            "; each function's joules are a guess, because the counter changes in ways that these kernels do not explain: a kernel may draw \
             more at one time than at another, or something else draws power"
        }
    }
}

fn split_by_fit(split: GpuSplit, by: &str, fit: MeterFit) -> String {
    let GpuSplit { kinds, steps, .. } = split;
    let looks = if fit.mean_s > 0.0 {
        format!(" and shows the mean of {:.0} s", fit.mean_s)
    } else if fit.duty < 1.0 {
        format!(" and measures {:.0} % of the time", fit.duty * 100.0)
    } else {
        String::new()
    };
    format!(
        "its energy is split {by}; what each of {kinds} kinds of work takes was learned from {steps} steps of the counter, which is \
         {:.0} ms late{looks} (condition number {:.0}){}",
        fit.late_s * 1e3,
        fit.condition,
        side_by_side(split.by)
    )
}

/// What tells more than launches do.
const KERNEL_TIER: &str = "; --gpu kernel measures how long each runs, which bounds what it can take";

fn split_alike(split: GpuSplit, by: &str) -> String {
    let GpuSplit { kinds, steps, .. } = split;
    let (alike, instead) = match split.by {
        SplitBy::Launches => (", as if each took the same", KERNEL_TIER),
        SplitBy::Waits => (", each by the time that it runs", KERNEL_TIER),
        SplitBy::Kernels { .. } => (", as if all drew the same power", ""),
    };
    format!(
        "its energy is split {by}{alike}: the run does not show what each of {kinds} kinds of work takes ({steps} steps of the \
         counter){instead}"
    )
}

/// How kernels count that ran at the same time.
fn side_by_side(by: SplitBy) -> String {
    let SplitBy::Kernels { crowded, whole } = by else { return String::new() };
    if crowded < 0.005 {
        return String::new();
    }
    let how = if whole { "each counts with its whole time" } else { "they share that time" };
    format!("; in {:.0} % of the busy time several ran at once: {how}", crowded * 100.0)
}

fn kernel_cost(tier: &KernelTier) -> String {
    let KernelTier { pid, cupti, launches, cost_ns, .. } = *tier;
    let each = cost_ns / launches.max(1);
    format!(
        "kernels of process {pid} were timed by its CUPTI (version {cupti}): {launches} launches, each {each} ns of the process's own \
         time for the library and its probe, besides what CUPTI itself took"
    )
}

fn kernels_missing(tier: &KernelTier) -> String {
    let parts = [
        (tier.dropped, "records were dropped by CUPTI"),
        (tier.untimed, "records had no times"),
        (tier.unplaced, "kernels have no stack, because their launch was not seen"),
    ];
    let mut parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !tier.whole {
        let end = "it or the recording ended before it reported the last tenth of a second";
        parts.push(end.to_owned());
    }
    format!("of the kernels of process {} some are missing or have no stack: {}", tier.pid, parts.join("; "))
}

fn part_of_run(part: PartOfRun) -> String {
    let PartOfRun { from_ns, to_ns, of_ns, bin_ns } = part;
    format!(
        "all numbers are of the part from {} s to {} s of a run of {:.2} s (steps of {} s), by what ran then and by the counter; how far a \
         part may be off is not known, so it has no 95 % intervals; call counts, which are of the whole run, are left out; other warnings \
         are of the whole run",
        in_seconds(from_ns),
        in_seconds(to_ns),
        in_seconds(of_ns),
        in_seconds(bin_ns)
    )
}

fn stacks_thinned(stacks: LaunchStacks) -> String {
    let LaunchStacks { own, thinned, none } = stacks;
    let all = own.saturating_add(thinned).saturating_add(none);
    let thinned = (thinned > 0).then(|| {
        format!(
            "{thinned} came faster than 1,000 a second in a thread, or before their code could be unwound, and are shown in the last stack \
             of the same call site (where it has several callers, in the proportion of the stacks taken)"
        )
    });
    let none =
        (none > 0).then(|| format!("{none} are in no stack, because none was taken at their call site"));
    let parts: Vec<String> = thinned.into_iter().chain(none).collect();
    format!(
        "of {all} GPU launches {own} had their own stack taken; {}. All are counted, with their joules",
        parts.join("; ")
    )
}
