//! Memory of no process, for unit tests. Leaves out what lies in it.

use crate::cpython::memory::Source;
use std::collections::BTreeMap;

/// Memory by words; words that were not written are zero.
#[derive(Default)]
pub(crate) struct Words(pub(crate) BTreeMap<u64, u64>);

impl Source for Words {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        for (at, out) in (address..).zip(out) {
            let word = self.0.get(&(at & !7)).copied().unwrap_or(0);
            *out = word.to_le_bytes()[(at & 7) as usize];
        }
        Some(())
    }
}

impl Words {
    /// Bytes of a text, and zeros up to a whole word.
    pub(crate) fn text(&mut self, at: u64, text: &str) {
        for (place, part) in (at..).step_by(8).zip(text.as_bytes().chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0.insert(place, u64::from_le_bytes(word));
        }
    }
}

/// Memory from address 0x1000 on.
pub(crate) struct Snapshot(pub(crate) Vec<u8>);

impl Source for Snapshot {
    fn read(&self, address: u64, out: &mut [u8]) -> Option<()> {
        let at = usize::try_from(address.checked_sub(0x1000)?).ok()?;
        out.copy_from_slice(self.0.get(at..at + out.len())?);
        Some(())
    }
}
