//! A Rust file as the rules see it: its text, its syntax tree, the paths that it names, and which lines are its tests.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::ops::RangeInclusive;
use std::path::Path;
use syn::visit::{self, Visit};

/// One parsed file.
pub(crate) struct Source<'a> {
    /// Relative to the workspace.
    pub(crate) path: &'a Path,
    /// The whole text.
    pub(crate) text: &'a str,
    /// Its syntax tree.
    pub(crate) tree: syn::File,
    /// Every path of at least two segments, and every single name that is imported: `std::fs::read`, `aya`.
    pub(crate) paths: Vec<NamedPath>,
    tests: Vec<RangeInclusive<usize>>,
}

/// A path as written, with the groups of a `use` spelled out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    /// Where it begins, from 1.
    pub(crate) line: usize,
    /// Its segments.
    pub(crate) segments: Vec<String>,
}

impl NamedPath {
    /// Whether it lies at or below `prefix` (`std::fs` holds `std::fs::File`).
    pub(crate) fn starts_with(&self, prefix: &str) -> bool {
        let mut own = self.segments.iter();
        prefix.split("::").all(|segment| own.next().is_some_and(|it| it == segment))
    }

    /// Whether it ends so (`crate::unwind::elf::ElfFacts::read` ends in `ElfFacts::read`).
    pub(crate) fn ends_with(&self, suffix: &str) -> bool {
        let mut own = self.segments.iter().rev();
        suffix.rsplit("::").all(|segment| own.next().is_some_and(|it| it == segment))
    }
}

impl<'a> Source<'a> {
    /// Parses `text`; the error has the place that is not Rust.
    pub(crate) fn parse(path: &'a Path, text: &'a str) -> syn::Result<Self> {
        let tree = syn::parse_file(text)?;
        let mut paths = Vec::new();
        collect_paths(text.parse()?, &[], &mut paths);
        let mut tests = TestModules(Vec::new());
        tests.visit_file(&tree);
        Ok(Self { path, text, tree, paths, tests: tests.0 })
    }

    /// Whether a line is product code, rather than of a module of tests or of a file in `tests/`.
    pub(crate) fn is_product(&self, line: usize) -> bool {
        !self.path.starts_with("tests") && !self.tests.iter().any(|lines| lines.contains(&line))
    }
}

/// The line ranges of `#[cfg(test)] mod tests { … }`.
struct TestModules(Vec<RangeInclusive<usize>>);

impl<'ast> Visit<'ast> for TestModules {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let (start, end) = (
            module.mod_token.span.start().line,
            module.content.as_ref().map(|(brace, _)| brace.span.close().end().line),
        );
        match end {
            Some(end) if module.ident == "tests" && module.attrs.iter().any(is_cfg_test) => {
                self.0.push(start..=end);
            }
            _ => visit::visit_item_mod(self, module),
        }
    }
}

/// Whether an attribute is exactly `#[cfg(test)]`.
pub(crate) fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Ident>().is_ok_and(|ident| ident == "test")
}

/// Reads paths off the tokens, so that those inside macros count too. `prefix` is what stands before a group: in
/// `use std::{fs, time::Instant}` the group's paths are read as `std::fs` and `std::time::Instant`.
fn collect_paths(tokens: TokenStream, prefix: &[String], paths: &mut Vec<NamedPath>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut importing = !prefix.is_empty();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Ident(word) if word == "use" || word == "extern" => importing = true,
            TokenTree::Ident(word) => {
                let mut segments = prefix.to_vec();
                segments.push(word.to_string());
                let group;
                (at, group) = extend_path(&tokens, at, &mut segments);
                match group {
                    Some(group) => collect_paths(group, &segments, paths),
                    None if importing || segments.len() > 1 => {
                        paths.push(NamedPath { line: word.span().start().line, segments });
                    }
                    None => {}
                }
            }
            TokenTree::Group(group) => {
                collect_paths(group.stream(), if importing { prefix } else { &[] }, paths);
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => importing = false,
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Adds what follows a path's first segment, from `tokens[at]`. Returns where the path ends, and the group if it ends in one.
fn extend_path(
    tokens: &[TokenTree],
    mut at: usize,
    segments: &mut Vec<String>,
) -> (usize, Option<TokenStream>) {
    let is_colon =
        |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    while is_colon(at) && is_colon(at + 1) {
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(segment)) => segments.push(segment.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                return (at + 3, Some(group.stream()));
            }
            _ => return (at + 2, None),
        }
        at += 3;
    }
    (at, None)
}

#[cfg(test)]
mod tests {
    use super::Source;
    use std::path::Path;

    fn paths(text: &str) -> Vec<String> {
        Source::parse(Path::new("x.rs"), text)
            .unwrap()
            .paths
            .iter()
            .map(|path| path.segments.join("::"))
            .collect()
    }

    /// Groups of an import are spelled out, single names count only where they are imported, and macros are looked into.
    #[test]
    fn paths_are_read_from_imports_code_and_macros() {
        assert_eq!(
            paths("use std::{fs, time::{Instant, Duration}};"),
            ["std::fs", "std::time::Instant", "std::time::Duration"]
        );
        assert_eq!(paths("use aya as x; fn f(aya: u8) { aya }"), ["aya", "as", "x"]);
        assert_eq!(paths("fn f() { vec![std::fs::read(0)]; g::<u8>(); }"), ["std::fs::read"]);
        assert_eq!(paths("fn f() -> crate::probe::aya::X { y.aya }"), ["crate::probe::aya::X"]);
    }

    /// A prefix ends at a whole segment.
    #[test]
    fn a_prefix_is_whole_segments() {
        let source = Source::parse(Path::new("x.rs"), "use std::fs::File;").unwrap();
        let path = source.paths.first().unwrap();
        assert!(path.starts_with("std::fs") && path.starts_with("std") && !path.starts_with("std::f"));
    }

    /// Lines of a module of tests are no product code; those around it are.
    #[test]
    fn modules_of_tests_are_no_product_code() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfn h() {}\n";
        let source = Source::parse(Path::new("tracer/src/x.rs"), text).unwrap();
        assert_eq!([1, 4, 6].map(|line| source.is_product(line)), [true, false, true]);
        assert!(!Source::parse(Path::new("tests/x.rs"), text).unwrap().is_product(1));
    }
}
