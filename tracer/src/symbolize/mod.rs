//! Names of native and kernel frames: the only room that names `blazesym`.
//!
//! Each unique frame once, at the end of the run, from the files that were mapped. A frame without a name keeps its library and offset:
//! "could not" is an answer, with its reason in the log.

mod perf_map;

pub use perf_map::{JIT, name_jit_frames};

use crate::ids::FrameId;
use crate::profile::record::{Frame, FrameKind, Name};
use crate::unwind::cfi::function_starts;
use crate::unwind::elf::path_of;
use crate::unwind::vdso;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Names of frames, in any order. Every frame gets one.
pub fn name_frames(frames: &[(FrameId, Frame)]) -> Vec<(FrameId, Name)> {
    let symbolizer = Symbolizer::builder().enable_code_info(false).enable_inlined_fns(false).build();
    let mut by_module: BTreeMap<(FrameKind, &str), Vec<&(FrameId, Frame)>> = BTreeMap::new();
    for entry in frames {
        by_module.entry((entry.1.kind, &entry.1.module)).or_default().push(entry);
    }
    by_module
        .iter()
        .flat_map(|((kind, module), frames)| name_module(&symbolizer, *kind, module, frames))
        .collect()
}

/// Names of the frames of one file, or of the kernel.
fn name_module(
    symbolizer: &Symbolizer,
    kind: FrameKind,
    module: &str,
    frames: &[&(FrameId, Frame)],
) -> Vec<(FrameId, Name)> {
    // Open while it is read: the vDSO has no file of its own.
    let image = if module == vdso::PATH { vdso::open_image().ok() } else { None };
    let path = image.as_ref().map_or_else(|| PathBuf::from(module), path_of);
    let places: Vec<u64> = frames.iter().map(|(_, frame)| frame.address).collect();
    let found = match kind {
        FrameKind::Kernel => {
            let kernel = Kernel { debug_syms: false, ..Kernel::default() };
            symbolizer.symbolize(&Source::Kernel(kernel), Input::AbsAddr(&places))
        }
        _ => {
            let mut elf = Elf::new(&path);
            elf.debug_syms = false;
            symbolizer.symbolize(&Source::Elf(elf), Input::FileOffset(&places))
        }
    };
    let found = found.unwrap_or_else(|error| {
        log::debug!("no symbols of {module}: {error:#}");
        Vec::new()
    });
    let nameless = |found: &Symbolized<'_>| matches!(found, Symbolized::Unknown(_));
    let starts = if kind == FrameKind::Native && (found.is_empty() || found.iter().any(nameless)) {
        function_starts(&path)
    } else {
        Vec::new()
    };
    let names = found.iter().map(Some).chain(std::iter::repeat(None));
    frames.iter().zip(names).map(|((id, frame), found)| (*id, name_of(frame, found, &starts))).collect()
}

/// Where the function of a nameless frame begins, so that its frames are one function: as unwind information has it, else the place itself.
fn start_of(starts: &[u64], place: u64) -> u64 {
    let after = starts.partition_point(|&start| start <= place);
    starts[..after].last().copied().unwrap_or(place)
}

fn name_of(frame: &Frame, found: Option<&Symbolized<'_>>, starts: &[u64]) -> Name {
    let name = match found {
        Some(Symbolized::Sym(symbol)) => symbol.name.to_string(),
        _ if frame.kind == FrameKind::Kernel => format!("{:#x}", frame.address),
        _ => format!(
            "{}+{:#x}",
            frame.module.rsplit('/').next().unwrap_or_default(),
            start_of(starts, frame.address)
        ),
    };
    Name { name, file: String::new(), line: 0 }
}

#[cfg(test)]
mod tests {
    use super::name_frames;
    use crate::ids::FrameId;
    use crate::profile::record::{Frame, FrameKind};
    use crate::unwind::elf::ElfFacts;

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

    /// Functions of the vDSO are found though it is no file.
    #[test]
    fn names_of_the_vdso() {
        let image = crate::unwind::vdso::open_image().unwrap();
        let path = crate::unwind::elf::path_of(&image);
        let facts = ElfFacts::read(&path, &["__vdso_gettimeofday"]).unwrap();
        let place = facts.file_offset(facts.symbol("__vdso_gettimeofday").unwrap()).unwrap();
        let names = name_frames(&[(FrameId::new(0), native("[vdso]", place + 1))]);
        assert!(names[0].1.name.ends_with("gettimeofday"), "{names:?}");
    }

    /// A function of libc is found by its place in the file; a place without a function, and a file that is gone, keep theirs.
    #[test]
    fn names_or_places() {
        let libc = "/lib/x86_64-linux-gnu/libc.so.6";
        let facts = ElfFacts::read(std::path::Path::new(libc), &["qsort"]).unwrap();
        let segment = facts.code[0];
        let qsort = facts.symbol("qsort").unwrap() - segment.svma + segment.offset;
        let frames = [native(libc, qsort + 1), native(libc, 1), native("/gone.so", 0x1234)];
        let frames: Vec<_> = (0u32..).map(FrameId::new).zip(frames).collect();
        let mut names = name_frames(&frames);
        names.sort_by_key(|(id, _)| *id);
        let names: Vec<&str> = names.iter().map(|(_, name)| name.name.as_str()).collect();
        assert!(names[0].starts_with("qsort"), "{names:?}");
        assert_eq!(names[1..], ["libc.so.6+0x1", "gone.so+0x1234"]);
    }
}
