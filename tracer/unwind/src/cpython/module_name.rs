//! What the module of a Python function is called to users: by its own `__name__`, else by its file's path.
//!
//! A program has the name of its file instead of `__main__`, where that is one that somebody wrote; a cell of a notebook has none. Nothing is
//! looked up in a file system: the path is the traced program's word. Leaves out reading the name (`globals`).

use std::path::Path;

/// What a module's globals say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnName {
    /// `__name__`.
    pub name: String,
    /// `__package__` of a program.
    pub package: Option<String>,
    /// Where the source of a module lies that was compiled elsewhere, by `__file__`.
    pub source: Option<String>,
}

impl OwnName {
    /// Whether this is the name of a program, also of one that multiprocessing began anew.
    pub fn is_main(name: &str) -> bool {
        matches!(name, "__main__" | "__mp_main__")
    }
}

/// Whether this file may be where somebody compiled a module of this name: it cannot be the module's place, it is relative
/// (`compileall -b .`), or neither packages nor Python's own modules lie there, of which there are too many to ask each.
pub(super) fn may_be_elsewhere(file: &str, module: &str) -> bool {
    let last = module.rsplit('.').next();
    let bare = bare_path(file).filter(|bare| bare.rsplit('/').next() == last);
    let is_settled =
        || ["-packages/", "/lib/python3", "/lib64/python3"].iter().any(|known| file.contains(known));
    bare.is_some() && (!is_place_of(file, module) || !file.starts_with('/') || !is_settled())
}

/// The source of a module by its `__file__`, which may be that of its bytecode, where it can be.
pub(super) fn source_of(file: &str, module: &str) -> Option<String> {
    let source = file.strip_suffix('c').filter(|source| source.ends_with(".py")).unwrap_or(file);
    (source.starts_with('/') && is_place_of(source, module)).then(|| source.to_owned())
}

fn is_place_of(file: &str, module: &str) -> bool {
    let path = module.replace('.', "/");
    let above = bare_path(file).and_then(|bare| bare.strip_suffix(&path));
    above.is_some_and(|above| above.is_empty() || above.ends_with('/'))
}

/// A source's path without its ending; of a package its folder's.
fn bare_path(file: &str) -> Option<&str> {
    let bare = file.strip_suffix(".py")?;
    Some(bare.strip_suffix("/__init__").unwrap_or(bare))
}

/// The dotted name of a module that says this of itself: `torch.autograd`; `train` for the program `train.py`, `pkg.cli` for `python -m pkg.cli`.
pub fn module_named(file: &str, own: &OwnName) -> String {
    // The import system has another name for itself while it is set up.
    if let Some(frozen) = frozen(file) {
        return frozen.to_owned();
    }
    if !OwnName::is_main(&own.name) {
        return own.name.clone();
    }
    match (&own.package, stem(file)) {
        (_, stem) if stem.is_empty() || file.starts_with('<') || is_cell(file) || is_descriptor(file) => {
            "__main__".to_owned()
        }
        (Some(package), stem) => format!("{package}.{stem}"),
        (None, stem) => stem,
    }
}

/// The same by the path alone, where the module's own word is not known: below a folder of packages or of Python's own modules every folder counts
/// as a package.
pub fn module_by_path(file: &str) -> String {
    if let Some(frozen) = frozen(file) {
        return frozen.to_owned();
    }
    if file.starts_with('<') {
        return file.to_owned();
    }
    if is_cell(file) || is_descriptor(file) {
        return "__main__".to_owned();
    }
    let stem = stem(file);
    let parts: Vec<String> = Path::new(file)
        .ancestors()
        .skip(1)
        .take_while(|folder| below_root(folder))
        .filter_map(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let parts = parts.into_iter().rev().chain([stem].into_iter().filter(|stem| stem != "__init__"));
    parts.collect::<Vec<_>>().join(".")
}

/// What named a module, as far as its name and its file tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleRule {
    /// It is frozen into the interpreter, which says so in the place of a file.
    Frozen,
    /// It is a cell of a notebook, or was typed.
    Main,
    /// Its path says the same, so that its own word may not have been known.
    Path,
    /// Its own `__name__`; of a program with its package's.
    OwnName,
}

impl ModuleRule {
    /// Of a module that a file's function was recorded with.
    pub fn of(file: &str, module: &str) -> Self {
        match module {
            _ if frozen(file) == Some(module) => Self::Frozen,
            "__main__" => Self::Main,
            _ if module_by_path(file) == module => Self::Path,
            _ => Self::OwnName,
        }
    }
}

/// The module that is frozen into the interpreter under this name.
fn frozen(file: &str) -> Option<&str> {
    file.strip_prefix("<frozen ")?.strip_suffix('>')
}

fn stem(file: &str) -> String {
    Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whether this file is a cell of a notebook: IPython's, a Jupyter kernel's (`/tmp/ipykernel_PID/NUMBER.py`), Colab's, Databricks', marimo's, an
/// editor's.
fn is_cell(file: &str) -> bool {
    let mut parts = file.rsplit('/');
    let (name, folder) = (parts.next().unwrap_or(file), parts.next().unwrap_or_default());
    let name = name.trim_start_matches('<');
    let is_command = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    folder.starts_with("ipykernel_")
        || name.contains(".ipynb")
        || name.starts_with("ipython-input-")
        || name.starts_with("__marimo__cell_")
        || name.strip_prefix("command-").is_some_and(is_command)
}

/// Whether a program was read from a descriptor, whose number is no name: a shell's `<(…)`.
fn is_descriptor(file: &str) -> bool {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder == "/dev/fd" || folder.starts_with("/proc/") && folder.ends_with("/fd")
}

/// Whether a folder is a package, as it lies below a folder in which modules lie.
fn below_root(folder: &Path) -> bool {
    !is_root(folder) && folder.ancestors().skip(1).any(is_root)
}

/// Whether packages lie in a folder, or Python's own modules: `lib/python3.11`.
fn is_root(folder: &Path) -> bool {
    let name =
        |folder: &Path| folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let is_version = |rest: &str| rest.trim_end_matches('t').bytes().all(|byte| byte.is_ascii_digit());
    match name(folder).as_str() {
        "site-packages" | "dist-packages" | "lib-dynload" => true,
        other => {
            let is_lib = folder.parent().is_some_and(|above| matches!(name(above).as_str(), "lib" | "lib64"));
            is_lib && other.strip_prefix("python3.").is_some_and(is_version)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ModuleRule, OwnName, may_be_elsewhere, module_by_path, module_named, source_of};

    /// What named a module is told apart where its file tells, and only there.
    #[test]
    fn what_named_a_module() {
        let named = |file, module| ModuleRule::of(file, module);
        assert_eq!(named("<frozen importlib._bootstrap>", "importlib._bootstrap"), ModuleRule::Frozen);
        assert_eq!(named("<stdin>", "__main__"), ModuleRule::Main);
        assert_eq!(named("/v/site-packages/torch/nn/functional.py", "torch.nn.functional"), ModuleRule::Path);
        assert_eq!(named("/home/me/pkg/mod.py", "pkg.mod"), ModuleRule::OwnName);
    }

    /// A module is what it says that it is: in an archive, in a package without `__init__.py`, compiled elsewhere, run by `exec`.
    #[test]
    fn by_their_own_word() {
        let name = |file, name: &str| {
            module_named(file, &OwnName { name: name.into(), package: None, source: None })
        };
        assert_eq!(name("/home/me/tool.pyz/pkg/mod.py", "pkg.mod"), "pkg.mod");
        assert_eq!(name("/home/me/src/space/part.py", "space.part"), "space.part");
        assert_eq!(name("C:\\build\\mod.py", "pkg.mod"), "pkg.mod");
        assert_eq!(name("<string>", "plugin"), "plugin");
        assert_eq!(name("<frozen importlib._bootstrap>", "_frozen_importlib"), "importlib._bootstrap");
    }

    /// The program is called by its file, with its package where `python -m` ran it; typed code, an archive and a notebook are `__main__`.
    #[test]
    fn programs() {
        let name = |file, package: Option<&str>| {
            let package = package.map(str::to_owned);
            module_named(file, &OwnName { name: "__main__".into(), package, source: None })
        };
        assert_eq!(name("/home/me/train.py", None), "train");
        assert_eq!(name("/usr/bin/jupyter", None), "jupyter");
        assert_eq!(name("/home/me/command-line.py", None), "command-line");
        assert_eq!(name("/v/site-packages/ipykernel_launcher.py", None), "ipykernel_launcher");
        assert_eq!(name("/home/me/pkg/cli.py", Some("pkg")), "pkg.cli");
        assert_eq!(name("/home/me/pkg/__main__.py", Some("pkg")), "pkg.__main__");
        assert_eq!(name("/home/me/tool.pyz/__main__.py", None), "__main__");
        let again = OwnName { name: "__mp_main__".into(), package: None, source: None };
        assert_eq!(module_named("/x/a.py", &again), "a");
        for cell in [
            "/tmp/ipykernel_4711/2731230984.py",
            "<ipython-input-3-8a2e>",
            "/home/me/a.ipynb Cell 3",
            "/root/.ipykernel/77/command-123-456",
            "<command-1234>",
            "/tmp/ipython-input-3-149437.py",
            "/tmp/marimo_77/__marimo__cell_Hbol_.py",
            "/dev/fd/63",
            "/proc/self/fd/7",
            "<stdin>",
            "",
        ] {
            assert_eq!(name(cell, None), "__main__", "{cell}");
        }
    }

    /// A module that was compiled elsewhere has its source where it says; code that a module runs of another file has
    /// not, and nobody asks where packages are.
    #[test]
    fn compiled_elsewhere() {
        for (file, module) in [
            ("/build/mod.py", "pkg.mod"),
            ("/b/pkg/__init__.py", "all.pkg"),
            ("/x/pkg/mod.py", "pkg.mod"),
            ("./pkg/mod.py", "pkg.mod"),
            ("site-packages/pkg/mod.py", "pkg.mod"),
        ] {
            assert!(may_be_elsewhere(file, module), "{file}");
        }
        for (file, module) in [
            ("/v/site-packages/pkg/mod.py", "pkg.mod"),
            ("/v/lib/python3.12/pkg/__init__.py", "pkg"),
            ("/x/conf.py", "pkg.mod"),
            ("<string>", "pkg.mod"),
        ] {
            assert!(!may_be_elsewhere(file, module), "{file}");
        }
        let source = |file| source_of(file, "pkg.mod");
        assert_eq!(source("/v/site-packages/pkg/mod.pyc").as_deref(), Some("/v/site-packages/pkg/mod.py"));
        assert_eq!(source("/x/a.zip/pkg/mod.py").as_deref(), Some("/x/a.zip/pkg/mod.py"));
        assert_eq!(
            (source("/x/other.py"), source("pkg/mod.py"), source("/x/pkg/mod.so")),
            (None, None, None)
        );
    }

    /// Without its own word: packages, modules, scripts, and code without a file.
    #[test]
    fn by_their_path() {
        let name = module_by_path;
        assert_eq!(name("/usr/lib/python3/dist-packages/torch/autograd/__init__.py"), "torch.autograd");
        assert_eq!(name("/v/lib/python3.11/site-packages/google/api/x.py"), "google.api.x");
        assert_eq!(name("/usr/lib/python3.11/argparse.py"), "argparse");
        assert_eq!(name("/v/lib/python3.11/multiprocessing/connection.py"), "multiprocessing.connection");
        assert_eq!(name("/opt/lib64/python3.13t/json/__init__.py"), "json");
        assert_eq!(name("/home/me/python3.11/src/train.py"), "train");
        assert_eq!(name("train.py"), "train");
        assert_eq!(name("/home/me/train.py"), "train");
        assert_eq!(name("/tmp/ipykernel_4711/2731230984.py"), "__main__");
        assert_eq!(name("/dev/fd/63"), "__main__");
        assert_eq!(name("<frozen importlib._bootstrap>"), "importlib._bootstrap");
        assert_eq!(name("<string>"), "<string>");
        assert_eq!(name(""), "");
    }
}
