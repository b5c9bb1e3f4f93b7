//! The documentation: pages stay few enough to be read, and no link between them leads nowhere.
//!
//! Results and README files of folders are data and are not counted. Leaves out links to other machines.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Most words of all pages together, as `wc -w` counts them.
const WORDS: usize = 20_000;
/// The pages beside `docs/*.md`.
const TOP: [&str; 4] = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
/// Where else pages have links.
const FOLDERS: [&str; 4] = ["docs", "examples", "tests", ".github"];

/// What is wrong with the pages.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let (mut words, mut found) = (0, Vec::new());
    for path in pages(root)? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root)?;
        if is_counted(name) {
            words += text.split_whitespace().count();
        }
        let folder = path.parent().unwrap_or(root);
        let dead = links(&text).into_iter().filter(|link| !leads_somewhere(folder, &path, link));
        found.extend(dead.map(|link| format!("{}: the link {link} leads nowhere [links]", name.display())));
    }
    if words > WORDS {
        let text = "say it shorter, or move figures to docs/results [words]";
        found.push(format!("docs and {}: {words} words, more than {WORDS}: {text}", TOP.join(", ")));
    }
    Ok(found)
}

/// All Markdown files that people read.
fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut pages: Vec<PathBuf> = TOP.iter().map(|name| root.join(name)).collect();
    for folder in FOLDERS {
        for entry in WalkDir::new(root.join(folder)).sort_by_file_name() {
            let path = entry?.into_path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    Ok(pages)
}

/// Whether a page's words count: `docs/*.md` without its folders, and the four at the top.
fn is_counted(name: &Path) -> bool {
    name.parent() == Some(Path::new("docs")) || TOP.iter().any(|top| name == Path::new(top))
}

/// Where `](…)` points to, outside of code.
fn links(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).filter(|target| !target.contains("://")).collect()
}

/// Whether there is such a file, and such a heading in it.
fn leads_somewhere(folder: &Path, page: &Path, link: &str) -> bool {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.to_path_buf() } else { folder.join(file) };
    let Some(anchor) = anchor else { return path.exists() };
    fs::read_to_string(path).is_ok_and(|text| headings(&text).any(|heading| heading == anchor))
}

/// The names by which a page's headings are linked, as GitHub makes them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
        kept.map(|it| if it == ' ' { '-' } else { it }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links in prose count, those in code and to other machines do not.
    #[test]
    fn links_are_those_of_prose() {
        let page = "[a](b.md#c), ![d](e.svg)\n```\n[f](g)\n```\n[h](https://i) [j](#k)\n";
        assert_eq!(links(page), ["b.md#c", "e.svg", "#k"]);
    }

    /// A link to a file or heading that is gone is found.
    #[test]
    fn dead_links_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("a.md");
        fs::write(&page, "## 8. Energy `over` time\n").unwrap();
        let is_alive = |link: &str| leads_somewhere(folder.path(), &page, link);
        assert!(is_alive("a.md") && is_alive("#8-energy-over-time") && is_alive("a.md#8-energy-over-time"));
        assert!(!is_alive("b.md") && !is_alive("#energy") && !is_alive("b.md#8-energy-over-time"));
    }

    /// Results and folders' own pages do not count.
    #[test]
    fn data_is_not_counted() {
        let counted = |name: &str| is_counted(Path::new(name));
        assert!(counted("docs/gpu.md") && counted("README.md"));
        assert!(!counted("docs/results/worlds.md") && !counted("tests/README.md"));
    }
}
