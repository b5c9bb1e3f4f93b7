//! The values of a column as pages: a dictionary where they are texts, then what of each row is there, and the values.
//!
//! Leaves out where pages lie in the file (`footer.rs`).

use super::Values;
use super::footer::{Chunk, DICTIONARY, PLAIN, RLE};
use super::thrift::{Struct, put_varint};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::io::{self, Write as _};

/// Kinds of pages.
const DATA: i32 = 0;
const OF_DICTIONARY: i32 = 2;
/// Equal values from which on a run is shorter than the values packed.
const RUN: usize = 8;

/// A column before it is compressed.
#[derive(Default)]
pub(super) struct Column {
    /// Texts, each with its length; none in a column of numbers.
    dictionary: Option<(usize, Vec<u8>)>,
    /// Of lists: 1 where an element goes on with a list.
    repeated: Option<Vec<u32>>,
    /// 1 where a value is there.
    there: Vec<u32>,
    encoding: i32,
    values: Vec<u8>,
}

impl Column {
    pub(super) fn of(values: &Values<'_>) -> Self {
        match values {
            Values::Whole(values) => Self::of_numbers(values, |value| value.to_le_bytes()),
            Values::Real(values) => Self::of_numbers(values, |value| value.to_le_bytes()),
            Values::Text(values) => {
                let there = values.iter().map(|value| u32::from(value.is_some())).collect();
                Self { there, ..Self::of_texts(values.iter().flatten().copied()) }
            }
            Values::Texts(lists) => Self::of_lists(lists),
        }
    }

    fn of_numbers<T: Copy>(values: &[Option<T>], bytes: impl Fn(T) -> [u8; 8]) -> Self {
        let there = values.iter().map(|value| u32::from(value.is_some())).collect();
        let values = values.iter().flatten().flat_map(|value| bytes(*value)).collect();
        Self { there, values, encoding: PLAIN, ..Self::default() }
    }

    /// An empty list has an element that is not there.
    fn of_lists(lists: &[&[&str]]) -> Self {
        let (mut there, mut repeated) = (Vec::new(), Vec::new());
        for list in lists {
            there.resize(there.len() + list.len().max(1), u32::from(!list.is_empty()));
            repeated.push(0);
            repeated.resize(there.len(), 1);
        }
        let texts = lists.iter().flat_map(|list| list.iter().copied());
        Self { there, repeated: Some(repeated), ..Self::of_texts(texts) }
    }

    fn of_texts<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let (mut numbers, mut dictionary) = (HashMap::new(), Vec::new());
        let number = |text: &'a str| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(text).or_insert_with(|| {
                dictionary.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
                dictionary.extend(text.as_bytes());
                next
            })
        };
        let values: Vec<u32> = texts.map(number).collect();
        let width = bits(u32::try_from(numbers.len().saturating_sub(1)).unwrap_or(u32::MAX));
        let mut bytes = vec![u8::try_from(width).unwrap_or(32)];
        put_numbers(&mut bytes, &values, width);
        let dictionary = Some((numbers.len(), dictionary));
        Self { dictionary, values: bytes, encoding: DICTIONARY, ..Self::default() }
    }

    /// Writes its pages.
    pub(super) fn put(self, out: &mut Vec<u8>) -> io::Result<Chunk> {
        let mut chunk = Chunk { values: self.there.len(), ..Chunk::default() };
        if let Some((count, texts)) = &self.dictionary {
            let head = Struct::default().i32(1, number(*count)?).i32(2, PLAIN);
            put_page(out, OF_DICTIONARY, (7, head), texts, &mut chunk)?;
            chunk.dictionary = Some(chunk.bytes);
        }
        let mut page = Vec::new();
        for levels in self.repeated.iter().chain([&self.there]) {
            let mut bytes = Vec::new();
            put_numbers(&mut bytes, levels, 1);
            page.extend(u32::try_from(bytes.len()).map_err(io::Error::other)?.to_le_bytes());
            page.extend(bytes);
        }
        page.extend(self.values);
        let head = Struct::default().i32(1, number(self.there.len())?).i32(2, self.encoding);
        put_page(out, DATA, (5, head.i32(3, RLE).i32(4, RLE)), &page, &mut chunk)?;
        Ok(chunk)
    }
}

fn number(length: usize) -> io::Result<i32> {
    i32::try_from(length).map_err(io::Error::other)
}

fn put_page(
    out: &mut Vec<u8>,
    kind: i32,
    (field, head): (u8, Struct),
    page: &[u8],
    chunk: &mut Chunk,
) -> io::Result<()> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(page)?;
    let gzipped = gzip.finish()?;
    let head = Struct::default()
        .i32(1, kind)
        .i32(2, number(page.len())?)
        .i32(3, number(gzipped.len())?)
        .inner(field, head)
        .end();
    chunk.bytes += head.len() + gzipped.len();
    chunk.plain_bytes += head.len() + page.len();
    out.extend(head);
    out.extend(gzipped);
    Ok(())
}

/// How many bits numbers up to this one need, at least one.
fn bits(most: u32) -> u32 {
    (u32::BITS - most.leading_zeros()).max(1)
}

/// Numbers of so many bits: runs of equal ones by their length, others packed by eights (the format's hybrid encoding).
fn put_numbers(out: &mut Vec<u8>, numbers: &[u32], width: u32) {
    let mut packed: Vec<u32> = Vec::new();
    let mut rest = numbers;
    while let Some(first) = rest.first() {
        let run = rest.iter().take_while(|number| *number == first).count();
        let taken = if run >= RUN && packed.len().is_multiple_of(RUN) {
            put_packed(out, &mut packed, width);
            put_varint(out, (run as u64) << 1);
            out.extend(first.to_le_bytes().iter().take(width.div_ceil(8) as usize));
            run
        } else {
            // To the next eight, so that a run may begin there.
            let taken = (RUN - packed.len() % RUN).min(rest.len()).min(run.max(1));
            packed.extend(rest.iter().take(taken));
            taken
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    put_packed(out, &mut packed, width);
}

/// The last eight may lack some; what stands for them is never read.
#[expect(clippy::cast_possible_truncation, reason = "bytes are taken off one by one")]
fn put_packed(out: &mut Vec<u8>, numbers: &mut Vec<u32>, width: u32) {
    if numbers.is_empty() {
        return;
    }
    numbers.resize(numbers.len().next_multiple_of(RUN), 0);
    put_varint(out, (numbers.len() / RUN) as u64 * 2 + 1);
    let (mut bits, mut filled) = (0_u64, 0);
    for number in numbers.drain(..) {
        bits |= u64::from(number) << filled;
        filled += width;
        while filled >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            filled -= 8;
        }
    }
}
