//! Which files a command will map as code, as far as this is known before it runs: so that their tables are ready when
//! its first instruction is.
//!
//! The program (behind `#!` and `env`, whatever links lead to it), the first Python among the words behind another
//! program (`nice python3 a.py`, `sh -c "python3 a.py"`), and the interpreter library that either is linked with. A
//! guess that is wrong costs a file that is read in vain; one that is missing is made up for when the process is met.
//! The files are somebody else's: only regular ones are opened, without waiting, and the process that looks has a
//! limit and nothing to lose (`finisher/prefetch.rs`). Leaves out what the program loads later, and what scripts of a
//! shell start.

use super::lookup::locate;
use energy_trace_foreign::files::Root;
use energy_trace_model::collections::Order as _;
use energy_trace_probe::CountName;
use energy_trace_system::arch::ROOT_LIBRARIES;
use energy_trace_unwind::elf::{Linked, read_linked};
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Scripts that may name each other.
const MAX_SCRIPTS: usize = 4;
/// Words behind a program among which that may be which it starts.
const MAX_WORDS: usize = 16;
/// Where the dynamic loader looks last.
const SYSTEM: [&str; 4] = [ROOT_LIBRARIES, "/usr/lib64", "/usr/local/lib", "/usr/lib"];

/// Libraries of packages of Python whose entry functions can be counted, below the folder of packages.
const COUNTED: [&str; 4] = [
    "torch/lib/libtorch_python.so",
    "torch/lib/libtorch_cpu.so",
    "tensorflow/libtensorflow_cc.so.2",
    "tensorflow/python/lib_pywrap_tensorflow_common.so",
];

/// The libraries of packages that a command line may load and whose entry functions can be counted, with this `PATH`.
pub fn counted_libraries_of(words: &[OsString], path: Option<&OsStr>) -> Vec<PathBuf> {
    let program = words.first().and_then(|name| program_of(name, path));
    let Some(program) = program else { return Vec::new() };
    let ends = [program.canonicalize().unwrap_or_else(|_| program.clone()), program];
    let prefixes = ends.iter().filter_map(|end| Some(end.parent()?.parent()?.join("lib")));
    let folders: Vec<PathBuf> =
        prefixes.filter_map(|lib| std::fs::read_dir(lib).ok()).flat_map(packages_in).collect();
    let libraries = folders.iter().flat_map(|folder| COUNTED.map(|library| folder.join(library)));
    let mut found: Vec<PathBuf> = libraries.filter_map(|path| path.canonicalize().ok()).collect();
    // Debian's lie elsewhere, under a name with the version.
    let beside = found.iter().filter_map(|library| other_of_debian(library));
    found.extend(beside.collect::<Vec<_>>());
    found.order();
    found.dedup();
    found
}

/// The libraries with functions to count that a program is linked with.
pub fn named_libraries_of(program: &Path, names: &[CountName]) -> Vec<PathBuf> {
    let linked = Root::default().open(program, true).ok().and_then(|file| read_linked(&file).ok());
    let is_named = |file: &str| names.iter().any(|name| name.may_be_in(file, false));
    linked.map(|linked| find_linked(program, &linked, is_named)).unwrap_or_default()
}

/// Where the loader looks for libraries before it looks in the usual places.
pub fn search_folders() -> Vec<PathBuf> {
    let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    std::env::split_paths(&search).filter(|path| path.is_absolute()).collect()
}

/// The folders of packages in a folder of libraries.
fn packages_in(lib: std::fs::ReadDir) -> impl Iterator<Item = PathBuf> {
    let of_python = lib.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    of_python.flat_map(|entry| ["site-packages", "dist-packages"].map(|name| entry.path().join(name)))
}

fn other_of_debian(library: &Path) -> Option<PathBuf> {
    let name = library.file_name()?.to_str()?.strip_prefix("libtorch_python")?;
    library.with_file_name(format!("libtorch_cpu{name}")).canonicalize().ok()
}

/// The files of a command line, with this `PATH`.
pub fn files_of(words: &[OsString], path: Option<&OsStr>) -> Vec<PathBuf> {
    let Some(name) = words.first() else { return Vec::new() };
    let mut files = files_of_program(name, path);
    let has_python = |files: &Vec<PathBuf>| files.iter().any(|file| is_python(file));
    if !has_python(&files) {
        let mut behind = words_behind(words).map(|word| files_of_program(&word, path));
        files.extend(behind.find(has_python).unwrap_or_default());
    }
    files
}

/// The words behind the first, and those of a line for a shell.
fn words_behind(words: &[OsString]) -> impl Iterator<Item = OsString> {
    let parts = |word: &OsString| {
        let parts = word.as_bytes().split(u8::is_ascii_whitespace).filter(|part| !part.is_empty());
        parts.map(|part| OsStr::from_bytes(part).to_owned()).collect::<Vec<_>>()
    };
    words.iter().skip(1).flat_map(parts).take(MAX_WORDS)
}

/// Whether a file is called as Python's programs and libraries are.
fn is_python(file: &Path) -> bool {
    let name = file.file_name().map(OsStr::as_bytes).unwrap_or_default();
    name.starts_with(b"python") || name.starts_with(b"libpython")
}

fn files_of_program(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    let Some(program) = program_of(name, path).and_then(|program| program.canonicalize().ok()) else {
        return Vec::new();
    };
    let Ok(file) = Root::default().open(&program, true) else { return Vec::new() };
    let Ok(linked) = read_linked(&file) else { return Vec::new() };
    let library = find_interpreter(&program, &linked);
    std::iter::once(program).chain(library).collect()
}

/// The program of this name, behind scripts.
fn program_of(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    let locate = |name: &OsStr| locate(name, path.map(OsStr::to_owned));
    let mut program = locate(name)?;
    for _ in 0..MAX_SCRIPTS {
        let Some(line) = read_first_line(&program) else { break };
        let Some(next) = parse_script(&line).and_then(|name| locate(name.as_ref())) else { break };
        program = next;
    }
    Some(program)
}

/// The start of a script, up to the end of its first line; `None` for what is none.
fn read_first_line(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    Root::default().open(path, true).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).into_owned())
}

/// The program that runs a script, from the line behind its `#!`: what `env` looks for, else what is named.
fn parse_script(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if first.ends_with("/env") {
        words.find(|word| !word.starts_with('-') && !word.contains('='))
    } else {
        Some(first)
    }
}

/// The library that holds the interpreter, where the program is linked with one.
fn find_interpreter(program: &Path, linked: &Linked) -> Option<PathBuf> {
    find_linked(program, linked, |name| name.starts_with("libpython")).into_iter().next()
}

/// The libraries that a program is linked with and that are wanted.
fn find_linked(program: &Path, linked: &Linked, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let origin = program.parent().unwrap_or(program).display().to_string();
    let listed = linked.search.iter().flat_map(|list| list.split(':'));
    let listed = listed.map(|dir| dir.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin));
    let dirs: Vec<String> =
        listed.chain([format!("{origin}/../lib")]).chain(SYSTEM.map(str::to_owned)).collect();
    let find = |name: &String| dirs.iter().find_map(|dir| Path::new(dir).join(name).canonicalize().ok());
    linked.needed.iter().filter(|name| is_wanted(name)).filter_map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::{files_of, find_interpreter, find_linked, parse_script};
    use energy_trace_unwind::elf::Linked;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    /// A script is run by what its first line names, or by what `env` finds.
    #[test]
    fn scripts() {
        assert_eq!(parse_script("/usr/bin/python3 -E"), Some("/usr/bin/python3"));
        assert_eq!(parse_script(" /usr/bin/env -S A=1 python3.11 -u"), Some("python3.11"));
        assert_eq!(parse_script("/usr/bin/env"), None);
        assert_eq!(parse_script(""), None);
    }

    /// The program of a script in a place of its own is found behind its links; a name that is nowhere gives nothing.
    #[test]
    fn a_script() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("tool");
        std::fs::write(&script, "#!/usr/bin/env -S sh -e\nexit\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let link = dir.path().join("sh");
        std::os::unix::fs::symlink("/bin/true", &link).unwrap();
        let found = files_of(&[script.into()], Some(dir.path().as_os_str()));
        let expected = Path::new("/bin/true").canonicalize().unwrap();
        assert_eq!(found, std::slice::from_ref(&expected));
        assert_eq!(files_of(&["sh".into()], Some(dir.path().as_os_str())), [expected]);
        assert!(files_of(&["nowhere-to-be-found".into()], None).is_empty());
        assert!(files_of(&[], None).is_empty());
    }

    /// A Python that another program starts is found too, also in a shell's line or behind a script; behind a Python
    /// nothing is looked for.
    #[test]
    fn behind_another_program() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let [shell, python, other] = ["sh", "python3.98", "python3.99"].map(at);
        for file in [&shell, &python, &other] {
            std::fs::copy("/bin/true", file).unwrap();
        }
        std::os::unix::fs::symlink(&python, at("python3")).unwrap();
        std::fs::write(at("tool"), "#!/usr/bin/env python3\n").unwrap();
        std::fs::set_permissions(at("tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = |line: &[&str]| {
            let words: Vec<_> = line.iter().map(|word| word.into()).collect();
            files_of(&words, Some(dir.path().as_os_str()))
        };
        let both = [shell.clone(), python.clone()];
        assert_eq!(found(&["sh", "-c", "A=1 python3 a.py; exit"]), both);
        assert_eq!(found(&["sh", "-f", "50", at("python3").to_str().unwrap(), "python3.99"]), both);
        assert_eq!(found(&["sh", "tool"]), both);
        assert_eq!(found(&["sh", "a.py", "pythonic"]), [shell]);
        assert_eq!(found(&["python3", "python3.99"]), [python]);
    }

    /// The interpreter's library is looked for where the program says, relative to the program.
    #[test]
    fn an_interpreter_library() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, lib) = (dir.path().join("bin"), dir.path().join("own"));
        for place in [&bin, &lib] {
            std::fs::create_dir(place).unwrap();
        }
        std::fs::write(lib.join("libpython3.99.so.1.0"), "").unwrap();
        let linked = Linked {
            needed: vec!["libc.so.6".into(), "libpython3.99.so.1.0".into()],
            search: vec!["/nowhere:$ORIGIN/../own".into()],
        };
        let found = find_interpreter(&bin.join("python3"), &linked).unwrap();
        assert_eq!(found, lib.join("libpython3.99.so.1.0").canonicalize().unwrap());
        assert_eq!(find_linked(&bin.join("python3"), &linked, |name| name == "libc.so.6").len(), 1);
        let without = Linked { needed: vec!["libc.so.6".into()], search: Vec::new() };
        assert_eq!(find_interpreter(&bin.join("python3"), &without), None);
    }
}
