//! Rows of the program's own Python code, its lines or its functions, each with all that it calls: packages and native code too.
//!
//! What a user can change is what a user wrote. Leaves out whose code a file is (`calls/owner.rs`).

use super::By;
use super::apart;
use super::calls::owner::{Owner, owner};
use super::fold::{Cost, Interner, Spent, fold};
use super::inside::{Inside, weight};
use super::row::Row;
use super::uncertainty::Uncertainties;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::StackId;
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::{file_name, place_name};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A Python program spends at least one in so many joules in Python functions and what they call.
const PYTHON_PART: i64 = 2;

/// What a row of the program's own code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Lines,
    Functions,
}

impl Own {
    /// What frames are called.
    fn names(self, python: &Profile) -> Vec<String> {
        match self {
            Self::Lines => apart::lines(python),
            Self::Functions => apart::told_apart(python, place_name),
        }
    }

    /// What it is called behind another row of the same file, or of another one.
    fn short_name(self, frame: &Frame, beside: &Frame) -> String {
        match self {
            Self::Lines if frame.file == beside.file => format!(":{}", frame.line),
            Self::Lines => format!("{}:{}", file_name(&frame.file), frame.line),
            Self::Functions => frame.name.clone(),
        }
    }
}

/// Whether a program is mostly Python; `python`: its profile without native frames.
pub(crate) fn is_python_program(python: &Profile) -> bool {
    let (in_python, all) = in_python(python);
    in_python > 0 && in_python >= all / PYTHON_PART
}

/// What Python functions have with what they call, and what the program has.
pub(crate) fn in_python(python: &Profile) -> (i64, i64) {
    let weight = weight(python);
    let is_python = |stack: StackId| {
        let innermost = python.frames_of(stack).next_back();
        innermost.is_some_and(|(_, frame)| frame.kind == FrameKind::Python)
    };
    let all: i64 = python.rows.iter().map(&weight).sum();
    let in_python = python.rows.iter().filter(|row| row.stack.is_some_and(is_python));
    (in_python.map(&weight).sum(), all)
}

/// The profile with the frames of native code that rows of this kind show: those that were asked for; else lines of a Python program are lines
/// of Python, and everything else has all.
pub fn with_frames(profile: &Profile, by: By, wanted: Option<NativeFrames>) -> Cow<'_, Profile> {
    match (by, wanted) {
        (By::Function | By::Line | By::Stack, Some(frames)) => native_frames::folded(profile, frames),
        (By::Line, None) => {
            let python = native_frames::folded(profile, NativeFrames::None);
            if is_python_program(&python) { python } else { Cow::Borrowed(profile) }
        }
        _ => Cow::Borrowed(profile),
    }
}

/// The program's own code on the stacks of a profile without native frames: labels by their numbers.
pub(crate) struct OwnCode<'a> {
    python: &'a Profile,
    own: Own,
    names: Vec<String>,
    /// The first frame of each label.
    speakers: Vec<&'a Frame>,
    of_frame: Vec<Option<usize>>,
}

impl<'a> OwnCode<'a> {
    pub(crate) fn of(python: &'a Profile, own: Own) -> Self {
        let (mut names, mut speakers) = (Interner::new(), Vec::new());
        let mut number = |frame: &'a Frame, name| {
            let number = names.number(name);
            if number == speakers.len() {
                speakers.push(frame);
            }
            number
        };
        let frames = python.frames.iter().zip(own.names(python));
        let of_frame =
            frames.map(|(frame, name)| is_own(frame, python).then(|| number(frame, name))).collect();
        Self { python, own, names: names.labels().to_vec(), speakers, of_frame }
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The label of each frame of a row's stack, root first; `None` of what is not the program's own.
    fn labels(&self, row: &ProfileRow) -> impl DoubleEndedIterator<Item = Option<usize>> {
        let frames = row.stack.into_iter().flat_map(|stack| self.python.frames_of(stack));
        frames.map(|(id, _)| self.of_frame.get(id.index()).copied().flatten())
    }

    /// Writes the labels of a row's stack.
    pub(crate) fn path(&self, row: &ProfileRow, path: &mut Vec<usize>) {
        path.extend(self.labels(row).flatten());
    }

    /// Whether the innermost function is not the program's own.
    pub(crate) fn is_called(&self, row: &ProfileRow) -> bool {
        self.labels(row).next_back().flatten().is_none()
    }

    /// Inside of what a label lies, as it stands behind its name.
    pub(crate) fn inside(&self, label: usize, inside: &Inside) -> String {
        let Some(speaker) = self.speakers.get(label) else { return String::new() };
        inside.of(label, |holder| {
            self.speakers.get(holder).map_or_else(String::new, |frame| self.own.short_name(frame, speaker))
        })
    }
}

/// What each label of the program's own code spent itself, with the packages that it calls: of each stack the innermost one.
pub(crate) fn with_packages(python: &Profile, own: Own) -> BTreeMap<String, Cost> {
    let code = OwnCode::of(python, own);
    let groups = fold(python, |row, path| code.path(row, path));
    let named =
        |(number, (spent, _)): (usize, (Spent, _))| Some((code.names().get(number)?.clone(), spent.own));
    groups.into_iter().filter_map(named).fill_map()
}

/// Rows of the program's own code, in no order; `python`: its profile without native frames. Own energy is that of a row itself, with the
/// native code that it calls.
pub(crate) fn own_rows(python: &Profile, own: Own) -> Vec<Row> {
    let (uncertainties, weight) = (Uncertainties::new(python), weight(python));
    let (code, mut inside) = (OwnCode::of(python, own), Inside::default());
    let groups = fold(python, |row, path| {
        code.path(row, path);
        inside.add(path, weight(row));
        // What is called by the program's code is no own energy of it.
        path.extend(code.is_called(row).then_some(usize::MAX));
    });
    let row = |(number, spent): (usize, _)| {
        let name = code.names().get(number)?.clone();
        Some(Row { inside: code.inside(number, &inside), ..Row::new(name, spent, &uncertainties) })
    };
    groups.into_iter().filter_map(row).collect()
}

fn is_own(frame: &Frame, of: &Profile) -> bool {
    frame.kind == FrameKind::Python && owner(frame, &of.public_names) == Owner::Program && !is_counting(frame)
}

/// Whether it is of the module that counts calls (`tracer/data/count_python_calls.py`).
fn is_counting(frame: &Frame) -> bool {
    let name = frame.name.split('.').next().unwrap_or_default();
    let is_ours = frame.module == "sitecustomize" && ["_count", "_begin", "_next_one"].contains(&name);
    is_ours || frame.module == "energy_trace_input_sizes"
}

#[cfg(test)]
mod tests {
    use super::{By, NativeFrames, Own, is_python_program, own_rows, with_frames};
    use crate::run::{chosen, headline};
    use crate::tests::recording_builder::RecordingBuilder;
    use crate::tests::training_runs::measured_training;
    use energy_trace_model::profile::Profile;
    use energy_trace_model::recording::record::{DomainClass, FrameKind, Quality};
    use energy_trace_names::native_frames::folded;

    /// `gate` calls `stem` and a package's function; `main` calls `gate`, and spins itself.
    fn gated() -> Profile {
        let mut b = RecordingBuilder::new("python3 train.py", 9);
        let process = b.process(7, "python3", None);
        let thread = b.thread(process, 7, "python3");
        let [main, gate, stem] = [("main", 20), ("gate", 10), ("stem", 5)]
            .map(|(name, line)| b.python("train", name, "/home/me/train.py", line));
        let relu = b.python("torch.nn", "relu", "/v/lib/python3.11/site-packages/torch/nn.py", 3);
        let count =
            b.python("sitecustomize", "_count.<locals>.start", "/run/energy-trace-1/sitecustomize.py", 7);
        let look = b.python(
            "energy_trace_input_sizes",
            "Sizes.look",
            "/run/energy-trace-1/energy_trace_input_sizes.py",
            7,
        );
        let begin = b.python("sitecustomize", "_begin", "/run/energy-trace-1/sitecustomize.py", 252);
        let [kernel, start] = ["at::relu", "_start"].map(|name| b.frame(FrameKind::Native, "/x.so", name));
        for (frames, uj) in [
            (&[start, main, gate, stem, kernel][..], 280),
            (&[start, main, gate, stem, count, look], 120),
            (&[start, main, gate, relu, kernel], 300),
            (&[start, main], 200),
            (&[start], 60),
            (&[start, begin], 40),
        ] {
            let stack = b.stack(frames);
            b.spent(thread, Some(stack), uj, 900, 90);
        }
        b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
        b.build()
    }

    fn rows(profile: &Profile, own: Own) -> Vec<(String, i64, i64)> {
        let python = folded(profile, NativeFrames::None);
        let choice = headline(profile);
        let energy = |cost: crate::fold::Cost| chosen(&cost.energy, choice).as_uj();
        let mut rows: Vec<_> = own_rows(&python, own)
            .into_iter()
            .map(|row| {
                (format!("{}{}", row.name, row.inside), energy(row.spent.own), energy(row.spent.total))
            })
            .collect();
        rows.sort_by_key(|(_, _, total)| -total);
        rows
    }

    /// Own code holds what it calls, and says inside of what it lies; what packages spend is no own energy of it, and packages are no rows,
    /// nor is what counts calls.
    #[test]
    fn functions_and_lines_of_the_program() {
        let wanted = |rows: [(&str, i64, i64); 3]| rows.map(|(name, own, all)| (name.to_owned(), own, all));
        assert_eq!(
            rows(&gated(), Own::Functions),
            wanted([
                ("train.main train.py:20", 200, 900),
                ("train.gate train.py:10  (in main)", 0, 700),
                ("train.stem train.py:5  (in gate)", 280, 400),
            ])
        );
        assert_eq!(
            rows(&gated(), Own::Lines),
            wanted([
                ("train.main train.py:22", 200, 900),
                ("train.gate train.py:12  (in :22)", 0, 700),
                ("train.stem train.py:7  (in :12)", 280, 400),
            ])
        );
    }

    /// Functions of one name, in files of one name in two folders, are two rows, and so are their lines.
    #[test]
    fn twins() {
        let mut b = RecordingBuilder::new("python3 run.py", 9);
        let process = b.process(7, "python3", None);
        let thread = b.thread(process, 7, "python3");
        for (folder, uj) in [("a", 300), ("b", 200)] {
            let frame = b.python("step", "work", &format!("/home/me/{folder}/step.py"), 20);
            let stack = b.stack(&[frame]);
            b.spent(thread, Some(stack), uj, 900, 90);
        }
        b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
        let profile = b.build();
        let of = |own| rows(&profile, own).into_iter().map(|(name, own, _)| (name, own)).collect::<Vec<_>>();
        let wanted = |rows: [(&str, i64); 2]| rows.map(|(name, uj)| (name.to_owned(), uj));
        let functions =
            [("step.work step.py:20  (a/step.py:20)", 300), ("step.work step.py:20  (b/step.py:20)", 200)];
        assert_eq!(of(Own::Functions), wanted(functions));
        let lines = [("step.work step.py:22  (a/step.py)", 300), ("step.work step.py:22  (b/step.py)", 200)];
        assert_eq!(of(Own::Lines), wanted(lines));
    }

    /// Who spends, with the packages that it calls: that is the function that a costly one is called in, not its callers.
    #[test]
    fn who_calls_the_packages() {
        let python = folded(&gated(), NativeFrames::None).into_owned();
        let found = super::with_packages(&python, Own::Functions);
        let of = |name: &str| found[name].energy[DomainClass::Package].as_uj();
        assert_eq!(
            ["train.main train.py:20", "train.gate train.py:10", "train.stem train.py:5"].map(of),
            [200, 300, 400]
        );
    }

    /// Lines of a Python program are Python's unless all frames are asked for; a program that is mostly native has its own.
    #[test]
    fn frames_of_lines() {
        let has_native = |by, wanted| {
            let (profile, mut found) = (gated(), false);
            let shown = with_frames(&profile, by, wanted);
            for stack in shown.rows.iter().filter_map(|row| row.stack) {
                found |= shown.frames_of(stack).any(|(_, frame)| frame.kind == FrameKind::Native);
            }
            found
        };
        assert!(!has_native(By::Line, None) && has_native(By::Line, Some(NativeFrames::All)));
        assert!(has_native(By::Function, None) && !has_native(By::Function, Some(NativeFrames::None)));
        let mut native = gated();
        native.rows.retain(|row| row.time_ns > 0 && row.energy[DomainClass::Package].as_uj() == 100);
        assert!(!is_python_program(&folded(&native, NativeFrames::None)));
        assert!(is_python_program(&folded(&measured_training(), NativeFrames::None)));
    }
}
