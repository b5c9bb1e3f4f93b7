//! What is another processor's alone, in `cargo xtask test`: run as its own code under an emulator of single programs, where that costs seconds;
//! else with its rules on this processor.
//!
//! The compiler, its libraries and the emulator are Debian's, the linker came with this toolchain: neither gcc nor binutils is fetched. Run are the
//! walkers, with all that stands on them alone, and files of `arch/` that use nothing of their package. Leaves out packages that need more of other
//! people's code, which `cross.rs` runs: to compile that code once more for `unwind` alone takes a minute of CPU time.

use crate::apt::{Package, package};
use crate::bpf;
use crate::checks::nice;
use crate::command::{find, read_output, run};
use crate::cross::{ensure_sysroot, words_of};
use crate::target::Target;
use crate::toolchain::{DEBIAN_PACKAGES, DEBIAN_RUSTC};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const OTHER: Target = Target::Aarch64;

/// What is run as the other processor's code: what stands on the walkers alone, on nothing, and on no crate of others. Its tests of properties do, and
/// are not among them (`emulated`): to compile what draws their values costs twice what all of this does.
const TESTS: [(&str, &str); 5] = [
    ("tracer-ebpf/src/lib.rs", "walkers"),
    ("tracer-ebpf/tests/aarch64.rs", "walks"),
    ("tracer-ebpf/tests/walkers.rs", "snapshots"),
    ("tracer/bpf/src/arch/aarch64/address.rs", "address"),
    ("tracer/probe/src/arch/aarch64.rs", "probes"),
];

/// Packages that code of `unwind` and its tests use.
const LIBRARIES: [&str; 11] = [
    "cpp_demangle",
    "energy_trace_model",
    "energy_trace_names",
    "gimli",
    "memmap2",
    "nix",
    "object",
    "proptest",
    "serde",
    "tempfile",
    "thiserror",
];
/// Its rooms whose tests hold no machine code of this processor; some read the other's C library.
const ANY_PROCESSOR: [&str; 10] = [
    "arch::",
    "cfi::tests::libc_has_rows",
    "cfi::tests::rules_survive_packing",
    "context_variable::",
    "cpython::running_thread",
    "cpython::thread_places",
    "elf::",
    "fde::",
    "functions::",
    "thread_context::",
];

/// What is installed for these tests.
pub(crate) fn packages() -> Vec<Package> {
    if OTHER == Target::of_machine() {
        return Vec::new();
    }
    vec![
        package(DEBIAN_PACKAGES[0], "compiles for 64-bit Arm"),
        package(&format!("libc6-dev-{}-cross", OTHER.debian()), "what tests for 64-bit Arm are linked with"),
        package(&format!("libgcc-s1-{}-cross", OTHER.debian()), "unwinds panics of these"),
        package("qemu-user", "runs tests for 64-bit Arm"),
    ]
}

/// All of it, and whether the BPF programs compile for that processor.
pub(crate) fn test(workspace: &Workspace) -> Result<()> {
    if OTHER == Target::of_machine() {
        return Ok(());
    }
    let rules = workspace.target().join(format!("rules-{}", OTHER.arch()));
    fs::create_dir_all(&rules).with_context(|| format!("cannot make {}", rules.display()))?;
    bpf::check(workspace, OTHER, &rules.join("bpf"))?;
    let emulated = Emulated::prepare(workspace).and_then(|emulated| emulated.test());
    emulated.and(test_rules(workspace, &rules))
}

/// What compiles for the other processor and runs there.
struct Emulated<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
    /// What the compiler is told.
    words: Vec<String>,
}

impl<'a> Emulated<'a> {
    fn prepare(workspace: &'a Workspace) -> Result<Self> {
        let sysroot = ensure_sysroot(workspace, OTHER)?;
        let folder = workspace.target().join("emulated");
        let library = format!("/usr/{}/lib", OTHER.multiarch());
        let own = folder.join("lib");
        fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
        // Debian has this name of it with gcc alone.
        let unwinder = own.join("libgcc_s.so");
        if !unwinder.is_symlink() {
            symlink(format!("{library}/libgcc_s.so.1"), unwinder)?;
        }
        let linker = linker(workspace)?;
        let mut words = vec![
            format!("--sysroot={}", sysroot.display()),
            format!("-Clinker={}", linker.display()),
            "-Clinker-flavor=ld.lld".to_owned(),
            format!("-L{}", own.display()),
            format!("-L{library}"),
        ];
        let (loader, at) = OTHER.loader();
        let start = ["Scrt1.o", "crti.o", "crtn.o"].map(|name| format!("{library}/{name}"));
        let linked = [format!("--dynamic-linker=/{at}/{loader}")].into_iter().chain(start);
        words.extend(linked.map(|word| format!("-Clink-arg={word}")));
        Ok(Self { workspace, folder, words })
    }

    fn test(&self) -> Result<()> {
        self.compile("tracer-ebpf/src/lib.rs", "tracer_ebpf", &["--crate-type=rlib"])?;
        let walkers = format!("--extern=tracer_ebpf={}", self.folder.join("libtracer_ebpf.rlib").display());
        TESTS.into_iter().try_for_each(|(source, name)| {
            self.compile(source, name, &["--test", &walkers])?;
            let [emulator, words @ ..] = runner()?;
            run(&mut nice(Command::new(emulator).args(words).arg(self.folder.join(name))))
        })
    }

    fn compile(&self, source: &str, name: &str, more: &[&str]) -> Result<()> {
        let mut rustc = Command::new(DEBIAN_RUSTC);
        rustc.current_dir(self.workspace.root()).arg(source).args(["--edition=2024", "-Dwarnings"]);
        rustc.args(["--target", OTHER.triple(), "--crate-name", name]).args(&self.words).args(more);
        rustc.args(["--cfg", "emulated"]).arg("--out-dir").arg(&self.folder);
        // `cargo run` puts its own toolchain's libraries first; the other compiler must find its own.
        run(&mut nice(rustc.env_remove("LD_LIBRARY_PATH")))
    }
}

/// LLVM's, which rustup has with each compiler.
fn linker(workspace: &Workspace) -> Result<PathBuf> {
    let libraries = read_output(rustc(workspace).args(["--print", "target-libdir"]))?;
    let linker = Path::new(&libraries).with_file_name("bin").join("rust-lld");
    ensure!(linker.is_file(), "there is no {}, which links for other processors", linker.display());
    Ok(linker)
}

/// What programs are run with.
fn runner() -> Result<[String; 3]> {
    let emulator =
        find(&format!("qemu-{}", OTHER.arch())).context("there is no emulator: install qemu-user")?;
    Ok(words_of(&emulator, OTHER))
}

/// This toolchain's compiler.
fn rustc(workspace: &Workspace) -> Command {
    Command::new(Path::new(workspace.cargo().get_program()).with_file_name("rustc"))
}

/// Rules for return addresses, where threads keep their own, tables of files: all of `unwind` with the other processor's rules, on this one and on the
/// libraries that are built already.
fn test_rules(workspace: &Workspace, folder: &Path) -> Result<()> {
    let built = workspace.target().join("debug/deps");
    let compile = |source: &str, words: &[String]| {
        let mut rustc = rustc(workspace);
        rustc.current_dir(workspace.root()).arg(source).args(["--edition=2024", "-Dwarnings"]).args(words);
        rustc.args(["--cfg", &format!("bpf_target_arch=\"{}\"", OTHER.arch())]);
        rustc.env("CARGO", workspace.cargo().get_program());
        rustc.env("CARGO_MANIFEST_DIR", workspace.root().join("tracer/unwind"));
        run(&mut nice(rustc.arg("-L").arg(&built).arg("--out-dir").arg(folder)))
    };
    let words = ["--crate-name=tracer_ebpf", "--crate-type=rlib"].map(str::to_owned);
    compile("tracer-ebpf/src/lib.rs", &words)?;
    let library =
        |name| bpf::newest_library(&built, name).map(|file| format!("--extern={name}={}", file.display()));
    let mut words = LIBRARIES.into_iter().map(library).collect::<Result<Vec<_>>>()?;
    words.push(format!("--extern=tracer_ebpf={}", folder.join("libtracer_ebpf.rlib").display()));
    words.extend(["--test", "--crate-name=rules"].map(str::to_owned));
    compile("tracer/unwind/src/lib.rs", &words)?;
    run(&mut nice(Command::new(folder.join("rules")).args(ANY_PROCESSOR)))
}
