//! The questions, each with the type of its answer.

use super::client::{Peeker, Unanswered};
use super::question::{FileFacts, Known, NotOpened, OpenedFile, Program, Question, RootFacts, Seen};
use crate::files::{FoundRoot, Root};
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::CalledOn;
use energy_trace_unwind::address_space::{AddressSpace, Mapping};
use energy_trace_unwind::cpython::class_name::MethodName;
use energy_trace_unwind::cpython::code::CodeObject;
use energy_trace_unwind::cpython::layout::CodeLayout;
use energy_trace_unwind::cpython::receiver::Named;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::path::PathBuf;

type Answer<T> = Result<T, Unanswered>;

impl Peeker {
    fn answer<T: DeserializeOwned>(&self, pid: Pid, question: &Question) -> Answer<T> {
        self.ask(pid, question).map(|(answer, _)| answer)
    }

    /// A stretch of memory; `None` where it cannot be read.
    ///
    /// # Errors
    /// Without an answer, as all others.
    pub fn bytes(&self, pid: Pid, from: u64, length: u64) -> Answer<Option<Vec<u8>>> {
        let bytes: Option<Vec<u8>> = self.answer(pid, &Question::Bytes { from, length })?;
        Ok(bytes.filter(|bytes| bytes.len() as u64 == length))
    }

    /// Whether memory is as it was when this digest was made of it.
    pub fn is_still(&self, pid: Pid, from: u64, length: u64, digest: u64) -> Answer<bool> {
        self.answer(pid, &Question::IsStill { from, length, digest })
    }

    /// What is at the addresses of code objects; of the first of them, where all are too much.
    pub fn codes(&self, pid: Pid, layout: &CodeLayout, known: &[Known]) -> Answer<Vec<Seen>> {
        self.answer(pid, &Question::Codes { layout: *layout, known: known.to_vec() })
    }

    /// The name of a method with its class.
    pub fn method_name(
        &self,
        pid: Pid,
        layout: &CodeLayout,
        (code, class): (u64, u64),
        name: &str,
    ) -> Answer<Option<MethodName>> {
        let name = name.to_owned();
        self.answer(pid, &Question::MethodName { layout: *layout, code, class, name })
    }

    /// On what a function was called, by its first variable.
    pub fn called_on(
        &self,
        pid: Pid,
        layout: &CodeLayout,
        code: &CodeObject,
        first: u64,
    ) -> Answer<Option<CalledOn>> {
        self.answer(pid, &Question::CalledOn { layout: *layout, code: code.name_and_file(), first })
    }

    /// What an object runs.
    pub fn named(
        &self,
        pid: Pid,
        layout: &CodeLayout,
        code: &CodeObject,
        object: u64,
    ) -> Answer<Option<Named>> {
        self.answer(pid, &Question::Named { layout: *layout, code: code.name_and_file(), object })
    }

    /// Whether it still runs that.
    pub fn is_still_named(
        &self,
        pid: Pid,
        layout: &CodeLayout,
        code: &CodeObject,
        named: &Named,
    ) -> Answer<bool> {
        let (code, named) = (code.name_and_file(), named.clone());
        self.answer(pid, &Question::IsStillNamed { layout: *layout, code, named })
    }

    /// Who a process is.
    pub fn program(&self, pid: Pid) -> Answer<Program> {
        self.answer(pid, &Question::Program)
    }

    /// What these variables were when a process started; `None` where that cannot be read.
    pub fn variables(&self, pid: Pid, names: &[&str]) -> Answer<Option<Vec<Option<String>>>> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        self.answer(pid, &Question::Variables { names })
    }

    /// The code mappings of a process, where any of its mappings holds this address.
    pub fn mappings(&self, pid: Pid, holding: Option<u64>) -> Answer<Option<AddressSpace>> {
        self.answer(pid, &Question::Mappings { holding })
    }

    /// The file behind a mapping, or a copy where its user alone may read it, which may come late. `or_here`: where the process has ended, the one that is at its path now, if it has the same inode.
    pub fn open(&self, pid: Pid, mapping: &Mapping, or_here: bool) -> Answer<Result<OpenedFile, String>> {
        let question = Question::Open { mapping: mapping.clone(), or_here };
        let (facts, files): (Result<FileFacts, NotOpened>, _) = self.ask(pid, &question)?;
        let file = files.into_iter().next().map(File::from);
        match facts {
            Ok(facts) => Ok(file.map(|file| facts.of(file)).ok_or_else(|| "it was not passed on".to_owned())),
            Err(NotOpened::Because(why)) => Ok(Err(why)),
            Err(NotOpened::Yet) => Err(Unanswered::Late),
            Err(NotOpened::NotRoots { user }) => {
                self.note_not_roots(user, &mapping.path);
                Ok(Err(format!("neither root nor user {user} could read it")))
            }
        }
    }

    /// The first of these files that there are, each with its place in the list, below a process's root (`below`) or below ours.
    pub fn open_some(&self, pid: Pid, paths: &[PathBuf], below: bool) -> Answer<Vec<(usize, OpenedFile)>> {
        let question = Question::OpenSome { paths: paths.to_vec(), below };
        let (found, files): (Vec<(u32, FileFacts)>, _) = self.ask(pid, &question)?;
        let opened = found.into_iter().zip(files);
        Ok(opened.map(|((place, facts), file)| (place as usize, facts.of(File::from(file)))).collect())
    }

    /// The context that a process publishes, as bytes; `None`: none.
    pub fn context(&self, pid: Pid) -> Answer<Option<Vec<u8>>> {
        self.answer(pid, &Question::Context)
    }

    /// The root folder of a process.
    pub fn root(&self, pid: Pid) -> Answer<Option<FoundRoot>> {
        let (facts, files): (Option<RootFacts>, _) = self.ask(pid, &Question::Root)?;
        let found = facts.zip(files.into_iter().next());
        Ok(found.map(|(facts, folder)| FoundRoot {
            identity: (facts.namespace, facts.device, facts.inode),
            root: Root::at(File::from(folder), facts.place),
        }))
    }
}
