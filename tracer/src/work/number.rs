//! A number in a text that anybody may have written.
//!
//! Leaves out where the text comes from.

use energy_trace_model::recording::record::{WorkFailure, WorkUnits};

/// Longest word that may be a number.
const MOST: usize = 64;

/// A word as a number of units: decimal, from 0 on, and such that units can be told apart.
pub(super) fn units(word: &str) -> Result<WorkUnits, WorkFailure> {
    let is_decimal = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let number = Some(word).filter(|word| word.len() <= MOST && word.bytes().all(is_decimal));
    let number = number.and_then(|word| word.parse().ok()).and_then(WorkUnits::from_number);
    number.ok_or(WorkFailure::NoNumber)
}

/// The first word of a text.
pub(super) fn first_word(text: &[u8]) -> Result<WorkUnits, WorkFailure> {
    let text = std::str::from_utf8(text).map_err(|_| WorkFailure::NoNumber)?;
    units(text.split_whitespace().next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{WorkFailure, WorkUnits, first_word, units};

    /// Decimal numbers from 0 on are taken, as counters write them.
    #[test]
    fn numbers() {
        for (word, value) in
            [("0", 0.0), ("42", 42.0), ("1.5e3", 1500.0), ("+7", 7.0), ("0.25", 0.25), ("9e12", 9e12)]
        {
            assert_eq!(units(word), Ok(WorkUnits::from_number(value).unwrap()), "{word}");
        }
        assert_eq!(first_word(b"  17 tokens\n"), Ok(WorkUnits::whole(17)));
    }

    /// What cannot be counted with is no number: below zero, endless, none, too large, or no text at all.
    #[test]
    fn no_numbers() {
        let long = "1".repeat(65);
        for word in [
            "", "-1", "nan", "NaN", "inf", "-inf", "1e999", "1e19", "0x10", "1,234", "1_000", "١٢", "5\u{0}",
            &long,
        ] {
            assert_eq!(units(word), Err(WorkFailure::NoNumber), "{word:?}");
        }
        for text in [&b""[..], b"\xff\xfe7", b"\n \n", b"step 7"] {
            assert_eq!(first_word(text), Err(WorkFailure::NoNumber));
        }
    }
}
