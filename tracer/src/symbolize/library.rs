//! One library whose code was seen: its open file, the root that it lies under, and the names in it.

use super::root::Root;
use super::{Detail, debug_file, look_up, symbolizer};
use crate::ids::BuildId;
use crate::profile::record::Name;
use crate::unwind::cfi::function_starts;
use crate::unwind::elf::{DebugSections, ElfFacts, path_of};
use blazesym::symbolize::Input;
use blazesym::symbolize::source::{Elf, Source};
use std::fs::File;
use std::path::PathBuf;

/// A file whose code was seen, open since then.
#[derive(Debug)]
pub struct Library {
    file: File,
    /// Where its process saw it: debug files are found from there.
    path: PathBuf,
    root: Root,
}

/// What was found for a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The function's name, with file and line where they were asked for and are known.
    pub(super) name: Option<Name>,
    /// What the compiler put into it.
    pub(super) inlined: Vec<Name>,
    /// Where a function without a name begins, as a file offset, by its unwind information.
    pub(super) start: Option<u64>,
}

impl Library {
    /// A file on its own, without a path to find debug files from.
    pub fn of(file: File) -> Self {
        Self { file, path: PathBuf::new(), root: Root::default() }
    }

    /// A file that a process has mapped, by its path under the process's root, and that root.
    pub const fn new(file: File, path: PathBuf, root: Root) -> Self {
        Self { file, path, root }
    }

    /// Its build id, if it has one.
    pub fn read_build_id(&self) -> Option<BuildId> {
        ElfFacts::read(&path_of(&self.file), &[]).ok()?.build_id
    }

    /// What is at these places (file offsets), one answer each, in their order.
    pub(super) fn name(&self, offsets: &[u64], detail: Detail) -> Vec<Place> {
        let path = path_of(&self.file);
        let facts = match ElfFacts::read(&path, &[]) {
            Ok(facts) => facts,
            Err(error) => {
                log::debug!("no symbols of {}: {error}", self.path.display());
                return vec![Place::default(); offsets.len()];
            }
        };
        // Places outside the code have no address, and no name.
        let addresses: Vec<u64> =
            offsets.iter().map(|&offset| facts.svma(offset).unwrap_or(u64::MAX)).collect();
        let mut places = vec![Place::default(); offsets.len()];
        for source in self.sources(&facts, detail) {
            fill(&mut places, &source, &addresses, detail);
        }
        if places.iter().any(|place| place.name.is_none()) {
            let starts = function_starts(&path);
            for (place, &offset) in places.iter_mut().zip(offsets) {
                place.start = Some(start_of(&starts, offset));
            }
        }
        places
    }

    /// The files with names, the best first.
    fn sources(&self, facts: &ElfFacts, detail: Detail) -> Vec<Names> {
        let path = path_of(&self.file);
        let sections = DebugSections::read(&path).unwrap_or_default();
        let own = Names { debug_info: detail.inlines && sections.debug_info, file: None, path };
        let complete = sections.symtab && (!detail.inlines || sections.debug_info);
        if complete || self.path.as_os_str().is_empty() {
            return vec![own];
        }
        let split = debug_file::find(&self.file, &self.path, &self.root, facts.build_id.as_ref(), &sections);
        let split = split.map(|file| {
            let path = path_of(&file);
            let sections = DebugSections::read(&path).unwrap_or_default();
            Names { debug_info: detail.inlines && sections.debug_info, file: Some(file), path }
        });
        split.into_iter().chain([own]).collect()
    }
}

/// A file with names.
struct Names {
    path: PathBuf,
    debug_info: bool,
    /// Open while it is read.
    #[expect(dead_code, reason = "the path is good as long as the file is open")]
    file: Option<File>,
}

/// Looks the places up that have no name yet.
fn fill(places: &mut [Place], names: &Names, addresses: &[u64], detail: Detail) {
    let missing: Vec<usize> = (0..places.len()).filter(|&i| places[i].name.is_none()).collect();
    if missing.is_empty() {
        return;
    }
    let wanted: Vec<u64> = missing.iter().map(|&i| addresses[i]).collect();
    let mut elf = Elf::new(&names.path);
    elf.debug_syms = names.debug_info;
    let symbolizer = symbolizer(Detail { inlines: detail.inlines && names.debug_info });
    let found = look_up(&symbolizer, &Source::Elf(elf), Input::VirtOffset(&wanted), &names.path);
    for (index, place) in missing.into_iter().zip(found) {
        places[index] = place;
    }
}

/// Where the function of a nameless place begins, so that its frames are one function: as unwind information has it, else the place itself.
fn start_of(starts: &[u64], place: u64) -> u64 {
    let after = starts.partition_point(|&start| start <= place);
    starts[..after].last().copied().unwrap_or(place)
}
