//! The library that NVTX and ITT load into a command for `--ranges`, and beside it the module that has PyTorch's `record_function` mark ranges: their
//! files, and the variables that name them.
//!
//! It is the one of `--gpu kernel`. A tool of the user's own keeps its place: each API has one for a single tool. Leaves out what the library
//! tells (`probe/stacks/ranges`).

use super::injection::{FILE, InjectionError, find_library};
use super::named_folder::{Holds, NamedFolder};
use super::python_counting::load_first;
use energy_trace_foreign::files::install::{open_to_all, put};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The variables that name what NVTX and ITT load.
const VARIABLES: [&str; 2] = ["NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"];

/// What Python loads as `sitecustomize`; the middle of it is what notebooks and pytest load.
const MODULE: &str = concat!(
    include_str!("../../data/next_sitecustomize.py"),
    include_str!("../../python/energy_trace/_torch.py"),
    include_str!("../../data/mark_torch_ranges.py")
);

/// What is injected.
#[derive(Debug)]
pub struct RangeInjection {
    folder: NamedFolder,
}

impl RangeInjection {
    /// Copies the library to where the command may read it.
    ///
    /// # Errors
    /// When there is no library, or no place for it.
    pub fn prepare() -> Result<Self, InjectionError> {
        let library = find_library()?;
        NamedFolder::make(Holds::MachineCode)
            .and_then(|folder| copy(folder, &library))
            .map_err(InjectionError::NoFolder)
    }

    /// The library as the command will see it.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    /// What is set in the command's environment.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let free = VARIABLES.into_iter().filter(|name| !is_taken(std::env::var_os(name).as_deref()));
        let mut environment = free.map(|name| (name, self.library().into_os_string())).collect();
        load_first(&mut environment, self.folder.path());
        environment
    }

    /// Leaves the library where it is: programs that start later have its name in their environment.
    pub fn leave(self) {
        self.folder.leave();
    }
}

fn copy(folder: NamedFolder, library: &Path) -> io::Result<RangeInjection> {
    put(folder.open(), FILE.as_ref(), &mut File::open(library)?, 0o755)?;
    put(folder.open(), "sitecustomize.py".as_ref(), &mut MODULE.as_bytes(), 0o644)?;
    open_to_all(folder.open())?;
    Ok(RangeInjection { folder })
}

/// Tools of the user's own: the variable, and what it names.
pub fn tools() -> Vec<(&'static str, OsString)> {
    let set = VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    set.filter(|(_, path)| is_taken(Some(path))).collect()
}

/// Whether a variable names a tool; another energy-trace's library gives way.
fn is_taken(set: Option<&OsStr>) -> bool {
    set.is_some_and(|path| !path.is_empty() && Path::new(path).file_name() != Some(FILE.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::{FILE, is_taken};
    use std::ffi::OsStr;

    /// A user's tool keeps its place; an energy-trace's library and nothing do not.
    #[test]
    fn the_users_own_tool_stays() {
        assert!(is_taken(Some(OsStr::new("/opt/nsight/tool.so"))));
        assert!(!is_taken(Some(OsStr::new(&format!("/run/energy-trace-x/{FILE}")))));
        assert!(!is_taken(Some(OsStr::new(""))) && !is_taken(None));
    }
}
