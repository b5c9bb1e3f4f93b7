//! The Git repository in which the command starts: its root, address, branch and commit, as Git itself tells the invoking user.
//!
//! Git is asked by commands that run nothing else, whatever the repository's settings say, and that refuse the repositories of others. It is
//! asked while the recording is prepared and waited for when that is done; where there is no repository, nothing is run. Leaves out whether
//! files differ from the commit: to look at all of them takes too long.

use crate::plan::RecordPlan;
use energy_trace_model::recording::record::Project;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is asked: the commit with its time, the root with the branch, the address.
const QUESTIONS: [&[&str]; 3] = [
    &["rev-list", "--max-count=1", "--format=%ct", "HEAD"],
    &["rev-parse", "--show-toplevel", "--abbrev-ref", "HEAD"],
    &["config", "--get", "remote.origin.url"],
];
/// What keeps Git from running or fetching anything for an answer: a partial clone lacks objects, and its settings say which program fetches them.
/// Git before 2.45 does not know the first of these; it fetches by no protocol then.
const CLOSED: [(&str, &str); 7] = [
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    // Under sudo `HOME` may be another user's, whose settings Git could not read.
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
];
/// How long all answers are waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of an answer that are read.
const MOST: u64 = 4096;

/// Git at work.
pub(super) struct ProjectSearch {
    folder: PathBuf,
    asked: Vec<Child>,
}

impl ProjectSearch {
    /// Begins to ask. `None`: no command is started, or its folder is not known.
    pub(super) fn begin(plan: &RecordPlan) -> Option<Self> {
        if plan.target.command().is_empty() {
            return None;
        }
        let folder = std::env::current_dir().ok()?;
        Some(Self { asked: ask(&folder), folder })
    }

    /// Ends and collects what was asked.
    pub(super) fn end(self) {
        let now = Instant::now();
        self.asked.into_iter().for_each(|child| drop(answer(child, now)));
    }

    /// What was answered.
    pub(super) fn finish(self) -> Project {
        let until = Instant::now() + PATIENCE;
        let mut answers = self.asked.into_iter().map(|child| answer(child, until));
        let mut next = || answers.next().flatten().unwrap_or_default();
        let (commit, place, address) = (next(), next(), next());
        let mut lines = commit.lines();
        let mut place = place.lines();
        Project {
            folder: self.folder.to_string_lossy().into_owned(),
            commit: lines.next().and_then(|line| line.strip_prefix("commit ")).unwrap_or_default().to_owned(),
            committed_s: lines.next().and_then(|seconds| seconds.parse().ok()),
            root: place.next().unwrap_or_default().to_owned(),
            // Without a branch Git says `HEAD`.
            branch: place.next().filter(|&name| name != "HEAD").unwrap_or_default().to_owned(),
            repository: without_secrets(address.trim()),
        }
    }
}

/// Starts Git for each question, where the folder is in a repository.
fn ask(folder: &Path) -> Vec<Child> {
    if !folder.ancestors().any(|above| above.join(".git").exists()) {
        return Vec::new();
    }
    let start = |question: &&[&str]| {
        let mut git = Command::new("git");
        git.current_dir(folder).args(*question);
        git.envs(CLOSED);
        git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()
    };
    QUESTIONS.iter().filter_map(start).collect()
}

/// What one said; `None` where it failed or took too long. An answer is short, so it fits into the pipe.
fn answer(mut child: Child, until: Instant) -> Option<String> {
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            _ => break None,
        }
    };
    if status.is_none() {
        // It is ours and has not been waited for.
        let _ended = child.kill().and_then(|()| child.wait());
    }
    let mut text = String::new();
    child.stdout.take()?.take(MOST).read_to_string(&mut text).ok()?;
    status.is_some_and(|status| status.success()).then_some(text)
}

/// An address without the user and password that it may hold.
fn without_secrets(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
}

#[cfg(test)]
mod tests {
    use super::{CLOSED, ProjectSearch, QUESTIONS, ask, without_secrets};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    /// A repository with a commit, a branch and an address is told, without the password in the address; a folder outside has only its name.
    #[test]
    fn a_repository() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("below");
        std::fs::create_dir(&folder).unwrap();
        let outside = ProjectSearch { asked: ask(&folder), folder: folder.clone() }.finish();
        assert!(outside.commit.is_empty() && outside.root.is_empty() && outside.folder.ends_with("below"));
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(&folder).env("GIT_CONFIG_GLOBAL", "/dev/null").args([
                "-c",
                "user.name=n",
                "-c",
                "user.email=e",
            ]);
            assert!(git.args(arguments).output().unwrap().status.success(), "{arguments:?}");
        };
        git(&["init", "-q", "-b", "topic", "."]);
        git(&["commit", "-q", "--allow-empty", "-m", "first"]);
        git(&["remote", "add", "origin", "https://me:secret@example.org/owner/name.git"]);
        let found = ProjectSearch { asked: ask(&folder), folder: folder.clone() }.finish();
        assert_eq!(
            (found.branch.as_str(), found.repository.as_str()),
            ("topic", "https://example.org/owner/name.git")
        );
        assert!(
            found.commit.len() == 40 && found.committed_s.is_some_and(|s| s > 1_700_000_000),
            "{found:?}"
        );
        assert!(found.root.ends_with("below"), "{found:?}");
    }

    /// A repository of somebody else's making runs nothing: neither the program that would fetch what a partial clone lacks, by either of two ways to
    /// keep Git from it, nor hooks, monitors of files, pagers and shown signatures.
    #[test]
    fn a_repository_runs_nothing() {
        let tree = tempfile::tempdir().unwrap();
        let (folder, ran) = (tree.path().join("clone"), tree.path().join("ran"));
        std::fs::create_dir(&folder).unwrap();
        let git = |arguments: &[&str]| {
            let done = Command::new("git").current_dir(&folder).args(arguments).output().unwrap();
            assert!(done.status.success(), "{arguments:?}");
        };
        git(&["init", "-q", "-b", "main", "."]);
        let program = tree.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\necho $0 $* >> {}\n", ran.display())).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let program = program.to_str().unwrap();
        for setting in [
            "core.fsmonitor",
            "core.pager",
            "pager.rev-list",
            "gpg.program",
            "core.sshCommand",
            "remote.origin.uploadpack",
        ] {
            git(&["config", setting, program]);
        }
        for (setting, value) in [
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", tree.path().to_str().unwrap()),
            ("protocol.file.allow", "always"),
            ("log.showSignature", "true"),
        ] {
            git(&["config", setting, value]);
        }
        for hook in ["post-checkout", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"] {
            std::fs::copy(program, folder.join(".git/hooks").join(hook)).unwrap();
        }
        std::fs::write(folder.join(".git/refs/heads/main"), "1234567890123456789012345678901234567890\n")
            .unwrap();
        // The trap works: Git that is not held back falls into it.
        Command::new("git").current_dir(&folder).args(QUESTIONS[0]).output().unwrap();
        assert!(std::fs::remove_file(&ran).is_ok(), "nothing ran that could have run");
        let found = ProjectSearch { asked: ask(&folder), folder: folder.clone() }.finish();
        assert!(!ran.exists(), "{:?}", std::fs::read_to_string(&ran));
        assert_eq!((found.commit.as_str(), found.root.ends_with("clone")), ("", true), "{found:?}");
        let old = CLOSED.iter().filter(|(name, _)| *name != "GIT_NO_LAZY_FETCH").copied();
        Command::new("git").current_dir(&folder).args(QUESTIONS[0]).envs(old).output().unwrap();
        assert!(!ran.exists(), "Git before 2.45: {:?}", std::fs::read_to_string(&ran));
    }

    /// A user's name and password go; an address for ssh stays.
    #[test]
    fn secrets() {
        assert_eq!(without_secrets("https://token@host.org/a/b.git"), "https://host.org/a/b.git");
        assert_eq!(without_secrets("ssh://git@host.org:22/a@b"), "ssh://host.org:22/a@b");
        assert_eq!(without_secrets("git@host.org:a/b.git"), "git@host.org:a/b.git");
        assert_eq!(without_secrets(""), "");
    }
}
