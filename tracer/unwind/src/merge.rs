//! Merging: native and Python frames of one sample become one stack.
//!
//! By evidence, not by name. The anchor of a run of Python frames is a C local of the interpreter's evaluation function, so its address
//! lies inside exactly one native frame: `[CFA of the callee, CFA of the frame)`. That frame is replaced by the run. It needs no
//! symbols and survives stripped, split and renamed interpreters. Where native frames end early, the Python
//! frames that are left follow behind a mark that says why; where native frames are whole and none of them holds a run, behind a mark
//! that says that (Nuitka's functions push Python frames and evaluate none).

use energy_trace_model::recording::record::{PythonLoss, StackStatus, Truncation};
use energy_trace_model::recording::synthetic_frame::SyntheticFrame;
use tracer_ebpf::native::NativeFrame;
use tracer_ebpf::python::PythonFrame;
use tracer_ebpf::wire::{FIRST_PC, end};

/// A sample as the probes send it, innermost frames first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalkedStack {
    /// Kernel addresses.
    pub kernel: Vec<u64>,
    /// Native frames.
    pub native: Vec<NativeFrame>,
    /// Why they end, a `wire::end`.
    pub native_end: u8,
    /// Python frames and shims.
    pub python: Vec<PythonFrame>,
    /// Why they end, a `wire::end`.
    pub python_end: u8,
    /// Gaps in the native frames that were bridged.
    pub recovered: u8,
    /// Callers that were believed without proof; a mark stands at each.
    pub guessed: u8,
    /// Where the caller of the interrupted code is one of these: its stack pointer's bytes above the interrupted one; else 0.
    pub guess_depth: u16,
}

/// A frame of the merged stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// A kernel address.
    Kernel(u64),
    /// An address in a native instruction (AVMA), never a return address.
    Native(u64),
    /// A Python frame: code object and instruction, by address.
    Python {
        /// Address of the code object.
        code: u64,
        /// Address of the instruction.
        instruction: u64,
        /// Class of its first local variable, where the probes were asked for it; else 0.
        class: u64,
    },
    /// A mark in brackets: native frames are missing here.
    Mark(SyntheticFrame),
}

/// Merges a sample, innermost frame first, and says how whole it is.
pub fn merge(raw: &WalkedStack) -> (Vec<Merged>, StackStatus) {
    let mut out: Vec<Merged> = raw.kernel.iter().map(|&ip| Merged::Kernel(ip)).collect();
    let mut runs = Runs { frames: &raw.python, end: raw.python_end };
    let mut sp = 0;
    for frame in &raw.native {
        if frame.pc < FIRST_PC {
            out.extend(mark_of(frame.pc as u8).map(Merged::Mark));
        }
        let mut python = frame.pc < FIRST_PC;
        while holds(frame, sp, runs.anchor()) {
            runs.emit(&mut out);
            python = true;
        }
        if !python {
            out.push(Merged::Native(frame.pc));
        }
        sp = frame.cfa.max(sp);
    }
    let unanchored = !runs.frames.is_empty() && matches!(raw.native_end, end::COMPLETE | end::NOTHING);
    out.extend(mark_of(if unanchored { end::UNANCHORED } else { raw.native_end }).map(Merged::Mark));
    while !runs.frames.is_empty() {
        runs.emit(&mut out);
    }
    (out, verdict_of(raw, unanchored))
}

/// The Python frames alone, of a thread that falls asleep.
pub fn python_alone(raw: &WalkedStack) -> Vec<Merged> {
    let mut out = Vec::new();
    let mut runs = Runs { frames: &raw.python, end: raw.python_end };
    while !runs.frames.is_empty() {
        runs.emit(&mut out);
    }
    out
}

/// Whether an anchor lies in this native frame, which begins at `sp`. No evaluation is a thread's outermost frame.
fn holds(frame: &NativeFrame, sp: u64, anchor: Option<u64>) -> bool {
    frame.cfa > sp && frame.cfa != u64::MAX && anchor.is_some_and(|anchor| (sp..frame.cfa).contains(&anchor))
}

/// Distance from each anchor to the CFA of the native frame that holds it, and that frame's pc (AVMA), in a sample without gaps.
pub fn eval_frames(raw: &WalkedStack) -> Vec<(u64, u64)> {
    if raw.recovered > 0 || raw.native_end != end::COMPLETE || raw.python_end != end::COMPLETE {
        return Vec::new();
    }
    let anchors = raw.python.iter().map(|f| f.anchor).filter(|&a| a != 0);
    let holder = |anchor: u64| {
        let at = raw.native.iter().position(|f| f.cfa > anchor)?;
        let frame = raw.native.get(at).filter(|f| f.cfa != u64::MAX)?;
        Some((frame.cfa - anchor, frame.pc))
    };
    anchors.filter_map(holder).collect()
}

/// Python frames that are not placed yet.
struct Runs<'a> {
    frames: &'a [PythonFrame],
    /// Why there are no more, a `wire::end`.
    end: u8,
}

impl Runs<'_> {
    /// The anchor of the innermost run.
    fn anchor(&self) -> Option<u64> {
        self.frames.iter().map(|f| f.anchor).find(|&a| a != 0)
    }

    /// Takes the innermost run: all frames up to and including the one with an anchor. A mark follows the last one if frames are missing
    /// behind it.
    fn emit(&mut self, out: &mut Vec<Merged>) {
        let last = self.frames.iter().position(|f| f.anchor != 0).unwrap_or(self.frames.len() - 1);
        let (run, rest) = self.frames.split_at(last + 1);
        self.frames = rest;
        let frames = run.iter().filter(|f| f.code != 0);
        let merged =
            |f: &PythonFrame| Merged::Python { code: f.code, instruction: f.instruction, class: f.class };
        out.extend(frames.map(merged));
        let is_cut = rest.is_empty() && self.end != end::NO_INTERPRETER;
        out.extend(mark_of(if is_cut { self.end } else { end::COMPLETE }).map(Merged::Mark));
    }
}

/// The mark that stands for missing native frames.
const fn mark_of(native_end: u8) -> Option<SyntheticFrame> {
    match native_end {
        end::COMPLETE | end::NOTHING => None,
        end::BEYOND_COPY => Some(SyntheticFrame::BeyondCopy),
        end::GONE => Some(SyntheticFrame::ProcessGone),
        end::NO_UNWIND_INFO => Some(SyntheticFrame::NoUnwindInfo),
        end::NOT_READY => Some(SyntheticFrame::TablesNotReady),
        end::UNMAPPED => Some(SyntheticFrame::UnmappedAddress),
        end::UNSUPPORTED => Some(SyntheticFrame::UnsupportedRule),
        end::FAULT => Some(SyntheticFrame::PageFault),
        end::UNREADABLE => Some(SyntheticFrame::Unreadable),
        end::BITS_32 => Some(SyntheticFrame::Bits32),
        end::TOO_DEEP => Some(SyntheticFrame::TooDeep),
        end::UNANCHORED => Some(SyntheticFrame::WhereCCalledPython),
        end::BROKEN_CHAIN => Some(SyntheticFrame::BrokenPythonChain),
        end::AMBIGUOUS => Some(SyntheticFrame::WhichInterpreter),
        _ => Some(SyntheticFrame::BadFrame),
    }
}

fn verdict_of(raw: &WalkedStack, unanchored: bool) -> StackStatus {
    match raw.python_end {
        end::COMPLETE | end::NOTHING | end::NO_INTERPRETER => (),
        end::TOO_DEEP => return StackStatus::PythonLost(PythonLoss::TooDeep),
        end::NOT_READY => return StackStatus::PythonLost(PythonLoss::NotReady),
        end::AMBIGUOUS => return StackStatus::PythonLost(PythonLoss::Ambiguous),
        end::BROKEN_CHAIN => return StackStatus::PythonLost(PythonLoss::BrokenChain),
        end::UNREADABLE => return StackStatus::PythonLost(PythonLoss::Unreadable),
        _ => return StackStatus::PythonLost(PythonLoss::PageFault),
    }
    StackStatus::Truncated(match raw.native_end {
        _ if unanchored => Truncation::Unanchored,
        end::COMPLETE | end::NOTHING if raw.guessed > 0 => return StackStatus::Guessed(raw.guessed),
        end::COMPLETE | end::NOTHING if raw.recovered > 0 => return StackStatus::Recovered(raw.recovered),
        end::COMPLETE | end::NOTHING => return StackStatus::Complete,
        end::NO_UNWIND_INFO => Truncation::NoUnwindInfo,
        end::NOT_READY => Truncation::TablesNotReady,
        end::UNMAPPED => Truncation::Unmapped,
        end::UNSUPPORTED => Truncation::UnsupportedRule,
        end::FAULT => Truncation::PageFault,
        end::TOO_DEEP => Truncation::TooDeep,
        end::BEYOND_COPY => Truncation::DeeperThanCopy,
        end::GONE => Truncation::ProcessGone,
        end::UNREADABLE => Truncation::Unreadable,
        end::BITS_32 => Truncation::Bits32,
        end::UNANCHORED => Truncation::Unanchored,
        _ => Truncation::BadFrame,
    })
}

#[cfg(test)]
mod tests {
    use super::{Merged, WalkedStack, eval_frames, merge};
    use energy_trace_model::recording::record::{PythonLoss, StackStatus, Truncation};
    use tracer_ebpf::native::NativeFrame;
    use tracer_ebpf::python::PythonFrame;
    use tracer_ebpf::wire::end;

    fn native(frames: &[(u64, u64)]) -> Vec<NativeFrame> {
        frames.iter().map(|&(pc, cfa)| NativeFrame { pc, cfa }).collect()
    }

    fn python(frames: &[(u64, u64)]) -> Vec<PythonFrame> {
        frames.iter().map(|&(code, anchor)| PythonFrame { code, anchor, ..PythonFrame::default() }).collect()
    }

    fn text(raw: &WalkedStack) -> String {
        let word = |frame: &Merged| match frame {
            Merged::Kernel(ip) => format!("k{ip}"),
            Merged::Native(pc) => format!("n{pc}"),
            Merged::Python { code, .. } => format!("p{code}"),
            Merged::Mark(mark) => mark.name().to_owned(),
        };
        merge(raw).0.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    /// Two evaluation frames on the native stack, two runs of Python frames (3.12 shims): each run takes the place of its frame.
    #[test]
    fn runs_take_the_place_of_their_frame() {
        let raw = WalkedStack {
            native: native(&[(1000, 100), (2000, 200), (3000, 300), (4000, 400), (5000, u64::MAX)]),
            python: python(&[(1, 0), (2, 0), (0, 150), (3, 0), (0, 350)]),
            ..WalkedStack::default()
        };
        assert_eq!(text(&raw), "n1000 p1 p2 n3000 p3 n5000");
        assert_eq!(merge(&raw).1, StackStatus::Complete);
    }

    /// In 3.11 the entry frame itself carries the anchor.
    #[test]
    fn entry_frames_of_3_11() {
        let raw = WalkedStack {
            native: native(&[(1000, 100), (2000, 200), (3000, u64::MAX)]),
            python: python(&[(1, 0), (2, 150)]),
            ..WalkedStack::default()
        };
        assert_eq!(text(&raw), "n1000 p1 p2 n3000");
    }

    /// Where native frames end early, the Python stack follows behind the reason, complete.
    #[test]
    fn python_survives_a_native_dead_end() {
        let raw = WalkedStack {
            kernel: vec![7],
            native: native(&[(1000, 0)]),
            native_end: end::NO_UNWIND_INFO,
            python: python(&[(1, 0), (0, 150), (2, 0), (0, 350)]),
            ..WalkedStack::default()
        };
        assert_eq!(text(&raw), "k7 n1000 [no unwind info] p1 p2");
        assert_eq!(merge(&raw).1, StackStatus::Truncated(Truncation::NoUnwindInfo));
    }

    /// A bridged gap shows its reason where frames are missing, and the run that the walk went on at takes its place.
    #[test]
    fn a_bridged_gap_is_marked() {
        let gap = u64::from(end::NO_UNWIND_INFO);
        let raw = WalkedStack {
            native: native(&[(1000, 0), (gap, 200), (3000, u64::MAX)]),
            python: python(&[(1, 0), (0, 150)]),
            recovered: 1,
            ..WalkedStack::default()
        };
        assert_eq!(text(&raw), "n1000 [no unwind info] p1 n3000");
        assert_eq!(merge(&raw).1, StackStatus::Recovered(1));
    }

    /// Python frames that no evaluation holds, as Nuitka's functions push them, are nobody's callers: a mark tells them apart, and the stack
    /// is not whole. Nor does the outermost frame hold any.
    #[test]
    fn frames_that_nothing_holds() {
        let raw = |anchor| WalkedStack {
            native: native(&[(1000, 100), (2000, 200), (3000, u64::MAX)]),
            python: python(&[(1, 0), (2, anchor)]),
            ..WalkedStack::default()
        };
        for anchor in [0, 250] {
            assert_eq!(text(&raw(anchor)), "n1000 n2000 n3000 [unknown: where C called Python] p1 p2");
            assert_eq!(merge(&raw(anchor)).1, StackStatus::Truncated(Truncation::Unanchored));
        }
        assert_eq!(merge(&raw(150)).1, StackStatus::Complete);
    }

    /// A caller that was believed without proof makes the stack one that is not whole.
    #[test]
    fn a_guess_is_not_whole() {
        let native = native(&[(1000, 100), (u64::from(end::NO_UNWIND_INFO), 100), (3000, u64::MAX)]);
        let raw = WalkedStack { native, recovered: 2, guessed: 1, ..WalkedStack::default() };
        assert_eq!(text(&raw), "n1000 [no unwind info] n3000");
        assert_eq!(merge(&raw).1, StackStatus::Guessed(1));
    }

    /// The distance from anchor to CFA is learned only from samples without gaps.
    #[test]
    fn eval_frames_of_whole_samples() {
        let mut raw = WalkedStack {
            native: native(&[(1000, 100), (2000, 200), (3000, u64::MAX)]),
            python: python(&[(1, 0), (0, 150)]),
            ..WalkedStack::default()
        };
        assert_eq!(eval_frames(&raw), [(50, 2000)]);
        raw.recovered = 1;
        assert_eq!(eval_frames(&raw), []);
    }

    /// A sample in the middle of a switch, when nothing of the process can be read, says so instead of looking like a thread without Python.
    #[test]
    fn what_could_not_be_read_is_said() {
        let mut raw = WalkedStack {
            kernel: vec![7],
            native: native(&[(1000, 0)]),
            native_end: end::UNREADABLE,
            python_end: end::UNREADABLE,
            ..WalkedStack::default()
        };
        assert_eq!(text(&raw), "k7 n1000 [unknown: memory not readable]");
        assert_eq!(merge(&raw).1, StackStatus::PythonLost(PythonLoss::Unreadable));
        raw.python_end = end::NO_INTERPRETER;
        assert_eq!(merge(&raw).1, StackStatus::Truncated(Truncation::Unreadable));
    }

    /// A thread without Python is its native frames.
    #[test]
    fn native_only() {
        let raw = WalkedStack {
            native: native(&[(1000, 100), (2000, u64::MAX)]),
            python_end: end::NOTHING,
            ..WalkedStack::default()
        };
        assert_eq!(text(&raw), "n1000 n2000");
    }
}
