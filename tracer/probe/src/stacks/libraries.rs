//! The files that frames lie in: what they are called in the recording, and kept open until their functions have names.
//!
//! A path does not name a file: containers have others under the same path, and a library may be replaced while it runs. Two files are one
//! module only if they have the same path and the same build id; a second file of a path is `path (2)`. A file that is open cannot be
//! confused with another that has its inode later.

use super::owners::Owners;
use crate::tables::drop_elsewhere;
use crate::tables::files::{self, Mapped};
use energy_trace_foreign::files::{Pool, Room, Roots};
use energy_trace_foreign::peeker::{Peeker, Unanswered};
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::{OfOwners, Owner};
use energy_trace_naming::Library;
use energy_trace_system::host::open_files;
use energy_trace_unwind::address_space::{FileKey, Mapping};
use energy_trace_unwind::vdso::key_of;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// A mapping of a process.
type Place<'a> = (Pid, &'a Mapping);

/// The files of frames.
pub(crate) struct Libraries {
    modules: HashMap<FileKey, Module>,
    open: BTreeMap<String, Library>,
    worker: Arc<Worker>,
    pub(crate) roots: Roots,
    pub(crate) owners: Owners,
    /// Whose programs the open files are kept for.
    pool: Pool<Arc<str>>,
    /// Files that were gone before they could be opened.
    pub(crate) gone: usize,
}

/// What a file is called, and why it is not open.
struct Module {
    name: Arc<str>,
    closed: Option<Closed>,
}

/// Why a file is not open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// It could not be opened, for a program of this owner.
    Gone(Owner),
    /// It could not be opened yet.
    Late(Owner),
    /// Programs of this owner have as many files open as there is room for.
    Crowded(Owner),
}

impl Closed {
    const fn owner(self) -> Owner {
        match self {
            Self::Gone(owner) | Self::Late(owner) | Self::Crowded(owner) => owner,
        }
    }
}

impl Libraries {
    /// None yet; this worker tells files apart.
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        Self::with_room(worker, open_files::for_names())
    }

    fn with_room(worker: Arc<Worker>, most: usize) -> Self {
        let (modules, open, roots, owners) =
            (HashMap::new(), BTreeMap::new(), Roots::default(), Owners::default());
        Self { modules, open, worker, roots, owners, pool: Pool::new(most), gone: 0 }
    }

    /// Forgets all files, whose frames are forgotten.
    pub(crate) fn begin_anew(&mut self) {
        let owners = std::mem::take(&mut self.owners);
        let new = Self::with_room(Arc::clone(&self.worker), self.pool.most());
        drop_elsewhere(std::mem::replace(self, Self { owners, gone: self.gone, ..new }));
    }

    /// The module of frames in a mapping; its file is opened when it is seen for the first time, and again where it was closed for another
    /// owner's sake.
    pub(crate) fn module_of(&mut self, pid: Pid, mapping: &Mapping, peeker: &Peeker) -> Arc<str> {
        let Some(key) = key_of(mapping) else {
            return mapping.path.as_str().into();
        };
        let owner = self.owners.of(pid);
        if let Some(module) = self.modules.get(key) {
            let name = Arc::clone(&module.name);
            match module.closed {
                None => _ = self.pool.share(owner, &name),
                Some(closed) if closed.owner() != owner || closed == Closed::Late(owner) => {
                    self.open_again((key, &name), (pid, mapping), owner, peeker);
                }
                Some(_) => (),
            }
            return name;
        }
        let module = self.add((pid, mapping), owner, peeker);
        let name = Arc::clone(&module.name);
        self.modules.insert(key.clone(), module);
        name
    }

    /// The open files by module.
    pub(crate) const fn open(&self) -> &BTreeMap<String, Library> {
        &self.open
    }

    /// Whether files are open that no process maps.
    pub(crate) fn holds_unmapped(&self, mapped: &Mapped<'_>) -> bool {
        self.modules.iter().any(|(key, module)| module.closed.is_none() && !mapped.contains_key(key))
    }

    /// Whose files were not kept open for want of room, and how many; the most first.
    pub(crate) fn crowded(&self) -> OfOwners {
        let mut crowded: BTreeMap<Owner, u64> = BTreeMap::new();
        for module in self.modules.values() {
            if let Some(Closed::Crowded(owner)) = module.closed {
                *crowded.entry(owner).or_default() += 1;
            }
        }
        let mut crowded: OfOwners = crowded.into_iter().collect();
        crowded.order_by_key(|(owner, files)| (Reverse(*files), *owner));
        crowded
    }

    /// How many files may be open.
    pub(crate) const fn room(&self) -> usize {
        self.pool.most()
    }

    /// Opens a file and finds a name for it.
    fn add(&mut self, (pid, mapping): Place<'_>, owner: Owner, peeker: &Peeker) -> Module {
        let library = match self.library((pid, mapping), owner, peeker) {
            Ok(library) => library,
            Err(closed) => {
                self.gone += 1;
                // Its places must not be taken for those of another file that is there.
                let name = free_name(&self.open, &mapping.path).into();
                return Module { name, closed: Some(closed) };
            }
        };
        let read = |library: &Library| library.read_build_id(&self.worker);
        let known = self.open.get(&mapping.path).and_then(read);
        if known.is_some() && known == read(&library) {
            return Module { name: mapping.path.as_str().into(), closed: None };
        }
        let name: Arc<str> = free_name(&self.open, &mapping.path).into();
        let closed = self.keep(library, &name, owner);
        Module { name, closed }
    }

    fn library(
        &mut self,
        (pid, mapping): Place<'_>,
        owner: Owner,
        peeker: &Peeker,
    ) -> Result<Library, Closed> {
        let file = match files::open(pid, mapping, true, peeker) {
            Ok(Some(opened)) => opened.file,
            Err(Unanswered::Late) => return Err(Closed::Late(owner)),
            Ok(None) | Err(Unanswered::Refused) => return Err(Closed::Gone(owner)),
        };
        let root = self.roots.of(peeker.root(pid).ok().flatten());
        Ok(Library::new(file, root.path_inside(Path::new(&mapping.path)), root))
    }

    /// Keeps a file open, in the place of another where its owner has fewer than the other's; why not, where it cannot.
    fn keep(&mut self, library: Library, name: &Arc<str>, owner: Owner) -> Option<Closed> {
        match self.pool.add(owner, Arc::clone(name)) {
            Room::None => return Some(Closed::Crowded(owner)),
            Room::Instead(of, other) => self.close(&other, of),
            Room::Free => (),
        }
        self.open.insert(name.to_string(), library);
        None
    }

    fn close(&mut self, name: &Arc<str>, owner: Owner) {
        self.open.remove(&**name);
        for module in self.modules.values_mut().filter(|module| module.name == *name) {
            module.closed = Some(Closed::Crowded(owner));
        }
    }

    /// Tries once for each owner who comes by; more often where it may yet be opened.
    fn open_again(
        &mut self,
        (key, name): (&FileKey, &Arc<str>),
        place: Place<'_>,
        owner: Owner,
        peeker: &Peeker,
    ) {
        let (closed, opened) = match self.library(place, owner, peeker) {
            Ok(library) => (self.keep(library, name, owner), true),
            Err(closed) => (Some(closed), false),
        };
        if let Some(module) = self.modules.get_mut(key) {
            let was_late = matches!(module.closed, Some(Closed::Late(_)));
            self.gone = self.gone.saturating_sub(usize::from(was_late && opened));
            module.closed = closed;
        }
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
    use super::{Libraries, Mapped, Owner, key_of};
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
        let resolver = energy_trace_foreign::resolver::Resolver::start(false).unwrap();
        let peeker = energy_trace_foreign::peeker::Peeker::start().unwrap();
        let mut libraries = Libraries::new(resolver.worker(false).into());
        let nobody = Pid::new(u32::MAX >> 1);
        let name = |libraries: &mut Libraries, inode| {
            libraries.module_of(nobody, &mapping(path, inode), &peeker).to_string()
        };
        assert_eq!(name(&mut libraries, inode), path);
        assert_eq!(name(&mut libraries, inode), path);
        assert_eq!(libraries.gone, 0);
        // Gone, as its inode tells: its places are not the other's.
        assert_eq!(name(&mut libraries, inode + 1), format!("{path} (2)"));
        assert_eq!((libraries.gone, libraries.open().len()), (1, 1));
        // Open, as long as all is kept, whether a process maps it or not.
        let open = mapping(path, inode);
        let mapped = Mapped::from([(key_of(&open).unwrap(), (nobody, &open))]);
        assert_eq!([&mapped, &Mapped::new()].map(|mapped| libraries.holds_unmapped(mapped)), [false, true]);
        libraries.begin_anew();
        assert!(!libraries.holds_unmapped(&Mapped::new()) && libraries.open().is_empty());
    }

    /// A user whose programs fill the room keeps nobody else from a place in it: the oldest of theirs goes, is told of, and is opened again for
    /// somebody who has less.
    #[test]
    fn who_fills_the_room() {
        use std::os::unix::fs::MetadataExt as _;
        use std::os::unix::process::CommandExt as _;
        let folder = tempfile::tempdir().unwrap();
        let resolver = energy_trace_foreign::resolver::Resolver::start(false).unwrap();
        let peeker = energy_trace_foreign::peeker::Peeker::start().unwrap();
        let mut libraries = Libraries::with_room(resolver.worker(false).into(), 4);
        let sleep = |uid| std::process::Command::new("sleep").arg("60").uid(uid).spawn().unwrap();
        let mut programs = [1, 2].map(sleep);
        let pids = [&programs[0], &programs[1]].map(|program| Pid::new(program.id()));
        let see = |libraries: &mut Libraries, by: usize, name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "library").unwrap();
            let inode = std::fs::metadata(&path).unwrap().ino();
            libraries.module_of(pids[by], &mapping(path.to_str().unwrap(), inode), &peeker).to_string()
        };
        for name in ["a", "b", "c", "d", "e"] {
            see(&mut libraries, 0, name);
        }
        assert_eq!(libraries.crowded(), [(Owner::User(1), 1)]);
        let first = see(&mut libraries, 1, "of-the-other");
        assert!(libraries.open().contains_key(&first));
        assert_eq!(libraries.crowded(), [(Owner::User(1), 2)]);
        let again = see(&mut libraries, 1, "a");
        assert!(libraries.open().contains_key(&again), "{again}");
        assert_eq!((libraries.open().len(), libraries.crowded()), (4, vec![(Owner::User(1), 2)]));
        for program in &mut programs {
            program.kill().and_then(|()| program.wait()).unwrap();
        }
    }
}
