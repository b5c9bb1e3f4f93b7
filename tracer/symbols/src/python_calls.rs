//! What the module that counts calls of Python functions told (`data/count_python_calls.py`), as lines of text.
//!
//! Belongs to the resolver: any program may have written it. A line that makes no sense is passed over; how many functions, times and versions
//! are kept is limited. Times come as counts by length, each rounded down to five binary digits. Leaves out how the lines came here.

use super::python_inputs::PythonInputs;
use energy_trace_model::recording::names::cut_of;
use energy_trace_system::roles::room::list;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read};

/// Functions, and different times of one, that are kept.
const MOST_FUNCTIONS: usize = 100_000;
const MOST_TIMES: usize = 2_000;
/// Bytes of a line that are read.
const LONGEST_LINE: u64 = 1 << 20;

/// A function of Python.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PythonFunction {
    /// Its qualified name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its first line.
    pub first_line: u32,
}

/// Calls of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonCount {
    /// All of them.
    pub calls: u64,
    /// Those within another one by the same thread.
    pub nested: u64,
    /// The median of the others' times, in nanoseconds, and what one in twenty and one in a hundred exceeds; `None` where no time is known.
    pub quantiles: Option<[u64; 3]>,
}

/// What was told by all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonCalls {
    /// Processes that began to count, and those that told what they had counted.
    pub began: u64,
    /// Of these.
    pub told: u64,
    /// Processes in which another tool has the place.
    pub taken: u64,
    /// Versions that cannot count.
    pub old: BTreeSet<String>,
    /// Nanoseconds that counting a call takes, at the least.
    pub call_ns: u64,
    /// Nanoseconds that looking at code took at its first call, beside.
    pub firsts_ns: u64,
    /// The functions.
    #[serde(deserialize_with = "list")]
    pub functions: Vec<(PythonFunction, PythonCount)>,
    /// What functions were called with.
    pub inputs: PythonInputs,
}

#[derive(Default)]
struct Sum {
    calls: u64,
    nested: u64,
    times: BTreeMap<u64, u64>,
}

/// Reads what was told.
///
/// # Errors
/// When it cannot be read.
pub fn read_calls(from: impl Read) -> io::Result<PythonCalls> {
    let (mut calls, mut sums) = (PythonCalls::default(), BTreeMap::new());
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
        if let Some(whole) = line.strip_suffix(b"\n") {
            take_line(&String::from_utf8_lossy(whole), &mut calls, &mut sums);
        }
        line.clear();
    }
    calls.functions = sums.into_iter().map(|(function, sum)| (function, sum.count())).collect();
    Ok(calls)
}

fn take_line(line: &str, calls: &mut PythonCalls, sums: &mut BTreeMap<PythonFunction, Sum>) {
    let mut fields = line.split('\t');
    match fields.next() {
        Some("S") => calls.began += 1,
        Some("E") => calls.told += 1,
        Some("T") => calls.taken += 1,
        Some("O") if calls.old.len() < 16 => {
            let version = fields.next().unwrap_or_default();
            let is_version = version.len() < 16 && version.chars().all(|c| c.is_ascii_digit() || c == '.');
            calls.old.extend(is_version.then(|| version.to_owned()));
        }
        Some("C") => {
            let [ns, firsts] = [(); 2].map(|()| fields.next().and_then(|ns| ns.parse().ok()).unwrap_or(0));
            calls.firsts_ns = calls.firsts_ns.saturating_add(firsts);
            calls.call_ns = if calls.call_ns == 0 { ns } else { calls.call_ns.min(ns) };
        }
        Some("L") => calls.inputs.add_cost(fields),
        Some("A") => calls.inputs.add(fields),
        Some("F") => {
            if let Some((function, sum)) = function_of(fields)
                && (sums.len() < MOST_FUNCTIONS || sums.contains_key(&function))
            {
                sums.entry(function).or_default().add(sum);
            }
        }
        _ => (),
    }
}

/// A function by its first three fields.
pub(super) fn named<'a>(fields: &mut impl Iterator<Item = &'a str>) -> Option<PythonFunction> {
    let (name, file) = (cut_of(fields.next()?).into_owned(), cut_of(fields.next()?).into_owned());
    Some(PythonFunction { name, file, first_line: fields.next()?.parse().ok()? })
}

fn function_of<'a>(mut fields: impl Iterator<Item = &'a str>) -> Option<(PythonFunction, Sum)> {
    let function = named(&mut fields)?;
    let (calls, nested) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let pairs = fields.next().unwrap_or_default().split(' ').filter_map(|pair| {
        let (ns, count) = pair.split_once(':')?;
        Some((ns.parse().ok()?, count.parse().ok()?))
    });
    let times = pairs.take(MOST_TIMES).collect();
    (nested <= calls).then_some((function, Sum { calls, nested, times }))
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.nested = self.nested.saturating_add(other.nested);
        for (ns, count) in other.times {
            if self.times.len() < MOST_TIMES || self.times.contains_key(&ns) {
                let sum = self.times.entry(ns).or_default();
                *sum = sum.saturating_add(count);
            }
        }
    }

    fn count(self) -> PythonCount {
        let all: u64 = self.times.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        let quantiles = (all > 0).then(|| [50, 95, 99].map(|percent| self.quantile(all, percent)));
        PythonCount { calls: self.calls, nested: self.nested, quantiles }
    }

    /// The least time that so many percent of the calls do not exceed.
    fn quantile(&self, all: u64, percent: u64) -> u64 {
        let wanted = u128::from(all) * u128::from(percent);
        let mut below = 0_u128;
        for (&ns, &count) in &self.times {
            below += u128::from(count) * 100;
            if below >= wanted {
                return ns;
            }
        }
        self.times.keys().next_back().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{PythonFunction, read_calls};

    /// Processes add up; times are those of all calls that are not nested.
    #[test]
    fn what_processes_tell() {
        let text = "S\nF\tA.f\t/x.py\t3\t98\t1\t100:90 200:7\nE\nS\nC\t1900\t30\nC\t2000\t40\nF\tA.f\t/x.py\t3\t3\t0\t4000:3\nE\nS\nO\t3.11.2\n";
        let calls = read_calls(text.as_bytes()).unwrap();
        assert_eq!((calls.began, calls.told, calls.call_ns, calls.firsts_ns), (3, 2, 1900, 70));
        assert!(calls.old.contains("3.11.2"));
        let [(function, count)] = calls.functions.as_slice() else { panic!() };
        assert_eq!(*function, PythonFunction { name: "A.f".into(), file: "/x.py".into(), first_line: 3 });
        assert_eq!((count.calls, count.nested, count.quantiles), (101, 1, Some([100, 200, 4000])));
    }

    /// Whatever a program tells, it is taken in or passed over.
    #[test]
    fn nonsense() {
        let long = format!("F\t{}\t/x.py\t1\t1\t0\t\n", "x".repeat(3 << 20));
        for text in
            ["", "F", "F\ta\tb\t-1\t1\t0\t", "F\ta\tb\t1\t1\t2\t1:1\n", "\t\t\n", "O\t../../x\n", &long, "E"]
        {
            let calls = read_calls(text.as_bytes()).unwrap();
            assert!(calls.functions.is_empty() && calls.old.is_empty() && calls.told == 0, "{text:.40}");
        }
        let huge =
            "F\ta\tb\t1\t18446744073709551615\t0\t1:18446744073709551615 2:18446744073709551615\n".repeat(2);
        assert_eq!(read_calls(huge.as_bytes()).unwrap().functions[0].1.quantiles, Some([1, 1, 1]));
        assert!(read_calls(&b"\xff\xfe\nS\n"[..]).unwrap().began == 1);
    }
}
