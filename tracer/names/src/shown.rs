//! Names as they may be shown: what a terminal would obey, and what nobody would see, is written out (`\x1b`, `\u{202e}`).
//!
//! Programs choose the names of their processes, threads, functions and files, and those of everybody are shown. All other text is as it is,
//! letters of any script too. A backslash is not doubled: a name that holds these words already looks like one that was escaped. Leaves
//! out separators of formats (`folded.rs`) and XML (`flamegraph.rs`).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character moves the cursor, changes the order of others, or cannot be seen: controls (Cc), format characters (Cf), separators of
/// lines and paragraphs (Zl, Zp), and what Unicode 16 lets a renderer ignore (`Default_Ignorable_Code_Point`); and the two last of each
/// plane, which are no characters and break XML.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
        || c as u32 & 0xfffe == 0xfffe
}

/// The text with such characters written out.
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.contains(is_hidden) { Cow::Owned(escaped(text, is_hidden)) } else { Cow::Borrowed(text) }
}

/// A name of the kernel's as text that may be shown, another one for each name: what is no UTF-8 is written
/// out too, and a backslash where it would look like the begin of such a word. systemd's own `\x2d` stays.
pub fn exact(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            let is_ours = c == '\\' && begins_a_word(rest);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            out += &escaped(c.encode_utf8(&mut [0; 4]), |c| is_ours || is_hidden(c));
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
        rest = rest.get(chunk.invalid().len()..).unwrap_or_default();
    }
    out
}

/// The same of each line.
pub fn exact_lines(text: &[u8]) -> String {
    text.split(|byte| *byte == b'\n').map(exact).collect::<Vec<_>>().join("\n")
}

/// Whether text reads as a word that `exact` writes.
fn begins_a_word(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"\\x").and_then(|digits| digits.get(..2));
    let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
    text.starts_with(b"\\u{") || byte.is_some_and(|byte| matches!(byte, 0..=0x1f | b'\\' | 0x7f..))
}

/// The same for text of several lines, whose ends stay.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    let hidden = |c| c != '\n' && is_hidden(c);
    if text.contains(hidden) { Cow::Owned(escaped(text, hidden)) } else { Cow::Borrowed(text) }
}

fn escaped(text: &str, hidden: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Writing to a string does not fail.
        let _ = match c {
            c if !hidden(c) => out.write_char(c),
            c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    out
}

/// JSON with such characters as its own `\u202e`; those below the space are that already, and the line ends between values stay.
pub fn shown_json(json: &str) -> Cow<'_, str> {
    let hidden = |c: char| c >= '\u{7f}' && is_hidden(c);
    if !json.contains(hidden) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{exact, shown, shown_json, shown_lines};
    use std::borrow::Cow;
    use std::collections::BTreeSet;

    /// Names that differ in what cannot be shown, or that look as if they were written out already, are
    /// different; usual ones are as they are.
    #[test]
    fn exact_names() {
        let pieces: [&[u8]; 16] = [
            b"a",
            b"x",
            b"1",
            b"b",
            b"\\",
            b"{",
            b"u",
            b"5",
            b"c",
            b"\x1b",
            b"\xff",
            b"\xe2",
            "\u{202e}".as_bytes(),
            b"\xc3\xa9",
            b"}",
            b"\x7f",
        ];
        let mut names: BTreeSet<Vec<u8>> = BTreeSet::from([Vec::new()]);
        for _ in 0..4 {
            let longer = |name: &Vec<u8>| pieces.map(|piece| [name.as_slice(), piece].concat());
            let more: Vec<Vec<u8>> = names.iter().flat_map(longer).collect();
            names.extend(more);
        }
        names.extend([b"a\x1b".to_vec(), b"a\\x1b".to_vec(), b"a\\x5cx1b".to_vec(), b"\\u{202e}".to_vec()]);
        let written: BTreeSet<String> = names.iter().map(|name| exact(name)).collect();
        assert_eq!(written.len(), names.len());
        assert!(written.iter().all(|name| shown(name) == *name));
        for usual in ["/system.slice/dev-disk-by\\x2duuid.device", "/kubepods/podé"] {
            assert_eq!(exact(usual.as_bytes()), usual);
        }
        assert_eq!(exact(b"a\\x1b\x1b\xff"), "a\\x5cx1b\\x1b\\xff");
    }

    /// Escapes, controls of both sets, marks of direction and what has no width are written out; names of people are not.
    #[test]
    fn what_is_written_out() {
        assert_eq!(shown("a\x1b[31mb\x07"), "a\\x1b[31mb\\x07");
        assert_eq!(
            shown("\u{9b}2J\u{202e}x\u{200b}\u{2028}\n\x7f"),
            "\\u{9b}2J\\u{202e}x\\u{200b}\\u{2028}\\x0a\\x7f"
        );
        assert_eq!(shown("\u{fffe}\u{10ffff}"), "\\u{fffe}\\u{10ffff}");
        assert_eq!(shown_lines("a\x1b\nb\r"), "a\\x1b\nb\\x0d");
        for name in
            ["größe", "短い名前", "Ωμέγα", "std::vector<int>&&", "C:\\x1b", "עברית", "é\u{301}", "\u{fffd}"]
        {
            assert!(matches!(shown(name), Cow::Borrowed(same) if same == name), "{name}");
        }
    }

    /// The JSON means the same, and holds nothing that is hidden.
    #[test]
    fn json_means_the_same() {
        let text = "a\x1b\x7f\u{9b}\u{202e}\u{e0041}\u{fffe}é\"\\";
        let json = serde_json::to_string_pretty(&vec![text]).unwrap();
        let safe = shown_json(&json);
        assert!(!safe.replace('\n', "").contains(super::is_hidden), "{safe}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [text]);
    }
}
