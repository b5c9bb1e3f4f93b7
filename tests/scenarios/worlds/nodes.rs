//! What a reader may ask the joules of: each function in total and by itself, and each caller with all that it calls.
//!
//! Functions are told apart as the report does. A node is a set of paths; of nodes that hold the same paths one is kept, and the one that
//! holds all of them is left out, since no attribution can miss it. Leaves out the comparison (`measure.rs`).

use energy_trace_model::ids::StackId;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{Frame, FrameKind};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What makes two frames one function.
pub type FunctionKey<'a> = (FrameKind, &'a str, &'a str, &'a str, u32);

/// The function of a frame.
pub fn function_key(frame: &Frame) -> FunctionKey<'_> {
    (frame.kind, &frame.module, &frame.name, &frame.file, frame.first_line)
}

/// A set of paths that has joules.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// The function whose row in the report shows it.
    pub function: FunctionKey<'a>,
    /// Whether it is a function over all its callers, and not one place in the tree.
    pub is_function: bool,
    /// The paths in it.
    pub paths: Vec<usize>,
}

/// The paths of a recording, and the nodes that they make.
pub struct Nodes<'a> {
    pub all: Vec<Node<'a>>,
    of_stack: HashMap<StackId, usize>,
    /// The innermost function of each path.
    pub leaves: Vec<FunctionKey<'a>>,
}

impl<'a> Nodes<'a> {
    /// Of these stacks; each may be given several times.
    pub fn of(recording: &'a Recording, stacks: impl Iterator<Item = StackId>) -> Self {
        let mut numbers = Numbers::default();
        let mut known: HashMap<Vec<u32>, usize> = HashMap::new();
        let (mut of_stack, mut paths) = (HashMap::new(), vec![]);
        for stack in stacks {
            of_stack.entry(stack).or_insert_with(|| {
                let path: Vec<u32> = recording
                    .frames_of(stack)
                    .map(|(_, frame)| numbers.function(function_key(frame)))
                    .collect();
                *known.entry(path).or_insert_with_key(|path| {
                    paths.push(path.clone());
                    paths.len() - 1
                })
            });
        }
        let nowhere = (FrameKind::Special, "", "", "", 0);
        let innermost =
            |path: &Vec<u32>| path.last().map_or(nowhere, |leaf| numbers.functions[*leaf as usize]);
        let leaves = paths.iter().map(innermost).collect();
        let mut seen = HashSet::from([(0..paths.len()).collect::<Vec<_>>()]);
        let node = |((kind, _), (function, set)): (NodeKey, (u32, BTreeSet<usize>))| {
            let paths: Vec<usize> = set.into_iter().collect();
            let function = numbers.functions[function as usize];
            let is_function = kind != Kind::InTree;
            seen.insert(paths.clone()).then_some(Node { function, is_function, paths })
        };
        Self { all: sets_of(&paths).into_iter().filter_map(node).collect(), of_stack, leaves }
    }

    /// The path of a stack.
    pub fn path(&self, stack: StackId) -> Option<usize> {
        self.of_stack.get(&stack).copied()
    }
}

/// What a set of paths is. Functions come first, so that a place in the tree that is no more than a function counts as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Total,
    Own,
    InTree,
}

/// A kind, and the number of the function or of the place in the tree; a caller's place has a smaller number.
type NodeKey = (Kind, u32);

/// Functions, numbered as they come.
#[derive(Default)]
struct Numbers<'a> {
    functions: Vec<FunctionKey<'a>>,
    known: HashMap<FunctionKey<'a>, u32>,
}

impl<'a> Numbers<'a> {
    fn function(&mut self, key: FunctionKey<'a>) -> u32 {
        *self.known.entry(key).or_insert_with(|| {
            self.functions.push(key);
            self.functions.len() as u32 - 1
        })
    }
}

/// The innermost function and the paths of each set.
fn sets_of(paths: &[Vec<u32>]) -> BTreeMap<NodeKey, (u32, BTreeSet<usize>)> {
    let mut sets: BTreeMap<NodeKey, (u32, BTreeSet<usize>)> = BTreeMap::new();
    let mut places: HashMap<(u32, u32), u32> = HashMap::new();
    for (number, path) in paths.iter().enumerate() {
        let mut add = |key, function| {
            sets.entry(key).or_insert_with(|| (function, BTreeSet::new())).1.insert(number);
        };
        let mut caller = 0;
        for &function in path {
            add((Kind::Total, function), function);
            let next = places.len() as u32 + 1;
            caller = *places.entry((caller, function)).or_insert(next);
            add((Kind::InTree, caller), function);
        }
        if let Some(&leaf) = path.last() {
            add((Kind::Own, leaf), leaf);
        }
    }
    sets
}
