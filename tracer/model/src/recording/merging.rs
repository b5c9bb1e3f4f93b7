//! Merges recordings into one file: copies their chunks, so that nothing of them changes, and writes a head before each.
//!
//! A recording that is merged already gives its parts, whose labels go below its own. Leaves out which recordings go together
//! (`machines.rs`) and opening files.

use super::file::{Chunk, FileError, KIND_PART, KIND_RECORDS, opening, put_chunk, read_chunk, read_opening};
use super::parts::Head;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// One recording to merge.
#[derive(Debug)]
pub struct ToMerge<'a, R> {
    /// Its label.
    pub label: &'a str,
    /// Its bytes, from the beginning.
    pub from: R,
    /// Its path, for messages.
    pub path: &'a Path,
}

/// Writes a merged file, which will have this many parts. What is cut off of a recording is left out; that it was is seen when it is read.
///
/// # Errors
/// When a recording cannot be read, or the file cannot be written (as an error of `out`'s path).
pub fn merge<R: Read>(
    out: &mut dyn Write,
    to: &Path,
    recordings: Vec<ToMerge<'_, R>>,
    parts: u32,
) -> Result<(), FileError> {
    let failed = |source| FileError::Write { path: to.to_owned(), source };
    out.write_all(&opening()).map_err(failed)?;
    for ToMerge { label, from, path } in recordings {
        let mut from = BufReader::new(from);
        let opened = read_opening(&mut from).map_err(|problem| problem.at(path))?;
        let mut head = Some(Head { label: label.to_owned(), format: opened.format, of: parts });
        loop {
            let chunk = read_chunk(&mut from);
            let chunk = chunk.map_err(|source| FileError::Read { path: path.to_owned(), source })?;
            let Chunk::Whole(kind, payload) = chunk else { break };
            copy(out, kind, &payload, &mut head, label, parts).map_err(failed)?;
        }
    }
    out.flush().map_err(failed)
}

/// Copies a chunk: of records with the head before the first; of a head with its label below this one.
fn copy(
    out: &mut dyn Write,
    kind: u8,
    payload: &[u8],
    head: &mut Option<Head>,
    label: &str,
    of: u32,
) -> io::Result<()> {
    if kind == KIND_PART {
        *head = None;
        let Ok(inner) = postcard::from_bytes::<Head>(payload) else { return Ok(()) };
        return put_head(out, &Head { label: format!("{label}/{}", inner.label), of, ..inner });
    }
    if let Some(head) = head.take() {
        put_head(out, &head)?;
    }
    put_chunk(out, KIND_RECORDS, payload)
}

fn put_head(out: &mut dyn Write, head: &Head) -> io::Result<()> {
    put_chunk(out, KIND_PART, &postcard::to_allocvec(head).map_err(io::Error::other)?)
}
