//! Split debug files: symbols and debug information that were taken out of a library and put into a file of their own.
//!
//! Where they are, in this order (GDB manual, "Debugging Information in Separate Files"): by build id under
//! `/usr/lib/debug/.build-id`, by `.gnu_debuglink` beside the library, in its `.debug` folder, and under `/usr/lib/debug`. Both under the
//! process's root; by build id, which says what it is, under this machine's root too. A file found by build id must have it, one found by
//! its link must have its CRC-32. Leaves out debuginfod: nothing is fetched from a network.

use super::root::Root;
use crate::ids::BuildId;
use crate::unwind::elf::{DebugSections, ElfFacts, path_of};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where debug files of installed packages are.
const DEBUG_ROOT: &str = "/usr/lib/debug";
/// Bytes that are read at once for a checksum.
const BLOCK: usize = 256 << 10;

/// The debug file of a library, if there is one that belongs to it. `path` is the library's, as its process sees it.
pub(super) fn find(
    library: &File,
    path: &Path,
    root: &Root,
    build_id: Option<&BuildId>,
    sections: &DebugSections,
) -> Option<File> {
    let by_id = build_id.and_then(|id| find_by_build_id(root, id));
    by_id.or_else(|| {
        let (name, crc) = sections.link.as_ref()?;
        find_by_link(library, path, root, name, *crc)
    })
}

fn find_by_build_id(root: &Root, build_id: &BuildId) -> Option<File> {
    if !build_id.is_usable() {
        return None;
    }
    let id = build_id.to_string();
    let (folder, rest) = id.split_at_checked(2)?;
    let path = Path::new(DEBUG_ROOT).join(format!(".build-id/{folder}/{rest}.debug"));
    let own = Root::default();
    let roots = [Some(root), (!root.is_own()).then_some(&own)];
    let mut files = roots.into_iter().flatten().filter_map(|root| root.open(&path, true).ok());
    files.find(|file| {
        let facts = ElfFacts::read(&path_of(file), &[]);
        let belongs = facts.is_ok_and(|facts| facts.build_id.as_ref() == Some(build_id));
        if !belongs {
            log::debug!("{} is of another build and not used", path.display());
        }
        belongs
    })
}

fn find_by_link(library: &File, path: &Path, root: &Root, name: &str, crc: u32) -> Option<File> {
    // A name with folders in it is none.
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let identity = |file: &File| file.metadata().ok().map(|m| (m.dev(), m.ino()));
    let places = places(path, name).into_iter();
    let files = places.filter_map(|place| Some((root.open(&place, true).ok()?, place)));
    let mut others = files.filter(|(file, _)| identity(file) != identity(library));
    let found = others.find(|(file, place)| match read_crc32(file) {
        Ok(found) if found == crc => true,
        Ok(_) => {
            log::debug!("{} has another checksum than its library says and is not used", place.display());
            false
        }
        Err(error) => {
            log::debug!("{} cannot be read: {error}", place.display());
            false
        }
    });
    found.map(|(file, _)| file)
}

/// Where a file named by a debug link may be.
fn places(library: &Path, name: &str) -> Vec<PathBuf> {
    let Some(folder) = library.parent() else { return Vec::new() };
    let below = folder.strip_prefix("/").unwrap_or(folder);
    vec![folder.join(name), folder.join(".debug").join(name), Path::new(DEBUG_ROOT).join(below).join(name)]
}

/// The CRC-32 of a whole file, by which a debug link names it.
fn read_crc32(mut file: &File) -> io::Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    let mut block = vec![0; BLOCK];
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(crc.finalize()),
            Ok(read) => crc.update(&block[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{find_by_build_id, find_by_link, places, read_crc32};
    use crate::ids::BuildId;
    use crate::symbolize::root::Root;
    use std::fs::File;
    use std::path::Path;

    /// A link names a file beside the library, in `.debug`, or under `/usr/lib/debug`, and only the one with its checksum is taken.
    #[test]
    fn by_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.so");
        std::fs::write(&path, "library").unwrap();
        std::fs::create_dir(folder.path().join(".debug")).unwrap();
        std::fs::write(folder.path().join("lib.debug"), "another build").unwrap();
        std::fs::write(folder.path().join(".debug/lib.debug"), "symbols").unwrap();
        let library = File::open(&path).unwrap();
        let crc = read_crc32(&File::open(folder.path().join(".debug/lib.debug")).unwrap()).unwrap();
        let found = |name: &str, crc| find_by_link(&library, &path, &Root::default(), name, crc);
        assert!(found("lib.debug", crc).is_some());
        assert!(found("lib.debug", crc + 1).is_none());
        assert!(found("gone.debug", crc).is_none());
        assert!(found("../lib.debug", crc).is_none());
        // A link to itself is none.
        assert!(found("lib.so", read_crc32(&File::open(&path).unwrap()).unwrap()).is_none());
        assert_eq!(places(Path::new("/a/b.so"), "c")[2], Path::new("/usr/lib/debug/a/c"));
    }

    /// A build id that is too short to name a file, or that no file has, finds nothing.
    #[test]
    fn by_build_id() {
        for bytes in [vec![], vec![1], vec![1; 20]] {
            assert!(find_by_build_id(&Root::default(), &BuildId::from_bytes(bytes)).is_none());
        }
    }
}
