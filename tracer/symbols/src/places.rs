//! The names in one file, and in the debug files that belong to it: what a resolver's worker does.
//!
//! Leaves out where debug files are and who opens them (`naming/`).

use super::image::image_of;
use super::packed_symbols::unpack_symbols;
use super::symbolizer::{look_up, name, symbolizer};
use super::{Detail, Place, Proof};
use blazesym::symbolize::Input;
use blazesym::symbolize::source::{Elf, Source};
use energy_trace_model::recording::record::Name;
use energy_trace_unwind::cfi::function_starts;
use energy_trace_unwind::elf::{DebugSections, ElfFacts, path_of};
use energy_trace_unwind::file_bytes::{Positioned, believable_bytes};
use energy_trace_unwind::go::read_go_names;
use energy_trace_unwind::plt::linked_functions;
use std::fs::File;
use std::io::{self, Read as _};

/// Bytes that are read at once for a checksum.
const BLOCK: usize = 256 << 10;

/// What is at these places (file offsets) of a file, one answer each, in their order. Of the candidates the first that is what its proof
/// says is the file's debug file.
pub fn name_places<'a>(
    file: &File,
    candidates: impl Iterator<Item = (&'a File, &'a Proof)>,
    offsets: &[u64],
    detail: Detail,
) -> Vec<Place> {
    let mut places = vec![Place::default(); offsets.len()];
    let Ok(facts) = ElfFacts::read(file, &[]) else { return places };
    // Places outside the code have no address, and no name.
    let addresses: Vec<u64> = offsets.iter().map(|&offset| facts.svma(offset).unwrap_or(u64::MAX)).collect();
    let mut candidates = candidates;
    let debug_file = candidates.find(|(candidate, proof)| belongs(candidate, proof)).map(|(found, _)| found);
    // Tables lie behind a function that some linkers gave no end, and are none of its.
    for (place, function) in places.iter_mut().zip(linked_functions(file, &addresses)) {
        place.name = function.map(|function| linked_name(&function));
    }
    for source in debug_file.into_iter().chain([file]) {
        fill(&mut places, source, &addresses, detail);
    }
    if is_one_nameless(&places)
        && let Some(symbols) = unpack_symbols(file)
    {
        fill(&mut places, &symbols, &addresses, detail);
    }
    if is_one_nameless(&places) {
        fill_by_go(&mut places, file, &addresses);
    }
    if is_one_nameless(&places) {
        let starts = function_starts(file);
        for (place, &offset) in places.iter_mut().zip(offsets) {
            place.start = Some(start_of(&starts, offset));
        }
    }
    places
}

/// The name of an entry of a procedure linkage table, as disassemblers write it.
fn linked_name(function: &str) -> Name {
    let of = name(function, None);
    Name { name: format!("{}@plt", of.name), ..of }
}

/// Whether a debug file is the one that is looked for.
fn belongs(file: &File, proof: &Proof) -> bool {
    match proof {
        Proof::BuildId(id) => {
            ElfFacts::read(file, &[]).is_ok_and(|facts| facts.build_id.as_ref() == Some(id))
        }
        Proof::Crc32(crc) => read_crc32(file).is_ok_and(|found| found == *crc),
    }
}

/// The CRC-32 of a whole file, by which a debug link names it; one that is mostly holes is none.
fn read_crc32(file: &File) -> io::Result<u32> {
    if file.metadata()?.len() > believable_bytes(file)? {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut from = Positioned::new(file);
    let mut crc = crc32fast::Hasher::new();
    let mut block = vec![0; BLOCK];
    loop {
        match from.read(&mut block)? {
            0 => return Ok(crc.finalize()),
            read => crc.update(block.get(..read).unwrap_or_default()),
        }
    }
}

fn is_one_nameless(places: &[Place]) -> bool {
    places.iter().any(|place| place.name.is_none())
}

/// Names the places that have no name yet as Go's own table does.
fn fill_by_go(places: &mut [Place], file: &File, addresses: &[u64]) {
    for (place, function) in places.iter_mut().zip(read_go_names(file, addresses).unwrap_or_default()) {
        place.name = place.name.take().or_else(|| Some(name(&function?, None)));
    }
}

/// Looks the places up that have no name yet.
fn fill(places: &mut [Place], file: &File, addresses: &[u64], detail: Detail) {
    let missing: Vec<usize> = (0..places.len()).filter(|&i| places[i].name.is_none()).collect();
    if missing.is_empty() {
        return;
    }
    let wanted: Vec<u64> = missing.iter().map(|&i| addresses[i]).collect();
    let has_lines = DebugSections::read(file).is_ok_and(|sections| sections.debug_info);
    let debug_info = detail.inlines && has_lines;
    let found = names_of(file, &wanted, debug_info).or_else(|| {
        // Debug information that leads astray does not take the symbols along.
        if debug_info { names_of(file, &wanted, false) } else { None }
    });
    for (index, place) in missing.into_iter().zip(found.into_iter().flatten()) {
        places[index] = place;
    }
}

/// What a file has at these addresses; `None` where it cannot be read.
fn names_of(file: &File, addresses: &[u64], debug_info: bool) -> Option<Vec<Place>> {
    let image = image_of(file, debug_info).ok()?;
    let mut elf = Elf::new(path_of(&image));
    elf.debug_syms = debug_info;
    let symbolizer = symbolizer(Detail { inlines: debug_info, ..Detail::default() });
    look_up(&symbolizer, &Source::Elf(elf), Input::VirtOffset(addresses))
}

/// Where the function of a nameless place begins, so that its frames are one function: as unwind information has it, else the place itself.
fn start_of(starts: &[u64], place: u64) -> u64 {
    let after = starts.partition_point(|&start| start <= place);
    starts[..after].last().copied().unwrap_or(place)
}

#[cfg(test)]
mod tests {
    use super::{belongs, name_places};
    use crate::{Detail, Proof};
    use energy_trace_model::ids::BuildId;
    use energy_trace_unwind::elf::ElfFacts;
    use std::fs::File;

    /// Marks in the middle of a function are no names: what is behind one is the function still, and is the mark in a file of a processor that has
    /// none.
    #[test]
    fn marks_are_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let source =
            ".globl f\n.type f, @function\nf: nop\n\"$x\": nop\n\"$d.7\": nop\n nop\n ret\n.size f, .-f\n";
        std::fs::write(folder.path().join("a.s"), source).unwrap();
        let mut cc = std::process::Command::new("cc");
        cc.args(["-shared", "-o", "a.so", "a.s"]).current_dir(folder.path());
        assert!(cc.status().unwrap().success());
        let path = folder.path().join("a.so");
        let names = || {
            let file = File::open(&path).unwrap();
            let facts = ElfFacts::read(&file, &["f"]).unwrap();
            let at = facts.file_offset(facts.symbol("f").unwrap()).unwrap();
            let places = name_places(&file, [].into_iter(), &[at, at + 1, at + 3], Detail::default());
            places.into_iter().map(|place| place.name.unwrap().name).collect::<Vec<_>>()
        };
        assert_ne!(names(), ["f", "f", "f"]);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[18] = 183; // `e_machine`: `EM_AARCH64`.
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(names(), ["f", "f", "f"]);
    }

    /// What jumps on to a function of another library is called after that, and not after the function before its table.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn entries_of_linkage_tables() {
        let folder = tempfile::tempdir().unwrap();
        let source = ".globl f\n.type f, @function\nf: jmp _ZN2at3addEv@PLT\n.size f, .-f\n";
        std::fs::write(folder.path().join("a.s"), source).unwrap();
        let mut cc = std::process::Command::new("cc");
        cc.args(["-shared", "-o", "a.so", "a.s"]).current_dir(folder.path());
        assert!(cc.status().unwrap().success());
        let file = File::open(folder.path().join("a.so")).unwrap();
        let facts = ElfFacts::read(&file, &["f"]).unwrap();
        let at = facts.file_offset(facts.symbol("f").unwrap()).unwrap();
        let mut jump = [0; 5];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut jump, at).unwrap();
        let entry = (at + 5).wrapping_add_signed(i32::from_le_bytes(jump[1..].try_into().unwrap()).into());
        let places = name_places(&file, [].into_iter(), &[at, entry, entry + 6], Detail::default());
        let names: Vec<_> = places.into_iter().map(|place| place.name.unwrap().name).collect();
        assert_eq!(names, ["f", "at::add()@plt", "at::add()@plt"]);
    }

    /// A stripped library that carries its symbols packed has the names of functions that it does not export; those that it exports are its own.
    #[test]
    fn packed_symbols() {
        let folder = tempfile::tempdir().unwrap();
        let source = ".globl f\n.type f, @function\nf: nop\n.size f, .-f\n.type inner, @function\ninner: nop\n.size inner, .-inner\n";
        std::fs::write(folder.path().join("a.s"), source).unwrap();
        let script = "cc -shared -o a.so a.s && objcopy --only-keep-debug a.so a.debug && objcopy -S --keep-symbol=inner a.debug a.mini && \
            xz a.mini && strip --strip-all a.so && objcopy --add-section .gnu_debugdata=a.mini.xz a.so b.so";
        let mut sh = std::process::Command::new("sh");
        assert!(sh.args(["-ec", script]).current_dir(folder.path()).status().unwrap().success());
        let names = |library: &str| {
            let file = File::open(folder.path().join(library)).unwrap();
            let facts = ElfFacts::read(&file, &["f"]).unwrap();
            let at = facts.file_offset(facts.symbol("f").unwrap()).unwrap();
            let places = name_places(&file, [].into_iter(), &[at, at + 1], Detail::default());
            places.into_iter().map(|place| place.name.map(|name| name.name)).collect::<Vec<_>>()
        };
        assert_eq!(names("a.so"), [Some("f".into()), None]);
        assert_eq!(names("b.so"), [Some("f".into()), Some("inner".into())]);
    }

    /// A stripped program of Go has the names of its own table: where that says where code begins, where only its module does (Go 1.26), and where
    /// a C linker put it into another section; behind its code, and where a module is another table's, nothing has a name.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "a table as x86-64's programs have it")]
    fn stripped_go() {
        let folder = tempfile::tempdir().unwrap();
        let names = |section: &str, text: &str, module: &str| {
            let source = format!(
                ".globl _start\n_start: nop\nsecond: nop\nend: ret\n\
                .section {section},\"aw\"\ntable: .long 0xfffffff1\n.byte 0, 0, 1, 8\n.quad 2, 0, {text}\n\
                .quad names - table, 0, 0, pcs - table, list - table\n\
                names: .asciz \"main.first\"\n.asciz \"main.(*box[...]).second\"\npcs: .byte 0\n\
                list: .long 0, first_known - list, second - _start, known - list, end - _start\n\
                first_known: .long 0, 0\nknown: .long 1, 11\n\
                .section .go.buildinfo,\"a\"\n.quad 0\n\
                .section .go.module,\"a\"\n.quad {module}\n.fill 21, 8, 0\n.quad _start\n"
            );
            std::fs::write(folder.path().join("a.s"), source).unwrap();
            let mut cc = std::process::Command::new("cc");
            cc.args(["-static", "-nostdlib", "-s", "-o", "a", "a.s"]).current_dir(folder.path());
            assert!(cc.status().unwrap().success());
            let file = File::open(folder.path().join("a")).unwrap();
            let facts = ElfFacts::read(&file, &[]).unwrap();
            let at = facts.file_offset(facts.entry).unwrap();
            let places = name_places(&file, [].into_iter(), &[at, at + 1, at + 2], Detail::default());
            places.into_iter().map(|place| place.name.map(|name| name.name)).collect::<Vec<_>>()
        };
        let named = [Some("main.first".into()), Some("main.(*box[...]).second".into()), None];
        assert_eq!(names(".gopclntab", "_start", "0"), named);
        assert_eq!(names(".gopclntab", "0", ".gopclntab"), named);
        let behind_others = ".data.rel.ro,\"aw\"\n.quad 0\n.section .data.rel.ro";
        assert_eq!(names(behind_others, "_start", "0"), named);
        assert_eq!(names(".gopclntab", "0", "_start"), [None, None, None]);
    }

    /// A function of libc is found by its place; a place without a function has the start of one, or itself.
    #[test]
    fn names_or_places() {
        let libc = File::open("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
        let facts = ElfFacts::read(&libc, &["qsort"]).unwrap();
        let qsort = facts.file_offset(facts.symbol("qsort").unwrap()).unwrap();
        let found = name_places(&libc, std::iter::empty(), &[qsort + 1, 1], Detail::default());
        assert!(found[0].name.as_ref().unwrap().name.starts_with("qsort"), "{found:?}");
        assert_eq!((&found[1].name, found[1].start), (&None, Some(1)));
    }

    /// Functions of the vDSO are found though it is no file.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "a name of x86-64's")]
    fn names_of_the_vdso() {
        let image = energy_trace_unwind::vdso::open_image().unwrap();
        let facts = ElfFacts::read(&image, &["__vdso_gettimeofday"]).unwrap();
        let place = facts.file_offset(facts.symbol("__vdso_gettimeofday").unwrap()).unwrap();
        let found = name_places(&image, std::iter::empty(), &[place + 1], Detail::default());
        assert!(found[0].name.as_ref().unwrap().name.ends_with("gettimeofday"), "{found:?}");
    }

    /// A debug file is taken by what it is, not by its place: build id or checksum; one that is mostly a hole is not even read.
    #[test]
    fn proofs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.debug");
        std::fs::write(&path, "symbols").unwrap();
        let file = File::open(&path).unwrap();
        let crc = crc32fast::hash(b"symbols");
        assert!(belongs(&file, &Proof::Crc32(crc)));
        assert!(!belongs(&file, &Proof::Crc32(crc + 1)));
        assert!(!belongs(&file, &Proof::BuildId(BuildId::from_bytes(vec![1; 20]))));
        File::options().write(true).open(&path).unwrap().set_len(4 << 40).unwrap();
        assert!(!belongs(&file, &Proof::Crc32(crc)));
    }
}
