//! The packages themselves, each by its format's own tool: `tar`, `dpkg-deb`, `rpmbuild`, `wheel pack`.
//!
//! `cargo-deb` and `cargo-generate-rpm` would have to be compiled first, and the formats' own tools are one `apt-get install` away. Leaves
//! out what is inside (`tree.rs`).

use super::floor::Glibc;
use super::python;
use super::tree::{DOC, LIBRARY, SHARE, copy_tree, files_below, install};
use crate::command::{read_output, run, run_logged};
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SUMMARY: &str = "Shows which functions of a program used the energy";
const DESCRIPTION: &str = "energy-trace runs a program and shows its joules per function, with native and \
                           Python frames in one stack. The program stays as it is: eBPF samples its stacks in the kernel.";
const LICENSE: &str = "MIT OR Apache-2.0";

/// What every format is told.
#[derive(Debug)]
pub(crate) struct Release<'a> {
    pub(crate) workspace: &'a Workspace,
    /// Whose machine code it is.
    pub(crate) target: Target,
    /// The folder with everything, as below `/usr`.
    pub(crate) tree: &'a Path,
    /// Where packages go, and where each format has a folder to work in.
    pub(crate) out: &'a Path,
    pub(crate) version: &'a str,
    pub(crate) glibc: Glibc,
    /// Seconds since 1970 that every file's time is set to: the same source makes the same packages.
    pub(crate) time: u64,
    /// PyPI's tools.
    pub(crate) tools: &'a Path,
}

impl Release<'_> {
    /// `NAME-VERSION-ARCH-linux.tar.gz` of `folder`, whose files lie in a folder `NAME-VERSION`.
    pub(crate) fn tar(&self, folder: &Path, name: &str) -> Result<PathBuf> {
        let made = self.out.join(format!("{name}-{}-{}-linux.tar.gz", self.version, self.target.arch()));
        let mut tar = Command::new("tar");
        tar.args([
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--use-compress-program=gzip -9n",
        ]);
        tar.arg(format!("--mtime=@{}", self.time))
            .arg(format!("--transform=s,^\\.,{name}-{},", self.version));
        run(tar.arg("--create").arg("--file").arg(&made).arg("--directory").arg(folder).arg("."))?;
        Ok(made)
    }

    /// The Debian package.
    pub(crate) fn deb(&self) -> Result<PathBuf> {
        let folder = self.fresh("deb")?;
        copy_tree(self.tree, &folder.join("usr"))?;
        // Debian's zsh reads packages' completions from a folder of another name.
        let zsh = folder.join("usr/share/zsh");
        fs::rename(zsh.join("site-functions"), zsh.join("vendor-completions"))?;
        let doc = folder.join("usr").join(DOC);
        fs::write(doc.join("copyright"), self.copyright()?)?;
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            fs::remove_file(doc.join(licence))?; // both are in `copyright`
        }
        fs::create_dir(folder.join("DEBIAN"))?;
        fs::write(folder.join("DEBIAN/control"), self.control(&folder)?)?;
        fs::write(folder.join("DEBIAN/md5sums"), md5sums(&folder)?)?;
        let made = self.out.join(format!("energy-trace_{}-1_{}.deb", self.version, self.target.debian()));
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-Zxz", "--build"]).args([&folder, &made]);
        run_logged(build.env("SOURCE_DATE_EPOCH", self.time.to_string()), &self.workspace.log())?;
        Ok(made)
    }

    fn control(&self, folder: &Path) -> Result<String> {
        let bytes: u64 =
            files_below(folder)?.iter().filter_map(|file| file.metadata().ok()).map(|it| it.len()).sum();
        Ok(format!(
            "Package: energy-trace\nVersion: {}-1\nArchitecture: {}\nMaintainer: The energy-trace developers\n\
             Installed-Size: {}\nDepends: libc6 (>= {})\nSection: devel\nPriority: optional\n\
             Description: {SUMMARY}\n {DESCRIPTION}\n",
            self.version,
            self.target.debian(),
            bytes.div_ceil(1024),
            self.glibc
        ))
    }

    /// Debian's file about licences.
    fn copyright(&self) -> Result<String> {
        let mut text = format!(
            "energy-trace is under {LICENSE}. The crates that are compiled into it, with their licences: THIRD-PARTY.gz beside this file.\n"
        );
        for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
            write!(text, "\n{name}\n\n{}", fs::read_to_string(self.tree.join(DOC).join(name))?)?;
        }
        Ok(text)
    }

    /// The package of Fedora, RHEL and SUSE.
    pub(crate) fn rpm(&self) -> Result<PathBuf> {
        let folder = self.fresh("rpm")?;
        let spec = folder.join("energy-trace.spec");
        fs::write(&spec, self.spec()?)?;
        let mut build = Command::new("rpmbuild");
        build.arg("-bb").arg("--define").arg(format!("_topdir {}", folder.display()));
        build.args(["--define", "_build_id_links none", "--define", "debug_package %{nil}"]);
        // The files are finished: nothing is stripped, compressed or checked anew. Debian's rpmbuild knows no /usr/lib64, nor is it needed.
        build.args(["--define", "__os_install_post %{nil}", "--define", "_libdir /usr/lib"]);
        build.args([
            "--define",
            "clamp_mtime_to_source_date_epoch 1",
            "--define",
            "use_source_date_epoch_as_buildtime 1",
        ]);
        let arch = self.target.arch();
        build.args(["--define", "_buildhost localhost", "--target", arch]).arg(&spec);
        run_logged(build.env("SOURCE_DATE_EPOCH", self.time.to_string()), &self.workspace.log())?;
        let name = format!("energy-trace-{}-1.{arch}.rpm", self.version);
        let made = self.out.join(&name);
        fs::rename(folder.join("RPMS").join(arch).join(&name), &made).context("rpmbuild left no package")?;
        Ok(made)
    }

    fn spec(&self) -> Result<String> {
        let mut files = String::new();
        for file in files_below(self.tree)? {
            let path = file.strip_prefix(self.tree)?;
            let kind = if path.starts_with(DOC) { "%doc " } else { "" };
            writeln!(files, "{kind}/usr/{}", path.display())?;
        }
        Ok(format!(
            "Name: energy-trace\nVersion: {}\nRelease: 1\nSummary: {SUMMARY}\nLicense: {LICENSE}\nAutoReqProv: no\n\
             Requires: libc.so.6(GLIBC_{})(64bit)\n\n%description\n{DESCRIPTION}\n\n\
             %install\nmkdir -p %{{buildroot}}\ncp -a {} %{{buildroot}}/usr\n\n\
             %files\n%dir /usr/lib/energy-trace\n%dir /usr/{DOC}\n%dir /usr/{SHARE}\n%dir /usr/{SHARE}/agent\n%dir /usr/{SHARE}/sql\n{files}",
            self.version,
            self.glibc,
            self.tree.display()
        ))
    }

    /// What pip installs: the program goes where Python's scripts are, its Python package where others are, the rest below the environment's folder.
    pub(crate) fn wheel(&self) -> Result<PathBuf> {
        let folder = self.fresh("wheel")?;
        let name = format!("energy_trace-{}", self.version);
        let data = folder.join(format!("{name}.data"));
        install(&self.tree.join("bin/energy-trace"), &data.join("scripts/energy-trace"), 0o755)?;
        install(&self.tree.join(LIBRARY), &data.join("data").join(LIBRARY), 0o644)?;
        for share in ["man", "bash-completion", "zsh", "fish", "energy-trace"] {
            copy_tree(&self.tree.join("share").join(share), &data.join("data/share").join(share))?;
        }
        let info = folder.join(format!("{name}.dist-info"));
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY.gz"] {
            install(&self.tree.join(DOC).join(file), &info.join("licenses").join(file), 0o644)?;
        }
        python::lay_out(self.workspace, &folder, &info)?;
        fs::write(info.join("METADATA"), self.metadata()?)?;
        let tag = format!("manylinux_{}_{}_{}", self.glibc.major, self.glibc.minor, self.target.arch());
        let about = format!(
            "Wheel-Version: 1.0\nGenerator: cargo xtask package\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
        );
        fs::write(info.join("WHEEL"), about)?;
        let mut pack = Command::new(self.tools.join("wheel"));
        pack.arg("pack").arg(&folder).arg("--dest-dir").arg(self.out);
        run_logged(pack.env("SOURCE_DATE_EPOCH", self.time.to_string()), &self.workspace.log())?;
        Ok(self.out.join(format!("{name}-py3-none-{tag}.whl")))
    }

    fn metadata(&self) -> Result<String> {
        let readme = fs::read_to_string(self.tree.join(DOC).join("README.md"))?;
        Ok(format!(
            "Metadata-Version: 2.4\nName: energy-trace\nVersion: {}\nSummary: {SUMMARY}\nLicense-Expression: {LICENSE}\n\
             License-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\nLicense-File: THIRD-PARTY.gz\nRequires-Python: >=3.8\n\
             Classifier: Operating System :: POSIX :: Linux\nClassifier: Environment :: Console\n\
             Description-Content-Type: text/markdown\n\n{readme}",
            self.version
        ))
    }

    /// An empty folder for one format.
    fn fresh(&self, format: &str) -> Result<PathBuf> {
        let folder = self.out.join("work").join(format);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

/// Sums by which `dpkg --verify` finds changed files.
fn md5sums(folder: &Path) -> Result<String> {
    let mut files = files_below(&folder.join("usr"))?;
    for file in &mut files {
        *file = file.strip_prefix(folder)?.to_owned();
    }
    Ok(read_output(Command::new("md5sum").current_dir(folder).args(files))? + "\n")
}

/// `SHA256SUMS` of `files`, which lie in `out`.
pub(crate) fn write_sums(out: &Path, files: &[PathBuf]) -> Result<()> {
    let names = files.iter().filter_map(|file| file.file_name());
    let sums = read_output(Command::new("sha256sum").current_dir(out).args(names))?;
    Ok(fs::write(out.join("SHA256SUMS"), sums + "\n")?)
}
