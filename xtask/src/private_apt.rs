//! apt with package lists, archives and a status of its own, for any processor: nothing is installed, packages are only unpacked.

use crate::command::{read_output, run_logged};
use crate::target::Target;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where Debian 12's packages come from: it, its updates and its backports. The keyring is the host's.
pub const BOOKWORM: &[&str] = &[
    "http://deb.debian.org/debian bookworm main",
    "http://deb.debian.org/debian bookworm-updates main",
    "http://deb.debian.org/debian-security bookworm-security main",
    "http://deb.debian.org/debian bookworm-backports main",
];
/// Where its compilers' newest versions come from: lists of a twentieth of the length.
pub const BOOKWORM_SECURITY: &[&str] = &["http://deb.debian.org/debian-security bookworm-security main"];
/// Where Debian 13's come from.
pub const TRIXIE: &[&str] = &["http://deb.debian.org/debian trixie main"];
/// Where Debian 11's come from.
pub const BULLSEYE: &[&str] = &["http://deb.debian.org/debian bullseye main"];
/// Where Debian's newest come from.
pub const SID: &[&str] = &["http://deb.debian.org/debian sid main"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// It.
#[derive(Clone, Copy, Debug)]
pub struct PrivateApt<'a> {
    /// Where its lists and archives are.
    pub folder: &'a Path,
    /// Whose packages.
    pub target: Target,
    /// Where they come from.
    pub sources: &'a [&'a str],
    /// What programs print.
    pub log: &'a Path,
}

impl PrivateApt<'_> {
    /// Fetches the package lists, unless they are there.
    pub fn prepare(&self) -> Result<()> {
        let list = self.folder.join("sources.list");
        if list.exists() {
            return Ok(());
        }
        for place in ["lists/partial", "archives/partial"] {
            let place = self.folder.join(place);
            fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
        }
        let sources: String =
            self.sources.iter().map(|source| format!("deb [signed-by={KEYRING}] {source}\n")).collect();
        fs::write(self.folder.join("status"), "")?; // Nothing is installed: all that is depended on is fetched.
        fs::write(&list, sources)?;
        let fetched = run_logged(self.command("apt-get").arg("update"), self.log);
        if fetched.is_err() {
            fs::remove_file(&list)?;
        }
        fetched.context("apt cannot fetch package lists")
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
            format!("APT::Architecture={}", self.target.debian()),
            format!("APT::Architectures={}", self.target.debian()),
            "APT::Sandbox::User=root".to_owned(),
            "Debug::NoLocking=1".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command.env("LC_ALL", "C.UTF-8").current_dir(self.folder);
        command
    }

    /// Unpacks packages, with all that they depend on, below a folder; once.
    pub fn unpack_with_dependencies(&self, packages: &[&str], root: &Path) -> Result<()> {
        let complete = root.join(".complete");
        if complete.exists() {
            return Ok(());
        }
        self.prepare()?;
        let mut command = self.command("apt-get");
        command.args(["install", "--download-only", "--yes", "--no-install-recommends"]).args(packages);
        run_logged(&mut command, self.log).with_context(|| format!("apt cannot fetch {packages:?}"))?;
        fs::create_dir_all(root)?;
        for entry in fs::read_dir(self.folder.join("archives"))? {
            let package = entry?.path();
            if package.extension().is_some_and(|extension| extension == "deb") {
                unpack(&package, root, self.log)?;
            }
        }
        Ok(fs::write(complete, "")?)
    }

    /// Unpacks one package alone below a folder; `NAME`, or `NAME=VERSION`.
    pub fn unpack_alone(&self, package: &str, root: &Path) -> Result<()> {
        self.prepare()?;
        run_logged(self.command("apt-get").args(["download", package]), self.log)
            .with_context(|| format!("apt cannot fetch {package}"))?;
        fs::create_dir_all(root)?;
        let name = package.split('=').next().unwrap_or(package);
        let mut found = false;
        for entry in fs::read_dir(self.folder)? {
            let file = entry?.path();
            if file.file_name().unwrap_or_default().to_string_lossy().starts_with(&format!("{name}_")) {
                unpack(&file, root, self.log)?;
                fs::remove_file(&file)?;
                found = true;
            }
        }
        ensure!(found, "apt left no {name}");
        Ok(())
    }

    /// Unpacks packages without what they depend on, below a folder; once.
    pub fn unpack_each_alone(&self, packages: &[&str], root: &Path) -> Result<()> {
        let complete = root.join(".complete");
        if complete.exists() {
            return Ok(());
        }
        packages.iter().try_for_each(|package| self.unpack_alone(package, root))?;
        Ok(fs::write(complete, "")?)
    }

    /// What `apt-cache show` says of a package.
    pub fn show(&self, package: &str) -> Result<String> {
        self.prepare()?;
        read_output(self.command("apt-cache").args(["show", package]))
    }
}

fn unpack(package: &Path, root: &Path, log: &Path) -> Result<()> {
    run_logged(Command::new("dpkg-deb").arg("--extract").arg(package).arg(root), log)
}
