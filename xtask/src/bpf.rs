//! Building the BPF programs: package `tracer-ebpf`, binary `energy-trace-probes`, target `bpfel-unknown-none`.
//!
//! The flags follow aya-build 0.2 (`build_ebpf`): the CPU architecture for aya's `pt_regs` accessors, debug info, and BTF from it.
//! `tracer/bpf/build.rs` picks the object up.

use crate::command::{Started, run};
use crate::setup::{self, Purpose, Tools};
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, anyhow};
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const TARGET: &str = "bpfel-unknown-none";
/// Memory is set and copied by words in place. As bpf-linker has it, LLVM calls a function that sets byte by
/// byte: it takes that time in every sample, and the verifier looks at each byte.
const BY_WORDS: &str = "-Clink-arg=--disable-expand-memcpy-in-order";

/// What a compiler warning in the programs means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warnings {
    /// It is shown.
    Shown,
    /// It fails the build.
    Denied,
}

/// Installs what `purpose` needs and builds the object, and beside both what `others` says of the packages for this machine: installing mostly
/// waits, the BPF programs use one CPU only, and the package that embeds them waits for them (`tracer/bpf/build.rs`). `others` may have embedded an
/// older object, where only compilers or flags have changed: run it once more, or what builds on it, to be sure. Mostly it has nothing to do then.
pub(crate) fn build_beside(
    workspace: &Workspace,
    purpose: Purpose,
    warnings: Warnings,
    others: &mut Command,
) -> Result<()> {
    let lock = workspace.probes_lock();
    fs::create_dir_all(workspace.bpf_target()).context("cannot make the folder of the BPF programs")?;
    let lock = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
    lock.lock().context("cannot lock the folder of the BPF programs")?;
    let start = SystemTime::now();
    // A progress bar would be in the way of what set-up says.
    let others = Started::new(others.env("CARGO_TERM_PROGRESS_WHEN", "never"))?;
    let tools = setup::install_tools(workspace)?;
    let installed = std::thread::scope(|scope| {
        let installed = scope.spawn(|| setup::install_for(workspace, purpose));
        let built = build_from(workspace, &tools, Target::of_machine(), warnings, start);
        // What waits for the programs need not wait for the rest.
        drop(lock);
        let installed =
            installed.join().map_err(|_| anyhow!("the thread that installs packages panicked"))?;
        built.and(installed)
    });
    installed?;
    others.wait()
}

/// Compiles the programs for another processor as far as errors are found, into `folder`: with the libraries of this machine's, which are the same.
pub(crate) fn check(workspace: &Workspace, target: Target, folder: &Path) -> Result<()> {
    let built = workspace.bpf_target();
    let libraries = built.join(TARGET).join("release/deps");
    let compiler = setup::install_tools(workspace)?.compiler;
    let check = |source: &str, words: &[&str], needed: &[&str]| {
        let mut rustc = compiler.rustc();
        rustc.current_dir(workspace.root()).arg(source).args([
            "--edition=2024",
            "-Dwarnings",
            "-Cpanic=abort",
        ]);
        rustc.args([
            "--target",
            TARGET,
            "--emit=metadata",
            "--cfg",
            &format!("bpf_target_arch=\"{}\"", target.arch()),
        ]);
        rustc
            .arg("-L")
            .arg(&libraries)
            .arg("-L")
            .arg(built.join("release/deps"))
            .arg("--out-dir")
            .arg(folder);
        for name in needed {
            rustc.arg(format!("--extern={name}={}", newest_library(&libraries, name)?.display()));
        }
        run(rustc.args(words))
    };
    check("tracer-ebpf/src/lib.rs", &["--crate-name=tracer_ebpf", "--crate-type=rlib"], &[])?;
    let walkers = format!("--extern=tracer_ebpf={}", folder.join("libtracer_ebpf.rmeta").display());
    let words = ["--crate-name=energy_trace_probes", "--crate-type=bin", &walkers];
    check("tracer-ebpf/src/main.rs", &words, &["aya_ebpf", "aya_log_ebpf"])
}

/// The library of a package that was built last.
pub(crate) fn newest_library(folder: &Path, name: &str) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let is_it = |file: &PathBuf| {
        let stem = file.file_name().and_then(|file| file.to_str()?.strip_suffix(".rlib"));
        stem.is_some_and(|stem| stem.starts_with(&format!("lib{name}-")))
    };
    let newest = files.filter(is_it).max_by_key(|file| file.metadata().and_then(|file| file.modified()).ok());
    newest.with_context(|| format!("{} has no library {name}", folder.display()))
}

/// Builds the object for a processor and leaves it where `workspace.probes_of` says.
pub(crate) fn build(workspace: &Workspace, tools: &Tools, target: Target, warnings: Warnings) -> Result<()> {
    build_from(workspace, tools, target, warnings, SystemTime::now())
}

/// The same, begun at `start`. A new object gets that time: cargo compares it with when the waiting package's build script began, and would build
/// that package a second time for an object that is newer.
fn build_from(
    workspace: &Workspace,
    tools: &Tools,
    target: Target,
    warnings: Warnings,
    start: SystemTime,
) -> Result<()> {
    let (folder, object) = workspace.probes_of(target);
    let watched = format!("--cfg=bpf_target_arch=\"{}\"", target.arch());
    let mut flags = vec![watched, "-Cdebuginfo=2".into(), "-Clink-arg=--btf".into(), BY_WORDS.into()];
    if warnings == Warnings::Denied {
        flags.push("-Dwarnings".into());
    }
    let mut cargo = workspace.cargo();
    cargo
        .args([
            "build",
            "--quiet",
            "--package",
            "tracer-ebpf",
            "--bin",
            "energy-trace-probes",
            "--release",
            "--target",
            TARGET,
        ])
        .arg("--target-dir")
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &tools.linker)
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        // Whatever the user builds the rest with: it would make other, longer programs.
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "full")
        // `cargo run` puts its own toolchain's libraries first; the other compiler must find its own.
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET");
    run(&mut tools.compiler.apply(cargo)).context("the BPF programs do not build")?;
    let built = folder.join(TARGET).join("release/energy-trace-probes");
    let read = || fs::metadata(&built).and_then(|meta| Ok((fs::read(&built)?, meta.modified()?)));
    let (whole, made) = read().with_context(|| format!("the build left no {}", built.display()))?;
    copy_newer(&without_debug(&whole)?, made, &object, start)
}

/// The object without what debuggers alone read, seven eighths of it: the compiler makes the kernel's types (BTF) of that.
fn without_debug(object: &[u8]) -> Result<Vec<u8>> {
    let mut elf = Builder::read(object).context("the BPF object is no ELF file")?;
    let is_debug = |name: &[u8]| {
        name.starts_with(b".debug_") || name.starts_with(b".rel.debug_") || name == b".rel.BTF.ext"
    };
    for section in &mut elf.sections {
        section.delete = is_debug(&section.name);
        if let (b".BTF.ext", SectionData::Data(data)) = (section.name.as_slice(), &mut section.data) {
            let small = without_lines(data).context("the BPF object has no .BTF.ext as we know it")?;
            *data = small.into();
        }
    }
    elf.delete_orphans();
    // LLVM has one table for the names of sections and of symbols.
    let names = elf.sections.add();
    (names.name, names.sh_type, names.sh_addralign) = (".shstrtab".into(), SHT_STRTAB, 1);
    names.data = SectionData::SectionString;
    let mut small = Vec::new();
    elf.write(&mut small).context("the BPF object cannot be written anew")?;
    Ok(small)
}

/// A `.BTF.ext` without its table of lines, which the kernel copies and moves at each change of an instruction, and shows in logs that nobody asks
/// for. Its header has the places and lengths of its tables, counted from the header's end; that of lines follows that of functions
/// (Documentation/bpf/btf.rst, v6.1). `None`: it is not like that.
fn without_lines(ext: &[u8]) -> Option<Vec<u8>> {
    // Where the header says how long it is, and of lines and of relocations: where they are, and how long.
    const LENGTH: usize = 4;
    const LINES: usize = 16;
    const RELOCATIONS: usize = 24;
    let field = |at: usize| Some(u32::from_le_bytes(ext.get(at..at + 4)?.try_into().ok()?) as usize);
    let (header, lines, length) = (field(LENGTH)?, field(LINES)?, field(LINES + 4)?);
    // Nothing is behind the lines, not even relocations, which rustc does not make.
    if header < RELOCATIONS + 8 || field(RELOCATIONS + 4)? != 0 || header + lines + length != ext.len() {
        return None;
    }
    let mut small = ext.get(..header + lines)?.to_vec();
    small.get_mut(LINES + 4..LINES + 8)?.fill(0);
    small.copy_within(LINES..LINES + 4, RELOCATIONS);
    Some(small)
}

/// Writes what was `made` over `to` unless it is there and was not made anew since `start`, so that an object that stayed does not rebuild the
/// product. The copy is of that time.
fn copy_newer(built: &[u8], made: SystemTime, to: &Path, start: SystemTime) -> Result<()> {
    if made < start && fs::read(to).is_ok_and(|copied| copied == built) {
        return Ok(());
    }
    let write = |mut to: File| to.write_all(built).and_then(|()| to.set_modified(start));
    File::create(to).and_then(write).with_context(|| format!("cannot write {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::{copy_newer, without_lines};
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    /// A header of 32 bytes, functions of 12, lines of so many, no relocations.
    fn ext(lines: u32) -> Vec<u8> {
        let head = [0x0001_eb9f, 32, 0, 12, 12, lines, 12 + lines, 0].map(u32::to_le_bytes).concat();
        [head, vec![1; 12], vec![2; lines as usize]].concat()
    }

    /// Lines go and functions stay; what is not of that shape is not touched.
    #[test]
    fn lines_go_and_functions_stay() {
        assert_eq!(without_lines(&ext(8)), Some(ext(0)));
        assert_eq!(without_lines(&ext(0)), Some(ext(0)));
        let behind = [ext(8), vec![3]].concat();
        for other in [&behind[..], &ext(8)[..48], &ext(8)[..10], &[0; 32], &[0xff; 64], &[]] {
            assert_eq!(without_lines(other), None, "{other:?}");
        }
    }

    fn modified(file: &Path) -> SystemTime {
        fs::metadata(file).unwrap().modified().unwrap()
    }

    /// An object that differs or was made anew replaces the copy, which is then as old as the build; one that stayed leaves it alone.
    #[test]
    fn only_a_newer_object_is_copied() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("to");
        let [long_ago, before, since] = [60, 30, 10].map(|s| SystemTime::now() - Duration::from_secs(s));
        let build = |content: &str, made, start| {
            copy_newer(content.as_bytes(), made, &to, start).unwrap();
            (fs::read_to_string(&to).unwrap(), modified(&to))
        };
        assert_eq!(build("one", long_ago, before), ("one".into(), before));
        assert_eq!(build("one", long_ago, since), ("one".into(), before));
        assert_eq!(build("two", long_ago, since), ("two".into(), since));
        assert_eq!(build("two", since, before), ("two".into(), before));
    }
}
