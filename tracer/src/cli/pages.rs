//! `energy-trace pages FOLDER`: manual pages and completions of bash, zsh and fish, made from the command line's own definition.
//!
//! Hidden: packages use it, and whoever installed by `cargo install`. Leaves out where the folder is: below a prefix it is `share`.

use super::command_line::Cli;
use super::failure::Failure;
use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate_to};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `pages` is told.
#[derive(Debug, Args)]
pub(super) struct PagesArgs {
    /// Where `man`, `bash-completion`, `zsh` and `fish` are written; /usr/local/share for all users
    folder: PathBuf,
}

/// Where each shell looks, below `share`, and what it expects the file to be called.
const COMPLETIONS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "bash-completion/completions", "energy-trace"),
    (Shell::Zsh, "zsh/site-functions", "_energy-trace"),
    (Shell::Fish, "fish/vendor_completions.d", "energy-trace.fish"),
];

/// Why a page is not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write manual pages and completions below {folder}: {source}")]
struct PagesError {
    folder: PathBuf,
    source: io::Error,
}

/// Writes the files.
///
/// # Errors
/// When one cannot be written.
pub(super) fn run(args: &PagesArgs) -> Result<ExitCode, Failure> {
    let failure = |source| Failure::own(&PagesError { folder: args.folder.clone(), source });
    write(&args.folder).map_err(failure)?;
    Ok(ExitCode::SUCCESS)
}

fn write(share: &Path) -> io::Result<()> {
    let manual = share.join("man/man1");
    fs::create_dir_all(&manual)?;
    clap_mangen::generate_to(Cli::command(), &manual)?;
    for (shell, folder, name) in COMPLETIONS {
        let folder = share.join(folder);
        fs::create_dir_all(&folder)?;
        let written =
            generate_to(shell, &mut Cli::command().disable_help_subcommand(true), "energy-trace", &folder)?;
        fs::rename(written, folder.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::write;
    use std::fs;

    /// Every command that help shows has a page and is completed; options of a recording are in both.
    #[test]
    fn pages_and_completions() {
        let share = tempfile::tempdir().unwrap();
        write(share.path()).unwrap();
        let read = |name: &str| fs::read_to_string(share.path().join(name)).unwrap();
        assert!(read("man/man1/energy-trace.1").contains("energy\\-trace\\-record(1)"));
        assert!(read("man/man1/energy-trace-record.1").contains("idle\\-watts"));
        assert!(!share.path().join("man/man1/energy-trace-pages.1").exists());
        let completions = [
            "bash-completion/completions/energy-trace",
            "zsh/site-functions/_energy-trace",
            "fish/vendor_completions.d/energy-trace.fish",
        ];
        for name in completions {
            let text = read(name);
            for word in ["record", "flamegraph", "doctor", "idle-watts"] {
                assert!(text.contains(word), "{name} lacks {word}");
            }
        }
    }
}
