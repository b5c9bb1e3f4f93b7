//! Gives the Python frames of a sample the anchors that `merge` places them by, where the interpreter does not give them as they are.
//!
//! Before 3.11 each Python frame is evaluated by a C frame of its own. 3.8 and 3.9 leave no trace of a frame on the native stack: there
//! the frames of the evaluation function (by its symbol's range) and the Python frames are counted, and paired when the numbers say that
//! none is missing. 3.10 chains one C local a frame, apart from the frames; the two chains may be one off each other for the few
//! instructions in which a frame is pushed or popped. A greenlet's frames are a chain of their own on top of native frames of another
//! one: there are more evaluations than frames, at the outer end. From 3.15 on the chain of frames ends in a frame of the thread state, which is on
//! no stack. A run that is deeper than the walk goes has lost the end with its anchor: the next evaluation further out holds it. Where the
//! numbers do not fit, native and Python frames are kept apart: a stack in a wrong order is worse than one in parts.

use crate::merge::WalkedStack;
use std::borrow::Cow;
use tracer_ebpf::native::NativeFrame;
use tracer_ebpf::python::PythonFrame;
use tracer_ebpf::wire::end;

/// How Python frames find their place among native ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameAnchoring {
    /// Anchors as the probes send them (3.11 to 3.14).
    Anchors,
    /// The same, and the outermost is none (3.15).
    AnchorsAboveBase,
    /// One anchor a frame (3.10).
    AnchorPerFrame,
    /// By number (3.8, 3.9).
    Counted,
}

/// The sample with anchors in place. `is_eval` says whether a pc (of the instruction, AVMA) is in the evaluation function; `one_chain`,
/// asked only where it matters, whether all evaluations of a thread belong to one chain of frames: no greenlets, no sub-interpreters.
pub fn resolve_anchors(
    raw: &WalkedStack,
    anchoring: FrameAnchoring,
    is_eval: impl Fn(u64) -> bool,
    one_chain: impl Fn() -> bool,
) -> Cow<'_, WalkedStack> {
    match anchoring {
        FrameAnchoring::Anchors => with_cut_run(Cow::Borrowed(raw), is_eval),
        FrameAnchoring::AnchorsAboveBase => with_cut_run(without_base(raw), is_eval),
        FrameAnchoring::AnchorPerFrame => one_each(raw, one_chain),
        FrameAnchoring::Counted => counted(raw, is_eval, one_chain),
    }
}

/// Gives the outermost run, where its outer frames were not walked, the evaluation that holds it: the next one outside the other runs.
fn with_cut_run(raw: Cow<'_, WalkedStack>, is_eval: impl Fn(u64) -> bool) -> Cow<'_, WalkedStack> {
    let is_cut = !matches!(raw.python_end, end::COMPLETE | end::NOTHING | end::NO_INTERPRETER);
    if !is_cut || raw.python.last().is_none_or(|last| last.anchor != 0) {
        return raw;
    }
    let placed = raw.python.iter().map(|f| f.anchor).max().unwrap_or(0);
    let outside = raw.native.iter().skip_while(|f| f.cfa <= placed).skip(usize::from(placed != 0));
    let is_whole = |f: &&NativeFrame| f.cfa > 8 && f.cfa != u64::MAX && is_eval(f.pc);
    let Some(anchor) = outside.into_iter().find(is_whole).map(|frame| frame.cfa - 8) else { return raw };
    let mut placed = raw.into_owned();
    if let Some(last) = placed.python.last_mut() {
        last.anchor = anchor; // The return address of a frame is its highest word.
    }
    Cow::Owned(placed)
}

/// Drops the frame that lies in the thread state.
fn without_base(raw: &WalkedStack) -> Cow<'_, WalkedStack> {
    match raw.python.split_last() {
        Some((base, frames)) if base.code == 0 && raw.python_end == end::COMPLETE => {
            Cow::Owned(WalkedStack { python: frames.to_vec(), ..raw.clone() })
        }
        _ => Cow::Borrowed(raw),
    }
}

/// 3.10: moves the anchors by one place where a frame is just being pushed or popped.
fn one_each(raw: &WalkedStack, one_chain: impl Fn() -> bool) -> Cow<'_, WalkedStack> {
    let real = raw.python.iter().filter(|f| f.code != 0).count();
    let anchors: Vec<u64> = raw.python.iter().map(|f| f.anchor).filter(|&a| a != 0).collect();
    let whole = raw.python_end == end::COMPLETE;
    let placed = if anchors.len() == real {
        return Cow::Borrowed(raw);
    } else if whole && anchors.len() > real && !is_in_first(raw, &anchors) {
        // The innermost evaluation has called and so has its frame: the anchors too many are another greenlet's, further out.
        anchors.get(..real).unwrap_or_default().to_vec()
    } else if whole && anchors.len() == real + 1 && one_chain() {
        anchors.get(1..).unwrap_or_default().to_vec() // The innermost evaluation has no frame yet.
    } else if whole && anchors.len() + 1 == real {
        // The innermost frame's evaluation has just given up its local: it is the function that was interrupted.
        let own = raw.native.first().map_or(0, |f| f.cfa.saturating_sub(8));
        let own = if anchors.first().is_none_or(|&next| own < next) { own } else { 0 };
        std::iter::once(own).chain(anchors).collect()
    } else {
        return Cow::Owned(apart(raw, |pc_cfa| anchors.first().is_some_and(|&a| pc_cfa.1 > a)));
    };
    let frames = raw.python.iter().filter(|f| f.code != 0).zip(placed);
    let python = frames.map(|(&frame, anchor)| PythonFrame { anchor, ..frame }).collect();
    Cow::Owned(WalkedStack { python, ..raw.clone() })
}

/// Whether the innermost native frame is the innermost evaluation.
fn is_in_first(raw: &WalkedStack, anchors: &[u64]) -> bool {
    raw.native.first().zip(anchors.first()).is_none_or(|(frame, &anchor)| anchor < frame.cfa)
}

/// 3.8 and 3.9: pairs the frames of the evaluation function with the Python frames. One more of them may be the innermost, while a
/// frame is pushed or popped, or the outermost, another greenlet's, where there are any.
fn counted(
    raw: &WalkedStack,
    is_eval: impl Fn(u64) -> bool,
    one_chain: impl Fn() -> bool,
) -> Cow<'_, WalkedStack> {
    let evals: Vec<u64> = raw.native.iter().filter(|f| is_eval(f.pc)).map(|f| f.cfa).collect();
    if raw.python.is_empty() {
        return Cow::Borrowed(raw);
    }
    let whole = raw.native_end == end::COMPLETE && raw.python_end == end::COMPLETE;
    let sound = evals.iter().all(|&cfa| cfa > 8 && cfa != u64::MAX);
    match evals.len().checked_sub(raw.python.len()) {
        Some(extra @ (0 | 1)) if whole && sound && (extra == 0 || one_chain()) => {
            // The return address of a frame is its highest word.
            let anchors = evals.iter().skip(extra).map(|cfa| cfa - 8);
            let frames = raw.python.iter().zip(anchors);
            let python = frames.map(|(&frame, anchor)| PythonFrame { anchor, ..frame }).collect();
            Cow::Owned(WalkedStack { python, ..raw.clone() })
        }
        _ => Cow::Owned(apart(raw, |(pc, _)| is_eval(pc))),
    }
}

/// Native frames up to the first evaluation, then Python frames by themselves.
fn apart(raw: &WalkedStack, is_eval: impl Fn((u64, u64)) -> bool) -> WalkedStack {
    let leaf: Vec<_> = raw.native.iter().copied().take_while(|f| !is_eval((f.pc, f.cfa))).collect();
    let python = raw.python.iter().filter(|f| f.code != 0);
    WalkedStack {
        native: leaf,
        native_end: if raw.native_end == end::COMPLETE { end::UNANCHORED } else { raw.native_end },
        python: python.map(|&frame| PythonFrame { anchor: 0, ..frame }).collect(),
        ..raw.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameAnchoring, resolve_anchors};
    use crate::merge::{Merged, WalkedStack, merge};
    use energy_trace_model::recording::record::{PythonLoss, StackStatus, Truncation};
    use tracer_ebpf::native::NativeFrame;
    use tracer_ebpf::python::PythonFrame;
    use tracer_ebpf::wire::end;

    fn raw(native: &[(u64, u64)], python: &[(u64, u64)]) -> WalkedStack {
        let python =
            python.iter().map(|&(code, anchor)| PythonFrame { code, anchor, ..PythonFrame::default() });
        WalkedStack {
            native: native.iter().map(|&(pc, cfa)| NativeFrame { pc, cfa }).collect(),
            python: python.collect(),
            ..WalkedStack::default()
        }
    }

    /// The merged stack, innermost first; the evaluation function is 2000 to 3000.
    fn text(raw: &WalkedStack, anchoring: FrameAnchoring) -> (String, StackStatus) {
        text_among(raw, anchoring, true)
    }

    /// The same, in a process that has greenlets or not.
    fn text_among(raw: &WalkedStack, anchoring: FrameAnchoring, one_chain: bool) -> (String, StackStatus) {
        let anchored = resolve_anchors(raw, anchoring, |pc| (2000..3000).contains(&pc), || one_chain);
        let (frames, status) = merge(&anchored);
        let word = |frame: &Merged| match frame {
            Merged::Kernel(ip) => format!("k{ip}"),
            Merged::Native(pc) => format!("n{pc}"),
            Merged::Python { code, .. } => format!("p{code}"),
            Merged::Mark(mark) => mark.name().to_owned(),
        };
        (frames.iter().map(word).collect::<Vec<_>>().join(" "), status)
    }

    const NATIVE: [(u64, u64); 5] = [(1000, 100), (2000, 200), (4000, 300), (2000, 400), (5000, u64::MAX)];

    /// More Python frames than are walked: the outermost run has no anchor, and stands in the next evaluation, with what is missing outside.
    #[test]
    fn deeper_than_the_walk() {
        let cut = |frames| WalkedStack { python_end: end::TOO_DEEP, ..raw(&NATIVE, frames) };
        let lost = StackStatus::PythonLost(PythonLoss::TooDeep);
        for anchoring in [FrameAnchoring::Anchors, FrameAnchoring::AnchorsAboveBase] {
            let (one_run, status) = text(&cut(&[(1, 0), (2, 0)]), anchoring);
            assert_eq!(
                (one_run.as_str(), status),
                ("n1000 p1 p2 [unknown: too deep] n4000 n2000 n5000", lost)
            );
            let (two_runs, _) = text(&cut(&[(1, 150), (2, 0), (3, 0)]), anchoring);
            assert_eq!(two_runs, "n1000 p1 n4000 p2 p3 [unknown: too deep] n5000");
        }
        let nowhere = text(&cut(&[(1, 350), (2, 0)]), FrameAnchoring::Anchors);
        let apart = "n1000 n2000 n4000 p1 n5000 [unknown: where C called Python] p2 [unknown: too deep]";
        assert_eq!(nowhere, (apart.into(), lost));
    }

    /// By number: each evaluation is the frame of its rank.
    #[test]
    fn counted_frames() {
        let raw = raw(&NATIVE, &[(1, 0), (2, 0)]);
        assert_eq!(
            text(&raw, FrameAnchoring::Counted),
            ("n1000 p1 n4000 p2 n5000".into(), StackStatus::Complete)
        );
    }

    /// By number, one evaluation more than frames: the innermost without a frame yet, unless it
    /// may be another greenlet's.
    #[test]
    fn one_evaluation_too_many() {
        let raw = raw(&NATIVE, &[(2, 0)]);
        assert_eq!(text(&raw, FrameAnchoring::Counted).0, "n1000 n2000 n4000 p2 n5000");
        let apart = "n1000 [unknown: where C called Python] p2";
        assert_eq!(text_among(&raw, FrameAnchoring::Counted, false).0, apart);
    }

    /// Numbers that do not fit: native and Python frames are apart, and the status says so.
    #[test]
    fn counts_that_differ() {
        let raw = raw(&NATIVE, &[(1, 0), (2, 0), (3, 0)]);
        let (text, status) = text(&raw, FrameAnchoring::Counted);
        assert_eq!(text, "n1000 [unknown: where C called Python] p1 p2 p3");
        assert_eq!(status, StackStatus::Truncated(Truncation::Unanchored));
    }

    /// One anchor a frame: as they are, while a frame is pushed or below another greenlet's, and while one is popped.
    #[test]
    fn one_anchor_a_frame() {
        let anchoring = FrameAnchoring::AnchorPerFrame;
        assert_eq!(text(&raw(&NATIVE, &[(1, 150), (2, 350)]), anchoring).0, "n1000 p1 n4000 p2 n5000");
        let pushing = [(2000, 200), (4000, 300), (2000, 400), (5000, u64::MAX)];
        let apart = "[unknown: where C called Python] p2";
        assert_eq!(text(&raw(&pushing, &[(2, 150), (0, 350)]), anchoring).0, "n2000 n4000 p2 n5000");
        assert_eq!(text_among(&raw(&pushing, &[(2, 150), (0, 350)]), anchoring, false).0, apart);
        // Another greenlet's evaluation further out.
        assert_eq!(text(&raw(&NATIVE, &[(2, 150), (0, 350)]), anchoring).0, "n1000 p2 n4000 n2000 n5000");
        let popping = [(2000, 200), (4000, 300), (2000, 400), (5000, u64::MAX)];
        assert_eq!(text(&raw(&popping, &[(1, 350), (2, 0)]), anchoring).0, "p1 n4000 p2 n5000");
        let (text, status) = text(&raw(&NATIVE, &[(1, 150), (2, 0), (3, 0)]), anchoring);
        assert_eq!(text, "n1000 [unknown: where C called Python] p1 p2 p3");
        assert_eq!(status, StackStatus::Truncated(Truncation::Unanchored));
    }

    /// 3.15: the frame in the thread state takes no native frame's place.
    #[test]
    fn the_base_frame_is_none() {
        let raw = raw(&NATIVE, &[(0, 42)]);
        assert_eq!(text(&raw, FrameAnchoring::AnchorsAboveBase).0, "n1000 n2000 n4000 n2000 n5000");
    }
}
