//! Formats 3 to 7, frozen: records as energy-trace wrote them while a recording held sentences (3 to 6), and without jitter (7).
//!
//! The shapes are those of their time, and nothing else uses them; a record whose shape is the same since is today's. Whoever changes a
//! type of today that is used here copies its old shape to this file. Sentences that versions wrote become types again (`texts`); what is
//! not known is kept as it is. Leaves out the packed lists, which are the same in all formats (`wire.rs`).

mod texts;

use super::record;
use super::record::{
    BackgroundProcess, CopyOutcome, Frame, Frequencies, GpuBusy, GpuMeter, GpuUse, GpuWait, Histogram,
    IdleBaseline, IdleOrigin, Ignored, IgnoredReason, Jitter, KernelTier, LaunchStacks, Launches, Library,
    LossReason, Name, Origin, Quality, Reading, Record, RecordingDiagnostic, Runtime, Sample, SampleEvent,
    Scope, Slice, Source, SourceId, SourceNote, StackNode, Summary, Thread, Unsampled, Unwinding, Wait, Wake,
};
use crate::clock::{KtimeNs, WallAnchor};
use crate::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, StackId};
use crate::units::{MicroJoules, MicroWatts};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One entry of formats 3 to 6.
pub(super) type OldRecord = Shaped<OldHeader, OldDomain, OldProcess, OldSummary>;

/// One entry of format 7, whose header has no jitter.
pub(super) type Record7 = Shaped<Header7, record::Domain, record::Process, Summary>;

/// The last format of the shape of `OldRecord`, and that of `Record7`.
pub(super) const LAST_WITH_TEXTS: u32 = 6;
pub(super) const WITHOUT_JITTER: u32 = 7;

/// One entry, with the types that differ between formats. The order of the variants is the format.
#[derive(Deserialize)]
pub(super) enum Shaped<H, D, P, S> {
    Header(H),
    Domain(D),
    Readings(DomainId, Vec<Reading>),
    Process(P),
    Thread(Thread),
    Frame(FrameId, Frame),
    Stack(StackId, StackNode),
    Slices(Vec<Slice>),
    Samples(Vec<Sample>),
    Name(FrameId, Name),
    Summary(S),
    Slept(KtimeNs),
    Inlined(FrameId, Vec<Name>),
    Renamed(FrameId, KtimeNs, Name),
    Library(Library),
    Waits(Vec<Wait>),
    Wakes(Vec<Wake>),
    PoolLoop(FrameId),
    GpuMeter(DomainId, GpuMeter),
    GpuUses(DomainId, Vec<GpuUse>),
    Launches(Launches),
    GpuWaits(Vec<GpuWait>),
    Cores(Vec<Vec<CpuId>>),
    GpuBusy(Vec<GpuBusy>),
    KernelTier(KernelTier),
    LaunchStacks(LaunchStacks),
    Background(BackgroundProcess),
    Frequencies(Frequencies),
    Unsampled(Vec<Unsampled>),
}

impl<H, D, P, S> From<Shaped<H, D, P, S>> for Record
where
    H: Into<record::Header>,
    D: Into<record::Domain>,
    P: Into<record::Process>,
    S: Into<Summary>,
{
    fn from(old: Shaped<H, D, P, S>) -> Self {
        match old {
            Shaped::Header(header) => Self::Header(header.into()),
            Shaped::Domain(domain) => Self::Domain(domain.into()),
            Shaped::Readings(domain, readings) => Self::Readings(domain, readings),
            Shaped::Process(process) => Self::Process(process.into()),
            Shaped::Thread(thread) => Self::Thread(thread),
            Shaped::Frame(id, frame) => Self::Frame(id, frame),
            Shaped::Stack(id, node) => Self::Stack(id, node),
            Shaped::Slices(slices) => Self::Slices(slices),
            Shaped::Samples(samples) => Self::Samples(samples),
            Shaped::Name(id, name) => Self::Name(id, name),
            Shaped::Summary(summary) => Self::Summary(summary.into()),
            Shaped::Slept(at) => Self::Slept(at),
            Shaped::Inlined(id, names) => Self::Inlined(id, names),
            Shaped::Renamed(id, at, name) => Self::Renamed(id, at, name),
            Shaped::Library(library) => Self::Library(library),
            Shaped::Waits(waits) => Self::Waits(waits),
            Shaped::Wakes(wakes) => Self::Wakes(wakes),
            Shaped::PoolLoop(frame) => Self::PoolLoop(frame),
            Shaped::GpuMeter(domain, meter) => Self::GpuMeter(domain, meter),
            Shaped::GpuUses(domain, uses) => Self::GpuUses(domain, uses),
            Shaped::Launches(launches) => Self::Launches(launches),
            Shaped::GpuWaits(waits) => Self::GpuWaits(waits),
            Shaped::Cores(cores) => Self::Cores(cores),
            Shaped::GpuBusy(busy) => Self::GpuBusy(busy),
            Shaped::KernelTier(tier) => Self::KernelTier(tier),
            Shaped::LaunchStacks(stacks) => Self::LaunchStacks(stacks),
            Shaped::Background(process) => Self::Background(process),
            Shaped::Frequencies(read) => Self::Frequencies(read),
            Shaped::Unsampled(stretches) => Self::Unsampled(stretches),
        }
    }
}

/// What was known when the recording started.
#[derive(Deserialize)]
pub(super) struct OldHeader {
    version: String,
    command: Vec<String>,
    anchor: WallAnchor,
    kernel: String,
    cpu_model: String,
    sockets: BTreeMap<CpuId, SocketId>,
    sample_hz: u32,
    sample_event: String,
    system_wide: bool,
    sources: Vec<OldSource>,
}

impl From<OldHeader> for record::Header {
    fn from(old: OldHeader) -> Self {
        let OldHeader {
            version, command, anchor, kernel, cpu_model, sockets, sample_hz, system_wide, ..
        } = old;
        let sample_event = match old.sample_event.as_str() {
            "cycles" => Some(SampleEvent::Cycles),
            "cpu-clock" => Some(SampleEvent::CpuClock),
            _ => None,
        };
        let sources = old.sources.into_iter().map(Source::from).collect();
        Header7 {
            version,
            command,
            anchor,
            kernel,
            cpu_model,
            sockets,
            sample_hz,
            sample_event,
            system_wide,
            sources,
        }
        .into()
    }
}

/// What was known when the recording started, in format 7.
#[derive(Deserialize)]
pub(super) struct Header7 {
    version: String,
    command: Vec<String>,
    anchor: WallAnchor,
    kernel: String,
    cpu_model: String,
    sockets: BTreeMap<CpuId, SocketId>,
    sample_hz: u32,
    sample_event: Option<SampleEvent>,
    system_wide: bool,
    sources: Vec<Source>,
}

impl From<Header7> for record::Header {
    fn from(old: Header7) -> Self {
        let Header7 { version, command, anchor, kernel, cpu_model, sockets, .. } = old;
        let Header7 { sample_hz, sample_event, system_wide, sources, .. } = old;
        Self {
            version,
            command,
            anchor,
            kernel,
            cpu_model,
            sockets,
            sample_hz,
            jitter: Jitter::NONE,
            sample_event,
            system_wide,
            sources,
        }
    }
}

/// A power source.
#[derive(Deserialize)]
struct OldSource {
    name: String,
    domains: Vec<String>,
    period_ns: u64,
    quality: Quality,
    ignored: Vec<OldIgnored>,
    notes: Vec<String>,
}

/// What a source offers and is not used.
#[derive(Deserialize)]
struct OldIgnored {
    domain: String,
    why: String,
}

impl From<OldSource> for Source {
    fn from(old: OldSource) -> Self {
        let OldSource { name, domains, period_ns, quality, ignored, notes } = old;
        let ignored = ignored
            .into_iter()
            .map(|OldIgnored { domain, why }| Ignored { domain, reason: IgnoredReason::Other(why) });
        Self {
            id: SourceId::from_name(&name),
            domains,
            period_ns,
            quality,
            ignored: ignored.collect(),
            notes: notes.into_iter().map(SourceNote::Other).collect(),
        }
    }
}

/// A power domain.
#[derive(Deserialize)]
pub(super) struct OldDomain {
    id: DomainId,
    name: String,
    class: record::DomainClass,
    scope: Scope,
    origin: OldOrigin,
    idle: Option<OldIdleBaseline>,
}

/// How the energy of a domain was learned.
#[derive(Deserialize)]
enum OldOrigin {
    Counter { source: String, place: String, max_range: Option<MicroJoules>, quality: Quality },
    Model { idle: MicroWatts, core: MicroWatts },
}

/// Power of a domain when nothing ran.
#[derive(Deserialize)]
struct OldIdleBaseline {
    power: MicroWatts,
    how: String,
}

impl From<OldDomain> for record::Domain {
    fn from(old: OldDomain) -> Self {
        let OldDomain { id, name, class, scope, origin, idle } = old;
        let origin = match origin {
            OldOrigin::Counter { source, place, max_range, quality } => {
                Origin::Counter { source: SourceId::from_name(&source), place, max_range, quality }
            }
            OldOrigin::Model { idle, core } => Origin::Model { idle, core },
        };
        let idle = idle.map(|OldIdleBaseline { power, how }| {
            let origin = texts::idle_origin(&how).unwrap_or(IdleOrigin::Other(how));
            IdleBaseline { power, origin }
        });
        Self { id, name, class, scope, origin, idle }
    }
}

/// A program in a process.
#[derive(Deserialize)]
pub(super) struct OldProcess {
    key: ProcessKey,
    pid: Pid,
    parent: Option<ProcessKey>,
    name: String,
    command: Vec<String>,
    runtime: Option<String>,
}

impl From<OldProcess> for record::Process {
    fn from(old: OldProcess) -> Self {
        let OldProcess { key, pid, parent, name, command, runtime } = old;
        let runtime = runtime.map(|text| texts::runtime(&text).unwrap_or(Runtime::Other(text)));
        Self { key, pid, parent, name, command, runtime }
    }
}

/// What was known when the recording ended.
#[derive(Deserialize)]
pub(super) struct OldSummary {
    start: KtimeNs,
    end: KtimeNs,
    exit_code: Option<i32>,
    lost: BTreeMap<String, u64>,
    unwinding: Unwinding,
    raw: BTreeMap<String, u64>,
    bpf_ns: Option<u64>,
    tracer_cpu_ns: u64,
    read_latency: Histogram,
    read_lateness: Histogram,
    warnings: Vec<OldWarning>,
}

/// A warning: its code, and a sentence.
#[derive(Deserialize)]
struct OldWarning {
    code: String,
    text: String,
}

impl From<OldSummary> for Summary {
    fn from(old: OldSummary) -> Self {
        let lost = |(text, count): (String, u64)| {
            (texts::loss_reason(&text).unwrap_or(LossReason::Other(text)), count)
        };
        let copies = |(text, count): (String, u64)| {
            (texts::copy_outcome(&text).unwrap_or(CopyOutcome::Other(text)), count)
        };
        let diagnostic = |OldWarning { code, text }| {
            texts::diagnostic(&code, &text).unwrap_or(RecordingDiagnostic::Other { code, text })
        };
        Self {
            start: old.start,
            end: old.end,
            exit_code: old.exit_code,
            lost: old.lost.into_iter().map(lost).collect(),
            unwinding: old.unwinding,
            copies: old.raw.into_iter().map(copies).collect(),
            bpf_ns: old.bpf_ns,
            tracer_cpu_ns: old.tracer_cpu_ns,
            read_latency: old.read_latency,
            read_lateness: old.read_lateness,
            diagnostics: old.warnings.into_iter().map(diagnostic).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::KtimeNs;
    use crate::ids::{DomainId, FrameId, Pid, ProcessKey, StackId};
    use crate::recording::record::{
        CopyOutcome, Histogram, IdleOrigin, Jitter, LaunchDiagnostic, LossReason, Origin, PowerDiagnostic,
        Quality, Record, RecordingDiagnostic, Runtime, SampleEvent, Scope, SourceId, SourceNote, Unwinding,
    };
    use crate::recording::wire::decode_record;
    use crate::units::MicroWatts;
    use serde::Serialize;
    use std::collections::BTreeMap;

    /// Reads a record of format 6: postcard writes a variant as its number and a structure as its fields, one after the other.
    fn read<T: Serialize>(variant: u32, fields: &T) -> Record {
        read_as(6, variant, fields)
    }

    fn read_as<T: Serialize>(format: u32, variant: u32, fields: &T) -> Record {
        let bytes = postcard::to_extend(&(0_u32, variant, fields), Vec::new()).unwrap();
        let (record, rest) = decode_record(&bytes, format).unwrap();
        assert!(rest.is_empty(), "{record:?}");
        record
    }

    /// The end of a run: losses, copies and the warnings on which the attribution decides become types, others keep their words.
    #[test]
    fn summaries() {
        let lost = BTreeMap::from([("samples: ring buffer full", 3_u64), ("a new reason", 4)]);
        let copies = BTreeMap::from([("not unwound: the process was gone", 5_u64)]);
        let times = (KtimeNs::from_ns(1), KtimeNs::from_ns(9), Some(7_i32));
        let warnings = [
            ("gpu-mig", "gpu-1: MIG is on, and more; keep the others idle"),
            ("gpu-streams", "gpu-0: 12 % of the kernels were launched beside the busiest stream: and so on"),
            ("machine-paused", "3 times no sample came"),
        ];
        let costs = (Some(8_u64), 9_u64, Histogram::default(), Histogram::default());
        let fields = (times, lost, Unwinding::User, copies, costs, warnings.to_vec());
        let Record::Summary(summary) = read(10, &fields) else { panic!("no summary") };
        assert_eq!(
            (summary.start, summary.exit_code, summary.tracer_cpu_ns),
            (KtimeNs::from_ns(1), Some(7), 9)
        );
        assert_eq!((summary.lost[&LossReason::Samples], summary.unwinding), (3, Unwinding::User));
        assert_eq!(summary.lost[&LossReason::Other("a new reason".to_owned())], 4);
        assert_eq!(summary.copies[&CopyOutcome::ProcessGone], 5);
        let (mig, streams) = ("gpu-1".to_owned(), "gpu-0".to_owned());
        let (code, text) = ("machine-paused".to_owned(), "3 times no sample came".to_owned());
        let expected = [
            PowerDiagnostic::GpuMig { domain: mig }.into(),
            LaunchDiagnostic::Streams { domain: streams, percent: 12 }.into(),
            RecordingDiagnostic::Other { code, text },
        ];
        assert_eq!(summary.diagnostics, expected);
    }

    /// A domain, with how its idle power was found.
    #[test]
    fn domains() {
        let read = |how: &str| {
            let counter = (0_u32, "replay", "meter.csv", None::<i64>, Quality::Measured);
            let idle = Some((MicroWatts::from_uw(5), how));
            let fields = (DomainId::new(0), "psys", 3_u32, Scope::Machine, counter, idle);
            let Record::Domain(domain) = read(1, &fields) else { panic!("no domain") };
            assert!(matches!(domain.origin, Origin::Counter { source: SourceId::Replay, .. }), "{domain:?}");
            domain.idle.unwrap().origin
        };
        let measured = |busy_percent| IdleOrigin::Measured { over_ns: 1_500_000_000, busy_percent };
        assert_eq!(read("measured over 1.5 s before the start"), measured(None));
        let busy = "measured over 1.5 s before the start, while the CPUs were 12 % busy: too high, so stop other work";
        assert_eq!(read(busy), measured(Some(12)));
        assert_eq!(read("--idle-watts"), IdleOrigin::Given);
        assert_eq!(read("parameter of the model"), IdleOrigin::Model);
        assert_eq!(read("by guessing"), IdleOrigin::Other("by guessing".to_owned()));
    }

    /// A process's interpreter, and a header with a source.
    #[test]
    fn processes_and_headers() {
        let runtime = |text: &str| {
            let fields = (
                ProcessKey::new(0),
                Pid::new(7),
                None::<ProcessKey>,
                "python3",
                [""; 0].to_vec(),
                Some(text),
            );
            let Record::Process(process) = read(3, &fields) else { panic!("no process") };
            process.runtime.unwrap()
        };
        assert_eq!(runtime("CPython 3.11.2"), Runtime::CPython { version: "3.11.2".to_owned() });
        let refused = "CPython 3.16 (unknown version: native frames only)";
        assert_eq!(runtime(refused), Runtime::Other(refused.to_owned()));

        let none = Vec::<String>::new();
        let ignored = vec![("psys", "it cannot be read")];
        let source = ("powercap", none.clone(), 20_u64, Quality::Measured, ignored, vec!["a note"]);
        let run = ("0.1", none, (1_u64, 2_u64), "6.1", "a CPU", BTreeMap::<u32, u32>::new());
        let fields = (run, 99_u32, "cycles", false, vec![source]);
        let Record::Header(header) = read(0, &fields) else { panic!("no header") };
        assert_eq!((header.sample_hz, header.sample_event), (99, Some(SampleEvent::Cycles)));
        assert_eq!(header.sources[0].id, SourceId::Powercap);
        assert_eq!(header.sources[0].notes, [SourceNote::Other("a note".to_owned())]);
    }

    /// A header of format 7: its samples were evenly spaced. All else of that format is as it is now.
    #[test]
    fn headers_without_jitter() {
        let source = (SourceId::Powercap, [""; 0].to_vec(), 20_u64, Quality::Measured, (0_u8, 0_u8));
        let run = ("0.1", [""; 0].to_vec(), (1_u64, 2_u64), "6.1", "a CPU", BTreeMap::<u32, u32>::new());
        let fields = (run, 499_u32, Some(SampleEvent::CpuClock), true, vec![source]);
        let Record::Header(header) = read_as(7, 0, &fields) else { panic!("no header") };
        assert_eq!((header.sample_hz, header.jitter), (499, Jitter::NONE));
        assert_eq!((header.sample_event, header.system_wide), (Some(SampleEvent::CpuClock), true));
        assert_eq!(header.sources[0].id, SourceId::Powercap);

        let stack = (StackId::new(3), None::<StackId>, FrameId::new(4));
        assert!(matches!(read_as(7, 6, &stack), Record::Stack(id, _) if id == StackId::new(3)));
    }
}
