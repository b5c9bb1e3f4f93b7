//! A table of texts, each once, as the protobuf formats have it: the first one is empty.
//!
//! Texts enter as they may be shown, so that no viewer's terminal obeys one. Leaves out what they mean.

use energy_trace_names::shown::shown;
use std::collections::HashMap;

/// The table. `N` is the type of a position in it.
#[derive(Debug)]
pub(super) struct Texts<N> {
    pub(super) list: Vec<String>,
    known: HashMap<String, N>,
}

impl<N: Copy + Default + TryFrom<usize>> Texts<N> {
    /// With the empty text.
    pub(super) fn new() -> Self {
        Self { list: vec![String::new()], known: HashMap::from([(String::new(), N::default())]) }
    }

    /// The position of a text, new or old. What is beyond the type's range is the empty text: no machine's memory holds so many.
    pub(super) fn number(&mut self, text: &str) -> N {
        let text = shown(text);
        if let Some(&number) = self.known.get(text.as_ref()) {
            return number;
        }
        let Ok(number) = N::try_from(self.list.len()) else { return N::default() };
        self.list.push(text.clone().into_owned());
        self.known.insert(text.into_owned(), number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;

    /// Each text has one place, the empty one the first, and none holds what a terminal obeys.
    #[test]
    fn each_once() {
        let mut texts = Texts::<i64>::new();
        assert_eq!(["", "a", "b", "a", "\x1b"].map(|text| texts.number(text)), [0, 1, 2, 1, 3]);
        assert_eq!(texts.list, ["", "a", "b", "\\x1b"]);
    }
}
