//! Rules that eight bytes cannot say, live: code whose caller is found by `r10`, by `rbx`, and by an `rbx` that a callee saved.
//!
//! This program is its own target: it records itself while it runs an ignored test that does nothing but compute in such code.

use energy_trace_model::recording::record::StackStatus;
use energy_trace_tests::place::{Place, assert_code};
use nix::time::{ClockId, clock_gettime};
use std::arch::global_asm;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

global_asm!(
    // As gcc begins functions that realign their stack, with work where only r10 knows the caller.
    ".globl rules_by_r10",
    ".type rules_by_r10, @function",
    "rules_by_r10:",
    ".cfi_startproc",
    "lea r10, [rsp + 8]",
    ".cfi_def_cfa 10, 0",
    "and rsp, -64",
    "push [r10 - 8]",
    "2: dec rdi",
    "jnz 2b",
    "lea rsp, [r10 - 8]",
    ".cfi_def_cfa 7, 8",
    "ret",
    ".cfi_endproc",
    ".size rules_by_r10, . - rules_by_r10",
    // As Intel's compiler makes functions that realign their stack; it calls one that saves rbx and uses it for something else.
    ".globl rules_by_rbx",
    ".type rules_by_rbx, @function",
    "rules_by_rbx:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset 3, -16",
    "mov rbx, rsp",
    ".cfi_def_cfa_register 3",
    "and rsp, -64",
    "sub rsp, 256",
    "mov rsi, rdi",
    "2: dec rsi",
    "jnz 2b",
    "call rules_saving_rbx",
    "mov rsp, rbx",
    ".cfi_def_cfa_register 7",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size rules_by_rbx, . - rules_by_rbx",
    ".globl rules_saving_rbx",
    ".type rules_saving_rbx, @function",
    "rules_saving_rbx:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset 3, -16",
    "mov rbx, rdi",
    "2: dec rbx",
    "jnz 2b",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size rules_saving_rbx, . - rules_saving_rbx",
);

unsafe extern "C" {
    fn rules_by_r10(turns: u64);
    fn rules_by_rbx(turns: u64);
}

#[inline(never)]
fn compute_by_rules() {
    const TURNS: u64 = 3_000_000;
    // Long enough on a busy machine too: its tables are made by a thread that competes with everything else.
    let (end, enough) = (Instant::now() + Duration::from_secs(4), Duration::from_millis(1500));
    let used = || clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    while Instant::now() < end || Duration::from(used()) < enough {
        // SAFETY: both keep to the C calling convention and touch nothing but their own frames.
        unsafe {
            rules_by_r10(TURNS);
            rules_by_rbx(TURNS);
        }
    }
}

/// What the other test records.
#[test]
#[ignore = "computes and shows nothing by itself"]
fn target() {
    compute_by_rules();
}

/// Every whole stack through such code has the function that called it, and nearly all are whole once the tables are there.
#[test]
fn callers_are_found_by_other_registers() {
    let place = Place::new(env!("CARGO_BIN_EXE_energy-trace"));
    let itself = std::env::current_exe().unwrap();
    let options = ["record", "--power", "none", "--no-svg", "-F", "199", "--"];
    let target = [itself.to_str().unwrap(), "--ignored", "--exact", "unwind::rules::target"];
    assert_code(&place.run(&options.into_iter().chain(target).collect::<Vec<_>>()), 0);
    let recording = energy_trace_model::recording::file::read(&place.path("energy-trace.data")).unwrap();
    let mut whole: BTreeMap<String, u32> = BTreeMap::new();
    let (mut unsupported, mut samples) = (0, 0);
    for sample in &recording.samples {
        let names: Vec<&str> =
            recording.frames_of(sample.stack).map(|(_, frame)| frame.name.as_str()).collect();
        let Some(at) = names.iter().position(|name| name.starts_with("rules_")) else { continue };
        samples += 1;
        match sample.status {
            StackStatus::Complete => {
                assert!(at > 0 && names[at - 1].contains("compute_by_rules"), "{names:?}");
                *whole.entry(names[at..].join(";")).or_default() += 1;
            }
            StackStatus::Truncated(energy_trace_model::recording::record::Truncation::UnsupportedRule) => {
                unsupported += 1;
            }
            _ => (),
        }
    }
    eprintln!("{whole:?} of {samples}");
    assert_eq!(unsupported, 0);
    for stack in ["rules_by_r10", "rules_by_rbx", "rules_by_rbx;rules_saving_rbx"] {
        assert!(whole.get(stack).is_some_and(|count| *count > 5), "{stack}: {whole:?} of {samples}");
    }
}
