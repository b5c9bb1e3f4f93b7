//! What a process's context (OTEP 4719) says of the contexts of its threads (OTEP 4947): the names of their attributes, by number.
//!
//! Belongs to the resolver: any program may have written it. Leaves out everything else that it says, such as its resource.

use energy_trace_model::recording::names::cut_of;
use energy_trace_unwind::thread_context::MOST_CONTEXT;
use std::borrow::Cow;
use std::io::{self, Read};

/// The entry with the names.
const NAMES: &[u8] = b"threadlocal.attribute_key_map";
/// Attributes have numbers of 8 bits.
const MOST: usize = 256;

/// Fields of `ProcessContext`, and of `KeyValue`, `AnyValue` and `ArrayValue` of `opentelemetry.proto.common.v1`.
mod field {
    pub(super) const ATTRIBUTES: u64 = 2;
    pub(super) const KEY: u64 = 1;
    pub(super) const VALUE: u64 = 2;
    pub(super) const TEXT: u64 = 1;
    pub(super) const LIST: u64 = 5;
    pub(super) const VALUES: u64 = 1;
}

/// The names of attributes, in the order of their numbers.
///
/// # Errors
/// When it cannot be read, or is no such context.
pub fn read_names(from: impl Read) -> io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    from.take(MOST_CONTEXT).read_to_end(&mut bytes)?;
    for attribute in all(&bytes, field::ATTRIBUTES)? {
        if last(attribute, field::KEY)? == NAMES {
            let list = last(last(attribute, field::VALUE)?, field::LIST)?;
            return all(list, field::VALUES)?.into_iter().take(MOST).map(name).collect();
        }
    }
    Ok(Vec::new())
}

fn name(value: &[u8]) -> io::Result<String> {
    let text: Cow<'_, str> = String::from_utf8_lossy(last(value, field::TEXT)?);
    Ok(cut_of(&text).into())
}

/// The last field of this number; empty where there is none, as Protocol Buffers have it.
fn last(message: &[u8], number: u64) -> io::Result<&[u8]> {
    Ok(all(message, number)?.pop().unwrap_or_default())
}

/// All fields of this number, which have a length. Others are passed over. Encoding: protobuf.dev/programming-guides/encoding.
fn all(mut message: &[u8], number: u64) -> io::Result<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message)?;
        let length = match tag & 7 {
            0 => varint(&mut message).map(|_| 0)?,
            1 => 8,
            2 => varint(&mut message)?,
            5 => 4,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (field, rest) = message.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
        message = rest;
        found.extend((tag == number << 3 | 2).then_some(field));
    }
    Ok(found)
}

/// A number of seven bits a byte, the lowest first.
fn varint(message: &mut &[u8]) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first().ok_or(io::ErrorKind::UnexpectedEof)?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::{MOST, NAMES, read_names};
    use prost::Message;

    /// The messages, written by another than who reads them.
    #[derive(Clone, PartialEq, Message)]
    struct ProcessContext {
        #[prost(message, repeated, tag = "2")]
        attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct KeyValue {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(message, optional, tag = "2")]
        value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct AnyValue {
        #[prost(string, optional, tag = "1")]
        text: Option<String>,
        #[prost(int64, optional, tag = "3")]
        number: Option<i64>,
        #[prost(double, optional, tag = "4")]
        real: Option<f64>,
        #[prost(message, optional, tag = "5")]
        list: Option<ArrayValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct ArrayValue {
        #[prost(message, repeated, tag = "1")]
        values: Vec<AnyValue>,
    }

    fn context(names: &[&str]) -> Vec<u8> {
        let text = |text: &str| AnyValue { text: Some(text.to_owned()), ..AnyValue::default() };
        let list = ArrayValue { values: names.iter().map(|name| text(name)).collect() };
        let other = AnyValue { number: Some(-1), real: Some(0.5), ..AnyValue::default() };
        let other = KeyValue { key: "threadlocal.schema_version".to_owned(), value: Some(other) };
        let names = AnyValue { list: Some(list), ..AnyValue::default() };
        let names = KeyValue { key: String::from_utf8(NAMES.to_vec()).unwrap(), value: Some(names) };
        ProcessContext { attributes: vec![other, names] }.encode_to_vec()
    }

    /// Names in their order, as many as can have a number; of what is cut, no context or without the entry none.
    #[test]
    fn names() {
        let bytes = context(&["http.route", "user.id", ""]);
        assert_eq!(read_names(bytes.as_slice()).unwrap(), ["http.route", "user.id", ""]);
        assert_eq!(read_names(context(&["x"; 1000]).as_slice()).unwrap().len(), MOST);
        assert!(read_names(&bytes[..bytes.len() - 1]).is_err());
        assert!(read_names(&[0xff; 64][..]).is_err());
        assert_eq!(read_names(&[][..]).unwrap(), [""; 0]);
    }
}
