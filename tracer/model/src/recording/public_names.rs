//! Public names of packages' functions and classes, as the packages' own re-exports have them.
//!
//! Leaves out how they are found (`tracer/src/naming`) and which call a stack shows (`tracer/report/src/calls`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What users call a function or class of a package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PublicName {
    /// The module that defines it, as `Frame::module` has it: `keras.src.models.model`.
    pub module: String,
    /// Its name there, without methods: `Model`.
    pub name: String,
    /// Its public name: `keras.Model`.
    pub public: String,
}

/// The public names of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublicNames(BTreeMap<String, BTreeMap<String, String>>);

impl PublicNames {
    /// The public name of what a module defines.
    pub fn get(&self, module: &str, name: &str) -> Option<&str> {
        self.0.get(module)?.get(name).map(String::as_str)
    }

    /// Whether there is any of this package.
    pub fn has_package(&self, package: &str) -> bool {
        let from = self.0.range(package.to_owned()..).next();
        from.is_some_and(|(module, _)| module.split('.').next() == Some(package))
    }
}

impl PublicNames {
    /// Adds the names of another recording; where the two differ, those stay that are here.
    pub(crate) fn join(&mut self, other: Self) {
        for (module, names) in other.0 {
            let known = self.0.entry(module).or_default();
            for (name, public) in names {
                known.entry(name).or_insert(public);
            }
        }
    }
}

impl Extend<PublicName> for PublicNames {
    fn extend<T: IntoIterator<Item = PublicName>>(&mut self, names: T) {
        for PublicName { module, name, public } in names {
            self.0.entry(module).or_default().insert(name, public);
        }
    }
}

impl FromIterator<PublicName> for PublicNames {
    fn from_iter<T: IntoIterator<Item = PublicName>>(names: T) -> Self {
        let mut all = Self::default();
        all.extend(names);
        all
    }
}
