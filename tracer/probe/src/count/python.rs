//! Calls of Python functions, as the module in the command told them: functions become frames, and what went wrong is said.
//!
//! What was told is read by a resolver's worker. Leaves out the module and the way of its words (`tracee/python_counting.rs`).

use crate::stacks::builder::StackBuilder;
use energy_trace_model::recording::record::{
    CallCount, CallDiagnostic, CallTimes, Frame, FrameKind, InputSizes, Owner, PythonNotCounted, Record,
};
use energy_trace_symbols::python_calls::{PythonCalls, PythonCount, PythonFunction};
use energy_trace_unwind::cpython::module_name::module_by_path;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};

/// Damage to a recording stays as small as a record.
const MOST_IN_A_RECORD: usize = 64;

/// How the file of what was told is called in warnings.
const LABEL: &str = "counts of Python functions";

/// Whether functions of Python were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfPython {
    /// None was called that is counted.
    None,
    /// Some were.
    Counted,
    /// There is Python, and not all of it told.
    Unknown,
}

impl OfPython {
    /// Of a program whose Python told nothing.
    pub(crate) fn untold(stacks: &StackBuilder) -> Self {
        let any = stacks.out.frames().any(|(frame, _)| frame.kind == FrameKind::Python);
        if any { Self::Unknown } else { Self::None }
    }
}

/// Sends what was told, and says what the reader must know of it, and whether functions were counted.
pub(crate) fn send_python_counts(told: &[u8], stacks: &mut StackBuilder) -> (Vec<CallDiagnostic>, OfPython) {
    let calls = match read(told, stacks) {
        Ok(calls) => calls,
        Err(error) => {
            let why = PythonNotCounted::NoModule { error };
            return (vec![CallDiagnostic::PythonNotCounted(why)], OfPython::untold(stacks));
        }
    };
    let known: HashMap<PythonFunction, String> =
        stacks.out.frames().filter_map(|(frame, _)| function_of(frame)).collect();
    let mut counts = Vec::new();
    for (function, count) in &calls.functions {
        let seen = known.get(function).cloned();
        let module = seen.unwrap_or_else(|| module_by_path(&function.file));
        let frame = stacks.out.python_frame(Owner::Several, frame_of(function, module), None);
        counts.push(call_count(frame, count));
    }
    let any = !counts.is_empty();
    if any {
        stacks.out.send(Record::Calls(counts));
    }
    send_inputs(&calls, &known, stacks);
    let found = diagnose(&calls, !known.is_empty());
    let is_untold = found.iter().any(|found| matches!(found, CallDiagnostic::PythonNotCounted(_)));
    let of_python = match (any, is_untold) {
        (true, _) => OfPython::Counted,
        (false, true) => OfPython::Unknown,
        (false, false) => OfPython::None,
    };
    (found, of_python)
}

/// Sends what functions were called with.
fn send_inputs(calls: &PythonCalls, known: &HashMap<PythonFunction, String>, stacks: &mut StackBuilder) {
    let mut sizes = Vec::new();
    for (call, seen) in &calls.inputs.calls {
        let module = known.get(&call.function).cloned();
        let module = module.unwrap_or_else(|| module_by_path(&call.function.file));
        let frame = stacks.out.python_frame(Owner::Several, frame_of(&call.function, module), None);
        let (caller, inputs) = (call.caller.clone(), call.inputs.clone());
        sizes.push(InputSizes { frame, caller, inputs, seen: *seen });
    }
    for some in sizes.chunks(MOST_IN_A_RECORD) {
        stacks.out.send(Record::InputSizes(some.to_vec()));
    }
}

fn read(told: &[u8], stacks: &StackBuilder) -> Result<PythonCalls, String> {
    let kept = || -> io::Result<File> {
        let mut file = File::from(memfd_create("counts", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(told)?;
        Ok(file)
    };
    let file = kept().map_err(|error| error.to_string())?;
    stacks.worker.python_calls(LABEL, &file).map_err(|error| error.to_string())
}

/// The function of a frame that a sample showed, and its module.
fn function_of(frame: &Frame) -> Option<(PythonFunction, String)> {
    let Frame { kind, name, module, file, first_line, .. } = frame;
    let function = PythonFunction { name: name.clone(), file: file.clone(), first_line: *first_line };
    (*kind == FrameKind::Python).then(|| (function, module.clone()))
}

fn frame_of(function: &PythonFunction, module: String) -> Frame {
    let PythonFunction { name, file, first_line } = function.clone();
    Frame { kind: FrameKind::Python, name, module, file, line: first_line, first_line, address: 0 }
}

fn call_count(frame: energy_trace_model::ids::FrameId, count: &PythonCount) -> CallCount {
    let times = count.quantiles.map(|[p50_ns, p95_ns, p99_ns]| CallTimes { p50_ns, p95_ns, p99_ns });
    CallCount { frame, calls: count.calls, nested: count.nested, times }
}

fn diagnose(calls: &PythonCalls, is_python: bool) -> Vec<CallDiagnostic> {
    let PythonCalls { began, told, taken, old, call_ns, firsts_ns, functions, inputs } = calls;
    let mut found = Vec::new();
    let mut not_counted = |why| found.push(CallDiagnostic::PythonNotCounted(why));
    for version in old {
        not_counted(PythonNotCounted::Version { version: version.clone() });
    }
    if is_python && *began == 0 && *taken == 0 && old.is_empty() {
        not_counted(PythonNotCounted::NotLoaded);
    }
    if *taken > 0 {
        not_counted(PythonNotCounted::Taken);
    }
    if began > told {
        not_counted(PythonNotCounted::Untold { processes: began - told });
    }
    let calls = functions.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(count.calls));
    if calls > 0 {
        found.push(CallDiagnostic::PythonCost {
            calls,
            call_ns: call_ns.saturating_add(firsts_ns / calls.max(1)),
            functions: functions.len() as u64,
        });
    }
    if inputs.looks > 0 {
        let (looks, left_out, cost_ns) = (inputs.looks, inputs.left_out, inputs.cost_ns);
        found.push(CallDiagnostic::InputSizes { looks, left_out, cost_ns });
    }
    if inputs.passed > 0 {
        let (passed, unseen) = (inputs.passed, inputs.unseen);
        found.push(CallDiagnostic::InputSizesLimited { passed, unseen });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{CallDiagnostic, PythonCalls, PythonCount, PythonFunction, diagnose};

    /// What the first call of each code took is part of what counting took.
    #[test]
    fn first_calls_cost() {
        let function = PythonFunction { name: "f".into(), file: "/x.py".into(), first_line: 1 };
        let functions = vec![(function, PythonCount { calls: 10, ..PythonCount::default() })];
        let calls = PythonCalls {
            began: 1,
            told: 1,
            call_ns: 1000,
            firsts_ns: 50_000,
            functions,
            ..PythonCalls::default()
        };
        let found = diagnose(&calls, true);
        assert_eq!(found.iter().map(CallDiagnostic::cost_ns).collect::<Vec<_>>(), [60_000]);
    }
}
