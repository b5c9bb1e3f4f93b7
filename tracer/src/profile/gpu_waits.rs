//! Marks samples of threads that wait for a GPU: `[GPU wait]` becomes the innermost frame of their stacks.
//!
//! Drivers wait by spinning unless they are told otherwise, so that waiting costs CPU energy, and the recording knows when each wait began
//! and ended. It is worked into the stacks when a recording is read, so that whoever uses it sees plain stacks. Leaves out what the GPU
//! itself spends meanwhile, which is its launches'.

use super::record::{Frame, FrameKind, StackNode};
use super::recording::Recording;
use crate::clock::KtimeNs;
use crate::ids::{FrameId, StackId, ThreadKey};
use std::collections::HashMap;

const MARK: &str = "[GPU wait]";

/// Marks the samples that lie in waits.
pub(super) fn mark_gpu_waits(to: &mut Recording) {
    let mut waits: HashMap<ThreadKey, Vec<(KtimeNs, KtimeNs)>> = HashMap::new();
    for wait in &to.gpu.waits {
        waits.entry(wait.thread).or_default().push((wait.from, wait.until));
    }
    if waits.is_empty() {
        return;
    }
    waits.values_mut().for_each(|of_thread| of_thread.sort());
    let waiting = |thread: ThreadKey, at: KtimeNs| {
        let of_thread = waits.get(&thread).map_or(&[][..], Vec::as_slice);
        let before = of_thread.partition_point(|(from, _)| *from <= at);
        // A wait may lie within another: one call waits by another.
        of_thread[..before].iter().rev().take(2).any(|(_, until)| at < *until)
    };
    let frame = FrameId::new(u32::try_from(to.frames.len()).unwrap_or(u32::MAX));
    let mut marked: HashMap<StackId, StackId> = HashMap::new();
    for sample in to.samples.iter_mut().filter(|sample| waiting(sample.thread, sample.at)) {
        let stacks = &mut to.stacks;
        sample.stack = *marked.entry(sample.stack).or_insert_with_key(|&parent| {
            stacks.push(StackNode { parent: Some(parent), frame });
            StackId::new(u32::try_from(stacks.len() - 1).unwrap_or(u32::MAX))
        });
    }
    if !marked.is_empty() {
        let (name, module, file) = (MARK.to_owned(), String::new(), String::new());
        let kind = FrameKind::Special;
        to.frames.push(Frame { kind, name, module, file, line: 0, first_line: 0, address: 0 });
    }
}
