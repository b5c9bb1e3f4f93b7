//! Stacks of a graph's replays: who replays, and below a mark who captured the work.
//!
//! Frames that both begin with stand once. Leaves out what is in a graph (`graphs`).

use super::kept::keep;
use super::launch::Launcher;
use crate::stacks::interner::Interner;
use energy_trace_model::ids::StackId;
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use std::collections::HashMap;

/// Stacks that are put together at most; beyond them work stands in the stack that captured it, alone.
const MOST: usize = 1 << 16;

/// Stacks that were put together, by both.
#[derive(Default)]
pub(super) struct Replays(HashMap<(StackId, StackId), StackId>);

impl Replays {
    /// Who replays in this stack what was captured in that one.
    pub(super) fn of(&mut self, by: Launcher, captured: StackId, out: &mut Interner) -> Launcher {
        let both = (by.stack, captured);
        if !self.0.contains_key(&both) {
            keep(&mut self.0, MOST, both, || {
                let mark = out.frame(SyntheticFrame::GpuGraph.frame());
                let replay = out.stack_on(Some(by.stack), mark);
                out.below(replay, captured)
            });
        }
        Launcher { stack: self.0.get(&both).copied().unwrap_or(captured), ..by }
    }
}

#[cfg(test)]
mod tests {
    use super::{Launcher, MOST, Replays};
    use crate::records::RecordSender;
    use crate::stacks::interner::Interner;
    use energy_trace_model::ids::{FrameId, StackId, ThreadKey};
    use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
    use std::sync::mpsc::channel;

    /// Work that `step` captured below `main` and `loop` replays is the loop's thread's, in `main; loop; [GPU graph]; step`.
    /// Beyond what is kept it stands in the stack that captured it.
    #[test]
    fn who_replays_stands_above_who_captured() {
        let (records, _written) = channel();
        let mut out = Interner::new(RecordSender::new(records));
        let mark = out.frame(SyntheticFrame::GpuGraph.frame());
        let [main, of_loop, step] = [7, 8, 9].map(FrameId::new);
        let top = out.stack_on(None, main);
        let by = Launcher { thread: ThreadKey::new(3), stack: out.stack_on(Some(top), of_loop) };
        let captured = out.stack_on(Some(top), step);
        let mut replays = Replays::default();
        let found = replays.of(by, captured, &mut out);
        let marked = out.stack_on(Some(by.stack), mark);
        assert_eq!((found.thread, found.stack), (by.thread, out.stack_on(Some(marked), step)));
        let many =
            (0..u32::try_from(MOST).unwrap()).map(|number| ((by.stack, StackId::new(number + 99)), top));
        replays.0.extend(many);
        let again = replays.of(by, captured, &mut out);
        assert_eq!((again, replays.of(by, top, &mut out).stack), (found, top));
    }
}
