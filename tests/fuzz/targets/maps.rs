//! Any text as `/proc/PID/maps`: mappings in order, and an address is found only where it is mapped.
#![no_main]

use energy_trace_unwind::address_space::AddressSpace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &str)| {
    let (address, text) = input;
    let space = AddressSpace::parse(text);
    assert!(space.mappings().is_sorted_by_key(|mapping| mapping.start));
    for address in space.mappings().iter().map(|mapping| mapping.start).chain([address]) {
        if let Some(found) = space.find(address) {
            assert!((found.start..found.end).contains(&address));
        }
    }
});
