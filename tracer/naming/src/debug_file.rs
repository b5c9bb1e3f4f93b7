//! Split debug files: symbols and debug information that were taken out of a library and put into a file of their own.
//!
//! Where they are, in this order (GDB manual, "Debugging Information in Separate Files"): by build id under
//! `/usr/lib/debug/.build-id`, by `.gnu_debuglink` beside the library, in its `.debug` folder, and under `/usr/lib/debug`. Both under the
//! process's root; by build id, which says what it is, under this machine's root too. They are opened here and not looked into: whether a
//! file is the one that is meant, the resolver finds out (`names.rs`). Leaves out debuginfod: nothing is fetched from a network.

use energy_trace_foreign::files::Root;
use energy_trace_foreign::resolver::question::NameFacts;
use energy_trace_model::ids::BuildId;
use energy_trace_symbols::Proof;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where debug files of installed packages are.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// The files that may be the debug file of a library, the best first. `path` is the library's, as its process sees it.
pub(super) fn find(library: &File, path: &Path, root: &Root, facts: &NameFacts) -> Vec<(File, Proof)> {
    let by_id = facts.build_id.iter().flat_map(|id| find_by_build_id(root, id));
    let by_link =
        facts.sections.link.iter().flat_map(|(name, crc)| find_by_link(library, path, root, name, *crc));
    by_id.chain(by_link).collect()
}

fn find_by_build_id(root: &Root, build_id: &BuildId) -> Vec<(File, Proof)> {
    let id = build_id.to_string();
    let Some((folder, rest)) = id.split_at_checked(2).filter(|_| build_id.is_usable()) else {
        return Vec::new();
    };
    let path = Path::new(DEBUG_ROOT).join(format!(".build-id/{folder}/{rest}.debug"));
    let own = Root::default();
    let roots = [Some(root), (!root.is_own()).then_some(&own)];
    let files = roots.into_iter().flatten().filter_map(|root| root.open(&path, true).ok());
    files.map(|file| (file, Proof::BuildId(build_id.clone()))).collect()
}

/// Beside a library its owner says what is there: a link could lead to anybody's file, and another user's file is not the library's.
fn find_by_link(library: &File, path: &Path, root: &Root, name: &str, crc: u32) -> Vec<(File, Proof)> {
    // A name with folders in it is none.
    if name.is_empty() || name.contains('/') {
        return Vec::new();
    }
    let identity = |file: &File| file.metadata().ok().map(|m| (m.dev(), m.ino()));
    let owner = |file: &File| file.metadata().ok().map(|m| m.uid());
    let files = places(path, name).into_iter().filter_map(|place| root.open(&place, false).ok());
    let others = files.filter(|file| identity(file) != identity(library));
    let owned = others.filter(|file| owner(file) == Some(0) || owner(file) == owner(library));
    owned.map(|file| (file, Proof::Crc32(crc))).collect()
}

/// Where a file named by a debug link may be.
fn places(library: &Path, name: &str) -> Vec<PathBuf> {
    let Some(folder) = library.parent() else { return Vec::new() };
    let below = folder.strip_prefix("/").unwrap_or(folder);
    vec![folder.join(name), folder.join(".debug").join(name), Path::new(DEBUG_ROOT).join(below).join(name)]
}

#[cfg(test)]
mod tests {
    use super::{find_by_build_id, find_by_link, places};
    use energy_trace_foreign::files::Root;
    use energy_trace_model::ids::BuildId;
    use std::fs::File;
    use std::path::Path;

    /// A link names files beside the library, in `.debug`, or under `/usr/lib/debug`; neither the library itself, nor what a symbolic link
    /// leads to, nor a name with folders in it.
    #[test]
    fn by_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.so");
        std::fs::write(&path, "library").unwrap();
        std::fs::create_dir(folder.path().join(".debug")).unwrap();
        std::fs::write(folder.path().join("lib.debug"), "another build").unwrap();
        std::fs::write(folder.path().join(".debug/lib.debug"), "symbols").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.debug")).unwrap();
        let library = File::open(&path).unwrap();
        let found = |name: &str| find_by_link(&library, &path, &Root::default(), name, 1).len();
        assert_eq!(found("lib.debug"), 2);
        assert_eq!(
            (found("gone.debug"), found("../lib.debug"), found("lib.so"), found("link.debug")),
            (0, 0, 0, 0)
        );
        assert_eq!(places(Path::new("/a/b.so"), "c")[2], Path::new("/usr/lib/debug/a/c"));
    }

    /// A build id that is too short to name a file, or that no file has, finds nothing.
    #[test]
    fn by_build_id() {
        for bytes in [vec![], vec![1], vec![1; 20]] {
            assert!(find_by_build_id(&Root::default(), &BuildId::from_bytes(bytes)).is_empty());
        }
    }
}
