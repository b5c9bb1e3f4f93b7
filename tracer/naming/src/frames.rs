//! Names of frames: each unique one once, at the end of the run.
//!
//! Leaves out who is asked for a library's names (`library.rs`) and code that was made at run time (`jit.rs`).

use super::Library;
use super::turns::in_turn;
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::ids::FrameId;
use energy_trace_model::recording::record::{Frame, FrameKind, Name, Owner};
use energy_trace_symbols::{Detail, Place, name_kernel};
use std::collections::BTreeMap;

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
    let owner = |module: &str| libraries.get(module).map_or(Owner::Root, Library::owner);
    let all = by_module.iter().map(|of_module| (owner(of_module.0.1), of_module));
    in_turn(all, |owner| worker.spent(owner), name).into_iter().flatten().collect()
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
    use super::{name_kernel, names_of};
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
