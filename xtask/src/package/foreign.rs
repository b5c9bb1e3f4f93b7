//! Packages for another processor: what each says of itself, whose machine code it holds, and that its program does what this machine's does.
//!
//! Each is unpacked by its format's own tool into a folder. The program runs under an emulator of single programs, which knows no BPF: it
//! says its version, looks at the machine, and reads a recording that this machine's program has made, to the byte as that one. Leaves out
//! recording on such a processor (`kernels --arch`).

use super::check::{newest, wanted_files};
use super::tree::files_below;
use crate::command::{read_output, run, run_logged};
use crate::cross::command_for;
use crate::product::build_probes;
use crate::setup::Purpose;
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail, ensure};
use object::Endianness;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::FileHeader as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kind of package.
#[derive(Debug)]
struct Kind {
    /// How the file's name ends.
    ending: &'static str,
    /// Unpacks `$PACKAGE` into `$ROOT`, in a shell.
    unpack: &'static str,
    /// Prints whose package it says that it is.
    says: &'static str,
    /// Whose that is.
    word: fn(Target) -> &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        ending: ".tar.gz",
        unpack: r#"tar -C "$ROOT" -xzf "$PACKAGE""#,
        says: r#"basename "$PACKAGE" | grep -oE '(x86_64|aarch64)-linux' | cut -d- -f1"#,
        word: Target::arch,
    },
    Kind {
        ending: ".deb",
        unpack: r#"dpkg-deb --extract "$PACKAGE" "$ROOT""#,
        says: r#"dpkg-deb --field "$PACKAGE" Architecture"#,
        word: Target::debian,
    },
    Kind {
        ending: ".rpm",
        unpack: r#"rpm2archive - <"$PACKAGE" | tar -C "$ROOT" -xz"#,
        says: r#"rpm -qp --qf '%{ARCH}' "$PACKAGE""#,
        word: Target::arch,
    },
    Kind {
        ending: ".whl",
        // pip refuses a wheel whose tag is not that of the platform, and puts only a part of it into a folder.
        unpack: r#""$PIP" install --quiet --no-index --no-deps --only-binary :all: --platform "manylinux_2_28_$ARCH" --target "$ROOT/pip" "$PACKAGE"
            python3 -m zipfile -e "$PACKAGE" "$ROOT""#,
        says: WHEEL_SAYS,
        word: Target::arch,
    },
];

const WHEEL_SAYS: &str = r#"python3 -c '
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
about = next(name for name in wheel.namelist() if name.endswith("/WHEEL"))
print(wheel.read(about).decode().split("manylinux_2_28_")[1].split()[0])
' "$PACKAGE""#;

/// What is asked of the recording, of both programs.
const QUESTIONS: [&[&str]; 22] = [
    &["report", "--format", "json"],
    &["report", "--format", "json", "--by", "api", "--level", "tree"],
    &["report", "--format", "csv", "--by", "stack"],
    &["report", "--format", "markdown"],
    &["report", "--color", "never", "-v"],
    &["report", "--color", "never", "--summary"],
    &["flamegraph", "-o", "-"],
    &["export", "--format", "folded"],
    &["export", "--format", "pprof"],
    &["export", "--format", "speedscope"],
    &["export", "--format", "firefox"],
    &["export", "--format", "chrome"],
    &["export", "--format", "otlp"],
    &["export", "--format", "json"],
    &["export", "--format", "html"],
    &["export", "--format", "greenlight"],
    &["export", "--format", "parquet"],
    &["export", "--format", "parquet-readings"],
    &["export", "--format", "parquet-work"],
    &["export", "--format", "parquet-fleet", "-o"],
    &["export", "--format", "emissions", "--grid-gco2-kwh", "400"],
    &["export", "--format", "csv"],
];

/// Half a second of a function that does nearly everything, and says how often.
const WORKLOAD: &str = "import time
def burn():
    end, rounds = time.time() + 0.5, 0
    while time.time() < end:
        sum(i * i for i in range(100_000))
        rounds += 1
        print('round', rounds, flush=True)
burn()
";
/// Its rounds are units of work.
const WORK: [&str; 2] = ["--work", r"rounds=stdout:round (\d+)"];

/// Tries all packages in `out`.
pub(crate) fn check(workspace: &Workspace, tools: &Path, out: &Path, target: Target) -> Result<()> {
    let work = tempfile::Builder::new().prefix("foreign-").tempdir_in(out)?;
    let mut programs = Vec::new();
    for kind in &KINDS {
        let root = work.path().join(kind.ending.replace('.', "_"));
        let package = newest(out, kind.ending)?;
        let program = kind.unpack(workspace, tools, &package, &root, target);
        programs.push(program.with_context(|| package.display().to_string())?);
    }
    let (first, others) = programs.split_first().context("there are no packages")?;
    let same = |other: &PathBuf| Ok::<_, std::io::Error>(fs::read(first)? == fs::read(other)?);
    for other in others {
        ensure!(same(other)?, "{} is not {}", other.display(), first.display());
    }
    run_program(workspace, first, work.path(), target)
}

impl Kind {
    /// Unpacks a package, and gives the program in it.
    fn unpack(
        &self,
        workspace: &Workspace,
        tools: &Path,
        package: &Path,
        root: &Path,
        target: Target,
    ) -> Result<PathBuf> {
        fs::create_dir_all(root)?;
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-ec", script]).env("PACKAGE", package).env("ROOT", root);
            command.env("PIP", tools.join("pip")).env("ARCH", target.arch());
            command
        };
        run_logged(&mut shell(self.unpack), &workspace.log())?;
        let (says, wanted) = (read_output(&mut shell(self.says))?, (self.word)(target));
        ensure!(says == wanted, "it says that it is for {says}, not for {wanted}");
        let files = files_below(root)?;
        let named = |name: &str| files.iter().find(|file| file.ends_with(name)).cloned();
        let program = named("bin/energy-trace").context("it has no program")?;
        let library = named("libenergy_trace_cupti.so").context("it has no library")?;
        for file in wanted_files(workspace.root())? {
            ensure!(files.iter().any(|found| found.ends_with(&file)), "{} is missing", file.display());
        }
        for file in [&program, &library] {
            ensure_machine(file, target)?;
        }
        eprintln!("{:>8}: for {says}, program and library too; all files are there", self.ending);
        Ok(program)
    }
}

/// An error where a file holds another processor's machine code.
fn ensure_machine(file: &Path, target: Target) -> Result<()> {
    let bytes = fs::read(file)?;
    let header = FileHeader64::<Endianness>::parse(&*bytes)?;
    let wanted = match target {
        Target::X86_64 => EM_X86_64,
        Target::Aarch64 => EM_AARCH64,
    };
    let found = header.e_machine(header.endian()?);
    ensure!(found == wanted, "{} is of machine {found}, not {wanted}", file.display());
    Ok(())
}

/// Runs the program under the emulator, beside this machine's.
fn run_program(workspace: &Workspace, program: &Path, work: &Path, target: Target) -> Result<()> {
    let version = read_output(command_for(workspace, target, program).arg("--version"))?;
    ensure!(version.ends_with(env!("CARGO_PKG_VERSION")), "its version is {version}");
    let doctor = command_for(workspace, target, program).arg("doctor").output()?;
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(doctor.starts_with("This machine"), "doctor says {doctor}");
    build_probes(workspace, Purpose::Build)?;
    run(workspace.cargo().args(["build", "--quiet", "--package", "energy-trace"]))?;
    let own = workspace.quick_binary();
    let (script, recording) = (work.join("burn.py"), work.join("energy-trace.data"));
    fs::write(&script, WORKLOAD)?;
    let mut record = Command::new(&own);
    record.args(["record", "--power", "model", "--no-svg"]).args(WORK).arg("-o").arg(&recording);
    run_logged(record.arg("--").arg("python3").arg(&script), &workspace.log())?;
    for question in QUESTIONS {
        let ask = |program: Command| ask(program, question, &recording);
        let (theirs, ours) = (ask(command_for(workspace, target, program)), ask(Command::new(&own)));
        let [theirs, ours] = [theirs, ours].map(|said| said.with_context(|| question.join(" ")));
        if theirs? != ours? {
            bail!("{} differs from what this machine's program says", question.join(" "));
        }
    }
    eprintln!("{:>8}: {version}, and {} outputs to the byte as here", "run", QUESTIONS.len());
    Ok(())
}

/// What a program says of the recording; of a question that ends in `-o`, the files of a folder with their names.
fn ask(mut program: Command, question: &[&str], recording: &Path) -> Result<Vec<u8>> {
    let (verb, options) = question.split_first().context("a question has a verb")?;
    program.arg(verb).arg(recording).args(options).env("COLUMNS", "100");
    let folder = recording.with_extension("folder");
    let is_folder = options.last() == Some(&"-o");
    let said = if is_folder { program.arg(&folder).output() } else { program.output() }?;
    ensure!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    if !is_folder {
        return Ok(said.stdout);
    }
    let mut all = Vec::new();
    for file in files_below(&folder)? {
        all.extend(file.strip_prefix(&folder)?.as_os_str().as_encoded_bytes());
        all.extend(fs::read(&file)?);
    }
    fs::remove_dir_all(&folder)?;
    ensure!(!all.is_empty(), "there are no files");
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::ensure_machine;
    use crate::target::Target;

    /// This test is this machine's program, and nobody else's.
    #[test]
    fn machine_code() {
        let own = std::env::current_exe().unwrap();
        for target in Target::ALL {
            assert_eq!(ensure_machine(&own, target).is_ok(), target == Target::of_machine());
        }
        assert!(ensure_machine(std::path::Path::new(file!()), Target::of_machine()).is_err());
    }
}
