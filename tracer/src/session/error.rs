//! Why a recording failed, in one enum for the whole session. Each text is for the person who reads it.

use crate::finisher::FinisherError;
use crate::host::limits::{LimitError, advise};
use crate::power::PowerError;
use crate::privileges::PrivilegeError;
use crate::probe::ProbeError;
use crate::tracee::attach::AttachError;
use crate::tracee::cgroup::CgroupError;
use crate::tracee::launch::LaunchError;
use energy_trace_model::recording::file::FileError;
use nix::sys::signal::Signal;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Not allowed, or the kernel cannot.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// A limit of the process is too low.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The kernel numbers processes differently from us.
    #[error(
        "energy-trace runs in a container with its own pid namespace, but the kernel reports the host's process ids: run it on the host, \
         or start the container with --pid=host"
    )]
    PidNamespace,
    /// The command does not exist.
    #[error("{}: command not found", command.display())]
    NotFound {
        /// Its name as typed.
        command: OsString,
        /// Whether `sudo` is at work, which replaces PATH.
        sudo: bool,
    },
    /// The command exists and cannot be executed.
    #[error("cannot execute {}: {source}", command.display())]
    NotExecutable {
        /// Its name as typed.
        command: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] FileError),
    /// An output file or the results cannot be made.
    #[error(transparent)]
    Finisher(#[from] FinisherError),
    /// No usable power source.
    #[error(transparent)]
    Power(#[from] PowerError),
    /// The BPF programs do not load or attach.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The command cannot be forked.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A process cannot be attached to.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A control group has no processes.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// Threads, signals or waiting failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A signal ended energy-trace: during the set-up, or the second one later. Nothing is wrong.
    #[error("ended by {0}")]
    Ended(Signal),
}

impl SessionError {
    /// What else the user can do about it.
    pub fn advice(&self) -> Option<String> {
        match self {
            Self::Probe(error) => error.advice().or_else(|| advise(error)),
            Self::NotFound { command, .. } if Path::new(command).is_file() => {
                Some(format!("it is a file in this directory: {}", how_to_run(command)))
            }
            Self::NotFound { sudo: true, .. } => Some(
                "sudo replaces PATH: name the program by its path, as in `sudo energy-trace $(command -v python) …`, \
                 or keep PATH with `sudo env \"PATH=$PATH\" energy-trace …`"
                    .into(),
            ),
            Self::NotExecutable { command, .. } if is_program(Path::new(command)) => closed_folder(Path::new(command)),
            Self::NotExecutable { command, .. } if Path::new(command).is_file() => {
                let mode = format!("or make it a program with `chmod +x {}`", command.display());
                Some(format!("it is a file that is not executable: {}, {mode}", how_to_run(command)))
            }
            other => advise(other),
        }
    }
}

/// Whether a file may be executed by somebody.
fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The outermost folder above a program that not everybody may enter: whoever the program would run as may not, or the file itself is closed
/// to them.
fn closed_folder(program: &Path) -> Option<String> {
    let whole = std::path::absolute(program).ok()?;
    let above: Vec<&Path> = whole.ancestors().skip(1).collect();
    let is_closed =
        |folder: &&Path| folder.metadata().is_ok_and(|found| found.permissions().mode() & 0o001 == 0);
    let closed = above.into_iter().rev().find(is_closed);
    Some(match closed {
        Some(folder) => format!(
            "the file is a program, but not every user may enter the folder {}: put it elsewhere, or record as root with --as-root",
            folder.display()
        ),
        None => format!("the file is a program, but not for this user: see `ls -l {}`", program.display()),
    })
}

/// Interpreters by the ends of the names of the files that they run.
const INTERPRETERS: [(&str, &str); 7] = [
    ("py", "python3"),
    ("sh", "sh"),
    ("pl", "perl"),
    ("rb", "ruby"),
    ("js", "node"),
    ("jl", "julia"),
    ("R", "Rscript"),
];

/// How a file in this directory is recorded: by its interpreter where its name tells which, else by its path.
fn how_to_run(file: &OsStr) -> String {
    let extension = Path::new(file).extension().unwrap_or_default();
    match INTERPRETERS.iter().find(|(end, _)| extension == *end) {
        Some((_, interpreter)) => format!("run it with `energy-trace {interpreter} {}`", file.display()),
        None if Path::new(file).components().count() == 1 => {
            format!("run it with `energy-trace ./{}`", file.display())
        }
        None => format!("name its interpreter too, as in `energy-trace python3 {}`", file.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::{closed_folder, how_to_run, is_program};
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// A script is run by its interpreter, a program of this directory by its path.
    #[test]
    fn files_of_this_directory() {
        assert!(how_to_run("train.py".as_ref()).ends_with("`energy-trace python3 train.py`"));
        assert!(how_to_run("./run.sh".as_ref()).ends_with("`energy-trace sh ./run.sh`"));
        assert!(how_to_run("a.out".as_ref()).ends_with("`energy-trace ./a.out`"));
        assert!(how_to_run("bin/tool".as_ref()).contains("interpreter"));
    }

    /// A program in a folder that is closed to others is not told to become one: the folder is named. A file that nobody may execute is no program.
    #[test]
    fn a_program_behind_a_closed_folder() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &std::path::Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let closed = dir.path().join("home");
        fs::create_dir(&closed).unwrap();
        let program = closed.join("python3");
        fs::write(&program, "").unwrap();
        mode(&program, 0o644);
        assert!(!is_program(&program));
        [(dir.path(), 0o755), (&closed, 0o700), (&program, 0o755)]
            .iter()
            .for_each(|(path, bits)| mode(path, *bits));
        let said = closed_folder(&program).unwrap();
        assert!(
            is_program(&program) && said.contains(&format!("the folder {}:", closed.display())),
            "{said}"
        );
        assert!(!said.contains("chmod +x"), "{said}");
    }
}
