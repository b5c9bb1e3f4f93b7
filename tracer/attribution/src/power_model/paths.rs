//! The tree of call paths: which functions called which, down to the innermost, whatever thread they ran in.
//!
//! A path is the functions of a stack from the outermost to the innermost. Frames are places (a line, an
//! address), so places of one function are put together by comparing its kind, name, module and first line; a
//! function that calls itself is one. Functions that the compiler put into others are left out: debug
//! information must not change who draws what. What a worker does on behalf of somebody is a path of its own
//! below the worker's. Time that no sample saw stands beside the functions, other processes beside the
//! target. Leaves out which paths have a power of their own (`columns`).

use crate::time::owners::{Owner, OwnerTime};
use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Number of a path.
pub(crate) type PathId = u32;

/// All that is not the target, and the target before its first function.
pub(crate) const OTHER: PathId = 0;
const TARGET: PathId = 1;

/// What comes last in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathElement {
    /// Nothing: a root of the tree.
    Root,
    /// A function, by its number.
    Function(u32),
    /// Another process or several of one kind.
    Background(u32),
    /// Work on behalf of these, by their number (`delegation`).
    OnBehalfOf(u32),
    /// Time that no sample saw: a machine that stands still draws nothing, and says nothing of functions.
    Unseen,
}

/// A path: the one that it prolongs, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    pub(crate) parent: PathId,
    pub(crate) step: PathElement,
}

/// All paths of a recording. A path's number is larger than its parent's.
#[derive(Debug, Default)]
pub(crate) struct PathTree {
    paths: Vec<Path>,
    /// The names of functions, as one number each.
    functions: Vec<u64>,
    of_owner: Vec<PathId>,
}

impl PathTree {
    /// From the stacks of a recording, and all owners; `on_behalf_of` is for whom an owner works, where it
    /// does not work for itself.
    pub(crate) fn of(
        recording: &Recording,
        owners: &[OwnerTime],
        on_behalf_of: impl Fn(usize) -> Option<u32>,
    ) -> Self {
        let mut builder = Builder::new(recording);
        let of_owner = |(number, owner): (usize, &OwnerTime)| match owner.owner {
            Owner::Other => OTHER,
            Owner::Background(group) => builder.path(OTHER, PathElement::Background(group)),
            Owner::Target(_, stack) => {
                let path = match stack {
                    Some(stack) => builder.of_stack(stack),
                    None => builder.path(TARGET, PathElement::Unseen),
                };
                on_behalf_of(number).map_or(path, |set| builder.path(path, PathElement::OnBehalfOf(set)))
            }
        };
        let of_owner = owners.iter().enumerate().map(of_owner).collect();
        Self { functions: builder.names(), paths: builder.paths, of_owner }
    }

    /// Number of paths.
    pub(crate) const fn len(&self) -> usize {
        self.paths.len()
    }

    /// The path of an owner.
    pub(crate) fn of_owner(&self, owner: u32) -> PathId {
        self.of_owner.get(owner as usize).copied().unwrap_or(OTHER)
    }

    /// The paths of all owners.
    pub(crate) fn of_owners(&self) -> &[PathId] {
        &self.of_owner
    }

    /// The path that this one prolongs; a root prolongs itself.
    pub(crate) fn parent(&self, path: PathId) -> PathId {
        self.paths.get(path as usize).map_or(OTHER, |path| path.parent)
    }

    /// Whether a path is another process that is told apart, or several of one kind.
    pub(crate) fn is_background(&self, path: PathId) -> bool {
        self.paths.get(path as usize).is_some_and(|path| matches!(path.step, PathElement::Background(_)))
    }

    /// From a path to its root.
    pub(crate) fn upwards(&self, path: PathId) -> impl Iterator<Item = PathId> + '_ {
        std::iter::successors(Some(path), |&path| Some(self.parent(path)).filter(|&parent| parent != path))
    }

    /// A number that a path of the same names has in every recording; `None` of paths that have no names.
    pub(crate) fn name(&self, path: PathId) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        for path in self.upwards(path) {
            match self.paths.get(path as usize)?.step {
                PathElement::Root => path.hash(&mut hasher),
                PathElement::Function(function) => self.functions.get(function as usize)?.hash(&mut hasher),
                PathElement::Unseen => "unseen".hash(&mut hasher),
                PathElement::Background(_) | PathElement::OnBehalfOf(_) => return None,
            }
        }
        Some(hasher.finish())
    }

    /// The innermost function of a path.
    pub(crate) fn function(&self, path: PathId) -> Option<u32> {
        self.upwards(path).find_map(|path| match self.paths.get(path as usize)?.step {
            PathElement::Function(function) => Some(function),
            PathElement::Root
            | PathElement::Background(_)
            | PathElement::OnBehalfOf(_)
            | PathElement::Unseen => None,
        })
    }
}

/// Kind, module, name and first line.
type FunctionKey<'a> = (FrameKind, &'a str, &'a str, u32);

struct Builder<'a> {
    recording: &'a Recording,
    functions: HashMap<FunctionKey<'a>, u32>,
    /// The function of each frame; `None` where it is not known yet.
    of_frame: Vec<Option<u32>>,
    of_stack: Vec<Option<PathId>>,
    numbers: HashMap<Path, PathId>,
    paths: Vec<Path>,
}

impl<'a> Builder<'a> {
    fn new(recording: &'a Recording) -> Self {
        let root = |parent| Path { parent, step: PathElement::Root };
        Self {
            recording,
            functions: HashMap::new(),
            of_frame: vec![None; recording.frames.len()],
            of_stack: vec![None; recording.stacks.len()],
            numbers: HashMap::new(),
            paths: vec![root(OTHER), root(TARGET)],
        }
    }

    fn names(&self) -> Vec<u64> {
        let mut names = vec![0; self.functions.len()];
        for (key, number) in &self.functions {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            names.get_mut(*number as usize).into_iter().for_each(|name| *name = hasher.finish());
        }
        names
    }

    fn path(&mut self, parent: PathId, step: PathElement) -> PathId {
        let path = Path { parent, step };
        *self.numbers.entry(path).or_insert_with(|| {
            self.paths.push(path);
            u32::try_from(self.paths.len() - 1).unwrap_or(TARGET)
        })
    }

    /// The path of a stack: that of the nearest caller whose path is known, prolonged by what was called from
    /// there.
    fn of_stack(&mut self, stack: StackId) -> PathId {
        let (mut unknown, mut at) = (vec![], Some(stack));
        let mut path = TARGET;
        while let Some(stack) = at {
            if let Some(known) = self.of_stack.get(stack.index()).copied().flatten() {
                path = known;
                break;
            }
            let Some(node) = self.recording.stacks.get(stack.index()) else { break };
            unknown.push((stack, node.frame));
            // A file may be damaged: no stack is deeper than there are stacks.
            at = node.parent.filter(|_| unknown.len() <= self.recording.stacks.len());
        }
        for (stack, frame) in unknown.into_iter().rev() {
            let frame = self.recording.frames.get(frame.index()).map(|of| (frame.index(), of));
            if let Some((number, frame)) = frame.filter(|(_, frame)| is_function(frame)) {
                path = self.called(path, number, frame);
            }
            self.of_stack[stack.index()] = Some(path);
        }
        path
    }

    fn called(&mut self, caller: PathId, number: usize, frame: &'a Frame) -> PathId {
        let function = self.function(number, frame);
        let step = PathElement::Function(function);
        let same = self.paths.get(caller as usize).is_some_and(|caller| caller.step == step);
        if same { caller } else { self.path(caller, step) }
    }

    fn function(&mut self, number: usize, frame: &'a Frame) -> u32 {
        let next = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        let key = (frame.kind, frame.module.as_str(), frame.name.as_str(), frame.first_line);
        let functions = &mut self.functions;
        let of_frame = &mut self.of_frame[number];
        *of_frame.get_or_insert_with(|| *functions.entry(key).or_insert(next))
    }
}

/// Whether a frame is code of its own: a range is none, and the code of an inlined function is its caller's.
fn is_function(frame: &Frame) -> bool {
    !matches!(frame.kind, FrameKind::Inlined | FrameKind::Range)
}

#[cfg(test)]
mod tests {
    use super::{OTHER, Path, PathId, PathTree, TARGET};
    use crate::time::owners::{Owner, OwnerTime};
    use FrameKind::{Inlined, Native, Python};
    use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
    use energy_trace_model::recording::Recording;

    impl PathTree {
        /// From paths by number.
        pub(crate) fn of_paths(paths: Vec<Path>, of_owner: Vec<PathId>) -> Self {
            let functions = (0..u64::try_from(paths.len()).unwrap()).collect();
            Self { paths, functions, of_owner }
        }

        /// The same paths, owned otherwise.
        pub(crate) fn owned_by(self, of_owner: Vec<PathId>) -> Self {
            Self { of_owner, ..self }
        }
    }
    use energy_trace_model::recording::record::{Frame, FrameKind, StackNode};

    fn frame(kind: FrameKind, name: &str, line: u32) -> Frame {
        let (name, module, file) = (name.to_owned(), "m".to_owned(), String::new());
        Frame { kind, name, module, file, line, first_line: 1, address: u64::from(line) }
    }

    /// A recording with one stack for each list of frames, outermost first, and an owner for each.
    fn recording(stacks: &[&[Frame]]) -> (Recording, Vec<OwnerTime>) {
        let mut recording = Recording::default();
        let mut owners = vec![OwnerTime { owner: Owner::Other, time_ns: 0, samples: 0 }];
        for stack in stacks {
            let mut parent = None;
            for frame in *stack {
                let number = u32::try_from(recording.frames.len()).unwrap();
                recording.stacks.push(StackNode { parent, frame: FrameId::new(number) });
                recording.frames.push(frame.clone());
                parent = Some(StackId::new(u32::try_from(recording.stacks.len() - 1).unwrap()));
            }
            let owner = Owner::Target(ThreadKey::new(0), parent);
            owners.push(OwnerTime { owner, time_ns: 0, samples: 0 });
        }
        (recording, owners)
    }

    /// Lines and addresses of one function are one path, recursion is one step, inlined functions are none;
    /// another caller is another path, and so is another requester.
    #[test]
    fn paths_are_of_functions() {
        let (recording, owners) = recording(&[
            &[frame(Native, "main", 1), frame(Python, "fit", 20), frame(Native, "dot", 10)],
            &[
                frame(Native, "main", 2),
                frame(Python, "fit", 21),
                frame(Python, "fit", 22),
                frame(Native, "dot", 11),
            ],
            &[
                frame(Native, "main", 2),
                frame(Inlined, "tiny", 5),
                frame(Python, "fit", 21),
                frame(Native, "dot", 11),
            ],
            &[frame(Native, "main", 1), frame(Python, "loss", 20), frame(Native, "dot", 10)],
            &[frame(Native, "main", 1), frame(Python, "fit", 20), frame(Native, "dot", 10)],
            &[],
        ]);
        let tree = PathTree::of(&recording, &owners, |owner| (owner == 5).then_some(0));
        let of: Vec<_> = (0..7).map(|owner| tree.of_owner(owner)).collect();
        assert_eq!(of[0], OTHER);
        // What no sample saw is none of the paths of functions.
        assert_eq!(tree.parent(of[6]), TARGET);
        assert_eq!(tree.function(of[6]), None);
        assert_eq!((of[2], of[3]), (of[1], of[1]));
        assert!(of[4] != of[1] && of[5] != of[1]);
        assert_eq!(
            (tree.function(of[4]), tree.function(of[5])),
            (tree.function(of[1]), tree.function(of[1]))
        );
        assert_eq!(tree.parent(of[5]), of[1]);
        // To the root: dot, fit, main, and the target itself.
        assert_eq!(tree.upwards(of[1]).count(), 4);
        // Paths are called alike in another recording, where they have other numbers; a requester is no name.
        let (other, owners) = super::tests::recording(&[
            &[frame(Native, "other", 7)],
            &[frame(Native, "main", 3), frame(Python, "fit", 23), frame(Native, "dot", 12)],
        ]);
        let again = PathTree::of(&other, &owners, |_| None);
        assert_eq!(again.name(again.of_owner(2)), tree.name(of[1]));
        assert!(tree.name(of[1]) != tree.name(of[4]) && tree.name(of[5]).is_none());
    }
}
