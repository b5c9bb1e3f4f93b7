//! What a command line meant whose program is not there or cannot be executed: each answer ends with what to type.
//!
//! A shell's user writes a whole command in quotes, variables before it, a command of the shell itself, a script. Names are looked at, and
//! the first two bytes of a script. Leaves out commands of energy-trace that are mistyped (`first_word.rs`).

use super::closed::closed_folder;
use crate::plan::RecordPlan;
use crate::session::SessionError;
use crate::tracee::lookup::{Found, find, locate};
use crate::tracee::user::path_before_sudo;
use energy_trace_foreign::files::Root;
use energy_trace_system::privileges::shell_word;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Commands that a shell does itself.
const OF_SHELL: [&str; 43] = [
    "cd", "source", ".", "export", "alias", "unalias", "unset", "set", "eval", "exit", "return", "pushd",
    "popd", "dirs", "umask", "ulimit", "history", "jobs", "fg", "bg", "wait", "read", "shift", "trap", "let",
    "declare", "local", "readonly", "shopt", "type", "hash", "builtin", "if", "for", "while", "until",
    "case", "function", "[[", "{", "(", "conda", "nvm",
];
/// Words before a program that do nothing that a recording needs.
const BEFORE_PROGRAM: [&str; 11] = [
    "time",
    "exec",
    "command",
    "run",
    "start",
    "launch",
    "profile",
    "stat",
    "trace",
    "nohup",
    "energy-trace",
];
/// What makes a text more than a program with its arguments.
const SYNTAX: [char; 14] = ['|', '&', ';', '<', '>', '$', '`', '(', ')', '*', '?', '{', '\n', '~'];
/// Programs by the ends of the names of the files that they run.
const INTERPRETERS: [(&str, &str); 15] = [
    ("py", "python3"),
    ("pyz", "python3"),
    ("sh", "sh"),
    ("bash", "bash"),
    ("pl", "perl"),
    ("rb", "ruby"),
    ("js", "node"),
    ("mjs", "node"),
    ("cjs", "node"),
    ("php", "php"),
    ("lua", "lua"),
    ("jar", "java -jar"),
    ("ipynb", "jupyter execute"),
    ("jl", "julia"),
    ("R", "Rscript"),
];

/// What to do about a command that did not start; `None` where nothing can be said.
pub(super) fn advice(plan: &RecordPlan, error: &SessionError) -> Option<String> {
    let typed = Typed::of(plan);
    match error {
        SessionError::NotFound { .. } => Some(typed.not_found()),
        SessionError::NotExecutable { source, .. } => typed.not_executable(source.kind()),
        _ => None,
    }
}

/// The program's file, and a warning, where the user's own shell would have run another program of that name: sudo replaces PATH.
pub(super) fn other_program(plan: &RecordPlan) -> Option<(PathBuf, String)> {
    let typed = Typed::of(plan);
    let word = typed.words.first().filter(|word| !word.as_encoded_bytes().contains(&b'/'))?;
    let here = locate(word, std::env::var_os("PATH"))?;
    let there = locate(word, Some(path_before_sudo()?))?;
    let folder = |path: &Path| path.parent().and_then(|folder| folder.canonicalize().ok());
    let rest = typed.tail(1);
    (folder(&here) != folder(&there)).then(|| {
        let warning = format!(
            "{} is {} here, as sudo replaces PATH; your shell runs {}: `{}` records that",
            word.display(),
            here.display(),
            there.display(),
            typed.again(&[&[shell_word(&there)][..], &rest].concat())
        );
        (here, warning)
    })
}

/// That a program is text of another language than the shell's, of which nothing says so: a shell would run it.
pub(super) fn refusal(plan: &RecordPlan) -> Option<SessionError> {
    let command = plan.target.command().first()?;
    let path = locate(command, std::env::var_os("PATH"))?;
    let is_of_shell = |interpreter| matches!(interpreter, "sh" | "bash");
    interpreter_of(&path.to_string_lossy()).filter(|interpreter| !is_of_shell(*interpreter))?;
    let mut first = [0; 2];
    Root::default().open(&path, true).ok()?.read_exact(&mut first).ok()?;
    let source = io::Error::from_raw_os_error(libc::ENOEXEC);
    let is_said = matches!(&first, b"#!" | b"\x7fE" | b"PK");
    (!is_said).then(|| SessionError::NotExecutable { command: command.clone(), source })
}

/// What was typed.
struct Typed<'a> {
    /// Up to the program, as it would be typed again.
    before: String,
    words: &'a [OsString],
}

impl<'a> Typed<'a> {
    fn of(plan: &'a RecordPlan) -> Self {
        let words = plan.target.command();
        let options = plan.typed.len().saturating_sub(words.len());
        let options = plan.typed.get(1..options).unwrap_or_default();
        let under_sudo = std::env::var_os("SUDO_UID").is_some();
        let first = under_sudo.then(|| "sudo".to_owned()).into_iter().chain(["energy-trace".to_owned()]);
        let options = options.iter().map(|word| shell_word(Path::new(word)));
        Self { before: first.chain(options).collect::<Vec<_>>().join(" "), words }
    }

    /// The command line with another program and arguments.
    fn again(&self, words: &[String]) -> String {
        format!("{} {}", self.before, words.join(" "))
    }

    /// The words from this one on, quoted.
    fn tail(&self, from: usize) -> Vec<String> {
        self.words.iter().skip(from).map(|word| quoted(&word.to_string_lossy())).collect()
    }

    /// The whole as a shell's command; a first word that was a text stays one.
    fn in_shell(&self, shell: &str, text: &str) -> String {
        let text = [&[text.to_owned()][..], &self.tail(1)].concat().join(" ");
        self.again(&[shell.to_owned(), "-c".to_owned(), shell_word(Path::new(&text))])
    }

    fn not_found(&self) -> String {
        let first = self.words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        if Path::new(&first).is_dir() {
            return self.as_folder(&first);
        }
        if Path::new(&first).is_file() && !first.contains('/') {
            return format!("it is a file in this directory: {}", self.how_to_run(&first));
        }
        if Path::new(&first).is_file() {
            return format!(
                "the file is there, and the interpreter that its first line names (#!) is not; a line end of Windows counts as part of that \
                 name: {}",
                self.how_to_run(&first)
            );
        }
        self.as_text(&first)
            .or_else(|| self.as_assignments())
            .or_else(|| self.as_word_of_shell(&first))
            .or_else(|| self.as_word_too_many(&first))
            .or_else(|| self.as_program_of_other_name(&first))
            .unwrap_or_else(|| self.as_missing(&first))
    }

    /// Quotes around a whole command, options in the place of a program, nothing at all.
    fn as_text(&self, first: &str) -> Option<String> {
        if first.trim().is_empty() {
            return Some("the program's name is empty: is a variable unset that should hold it?".to_owned());
        }
        if let Some(option) = first.strip_prefix(['–', '—']) {
            let option = shell_word(Path::new(&format!("--{option}")));
            return Some(format!(
                "this begins with a dash, options with hyphens: `{}`",
                self.again(&[&[option][..], &self.tail(1)].concat())
            ));
        }
        if first.starts_with('-') {
            return Some(
                "options of energy-trace come before `--`, a program after it: `sudo energy-trace -o FILE -- python3 train.py`"
                    .to_owned(),
            );
        }
        if let Some(home) = first.strip_prefix("~/").filter(|home| !home.contains(char::is_whitespace)) {
            let path = format!("~/{}", shell_word(Path::new(home)));
            return Some(format!(
                "`~` means a home only without quotes: `{}`",
                self.again(&[&[path][..], &self.tail(1)].concat())
            ));
        }
        let words: Vec<&str> = first.split_whitespace().collect();
        let is_shells = words.first().is_some_and(|word| OF_SHELL.contains(word)) || first.contains(SYNTAX);
        if is_shells && (words.len() > 1 || first.contains(SYNTAX)) {
            return Some(format!("that is for a shell: `{}`", self.in_shell("sh", first)));
        }
        (words.len() > 1).then(|| {
            let start = if words.first().is_some_and(|word| is_assignment(word)) { "env " } else { "" };
            format!(
                "the quotes make one word of it: write it without them, `{}`",
                self.again(&[&[format!("{start}{first}")][..], &self.tail(1)].concat())
            )
        })
    }

    /// `NAME=value … program`.
    fn as_assignments(&self) -> Option<String> {
        let is_assignment = |word: &&OsString| is_assignment(&word.to_string_lossy());
        let count = self.words.iter().take_while(is_assignment).count();
        let env = [&["env".to_owned()][..], &self.tail(0)].concat();
        match (count, count < self.words.len()) {
            (0, _) => None,
            (_, true) => Some(format!("a variable is set by `env`: `{}`", self.again(&env))),
            (_, false) => {
                let line = self.again(&[&env[..], &["PROGRAM".to_owned()]].concat());
                Some(format!("a variable is no program; with one: `{line}`"))
            }
        }
    }

    fn as_word_of_shell(&self, first: &str) -> Option<String> {
        if !OF_SHELL.contains(&first) {
            return None;
        }
        let line = self.tail(0).join(" ");
        if matches!(first, "cd" | "pushd") {
            return Some(format!(
                "`{first}` is a command of the shell and no program: `{line}` first, then `{}`, or in one line `{}`",
                self.again(&["PROGRAM".to_owned()]),
                self.again(&["sh -c".to_owned(), shell_word(Path::new(&format!("{line} && PROGRAM")))])
            ));
        }
        let shell =
            if matches!(first, "." | "export" | "set" | "eval" | "umask" | "ulimit") { "sh" } else { "bash" };
        // Functions of a shell that its own start makes.
        let shell = if matches!(first, "conda" | "nvm" | "alias") { "bash -i" } else { shell };
        let is_whole = matches!(
            first,
            "if" | "for" | "while" | "until" | "case" | "{" | "(" | "[[" | "eval" | "function"
        );
        let line = if is_whole { line } else { format!("{line} && PROGRAM") };
        Some(format!(
            "`{first}` is a command of the shell and no program: `{}`",
            self.again(&[format!("{shell} -c"), shell_word(Path::new(&line))])
        ))
    }

    /// `run python3 a.py`, `attach 1234`, `1234`.
    fn as_word_too_many(&self, first: &str) -> Option<String> {
        let is_number = |word: &str| word.parse::<u32>().is_ok();
        let second = self.words.get(1).map(|word| word.to_string_lossy());
        match second.as_deref() {
            Some(second) if BEFORE_PROGRAM.contains(&first) && is_there(OsStr::new(second)) => {
                Some(format!("without `{first}`: `{}`", self.again(&self.tail(1))))
            }
            Some(pid) if matches!(first, "attach" | "pid") && is_number(pid) => {
                Some(format!("a process is named by -p: `{} -p {pid}`", self.before))
            }
            None if is_number(first) => {
                Some(format!("a process is named by -p: `{} -p {first}`", self.before))
            }
            _ => None,
        }
    }

    /// In the user's own PATH, or `python3` where `python` was typed.
    fn as_program_of_other_name(&self, first: &str) -> Option<String> {
        let path = path_before_sudo().and_then(|path| locate(OsStr::new(first), Some(path)));
        let other = || {
            let bare = first.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
            let names = [format!("{bare}3"), bare.to_owned()];
            names.into_iter().find(|name| {
                name != first && matches!(bare, "python" | "pip" | "pypy") && is_there(OsStr::new(name))
            })
        };
        if let Some(path) = path {
            let line = self.again(&[&[shell_word(&path)][..], &self.tail(1)].concat());
            return Some(format!("sudo replaces PATH; your shell runs {}: `{line}`", path.display()));
        }
        let other = other()?;
        let line = self.again(&[&[other.clone()][..], &self.tail(1)].concat());
        Some(format!("there is {other}: `{line}`"))
    }

    fn as_missing(&self, first: &str) -> String {
        if let Some(interpreter) = interpreter_of(first) {
            let line = self.again(&[&[interpreter.to_owned()][..], &self.tail(0)].concat());
            let folder = std::env::current_dir().unwrap_or_default();
            return format!("there is no such file in {}; where it is: `{line}`", folder.display());
        }
        if first.contains('/') {
            // A virtual environment whose Python was removed.
            return match std::fs::read_link(first) {
                Ok(target) => format!("it is a link to {}, which is not there", shell_word(&target)),
                Err(_) => "there is no such file".to_owned(),
            };
        }
        if std::env::var_os("SUDO_UID").is_some() {
            return format!(
                "sudo replaces PATH: name the program by its path, as in `sudo energy-trace $(command -v {first}) …`, or keep PATH with \
                 `sudo env \"PATH=$PATH\" energy-trace …`; an alias or function of your shell is no program (`type {first}` says what it is)"
            );
        }
        format!(
            "it is no program on PATH; an alias or function of your shell is none (`type {first}` says what it is)"
        )
    }

    fn not_executable(&self, why: ErrorKind) -> Option<String> {
        let first = self.words.first()?.to_string_lossy().into_owned();
        let facts = std::fs::metadata(&first).ok();
        if facts.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Some(self.as_folder(&first));
        }
        let facts = facts.filter(std::fs::Metadata::is_file)?;
        let how = self.how_to_run(&first);
        if facts.permissions().mode() & 0o111 == 0 {
            let mode = shell_word(Path::new(&first));
            return Some(format!(
                "it is a file that is not executable: {how}, or make it a program with `chmod +x {mode}`"
            ));
        }
        if why == ErrorKind::PermissionDenied {
            return closed_folder(Path::new(&first));
        }
        Some(format!(
            "it is no program of this machine, and its first line names no interpreter (as `#!/usr/bin/env python3` does): {how}"
        ))
    }

    fn as_folder(&self, folder: &str) -> String {
        if !Path::new(folder).join("__main__.py").is_file() {
            return "it is a folder: name a program".to_owned();
        }
        let line = self.again(&[&["python3".to_owned()][..], &self.tail(0)].concat());
        format!("it is a folder with a Python program in it: `{line}`")
    }

    /// How a file is recorded: by its interpreter where its name tells which, else by its path. A recording is shown.
    fn how_to_run(&self, file: &str) -> String {
        let rest = self.tail(0);
        match interpreter_of(file) {
            None if file.ends_with(".data") => {
                format!("a recording is shown by `energy-trace report {}`", shell_word(Path::new(file)))
            }
            Some(interpreter) => {
                format!("run it with `{}`", self.again(&[&[interpreter.to_owned()][..], &rest].concat()))
            }
            None if !file.contains('/') => {
                let here = shell_word(Path::new(&format!("./{file}")));
                format!("run it with `{}`", self.again(&[&[here][..], &self.tail(1)].concat()))
            }
            None => format!(
                "name its interpreter too, as in `{}`",
                self.again(&[&["python3".to_owned()][..], &rest].concat())
            ),
        }
    }
}

/// A word as a shell reads it back; of an assignment the value alone is quoted.
fn quoted(word: &str) -> String {
    match word.split_once('=').filter(|_| is_assignment(word)) {
        Some((name, "")) => format!("{name}="),
        Some((name, value)) => format!("{name}={}", shell_word(Path::new(value))),
        None => shell_word(Path::new(word)),
    }
}

/// `NAME=value`, as a shell takes it.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_name)
}

fn is_there(program: &OsStr) -> bool {
    find(program, std::env::var_os("PATH")) == Found::Executable
}

/// By which program a file is run, as its name ends; `python` where there is no `python3`.
fn interpreter_of(file: &str) -> Option<&'static str> {
    let extension = Path::new(file).extension()?;
    let interpreter =
        INTERPRETERS.iter().find(|(end, _)| extension == *end).map(|(_, interpreter)| *interpreter)?;
    let only_python =
        interpreter == "python3" && !is_there(OsStr::new("python3")) && is_there(OsStr::new("python"));
    Some(if only_python { "python" } else { interpreter })
}

#[cfg(test)]
mod tests {
    use super::{Typed, is_assignment};
    use std::ffi::OsString;
    use std::io::ErrorKind;

    fn said(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        Typed { before: "energy-trace -q".to_owned(), words: &words }.not_found()
    }

    /// Whatever a user of a shell writes is answered with what to type instead, whole, with the options that stood before it.
    #[test]
    fn what_was_meant() {
        for (words, typed) in [
            (&["python3 a.py"][..], "`energy-trace -q python3 a.py`"),
            (&["python3 a.py --n 3", "more"], "`energy-trace -q python3 a.py --n 3 more`"),
            (
                &["OMP_NUM_THREADS=1", "python3", "a b.py"],
                "`energy-trace -q env OMP_NUM_THREADS=1 python3 'a b.py'`",
            ),
            (&["A=1", "B=", "python3"], "`energy-trace -q env A=1 B= python3`"),
            (&["A=1 python3 a.py"], "`energy-trace -q env A=1 python3 a.py`"),
            (&["A=1"], "`energy-trace -q env A=1 PROGRAM`"),
            (&["a.sh | tee log"], "`energy-trace -q sh -c 'a.sh | tee log'`"),
            (&["make && ./run"], "`energy-trace -q sh -c 'make && ./run'`"),
            (&["python3 a.py > out"], "`energy-trace -q sh -c 'python3 a.py > out'`"),
            (&["$PYTHON a.py"], "`energy-trace -q sh -c '$PYTHON a.py'`"),
            (&["cd /tmp && ls"], "`energy-trace -q sh -c 'cd /tmp && ls'`"),
            (&["cd", "/tmp"], "`energy-trace -q sh -c 'cd /tmp && PROGRAM'`"),
            (
                &["source", "venv/bin/activate"],
                "`energy-trace -q bash -c 'source venv/bin/activate && PROGRAM'`",
            ),
            // Not `export`: tests run in the package's folder, where a folder has that name.
            (&["umask", "022"], "`energy-trace -q sh -c 'umask 022 && PROGRAM'`"),
            (&["conda", "activate", "x"], "`energy-trace -q bash -i -c 'conda activate x && PROGRAM'`"),
            (&["~/x", "-v"], "`energy-trace -q ~/x -v`"),
            (&["run", "true", "-o", "x"], "`energy-trace -q true -o x`"),
            (&["attach", "77"], "`energy-trace -q -p 77`"),
            (&["77"], "`energy-trace -q -p 77`"),
            (&["–svg", "x"], "`energy-trace -q --svg x`"),
            (&["-o", "x"], "`sudo energy-trace -o FILE -- python3 train.py`"),
            (&["nowhere-to-be-found.sh", "-v"], "`energy-trace -q sh nowhere-to-be-found.sh -v`"),
            (&["ll"], "`type ll`"),
            (&[""], "is empty"),
        ] {
            let said = said(words);
            assert!(said.contains(typed), "{words:?}: {said}");
        }
    }

    /// Of files it is said how they are run, by what they are: text that may not be executed, or without an interpreter, a folder, a recording.
    #[test]
    fn files() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = place.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            path.to_str().unwrap().to_owned()
        };
        std::fs::create_dir(place.path().join("package")).unwrap();
        file("package/__main__.py", 0o644);
        let package = place.path().join("package").to_str().unwrap().to_owned();
        let said = |word: &str, why| {
            let words = [OsString::from(word)];
            Typed { before: "energy-trace".to_owned(), words: &words }.not_executable(why)
        };
        let (plain, bare) = (file("a.py", 0o644), file("tool", 0o755));
        for (word, why, part) in [
            (
                &plain,
                ErrorKind::PermissionDenied,
                format!("`energy-trace python3 {plain}`, or make it a program with `chmod +x {plain}`"),
            ),
            (&bare, ErrorKind::Other, "`#!/usr/bin/env python3`".to_owned()),
            (&package, ErrorKind::PermissionDenied, format!("`energy-trace python3 {package}`")),
            (&file("r.data", 0o600), ErrorKind::PermissionDenied, "`energy-trace report ".to_owned()),
        ] {
            let said = said(word, why).unwrap();
            assert!(said.contains(&part), "{said}");
        }
    }

    /// Of a link it is said where it leads, as the link is there.
    #[test]
    fn links_to_nothing() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("python");
        std::os::unix::fs::symlink("/nowhere/python3", &link).unwrap();
        let said = said(&[link.to_str().unwrap()]);
        assert!(said.contains("it is a link to /nowhere/python3, which is not there"), "{said}");
    }

    /// Names of variables are those of shells.
    #[test]
    fn assignments() {
        assert!(["A=1", "_x9=", "PATH=a=b"].into_iter().all(is_assignment));
        assert!(!["A", "=1", "9A=1", "a-b=1", "./a=1", "--x=1"].into_iter().any(is_assignment));
    }
}
