//! Stand-ins for NVIDIA's libraries, so that PyPI's PyTorch (built for CUDA) imports on a machine without them.
//!
//! PyPI has no build without CUDA for Linux, and the real libraries are several gigabytes. The libraries that are needed and not there
//! are linked anew from nothing but the names that PyTorch's own ask of them: each function answers "no such device", so that
//! `torch.cuda.is_available()` is false and everything runs on the CPU. They lie beside PyTorch's libraries, where its run path looks.

use crate::command::run_logged;
use anyhow::{Context as _, Result, ensure};
use object::elf::{DT_NEEDED, STT_OBJECT};
use object::read::elf::{ElfFile64, Sym as _};
use object::{Endianness, ReadRef};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the libraries begin that this project does without.
const LIBRARIES: [&str; 3] = ["libcu", "libnccl", "libnv"];
/// How the names begin that those libraries define, where a name does not say which library it wants.
const NAMES: [&str; 7] = ["cu", "__cuda", "nccl", "pncl", "nvrtc", "nvshmem", "nvJitLink"];
/// `cudaErrorNoDevice` (CUDA Runtime API, `cudaError`); the other libraries take any number but 0 as a failure.
const NO_DEVICE: u32 = 100;

/// A name that a library must define: its version (empty: none), itself, and whether it is data.
type Wanted = (String, String, bool);

/// What PyTorch's libraries ask of others.
#[derive(Debug, Default)]
struct Needs {
    libraries: BTreeSet<String>,
    /// Names by the library that they are wanted from.
    versioned: BTreeMap<String, BTreeSet<Wanted>>,
    /// Names that any library may define.
    anywhere: BTreeSet<Wanted>,
}

/// Links the stand-ins into the PyTorch of a virtual environment.
pub(crate) fn make(environment: &Path, log: &Path) -> Result<()> {
    let folder = find_libraries(environment)?;
    let mut needs = Needs::default();
    let mut here = BTreeSet::new();
    for entry in fs::read_dir(&folder).context("cannot list PyTorch's libraries")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains(".so") {
            add_needs(&mut needs, &path).with_context(|| format!("cannot read {}", path.display()))?;
            here.insert(name);
        }
    }
    let missing: Vec<&String> = needs.libraries.difference(&here).collect();
    eprintln!("setup: linking {} stand-ins for NVIDIA's libraries into {}", missing.len(), folder.display());
    for (number, &library) in missing.iter().enumerate() {
        let mut wanted = needs.versioned.remove(library).unwrap_or_default();
        if number == 0 {
            wanted.append(&mut needs.anywhere); // one of them is enough: the loader looks in all
        }
        link(library, &wanted, &folder, log)?;
    }
    Ok(())
}

/// `lib/python3.x/site-packages/torch/lib`.
fn find_libraries(environment: &Path) -> Result<PathBuf> {
    let versions =
        fs::read_dir(environment.join("lib")).context("no libraries in the virtual environment")?;
    versions
        .flatten()
        .map(|version| version.path().join("site-packages/torch/lib"))
        .find(|folder| folder.is_dir())
        .with_context(|| format!("no PyTorch in {}", environment.display()))
}

/// Adds what one library needs.
fn add_needs(needs: &mut Needs, path: &Path) -> Result<()> {
    let bytes = fs::read(path)?;
    let file = ElfFile64::<Endianness>::parse(&*bytes)?;
    let dynamic = file.elf_dynamic_table()?;
    for entry in dynamic.iter().filter(|entry| entry.tag == DT_NEEDED) {
        let name = String::from_utf8_lossy(dynamic.string(entry)?).into_owned();
        if LIBRARIES.iter().any(|start| name.starts_with(start)) {
            needs.libraries.insert(name);
        }
    }
    add_names(needs, &file)
}

/// Adds the names that one library does not define itself.
fn add_names<'data, R: ReadRef<'data>>(
    needs: &mut Needs,
    file: &ElfFile64<'data, Endianness, R>,
) -> Result<()> {
    let endian = file.endian();
    let versions = file.elf_section_table().versions(endian, file.data())?.unwrap_or_default();
    let symbols = file.elf_dynamic_symbol_table();
    for (index, symbol) in symbols.enumerate().filter(|(_, symbol)| symbol.is_undefined(endian)) {
        let name = String::from_utf8_lossy(symbols.symbol_name(endian, symbol)?).into_owned();
        let data = symbol.st_type() == STT_OBJECT;
        let version = versions.version(versions.version_index(endian, index))?;
        if let Some((library, version)) = version.and_then(|v| Some((v.file()?, v.name()))) {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            needs.versioned.entry(text(library)).or_default().insert((text(version), name, data));
        } else if NAMES.iter().any(|start| name.starts_with(start)) {
            needs.anywhere.insert((String::new(), name, data));
        }
    }
    Ok(())
}

/// Links one stand-in.
fn link(library: &str, wanted: &BTreeSet<Wanted>, folder: &Path, log: &Path) -> Result<()> {
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.$@".contains(&b));
    let mut names = wanted.iter().flat_map(|(version, name, _)| [version, name]);
    ensure!(names.all(|name| plain(name)), "{library} is asked for a name that is none");
    let source = folder.join(format!("{library}.s"));
    let map = folder.join(format!("{library}.map"));
    fs::write(&source, assembly(wanted))?;
    fs::write(&map, version_script(wanted))?;
    let mut command = Command::new("cc");
    command.args(["-shared", "-nostdlib", "-o"]).arg(folder.join(library)).arg(&source);
    command.arg(format!("-Wl,-soname,{library}"));
    if wanted.iter().any(|(version, ..)| !version.is_empty()) {
        command.arg(format!("-Wl,--version-script={}", map.display()));
    }
    let linked = run_logged(&mut command, log);
    fs::remove_file(source)?;
    fs::remove_file(map)?;
    linked
}

/// A function for each name, a few zeros for data. Registration hooks of the CUDA compiler (`__cuda…`) succeed: they run at import.
fn assembly(wanted: &BTreeSet<Wanted>) -> String {
    let mut text = String::from(".section .note.GNU-stack,\"\",@progbits\n");
    for (_, name, data) in wanted {
        let value = if name.starts_with("__cuda") { 0 } else { NO_DEVICE };
        let _ = match data {
            true => writeln!(
                text,
                ".data\n.globl {name}\n.type {name},@object\n.size {name},64\n{name}: .zero 64"
            ),
            false => writeln!(
                text,
                ".text\n.globl {name}\n.type {name},@function\n{name}: movl ${value},%eax\nret"
            ),
        };
    }
    text
}

/// The versions under which the names are asked for.
fn version_script(wanted: &BTreeSet<Wanted>) -> String {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (version, name, _) in wanted.iter().filter(|(version, ..)| !version.is_empty()) {
        versions.entry(version).or_default().push(name);
    }
    let node =
        |(version, names): (&&str, &Vec<&str>)| format!("{version} {{ global: {}; }};\n", names.join("; "));
    versions.iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::{assembly, version_script};
    use std::collections::BTreeSet;

    /// Each name is defined once, under the version that is asked for; names without version are in no version's list.
    #[test]
    fn names_and_versions() {
        let wanted = BTreeSet::from([
            ("V1".to_owned(), "cuA".to_owned(), false),
            ("V1".to_owned(), "cuB".to_owned(), true),
            (String::new(), "__cudaC".to_owned(), false),
        ]);
        assert_eq!(version_script(&wanted), "V1 { global: cuA; cuB; };\n");
        let text = assembly(&wanted);
        assert!(text.contains("cuA: movl $100") && text.contains("__cudaC: movl $0"), "{text}");
        assert!(text.contains("cuB: .zero"), "{text}");
    }
}
