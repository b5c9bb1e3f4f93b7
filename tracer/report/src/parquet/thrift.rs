//! Thrift's compact encoding, as far as a Parquet file needs it (`thrift-compact-protocol.md` of Apache Thrift).
//!
//! Leaves out maps, sets, doubles, and reading.

/// Types of elements and fields.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Writes one struct; fields come in the order of their numbers.
#[derive(Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    pub(super) fn i32(mut self, field: u8, value: i32) -> Self {
        self.head(field, I32);
        put_varint(&mut self.bytes, zigzag(value.into()));
        self
    }

    pub(super) fn i64(mut self, field: u8, value: usize) -> Self {
        self.head(field, I64);
        put_varint(&mut self.bytes, zigzag(i64::try_from(value).unwrap_or(i64::MAX)));
        self
    }

    pub(super) fn text(mut self, field: u8, text: &str) -> Self {
        self.head(field, BINARY);
        put_text(&mut self.bytes, text);
        self
    }

    pub(super) fn texts(mut self, field: u8, texts: &[&str]) -> Self {
        self.list(field, BINARY, texts.len());
        texts.iter().for_each(|text| put_text(&mut self.bytes, text));
        self
    }

    pub(super) fn i32s(mut self, field: u8, values: &[i32]) -> Self {
        self.list(field, I32, values.len());
        values.iter().for_each(|value| put_varint(&mut self.bytes, zigzag((*value).into())));
        self
    }

    pub(super) fn inner(mut self, field: u8, inner: Self) -> Self {
        self.head(field, STRUCT);
        self.bytes.extend(inner.end());
        self
    }

    pub(super) fn inners(mut self, field: u8, inners: impl ExactSizeIterator<Item = Self>) -> Self {
        self.list(field, STRUCT, inners.len());
        inners.for_each(|inner| self.bytes.extend(inner.end()));
        self
    }

    /// Its bytes.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    /// A field's number is the difference to the one before, which is never more than 15 here.
    fn head(&mut self, field: u8, of: u8) {
        self.bytes.push((field - self.last) << 4 | of);
        self.last = field;
    }

    fn list(&mut self, field: u8, of: u8, length: usize) {
        self.head(field, LIST);
        match u8::try_from(length) {
            Ok(short) if short < 15 => self.bytes.push(short << 4 | of),
            _ => {
                self.bytes.push(0xf0 | of);
                put_varint(&mut self.bytes, length as u64);
            }
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Small numbers of either sign become small.
const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

/// Seven bits a byte, the low ones first.
#[expect(clippy::cast_possible_truncation, reason = "seven bits are a byte")]
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
