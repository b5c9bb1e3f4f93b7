//! The modules of a package: read when they are asked for, each once, no more than a limit.
//!
//! Leaves out how they are read.

use energy_trace_symbols::python_module::{Bound, ModuleFacts, Origin};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Modules of one package that are read.
const MOST_MODULES: usize = 1200;
/// How far a name is followed from module to module.
const MOST_STEPS: usize = 8;

/// A module of a package.
#[derive(Clone, Debug, Default)]
pub(super) struct Module {
    /// What it says.
    pub(super) facts: ModuleFacts,
    /// Whether it is a folder with `__init__.py`.
    pub(super) is_package: bool,
}

/// Where modules come from.
pub(super) trait Source {
    /// Reads modules by their dotted names; `None` for one that is not there.
    fn read(&mut self, modules: &[String]) -> Vec<Option<Module>>;
    /// Whether there is a folder with `__init__.py` of this name.
    fn is_package(&mut self, module: &str) -> bool;
}

/// A function or class by the module that has it, and its name there.
pub(super) type Place = (String, String);

/// A name of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) name: String,
    pub(super) target: Target,
    /// Whether others are meant to import it from here; not what a module merely uses.
    pub(super) is_public: bool,
}

/// What a name of a module stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// What a module has under a name: a function or class, or the module of that name.
    Value(Place),
    /// A module.
    Module(String),
}

/// The modules of a package that were read so far.
pub(super) struct Modules<'s> {
    source: &'s mut dyn Source,
    read: HashMap<String, Option<Rc<Module>>>,
    exports: HashMap<String, Rc<Vec<Export>>>,
}

impl<'s> Modules<'s> {
    pub(super) fn new(source: &'s mut dyn Source) -> Self {
        Self { source, read: HashMap::new(), exports: HashMap::new() }
    }

    /// Reads those that were not yet.
    pub(super) fn prepare<'a>(&mut self, modules: impl Iterator<Item = &'a String>) {
        let mut new: Vec<String> =
            modules.filter(|module| !self.read.contains_key(*module)).cloned().collect();
        new.sort_unstable();
        new.dedup();
        new.truncate(MOST_MODULES.saturating_sub(self.read.values().flatten().count()));
        let found = self.source.read(&new);
        let found = found.into_iter().map(|module| module.map(Rc::new)).chain(std::iter::repeat(None));
        self.read.extend(new.into_iter().zip(found));
    }

    pub(super) fn get(&mut self, module: &str) -> Option<Rc<Module>> {
        if !self.read.contains_key(module) {
            self.prepare([module.to_owned()].iter());
        }
        self.read.get(module).cloned().flatten()
    }

    pub(super) fn is_package(&mut self, module: &str) -> bool {
        match self.read.get(module) {
            Some(known) => known.as_ref().is_some_and(|module| module.is_package),
            None => self.source.is_package(module),
        }
    }

    /// The names of a module and what they stand for, those of modules that it imports whole included.
    pub(super) fn exports(&mut self, module: &str) -> Rc<Vec<Export>> {
        self.exports_within(module, &mut HashSet::new())
    }

    fn exports_within(&mut self, name: &str, above: &mut HashSet<String>) -> Rc<Vec<Export>> {
        if let Some(known) = self.exports.get(name) {
            return Rc::clone(known);
        }
        let Some(module) =
            self.get(name).filter(|_| above.len() < MOST_STEPS && above.insert(name.to_owned()))
        else {
            return Rc::default();
        };
        let mut exports = own_exports(name, &module);
        let stars = stars_of(name, &module);
        self.prepare(stars.iter());
        for star in stars {
            let all = self.listed(&star, MOST_STEPS);
            let given = |name: &str| all.as_ref().map_or(!name.starts_with('_'), |all| all.contains(name));
            let of_star = self.exports_within(&star, above);
            let given = of_star.iter().filter(|export| given(&export.name)).cloned();
            exports.extend(given.map(|export| Export { is_public: true, ..export }));
        }
        above.remove(name);
        let exports = Rc::new(exports);
        self.exports.insert(name.to_owned(), Rc::clone(&exports));
        exports
    }

    /// What a module's `__all__` lists, with the lists that it adds from others; `None` where that is not known.
    fn listed(&mut self, name: &str, steps: usize) -> Option<HashSet<String>> {
        let module = self.get(name).filter(|_| steps > 0)?;
        let mut all: HashSet<String> = module.facts.all.clone()?.into_iter().collect();
        if module.facts.all_of_stars {
            let stars = stars_of(name, &module);
            self.prepare(stars.iter());
            for star in stars {
                all.extend(self.listed(&star, steps - 1)?);
            }
        }
        Some(all)
    }

    /// Where what a module has under a name is defined.
    pub(super) fn home(&mut self, place: &Place) -> Place {
        let mut at = place.clone();
        for _ in 0..MOST_STEPS {
            let exports = self.exports(&at.0);
            let next = exports.iter().rev().find(|export| export.name == at.1).map(|export| &export.target);
            match next {
                Some(Target::Value(next)) if *next != at => at = next.clone(),
                _ => return at,
            }
        }
        at
    }
}

/// The modules all of whose names a module imports.
fn stars_of(name: &str, module: &Module) -> Vec<String> {
    let stars = module.facts.stars.iter();
    stars.filter_map(|origin| absolute(origin, name, module.is_package)).collect()
}

/// What a module's own statements bind.
fn own_exports(name: &str, module: &Module) -> Vec<Export> {
    let listed: HashSet<&str> = module.facts.all.iter().flatten().map(String::as_str).collect();
    let mut exports: Vec<Export> = Vec::new();
    let mut known: HashMap<&str, Target> = HashMap::new();
    for binding in &module.facts.bindings {
        let target = match &binding.to {
            Bound::Here => Some(Target::Value((name.to_owned(), binding.name.clone()))),
            Bound::From(origin, what) => {
                absolute(origin, name, module.is_package).map(|from| Target::Value((from, what.clone())))
            }
            Bound::Module(path) => Some(Target::Module(path.clone())),
            Bound::Alias(path) => aliased(path, &known),
        };
        if let Some(target) = target {
            known.insert(&binding.name, target.clone());
            let (is_here, name) = (binding.to == Bound::Here, binding.name.clone());
            let is_public =
                module.is_package || is_here || binding.is_export || listed.contains(name.as_str());
            exports.push(Export { name, target, is_public });
        }
    }
    exports
}

/// What `Y` or `module.Y` stands for, of names that are bound before.
pub(super) fn aliased(path: &str, known: &HashMap<&str, Target>) -> Option<Target> {
    let Some((first, rest)) = path.split_once('.') else { return known.get(path).cloned() };
    let module = match known.get(first)? {
        Target::Module(module) => module.clone(),
        Target::Value((module, name)) => format!("{module}.{name}"),
    };
    let (inner, last) = rest.rsplit_once('.').unwrap_or(("", rest));
    let module = if inner.is_empty() { module } else { format!("{module}.{inner}") };
    Some(Target::Value((module, last.to_owned())))
}

/// The module that an import names, seen from this one.
fn absolute(origin: &Origin, from: &str, is_package: bool) -> Option<String> {
    if origin.level == 0 {
        return Some(origin.path.clone());
    }
    let up = origin.level.saturating_sub(u32::from(is_package));
    let mut base = from;
    for _ in 0..up {
        base = base.rsplit_once('.')?.0;
    }
    Some(if origin.path.is_empty() { base.to_owned() } else { format!("{base}.{}", origin.path) })
}
