//! Calls whose names a package's own re-exports do not give: `optimizer.step` for the wrapper around every optimizer's step.
//!
//! These overrides are data (`data/api_names.json`, each with its reason); this file only matches. Leaves out all other names
//! (`calls/naming.rs`), and what is done with a match (`functions.rs`, `calls`).

use crate::names::file_name;
use energy_trace_model::recording::record::{Frame, FrameKind};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The table that is built in. A unit test shows that it is well-formed, so that it is never the empty fallback.
static BUILT_IN: LazyLock<ApiNames> =
    LazyLock::new(|| ApiNames::parse(include_str!("../data/api_names.json")).unwrap_or_default());

/// A match: the public name, and how early in the table its rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiName<'a> {
    /// The framework: `torch`, `keras`.
    pub framework: &'a str,
    /// The name as users say it.
    pub name: &'a str,
    /// Position of the rule: of two frames with one name, the smaller one is what the name means.
    pub rule: usize,
    /// Whether it is a method that the class of the object has by its own name, where that is known.
    pub of_class: bool,
    /// Whether it runs a function of the program, which a frame further in may name.
    pub runs_function: bool,
}

/// The frames that stand for public names, ready to be asked.
#[derive(Debug, Default)]
pub struct ApiNames {
    names: Vec<Named>,
    python: HashMap<String, Vec<PythonRule>>,
    native: Vec<(String, usize, usize)>,
    packages: HashMap<String, String>,
    short: HashMap<String, String>,
    wrappers: Vec<String>,
}

/// A name, and what else is known of it.
#[derive(Debug)]
struct Named {
    framework: String,
    name: String,
    of_class: bool,
    runs_function: bool,
}

/// A Python function, by its file (as a suffix) and qualified name.
#[derive(Debug)]
struct PythonRule {
    file: String,
    qualname: String,
    name: usize,
    rule: usize,
}

#[derive(Deserialize)]
struct TableFile {
    /// Packages that are part of another, for its users.
    packages: HashMap<String, String>,
    /// What users call a package in their programs.
    short: HashMap<String, String>,
    /// Files of decorators.
    #[serde(default)]
    wrappers: Vec<WrapperEntry>,
    frameworks: Vec<FrameworkEntry>,
}

#[derive(Deserialize)]
struct WrapperEntry {
    file: String,
}

#[derive(Deserialize)]
struct FrameworkEntry {
    framework: String,
    names: Vec<NameEntry>,
}

#[derive(Deserialize)]
struct NameEntry {
    name: String,
    #[serde(default)]
    of_class: bool,
    #[serde(default)]
    runs_function: bool,
    #[serde(default)]
    python: Vec<PythonEntry>,
    #[serde(default)]
    native: Vec<String>,
}

#[derive(Deserialize)]
struct PythonEntry {
    file: String,
    qualnames: Vec<String>,
}

impl ApiNames {
    /// The table that comes with energy-trace.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// Reads a table of schema `energy-trace/api-names/2`.
    ///
    /// # Errors
    /// When the text is not such a table.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let table: TableFile = serde_json::from_str(text)?;
        let wrappers = table.wrappers.into_iter().map(|wrapper| wrapper.file).collect();
        let mut names = Self { packages: table.packages, short: table.short, wrappers, ..Self::default() };
        let mut rules = 0..;
        for framework in table.frameworks {
            for entry in framework.names {
                names.add(&framework.framework, entry, &mut rules);
            }
        }
        Ok(names)
    }

    fn add(&mut self, framework: &str, entry: NameEntry, rules: &mut std::ops::RangeFrom<usize>) {
        let name = self.names.len();
        let NameEntry { of_class, runs_function, .. } = entry;
        self.names.push(Named { framework: framework.to_owned(), name: entry.name, of_class, runs_function });
        for place in entry.python {
            for (qualname, rule) in place.qualnames.into_iter().zip(rules.by_ref()) {
                let rule = PythonRule { file: place.file.clone(), qualname, name, rule };
                self.python.entry(file_name(&place.file).to_owned()).or_default().push(rule);
            }
        }
        self.native.extend(entry.native.into_iter().zip(rules).map(|(prefix, rule)| (prefix, name, rule)));
    }

    /// The package that one belongs to, for its users: `jax` for `jaxlib`.
    pub fn package<'a>(&'a self, package: &'a str) -> &'a str {
        self.whole_of(package).unwrap_or(package)
    }

    /// The package that a package is a part of.
    pub fn whole_of(&self, package: &str) -> Option<&str> {
        self.packages.get(package).map(String::as_str)
    }

    /// A public name as users write it: `tf.matmul` for `tensorflow.matmul`.
    pub fn shortened(&self, name: &str) -> String {
        let (package, rest) = name.split_once('.').unwrap_or((name, ""));
        self.short.get(package).map_or_else(|| name.to_owned(), |short| format!("{short}.{rest}"))
    }

    /// Whether a function only runs another one: a decorator, whatever name its code has.
    pub fn is_wrapper(&self, frame: &Frame) -> bool {
        frame.kind == FrameKind::Python && self.wrappers.iter().any(|file| is_file(&frame.file, file))
    }

    /// The public name that a frame stands for.
    pub fn name_of(&self, frame: &Frame) -> Option<ApiName<'_>> {
        let (name, rule) = match frame.kind {
            FrameKind::Python => {
                let rules = self.python.get(file_name(&frame.file))?;
                rules.iter().find(|rule| rule.matches(frame)).map(|rule| (rule.name, rule.rule))?
            }
            FrameKind::Native => {
                let mut rules = self.native.iter();
                rules
                    .find(|(prefix, ..)| is_symbol(&frame.name, prefix))
                    .map(|&(_, name, rule)| (name, rule))?
            }
            FrameKind::Kernel
            | FrameKind::Gpu
            | FrameKind::Special
            | FrameKind::Inlined
            | FrameKind::Range => return None,
        };
        let Named { framework, name, of_class, runs_function } = self.names.get(name)?;
        Some(ApiName { framework, name, rule, of_class: *of_class, runs_function: *runs_function })
    }
}

/// Whether a path ends with this one at a folder's edge.
fn is_file(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

impl PythonRule {
    /// The file must end with the rule's at a folder's edge. Code objects have qualified names from CPython 3.11 on; before, a frame's
    /// name is the last part alone (`run` for `BaseSession.run`) and is accepted as such.
    fn matches(&self, frame: &Frame) -> bool {
        let same_file = is_file(&frame.file, &self.file);
        let last = self.qualname.rsplit('.').next().unwrap_or_default();
        // Before 3.11 a name may lack its class, or have that of the object for it (`Class?.name`): the last part alone is compared.
        let name = frame.name.rsplit_once("?.").map_or(&*frame.name, |(_, name)| name);
        same_file && (name == self.qualname || name == last)
    }
}

/// Whether a demangled name is this function, with or without arguments, and not one whose name is merely longer.
fn is_symbol(demangled: &str, function: &str) -> bool {
    let rest = demangled.strip_prefix(function);
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
}

#[cfg(test)]
mod tests {
    use super::{ApiNames, Frame, FrameKind};

    fn frame(kind: FrameKind, file: &str, name: &str) -> Frame {
        let (name, file) = (name.to_owned(), file.to_owned());
        Frame { kind, name, module: String::new(), file, line: 0, first_line: 0, address: 0 }
    }

    fn python(file: &str, name: &str) -> Option<&'static str> {
        ApiNames::built_in().name_of(&frame(FrameKind::Python, file, name)).map(|api| api.name)
    }

    /// Each override says why the name is not found otherwise.
    #[test]
    fn overrides_have_reasons() {
        let table: serde_json::Value = serde_json::from_str(include_str!("../data/api_names.json")).unwrap();
        let frameworks = table["frameworks"].as_array().unwrap();
        let entries: Vec<_> = frameworks.iter().flat_map(|of| of["names"].as_array().unwrap()).collect();
        assert!(!entries.is_empty());
        for entry in entries {
            assert!(entry["why"].as_str().is_some_and(|why| !why.is_empty()), "{entry}");
        }
    }

    /// Frames as they really are on stacks have the names that users ask for.
    #[test]
    fn names_that_users_ask_for() {
        let site = "/usr/lib/python3/dist-packages";
        let name = |file: &str, qualname| python(&format!("{site}/{file}"), qualname);
        assert_eq!(name("torch/autograd/__init__.py", "backward"), Some("torch.autograd.backward"));
        assert_eq!(name("torch/_tensor.py", "Tensor.backward"), Some("torch.autograd.backward"));
        let wrapper = "Optimizer._hook_for_profile.<locals>.profile_hook_step.<locals>.wrapper";
        assert_eq!(name("torch/optim/optimizer.py", wrapper), Some("optimizer.step"));
        let wrapper = "Optimizer.profile_hook_step.<locals>.wrapper";
        assert_eq!(name("torch/optim/optimizer.py", wrapper), Some("optimizer.step"));
        assert_eq!(name("torch/nn/modules/module.py", "Module._call_impl"), Some("torch.nn.Module.__call__"));
        assert_eq!(name("tensorflow/python/client/session.py", "BaseSession.run"), Some("tf.Session.run"));
    }

    /// CPython 3.10 and older know only the last part of a name.
    #[test]
    fn names_without_qualification() {
        assert_eq!(python("/x/tensorflow/python/client/session.py", "run"), Some("tf.Session.run"));
    }

    /// A user's own file or function that merely resembles a framework's is not taken for it.
    #[test]
    fn lookalikes_are_left_alone() {
        assert_eq!(python("/home/me/mytorch/_tensor.py", "Tensor.backward"), None);
        assert_eq!(python("/x/torch/_tensor.py", "MyTensor.backward"), None);
        let native =
            |name| ApiNames::built_in().name_of(&frame(FrameKind::Native, "", name)).map(|api| api.name);
        assert_eq!(native("MXAutogradBackwardEx"), Some("mxnet.autograd.backward"));
        assert_eq!(native("MXAutogradBackwardExtra"), None);
        let thread =
            "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)";
        assert_eq!(native(thread), Some("torch.autograd.backward"));
        // `backward` and `grad` both call it.
        let engine = native("THPEngine_run_backward(_object*, _object*, _object*)");
        assert_eq!(engine, Some("torch.autograd.backward or torch.autograd.grad"));
    }

    /// Of the frames of one name, the rule that comes first in the table is what the name means.
    #[test]
    fn the_first_rule_is_the_meaning() {
        let names = ApiNames::built_in();
        let rule = |file, name| names.name_of(&frame(FrameKind::Python, file, name)).map(|api| api.rule);
        assert!(rule("torch/autograd/__init__.py", "backward") < rule("torch/_tensor.py", "Tensor.backward"));
    }
}
