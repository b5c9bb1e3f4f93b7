//! The module of a Python file, from its path under its import root.
//!
//! The import root is where the packages end: the first folder upwards without `__init__.py`. Namespace packages (without the file)
//! cannot be told from folders; below a `site-packages` or `dist-packages` every folder counts as a package.

use std::path::Path;

/// The dotted module name of a file: `torch.autograd` for `…/torch/autograd/__init__.py`, `train` for `train.py`. `exists` tells whether
/// a path exists as the process sees it.
pub fn module_of(file: &str, exists: impl Fn(&Path) -> bool) -> String {
    if let Some(frozen) = file.strip_prefix("<frozen ").and_then(|rest| rest.strip_suffix('>')) {
        return frozen.to_owned();
    }
    if file.starts_with('<') {
        return file.to_owned();
    }
    let path = Path::new(file);
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let mut parts = if stem == "__init__" { Vec::new() } else { vec![stem] };
    let mut folder = path.parent();
    while let Some(here) = folder {
        let Some(name) = here.file_name().map(|n| n.to_string_lossy().into_owned()) else { break };
        if is_root(&name) || !(below_root(here) || exists(&here.join("__init__.py"))) {
            break;
        }
        parts.push(name);
        folder = here.parent();
    }
    parts.reverse();
    parts.join(".")
}

/// Folders in which packages lie.
fn is_root(name: &str) -> bool {
    matches!(name, "site-packages" | "dist-packages" | "lib-dynload")
}

/// Whether a folder lies below such a folder.
fn below_root(folder: &Path) -> bool {
    folder.ancestors().skip(1).any(|a| a.file_name().is_some_and(|n| is_root(&n.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::module_of;
    use std::path::Path;

    /// Packages, modules, scripts, namespace packages, and code without a file.
    #[test]
    fn names() {
        let has_init =
            |path: &Path| path.starts_with("/usr/lib/python3.11/json") || path.starts_with("/home/me/pkg");
        let name = |file| module_of(file, has_init);
        assert_eq!(name("/usr/lib/python3/dist-packages/torch/autograd/__init__.py"), "torch.autograd");
        assert_eq!(name("/v/lib/python3.11/site-packages/google/api/x.py"), "google.api.x");
        assert_eq!(name("/usr/lib/python3.11/json/decoder.py"), "json.decoder");
        assert_eq!(name("/usr/lib/python3.11/argparse.py"), "argparse");
        assert_eq!(name("/home/me/pkg/sub.py"), "pkg.sub");
        assert_eq!(name("train.py"), "train");
        assert_eq!(name("/home/me/train.py"), "train");
        assert_eq!(name("<frozen importlib._bootstrap>"), "importlib._bootstrap");
        assert_eq!(name("<string>"), "<string>");
        assert_eq!(name(""), "");
    }
}
