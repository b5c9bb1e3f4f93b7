//! Debian packages unpacked into the cache folder: kernels, the emulator with all its libraries, Pythons and a busybox.
//!
//! Nothing is installed (`xtask::private_apt`). What is there is not fetched again; `rm -r` of the folder makes the next run fetch anew.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::private_apt::{BOOKWORM, PrivateApt, TRIXIE};
use xtask::target::Target;

/// What runs on the host, with its libraries.
const fn emulator(target: Target) -> &'static str {
    match target {
        Target::X86_64 => "qemu-system-x86",
        Target::Aarch64 => "qemu-system-arm",
    }
}

/// Depends on the newest kernel of each suite.
fn newest(target: Target) -> String {
    format!("linux-image-cloud-{}", target.debian())
}

/// Unpacked packages.
pub(crate) struct Unpacked {
    /// The root of the emulator, and of the busybox that packs the guest's files.
    pub(crate) tools: PathBuf,
    /// The roots of what goes into the guest: busybox and Debian 12's Python; and Debian 13's with its C library, where that is tried.
    pub(crate) guest: PathBuf,
    pub(crate) newer: Option<PathBuf>,
    /// The kernel images.
    pub(crate) kernels: Vec<PathBuf>,
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
        return Ok(Unpacked { guest: tools.clone(), newer: None, tools, kernels });
    }
    say(&tools, "the emulator and its libraries (about 80 MB)");
    own.unpack_with_dependencies(&[emulator(target), "busybox-static"], &tools)?;
    let (guest, newer) = (folder.join("guest-12"), folder.join("guest-13"));
    let other = folder.join(target.debian());
    let apt = PrivateApt { folder: &other, target, sources: BOOKWORM, log };
    say(&guest, "what runs in the guest");
    apt.unpack_with_dependencies(&["busybox-static", "python3-minimal"], &guest)?;
    let apt_13 = PrivateApt { folder: &other.join("13"), target, sources: TRIXIE, log };
    apt_13.unpack_with_dependencies(&["python3-minimal"], &newer)?;
    let kernels = series.iter().map(|series| kernel(&apt, series)).collect::<Result<_>>()?;
    Ok(Unpacked { tools, guest, newer: Some(newer), kernels })
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
    let newest = newest(apt.target);
    let shown = apt.show(&newest)?;
    let package = parse_kernel(&shown, series)
        .with_context(|| format!("no {newest} of Debian depends on a kernel {series}"))?;
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
