//! Chooses a trace: what its threads did in it is in the range of the trace and that of the span, around all other ranges, and everything else in
//! one range of its own. All that reads ranges shows its joules then.
//!
//! In which span a thread is says its last sample. Leaves out where spans come from (`tracer/probe/src/stacks/spans.rs`).

use super::ranges::NOT_IN_TRACE;
use super::record::{Frame, FrameKind, Span, StackNode};
use super::tables::Recording;
use crate::clock::KtimeNs;
use crate::collections::Fill as _;
use crate::ids::{FrameId, StackId, ThreadKey};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

/// The range of what is in it.
const TRACE: &str = "trace";

/// A trace, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(pub u128);

impl FromStr for TraceId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|number| is_id && *number != 0);
        number.map(Self).ok_or_else(|| "a trace is 32 hexadecimal digits, not all zero".to_owned())
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Recording {
    /// The traces that threads were seen in.
    pub fn traces(&self) -> BTreeSet<TraceId> {
        let own = self.spans.values().flatten().map(|(_, span)| TraceId(span.trace));
        let own = own.filter(|trace| trace.0 != 0).fill_set();
        self.parts.iter().map(|part| part.recording.traces()).fold(own, |all, more| &all | &more)
    }

    /// Puts all stacks into the ranges of a trace, or in that of everything else; gives the samples that are in the trace.
    pub fn choose_trace(&mut self, trace: TraceId) -> usize {
        let mut chosen = Chosen::new(self, trace);
        let mut samples = 0;
        for at in 0..self.samples.len() {
            let Some(mut sample) = self.samples.get(at).copied() else { break };
            let span = chosen.span(self, sample.thread, sample.at);
            samples += usize::from(span.is_some());
            sample.stack = chosen.stack(self, sample.stack, span);
            self.samples[at] = sample;
        }
        self.choose_requests(&mut chosen);
        let parts = self.parts.iter_mut().map(|part| part.recording.choose_trace(trace));
        samples + parts.sum::<usize>()
    }

    /// The same of waits, and of what GPUs were given to do.
    fn choose_requests(&mut self, chosen: &mut Chosen) {
        let (mut waits, mut gpu) = (std::mem::take(&mut self.requests.waits), std::mem::take(&mut self.gpu));
        for wait in &mut waits {
            wait.stack = chosen.at(self, wait.thread, wait.at, wait.stack);
        }
        for launches in &mut gpu.launches {
            for launched in &mut launches.work {
                launched.stack = chosen.at(self, launched.thread, launches.from, launched.stack);
            }
        }
        for busy in &mut gpu.busy {
            busy.stack = chosen.at(self, busy.thread, busy.launched, busy.stack);
        }
        (self.requests.waits, self.gpu) = (waits, gpu);
    }
}

/// Stacks of a trace that are made.
struct Chosen {
    trace: TraceId,
    of_trace: FrameId,
    of_others: FrameId,
    spans: HashMap<u64, FrameId>,
    /// By what they are made of.
    known: HashMap<(StackId, Option<u64>), StackId>,
    nodes: HashMap<StackNode, StackId>,
}

impl Chosen {
    fn new(recording: &mut Recording, trace: TraceId) -> Self {
        let of_trace = add(&mut recording.frames, Frame::range(TRACE), FrameId::new);
        let of_others = add(&mut recording.frames, Frame::range(NOT_IN_TRACE), FrameId::new);
        let (spans, known, nodes) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { trace, of_trace, of_others, spans, known, nodes }
    }

    /// The span of the trace that a thread is in at a time.
    fn span(&self, recording: &Recording, thread: ThreadKey, at: KtimeNs) -> Option<u64> {
        let spans = recording.spans.get(&thread)?;
        let before = spans.partition_point(|(from, _)| *from <= at).checked_sub(1)?;
        let &(_, Span { trace, id }) = spans.get(before)?;
        (trace == self.trace.0).then_some(id)
    }

    fn at(&mut self, to: &mut Recording, thread: ThreadKey, at: KtimeNs, stack: StackId) -> StackId {
        let span = self.span(to, thread, at);
        self.stack(to, stack, span)
    }

    /// A stack in the ranges of a span, or in that of everything else, which keeps none of its own.
    fn stack(&mut self, to: &mut Recording, stack: StackId, span: Option<u64>) -> StackId {
        if let Some(&made) = self.known.get(&(stack, span)) {
            return made;
        }
        let is_kept = |frame: &Frame| span.is_some() || frame.kind != FrameKind::Range;
        let frames = to.frames_of(stack).filter(|(_, frame)| is_kept(frame)).map(|(id, _)| id);
        let frames: Vec<FrameId> = frames.collect();
        let mut made = self.node(to, None, if span.is_some() { self.of_trace } else { self.of_others });
        let span_frame = span.map(|id| self.span_frame(to, id));
        for frame in span_frame.into_iter().chain(frames) {
            made = self.node(to, Some(made), frame);
        }
        self.known.insert((stack, span), made);
        made
    }

    fn span_frame(&mut self, to: &mut Recording, id: u64) -> FrameId {
        let make = || add(&mut to.frames, Frame::range(&format!("span {id:016x}")), FrameId::new);
        *self.spans.entry(id).or_insert_with(make)
    }

    fn node(&mut self, to: &mut Recording, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        *self.nodes.entry(node).or_insert_with(|| add(&mut to.stacks, node, StackId::new))
    }
}

/// Puts an entry behind a table; gives its number.
fn add<T, Id>(to: &mut Vec<T>, entry: T, id: impl FnOnce(u32) -> Id) -> Id {
    let number = u32::try_from(to.len()).unwrap_or(u32::MAX);
    to.push(entry);
    id(number)
}

#[cfg(test)]
mod tests {
    use super::{NOT_IN_TRACE, TRACE, TraceId};
    use crate::clock::KtimeNs;
    use crate::ids::{CpuId, FrameId, StackId, ThreadKey};
    use crate::recording::Recording;
    use crate::recording::record::{Frame, Sample, Span, StackNode, StackStatus, Wait};

    /// A trace is 32 hexadecimal digits.
    #[test]
    fn ids() {
        let text = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(text.parse::<TraceId>().unwrap().to_string(), text);
        for wrong in ["", "4bf9", "+bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32), &"g".repeat(32)] {
            assert!(wrong.parse::<TraceId>().is_err(), "{wrong}");
        }
    }

    /// Samples of two threads: the first is in the trace from 10 to 20, in another one from 30 on.
    fn recording() -> Recording {
        let node = |parent: Option<u32>, frame| StackNode {
            parent: parent.map(StackId::new),
            frame: FrameId::new(frame),
        };
        let at = KtimeNs::from_ns;
        let sample = |ns, thread| Sample {
            at: at(ns),
            cpu: CpuId::new(0),
            thread: ThreadKey::new(thread),
            stack: StackId::new(1),
            status: StackStatus::Complete,
        };
        let of = |trace, id| Span { trace, id };
        let spans =
            vec![(at(10), of(7, 3)), (at(15), of(7, 4)), (at(20), Span::default()), (at(30), of(8, 3))];
        let mut recording = Recording {
            frames: vec![Frame::range("route=/a"), Frame::special("f")],
            stacks: vec![node(None, 0), node(Some(0), 1)],
            samples: [(5, 0), (10, 0), (12, 1), (16, 0), (20, 0), (35, 0)]
                .map(|(ns, of)| sample(ns, of))
                .to_vec(),
            spans: [(ThreadKey::new(0), spans)].into(),
            ..Recording::default()
        };
        let wait = Wait { at: at(17), thread: ThreadKey::new(0), stack: StackId::new(1) };
        recording.requests.waits.push(wait);
        recording
    }

    /// What is in the trace is in its ranges, with its own within them; everything else is in one range and no other. A trace that nobody was in has
    /// no samples.
    #[test]
    fn chosen() {
        let mut all = recording();
        assert_eq!(all.traces(), [TraceId(7), TraceId(8)].into());
        assert_eq!(all.choose_trace(TraceId(7)), 2);
        let names = |stack| all.frames_of(stack).map(|(_, frame)| frame.name.clone()).collect::<Vec<_>>();
        let seen: Vec<Vec<String>> = all.samples.iter().map(|sample| names(sample.stack)).collect();
        let other = [NOT_IN_TRACE, "f"];
        assert_eq!(seen[1], [TRACE, "span 0000000000000003", "route=/a", "f"]);
        assert_eq!(seen[3], [TRACE, "span 0000000000000004", "route=/a", "f"]);
        assert_eq!(names(all.requests.waits[0].stack), seen[3]);
        for at in [0, 2, 4, 5] {
            assert_eq!(seen[at], other, "{at}");
        }
        assert_eq!(recording().choose_trace(TraceId(9)), 0);
    }
}
