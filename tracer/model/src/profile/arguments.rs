//! Arguments of command lines, which may be secrets: whose an output may hold.
//!
//! The names of programs and scripts always stay. Leaves out arguments of functions.

use super::Profile;

/// Whose arguments an output holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// Of all programs.
    All,
    /// Of the command that was recorded, and of what it started.
    OfCommand,
    /// Nobody's.
    Nobodys,
}

/// Programs that run the file that is named behind their options.
const INTERPRETERS: [&str; 20] = [
    "python", "pythonw", "pypy", "ipython", "sh", "bash", "dash", "zsh", "ksh", "fish", "perl", "ruby",
    "node", "nodejs", "deno", "Rscript", "julia", "php", "lua", "java",
];
/// How names of such files end.
const SCRIPTS: [&str; 18] = [
    ".py", ".pyc", ".pyz", ".ipynb", ".sh", ".bash", ".pl", ".rb", ".js", ".mjs", ".cjs", ".ts", ".R", ".r",
    ".jl", ".php", ".lua", ".jar",
];
/// What stands for arguments that were left out.
const LEFT_OUT: &str = "…";

impl Profile {
    /// Leaves out all other arguments.
    pub fn keep_arguments(&mut self, whose: Arguments) {
        let header = &mut self.run.header;
        // What the command started was given its arguments by it; beside it there may be anybody's programs.
        let all_are_the_commands = !header.command.is_empty() && !header.system_wide;
        if whose == Arguments::All || whose == Arguments::OfCommand && all_are_the_commands {
            return;
        }
        for process in &mut self.processes {
            process.command = without_arguments(&process.command);
        }
        if whose == Arguments::Nobodys {
            header.command = without_arguments(&header.command);
        }
    }
}

/// `python3 train.py …`: the program, and the file or module that it interprets.
pub fn without_arguments(command: &[String]) -> Vec<String> {
    let Some((program, arguments)) = command.split_first() else { return Vec::new() };
    // Programs that write a title of their own put all of it into one word.
    let first = program.split_whitespace().next().unwrap_or_default();
    let mut kept = vec![first.to_owned()];
    kept.extend(interpreted(first, arguments).iter().cloned());
    if kept.len() <= arguments.len() || first.len() < program.trim_end().len() {
        kept.push(LEFT_OUT.to_owned());
    }
    kept
}

/// What an interpreter runs, of its arguments.
fn interpreted<'a>(program: &str, arguments: &'a [String]) -> &'a [String] {
    let name = program.rsplit('/').next().unwrap_or(program);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&name) {
        return &[];
    }
    let is_script = |word: &String| SCRIPTS.iter().any(|end| word.ends_with(end));
    for (at, word) in arguments.iter().enumerate() {
        let (is_option, is_python) = (word.starts_with('-'), name.starts_with("py"));
        match word.as_str() {
            "-m" if is_python => return arguments.get(at..arguments.len().min(at + 2)).unwrap_or_default(),
            _ if is_option && name != "java" && is_text_of_program(word) => return &[],
            _ if !is_option && (at == 0 || is_script(word)) => {
                return arguments.get(at..=at).unwrap_or_default();
            }
            _ => {}
        }
    }
    &[]
}

/// In or behind this option stands a program itself: `-c`, `-lc`, `-e`, `--eval`.
fn is_text_of_program(option: &str) -> bool {
    if let Some(long) = option.strip_prefix("--") {
        return ["eval", "print", "command", "execute"].iter().any(|name| long.starts_with(name));
    }
    let letters = option.trim_start_matches('-');
    letters.starts_with(['c', 'e']) || letters.len() <= 4 && letters.ends_with(['c', 'e', 'E'])
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Profile, without_arguments};
    use crate::ids::{Pid, ProcessKey};
    use crate::recording::record::Process;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    /// Programs, scripts and modules stay; what may be a secret goes, and it is seen that something did.
    #[test]
    fn what_stays() {
        for (line, shown) in [
            ("true", "true"),
            ("mysql --password=HUNTER2", "mysql …"),
            ("curl -u me:secret.py https://x", "curl …"),
            ("python3 train.py", "python3 train.py"),
            ("/usr/bin/python3.11 -u -X dev train.py --token=SECRET", "/usr/bin/python3.11 train.py …"),
            ("python3 -m http.server --secret x", "python3 -m http.server …"),
            ("python3 -c print('SECRET') x.py", "python3 …"),
            ("bash -lc SECRET.sh", "bash …"),
            ("bash build --key K", "bash build …"),
            ("node --eval=SECRET x.js", "node …"),
            ("java -Dkey=SECRET -jar app.jar K", "java app.jar …"),
            ("python3 -m", "python3 -m"),
            ("python3", "python3"),
        ] {
            assert_eq!(without_arguments(&words(line)).join(" "), shown, "{line}");
        }
        assert_eq!(without_arguments(&["postgres: me SELECT 'SECRET'".into()]), ["postgres:", "…"]);
        assert_eq!(without_arguments(&[]), Vec::<String>::new());
        assert_eq!(without_arguments(&[String::new(), "SECRET".into()]), ["", "…"]);
    }

    fn recorded(command: &str, system_wide: bool) -> Profile {
        let mut profile = Profile::default();
        profile.run.header.command = if command.is_empty() { Vec::new() } else { words(command) };
        profile.run.header.system_wide = system_wide;
        profile.processes = vec![Process {
            key: ProcessKey::new(0),
            pid: Pid::new(1),
            parent: None,
            name: "worker".into(),
            command: words("worker --key=K"),
            runtime: None,
        }];
        profile
    }

    /// Only below a command that was started here are all processes those of who typed it.
    #[test]
    fn whose_they_are() {
        let shown = |command, wide, whose| {
            let mut profile = recorded(command, wide);
            profile.keep_arguments(whose);
            (profile.run.header.command.join(" "), profile.processes[0].command.join(" "))
        };
        let pair = |command: &str, process: &str| (command.to_owned(), process.to_owned());
        assert_eq!(shown("a -k", false, Arguments::OfCommand), pair("a -k", "worker --key=K"));
        assert_eq!(shown("a -k", true, Arguments::OfCommand), pair("a -k", "worker …"));
        assert_eq!(shown("", false, Arguments::OfCommand), pair("", "worker …"));
        assert_eq!(shown("a -k", false, Arguments::Nobodys), pair("a …", "worker …"));
        assert_eq!(shown("", true, Arguments::All), pair("", "worker --key=K"));
    }
}
