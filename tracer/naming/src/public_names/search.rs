//! From a package's root along what it re-exports to the names that were seen.
//!
//! Namespaces are looked at in the order of their length, so that the first name found is the shortest: `torch.nn` before
//! `torch.nn.modules`. What is experimental, or kept for older versions, comes last; private namespaces are none. Leaves out reading
//! modules (`modules.rs`) and private classes (`classes.rs`).

use super::classes::name_private_classes;
use super::modules::{Modules, Place, Source, Target};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::recording::record::PublicName;
use energy_trace_names::api_names::ApiNames;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Parts of a public name at the most.
const MOST_PARTS: usize = 6;
/// Parts of a name that nobody should prefer.
const LAST: [&str; 5] = ["experimental", "compat", "testing", "tests", "v1"];
/// So many parts longer these are taken to be.
const LATER: usize = 10;
/// Parts of a module that is public itself, at the most: `torch.nn.functional`.
const MODULE_PARTS: usize = 3;

/// The public names of what was seen of a package, as (module, name).
pub(super) fn find(
    package: &str,
    seen: &BTreeSet<(String, String)>,
    source: &mut dyn Source,
) -> Vec<PublicName> {
    let mut search = Search::new(package, seen, source);
    search.walk();
    let mut found = search.names;
    name_private_classes(&mut search.modules, seen, &search.classes, &mut found);
    let public = |(module, name): &Place| {
        let exported = found.get(&(module.clone(), name.clone())).cloned();
        let public = exported.or_else(|| own_name(module, name))?;
        Some(PublicName { module: module.clone(), name: name.clone(), public })
    };
    seen.iter().filter_map(public).collect()
}

/// What a module has that is public itself, as `torch.nn.functional` is: few parts, none private.
fn own_name(module: &str, name: &str) -> Option<String> {
    let mut parts = module.split('.').chain([name]);
    let is_public = module.split('.').count() <= MODULE_PARTS && !parts.any(is_private);
    is_public.then(|| format!("{module}.{name}"))
}

struct Search<'a> {
    modules: Modules<'a>,
    package: &'a str,
    seen: &'a BTreeSet<Place>,
    heads: HashSet<&'a str>,
    /// Namespaces to look at, by their length: the public name and the module.
    queue: BTreeMap<usize, Vec<(String, String)>>,
    looked_at: HashSet<String>,
    names: HashMap<Place, String>,
    /// Classes with public names.
    classes: HashMap<Place, String>,
}

impl<'a> Search<'a> {
    fn new(package: &'a str, seen: &'a BTreeSet<Place>, source: &'a mut dyn Source) -> Self {
        let mut search = Self {
            modules: Modules::new(source),
            package,
            seen,
            heads: seen.iter().map(|(_, name)| name.as_str()).collect(),
            queue: BTreeMap::new(),
            looked_at: HashSet::new(),
            names: HashMap::new(),
            classes: HashMap::new(),
        };
        search.add(package.to_owned(), package.to_owned());
        if let Some(whole) = ApiNames::built_in().whole_of(package) {
            search.add_parts(whole);
        }
        let modules: BTreeSet<&str> = seen.iter().map(|(module, _)| module.as_str()).fill_set();
        for module in modules {
            search.add_prefixes(module);
        }
        search
    }

    /// Modules of this package that are parts of another one for its users: `tensorflow.estimator`.
    fn add_parts(&mut self, whole: &str) {
        for export in self.modules.exports(whole).iter().filter(|export| !is_private(&export.name)) {
            let module = match &export.target {
                Target::Module(module) => module.clone(),
                Target::Value((module, name)) => format!("{module}.{name}"),
            };
            if self.is_of_package(&module) && last(&module) == export.name && self.modules.is_package(&module)
            {
                self.add(format!("{whole}.{}", export.name), module);
            }
        }
    }

    /// The packages that a seen module lies in, as far as none is private.
    fn add_prefixes(&mut self, module: &str) {
        for end in module.match_indices('.').map(|(at, _)| at) {
            let prefix = module.get(..end).unwrap_or_default();
            if prefix.split('.').any(is_private) {
                return;
            }
            self.add(prefix.to_owned(), prefix.to_owned());
        }
    }

    fn add(&mut self, public: String, module: String) {
        let parts = public.split('.').count();
        if parts < MOST_PARTS {
            self.queue.entry(weight(&public)).or_default().push((public, module));
        }
    }

    fn walk(&mut self) {
        while let Some((_, namespaces)) = self.queue.pop_first() {
            let new: Vec<(String, String)> =
                namespaces.into_iter().filter(|(public, _)| self.looked_at.insert(public.clone())).collect();
            self.modules.prepare(new.iter().map(|(_, module)| module));
            for (public, module) in new {
                self.look_at(&public, &module);
            }
        }
    }

    fn look_at(&mut self, public: &str, module: &str) {
        let exports = self.modules.exports(module);
        for export in exports.iter().filter(|export| export.is_public && !is_private(&export.name)) {
            let full = format!("{public}.{}", export.name);
            match &export.target {
                // A module under another name is an abbreviation for this file alone.
                Target::Module(module) if self.is_of_package(module) && last(module) == export.name => {
                    self.add(full, module.clone());
                }
                Target::Value(place) if self.is_of_package(&place.0) => self.take(full, place),
                _ => {}
            }
        }
    }

    fn is_of_package(&self, module: &str) -> bool {
        let rest = module.strip_prefix(self.package);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// A name of a namespace: of something that was seen, of a class, or of a module.
    fn take(&mut self, public: String, place: &Place) {
        let is_class = place.1.starts_with(|c: char| c.is_ascii_uppercase());
        if self.heads.contains(place.1.as_str()) || is_class {
            let home = if self.seen.contains(place) { place.clone() } else { self.modules.home(place) };
            if is_class {
                keep_best(&mut self.classes, &home, &public);
            }
            if self.seen.contains(&home) {
                keep_best(&mut self.names, &home, &public);
            }
        }
        if !is_class && last(&public) == place.1 && self.modules.is_package(&place.0) {
            let module = format!("{}.{}", place.0, place.1);
            self.add(public, module);
        }
    }
}

/// The last part of a dotted name.
fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Keras keeps its own in `src`, TensorFlow in `python`.
fn is_private(part: &str) -> bool {
    part.starts_with('_') || matches!(part, "src" | "python")
}

fn weight(public: &str) -> usize {
    public.split('.').count() + if is_late(public) { LATER } else { 0 }
}

/// Whether it is a name that nobody should prefer.
pub(super) fn is_late(public: &str) -> bool {
    public.split('.').any(|part| LAST.contains(&part))
}

fn keep_best(names: &mut HashMap<Place, String>, place: &Place, public: &str) {
    match names.get_mut(place) {
        Some(known) if better(public, known) => public.clone_into(known),
        Some(_) => {}
        None => {
            names.insert(place.clone(), public.to_owned());
        }
    }
}

/// Whether a public name is to be preferred.
fn better(one: &str, other: &str) -> bool {
    let order = weight(one)
        .cmp(&weight(other))
        .then_with(|| one.len().cmp(&other.len()))
        .then_with(|| one.cmp(other));
    order == Ordering::Less
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::public_names::modules::{Module, Source};
    use energy_trace_symbols::python_module::read_module;
    use std::collections::BTreeSet;

    /// A package in memory: modules and their text; a name that ends with a dot is a folder.
    struct Package(&'static [(&'static str, &'static str)]);

    impl Source for Package {
        fn read(&mut self, modules: &[String]) -> Vec<Option<Module>> {
            let read = |name: &String| {
                let is = |module: &&(&str, &str)| module.0.trim_end_matches('.') == name;
                let (name, text) = self.0.iter().find(is)?;
                let facts = read_module(text.as_bytes()).unwrap();
                Some(Module { facts, is_package: name.ends_with('.') })
            };
            modules.iter().map(read).collect()
        }

        fn is_package(&mut self, module: &str) -> bool {
            self.0.iter().any(|(name, _)| name.strip_suffix('.') == Some(module))
        }
    }

    fn names(package: &'static [(&str, &str)], seen: &[(&str, &str)]) -> Vec<String> {
        let seen: BTreeSet<_> =
            seen.iter().map(|&(module, name)| (module.to_owned(), name.to_owned())).collect();
        let root = package[0].0.trim_end_matches('.');
        find(root, &seen, &mut Package(package)).into_iter().map(|name| name.public).collect()
    }

    /// A package that is a part of another one for its users has that one's names where it re-exports its modules.
    #[test]
    fn parts_of_another_package() {
        let package = &[
            ("tensorflow_estimator.", "from tensorflow_estimator._api.v1 import estimator\n"),
            ("tensorflow_estimator._api.", ""),
            ("tensorflow_estimator._api.v1.", ""),
            (
                "tensorflow_estimator._api.v1.estimator.",
                "from tensorflow_estimator.python.dnn import DNNClassifier\n",
            ),
            ("tensorflow_estimator.python.", ""),
            ("tensorflow_estimator.python.api.", ""),
            (
                "tensorflow_estimator.python.api.estimator.",
                "from tensorflow_estimator.python.dnn import DNNClassifierV2 as DNNClassifier\n",
            ),
            (
                "tensorflow_estimator.python.dnn",
                "class DNNClassifier: pass\nclass DNNClassifierV2: pass\ndef hidden(): pass\n",
            ),
            (
                "tensorflow.",
                "if TYPE_CHECKING:\n    from tensorflow_estimator.python.api import estimator as estimator\n",
            ),
        ];
        let dnn = "tensorflow_estimator.python.dnn";
        let seen = [(dnn, "DNNClassifier"), (dnn, "DNNClassifierV2"), (dnn, "hidden")];
        let found = ["tensorflow_estimator.estimator.DNNClassifier", "tensorflow.estimator.DNNClassifier"];
        assert_eq!(names(package, &seen), found);
    }

    /// The shortest name, through stars and lists, renamed where the package renames; older and experimental ones last.
    #[test]
    fn re_exports() {
        let package = &[
            ("tf.", "from tf._api import data\nfrom tf._api import compat\nfrom tf._api import nn\n"),
            ("tf._api.", ""),
            (
                "tf._api.data.",
                "from tf.python.core.ds import DatasetV2 as Dataset\nfrom tf._api.data import experimental\n",
            ),
            ("tf._api.data.experimental.", "from tf.python.core.ds import choose\n"),
            ("tf._api.compat.", "from tf._api.compat import v1\n"),
            (
                "tf._api.compat.v1.",
                "from tf.python.core.ops import matmul\nfrom tf.python.core.ds import DatasetV1 as Dataset\n",
            ),
            ("tf._api.nn.", "from tf.python.api import *\n"),
            ("tf.python.", ""),
            ("tf.python.core.", ""),
            (
                "tf.python.api",
                "from tf.python.core.ops import matmul\nfrom tf.python.core.ops import _hidden\n",
            ),
            ("tf.python.core.ops", "def matmul(): pass\ndef _hidden(): pass\n"),
            ("tf.python.core.ds", "class DatasetV1: pass\nclass DatasetV2: pass\ndef choose(): pass\n"),
        ];
        let seen = [
            ("tf.python.core.ds", "DatasetV1"),
            ("tf.python.core.ds", "DatasetV2"),
            ("tf.python.core.ds", "choose"),
            ("tf.python.core.ops", "_hidden"),
            ("tf.python.core.ops", "matmul"),
        ];
        let wanted =
            ["tf.compat.v1.Dataset", "tf.data.Dataset", "tf.data.experimental.choose", "tf.nn.matmul"];
        assert_eq!(names(package, &seen), wanted);
    }

    /// What a module only uses is not its own: neither in a file nor under an abbreviation.
    #[test]
    fn imports_for_use() {
        let package = &[
            ("t.", "from t import nested\nfrom t import nn\n"),
            ("t.nested.", "import t.nn.functional as F\n"),
            ("t.nn.", "from t.nn import functional\n"),
            ("t.nn.functional", "from t.nn._impl import relu as relu\nfrom t.nn._impl import helper\n"),
            ("t.nn._impl", "def relu(): pass\ndef helper(): pass\n"),
        ];
        assert_eq!(
            names(package, &[("t.nn._impl", "relu"), ("t.nn._impl", "helper")]),
            ["t.nn.functional.relu"]
        );
    }

    /// A private class has the name of the one public class that all public heirs inherit; of several side by side it has none.
    #[test]
    fn private_classes() {
        let package = &[
            ("k.", "from k._model import Model, Sequential\nfrom k._forest import A, B\n"),
            (
                "k._model",
                "from k import _trainer as t\nclass Model(t.TFTrainer): pass\nclass Sequential(Model): pass\n",
            ),
            ("k._trainer", "class TFTrainer: pass\n"),
            ("k._forest", "class Base: pass\nclass A(Base): pass\nclass B(Base): pass\n"),
        ];
        assert_eq!(names(package, &[("k._trainer", "TFTrainer"), ("k._forest", "Base")]), ["k.Model"]);
    }

    /// Modules that import each other, and names without end, come to an end.
    #[test]
    fn circles() {
        let package = &[
            ("a.", "from a.b import *\nfrom a.b import x\nfrom a import b\n"),
            ("a.b.", "from a import *\nfrom a import x\nfrom a import b\nfrom a.b import b\n"),
        ];
        assert_eq!(names(package, &[("a.b", "x"), ("a", "x")]).len(), 2);
    }
}
