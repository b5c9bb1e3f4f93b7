//! A file that somebody without privileges could read, for somebody with privileges: who may write into its folder can put another one,
//! or a link to one, in its place meanwhile.

use super::mapped::file_key;
use super::root::Root;
use energy_trace_unwind::address_space::FileKey;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A file that was seen, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    path: Vec<u8>,
    /// Which file it was.
    pub key: FileKey,
}

impl SeenFile {
    /// Looks at a file with the rights that this process has.
    ///
    /// # Errors
    /// When it may not be read, or is no regular file.
    pub fn look(path: &Path) -> io::Result<Self> {
        let key = file_key(&Root::default().open(path, true)?.metadata()?);
        Ok(Self { path: path.as_os_str().as_bytes().to_vec(), key })
    }

    /// Where it was.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Opens this very file.
    ///
    /// # Errors
    /// When another one is in its place, or the system cannot open it.
    pub fn open(&self) -> io::Result<File> {
        Root::default().open_if(self.path(), true, |found| file_key(found) == self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::SeenFile;
    use std::os::unix::fs::symlink;

    /// What is put in the place of a file that was seen is not opened, be it a file or a link.
    #[test]
    fn another_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other, link] = ["lib.so", "other", "link"].map(|name| folder.path().join(name));
        std::fs::write(&path, "seen").unwrap();
        std::fs::write(&other, "secret").unwrap();
        symlink(&other, &link).unwrap();
        let seen = SeenFile::look(&path).unwrap();
        assert!(seen.open().is_ok() && seen.path() == path);
        // The file that was seen lives on, so that its number is not given away again.
        std::fs::rename(&path, folder.path().join("kept")).unwrap();
        std::fs::rename(&link, &path).unwrap();
        assert!(seen.open().is_err());
        std::fs::rename(&other, &path).unwrap();
        assert!(seen.open().is_err());
        assert!(SeenFile::look(folder.path()).is_err());
    }
}
