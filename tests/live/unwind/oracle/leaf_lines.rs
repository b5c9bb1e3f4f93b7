//! The line of the innermost frame, where no C function was called from it.

use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::FrameKind;

/// Samples of the leaf function itself (`workloads/leaf_lines.py`), by its lines.
#[derive(Debug, Default)]
pub(crate) struct LeafLines {
    /// The long lines of each pair: the odd ones from 5 on.
    pub(crate) long: u32,
    /// The short ones: even.
    pub(crate) short: u32,
    /// The function's first lines.
    pub(crate) elsewhere: u32,
}

impl LeafLines {
    pub(crate) fn of(recording: &Recording) -> Self {
        let mut out = Self::default();
        for sample in &recording.samples {
            let mut frames = recording.frames_of(sample.stack);
            let innermost = frames
                .rfind(|(_, frame)| frame.kind != FrameKind::Kernel)
                .filter(|(_, frame)| frame.name == "leaf");
            match innermost.map(|(_, frame)| frame.line) {
                Some(0..=3) => out.elsewhere += 1,
                Some(line) if line % 2 == 1 => out.long += 1,
                Some(_) => out.short += 1,
                None => (),
            }
        }
        out
    }
}
