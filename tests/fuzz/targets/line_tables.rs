//! Any bytes as a line table of CPython, in all three forms.
#![no_main]

use energy_trace_unwind::cpython::lines::LineTable;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u32, u64, &[u8])| {
    let (first_line, index, table) = input;
    for form in [LineTable::Lnotab, LineTable::Ranges, LineTable::Locations] {
        form.line_of(table, first_line, index);
        form.line_of(table, first_line, index % (table.len() as u64 * 8 + 1));
    }
});
