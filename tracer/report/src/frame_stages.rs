//! Which rule named a frame, stage by stage, each with the file that did it: for whoever finds a wrong name (`energy-trace debug frame`).
//!
//! From the recording alone: what a stage did while the program ran (`function` and `module` of Python, `called on`, `re-export`) is told as
//! far as its result tells, and a mended rule shows in a new recording; the others show at once. A new rule is a variant of the rules' enum
//! where the name is made, or of `FunctionRule` here; the compiler asks for its words here, for those of `ModuleRule` in `cli/debug.rs`.
//! Leaves out stacks, and whose energy is under which name.

use crate::calls::naming::{CallRule, name_and_rule as call_and_rule};
use crate::calls::owner::{Owner, Place, owner, place_of};
use energy_trace_model::ids::FrameId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{CalledOn, Frame, FrameKind};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use energy_trace_names::api_names::ApiNames;
use energy_trace_names::native_frames::Role;
use energy_trace_names::shown::shown;
use energy_trace_names::{NameRule, frame_name, is_nameless, line_name, name_and_rule, place_name};
use std::io::{self, Write};

/// One stage of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What it says: `module`, `shown name`.
    pub title: &'static str,
    /// Its result, and the rule that made it.
    pub text: String,
    /// The file of energy-trace's source that did it.
    pub file: &'static str,
}

/// What named a function of Python, as far as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FunctionRule {
    /// Before 3.11, the class of its first argument: the function may be a base's.
    ClassOfArgument,
    /// Its qualified name.
    Qualified,
    /// Its name alone.
    Plain,
}

impl FunctionRule {
    fn of(name: &str) -> Self {
        match name {
            _ if name.contains("?.") => Self::ClassOfArgument,
            _ if name.contains('.') => Self::Qualified,
            _ => Self::Plain,
        }
    }
}

/// The frames that are meant: that of a number, else all with this name, in a report (also with the file and line that tables have behind it)
/// or of the function alone; else all whose name holds it.
pub fn find(recording: &Recording, wanted: &str) -> Vec<FrameId> {
    let frames = || (0..).map(FrameId::new).zip(&recording.frames);
    let which = |is_meant: &dyn Fn(&Frame) -> bool| -> Vec<FrameId> {
        frames().filter(|(_, frame)| is_meant(frame)).map(|(id, _)| id).collect()
    };
    if let Ok(number) = wanted.parse::<u32>() {
        let id = FrameId::new(number);
        return recording.frames.get(id.index()).map(|_| id).into_iter().collect();
    }
    let is_named = |frame: &Frame| {
        frame_name(frame) == wanted
            || frame.name == wanted
            || place_name(frame) == wanted
            || line_name(frame) == wanted
    };
    let exact = which(&is_named);
    if exact.is_empty() { which(&|frame| frame_name(frame).contains(wanted)) } else { exact }
}

/// The stages of a frame's name. `module` is what named its module, which who reads Python's memory knows.
pub fn stages(recording: &Recording, id: FrameId, module: &str) -> Vec<Stage> {
    let Some(frame) = recording.frames.get(id.index()) else { return Vec::new() };
    let mut stages = vec![function(frame)];
    if frame.kind == FrameKind::Python {
        stages.push(Stage {
            title: "module",
            text: format!("{}: {module}", quoted(&frame.module)),
            file: "tracer/unwind/src/cpython/module_name.rs",
        });
    }
    let on = recording.called_on.get(&id);
    stages.extend(on.map(receiver));
    stages.push(shown_name(frame));
    stages.push(whose(recording, frame));
    stages.extend(re_export(recording, frame));
    stages.push(call(recording, frame, on));
    stages.push(fold(frame));
    stages
}

/// Writes what the recording holds of a frame, and its stages.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, recording: &Recording, id: FrameId, stages: &[Stage]) -> io::Result<()> {
    let Some(frame) = recording.frames.get(id.index()) else { return Ok(()) };
    writeln!(out, "frame {}: {}", id.get(), shown(&frame_name(frame)))?;
    let line = |line: u32| if line == 0 { "unknown".to_owned() } else { line.to_string() };
    let recorded = [
        ("kind", kind(frame.kind).to_owned()),
        ("name", quoted(&frame.name)),
        (if frame.kind == FrameKind::Python { "module" } else { "library" }, quoted(&frame.module)),
        ("file", quoted(&frame.file)),
        ("first line", line(frame.first_line)),
        ("line", line(frame.line)),
        ("address", format!("{:#x}", frame.address)),
    ];
    writeln!(out, "  recorded of it:")?;
    for (what, value) in recorded {
        writeln!(out, "    {what}: {}", shown(&value))?;
    }
    for Stage { title, text, file } in stages {
        writeln!(out, "  {title}: {}\n    by {file}", shown(text))?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { format!("`{text}`") }
}

const fn kind(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Python => "Python function",
        FrameKind::Native => "native code",
        FrameKind::Kernel => "code of the kernel",
        FrameKind::Gpu => "GPU kernel",
        FrameKind::Special => "mark that stands for no code",
        FrameKind::Inlined => "function that the compiler put into its caller",
        FrameKind::Range => "range that the program marks",
    }
}

/// How the function got the name that was recorded.
fn function(frame: &Frame) -> Stage {
    let (text, file) = match (frame.kind, FunctionRule::of(&frame.name)) {
        (FrameKind::Python, _) if frame.name.is_empty() => {
            ("its code object has no name, or was not read", "tracer/unwind/src/cpython/code.rs")
        }
        (FrameKind::Python, FunctionRule::ClassOfArgument) => (
            "the code's own name, behind the class of its first argument: before CPython 3.11 code does not know its class, and no class \
             had a function with exactly this code; it may be a base class's",
            "tracer/unwind/src/cpython/class_name.rs",
        ),
        (FrameKind::Python, FunctionRule::Qualified) => (
            "the code's qualified name; before CPython 3.11, that of the function of a class which has exactly this code",
            "tracer/unwind/src/cpython/code.rs",
        ),
        (FrameKind::Python, FunctionRule::Plain) => {
            ("the code's own name, which names no class", "tracer/unwind/src/cpython/code.rs")
        }
        (FrameKind::Native | FrameKind::Kernel, _) if is_nameless(frame) => (
            "no symbol covers this address, in the file or in debug information that was found",
            "tracer/naming/src/frames.rs",
        ),
        (FrameKind::Native, _) if frame.module.starts_with('[') || frame.module.is_empty() => {
            ("what the program wrote down of code that it makes at run time", "tracer/naming/src/jit.rs")
        }
        (FrameKind::Native, _) => {
            ("the symbol that covers this address, demangled", "tracer/naming/src/frames.rs")
        }
        (FrameKind::Inlined, _) => {
            ("debug information about this address", "tracer/symbols/src/symbolizer.rs")
        }
        (FrameKind::Kernel, _) => ("the kernel's list of symbols", "tracer/naming/src/frames.rs"),
        (FrameKind::Range, _) => ("what the program calls it", "tracer/cupti/src/ranges/label.rs"),
        (FrameKind::Gpu, _) => ("what was told of the kernel that ran", "tracer/probe/src/gpu/kernels.rs"),
        (FrameKind::Special, _) => return synthetic(frame),
    };
    Stage { title: "function", text: text.to_owned(), file }
}

/// What a frame stands for that is no code, or code that is not known.
fn synthetic(frame: &Frame) -> Stage {
    let (text, file) = if SyntheticFrame::PythonGone.is(frame) {
        (
            "a code object that was gone, or another one by its bytes, before it was read",
            "tracer/probe/src/processes/code_objects.rs",
        )
    } else if SyntheticFrame::PythonCrowdedOut.is(frame) {
        ("its program has more names than are kept", "tracer/probe/src/stacks/interner.rs")
    } else if SyntheticFrame::WhereCCalledPython.is(frame) {
        ("native and Python frames were not found to belong together here", "tracer/unwind/src/merge.rs")
    } else if SyntheticFrame::BrokenPythonChain.is(frame) || SyntheticFrame::WhichInterpreter.is(frame) {
        ("the walk over the interpreter's frames ended so", "tracer-ebpf/src/python.rs")
    } else {
        (
            "it stands for no code, or for code that is not known",
            "tracer/model/src/recording/synthetic_frame.rs",
        )
    };
    Stage { title: "function", text: text.to_owned(), file }
}

/// On what it was called.
fn receiver(on: &CalledOn) -> Stage {
    let text = match on {
        CalledOn::Class { module, name } => {
            format!("an object of `{module}.{name}`, which inherits the function")
        }
        CalledOn::Function(name) => format!("the program's function `{name}`, which it runs"),
    };
    Stage { title: "called on", text, file: "tracer/unwind/src/cpython/receiver.rs" }
}

/// The name in tables of functions and in graphs.
fn shown_name(frame: &Frame) -> Stage {
    let (name, rule) = name_and_rule(frame);
    let why = match rule {
        NameRule::Cell => "the number of a notebook's cell, by its file",
        NameRule::StandIn => "it stands in for a name that was not found",
        NameRule::Recorded if frame.kind == FrameKind::Python => "the module, and the function as recorded",
        NameRule::Recorded => "as recorded",
    };
    Stage { title: "shown name", text: format!("`{name}`: {why}"), file: "tracer/names/src/names.rs" }
}

/// Whose code it is.
fn whose(recording: &Recording, frame: &Frame) -> Stage {
    let file = if frame.kind == FrameKind::Python { &frame.file } else { &frame.module };
    let text = match owner(frame, &recording.public_names) {
        Owner::Program => "the program's own".to_owned(),
        Owner::Standard => "Python's standard library, or code that it made".to_owned(),
        Owner::Importer => "Python's import system".to_owned(),
        Owner::Other => "of nobody in particular: the interpreter, the C library, the kernel".to_owned(),
        Owner::Package(package) => match place_of(file, &recording.public_names) {
            Some(Place::Folder) => format!("package `{package}`, by the folder of packages in its path"),
            _ => format!("package `{package}`, by the metadata that lies beside it (distribution metadata)"),
        },
    };
    Stage { title: "owner", text, file: "tracer/report/src/calls/owner.rs" }
}

/// What the recording says of the public name of a function's first part.
fn re_export(recording: &Recording, frame: &Frame) -> Option<Stage> {
    let head = frame.name.split(['.', '?']).next().unwrap_or_default();
    let public = recording.public_names.get(&frame.module, head)?;
    let text = format!("the package hands on `{}.{head}` as `{public}`", frame.module);
    Some(Stage { title: "re-export", text, file: "tracer/naming/src/public_names/search.rs" })
}

/// The name in tables of calls.
fn call(recording: &Recording, frame: &Frame, on: Option<&CalledOn>) -> Stage {
    const NAMING: &str = "tracer/report/src/calls/naming.rs";
    let known = ApiNames::built_in();
    let is_of_package = matches!(owner(frame, &recording.public_names), Owner::Package(_));
    let found = if is_of_package || frame.kind == FrameKind::Native {
        call_and_rule(frame, on, &recording.public_names)
    } else {
        known.name_of(frame).map(|api| (api.name.to_owned(), CallRule::Override))
    };
    let Some((name, rule)) = found else {
        let text = match known.is_wrapper(frame) {
            true => "none: it is a wrapper, which only runs another function",
            false if is_of_package => "none: users do not call it by a name, or nothing says by which",
            false => "none: calls are of packages",
        };
        return Stage { title: "name as a call", text: text.to_owned(), file: NAMING };
    };
    let (why, file) = match rule {
        CallRule::Override => ("by a line of the table of overrides", "tracer/names/data/api_names.json"),
        CallRule::OverrideOfClass => {
            ("by the table of overrides, as a method of the class that it was called on", NAMING)
        }
        CallRule::ClassOfReceiver => ("as a method of the class that it was called on", NAMING),
        CallRule::ReExport => ("by the package's re-export", NAMING),
        CallRule::OwnModule => ("where it is defined, as no re-export of it is known", NAMING),
        CallRule::TorchSymbol => {
            ("by the pattern of PyTorch's symbols", "tracer/report/src/calls/builtins.rs")
        }
        CallRule::NumpySymbol => ("by NumPy's symbol", "tracer/report/src/calls/extensions.rs"),
        CallRule::CythonSymbol => ("by Cython's symbol", "tracer/report/src/calls/extensions.rs"),
    };
    Stage { title: "name as a call", text: format!("`{name}`: {why}"), file }
}

/// What becomes of it in stacks that show frames of libraries only.
fn fold(frame: &Frame) -> Stage {
    let text = match Role::of(frame) {
        Role::Python => "it stays, and frames of the interpreter that serve it go into it",
        Role::Interpreter => "it goes into the Python frame that it serves, but with `--native-frames all`",
        Role::CLibrary => "it goes where the frame goes that calls it, but with `--native-frames all`",
        Role::Mark => "it stays; frames below it are another stack",
        Role::Other => "it stays, but with `--native-frames none`",
    };
    Stage { title: "in stacks", text: text.to_owned(), file: "tracer/names/src/native_frames.rs" }
}

#[cfg(test)]
mod tests {
    use super::{find, stages, write};
    use energy_trace_model::ids::FrameId;
    use energy_trace_model::recording::Recording;
    use energy_trace_model::recording::record::{CalledOn, Frame, FrameKind, InstalledPackage, PublicName};
    use energy_trace_model::recording::synthetic_frame::SyntheticFrame;

    fn python(module: &str, name: &str, file: &str) -> Frame {
        let (module, name, file) = (module.into(), name.into(), file.into());
        Frame { kind: FrameKind::Python, name, module, file, line: 7, first_line: 5, address: 0 }
    }

    fn recording() -> Recording {
        let torch = "/v/site-packages/torch/optim/optimizer.py";
        let native = Frame {
            kind: FrameKind::Native,
            module: "/usr/bin/python3.11".into(),
            ..Frame::special("python3.11+0x1f40")
        };
        let mut recording = Recording {
            frames: vec![
                python("train", "main", "/home/me/train.py"),
                python("torch.optim.optimizer", "Optimizer.add_param_group", torch),
                python("a.b", "C?.f", "/deps/a/b.py"),
                native,
                SyntheticFrame::Unsampled.frame(),
                SyntheticFrame::PythonGone.frame(),
            ],
            ..Recording::default()
        };
        let on = CalledOn::Class { module: "torch.optim.adam".into(), name: "Adam".into() };
        recording.called_on.insert(FrameId::new(1), on);
        let name = |module: &str, name: &str, public: &str| PublicName {
            module: module.into(),
            name: name.into(),
            public: public.into(),
        };
        recording.public_names.extend([
            name("torch.optim.adam", "Adam", "torch.optim.Adam"),
            name("torch.optim.optimizer", "Optimizer", "torch.optim.Optimizer"),
        ]);
        recording.public_names.install(InstalledPackage { folder: "/deps/".into(), package: "a".into() });
        recording
    }

    fn text(number: u32, title: &str) -> String {
        let stages = stages(&recording(), FrameId::new(number), "by its own word");
        stages.iter().find(|stage| stage.title == title).unwrap().text.clone()
    }

    /// A frame is found by its number, its whole name, a row of a table, its function's, or a part of it where no name is that.
    #[test]
    fn frames_are_found() {
        let found = |wanted| find(&recording(), wanted).iter().map(|id| id.get()).collect::<Vec<_>>();
        assert_eq!(found("2"), [2]);
        assert_eq!(found("train.main"), [0]);
        assert_eq!(found("train.main train.py:5"), [0]);
        assert_eq!(found("train.main train.py:7"), [0]);
        assert_eq!(found("C?.f"), [2]);
        assert_eq!(found("optim"), [1]);
        assert_eq!(found("99"), [0; 0]);
        assert_eq!(found("nothing"), [0; 0]);
    }

    /// Each rule is told by its own words.
    #[test]
    fn rules_are_told() {
        assert_eq!(
            text(1, "name as a call"),
            "`torch.optim.Adam.add_param_group`: as a method of the class that it was called on"
        );
        assert!(text(1, "re-export").contains("as `torch.optim.Optimizer`"));
        assert!(text(1, "called on").contains("torch.optim.adam.Adam"));
        assert!(text(1, "owner").contains("by the folder of packages"));
        assert!(text(2, "owner").contains("package `a`, by the metadata"));
        assert!(text(2, "function").contains("the class of its first argument"));
        assert_eq!(
            text(2, "name as a call"),
            "`a.b.C.f`: where it is defined, as no re-export of it is known"
        );
        assert_eq!(text(2, "module"), "`a.b`: by its own word");
        assert_eq!(text(0, "name as a call"), "none: calls are of packages");
        assert_eq!(text(0, "shown name"), "`train.main`: the module, and the function as recorded");
        assert!(text(3, "shown name").starts_with("`[python3.11]`: it stands in"));
        assert!(text(3, "in stacks").starts_with("it goes into the Python frame"));
        assert!(text(4, "function").starts_with("it stands for no code"));
        assert!(text(5, "function").contains("before it was read"));
    }

    /// The files that are named are there: whoever looks for a rule finds it.
    #[test]
    fn files_are_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let recording = recording();
        for number in 0..6 {
            for stage in stages(&recording, FrameId::new(number), "") {
                assert!(root.join(stage.file).exists(), "{}", stage.file);
            }
        }
    }

    /// What is written holds all that was recorded, each stage with its file, and nothing that moves a terminal.
    #[test]
    fn what_is_written() {
        let mut recording = recording();
        recording.frames[0].name = "ma\u{1b}in".into();
        let mut out = Vec::new();
        let id = FrameId::new(0);
        write(&mut out, &recording, id, &stages(&recording, id, "by its path")).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("frame 0: train.ma\\x1bin\n"), "{text}");
        for part in [
            "file: `/home/me/train.py`",
            "first line: 5",
            "module: `train`: by its path",
            "by tracer/names/src/names.rs",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
