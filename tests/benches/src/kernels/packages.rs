//! Debian packages unpacked into the cache folder: kernels, the emulator with all its libraries, a Python and a busybox.
//!
//! Nothing is installed: apt works on package lists and a status of its own, and `dpkg-deb` only unpacks. What is there is not fetched
//! again; `rm -r` of the folder makes the next run fetch anew.

use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::{read_output, run_logged};

/// Where the packages come from: Debian 12, its updates and its backports. The keyring is the host's.
const SOURCES: [&str; 4] = [
    "http://deb.debian.org/debian bookworm main",
    "http://deb.debian.org/debian bookworm-updates main",
    "http://deb.debian.org/debian-security bookworm-security main",
    "http://deb.debian.org/debian bookworm-backports main",
];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What runs on the host, and what goes into the guest.
const TOOLS: [&str; 3] = ["qemu-system-x86", "busybox-static", "python3-minimal"];
/// Depends on the newest kernel of each suite.
const NEWEST: &str = "linux-image-cloud-amd64";

/// Unpacked packages.
pub(crate) struct Unpacked {
    /// The root of the emulator, busybox and Python.
    pub(crate) tools: PathBuf,
    /// The kernel images.
    pub(crate) kernels: Vec<PathBuf>,
}

/// Fetches and unpacks what is missing below `folder`; kernels whose versions begin with `series`.
pub(crate) fn fetch(folder: &Path, series: &[&str], log: &Path) -> Result<Unpacked> {
    let apt = PrivateApt { folder, log };
    let tools = folder.join("tools");
    if !tools.join(".complete").exists() {
        apt.prepare()?;
        eprintln!("kernels: fetching the emulator and its libraries (about 80 MB) into {}", folder.display());
        apt.unpack_with_dependencies(&TOOLS, &tools)?;
    }
    let kernels = series.iter().map(|series| apt.kernel(series)).collect::<Result<_>>()?;
    Ok(Unpacked { tools, kernels })
}

/// apt with lists, archives and status of its own.
struct PrivateApt<'a> {
    folder: &'a Path,
    log: &'a Path,
}

impl PrivateApt<'_> {
    /// Writes the list of sources and fetches the package lists.
    fn prepare(&self) -> Result<()> {
        for place in ["lists/partial", "archives/partial"] {
            let place = self.folder.join(place);
            fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
        }
        let sources: String =
            SOURCES.iter().map(|source| format!("deb [signed-by={KEYRING}] {source}\n")).collect();
        fs::write(self.folder.join("sources.list"), sources)?;
        fs::write(self.folder.join("status"), "")?; // Nothing is installed: all that is depended on is fetched.
        run_logged(self.command("apt-get").arg("update"), self.log).context("apt cannot fetch package lists")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let place = |name: &str| self.folder.join(name).display().to_string();
        for option in [
            format!("Dir::State::status={}", place("status")),
            format!("Dir::State::lists={}", place("lists")),
            format!("Dir::Cache::archives={}", place("archives")),
            "Dir::Cache::pkgcache=".to_owned(),
            "Dir::Cache::srcpkgcache=".to_owned(),
            format!("Dir::Etc::sourcelist={}", place("sources.list")),
            "Dir::Etc::sourceparts=-".to_owned(),
            "APT::Architecture=amd64".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Debug::NoLocking=1".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command.env("LC_ALL", "C.UTF-8").current_dir(self.folder);
        command
    }

    fn unpack_with_dependencies(&self, packages: &[&str], root: &Path) -> Result<()> {
        let mut command = self.command("apt-get");
        command.args(["install", "--download-only", "--yes", "--no-install-recommends"]).args(packages);
        run_logged(&mut command, self.log).context("apt cannot fetch the emulator")?;
        fs::create_dir_all(root)?;
        for entry in fs::read_dir(self.folder.join("archives"))? {
            let package = entry?.path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                unpack(&package, root, self.log)?;
            }
        }
        fs::write(root.join(".complete"), "")?;
        Ok(())
    }

    /// The image of the newest kernel of a series, such as `6.1.`.
    fn kernel(&self, series: &str) -> Result<PathBuf> {
        let root = self.folder.join(format!("kernel-{}", series.trim_end_matches('.')));
        if let Some(image) = find_image(&root) {
            return Ok(image);
        }
        if !self.folder.join("sources.list").exists() {
            self.prepare()?;
        }
        let shown = read_output(self.command("apt-cache").args(["show", NEWEST]))?;
        let package = parse_kernel(&shown, series)
            .with_context(|| format!("no {NEWEST} of Debian depends on a kernel {series}"))?;
        eprintln!("kernels: fetching {package}");
        run_logged(self.command("apt-get").args(["download", package]), self.log)
            .with_context(|| format!("apt cannot fetch {package}"))?;
        fs::create_dir_all(&root)?;
        for entry in fs::read_dir(self.folder)? {
            let file = entry?.path();
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&format!("{package}_")) {
                unpack(&file, &root, self.log)?;
                fs::remove_file(&file)?;
            }
        }
        let image = find_image(&root);
        ensure!(image.is_some(), "{package} holds no boot/vmlinuz");
        image.context("checked")
    }
}

fn unpack(package: &Path, root: &Path, log: &Path) -> Result<()> {
    run_logged(Command::new("dpkg-deb").arg("--extract").arg(package).arg(root), log)
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
