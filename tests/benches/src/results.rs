//! `docs/results`: the tables of benchmarks, each with the day, commit, machine and command of its measurement.
//!
//! A page has blocks, one a command, between two comments; what stands around them is written by hand and stays.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use xtask::command::read_output;
use xtask::workspace::Workspace;

/// Where a block ends.
const END: &str = "<!-- end -->\n";

/// When, of what and where something is measured.
#[derive(Debug)]
pub(crate) struct Measured(String);

impl Measured {
    /// Today, on this machine, of what is checked out.
    pub(crate) fn now(workspace: &Workspace) -> Result<Self> {
        let git = |words: &[&str]| read_output(Command::new("git").current_dir(workspace.root()).args(words));
        let day = read_output(Command::new("date").args(["--utc", "+%F"]))?;
        let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
        let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        let changed = if is_changed { " with changes" } else { "" };
        let kernel = read_output(Command::new("uname").arg("-r"))?;
        let cpus = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
        Ok(Self(format!("{day} at `{commit}`{changed} on {}, Linux {kernel}", machine(&cpus))))
    }

    /// Puts `tables`, which `command` printed, onto a page, in the place of those that it printed before.
    pub(crate) fn keep(&self, workspace: &Workspace, page: &str, command: &str, tables: &str) -> Result<()> {
        if page.is_empty() || !page.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
            bail!("`{page}` is no name of a page: lower-case letters and `-` only, without `.md`");
        }
        let path = workspace.root().join("docs/results").join(page).with_extension("md");
        let text = fs::read_to_string(&path).unwrap_or_else(|_| format!("# {page}\n"));
        let block = format!("Measured {}, by `{command}`.\n\n{}", self.0, fenced(tables));
        fs::write(&path, with_block(&text, command, &block))
            .with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("bench: kept in {}", path.display());
        Ok(())
    }
}

/// The processors that `/proc/cpuinfo` tells of.
fn machine(cpuinfo: &str) -> String {
    let lines = || {
        cpuinfo.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim(), value.trim()))
    };
    let first = |wanted: &str| lines().find(|(key, _)| *key == wanted).map(|(_, value)| value);
    let is_virtual = first("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let model = first("model name").unwrap_or("an unknown processor");
    let cpus = lines().filter(|(key, _)| *key == "processor").count();
    format!("{model}, {cpus} {}CPUs", if is_virtual { "virtual " } else { "" })
}

/// Markdown tables as they are; anything else so that its columns stay.
fn fenced(tables: &str) -> String {
    let tables = tables.trim();
    if tables.contains("|---") { format!("{tables}\n") } else { format!("```text\n{tables}\n```\n") }
}

/// The page with this block in the place of the one of the same command, or at its end.
fn with_block(page: &str, command: &str, block: &str) -> String {
    let begin = format!("<!-- {command} -->\n");
    let (before, after) = match page.split_once(&begin) {
        Some((before, rest)) => (before.to_owned(), rest.split_once(END).map_or("", |(_, after)| after)),
        None => (format!("{}\n\n", page.trim_end()), ""),
    };
    format!("{before}{begin}{block}{END}{after}")
}

/// Runs this program again without `--save`, shows its tables, and keeps them on the page.
pub(crate) fn run_and_keep(workspace: &Workspace, page: &str) -> Result<()> {
    let words = without_save(std::env::args_os().skip(1));
    let shown = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let shown = format!("cargo xtask bench {shown}");
    let measured = Measured::now(workspace)?;
    let mut child = Command::new(std::env::current_exe()?).args(&words).stdout(Stdio::piped()).spawn()?;
    let mut tables = String::new();
    for line in BufReader::new(child.stdout.take().context("the output is a pipe")?).lines() {
        let line = line?;
        show(&line);
        tables += &(line + "\n");
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{shown} failed: {status}; nothing was kept");
    }
    measured.keep(workspace, page, &shown, &tables)
}

#[expect(clippy::print_stdout, reason = "what the benchmark prints")]
fn show(line: &str) {
    println!("{line}");
}

/// What was typed, without the page.
fn without_save(mut words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "--save" {
            words.next();
        } else if !word.to_string_lossy().starts_with("--save=") {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second run takes the place of the first; what was written around it, and other commands' tables, stay.
    #[test]
    fn a_block_is_replaced_and_the_rest_stays() {
        let page = with_block("# Cost\n\nBy hand.\n", "cost", "1\n");
        assert_eq!(page, "# Cost\n\nBy hand.\n\n<!-- cost -->\n1\n<!-- end -->\n");
        let page = with_block(&page, "cost --deep", "2\n") + "\nMore by hand.\n";
        let again = with_block(&page, "cost", "3\n");
        assert_eq!(again, page.replace("1\n", "3\n"));
        assert!(again.contains("<!-- cost --deep -->\n2\n") && again.ends_with("More by hand.\n"));
    }

    /// Tables are Markdown or keep their columns.
    #[test]
    fn what_is_no_table_is_fenced() {
        assert_eq!(fenced("\n| a |\n|---|\n| 1 |\n"), "| a |\n|---|\n| 1 |\n");
        assert_eq!(fenced("a   1\n"), "```text\na   1\n```\n");
    }

    /// The page's name is not part of the command that is shown.
    #[test]
    fn the_command_is_without_its_page() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let typed = words("--save overhead cost --rounds 3");
        assert_eq!(without_save(typed.into_iter()), words("cost --rounds 3"));
        assert_eq!(without_save(words("--save=overhead cost").into_iter()), words("cost"));
    }

    /// How many processors of which kind, and whether they are a virtual machine's.
    #[test]
    fn machines_are_described() {
        let one = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor\n";
        assert_eq!(machine(&format!("{one}\n{one}")), "AMD EPYC, 2 virtual CPUs");
        assert_eq!(machine("processor\t: 0\nflags\t: fpu\n"), "an unknown processor, 1 CPUs");
    }
}
