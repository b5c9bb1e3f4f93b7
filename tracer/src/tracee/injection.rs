//! The library that CUDA's driver loads into a command for `--gpu kernel`: its file, the socket that it talks to, the variables that name both.
//!
//! The library lies beside the program, as cargo and packages leave it. It is copied to a folder that everybody may read, since the command
//! runs as the invoking user, in a file system that lets code run. Leaves out what the library sends (`probe/gpu`).

use super::named_folder::{Holds, NamedFolder};
use energy_trace_cupti::{NEXT, SOCKET};
use energy_trace_foreign::files::install::{SOCKET_FILE, install_into};
use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The variable that names what CUDA's driver loads.
pub const INJECTION: &str = "CUDA_INJECTION64_PATH";
/// The library's file.
pub(super) const FILE: &str = "libenergy_trace_cupti.so";
/// Folders with the library, seen from the program's own.
const PLACES: [&str; 4] = [".", "deps", "../lib/energy-trace", "../lib"];

/// Why nothing can be injected.
#[derive(Debug, thiserror::Error)]
pub enum InjectionError {
    /// The library is not there.
    #[error(
        "{FILE} is neither beside {program} nor in ../lib/energy-trace: copy it from beside the program that was built or unpacked"
    )]
    NoLibrary {
        /// The program's file.
        program: PathBuf,
    },
    /// No folder for it.
    #[error("cannot place {FILE} where code may run, {0}")]
    NoFolder(#[source] io::Error),
}

/// What is injected.
#[derive(Debug)]
pub struct Injection {
    folder: NamedFolder,
    next: Option<OsString>,
}

impl Injection {
    /// Copies the library and begins to listen.
    ///
    /// # Errors
    /// When there is no library, or no place for it.
    pub fn prepare() -> Result<(Self, UnixListener), InjectionError> {
        let library = find_library()?;
        let made = NamedFolder::make(Holds::MachineCode).and_then(|folder| {
            let (_copy, socket) = install_into(folder.open(), &library, FILE.as_ref())?;
            Ok((folder, socket))
        });
        let (folder, socket) = made.map_err(InjectionError::NoFolder)?;
        Ok((Self { folder, next: next(std::env::var_os(INJECTION)) }, socket))
    }

    /// The library as the command will see it.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    /// The user's own tool in the same place, which is started first.
    pub const fn next(&self) -> Option<&OsString> {
        self.next.as_ref()
    }

    /// What is set in the command's environment.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let own = [(INJECTION, self.library()), (SOCKET, self.folder.path().join(SOCKET_FILE))];
        let own = own.into_iter().map(|(name, path)| (name, path.into_os_string()));
        own.chain(self.next.clone().map(|next| (NEXT, next))).collect()
    }

    /// Leaves the library where it is: programs that start later have its name in their environment.
    pub fn leave(self) {
        self.folder.leave();
    }
}

/// The library beside this program. `deps` is where cargo puts it.
///
/// # Errors
/// When it is not there.
pub fn find_library() -> Result<PathBuf, InjectionError> {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new("/"));
    let mut files = PLACES.iter().map(|place| folder.join(place).join(FILE));
    files.find(|file| file.is_file()).ok_or(InjectionError::NoLibrary { program })
}

/// The user's tool that is to be loaded beside ours; another energy-trace's library is not: this one takes its place.
fn next(set: Option<OsString>) -> Option<OsString> {
    set.filter(|path| !path.is_empty() && Path::new(path).file_name() != Some(FILE.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::{FILE, next};

    /// A user's tool is kept, an energy-trace's library and nothing are not.
    #[test]
    fn the_users_own_tool_is_kept() {
        assert_eq!(next(Some("/opt/tool.so".into())), Some("/opt/tool.so".into()));
        assert_eq!(next(Some(format!("/tmp/energy-trace-x/{FILE}").into())), None);
        assert_eq!((next(Some("".into())), next(None)), (None, None));
    }
}
