//! All pieces of a run, as small as they go: there are as many as samples.
//!
//! Nearly all of them lie between two samples of a line and begin and end at these, or are certainly somebody's: then the samples, or the owner,
//! say all that a `Piece` holds. The few others, at the edges of slices, are kept whole beside them. Leaves out what pieces mean (`pieces`).

use super::on_cpus::{OfDomain, OnCpu};
use super::owners::Segment;
use super::pieces::{End, Mark, NO_GAP, NO_LINE, NOBODY, Piece};
use crate::timeline::Span;
use energy_trace_model::ids::CpuId;

/// A piece's time, and where the rest of it is: what that is in the two highest bits, and a number below.
#[derive(Clone, Copy, Debug)]
pub struct Packed {
    span: Span,
    cpu: CpuId,
    rest: u32,
}

/// The number is that of the sample behind it.
const BETWEEN: u32 = 0;
/// It is the owner.
const CERTAIN: u32 = 1 << 30;
/// It is the piece's in the list of others.
const OTHER: u32 = 2 << 30;
const NUMBER: u32 = CERTAIN - 1;

/// What a piece that neither lies just between its samples nor is certain has beside its time.
#[derive(Clone, Copy, Debug)]
struct Other {
    line: u32,
    gap: u32,
    left: End,
    right: End,
}

impl OnCpu for Packed {
    fn cpu(&self) -> CpuId {
        self.cpu
    }

    fn span(&self) -> Span {
        self.span
    }
}

/// All pieces.
#[derive(Debug, Default)]
pub struct Pieces {
    packed: Vec<Packed>,
    others: Vec<Other>,
}

impl Pieces {
    /// Makes room for so many.
    pub fn reserve(&mut self, count: usize) {
        self.packed.reserve_exact(count);
    }

    /// Adds time whose owner is certain.
    pub fn push_certain(&mut self, segment: Segment) {
        let Segment { cpu, span, owner } = segment;
        match owner {
            ..=NUMBER => self.packed.push(Packed { span, cpu, rest: CERTAIN | owner }),
            _ => self.push_other(&Piece::certain(cpu, span, owner)),
        }
    }

    /// Adds a piece; `marks` are those that its gap counts in.
    pub fn push(&mut self, piece: &Piece, marks: &[Mark]) {
        let Piece { cpu, span, gap, .. } = *piece;
        let certain = piece.known_owner().filter(|_| gap == NO_GAP && piece.left == piece.right);
        if let Some(owner) = certain {
            self.push_certain(Segment { cpu, span, owner });
        } else if gap <= NUMBER && between(marks, gap) == Some((piece.line, piece.left, piece.right)) {
            self.packed.push(Packed { span, cpu, rest: BETWEEN | gap });
        } else {
            self.push_other(piece);
        }
    }

    fn push_other(&mut self, &Piece { cpu, span, line, left, right, gap }: &Piece) {
        let number = u32::try_from(self.others.len()).unwrap_or(NUMBER).min(NUMBER);
        self.packed.push(Packed { span, cpu, rest: OTHER | number });
        self.others.push(Other { line, gap, left, right });
    }

    /// Puts them in order of CPU and time.
    pub fn sort(&mut self) {
        self.packed.sort_by_key(|piece| (piece.cpu, piece.span));
    }

    /// Those on some CPUs, where they are in order and do not overlap on a CPU; `marks` are all.
    pub fn of_domain<'a>(&'a self, marks: &'a [Mark], is_of: impl Fn(CpuId) -> bool) -> DomainPieces<'a> {
        let lookup = Lookup { others: &self.others, marks };
        DomainPieces { on_cpus: OfDomain::new(&self.packed, is_of), lookup }
    }
}

/// What lies just between two samples, by the position of the later one: line, and both ends.
fn between(marks: &[Mark], behind: u32) -> Option<(u32, End, End)> {
    let behind = behind as usize;
    let (before, behind) = (marks.get(behind.checked_sub(1)?)?, marks.get(behind)?);
    let end = |mark: &Mark| End { owner: mark.owner, ns: 0, slept_ns: 0 };
    (before.line == behind.line).then(|| (behind.line, end(before), end(behind)))
}

/// Where packed pieces have the rest of what they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup<'a> {
    others: &'a [Other],
    marks: &'a [Mark],
}

impl Lookup<'_> {
    /// For no piece.
    pub const NOTHING: Self = Self { others: &[], marks: &[] };

    /// A whole piece.
    pub fn piece(&self, &Packed { span, cpu, rest }: &Packed) -> Piece {
        let number = rest & NUMBER;
        let nobodys = Piece::certain(cpu, span, NOBODY);
        match rest & !NUMBER {
            BETWEEN => between(self.marks, number).map_or(nobodys, |(line, left, right)| Piece {
                cpu,
                span,
                line,
                left,
                right,
                gap: number,
            }),
            CERTAIN => Piece::certain(cpu, span, number),
            _ => self.others.get(number as usize).map_or(nobodys, |&Other { line, gap, left, right }| {
                Piece { cpu, span, line, left, right, gap }
            }),
        }
    }

    /// The line of a piece.
    pub fn line(&self, packed: &Packed) -> u32 {
        let number = (packed.rest & NUMBER) as usize;
        let line = match packed.rest & !NUMBER {
            BETWEEN => self.marks.get(number).map(|mark| mark.line),
            CERTAIN => None,
            _ => self.others.get(number).map(|other| other.line),
        };
        line.unwrap_or(NO_LINE)
    }
}

/// The pieces on a domain's CPUs.
#[derive(Debug)]
pub struct DomainPieces<'a> {
    /// What lay on the CPUs.
    pub on_cpus: OfDomain<'a, Packed>,
    /// How its owners are found.
    pub lookup: Lookup<'a>,
}

#[cfg(test)]
mod tests {
    use super::{CpuId, End, Mark, NOBODY, Piece, Pieces, Segment, Span};
    use energy_trace_model::clock::KtimeNs;

    /// Whatever a piece is, it comes back as it was; those just between two samples of a line, and certain ones, take no more than their place.
    #[test]
    fn pieces_come_back() {
        let mark = |line, owner| Mark { line, at: KtimeNs::default(), cpu_ns: 0, owner };
        let marks = [mark(0, 4), mark(0, 5), mark(1, 6), mark(1, 7)];
        let span = Span { start: KtimeNs::from_ns(3), end: KtimeNs::from_ns(9) };
        let end = |owner, ns| End { owner, ns, slept_ns: 0 };
        let piece = |line, left, right, gap| Piece { cpu: CpuId::new(2), span, line, left, right, gap };
        let small = [piece(0, end(4, 0), end(5, 0), 1), piece(1, end(6, 0), end(7, 0), 3)];
        let others = [
            piece(0, end(4, 1), end(5, 0), 1),
            piece(0, end(NOBODY, 0), end(4, 2), 0),
            piece(1, end(5, 0), end(6, 0), 2),
            piece(1, end(7, 0), end(NOBODY, 0), 4),
            piece(0, end(4, 0), end(9, 0), 1),
            Piece::certain(CpuId::new(2), span, u32::MAX - 1),
        ];
        let mut pieces = Pieces::default();
        small.iter().chain(&others).for_each(|piece| pieces.push(piece, &marks));
        pieces.push_certain(Segment { cpu: CpuId::new(1), span, owner: 8 });
        assert_eq!(pieces.others.len(), others.len());
        pieces.sort();
        let domain = pieces.of_domain(&marks, |_| true);
        let back: Vec<Piece> = domain.on_cpus.iter().map(|packed| domain.lookup.piece(packed)).collect();
        let certain = Piece::certain(CpuId::new(1), span, 8);
        let expected: Vec<Piece> = [certain].into_iter().chain(small).chain(others).collect();
        assert_eq!(back, expected);
        let lines: Vec<u32> = domain.on_cpus.iter().map(|packed| domain.lookup.line(packed)).collect();
        assert_eq!(lines, expected.iter().map(|piece| piece.line).collect::<Vec<_>>());
    }
}
