//! Words on the command line that stand for values of other rooms, each with its line of help.
//!
//! Leaves out what the values do: the rooms that own them know nothing of a command line.

use crate::plan::GpuLevel;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use energy_trace_export::{FORMATS, Format};
use energy_trace_model::profile::View;
use energy_trace_model::profile::options::{IdlePolicy, Method};
use energy_trace_model::recording::record::Unwinding;
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_power::source_words;
use energy_trace_probe::event::EventChoice;
use energy_trace_report::folded::Per;
use energy_trace_report::{By, Level};

/// One word: the value, the word, its line of help.
type Choice<T> = (T, &'static str, &'static str);

/// Where the energy of worker threads is charged.
pub(super) fn view() -> impl TypedValueParser<Value = View> {
    one_of(&[
        (View::Logical, "logical", "To the Python call that the thread works for"),
        (View::Physical, "physical", "To the thread's own stack"),
    ])
}

/// How idle energy is accounted for.
pub(super) fn idle_policy() -> impl TypedValueParser<Value = IdlePolicy> {
    one_of(&[
        (
            IdlePolicy::Separate,
            "separate",
            "In rows of their own, `[idle package-0]` and `[GPU idle]`, charged to no program",
        ),
        (IdlePolicy::Exclude, "exclude", "Like separate, and left out of flame graphs and exports"),
        (
            IdlePolicy::Proportional,
            "proportional",
            "Charged to the code that ran, in proportion to its energy above idle (none where that is negative)",
        ),
        (
            IdlePolicy::ActiveTime,
            "active-time",
            "Charged to the code that ran on the domain's CPUs, in proportion to its CPU time",
        ),
        (
            IdlePolicy::Equal,
            "equal",
            "Charged in equal parts: one to each recorded thread that ran on the domain's CPUs, one to all other programs together",
        ),
    ])
}

/// How energy above idle is split.
pub(super) fn method() -> impl TypedValueParser<Value = Method> {
    one_of(&[
        (Method::Time, "time", "By CPU time"),
        (
            Method::Weighted,
            "weighted",
            "By CPU time and the power of each function, where the run shows it; by CPU time elsewhere",
        ),
    ])
}

/// What one row of a table stands for.
pub(super) fn rows() -> impl TypedValueParser<Value = By> {
    one_of(&[
        (By::Function, "function", "Functions, with public calls of packages by their public names"),
        (By::Python, "python", "Python functions, with all native code that they call"),
        (By::Line, "line", "Source lines, where they are known (native ones need `record --inlines`)"),
        (By::Stack, "stack", "Call stacks"),
        (By::Api, "api", "Calls of packages, such as torch.autograd.backward or keras.Model.fit"),
        (By::Call, "call", "Lines of the program, and what each calls"),
        (By::Library, "library", "Libraries, Python packages and the kernel"),
        (By::Thread, "thread", "Threads"),
        (By::Process, "process", "Processes"),
        (
            By::Range,
            "range",
            "Ranges that the program marks (`record --ranges`), each within those around it",
        ),
        (By::Phase, "phase", "Stretches of the run in which different functions ran, found without marks"),
    ])
}

/// What two recordings are compared in.
pub(super) fn compared() -> impl TypedValueParser<Value = By> {
    one_of(&[
        (By::Python, "python", "Python functions, with all that they call"),
        (By::Api, "api", "Calls of packages, with all that they call"),
        (By::Call, "call", "Lines of the program and what each calls, with all of that"),
        (By::Line, "line", "Lines of the program, with all that they call"),
        (By::Function, "function", "Functions themselves, native ones too"),
    ])
}

/// Which frames of native code are shown.
pub(super) fn native_frames() -> impl TypedValueParser<Value = NativeFrames> {
    one_of(&[
        (NativeFrames::All, "all", "All, the Python interpreter's own too"),
        (
            NativeFrames::Libraries,
            "libraries",
            "Those of libraries and the kernel; the interpreter's go into the Python function",
        ),
        (NativeFrames::None, "none", "None: all native code goes into the Python function that calls it"),
    ])
}

/// What stacks are kept apart by.
pub(super) fn per() -> impl TypedValueParser<Value = Per> {
    one_of(&[
        (Per::Process, "process", "Processes, by name"),
        (Per::Thread, "thread", "Processes and threads, by name"),
        (Per::None, "none", "Nothing"),
    ])
}

/// A format of another tool.
pub(super) fn export_format() -> impl TypedValueParser<Value = &'static Format> {
    let words = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.help));
    PossibleValuesParser::new(words).map(|typed| Format::named(&typed).unwrap_or(&FORMATS[0]))
}

/// Which calls are rows.
pub(super) fn level() -> impl TypedValueParser<Value = Level> {
    one_of(&[
        (Level::All, "all", "Every call; self energy goes to the innermost one of a stack"),
        (Level::Outer, "outer", "The outermost call of each stack"),
        (Level::Inner, "inner", "The innermost call of each stack"),
        (Level::Tree, "tree", "Every call below its caller"),
    ])
}

/// Where native stacks are unwound.
pub(super) fn unwinding() -> impl TypedValueParser<Value = Unwinding> {
    one_of(&[
        (
            Unwinding::Kernel,
            "kernel",
            "In the kernel, by BPF programs with tables made from .eh_frame; in user space where that is not possible",
        ),
        (Unwinding::User, "user", "In user space only, from copies of the stack"),
    ])
}

/// Whether turns on CPUs are recorded.
pub(super) fn slices() -> impl TypedValueParser<Value = bool> {
    one_of(&[
        (true, "yes", "Each turn of a thread"),
        (false, "no", "Sums of each process, between readings of power"),
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
            "Split by the running time of each GPU kernel, measured with CUPTI inside the program; adds a cost to each launch, which the report shows",
        ),
    ])
}

/// One line for `--power`, from the table of sources.
pub(super) fn power_help() -> String {
    let words: Vec<String> = source_words().map(|(word, _)| word).collect();
    format!("Power source; may be repeated [default: auto] [possible values: {}]", words.join(", "))
}

/// The same with a line for each source.
pub(super) fn power_long_help() -> String {
    let lines: String = source_words().map(|(word, help)| format!("\n- {word}: {help}")).collect();
    format!("Power source; may be repeated\n\nPossible values:{lines}\n\n[default: auto]")
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
