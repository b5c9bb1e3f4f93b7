//! Pieces on CPUs, for tests of what is learned from them.

use crate::time::packed_pieces::{DomainPieces, Pieces};
use crate::time::pieces::Piece;

/// These on any CPU, in their order. They are never freed.
pub(crate) fn domain_pieces(list: &[Piece]) -> DomainPieces<'static> {
    let mut pieces = Pieces::default();
    list.iter().for_each(|piece| pieces.push(piece, &[]));
    Box::leak(Box::new(pieces)).of_domain(&[], |_| true)
}
