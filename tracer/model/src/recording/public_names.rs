//! What packages say of themselves: the public names of their functions and classes, by their own re-exports, and where they are installed, by
//! their own metadata.
//!
//! Leaves out how they are found (`tracer/naming/src`) and which call a stack shows (`tracer/report/src/calls`).

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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

/// A package in a folder or archive that is not called `site-packages`: its metadata lies beside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InstalledPackage {
    /// The folder or archive, with a slash at its end.
    pub folder: String,
    /// What is imported from there: `yaml`.
    pub package: String,
}

/// The public names of a recording, and where its packages are installed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublicNames {
    names: BTreeMap<String, BTreeMap<String, String>>,
    installed: BTreeMap<String, BTreeSet<String>>,
}

impl PublicNames {
    /// The public name of what a module defines.
    pub fn get(&self, module: &str, name: &str) -> Option<&str> {
        self.names.get(module)?.get(name).map(String::as_str)
    }

    /// Whether there is any of this package.
    pub fn has_package(&self, package: &str) -> bool {
        let from = self.names.range(package.to_owned()..).next();
        from.is_some_and(|(module, _)| module.split('.').next() == Some(package))
    }
}

impl PublicNames {
    /// Takes in where a package is installed.
    pub fn install(&mut self, InstalledPackage { folder, package }: InstalledPackage) {
        self.installed.entry(folder).or_default().insert(package);
    }

    /// The part of a file's path from the name of its package on, where that is installed in a folder that was told.
    pub fn below_folder<'f>(&self, file: &'f str) -> Option<&'f str> {
        if self.installed.is_empty() {
            return None;
        }
        let splits = file.match_indices('/').filter_map(|(at, _)| file.split_at_checked(at + 1));
        let is_of = |(folder, below): &(&str, &str)| {
            self.installed.get(*folder).is_some_and(|packages| packages.contains(package_in(below)))
        };
        splits.filter(is_of).map(|(_, below)| below).next_back()
    }

    /// Adds the names of another recording; where the two differ, those stay that are here.
    pub(crate) fn join(&mut self, other: Self) {
        for (folder, packages) in other.installed {
            self.installed.entry(folder).or_default().extend(packages);
        }
        for (module, names) in other.names {
            let known = self.names.entry(module).or_default();
            for (name, public) in names {
                known.entry(name).or_insert(public);
            }
        }
    }
}

impl Extend<PublicName> for PublicNames {
    fn extend<T: IntoIterator<Item = PublicName>>(&mut self, names: T) {
        for PublicName { module, name, public } in names {
            self.names.entry(module).or_default().insert(name, public);
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

/// The package that a path below a folder of packages begins with: `torch` for `torch/nn/functional.py`, `numpy` for its bundled libraries
/// `numpy.libs/…`, `six` for `six.py`.
pub fn package_in(below: &str) -> &str {
    let first = below.split('/').next().unwrap_or(below);
    first.split('.').next().unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::{InstalledPackage, PublicNames};

    /// A file is of the package that is installed in the folder above it, and of none where another program's file lies beside.
    #[test]
    fn files_of_installed_packages() {
        let mut names = PublicNames::default();
        let install = |names: &mut PublicNames, folder: &str, package: &str| {
            names.install(InstalledPackage { folder: folder.into(), package: package.into() });
        };
        assert_eq!(names.below_folder("/a/deps/yaml/x.py"), None);
        install(&mut names, "/a/deps/", "yaml");
        install(&mut names, "/a/tool.pyz/", "six");
        assert_eq!(names.below_folder("/a/deps/yaml/x.py"), Some("yaml/x.py"));
        assert_eq!(names.below_folder("/a/deps/yaml.libs/x.so"), Some("yaml.libs/x.so"));
        assert_eq!(names.below_folder("/a/tool.pyz/six.py"), Some("six.py"));
        for other in ["/a/deps/handler.py", "/a/deps/yamlish/x.py", "/b/deps/yaml/x.py", "deps/yaml/x.py"] {
            assert_eq!(names.below_folder(other), None, "{other}");
        }
        let mut joined = PublicNames::default();
        joined.join(names);
        assert_eq!(joined.below_folder("/a/deps/yaml/x.py"), Some("yaml/x.py"));
    }
}
