//! Which files the command will map, found by a process of its own: the command's files are not ours, and what they hold may be made to
//! stop or to swell whoever reads them.
//!
//! Leaves out the looking itself (`tracee::prefetch`).

use crate::plan::RecordPlan;
use crate::tracee::prefetch::{counted_libraries_of, files_of, named_libraries_of, search_folders};
use energy_trace_foreign::files::SeenFile;
use energy_trace_probe::{CountName, gpu_libraries_in};
use energy_trace_system::roles::channel::ChannelError;
use energy_trace_system::roles::child::{Child, Parent, fork_role};
use energy_trace_system::roles::renounce::renounce;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{dup2_stderr, dup2_stdout};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of memory that the looking may take.
const MOST_MEMORY: u64 = 256 << 20;
/// CPU time that it may take, in seconds.
const MOST_SECONDS: u64 = 5;
/// How long it is waited for: a guess that is missing is made up for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Files that it may name: each is read and probed before the command begins.
const MOST_FILES: usize = 64;
/// Bytes that its answer may have.
const MOST: usize = 1 << 19;

/// The files that it could open itself, each once.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CommandFiles {
    /// The command's program.
    pub program: Option<SeenFile>,
    /// Its interpreter, and libraries with functions to count.
    pub libraries: Vec<SeenFile>,
    /// Libraries of GPUs, where the program looks for libraries first.
    pub of_gpus: Vec<SeenFile>,
}

/// Somebody who looks.
pub(super) struct Prefetch(Child);

impl Prefetch {
    /// Begins to look. `None`: there is no command and no file is named, or no process to be had.
    pub(super) fn begin(plan: &RecordPlan) -> Option<Self> {
        let names_file = plan.count.iter().flatten().any(|name| name.file().is_some());
        if plan.target.command().is_empty() && !names_file {
            return None;
        }
        fork_role(c"et-prefetch", |parent| i32::from(look(plan, &parent).is_err())).ok().map(Self)
    }

    /// What it found.
    pub(super) fn wait(self) -> CommandFiles {
        let files = self.0.channel.receive::<CommandFiles>(MOST, Some(PATIENCE));
        self.end();
        files.map(|(files, _)| files).unwrap_or_default()
    }

    /// Ends and collects it: who would collect it later may be nobody, in a container.
    pub(super) fn end(self) {
        // It may have ended already, and nobody else has its number before it is collected.
        let _ = kill(self.0.pid(), Signal::SIGKILL);
        self.0.end(Duration::ZERO);
    }
}

fn look(plan: &RecordPlan, parent: &Parent) -> Result<(), ChannelError> {
    renounce(None)?;
    parent.die_with_it()?;
    // A process that has no memory left says so, which is nobody's concern.
    let nowhere = File::options().write(true).open("/dev/null")?;
    dup2_stdout(&nowhere).and_then(|()| dup2_stderr(&nowhere)).map_err(io::Error::from)?;
    setrlimit(Resource::RLIMIT_DATA, MOST_MEMORY, MOST_MEMORY).map_err(io::Error::from)?;
    setrlimit(Resource::RLIMIT_CPU, MOST_SECONDS, MOST_SECONDS).map_err(io::Error::from)?;
    parent.channel.send(&find(plan), &[], Some(PATIENCE))
}

fn find(plan: &RecordPlan) -> CommandFiles {
    let (words, search) = (plan.target.command(), std::env::var_os("PATH"));
    let mut paths = files_of(words, search.as_deref());
    let program = paths.first().cloned();
    if let Some(names) = &plan.count {
        paths.extend(to_count(&paths, names));
        paths.extend(counted_libraries_of(words, search.as_deref()));
    }
    let folders = if plan.gpu.traces_launches() { search_folders() } else { Vec::new() };
    CommandFiles {
        libraries: seen(paths.into_iter().filter(|path| Some(path) != program.as_ref())),
        program: program.and_then(|program| SeenFile::look(&program).ok()),
        of_gpus: seen(folders.iter().flat_map(|folder| gpu_libraries_in(folder))),
    }
}

/// Libraries with functions to count: those that programs are linked with, and those that are named by their path.
fn to_count(programs: &[PathBuf], names: &[CountName]) -> Vec<PathBuf> {
    let linked = programs.iter().flat_map(|path| named_libraries_of(path, names));
    linked.chain(names.iter().filter_map(CountName::file).map(PathBuf::from)).collect()
}

/// Each once, those that may be read.
fn seen(paths: impl Iterator<Item = PathBuf>) -> Vec<SeenFile> {
    let mut met = BTreeSet::new();
    let once = paths.filter(|path| met.insert(path.clone()));
    once.filter_map(|path| SeenFile::look(&path).ok()).take(MOST_FILES).collect()
}

#[cfg(test)]
mod tests {
    use super::{MOST_FILES, seen};

    /// A file that is reached several times is named once, one that cannot be read not at all, and of too many the first.
    #[test]
    fn each_once() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> =
            (0..=MOST_FILES).map(|number| folder.path().join(format!("{number:02}"))).collect();
        paths.iter().for_each(|path| std::fs::write(path, "").unwrap());
        let [one, two] = [&paths[0], &paths[1]];
        let reached = [one, two, &folder.path().join("absent"), one].map(Clone::clone);
        let found = seen(reached.into_iter());
        assert_eq!(found.iter().map(|file| file.path()).collect::<Vec<_>>(), [one, two]);
        assert_eq!(seen(paths.into_iter()).len(), MOST_FILES);
    }
}
