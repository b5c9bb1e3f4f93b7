//! The house rules that neither rustc nor clippy knows, in the manner of rust-analyzer's `xtask tidy`.
//!
//! `rules` and `processors` say what they are for a file, `circles` for a package and `pages` for documentation, `source` reads a file into what they look at. An exception stands in `EXCEPTIONS` with its reason,
//! and one that is no longer needed is itself a finding.

mod circles;
mod pages;
mod processors;
mod rules;
mod source;

use anyhow::{Context as _, Result, bail};
use source::Source;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use walkdir::{DirEntry, WalkDir};

/// The folders that hold Rust.
const FOLDERS: [&str; 4] = ["tracer", "tracer-ebpf", "xtask", "tests"];

/// One place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The rule's name, as in `EXCEPTIONS`.
    rule: &'static str,
    /// From 1; 0 for the file as a whole.
    line: usize,
    /// What is wrong and what to do.
    text: String,
}

/// A file that may break a rule.
struct Exception {
    path: &'static str,
    rule: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `cargo xtask tidy`.
fn run() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the project's folder")?;
    let (mut files, mut findings, mut used) = (0, Vec::new(), vec![false; EXCEPTIONS.len()]);
    let mut packages = circles::PACKAGES.map(|folder| (folder, circles::Package::default()));
    for folder in FOLDERS {
        for entry in WalkDir::new(root.join(folder)).sort_by_file_name().into_iter().filter_entry(is_ours) {
            let entry = entry.with_context(|| format!("cannot walk {folder}"))?;
            if entry.path().extension().is_some_and(|extension| extension == "rs") {
                files += 1;
                let path = entry.path().strip_prefix(root)?;
                let text = fs::read_to_string(entry.path())
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let source = Source::parse(path, &text);
                if let Ok(source) = &source {
                    for (folder, package) in &mut packages {
                        if let Ok(below) = path.strip_prefix(folder) {
                            package.add(source, below);
                        }
                    }
                }
                let found = check(source).into_iter().filter(|found| !is_excepted(path, found, &mut used));
                findings.extend(found.map(|Finding { rule, line, text }| {
                    format!("{}:{line}: {text} [{rule}]", path.display())
                }));
            }
        }
    }
    findings.extend(packages.iter().flat_map(|(_, package)| package.findings()));
    findings.extend(pages::findings(root)?);
    let unused = EXCEPTIONS.iter().zip(used).filter(|(_, used)| !used).map(|(exception, _)| exception);
    findings.extend(
        unused.map(|it| format!("{}: needs no exception from [{}] ({})", it.path, it.rule, it.reason)),
    );
    if findings.is_empty() {
        eprintln!("tidy: {files} files in order");
        return Ok(());
    }
    bail!("tidy found {}:\n{}", findings.len(), findings.join("\n"))
}

fn is_ours(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    entry.depth() == 0 || !(name.starts_with('.') || name == "target")
}

fn check(source: syn::Result<Source<'_>>) -> Vec<Finding> {
    match source {
        Ok(source) => rules::ALL.iter().flat_map(|rule| rule(&source)).collect(),
        Err(error) => vec![Finding {
            rule: "parse",
            line: error.span().start().line,
            text: format!("not Rust: {error}"),
        }],
    }
}

fn is_excepted(path: &Path, finding: &Finding, used: &mut [bool]) -> bool {
    let position = EXCEPTIONS
        .iter()
        .position(|exception| Path::new(exception.path) == path && exception.rule == finding.rule);
    if let Some(slot) = position.and_then(|index| used.get_mut(index)) {
        *slot = true;
    }
    position.is_some()
}

#[cfg(test)]
mod tests {
    use super::{Source, check};
    use std::path::Path;

    /// A file that keeps every rule has no finding, and one that is not Rust says so.
    #[test]
    fn a_good_file_has_no_finding() {
        let text = "//! Says what it does.\n\npub fn one() -> u32 {\n    1\n}\n";
        assert_eq!(check(Source::parse(Path::new("tracer/attribution/src/shares.rs"), text)), []);
        assert_eq!(
            check(Source::parse(Path::new("tracer/src/x.rs"), "//! x\nfn {"))
                .first()
                .map(|finding| finding.rule),
            Some("parse")
        );
    }
}
