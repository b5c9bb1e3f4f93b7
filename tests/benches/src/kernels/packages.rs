//! Debian packages unpacked into the cache folder: kernels, the emulator with all its libraries, Pythons and a busybox.
//!
//! Nothing is installed (`xtask::private_apt`). What is there is not fetched again; `rm -r` of the folder makes the next run fetch anew.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::private_apt::{BOOKWORM, BULLSEYE, PrivateApt, SID, TRIXIE};
use xtask::target::Target;

/// What runs on the host, with its libraries.
const fn emulator(target: Target) -> &'static str {
    match target {
        Target::X86_64 => "qemu-system-x86",
        Target::Aarch64 => "qemu-system-arm",
    }
}

/// The word for Arm's newest kernel with pages of 16 KiB.
const LARGER_PAGES: &str = "16k.";

/// What depends on the newest kernel of each suite, and how the versions of a series begin.
fn newest(target: Target, series: &str) -> (String, &str) {
    match series {
        LARGER_PAGES => (format!("linux-image-{}-16k", target.debian()), "6."),
        _ => (format!("linux-image-cloud-{}", target.debian()), series),
    }
}

/// Other Debians' Pythons, the newest last: its C library runs all of them. Debian has no other versions for Arm.
const OTHER_PYTHONS: [(&str, &[&str], &str); 3] =
    [("11", BULLSEYE, "3.9"), ("13", TRIXIE, "3.13"), ("sid", SID, "3.14")];

/// Unpacked packages.
pub(crate) struct Unpacked {
    /// The root of the emulator, and of the busybox that packs the guest's files.
    pub(crate) tools: PathBuf,
    /// The root of what goes into the guest: busybox and Debian 12's Python.
    pub(crate) guest: PathBuf,
    /// What is tried besides.
    pub(crate) more: Option<More>,
    /// The kernel images.
    pub(crate) kernels: Vec<PathBuf>,
}

/// What is tried of another processor alone.
pub(crate) struct More {
    /// Roots of other Pythons with their C libraries, the newest last, and their versions.
    pub(crate) pythons: Vec<(PathBuf, &'static str)>,
    /// The root of the host's Go, which compiles for any processor.
    pub(crate) go: PathBuf,
    /// The root of the other C library.
    pub(crate) musl: PathBuf,
}

/// Fetches and unpacks what is missing below `folder`; kernels whose versions begin with `series`.
pub(crate) fn fetch(folder: &Path, target: Target, series: &[&str], log: &Path) -> Result<Unpacked> {
    let of_machine = Target::of_machine();
    let tools = folder.join("tools");
    let own = PrivateApt { folder, target: of_machine, sources: BOOKWORM, log };
    if target == of_machine {
        say(&tools, "the emulator and its libraries (about 80 MB)");
        own.unpack_with_dependencies(&[emulator(target), "busybox-static", "python3-minimal"], &tools)?;
        let kernels = series.iter().map(|series| kernel(&own, series)).collect::<Result<_>>()?;
        return Ok(Unpacked { guest: tools.clone(), more: None, tools, kernels });
    }
    say(&tools, "the emulator and its libraries (about 80 MB)");
    own.unpack_with_dependencies(&[emulator(target), "busybox-static"], &tools)?;
    let guest = folder.join("guest-12");
    let other = folder.join(target.debian());
    let apt = PrivateApt { folder: &other, target, sources: BOOKWORM, log };
    say(&guest, "what runs in the guest");
    apt.unpack_with_dependencies(&["busybox-static", "python3-minimal"], &guest)?;
    let more = fetch_more(folder, &own, &apt)?;
    let kernels = series.iter().map(|series| kernel(&apt, series)).collect::<Result<_>>()?;
    Ok(Unpacked { tools, guest, more: Some(more), kernels })
}

/// What is tried besides, by the host's apt and that of the guest's processor.
fn fetch_more(folder: &Path, own: &PrivateApt<'_>, apt: &PrivateApt<'_>) -> Result<More> {
    let mut pythons = Vec::new();
    for (debian, sources, version) in OTHER_PYTHONS {
        let root = folder.join(format!("guest-{debian}"));
        PrivateApt { folder: &apt.folder.join(debian), sources, ..*apt }
            .unpack_with_dependencies(&[&format!("python{version}-minimal")], &root)?;
        pythons.push((root, version));
    }
    let (go, musl) = (folder.join("go"), folder.join("musl"));
    say(&go, "Go (80 MB)");
    own.unpack_each_alone(&["golang-1.19-go", "golang-1.19-src"], &go)?;
    apt.unpack_each_alone(&["musl", "musl-dev"], &musl)?;
    Ok(More { pythons, go, musl })
}

fn say(root: &Path, what: &str) {
    if !root.join(".complete").exists() {
        eprintln!("kernels: fetching {what} into {}", root.display());
    }
}

/// The image of the newest kernel of a series, such as `6.1.`.
fn kernel(apt: &PrivateApt<'_>, series: &str) -> Result<PathBuf> {
    let root = apt.folder.join(format!("kernel-{}", series.trim_end_matches('.')));
    if let Some(image) = find_image(&root) {
        return Ok(image);
    }
    let (newest, beginning) = newest(apt.target, series);
    let shown = apt.show(&newest)?;
    let package = parse_kernel(&shown, beginning)
        .with_context(|| format!("no {newest} of Debian depends on a kernel {beginning}"))?;
    eprintln!("kernels: fetching {package}");
    apt.unpack_alone(package, &root)?;
    find_image(&root).with_context(|| format!("{package} holds no boot/vmlinuz"))
}

fn find_image(root: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(root.join("boot")).ok()?.flatten().map(|entry| entry.path());
    files
        .into_iter()
        .find(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
}

/// The kernel package of a series among those that `apt-cache show` says the metapackage's versions depend on.
fn parse_kernel<'a>(shown: &'a str, series: &str) -> Option<&'a str> {
    let wanted = format!("linux-image-{series}");
    shown
        .lines()
        .filter_map(|line| line.strip_prefix("Depends: "))
        .flat_map(|line| line.split(", "))
        .filter_map(|dependency| dependency.split_whitespace().next())
        .find(|package| package.starts_with(&wanted))
}

#[cfg(test)]
mod tests {
    use super::parse_kernel;

    /// The newest version of a series comes first and is taken; another series is told apart from one whose number begins alike.
    #[test]
    fn kernels_of_a_series() {
        let shown = "Package: linux-image-cloud-amd64\nVersion: 6.12.95\nDepends: linux-image-6.12.95+deb12-cloud-amd64 (= 6.12.95-1)\n\n\
                     Package: linux-image-cloud-amd64\nDepends: linux-image-6.1.0-56-cloud-amd64 (= 6.1.192-2)\n\n\
                     Package: linux-image-cloud-amd64\nDepends: linux-image-6.1.0-50-cloud-amd64 (= 6.1.176-1)\n";
        assert_eq!(parse_kernel(shown, "6.1."), Some("linux-image-6.1.0-56-cloud-amd64"));
        assert_eq!(parse_kernel(shown, "6.12."), Some("linux-image-6.12.95+deb12-cloud-amd64"));
        assert_eq!(parse_kernel(shown, "6.18."), None);
    }
}
