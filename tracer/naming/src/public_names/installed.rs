//! Where packages are installed whose folder has no name that tells: `pip install --target`, layers, archives, wheels and eggs.
//!
//! A module's name below its file's path is the folder from which it was imported, an entry of `sys.path`. Where the metadata of something
//! installed lies there (`*.dist-info` with its `RECORD`), what that lists is a package; what else lies there is the program's. A project
//! under development has no such list. Folders and lists are opened with the rights of the user who reads the result, lists and archives
//! are read by a resolver's worker. Leaves out names (`search.rs`).

use super::files::Reading;
use energy_trace_foreign::files::Root;
use energy_trace_foreign::files::install::by_descriptor;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::recording::package_in;
use energy_trace_model::recording::record::{Frame, FrameKind, InstalledPackage};
use energy_trace_system::roles::channel::MOST_FILES;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

/// Folders that are looked at, entries of each, and what is installed in it, at the most.
const MOST_FOLDERS: usize = 100;
const MOST_ENTRIES: usize = 20_000;
const MOST_INSTALLED: usize = 1_000;
/// Folders between a module and the archive that it is in.
const MOST_ABOVE: usize = 8;

/// The packages that these frames are of, by folder.
pub(super) fn find_installed<'a>(
    frames: impl Iterator<Item = &'a Frame> + Clone,
    roots: &[Root],
    reading: &Reading<'_>,
) -> BTreeSet<InstalledPackage> {
    let python = frames.clone().filter(|frame| frame.kind == FrameKind::Python);
    let mut folders: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for folder in python.filter_map(folder_of) {
        if folders.len() < MOST_FOLDERS || folders.contains_key(folder) {
            folders.entry(folder).or_default();
        }
    }
    for (folder, packages) in &mut folders {
        *packages = roots.iter().find_map(|root| listed(root, folder, reading)).unwrap_or_default();
    }
    let file = |frame: &'a Frame| if frame.kind == FrameKind::Python { &frame.file } else { &frame.module };
    let of = |file: &'a String| {
        folders.iter().find_map(|(folder, packages)| {
            let package = package_in(file.strip_prefix(folder)?);
            let is_there = packages.contains(package) || is_package_itself(folder);
            is_there.then(|| InstalledPackage { folder: (*folder).to_owned(), package: package.to_owned() })
        })
    };
    frames.map(file).filter_map(of).filter(|found| !found.package.is_empty()).fill_set()
}

/// The folder or archive, with a slash at its end, that a function's module was imported from; `None` where that is told by its name, or the
/// file's path is not the module's.
fn folder_of(frame: &Frame) -> Option<&str> {
    let file = frame.file.strip_suffix(".py")?;
    let path = frame.module.replace('.', "/");
    let folder = file.strip_suffix(&path).or_else(|| file.strip_suffix("/__init__")?.strip_suffix(&path))?;
    let is_known = ["/site-packages/", "/dist-packages/"].iter().any(|known| folder.contains(known));
    (folder.starts_with('/') && folder.ends_with('/') && !is_known).then_some(folder)
}

/// Whether everything that is imported from a folder is a package: a wheel, or an egg.
fn is_package_itself(folder: &str) -> bool {
    let name = folder.trim_end_matches('/');
    Path::new(name).extension().is_some_and(|ending| ending == "whl" || ending == "egg")
}

/// What metadata lists in a folder; `None` where there is no such folder, or none.
fn listed(root: &Root, folder: &str, reading: &Reading<'_>) -> Option<BTreeSet<String>> {
    let lists = match root.folder(Path::new(folder)) {
        Ok(open) => lists_in(root, folder, &open, reading),
        Err(_) => return in_archive(root, folder, reading),
    };
    let mut packages = BTreeSet::new();
    for some in lists.chunks(MOST_FILES) {
        let files: Vec<&File> = some.iter().collect();
        packages.extend(reading.worker.python_lists(folder, &files).ok()?.into_iter().flatten());
    }
    (!packages.is_empty()).then_some(packages)
}

/// The lists of files of what is installed in a folder.
fn lists_in(root: &Root, folder: &str, open: &File, reading: &Reading<'_>) -> Vec<File> {
    let is_readable = open.metadata().is_ok_and(|found| reading.may_read(&found));
    let Some(entries) = is_readable.then(|| std::fs::read_dir(by_descriptor(open)).ok()).flatten() else {
        return Vec::new();
    };
    let list = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let list = match name.rsplit_once('.')?.1 {
            "dist-info" => "RECORD",
            "egg-info" => "installed-files.txt",
            _ => return None,
        };
        reading.open(root, format!("{folder}{name}/{list}"))
    };
    entries.take(MOST_ENTRIES).filter_map(list).take(MOST_INSTALLED).collect()
}

/// What metadata lists in an archive that is somewhere above.
fn in_archive(root: &Root, folder: &str, reading: &Reading<'_>) -> Option<BTreeSet<String>> {
    let above = folder.match_indices('/').map(|(at, _)| folder.split_at(at)).rev().take(MOST_ABOVE);
    let mut archives = above.filter_map(|(path, below)| {
        Some((reading.open(root, path.to_owned())?, below.trim_start_matches('/')))
    });
    let (archive, below) = archives.next()?;
    reading.worker.python_archive(folder, &archive, below).ok().filter(|packages| !packages.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{find_installed, folder_of, is_package_itself};
    use crate::public_names::files::Reading;
    use energy_trace_foreign::files::Root;
    use energy_trace_foreign::resolver::Resolver;
    use energy_trace_model::recording::record::{Frame, FrameKind};
    use nix::unistd::Uid;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn frame(file: &str, module: &str) -> Frame {
        Frame {
            kind: FrameKind::Python,
            name: "f".into(),
            module: module.into(),
            file: file.into(),
            line: 1,
            first_line: 1,
            address: 0,
        }
    }

    /// The folder that a module was imported from is what its name leaves of its path.
    #[test]
    fn folders_of_modules() {
        let of = |file: &str, module: &str| folder_of(&frame(file, module)).map(str::to_owned);
        assert_eq!(of("/var/task/yaml/loader.py", "yaml.loader").as_deref(), Some("/var/task/"));
        assert_eq!(of("/opt/python/yaml/__init__.py", "yaml").as_deref(), Some("/opt/python/"));
        assert_eq!(of("/x/tool.pyz/lib/six.py", "six").as_deref(), Some("/x/tool.pyz/lib/"));
        for (file, module) in [
            ("/v/site-packages/yaml/loader.py", "yaml.loader"),
            ("/build/elsewhere/loader.py", "yaml.loader"),
            ("yaml/loader.py", "yaml.loader"),
            ("/x/notyaml/loader.py", "yaml.loader"),
            ("<string>", "yaml"),
        ] {
            assert_eq!(of(file, module), None, "{file}");
        }
        assert!(is_package_itself("/x/six-1.16-py3-none-any.whl/") && !is_package_itself("/x/deps/"));
    }

    /// What a folder's metadata lists is a package, and what lies beside it is not; a project under development lists nothing, and a folder
    /// that its reader may not look into is not looked into.
    #[test]
    fn packages_in_a_folder() {
        let place = tempfile::tempdir().unwrap();
        let task = place.path().join("task");
        let write = |path: &str, text: &str| {
            let path = task.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("PyYAML-6.0.dist-info/RECORD", "yaml/__init__.py,,\n_yaml.cpython-312-x86_64-linux-gnu.so,,\n");
        write("old.egg-info/installed-files.txt", "../old/__init__.py\n");
        write("mine.egg-info/SOURCES.txt", "mine/__init__.py\n");
        let path = |path: &str| task.join(path).to_string_lossy().into_owned();
        let native = Frame {
            kind: FrameKind::Native,
            module: path("_yaml.cpython-312-x86_64-linux-gnu.so"),
            ..frame("", "")
        };
        let frames = [
            frame(&path("yaml/loader.py"), "yaml.loader"),
            frame(&path("old/__init__.py"), "old"),
            frame(&path("handler.py"), "handler"),
            frame(&path("mine/x.py"), "mine.x"),
            frame("/x/six-1.16.whl/six.py", "six"),
            native,
        ];
        let resolver = Resolver::start(false).unwrap();
        let worker = resolver.worker(false);
        let find = |owner| {
            let reading = Reading::begin(Uid::from_raw(owner), &worker);
            let found = find_installed(frames.iter(), &[Root::default()], &reading);
            found.into_iter().map(|found| found.package).collect::<Vec<_>>()
        };
        assert_eq!(find(nix::unistd::geteuid().as_raw()), ["_yaml", "old", "yaml", "six"]);
        std::fs::set_permissions(&task, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(find(65534), ["six"]);
    }

    /// Packages in an archive are told by its own metadata, at its root and in a folder of it.
    #[test]
    fn packages_in_an_archive() {
        let place = tempfile::tempdir().unwrap();
        let archive = place.path().join("tool.pyz");
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)\n\
                      z.writestr('six-1.dist-info/RECORD', 'six.py,,\\n')\nz.writestr('lib/b.dist-info/RECORD', 'b/x.py,,\\n')\n";
        let made =
            std::process::Command::new("python3").arg("-c").arg(script).arg(&archive).status().unwrap();
        assert!(made.success());
        let path = |below: &str| format!("{}/{below}", archive.display());
        let frames =
            [frame(&path("six.py"), "six"), frame(&path("lib/b/x.py"), "b.x"), frame(&path("own.py"), "own")];
        let resolver = Resolver::start(false).unwrap();
        let worker = resolver.worker(false);
        let reading = Reading::begin(nix::unistd::geteuid(), &worker);
        let found = find_installed(frames.iter(), &[Root::default()], &reading);
        let found: Vec<(&Path, &str)> =
            found.iter().map(|found| (Path::new(&found.folder), found.package.as_str())).collect();
        assert_eq!(found, [(&*archive, "six"), (&*archive.join("lib"), "b")]);
    }
}
