//! Interpreters: the Pythons that run now and the `python3` on PATH, and whether this version can walk their frames.
//!
//! No program of PATH is run as root: under sudo it is run as the invoking user, and where root has no such user it is known by its name.

use super::finding::{DoctorPlan, Finding};
use crate::tracee::become_user::run_as;
use crate::tracee::lookup::locate;
use crate::tracee::user::InvokingUser;
use energy_trace_unwind::cpython::debug_offsets::known_minors;
use energy_trace_unwind::cpython::layout::KNOWN;
use nix::unistd::geteuid;
use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A Python's minor version: (3, 11).
type Version = (u32, u32);

/// The Pythons whose frames this version walks.
fn known_versions() -> impl Iterator<Item = Version> {
    KNOWN.iter().map(|layout| layout.minor).chain(known_minors())
}

/// How long `python3 --version` may take; shims are slow, hanging ones are not waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that are read of what it says.
const LONGEST_VERSION: u64 = 64;

pub(super) fn examine(plan: &DoctorPlan) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (version, processes) in running_at(&plan.rootfs.join("proc")) {
        let what = format!("running: CPython {} in {}", name(version), listed(&processes));
        findings.push(uncertainties(version, &what));
    }
    findings.push(on_path());
    findings
}

/// The `python3` that a command line would mean.
fn on_path() -> Finding {
    let Some(path) = locate("python3".as_ref(), std::env::var_os("PATH")) else {
        return Finding::ok("python", "no python3 on PATH");
    };
    let version = match InvokingUser::from_environment() {
        Ok(None) if geteuid().is_root() => version_in_name(&path),
        Ok(user) => version_printed(&path, user),
        Err(error) => {
            return Finding::warn(
                "python",
                format!("python3 on PATH: version unknown: {error}"),
                "run doctor with sudo",
            );
        }
    };
    match version {
        Some(version) => uncertainties(version, &format!("python3 on PATH: CPython {}", name(version))),
        None if geteuid().is_root() => {
            Finding::ok("python", "python3 on PATH: version unknown (doctor does not run programs as root)")
        }
        None => Finding::ok("python", "python3 on PATH does not print its version"),
    }
}

fn uncertainties(version: Version, what: &str) -> Finding {
    if known_versions().any(|known| known == version) {
        return Finding::ok("python", format!("{what}: supported"));
    }
    let known = known_versions().map(name).collect::<Vec<_>>().join(", ");
    Finding::warn(
        "python",
        format!("{what}: not supported, so its stacks show native frames only"),
        format!("use CPython {known}"),
    )
}

fn name((major, minor): Version) -> String {
    format!("{major}.{minor}")
}

fn listed(processes: &[u32]) -> String {
    match processes {
        [one] => format!("process {one}"),
        [first, ..] => format!("{} processes (such as {first})", processes.len()),
        [] => "no process".into(),
    }
}

/// The Python processes by version. What may not be looked at is left out.
fn running_at(proc: &Path) -> BTreeMap<Version, Vec<u32>> {
    let mut found: BTreeMap<Version, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir(proc).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(version) = version_of_process(&entry.path()) {
            found.entry(version).or_default().push(pid);
        }
    }
    found
}

/// By the library where there is one, because a program that embeds Python has any name; else by the program's name.
fn version_of_process(process: &Path) -> Option<Version> {
    let maps = std::fs::read_to_string(process.join("maps")).ok()?;
    let library = maps.lines().find_map(|line| parse_version(line.rsplit_once("/libpython")?.1));
    library.or_else(|| {
        let program = std::fs::read_link(process.join("exe")).ok()?;
        parse_version(program.file_name()?.to_str()?.strip_prefix("python")?)
    })
}

/// The version at the start of a text: `3.11.so.1.0` is (3, 11), and so is `Python 3.11.2` behind its first word.
fn parse_version(text: &str) -> Option<Version> {
    let (major, rest) = text.split_once('.')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((major.parse().ok()?, rest.get(..digits)?.parse().ok()?))
}

/// The version in the name of the file that a link leads to: `python3 -> python3.11`.
fn version_in_name(path: &Path) -> Option<Version> {
    let file = path.canonicalize().ok()?;
    parse_version(file.file_name()?.to_str()?.strip_prefix("python")?)
}

/// What `python3 --version` prints, run as this user.
fn version_printed(path: &Path, user: Option<InvokingUser>) -> Option<Version> {
    // Not a pipe: whoever it leaves behind could keep that open.
    let mut output = tempfile::tempfile().ok()?;
    let mut command = Command::new(path);
    run_as(&mut command, user);
    command.arg("--version").stdin(Stdio::null()).stdout(output.try_clone().ok()?).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let end = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > end {
            // A process that hangs is ended and collected; that it may have ended just now is no error.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    output.rewind().ok()?;
    let mut text = Vec::new();
    output.take(LONGEST_VERSION).read_to_end(&mut text).ok()?;
    parse_version(String::from_utf8_lossy(&text).strip_prefix("Python ")?)
}

#[cfg(test)]
mod tests {
    use super::{parse_version, running_at, uncertainties, version_in_name};
    use crate::doctor::Level;

    /// Libraries, programs and the interpreter's own words give the version; free-threaded builds and nonsense do not mislead.
    #[test]
    fn versions() {
        assert_eq!(parse_version("3.11.so.1.0"), Some((3, 11)));
        assert_eq!(parse_version("3.13t.so.1.0"), Some((3, 13)));
        assert_eq!(parse_version("3.9"), Some((3, 9)));
        assert_eq!(parse_version("3"), None);
        assert_eq!(parse_version("-config"), None);
        assert_eq!(parse_version("3."), None);
    }

    /// A link's name is enough to tell a version; a program of that name alone is not.
    #[test]
    fn versions_in_names() {
        let dir = tempfile::tempdir().unwrap();
        let (link, file) = (dir.path().join("python3"), dir.path().join("python3.11"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(version_in_name(&link), Some((3, 11)));
        std::fs::remove_file(&link).unwrap();
        std::fs::write(&link, "").unwrap();
        assert_eq!(version_in_name(&link), None);
    }

    /// A program that embeds Python is found by its library, whatever its name; an unknown version is a warning that names it.
    #[test]
    fn embedded_interpreters() {
        let proc = tempfile::tempdir().unwrap();
        let process = proc.path().join("42");
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("maps"), "7f00-7f01 r-xp 0 08:01 9 /opt/app/lib/libpython3.5m.so.1.0\n")
            .unwrap();
        assert_eq!(running_at(proc.path()), [((3, 5), vec![42])].into());
        let found = uncertainties((3, 5), "x");
        assert_eq!(found.level, Level::Warn);
        assert!(found.text.contains("native frames only"));
    }
}
