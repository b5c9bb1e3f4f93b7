//! Merged files: every part comes back as it was, whatever happens to the file behind it.

use super::file::write_all;
use super::records::records;
use energy_trace_model::recording::file::read;
use energy_trace_model::recording::merging::{ToMerge, merge};
use energy_trace_model::recording::record::{CutReason, Host, Record, RecordingDiagnostic};
use energy_trace_model::recording::{Part, Recording};
use std::fs::{self, File};
use std::path::Path;

/// Merges files, each under its label.
fn merge_files(to: &Path, from: &[(&str, &Path)], parts: u32) {
    let inputs = from.iter().map(|&(label, path)| ToMerge { label, from: File::open(path).unwrap(), path });
    let mut out = Vec::new();
    merge(&mut out, to, inputs.collect(), parts).unwrap();
    fs::write(to, out).unwrap();
}

fn labels(recording: &Recording) -> Vec<&str> {
    recording.parts.iter().map(|part| part.label.as_str()).collect()
}

/// Parts are the recordings, to the last number; a merged file that is merged again gives its parts, below its label.
#[test]
fn parts_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_all(&path("a"), &records());
    let mut other = records();
    other.insert(1, Record::Host(Host { name: "node7".into(), boot: "b".into() }));
    write_all(&path("b"), &other);
    let alone = ["a", "b"].map(|name| read(&path(name)).unwrap());
    assert_eq!(alone[1].host.as_ref().unwrap().name, "node7");
    merge_files(&path("job"), &[("rank0", &path("a")), ("rank1", &path("b"))], 2);
    let job = read(&path("job")).unwrap();
    let [a, b] = alone;
    let wanted = [Part { label: "rank0".into(), recording: a }, Part { label: "rank1".into(), recording: b }];
    assert_eq!(job, Recording { parts: wanted.clone().into(), ..Recording::default() });
    merge_files(&path("all"), &[("job", &path("job")), ("more", &path("a"))], 3);
    let all = read(&path("all")).unwrap();
    assert_eq!(labels(&all), ["job/rank0", "job/rank1", "more"]);
    assert_eq!(all.parts[1].recording, wanted[1].recording);
    assert!(all.diagnostics.is_empty());
}

/// Cut anywhere, a merged file has the parts before the cut whole, and says how many it had; nothing panics.
#[test]
fn cuts_stay_local() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_all(&path("a"), &records());
    let alone = read(&path("a")).unwrap();
    merge_files(&path("job"), &[("rank0", &path("a")), ("rank1", &path("a"))], 2);
    let bytes = fs::read(path("job")).unwrap();
    let half = bytes.len() - fs::read(path("a")).unwrap().len();
    for length in 0..bytes.len() {
        fs::write(path("cut"), &bytes[..length]).unwrap();
        let Ok(cut) = read(&path("cut")) else { continue };
        let said = cut.diagnostics.iter().any(|found| {
            matches!(found, RecordingDiagnostic::RecordingCut { reason: CutReason::Parts { of: 2, .. }, .. })
        });
        let ends_early = cut.parts.iter().any(|part| part.recording.summary.is_none());
        assert!(said || ends_early, "{length} of {}", bytes.len());
        if length > half + 64 {
            assert_eq!(cut.parts[0], Part { label: "rank0".into(), recording: alone.clone() });
        }
    }
}

/// A recording that was cut off before it was merged is as cut as before, and the others whole.
#[test]
fn a_cut_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_all(&path("a"), &records());
    let mut early = records();
    early.pop();
    write_all(&path("b"), &early);
    merge_files(&path("job"), &[("rank0", &path("b")), ("rank1", &path("a"))], 2);
    let job = read(&path("job")).unwrap();
    assert_eq!(labels(&job), ["rank0", "rank1"]);
    assert!(job.parts[0].recording.summary.is_none() && job.parts[1].recording.summary.is_some());
    let found = &job.parts[0].recording.diagnostics;
    assert!(
        matches!(found[..], [RecordingDiagnostic::RecordingCut { reason: CutReason::NoEnd, .. }]),
        "{found:?}"
    );
}
