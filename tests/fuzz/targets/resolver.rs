//! Any question about any files, as the resolver's worker answers it: facts, rows, rules, names, debug files, perf maps, jitdumps. An answer
//! comes, or a text that says what is wrong with the file.
#![no_main]

use arbitrary::Arbitrary;
use energy_trace_foreign::resolver::question::{Fault, Histories, NameFacts, PlainRule, Question, RowsHead};
use energy_trace_foreign::resolver::serve::serve;
use energy_trace_system::roles::channel::Channel;
use energy_trace_symbols::{Detail, Place, Proof};
use energy_trace_unwind::elf::ElfFacts;
use energy_trace_fuzz::file_of;
use libfuzzer_sys::fuzz_target;
use nix::sys::socket::{Shutdown, shutdown};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    kind: u8,
    inlines: bool,
    numbers: (u64, u64),
    wanted: Vec<u64>,
    crc: u32,
    /// Bytes of the second file, which is the first again where there are none.
    other: &'a [u8],
    bytes: &'a [u8],
}

/// Bytes of an answer at the most, which the socket holds.
const MOST: usize = 64 << 20;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(8));

fuzz_target!(|input: Input<'_>| {
    let Ok((ours, theirs)) = Channel::pair() else { return };
    let (file, _path) = file_of(input.bytes);
    let other = if input.other.is_empty() { input.bytes } else { input.other };
    let (other, _path) = file_of(other);
    let mut wanted = input.wanted;
    wanted.sort_unstable();
    wanted.dedup();
    let worker = std::thread::spawn(move || serve(&theirs));
    let ask = |question: &Question, files: usize| {
        let files = &[file.as_fd(), other.as_fd()][..files];
        assert!(ours.send(question, files, PATIENCE).is_ok());
    };
    let (base, entry) = input.numbers;
    match input.kind % 7 {
        0 => {
            ask(&Question::Facts { wanted: vec!["_PyRuntime".into(), "main".into()] }, 1);
            let _facts = answer::<ElfFacts>(&ours);
        }
        1 => {
            ask(&Question::Rows { base, entry }, 1);
            let _rows = answer::<RowsHead>(&ours);
        }
        2 => {
            ask(&Question::Keep { number: 1 }, 1);
            let _facts = answer::<ElfFacts>(&ours);
            for svma in wanted.iter().copied().take(16).chain([base, entry]) {
                ask(&Question::Rule { number: 1, svma }, 0);
                let _rule = answer::<PlainRule>(&ours);
            }
        }
        3 => {
            ask(&Question::NameFacts, 1);
            let _facts = answer::<NameFacts>(&ours);
        }
        4 => {
            let detail = Detail { inlines: input.inlines, ..Detail::default() };
            let question = Question::Names { offsets: wanted, detail, proofs: vec![Proof::Crc32(input.crc)] };
            ask(&question, 2);
            let _names = answer::<Vec<Place>>(&ours);
        }
        5 => {
            ask(&Question::PerfMap { wanted }, 1);
            let _names = answer::<Vec<(u64, String)>>(&ours);
        }
        _ => {
            ask(&Question::JitDump { wanted }, 1);
            let _histories = answer::<Histories>(&ours);
        }
    }
    let _closed = shutdown(ours.as_fd().as_raw_fd(), Shutdown::Both);
    assert!(worker.join().is_ok(), "the worker panicked");
});

fn answer<T: serde::de::DeserializeOwned>(from: &Channel) -> Option<T> {
    let (answer, _files) = from.receive::<Result<T, Fault>>(MOST, PATIENCE).expect("an answer");
    answer.ok()
}
