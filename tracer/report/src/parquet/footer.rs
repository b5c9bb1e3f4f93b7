//! The end of a Parquet file: its columns, and where the values of each group lie (`parquet.thrift` of Apache Parquet).
//!
//! Leaves out the values (`pages.rs`).

use super::Kind;
use super::thrift::Struct;

/// Types of values.
const INT64: i32 = 2;
const DOUBLE: i32 = 5;
const BYTE_ARRAY: i32 = 6;
/// What values mean.
const UTF8: i32 = 0;
const LIST: i32 = 3;
const TIMESTAMP_MICROS: i32 = 10;
/// How often a field is there.
const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;
const REPEATED: i32 = 2;
/// How values are written.
pub(super) const PLAIN: i32 = 0;
pub(super) const RLE: i32 = 3;
pub(super) const DICTIONARY: i32 = 8;
/// How pages are compressed.
const GZIP: i32 = 2;

/// Rows that were added together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) rows: usize,
    pub(super) chunks: Vec<Chunk>,
}

/// A column's part of a group.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Where it begins in the file.
    pub(super) offset: usize,
    /// Bytes of its dictionary, where it has one; the page of values is behind it.
    pub(super) dictionary: Option<usize>,
    /// Its values and those that are missing; of lists, their elements.
    pub(super) values: usize,
    /// Its bytes, heads included, and what they would be without compression.
    pub(super) bytes: usize,
    pub(super) plain_bytes: usize,
}

impl Chunk {
    pub(super) fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    fn meta(&self, name: &str, kind: Kind) -> Struct {
        let path: &[&str] = if kind == Kind::Texts { &[name, "list", "element"] } else { &[name] };
        let meta = Struct::default()
            .i32(1, physical(kind))
            .i32s(2, &[PLAIN, RLE, DICTIONARY])
            .texts(3, path)
            .i32(4, GZIP)
            .i64(5, self.values)
            .i64(6, self.plain_bytes)
            .i64(7, self.bytes)
            .i64(9, self.offset + self.dictionary.unwrap_or(0));
        let meta = if self.dictionary.is_some() { meta.i64(11, self.offset) } else { meta };
        Struct::default().i64(2, self.offset).inner(3, meta)
    }
}

const fn physical(kind: Kind) -> i32 {
    match kind {
        Kind::Text | Kind::Texts => BYTE_ARRAY,
        Kind::Whole | Kind::Moment => INT64,
        Kind::Real => DOUBLE,
    }
}

pub(super) fn footer(columns: &[(String, Kind)], groups: &[Group]) -> Vec<u8> {
    let root = Struct::default().text(4, "table").i32(5, i32::try_from(columns.len()).unwrap_or(i32::MAX));
    let fields = columns.iter().flat_map(|(name, kind)| field(name, *kind));
    let schema: Vec<Struct> = std::iter::once(root).chain(fields).collect();
    let of_group = |group: &Group| {
        let named = columns.iter().zip(&group.chunks);
        let chunks: Vec<Struct> = named.map(|((name, kind), chunk)| chunk.meta(name, *kind)).collect();
        let bytes = group.chunks.iter().map(|chunk| chunk.plain_bytes).sum();
        Struct::default().inners(1, chunks.into_iter()).i64(2, bytes).i64(3, group.rows)
    };
    Struct::default()
        .i32(1, 1)
        .inners(2, schema.into_iter())
        .i64(3, groups.iter().map(|group| group.rows).sum())
        .inners(4, groups.iter().map(of_group))
        .text(6, concat!("energy-trace ", env!("CARGO_PKG_VERSION")))
        .end()
}

/// A column in the list of fields; a list is three of them, one in the other.
fn field(name: &str, kind: Kind) -> Vec<Struct> {
    let value = |name: &str, repetition: i32| {
        Struct::default().i32(1, physical(kind)).i32(3, repetition).text(4, name)
    };
    match kind {
        Kind::Whole | Kind::Real => vec![value(name, OPTIONAL)],
        Kind::Text => vec![value(name, OPTIONAL).i32(6, UTF8)],
        Kind::Moment => vec![value(name, OPTIONAL).i32(6, TIMESTAMP_MICROS)],
        Kind::Texts => vec![
            Struct::default().i32(3, REQUIRED).text(4, name).i32(5, 1).i32(6, LIST),
            Struct::default().i32(3, REPEATED).text(4, "list").i32(5, 1),
            value("element", REQUIRED).i32(6, UTF8),
        ],
    }
}
