//! The recording file: what is written comes back, and nothing that a disk, a signal or a stranger does to it makes reading panic.

use super::records::{domain, frame, header, reading, records, sample, slice, unseen};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{BackgroundKey, CpuId, DomainId, FrameId, StackId, ThreadKey};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::file::{FileError, RecordingWriter, read};
use energy_trace_model::recording::record::{
    CpuOwner, Library, Name, Record, Sample, SensorValue, Slice, StackNode,
};
use energy_trace_model::units::MilliCelsius;
use energy_trace_sentences::recorded;
use proptest::prelude::*;
use std::fs;
use std::path::Path;

/// A writer on a new file.
fn create(path: &Path) -> RecordingWriter {
    RecordingWriter::over(fs::File::create(path).unwrap(), path).unwrap()
}

pub(crate) fn write_all(path: &Path, records: &[Record]) {
    let mut writer = create(path);
    for record in records {
        writer.write(record).unwrap();
    }
    writer.finish().unwrap();
}

fn read_bytes(bytes: &[u8]) -> Result<Recording, FileError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    fs::write(&path, bytes).unwrap();
    read(&path)
}

/// Bytes of a file in which every record is a chunk of its own.
fn file_of_small_chunks() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    let mut writer = create(&path);
    for record in records() {
        writer.write(&record).unwrap();
        writer.flush().unwrap();
    }
    writer.finish().unwrap();
    fs::read(&path).unwrap()
}

/// What is written comes back: tables, lists in order, names in their frames, no warning.
#[test]
fn a_recording_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    write_all(&path, &records());
    let recording = read(&path).unwrap();
    assert_eq!(recording.header, header());
    assert_eq!(recording.domains, [domain()]);
    assert_eq!(recording.cores, [[CpuId::new(0), CpuId::new(1)]]);
    let of_cpu = &recording.clocks[&CpuId::new(1)];
    assert_eq!(of_cpu.iter().map(|(_, clock)| clock.as_khz()).collect::<Vec<_>>(), [3_000_000, 800_000]);
    assert_eq!((recording.background.len(), recording.background[0].name.as_str()), (1, "cc1"));
    let strange = Slice { who: CpuOwner::Background(BackgroundKey::new(0)), ..slice(6_000, 7_000) };
    assert_eq!(recording.slices, [slice(2_000, 3_000), slice(5_000, 6_000), strange]);
    assert_eq!(recording.samples, [sample(2_500), sample(5_500)]);
    assert_eq!(recording.unsampled, [unseen(2_100, 2_200), unseen(5_600, 5_700)]);
    assert_eq!(recording.readings[&DomainId::new(0)], [reading(1_000, 5), reading(9_000, 80)]);
    let names: Vec<_> = recording.frames_of(StackId::new(1)).map(|(_, f)| f.name.as_str()).collect();
    assert_eq!(names, ["main", "sin"]);
    let public = recording.public_names.get("torch.nn.modules.conv", "Conv2d");
    assert_eq!(public, Some("torch.nn.Conv2d"));
    let [warm] = recording.sensors.as_slice() else { panic!() };
    let minus = Some(SensorValue::Temperature(MilliCelsius::from_mc(-1_500)));
    let at = KtimeNs::from_ns;
    assert_eq!(warm.values, [(at(2_000), None), (at(3_000), minus)]);
    assert_eq!(recording.sensor_cost.map(|cost| cost.rounds), Some(2));
    assert_eq!(recording.project.as_ref().and_then(|project| project.committed_s), Some(-5));
    assert_eq!(recording.input_sizes[0].inputs[0].name, "x");
    assert!(recording.summary.is_some());
    assert_eq!(recording.diagnostics, []);
}

/// A file that was cut at any byte loads up to the cut, with a warning and without a summary, or says why it cannot.
#[test]
fn cut_anywhere() {
    let whole = file_of_small_chunks();
    let mut loaded = 0;
    for length in 0..whole.len() {
        match read_bytes(&whole[..length]) {
            Ok(recording) => {
                loaded += 1;
                assert_eq!(recording.summary, None);
                assert_eq!(recording.diagnostics[0].code(), "recording-cut");
            }
            Err(FileError::Empty { .. }) => assert_eq!(length, 0),
            Err(FileError::NotARecording { .. }) => assert!(length < 13),
            Err(FileError::NothingReadable { .. }) => assert!(length < 200),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(loaded > whole.len() / 2);
}

/// A byte that flips anywhere is noticed: the file is refused, or cut before the damaged chunk.
#[test]
fn flipped_anywhere() {
    let whole = file_of_small_chunks();
    let version = 13..13 + env!("CARGO_PKG_VERSION").len();
    for position in (0..whole.len()).filter(|position| !version.contains(position)) {
        let mut bytes = whole.clone();
        bytes[position] ^= 0x10;
        if let Ok(recording) = read_bytes(&bytes) {
            assert_eq!(recording.summary, None, "byte {position}");
            assert!(recorded(&recording.diagnostics[0]).contains("byte"), "byte {position}");
        }
    }
}

/// A writer that is killed leaves what it flushed.
#[test]
fn killed_writer_leaves_a_readable_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    let mut writer = create(&path);
    let records = records();
    let (flushed, lost) = records.split_at(8);
    flushed.iter().for_each(|record| writer.write(record).unwrap());
    writer.flush().unwrap();
    lost.iter().for_each(|record| writer.write(record).unwrap());
    drop(writer);
    let recording = read(&path).unwrap();
    assert_eq!((recording.stacks.len(), recording.samples.len()), (2, 0));
    assert_eq!(recording.summary, None);
}

/// The writer thread's loop writes everything that was sent and ends when the senders are gone.
#[test]
fn a_channel_is_written_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    let writer = create(&path);
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || writer.write_from(&receive, &mut |_| ()));
    records().into_iter().for_each(|record| send.send(record).unwrap());
    drop(send);
    thread.join().unwrap().unwrap();
    assert!(read(&path).unwrap().summary.is_some());
}

/// What is learned about a frame after its samples is in their stacks when the file is read, each at its time.
#[test]
fn late_findings_are_in_the_stacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    let name = |name: &str| Name { name: name.to_owned(), file: "f.c".to_owned(), line: 3 };
    let mut all = records();
    all.push(Record::Inlined(FrameId::new(0), vec![name("put in")]));
    all.push(Record::Renamed(FrameId::new(1), KtimeNs::from_ns(5_000), name("cos")));
    all.push(Record::Library(Library { path: "libm.so".to_owned(), build_id: "00ff".to_owned() }));
    write_all(&path, &all);
    let recording = read(&path).unwrap();
    let names = |at: usize| -> Vec<&str> {
        recording.frames_of(recording.samples[at].stack).map(|(_, frame)| frame.name.as_str()).collect()
    };
    assert_eq!(names(0), ["main", "put in", "sin"]);
    assert_eq!(names(1), ["main", "put in", "cos"]);
    assert_eq!(recording.build_ids["libm.so"], "00ff");
}

/// Ids that no record defined, holes in a table and circular stacks end the recording there instead of panicking later.
#[test]
fn undefined_ids_are_damage() {
    let bad = [
        Record::Slices(vec![Slice { who: CpuOwner::Background(BackgroundKey::new(1)), ..slice(1, 2) }]),
        Record::Slices(vec![Slice { who: CpuOwner::Target(ThreadKey::new(1)), ..slice(1, 2) }]),
        Record::Samples(vec![Sample { stack: StackId::new(2), ..sample(1) }]),
        Record::Readings(DomainId::new(1), vec![]),
        Record::Frame(FrameId::new(7), frame("hole")),
        Record::Stack(StackId::new(2), StackNode { parent: None, frame: FrameId::new(9) }),
        Record::Stack(StackId::new(1), StackNode { parent: Some(StackId::new(1)), frame: FrameId::new(0) }),
        Record::Name(FrameId::new(u32::MAX), Name { name: String::new(), file: String::new(), line: 0 }),
        Record::Inlined(FrameId::new(2), vec![]),
        Record::Renamed(
            FrameId::new(2),
            KtimeNs::from_ns(1),
            Name { name: String::new(), file: String::new(), line: 0 },
        ),
        Record::Header(header()),
    ];
    for record in bad {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.data");
        let mut all = records();
        all.push(record.clone());
        write_all(&path, &all);
        let recording = read(&path).unwrap();
        assert_eq!(recording.summary, None, "{record:?}");
        assert_eq!(recording.samples.len(), 2, "{record:?}");
    }
}

/// Each kind of unreadable file has its own sentence, with the path in it.
#[test]
fn refusals_say_why() {
    let says = |bytes: &[u8]| read_bytes(bytes).unwrap_err().to_string();
    assert!(says(b"").contains("r.data is empty"));
    assert!(says(b"PERFILE2 and so on").contains("not a recording of energy-trace"));
    let mut newer = file_of_small_chunks();
    newer[8] = 200;
    let text = says(&newer);
    assert!(text.contains(&format!("written by energy-trace {}", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("format 200.") && text.contains("record again"), "{text}");
    assert!(says(&file_of_small_chunks()[..20]).contains("nothing that can be read"));
    assert!(read(Path::new("/nonexistent/x")).unwrap_err().to_string().contains("/nonexistent/x"));
}

/// A full disk is an error once, with the path, and no panic after it.
#[test]
fn a_full_disk_is_told_once() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let text = RecordingWriter::over(full, Path::new("/dev/full")).unwrap_err().to_string();
    assert!(text.contains("/dev/full") && text.contains("No space left"), "{text}");
}

/// A disk that fills up while recording (here: a limit on the file's size) is an error once; what was written stays readable.
#[test]
fn a_disk_that_fills_up_leaves_what_was_written() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.unwrap();
    let (soft, hard) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.data");
    let mut writer = create(&path);
    records()[..8].iter().for_each(|record| writer.write(record).unwrap());
    // Other tests of this process write far less than this.
    setrlimit(Resource::RLIMIT_FSIZE, 400_000, hard).unwrap();
    let batch = |i: u64| Record::Slices((0..1000).map(|j| slice(i * 1_000_000 + j * 999, i * 7)).collect());
    let errors: Vec<_> = (0..100).filter_map(|i| writer.write(&batch(i)).err()).collect();
    let finished = writer.finish();
    setrlimit(Resource::RLIMIT_FSIZE, soft, hard).unwrap();
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert!(error.to_string().contains("r.data"), "{error}");
    assert!(finished.is_ok(), "the error was told already");
    let recording = read(&path).unwrap();
    assert_eq!(recording.diagnostics[0].code(), "recording-cut");
    assert!(recording.slices.len() > 10_000 && recording.slices.len() < 100_000);
}

/// Chunks around any payload, with their checksums right: the decoder itself is fuzzed, not only the checksum.
fn framed(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = file_of_small_chunks();
    for payload in payloads {
        let mut covered = vec![1];
        covered.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
        let head = covered.clone();
        covered.extend(payload);
        bytes.extend(head);
        bytes.extend(crc32fast::hash(&covered).to_le_bytes());
        bytes.extend(payload);
    }
    bytes
}

proptest! {
    /// No bytes at all make reading panic.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_bytes(&bytes);
    }

    /// No payload with a right checksum makes reading panic.
    #[test]
    fn any_payload(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..4)) {
        let _ = read_bytes(&framed(&payloads));
    }
}
