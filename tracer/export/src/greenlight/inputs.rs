//! Sizes of a call's arguments, as they were noted in some of its calls. Leaves out how (`tracer/data/python_input_sizes.py`).

use super::sites::Site;
use energy_trace_model::collections::Order as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{Input, InputRole, InputSize, InputSizes};
use energy_trace_report::calls::CallTable;
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of arrays in the call that was seen most; `null` where no size is known. Which arguments were passed by name is not known: named
/// ones are those that the function has no parameter for.
#[derive(Serialize)]
pub(super) struct InputSizesLine {
    args_size: Option<u64>,
    kwargs_size: Option<u64>,
    object_size: Option<u64>,
    /// Sizes are those of some calls, not of all.
    sampled: bool,
    /// Calls that were looked at.
    calls_seen: u64,
    /// Each different one, the most frequent first.
    calls: Vec<CallLine>,
}

#[derive(Serialize)]
struct CallLine {
    seen: u64,
    inputs: Vec<InputLine>,
}

#[derive(Serialize)]
struct InputLine {
    name: String,
    role: InputRole,
    #[serde(rename = "type")]
    of_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<Vec<Option<u64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dtype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
}

/// What was noted, by public name, file and line.
pub(super) struct Sizes<'a>(BTreeMap<(String, String, u32), Vec<&'a InputSizes>>);

impl<'a> Sizes<'a> {
    pub(super) fn of(profile: &'a Profile) -> Self {
        let mut sizes: BTreeMap<_, Vec<&InputSizes>> = BTreeMap::new();
        if !profile.input_sizes.is_empty() {
            let table = CallTable::new(profile);
            for noted in &profile.input_sizes {
                let (Some(name), Some(place)) = (table.public_name(noted.frame), &noted.caller) else {
                    continue;
                };
                sizes.entry((name.to_owned(), place.file.clone(), place.line)).or_default().push(noted);
            }
        }
        Self(sizes)
    }

    pub(super) fn line(&self, site: &Site) -> InputSizesLine {
        let key = |(file, line): &(String, u32)| (site.api.clone(), file.clone(), *line);
        let noted = site.place.as_ref().and_then(|place| self.0.get(&key(place)));
        let mut noted: Vec<&InputSizes> = noted.cloned().unwrap_or_default();
        noted.order_by_key(|noted| std::cmp::Reverse(noted.seen));
        let most = noted.first().map_or(&[][..], |noted| &noted.inputs);
        let size = |roles: &[InputRole]| {
            let of_roles = most.iter().filter(|input| roles.contains(&input.role));
            of_roles.filter_map(|input| input.size.bytes()).reduce(u64::saturating_add)
        };
        InputSizesLine {
            args_size: size(&[InputRole::Argument, InputRole::Rest]),
            kwargs_size: size(&[InputRole::Keyword]),
            object_size: size(&[InputRole::Object]),
            sampled: !noted.is_empty(),
            calls_seen: noted.iter().map(|noted| noted.seen).fold(0, u64::saturating_add),
            calls: noted.iter().map(|noted| CallLine::of(noted)).collect(),
        }
    }
}

impl CallLine {
    fn of(noted: &InputSizes) -> Self {
        Self { seen: noted.seen, inputs: noted.inputs.iter().map(InputLine::of).collect() }
    }
}

impl InputLine {
    fn of(input: &Input) -> Self {
        let (name, of_type, role) = (input.name.clone(), input.of_type.clone(), input.role);
        let line = Self { name, role, of_type, shape: None, dtype: None, bytes: None, length: None };
        match &input.size {
            InputSize::Array { shape, dtype, bytes } => {
                let dtype = Some(dtype.clone()).filter(|dtype| !dtype.is_empty());
                Self { shape: Some(shape.clone()), dtype, bytes: *bytes, ..line }
            }
            InputSize::Length(length) => Self { length: Some(*length), ..line },
            InputSize::Unknown => line,
        }
    }
}
