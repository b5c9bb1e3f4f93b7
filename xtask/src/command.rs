//! Running other programs, with errors that name the whole command.

use anyhow::{Context as _, Result, bail};
use std::env;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How many bytes of a failed installer's output are shown.
const SHOWN: u64 = 4000;

/// Runs `command` on this terminal. An error unless it ends with 0.
pub fn run(command: &mut Command) -> Result<()> {
    Started::new(command)?.wait()
}

/// A program on this terminal, beside which others are run. It ends with this value.
pub struct Started {
    words: String,
    child: Child,
}

impl Started {
    /// Starts `command`.
    pub fn new(command: &mut Command) -> Result<Self> {
        let words = words(command);
        let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {words}"))?;
        Ok(Self { words, child })
    }

    /// Waits for its end. An error unless it ends with 0.
    pub fn wait(mut self) -> Result<()> {
        let status = self.child.wait().with_context(|| format!("cannot wait for {}", self.words))?;
        if !status.success() {
            bail!("{} failed: {status}", self.words);
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Where it has ended there is nothing to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What `command` prints to its standard output, trimmed. An error unless it ends with 0.
pub fn read_output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("cannot start {}", words(command)))?;
    if !output.status.success() {
        bail!(
            "{} failed: {}\n{}",
            words(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `command` with its output appended to `log`. When it fails, the error carries the end of what it printed.
pub fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))?;
    writeln!(file, "$ {}", words(command))?;
    let start = file.metadata()?.len();
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file.try_clone()?)
        .status()
        .with_context(|| format!("cannot start {}", words(command)))?;
    if status.success() {
        return Ok(());
    }
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.max(end.saturating_sub(SHOWN))))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    bail!(
        "{} failed: {status}; all of it is in {}, its end:\n{}",
        words(command),
        log.display(),
        String::from_utf8_lossy(&tail).trim_end()
    )
}

/// The first executable of that name on `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// Whether this process is root.
pub fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

/// The command as one would type it.
fn words(command: &Command) -> String {
    let mut text = format!("`{}", command.get_program().display());
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text.push('`');
    text
}

#[cfg(test)]
mod tests {
    use super::{read_output, run_logged};
    use std::process::Command;

    /// A failing command is named whole, with what it said on stderr.
    #[test]
    fn an_error_names_the_command_and_what_it_said() {
        let error =
            read_output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c") && error.contains("why") && error.contains('3'), "{error}");
    }

    /// A quiet installer that fails shows the end of its own output and not that of the one before it.
    #[test]
    fn a_failed_installer_shows_its_own_output() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("new/setup.log");
        run_logged(Command::new("echo").arg("the earlier one"), &log).unwrap();
        let error = run_logged(Command::new("sh").args(["-c", "echo no network; exit 1"]), &log)
            .unwrap_err()
            .to_string();
        assert!(error.contains("no network") && !error.contains("the earlier one"), "{error}");
    }
}
