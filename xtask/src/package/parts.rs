//! What is compiled into the product: the list of parts (an SBOM in CycloneDX's JSON) and the licences that have to come along.
//!
//! cargo says which crates these are, for the program and for the BPF object: macros and what only builds is left out, as nothing of it is in
//! the files. Leaves out the C library, which is the machine's.

use crate::command::read_output;
use crate::target::Target;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// How a crate's files about licences begin.
const LICENCES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// The crates, by name and version, as cargo's metadata has them.
#[derive(Debug)]
pub(crate) struct Parts {
    crates: BTreeMap<(String, String), Value>,
    /// `rustc 1.95.0 (…)`, whose standard library is inside too.
    compiler: String,
    checksums: BTreeMap<(String, String), String>,
}

impl Parts {
    /// Asks cargo.
    pub(crate) fn find(workspace: &Workspace, target: Target) -> Result<Self> {
        let wanted = names_and_versions(workspace, target)?;
        let metadata =
            read_output(workspace.cargo().args(["metadata", "--locked", "--format-version", "1"]))?;
        let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
        let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
        // A crate without a source is one of this project's own.
        let foreign = packages.iter().filter(|package| package["source"].is_string());
        let keyed =
            foreign.map(|package| ((text(package, "name"), text(package, "version")), package.clone()));
        let crates: BTreeMap<_, _> = keyed.filter(|(key, _)| wanted.contains(key)).collect();
        ensure!(!crates.is_empty(), "cargo names no crates");
        let compiler = read_output(Command::new("rustc").arg("--version").current_dir(workspace.root()))?;
        let lock = fs::read_to_string(workspace.root().join("Cargo.lock")).context("Cargo.lock")?;
        Ok(Self { crates, compiler, checksums: checksums(&lock) })
    }

    /// How many crates.
    pub(crate) fn len(&self) -> usize {
        self.crates.len()
    }

    /// A bill of materials: CycloneDX 1.5, `https://cyclonedx.org/docs/1.5/json/`.
    pub(crate) fn sbom(&self, version: &str) -> Result<String> {
        let mut components: Vec<Value> =
            self.crates.iter().map(|(key, package)| self.component(key, package)).collect();
        let compiler = self.compiler.split_whitespace().nth(1).unwrap_or_default();
        components.push(json!({"type": "library", "name": "rust-std", "version": compiler, "licenses": [{"expression": "MIT OR Apache-2.0"}]}));
        let own = json!({"type": "application", "bom-ref": "energy-trace", "name": "energy-trace", "version": version,
            "licenses": [{"expression": "MIT OR Apache-2.0"}]});
        let bom = json!({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": own}, "components": components});
        Ok(serde_json::to_string_pretty(&bom)? + "\n")
    }

    fn component(&self, key: &(String, String), package: &Value) -> Value {
        let (name, version) = key;
        let purl = format!("pkg:cargo/{name}@{version}");
        let mut component =
            json!({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl});
        if let Some(licence) = package["license"].as_str() {
            // Before SPDX expressions, crates wrote a slash for "or".
            component["licenses"] = json!([{"expression": licence.replace('/', " OR ").replace("  ", " ")}]);
        }
        if let Some(sum) = self.checksums.get(key) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        component
    }

    /// Every licence text that a crate brings, each once, below the crates that bring it.
    pub(crate) fn notices(&self) -> Result<String> {
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut out = format!(
            "Parts of other people in energy-trace, and their licences.\n\n{}: its standard library, MIT OR Apache-2.0\n",
            self.compiler
        );
        for ((name, version), package) in &self.crates {
            writeln!(out, "{name} {version}: {}", package["license"].as_str().unwrap_or("see below"))?;
            let manifest = text(package, "manifest_path");
            let folder = Path::new(&manifest).parent().context("a manifest lies in a folder")?;
            for licence in licences_in(folder)? {
                texts.entry(licence).or_default().push(format!("{name} {version}"));
            }
        }
        for (licence, crates) in texts {
            write!(out, "\n{}\n{}\n\n{}\n", "-".repeat(72), crates.join(", "), licence.trim_end())?;
        }
        Ok(out)
    }
}

fn text(package: &Value, key: &str) -> String {
    package[key].as_str().unwrap_or_default().to_owned()
}

/// What cargo compiles into the files: `name v1.2.3` a line.
fn names_and_versions(workspace: &Workspace, target: Target) -> Result<BTreeSet<(String, String)>> {
    let mut found = BTreeSet::new();
    let built = [
        ("energy-trace", target.triple()),
        ("energy-trace-cupti", target.triple()),
        ("tracer-ebpf", "bpfel-unknown-none"),
    ];
    for (package, target) in built {
        let mut tree = workspace.cargo();
        tree.args(["tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none"]);
        let listed = read_output(tree.args(["--package", package, "--target", target]))?;
        found.extend(listed.lines().filter_map(parse_line));
    }
    Ok(found)
}

/// `name v1.2.3 (*)`.
fn parse_line(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    Some((name.to_owned(), version.to_owned()))
}

/// SHA-256 of each crate's archive, of a `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |entry: &str, key: &str| {
        let line = entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    let entries = lock.split("[[package]]").skip(1);
    let of =
        |entry: &str| Some(((value(entry, "name")?, value(entry, "version")?), value(entry, "checksum")?));
    entries.filter_map(of).collect()
}

/// Texts of the licence files in a crate's folder.
fn licences_in(folder: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && LICENCES.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files
        .iter()
        .filter_map(|file| fs::read(file).ok())
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{Parts, checksums, parse_line};
    use serde_json::{Value, json};

    /// cargo's two outputs are read as they are written.
    #[test]
    fn cargos_words() {
        assert_eq!(parse_line("nix v0.31.1 (*)"), Some(("nix".into(), "0.31.1".into())));
        assert_eq!(parse_line(""), None);
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1\"\n";
        assert_eq!(
            checksums(lock).into_iter().collect::<Vec<_>>(),
            [(("a".into(), "1.0".into()), "ff".into())]
        );
    }

    /// The list of parts has each crate with its sum and an SPDX expression; each licence text stands once.
    #[test]
    fn parts_and_licences() {
        let folder = tempfile::tempdir().unwrap();
        let mut crates = std::collections::BTreeMap::new();
        for name in ["a", "b"] {
            let home = folder.path().join(name);
            std::fs::create_dir(&home).unwrap();
            std::fs::write(home.join("license-mit.txt"), "Do as you like.").unwrap();
            let package = json!({"license": "MIT/Apache-2.0", "manifest_path": home.join("Cargo.toml")});
            crates.insert((name.to_owned(), "1.0".to_owned()), package);
        }
        let sums = [(("a".to_owned(), "1.0".to_owned()), "ff".to_owned())].into();
        let parts = Parts { crates, compiler: "rustc 1.95.0 (x)".into(), checksums: sums };
        let bom: Value = serde_json::from_str(&parts.sbom("7").unwrap()).unwrap();
        assert_eq!(bom["metadata"]["component"]["version"], "7");
        assert_eq!(bom["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bom["components"][0]["hashes"][0]["content"], "ff");
        assert_eq!(bom["components"][2]["version"], "1.95.0");
        let notices = parts.notices().unwrap();
        assert_eq!(notices.matches("Do as you like.").count(), 1);
        assert!(notices.contains("a 1.0, b 1.0"), "{notices}");
    }
}
