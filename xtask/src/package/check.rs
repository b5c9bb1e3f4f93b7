//! Each package installed in a root folder of its own, with a bare Debian 12, where it records a Python program and reports it.
//!
//! Measured is the time from the package to the first flame graph, the seconds of the program included. The folder has no compiler, and in it no network
//! is used. Mounts are in a namespace of their own and go with it. Debian's `rpm` knows of no libraries that dpkg installed: what the rpm
//! requires is printed and not resolved.

use super::tree::{LIBRARY, examples};
use crate::apt::{self, package};
use crate::command::{find, is_root, read_output, run, run_logged};
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What is in the folder beside Debian's smallest system: what is recorded, and what installs two of the packages.
const INCLUDED: &str = "python3,python3-venv,rpm";
const MIRROR: &str = "http://deb.debian.org/debian";

/// A kind of package.
#[derive(Debug)]
struct Kind {
    /// How the file's name ends; the first of these in the folder's order is it.
    ending: &'static str,
    /// Installs `$PACKAGE`, in a shell.
    install: &'static str,
    /// The program, once installed.
    program: &'static str,
    /// Removes it; then the program has to be gone.
    remove: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        ending: ".tar.gz",
        install: "tar -C /usr/local --strip-components=1 -xzf $PACKAGE",
        program: "/usr/local/bin/energy-trace",
        remove: "rm -r /usr/local/bin/energy-trace /usr/local/lib/energy-trace /usr/local/share/energy-trace",
    },
    Kind {
        ending: ".deb",
        install: "dpkg -i $PACKAGE && dpkg --verify energy-trace",
        program: "/usr/bin/energy-trace",
        remove: "dpkg --purge energy-trace",
    },
    Kind {
        ending: ".whl",
        install: "python3 -m venv /opt/v && /opt/v/bin/pip install --no-index $PACKAGE && /opt/v/bin/pip check && \
                  /opt/v/bin/python -c 'import energy_trace as e; assert e._program.find() == \"/opt/v/bin/energy-trace\"'",
        program: "/opt/v/bin/energy-trace",
        remove: "/opt/v/bin/pip uninstall -y energy-trace",
    },
    Kind {
        ending: ".rpm",
        install: "rpm -qp --requires $PACKAGE && rpm -i --nodeps $PACKAGE && rpm -V --nodeps energy-trace",
        program: "/usr/bin/energy-trace",
        remove: "rpm -e energy-trace",
    },
];

/// What is recorded: two seconds of a function that does nearly everything.
const WORKLOAD: &str = "import time
def burn():
    end = time.time() + 2
    while time.time() < end:
        sum(i * i for i in range(10_000))
burn()
";

/// Tries all packages in `out`.
pub(crate) fn check(workspace: &Workspace, out: &Path) -> Result<()> {
    ensure!(is_root(), "only root can record and make root folders: run it by sudo");
    let log = workspace.log();
    if find("debootstrap").is_none() {
        apt::install(&[package("debootstrap", "makes a root folder with Debian")], &log)?;
    }
    let base = base(workspace, &log)?;
    for kind in &KINDS {
        let file = newest(out, kind.ending)?;
        let took = kind.check(workspace, &base, &file, out).with_context(|| file.display().to_string())?;
        eprintln!("{:>8}: {:.1} s from the package to a flame graph", kind.ending, took.as_secs_f64());
    }
    Ok(())
}

/// A folder with Debian, made once and never used itself.
fn base(workspace: &Workspace, log: &Path) -> Result<PathBuf> {
    let base = workspace.roots().join("bookworm");
    if !base.exists() {
        eprintln!("package: Debian 12 into {}", base.display());
        let begun = base.with_extension("begun");
        if begun.exists() {
            fs::remove_dir_all(&begun)?; // an earlier one that was cut off
        }
        fs::create_dir_all(&begun)?;
        let mut make = Command::new("debootstrap");
        make.args(["--variant=minbase", &format!("--include={INCLUDED}"), "bookworm"]);
        run_logged(make.arg(&begun).arg(MIRROR), log)?;
        fs::rename(&begun, &base)?;
    }
    ensure!(!base.join("usr/bin/cc").exists(), "{} has a compiler", base.display());
    Ok(base)
}

/// The package with that ending: of the archives the one without debug information.
pub(super) fn newest(out: &Path, ending: &str) -> Result<PathBuf> {
    let files = out.read_dir().with_context(|| format!("no packages in {}", out.display()))?;
    let fits = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(ending) && !name.contains("-debug-")
    };
    let file = files.flatten().map(|entry| entry.path()).find(fits);
    file.with_context(|| format!("no {ending} in {}", out.display()))
}

impl Kind {
    /// Installs, records, reports, removes.
    fn check(&self, workspace: &Workspace, base: &Path, file: &Path, out: &Path) -> Result<Duration> {
        let log = &workspace.log();
        let root = tempfile::Builder::new().prefix("root-").tempdir_in(out)?;
        run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(base.join(".")).arg(root.path()))?;
        let name = file.file_name().context("a package has a name")?;
        fs::copy(file, root.path().join("tmp").join(name))?;
        fs::write(root.path().join("tmp/burn.py"), WORKLOAD)?;
        let shell = |script: &str| {
            let mut command = in_root(root.path(), script);
            command.env("PACKAGE", Path::new("/tmp").join(name)).env("PROGRAM", self.program);
            command
        };
        let start = Instant::now();
        run_logged(&mut shell(self.install), log)?;
        run_logged(&mut shell("cd /tmp && $PROGRAM --power model python3 burn.py"), log)?;
        let took = start.elapsed();
        let report = read_output(&mut shell("$PROGRAM report /tmp/energy-trace.data --format json"))?;
        let report: Value = serde_json::from_str(&report).context("the report is no JSON")?;
        verify(&report, &fs::read_to_string(root.path().join("tmp/energy-trace.svg"))?)?;
        let prefix =
            Path::new(self.program).parent().and_then(Path::parent).context("a program lies in bin")?;
        verify_files(&root.path().join(prefix.strip_prefix("/")?), workspace.root())?;
        run_logged(&mut shell(self.remove), log)?;
        ensure!(!root.path().join(self.program.trim_start_matches('/')).exists(), "it is not removed");
        Ok(took)
    }
}

/// The report names the function that did the work, with joules, and so does the picture.
fn verify(report: &Value, svg: &str) -> Result<()> {
    let functions = report["functions"].as_array().context("the report has no functions")?;
    let named = |function: &&Value| function["name"].as_str().is_some_and(|name| name.ends_with("burn"));
    let burn =
        functions.iter().find(named).context("the report does not know the function that was recorded")?;
    let domains = burn["total_uj"].as_object().context("the function has no energy by domain")?;
    ensure!(domains.values().any(|domain| domain.as_i64() > Some(0)), "it has no joules: {burn}");
    ensure!(svg.contains("burn"), "the flame graph lacks the function");
    Ok(())
}

/// The manual, the completions, the library and the examples came along.
fn verify_files(prefix: &Path, root: &Path) -> Result<()> {
    for file in wanted_files(root)? {
        let there = prefix.join(&file).metadata().is_ok_and(|facts| facts.len() > 0);
        ensure!(there, "{} is missing", file.display());
    }
    Ok(())
}

/// What each package has to hold besides its program.
pub(super) fn wanted_files(root: &Path) -> Result<impl Iterator<Item = PathBuf>> {
    let known = [
        "share/man/man1/energy-trace.1.gz",
        "share/man/man1/energy-trace-record.1.gz",
        "share/bash-completion/completions/energy-trace",
        "share/fish/vendor_completions.d/energy-trace.fish",
        LIBRARY,
    ];
    Ok(known.into_iter().map(PathBuf::from).chain(examples(root)?.into_iter().map(|(_, to)| to)))
}

/// A shell in the folder, with the machine's `/proc`, `/sys` and `/dev`.
fn in_root(root: &Path, script: &str) -> Command {
    let mounts = "for at in proc sys dev; do mount --rbind /$at \"$ROOT/$at\"; done; exec chroot \"$ROOT\" sh -ec \"$SCRIPT\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", mounts]);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("ROOT", root).env("SCRIPT", script);
    command
}

#[cfg(test)]
mod tests {
    use super::verify;
    use serde_json::json;

    /// A report without the function, or one without its joules, and a picture without it are no success.
    #[test]
    fn what_is_no_profile_is_refused() {
        let report = |name: &str, package: i64| json!({"functions": [{"name": name, "total_uj": {"core": 0, "package": package}}]});
        assert!(verify(&report("burn.burn", 1), "<svg>burn.burn</svg>").is_ok());
        assert!(verify(&report("burn.burn", 0), "<svg>burn.burn</svg>").is_err());
        assert!(verify(&report("python3", 1), "<svg>burn.burn</svg>").is_err());
        assert!(verify(&report("burn.burn", 1), "<svg></svg>").is_err());
    }
}
