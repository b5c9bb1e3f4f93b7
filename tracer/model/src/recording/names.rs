//! How long a name may be: programs choose their functions' names, and a recording keeps each.

use std::borrow::Cow;

/// Bytes of a name that are kept.
pub const LONGEST_NAME: usize = 4096;
/// What stands at the end of a name that was cut.
const MORE: char = '…';

/// A name of `LONGEST_NAME` bytes at the most, whose end says that there was more.
pub fn cut(mut name: String) -> String {
    if name.len() > LONGEST_NAME {
        name.truncate(kept(&name).len());
        name.push(MORE);
        name.shrink_to_fit();
    }
    name
}

/// The same of a name that somebody else keeps, of which the rest is never copied.
pub fn cut_of(name: &str) -> Cow<'_, str> {
    if name.len() > LONGEST_NAME { Cow::Owned(format!("{}{MORE}", kept(name))) } else { Cow::Borrowed(name) }
}

/// The same of bytes, which need not be text.
pub fn cut_of_bytes(name: &[u8]) -> String {
    // One that is too long stays so: no byte becomes less than one.
    let enough = name.get(..=LONGEST_NAME).unwrap_or(name);
    cut(String::from_utf8_lossy(enough).into_owned())
}

/// Whether a name was cut.
pub fn is_cut(name: &str) -> bool {
    name.len() > LONGEST_NAME - 2 * MORE.len_utf8() && name.ends_with(MORE)
}

fn kept(name: &str) -> &str {
    let end = name.floor_char_boundary(LONGEST_NAME - MORE.len_utf8());
    name.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NAME, cut, cut_of, cut_of_bytes, is_cut};

    /// A name is cut at a character, says so, and what fits stays as it is, however it came.
    #[test]
    fn long_names() {
        for letter in ["n", "é", "語", "😀"] {
            let whole = letter.repeat(LONGEST_NAME / letter.len());
            assert!(!is_cut(&whole) && cut(whole.clone()) == whole);
            let long = letter.repeat(LONGEST_NAME + 1);
            let short = cut(long.clone());
            assert!(is_cut(&short) && short.len() <= LONGEST_NAME, "{}", short.len());
            assert_eq!(cut_of(&long), short);
            assert_eq!(cut_of_bytes(long.as_bytes()), short);
        }
        let long = cut("n".repeat(LONGEST_NAME + 1));
        assert!(is_cut(&long) && long.len() == LONGEST_NAME);
        assert!(is_cut(&cut_of_bytes(&[0xff; 32 << 20])));
    }
}
