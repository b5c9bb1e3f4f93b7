//! Memory of a target, a page at a time: for questions that follow a few pointers. A page is read once and believed while this lives, so that it
//! must not live long.

use super::client::{Peeker, Unanswered};
use energy_trace_model::ids::Pid;
use energy_trace_unwind::cpython::memory::Source;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Bytes of a page, or of a part of a larger one.
const PAGE: u64 = 4096;
/// Pages that are read at the most.
const MOST_PAGES: usize = 4096;

/// Memory of one process at one moment.
#[derive(Debug)]
pub struct TargetMemory<'a> {
    peeker: &'a Peeker,
    pid: Pid,
    /// `None`: it cannot be read.
    pages: RefCell<HashMap<u64, Option<Vec<u8>>>>,
    unanswered: Cell<Option<Unanswered>>,
}

impl<'a> TargetMemory<'a> {
    /// Of a process; nothing is read yet.
    pub fn of(peeker: &'a Peeker, pid: Pid) -> Self {
        Self { peeker, pid, pages: RefCell::default(), unanswered: Cell::new(None) }
    }

    /// Who is asked.
    pub const fn peeker(&self) -> &'a Peeker {
        self.peeker
    }

    /// Whether something could not be read because no answer came in time: it may be had later.
    pub fn is_late(&self) -> bool {
        self.unanswered.get() == Some(Unanswered::Late)
    }

    /// Copies what is in the page of `address`; gives how much that is.
    fn copy(&self, address: u64, out: &mut [u8]) -> Option<usize> {
        let within = usize::try_from(address % PAGE).ok()?;
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= MOST_PAGES {
            return None;
        }
        let page = pages.entry(address - address % PAGE).or_insert_with_key(|&page| self.read_page(page));
        let bytes = page.as_deref()?.get(within..)?;
        let length = bytes.len().min(out.len());
        out.get_mut(..length)?.copy_from_slice(bytes.get(..length)?);
        Some(length)
    }

    fn read_page(&self, page: u64) -> Option<Vec<u8>> {
        if self.unanswered.get().is_some() {
            return None;
        }
        let read = self.peeker.bytes(self.pid, page, PAGE);
        self.unanswered.set(read.as_ref().err().copied());
        read.ok().flatten()
    }
}

impl Source for TargetMemory<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            done += self.copy(address.checked_add(done as u64)?, rest)?;
        }
        Some(())
    }
}
