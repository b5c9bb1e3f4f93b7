//! Programs that live below another root than ours (containers, `chroot`): where they find GPU libraries, and where they are to find the library that
//! is injected.
//!
//! The path in `CUDA_INJECTION64_PATH` holds below every root: a folder of that name with a copy of the library and a socket of its own is made
//! there when the first program starts below that root, before it comes to use CUDA. Links are followed inside that root only. Leaves out
//! processes that ran before the recording, into which nothing is injected.

use energy_trace_foreign::files::install::{identity_below, install_into, make_folder, remove};
use energy_trace_foreign::files::{Root, Roots};
use energy_trace_foreign::peeker::Peeker;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::KernelFallback;
use energy_trace_unwind::living::of_living;
use nix::sys::statvfs::{FsFlags, fstatvfs};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Folders of a container's search path that are looked into.
const MOST_FOLDERS: usize = 32;

/// What was met below other roots.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    roots: Roots,
    /// The program of each process, by device and inode of its file.
    programs: HashMap<Pid, (u64, u64)>,
    /// The library as commands see it; `None` where nothing is injected.
    library: Option<PathBuf>,
    installed: Vec<Installed>,
    /// Roots below which the library could not be put, with the first process there and why.
    refused: Vec<(Root, Pid, String)>,
}

/// The library below a root.
#[derive(Debug)]
struct Installed {
    root: Root,
    /// The folder that holds the library's, and the library's own, both open; `None` where the library was there already.
    made: Option<(File, File)>,
    pids: HashSet<Pid>,
}

/// What was made below a root, all of it open: paths there may lead elsewhere by now.
#[derive(Debug)]
struct OpenedPlaces {
    parent: File,
    folder: File,
    copy: File,
}

/// A program that has just started below another root.
pub(crate) struct NewProgram {
    /// Where its loader searches (`LD_LIBRARY_PATH`).
    pub(crate) search: Vec<PathBuf>,
    /// The copy of the library that was made for it, open, and the socket that it talks to.
    pub(crate) installed: Option<(File, UnixListener)>,
}

impl Containers {
    pub(crate) fn inject(&mut self, library: &Path) {
        self.library = Some(library.to_owned());
    }

    /// A program of a process, if it lives below another root and is met for the first time.
    pub(crate) fn new_program(&mut self, pid: Pid, peeker: &Peeker) -> Option<NewProgram> {
        let program = peeker.program(pid).ok()?.file?;
        if self.programs.insert(pid, program) == Some(program) {
            return None;
        }
        let root = self.roots.of(peeker.root(pid).ok()?);
        if root.is_own() {
            return None;
        }
        let installed = self.install(&root, pid);
        Some(NewProgram { search: read_search(pid, peeker), installed })
    }

    /// Puts the library where programs below this root find it, unless it is there.
    fn install(&mut self, root: &Root, pid: Pid) -> Option<(File, UnixListener)> {
        let library = self.library.as_deref()?;
        if let Some(known) = self.installed.iter_mut().find(|known| known.root.is_same(root)) {
            known.pids.insert(pid);
            return None;
        }
        if self.refused.iter().any(|(known, ..)| known.is_same(root)) {
            return None;
        }
        let pids = HashSet::from([pid]);
        match install(root, library) {
            Ok(None) => {
                self.installed.push(Installed { root: root.clone(), made: None, pids });
                None
            }
            Ok(Some((made, listener))) => {
                let OpenedPlaces { parent, folder, copy } = made;
                self.installed.push(Installed { root: root.clone(), made: Some((parent, folder)), pids });
                Some((copy, listener))
            }
            Err(why) => {
                self.refused.push((root.clone(), pid, why.to_string()));
                None
            }
        }
    }

    /// Roots below which programs cannot find the library.
    pub(crate) fn refusals(&self) -> Vec<KernelFallback> {
        let folder = self.library.as_deref().and_then(Path::parent).unwrap_or(Path::new("/"));
        let parent = folder.parent().unwrap_or(Path::new("/"));
        let refused = self.refused.iter().map(|(_, pid, error)| KernelFallback::Root {
            pid: pid.get(),
            folder: folder.display().to_string(),
            parent: parent.display().to_string(),
            error: error.clone(),
        });
        refused.collect()
    }

    /// Forgets a process that ended.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.programs.remove(&pid);
        self.installed.iter_mut().for_each(|installed| {
            installed.pids.remove(&pid);
        });
    }

    /// Takes the library away below roots whose programs have ended; where some run on, others of them may still look for it.
    pub(crate) fn clear(&mut self) {
        let Some(library) = &self.library else { return };
        let lives = |&pid: &Pid| of_living(pid, |pid| fs::metadata(format!("/proc/{pid}/exe"))).is_ok();
        for installed in self.installed.drain(..).filter(|installed| !installed.pids.iter().any(lives)) {
            let Some((parent, folder)) = installed.made else { continue };
            let Some((own, name)) = names(library) else { continue };
            if let Err(error) = remove(&parent, &folder, own, name) {
                log::debug!("the library stays below a root: {error}");
            }
        }
    }
}

/// The names of the library's folder and of its file.
fn names(library: &Path) -> Option<(&OsStr, &OsStr)> {
    library.parent().and_then(Path::file_name).zip(library.file_name())
}

/// Makes the library's folder below a root, with a copy and a socket; `None` where the same library is there: the folder is shared.
fn install(root: &Root, library: &Path) -> io::Result<Option<(OpenedPlaces, UnixListener)>> {
    let (own, name) = names(library).ok_or(ErrorKind::InvalidInput)?;
    let above = library.ancestors().nth(2).ok_or(ErrorKind::InvalidInput)?;
    let parent = root.folder(above)?;
    let facts = fs::metadata(library)?;
    if identity_below(&parent, own, name) == Some((facts.dev(), facts.ino())) {
        return Ok(None);
    }
    if fstatvfs(&parent)?.flags().contains(FsFlags::ST_NOEXEC) {
        return Err(io::Error::other("its file system lets no code run"));
    }
    let folder = make_folder(&parent, own)?;
    let (copy, listener) = install_into(&folder, library, name)?;
    Ok(Some((OpenedPlaces { parent, folder, copy }, listener)))
}

/// The search path of a process's loader, as the process was started.
fn read_search(pid: Pid, peeker: &Peeker) -> Vec<PathBuf> {
    let variables = peeker.variables(pid, &["LD_LIBRARY_PATH"]).ok().flatten().unwrap_or_default();
    folders_of(&variables.into_iter().flatten().next().unwrap_or_default())
}

/// The first folders of a search path: no loader of a program that means well has as many.
fn folders_of(path: &str) -> Vec<PathBuf> {
    let folders = path.split([':', ';']).filter(|folder| !folder.is_empty());
    folders.take(MOST_FOLDERS).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::{Containers, Installed, MOST_FOLDERS, Pid, Root, folders_of, install};
    use energy_trace_foreign::files::install::by_descriptor;
    use std::collections::HashSet;
    use std::fs::{self, File};

    /// A search path of any length is looked into for a stated number of folders.
    #[test]
    fn folders_without_end() {
        assert_eq!(folders_of("/a::/b;/c").len(), 3);
        assert_eq!(folders_of(&"/x:".repeat(40_000)).len(), MOST_FOLDERS);
    }

    /// The library is put at its own path below the root, with a socket beside it, once; and is taken away when nobody lives there any more.
    #[test]
    fn the_library_is_put_below_a_root() {
        let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let here = ours.path().join("energy-trace-x/lib.so");
        fs::create_dir(here.parent().unwrap()).unwrap();
        fs::write(&here, "code").unwrap();
        let root = Root::at(File::open(other.path()).unwrap(), "/jail");
        assert!(install(&root, &here).is_err(), "there is no such folder below that root");
        fs::create_dir_all(other.path().join(ours.path().strip_prefix("/").unwrap())).unwrap();
        let (made, _listener) = install(&root, &here).unwrap().unwrap();
        let there = other.path().join(here.strip_prefix("/").unwrap());
        assert_eq!(fs::read_to_string(&there).unwrap(), "code");
        assert!(there.with_file_name("socket").exists());
        assert!(install(&root, &here).is_err(), "what is there already is not ours");
        assert_eq!(fs::read_to_string(by_descriptor(&made.copy)).unwrap(), "code");
        let mut containers = Containers { library: Some(here.clone()), ..Containers::default() };
        let pids = HashSet::from([Pid::new(7)]);
        containers.installed.push(Installed { root, made: Some((made.parent, made.folder)), pids });
        containers.forget(Pid::new(7));
        containers.clear();
        assert!(here.exists() && !there.parent().unwrap().exists());
    }
}
