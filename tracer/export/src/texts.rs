//! A table of texts, each once, as the protobuf formats have it: the first one is empty.
//!
//! Texts enter as they may be shown, so that no viewer's terminal obeys one. Leaves out what they mean.

use energy_trace_names::shown::shown;
use indexmap::IndexSet;
use std::marker::PhantomData;

/// The table. `N` is the type of a position in it.
#[derive(Debug)]
pub(super) struct Texts<N> {
    texts: IndexSet<String>,
    number: PhantomData<N>,
}

impl<N: Default + TryFrom<usize>> Texts<N> {
    /// With the empty text.
    pub(super) fn new() -> Self {
        Self { texts: IndexSet::from([String::new()]), number: PhantomData }
    }

    /// The position of a text, new or old. What is beyond the type's range is the empty text: no machine's memory holds so many.
    pub(super) fn number(&mut self, text: &str) -> N {
        let text = shown(text);
        let known = self.texts.get_index_of(text.as_ref());
        let at = known.unwrap_or_else(|| self.texts.insert_full(text.into_owned()).0);
        N::try_from(at).unwrap_or_default()
    }

    /// The texts, at their positions.
    pub(super) fn into_list(self) -> Vec<String> {
        self.texts.into_iter().collect()
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
        assert_eq!(texts.into_list(), ["", "a", "b", "\\x1b"]);
    }
}
