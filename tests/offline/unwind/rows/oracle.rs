//! What unwind information says at an address, carried out by gimli on an invented machine: the caller's registers as numbers.
//!
//! Nothing of the product is used here but the reading of sections: entries are found through `.eh_frame_hdr` where there is one (the
//! product goes through the section in order), rules and expressions are gimli's own. Sources: DWARF 5 §6.4, LSB Core 5.0 §10.6.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, EvaluationResult, Expression,
    LittleEndian, Location, ParsedEhFrameHdr, Register, RegisterRule, UnwindContext, UnwindSection as _,
    UnwindTableRow, Value, X86_64,
};
use object::{Object as _, ObjectSection as _};

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Stack pointer of the invented machine.
pub(crate) const SP: u64 = 0x7f00_1234_5670;
/// Its `rbp`.
pub(crate) const BP: u64 = 0x7f00_1234_8880;

/// The word at an address of the invented machine: made of the address, above the stack pointer, a multiple of eight.
pub(crate) fn word_at(address: u64) -> u64 {
    let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    0x7fff_0000_0000 | (mixed ^ mixed >> 29) & 0xffff_fff8
}

/// A register of the invented machine.
pub(crate) fn register(number: Register, pc: u64) -> u64 {
    match number {
        X86_64::RSP => SP,
        X86_64::RBP => BP,
        X86_64::RA => pc,
        other => word_at(u64::from(other.0)),
    }
}

/// The caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// There is no unwind information.
    NoInfo,
    /// The information cannot be read.
    Damaged,
    /// There is none: the outermost frame.
    Outermost,
    /// Its registers; `bp` and `bx` are `None` where they are lost.
    Frame { pc: u64, sp: u64, fp: Option<u64>, bx: Option<u64> },
}

/// Unwind information of one file.
pub(crate) struct Oracle<'a> {
    section: EhFrame<Reader<'a>>,
    header: Option<ParsedEhFrameHdr<Reader<'a>>>,
    bases: BaseAddresses,
    context: UnwindContext<usize>,
}

impl<'a> Oracle<'a> {
    /// Of an ELF image; `None` where it has no `.eh_frame`.
    pub(crate) fn of(elf: &object::File<'a, &'a [u8]>) -> Option<Self> {
        let frames = elf.section_by_name(".eh_frame")?;
        let mut bases = BaseAddresses::default().set_eh_frame(frames.address());
        let mut header = None;
        if let Some(found) = elf.section_by_name(".eh_frame_hdr") {
            bases = bases.set_eh_frame_hdr(found.address());
            header = EhFrameHdr::new(found.data().ok()?, LittleEndian).parse(&bases, 8).ok();
        }
        let section = EhFrame::new(frames.data().ok()?, LittleEndian);
        Some(Self { section, header, bases, context: UnwindContext::new() })
    }

    /// Every address where a rule begins or ends, in order.
    pub(crate) fn boundaries(&mut self) -> Vec<u64> {
        let mut out = Vec::new();
        let mut entries = self.section.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
            let Ok(mut rows) = fde.rows(&self.section, &self.bases, &mut self.context) else { continue };
            while let Ok(Some(row)) = rows.next_row() {
                out.push(row.start_address());
            }
            out.push(fde.end_address());
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// The caller of code at `pc` (SVMA).
    pub(crate) fn caller(&mut self, pc: u64) -> Caller {
        let section = self.section;
        let popped = self.is_popped(pc);
        match self.row(pc) {
            Ok(row) => carry_out(row, &section, pc, popped).unwrap_or(Caller::Damaged),
            Err(gimli::Error::NoUnwindInfoForAddress) => Caller::NoInfo,
            Err(_) => Caller::Damaged,
        }
    }

    /// Whether a function that realigned its stack has popped `rbp` and `rbx` at `pc`, which gcc forgets to say: at its `ret`, and at the
    /// `lea -8(%r10), %rsp` before it, of four bytes.
    fn is_popped(&mut self, pc: u64) -> bool {
        let by_rsp =
            |cfa: &CfaRule<usize>| matches!(cfa, CfaRule::RegisterAndOffset { register: X86_64::RSP, .. });
        let Ok(row) = self.row(pc) else { return false };
        if !matches!(row.register(X86_64::RBP), Some(RegisterRule::Expression(_))) {
            return false;
        }
        if by_rsp(row.cfa()) {
            return true;
        }
        let by_register = matches!(row.cfa(), CfaRule::RegisterAndOffset { .. });
        let (start, end) = (row.start_address(), row.end_address());
        let lea = by_register && end - start > 4 && end - pc <= 4;
        lea && self.row(end).is_ok_and(|next| {
            by_rsp(next.cfa()) && matches!(next.register(X86_64::RBP), Some(RegisterRule::Expression(_)))
        })
    }

    /// The kind of the rule at `pc`, in words, for counting those that rows cannot express.
    pub(crate) fn kind(&mut self, pc: u64) -> String {
        let section = self.section;
        let Ok(row) = self.row(pc) else { return "damaged".into() };
        let code = |e: &gimli::UnwindExpression<usize>| match e.get(&section) {
            Ok(code) => format!("expression {:02x?}", code.0.slice()),
            Err(_) => "damaged expression".into(),
        };
        let rule = |rule: Option<RegisterRule<usize>>| match rule {
            Some(RegisterRule::Expression(e) | RegisterRule::ValExpression(e)) => code(&e),
            Some(RegisterRule::Register(other)) => format!("in register {}", name(other)),
            other => format!("{other:?}"),
        };
        match row.cfa() {
            CfaRule::RegisterAndOffset { register: X86_64::RSP | X86_64::RBP, .. } => {
                format!("RA {}, fp {}", rule(row.register(X86_64::RA)), rule(row.register(X86_64::RBP)))
            }
            CfaRule::RegisterAndOffset { register, .. } => format!("CFA by {}", name(*register)),
            CfaRule::Expression(e) => format!("CFA {}, fp {}", code(e), rule(row.register(X86_64::RBP))),
        }
    }

    fn row(&mut self, pc: u64) -> gimli::Result<&UnwindTableRow<usize>> {
        let cie = EhFrame::cie_from_offset;
        let misled = self.finds_empty(pc);
        match self.header.as_ref().and_then(ParsedEhFrameHdr::table) {
            Some(table) if !misled => {
                table.unwind_info_for_address(&self.section, &self.bases, &mut self.context, pc, cie)
            }
            _ => self.section.unwind_info_for_address(&self.bases, &mut self.context, pc, cie),
        }
    }

    /// Whether the header's table leads to an entry without code: clang writes one for a function that cannot be reached, at the address
    /// of the next function, and a search by address may meet either.
    fn finds_empty(&self, pc: u64) -> bool {
        let Some(table) = self.header.as_ref().and_then(ParsedEhFrameHdr::table) else { return false };
        let fde = table.lookup(pc, &self.bases).and_then(|found| {
            let offset = table.pointer_to_offset(found)?;
            self.section.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset)
        });
        fde.is_ok_and(|fde| fde.len() == 0)
    }
}

fn name(register: Register) -> String {
    X86_64::register_name(register).map_or_else(|| register.0.to_string(), str::to_owned)
}

/// Carries out a row.
fn carry_out(
    row: &UnwindTableRow<usize>,
    section: &EhFrame<Reader<'_>>,
    pc: u64,
    popped: bool,
) -> gimli::Result<Caller> {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register: number, offset } => {
            register(*number, pc).wrapping_add_signed(*offset)
        }
        CfaRule::Expression(e) => evaluate(e.get(section)?, pc, None)?,
    };
    let recover = |number: Register| -> gimli::Result<Option<u64>> {
        Ok(Some(match row.register(number) {
            None if number == X86_64::RSP => cfa,
            None | Some(RegisterRule::SameValue) => register(number, pc),
            Some(RegisterRule::Undefined) => return Ok(None),
            Some(RegisterRule::Offset(offset)) => word_at(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::ValOffset(offset)) => cfa.wrapping_add_signed(offset),
            Some(RegisterRule::Register(other)) => register(other, pc),
            Some(RegisterRule::Expression(e)) => word_at(evaluate(e.get(section)?, pc, Some(cfa))?),
            Some(RegisterRule::ValExpression(e)) => evaluate(e.get(section)?, pc, Some(cfa))?,
            Some(_) => return Err(gimli::Error::UnknownCallFrameInstruction(gimli::DwCfa(0))),
        }))
    };
    let Some(caller) = recover(X86_64::RA)? else { return Ok(Caller::Outermost) };
    let sp = recover(X86_64::RSP)?.unwrap_or(cfa);
    let unless_popped =
        |number: Register| if popped { Ok(Some(register(number, pc))) } else { recover(number) };
    let (fp, bx) = (unless_popped(X86_64::RBP)?, unless_popped(X86_64::RBX)?);
    Ok(Caller::Frame { pc: caller, sp, fp, bx })
}

/// The value of an expression; `first` is pushed before it begins.
fn evaluate(code: Expression<Reader<'_>>, pc: u64, first: Option<u64>) -> gimli::Result<u64> {
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 4 };
    let mut evaluation = code.evaluation(encoding);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut result = evaluation.evaluate()?;
    loop {
        result = match result {
            EvaluationResult::RequiresRegister { register: number, .. } => {
                evaluation.resume_with_register(Value::Generic(register(number, pc)))?
            }
            EvaluationResult::RequiresMemory { address, .. } => {
                evaluation.resume_with_memory(Value::Generic(word_at(address)))?
            }
            EvaluationResult::Complete => break,
            _ => return Err(gimli::Error::InvalidExpression(gimli::DwOp(0))),
        };
    }
    match evaluation.result().first().map(|piece| &piece.location) {
        Some(Location::Address { address }) => Ok(*address),
        _ => Err(gimli::Error::InvalidExpression(gimli::DwOp(0))),
    }
}
