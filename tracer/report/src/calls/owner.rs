//! Whose code a frame is: the program's, an installed package's, Python's standard library.
//!
//! Told by the file and by what the recording knows of installed packages, so that it holds on another machine. An installed package is a
//! folder (or a file) of `site-packages`, `dist-packages` or a folder whose metadata lists it. Leaves out what code is called (`naming.rs`).

use energy_trace_model::recording::record::{Frame, FrameKind};
use energy_trace_model::recording::{PublicNames, package_in};

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
pub(crate) fn owner<'a>(frame: &'a Frame, names: &PublicNames) -> Owner<'a> {
    match frame.kind {
        FrameKind::Python => {
            // Code that a library makes of text has the library's name as its module.
            let is_line = frame.file == "<string>" && frame.name == "<module>";
            let is_main = is_line && ["", "<string>"].contains(&&*frame.module) || frame.module == "__main__";
            python_owner(&frame.file, is_main, names)
        }
        FrameKind::Native => package_of(&frame.module, names).map_or(Owner::Other, Owner::Package),
        FrameKind::Kernel | FrameKind::Gpu | FrameKind::Special | FrameKind::Inlined | FrameKind::Range => {
            Owner::Other
        }
    }
}

/// Whether it is code that the program or a library made of text at run time, which nobody has a file of.
pub(crate) fn is_generated(frame: &Frame, names: &PublicNames) -> bool {
    let is_file = frame.file.starts_with('<') && !frame.file.starts_with("<frozen");
    frame.kind == FrameKind::Python && is_file && owner(frame, names) == Owner::Standard
}

fn python_owner<'a>(file: &'a str, is_main: bool, names: &PublicNames) -> Owner<'a> {
    if file.starts_with("<frozen importlib") || file.starts_with("<frozen zipimport") {
        return Owner::Importer;
    }
    if let Some(package) = package_of(file, names) {
        return Owner::Package(package);
    }
    // `-c`, standard input and notebooks are programs; other code without a file was made by a library.
    let typed = file == "<stdin>" || file.starts_with("<ipython") || is_main;
    if !typed && (file.starts_with('<') || is_standard(file)) { Owner::Standard } else { Owner::Program }
}

/// The package that a file was installed with: `torch` for `…/site-packages/torch/nn/functional.py` and for the libraries in `torch.libs`.
pub(super) fn package_of<'a>(file: &'a str, names: &PublicNames) -> Option<&'a str> {
    Some(package_in(below_folder(file, names)?)).filter(|name| !name.is_empty())
}

/// What told that a file is a package's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A folder of packages in its path.
    Folder,
    /// Metadata that lies beside the package.
    Metadata,
}

/// What told that a file is a package's; `None` where it is none's.
pub(crate) fn place_of(file: &str, names: &PublicNames) -> Option<Place> {
    below_folder_by(file, names).map(|(place, _)| place)
}

/// The part of a path below the folder of packages that it is in.
pub(super) fn below_folder<'a>(file: &'a str, names: &PublicNames) -> Option<&'a str> {
    below_folder_by(file, names).map(|(_, below)| below)
}

fn below_folder_by<'a>(file: &'a str, names: &PublicNames) -> Option<(Place, &'a str)> {
    let folders = ["/site-packages/", "/dist-packages/"];
    let below = folders.iter().find_map(|folder| Some((Place::Folder, file.rsplit_once(folder)?.1)));
    below.or_else(|| names.below_folder(file).map(|below| (Place::Metadata, below)))
}

/// Whether a file is below `lib/python3.X`, or in the library's archive.
fn is_standard(file: &str) -> bool {
    let version = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 't');
    let is_archive = |part: &str| part.strip_prefix("python3").is_some_and(|rest| rest.ends_with(".zip"));
    if file.split('/').any(is_archive) {
        return true;
    }
    ["/lib/python3", "/lib64/python3", "/lib/python", "/lib64/python"].iter().any(|folder| {
        let below = file.split_once(folder).map(|(_, below)| below);
        below
            .and_then(|below| below.split_once('/'))
            .is_some_and(|(rest, _)| version(rest.trim_end_matches(".zip")))
    })
}

#[cfg(test)]
mod tests {
    use super::{Owner, owner, package_of, python_owner};
    use energy_trace_model::recording::PublicNames;
    use energy_trace_model::recording::record::{Frame, FrameKind, InstalledPackage};

    /// Files of packages, of the standard library and of programs, as installations have them.
    #[test]
    fn whose_file() {
        let names = PublicNames::default();
        let of = |file| python_owner(file, false, &names);
        assert_eq!(of("/v/lib/python3.11/site-packages/torch/nn/functional.py"), Owner::Package("torch"));
        assert_eq!(of("/usr/lib/python3/dist-packages/six.py"), Owner::Package("six"));
        assert_eq!(of("/usr/lib/python3.11/json/decoder.py"), Owner::Standard);
        assert_eq!(of("/opt/python/lib/python3.13t/threading.py"), Owner::Standard);
        assert_eq!(of("/opt/app/python312.zip/json/decoder.py"), Owner::Standard);
        assert_eq!(of("<frozen runpy>"), Owner::Standard);
        assert_eq!(of("<__array_function__ internals>"), Owner::Standard);
        assert_eq!(of("<frozen importlib._bootstrap>"), Owner::Importer);
        assert_eq!(of("train.py"), Owner::Program);
        assert_eq!(of("/home/me/lib/python3-tricks/train.py"), Owner::Program);
        assert_eq!(of("<stdin>"), Owner::Program);
        assert_eq!(of("<string>"), Owner::Standard);
        assert_eq!(python_owner("<string>", true, &names), Owner::Program);
    }

    /// Text that a library compiles is not the program's; that of `-c` is, also of recordings that knew no module.
    #[test]
    fn code_made_of_text() {
        let of = |module: &str| {
            let frame = Frame {
                kind: FrameKind::Python,
                name: "<module>".into(),
                module: module.into(),
                file: "<string>".into(),
                line: 1,
                first_line: 1,
                address: 0,
            };
            owner(&frame, &PublicNames::default()) == Owner::Program
        };
        assert!(["__main__", "<string>", ""].into_iter().all(of));
        assert!(!["site", "torch._library.autograd"].into_iter().any(of));
    }

    /// Code of a package that is installed elsewhere is the package's, in Python and in machine code; what lies beside it is the program's.
    #[test]
    fn installed_elsewhere() {
        let mut names = PublicNames::default();
        for package in ["yaml", "_yaml"] {
            names.install(InstalledPackage { folder: "/var/task/".into(), package: package.into() });
        }
        let of = |file| python_owner(file, false, &names);
        assert_eq!(of("/var/task/yaml/loader.py"), Owner::Package("yaml"));
        assert_eq!(of("/var/task/lambda_function.py"), Owner::Program);
        assert_eq!(package_of("/var/task/_yaml.cpython-312-x86_64-linux-gnu.so", &names), Some("_yaml"));
        assert_eq!(package_of("/var/task/other.so", &names), None);
    }

    /// Machine code belongs to the package that it was installed with, bundled libraries as well.
    #[test]
    fn whose_library() {
        let package_of = |file| package_of(file, &PublicNames::default());
        assert_eq!(package_of("/v/site-packages/numpy.libs/libopenblas.so"), Some("numpy"));
        assert_eq!(package_of("/v/site-packages/torch/lib/libtorch_cpu.so"), Some("torch"));
        assert_eq!(package_of("/v/site-packages/_cffi.cpython-311-x86_64-linux-gnu.so"), Some("_cffi"));
        assert_eq!(package_of("/usr/lib/libc.so.6"), None);
    }
}
