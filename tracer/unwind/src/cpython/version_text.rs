//! The version of an interpreter that does not export it as a number (before 3.11): the text that `Py_GetVersion` builds its answer of.
//!
//! `Py_GetVersion` formats the constant `PY_VERSION` ("3.10.13") with build and compiler (Python/getversion.c). Its code loads the
//! constant's address; of the few addresses that it loads, exactly the one of a version's text is believed. Leaves out guessing: where
//! there is no such text, or are two, the version is unknown.

use super::layout::Version;
use super::memory::Source;
use crate::arch::load;

/// Bytes of the function that are read: it has about sixty.
const CODE_LIMIT: u64 = 256;
/// Longest version text, with its end: `3.10.13rc10+` and room.
const TEXT_LIMIT: usize = 16;

/// Reads the version of an interpreter whose `Py_GetVersion` is `size` bytes at `address`.
pub fn read_version(source: &impl Source, address: u64, size: u64) -> Option<Version> {
    let size = if size == 0 { CODE_LIMIT } else { size.min(CODE_LIMIT) };
    let code = source.bytes(address, size, CODE_LIMIT)?;
    let mut found: Vec<Version> = load::addresses(&code, address)
        .filter_map(|at| {
            let mut text = [0; TEXT_LIMIT];
            source.read(at, &mut text)?;
            parse_version(&text)
        })
        .collect();
    found.dedup();
    match found[..] {
        [version] => Some(version),
        _ => None,
    }
}

/// `3.10.13`, `3.9.0rc1`, `3.8.18+`, ended by a zero.
fn parse_version(text: &[u8]) -> Option<Version> {
    let end = text.iter().position(|&b| b == 0)?;
    let text = std::str::from_utf8(text.get(..end)?).ok()?;
    let mut parts = text.trim_end_matches('+').splitn(3, '.');
    let (major, minor) = (number(parts.next()?)?, number(parts.next()?)?);
    let last = parts.next()?;
    let digits = last.len() - last.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let micro = number(last.get(..digits)?)?;
    let stage = last.get(digits..)?;
    let (level, serial) = if stage.is_empty() {
        (0xf, 0)
    } else if let Some(serial) = stage.strip_prefix("rc") {
        (0xc, number(serial)?)
    } else if let Some(serial) = stage.strip_prefix('b') {
        (0xb, number(serial)?)
    } else {
        (0xa, number(stage.strip_prefix('a')?)?)
    };
    Some(Version { hex: major << 24 | minor << 16 | micro << 8 | level << 4 | serial & 0xf })
}

fn number(text: &str) -> Option<u32> {
    text.parse::<u8>().ok().map(u32::from)
}

#[cfg(test)]
mod tests {
    use super::{parse_version, read_version};
    use crate::cpython::tests::memory::Snapshot;

    /// `lea rdx, [rip+distance]`, twice, then texts.
    fn snapshot(first: &str, second: &str) -> Snapshot {
        let mut bytes = vec![0x48, 0x8d, 0x15, 0x39, 0, 0, 0, 0x4c, 0x8d, 0x05, 0x52, 0, 0, 0];
        bytes.resize(0x40, 0x90);
        bytes.extend(first.bytes());
        bytes.resize(0x60, 0);
        bytes.extend(second.bytes());
        bytes.resize(0x100, 0);
        Snapshot(bytes)
    }

    /// The version's text is found among what the function loads; none and two are no answer.
    #[test]
    #[cfg_attr(not(target_arch = "x86_64"), ignore = "x86-64's machine code")]
    fn text_that_the_code_loads() {
        let version = |a, b| read_version(&snapshot(a, b), 0x1000, 0x20).map(|v| v.to_string());
        assert_eq!(version("%.80s (%.80s)", "3.10.13").as_deref(), Some("3.10.13"));
        assert_eq!(version("3.9.18+", "3.9.18 (main, Nov").as_deref(), Some("3.9.18"));
        assert_eq!(version("%.80s", "main"), None);
        assert_eq!(version("3.8.1", "3.9.1"), None);
        assert_eq!(read_version(&Snapshot(Vec::new()), 0x1000, 0x20), None);
    }

    /// Texts of versions, and texts that look like one.
    #[test]
    fn texts() {
        let hex = |text: &[u8]| parse_version(text).map(|v| v.hex);
        assert_eq!(hex(b"3.8.18\0"), Some(0x0308_12f0));
        assert_eq!(hex(b"3.10.0rc2\0..."), Some(0x030a_00c2));
        assert_eq!(hex(b"2.7.18\0"), Some(0x0207_12f0));
        for text in
            [&b"3.8.18"[..], b"3.8\0", b"3.8.x\0", b"3.8.18 (main)\0", b"3.999.1\0", b"\0", b"3.8.1z1\0"]
        {
            assert_eq!(hex(text), None, "{text:?}");
        }
    }
}
