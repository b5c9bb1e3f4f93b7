//! What is compiled for the guest: the chain of `chain.rs`, for another processor also with signed return addresses and with another C library, and
//! a Go program.

use super::packages::More;
use crate::chain;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::run;
use xtask::target::Target;
use xtask::workspace::Workspace;

/// Has return addresses signed.
const SIGNED: &str = "-mbranch-protection=standard";

/// Programs for `/work` in the guest, by name.
pub(crate) fn build(
    workspace: &Workspace,
    target: Target,
    more: Option<&More>,
) -> Result<Vec<(&'static str, PathBuf)>> {
    let folder = workspace.target().join("workloads").join(target.arch());
    let compiler = target.tool("gcc");
    let chain = |words: &[&str], place: &str| {
        chain::build_with(&compiler, words, &folder.join(place)).map(|chain| chain.program)
    };
    let mut programs = vec![("chain", chain(&[], "")?)];
    if let Some(more) = more {
        programs.push(("signed", chain(&[SIGNED], "signed")?));
        let words = musl(&more.musl, target, &folder)?;
        programs.push(("musl", chain(&[words[0].as_str(), words[1].as_str()], "musl")?));
        programs.push(("go", go(workspace, &more.go, target, &folder)?));
    }
    Ok(programs)
}

/// Words by which gcc takes this C library: Debian's own, whose folders are elsewhere here.
fn musl(root: &Path, target: Target, folder: &Path) -> Result<[String; 2]> {
    let place = format!("{}-linux-musl", target.arch());
    let specs = root.join("usr/lib").join(&place).join("musl-gcc.specs");
    let text = fs::read_to_string(&specs).with_context(|| format!("cannot read {}", specs.display()))?;
    let moved = folder.join("musl-gcc.specs");
    fs::write(&moved, text.replace("/usr/", &format!("{}/usr/", root.display())))?;
    Ok([format!("-specs={}", moved.display()), format!("-L{}", root.join("lib").join(place).display())])
}

/// A program of `tests/languages`.
fn go(workspace: &Workspace, root: &Path, target: Target, folder: &Path) -> Result<PathBuf> {
    let root = root.join("usr/lib/go-1.19");
    let arch = if target == Target::Aarch64 { "arm64" } else { "amd64" };
    let program = folder.join("go");
    let mut build = Command::new(root.join("bin/go"));
    build.args(["build", "-o"]).arg(&program).arg(workspace.root().join("tests/languages/work.go"));
    build.envs([("GOOS", "linux"), ("GOARCH", arch), ("CGO_ENABLED", "0"), ("GOPROXY", "off")]);
    for (name, place) in [("GOCACHE", "go-cache"), ("GOPATH", "go-path")] {
        build.env(name, folder.join(place));
    }
    run(build.env("GOROOT", root))?;
    Ok(program)
}
