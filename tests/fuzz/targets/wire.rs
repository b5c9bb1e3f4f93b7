//! Any bytes as an event of the probes, and the stack of a sample put together: no more frames than came in.
#![no_main]

use energy_trace_probe::decode::{Event, decode_event};
use energy_trace_unwind::merge::{eval_frames, merge};
use energy_trace_unwind::anchoring::{FrameAnchoring, resolve_anchors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| {
    let (eval, bytes) = input;
    let Some(Event::Sample(_, comm, raw, _)) = decode_event(bytes) else { return };
    comm.text();
    let most = raw.kernel.len() + raw.python.len() + raw.native.len();
    for anchoring in [FrameAnchoring::Anchors, FrameAnchoring::AnchorsAboveBase, FrameAnchoring::AnchorPerFrame, FrameAnchoring::Counted] {
        for one_chain in [false, true] {
            let anchored = resolve_anchors(&raw, anchoring, |pc| pc & 0xff == eval & 0xff, || one_chain);
            // Marks for what is missing: at each end of either chain and at each gap.
            assert!(merge(&anchored).0.len() <= 2 * most + 8);
        }
    }
    assert!(merge(&raw).0.len() <= 2 * most + 8);
    eval_frames(&raw);
});
