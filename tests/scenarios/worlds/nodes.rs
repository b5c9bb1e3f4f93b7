//! What a reader may ask the joules of: each function in total and by itself, and each caller with all that it calls.
//!
//! Functions are told apart as the report does. A node is a set of paths; of nodes that hold the same paths one is kept, and the one that
//! holds all of them is left out, since no attribution can miss it. Leaves out the comparison (`measure.rs`).

use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What makes two frames one function.
pub(crate) type FunctionKey<'a> = (FrameKind, &'a str, &'a str, &'a str, u32);

/// The function of a frame.
pub(crate) fn function_key(frame: &Frame) -> FunctionKey<'_> {
    (frame.kind, &frame.module, &frame.name, &frame.file, frame.first_line)
}

/// A set of paths that has joules.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    /// The function whose row in the report shows it.
    pub(crate) function: FunctionKey<'a>,
    /// Whether it is a function over all its callers, and not one place in the tree.
    pub(crate) is_function: bool,
    /// The paths in it.
    pub(crate) paths: Vec<usize>,
}

/// The paths of a recording, and the nodes that they make.
pub(crate) struct Nodes<'a> {
    pub(crate) all: Vec<Node<'a>>,
    of_stack: HashMap<StackId, usize>,
    /// The innermost function of each path.
    pub(crate) leaves: Vec<FunctionKey<'a>>,
}

impl<'a> Nodes<'a> {
    /// Of these stacks; each may be given several times.
    pub(crate) fn of(recording: &'a Recording, stacks: impl Iterator<Item = StackId>) -> Self {
        let mut paths: BTreeMap<Vec<FunctionKey<'a>>, usize> = BTreeMap::new();
        let mut of_stack = HashMap::new();
        for stack in stacks {
            of_stack.entry(stack).or_insert_with(|| {
                let path: Vec<_> = recording.frames_of(stack).map(|(_, frame)| function_key(frame)).collect();
                let next = paths.len();
                *paths.entry(path).or_insert(next)
            });
        }
        let nowhere = (FrameKind::Special, "", "", "", 0);
        let mut leaves = vec![nowhere; paths.len()];
        let mut sets: BTreeMap<(bool, usize, Vec<FunctionKey<'a>>), BTreeSet<usize>> = BTreeMap::new();
        for (path, number) in &paths {
            let Some(leaf) = path.last() else { continue };
            leaves[*number] = *leaf;
            // Functions first, so that a place in the tree that is no more than a function counts as one.
            for function in path {
                sets.entry((false, 0, vec![*function])).or_default().insert(*number);
            }
            sets.entry((false, 1, vec![*leaf])).or_default().insert(*number);
            for depth in 1..=path.len() {
                sets.entry((true, 0, path[..depth].to_vec())).or_default().insert(*number);
            }
        }
        let mut seen = BTreeSet::from([(0..paths.len()).collect::<Vec<_>>()]);
        let node = |((in_tree, _, path), set): ((bool, usize, Vec<FunctionKey<'a>>), BTreeSet<usize>)| {
            let (function, paths) = (*path.last()?, set.into_iter().collect::<Vec<_>>());
            seen.insert(paths.clone()).then_some(Node { function, is_function: !in_tree, paths })
        };
        Self { all: sets.into_iter().filter_map(node).collect(), of_stack, leaves }
    }

    /// The path of a stack.
    pub(crate) fn path(&self, stack: StackId) -> Option<usize> {
        self.of_stack.get(&stack).copied()
    }
}
