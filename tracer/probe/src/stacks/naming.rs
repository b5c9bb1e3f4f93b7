//! Names for the frames of a recording that ends: of native functions, of the kernel's, and of code that was made at run time.
//!
//! Leaves out finding them (`naming/`).

use super::builder::StackBuilder;
use energy_trace_foreign::resolver::Worker;
use energy_trace_model::ids::FrameId;
use energy_trace_model::recording::record::{Frame, Library, Name, Record};
use energy_trace_naming::{self as naming, Callers, find_public_names, in_turn, name_frames};
use energy_trace_symbols::Detail;
use nix::unistd::{Gid, Uid};
use std::collections::BTreeMap;

/// Finds the names of frames without one, and sends them.
pub(crate) fn send_names(stacks: &StackBuilder, detail: Detail) {
    let out = &stacks.out;
    let spent = |owner| stacks.worker.spent(owner);
    let libraries = stacks.libraries.open().iter().map(|of_path| (of_path.1.owner(), of_path));
    in_turn(libraries, spent, |(path, library)| {
        if let Some(id) = library.read_build_id(&stacks.worker) {
            out.send(Record::Library(Library { path: path.clone(), build_id: id.to_string() }));
        }
    });
    let found = name_frames(&out.unnamed, stacks.libraries.open(), &stacks.worker, detail);
    send_jit_names(stacks, &Callers::new(&out.unnamed, &found));
    for names in found {
        out.send(Record::Name(names.frame, names.name));
        if !names.inlined.is_empty() {
            out.send(Record::Inlined(names.frame, names.inlined));
        }
    }
}

/// Finds the names of code that was made at run time, and sends them.
fn send_jit_names(stacks: &StackBuilder, callers: &Callers<'_>) {
    let out = &stacks.out;
    let of = |name| Name { name, file: String::new(), line: 0 };
    let spent = |owner| stacks.worker.spent(owner);
    let programs = stacks.jit.values().map(|program| (program.owner(), program));
    let made_by = |frames: &[FrameId], are_sure| callers.made_by(frames, are_sure);
    let found = in_turn(programs, spent, |program| program.names(&stacks.worker, made_by));
    for names in found.into_iter().flatten() {
        out.send(Record::Name(names.frame, of(names.first)));
        for (at, name) in names.later {
            out.send(Record::Renamed(names.frame, at, of(name)));
        }
    }
}

/// Names of these frames, for the recording: while it runs, so without inlined functions and code that may change.
pub(crate) fn names_of(
    frames: &[(FrameId, Frame)],
    libraries: &BTreeMap<String, naming::Library>,
    worker: &Worker,
) -> Vec<Record> {
    let names = name_frames(frames, libraries, worker, Detail::default());
    names.into_iter().map(|names| Record::Name(names.frame, names.name)).collect()
}

/// Finds what users call functions of packages, and where these are installed, and sends it; their files are opened with the rights of `reader`.
pub(crate) fn send_public_names(stacks: &StackBuilder, reader: Option<(Uid, Gid)>) {
    let roots = stacks.libraries.roots.all();
    let (names, installed) = find_public_names(stacks.out.frames(), &roots, reader, &stacks.worker);
    if !names.is_empty() {
        stacks.out.send(Record::PublicNames(names));
    }
    if !installed.is_empty() {
        stacks.out.send(Record::Installed(installed));
    }
}
