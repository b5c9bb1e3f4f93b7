//! The questions that a worker answers, each with the time that it is worth.
//!
//! What an answer says of a file may be wrong; what the recorder relies on is checked here. Leaves out the worker's process (`client.rs`).

use super::client::ResolveError;
use super::question::{Histories, NameFacts, PlainHistory, PlainRule, Question, RowsHead, full_rule};
use super::worker::Worker;
use crate::files::owner_of_file;
use energy_trace_model::recording::record::{Owner, ReadFailure};
use energy_trace_symbols::python_calls::PythonCalls;
use energy_trace_symbols::python_module::ModuleFacts;
use energy_trace_symbols::{Detail, Place, Proof};
use energy_trace_system::roles::room::List;
use energy_trace_unwind::believed::MOST_ROWS;
use energy_trace_unwind::cfi::Rows;
use energy_trace_unwind::elf::ElfFacts;
use energy_trace_unwind::file_bytes::Positioned;
use energy_trace_unwind::functions::Function;
use energy_trace_unwind::generated_code::GeneratedFunction;
use energy_trace_unwind::static_probes::{ProbeName, StaticProbe};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::time::Duration;

/// How long each kind of question is worth waiting for, on a machine that is busy.
const FACTS: Duration = Duration::from_secs(10);
const ROWS: Duration = Duration::from_secs(60);
const RULE: Duration = Duration::from_secs(4);
const NAMES: Duration = Duration::from_secs(30);
const LINES: Duration = Duration::from_secs(600);
impl Worker {
    /// What a file says of itself, with the places of these symbols.
    ///
    /// # Errors
    /// When there is no answer. `label` names the file in warnings.
    pub fn facts(&self, label: &str, file: &File, wanted: &[&str]) -> Result<ElfFacts, ResolveError> {
        let wanted = wanted.iter().map(|&name| name.to_owned()).collect();
        self.ask(label, &Question::Facts { wanted }, &[file], FACTS)
    }

    /// The functions of a file whose names match any of these patterns, sorted by place.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn functions(
        &self,
        label: &str,
        file: &File,
        patterns: &[&str],
        most: usize,
    ) -> Result<Vec<Function>, ResolveError> {
        let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let functions: List<Function> =
            self.ask(label, &Question::Functions { patterns, most }, &[file], NAMES)?;
        Ok(functions.0)
    }

    /// The places of static probes of a file.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn static_probes(
        &self,
        label: &str,
        file: &File,
        wanted: &[ProbeName],
    ) -> Result<Vec<StaticProbe>, ResolveError> {
        let wanted = wanted.to_vec();
        let found: List<StaticProbe> = self.ask(label, &Question::StaticProbes { wanted }, &[file], NAMES)?;
        Ok(found.0)
    }

    /// The unwind rows of a file, sorted.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn rows(&self, label: &str, file: &File, base: u64, entry: u64) -> Result<Rows, ResolveError> {
        let question = Question::Rows { base, entry };
        let (head, files): (RowsHead, _) = self.ask_for_files(label, &question, &[file], ROWS)?;
        let rows = files.into_iter().next().and_then(|rows| read_rows(&rows.into(), head.rows).ok());
        let Some(rows) = rows else {
            self.note(label, file, ReadFailure::Nonsense);
            return Err(ResolveError::Lost(ReadFailure::Nonsense));
        };
        if head.too_many {
            self.note(label, file, ReadFailure::MoreThanItsCode);
        }
        let full = head.full.iter().copied().map(full_rule).collect();
        let RowsHead { damaged, unsupported, too_many, .. } = head;
        Ok(Rows { rows, full, damaged, unsupported, too_many })
    }

    /// Has the worker keep a file under a number.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn keep(&self, label: &str, file: &File, number: u32) -> Result<ElfFacts, ResolveError> {
        self.ask(label, &Question::Keep { number }, &[file], FACTS)
    }

    /// Has the worker of this owner's files keep some no longer.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn forget(&self, label: &str, owner: Owner, numbers: Vec<u32>) -> Result<(), ResolveError> {
        self.ask_of_owner(label, owner, &Question::Forget { numbers }, &[], RULE)
    }

    /// The rule at an address (SVMA) of a file that this generation of the worker keeps.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn rule(&self, label: &str, number: u32, svma: u64) -> Result<PlainRule, ResolveError> {
        self.ask(label, &Question::Rule { number, svma }, &[], RULE)
    }

    /// The function, made at run time by a program of this owner, that an address is in: `code` has the bytes from `start` on.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn generated_function(
        &self,
        (label, owner): (&str, Owner),
        code: &File,
        start: u64,
        at: u64,
    ) -> Result<Option<GeneratedFunction>, ResolveError> {
        self.ask_of_owner(label, owner, &Question::GeneratedFunction { start, at }, &[code], RULE)
    }

    /// The attributes of threads' contexts that the context of a process of this owner names, in their order.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn attribute_names(
        &self,
        (label, owner): (&str, Owner),
        context: &File,
    ) -> Result<Vec<String>, ResolveError> {
        let List(names) = self.ask_of_owner(label, owner, &Question::AttributeNames, &[context], RULE)?;
        Ok(names)
    }

    /// Where a file's names are.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn name_facts(&self, label: &str, file: &File) -> Result<NameFacts, ResolveError> {
        self.ask(label, &Question::NameFacts, &[file], FACTS)
    }

    /// What is at these places of a file. `debug_files` may belong to it, as their proofs show.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn names(
        &self,
        label: &str,
        file: &File,
        debug_files: &[(File, Proof)],
        offsets: &[u64],
        detail: Detail,
    ) -> Result<Vec<Place>, ResolveError> {
        let proofs = debug_files.iter().map(|(_, proof)| proof.clone()).collect();
        let question = Question::Names { offsets: offsets.to_vec(), detail, proofs };
        let files: Vec<&File> =
            std::iter::once(file).chain(debug_files.iter().map(|(file, _)| file)).collect();
        let worth = if detail.inlines { LINES } else { NAMES };
        let List(places) = self.ask(label, &question, &files, worth)?;
        Ok(places)
    }

    /// The names that a perf map has for these addresses, which are sorted.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn perf_map(
        &self,
        label: &str,
        file: &File,
        wanted: &[u64],
    ) -> Result<Vec<(u64, String)>, ResolveError> {
        let List(names) = self.ask(label, &Question::PerfMap { wanted: wanted.to_vec() }, &[file], NAMES)?;
        Ok(names)
    }

    /// What modules of Python say of names, in the files' order.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn python_modules(&self, label: &str, files: &[&File]) -> Result<Vec<ModuleFacts>, ResolveError> {
        let mut of_owners: BTreeMap<Owner, Vec<usize>> = BTreeMap::new();
        for (place, file) in files.iter().enumerate() {
            of_owners.entry(owner_of_file(file)).or_default().push(place);
        }
        let mut facts = vec![ModuleFacts::default(); files.len()];
        for places in of_owners.into_values() {
            let files: Vec<&File> = places.iter().filter_map(|&place| files.get(place).copied()).collect();
            let List(found) = self.ask(label, &Question::PythonModules, &files, RULE)?;
            for (place, found) in places.into_iter().zip(found) {
                facts[place] = found;
            }
        }
        Ok(facts)
    }

    /// What is imported of what lists of installed files name.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn python_lists(&self, label: &str, files: &[&File]) -> Result<Vec<BTreeSet<String>>, ResolveError> {
        self.ask(label, &Question::PythonLists, files, RULE)
    }

    /// What is imported of what is installed in a folder of an archive.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn python_archive(
        &self,
        label: &str,
        file: &File,
        folder: &str,
    ) -> Result<BTreeSet<String>, ResolveError> {
        self.ask(label, &Question::PythonArchive { folder: folder.to_owned() }, &[file], RULE)
    }

    /// What a file says that was counted of functions of Python.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn python_calls(&self, label: &str, file: &File) -> Result<PythonCalls, ResolveError> {
        self.ask(label, &Question::PythonCalls, &[file], NAMES)
    }

    /// The histories that a jitdump has for these addresses, which are sorted.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn jit_dump(
        &self,
        label: &str,
        file: &File,
        wanted: &[u64],
    ) -> Result<Vec<(u64, PlainHistory)>, ResolveError> {
        let histories: Histories =
            self.ask(label, &Question::JitDump { wanted: wanted.to_vec() }, &[file], NAMES)?;
        Ok(histories.0.into_iter().map(|(address, List(history))| (address, history)).collect())
    }
}

/// Reads rows, which must be in order: the probes search them.
fn read_rows(file: &File, count: u64) -> io::Result<Vec<u64>> {
    let odd = || io::Error::from(io::ErrorKind::InvalidData);
    let length = file.metadata()?.len();
    if count > MOST_ROWS as u64 || length != count * 8 {
        return Err(odd());
    }
    let mut rows = Vec::with_capacity(usize::try_from(count).map_err(io::Error::other)?);
    let mut from = BufReader::with_capacity(1 << 16, Positioned::new(file));
    let mut word = [0; 8];
    for _ in 0..count {
        from.read_exact(&mut word)?;
        rows.push(u64::from_ne_bytes(word));
    }
    let places = rows.iter().map(|row| row >> 32);
    if places.is_sorted() { Ok(rows) } else { Err(odd()) }
}

#[cfg(test)]
mod tests {
    use super::read_rows;
    use std::io::Write as _;

    /// Rows that are not in order, or not as many as announced, are refused: the probes search them.
    #[test]
    fn rows_are_checked() {
        let rows = |rows: &[u64], count| {
            let mut file = tempfile::tempfile().unwrap();
            rows.iter().for_each(|row| file.write_all(&row.to_ne_bytes()).unwrap());
            read_rows(&file, count).ok()
        };
        assert_eq!(rows(&[1 << 32, 2 << 32], 2), Some(vec![1 << 32, 2 << 32]));
        assert_eq!(rows(&[2 << 32, 1 << 32], 2), None);
        assert_eq!(rows(&[1 << 32], 2), None);
        assert_eq!(rows(&[], u64::MAX), None);
    }
}
