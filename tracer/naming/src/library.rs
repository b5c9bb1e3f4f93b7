//! One library whose code was seen: its open file, and the root that it lies under. The resolver says what is in it.

use super::debug_file;
use energy_trace_foreign::files::{Root, owner_of_file};
use energy_trace_foreign::resolver::question::NameFacts;
use energy_trace_foreign::resolver::{ReadFailure, ResolveError, Worker};
use energy_trace_model::ids::BuildId;
use energy_trace_model::recording::record::Owner;
use energy_trace_symbols::{Detail, Place};
use std::fs::File;
use std::path::PathBuf;

/// A file whose code was seen, open since then.
#[derive(Debug)]
pub struct Library {
    file: File,
    /// Where its process saw it: debug files are found from there.
    path: PathBuf,
    root: Root,
    owner: Owner,
}

impl Library {
    /// A file that a process has mapped, by its path under the process's root, and that root.
    pub fn new(file: File, path: PathBuf, root: Root) -> Self {
        let owner = owner_of_file(&file);
        Self { file, path, root, owner }
    }

    /// Who may have written it.
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// The same, for another thread.
    ///
    /// # Errors
    /// When this process may have no more files open.
    pub fn try_clone(&self) -> std::io::Result<Self> {
        let (file, path) = (self.file.try_clone()?, self.path.clone());
        Ok(Self { file, path, root: self.root.clone(), owner: self.owner })
    }

    /// Its build id, if it has one.
    pub fn read_build_id(&self, worker: &Worker) -> Option<BuildId> {
        worker.name_facts(&self.label(), &self.file).ok()?.build_id
    }

    /// What is at these places (file offsets), one answer each, in their order; nothing where it cannot be read.
    pub(super) fn name(&self, worker: &Worker, offsets: &[u64], detail: Detail) -> Vec<Place> {
        let label = self.label();
        self.ask(worker, &label, offsets, detail).unwrap_or_else(|error| {
            log::debug!("no symbols of {label}: {error}");
            if let ResolveError::Refused { too_large: false, .. } = error {
                worker.note(&label, &self.file, ReadFailure::Damaged);
            }
            Vec::new()
        })
    }

    fn ask(
        &self,
        worker: &Worker,
        label: &str,
        offsets: &[u64],
        detail: Detail,
    ) -> Result<Vec<Place>, ResolveError> {
        let facts = worker.name_facts(label, &self.file)?;
        let is_enough = detail.alone || is_complete(&facts, detail) || self.path.as_os_str().is_empty();
        let candidates =
            if is_enough { Vec::new() } else { debug_file::find(&self.file, &self.path, &self.root, &facts) };
        worker.names(label, &self.file, &candidates, offsets, detail)
    }

    fn label(&self) -> String {
        self.path.display().to_string()
    }
}

/// Whether a file has itself what is asked for.
const fn is_complete(facts: &NameFacts, detail: Detail) -> bool {
    facts.sections.symtab && (!detail.inlines || facts.sections.debug_info)
}
