//! Circles of imports: rooms that need each other, and files of a room of which none can be read alone.
//!
//! A room is a folder (or a file) directly below a package's `src`. Leaves out `mod.rs`, `lib.rs` and `main.rs` where files are compared:
//! they name what they hold, and what they hold may name what they re-export.

use super::source::Source;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Packages whose modules are looked at.
pub(super) const PACKAGES: [&str; 6] = [
    "tracer/src",
    "tracer/model/src",
    "tracer/attribution/src",
    "tracer/report/src",
    "tracer/cupti/src",
    "tracer-ebpf/src",
];

/// The largest circle of files inside a room.
const MOST_FILES: usize = 3;

/// Circles that may stand, by one of their files, with the reason.
const ALLOWED: [(&str, &str); 1] = [(
    "tracer-ebpf/src/probes/maps.rs",
    "a BPF object has one set of maps: each program names them, and they name each program's values",
)];

/// A module's path below its package: `["probe", "reader"]`.
type Module = Vec<String>;

/// The modules of one package and what each names of the others.
#[derive(Debug, Default)]
pub(super) struct Package {
    modules: BTreeMap<Module, File>,
}

#[derive(Debug)]
struct File {
    path: PathBuf,
    /// Paths that begin at the package or at the module, as written.
    named: Vec<Vec<String>>,
}

impl Package {
    /// Adds a file; `below` is its path below the package's `src`.
    pub(super) fn add(&mut self, source: &Source<'_>, below: &Path) {
        let mut module: Module =
            below.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            module.pop();
        }
        let own = source.paths.iter().filter(|path| source.is_product(path.line));
        let named = own.map(|path| path.segments.clone()).filter(|path| is_relative(path)).collect();
        self.modules.insert(module, File { path: source.path.to_owned(), named });
    }

    /// What is wrong, one sentence a circle.
    pub(super) fn findings(&self) -> Vec<String> {
        let rooms = self.circles_of_rooms().into_iter().map(|circle| {
            format!("rooms {circle} need each other: move what they share below both [circle]")
        });
        let files = self.circles_of_files().into_iter().map(|circle| {
            format!("more than {MOST_FILES} files need each other: {circle}: move what they share below them [circle]")
        });
        rooms.chain(files).collect()
    }

    fn circles_of_rooms(&self) -> Vec<String> {
        let folders: Vec<&str> =
            self.modules.keys().filter(|module| module.len() > 1).map(|module| module[0].as_str()).collect();
        let mut graph = DiGraphMap::<&str, ()>::new();
        for (from, to) in self.edges() {
            if let (Some(from), Some(to)) = (from.first(), to.first())
                && from != to
            {
                graph.add_edge(from.as_str(), to.as_str(), ());
            }
        }
        let circles = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1);
        circles.filter(|circle| circle.iter().any(|room| folders.contains(room))).map(join).collect()
    }

    fn circles_of_files(&self) -> Vec<String> {
        let mut graph = DiGraphMap::<&str, ()>::new();
        for (from, to) in self.edges() {
            let path = |module: &Module| self.modules.get(module).and_then(|file| file.path.to_str());
            if let (Some(from), Some(to)) = (path(from), path(to))
                && !is_contents(from)
                && !is_contents(to)
            {
                graph.add_edge(from, to, ());
            }
        }
        let circles = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > MOST_FILES);
        circles.filter(|circle| !circle.iter().any(|file| is_allowed(file))).map(join).collect()
    }

    /// Who names whom, both of them modules of this package.
    fn edges(&self) -> impl Iterator<Item = (&Module, &Module)> {
        self.modules.iter().flat_map(move |(module, file)| {
            let named = file.named.iter().filter_map(move |path| self.module_of(module, path));
            named.filter(move |to| *to != module).map(move |to| (module, to))
        })
    }

    /// The innermost module that a path in `module` leads to.
    fn module_of(&self, module: &Module, path: &[String]) -> Option<&Module> {
        let ups = path.iter().take_while(|segment| *segment == "super").count();
        let from_root = path.first().is_some_and(|first| first == "crate");
        let start = if from_root { 0 } else { module.len().checked_sub(ups)? };
        let rest = path.get(if from_root { 1 } else { ups.max(usize::from(path[0] == "self")) }..)?;
        let full: Module = module.iter().take(start).chain(rest).cloned().collect();
        (start..=full.len()).rev().find_map(|length| {
            let known = self.modules.get_key_value(full.get(..length)?);
            known.map(|(module, _)| module)
        })
    }
}

fn is_relative(path: &[String]) -> bool {
    path.first().is_some_and(|first| ["crate", "super", "self"].contains(&first.as_str()))
}

/// A table of contents.
fn is_contents(path: &str) -> bool {
    ["/mod.rs", "/lib.rs", "/main.rs"].iter().any(|name| path.ends_with(name))
}

fn is_allowed(path: &str) -> bool {
    ALLOWED.iter().any(|(file, _)| *file == path)
}

fn join(mut circle: Vec<&str>) -> String {
    circle.sort_unstable();
    circle.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{Package, Source};
    use std::path::Path;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut package = Package::default();
        for (path, text) in files {
            let full = Path::new("tracer/src").join(path);
            package.add(&Source::parse(&full, text).unwrap(), Path::new(path));
        }
        package.findings()
    }

    /// Two rooms that name each other are found, also where one is a file; a room that only is named is not.
    #[test]
    fn rooms_go_one_way() {
        let one_way = [
            ("power/mod.rs", "use crate::units::Joules;"),
            ("units.rs", ""),
            ("cli/mod.rs", "use crate::power::X;"),
        ];
        assert_eq!(findings(&one_way), Vec::<String>::new());
        let round = [
            ("plan.rs", "use crate::cli::Args;"),
            ("cli/mod.rs", ""),
            ("cli/record.rs", "use crate::plan::Plan;"),
        ];
        assert_eq!(findings(&round).len(), 1);
        assert!(findings(&round)[0].starts_with("rooms cli, plan"));
    }

    /// Three files may lean on each other, four may not; what they name of `mod.rs` and what tests name is no part of it.
    #[test]
    fn a_room_has_no_large_circle() {
        let ring = |files: usize| -> Vec<(String, String)> {
            (0..files)
                .map(|i| (format!("probe/f{i}.rs"), format!("use super::f{}::X;", (i + 1) % files)))
                .collect()
        };
        let found = |files: &[(String, String)]| {
            findings(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
        };
        assert_eq!(found(&ring(3)), Vec::<String>::new());
        assert_eq!(found(&ring(4)).len(), 1);
        let through_contents: Vec<(String, String)> = (0..4)
            .map(|i| (format!("probe/f{i}.rs"), "use super::Y;".to_owned()))
            .chain([("probe/mod.rs".to_owned(), "use self::{f0::A, f1::B, f2::C, f3::D};".to_owned())])
            .collect();
        assert_eq!(found(&through_contents), Vec::<String>::new());
    }
}
