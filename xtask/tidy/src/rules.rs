//! The rules. Each takes a file and returns where it is broken.

use super::Finding;
use super::processors::one_processor_in_its_file;
use super::source::{NamedPath, Source, is_cfg_test};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A rule over one file.
type Rule = fn(&Source<'_>) -> Vec<Finding>;

/// Every rule.
pub(crate) const ALL: [Rule; 9] = [
    says_what_it_is,
    file_is_short,
    functions_are_short,
    rooms_without_io,
    parsers_without_rights,
    reader_waits_for_nobody,
    no_product_under_test,
    ignored_with_reason,
    one_processor_in_its_file,
];

/// The longest file, in lines. A file that can be read in one sitting has about 400; one thought is not cut for it.
const FILE_LINES: usize = 700;
/// The longest function, in lines from `fn` to its closing brace.
const FUNCTION_LINES: usize = 60;

/// Rooms that run from a recording alone: no files, no clock, no processes. That packages among them depend on nothing of one system is shown by
/// `portable`.
const PURE_ROOMS: [&str; 13] = [
    "tracer/attribution",
    "tracer/certainty",
    "tracer/counters",
    "tracer/cpu-time",
    "tracer/delegation",
    "tracer/export",
    "tracer/model",
    "tracer/names",
    "tracer/report",
    "tracer/sentences",
    "tracer/statistics",
    "tracer/study/src/data",
    "tracer/study/src/tables",
];
/// The one file of theirs that does read and write.
const RECORDING_FILE: &str = "tracer/model/src/recording/file.rs";
const WORLD: [&str; 7] = [
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::env",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// What parses files that targets and other users can write.
const PARSERS: [&str; 13] = [
    "ElfFacts::read",
    "DebugSections::read",
    "UnwindFile::open",
    "elf::read_linked",
    "elf::read_eh_frame",
    "cfi::read_rows",
    "cfi::function_starts",
    "symbolize::name_places",
    "energy_trace_symbols::name_places",
    "perf_map::read_map",
    "jitdump::read_dump",
    "python_module::read_module",
    "process_context::read_names",
];
/// The parsers' own rooms, and the processes without rights that call them: the resolver's worker, and the finisher's child that foresees.
const WITHOUT_RIGHTS: [&str; 4] = [
    "tracer/unwind/src",
    "tracer/symbols/src",
    "tracer/foreign/src/resolver/serve.rs",
    "tracer/src/tracee/prefetch.rs",
];

/// The room whose code runs on the threads that empty the ring buffers and that take in their events: all programs' events wait behind one that waits.
const READERS_ROOM: &str = "tracer/probe/src";
/// Calls whose length a target decides: they read its memory, its files of `/proc` or what it has mapped, and a file system of its own need not
/// answer. The peeker makes them.
const WAITS: [&str; 15] = [
    "process_vm_readv",
    "ProcessMemory",
    "open_mapped",
    "root_facts",
    "Root::of_process",
    "Root::default",
    "AddressSpace::read",
    "AddressSpace::read_holding",
    "fs::metadata",
    "fs::read",
    "fs::read_dir",
    "fs::read_link",
    "fs::read_to_string",
    "File::open",
    "OpenOptions::new",
];
/// The same as methods.
const WAITING_METHODS: [&str; 7] =
    ["canonicalize", "exists", "metadata", "read_at", "read_dir", "read_exact_at", "symlink_metadata"];
/// Files of that room that may make such a call, and why.
const MAY_WAIT: [(&str, &str); 9] = [
    ("tracer/probe/src/priority.rs", "lists of CPUs, files of the kernel"),
    (
        "tracer/probe/src/processes/process.rs",
        "a name that is in the kernel's memory, and this process's own file",
    ),
    ("tracer/probe/src/collect/housekeeping.rs", "whether there is a process"),
    ("tracer/probe/src/mapped_files.rs", "before the command starts"),
    ("tracer/probe/src/tables/files.rs", "before the command starts"),
    ("tracer/probe/src/tables/unwind_files.rs", "code of files that the peeker found harmless"),
    ("tracer/probe/src/gpu/libraries.rs", "before the command starts, and our own library"),
    ("tracer/probe/src/range_library.rs", "before the command starts, and our own library"),
    ("tracer/probe/src/gpu/containers.rs", "our own library below another root, with `--gpu kernel`"),
];

fn finding(rule: &'static str, line: usize, text: impl Into<String>) -> Finding {
    Finding { rule, line, text: text.into() }
}

/// A file opens with `//!`: what it does and what it leaves out.
fn says_what_it_is(source: &Source<'_>) -> Vec<Finding> {
    match source.text.starts_with("//! ") {
        true => Vec::new(),
        false => vec![finding("doc", 1, "the file does not open with `//!` saying what it does")],
    }
}

fn file_is_short(source: &Source<'_>) -> Vec<Finding> {
    let lines = source.text.lines().count();
    match lines > FILE_LINES {
        true => vec![finding(
            "file-length",
            0,
            format!("{lines} lines, more than {FILE_LINES}: split it by what it does"),
        )],
        false => Vec::new(),
    }
}

fn functions_are_short(source: &Source<'_>) -> Vec<Finding> {
    let mut functions = Functions(Vec::new());
    functions.visit_file(&source.tree);
    let long = functions.0.into_iter().filter(|(.., lines)| *lines > FUNCTION_LINES);
    long.map(|(name, line, lines)| {
        finding(
            "function-length",
            line,
            format!("fn {name} has {lines} lines, more than {FUNCTION_LINES}: name its parts"),
        )
    })
    .collect()
}

/// Name, line and length of every function.
struct Functions(Vec<(String, usize, usize)>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let start = signature.fn_token.span.start().line;
        let end = block.brace_token.span.close().end().line;
        self.0.push((signature.ident.to_string(), start, end + 1 - start));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

/// Attribution, timeline and profile do no I/O and read no clock.
fn rooms_without_io(source: &Source<'_>) -> Vec<Finding> {
    let pure = PURE_ROOMS
        .iter()
        .any(|room| source.path.starts_with(room) || source.path.with_extension("").ends_with(room));
    if !pure || source.path.ends_with(RECORDING_FILE) {
        return Vec::new();
    }
    let worldly =
        |path: &&NamedPath| source.is_product(path.line) && WORLD.iter().any(|world| path.starts_with(world));
    let named = source.paths.iter().filter(worldly);
    named
        .map(|path| {
            finding(
                "pure-room",
                path.line,
                format!("`{}` in a room without I/O and clock", path.segments.join("::")),
            )
        })
        .collect()
}

/// Who has privileges parses nothing that others write.
fn parsers_without_rights(source: &Source<'_>) -> Vec<Finding> {
    let product = source.path.starts_with("tracer");
    if !product || WITHOUT_RIGHTS.iter().any(|place| source.path.starts_with(place)) {
        return Vec::new();
    }
    let parses = |path: &&NamedPath| {
        source.is_product(path.line) && PARSERS.iter().any(|parser| path.ends_with(parser))
    };
    let named = source.paths.iter().filter(parses);
    named
        .map(|path| {
            let text = format!(
                "`{}` where there may be privileges: ask a resolver's worker",
                path.segments.join("::")
            );
            finding("parses-with-rights", path.line, text)
        })
        .collect()
}

/// Who takes in events makes no call that a target can lengthen.
fn reader_waits_for_nobody(source: &Source<'_>) -> Vec<Finding> {
    let may_wait = MAY_WAIT.iter().any(|(place, _)| source.path.starts_with(place));
    if !source.path.starts_with(READERS_ROOM) || may_wait {
        return Vec::new();
    }
    let mut methods = Methods(Vec::new());
    methods.visit_file(&source.tree);
    let called = methods.0.into_iter().filter(|(name, _)| WAITING_METHODS.contains(&name.as_str()));
    let named = source.paths.iter().map(|path| (path.segments.join("::"), path.line));
    let waits = |name: &str| WAITS.iter().any(|call| format!("::{name}").contains(&format!("::{call}")));
    let named = named.filter(|(name, _)| waits(name));
    let found = named.chain(called).filter(|(_, line)| source.is_product(*line));
    found
        .map(|(name, line)| {
            let text = format!("`{name}` where events are taken in: ask the peeker, or another thread");
            finding("waits-on-reader", line, text)
        })
        .collect()
}

/// Names and lines of the methods that are called.
struct Methods(Vec<(String, usize)>);

impl<'ast> Visit<'ast> for Methods {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.0.push((call.method.to_string(), call.method.span().start().line));
        visit::visit_expr_method_call(self, call);
    }
}

/// Product code is the same under test: `cfg(test)` stands on `mod tests` only.
fn no_product_under_test(source: &Source<'_>) -> Vec<Finding> {
    let mut conditions = Conditions { allowed: Vec::new(), found: Vec::new() };
    conditions.visit_file(&source.tree);
    let changed = conditions
        .found
        .into_iter()
        .filter(|line| !conditions.allowed.contains(line) && source.is_product(*line));
    changed
        .map(|line| {
            finding("cfg-test", line, "product code changes under cfg(test); only `mod tests` may carry it")
        })
        .collect()
}

/// Lines with a condition on `test`, and those of them that stand on `mod tests`.
struct Conditions {
    allowed: Vec<usize>,
    found: Vec<usize>,
}

impl<'ast> Visit<'ast> for Conditions {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let own = module.attrs.iter().filter(|attribute| module.ident == "tests" && is_cfg_test(attribute));
        self.allowed.extend(own.map(|attribute| attribute.pound_token.spans[0].start().line));
        visit::visit_item_mod(self, module);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let condition = attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr");
        if let (true, Ok(list)) = (condition, attribute.meta.require_list()) {
            self.look(list.tokens.clone(), line_of(attribute));
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(name) = call.path.get_ident().filter(|name| *name == "cfg") {
            self.look(call.tokens.clone(), name.span().start().line);
        }
    }
}

impl Conditions {
    fn look(&mut self, condition: TokenStream, line: usize) {
        if names_test(condition) {
            self.found.push(line);
        }
    }
}

fn names_test(condition: TokenStream) -> bool {
    condition.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "test",
        TokenTree::Group(group) => names_test(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

fn line_of(attribute: &syn::Attribute) -> usize {
    attribute.pound_token.spans[0].start().line
}

/// A test that is not run says why: `#[ignore = "…"]`.
fn ignored_with_reason(source: &Source<'_>) -> Vec<Finding> {
    let mut bare = BareIgnores(Vec::new());
    bare.visit_file(&source.tree);
    bare.0
        .into_iter()
        .map(|line| finding("ignore", line, "#[ignore] without a reason: write `#[ignore = \"why\"]`"))
        .collect()
}

struct BareIgnores(Vec<usize>);

impl<'ast> Visit<'ast> for BareIgnores {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("ignore") && attribute.meta.require_name_value().is_err() {
            self.0.push(line_of(attribute));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, FILE_LINES, FUNCTION_LINES, Source};
    use std::path::Path;

    /// The rules that a file of that text at that path breaks, with the lines.
    fn broken(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let text = format!("//! Doc.\n{text}");
        let source = Source::parse(Path::new(path), &text).unwrap();
        ALL.iter().flat_map(|rule| rule(&source)).map(|finding| (finding.rule, finding.line)).collect()
    }

    /// A file without an opening doc comment is found, also when the comment only comes later.
    #[test]
    fn a_file_says_what_it_is() {
        let source = Source::parse(Path::new("tracer/src/x.rs"), "#![no_std]\n//! Late.\n").unwrap();
        assert_eq!(super::says_what_it_is(&source).len(), 1);
    }

    /// Lengths are allowed up to the limit and not one line beyond, in functions, methods and default methods of traits.
    #[test]
    fn lengths_end_at_the_limit() {
        assert_eq!(broken("tracer/src/x.rs", &"\n".repeat(FILE_LINES - 1)), []);
        assert_eq!(broken("tracer/src/x.rs", &"\n".repeat(FILE_LINES)), [("file-length", 0)]);
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "();\n".repeat(lines - 2));
        assert_eq!(broken("tracer/src/x.rs", &function(FUNCTION_LINES)), []);
        assert_eq!(broken("tracer/src/x.rs", &function(FUNCTION_LINES + 1)), [("function-length", 2)]);
        for outer in ["impl X", "trait X"] {
            let text = format!("{outer} {{\n{}}}\n", function(FUNCTION_LINES + 1));
            assert_eq!(broken("tracer/src/x.rs", &text), [("function-length", 3)]);
        }
    }

    /// Parsers of files that others write are called by processes without rights, and in tests.
    #[test]
    fn who_may_parse() {
        let text = "use energy_trace_unwind::elf::ElfFacts;\nfn f() {\n    ElfFacts::read(&file, &[]);\n}\n";
        assert_eq!(broken("tracer/probe/src/tables/files.rs", text), [("parses-with-rights", 4)]);
        assert_eq!(
            broken("tracer/src/session.rs", "use energy_trace_unwind::cfi::read_rows;\n"),
            [("parses-with-rights", 2)]
        );
        assert_eq!(broken("tracer/foreign/src/resolver/serve.rs", text), []);
        assert_eq!(broken("tests/rows.rs", text), []);
        assert_eq!(broken("tracer/src/session.rs", "fn f() {\n    worker.facts(&file, &[]);\n}\n"), []);
    }

    /// Memory and files of targets are read where the ring buffers are not emptied, and by name where they are: imported, called, or as a method.
    #[test]
    fn who_may_wait() {
        let reads = "use energy_trace_unwind::cpython::memory::ProcessMemory;\n";
        let stats = "fn f() {\n    std::fs::metadata(path);\n    path.exists();\n}\n";
        assert_eq!(broken("tracer/probe/src/stacks/python_frames.rs", reads), [("waits-on-reader", 2)]);
        let both = [("waits-on-reader", 3), ("waits-on-reader", 4)];
        assert_eq!(broken("tracer/probe/src/gpu/environment.rs", stats), both);
        assert_eq!(broken("tracer/bpf/src/btf.rs", stats), []);
        assert_eq!(broken("tracer/foreign/src/peeker/serve.rs", reads), []);
        let asks = "fn f() {\n    peeker.bytes(pid, at, 8);\n}\n";
        assert_eq!(broken("tracer/probe/src/stacks/python_frames.rs", asks), []);
    }

    /// The rooms that run from a recording name no file and no clock, except in their tests and in the recording file itself.
    #[test]
    fn pure_rooms_touch_no_world() {
        let text = "use std::{fs, time::{Duration, Instant}};\n";
        assert_eq!(broken("tracer/attribution/src/shares.rs", text), [("pure-room", 2), ("pure-room", 2)]);
        assert_eq!(broken("tracer/counters/src/counter.rs", text).len(), 2);
        assert_eq!(broken("tracer/model/src/recording/file.rs", text), []);
        assert_eq!(broken("tracer/src/session.rs", text), []);
        assert_eq!(
            broken(
                "tracer/model/src/recording/record.rs",
                "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n"
            ),
            []
        );
    }

    /// A condition on `test` is allowed on `mod tests` and nowhere else, however it is written.
    #[test]
    fn product_code_is_the_same_under_test() {
        assert_eq!(broken("tracer/src/x.rs", "#[cfg(test)]\nmod tests {}\n"), []);
        assert_eq!(broken("tracer/src/x.rs", "#[cfg(test)]\nmod fakes {}\n"), [("cfg-test", 2)]);
        assert_eq!(broken("tracer/src/x.rs", "#[cfg(not(test))]\nfn f() {}\n"), [("cfg-test", 2)]);
        assert_eq!(broken("tracer/src/x.rs", "fn f() -> bool {\n    cfg!(test)\n}\n"), [("cfg-test", 3)]);
        assert_eq!(broken("tracer/src/x.rs", "#[cfg(feature = \"test\")]\nfn f() {}\n"), []);
    }

    /// An ignored test has a reason.
    #[test]
    fn an_ignored_test_says_why() {
        assert_eq!(broken("tests/x.rs", "#[test]\n#[ignore]\nfn f() {}\n"), [("ignore", 3)]);
        assert_eq!(broken("tests/x.rs", "#[test]\n#[ignore = \"needs a GPU\"]\nfn f() {}\n"), []);
    }
}
