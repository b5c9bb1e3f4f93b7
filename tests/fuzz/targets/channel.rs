//! Any bytes from a worker that has been taken over, where the recorder waits for an answer: a message of the type, or an error; and never
//! more memory than was allowed.
#![no_main]

use energy_trace_foreign::resolver::question::{Fault, Histories, NameFacts, PlainRule, RowsHead};
use energy_trace_system::roles::channel::Channel;
use energy_trace_unwind::elf::ElfFacts;
use libfuzzer_sys::fuzz_target;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

fuzz_target!(|input: (u8, bool, &[u8])| {
    let (kind, framed, bytes) = input;
    let Ok((mut theirs, ours)) = UnixStream::pair() else { return };
    let mut sent = Vec::new();
    if framed {
        sent.extend(u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes());
        sent.extend([0; 4]);
    }
    sent.extend(bytes);
    if sent.len() > 100_000 || theirs.write_all(&sent).is_err() {
        return;
    }
    drop(theirs);
    let channel = Channel::over(ours.into());
    let (most, patience) = (1 << 20, Some(Duration::from_secs(5)));
    match kind % 5 {
        0 => drop(channel.receive::<Result<ElfFacts, Fault>>(most, patience)),
        1 => drop(channel.receive::<Result<RowsHead, Fault>>(most, patience)),
        2 => drop(channel.receive::<Result<PlainRule, Fault>>(most, patience)),
        3 => drop(channel.receive::<Result<NameFacts, Fault>>(most, patience)),
        _ => drop(channel.receive::<Result<Histories, Fault>>(most, patience)),
    }
});
