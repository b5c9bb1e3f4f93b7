//! The folder for tools, interpreters and frameworks; the tests look there for what `xtask` installed (`tests/support` has this file too).

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `ENERGY_TRACE_CACHE`, else `XDG_CACHE_HOME/energy-trace`, else `HOME/.cache/energy-trace`; `None` where all are unset or empty.
pub(crate) fn folder() -> Option<PathBuf> {
    folder_by(|name| env::var_os(name).filter(|value| !value.is_empty()))
}

/// The folder that these variables name.
fn folder_by(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(own) = variable("ENERGY_TRACE_CACHE") {
        return Some(PathBuf::from(own));
    }
    if let Some(xdg) = variable("XDG_CACHE_HOME") {
        return Some(Path::new(&xdg).join("energy-trace"));
    }
    variable("HOME").map(|home| Path::new(&home).join(".cache/energy-trace"))
}

#[cfg(test)]
mod tests {
    use super::folder_by;
    use std::path::Path;

    /// The project's own variable beats XDG, which beats HOME.
    #[test]
    fn the_nearest_variable_names_the_cache() {
        let all = |name: &str| Some(format!("/{name}").into());
        assert_eq!(folder_by(all).unwrap(), Path::new("/ENERGY_TRACE_CACHE"));
        let no_own = |name: &str| all(name).filter(|_| name != "ENERGY_TRACE_CACHE");
        assert_eq!(folder_by(no_own).unwrap(), Path::new("/XDG_CACHE_HOME/energy-trace"));
        let home_only = |name: &str| all(name).filter(|_| name == "HOME");
        assert_eq!(folder_by(home_only).unwrap(), Path::new("/HOME/.cache/energy-trace"));
        assert_eq!(folder_by(|_| None), None);
    }
}
