//! The native walker on any memory and any rows: always upwards, and to an end. Scans and resumptions too.
#![no_main]

use arbitrary::Arbitrary;
use energy_trace_fuzz::Arena;
use libfuzzer_sys::fuzz_target;
use tracer_ebpf::native::{NativeWalk, Tables, resume, step};
use tracer_ebpf::rows::{Rule, rule};
use tracer_ebpf::scan::{Found, find_caller, follow_frame_pointer};
use tracer_ebpf::wire::{MAX_FRAMES, PythonLayout, end};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    pc: u64,
    sp: u64,
    fp: u64,
    returned: bool,
    anchor: u64,
    eval: (u32, u32),
    rules: Vec<u32>,
    memory: &'a [u8],
}

/// Rules by address, whatever bits they have.
struct Rules<'a>(&'a [u32]);

impl Tables for Rules<'_> {
    fn rule(&mut self, pc: u64) -> Result<Rule, u8> {
        if self.0.is_empty() || pc >> 60 == 15 {
            return Err(end::UNMAPPED);
        }
        Ok(Rule(self.0[(pc / 16 % self.0.len() as u64) as usize]))
    }
}

fuzz_target!(|input: Input<'_>| {
    let (memory, mut rules) = (Arena::of(input.memory), Rules(&input.rules));
    let from = NativeWalk {
        pc: input.pc,
        sp: input.sp,
        fp: input.fp,
        returned: u64::from(input.returned),
        ..NativeWalk::default()
    };
    walk(from, &mut rules, &memory);
    if let Some(Found::Proved(found) | Found::Guessed(found)) = find_caller(&from, &mut rules, &memory) {
        walk(found, &mut rules, &memory);
    }
    if let Some((found, _)) = follow_frame_pointer(&from, &mut rules, &memory) {
        walk(found, &mut rules, &memory);
    }
    let layout = PythonLayout { eval_cfa: input.eval.0, eval_fp: input.eval.1, ..PythonLayout::default() };
    if let Some(found) = resume(input.anchor, &layout, &memory) {
        walk(found, &mut rules, &memory);
    }
});

fn walk(mut walk: NativeWalk, rules: &mut Rules<'_>, memory: &Arena<'_>) {
    for _ in 0..MAX_FRAMES {
        let (before, kind) = (walk, rules.rule(walk.pc.wrapping_sub(walk.returned)).map(Rule::kind));
        let (_, code) = step(&mut walk, rules, memory);
        if code != end::RUNNING {
            return;
        }
        assert!(kind == Ok(rule::SIGNAL) || walk.sp > before.sp);
    }
}
