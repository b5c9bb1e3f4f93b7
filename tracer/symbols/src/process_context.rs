//! What a process's context (OTEP 4719) says of the contexts of its threads (OTEP 4947): the names of their attributes, by number.
//!
//! Belongs to the resolver: any program may have written it. Leaves out everything else that it says, such as its resource.

use energy_trace_model::recording::names::cut_of;
use energy_trace_unwind::thread_context::MOST_CONTEXT;
use prost::Message;
use std::io::{self, Read};

/// The entry with the names.
const NAMES: &str = "threadlocal.attribute_key_map";
/// Attributes have numbers of 8 bits.
const MOST: usize = 256;

/// `ProcessContext`, as far as it is read.
#[derive(Clone, PartialEq, Message)]
struct ProcessContext {
    #[prost(message, repeated, tag = "2")]
    attributes: Vec<KeyValue>,
}

/// `opentelemetry.proto.common.v1.KeyValue`.
#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

/// `AnyValue`: a text, or a list of values.
#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(message, optional, tag = "5")]
    list: Option<ArrayValue>,
}

/// `ArrayValue`.
#[derive(Clone, PartialEq, Message)]
struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValue>,
}

/// The names of attributes, in the order of their numbers.
///
/// # Errors
/// When it cannot be read, or is no such context.
pub fn read_names(from: impl Read) -> io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    from.take(MOST_CONTEXT).read_to_end(&mut bytes)?;
    let context = ProcessContext::decode(bytes.as_slice()).map_err(io::Error::other)?;
    let named = context.attributes.into_iter().find(|attribute| attribute.key == NAMES);
    let values = named.and_then(|named| named.value?.list).map(|list| list.values).unwrap_or_default();
    Ok(values.into_iter().take(MOST).map(|value| cut_of(&value.text.unwrap_or_default()).into()).collect())
}

#[cfg(test)]
mod tests {
    use super::{AnyValue, ArrayValue, KeyValue, MOST, NAMES, ProcessContext, read_names};
    use prost::Message as _;

    fn context(names: &[&str]) -> Vec<u8> {
        let text = |text: &str| AnyValue { text: Some(text.to_owned()), list: None };
        let list = ArrayValue { values: names.iter().map(|name| text(name)).collect() };
        let other = KeyValue { key: "threadlocal.schema_version".to_owned(), value: Some(text("tls_v1")) };
        let names = AnyValue { text: None, list: Some(list) };
        let names = KeyValue { key: NAMES.to_owned(), value: Some(names) };
        ProcessContext { attributes: vec![other, names] }.encode_to_vec()
    }

    /// Names in their order, as many as can have a number; of what is cut, no context or without the entry none.
    #[test]
    fn names() {
        let bytes = context(&["http.route", "user.id"]);
        assert_eq!(read_names(bytes.as_slice()).unwrap(), ["http.route", "user.id"]);
        assert_eq!(read_names(context(&["x"; 1000]).as_slice()).unwrap().len(), MOST);
        assert!(read_names(&bytes[..bytes.len() - 1]).is_err());
        assert!(read_names(&[0xff; 64][..]).is_err());
        assert_eq!(read_names(&[][..]).unwrap(), [""; 0]);
    }
}
