//! Bytes of the ring buffer to events.
//!
//! The layouts are those of `tracer_ebpf::wire`. Bytes that do not fit are refused, never guessed at.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, Pid, Tid};
use energy_trace_unwind::cpython::code_check::Check;
use energy_trace_unwind::merge::WalkedStack;
use tracer_ebpf::gpu::{GpuEvent, GpuName};
use tracer_ebpf::native::NativeFrame;
use tracer_ebpf::python::PythonFrame;
use tracer_ebpf::wire::{
    BackgroundEvent, CODE_WORDS, EventHead, NATIVE_WORDS, PYTHON_WORDS, RawHead, SampleHead, SliceEvent,
    TaskEvent, ToldCode, WakeEvent, kind, register,
};
use zerocopy::FromBytes;

/// Who, where, when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventContext {
    /// Where.
    pub cpu: CpuId,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// When.
    pub at: KtimeNs,
    /// The path of ranges that the thread is in, where the event has a stack; 0: none.
    pub range: u64,
    /// The attributes of the span that the thread works for, by the number that user space gave them; 0: none.
    pub span: u32,
}

/// A code object that a sample holds: where it is, what tells it from others, and the globals that it runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSight {
    /// Its address.
    pub address: u64,
    /// What tells it from others.
    pub check: Check,
    /// Address of the globals; 0: not known.
    pub globals: u64,
}

/// What the probes tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A stack sample, and the record of the span that the thread works for, or nothing.
    Sample(EventContext, Comm, WalkedStack, &'a [u8]),
    /// A target's time on a CPU, ending at the head's time: when it began, and what the thread had run by then, in nanoseconds.
    Slice(EventContext, KtimeNs, u64),
    /// That of a process that is not a target; pid 0 stands for several by turns.
    Background(EventContext, KtimeNs, Comm),
    /// A target made a process.
    Fork(EventContext, Pid),
    /// A process came into the recorded control group; to an agent, into another one.
    Join(EventContext),
    /// A target became another program.
    Exec(EventContext, Comm),
    /// A thread of a target ended.
    Exit(EventContext, Comm),
    /// A target maps a file as code.
    Mmap(EventContext),
    /// Registers and a copy of the stack of the sample that follows.
    Raw(Capture<'a>),
    /// A thread begins to wait in a Python stack.
    Wait(EventContext, Comm, WalkedStack, &'a [u8]),
    /// A thread begins to wait where it last did.
    WaitAgain(EventContext),
    /// A thread was woken by this thread of this process.
    Wake(EventContext, Pid, Tid),
    /// A call of a GPU library.
    Gpu(EventContext, GpuEvent),
    /// The stack of the call of a GPU library that follows.
    GpuStack(EventContext, Comm, WalkedStack, &'a [u8]),
    /// A function of a GPU library's module, and its name.
    GpuName(EventContext, u64, String),
    /// Code objects that the sample which follows holds and none before.
    Codes(EventContext, Vec<CodeSight>),
    /// What those of them say of themselves that are new.
    Told(EventContext, Vec<ToldCode>),
}

impl Event<'_> {
    /// When it happened, if something is to be read of the process for it, and more may follow.
    pub const fn activity_at(&self) -> Option<KtimeNs> {
        match self {
            Self::Fork(head, _)
            | Self::Join(head)
            | Self::Exec(head, _)
            | Self::Exit(head, _)
            | Self::Mmap(head)
            | Self::Gpu(head, _)
            | Self::GpuStack(head, ..)
            | Self::GpuName(head, ..) => Some(head.at),
            _ => None,
        }
    }
}

/// A raw capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture<'a> {
    /// That of the sample.
    pub head: EventContext,
    /// Address of the first byte of the copy.
    pub base: u64,
    /// The pages of it that were read, as in `RawHead`.
    pub pages: u32,
    /// By `wire::register`.
    pub registers: [u64; register::COUNT],
    /// The copy.
    pub stack: &'a [u8],
}

/// The kernel's name of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The tracer's.
    pub const OWN: Self = Self(*b"energy-trace\0\0\0\0");

    /// As text, up to its zero.
    pub fn text(self) -> String {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end]).into_owned()
    }
}

/// What an event begins with, `None` if the bytes are not one.
pub fn peek(bytes: &[u8]) -> Option<EventHead> {
    read(bytes)
}

/// Reads one event; `None` if the bytes are not one.
pub fn decode_event(bytes: &[u8]) -> Option<Event<'_>> {
    let head: EventHead = read(bytes)?;
    let place = EventContext {
        cpu: CpuId::new(head.cpu),
        pid: Pid::new(head.pid),
        tid: Tid::new(head.tid),
        at: KtimeNs::from_ns(head.at_ns),
        range: range_of(head.kind, bytes),
        span: 0,
    };
    Some(match head.kind {
        kind::SAMPLE => {
            let (comm, stack, span) = decode_stack(bytes)?;
            Event::Sample(place, comm, stack, span)
        }
        kind::WAIT => {
            let (comm, stack, span) = decode_stack(bytes)?;
            Event::Wait(place, comm, stack, span)
        }
        kind::WAIT_AGAIN => Event::WaitAgain(place),
        kind::WAKE => {
            let wake: WakeEvent = read(bytes)?;
            Event::Wake(place, Pid::new(wake.waker_pid), Tid::new(wake.waker_tid))
        }
        kind::GPU => Event::Gpu(place, read(bytes)?),
        kind::GPU_STACK => {
            let (comm, stack, span) = decode_stack(bytes)?;
            Event::GpuStack(place, comm, stack, span)
        }
        kind::GPU_NAME => {
            let named: GpuName = read(bytes)?;
            let end = named.name.iter().position(|&byte| byte == 0).unwrap_or(named.name.len());
            Event::GpuName(place, named.function, String::from_utf8_lossy(&named.name[..end]).into_owned())
        }
        kind::SLICE => {
            let slice: SliceEvent = read(bytes)?;
            Event::Slice(place, KtimeNs::from_ns(slice.start_ns), slice.ran_ns)
        }
        kind::BACKGROUND => {
            let event: BackgroundEvent = read(bytes)?;
            Event::Background(place, KtimeNs::from_ns(event.start_ns), Comm(event.comm))
        }
        kind::FORK => Event::Fork(place, Pid::new(read::<TaskEvent>(bytes)?.other)),
        kind::JOIN => Event::Join(place),
        kind::EXEC => Event::Exec(place, Comm(read::<TaskEvent>(bytes)?.comm)),
        kind::EXIT => Event::Exit(place, Comm(read::<TaskEvent>(bytes)?.comm)),
        kind::MMAP => Event::Mmap(place),
        kind::CODES => Event::Codes(place, decode_sights(&bytes[size_of::<EventHead>()..])),
        kind::TOLD => {
            let codes = bytes[size_of::<EventHead>()..].chunks_exact(size_of::<ToldCode>());
            Event::Told(place, codes.filter_map(read).collect())
        }
        kind::RAW => return decode_capture(place, bytes),
        _ => return None,
    })
}

fn decode_sights(bytes: &[u8]) -> Vec<CodeSight> {
    let sight = |[address, first, second, globals]: [u64; CODE_WORDS]| CodeSight {
        address,
        check: [first, second],
        globals,
    };
    decode_words::<CODE_WORDS>(bytes).map(sight).collect()
}

fn range_of(what: u32, bytes: &[u8]) -> u64 {
    let has_stack = matches!(what, kind::SAMPLE | kind::WAIT | kind::GPU_STACK);
    if has_stack { read::<SampleHead>(bytes).map_or(0, |head| head.range) } else { 0 }
}

fn decode_capture(head: EventContext, bytes: &[u8]) -> Option<Event<'_>> {
    let raw: RawHead = read(bytes)?;
    let stack = bytes.get(size_of::<RawHead>()..)?.get(..raw.bytes as usize)?;
    let (base, pages, registers) = (raw.base, raw.pages, raw.registers);
    Some(Event::Raw(Capture { head, base, pages, registers, stack }))
}

/// The thread's name, its stack, and its span's record.
fn decode_stack(bytes: &[u8]) -> Option<(Comm, WalkedStack, &[u8])> {
    let head: SampleHead = read(bytes)?;
    let words = bytes.get(size_of::<SampleHead>()..)?;
    let (kernel, words) = words.split_at_checked(usize::from(head.kernel) * 8)?;
    let (python, words) = words.split_at_checked(usize::from(head.python) * PYTHON_WORDS * 8)?;
    let (native, words) = words.split_at_checked(usize::from(head.native) * NATIVE_WORDS * 8)?;
    let span = words.get(..usize::from(head.context))?;
    let stack = WalkedStack {
        kernel: decode_words(kernel).map(|[pc]| pc).collect(),
        python: decode_words::<PYTHON_WORDS>(python)
            .map(|[code, instruction, anchor, class]| PythonFrame { code, instruction, anchor, class })
            .collect(),
        python_end: head.python_end,
        native: decode_words::<NATIVE_WORDS>(native).map(|[pc, cfa]| NativeFrame { pc, cfa }).collect(),
        native_end: head.native_end,
        recovered: head.recovered,
        guessed: head.guessed,
        guess_depth: head.guess_depth,
    };
    Some((Comm(head.comm), stack, span))
}

/// Groups of so many words.
fn decode_words<const WORDS: usize>(bytes: &[u8]) -> impl Iterator<Item = [u64; WORDS]> + '_ {
    let (words, _) = bytes.as_chunks::<8>();
    let (groups, _) = words.as_chunks::<WORDS>();
    groups.iter().map(|group| group.map(u64::from_ne_bytes))
}

/// The struct at the beginning of these bytes, wherever they lie.
fn read<T: FromBytes>(bytes: &[u8]) -> Option<T> {
    T::read_from_prefix(bytes).ok().map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::{Event, decode_event};
    use tracer_ebpf::wire::{SampleHead, kind};
    use zerocopy::IntoBytes as _;

    fn sample_bytes((kernel, python, native): (u16, u16, u16), context: u16, words: usize) -> Vec<u8> {
        let mut head = SampleHead { kernel, python, native, context, ..SampleHead::default() };
        head.head.kind = kind::SAMPLE;
        let mut out = head.as_bytes().to_vec();
        out.extend((0..words as u64).flat_map(u64::to_ne_bytes));
        out
    }

    /// Kernel, Python and native words come out in the order in which the probe wrote them.
    #[test]
    fn sample_words_in_order() {
        let bytes = sample_bytes((1, 1, 2), 28, 13);
        let Some(Event::Sample(_, _, stack, span)) = decode_event(&bytes) else { panic!("no sample") };
        assert_eq!(stack.kernel, [0]);
        assert_eq!((stack.python[0].code, stack.python[0].anchor), (1, 3));
        assert_eq!((stack.native[0].pc, stack.native[1].cfa), (5, 8));
        assert_eq!((span.len(), span[0], span[24]), (28, 9, 12));
    }

    /// An event that is cut off or of an unknown kind is refused.
    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(decode_event(&sample_bytes((1, 1, 2), 0, 8)), None);
        assert_eq!(decode_event(&sample_bytes((1, 1, 2), 28, 12)), None);
        assert_eq!(decode_event(&[1, 0, 0]), None);
        let mut unknown = sample_bytes((0, 0, 0), 0, 0);
        unknown[0] = 99;
        assert_eq!(decode_event(&unknown), None);
    }
}
