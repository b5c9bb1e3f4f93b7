//! `.eh_frame` of any bytes at any address: rows in order, one for each address, of kinds that the probes know; a rule in full is there.
#![no_main]

use energy_trace_unwind::cfi::{Rows, build_rows};
use energy_trace_unwind::elf::EhFrame;
use libfuzzer_sys::fuzz_target;
use tracer_ebpf::rows::{Rule, rule};

fuzz_target!(|input: (u64, u64, &[u8])| {
    let (svma, base, data) = input;
    let Rows { rows, full, .. } = build_rows(&EhFrame { data: data.to_vec(), svma }, base);
    for pair in rows.windows(2) {
        assert!(pair[0] >> 32 < pair[1] >> 32 && pair[0] as u32 != pair[1] as u32);
    }
    let rules = || rows.iter().map(|&row| Rule(row as u32));
    assert!(rules().all(|rule| rule.kind() <= rule::FULL));
    assert!(
        rules().filter(|rule| rule.kind() == rule::FULL).all(|rule| (rule.index() as usize) < full.len())
    );
});
