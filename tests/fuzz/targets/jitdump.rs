//! Any bytes as a jitdump, with and without its header: histories in order of time, for no more than the addresses asked for.
#![no_main]

use energy_trace_symbols::jitdump::read_dump;
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fuzz_target!(|input: (bool, u8, Vec<u64>, &[u8])| {
    let (with_header, flags, mut wanted, records) = input;
    wanted.extend([0, 0x10, 0x1000]);
    wanted.sort_unstable();
    wanted.dedup();
    let mut bytes = Vec::new();
    if with_header {
        for half in [0x4A69_5444_u32, 1, 40, 62, 0, 1, 0, 0, u32::from(flags), 0] {
            bytes.extend(half.to_ne_bytes());
        }
    }
    bytes.extend(records);
    if let Ok(histories) = read_dump(Cursor::new(bytes), &wanted) {
        for (address, history) in histories {
            assert!(wanted.binary_search(&address).is_ok());
            assert!(history.is_sorted_by_key(|(at, _)| *at));
        }
    }
});
