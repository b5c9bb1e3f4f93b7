//! What the module that notes sizes of arguments told (`data/python_input_sizes.py`), among the lines of `python_calls`.
//!
//! Belongs to the resolver: any program may have written it. A line that makes no sense is passed over; how many lines, arguments and dimensions
//! are kept is limited. Leaves out how the lines came here.

use super::python_calls::{PythonFunction, named};
use energy_trace_model::recording::record::{CallPlace, Input, InputRole, InputSize};
use energy_trace_system::roles::room::list;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Different calls, arguments of one, and dimensions of one that are kept.
const MOST_CALLS: usize = 20_000;
const MOST_ARGUMENTS: usize = 256;
const MOST_DIMENSIONS: usize = 32;
/// Characters of a name that are kept.
const LONGEST: usize = 200;

/// A function, the line of the program that called it, and what with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PythonCall {
    /// Which.
    pub function: PythonFunction,
    /// From where, where that is known.
    pub caller: Option<CallPlace>,
    /// With what.
    pub inputs: Vec<Input>,
}

/// What was told by all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonInputs {
    /// Calls that were looked at, those of which nothing is kept, and what it took, in nanoseconds.
    pub looks: u64,
    /// Of these.
    pub left_out: u64,
    /// In nanoseconds of CPU time.
    pub cost_ns: u64,
    /// Calls that were passed over because looking had had its share of the program's time.
    pub passed: u64,
    /// Functions of which no call was looked at for that reason, in the process that has most of them: others may be the same.
    pub unseen: u64,
    /// Each different call, and how often it was seen.
    #[serde(deserialize_with = "list")]
    pub calls: Vec<(PythonCall, u64)>,
    /// Where each stands.
    #[serde(skip)]
    places: HashMap<PythonCall, usize>,
}

impl PythonInputs {
    /// Looks, those that were left out, nanoseconds, calls passed over, functions without a look.
    pub(super) fn add_cost<'a>(&mut self, mut fields: impl Iterator<Item = &'a str>) {
        let mut next = || fields.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let (looks, left_out, cost_ns, passed, unseen) = (next(), next(), next(), next(), next());
        self.looks = self.looks.saturating_add(looks);
        self.left_out = self.left_out.saturating_add(left_out);
        self.cost_ns = self.cost_ns.saturating_add(cost_ns);
        self.passed = self.passed.saturating_add(passed);
        self.unseen = self.unseen.max(unseen);
    }

    /// A function, the file and line that called it, how often, arguments.
    pub(super) fn add<'a>(&mut self, mut fields: impl Iterator<Item = &'a str>) {
        let Some((call, seen)) = call_of(&mut fields) else { return };
        match self.places.get(&call) {
            Some(&place) => {
                if let Some((_, sum)) = self.calls.get_mut(place) {
                    *sum = sum.saturating_add(seen);
                }
            }
            None if self.calls.len() < MOST_CALLS => {
                self.places.insert(call.clone(), self.calls.len());
                self.calls.push((call, seen));
            }
            None => self.left_out = self.left_out.saturating_add(seen),
        }
    }
}

fn call_of<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<(PythonCall, u64)> {
    let function = named(fields)?;
    let (file, line) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
    let seen = fields.next()?.parse().ok()?;
    let inputs = fields.next()?.split('\x1e').take(MOST_ARGUMENTS).filter_map(input_of).collect();
    let caller = (!file.is_empty()).then_some(CallPlace { file, line });
    Some((PythonCall { function, caller, inputs }, seen))
}

fn input_of(text: &str) -> Option<Input> {
    let mut fields = text.split('\x1f');
    let mut name = || fields.next().map(|name| name.chars().take(LONGEST).collect::<String>());
    let (of_name, role, of_type) = (name()?, name()?, name()?);
    let (kind, size, dtype, bytes) = (name()?, name()?, name()?, name()?);
    let role = match role.as_str() {
        "O" => InputRole::Object,
        "A" => InputRole::Argument,
        "R" => InputRole::Rest,
        "K" => InputRole::Keyword,
        _ => return None,
    };
    let size = match kind.as_str() {
        "A" => InputSize::Array { shape: shape_of(&size)?, dtype, bytes: bytes.parse().ok() },
        "L" => InputSize::Length(size.parse().ok()?),
        "U" => InputSize::Unknown,
        _ => return None,
    };
    Some(Input { name: of_name, role, of_type, size })
}

/// `32 ? 8`: a dimension that is no number is not known.
fn shape_of(text: &str) -> Option<Vec<Option<u64>>> {
    let dimension = |word: &str| if word == "?" { Some(None) } else { word.parse().ok().map(Some) };
    let shape: Option<Vec<_>> = text.split(' ').filter(|word| !word.is_empty()).map(dimension).collect();
    shape.filter(|shape| shape.len() <= MOST_DIMENSIONS)
}

#[cfg(test)]
mod tests {
    use super::super::python_calls::read_calls;
    use super::{CallPlace, Input, InputRole, InputSize};

    fn argument(fields: [&str; 7]) -> String {
        fields.join("\x1f")
    }

    /// Arrays have their dimensions, collections their length; the same call in two processes adds up, and costs do.
    #[test]
    fn what_processes_tell() {
        let x = argument(["x", "A", "numpy.ndarray", "A", "512 ? 8", "float32", "16384"]);
        let rest = argument(["*more[0]", "R", "list", "L", "3", "", ""]);
        let line = format!("A\tModel.fit\t/k.py\t7\t/train.py\t12\t4\t{x}\x1e{rest}\n");
        let text = format!("L\t9\t1\t500\t70\t3\n{line}{line}L\t1\t0\t10\t5\t2\nA\tf\t/f.py\t1\t\t0\t2\t\n");
        let found = read_calls(text.as_bytes()).unwrap().inputs;
        assert_eq!((found.looks, found.left_out, found.cost_ns), (10, 1, 510));
        assert_eq!((found.passed, found.unseen), (75, 3));
        let [(fit, 8), (bare, 2)] = found.calls.as_slice() else { panic!("{:?}", found.calls) };
        assert_eq!(fit.caller, Some(CallPlace { file: "/train.py".into(), line: 12 }));
        let shape = vec![Some(512), None, Some(8)];
        let array = InputSize::Array { shape, dtype: "float32".into(), bytes: Some(16_384) };
        let [Input { name, role: InputRole::Argument, size, .. }, Input { size: InputSize::Length(3), .. }] =
            fit.inputs.as_slice()
        else {
            panic!("{:?}", fit.inputs)
        };
        assert_eq!((name.as_str(), size), ("x", &array));
        assert!(bare.caller.is_none() && bare.inputs.is_empty());
    }

    /// Whatever a program tells, it is taken in or passed over.
    #[test]
    fn nonsense() {
        let much =
            format!("A\tf\t/f\t1\t/p\t1\t1\t{}\n", argument(["x", "A", "t", "A", &"1 ".repeat(99), "", ""]));
        for text in ["A\n", "A\tf\t/f\t-1\t\t\t\t\n", "L\tx\n", "A\tf\t/f\t1\t/p\t1\tmany\tx\n"] {
            let found = read_calls(text.as_bytes()).unwrap().inputs;
            assert!(found.calls.is_empty() && found.looks == 0, "{text}");
        }
        let found = read_calls(much.as_bytes()).unwrap().inputs;
        assert!(found.calls[0].0.inputs.is_empty(), "an array of 99 dimensions is none");
        let many: String = (0..20_005).map(|line| format!("A\tf\t/f\t1\t/p\t{line}\t1\t\n")).collect();
        let found = read_calls(many.as_bytes()).unwrap().inputs;
        assert_eq!((found.calls.len(), found.left_out), (20_000, 5));
    }
}
