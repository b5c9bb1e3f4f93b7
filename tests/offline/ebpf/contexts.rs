//! What a BPF program may touch in the context that it runs in, read off the built programs: calls, helpers and maps, through all functions.
//!
//! A sample may come in an NMI, which no lock keeps off. A program that can run there may take no lock that anything else of the same CPU may
//! hold when it is interrupted: it writes one ring buffer, which no other program writes, and calls no helper with a lock beside that. This
//! needs no hardware counters, no kernel and no root: a change that breaks the rule fails here on every machine. Which contexts there are and
//! why these helpers have no lock is in docs/architecture.md. `ENERGY_TRACE_PROBES` names another object, such as an older one.

use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex, SymbolIndex,
    SymbolKind, SymbolSection,
};
use std::collections::{BTreeMap, BTreeSet};

/// Helpers without a lock, by number (include/uapi/linux/bpf.h, v6.18): look-ups by RCU, the CPU's own facts, reads that fail rather than fault,
/// the stack walk of the kernel, a ring's counters, random numbers of the CPU's own.
const WITHOUT_LOCK: [(i32, &str); 13] = [
    (1, "map_lookup_elem"),
    (5, "ktime_get_ns"),
    (7, "get_prandom_u32"),
    (8, "get_smp_processor_id"),
    (14, "get_current_pid_tgid"),
    (16, "get_current_comm"),
    (35, "get_current_task"),
    (67, "get_stack"),
    (112, "probe_read_user"),
    (113, "probe_read_kernel"),
    (134, "ringbuf_query"),
    (158, "get_current_task_btf"),
    (175, "task_pt_regs"),
];
/// The one helper with a lock: that of its ring.
const RINGBUF_OUTPUT: i32 = 130;
/// `BPF_MAP_TYPE_RINGBUF`.
const RINGBUF: u32 = 27;
/// `BPF_PSEUDO_CALL`, in the source register of a call.
const TO_FUNCTION: u8 = 1;
/// An atomic instruction on 64 bits, and the number by which it exchanges.
const ATOMIC: u8 = 0xdb;
const EXCHANGE: i32 = 0xe1;

/// What a function does itself.
#[derive(Debug, Default)]
struct Body {
    calls: BTreeSet<String>,
    helpers: BTreeSet<i32>,
    maps: BTreeSet<String>,
    /// Whether it has an exchange, an instruction of Linux 5.12.
    exchanges: bool,
    /// Bytes of its frame.
    stack: u64,
}

/// The built programs.
struct Built {
    bodies: BTreeMap<String, Body>,
    /// Those that are attached, and the section that says to what.
    programs: BTreeMap<String, String>,
    /// Maps that are ring buffers.
    rings: BTreeSet<String>,
}

impl Built {
    fn read() -> Self {
        let path = std::env::var("ENERGY_TRACE_PROBES").unwrap_or_else(|_| {
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/bpf/energy-trace-probes").into()
        });
        let bytes = std::fs::read(path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let mut built = Self { bodies: BTreeMap::new(), programs: BTreeMap::new(), rings: BTreeSet::new() };
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
            let SymbolSection::Section(index) = symbol.section() else { continue };
            let section = file.section_by_index(index).unwrap();
            let name = symbol.name().unwrap().to_owned();
            built.bodies.insert(name.clone(), body(&file, &symbol, &section));
            if section.name() != Ok(".text") {
                built.programs.insert(name, section.name().unwrap().to_owned());
            }
        }
        for symbol in file.symbols() {
            let SymbolSection::Section(index) = symbol.section() else { continue };
            let section = file.section_by_index(index).unwrap();
            if section.name() == Ok("maps") && symbol.size() > 0 {
                let at = symbol.address() as usize;
                let kind = u32::from_le_bytes(section.data().unwrap()[at..at + 4].try_into().unwrap());
                if kind == RINGBUF {
                    built.rings.insert(symbol.name().unwrap().to_owned());
                }
            }
        }
        built
    }

    /// What a program does with all functions that it may call.
    fn reached_from(&self, program: &str) -> Body {
        let mut all = Body::default();
        let mut next = vec![program.to_owned()];
        while let Some(name) = next.pop() {
            if !all.calls.insert(name.clone()) {
                continue;
            }
            let body = self.bodies.get(&name).unwrap_or_else(|| panic!("{name} is called and not there"));
            all.helpers.extend(&body.helpers);
            all.maps.extend(body.maps.iter().cloned());
            all.exchanges |= body.exchanges;
            next.extend(body.calls.iter().cloned());
        }
        all
    }

    /// Bytes of stack of a function with the deepest of what it calls, as kernels before 6.13 count them: each frame in steps of 32
    /// (`check_max_stack_depth_subprog`, kernel/bpf/verifier.c, v6.1).
    fn stack_of(&self, function: &str) -> u64 {
        let body = &self.bodies[function];
        let below = body.calls.iter().map(|called| self.stack_of(called)).max().unwrap_or(0);
        body.stack.max(1).next_multiple_of(32) + below
    }

    /// The programs that can run in an NMI: those on perf events.
    fn in_nmi(&self) -> Vec<&String> {
        self.programs
            .iter()
            .filter(|(_, section)| section.starts_with("perf_event"))
            .map(|(name, _)| name)
            .collect()
    }
}

/// The instructions of a function, and what they refer to.
fn body(file: &object::File<'_>, symbol: &object::Symbol<'_, '_>, section: &object::Section<'_, '_>) -> Body {
    let mut body = Body::default();
    let (start, end) = (symbol.address(), symbol.address() + symbol.size());
    let mut refers = BTreeMap::new();
    for (at, relocation) in section.relocations() {
        if let RelocationTarget::Symbol(index) = relocation.target() {
            refers.insert(at, Refers::to(file, index));
        }
    }
    let code = section.data().unwrap();
    let mut copies_of_frame = BTreeSet::new();
    for at in (start..end).step_by(8) {
        let instruction: [u8; 8] = code[at as usize..at as usize + 8].try_into().unwrap();
        let [opcode, registers, o0, o1, b0, b1, b2, b3] = instruction;
        let immediate = i32::from_le_bytes([b0, b1, b2, b3]);
        let below =
            stack_below(opcode, registers, i16::from_le_bytes([o0, o1]), immediate, &mut copies_of_frame);
        body.stack = body.stack.max(below);
        body.exchanges |= opcode == ATOMIC && immediate == EXCHANGE;
        let refers = refers.get(&at);
        match (opcode, registers >> 4) {
            (0x85, TO_FUNCTION) => {
                // Without a relocation it is relative to the next instruction; with one of a section, to that section.
                let words = i64::from(immediate) + 1;
                body.calls.insert(match refers {
                    None => function_at(file, section.index(), at as i64 + words * 8),
                    Some(&Refers::Section(section)) => function_at(file, section, words * 8),
                    Some(Refers::Named(name)) => name.clone(),
                });
            }
            (0x85, 0) => {
                body.helpers.insert(immediate);
            }
            (0x18, _) => {
                if let Some(Refers::Named(map)) = refers {
                    body.maps.insert(map.clone());
                }
            }
            _ => (),
        }
    }
    body
}

/// How far below its frame pointer, `r10`, an instruction touches the stack, or points to it.
fn stack_below(opcode: u8, registers: u8, offset: i16, immediate: i32, copies: &mut BTreeSet<u8>) -> u64 {
    const FRAME: u8 = 10;
    let (to, from) = (registers & 15, registers >> 4);
    match opcode {
        0x61 | 0x69 | 0x71 | 0x79 if from == FRAME => u64::from(offset.unsigned_abs()),
        0x62 | 0x6a | 0x72 | 0x7a | 0x63 | 0x6b | 0x73 | 0x7b | 0xc3 | 0xdb if to == FRAME => {
            u64::from(offset.unsigned_abs())
        }
        // A copy of the frame pointer, and what is added to it.
        0xbf if from == FRAME => {
            copies.insert(to);
            0
        }
        0x07 if copies.remove(&to) => u64::from(immediate.unsigned_abs()),
        _ => 0,
    }
}

/// What a relocation refers to.
enum Refers {
    Named(String),
    /// A place in it, which is in the instruction: a function that has no global name, or constants.
    Section(SectionIndex),
}

impl Refers {
    fn to(file: &object::File<'_>, index: SymbolIndex) -> Self {
        let symbol = file.symbol_by_index(index).unwrap();
        match symbol.section() {
            SymbolSection::Section(section) if symbol.kind() == SymbolKind::Section => Self::Section(section),
            _ => Self::Named(symbol.name().unwrap().to_owned()),
        }
    }
}

fn function_at(file: &object::File<'_>, section: SectionIndex, address: i64) -> String {
    let is_it = |symbol: &object::Symbol<'_, '_>| {
        symbol.section() == SymbolSection::Section(section)
            && symbol.kind() == SymbolKind::Text
            && i64::try_from(symbol.address()) == Ok(address)
    };
    let found = file.symbols().find(is_it).unwrap_or_else(|| panic!("no function at {address:#x}"));
    found.name().unwrap().to_owned()
}

/// The sampler writes a ring buffer of its own and takes no other lock: whatever it interrupts, it waits for nothing.
#[test]
fn samples_share_no_lock() {
    let built = Built::read();
    assert_eq!(built.in_nmi(), ["on_sample"]);
    let reached = built.reached_from("on_sample");
    assert!(reached.calls.len() > 10 && reached.calls.contains("python_step"), "{:?}", reached.calls);
    let rings: Vec<&String> = reached.maps.intersection(&built.rings).collect();
    assert_eq!(rings, ["SAMPLES"], "the sampler writes one ring buffer");
    for helper in reached.helpers {
        let known = helper == RINGBUF_OUTPUT || WITHOUT_LOCK.iter().any(|(number, _)| *number == helper);
        assert!(known, "helper {helper} may take a lock, and the sampler calls it");
    }
}

/// No other program writes the sampler's ring buffer: else an NMI could meet its lock held by its own CPU.
#[test]
fn nobody_else_writes_the_samplers_ring() {
    let built = Built::read();
    assert!(built.programs.len() >= 9, "{:?}", built.programs);
    let of_samples = built.reached_from("on_sample").maps;
    let of_samples: Vec<&String> = of_samples.intersection(&built.rings).collect();
    for program in built.programs.keys().filter(|name| !built.in_nmi().contains(name)) {
        let reached = built.reached_from(program);
        let shared = of_samples.iter().find(|ring| reached.maps.contains(**ring));
        assert_eq!(shared, None, "{program} writes a ring buffer of the sampler");
    }
    // The rule would hold of programs that write nothing: these do.
    for program in ["on_switch", "on_waking", "on_exec", "on_gpu_call"] {
        assert!(built.reached_from(program).maps.contains("EVENTS"), "{program}");
    }
}

/// The counters that the sampler shares with others change in one instruction, so that none is lost when it comes in the middle: the maps that it
/// writes by address are its scratch, those counters, and the mark of whose turn it is, which it puts back.
#[test]
fn the_sampler_knows_what_it_touches() {
    let built = Built::read();
    let maps = built.reached_from("on_sample").maps;
    let expected = [
        "ADDRESS_SPACES",
        "CHANGES",
        "CONTEXTS",
        "COUNTDOWN",
        "FULL_RULES",
        "HOTSPOTS",
        "LOST",
        "MAPPINGS",
        "OPEN_CALLS",
        "PUSH_TIMES",
        "PYTHONS",
        "RANGE_WORDS",
        "RAW",
        "ROWS",
        "SAMPLES",
        "SCRATCH",
        "SETTINGS",
        "TARGETS",
        "WALKING",
    ];
    let maps: Vec<&str> = maps.iter().map(String::as_str).collect();
    assert_eq!(maps, expected, "a new map of the sampler: say in docs/architecture.md why it may touch it");
}

/// Before Linux 6.13 functions that have called each other share 512 bytes of stack: a program with more is refused there, and this kernel does not say
/// so. No program has more; `cargo xtask kernels` loads them there.
#[test]
fn programs_fit_the_stack_of_older_kernels() {
    const MOST: u64 = 512;
    let built = Built::read();
    let stacks: BTreeMap<&String, u64> =
        built.programs.keys().map(|program| (program, built.stack_of(program))).collect();
    // Both walk a stack: that they need little would be a fault of this test.
    for walker in ["on_sample", "on_gpu_call"] {
        assert!(stacks[&walker.to_owned()] > MOST / 2, "{stacks:?}");
    }
    assert!(stacks.values().all(|bytes| *bytes <= MOST), "{stacks:?}");
}

/// The one instruction that is newer than Linux 5.10 is of the program on GPU libraries, without which everything else runs (the others:
/// `instructions_are_those_of_the_oldest_kernel` in `probe/bpf/settings.rs`).
#[test]
fn only_launches_need_a_newer_instruction() {
    let built = Built::read();
    let exchanges: Vec<&String> =
        built.programs.keys().filter(|program| built.reached_from(program).exchanges).collect();
    assert_eq!(exchanges, ["on_gpu_call"]);
}
