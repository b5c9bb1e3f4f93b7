//! Whether a command can be found and executed at all, checked before anything is set up for it.
//!
//! `exec` has the last word: this answers early, so that a typing error costs no second of baseline and no recording. The rules are
//! `execvp`'s (POSIX.1-2017): a name with a slash is a path, any other is looked for in `PATH`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What is known about a command before it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is a file that may be executed.
    Executable,
    /// There is a file, and nobody may execute it (or it is a directory).
    NotExecutable,
    /// There is nothing of that name.
    Nothing,
}

/// Looks for `name` as `execvp` would, with this `PATH` (`None`: the variable is not set).
pub fn find(name: &OsStr, path: Option<OsString>) -> Found {
    let mut best = Found::Nothing;
    for candidate in candidates(name, path) {
        match inspect(&candidate) {
            Found::Executable => return Found::Executable,
            Found::NotExecutable => best = Found::NotExecutable,
            Found::Nothing => {}
        }
    }
    best
}

/// The file that `execvp` would execute.
pub fn locate(name: &OsStr, path: Option<OsString>) -> Option<PathBuf> {
    candidates(name, path).into_iter().find(|candidate| inspect(candidate) == Found::Executable)
}

/// Where a name may lie, in order.
fn candidates(name: &OsStr, path: Option<OsString>) -> Vec<PathBuf> {
    if name.is_empty() {
        return Vec::new();
    }
    if name.as_bytes().contains(&b'/') {
        return vec![name.into()];
    }
    // glibc's default when PATH is not set (confstr _CS_PATH).
    let path = path.unwrap_or_else(|| "/bin:/usr/bin".into());
    let directory_of = |dir: PathBuf| if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
    std::env::split_paths(&path).map(directory_of).map(|dir| dir.join(name)).collect()
}

fn inspect(path: &Path) -> Found {
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => Found::Executable,
        Ok(_) => Found::NotExecutable,
        // What cannot be looked at is left to `exec` to uncertainties.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Found::Executable,
        Err(_) => Found::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, find};
    use std::os::unix::fs::PermissionsExt;

    /// An executable later in PATH wins over a plain file of that name earlier in it; names with a slash ignore PATH.
    #[test]
    fn follows_execvp() {
        let root = tempfile::tempdir().unwrap();
        let (first, second) = (root.path().join("first"), root.path().join("second"));
        for (dir, mode) in [(&first, 0o644), (&second, 0o755)] {
            std::fs::create_dir(dir).unwrap();
            std::fs::write(dir.join("tool"), "").unwrap();
            std::fs::set_permissions(dir.join("tool"), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = |dirs: &[&std::path::PathBuf]| Some(std::env::join_paths(dirs).unwrap());
        assert_eq!(find("tool".as_ref(), path(&[&first, &second])), Found::Executable);
        assert_eq!(find("tool".as_ref(), path(&[&first])), Found::NotExecutable);
        assert_eq!(find("other".as_ref(), path(&[&first, &second])), Found::Nothing);
        assert_eq!(find(second.join("tool").as_os_str(), None), Found::Executable);
        assert_eq!(find(root.path().as_os_str(), None), Found::NotExecutable);
        assert_eq!(find("".as_ref(), path(&[&second])), Found::Nothing);
    }
}
