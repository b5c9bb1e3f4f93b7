//! Any bytes as a recording, and any bytes as records with a good checksum: a recording whose ids all lead somewhere, or an error.
#![no_main]

use energy_trace_model::recording::file::read;
use energy_trace_model::recording::Recording;
use energy_trace_fuzz::{file_of, recording_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (raw, bytes) = input;
    let made = if raw { bytes.to_vec() } else { recording_of(bytes) };
    let (_open, path) = file_of(&made);
    if let Ok(recording) = read(&path) {
        check(&recording);
    }
});

fn check(recording: &Recording) {
    for (id, node) in recording.stacks.iter().enumerate() {
        assert!(node.frame.index() < recording.frames.len());
        assert!(node.parent.is_none_or(|parent| parent.index() < id));
    }
    for sample in &recording.samples {
        assert!(sample.stack.index() < recording.stacks.len());
        assert!(sample.thread.index() < recording.threads.len());
    }
}
