//! Marks samples of threads that wait for a GPU: `[GPU wait]` becomes the innermost frame of their stacks.
//!
//! Drivers wait by spinning unless they are told otherwise, so that waiting costs CPU energy, and the recording knows when each wait began
//! and ended. It is worked into the stacks when a recording is read, so that whoever uses it sees plain stacks. Leaves out what the GPU
//! itself spends meanwhile, which is its launches'.

use super::record::StackNode;
use super::synthetic_frame::SyntheticFrame;
use super::tables::Recording;
use crate::clock::KtimeNs;
use crate::collections::Order as _;
use crate::ids::{FrameId, StackId, ThreadKey};
use std::collections::HashMap;

/// Marks the samples that lie in waits.
pub(super) fn mark_gpu_waits(to: &mut Recording) {
    let mut waits: HashMap<ThreadKey, Vec<(KtimeNs, KtimeNs)>> = HashMap::new();
    for wait in &to.gpu.waits {
        waits.entry(wait.thread).or_default().push((wait.from, wait.until));
    }
    if waits.is_empty() {
        return;
    }
    waits.values_mut().for_each(|of_thread| of_thread.order());
    let waiting = |thread: ThreadKey, at: KtimeNs| {
        let of_thread = waits.get(&thread).map_or(&[][..], Vec::as_slice);
        let before = of_thread.partition_point(|(from, _)| *from <= at);
        // A wait may lie within another: one call waits by another.
        of_thread[..before].iter().rev().take(2).any(|(_, until)| at < *until)
    };
    let frame = FrameId::new(u32::try_from(to.frames.len()).unwrap_or(u32::MAX));
    let mut marked: HashMap<StackId, StackId> = HashMap::new();
    for sample in to.samples.iter_mut().filter(|sample| waiting(sample.thread, sample.at)) {
        let stacks = &mut to.stacks;
        sample.stack = *marked.entry(sample.stack).or_insert_with_key(|&parent| {
            stacks.push(StackNode { parent: Some(parent), frame });
            StackId::new(u32::try_from(stacks.len() - 1).unwrap_or(u32::MAX))
        });
    }
    if !marked.is_empty() {
        to.frames.push(SyntheticFrame::GpuWait.frame());
    }
}

#[cfg(test)]
mod tests {
    use crate::clock::KtimeNs;
    use crate::ids::{CpuId, FrameId, Pid, ProcessKey, StackId, ThreadKey, Tid};
    use crate::recording::assembly::Assembly;
    use crate::recording::record::{
        Frame, FrameKind, GpuWait, Header, Process, Record, Sample, StackNode, StackStatus, Thread,
    };

    fn header() -> Header {
        Header { sample_hz: 99, ..Header::default() }
    }

    /// Samples within a wait of their own thread get the mark, at its first moment too; those after it and of other threads do not.
    #[test]
    fn samples_in_waits_are_marked() {
        let (process, stack, at) = (ProcessKey::new(0), StackId::new(0), KtimeNs::from_ns);
        let name = String::new;
        let thread = |key| Thread { key: ThreadKey::new(key), process, tid: Tid::new(7 + key), name: name() };
        let frame = Frame {
            kind: FrameKind::Native,
            name: "spin".to_owned(),
            module: name(),
            file: name(),
            line: 0,
            first_line: 0,
            address: 0,
        };
        let sample = |ns, key| Sample {
            at: at(ns),
            cpu: CpuId::new(0),
            thread: ThreadKey::new(key),
            stack,
            status: StackStatus::Complete,
        };
        let wait = GpuWait { thread: ThreadKey::new(0), device: 0, from: at(10), until: at(20) };
        let records = [
            Record::Header(header()),
            Record::Process(Process {
                key: process,
                pid: Pid::new(7),
                parent: None,
                name: name(),
                command: vec![],
                runtime: None,
            }),
            Record::Thread(thread(0)),
            Record::Thread(thread(1)),
            Record::Frame(FrameId::new(0), frame),
            Record::Stack(stack, StackNode { parent: None, frame: FrameId::new(0) }),
            Record::Samples(vec![sample(10, 0), sample(15, 1), sample(19, 0), sample(20, 0)]),
            Record::GpuWaits(vec![wait]),
        ];
        let mut assembly = Assembly::default();
        records.into_iter().for_each(|record| assembly.add(record).unwrap());
        let recording = assembly.finish().unwrap();
        let text = |sample: &Sample| {
            recording
                .frames_of(sample.stack)
                .map(|(_, frame)| frame.name.clone())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let seen: Vec<String> = recording.samples.iter().map(text).collect();
        assert_eq!(seen, ["spin [GPU wait]", "spin", "spin [GPU wait]", "spin"]);
    }
}
