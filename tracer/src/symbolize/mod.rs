//! Names of native and kernel frames: the only room that names `blazesym`.
//!
//! Each unique frame once, at the end of the run, from the files that were mapped, which are kept open until then: what was deleted
//! meanwhile, or belongs to a container that is gone, still has its names. A frame without a name keeps its library and offset: "could not"
//! is an answer, with its reason in the log. On request debug information gives source lines and the functions that the compiler put into
//! others.
//!
//! The recorder opens files and asks (`library.rs`, `jit.rs`, `debug_file.rs`); a resolver's worker looks into them (`names.rs`, `perf_map.rs`,
//! `jitdump.rs`). Names of the kernel's own functions are the kernel's word, and are asked for without a worker.

mod debug_file;
mod image;
mod jit;
pub mod jitdump;
mod library;
mod names;
pub mod perf_map;

pub use jit::{JIT, JitNames, JitProcess};
pub use library::Library;
pub use names::name_places;

use crate::resolver::Worker;
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use energy_trace_model::ids::FrameId;
use energy_trace_model::recording::record::{Frame, FrameKind, Name};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What was found for a place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The function's name, with file and line where they were asked for and are known.
    pub name: Option<Name>,
    /// What the compiler put into it.
    pub inlined: Vec<Name>,
    /// Where a function without a name begins, as a file offset, by its unwind information.
    pub start: Option<u64>,
}

/// How much is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// Source lines and inlined functions, from debug information.
    pub inlines: bool,
}

/// What a frame is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameNames {
    /// The frame.
    pub frame: FrameId,
    /// The function.
    pub name: Name,
    /// The functions that the compiler put into it at this place, each into the one before it.
    pub inlined: Vec<Name>,
}

/// Names of frames, in any order; every frame gets one. `libraries` are the open files, by the frames' module.
pub fn name_frames(
    frames: &[(FrameId, Frame)],
    libraries: &BTreeMap<String, Library>,
    worker: &Worker,
    detail: Detail,
) -> Vec<FrameNames> {
    let mut by_module: BTreeMap<(FrameKind, &str), Vec<&(FrameId, Frame)>> = BTreeMap::new();
    for entry in frames {
        by_module.entry((entry.1.kind, &entry.1.module)).or_default().push(entry);
    }
    let name = |((kind, module), frames): (&(FrameKind, &str), &Vec<&(FrameId, Frame)>)| {
        let addresses: Vec<u64> = frames.iter().map(|(_, frame)| frame.address).collect();
        let found = match kind {
            FrameKind::Kernel => name_kernel(&addresses),
            _ => libraries
                .get(*module)
                .map(|library| library.name(worker, &addresses, detail))
                .unwrap_or_default(),
        };
        let found = found.into_iter().chain(std::iter::repeat(Place::default()));
        let named = frames.iter().zip(found).map(|((id, frame), place)| names_of(*id, frame, place));
        named.collect::<Vec<FrameNames>>()
    };
    by_module.iter().flat_map(name).collect()
}

fn name_kernel(addresses: &[u64]) -> Vec<Place> {
    let symbolizer = symbolizer(Detail::default());
    let kernel = Kernel { debug_syms: false, ..Kernel::default() };
    look_up(&symbolizer, &Source::Kernel(kernel), Input::AbsAddr(addresses)).unwrap_or_default()
}

/// A symbolizer for one file: what it caches is let go with it.
fn symbolizer(detail: Detail) -> Symbolizer {
    Symbolizer::builder()
        .enable_code_info(detail.inlines)
        .enable_inlined_fns(detail.inlines)
        // Debug files are looked for, and checked, in `debug_file.rs`.
        .set_debug_dirs(None::<[&Path; 0]>)
        .build()
}

/// Asks for all places at once; `None` where the source cannot be read.
fn look_up(symbolizer: &Symbolizer, source: &Source<'_>, places: Input<&[u64]>) -> Option<Vec<Place>> {
    let found = symbolizer.symbolize(source, places);
    let found = found.inspect_err(|error| log::debug!("no symbols: {error:#}")).ok()?;
    Some(found.iter().map(|found| found.as_sym().map(Place::of).unwrap_or_default()).collect())
}

impl Place {
    /// What the symbolizer says.
    fn of(symbol: &Sym<'_>) -> Self {
        let inlined = symbol.inlined.iter().map(|i| name(&i.name, i.code_info.as_ref()));
        Self {
            name: Some(name(&symbol.name, symbol.code_info.as_deref())),
            inlined: inlined.collect(),
            start: None,
        }
    }
}

fn name(name: &str, code: Option<&CodeInfo<'_>>) -> Name {
    let file = code.map(|code| code.to_path().to_string_lossy().into_owned()).unwrap_or_default();
    let line = code.and_then(|code| code.line).unwrap_or(0);
    // A line without its file says nothing.
    let line = if file.is_empty() { 0 } else { line };
    Name { name: name.to_owned(), file, line }
}

fn names_of(id: FrameId, frame: &Frame, place: Place) -> FrameNames {
    let name = place.name.unwrap_or_else(|| Name {
        name: match frame.kind {
            FrameKind::Kernel => format!("{:#x}", frame.address),
            _ => place_name(&frame.module, place.start.unwrap_or(frame.address)),
        },
        file: String::new(),
        line: 0,
    });
    FrameNames { frame: id, name, inlined: place.inlined }
}

/// Stands for a name that was not found: the library and the place where the function begins.
fn place_name(module: &str, offset: u64) -> String {
    format!("{}+{offset:#x}", module.rsplit('/').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{Detail, name_kernel, name_places, names_of};
    use crate::unwind::elf::ElfFacts;
    use energy_trace_model::ids::FrameId;
    use energy_trace_model::recording::record::{Frame, FrameKind};

    fn frame(kind: FrameKind, module: &str, address: u64) -> Frame {
        let empty = String::new();
        Frame {
            kind,
            name: empty.clone(),
            module: module.into(),
            file: empty,
            line: 0,
            first_line: 0,
            address,
        }
    }

    /// Functions of the vDSO are found though it is no file.
    #[test]
    fn names_of_the_vdso() {
        let image = crate::unwind::vdso::open_image().unwrap();
        let facts = ElfFacts::read(&image, &["__vdso_gettimeofday"]).unwrap();
        let place = facts.file_offset(facts.symbol("__vdso_gettimeofday").unwrap()).unwrap();
        let found = name_places(&image, std::iter::empty(), &[place + 1], Detail::default());
        assert!(found[0].name.as_ref().unwrap().name.ends_with("gettimeofday"), "{found:?}");
    }

    /// What has no name keeps its place: a library's by file and offset, or by the start of its function; the kernel's by its address.
    #[test]
    fn places_without_names() {
        let name = |frame: &Frame, start| {
            let place = super::Place { start, ..super::Place::default() };
            names_of(FrameId::new(0), frame, place).name.name
        };
        let gone = frame(FrameKind::Native, "/lib/gone.so", 0x1234);
        assert_eq!(name(&gone, None), "gone.so+0x1234");
        assert_eq!(name(&gone, Some(0x1200)), "gone.so+0x1200");
        assert_eq!(name(&frame(FrameKind::Kernel, "", 0x10), None), "0x10");
        assert!(name_kernel(&[0x10]).iter().all(|place| place.name.is_none()));
    }
}
