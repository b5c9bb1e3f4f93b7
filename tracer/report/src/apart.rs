//! Functions of one name are told apart by where they lie, in tables and pictures alike: `work  (liba.so)`, `work  (b/libx.so)`.
//!
//! As many of a path's last parts are shown as tell all functions of the name apart. Leaves out instances of a template (`short_names.rs`).

use super::functions::{file_of, place_of};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_names::{BEHIND, library_name, line_name};
use std::collections::{BTreeSet, HashMap};

/// More parts of a path than these are all of it: the program chooses how long it is.
const MOST_PARTS: usize = 8;
/// Every program and its loader have one: it stays as it is, so that stacks of two runs begin alike.
const ENTRY: &str = "_start";

/// What a profile's frames are called, frame by frame.
pub fn told_apart(profile: &Profile, name: impl Fn(&Frame) -> String) -> Vec<String> {
    by_place(profile, name, place_of)
}

/// The same by files alone: lines move, or are in the names.
pub fn by_file(profile: &Profile, name: impl Fn(&Frame) -> String) -> Vec<String> {
    by_place(profile, name, |frame| file_of(frame).to_owned())
}

/// The line of each frame.
pub(crate) fn lines(profile: &Profile) -> Vec<String> {
    by_file(profile, line_name)
}

/// The library of each frame: a Python package has many files.
pub(crate) fn libraries(profile: &Profile) -> Vec<String> {
    let place = |frame: &Frame| match frame.kind {
        FrameKind::Native | FrameKind::Inlined => frame.module.clone(),
        _ => String::new(),
    };
    by_place(profile, library_name, place)
}

fn by_place(
    profile: &Profile,
    name: impl Fn(&Frame) -> String,
    place: impl Fn(&Frame) -> String,
) -> Vec<String> {
    let functions: Vec<_> = profile.frames.iter().map(|frame| (name(frame), place(frame))).collect();
    let suffixes = suffixes(&functions);
    functions.into_iter().zip(suffixes).map(|((name, _), suffix)| name + &suffix).collect()
}

/// What stands behind the names of functions, each with its place: nothing behind a name that one place alone has.
pub(crate) fn suffixes(functions: &[(String, String)]) -> Vec<String> {
    let mut depths = PathDepths::default();
    depths.add(functions);
    functions.iter().map(|(name, place)| depths.suffix(name, place, 0)).collect()
}

/// How many last parts of its path tell a function from others of its name, by that name; none that has one place alone.
#[derive(Debug, Default)]
pub(crate) struct PathDepths(HashMap<String, usize>);

impl PathDepths {
    /// Takes in the functions of a run, each a name and a place.
    pub(crate) fn add(&mut self, functions: &[(String, String)]) {
        let mut all: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for (name, place) in functions.iter().filter(|(name, _)| name != ENTRY) {
            all.entry(name).or_default().insert(place);
        }
        for (name, places) in all.into_iter().filter(|(_, places)| places.len() > 1) {
            let ends = |parts: usize| places.iter().map(|place| ending(place, parts)).fill_set();
            let parts = (1..=MOST_PARTS).find(|parts| ends(*parts).len() == places.len());
            let known = self.0.entry(name.to_owned()).or_default();
            *known = parts.unwrap_or(usize::MAX).max(*known);
        }
    }

    /// What stands behind a name: at least so many parts of its place.
    pub(crate) fn suffix(&self, name: &str, place: &str, least: usize) -> String {
        let parts = self.0.get(name).copied().unwrap_or(0).max(least);
        match ending(place, parts) {
            "" => String::new(),
            ending => format!("{BEHIND}{ending})"),
        }
    }
}

/// So many of a path's last parts.
fn ending(path: &str, parts: usize) -> &str {
    let Some(before) = parts.checked_sub(1) else { return "" };
    let cut = path.rmatch_indices('/').nth(before);
    cut.and_then(|(at, _)| path.get(at + 1..)).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::PathDepths;

    /// As much of a place as tells the functions of a name apart, in all runs alike; the loader's function is called as the program's.
    #[test]
    fn places() {
        let of = |name: &str, places: &[&str], least| {
            let mut depths = PathDepths::default();
            let functions: Vec<_> =
                places.iter().map(|place| (name.to_owned(), (*place).to_owned())).collect();
            depths.add(&functions);
            depths.add(&functions[..1]);
            let suffixes = functions.iter().map(|(name, place)| depths.suffix(name, place, least));
            suffixes.collect::<Vec<_>>()
        };
        assert_eq!(of("work", &["/a/libx.so", "/a/libx.so"], 0), [""; 2]);
        assert_eq!(of("work", &["/a/libx.so", ""], 1), ["  (libx.so)", ""]);
        assert_eq!(of("work", &["/t/liba.so", "/t/libb.so"], 0), ["  (liba.so)", "  (libb.so)"]);
        assert_eq!(
            of("work", &["/a/libx.so", "/b/libx.so", "/c/liby.so", "libx.so", ""], 0),
            ["  (a/libx.so)", "  (b/libx.so)", "  (c/liby.so)", "  (libx.so)", ""]
        );
        assert_eq!(of("_start", &["/usr/bin/prog", "/lib/ld.so"], 0), [""; 2]);
        let long = ["/a".to_owned() + &"/x".repeat(50_000), "/b".to_owned() + &"/x".repeat(50_000)];
        assert_eq!(of("f", &[&long[0], &long[1]], 0)[1], format!("  ({})", long[1]));
    }
}
