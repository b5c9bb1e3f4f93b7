//! Spans that threads work for, as OpenTelemetry's thread context says (OTEP 4947): each attribute of a span is a range, those of lower numbers
//! around the others, and which span of which trace it is goes into the recording by itself.
//!
//! A record is what the program made it: its length, its attributes and how many of them are told apart are limited. Leaves out reading records
//! (`tracer-ebpf`), and the ranges that programs mark (`ranges.rs`).

use super::interner::Interner;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, Pid, ThreadKey};
use energy_trace_model::recording::names::LONGEST_NAME;
use energy_trace_model::recording::ranges::{MORE_RANGES, SPAN_WITHOUT_ATTRIBUTES};
use energy_trace_model::recording::record::{Frame, Record, Span};
use std::collections::{BTreeMap, HashMap};

/// Combinations of attributes that are told apart, of all programs, and the bytes of their texts.
const MOST: usize = 16_384;
const MOST_TEXT: usize = 8 << 20;
/// Attributes of a span that are ranges; bytes of the name and value of one.
const MOST_ATTRIBUTES: usize = 8;
const LONGEST: usize = 256;
/// Between two looks at what a process says of its attributes.
const ASK_AGAIN_NS: u64 = 50_000_000;

const _: () = assert!(LONGEST <= LONGEST_NAME, "a range's name is not cut twice");

/// Spans of targets.
#[derive(Default)]
pub(crate) struct Spans {
    names: HashMap<Pid, AttributeNames>,
    numbers: HashMap<Vec<String>, u32>,
    /// The frames of each number from 1 on, innermost first.
    frames: Vec<Vec<FrameId>>,
    text: usize,
    /// The last span of each thread.
    last: HashMap<ThreadKey, Span>,
    /// Stacks in any span, in those that are not told apart, and those whose attributes make no sense.
    pub(super) seen: u64,
    pub(super) more: u64,
    pub(super) damaged: u64,
}

/// What a process calls attributes, by number.
#[derive(Default)]
struct AttributeNames {
    names: Vec<String>,
    /// When it was last asked; `None`: never.
    asked_at: Option<KtimeNs>,
}

/// A record.
#[derive(Debug, Default, PartialEq, Eq)]
struct SpanRecord<'a> {
    span: Span,
    /// By number: the last one counts.
    attributes: BTreeMap<u8, &'a [u8]>,
    /// They end in the midst of one, or are more than are taken.
    is_damaged: bool,
}

impl Spans {
    /// The number of the attributes of a thread's span, by its record; 0: it is in none. `ask`: what its process calls attributes.
    pub(crate) fn number(
        &mut self,
        (pid, thread, at): (Pid, ThreadKey, KtimeNs),
        record: &[u8],
        out: &mut Interner,
        ask: impl FnOnce() -> Option<Vec<String>>,
    ) -> u32 {
        let record = SpanRecord::read(record);
        self.note(thread, at, record.span, out);
        if record == SpanRecord::default() {
            return 0;
        }
        self.seen += 1;
        self.damaged += u64::from(record.is_damaged);
        self.refresh(pid, at, &record, ask);
        let labels = self.labels(pid, &record);
        self.number_of(&labels, out)
    }

    /// Records which span a thread is in, where it is another one than it was in last.
    fn note(&mut self, thread: ThreadKey, at: KtimeNs, span: Span, out: &Interner) {
        let last = self.last.insert(thread, span).unwrap_or_default();
        if last != span {
            out.send(Record::Span(thread, at, span));
        }
    }

    /// Asks what a process calls its attributes, where one has a number that is not known.
    fn refresh(
        &mut self,
        pid: Pid,
        now: KtimeNs,
        record: &SpanRecord<'_>,
        ask: impl FnOnce() -> Option<Vec<String>>,
    ) {
        let known = self.names.entry(pid).or_default();
        let is_unknown = record.attributes.keys().any(|&number| usize::from(number) >= known.names.len());
        if is_unknown && known.asked_at.is_none_or(|asked| now.ns_since(asked) >= ASK_AGAIN_NS) {
            known.asked_at = Some(now);
            known.names = ask().unwrap_or_else(|| std::mem::take(&mut known.names));
        }
    }

    /// What the ranges of a span are called, the outermost one first. A number that only one request has is no name.
    fn labels(&self, pid: Pid, record: &SpanRecord<'_>) -> Vec<String> {
        let names = self.names.get(&pid).map(|known| known.names.as_slice()).unwrap_or_default();
        let labels = record.attributes.iter().filter_map(|(&number, value)| {
            let name = names.get(usize::from(number)).filter(|name| !name.is_empty())?;
            (!is_id(value)).then(|| label(name, value))
        });
        let labels: Vec<String> = labels.take(MOST_ATTRIBUTES).collect();
        if labels.is_empty() { vec![SPAN_WITHOUT_ATTRIBUTES.to_owned()] } else { labels }
    }

    fn number_of(&mut self, labels: &[String], out: &mut Interner) -> u32 {
        if let Some(&number) = self.numbers.get(labels) {
            return number;
        }
        let bytes = labels.iter().map(String::len).sum::<usize>();
        if self.numbers.len() >= MOST || self.text + bytes > MOST_TEXT {
            self.more += 1;
            return self.new_number(&[MORE_RANGES.to_owned()], 0, out);
        }
        self.new_number(labels, bytes, out)
    }

    fn new_number(&mut self, labels: &[String], bytes: usize, out: &mut Interner) -> u32 {
        let next = u32::try_from(self.frames.len() + 1).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(labels.to_owned()).or_insert(next);
        if number == next {
            self.text += bytes;
            self.frames.push(labels.iter().rev().map(|label| out.frame(Frame::range(label))).collect());
        }
        number
    }

    /// Puts the frames of a number behind those of a stack, whose innermost one is first.
    pub(crate) fn add(&self, number: u32, stack: &mut Vec<FrameId>) {
        let frames = (number as usize).checked_sub(1).and_then(|at| self.frames.get(at));
        stack.extend(frames.into_iter().flatten());
    }

    /// A process is gone, or another program.
    pub(crate) fn forget(&mut self, pid: Pid) {
        self.names.remove(&pid);
    }
}

impl<'a> SpanRecord<'a> {
    /// Reads a record; what is none is empty.
    fn read(bytes: &'a [u8]) -> Self {
        Self::read_whole(bytes).unwrap_or_default()
    }

    fn read_whole(bytes: &'a [u8]) -> Option<Self> {
        let (trace, rest) = bytes.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk()?;
        let ([_valid, _flags, low, high], mut rest) = rest.split_first_chunk()?;
        let span = Span { trace: u128::from_be_bytes(*trace), id: u64::from_be_bytes(*id) };
        let is_cut = usize::from(u16::from_ne_bytes([*low, *high])) != rest.len();
        let mut attributes = BTreeMap::new();
        while let [number, length, values @ ..] = rest {
            let Some((value, behind)) = values.split_at_checked(usize::from(*length)) else { break };
            attributes.insert(*number, value);
            rest = behind;
        }
        Some(Self { span, attributes, is_damaged: is_cut || !rest.is_empty() })
    }
}

/// Whether a value is the number of a span or trace, in hex.
fn is_id(value: &[u8]) -> bool {
    matches!(value.len(), 16 | 32) && value.iter().all(u8::is_ascii_hexdigit)
}

fn label(name: &str, value: &[u8]) -> String {
    let mut label = format!("{name}={}", String::from_utf8_lossy(value));
    if label.len() > LONGEST {
        label.truncate(label.floor_char_boundary(LONGEST - '…'.len_utf8()));
        label.push('…');
    }
    label
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, MOST, MOST_ATTRIBUTES, SpanRecord, Spans};
    use crate::records::RecordSender;
    use crate::stacks::interner::Interner;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::{FrameId, Pid, ThreadKey};
    use energy_trace_model::recording::record::{Record, Span};
    use std::collections::HashMap;
    use std::sync::mpsc::{Receiver, channel};

    const SPAN: Span = Span { trace: 0x0102, id: 0x0304 };

    fn record(span: Span, attributes: &[(u8, &str)]) -> Vec<u8> {
        let packed = attributes
            .iter()
            .flat_map(|(number, value)| [*number, value.len() as u8].into_iter().chain(value.bytes()));
        let packed: Vec<u8> = packed.collect();
        let mut bytes = [&span.trace.to_be_bytes()[..], &span.id.to_be_bytes(), &[1, 0]].concat();
        bytes.extend((packed.len() as u16).to_ne_bytes());
        bytes.extend(packed);
        bytes
    }

    struct Seen {
        spans: Spans,
        out: Interner,
        written: Receiver<Record>,
        frames: HashMap<FrameId, String>,
        asked: usize,
    }

    impl Seen {
        fn new() -> Self {
            let (records, written) = channel();
            let out = Interner::new(RecordSender::new(records));
            Self { spans: Spans::default(), out, written, frames: HashMap::new(), asked: 0 }
        }

        /// The number that a record has at a time.
        fn number(&mut self, ms: u64, record: &[u8]) -> u32 {
            let (whose, asked) =
                ((Pid::new(7), ThreadKey::new(0), KtimeNs::from_ns(ms * 1_000_000)), &mut self.asked);
            let names = || {
                *asked += 1;
                Some(["route", "method", "root"].map(str::to_owned).to_vec())
            };
            self.spans.number(whose, record, &mut self.out, names)
        }

        /// The names of the ranges of a number, outermost first.
        fn ranges(&mut self, number: u32) -> Vec<String> {
            for record in self.written.try_iter() {
                if let Record::Frame(id, frame) = record {
                    self.frames.insert(id, frame.name);
                }
            }
            let mut stack = Vec::new();
            self.spans.add(number, &mut stack);
            stack.iter().rev().map(|id| self.frames[id].clone()).collect()
        }
    }

    /// Attributes are ranges in the order of their numbers, the last of each counts; numbers of spans, and those that the process does not name, are
    /// none. A process is asked once, and again for a number that it did not name.
    #[test]
    fn attributes() {
        let mut seen = Seen::new();
        let long = "x".repeat(200);
        let of = |attributes: &[(u8, &str)]| record(SPAN, attributes);
        let number = seen.number(0, &of(&[(1, "GET"), (0, "/a"), (2, "00f067aa0ba902b7"), (1, "PUT")]));
        assert_eq!(seen.ranges(number), ["route=/a", "method=PUT"]);
        assert_eq!(seen.number(1, &of(&[(0, "/a"), (1, "PUT")])), number);
        let bare = seen.number(2, &of(&[]));
        assert_eq!(seen.ranges(bare), ["[span without attributes]"]);
        let twice = seen.number(3, &of(&[(0, &long), (1, "00F067AA0BA902B7")]));
        assert_eq!(seen.ranges(twice), [format!("route={long}")]);
        assert_eq!((seen.number(4, &of(&[(9, "x")])), seen.asked), (bare, 1));
        assert_eq!((seen.number(300, &of(&[(9, "x")])), seen.asked), (bare, 2));
        assert_eq!((seen.number(400, &[]), seen.number(401, &record(Span::default(), &[]))), (0, 0));
        assert_eq!((seen.spans.seen, seen.spans.more, seen.spans.damaged), (6, 0, 0));
    }

    /// Which span a thread is in is recorded when it changes, and when it is in none any more.
    #[test]
    fn changes() {
        let mut seen = Seen::new();
        let other = Span { id: 5, ..SPAN };
        for (ms, span) in (0..).zip([Span::default(), SPAN, SPAN, other, Span::default(), SPAN]) {
            seen.number(ms, &record(span, &[]));
        }
        let noted = seen.written.try_iter().filter_map(|record| match record {
            Record::Span(_, at, span) => Some((at.as_ns() / 1_000_000, span)),
            _ => None,
        });
        let noted: Vec<(u64, Span)> = noted.collect();
        assert_eq!(noted, [(1, SPAN), (3, other), (4, Span::default()), (5, SPAN)]);
    }

    /// Records whose lengths are wrong, without end, or with more values than are told apart: what is sound counts, the rest is bounded and counted.
    #[test]
    fn hostile() {
        let mut seen = Seen::new();
        let mut cut = record(SPAN, &[(0, "/a"), (1, "GET")]);
        cut.truncate(cut.len() - 1);
        let number = seen.number(0, &cut);
        assert_eq!((seen.ranges(number), seen.spans.damaged), (vec!["route=/a".to_owned()], 1));
        let mut longer = record(SPAN, &[(0, "/a")]);
        longer[26] = 0xff;
        assert_eq!((seen.number(1, &longer), seen.spans.damaged), (number, 2));
        for bytes in [&[][..], &[1; 27], &[0xff; 28], &[0xff; 640]] {
            let SpanRecord { attributes, .. } = SpanRecord::read(bytes);
            assert!(attributes.len() <= 255);
        }
        let endless: Vec<(u8, &str)> = (0..200).map(|number| (number, "x")).collect();
        seen.spans.names.get_mut(&Pid::new(7)).unwrap().names = vec!["n".repeat(5000); 256];
        let number = seen.number(2, &record(SPAN, &endless));
        let ranges = seen.ranges(number);
        assert_eq!((ranges.len(), ranges[0].len()), (MOST_ATTRIBUTES, LONGEST));
        seen.spans.names.get_mut(&Pid::new(7)).unwrap().names = vec!["n".to_owned()];
        for value in 0..MOST + 10 {
            seen.number(3, &record(SPAN, &[(0, &value.to_string())]));
        }
        assert!(seen.spans.numbers.len() <= MOST + 1 && seen.spans.more >= 10);
        let more = seen.number(4, &record(SPAN, &[(0, "another")]));
        assert_eq!(seen.ranges(more), ["[more ranges]"]);
    }
}
