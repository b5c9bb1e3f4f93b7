//! Words on the command line that stand for values of other rooms, each with its line of help.
//!
//! Leaves out what the values do: the rooms that own them know nothing of a command line.

use crate::plan::GpuLevel;
use crate::probe::event::EventChoice;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use energy_trace_model::profile::View;
use energy_trace_model::profile::options::{IdlePolicy, Method};
use energy_trace_model::recording::record::Unwinding;
use energy_trace_report::By;

/// One word: the value, the word, its line of help.
type Choice<T> = (T, &'static str, &'static str);

/// Whose joules a worker thread's are.
pub(super) fn view() -> impl TypedValueParser<Value = View> {
    one_of(&[
        (View::Logical, "logical", "Those of the Python call that it works for"),
        (View::Physical, "physical", "Its own"),
    ])
}

/// What becomes of idle power.
pub(super) fn idle_policy() -> impl TypedValueParser<Value = IdlePolicy> {
    one_of(&[
        (
            IdlePolicy::Separate,
            "separate",
            "A row of its own, `[idle package-0]` or `[GPU idle]`, charged to nobody",
        ),
        (
            IdlePolicy::Exclude,
            "exclude",
            "As `separate` in the ledger, and left out of what is drawn and exported",
        ),
        (
            IdlePolicy::Proportional,
            "proportional",
            "Charged to whoever ran, in proportion to their energy above idle; what was charged below zero gets none",
        ),
        (
            IdlePolicy::ActiveTime,
            "active-time",
            "Charged to whoever ran on the domain's CPUs, in proportion to their time",
        ),
        (
            IdlePolicy::Equal,
            "equal",
            "Charged in equal parts to each thread of the target that ran on the domain's CPUs, and one part to all others together",
        ),
    ])
}

/// How energy above idle is split.
pub(super) fn method() -> impl TypedValueParser<Value = Method> {
    one_of(&[
        (Method::Time, "time", "By CPU time alone"),
        (
            Method::Weighted,
            "weighted",
            "By CPU time and learned watts, where the run shows them; by CPU time elsewhere",
        ),
    ])
}

/// What one row of a table stands for.
pub(super) fn rows() -> impl TypedValueParser<Value = By> {
    one_of(&[
        (
            By::Function,
            "function",
            "A function, or a framework's public call where the function stands for one",
        ),
        (
            By::Line,
            "line",
            "A line of a function, where lines are known (native ones with `record --inlines`)",
        ),
        (By::Stack, "stack", "A whole stack"),
        (
            By::Api,
            "api",
            "The framework calls that users name: `torch.autograd.backward`, `optimizer.step`, …",
        ),
        (By::Library, "library", "A library, a Python package, or the kernel"),
        (By::Thread, "thread", "A thread"),
        (By::Process, "process", "A process"),
    ])
}

/// Who unwinds native frames.
pub(super) fn unwinding() -> impl TypedValueParser<Value = Unwinding> {
    one_of(&[
        (Unwinding::Kernel, "kernel", "BPF programs; user space where they cannot yet"),
        (Unwinding::User, "user", "User space alone"),
    ])
}

/// What makes the kernel take a sample.
pub(super) fn sample_event() -> impl TypedValueParser<Value = EventChoice> {
    one_of(&[
        (
            EventChoice::Auto,
            "auto",
            "Hardware cycles; the CPU clock in virtual machines and where the CPU has no counters",
        ),
        (EventChoice::Cycles, "cycles", "Hardware cycles, or fail"),
        (EventChoice::CpuClock, "cpu-clock", "A timer of the kernel"),
    ])
}

/// How far GPU energy is followed.
pub(super) fn gpu_level() -> impl TypedValueParser<Value = GpuLevel> {
    one_of(&[
        (GpuLevel::Off, "off", "Leave GPUs alone"),
        (GpuLevel::Device, "device", "The energy of each GPU as a whole"),
        (GpuLevel::Launch, "launch", "Split by the call stacks that launch GPU work"),
        (
            GpuLevel::Kernel,
            "kernel",
            "Split by the running time of each GPU kernel, measured with CUPTI inside the command; slows launches, and the report says by how much",
        ),
    ])
}

/// Accepts the words of a list that is not empty, and no others.
fn one_of<T: Copy + Send + Sync + 'static>(
    choices: &'static [Choice<T>],
) -> impl TypedValueParser<Value = T> {
    let words = choices.iter().map(|&(_, word, help)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(words).map(move |typed| {
        let chosen = choices.iter().find(|(_, word, _)| *word == typed).unwrap_or(&choices[0]);
        chosen.0
    })
}

#[cfg(test)]
mod tests {
    use super::gpu_level;
    use crate::plan::GpuLevel;
    use clap::builder::TypedValueParser as _;
    use std::ffi::OsStr;

    /// Levels have the names of the manual, and no others.
    #[test]
    fn gpu_levels() {
        let parse = |word: &str| gpu_level().parse_ref(&clap::Command::new("x"), None, OsStr::new(word));
        assert_eq!((parse("off").unwrap(), parse("kernel").unwrap()), (GpuLevel::Off, GpuLevel::Kernel));
        let error = parse("kernels").unwrap_err().to_string();
        assert!(error.contains("off, device, launch, kernel"), "{error}");
    }
}
