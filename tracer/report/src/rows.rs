//! The rows of a table, for each thing that a row can stand for.
//!
//! Whatever the rows are, each unit of the target's energy is own energy of exactly one of them. Leaves out how rows look (`table.rs`).

use super::By;
use super::apart::{self, told_apart};
use super::call_rows::{Level, api_rows, in_tree_order, site_rows};
use super::calls::Kind;
use super::counts::by_api;
use super::fold::{Interner, Spent, fold};
use super::functions::{FunctionTable, MISSING, functions, order};
use super::phases::phase_rows;
use super::ranges::range_rows;
use super::row::Row;
use super::run::chosen;
use super::uncertainty::{LOW_SAMPLES, UNIDENTIFIED, Uncertainties};
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::ids::{FrameId, ProcessKey, ThreadKey};
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::{place_name, process_row_name, thread_row_name};
use std::collections::BTreeMap;

/// The rows of a profile, those with the most energy of their own first.
pub fn rows(profile: &Profile, by: By) -> Vec<Row> {
    rows_at(profile, by, Level::All)
}

/// The same, with the calls of this level where rows are calls. A tree is in its own order: each row below its caller's. Phases are in order of
/// appearance.
pub fn rows_at(profile: &Profile, by: By, level: Level) -> Vec<Row> {
    let uncertainties = Uncertainties::new(profile);
    let mut rows = match by {
        By::Function => functions(profile).into_iter().map(|function| function.row).collect(),
        By::Python => {
            let python = native_frames::folded(profile, NativeFrames::None);
            frame_rows(&python, &uncertainties, told_apart(&python, place_name))
        }
        By::Line => frame_rows(profile, &uncertainties, apart::lines(profile)),
        By::Stack => stack_rows(profile, &uncertainties),
        By::Api => api_rows(profile, level, &uncertainties),
        By::Call => site_rows(profile, &uncertainties),
        By::Library => frame_rows(profile, &uncertainties, apart::libraries(profile)),
        By::Thread => thread_rows(profile, &uncertainties),
        By::Process => process_rows(profile, &uncertainties),
        By::Range => range_rows(profile, &uncertainties),
        By::Phase => phase_rows(profile, &uncertainties),
    };
    if by == By::Api {
        let calls = by_api(profile);
        let of_calls = rows.iter_mut().filter(|row| row.kind == Some(Kind::Call));
        of_calls.for_each(|row| row.calls = calls.get(&row.name).copied());
    }
    if (by, level) == (By::Api, Level::Tree) {
        return in_tree_order(rows, |row| chosen(&row.spent.total.energy, uncertainties.choice).as_uj());
    }
    if by == By::Phase {
        return rows;
    }
    rows.order_by_cached_key(|row| order(uncertainties.choice, &row.spent, &row.name));
    rows
}

/// What is doubtful about a row's number, in one character. `is_modelled`: no row's power is known (`run::is_modelled`).
pub(crate) fn mark(flags: &[&'static str], is_modelled: bool) -> &'static str {
    match (flags.contains(&UNIDENTIFIED) && !is_modelled, flags.contains(&LOW_SAMPLES)) {
        (true, _) => "?",
        (false, true) => "~",
        (false, false) => "",
    }
}

/// What stands below a table: how many rows it leaves out, and what the marks of the others mean.
pub(crate) fn notes(hidden: usize, marks: &[&str]) -> Vec<String> {
    let hidden = (hidden > 0).then(|| format!("and {hidden} more"));
    let rough = marks.contains(&"~").then(|| "~ fewer than 100 samples".to_owned());
    let open = "? this run cannot separate its power from other code";
    let open = marks.contains(&"?").then(|| open.to_owned());
    hidden.into_iter().chain(rough).chain(open).collect()
}

/// Rows of the names of the frames of a stack; `of_frames`: what each frame of the profile is called.
pub(crate) fn frame_rows(
    profile: &Profile,
    uncertainties: &Uncertainties<'_>,
    of_frames: Vec<String>,
) -> Vec<Row> {
    let mut names = Interner::new();
    let unsampled = names.number(SyntheticFrame::Unsampled.name().to_owned());
    let missing = names.number(MISSING.to_owned());
    let of_frame: Vec<usize> = of_frames.into_iter().map(|name| names.number(name)).collect();
    let groups = fold(profile, |row, path| {
        let Some(stack) = row.stack else { return path.push(unsampled) };
        let named = |(frame, _): (FrameId, _)| of_frame.get(frame.index()).copied().unwrap_or(missing);
        path.extend(profile.frames_of(stack).map(named));
        if path.is_empty() {
            path.push(missing);
        }
    });
    labelled(groups, uncertainties, |number| names.labels().get(number).cloned())
}

fn stack_rows(profile: &Profile, uncertainties: &Uncertainties<'_>) -> Vec<Row> {
    let table = FunctionTable::of_symbols(profile);
    let behind = table.behind();
    let mut stacks = Interner::new();
    let groups = fold(profile, |row, path| {
        let mut stack = Vec::new();
        table.path(row, &mut stack);
        path.push(stacks.number(stack));
    });
    let row = |(number, spent): (usize, (Spent, Vec<usize>))| {
        let frames = stacks.labels().get(number).map(Vec::as_slice).unwrap_or_default();
        let mut names = frames
            .iter()
            .rev()
            .map(|&function| table.name(function) + behind.get(function).map_or("", String::as_str));
        let mut row = Row::new(names.next().unwrap_or_else(|| MISSING.to_owned()), spent, uncertainties);
        row.callers = names.collect();
        row
    };
    groups.into_iter().map(row).collect()
}

fn thread_rows(profile: &Profile, uncertainties: &Uncertainties<'_>) -> Vec<Row> {
    let groups = fold(profile, |row, path| path.push(row.thread));
    labelled(groups, uncertainties, |key| {
        let thread = profile.threads.get(key.index())?;
        Some(thread_row_name(profile, thread))
    })
}

fn process_rows(profile: &Profile, uncertainties: &Uncertainties<'_>) -> Vec<Row> {
    let groups = fold(profile, |row, path| path.push(process_of(profile, row)));
    labelled(groups, uncertainties, |key: Option<ProcessKey>| {
        let process = profile.processes.get(key?.index())?;
        Some(process_row_name(profile, process))
    })
}

/// What each thread spent.
pub(crate) fn by_thread(profile: &Profile) -> BTreeMap<ThreadKey, Spent> {
    spent(fold(profile, |row, path| path.push(row.thread)))
}

/// What each process spent; `None` gathers threads that a damaged recording does not define.
pub(crate) fn by_process(profile: &Profile) -> BTreeMap<Option<ProcessKey>, Spent> {
    spent(fold(profile, |row, path| path.push(process_of(profile, row))))
}

fn spent<K: Ord>(groups: BTreeMap<K, (Spent, Vec<usize>)>) -> BTreeMap<K, Spent> {
    groups.into_iter().map(|(group, (spent, _))| (group, spent)).fill_map()
}

pub(crate) fn process_of(profile: &Profile, row: &ProfileRow) -> Option<ProcessKey> {
    profile.threads.get(row.thread.index()).map(|thread| thread.process)
}

fn labelled<K>(
    groups: BTreeMap<K, (Spent, Vec<usize>)>,
    uncertainties: &Uncertainties<'_>,
    name: impl Fn(K) -> Option<String>,
) -> Vec<Row> {
    let row = |(key, spent)| Row::new(name(key).unwrap_or_else(|| MISSING.to_owned()), spent, uncertainties);
    groups.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::{By, rows};
    use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
    use energy_trace_model::profile::{EnergyByClass, Profile, ProfileRow};
    use energy_trace_model::recording::record::{Frame, FrameKind, StackNode};

    /// Functions of one name say which file they are of; others do not.
    #[test]
    fn one_name_of_several_files() {
        let frame = |name: &str, module: &str| Frame {
            kind: FrameKind::Native,
            module: module.to_owned(),
            ..Frame::special(name)
        };
        let row = |stack| ProfileRow {
            thread: ThreadKey::new(0),
            stack: Some(StackId::new(stack)),
            energy: EnergyByClass::default(),
            by_time: EnergyByClass::default(),
            time_ns: 10,
            samples: 1,
            on_behalf_of: None,
        };
        let node = |frame| StackNode { parent: None, frame: FrameId::new(frame) };
        let profile = Profile {
            frames: vec![
                frame("work", "/a/libx.so"),
                frame("work", "/b/libx.so"),
                frame("other", "/a/libx.so"),
            ],
            stacks: (0..3).map(node).collect(),
            rows: (0..3).map(row).collect(),
            ..Profile::default()
        };
        let names = |by| {
            let name = |row: super::Row| format!("{}{}", row.name, row.inside);
            let mut names: Vec<String> = rows(&profile, by).into_iter().map(name).collect();
            names.sort();
            names
        };
        for by in [By::Function, By::Line] {
            assert_eq!(names(by), ["other", "work  (a/libx.so)", "work  (b/libx.so)"]);
        }
        assert_eq!(names(By::Library), ["libx.so  (a/libx.so)", "libx.so  (b/libx.so)"]);
    }
}
