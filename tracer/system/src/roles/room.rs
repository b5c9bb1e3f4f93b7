//! Lists in messages of a process that is not trusted: a byte may stand for a thing of a hundred, so what they unfold to is limited too.
//!
//! Leaves out texts: their bytes are those of the message (`channel.rs`).

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

thread_local! {
    /// Bytes that elements of lists may still take in the message that this thread unfolds.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Does something in which all lists of messages have so many bytes of elements at the most.
pub fn with_room<T>(bytes: usize, unfold: impl FnOnce() -> T) -> T {
    let before = LEFT.replace(bytes);
    let done = unfold();
    LEFT.set(before);
    done
}

/// A list that is a message, or part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        list(from).map(Self)
    }
}

/// Unfolds a list, for `#[serde(deserialize_with)]`.
///
/// # Errors
/// Where it is none, or takes more than there is room for.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Elements(PhantomData))
}

struct Elements<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list that is not too long")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = from.next_element()? {
            let left = LEFT.get().checked_sub(size_of::<T>());
            LEFT.set(left.ok_or_else(|| A::Error::custom("a list is too long"))?);
            elements.push(element);
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::{List, with_room};

    type Nested = List<(u64, List<[u64; 4]>)>;

    /// A message of small numbers unfolds to no more than there is room for, whatever its lists are in; the next one has its own room.
    #[test]
    fn small_messages_stay_small() {
        let lists = List(vec![(1_u64, List(vec![[0_u64; 4]; 1000])); 10]);
        let message = postcard::to_stdvec(&lists).unwrap();
        let unfolded = 10 * (1000 * 32 + size_of::<(u64, List<[u64; 4]>)>());
        let read = || postcard::from_bytes::<Nested>(&message);
        assert!(with_room(unfolded - 1, read).is_err());
        assert_eq!(with_room(unfolded, read).unwrap(), lists);
        assert_eq!(read().unwrap(), lists);
    }
}
