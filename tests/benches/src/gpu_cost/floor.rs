//! What a uprobe costs before anybody does anything in it: probes with a BPF program that returns at once.
//!
//! Leaves out where in a function a probe belongs: an `endbr64` is skipped, as the product skips it.

use crate::perf_event::EmptyEvent;
use anyhow::{Context as _, Result};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use std::ffi::CString;
use std::fs;
use std::path::Path;

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Probes that are there until this is dropped.
pub(super) struct Empty {
    _probes: Vec<EmptyEvent>,
}

impl Empty {
    /// On each of these functions of libraries, for all processes.
    pub(super) fn attach(functions: &[(&Path, &str)]) -> Result<Self> {
        let probes = functions.iter().map(|(library, function)| probe(library, function));
        Ok(Self { _probes: probes.collect::<Result<_>>()? })
    }
}

fn probe(library: &Path, function: &str) -> Result<EmptyEvent> {
    let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?.trim().parse()?;
    let path = CString::new(library.to_string_lossy().as_bytes())?;
    EmptyEvent::uprobe(kind, &path, spot(library, function)?)
}

/// The offset in the file of a function's first instruction that is no `endbr64`.
fn spot(library: &Path, function: &str) -> Result<u64> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let file = object::File::parse(bytes.as_slice())?;
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(function));
    let address = symbol.with_context(|| format!("no {function} in {}", library.display()))?.address();
    let section = file
        .sections()
        .find(|section| (section.address()..section.address() + section.size()).contains(&address))
        .context("a function lies in a section")?;
    let (start, _) = section.file_range().context("a section of code lies in the file")?;
    let offset = start + address - section.address();
    let at = usize::try_from(offset)?;
    Ok(offset + if bytes.get(at..at + 4) == Some(&ENDBR64) { 4 } else { 0 })
}
