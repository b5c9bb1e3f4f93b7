//! Sentences for what was found while calls were counted.

use super::{counted, in_seconds};
use energy_trace_model::recording::record::{CallDiagnostic, PythonNotCounted};

/// What was found, and what it changes.
pub(super) fn call_fact(found: &CallDiagnostic) -> String {
    match found {
        CallDiagnostic::Cost { calls, stepped, call_ns, stepped_ns, functions } => {
            cost(*calls, *stepped, (*call_ns, *stepped_ns), *functions, found.cost_ns())
        }
        CallDiagnostic::NotCounted { error } => {
            format!("calls of machine code were not counted: {error}")
        }
        CallDiagnostic::NotFound { names } => format!(
            "no function was found by the name {}, and nothing was counted: a name is SYMBOL@LIBRARY without parameters; libraries without \
             symbols have no names, and libraries of a process that ends within milliseconds may not be seen",
            names.join(", ")
        ),
        CallDiagnostic::TooMany { library, most } => {
            format!("calls of {most} functions are counted at the most: others of {library} were left out")
        }
        CallDiagnostic::PythonCost { calls, call_ns, functions } => format!(
            "counting {} of {} took the program about {:.2} s of CPU time ({} each, with a look at each function and telling units of work); \
             {IN_ITS_JOULES}",
            counted(*calls, "call"),
            counted(*functions, "Python function"),
            in_seconds(found.cost_ns()),
            duration(*call_ns)
        ),
        CallDiagnostic::PythonNotCounted(why) => python_fact(why),
        CallDiagnostic::InputSizes { looks, left_out, cost_ns } => input_sizes(*looks, *left_out, *cost_ns),
        CallDiagnostic::InputSizesLimited { passed, unseen } => input_sizes_limited(*passed, *unseen),
        CallDiagnostic::Late { library, pid, late_ns } => format!(
            "calls of {library} are counted from {:.1} s after process {pid} had loaded it: earlier ones are missing, so counts are lower \
             bounds and energy per call is an upper bound",
            in_seconds(*late_ns)
        ),
    }
}

fn input_sizes(looks: u64, left_out: u64, cost_ns: u64) -> String {
    let rest = match left_out {
        0 => String::new(),
        _ => {
            format!("; {left_out} were not kept, because their function and line had 16 other sizes already")
        }
    };
    format!(
        "sizes of arguments are those of {} that were examined, not of all; that took the program {:.2} s of CPU time{rest}",
        counted(looks, "call"),
        in_seconds(cost_ns)
    )
}

fn input_sizes_limited(passed: u64, unseen: u64) -> String {
    let unseen = match unseen {
        0 => "of every function at least one call was examined".to_owned(),
        1 => "of one function no call was examined".to_owned(),
        _ => format!("of {unseen} functions no call was examined"),
    };
    format!(
        "the arguments of {} were skipped, because examining them may take 1 % of the program's CPU time: {unseen}; \
         `--count=NAME` limits it to the functions of that name",
        counted(passed, "call")
    )
}

const IN_ITS_JOULES: &str = "that time is in its joules: count fewer functions to lower it";

fn cost(calls: u64, stepped: u64, (call_ns, stepped_ns): (u64, u64), functions: u64, ns: u64) -> String {
    let each = match stepped {
        0 => format!("{} each", duration(call_ns)),
        _ => format!(
            "{} each, and {} where the kernel steps through a function's first instruction: {}",
            duration(call_ns),
            duration(stepped_ns),
            counted(stepped, "call")
        ),
    };
    format!(
        "counting {} of machine code ({} probed) took the program about {:.2} s of CPU time ({each}, measured \
         on this machine); {IN_ITS_JOULES}",
        counted(calls, "call"),
        counted(functions, "function"),
        in_seconds(ns)
    )
}

fn python_fact(why: &PythonNotCounted) -> String {
    match why {
        PythonNotCounted::Version { version } => format!(
            "calls of Python functions were not counted: {version} does not report them (3.12 and later do); those of machine code were"
        ),
        PythonNotCounted::Attached => {
            "calls of Python functions are counted in programs that energy-trace starts; this one ran already"
                .to_owned()
        }
        PythonNotCounted::Untold { processes } => format!(
            "{} ended without reporting {} counts (killed, or by os._exit or exec): those calls are missing",
            counted(*processes, "Python process"),
            if *processes == 1 { "its" } else { "their" }
        ),
        PythonNotCounted::NotLoaded => {
            "calls of Python functions were not counted: the interpreter did not load the module that counts (python -I, -E, -S)".to_owned()
        }
        PythonNotCounted::Taken => {
            "calls of Python functions were not counted: another profiler is active in the interpreter"
                .to_owned()
        }
        PythonNotCounted::NoModule { error } => {
            format!(
                "calls of Python functions were not counted: the module that counts cannot be installed: {error}"
            )
        }
    }
}

/// Why nothing is counted of functions of Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPython {
    /// Nobody called them.
    Uncalled,
    /// The program ran already.
    Attached,
    /// Its Python reports no calls.
    Old,
}

/// That calls which are units of work, by their words, have nothing that could be counted yet, and what to do.
pub fn no_such_functions(words: &[&str], why: NoPython) -> String {
    let others = words.len().saturating_sub(3);
    let mut names = words.iter().take(3).map(|words| format!("calls:{words}")).collect::<Vec<_>>().join(", ");
    if others > 0 {
        names = format!("{names} and {others} more");
    }
    let python = match why {
        NoPython::Uncalled => "no function of Python (3.12 and later) was called so",
        NoPython::Attached => {
            "Python's are counted only in a program that energy-trace starts (record --work … -- PROGRAM)"
        }
        NoPython::Old => "those of this Python cannot be counted (3.12 and later report them)",
    };
    format!(
        "nothing is counted yet of {names}: no machine code of that name was found, and {python}; one in a library is \
         calls:NAME@LIBRARY (calls:rename@libc.so)"
    )
}

/// A short time in the unit that fits.
fn duration(ns: u64) -> String {
    match ns {
        0..1000 => format!("{ns} ns"),
        _ => format!("{:.1} µs", in_seconds(ns) * 1e6),
    }
}
