//! A place where the real program runs in a test: its folder, its command lines, and processes that are talked to while they run.
//!
//! Leaves out every line of energy-trace itself.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot be set up fails, wherever that happens"
)]

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// Cargo builds what a package's tests run, but the product is another package's: without this an old one would be tested without a word.
fn check_is_new(program: &Path) {
    static CHECKED: Once = Once::new();
    CHECKED.call_once(|| {
        let built = modified(program).expect("no product to test: run `cargo build --bins` first");
        let sources = std::fs::read_to_string(program.with_extension("d")).unwrap_or_default();
        // A rule of make: the program, a colon, its sources, with a backslash before a blank that belongs to a name.
        let sources = sources.replace("\\ ", "\0");
        let newer = sources
            .split_whitespace()
            .skip(1)
            .map(|file| file.replace('\0', " "))
            .find(|file| modified(Path::new(file)).is_none_or(|at| at > built));
        assert!(
            newer.is_none(),
            "{} is older than {newer:?}: run `cargo build --bins` first",
            program.display()
        );
    });
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).ok()?.modified().ok()
}

/// A place for one test's files, and the program in it.
pub struct Place {
    dir: TempDir,
    program: PathBuf,
}

impl Place {
    /// A new folder that others may look into, for the program at this path (`CARGO_BIN_EXE_energy-trace`), or the one that
    /// `ENERGY_TRACE_UNDER_TEST` names: another build, to see what a test says of it.
    pub fn new(program: &str) -> Self {
        let other = std::env::var_os("ENERGY_TRACE_UNDER_TEST");
        if other.is_none() {
            check_is_new(Path::new(program));
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir, program: other.unwrap_or_else(|| program.into()).into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The program with these arguments, in this place, as if nobody had used sudo.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.dir.path());
        for variable in ["SUDO_UID", "SUDO_GID", "SUDO_USER", "NO_COLOR", "TERM"] {
            command.env_remove(variable);
        }
        command
    }

    /// Runs it to its end, with nothing on its stdin.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Records a shell script, without energy, as fast as can be.
    pub fn record(&self, script: &str) -> Command {
        self.command(&["--power", "none", "--no-svg", "--", "sh", "-c", script])
    }

    /// As if a user of this number, and group of the same, had used sudo; the place is that user's.
    pub fn sudo(&self, user: u32, arguments: &[&str]) -> Command {
        std::os::unix::fs::chown(self.folder(), Some(user), Some(user)).unwrap();
        let mut command = self.command(arguments);
        command.env("SUDO_UID", user.to_string()).env("SUDO_GID", user.to_string());
        command
    }

    /// Writes a file that only root can read, in a folder that only root can enter.
    pub fn write_secret(&self, text: &str) -> PathBuf {
        let folder = self.path("roots");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        self.write("roots/secret", 0o600, text)
    }

    /// A copy of the program in the place, which everybody may run.
    pub fn copy_of_program(&self) -> PathBuf {
        copy_program(&self.program, self.path("energy-trace"))
    }

    /// Writes a file with these permissions.
    pub fn write(&self, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

/// Copies a program so that everybody may run the copy. Another process does it: what this one has open for writing is open too in every child
/// that another thread forks just then, until that executes its own program, and meanwhile nobody can execute the file ("Text file busy").
pub fn copy_program(program: &Path, copy: PathBuf) -> PathBuf {
    let made = Command::new("install").args(["-m", "0755"]).arg(program).arg(&copy).status().unwrap();
    assert!(made.success(), "install of coreutils");
    copy
}

/// A process with pipes to talk to it, killed when the test is over, however it ends.
pub struct Talk(pub Child);

impl Talk {
    /// Starts it with a pipe at each end.
    pub fn spawn(mut command: Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits for a line on its stdout.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill takes two numbers; the process has not been waited for, so the pid is its own.
        assert_eq!(unsafe { libc::kill(self.0.id().cast_signed(), signal) }, 0);
    }

    /// Closes its stdin, waits, and returns what it has written since.
    pub fn end(mut self) -> Output {
        drop(self.0.stdin.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        Output { status: self.0.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command to its end, and fails rather than hangs if that does not come.
#[track_caller]
pub fn run_bounded(command: Command) -> Output {
    let mut child = Talk::spawn(command);
    drop(child.0.stdin.take());
    let readers = [
        child.0.stdout.take().map(|mut pipe| read_all(move |bytes| pipe.read_to_end(bytes))),
        child.0.stderr.take().map(|mut pipe| read_all(move |bytes| pipe.read_to_end(bytes))),
    ];
    eventually("the end of the command", || child.0.try_wait().unwrap().is_some());
    let [stdout, stderr] = readers.map(|reader| reader.map(|r| r.join().unwrap()).unwrap_or_default());
    Output { status: child.0.wait().unwrap(), stdout, stderr }
}

fn read_all(
    mut read: impl FnMut(&mut Vec<u8>) -> std::io::Result<usize> + Send + 'static,
) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        read(&mut bytes).unwrap();
        bytes
    })
}

/// The exit status is this one; what was printed is shown otherwise.
#[track_caller]
pub fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// stderr holds all of these words.
#[track_caller]
pub fn assert_says(output: &Output, words: &[&str]) {
    let said = text(&output.stderr);
    for word in words {
        assert!(said.contains(word), "{word:?} is not in:\n{said}");
    }
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for something that will happen, and fails rather than hangs if it does not.
#[track_caller]
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !happened() {
        assert!(Instant::now() < end, "{what} did not happen within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A small file system in a place, in the folder `disk`; unmounted when the test is over.
pub struct Disk(PathBuf);

impl Disk {
    /// Mounts one with these options, such as `size=64k`.
    ///
    /// # Panics
    /// When it cannot be mounted.
    pub fn mount(place: &Place, options: &str) -> Self {
        let path = place.path("disk");
        std::fs::create_dir(&path).unwrap();
        let disk = Self(path);
        disk.again(options, MsFlags::empty());
        disk
    }

    /// Gives it another size.
    ///
    /// # Panics
    /// When it cannot have it.
    pub fn resize(&self, options: &str) {
        self.again(options, MsFlags::MS_REMOUNT);
    }

    fn again(&self, options: &str, flags: MsFlags) {
        let kind = Some("tmpfs");
        mount(kind, &self.0, kind, flags, Some(options)).unwrap();
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A mount that stays behind is nobody's failure.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}
