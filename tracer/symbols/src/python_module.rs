//! What a module of Python says of names: imports, definitions, classes with their bases. A scanner of statements, no parser of Python.
//!
//! Statements of the module itself are looked at, in all branches of `if`, `try` and `with`; bodies of functions and classes are passed over.
//! Whatever is not plain (`__all__` that is computed, a base class that is a call) is left out. The file may be anybody's: sizes are limited,
//! and nothing that it says is believed but names. Leaves out which module a name leads to (`naming/public_names`).

use energy_trace_system::roles::room::list;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// Bytes of a module that are looked at.
const MOST_BYTES: u64 = 8 << 20;
/// Names of a module at the most.
const MOST_NAMES: usize = 50_000;
/// Bytes of a statement that are kept, where it is one that matters, and otherwise.
const LONG: usize = 1 << 20;
const SHORT: usize = 160;
/// A longer string names nothing.
const LONGEST_STRING: usize = 200;

/// What a module says of names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleFacts {
    /// Names, in the order in which they are bound; one may be bound several times, in branches.
    #[serde(deserialize_with = "list")]
    pub bindings: Vec<Binding>,
    /// Modules all of whose names are imported.
    pub stars: Vec<Origin>,
    /// What `__all__` lists, where it is a plain list, or one and those of modules in `stars`.
    pub all: Option<Vec<String>>,
    /// Whether the lists of modules in `stars` belong to it: `__all__ += module.__all__`.
    pub all_of_stars: bool,
    /// Its classes.
    #[serde(deserialize_with = "list")]
    pub classes: Vec<Class>,
}

/// A name of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub to: Bound,
    /// Whether it is imported for others to import: `from x import Y as Y` (PEP 484).
    pub is_export: bool,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// A function or class that is defined here.
    Here,
    /// What another module has under a name.
    From(Origin, String),
    /// A module.
    Module(String),
    /// What another name stands for: `Y`, `module.Y`.
    Alias(String),
}

/// A module as an import names it: dots in front, and the rest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// Dots in front: 0 is an absolute name.
    pub level: u32,
    /// The rest; empty for dots alone.
    pub path: String,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its bases, as they are written.
    pub bases: Vec<String>,
}

/// Reads a module.
///
/// # Errors
/// When the system cannot read the file.
pub fn read_module(file: impl Read) -> io::Result<ModuleFacts> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(scan(&bytes))
}

fn scan(bytes: &[u8]) -> ModuleFacts {
    let (mut facts, mut all) = (ModuleFacts::default(), All::default());
    // The indentation of a function or class whose body is passed over.
    let mut body: Option<usize> = None;
    let mut statements = Statements { bytes, at: 0, indent: None, text: Vec::new() };
    while let Some(indent) = statements.next(body) {
        if body.is_some_and(|outer| indent > outer) {
            continue;
        }
        let text = String::from_utf8_lossy(&statements.text);
        let is_body = facts.take(text.trim(), &mut all);
        body = is_body.then_some(indent);
        if facts.bindings.len() > MOST_NAMES {
            break;
        }
    }
    let is_star =
        |module: &String| facts.stars.iter().any(|star| star.path.rsplit('.').next() == Some(module));
    let is_known = !all.is_open && all.modules.iter().all(is_star);
    facts.all = all.names.filter(|_| is_known);
    facts.all_of_stars = is_known && !all.modules.is_empty();
    facts
}

/// What is known of `__all__`.
#[derive(Default)]
struct All {
    names: Option<Vec<String>>,
    /// Modules whose lists are added, by the last part of their names.
    modules: Vec<String>,
    /// Part of it is computed.
    is_open: bool,
}

impl All {
    fn add(&mut self, text: &str) {
        if let Some(module) = text.trim().strip_suffix(".__all__").filter(|module| is_dotted(module)) {
            self.modules.extend(module.rsplit('.').next().map(str::to_owned));
            return;
        }
        let Some(strings) = strings_of(text) else {
            self.is_open = true;
            return;
        };
        self.names.get_or_insert_default().extend(strings);
    }
}

impl ModuleFacts {
    /// Takes in a statement; whether a body follows that is none of the module's.
    fn take(&mut self, text: &str, all: &mut All) -> bool {
        if let Some(rest) = text.strip_prefix("from ") {
            self.take_from(rest);
        } else if let Some(rest) = text.strip_prefix("import ") {
            self.take_import(rest);
        } else if let Some(rest) = text.strip_prefix("class ") {
            self.take_class(rest);
            return true;
        } else if let Some(rest) = text.strip_prefix("def ").or_else(|| text.strip_prefix("async def ")) {
            self.bind(identifier(rest), Bound::Here);
            return true;
        } else if let Some(rest) = text.strip_prefix("__all__") {
            let rest = rest.trim_start().trim_start_matches("+=").trim_start_matches('=');
            all.add(rest.strip_prefix(".extend(").and_then(|rest| rest.strip_suffix(')')).unwrap_or(rest));
        } else if let Some((name, value)) = text.split_once('=') {
            let (name, value) = (name.trim(), value.trim());
            if is_dotted(value) && !matches!(value, "None" | "True" | "False") && identifier(name) == name {
                self.bind(name, Bound::Alias(value.to_owned()));
            }
        }
        false
    }

    /// `.x import a, b as c`.
    fn take_from(&mut self, rest: &str) {
        let Some((module, names)) = rest.split_once(" import") else { return };
        let module = module.trim();
        let path = module.trim_start_matches('.');
        let level = u32::try_from(module.len() - path.len()).unwrap_or(u32::MAX);
        if !(is_dotted(path) || path.is_empty() && level > 0) {
            return;
        }
        let origin = Origin { level, path: path.to_owned() };
        let names = names.trim().trim_start_matches('(').trim_end_matches(')');
        if names.trim() == "*" {
            return self.stars.push(origin);
        }
        for names in names.split(',') {
            let Some((name, shown)) = renamed(names) else { continue };
            self.bind(shown, Bound::From(origin.clone(), name.to_owned()));
            if let Some(last) = self.bindings.last_mut() {
                last.is_export = name == shown && names.contains(" as ");
            }
        }
    }

    /// `a.b as c`; without `as` only the first part is a name, and no news.
    fn take_import(&mut self, rest: &str) {
        for (name, shown) in rest.split(',').filter_map(renamed) {
            if name != shown && is_dotted(name) {
                self.bind(shown, Bound::Module(name.to_owned()));
            }
        }
    }

    /// `X(Base, other.Base, metaclass=M):`.
    fn take_class(&mut self, rest: &str) {
        let name = identifier(rest);
        self.bind(name, Bound::Here);
        let bases = rest.split_once('(').map(|(_, bases)| bases).unwrap_or_default();
        let bases = bases.split(['(', ',', ')']).map(|base| base.split('[').next().unwrap_or(base).trim());
        let bases = bases.filter(|base| is_dotted(base)).map(str::to_owned);
        self.classes.push(Class { name: name.to_owned(), bases: bases.collect() });
    }

    fn bind(&mut self, name: &str, to: Bound) {
        if !name.is_empty() {
            self.bindings.push(Binding { name: name.to_owned(), to, is_export: false });
        }
    }
}

/// `a` or `a as b`: the name and the new one.
fn renamed(text: &str) -> Option<(&str, &str)> {
    let mut words = text.split_whitespace();
    let name = words.next().filter(|name| is_dotted(name))?;
    match (words.next(), words.next()) {
        (None, _) => Some((name, name)),
        (Some("as"), Some(shown)) if is_dotted(shown) => Some((name, shown)),
        _ => None,
    }
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// `a.b.c`.
fn is_dotted(text: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty() && identifier(part) == part && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    text.split('.').all(is_name)
}

/// The strings of a plain list; `None` where there is anything else in it.
fn strings_of(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || "[](),".contains(c));
        let Some(quote) = rest.chars().next() else { return Some(names) };
        let inside = rest.strip_prefix(['"', '\''])?;
        let (name, after) = inside.split_once(quote)?;
        names.push(name.to_owned());
        rest = after;
    }
}

/// A file's statements, one after the other.
struct Statements<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The indentation of a statement behind a semicolon.
    indent: Option<usize>,
    /// The statement without comments and line ends, long strings left out.
    text: Vec<u8>,
}

impl Statements<'_> {
    /// The next one: its indentation; its text is kept unless it lies in a body.
    fn next(&mut self, body: Option<usize>) -> Option<usize> {
        let indent = match self.indent.take() {
            Some(indent) => indent,
            None => self.skip_to_statement()?,
        };
        self.text.clear();
        let inside = body.is_some_and(|outer| indent > outer);
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let matters =
            ["from", "import", "class", "__all__"].iter().any(|word| rest.starts_with(word.as_bytes()));
        let most = match (inside, matters) {
            (true, _) => 0,
            (false, true) => LONG,
            (false, false) => SHORT,
        };
        self.read(indent, most);
        Some(indent)
    }

    /// Passes over empty lines and comments; the next statement's indentation.
    fn skip_to_statement(&mut self) -> Option<usize> {
        let mut indent = 0;
        loop {
            match self.bytes.get(self.at)? {
                b' ' => indent += 1,
                b'\t' => indent += 8,
                b'\n' | b'\r' | b'\x0c' => indent = 0,
                b'#' => {
                    self.skip_line();
                    continue;
                }
                _ => return Some(indent),
            }
            self.at += 1;
        }
    }

    fn skip_line(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
    }

    /// Reads to the statement's end.
    fn read(&mut self, indent: usize, most: usize) {
        let mut depth = 0_usize;
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'#' => {
                    self.skip_line();
                    continue;
                }
                b'"' | b'\'' => {
                    self.string(byte, most);
                    continue;
                }
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b'\n' if depth == 0 => return self.at += 1,
                b';' if depth == 0 => {
                    self.at += 1;
                    let rest = self.bytes.get(self.at..).unwrap_or_default();
                    self.at += rest.iter().take_while(|byte| **byte == b' ').count();
                    self.indent = Some(indent);
                    return;
                }
                b'\\' => self.at += 1,
                _ => {}
            }
            let plain = if byte.is_ascii_whitespace() || byte == b'\\' { b' ' } else { byte };
            if self.text.len() < most {
                self.text.push(plain);
            }
            self.at += 1;
        }
    }

    /// A string, which begins here.
    fn string(&mut self, quote: u8, most: usize) {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let triple = rest.get(..3).is_some_and(|three| three.iter().all(|&byte| byte == quote));
        let marks = if triple { 3 } else { 1 };
        let mut at = marks;
        while let Some(&byte) = rest.get(at) {
            let ends = rest.get(at..at + marks).is_some_and(|end| end.iter().all(|&byte| byte == quote));
            if ends || (!triple && byte == b'\n') {
                break;
            }
            at += if byte == b'\\' { 2 } else { 1 };
        }
        let end = (at + marks).min(rest.len());
        self.at = start + end;
        let string = rest.get(..end).unwrap_or_default();
        if !triple && string.len() < LONGEST_STRING && self.text.len() + string.len() < most {
            self.text.extend_from_slice(string);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bound, Class, ModuleFacts, Origin, scan};

    fn names(facts: &ModuleFacts) -> Vec<&str> {
        facts.bindings.iter().map(|binding| binding.name.as_str()).collect()
    }

    fn from(level: u32, path: &str, name: &str) -> Bound {
        Bound::From(Origin { level, path: path.into() }, name.into())
    }

    /// Imports of all forms, over several lines, with comments, in branches.
    #[test]
    fn imports() {
        let text = "\"\"\"Says: from a import b.\"\"\"\nfrom .x import (  # why\n    A,\n    B as C,\n)\nimport a.b as d, os\n\
                    try:\n    from ..y import E\nexcept ImportError: pass\nfrom z import *\nfrom . import nn\nF = C; G = d.H\nI = None\n";
        let facts = scan(text.as_bytes());
        let is = |name: &str, to: Bound| {
            assert!(
                facts.bindings.iter().any(|found| found.name == name && found.to == to),
                "{name} in {facts:?}"
            );
        };
        is("A", from(1, "x", "A"));
        is("C", from(1, "x", "B"));
        is("d", Bound::Module("a.b".into()));
        is("E", from(2, "y", "E"));
        is("nn", from(1, "", "nn"));
        is("F", Bound::Alias("C".into()));
        is("G", Bound::Alias("d.H".into()));
        assert_eq!(names(&facts), ["A", "C", "d", "E", "nn", "F", "G"]);
        assert_eq!(facts.stars, [Origin { level: 0, path: "z".into() }]);
    }

    /// What is imported under its own name again is meant to be imported from here.
    #[test]
    fn exports() {
        let facts = scan(b"from a import b as b, c\n");
        assert_eq!(facts.bindings.iter().map(|binding| binding.is_export).collect::<Vec<_>>(), [true, false]);
    }

    /// Definitions are names, their bodies are not looked at, and a class has its bases.
    #[test]
    fn definitions() {
        let text = "@decorated(x)\ndef f(a,\n      b=')'):\n    from inside import no\n    '''\nfrom a import b\n'''\n\
                    class C(A, m.B, Generic[T], metaclass=M):\n    from inside import no\n    def g(self): pass\nasync def h(): pass\n\
                    if x:\n    class D: pass\n";
        let facts = scan(text.as_bytes());
        assert_eq!(names(&facts), ["f", "C", "h", "D"]);
        let bases = ["A", "m.B", "Generic"].map(str::to_owned).to_vec();
        assert_eq!(facts.classes[0], Class { name: "C".into(), bases });
        assert_eq!(facts.classes[1], Class { name: "D".into(), bases: vec![] });
    }

    /// A plain `__all__` is a list, one that is computed is none; the lists of modules whose names are all imported may be added.
    #[test]
    fn lists_of_names() {
        let all = |text: &str| scan(text.as_bytes()).all;
        let wanted = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(all("__all__ = ['a',\n  \"b\"]  # both\n"), wanted);
        assert_eq!(all("__all__ = ['a']\n__all__ += ['b']\n"), wanted);
        assert_eq!(all("__all__ = ['a']\n__all__.extend(['b'])\n"), wanted);
        assert_eq!(all("__all__ = ['a'] + other.__all__\n"), None);
        assert_eq!(all("x = 1\n"), None);
        let added = "from .m import *\nfrom . import m\n__all__ = ['a']\n__all__ += m.__all__\n__all__.extend(['b'])\n";
        assert_eq!((all(added), scan(added.as_bytes()).all_of_stars), (wanted, true));
        let of_another = added.replace("from .m import *", "");
        assert_eq!((all(&of_another), scan(of_another.as_bytes()).all_of_stars), (None, false));
    }

    /// No bytes make it stop, and what is cut off is what is lost.
    #[test]
    fn any_bytes() {
        let text = "from a import (b, 'c\nclass X(\\\n\"\"\" def f(): \x00 import";
        for end in 0..text.len() {
            scan(&text.as_bytes()[..end]);
        }
        scan(&[0xff, b'\\']);
        assert!(scan("from a import b; from c import d".as_bytes()).bindings.len() == 2);
    }
}
