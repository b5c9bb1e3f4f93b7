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
pub(super) const PACKAGES: [&str; 23] = [
    "tracer/src",
    "tracer/attribution/src",
    "tracer/bpf/src",
    "tracer/certainty/src",
    "tracer/counters/src",
    "tracer/cpu-time/src",
    "tracer/cupti/src",
    "tracer/delegation/src",
    "tracer/export/src",
    "tracer/foreign/src",
    "tracer/model/src",
    "tracer/names/src",
    "tracer/naming/src",
    "tracer/power/src",
    "tracer/probe/src",
    "tracer/report/src",
    "tracer/sentences/src",
    "tracer/statistics/src",
    "tracer/study/src",
    "tracer/symbols/src",
    "tracer/system/src",
    "tracer/unwind/src",
    "tracer-ebpf/src",
];

/// Circles of files that may stand, by one of their files, with the reason.
const ALLOWED: [(&str, &str); 28] = [
    (
        "tracer-ebpf/src/native.rs",
        "a walk bridges gaps by scans, and a scan tries what it finds by walking on",
    ),
    (
        "tracer-ebpf/src/on_cpu.rs",
        "the wire's events are described by what they are about, and have the wire's head",
    ),
    (
        "tracer-ebpf/src/probes/native_walk.rs",
        "a walk asks tables and scans, which go on by steps of the walk",
    ),
    (
        "tracer/attribution/src/gpu/charge.rs",
        "an estimate is charged, and says what the charge is to be based on",
    ),
    (
        "tracer/attribution/src/split/by_power.rs",
        "an interval is split by power, and its parts go into the sums of all intervals",
    ),
    ("tracer/cupti/src/cupti.rs", "CUPTI's functions are kept in the shared state that its callbacks use"),
    (
        "tracer/cupti/src/listen.rs",
        "callbacks give kernels numbers, and a new number is told to the callbacks' tally",
    ),
    (
        "tracer/foreign/src/peeker/client.rs",
        "an owner's patience is the client's, and what it does to a question is the client's answer",
    ),
    ("tracer/foreign/src/peeker/serve.rs", "a copy is kept of what was served as harmless"),
    (
        "tracer/foreign/src/resolver/client.rs",
        "a resolver lends workers, and a worker goes back to its resolver",
    ),
    (
        "tracer/model/src/profile/tables.rs",
        "a profile holds its diagnostics and its bins, which are profiles of parts",
    ),
    (
        "tracer/model/src/recording/domain.rs",
        "a domain names its source, and a source the quality of its domains",
    ),
    ("tracer/model/src/recording/file.rs", "a merged recording is a file of files"),
    (
        "tracer/naming/src/public_names/files.rs",
        "what is installed is found by reading files, and more files are read because of it",
    ),
    (
        "tracer/naming/src/public_names/search.rs",
        "names of private classes are a part of the search, under the search's deadline",
    ),
    (
        "tracer/probe/src/collect/losses.rs",
        "what the backlog refuses is a loss, and is counted as the others are",
    ),
    (
        "tracer/probe/src/processes/registry.rs",
        "a process has a credit of mappings, which all processes together limit",
    ),
    (
        "tracer/probe/src/tables/files.rs",
        "tables of code that was made at run time are kept among those of files",
    ),
    ("tracer/report/src/diff.rs", "the parts of a difference are made as its options say"),
    (
        "tracer/report/src/functions.rs",
        "calls are counted by function, and functions show how often they were called",
    ),
    ("tracer/report/src/json.rs", "one document, in files by its parts, which write energies alike"),
    ("tracer/src/cli/pages.rs", "a command writes the pages about all commands, itself too"),
    ("tracer/src/cli/record.rs", "options are resolved to the plan that `record` runs"),
    ("tracer/src/session/run.rs", "a run ends in `finish`, which is told how the run ended"),
    (
        "tracer/study/src/tables/layouts.rs",
        "`configurations` is a layout, and uses the columns of the others",
    ),
    (
        "tracer/symbols/src/python_calls.rs",
        "inputs are those of functions that are counted, and come with their counts",
    ),
    (
        "tracer/unwind/src/cfi.rs",
        "where there is no CFI rows come from code, whose functions are those that other code calls",
    ),
    (
        "tracer/unwind/src/cpython/code.rs",
        "CPython's objects hold each other: to read a name is to read classes, dictionaries and code",
    ),
];

/// The same of rooms.
const ALLOWED_ROOMS: [(&str, &str); 3] = [
    ("counter_file, sensors, source", "a source hands over its sensors, and both read counter files"),
    ("cpython, elf, hotspot", "an ELF file's facts hold what it says of an interpreter"),
    (
        "kind, plan, sources",
        "a kind opens its source as the plan says, and a plan has the places of all sources",
    ),
];

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
            format!("files need each other: {circle}: move what they share below them [circle]")
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
        let circles = circles.filter(|circle| circle.iter().any(|room| folders.contains(room))).map(join);
        circles.filter(|circle| !ALLOWED_ROOMS.iter().any(|(rooms, _)| rooms == circle)).collect()
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
        let circles = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1);
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

    /// No two files lean on each other; what they name of `mod.rs` and what tests name is no part of it.
    #[test]
    fn a_room_has_no_circle() {
        let ring = |files: usize| -> Vec<(String, String)> {
            (0..files)
                .map(|i| (format!("probe/f{i}.rs"), format!("use super::f{}::X;", (i + 1) % files)))
                .collect()
        };
        let found = |files: &[(String, String)]| {
            findings(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
        };
        assert_eq!(found(&ring(1)), Vec::<String>::new());
        assert_eq!(found(&ring(2)).len(), 1);
        assert_eq!(found(&ring(4)).len(), 1);
        let through_contents: Vec<(String, String)> = (0..4)
            .map(|i| (format!("probe/f{i}.rs"), "use super::Y;".to_owned()))
            .chain([("probe/mod.rs".to_owned(), "use self::{f0::A, f1::B, f2::C, f3::D};".to_owned())])
            .collect();
        assert_eq!(found(&through_contents), Vec::<String>::new());
    }
}
