//! Files that processes map as code, each once, for those who probe what lies in them.
//!
//! Leaves out what is looked for in a file (`count`, `range_probes`) and GPU libraries (`gpu/libraries`).

use energy_trace_foreign::files::SeenFile;
use energy_trace_foreign::peeker::Peeker;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use energy_trace_unwind::address_space::{FileKey, Mapping};
use std::collections::{HashMap, HashSet};
use std::fs::File;

/// What names a file.
pub(crate) struct FileName {
    pub(crate) key: FileKey,
    pub(crate) path: String,
}

/// Files that were mapped so far.
#[derive(Default)]
pub(crate) struct MappedFiles {
    seen: HashSet<FileKey>,
    looked_at: HashMap<Pid, KtimeNs>,
}

/// A file that was not mapped before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewFile<'a> {
    pub(crate) pid: Pid,
    /// When that was noticed.
    pub(crate) read_at: KtimeNs,
    pub(crate) mapping: &'a Mapping,
    pub(crate) is_program: bool,
}

impl FileName {
    /// Opens a file that a process will map.
    pub(crate) fn open(seen: &SeenFile) -> Option<(File, Self)> {
        let path = seen.path().to_string_lossy().into_owned();
        Some((seen.open().ok()?, Self { key: seen.key.clone(), path }))
    }

    /// Whether a mapping is of this file. Some file systems show another device in mappings.
    pub(crate) fn is(&self, mapping: &Mapping) -> bool {
        mapping.file.as_ref().is_some_and(|key| {
            key.inode == self.key.inode && (key.device == self.key.device || mapping.path == self.path)
        })
    }

    /// Without its folders.
    pub(crate) fn label(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

impl MappedFiles {
    /// What processes have mapped since the last look, of their mappings and when those were read.
    pub(crate) fn look<'a>(
        &mut self,
        spaces: impl Iterator<Item = (Pid, KtimeNs, &'a [Mapping])>,
    ) -> Vec<NewFile<'a>> {
        let mut new = Vec::new();
        for (pid, read_at, mappings) in spaces {
            if self.looked_at.insert(pid, read_at) == Some(read_at) {
                continue;
            }
            for (position, mapping) in mappings.iter().enumerate() {
                if mapping.file.as_ref().is_some_and(|key| self.seen.insert(key.clone())) {
                    new.push(NewFile { pid, read_at, mapping, is_program: position == 0 });
                }
            }
        }
        new
    }
}

impl NewFile<'_> {
    /// Opens it as the process sees it.
    pub(crate) fn open(&self, peeker: &Peeker) -> Option<(File, FileName)> {
        let opened = peeker.open(self.pid, self.mapping, false).ok()?.ok()?;
        let key = self.mapping.file.clone()?;
        Some((opened.file, FileName { key, path: self.mapping.path.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::{FileKey, FileName, KtimeNs, MappedFiles, Mapping, Pid};

    fn mapping(inode: u64, path: &str) -> Mapping {
        let file = (inode != 0).then(|| FileKey { device: "fe:00".to_owned(), inode });
        Mapping { start: 0, end: 4096, offset: 0, file, path: path.to_owned() }
    }

    /// A file is new once, whoever maps it; mappings that were not read again are not looked at.
    #[test]
    fn each_once() {
        let (mut files, [first, second]) = (MappedFiles::default(), [Pid::new(1), Pid::new(2)]);
        let all = [mapping(0, "[vdso]"), mapping(7, "/app"), mapping(7, "/app"), mapping(8, "/lib")];
        let mut look = |pid, at, mappings: &[Mapping]| -> Vec<(String, bool)> {
            let new = files.look([(pid, KtimeNs::from_ns(at), mappings)].into_iter());
            new.iter().map(|of| (of.mapping.path.clone(), of.is_program)).collect()
        };
        let new = |path: &str, is_program| vec![(path.to_owned(), is_program)];
        assert_eq!(look(first, 1, &all[1..3]), new("/app", true));
        assert_eq!(look(first, 1, &all), []);
        assert_eq!(look(second, 1, &all), new("/lib", false));
        assert_eq!(look(first, 2, &all), []);
    }

    /// Overlays show another device in mappings: there the path says which file it is.
    #[test]
    fn another_device() {
        let key = |device: &str| FileKey { device: device.to_owned(), inode: 7 };
        let is = |device, path: &str| {
            FileName { key: key(device), path: path.to_owned() }.is(&mapping(7, "/lib/libx.so"))
        };
        assert!(is("fe:00", "/other") && is("00:1b", "/lib/libx.so") && !is("00:1b", "/other"));
        assert_eq!(FileName { key: key("fe:00"), path: "/lib/libx.so".into() }.label(), "libx.so");
    }
}
