//! Any bytes as a perf map: names for no more than the addresses asked for.
#![no_main]

use energy_trace_symbols::perf_map::read_map;
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fuzz_target!(|input: (Vec<u64>, &[u8])| {
    let (mut wanted, bytes) = input;
    // What is short is more often hit.
    wanted.extend([0, 0x10, 0x1000]);
    wanted.sort_unstable();
    wanted.dedup();
    let names = read_map(Cursor::new(bytes), &wanted);
    assert!(names.keys().all(|address| wanted.binary_search(address).is_ok()));
});
