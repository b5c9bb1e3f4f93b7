//! Rows of functions without unwind information, from their code: every way through a function is followed, and how deep its stack is then
//! known at each instruction.
//!
//! A function has rows only where the result proves itself: ways that meet agree, each return finds the stack as the caller left it, and there
//! is such a return (or a register saved that is the caller's). Else it has none, and its callers are looked for on the stack as before. Functions are
//! those of the symbol table, or of a stripped file those that its code and its tables of pointers name (`called.rs`). Leaves out what an
//! instruction is, and what it does to the stack (`arch`).

use super::arch::frame_state::FrameState;
use super::arch::instruction::{self, Effects, Instruction};
use super::called::called_functions;
use super::code_rule::{CodeRule, Flow};
use super::elf::{Elf, ElfFacts, code_symbols};
use super::plt::{table_rows, tables};
use object::{Object as _, ObjectSection as _, SectionKind};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Bytes of the largest function that is followed: MKL's have 270 KiB.
const LARGEST: u64 = 512 << 10;
/// Calls of a function that are found not to return.
const MOST_ENDLESS: usize = 64;
/// Steps that a file is worth: about 30 MB of code, and the memory of its rows. Whoever wrote it chooses how many functions there are, how
/// they lie over each other, and how many ways they have.
const MOST_STEPS: u64 = 8 << 20;
/// Bytes whose reading costs about as much as an instruction.
const BYTES_A_STEP: u64 = 64;

/// How much more work a file is worth.
#[derive(Debug)]
pub(super) struct Budget {
    steps: u64,
}

impl Budget {
    /// Of a new file.
    pub(super) const OF_FILE: Self = Self { steps: MOST_STEPS };

    /// So many steps.
    pub(super) const fn of(steps: u64) -> Self {
        Self { steps }
    }

    /// Takes so many steps; `None` where fewer are left, and then none is left.
    fn take(&mut self, steps: u64) -> Option<()> {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or(0);
        left.map(|_| ())
    }
}

/// Functions of a file's full symbol table (SVMA), in order, each once; where the table was stripped, those of long stretches of code without
/// unwind information; those that the dynamic loader calls at start and end, which linkers put together; and procedure linkage tables.
///
/// Parts that compilers put elsewhere (`.cold`) are left out: they are jumped to with a stack of their own.
pub(super) fn functions(file: &File, elf: &Elf<'_>) -> Vec<Range<u64>> {
    let mut functions = code_symbols(elf);
    if functions.is_empty() {
        functions = called_functions(file, elf).unwrap_or_default();
    }
    functions.extend([".init", ".fini"].iter().filter_map(|name| code_section(elf, name)));
    functions.retain(|function| function.end - function.start <= LARGEST);
    functions.extend(tables(elf));
    functions.sort_unstable_by_key(|function| (function.start, function.end));
    functions.dedup_by_key(|function| function.start);
    functions
}

/// A section that is one function.
fn code_section(elf: &Elf<'_>, name: &str) -> Option<Range<u64>> {
    let section = elf.section_by_name(name).filter(|section| section.kind() == SectionKind::Text)?;
    Some(section.address()..section.address().checked_add(section.size())?)
}

/// Rows (SVMA) of functions of a file that have none by its unwind information.
pub(super) fn read_code_rows(
    file: &File,
    facts: &ElfFacts,
    bare: impl Iterator<Item = Range<u64>>,
) -> Vec<(u64, CodeRule)> {
    let mut budget = Budget::OF_FILE;
    bare.flat_map(|function| rows_of_function(file, facts, &function, &mut budget)).collect()
}

/// Rows of one function; none where its code does not tell, or the file has had its share.
pub(super) fn rows_of_function(
    file: &File,
    facts: &ElfFacts,
    function: &Range<u64>,
    budget: &mut Budget,
) -> Vec<(u64, CodeRule)> {
    let mut read = || {
        let length = function.end.checked_sub(function.start)?.min(LARGEST);
        budget.take(length / BYTES_A_STEP)?;
        let mut code = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut code, facts.file_offset(function.start)?).ok()?;
        table_rows(&code, function).or_else(|| rows_of_code(&code, function.start, budget))
    };
    read().unwrap_or_default()
}

/// Rows of the code of a function that begins at `start`; `None` where it does not tell.
fn rows_of_code(code: &[u8], start: u64, budget: &mut Budget) -> Option<Vec<(u64, CodeRule)>> {
    let mut endless = BTreeSet::new();
    loop {
        let mut paths = FlowPaths::new(code, start, &endless, budget);
        match paths.follow_all() {
            Ok(()) => return paths.proved.then(|| paths.changes(CodeRule::NONE, FrameState::rule)),
            Err(Contradiction::Call(at)) if endless.len() < MOST_ENDLESS && endless.insert(at) => (),
            Err(_) => return None,
        }
    }
}

/// What is known at the instructions of code that was made at run time, if a function begins there (`start`): from each place on how deep the
/// stack is (`None`: it is not known), and the rule. Nothing else says what is a function, so that all ways have to stay in this code and one has to
/// return.
pub(super) fn generated_code(code: &[u8], start: u64, budget: &mut Budget) -> Option<Vec<(u64, Known)>> {
    let endless = BTreeSet::new();
    let mut paths = FlowPaths::new(code, start, &endless, budget);
    paths.follow().ok()?;
    let stays = !paths.leaves && paths.jumps.iter().all(FrameState::is_given_back);
    let known = |state: &FrameState| (state.depth(), state.rule());
    (paths.returns && stays).then(|| paths.changes((None, CodeRule::NONE), known))
}

/// How deep the stack is, and the rule.
pub(super) type Known = (Option<i64>, CodeRule);

/// Why the ways through a function do not fit together.
enum Contradiction {
    /// Because of this call, which then does not return: what follows it belongs to another way.
    Call(u64),
    /// It is unlike what compilers make.
    Unknown,
}

/// An instruction that was reached.
#[derive(Clone)]
struct ReachedInstruction {
    state: FrameState,
    length: u64,
    /// The call right before it, by which it was reached.
    call: Option<u64>,
}

/// All that were reached, found by their addresses.
#[derive(Clone, Default)]
struct Reached {
    places: HashMap<u64, usize>,
    instructions: Vec<(u64, ReachedInstruction)>,
}

impl Reached {
    fn get(&self, at: u64) -> Option<&ReachedInstruction> {
        self.instructions.get(*self.places.get(&at)?).map(|(_, reached)| reached)
    }

    fn insert(&mut self, at: u64, new: ReachedInstruction) {
        let place = *self.places.entry(at).or_insert(self.instructions.len());
        match self.instructions.get_mut(place) {
            Some((_, known)) => *known = new,
            None => self.instructions.push((at, new)),
        }
    }

    fn in_order(&self) -> impl Iterator<Item = (u64, &ReachedInstruction)> {
        let mut all: Vec<&(u64, ReachedInstruction)> = self.instructions.iter().collect();
        all.sort_by_key(|(at, _)| *at); // Long stretches are in order: ways were followed there.
        all.into_iter().map(|(at, reached)| (*at, reached))
    }
}

/// A way to go on.
struct FlowPath {
    at: u64,
    state: FrameState,
    call: Option<u64>,
}

/// The ways through a function.
struct FlowPaths<'a> {
    code: &'a [u8],
    start: u64,
    /// Calls that do not return.
    endless: &'a BTreeSet<u64>,
    reached: Reached,
    todo: Vec<FlowPath>,
    /// States in which it jumps to places that the code does not name: cases of a `switch`, or other functions.
    jumps: Vec<FrameState>,
    proved: bool,
    /// One way returns.
    returns: bool,
    /// One way leads out of the code.
    leaves: bool,
    info: Effects,
    budget: &'a mut Budget,
}

impl<'a> FlowPaths<'a> {
    fn new(code: &'a [u8], start: u64, endless: &'a BTreeSet<u64>, budget: &'a mut Budget) -> Self {
        let todo = vec![FlowPath { at: start, state: FrameState::ENTRY, call: None }];
        let (reached, jumps, info) = (Reached::default(), Vec::new(), Effects::new());
        let [proved, returns, leaves] = [false; 3];
        Self { code, start, endless, reached, todo, jumps, proved, returns, leaves, info, budget }
    }

    /// Follows all ways; then those that only a `switch` leads to, whose state is that of its jump. Where these do not fit, it was no `switch`.
    fn follow_all(&mut self) -> Result<(), Contradiction> {
        self.follow()?;
        let Some(state) = self.case() else { return Ok(()) };
        let (named, proved) = (self.reached.clone(), self.proved);
        let mut from = self.start;
        while let Some(at) = self.gap(from) {
            from = at;
            self.todo.push(FlowPath { at, state, call: None });
            if self.follow().is_err() {
                (self.reached, self.proved) = (named, proved);
                break;
            }
        }
        Ok(())
    }

    fn follow(&mut self) -> Result<(), Contradiction> {
        while let Some(mut path) = self.todo.pop() {
            self.budget.take(1).ok_or(Contradiction::Unknown)?;
            let Some(does) = self.decode(path.at) else {
                self.leaves = true;
                continue;
            };
            if let Some(ReachedInstruction { state, call, .. }) = self.reached.get(path.at) {
                match state.joined(path.state) {
                    Some(joined) if joined == *state => continue,
                    Some(joined) => path.state = joined,
                    None => {
                        return Err(path.call.or(*call).map_or(Contradiction::Unknown, Contradiction::Call));
                    }
                }
            }
            self.take(&path, &does).ok_or(path.call.map_or(Contradiction::Unknown, Contradiction::Call))?;
        }
        Ok(())
    }

    /// The instruction there; `None` where that is not in the function.
    fn decode(&self, at: u64) -> Option<Instruction> {
        let place = usize::try_from(at.checked_sub(self.start)?).ok()?;
        let rest = self.code.get(place..).filter(|rest| !rest.is_empty())?;
        Some(instruction::decode(rest, at))
    }

    /// Notes an instruction and where it leads; `None` where it does not fit a function.
    fn take(&mut self, path: &FlowPath, does: &Instruction) -> Option<()> {
        let FlowPath { at, state, call } = *path;
        let next = instruction::next(does);
        self.reached.insert(at, ReachedInstruction { state, length: instruction::length(does), call });
        let mut lead = |at, state, call| self.todo.push(FlowPath { at, state, call });
        match instruction::flow(does) {
            Flow::Return => {
                (self.proved, self.returns) = (true, true);
                return state.is_given_back().then_some(());
            }
            Flow::Jump(to) => lead(to, state, None),
            Flow::Branch(to) => {
                lead(next, state, None);
                lead(to, state, None);
            }
            Flow::Computed => self.jumps.push(state),
            Flow::Call => {
                let behind = state.after(does, &mut self.info)?;
                if !self.endless.contains(&at) {
                    lead(next, behind, Some(at));
                }
            }
            Flow::Next => {
                self.proved |= instruction::saves_register(does);
                if state.leaves(does) {
                    return Some(());
                }
                let padding = call.filter(|_| instruction::is_padding(does));
                lead(next, state.after(does, &mut self.info)?, padding);
            }
            Flow::Ends => (),
            Flow::Unknown => return None,
        }
        Some(())
    }

    /// The state of all cases of a `switch`; `None` where there is none, or they differ. A jump that finds the stack as the caller left it leads
    /// to another function.
    fn case(&self) -> Option<FrameState> {
        let mut inner = self.jumps.iter().filter(|state| !state.is_given_back());
        let first = inner.next()?;
        inner.all(|state| state == first).then_some(*first)
    }

    /// The first instruction, from this place on, that no way has led to.
    fn gap(&mut self, from: u64) -> Option<u64> {
        let mut at = from;
        loop {
            if let Some(reached) = self.reached.get(at) {
                at = at.checked_add(reached.length)?;
                continue;
            }
            self.budget.take(1)?;
            let does = self.decode(at)?;
            if !instruction::is_between_functions(&does) {
                return Some(at);
            }
            at = instruction::next(&does);
        }
    }

    /// What the states say, wherever it changes; between instructions that were reached, and behind the last, nothing is known.
    fn changes<T: Copy + PartialEq>(&self, nothing: T, of: impl Fn(&FrameState) -> T) -> Vec<(u64, T)> {
        let (mut changes, mut end) = (Vec::new(), self.start);
        for (at, reached) in self.reached.in_order() {
            changes.extend((at > end).then_some((end, nothing)));
            changes.push((at, of(&reached.state)));
            end = at.saturating_add(reached.length);
        }
        changes.push((end, nothing));
        changes.dedup_by_key(|(_, says)| *says);
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, CodeRule, functions, read_code_rows, rows_of_code};
    use crate::arch::tests::{CFA_AT_ENTRY, PLACES_BY_CODE, compiler};
    use crate::cfi::{ENTRY_BYTES, Rows, build_rows, read_rows};
    use crate::elf::{ElfFacts, read_eh_frame, with_elf};
    use crate::fde::UnwindFile;
    use proptest::prelude::*;
    use std::fs::File;
    use std::path::Path;
    use tracer_ebpf::rows::{FullRule, Operand, Rule, base, rule};

    fn packed(kind: u32, offset: i64, fp: i64) -> Rule {
        Rule::pack(kind, offset, fp).unwrap()
    }

    fn all_rows(code: &[u8]) -> Option<Vec<(u64, CodeRule)>> {
        rows_of_code(code, 0x1000, &mut Budget { steps: 1_000_000 })
    }

    /// Rows that are short.
    fn rows(code: &[u8]) -> Option<Vec<(u64, Rule)>> {
        let short = |(at, rule)| match rule {
            CodeRule::Short(rule) => (at, rule),
            CodeRule::Full(full) => panic!("{full:?} at {at:#x}"),
        };
        all_rows(code).map(|rows| rows.into_iter().map(short).collect())
    }

    /// By what points this far below the CFA, with the caller's `rbp` so far below.
    fn moved(cfa: Operand, add: i64, saved: i32) -> CodeRule {
        let word = |down: i32| Operand::word(base::CFA, -down);
        let callee_saved = Operand::sum(base::CFA, 0);
        CodeRule::Full(FullRule { cfa, add, ra: word(8), fp: word(saved), callee_saved })
    }

    /// The work of the languages' table, compiled with these options.
    fn compiled(folder: &Path, options: &[&str]) -> File {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/languages/work.c");
        let mut gcc = compiler();
        let done = gcc.args(options).args(["-g0", "-o", "a", source]).current_dir(folder).status();
        assert!(done.unwrap().success());
        File::open(folder.join("a")).unwrap()
    }

    /// Written by hand in glibc, and wrong in its unwind information: they push `rbx` and `rbp` and do not say so.
    const BY_HAND: [&str; 3] = ["__mpn_addmul_1", "__mpn_submul_1", "__mpn_mul_1"];

    /// In a static program, with its whole C library: wherever code tells where the caller is, the compiler says the same.
    #[test]
    fn rows_are_those_of_the_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let file = compiled(folder.path(), &["-O2", "-static"]);
        let facts = ElfFacts::read(&file, &BY_HAND).unwrap();
        let truth = build_rows(&read_eh_frame(&file).unwrap().unwrap(), facts.base);
        let functions = with_elf(&file, |elf| Ok(functions(&file, elf))).unwrap();
        let rows = Rows::by_code(read_code_rows(&file, &facts, functions.into_iter()), facts.base);
        let mut same = 0;
        for place in rows.rows.iter().map(|row| row >> 32) {
            let (by_code, said) = (rows.rule(place).0, truth.rule(place).0);
            if by_code.kind() > rule::FP || by_code.kind() != said.kind() {
                continue; // The one by the stack pointer, the other by a frame pointer; or nothing is known.
            }
            let by_hand =
                |(_, start, size): &(String, u64, u64)| (facts.base + place).wrapping_sub(*start) < *size;
            if facts.symbols.iter().any(by_hand) {
                continue;
            }
            // The compiler says where `rbp` was saved also while it is unchanged.
            let saved = by_code.fp() == 0 || by_code.fp() == said.fp();
            assert!(by_code.offset() == said.offset() && saved, "{place:#x}: {by_code:x?} {said:x?}");
            same += 1;
        }
        assert!(same > PLACES_BY_CODE, "{same}");
    }

    /// Without unwind information: the search at the moment and the rows made beforehand agree, and `main` is known.
    #[test]
    fn functions_without_unwind_information() {
        let folder = tempfile::tempdir().unwrap();
        let bare = ["-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
        let file = compiled(folder.path(), &bare);
        let facts = ElfFacts::read(&file, &["main"]).unwrap();
        let main = facts.symbol("main").unwrap();
        let rows = read_rows(&file, facts.base).unwrap();
        let functions = with_elf(&file, |elf| Ok(functions(&file, elf))).unwrap();
        let places: Vec<u64> = functions.into_iter().flatten().collect();
        let mut asked = UnwindFile::open(file).unwrap();
        assert_eq!(asked.rule(main).0, packed(rule::SP, CFA_AT_ENTRY, 0));
        for svma in places.into_iter().filter(|svma| svma.wrapping_sub(facts.entry) >= ENTRY_BYTES) {
            assert_eq!(asked.rule(svma).0, rows.rule(svma - facts.base).0, "{svma:#x}");
        }
    }

    /// A frame pointer leads back from a stack that moves by a number nobody knows.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn a_frame_pointer() {
        // push %rbp; mov %rsp,%rbp; sub %rax,%rsp; leave; ret
        let expected = [
            (0x1000, packed(rule::SP, 8, 0)),
            (0x1001, packed(rule::SP, 16, 0)),
            (0x1004, packed(rule::FP, 16, -16)),
            (0x1008, packed(rule::SP, 8, 0)),
            (0x1009, Rule::NONE),
        ];
        assert_eq!(rows(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4, 0xc9, 0xc3]).unwrap(), expected);
        // The same stack without a frame pointer: push %rbp; sub %rax,%rsp; leave; ret
        assert_eq!(rows(&[0x55, 0x48, 0x29, 0xc4, 0xc9, 0xc3]), None);
    }

    /// MKL's kernels for small matrices put the old stack pointer into the scratch memory, and use `rbp` for something else.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn a_stack_that_is_kept_in_memory() {
        let code = [
            0x48, 0x83, 0xec, 0x40, // sub $0x40,%rsp
            0x48, 0x89, 0x6c, 0x24, 8, // mov %rbp,8(%rsp)
            0x48, 0x89, 0xe5, // mov %rsp,%rbp
            0x48, 0x29, 0xc4, // sub %rax,%rsp
            0x48, 0x81, 0xe4, 0, 0xf0, 0xff, 0xff, // and $-4096,%rsp
            0x48, 0x89, 0xac, 0x24, 0x98, 0, 0, 0, // mov %rbp,0x98(%rsp)
            0x4a, 0x8d, 0x2c, 0x89, // lea (%rcx,%r9,4),%rbp
            0x48, 0x8b, 0x84, 0x24, 0x98, 0, 0, 0, // mov 0x98(%rsp),%rax
            0x48, 0x89, 0xc4, // mov %rax,%rsp
            0x48, 0x8b, 0x6c, 0x24, 8, // mov 8(%rsp),%rbp
            0x48, 0x83, 0xc4, 0x40, // add $0x40,%rsp
            0xc3, // ret
        ];
        let found = all_rows(&code).unwrap();
        let kept = moved(Operand::word(base::SP, 0x98), 0x48, 0x40);
        for row in [(0x100c, CodeRule::Short(packed(rule::FP, 0x48, -0x40))), (0x1022, kept)] {
            assert!(found.contains(&row), "{row:x?} in {found:x?}");
        }
        // Where another word takes its place there is no way back: mov %rdi,0x98(%rsp) in the place of the `lea`.
        let overwritten = [&code[..0x1e], &[0x48, 0x89, 0xbc, 0x24, 0x98, 0, 0, 0], &code[0x1e..]].concat();
        assert_eq!(all_rows(&overwritten), None);
    }

    /// OpenBLAS' kernels keep the old stack pointer in `rbx`; behind a call a register that callees may change keeps nothing.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn a_stack_that_is_kept_in_a_register() {
        let begin = [
            0x48, 0x83, 0xec, 0x60, // sub $0x60,%rsp
            0x48, 0x89, 0x6c, 0x24, 8, // mov %rbp,8(%rsp)
        ];
        let scratch = [0x48, 0x81, 0xe4, 0, 0xf0, 0xff, 0xff, 0x48, 0x89, 0xfd]; // and $-4096,%rsp; mov %rdi,%rbp
        let call = [0xe8, 0, 1, 0, 0];
        let end = [0x48, 0x8b, 0x6c, 0x24, 8, 0x48, 0x83, 0xc4, 0x60, 0xc3]; // mov 8(%rsp),%rbp; add $0x60,%rsp; ret
        let code = |to: [u8; 3], from: [u8; 3], calls: &[u8]| {
            [&begin[..], &to[..], &scratch[..], calls, &from[..], &end[..]].concat()
        };
        let callee_saved = code([0x48, 0x89, 0xe3], [0x48, 0x89, 0xdc], &call);
        let kept = (0x1016, moved(Operand::sum(base::CALLEE_SAVED, 0), 0x68, 0x60));
        assert!(all_rows(&callee_saved).unwrap().contains(&kept), "{:x?}", all_rows(&callee_saved));
        let rcx = |calls| code([0x48, 0x89, 0xe1], [0x48, 0x89, 0xcc], calls);
        assert!(all_rows(&rcx(&[])).is_some());
        assert_eq!(all_rows(&rcx(&call)), None);
    }

    /// A call behind which the stack would have two depths does not return; without the call there is no such reason, and no row.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn calls_that_do_not_return() {
        // je 8; push %rax; call elsewhere; 8: ret
        let found = rows(&[0x74, 6, 0x50, 0xe8, 0x10, 0, 0, 0, 0xc3]).unwrap();
        let flat = packed(rule::SP, 8, 0);
        assert_eq!(
            found,
            [(0x1000, flat), (0x1003, packed(rule::SP, 16, 0)), (0x1008, flat), (0x1009, Rule::NONE)]
        );
        assert_eq!(rows(&[0x74, 1, 0x50, 0xc3]), None);
        // push %rbx; call elsewhere; ud2: it has saved a register of its caller.
        assert!(rows(&[0x53, 0xe8, 0x10, 0, 0, 0, 0x0f, 0x0b]).is_some());
    }

    /// Where ways meet, `rbp` is the saved one if either has changed it.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn ways_that_meet() {
        // push %rbp; je 6; mov %rax,%rbp; 6: pop %rbp; ret
        let found = rows(&[0x55, 0x74, 3, 0x48, 0x89, 0xc5, 0x5d, 0xc3]).unwrap();
        assert!(found.contains(&(0x1006, packed(rule::SP, 16, -16))), "{found:x?}");
    }

    /// The cases of a `switch` have the stack of its jump.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn cases_of_a_switch() {
        // push %rbx; jmp *%rax; int3; pop %rbx; ret
        let found = rows(&[0x53, 0xff, 0xe0, 0xcc, 0x5b, 0xc3]).unwrap();
        let expected = [(0x1001, 16), (0x1004, 16), (0x1005, 8)];
        for (at, depth) in expected {
            assert!(found.contains(&(at, packed(rule::SP, depth, 0))), "{at:#x} of {found:x?}");
        }
    }

    /// Work grows with the code, whatever its jumps, and ends where a file has had its share.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn work_is_bounded() {
        // push %rbx; jmp *%rax; then as many cases as there is room for, each of which is a way of its own: pop %rbx; ret
        let cases = [0x5b, 0xc3].repeat(50_000);
        let code = [&[0x53, 0xff, 0xe0][..], &cases].concat();
        let mut budget = Budget { steps: 1_000_000 };
        assert!(rows_of_code(&code, 0x1000, &mut budget).is_some());
        assert!(budget.steps > 1_000_000 - 2 * code.len() as u64, "{budget:?}");
        // What was named by the code is known all the same.
        let known = rows_of_code(&code, 0x1000, &mut Budget { steps: 1_000 }).unwrap();
        assert_eq!(known.last(), Some(&(0x1003, CodeRule::NONE)));
    }

    /// Code that is no function of this convention has no rows: it takes its return address away, returns with another stack, only jumps
    /// (Haskell), or changes `rbp` and does not give it back.
    #[test]
    fn code_of_other_conventions() {
        let pops: &[u8] = &[0x58, 0x51, 0x50, 0xc3];
        let deeper = [0x50, 0xc3];
        let jumps = [0xff, 0x65, 0];
        let changes = [0x48, 0x89, 0xc5, 0xc3];
        for code in [pops, &deeper, &jumps, &changes, &[], &[0x06]] {
            assert_eq!(all_rows(code), None, "{code:x?}");
        }
    }

    proptest! {
        /// Whatever the bytes: rows in order and within the code or an instruction behind it, or none.
        #[test]
        fn any_code(code in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0x50), Just(0xc3), Just(0x74), Just(0xe8), Just(0xeb)], 0..256)) {
            for row in all_rows(&code).unwrap_or_default().windows(2) {
                prop_assert!(row[0].0 < row[1].0 && row[1].0 < 0x1000 + code.len() as u64 + 16);
            }
        }
    }
}
