//! Chains of Python frames that somebody has broken, or that are not made yet.

use super::python::{
    THREAD, frame, layout_3_10, layout_3_11, layout_3_12, seen, two_evaluations_of_3_12, walk,
};
use super::snapshot::Snapshot;
use tracer_ebpf::wire::end;

const SHIM: u64 = 3 << 48;
const ENTRY: u64 = 1 << 32;
/// A whole word in the kernel's half of addresses.
const KERNEL: u64 = 0xffff_8880_0000_0000;

/// 3.11: one evaluation with the frames 0xa00, 0xb00 and 0xc00, the last of which is followed by `previous`.
fn one_evaluation(previous: u64) -> Snapshot {
    let layout = layout_3_11();
    let mut memory = Snapshot::of(&[
        (THREAD + 56, 0x7ffe_0000_1000),
        (0x7ffe_0000_1000 + 8, 0xa00),
        (0x7ffe_0000_1000 + 16, THREAD + 304),
        (THREAD + 304 + 8, 0),
    ]);
    frame(&mut memory, &layout, 0xa00, [0xc1, 0xb00, 0x11, 0]);
    frame(&mut memory, &layout, 0xb00, [0xc2, 0xc00, 0x22, 0]);
    frame(&mut memory, &layout, 0xc00, [0xc3, previous, 0x33, ENTRY]);
    memory
}

/// Wherever the outermost frame's link leads, the frames before it stay, and the walk says that the chain is broken.
#[test]
fn a_broken_outermost_frame() {
    let frames = vec![seen(0xc1, 0x11, 0), seen(0xc2, 0x22, 0), seen(0xc3, 0x33, 0x7ffe_0000_1000)];
    for previous in [0xc00, 0xb00, 0xa00, 0x1000, KERNEL, 0xb03] {
        let found = walk(&layout_3_11(), &one_evaluation(previous));
        assert_eq!(found, (frames.clone(), end::BROKEN_CHAIN), "{previous:x}");
    }
    assert_eq!(walk(&layout_3_11(), &one_evaluation(0)), (frames, end::COMPLETE));
}

/// A chain that goes in circles before it comes to an end of a run is left soon, in every version's layout.
#[test]
fn circles() {
    for layout in [layout_3_11(), layout_3_12()] {
        let mut memory = two_evaluations_of_3_12();
        memory.write(0x7ffe_0000_0800 + u64::from(layout.cframe_frame), &0xa00u64.to_le_bytes());
        frame(&mut memory, &layout, 0xa00, [0xc1, 0xb00, 0x11, 0]);
        frame(&mut memory, &layout, 0xb00, [0xc2, 0xb00, 0x22, 0]);
        let frames = vec![seen(0xc1, 0x11, 0), seen(0xc2, 0x22, 0)];
        assert_eq!(walk(&layout, &memory), (frames, end::BROKEN_CHAIN));
        frame(&mut memory, &layout, 0xb00, [0xc2, 0xa00, 0x22, 0]);
        let (frames, ended) = walk(&layout, &memory);
        assert!(frames.len() < 7 && ended == end::BROKEN_CHAIN, "{frames:?} {ended}");
    }
}

/// 3.10: frames that go in circles, and `CFrame`s that do so behind the outermost frame.
#[test]
fn circles_of_3_10() {
    const CFRAME: u64 = 0x7ffe_0000_1000;
    let layout = layout_3_10();
    let mut memory = Snapshot::of(&[(THREAD + 24, 0xa00), (THREAD + 48, CFRAME), (CFRAME + 8, CFRAME)]);
    for previous in [0xa00, 0] {
        frame(&mut memory, &layout, 0xa00, [0xc1, previous, 0x11, 0]);
        let (frames, ended) = walk(&layout, &memory);
        assert!(frames.len() < 4 && ended == end::BROKEN_CHAIN, "{frames:?} {ended}");
    }
}

/// 3.12: an evaluation that has not filled in its frame yet is passed over, whether that holds nonsense or an earlier call's frame.
#[test]
fn frames_that_are_not_filled_in() {
    let layout = layout_3_12();
    for (current, caller) in [(0xdead, 0), (0xdea8, 0), (0xa00, 0xbad0), (0xd00, 0)] {
        let mut memory = two_evaluations_of_3_12();
        memory.write(0x7ffe_0000_0800, &u64::to_le_bytes(current));
        frame(&mut memory, &layout, 0xa00, [0xdead, 0x7ffe_0000_1000, 0x11, 0]);
        frame(&mut memory, &layout, 0x7ffe_0000_1000, [0xdead, caller, 0, SHIM]);
        frame(&mut memory, &layout, 0xd00, [0xc3, 0x7ffe_0000_2000, 0x33, 0]);
        frame(&mut memory, &layout, 0x7ffe_0000_2000, [0xdead, 0, 0, SHIM]);
        let frames = vec![seen(0xc3, 0x33, 0), seen(0, 0, 0x7ffe_0000_2000)];
        assert_eq!(walk(&layout, &memory), (frames, end::COMPLETE), "{current:x} {caller:x}");
    }
}

/// 3.12: a run further out that does not follow from its evaluation ends the walk behind it.
#[test]
fn a_broken_run_further_out() {
    let layout = layout_3_12();
    let mut memory = two_evaluations_of_3_12();
    frame(&mut memory, &layout, 0xa00, [0xc1, 0x7ffe_0000_1000, 0x11, 0]);
    frame(&mut memory, &layout, 0x7ffe_0000_1000, [0xdead, 0xd00, 0, SHIM]);
    frame(&mut memory, &layout, 0xd00, [0xc3, 0x7ffe_0000_2000, 0x33, 0]);
    frame(&mut memory, &layout, 0x7ffe_0000_2000, [0xdead, 0xa00, 0, SHIM]);
    let (frames, ended) = walk(&layout, &memory);
    assert_eq!((frames.len(), ended), (4, end::BROKEN_CHAIN), "{frames:?}");
}
