//! Debian packages: which are there, which can be had, and installing them with the least privilege that works.
//!
//! Package lists are fetched only when they do not know a package or an install finds them stale.

use crate::command::{find, is_root, read_output, run_logged};
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// A package and what it is wanted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// Debian's name of it.
    pub(crate) name: String,
    /// What it is wanted for, in a few words.
    pub(crate) why: &'static str,
}

/// A package and its reason.
pub(crate) fn package(name: &str, why: &'static str) -> Package {
    Package { name: name.to_owned(), why }
}

/// Whether this machine has apt at all.
pub(crate) fn is_here() -> bool {
    find("apt-get").is_some() && find("dpkg-query").is_some()
}

/// Those of `packages` that are not installed; all of them where there is no dpkg.
fn missing(packages: &[Package]) -> Vec<Package> {
    packages.iter().filter(|package| !is_installed(&package.name)).cloned().collect()
}

fn is_installed(name: &str) -> bool {
    read_output(Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", name]))
        .is_ok_and(|status| status == "installed")
}

/// Whether apt can install every one of `names`. Fetches the package lists when they do not know one and this user may.
pub(crate) fn can_install(names: &[&str], log: &Path) -> bool {
    if !is_here() {
        return false;
    }
    let known = || names.iter().all(|name| is_known(name));
    known() || (privileged(&["apt-get"]).is_some() && update(log).is_ok() && known())
}

/// Whether the package lists name a version of `name`.
fn is_known(name: &str) -> bool {
    let policy =
        read_output(Command::new("apt-cache").args(["policy", name]).env("LC_ALL", "C")).unwrap_or_default();
    parse_candidate(&policy).is_some()
}

/// The version that `apt-cache policy` would install.
fn parse_candidate(policy: &str) -> Option<&str> {
    policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate: "))
        .filter(|version| *version != "(none)")
}

/// Installs those of `packages` that are missing, and says so first; without what they merely recommend. Lists that are stale or
/// empty are fetched, once.
pub(crate) fn install(packages: &[Package], log: &Path) -> Result<()> {
    let packages = &missing(packages);
    if packages.is_empty() {
        return Ok(());
    }
    if !is_here() || privileged(&["apt-get"]).is_none() {
        let because =
            if is_here() { "this user is not root and there is no sudo" } else { "there is no apt here" };
        bail!(by_hand(packages, because));
    }
    eprintln!(
        "setup: installing Debian packages (all output in {}):\n{}",
        log.display(),
        listing(packages).trim_end()
    );
    if packages.iter().all(|package| is_known(&package.name)) && install_once(packages, log).is_ok() {
        return Ok(());
    }
    update(log)
        .and_then(|()| install_once(packages, log))
        .with_context(|| by_hand(packages, "apt-get failed"))
}

fn install_once(packages: &[Package], log: &Path) -> Result<()> {
    let mut command = apt_get()?;
    command
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages.iter().map(|package| &package.name));
    run_logged(&mut command, log)
}

fn update(log: &Path) -> Result<()> {
    eprintln!("setup: fetching the package lists (apt-get update)");
    run_logged(apt_get()?.arg("update"), log)
}

/// `apt-get` that asks nothing and waits for another apt instead of failing.
fn apt_get() -> Result<Command> {
    let mut command =
        privileged(&["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"])
            .context("this user is not root and there is no sudo")?;
    command.env("LC_ALL", "C.UTF-8");
    Ok(command)
}

/// The command as root: directly, or through sudo where there is one.
fn privileged(words: &[&str]) -> Option<Command> {
    let (first, rest) = words.split_first()?;
    if is_root() {
        let mut command = Command::new(first);
        command.args(rest);
        return Some(command);
    }
    let mut command = Command::new(find("sudo")?);
    command.args(words);
    Some(command)
}

/// A line for each package, with its reason.
fn listing(packages: &[Package]) -> String {
    packages.iter().map(|Package { name, why }| format!("    {name:<26} {why}\n")).collect()
}

/// What to type where setup cannot install by itself.
fn by_hand(packages: &[Package], because: &str) -> String {
    let mut text = format!(
        "these Debian packages are missing and setup cannot install them ({because}):\n{}",
        listing(packages)
    );
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    text.push_str("On Debian 12 run this as root, then the same task again:\n    apt-get update\n    apt-get install --no-install-recommends ");
    text.push_str(&names.join(" "));
    text
}

#[cfg(test)]
mod tests {
    use super::{by_hand, package, parse_candidate};

    /// A package that the lists do not know has no candidate, in either of the two ways in which apt says so.
    #[test]
    fn a_package_without_a_candidate_is_unknown() {
        let known =
            "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n  Version table:\n";
        assert_eq!(parse_candidate(known), Some("1.96.0+dfsg1-1~deb12u2"));
        assert_eq!(parse_candidate("libfoo:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(parse_candidate(""), None);
    }

    /// The advice holds every package and a line that can be pasted.
    #[test]
    fn the_advice_can_be_pasted() {
        let text = by_hand(&[package("gcc", "links"), package("fuse3", "mounts")], "no apt");
        assert!(text.ends_with("apt-get install --no-install-recommends gcc fuse3"), "{text}");
        assert!(text.contains("links") && text.contains("no apt"), "{text}");
    }
}
