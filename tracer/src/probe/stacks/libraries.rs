//! The files that frames lie in: what they are called in the recording, and kept open until their functions have names.
//!
//! A path does not name a file: containers have others under the same path, and a library may be replaced while it runs. Two files are one
//! module only if they have the same path and the same build id; a second file of a path is `path (2)`. A file that is open cannot be
//! confused with another that has its inode later.

use crate::foreign::Roots;
use crate::naming::Library;
use crate::peeker::Peeker;
use crate::probe::tables::files;
use crate::resolver::Worker;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::address_space::{FileKey, Mapping};
use energy_trace_unwind::vdso::key_of;
use nix::sys::resource::{Resource, getrlimit};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// Open files that are left to others: maps, sensors, the ring buffer.
const RESERVED: u64 = 512;

/// The files of frames.
pub(crate) struct Libraries {
    modules: HashMap<FileKey, Arc<str>>,
    open: BTreeMap<String, Library>,
    worker: Arc<Worker>,
    pub(crate) roots: Roots,
    /// How many files may be open.
    most: usize,
    /// Files that are not open: too many, or gone.
    pub(crate) closed: usize,
}

impl Libraries {
    /// None yet; this worker tells files apart.
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let most = usize::try_from(limit.saturating_sub(RESERVED)).unwrap_or(usize::MAX).max(64);
        let (modules, open, roots) = (HashMap::new(), BTreeMap::new(), Roots::default());
        Self { modules, open, worker, roots, most, closed: 0 }
    }

    /// The module of frames in a mapping; its file is opened when it is seen for the first time.
    pub(crate) fn module_of(&mut self, pid: Pid, mapping: &Mapping, peeker: &Peeker) -> Arc<str> {
        let Some(key) = key_of(mapping) else {
            return mapping.path.as_str().into();
        };
        if let Some(module) = self.modules.get(key) {
            return Arc::clone(module);
        }
        let module: Arc<str> = self.add(pid, mapping, peeker).into();
        self.modules.insert(key.clone(), Arc::clone(&module));
        module
    }

    /// The open files by module.
    pub(crate) const fn open(&self) -> &BTreeMap<String, Library> {
        &self.open
    }

    /// Opens a file and finds a name for it.
    fn add(&mut self, pid: Pid, mapping: &Mapping, peeker: &Peeker) -> String {
        let file = files::open(pid, mapping, true, peeker).ok().flatten();
        let file = file.map(|opened| opened.file).filter(|_| self.open.len() < self.most);
        let Some(file) = file else {
            self.closed += 1;
            // Its places must not be taken for those of another file that is there.
            return free_name(&self.open, &mapping.path);
        };
        let root = self.roots.of(peeker.root(pid).ok().flatten());
        let library = Library::new(file, root.path_inside(Path::new(&mapping.path)), root);
        let read = |library: &Library| library.read_build_id(&self.worker);
        let known = self.open.get(&mapping.path).and_then(read);
        if known.is_some() && known == read(&library) {
            return mapping.path.clone();
        }
        let module = free_name(&self.open, &mapping.path);
        self.open.insert(module.clone(), library);
        module
    }
}

/// The path, or where another file has it, the path with a number.
fn free_name(open: &BTreeMap<String, Library>, path: &str) -> String {
    if !open.contains_key(path) {
        return path.to_owned();
    }
    let numbered = (2..).map(|number: u32| format!("{path} ({number})"));
    numbered.into_iter().find(|name| !open.contains_key(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Libraries;
    use energy_trace_model::ids::Pid;
    use energy_trace_unwind::address_space::{FileKey, Mapping};

    fn mapping(path: &str, inode: u64) -> Mapping {
        let file = Some(FileKey { device: "fe:00".into(), inode });
        Mapping { start: 0, end: 0x1000, offset: 0, file, path: path.into() }
    }

    /// One file is one module; another one under the same path is not.
    #[test]
    fn two_files_of_one_path() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.so");
        std::fs::write(&path, "first").unwrap();
        let path = path.to_str().unwrap();
        let inode = std::fs::metadata(path).unwrap().ino();
        let resolver = crate::resolver::Resolver::start(false).unwrap();
        let peeker = crate::peeker::Peeker::start().unwrap();
        let mut libraries = Libraries::new(resolver.worker(false).into());
        let nobody = Pid::new(u32::MAX >> 1);
        let name = |libraries: &mut Libraries, inode| {
            libraries.module_of(nobody, &mapping(path, inode), &peeker).to_string()
        };
        assert_eq!(name(&mut libraries, inode), path);
        assert_eq!(name(&mut libraries, inode), path);
        assert_eq!(libraries.closed, 0);
        // Gone, as its inode tells: its places are not the other's.
        assert_eq!(name(&mut libraries, inode + 1), format!("{path} (2)"));
        assert_eq!((libraries.closed, libraries.open().len()), (1, 1));
    }
}
