//! Which functions are counted: those that were asked for, or the entry functions of frameworks.
//!
//! Leaves out where they lie (`counting.rs`).

use energy_trace_names::patterns::glob;
use std::path::Path;

/// A function to count, as it was asked for: `TF_SessionRun@libtensorflow_cc`, `work`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountName {
    /// Its name without parameters; `*` stands for any characters.
    pub name: String,
    /// The library that has it: a path, or how its file's name begins; `*` stands for any characters. `None`: the program
    /// itself, or a function of Python.
    pub library: Option<String>,
}

/// Entry functions of frameworks: library, and name. ONNX Runtime's wheels have no symbols.
const ENTRIES: [(&str, &str); 7] = [
    ("libtorch_python.so", "torch::autograd::THPVariable_*"),
    ("libtorch_python.so", "THPEngine_run_backward"),
    ("libtorch_cpu.so", "at::_ops::*::call"),
    ("libtensorflow_cc.so", "TF_SessionRun"),
    ("libtensorflow_cc.so", "TFE_Execute"),
    ("lib_pywrap_tensorflow_common.so", "TFE_Py_FastPathExecute_C"),
    ("libonnxruntime.so", "onnxruntime::InferenceSession::Run"),
];

/// What was asked for, from the words of the option; without words the entry functions.
pub fn count_names_of(words: &[String]) -> Vec<CountName> {
    let words: Vec<&String> = words.iter().filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        let entry =
            |(library, name): (&str, &str)| CountName { name: name.into(), library: Some(library.into()) };
        return ENTRIES.map(entry).into();
    }
    let name = |word: &&String| match word.rsplit_once('@') {
        Some((name, library)) => CountName { name: name.into(), library: Some(library.into()) },
        None => CountName { name: word.to_string(), library: None },
    };
    words.iter().map(name).collect()
}

/// The functions of Python to count: `None` where none are, an empty list for public ones of packages.
pub fn python_names(names: &[CountName]) -> Option<Vec<String>> {
    if names == count_names_of(&[]) {
        return Some(Vec::new());
    }
    let may_be = |name: &&CountName| name.library.is_none() && !name.name.contains("::");
    let names: Vec<String> = names.iter().filter(may_be).map(|name| name.name.clone()).collect();
    (!names.is_empty()).then_some(names)
}

/// Whether a file of this name has entry functions.
pub fn is_counted_by_default(file: &str) -> bool {
    ENTRIES.iter().any(|(library, _)| file.starts_with(library))
}

/// Whether a text is this pattern, in which `*` stands for any characters.
fn is_like(pattern: &str, text: &str) -> bool {
    glob(&pattern.split('*').collect::<Vec<_>>(), text)
}

impl CountName {
    /// Whether it may be a function of a file, which is the program itself or not.
    pub fn may_be_in(&self, path: &str, is_program: bool) -> bool {
        match &self.library {
            None => is_program,
            Some(library) if library.contains('/') => is_like(library, path),
            Some(library) => is_like(&format!("{library}*"), path.rsplit('/').next().unwrap_or_default()),
        }
    }

    /// The one file that it is in, where a path names it.
    pub fn file(&self) -> Option<&Path> {
        let library = self.library.as_deref().filter(|library| library.starts_with('/'));
        library.filter(|library| !library.contains('*')).map(Path::new)
    }

    /// As it was asked for.
    pub(super) fn word(&self) -> String {
        let library = self.library.as_ref().map(|library| format!("@{library}"));
        format!("{}{}", self.name, library.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::{count_names_of, is_counted_by_default, python_names};
    use std::path::Path;

    /// A name without a library is the program's; a library is a path, or the begin of a file's name.
    #[test]
    fn names() {
        let names = count_names_of(&["work".into(), "a::b@libx.so".into(), "f@/opt/liby.so".into()]);
        assert_eq!(names[1].word(), "a::b@libx.so");
        let of =
            |path, is_program| -> Vec<bool> { names.iter().map(|n| n.may_be_in(path, is_program)).collect() };
        assert_eq!(of("/bin/work", true), [true, false, false]);
        assert_eq!(of("/usr/lib/libx.so.3", false), [false, true, false]);
        assert_eq!(of("/opt/liby.so", false), [false, false, true]);
        assert_eq!(of("/usr/lib/liby.so", false), [false; 3]);
        let files: Vec<_> = names.iter().map(|name| name.file()).collect();
        assert_eq!(files, [None, None, Some(Path::new("/opt/liby.so"))]);
        let any = count_names_of(&["f@*x.so".into(), "f@/opt/lib*".into()]);
        assert!(any.iter().all(|name| name.file().is_none()));
        assert!(any[0].may_be_in("/usr/lib/libx.so.3", false) && !any[0].may_be_in("/opt/liby.so", false));
        assert!(any[1].may_be_in("/opt/liby.so", false) && !any[1].may_be_in("/usr/lib/libx.so.3", false));
    }

    /// Without names the entry functions of frameworks are meant.
    #[test]
    fn entries() {
        assert!(count_names_of(&[String::new()]).iter().any(|name| name.name == "at::_ops::*::call"));
        assert_eq!(python_names(&count_names_of(&[])), Some(Vec::new()));
        let names = count_names_of(&["f".into(), "a::b".into(), "g@libx.so".into()]);
        assert_eq!(python_names(&names), Some(vec!["f".to_owned()]));
        assert_eq!(python_names(&names[2..]), None);
        assert!(is_counted_by_default("libtorch_cpu.so") && !is_counted_by_default("libc.so.6"));
    }
}
