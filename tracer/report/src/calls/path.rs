//! The calls of a stack: where the program's code enters an installed package, and where one package enters another.
//!
//! A stack is walked from the root. Code of a package below code of somebody else is an entry; its name is that of the first frame of this
//! package that has one (`naming.rs`). An entry that hands on before it has a name was a wrapper (a decorator, a context): whoever it hands
//! to is called by its caller. Python's own library and machine code without a name are nobody's and are passed over. Leaves out what
//! stacks without calls are (`rest.rs`).

use super::owner::Owner;
use energy_trace_model::ids::FrameId;

/// What a frame means for the calls of its stack; names and packages are numbers of `CallTable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code<'a> {
    pub(super) owner: Owner<'a>,
    /// The number of its name.
    pub(super) name: Option<usize>,
    /// Whether users know it by this name.
    pub(super) is_public: bool,
    /// Whether it is the code of a module: what runs when it is imported, or is the program.
    pub(super) is_module: bool,
    /// Whether it is a Python function.
    pub(super) is_python: bool,
    /// Whether it is of the module that readies the interpreter.
    pub(super) is_site: bool,
    /// Whether it runs a function of the program, which a frame further in may name.
    pub(super) runs_function: bool,
    /// The frame that names such a function.
    pub(super) function: Option<FrameId>,
    /// Whether the process ends below it.
    pub(super) is_end: bool,
}

/// One entry of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entry<'a> {
    /// A call with a public name, by its number.
    Call(usize),
    /// The same of a function of the program, by the frame that names it.
    CallOf(usize, FrameId),
    /// A package is imported.
    Import(&'a str),
    /// A package was entered, and no frame says by which call.
    NotNamed(&'a str),
}

/// An entry, and where the program made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Step<'a> {
    pub(super) entry: Entry<'a>,
    /// The package that was entered.
    package: &'a str,
    /// It runs a function of the program, and no frame has named that yet.
    is_open: bool,
    /// The program's frame that called; `None` where a package did, or nobody is known.
    pub(super) caller: Option<FrameId>,
}

/// Who called last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller<'a> {
    /// Nothing but the interpreter's start or a thread's.
    Root,
    Program(FrameId),
    Package(&'a str),
}

impl Caller<'_> {
    const fn frame(self) -> Option<FrameId> {
        if let Self::Program(frame) = self { Some(frame) } else { None }
    }

    const fn is_package(self) -> bool {
        matches!(self, Self::Package(_))
    }
}

/// A package that was entered and has not named the call yet.
#[derive(Clone, Copy, Debug)]
struct Entering<'a> {
    package: &'a str,
    by: Caller<'a>,
}

/// What of the program's imports goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Importing {
    No,
    /// The import system runs for this caller; what is imported is not known yet.
    Searching(Option<FrameId>),
    /// The code of an imported package runs, with all that it calls.
    Package,
}

/// A walk along a stack.
pub(super) struct Walk<'a> {
    steps: Vec<Step<'a>>,
    caller: Caller<'a>,
    entering: Option<Entering<'a>>,
    importing: Importing,
    /// A package that is run as the program (`python -m`): its code is the program's.
    program: Option<&'a str>,
    /// The interpreter readies itself: what it imports is not the program's.
    starts: bool,
    /// The process ends: what libraries of packages clean up is no call.
    ends: bool,
}

/// The entries of a stack, and whether it has code of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked<'a> {
    pub(super) steps: Vec<Step<'a>>,
    pub(super) in_program: bool,
    /// The program imports something, and nothing says what.
    pub(super) in_import: bool,
}

impl<'a> Walk<'a> {
    /// The entries of a stack, its frames from the outermost on.
    pub(super) fn along(frames: impl Iterator<Item = (FrameId, Code<'a>)>) -> Walked<'a> {
        let mut walk = Self {
            steps: Vec::new(),
            caller: Caller::Root,
            entering: None,
            importing: Importing::No,
            program: None,
            starts: false,
            ends: false,
        };
        frames.for_each(|(id, code)| walk.see(id, code));
        walk.end()
    }

    fn see(&mut self, id: FrameId, code: Code<'a>) {
        self.starts |= code.is_site && self.caller == Caller::Root;
        self.ends |= code.is_end && self.caller == Caller::Root;
        if self.starts && self.caller == Caller::Root {
            return; // Nothing of this is the program's, what `.pth` files of packages run included.
        }
        match code.owner {
            Owner::Program => self.see_program(id),
            Owner::Importer => self.see_importer(),
            Owner::Package(package) => self.see_package(id, package, code),
            Owner::Standard | Owner::Other => {}
        }
    }

    /// What was entered hands on to the program: it was a wrapper.
    fn see_program(&mut self, id: FrameId) {
        self.entering = None;
        // What it calls is what it runs no more.
        if let Some(last) = self.steps.last_mut() {
            last.is_open = false;
        }
        self.importing = Importing::No;
        self.caller = Caller::Program(id);
    }

    /// The program imports, or has something imported by a wrapper; a package's own imports are part of its call.
    fn see_importer(&mut self) {
        if self.importing != Importing::No {
            return;
        }
        let by = self.entering.map_or(self.caller, |entering| entering.by);
        self.importing = match by {
            Caller::Program(frame) => Importing::Searching(Some(frame)),
            Caller::Package(_) => Importing::Package,
            Caller::Root => Importing::Searching(None),
        };
    }

    fn see_package(&mut self, id: FrameId, package: &'a str, code: Code<'a>) {
        if self.program == Some(package) {
            return self.see_program(id);
        }
        match self.importing {
            Importing::Package => return,
            Importing::Searching(caller) => {
                if code.is_module {
                    self.push(Entry::Import(package), package, caller);
                    self.importing = Importing::Package;
                    self.entering = None;
                }
                return;
            }
            Importing::No => {}
        }
        if self.caller == Caller::Root && code.is_module {
            self.program = Some(package);
            return self.see_program(id);
        }
        // Machine code without a name tells nothing between a package's own functions.
        if !code.is_python && code.name.is_none() && self.caller.is_package() {
            return;
        }
        self.enter(package);
        // What packages call of each other is a call where it is public.
        let counts = |entering: &Entering<'_>| code.is_public || !entering.by.is_package();
        if let (Some(entering), Some(name)) = (self.entering.filter(counts), code.name) {
            self.push(Entry::Call(name), package, entering.by.frame());
            self.entering = None;
        }
        self.name_function(package, code);
    }

    fn push(&mut self, entry: Entry<'a>, package: &'a str, caller: Option<FrameId>) {
        self.steps.push(Step { entry, package, caller, is_open: false });
    }

    /// The package's last call runs a function of the program, and this is how, or which.
    fn name_function(&mut self, package: &'a str, code: Code<'a>) {
        let Some(last) = self.steps.last_mut().filter(|last| last.package == package) else { return };
        last.is_open |= code.runs_function && last.entry == code.name.map_or(last.entry, Entry::Call);
        if let (true, Entry::Call(name), Some(function)) = (last.is_open, last.entry, code.function) {
            last.entry = Entry::CallOf(name, function);
            last.is_open = false;
        }
    }

    fn enter(&mut self, package: &'a str) {
        if self.caller == Caller::Package(package) {
            return;
        }
        let by = self.entering.map_or(self.caller, |wrapper| wrapper.by);
        // A wrapper of one package around another that comes back to the first.
        let by = if by == Caller::Package(package) { Caller::Package("") } else { by };
        self.entering = Some(Entering { package, by });
        self.caller = Caller::Package(package);
    }

    /// A package that runs code of its caller's, as `joblib` does for `sklearn`, only hands it on: what runs is its caller's call.
    fn hand_back(&mut self) {
        let Some(entering) = self.entering.filter(|entering| entering.by.is_package()) else { return };
        let by_program = self.steps.iter().rposition(|step| step.caller.is_some()).unwrap_or(0);
        let own = self.steps.iter().rposition(|step| step.package == entering.package);
        if let Some(own) = own.filter(|own| *own >= by_program) {
            self.steps.truncate(own + 1);
        }
    }

    fn end(mut self) -> Walked<'a> {
        let is_end = |by: Caller<'_>| self.ends && by == Caller::Root;
        let unnamed = self.entering.filter(|entering| !entering.by.is_package() && !is_end(entering.by));
        self.hand_back();
        if let Some(Entering { package, by }) = unnamed {
            self.push(Entry::NotNamed(package), package, by.frame());
        }
        let in_import = matches!(self.importing, Importing::Searching(Some(_)));
        let in_program = matches!(self.caller, Caller::Program(_)) || self.program.is_some();
        Walked { steps: self.steps, in_program, in_import }
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Entry, Owner, Walk, Walked};
    use energy_trace_model::ids::FrameId;

    const NOBODY: Code<'static> = Code {
        owner: Owner::Other,
        name: None,
        is_public: true,
        is_module: false,
        is_python: true,
        is_site: false,
        runs_function: false,
        function: None,
        is_end: false,
    };

    fn program() -> Code<'static> {
        Code { owner: Owner::Program, ..NOBODY }
    }

    fn call(package: &'static str, name: usize) -> Code<'static> {
        Code { owner: Owner::Package(package), name: Some(name), ..NOBODY }
    }

    fn private(package: &'static str) -> Code<'static> {
        Code { owner: Owner::Package(package), ..NOBODY }
    }

    fn module(package: &'static str) -> Code<'static> {
        Code { is_module: true, ..private(package) }
    }

    fn importer() -> Code<'static> {
        Code { owner: Owner::Importer, ..NOBODY }
    }

    fn standard() -> Code<'static> {
        Code { owner: Owner::Standard, ..NOBODY }
    }

    fn walk(codes: &[Code<'static>]) -> Walked<'static> {
        Walk::along(codes.iter().zip(0..).map(|(code, id)| (FrameId::new(id), *code)))
    }

    /// What was entered, and at which frame of the program.
    fn entries(codes: &[Code<'static>]) -> Vec<(Entry<'static>, Option<u32>)> {
        walk(codes).steps.iter().map(|step| (step.entry, step.caller.map(|frame| frame.get()))).collect()
    }

    /// A closure that an optimizer calls is the program's again: what it calls has its own entries.
    #[test]
    fn calls_inside_calls() {
        let stack = [program(), call("torch", 1), program(), call("torch", 2), call("torch", 3)];
        assert_eq!(entries(&stack), [(Entry::Call(1), Some(0)), (Entry::Call(2), Some(2))]);
    }

    /// One package's call of another is an entry, by nobody of the program.
    #[test]
    fn packages_that_call_packages() {
        let stack =
            [program(), call("keras", 1), private("keras"), private("tensorflow"), call("tensorflow", 2)];
        assert_eq!(entries(&stack), [(Entry::Call(1), Some(0)), (Entry::Call(2), None)]);
    }

    /// A call that runs a function of the program has that one's name where a frame of the same package says it, and once.
    #[test]
    fn functions_that_packages_run() {
        let runs = Code { runs_function: true, ..call("tensorflow", 1) };
        let names = |id| Code { function: Some(FrameId::new(id)), ..private("tensorflow") };
        let of = |id| Entry::CallOf(1, FrameId::new(id));
        assert_eq!(
            entries(&[program(), runs, private("tensorflow"), names(7), names(8)]),
            [(of(7), Some(0))]
        );
        assert_eq!(entries(&[program(), call("tensorflow", 1), names(7)]), [(Entry::Call(1), Some(0))]);
        let other = [program(), runs, call("keras", 2), names(7)];
        assert_eq!(entries(&other), [(Entry::Call(1), Some(0))], "another package's call is in between");
        let itself = Code { function: Some(FrameId::new(9)), ..runs };
        assert_eq!(entries(&[program(), itself]), [(of(9), Some(0))], "the call's own frame says it");
        let traced = [program(), runs, program(), names(7)];
        assert_eq!(entries(&traced)[0], (Entry::Call(1), Some(0)), "what the function itself calls");
    }

    /// Wrappers are passed over: in front of a package's own function, around another package's, around the program's.
    #[test]
    fn wrappers() {
        let own = [program(), private("keras"), standard(), call("keras", 1)];
        assert_eq!(entries(&own), [(Entry::Call(1), Some(0))]);
        let across = [program(), private("torch"), call("transformers", 1), call("torch", 2)];
        assert_eq!(entries(&across), [(Entry::Call(1), Some(0)), (Entry::Call(2), None)]);
        let around = [program(), private("torch"), program()];
        assert_eq!(entries(&around), []);
        assert!(walk(&around).in_program);
    }

    /// What a package does for its caller's own functions is its caller's call.
    #[test]
    fn packages_that_hand_on() {
        let stack = [program(), call("sklearn", 1), call("joblib", 2), private("sklearn")];
        assert_eq!(entries(&stack), [(Entry::Call(1), Some(0))]);
        let inside = [program(), call("sklearn", 1), program(), call("joblib", 2), private("sklearn")];
        assert_eq!(entries(&inside), [(Entry::Call(1), Some(0)), (Entry::Call(2), Some(2))]);
    }

    /// A package that was entered and names no call is said; where another package entered it, the call is that one's.
    #[test]
    fn without_a_name() {
        let native = Code { is_python: false, ..private("numpy") };
        assert_eq!(entries(&[program(), native]), [(Entry::NotNamed("numpy"), Some(0))]);
        assert_eq!(entries(&[program(), call("pandas", 1), native]), [(Entry::Call(1), Some(0))]);
        // A thread of the package's own.
        assert_eq!(entries(&[standard(), private("torch")]), [(Entry::NotNamed("torch"), None)]);
    }

    /// What a package's library cleans up while the process ends is no call; what the program calls there is one.
    #[test]
    fn the_process_ends() {
        let exit = Code { is_end: true, ..NOBODY };
        let native = Code { is_python: false, ..private("torch") };
        assert_eq!(entries(&[exit, native]), []);
        assert_eq!(entries(&[exit, program(), native]), [(Entry::NotNamed("torch"), Some(1))]);
        assert_eq!(entries(&[native, exit]), [(Entry::NotNamed("torch"), None)]);
    }

    /// Imports of the program are rows, with all that runs in them; those of a package are part of its call.
    #[test]
    fn imports() {
        let direct = [program(), importer(), module("torch"), importer(), module("numpy"), call("numpy", 1)];
        assert_eq!(entries(&direct), [(Entry::Import("torch"), Some(0))]);
        assert!(walk(&[program(), importer()]).in_import);
        let lazy = [program(), private("transformers"), importer(), module("transformers")];
        assert_eq!(entries(&lazy), [(Entry::Import("transformers"), Some(0))]);
        let inside = [program(), call("torch", 1), importer(), module("sympy"), call("sympy", 2)];
        assert_eq!(entries(&inside), [(Entry::Call(1), Some(0))]);
        let own = [program(), importer(), program(), call("torch", 1)];
        assert_eq!(entries(&own), [(Entry::Call(1), Some(2))]);
    }

    /// What the interpreter imports for itself is its start; a package that is run is the program.
    #[test]
    fn before_the_program() {
        let site = Code { is_site: true, ..standard() };
        assert_eq!(walk(&[site, importer(), module("_distutils_hack"), private("x")]), Walked::default());
        let path_file = [site, program(), importer(), module("certifi"), call("certifi", 1)];
        assert_eq!(walk(&path_file), Walked::default(), "a line of a `.pth` file");
        let run = [standard(), module("pytest"), private("pytest"), call("torch", 1)];
        assert_eq!(entries(&run), [(Entry::Call(1), Some(2))]);
        assert!(walk(&run).in_program);
    }
}
