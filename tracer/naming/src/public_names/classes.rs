//! Private classes by the public ones that inherit them: `TensorFlowTrainer` is `keras.Model` to users.
//!
//! A method that was seen of a class says nothing of the object's class. So a private class has the name of the public class that inherits
//! it and that all other public heirs inherit in turn. Where several stand side by side (`RandomForestClassifier` and `…Regressor`) it has
//! none. Leaves out classes of other packages.

use super::modules::{Modules, Place, Target, aliased};
use super::search::is_late;
use energy_trace_model::collections::Fill as _;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Rounds in which modules of base classes are read.
const MOST_ROUNDS: usize = 3;
/// Classes between a private class and its heirs.
const MOST_STEPS: usize = 12;

/// Adds names of classes that were seen and have none.
pub(super) fn name_private_classes(
    modules: &mut Modules<'_>,
    seen: &BTreeSet<Place>,
    public: &HashMap<Place, String>,
    names: &mut HashMap<Place, String>,
) {
    let of_class = |place: &&Place| {
        place.1.trim_start_matches('_').starts_with(|c: char| c.is_ascii_uppercase())
            && !names.contains_key(*place)
    };
    let nameless: Vec<&Place> = seen.iter().filter(of_class).collect();
    if nameless.is_empty() {
        return;
    }
    let bases = all_bases(modules, public, &nameless);
    let mut heirs: HashMap<&Place, Vec<&Place>> = HashMap::new();
    for (class, bases) in &bases {
        for base in bases {
            heirs.entry(base).or_default().push(class);
        }
    }
    for class in nameless {
        if let Some(name) = top_heir(class, &heirs, public) {
            names.insert(class.clone(), name);
        }
    }
}

/// The bases of all classes in the modules of public classes and of those above them.
fn all_bases(
    modules: &mut Modules<'_>,
    public: &HashMap<Place, String>,
    nameless: &[&Place],
) -> HashMap<Place, Vec<Place>> {
    let mut bases: HashMap<Place, Vec<Place>> = HashMap::new();
    let mut next: BTreeSet<String> =
        public.keys().chain(nameless.iter().copied()).map(|(module, _)| module.clone()).fill_set();
    let mut done: HashSet<String> = HashSet::new();
    for _ in 0..MOST_ROUNDS {
        modules.prepare(next.iter());
        let mut above = BTreeSet::new();
        for module in next.into_iter().filter(|module| done.insert(module.clone())) {
            for (class, of) in bases_in(modules, &module) {
                above.extend(of.iter().map(|(module, _)| module.clone()));
                bases.insert(class, of);
            }
        }
        next = above.difference(&done.iter().cloned().collect()).cloned().collect();
    }
    bases
}

/// The classes of a module, with the places of their bases.
fn bases_in(modules: &mut Modules<'_>, name: &str) -> Vec<(Place, Vec<Place>)> {
    let Some(module) = modules.get(name) else { return Vec::new() };
    let exports = modules.exports(name);
    // A base may have several places, in branches: any of them is one.
    let mut known: HashMap<&str, Vec<&Target>> = HashMap::new();
    for export in exports.iter() {
        known.entry(&export.name).or_default().push(&export.target);
    }
    let place = |base: &String| -> Vec<Place> {
        let first = base.split('.').next().unwrap_or(base);
        let targets = known.get(first).into_iter().flatten();
        let found = targets.filter_map(|&target| aliased(base, &HashMap::from([(first, target.clone())])));
        found
            .filter_map(|target| if let Target::Value(place) = target { Some(place) } else { None })
            .collect()
    };
    let of = |class: &energy_trace_symbols::python_module::Class| {
        let bases: Vec<Place> = class.bases.iter().flat_map(place).collect();
        ((name.to_owned(), class.name.clone()), bases)
    };
    let classes: Vec<(Place, Vec<Place>)> = module.facts.classes.iter().map(of).collect();
    let package = name.split('.').next().unwrap_or(name);
    let inside = |place: &Place| place.0 == package || place.0.starts_with(&format!("{package}."));
    let mut home = |bases: Vec<Place>| -> Vec<Place> {
        bases.into_iter().filter(inside).map(|base| modules.home(&base)).collect()
    };
    classes.into_iter().map(|(class, bases)| (class, home(bases))).collect()
}

/// The public class that inherits this one and that all other public heirs inherit.
fn top_heir(
    class: &Place,
    heirs: &HashMap<&Place, Vec<&Place>>,
    public: &HashMap<Place, String>,
) -> Option<String> {
    let all = below(class, heirs);
    let named = |heir: &&Place| public.get(*heir).is_some_and(|name| !is_late(name));
    let with_name: Vec<&Place> = all.iter().copied().filter(named).collect();
    let is_top = |heir: &&&Place| {
        let own = below(heir, heirs);
        with_name.iter().all(|other| other == *heir || own.contains(other))
    };
    let top = with_name.iter().filter(|_| with_name.len() < 100).find(is_top)?;
    public.get(*top).cloned()
}

fn below<'a>(class: &Place, heirs: &HashMap<&Place, Vec<&'a Place>>) -> HashSet<&'a Place> {
    let (mut all, mut next): (HashSet<&Place>, Vec<&Place>) = (HashSet::new(), vec![class]);
    for _ in 0..MOST_STEPS {
        let heirs = next.iter().flat_map(|class| heirs.get(*class).into_iter().flatten().copied());
        next = heirs.filter(|heir| all.insert(heir)).collect();
    }
    all
}
