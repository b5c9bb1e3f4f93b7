//! Functions of one name are told apart by where they lie, in tables and pictures alike: `work  (liba.so)`, `work  (b/libx.so)`.
//!
//! As many of a path's last parts are shown as tell all functions of the name apart. Leaves out instances of a template (`short_names.rs`).

use super::functions::place_of;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Frame;
use std::collections::{BTreeSet, HashMap};

/// More parts of a path than these are all of it: its length is for the program to choose.
const MOST_PARTS: usize = 8;
/// Each program has one, and the loader before it: who looks for a stack in two runs finds it by this name.
const OF_ALL: &str = "_start";

/// What a profile's frames are called, frame by frame.
pub fn told_apart(profile: &Profile, name: impl Fn(&Frame) -> String) -> Vec<String> {
    let functions: Vec<_> = profile.frames.iter().map(|frame| (name(frame), place_of(frame))).collect();
    let mut parts = Parts::default();
    parts.add(&functions);
    functions
        .into_iter()
        .map(|(name, place)| {
            let behind = parts.behind(&name, &place, 0);
            name + &behind
        })
        .collect()
}

/// How many parts of its place tell a function from others of its name, by that name; none that has one place alone.
#[derive(Default)]
pub(crate) struct Parts(HashMap<String, usize>);

impl Parts {
    /// Takes in the functions of a run, each a name and a place.
    pub(crate) fn add(&mut self, functions: &[(String, String)]) {
        let mut all: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for (name, place) in functions.iter().filter(|(name, _)| name != OF_ALL) {
            all.entry(name).or_default().insert(place);
        }
        for (name, places) in all.into_iter().filter(|(_, places)| places.len() > 1) {
            let ends =
                |parts: usize| places.iter().map(|place| ending(place, parts)).collect::<BTreeSet<_>>();
            let parts = (1..=MOST_PARTS).find(|parts| ends(*parts).len() == places.len());
            let known = self.0.entry(name.to_owned()).or_default();
            *known = parts.unwrap_or(usize::MAX).max(*known);
        }
    }

    /// What stands behind a name: nothing behind one that has one place alone, unless `least` is 1.
    pub(crate) fn behind(&self, name: &str, place: &str, least: usize) -> String {
        let parts = self.0.get(name).copied().unwrap_or(0).max(least);
        match ending(place, parts) {
            "" => String::new(),
            ending => format!("  ({ending})"),
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
    use super::Parts;

    /// As much of a place as tells the functions of a name apart, in all runs alike; the loader's function is called as the program's.
    #[test]
    fn places() {
        let of = |name: &str, places: &[&str], least| {
            let mut parts = Parts::default();
            let functions: Vec<_> =
                places.iter().map(|place| (name.to_owned(), (*place).to_owned())).collect();
            parts.add(&functions);
            parts.add(&functions[..1]);
            let behind = functions.iter().map(|(name, place)| parts.behind(name, place, least));
            behind.collect::<Vec<_>>()
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
