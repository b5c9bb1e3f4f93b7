//! Gives frames and stacks their numbers, and tells the recording of each new one.

use super::pool_loops::is_pool_loop;
use crate::ids::{FrameId, StackId};
use crate::profile::record::{Frame, FrameKind, Record, StackNode};
use std::collections::HashMap;
use std::sync::mpsc::Sender;

/// Frames and stacks of a recording so far.
pub(super) struct Interner {
    records: Sender<Record>,
    frames: HashMap<Frame, FrameId>,
    next_frame: u32,
    /// Looked up for every frame of every sample: a hash that is fast, and no secret from anybody.
    stacks: foldhash::HashMap<StackNode, StackId>,
    /// Native, kernel and GPU frames, whose names are found at the end.
    pub(super) unnamed: Vec<(FrameId, Frame)>,
}

impl Interner {
    pub(super) fn new(records: Sender<Record>) -> Self {
        Self {
            records,
            frames: HashMap::new(),
            next_frame: 0,
            stacks: foldhash::HashMap::default(),
            unnamed: Vec::new(),
        }
    }

    pub(super) fn frame(&mut self, frame: Frame) -> FrameId {
        if let Some(&id) = self.frames.get(&frame) {
            return id;
        }
        let id = self.new_frame(frame.clone());
        if is_pool_loop(&frame) {
            self.send(Record::PoolLoop(id));
        }
        if frame.name.is_empty() && !matches!(frame.kind, FrameKind::Python | FrameKind::Special) {
            self.unnamed.push((id, frame.clone()));
        }
        self.frames.insert(frame, id);
        id
    }

    /// A frame that is not the same as any other, though it may look so. Nobody else finds its name.
    pub(super) fn new_frame(&mut self, frame: Frame) -> FrameId {
        let id = FrameId::new(self.next_frame);
        self.next_frame = self.next_frame.saturating_add(1);
        self.send(Record::Frame(id, frame));
        id
    }

    /// The stack of these frames, innermost first.
    pub(super) fn stack(&mut self, frames: &[FrameId]) -> Option<StackId> {
        let mut stack = None;
        for &frame in frames.iter().rev() {
            let node = StackNode { parent: stack, frame };
            stack = Some(match self.stacks.get(&node) {
                Some(&id) => id,
                None => self.new_stack(node),
            });
        }
        stack
    }

    /// A stack with one more frame, its innermost.
    pub(super) fn stack_on(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        match self.stacks.get(&node) {
            Some(&id) => id,
            None => self.new_stack(node),
        }
    }

    fn new_stack(&mut self, node: StackNode) -> StackId {
        let id = StackId::new(u32::try_from(self.stacks.len()).unwrap_or(u32::MAX));
        self.stacks.insert(node, id);
        self.send(Record::Stack(id, node));
        id
    }

    /// To the recording. Its writer outlives this; should it not, what is sent is lost with it.
    pub(super) fn send(&self, record: Record) {
        let _writer_gone = self.records.send(record);
    }
}
