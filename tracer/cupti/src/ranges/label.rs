//! A range's name, with its domain before it: `Loader:read batch`. Bounded, whatever the program hands over.
//!
//! Leaves out numbers (`paths`).

use std::ffi::{c_char, c_void};

/// Bytes of a label, its zero included.
pub const LABEL_BYTES: usize = 96;
/// Stands for names and levels that find no room.
pub(super) const MORE: &str = "[more ranges]";
/// Names that are given to what has none: a program's own of that name stands in quotes.
pub const OURS: [&str; 6] = [
    MORE,
    "[unknown range]",
    "[range without a name]",
    "[span without attributes]",
    "[not in this trace]",
    "[outside of ranges]",
];
/// Behind names, how PyTorch counts (`torch/csrc/profiler/util.cpp`, `getNvtxStr`).
const NUMBERS: [&[u8]; 2] = [b", seq = ", b", op_id = "];
/// Behind a label that was cut.
const CUT: &[u8] = "…".as_bytes();
const MOST: usize = LABEL_BYTES - 1;

/// A text without a zero in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Label {
    bytes: [u8; LABEL_BYTES],
    length: usize,
}

impl Label {
    /// Without a name.
    pub(super) const EMPTY: Self = Self { bytes: [0; LABEL_BYTES], length: 0 };

    /// The text, cut where it is too long.
    pub(super) fn new(text: &[u8]) -> Self {
        let mut label = Self::EMPTY;
        label.add(text);
        label
    }

    /// What a program calls something.
    fn of_program(text: &[u8]) -> Self {
        let text = without_numbers(text);
        if !text.ends_with(b"]") || !OURS.iter().any(|ours| text.ends_with(ours.as_bytes())) {
            return Self::new(text);
        }
        let mut label = Self::new(b"\"");
        label.add(text);
        label.add(b"\"");
        label
    }

    /// A name in a domain; that of the default domain is empty.
    pub(super) fn within(domain: &Self, name: &[u8]) -> Self {
        if domain.length == 0 {
            return Self::new(name);
        }
        let mut label = *domain;
        label.add(b":");
        label.add(name);
        label
    }

    /// The text that a zero ends there; none where nothing is.
    ///
    /// # Safety
    /// Null, or the address of such a text, as the APIs of ranges ask for it.
    pub(super) unsafe fn from_chars(text: *const c_char) -> Self {
        if text.is_null() {
            return Self::EMPTY;
        }
        // SAFETY: the caller's, and nothing behind the zero is looked at.
        let bytes = unsafe {
            let length = libc::strnlen(text, LABEL_BYTES);
            std::slice::from_raw_parts(text.cast::<u8>(), length)
        };
        Self::of_program(bytes)
    }

    /// The same of wide characters.
    ///
    /// # Safety
    /// As of `from_chars`.
    pub(super) unsafe fn from_wide(text: *const libc::wchar_t) -> Self {
        let mut label = Self::EMPTY;
        if text.is_null() {
            return label;
        }
        for at in 0..LABEL_BYTES {
            // SAFETY: the caller's: no zero came before it.
            let wide = unsafe { text.add(at).read_unaligned() };
            if wide == 0 {
                break;
            }
            let letter = u32::try_from(wide).ok().and_then(char::from_u32);
            label.add(letter.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut [0; 4]).as_bytes());
        }
        Self::of_program(label.bytes())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Its address, for who reads up to the zero.
    pub(super) fn address(&self) -> u64 {
        self.bytes.as_ptr().cast::<c_void>() as u64
    }

    fn add(&mut self, text: &[u8]) {
        let room = MOST.saturating_sub(self.length);
        if text.len() <= room {
            self.put(text);
            return;
        }
        // A letter is not cut in its middle.
        self.put(text.get(..room).unwrap_or_default());
        self.length = MOST - CUT.len();
        while self.length > 0 && self.bytes.get(self.length).is_some_and(|byte| byte & 0xc0 == 0x80) {
            self.length -= 1;
        }
        self.put(CUT);
        if let Some(rest) = self.bytes.get_mut(self.length..) {
            rest.fill(0);
        }
    }

    fn put(&mut self, text: &[u8]) {
        let end = self.length.saturating_add(text.len());
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(text);
            self.length = end;
        }
    }
}

/// The name without what PyTorch's `emit_nvtx` puts behind it: each of its ranges would be one of a name of its own.
fn without_numbers(text: &[u8]) -> &[u8] {
    let commas = text.iter().enumerate().filter(|(_, byte)| **byte == b',').map(|(at, _)| at);
    let mut parts = commas.filter_map(|at| text.split_at_checked(at));
    let numbered = |rest: &[u8]| NUMBERS.iter().any(|number| rest.starts_with(number));
    parts.find(|(_, rest)| numbered(rest)).map_or(text, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::{LABEL_BYTES, Label, OURS};
    use std::ffi::CString;

    fn text(label: &Label) -> &str {
        assert_eq!(label.bytes.iter().position(|&byte| byte == 0), Some(label.length));
        std::str::from_utf8(label.bytes()).unwrap()
    }

    /// A domain stands before the name; what is too long is cut between two letters, and says so.
    #[test]
    fn bounded() {
        assert_eq!(text(&Label::within(&Label::new(b"Loader"), b"read")), "Loader:read");
        assert_eq!(text(&Label::within(&Label::EMPTY, b"read")), "read");
        for length in 40..60 {
            let long = Label::new("é".repeat(length).as_bytes());
            let is_cut = 2 * length >= LABEL_BYTES;
            assert_eq!(text(&long).ends_with('…'), is_cut, "{length}");
            assert!(text(&long).trim_end_matches('…').chars().all(|letter| letter == 'é'));
            let twice = Label::within(&long, b"x");
            assert_eq!(text(&twice).ends_with(":x"), 2 * length + 2 < LABEL_BYTES, "{}", text(&twice));
        }
        assert_eq!(text(&Label::new(&[b'a'; 1 << 20])).len(), LABEL_BYTES - 1);
    }

    /// A program's own range is not taken for what stands for many.
    #[test]
    fn not_ours() {
        for ours in OURS {
            let chars = CString::new(ours).unwrap();
            let wide: Vec<libc::wchar_t> =
                ours.chars().chain(['\0']).map(|letter| letter as libc::wchar_t).collect();
            // SAFETY: both end with a zero.
            let labels = unsafe { [Label::from_chars(chars.as_ptr()), Label::from_wide(wide.as_ptr())] };
            for label in labels {
                assert_eq!(text(&label), format!("\"{ours}\""));
            }
        }
    }

    /// Texts of C in both kinds of letters, and none.
    #[test]
    fn of_c() {
        let wide: Vec<libc::wchar_t> = "grün\0x".chars().map(|letter| letter as libc::wchar_t).collect();
        // SAFETY: each ends with a zero, or is null.
        unsafe {
            assert_eq!(text(&Label::from_chars(c"read".as_ptr())), "read");
            assert_eq!(text(&Label::from_wide(wide.as_ptr())), "grün");
            assert_eq!(text(&Label::from_wide([-1, 0].as_ptr())), "\u{fffd}");
            assert_eq!(text(&Label::from_chars(std::ptr::null())), "");
            assert_eq!(text(&Label::from_wide(std::ptr::null())), "");
        }
    }

    /// What PyTorch counts is none of the name; other commas and numbers are.
    #[test]
    fn of_pytorch() {
        for (of_program, name) in [
            (c"aten::mm, seq = 7, op_id = 12", "aten::mm"),
            (c"load a, b, op_id = 1, sizes = [[2, 3]]", "load a, b"),
            (c"batch, 7", "batch, 7"),
        ] {
            // SAFETY: texts of C.
            assert_eq!(text(&unsafe { Label::from_chars(of_program.as_ptr()) }), name);
        }
    }
}
