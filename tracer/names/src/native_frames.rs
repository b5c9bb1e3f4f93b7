//! Folds frames of native code into the Python frames that they serve.
//!
//! Python's users know their functions and the libraries that these call, not what the interpreter does between. A fold changes stacks, not
//! rows: every row keeps its number, energy, time and samples, so nothing is lost or moved, whatever is folded. Leaves out the sums
//! (`fold.rs`).

use crate::names::file_name;
use energy_trace_model::ids::{FrameId, StackId};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::{Frame, FrameKind, StackNode};
use energy_trace_model::recording::synthetic_frame::is_nameless_python;
use std::borrow::Cow;
use std::collections::HashMap;

/// Which frames of native code are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NativeFrames {
    /// All of them.
    All,
    /// Those of libraries and of the kernel. Frames of the interpreter go into the Python frame that they serve, or, where a stack has none,
    /// into the mark `[Python interpreter]`.
    #[default]
    Libraries,
    /// None: everything goes into the innermost Python frame, a GPU's work too. A stack without one is a single mark: `[Python
    /// interpreter]`, `[native code]`, or the one that it ends with.
    None,
}

impl NativeFrames {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::All, Self::Libraries, Self::None];
}

/// Stands for the interpreter's own work before its first Python frame and after its last one.
pub const INTERPRETER: &str = "[Python interpreter]";
/// Stands for stacks that have nothing to do with Python.
pub const NATIVE_CODE: &str = "[native code]";

/// The profile with the frames folded that the choice does not show.
pub fn folded(profile: &Profile, frames: NativeFrames) -> Cow<'_, Profile> {
    let mut folding = Folding::new(profile, frames);
    let nothing_to_fold = || !folding.roles.contains(&Role::Interpreter);
    if frames == NativeFrames::All || frames == NativeFrames::Libraries && nothing_to_fold() {
        return Cow::Borrowed(profile);
    }
    let mut profile = profile.clone();
    for row in &mut profile.rows {
        row.stack = row.stack.map(|stack| folding.stack(stack));
    }
    profile.stacks = folding.nodes;
    profile.frames.extend([INTERPRETER, NATIVE_CODE].map(Frame::special));
    Cow::Owned(profile)
}

/// What a frame is to the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A Python function.
    Python,
    /// Code of the interpreter's own binary or library, and of its import system, as far as CPython itself leaves it out of tracebacks.
    Interpreter,
    /// The C library and the loader: they serve whoever calls them, and start whoever they call.
    CLibrary,
    /// A mark in brackets: what is below it is another stack.
    Mark,
    /// Other libraries, the kernel, a GPU.
    Other,
}

impl Role {
    /// That of a frame.
    pub fn of(frame: &Frame) -> Self {
        match frame.kind {
            FrameKind::Python if is_import(&frame.file) => Self::Interpreter,
            FrameKind::Python => Self::Python,
            FrameKind::Special if is_nameless_python(frame) => Self::Python,
            FrameKind::Special | FrameKind::Range => Self::Mark,
            FrameKind::Native | FrameKind::Inlined if is_interpreter(file_name(&frame.module)) => {
                Self::Interpreter
            }
            FrameKind::Native | FrameKind::Inlined if is_c_library(file_name(&frame.module)) => {
                Self::CLibrary
            }
            FrameKind::Native | FrameKind::Inlined | FrameKind::Kernel | FrameKind::Gpu => Self::Other,
        }
    }
}

/// Whether a file is CPython: `python3.11`, `python3.13t`, `libpython3.12.so.1.0`; not `python-config`.
fn is_interpreter(file: &str) -> bool {
    let program = file.strip_prefix("python");
    file.starts_with("libpython")
        || program.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a Python file is the import system (CPython, `Python/import.c`: `remove_importlib_frames`).
fn is_import(file: &str) -> bool {
    file.starts_with("<frozen importlib._bootstrap")
}

/// Whether a file is a part of glibc or musl, or the loader.
fn is_c_library(file: &str) -> bool {
    let parts = ["libc.so", "libc-", "libc.musl", "ld-", "libpthread", "libm.so", "libm-", "libdl", "librt"];
    parts.iter().any(|part| file.starts_with(part))
}

/// Makes the folded stacks of a profile.
struct Folding<'a> {
    profile: &'a Profile,
    frames: NativeFrames,
    roles: Vec<Role>,
    nodes: Vec<StackNode>,
    /// Where each node is.
    known: HashMap<StackNode, StackId>,
    /// The folded stack of each stack that was asked for.
    done: HashMap<StackId, StackId>,
}

impl<'a> Folding<'a> {
    fn new(profile: &'a Profile, frames: NativeFrames) -> Self {
        let roles = profile.frames.iter().map(Role::of).collect();
        Self { profile, frames, roles, nodes: Vec::new(), known: HashMap::new(), done: HashMap::new() }
    }

    fn stack(&mut self, stack: StackId) -> StackId {
        if let Some(&done) = self.done.get(&stack) {
            return done;
        }
        let mut path: Vec<(Role, FrameId)> =
            self.profile.frames_of(stack).map(|(id, _)| self.role(id)).collect();
        match self.frames {
            NativeFrames::All => {}
            NativeFrames::Libraries => self.without_interpreter(&mut path),
            NativeFrames::None => self.without_native(&mut path),
        }
        // What was not known twice over is not known once.
        path.dedup_by(|next, before| self.are_one_mark(next.1, before.1));
        let ranges = self.profile.ranges_of(stack).map(|(id, _)| self.role(id));
        path.splice(..0, ranges.collect::<Vec<_>>());
        // A stack that was damaged stays one: its number is in no table.
        let folded = self.interned(&path).unwrap_or(StackId::new(u32::MAX));
        self.done.insert(stack, folded);
        folded
    }

    /// Whether two frames are the same mark.
    fn are_one_mark(&self, a: FrameId, b: FrameId) -> bool {
        let frame = |id: FrameId| self.profile.frames.get(id.index());
        match (frame(a), frame(b)) {
            (Some(one), Some(other)) => one.kind == FrameKind::Special && one == other,
            _ => a == b,
        }
    }

    fn role(&self, frame: FrameId) -> (Role, FrameId) {
        (self.roles.get(frame.index()).copied().unwrap_or(Role::Other), frame)
    }

    fn without_interpreter(&self, path: &mut Vec<(Role, FrameId)>) {
        settle_c_library(path);
        if path.iter().any(|&(role, _)| role == Role::Python) {
            path.retain(|&(role, _)| role != Role::Interpreter);
        } else {
            path.dedup_by(|next, before| [next.0, before.0] == [Role::Interpreter; 2]);
            for (role, frame) in path.iter_mut().filter(|(role, _)| *role == Role::Interpreter) {
                (*role, *frame) = self.mark(INTERPRETER);
            }
        }
    }

    fn without_native(&self, path: &mut Vec<(Role, FrameId)>) {
        if let Some(innermost) = path.iter().rposition(|&(role, _)| role == Role::Python) {
            path.truncate(innermost + 1);
            path.retain(|&(role, _)| matches!(role, Role::Python | Role::Mark));
            return;
        }
        let in_interpreter = path.iter().any(|&(role, _)| role == Role::Interpreter);
        let only = match path.last() {
            None => return,
            Some(_) if in_interpreter => self.mark(INTERPRETER),
            Some(&(Role::Mark, frame)) => (Role::Mark, frame),
            Some(_) => self.mark(NATIVE_CODE),
        };
        *path = vec![only];
    }

    /// One of the two marks, which stand behind the profile's own frames.
    fn mark(&self, name: &str) -> (Role, FrameId) {
        let at = self.profile.frames.len() + usize::from(name == NATIVE_CODE);
        (Role::Mark, FrameId::new(u32::try_from(at).unwrap_or(u32::MAX)))
    }

    fn interned(&mut self, path: &[(Role, FrameId)]) -> Option<StackId> {
        path.iter().fold(None, |parent, &(_, frame)| {
            let node = StackNode { parent, frame };
            let next = StackId::new(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
            Some(*self.known.entry(node).or_insert_with(|| {
                self.nodes.push(node);
                next
            }))
        })
    }
}

/// Gives frames of the C library the role of who calls them, and at the root of a stack that of whom they call first.
fn settle_c_library(path: &mut [(Role, FrameId)]) {
    let of =
        |role| if matches!(role, Role::Python | Role::Interpreter) { Role::Interpreter } else { Role::Other };
    let mut caller = None;
    for at in 0..path.len() {
        let role = path[at].0;
        if role == Role::CLibrary {
            let called = || path[at..].iter().map(|&(role, _)| role).find(|&role| role != Role::CLibrary);
            let settled = caller.or_else(called).map_or(Role::Other, of);
            path[at].0 = settled;
            caller = Some(settled);
        } else {
            caller = (role != Role::Mark).then_some(role);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{INTERPRETER, NATIVE_CODE, NativeFrames, folded, is_c_library, is_interpreter};
    use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
    use energy_trace_model::profile::{EnergyByClass, Profile, ProfileRow};
    use energy_trace_model::recording::record::{Frame, FrameKind, StackNode};
    use energy_trace_model::recording::synthetic_frame::SyntheticFrame;

    /// A frame by its text: `f` is Python's, `<file>:f` Python's in this file, `library:f` native, `kernel:f` the kernel's, `gpu:f` a GPU's,
    /// `[…]` a mark; `_` in marks and files is a space.
    fn frame(text: &str) -> Frame {
        if text.starts_with('[') {
            return Frame::special(&text.replace('_', " "));
        }
        let (module, name) = text.split_once(':').unwrap_or(("", text));
        if module.starts_with('<') {
            let file = module.replacen('_', " ", 1);
            return Frame { kind: FrameKind::Python, file, ..Frame::special(name) };
        }
        let kind = match module {
            "" => FrameKind::Python,
            "kernel" => FrameKind::Kernel,
            "gpu" => FrameKind::Gpu,
            _ => FrameKind::Native,
        };
        Frame { kind, module: format!("/usr/lib/{module}"), ..Frame::special(name) }
    }

    /// The names of a stack, given root first by words, after folding.
    fn names(stack: &str, frames: NativeFrames) -> String {
        // A frame of another stack, so that there is something to fold.
        let words: Vec<&str> = std::iter::once("python3:elsewhere").chain(stack.split(' ')).collect();
        let node =
            |at: u32| StackNode { parent: (at > 1).then(|| StackId::new(at - 1)), frame: FrameId::new(at) };
        let last = StackId::new(u32::try_from(words.len()).unwrap() - 1);
        let row = ProfileRow {
            thread: ThreadKey::new(0),
            stack: Some(last),
            energy: EnergyByClass::default(),
            by_time: EnergyByClass::default(),
            time_ns: 0,
            samples: 1,
            on_behalf_of: None,
        };
        let profile = Profile {
            frames: words.iter().map(|word| frame(word)).collect(),
            stacks: (0..=u32::try_from(last.index()).unwrap()).map(node).collect(),
            rows: vec![row],
            ..Profile::default()
        };
        let folded = folded(&profile, frames);
        let names: Vec<&str> =
            folded.frames_of(folded.rows[0].stack.unwrap()).map(|(_, frame)| &*frame.name).collect();
        names.join(" ")
    }

    /// A stack as it is on Debian: the interpreter above and between Python frames, the C library for both sides.
    const NUMPY: &str = "python3.11:_start libc.so.6:main python3.11:PyEval_EvalCode module python3.11:vectorcall train \
        python3.11:call numpy.so:dot libc.so.6:memcpy kernel:fault";

    /// The interpreter goes, with what the C library does for it; libraries keep theirs.
    #[test]
    fn interpreters_go() {
        let names = |stack| names(stack, NativeFrames::Libraries);
        assert_eq!(names(NUMPY), "module train dot memcpy fault");
        assert_eq!(names("module libpython3.12.so.1.0:call libc.so.6:malloc"), "module");
        assert_eq!(names("f python3:call libc.so.6:read kernel:read"), "f read");
        assert_eq!(names("f torch.so:backward python3.11:call hook"), "f backward hook");
        assert_eq!(names("server:main libpython3.so:run f"), "main f");
    }

    /// What no Python frame asked for is one mark; what has nothing to do with the interpreter stays.
    #[test]
    fn before_the_first_python_frame() {
        let names = |stack| names(stack, NativeFrames::Libraries);
        assert_eq!(names("python3:_start libc.so.6:main python3:Py_Finalize"), INTERPRETER);
        assert_eq!(names("python3:exit libc.so.6:exit torch.so:unload"), format!("{INTERPRETER} unload"));
        assert_eq!(names("libc.so.6:clone libgomp.so.1:start torch.so:conv"), "clone start conv");
        assert_eq!(names("f [mark] libc.so.6:clone libgomp.so.1:start"), "f [mark] clone start");
        assert_eq!(names("f [mark] libc.so.6:clone python3:thread g"), "f [mark] g");
    }

    /// Without native frames, the innermost Python frame has everything, and what has none is said in one word.
    #[test]
    fn all_native_code_goes() {
        let names = |stack| names(stack, NativeFrames::None);
        assert_eq!(names(NUMPY), "module train");
        assert_eq!(names("f cuda.so:launch gpu:gemm"), "f");
        assert_eq!(names("f torch.so:run [mark] libgomp.so.1:start"), "f");
        assert_eq!(names("f torch.so:run [mark] libc.so.6:start g"), "f [mark] g");
        assert_eq!(names("python3:_start python3:Py_Finalize"), INTERPRETER);
        assert_eq!(names("libgomp.so.1:start torch.so:conv"), NATIVE_CODE);
        assert_eq!(names("libgomp.so.1:start [lost]"), "[lost]");
    }

    /// The import system is the interpreter's own, and a function without a name is a function.
    #[test]
    fn python_that_is_not_the_users() {
        let stack = "python3:_start module <frozen_importlib._bootstrap>:_find_and_load python3:call package";
        assert_eq!(names(stack, NativeFrames::Libraries), "module package");
        assert_eq!(names(stack, NativeFrames::None), "module package");
        assert_eq!(
            names("python3:_start <frozen_importlib._bootstrap>:_find_and_load", NativeFrames::None),
            INTERPRETER
        );
        let gone = SyntheticFrame::PythonGone.name().replace(' ', "_");
        let stack = format!("python3:_start {gone} python3:call {gone} zlib.so:inflate");
        assert_eq!(
            names(&stack, NativeFrames::Libraries),
            format!("{} inflate", SyntheticFrame::PythonGone.name())
        );
        assert_eq!(names(&stack, NativeFrames::None), SyntheticFrame::PythonGone.name());
    }

    /// Every frame is there where all are asked for.
    #[test]
    fn all_frames_on_request() {
        assert_eq!(names(NUMPY, NativeFrames::All).split(' ').count(), 10);
    }

    /// Files that hold CPython and the C library, and files that look like them.
    #[test]
    fn files_by_name() {
        for file in ["python", "python3", "python3.13t", "python3.8-dbg", "libpython3.12.so.1.0"] {
            assert!(is_interpreter(file), "{file}");
        }
        for file in
            ["python-config", "pythonista", "_json.cpython-311-x86_64-linux-gnu.so", "libtorch_python.so"]
        {
            assert!(!is_interpreter(file), "{file}");
        }
        assert!(
            ["libc.so.6", "libc-2.31.so", "ld-linux-x86-64.so.2", "ld-musl-x86_64.so.1"]
                .into_iter()
                .all(is_c_library)
        );
        assert!(!["libcuda.so.1", "libcap.so.2", "libmkl_core.so", "ld"].into_iter().any(is_c_library));
    }
}
