//! The calls of each row of a profile, each stack looked at once.
//!
//! Leaves out what is counted as whose energy (`call_rows.rs`).

use super::builtins;
use super::naming::{CallName, call_name, function_name};
use super::owner::{Owner, owner};
use super::path::{Code, Entry, Walk, Walked};
use super::rest::{Rest, Where, is_end, rest};
use crate::fold::Interner;
use energy_trace_model::ids::{FrameId, StackId};
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::record::{CalledOn, Frame, FrameKind};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_names::api_names::ApiNames;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a label stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A call with a public name.
    Call,
    /// An import of a package.
    Import,
    /// A package was entered, and no frame says by which call.
    NotNamed,
    /// No call: the program's own code, the interpreter, other processes.
    Rest,
}

impl Kind {
    /// Its word in JSON and CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Import => "import",
            Self::NotNamed => "not-named",
            Self::Rest => "rest",
        }
    }
}

/// A name and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub kind: Kind,
    /// The package whose call it is, where users do not know the name.
    pub(crate) without_name: Option<String>,
}

/// One entry of a stack: the number of its label, and the program's frame that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of its label, see `CallTable::labels`.
    pub label: usize,
    pub(crate) caller: Option<FrameId>,
}

/// The calls of a profile's stacks.
pub struct CallTable<'a> {
    profile: &'a Profile,
    names: Vec<CallName>,
    code: Vec<Code<'a>>,
    labels: Interner<Label>,
    walked: BTreeMap<StackId, Rc<Walked<'a>>>,
}

impl<'a> CallTable<'a> {
    /// Of the frames of this profile.
    pub fn new(profile: &'a Profile) -> Self {
        let mut names = Interner::new();
        let code = (0..).zip(&profile.frames);
        let code = code.map(|(id, frame)| code_of(FrameId::new(id), frame, profile, &mut names)).collect();
        let (names, walked) = (names.labels().to_vec(), BTreeMap::new());
        Self { profile, names, code, labels: Interner::new(), walked }
    }

    /// The public name of what a frame calls, whatever its owner.
    pub fn public_name(&self, frame: FrameId) -> Option<&str> {
        let call = self.names.get(self.code.get(frame.index())?.name?)?;
        call.is_public.then_some(call.name.as_str())
    }

    /// The labels so far, at their numbers.
    pub fn labels(&self) -> &[Label] {
        self.labels.labels()
    }

    /// The entries of a row's stack, the outermost first; never empty: what the rest is where there are none.
    pub fn steps(&mut self, row: &ProfileRow, steps: &mut Vec<Step>) {
        steps.clear();
        let Some(stack) = row.stack else {
            let label = Label {
                name: SyntheticFrame::Unsampled.name().to_owned(),
                kind: Kind::Rest,
                without_name: None,
            };
            return steps.push(Step { label: self.labels.number(label), caller: None });
        };
        let walked = self.walked(stack);
        for step in &walked.steps {
            let label = self.label(step.entry);
            steps.push(Step { label: self.labels.number(label), caller: step.caller });
        }
        if steps.is_empty() {
            let name = self.rest(&walked, row, stack).label();
            let label = Label { name, kind: Kind::Rest, without_name: None };
            steps.push(Step { label: self.labels.number(label), caller: None });
        }
    }

    fn walked(&mut self, stack: StackId) -> Rc<Walked<'a>> {
        if let Some(known) = self.walked.get(&stack) {
            return Rc::clone(known);
        }
        let frames = self.profile.frames_of(stack);
        let codes = frames.filter_map(|(id, _)| self.code.get(id.index()).map(|code| (id, *code)));
        let walked = Rc::new(Walk::along(codes));
        self.walked.insert(stack, Rc::clone(&walked));
        walked
    }

    fn label(&self, entry: Entry<'_>) -> Label {
        match entry {
            Entry::Call(number) => {
                let call = self.names.get(number);
                let name = call.map(|call| call.name.clone()).unwrap_or_default();
                let real = call.is_some_and(|call| !call.is_public);
                let package = name.split('.').next().filter(|_| real).map(str::to_owned);
                Label { name, kind: Kind::Call, without_name: package }
            }
            Entry::CallOf(number, frame) => {
                let way = self.label(Entry::Call(number));
                let on = self.profile.called_on.get(&frame);
                let name = on.and_then(|on| function_name(&way.name, on));
                Label { name: name.unwrap_or(way.name), ..way }
            }
            Entry::Import(package) => {
                Label { name: format!("import {package}"), kind: Kind::Import, without_name: None }
            }
            Entry::NotNamed(package) => {
                let name = format!("[{package}, call unknown]");
                Label { name, kind: Kind::NotNamed, without_name: Some(package.to_owned()) }
            }
        }
    }

    fn rest(&self, walked: &Walked<'_>, row: &ProfileRow, stack: StackId) -> Rest {
        if walked.in_import {
            return Rest::Import;
        }
        if walked.in_program {
            return Rest::OwnCode;
        }
        let thread = self.profile.threads.get(row.thread.index());
        let process = thread.and_then(|thread| self.profile.processes.get(thread.process.index()));
        let without =
            process.filter(|process| process.runtime.is_none()).map(|process| process.name.as_str());
        let is_main =
            thread.zip(process).is_some_and(|(thread, process)| thread.tid.get() == process.pid.get());
        let has_python = self.profile.frames_of(stack).any(|(_, frame)| frame.kind == FrameKind::Python);
        let place = Where { without_python: without.filter(|_| !has_python), is_main };
        rest(place, self.profile.frames_of(stack).map(|(_, frame)| frame))
    }
}

fn code_of<'a>(id: FrameId, frame: &'a Frame, profile: &Profile, names: &mut Interner<CallName>) -> Code<'a> {
    let known = ApiNames::built_in();
    let on = profile.called_on.get(&id);
    let mut whose = owner(frame, &profile.public_names);
    let is_python = frame.kind == FrameKind::Python;
    let mut call = None;
    if matches!(whose, Owner::Package(_)) || frame.kind == FrameKind::Native {
        call = call_name(frame, on, &profile.public_names);
    }
    // A symbol that has a name belongs to its package wherever its library lies.
    if !matches!(whose, Owner::Package(_))
        && let Some(api) = known.name_of(frame)
    {
        call = Some(CallName { name: api.name.to_owned(), is_public: true });
        whose = Owner::Package(api.framework);
    } else if whose == Owner::Other && call.is_some() {
        whose = Owner::Package(builtins::TORCH);
    }
    if let Owner::Package(package) = whose {
        whose = Owner::Package(known.package(package));
    }
    let is_module = is_python && frame.name == "<module>";
    let is_site = is_python && frame.module == "site";
    let is_public = call.as_ref().is_some_and(|call| call.is_public);
    let name = call.map(|call| names.number(call));
    let runs_function = known.name_of(frame).is_some_and(|api| api.runs_function);
    let function = on.filter(|on| matches!(on, CalledOn::Function(_))).map(|_| id);
    let is_end = is_end(frame);
    Code { owner: whose, name, is_public, is_module, is_python, is_site, runs_function, function, is_end }
}
