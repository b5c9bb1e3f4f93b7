//! Functions of one name are told apart by where they lie, in tables and pictures alike: `work  (liba.so)`, `work  (b/libx.so)`.
//!
//! As much of a path is shown as no other function of the name ends with. Leaves out instances of a template (`short_names.rs`).

use super::functions::place_of;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Frame;
use std::collections::{BTreeSet, HashMap};

/// What a profile's frames are called, frame by frame.
pub fn told_apart(profile: &Profile, name: impl Fn(&Frame) -> String) -> Vec<String> {
    let functions: Vec<_> = profile.frames.iter().map(|frame| (name(frame), place_of(frame))).collect();
    let behind = behind(&functions, 0);
    functions.into_iter().zip(behind).map(|((name, _), behind)| name + &behind).collect()
}

/// What stands behind the names of functions, each with its place: nothing behind a name that one place alone has, unless `least` is 1.
pub(crate) fn behind(functions: &[(String, String)], least: usize) -> Vec<String> {
    let distinct: BTreeSet<(&str, &str)> =
        functions.iter().map(|(name, place)| (&**name, &**place)).collect();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for (name, place) in distinct {
        endings(place).for_each(|ending| *places.entry((name, ending)).or_default() += 1);
    }
    let behind = |(name, place): &(String, String)| {
        let is_only = |ending: &&str| places.get(&(name.as_str(), *ending)) == Some(&1);
        match endings(place).skip(least).find(is_only).unwrap_or(place) {
            "" => String::new(),
            ending => format!("  ({ending})"),
        }
    };
    functions.iter().map(behind).collect()
}

/// Nothing, the last part of a path, the last two, up to all of it.
fn endings(path: &str) -> impl Iterator<Item = &str> {
    let parts = path.rmatch_indices('/').filter_map(|(at, _)| path.get(at + 1..));
    std::iter::once("").chain(parts).chain((!path.is_empty()).then_some(path))
}

#[cfg(test)]
mod tests {
    use super::behind;

    /// As much of a place as tells it from the others of its name; a place that others end with is whole.
    #[test]
    fn places() {
        let of = |places: &[&str], least| {
            let functions: Vec<_> =
                places.iter().map(|place| ("work".to_owned(), (*place).to_owned())).collect();
            behind(&functions, least)
        };
        assert_eq!(of(&["/a/libx.so", "/a/libx.so"], 0), [""; 2]);
        assert_eq!(of(&["/a/libx.so", ""], 1), ["  (libx.so)", ""]);
        assert_eq!(
            of(&["/a/libx.so", "/b/libx.so", "/b/liby.so", "libx.so", ""], 0),
            ["  (a/libx.so)", "  (b/libx.so)", "  (liby.so)", "  (libx.so)", ""]
        );
    }
}
