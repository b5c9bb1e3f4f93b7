//! Names of native and kernel frames: the only room that names `blazesym`.
//!
//! Each unique frame once, at the end of the run, from the files that were mapped, which are kept open until then: what was deleted
//! meanwhile, or belongs to a container that is gone, still has its names. A frame without a name keeps its library and offset: "could not"
//! is an answer, with its reason in the log. On request debug information gives source lines and the functions that the compiler put into
//! others.

mod debug_file;
mod jit;
pub mod jitdump;
mod library;
pub mod perf_map;
mod root;

pub use jit::{JIT, JitNames, JitProcess};
pub use library::Library;
pub use root::{Root, Roots};

use crate::ids::FrameId;
use crate::profile::record::{Frame, FrameKind, Name};
use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolizer};
use library::Place;
use std::collections::BTreeMap;
use std::path::Path;

/// How much is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
            _ => libraries.get(*module).map(|library| library.name(&addresses, detail)).unwrap_or_default(),
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
    look_up(&symbolizer, &Source::Kernel(kernel), Input::AbsAddr(addresses), Path::new("the kernel"))
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

/// Asks for all places at once; places without a name where the source cannot be read.
fn look_up(symbolizer: &Symbolizer, source: &Source<'_>, places: Input<&[u64]>, path: &Path) -> Vec<Place> {
    let count = places.as_inner_ref().len();
    match symbolizer.symbolize(source, places) {
        Ok(found) => found.iter().map(|found| found.as_sym().map(Place::of).unwrap_or_default()).collect(),
        Err(error) => {
            log::debug!("no symbols of {}: {error:#}", path.display());
            vec![Place::default(); count]
        }
    }
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
    use super::{Detail, FrameNames, Library, name_frames};
    use crate::ids::FrameId;
    use crate::profile::record::{Frame, FrameKind};
    use crate::unwind::elf::ElfFacts;
    use std::collections::BTreeMap;
    use std::path::Path;

    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

    fn native(module: &str, address: u64) -> Frame {
        let empty = String::new();
        Frame {
            kind: FrameKind::Native,
            name: empty.clone(),
            module: module.into(),
            file: empty,
            line: 0,
            first_line: 0,
            address,
        }
    }

    fn names(frames: impl IntoIterator<Item = Frame>, libraries: &BTreeMap<String, Library>) -> Vec<String> {
        let frames: Vec<_> = (0u32..).map(FrameId::new).zip(frames).collect();
        let mut names = name_frames(&frames, libraries, Detail::default());
        names.sort_by_key(|FrameNames { frame, .. }| *frame);
        names.into_iter().map(|names| names.name.name).collect()
    }

    /// Functions of the vDSO are found though it is no file.
    #[test]
    fn names_of_the_vdso() {
        let image = crate::unwind::vdso::open_image().unwrap();
        let path = crate::unwind::elf::path_of(&image);
        let facts = ElfFacts::read(&path, &["__vdso_gettimeofday"]).unwrap();
        let place = facts.file_offset(facts.symbol("__vdso_gettimeofday").unwrap()).unwrap();
        let libraries = BTreeMap::from([("[vdso]".to_owned(), Library::of(image))]);
        let names = names([native("[vdso]", place + 1)], &libraries);
        assert!(names[0].ends_with("gettimeofday"), "{names:?}");
    }

    /// A function of libc is found by its place in the file; a place without a function, and one in a file that is gone, keep theirs.
    #[test]
    fn names_or_places() {
        let facts = ElfFacts::read(Path::new(LIBC), &["qsort"]).unwrap();
        let qsort = facts.file_offset(facts.symbol("qsort").unwrap()).unwrap();
        let frames = [native(LIBC, qsort + 1), native(LIBC, 1), native("/gone.so", 0x1234)];
        let libraries = BTreeMap::from([(LIBC.to_owned(), Library::of(std::fs::File::open(LIBC).unwrap()))]);
        let names = names(frames, &libraries);
        assert!(names[0].starts_with("qsort"), "{names:?}");
        assert_eq!(names[1..], ["libc.so.6+0x1", "gone.so+0x1234"]);
    }

    /// An address of the kernel that is in no function is its own name.
    #[test]
    fn nameless_kernel() {
        let frame = Frame { kind: FrameKind::Kernel, ..native("", 0x10) };
        assert_eq!(names([frame], &BTreeMap::new()), ["0x10"]);
    }
}
