//! The oldest C library that a file runs with, as the file itself says.
//!
//! Leaves out other libraries: a package that needs one more than libc's own fails, by name.

use crate::target::Target;
use anyhow::{Context as _, Result, ensure};
use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

/// What packages promise at most. Debian 10 and RHEL 8 have it, and Debian 11 is newer. 2.17 would lack `memfd_create` (2.27).
pub(crate) const FLOOR: Glibc = Glibc { major: 2, minor: 28 };

/// Parts of glibc, beside the dynamic loader; what else is needed has to come with the package.
const LIBC: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"];

/// A version of the GNU C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The newest version of glibc that one of `files` asks for; an error where it is newer than [`FLOOR`], or where one needs another library.
pub(crate) fn check(files: &[&Path]) -> Result<Glibc> {
    let mut newest = Glibc { major: 2, minor: 2 };
    for file in files {
        newest = newest.max(check_one(file, FLOOR)?);
    }
    Ok(newest)
}

fn check_one(file: &Path, floor: Glibc) -> Result<Glibc> {
    let name = file.display();
    let bytes = fs::read(file).with_context(|| format!("cannot read {name}"))?;
    let version = newest_of(&bytes).with_context(|| format!("{name} names no version of glibc"))?;
    ensure!(
        version <= floor,
        "{name} needs glibc {version}, and packages promise {floor}: it was not linked against the old one"
    );
    let needed = needed(&bytes).with_context(|| format!("{name} is no shared ELF file"))?;
    let is_loader = |name: &str| Target::ALL.iter().any(|target| target.loader().0 == name);
    let is_own = |name: &str| LIBC.contains(&name) || is_loader(name);
    let foreign: Vec<_> = needed.iter().filter(|name| !is_own(name)).collect();
    ensure!(foreign.is_empty(), "{name} needs {foreign:?}, which a machine may lack");
    Ok(version)
}

/// Shared libraries that are loaded with the file.
fn needed(bytes: &[u8]) -> Result<BTreeSet<String>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let (entries, strings) = sections.dynamic(endian, bytes)?.context("nothing is dynamic")?;
    let strings = sections.strings(endian, bytes, strings)?;
    let mut names = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.d_tag(endian) == DT_NEEDED) {
        let at = u32::try_from(entry.d_val(endian))?;
        let name = strings.get(at).ok().context("a name is missing")?;
        names.insert(String::from_utf8_lossy(name).into_owned());
    }
    Ok(names)
}

/// The newest `GLIBC_x.y` of a symbol that is not the file's own.
fn newest_of(bytes: &[u8]) -> Result<Glibc> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let (mut needs, strings) = sections.gnu_verneed(endian, bytes)?.context("no versions")?;
    let strings = sections.strings(endian, bytes, strings)?;
    let mut newest = None;
    while let Some((_, mut symbols)) = needs.next()? {
        while let Some(symbol) = symbols.next()? {
            newest = newest.max(parse(symbol.name(endian, strings)?));
        }
    }
    newest.context("no symbol of glibc")
}

/// `GLIBC_2.28`; `None` for `GLIBC_PRIVATE` and other libraries' versions.
fn parse(version: &[u8]) -> Option<Glibc> {
    let version = std::str::from_utf8(version).ok()?.strip_prefix("GLIBC_")?;
    let mut numbers = version.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return None };
    Some(Glibc { major, minor })
}

#[cfg(test)]
mod tests {
    use super::{Glibc, check, check_one, parse};
    use std::path::Path;

    /// Versions are compared as numbers, not as text; what is no number is no version.
    #[test]
    fn versions() {
        assert!(parse(b"GLIBC_2.4") < parse(b"GLIBC_2.28"));
        assert_eq!(parse(b"GLIBC_2.2.5"), Some(Glibc { major: 2, minor: 2 }));
        assert_eq!((parse(b"GLIBC_PRIVATE"), parse(b"GCC_3.0")), (None, None));
    }

    /// This test itself is linked against the machine's own library and needs libgcc: no file of a package.
    #[test]
    fn what_is_too_new_or_needs_more_is_refused() {
        let own = std::env::current_exe().unwrap();
        let refused = |minor| check_one(&own, Glibc { major: 2, minor }).unwrap_err().to_string();
        assert!(refused(3).contains("and packages promise 2.3:"), "{}", refused(3));
        assert!(refused(999).contains("libgcc_s.so.1"), "{}", refused(999));
        assert!(check(&[Path::new(file!())]).is_err());
    }
}
