//! The worlds made of recorded programs: how a recording becomes a truth, and that counter, truth and ledger agree.
//!
//! Leaves out how well energy is attributed in them: that is a benchmark (`cargo xtask bench accuracy --traced`).

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, DomainId, FrameId, Pid, ProcessKey, SocketId, StackId, ThreadKey, Tid};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::{
    CounterValue, CpuOwner, Frame, FrameKind, Header, Origin, Process, Sample, Slice, StackNode, StackStatus,
    Summary, Thread,
};
use energy_trace_scenarios::traced::{Drawn, Kind, Machine, Trace, record};
use energy_trace_scenarios::worlds::SECOND;
use energy_trace_scenarios::worlds::measure::measure;
use energy_trace_scenarios::worlds::real::Chip;
use energy_trace_scenarios::worlds::recording::Recorder;
use energy_trace_scenarios::worlds::schedule::Piece;

const START: u64 = 77 * SECOND;
const RECORDER: Recorder = Recorder::usual(99);

/// Frames and their callers: two Python functions at the top, each of which calls `work`; one of them at two lines.
fn stacks() -> (Vec<Frame>, Vec<StackNode>) {
    let frame = |kind, name: &str, line| Frame {
        kind,
        name: name.to_owned(),
        module: "m".to_owned(),
        file: String::new(),
        line,
        first_line: 0,
        address: 0,
    };
    let python = FrameKind::Python;
    let frames = vec![
        frame(python, "forward", 3),
        frame(python, "backward", 9),
        frame(FrameKind::Native, "work", 0),
        frame(python, "forward", 4),
        frame(FrameKind::Native, "copy", 0),
    ];
    let node = |parent: Option<u32>, frame| StackNode {
        parent: parent.map(StackId::new),
        frame: FrameId::new(frame),
    };
    let nodes = vec![
        node(None, 0),
        node(None, 1),
        node(None, 3),
        node(Some(0), 2),
        node(Some(1), 2),
        node(Some(2), 2),
        node(Some(0), 4),
    ];
    (frames, nodes)
}

/// One thread on CPU 0, sampled at 1,000 Hz: slices and samples in microseconds from the start.
fn trace(slices: &[(u64, u64)], samples: &[(u64, u32)]) -> Trace {
    let at = |us: u64| KtimeNs::from_ns(START + us * 1_000);
    let thread = ThreadKey::new(0);
    let slice = |&(start, end): &(u64, u64)| Slice {
        cpu: CpuId::new(0),
        who: CpuOwner::Target(thread),
        start: at(start),
        end: at(end),
    };
    let sample = |&(us, stack): &(u64, u32)| Sample {
        at: at(us),
        cpu: CpuId::new(0),
        thread,
        stack: StackId::new(stack),
        status: StackStatus::Complete,
    };
    let process = Process {
        key: ProcessKey::new(0),
        pid: Pid::new(7),
        parent: None,
        name: String::new(),
        command: vec![],
        runtime: None,
    };
    let (frames, nodes) = stacks();
    let end = slices.iter().map(|slice| slice.1).max().unwrap_or(0);
    let recording = Recording {
        header: Header {
            sample_hz: 1_000,
            sockets: [(CpuId::new(0), SocketId::new(0))].into(),
            ..Header::default()
        },
        frames,
        stacks: nodes,
        processes: vec![process],
        threads: vec![Thread {
            key: thread,
            process: ProcessKey::new(0),
            tid: Tid::new(7),
            name: String::new(),
        }],
        slices: slices.iter().map(slice).collect(),
        samples: samples.iter().map(sample).collect(),
        summary: Some(Summary { start: at(0), end: at(end), ..Summary::default() }),
        ..Recording::default()
    };
    Trace::of(recording).expect("a recording with an end")
}

/// What ran how long, in microseconds: a stack, or nothing.
fn ran(trace: &Trace) -> Vec<(Option<u32>, u64)> {
    let drawn = Drawn::new(&trace.recording, Kind::Leaf, 1);
    let what = |piece: &Piece| ((!piece.stolen).then_some(piece.path), (piece.to - piece.from) / 1_000);
    trace.pieces(&drawn).iter().map(what).collect()
}

/// Time is cut half-way between samples; where twenty are missing, the CPU was taken away but for half a period beside each sample.
#[test]
fn time_belongs_to_the_nearest_sample() {
    let trace = trace(&[(0, 100_000)], &[(10_000, 3), (20_000, 4), (60_000, 4)]);
    let expected = [
        (Some(3), 10_000),
        (Some(3), 5_000),
        (Some(4), 5_000),
        (Some(4), 500),
        (None, 39_000),
        (Some(4), 500),
        (Some(4), 1_000),
        (None, 39_000),
    ];
    assert_eq!(ran(&trace), expected);
}

/// A short slice without a sample does what its thread was seen to do next to it.
#[test]
fn slices_without_a_sample() {
    let trace = trace(&[(0, 10_000), (20_000, 21_000), (30_000, 40_000)], &[(9_000, 3), (31_000, 4)]);
    let whats: Vec<(Option<u32>, u64)> = ran(&trace);
    assert!(whats.contains(&(Some(4), 1_000)), "{whats:?}");
    assert_eq!(whats.iter().map(|what| what.1).sum::<u64>(), 21_000);
}

/// Who shares watts with whom in each kind of world.
#[test]
fn kinds_of_watts() {
    let trace = trace(&[(0, 1_000)], &[]);
    let watts = |kind, stack| Drawn::new(&trace.recording, kind, 5).watts(StackId::new(stack));
    let same = |kind, a, b| (watts(kind, a) - watts(kind, b)).abs() < 1e-9;
    // 3, 5: `work` called by `forward` at two lines; 4: by `backward`; 6: `copy` called by `forward` at the first line.
    let relations = |kind| [same(kind, 3, 5), same(kind, 3, 4), same(kind, 3, 6)];
    assert_eq!(relations(Kind::Even), [true, true, true]);
    assert_eq!(relations(Kind::Leaf), [true, true, false]);
    assert_eq!(relations(Kind::LeafAndCaller), [true, false, false]);
    assert_eq!(relations(Kind::Call), [false, false, true]);
}

/// The counter shows what the stacks spent and 12 W of idle power, on a machine as it is described and on real ones; the ledger is exact.
#[test]
fn counter_truth_and_ledger() {
    for machine in [Machine::Described, Machine::Real(Chip::IceLake), Machine::Real(Chip::Broadwell)] {
        counter_and_truth(machine);
    }
}

fn counter_and_truth(machine: Machine) {
    let samples: Vec<(u64, u32)> =
        (0..4_000).map(|ms| (ms * 1_000 + 300, 3 + (ms / 40 % 3) as u32)).collect();
    let trace = trace(&[(0, 4_000_000)], &samples);
    let (recording, truth) = record(&trace, (Kind::LeafAndCaller, machine), RECORDER, 3);
    let spent: f64 = truth.stacks.iter().map(|(_, joules)| joules).sum();
    let readings: Vec<(u64, i64)> = recording.readings[&DomainId::new(0)]
        .iter()
        .filter_map(|reading| match reading.value {
            CounterValue::MicroJoules(value) => Some((reading.at.as_ns(), value as i64)),
            _ => None,
        })
        .collect();
    let Origin::Counter { max_range: Some(range), .. } = &recording.domains[0].origin else {
        panic!("a counter with a range")
    };
    let steps = readings.windows(2).map(|pair| (pair[1].1 - pair[0].1).rem_euclid(range.as_uj() + 1));
    let shown = steps.sum::<i64>() as f64 / 1e6;
    let seconds = (readings[readings.len() - 1].0 - readings[0].0) as f64 / 1e9;
    // Behind the end of the recording the thread's slices end too.
    let expected = spent + 12.0 * seconds;
    assert!((shown / expected - 1.0).abs() < 0.02, "{shown} J shown, {expected} J spent");
    let samples = recording.samples.len() as f64;
    assert!((samples / (99.0 * 4.0) - 1.0).abs() < 0.1, "{samples} samples in 4 s at 99 Hz");
    let outcome = measure(&recording, &truth, 3);
    assert_eq!(outcome.imbalance_uj, 0);
    assert!((outcome.target.0 / spent - 1.0).abs() < 1e-9);
    assert!(!outcome.nodes.is_empty());
}
