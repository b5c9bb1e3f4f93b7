//! Whose code a frame is: the program's, an installed package's, Python's standard library.
//!
//! Told by the file alone, so that it holds on another machine. An installed package is a folder (or a file) of `site-packages` or
//! `dist-packages`. Leaves out what code is called (`naming.rs`).

use energy_trace_model::recording::record::{Frame, FrameKind};

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner<'a> {
    /// The program's own.
    Program,
    /// An installed package's, in Python or in machine code.
    Package(&'a str),
    /// Python's standard library's, and code that it makes at run time.
    Standard,
    /// The import system's.
    Importer,
    /// Machine code of nobody in particular: the interpreter, the C library, the kernel.
    Other,
}

/// Whose code this is.
pub(crate) fn owner(frame: &Frame) -> Owner<'_> {
    match frame.kind {
        FrameKind::Python => python_owner(&frame.file, &frame.name),
        FrameKind::Native => package_of(&frame.module).map_or(Owner::Other, Owner::Package),
        FrameKind::Kernel | FrameKind::Gpu | FrameKind::Special | FrameKind::Inlined => Owner::Other,
    }
}

fn python_owner<'a>(file: &'a str, name: &str) -> Owner<'a> {
    if file.starts_with("<frozen importlib") || file.starts_with("<frozen zipimport") {
        return Owner::Importer;
    }
    if let Some(package) = package_of(file) {
        return Owner::Package(package);
    }
    // `-c`, standard input and notebooks are programs; other code without a file was made by a library.
    let typed =
        file == "<stdin>" || file.starts_with("<ipython") || (file == "<string>" && name == "<module>");
    if !typed && (file.starts_with('<') || is_standard(file)) { Owner::Standard } else { Owner::Program }
}

/// The package that a file was installed with: `torch` for `…/site-packages/torch/nn/functional.py` and for the libraries in `torch.libs`.
pub(crate) fn package_of(file: &str) -> Option<&str> {
    let folders = ["/site-packages/", "/dist-packages/"];
    let below =
        folders.iter().filter_map(|folder| file.rsplit_once(folder)).map(|(_, below)| below).next()?;
    let first = below.split('/').next()?;
    let name = first.strip_suffix(".libs").unwrap_or(first);
    Some(name.split('.').next().unwrap_or(name)).filter(|name| !name.is_empty())
}

/// Whether a file is below `lib/python3.X`.
fn is_standard(file: &str) -> bool {
    let version = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 't');
    ["/lib/python3", "/lib64/python3", "/lib/python", "/lib64/python"].iter().any(|folder| {
        let below = file.split_once(folder).map(|(_, below)| below);
        below
            .and_then(|below| below.split_once('/'))
            .is_some_and(|(rest, _)| version(rest.trim_end_matches(".zip")))
    })
}

#[cfg(test)]
mod tests {
    use super::{Owner, package_of, python_owner};

    /// Files of packages, of the standard library and of programs, as installations have them.
    #[test]
    fn whose_file() {
        let of = |file| python_owner(file, "f");
        assert_eq!(of("/v/lib/python3.11/site-packages/torch/nn/functional.py"), Owner::Package("torch"));
        assert_eq!(of("/usr/lib/python3/dist-packages/six.py"), Owner::Package("six"));
        assert_eq!(of("/usr/lib/python3.11/json/decoder.py"), Owner::Standard);
        assert_eq!(of("/opt/python/lib/python3.13t/threading.py"), Owner::Standard);
        assert_eq!(of("<frozen runpy>"), Owner::Standard);
        assert_eq!(of("<__array_function__ internals>"), Owner::Standard);
        assert_eq!(of("<frozen importlib._bootstrap>"), Owner::Importer);
        assert_eq!(of("train.py"), Owner::Program);
        assert_eq!(of("/home/me/lib/python3-tricks/train.py"), Owner::Program);
        assert_eq!(of("<stdin>"), Owner::Program);
        assert_eq!(of("<string>"), Owner::Standard);
        assert_eq!(python_owner("<string>", "<module>"), Owner::Program);
    }

    /// Machine code belongs to the package that it was installed with, bundled libraries as well.
    #[test]
    fn whose_library() {
        assert_eq!(package_of("/v/site-packages/numpy.libs/libopenblas.so"), Some("numpy"));
        assert_eq!(package_of("/v/site-packages/torch/lib/libtorch_cpu.so"), Some("torch"));
        assert_eq!(package_of("/v/site-packages/_cffi.cpython-311-x86_64-linux-gnu.so"), Some("_cffi"));
        assert_eq!(package_of("/usr/lib/libc.so.6"), None);
    }
}
