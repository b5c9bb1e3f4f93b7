//! A package's modules as files: opened here, with the rights of the user who reads the result, and read by a resolver's worker.
//!
//! Where the files lie is what the frames say, which a program may forge. So files are opened as the invoking user (`setfsuid`), inside the
//! root that they are in, below the folder of packages and by identifiers alone; and only where everybody may read them, or that user owns
//! them. A time limit ends it: names that were not found by then are real ones. Leaves out the search (`search.rs`), and which folders hold
//! packages though their names do not tell (`installed.rs`).

use super::installed::find_installed;
use super::modules::{Module, Source};
use super::search::find;
use energy_trace_foreign::files::Root;
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::recording::PublicNames;
use energy_trace_model::recording::record::{CalledOn, Frame, FrameKind, InstalledPackage, PublicName};
use energy_trace_system::roles::channel::MOST_FILES;
use nix::unistd::{Gid, Uid, geteuid, setfsgid, setfsuid};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long all names may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Packages that are looked at, and names of each.
const MOST_PACKAGES: usize = 200;
const MOST_NAMES: usize = 20_000;

/// A package where it is installed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Installed {
    /// The folder of packages, with a slash at its end.
    site: String,
    package: String,
}

/// The public names of the functions and classes that these frames are of, and the packages whose folder does not tell that they are. `roots`
/// are those in which the files may lie.
pub fn find_public_names<'a>(
    frames: impl Iterator<Item = (&'a Frame, Option<&'a CalledOn>)> + Clone,
    roots: &[Root],
    reader: Option<(Uid, Gid)>,
    worker: &Worker,
) -> (Vec<PublicName>, Vec<InstalledPackage>) {
    let _rights = ReadAs::begin(reader);
    let reading = Reading::begin(reader.map_or_else(geteuid, |(uid, _)| uid), worker);
    let installed = find_installed(frames.clone().map(|(frame, _)| frame), roots, &reading);
    let mut places = PublicNames::default();
    installed.iter().for_each(|package| places.install(package.clone()));
    let seen = seen_of(frames, &places);
    let mut names = Vec::new();
    for (installed, seen) in &seen {
        for root in roots {
            let mut files = Files { root, installed, reading: &reading };
            if files.open(&installed.package).is_some() {
                names.extend(find(&installed.package, seen, &mut files));
                break;
            }
        }
    }
    log::info!("{} public names of {} packages in {:?}", names.len(), seen.len(), reading.begin.elapsed());
    (names, installed.into_iter().collect())
}

/// What was seen of each package.
fn seen_of<'a>(
    frames: impl Iterator<Item = (&'a Frame, Option<&'a CalledOn>)>,
    places: &PublicNames,
) -> BTreeMap<Installed, BTreeSet<(String, String)>> {
    let mut seen: BTreeMap<Installed, BTreeSet<(String, String)>> = BTreeMap::new();
    for (frame, on) in frames.filter(|(frame, _)| frame.kind == FrameKind::Python) {
        let Some((site, package)) = place_of(&frame.file, places) else { continue };
        let installed = Installed { site: site.to_owned(), package: package.to_owned() };
        let head = frame.name.split(['.', '?']).next().unwrap_or_default();
        if head.starts_with('<') || (seen.len() >= MOST_PACKAGES && !seen.contains_key(&installed)) {
            continue;
        }
        let names = seen.entry(installed).or_default();
        if names.len() < MOST_NAMES {
            names.insert((frame.module.clone(), head.to_owned()));
        }
        if let Some(CalledOn::Class { module, name }) = on
            && is_of(module, package)
            && names.len() < MOST_NAMES
        {
            names.insert((module.clone(), name.clone()));
        }
    }
    seen
}

/// Whether a module is part of a package.
fn is_of(module: &str, package: &str) -> bool {
    module.split('.').next() == Some(package)
}

/// The folder of packages that a file lies in, and the package: `…/site-packages/`, `torch`.
fn place_of<'a>(file: &'a str, places: &PublicNames) -> Option<(&'a str, &'a str)> {
    let folder = ["/site-packages/", "/dist-packages/"];
    let known = folder.iter().filter_map(|folder| Some(file.rfind(folder)? + folder.len())).max();
    let below = || Some(file.len() - places.below_folder(file)?.len());
    let (site, below) = file.split_at_checked(known.or_else(below)?)?;
    let first = below.split('/').next()?;
    let package = first.strip_suffix(".py").unwrap_or(first);
    is_module(package).then_some((site, package))
}

/// Whether it is a dotted name of identifiers, which no path can be hidden in.
fn is_module(name: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    name.len() < 500 && name.split('.').all(is_part)
}

/// What may be read, by whom, and until when.
pub(super) struct Reading<'a> {
    owner: Uid,
    pub(super) worker: &'a Worker,
    begin: Instant,
}

impl<'a> Reading<'a> {
    /// Begins now, for this user.
    pub(super) fn begin(owner: Uid, worker: &'a Worker) -> Self {
        Self { owner, worker, begin: Instant::now() }
    }

    /// Whether everybody may read a file or folder, or that user owns it.
    pub(super) fn may_read(&self, found: &Metadata) -> bool {
        found.mode() & 0o004 != 0 || found.uid() == self.owner.as_raw()
    }

    /// Opens a file, while there is time.
    pub(super) fn open(&self, root: &Root, path: String) -> Option<File> {
        let is_late = self.begin.elapsed() > PATIENCE;
        let open = || root.open_if(&PathBuf::from(path), true, |found| self.may_read(found)).ok();
        if is_late { None } else { open() }
    }
}

/// The modules of an installed package.
struct Files<'a> {
    root: &'a Root,
    installed: &'a Installed,
    reading: &'a Reading<'a>,
}

impl Files<'_> {
    /// Opens a module: whether it is a folder with `__init__.py`, and the file.
    fn open(&self, module: &str) -> Option<(bool, File)> {
        if !is_module(module) {
            return None;
        }
        let path = format!("{}{}", self.installed.site, module.replace('.', "/"));
        let open = |path| self.reading.open(self.root, path);
        let init = open(format!("{path}/__init__.py")).map(|file| (true, file));
        init.or_else(|| open(format!("{path}.py")).map(|file| (false, file)))
    }
}

impl Source for Files<'_> {
    fn read(&mut self, modules: &[String]) -> Vec<Option<Module>> {
        let label = format!("modules of {}", self.installed.package);
        let mut read = Vec::with_capacity(modules.len());
        for some in modules.chunks(MOST_FILES) {
            let open: Vec<Option<(bool, File)>> = some.iter().map(|module| self.open(module)).collect();
            let files: Vec<&File> = open.iter().flatten().map(|(_, file)| file).collect();
            let facts = if files.is_empty() {
                Ok(Vec::new())
            } else {
                self.reading.worker.python_modules(&label, &files)
            };
            let mut facts = facts.unwrap_or_default().into_iter();
            let module = |open: Option<(bool, File)>| {
                let (is_package, _) = open?;
                Some(Module { facts: facts.next()?, is_package })
            };
            read.extend(open.into_iter().map(module));
        }
        read
    }

    fn is_package(&mut self, module: &str) -> bool {
        self.open(module).is_some_and(|(is_package, _)| is_package)
    }
}

/// This thread opens files with a user's rights, until it is dropped.
struct ReadAs(Option<(Uid, Gid)>);

impl ReadAs {
    fn begin(reader: Option<(Uid, Gid)>) -> Self {
        Self(reader.map(|(uid, gid)| {
            let group = setfsgid(gid);
            (setfsuid(uid), group)
        }))
    }
}

impl Drop for ReadAs {
    fn drop(&mut self) {
        if let Some((uid, gid)) = self.0 {
            setfsuid(uid);
            setfsgid(gid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{find_public_names, is_module, place_of};
    use energy_trace_foreign::files::Root;
    use energy_trace_foreign::resolver::Resolver;
    use energy_trace_model::recording::PublicNames;
    use energy_trace_model::recording::record::{Frame, FrameKind};
    use nix::unistd::{Gid, Uid};
    use std::os::unix::fs::PermissionsExt as _;

    /// Packages by path; what is no identifier is no package, and leads nowhere.
    #[test]
    fn places() {
        let place_of = |file| place_of(file, &PublicNames::default());
        let torch = "/v/lib/python3.11/site-packages/torch/nn/functional.py";
        assert_eq!(place_of(torch), Some(("/v/lib/python3.11/site-packages/", "torch")));
        assert_eq!(place_of("/usr/lib/python3/dist-packages/six.py").unwrap().1, "six");
        assert_eq!(place_of("/v/site-packages/../x.py"), None);
        assert_eq!(place_of("/home/me/train.py"), None);
        assert!(is_module("a.b_1") && !is_module("a..b") && !is_module("a/b") && !is_module(""));
    }

    /// A package's names by its own files, read by a worker; files that its reader may not read name nothing.
    #[test]
    fn names_of_a_package() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let site = folder.path().join("site-packages");
        let write = |path: &str, text: &str| {
            let path = site.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("pkg/__init__.py", "from ._core import Model\nfrom pkg import ops\n");
        write("pkg/_core.py", "class Model(Trainer): pass\n");
        write("pkg/ops/__init__.py", "from .._impl import *\n");
        let more = "from ._more import *\nfrom . import _more\nfrom ._core import Model as Base\n";
        let lists = "__all__ = ['fast']\n__all__ += _more.__all__\n";
        write("pkg/_impl.py", &format!("{more}{lists}def fast(): pass\ndef slow(): pass\n"));
        write("pkg/_more.py", "__all__ = ['more']\ndef more(): pass\ndef less(): pass\n");
        let frame = |module: &str, name: &str| Frame {
            kind: FrameKind::Python,
            name: name.into(),
            module: module.into(),
            file: site.join("pkg/x.py").to_string_lossy().into_owned(),
            line: 1,
            first_line: 1,
            address: 0,
        };
        let frames = [
            frame("pkg._core", "Model.fit"),
            frame("pkg._impl", "fast"),
            frame("pkg._impl", "slow"),
            frame("pkg._more", "more"),
            frame("pkg._more", "less"),
            frame("pkg", "<module>"),
        ];
        let resolver = Resolver::start(false).unwrap();
        let worker = resolver.worker(false);
        let find = |reader| {
            find_public_names(frames.iter().map(|frame| (frame, None)), &[Root::default()], reader, &worker).0
        };
        let public: Vec<String> = find(None).into_iter().map(|name| name.public).collect();
        assert_eq!(public, ["pkg.Model", "pkg.ops.fast", "pkg.ops.more"]);
        let nobody = Some((Uid::from_raw(65534), Gid::from_raw(65534)));
        assert_eq!(find(nobody).len(), 3);
        std::fs::set_permissions(&site, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(find(nobody), []);
        assert_eq!(find(None).len(), 3);
    }

    /// A package that only its metadata tells of has its public names as well.
    #[test]
    fn names_of_a_package_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("pkg-1.dist-info/RECORD", "pkg/__init__.py,,\npkg/_core.py,,\n");
        write("pkg/__init__.py", "from ._core import run\n");
        write("pkg/_core.py", "def run(): pass\n");
        let frame = |file: &str, module: &str| Frame {
            kind: FrameKind::Python,
            name: "run".into(),
            module: module.into(),
            file: folder.path().join(file).to_string_lossy().into_owned(),
            line: 1,
            first_line: 1,
            address: 0,
        };
        let frames = [frame("pkg/_core.py", "pkg._core"), frame("app.py", "app")];
        let resolver = Resolver::start(false).unwrap();
        let worker = resolver.worker(false);
        let frames = frames.iter().map(|frame| (frame, None));
        let (names, installed) = find_public_names(frames, &[Root::default()], None, &worker);
        assert_eq!(names.iter().map(|name| name.public.as_str()).collect::<Vec<_>>(), ["pkg.run"]);
        assert_eq!(installed.iter().map(|found| found.package.as_str()).collect::<Vec<_>>(), ["pkg"]);
    }
}
