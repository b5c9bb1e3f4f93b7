//! Reads a Parquet file as its description says, without the code that wrote it, in the encodings that are used here.

use std::collections::BTreeMap;
use std::io::Read as _;

/// A value of Thrift's compact encoding.
#[derive(Clone, Debug)]
enum Thrift {
    Number(i64),
    Text(Vec<u8>),
    List(Vec<Self>),
    Struct(BTreeMap<u8, Self>),
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Missing,
    Number(i64),
    Text(String),
    Texts(Vec<String>),
}

/// Bytes from which values are taken one after the other.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn varint(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    fn thrift(&mut self, of: u8) -> Thrift {
        match of {
            5 | 6 => {
                let value = self.varint();
                Thrift::Number((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
            }
            8 => {
                let length = self.varint();
                Thrift::Text(self.take(usize::try_from(length).unwrap()).to_vec())
            }
            9 => {
                let head = self.byte();
                let length = if head >> 4 == 15 { self.varint() } else { u64::from(head >> 4) };
                Thrift::List((0..length).map(|_| self.thrift(head & 15)).collect())
            }
            12 => {
                let (mut fields, mut number) = (BTreeMap::new(), 0);
                loop {
                    let head = self.byte();
                    if head == 0 {
                        return Thrift::Struct(fields);
                    }
                    number += head >> 4;
                    let value = self.thrift(head & 15);
                    assert!(fields.insert(number, value).is_none(), "field {number} twice");
                }
            }
            other => panic!("type {other}"),
        }
    }

    /// Numbers of `width` bits in the hybrid encoding.
    fn hybrid(&mut self, width: usize, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let head = self.varint();
            let length = usize::try_from(head >> 1).unwrap();
            if head & 1 == 0 {
                let bytes = self.take(width.div_ceil(8));
                let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
                numbers.resize(numbers.len() + length, value);
                continue;
            }
            let packed = self.take(length * width);
            let bit = |at: usize| u32::from(packed[at / 8] >> (at % 8) & 1);
            numbers
                .extend((0..length * 8).map(|at| (0..width).map(|i| bit(at * width + i) << i).sum::<u32>()));
        }
        numbers.truncate(count);
        numbers
    }
}

impl Thrift {
    fn field(&self, number: u8) -> &Self {
        let Self::Struct(fields) = self else { panic!("{self:?}") };
        fields.get(&number).unwrap_or_else(|| panic!("no field {number} in {self:?}"))
    }

    fn number(&self) -> usize {
        let Self::Number(number) = self else { panic!("{self:?}") };
        usize::try_from(*number).unwrap()
    }

    fn text(&self) -> String {
        let Self::Text(bytes) = self else { panic!("{self:?}") };
        String::from_utf8(bytes.clone()).unwrap()
    }

    fn list(&self) -> &[Self] {
        let Self::List(list) = self else { panic!("{self:?}") };
        list
    }
}

/// All columns of a file, by the first part of their path.
pub(super) fn columns(file: &[u8]) -> BTreeMap<String, Vec<Cell>> {
    let rest = file.strip_suffix(b"PAR1").unwrap();
    let (rest, length) = rest.split_last_chunk::<4>().unwrap();
    let footer = &rest[rest.len() - u32::from_le_bytes(*length) as usize..];
    let footer = Bytes(footer).thrift(12);
    let mut columns: BTreeMap<String, Vec<Cell>> = BTreeMap::new();
    for group in footer.field(4).list() {
        for chunk in group.field(1).list() {
            let meta = chunk.field(3);
            let path: Vec<String> = meta.field(3).list().iter().map(Thrift::text).collect();
            let cells = cells(file, meta, path.len() > 1);
            assert_eq!(cells.len(), group.field(3).number(), "{path:?}");
            columns.entry(path[0].clone()).or_default().extend(cells);
        }
    }
    let rows = footer.field(3).number();
    assert!(columns.values().all(|cells| cells.len() == rows));
    columns
}

/// The head of a page and what is in it; behind it, the place of the next.
fn page(file: &[u8], at: usize) -> (Thrift, Vec<u8>, usize) {
    let mut bytes = Bytes(&file[at..]);
    let head = bytes.thrift(12);
    let gzipped = bytes.take(head.field(3).number());
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(gzipped).read_to_end(&mut plain).unwrap();
    assert_eq!(plain.len(), head.field(2).number());
    (head, plain, file.len() - bytes.0.len())
}

fn cells(file: &[u8], meta: &Thrift, is_list: bool) -> Vec<Cell> {
    let mut at = meta.field(9).number();
    let mut texts = Vec::new();
    let is_text = meta.field(1).number() == 6;
    if is_text {
        let (head, plain, behind) = page(file, meta.field(11).number());
        assert_eq!(behind, at);
        at = behind;
        let mut plain = Bytes(&plain);
        for _ in 0..head.field(7).field(1).number() {
            let length = plain.u32() as usize;
            texts.push(String::from_utf8(plain.take(length).to_vec()).unwrap());
        }
    }
    let (head, plain, _) = page(file, at);
    let count = head.field(5).field(1).number();
    let mut plain = Bytes(&plain);
    let mut levels = || {
        let length = plain.u32() as usize;
        Bytes(plain.take(length)).hybrid(1, count)
    };
    let repeated = if is_list { levels() } else { vec![0; count] };
    let there = levels();
    let values = there.iter().filter(|there| **there == 1).count();
    let numbers: Vec<i64> = if is_text {
        let width = usize::from(plain.byte());
        plain.hybrid(width, values).into_iter().map(i64::from).collect()
    } else {
        (0..values).map(|_| i64::from_le_bytes(plain.take(8).try_into().unwrap())).collect()
    };
    let mut numbers = numbers.into_iter();
    let mut cells: Vec<Cell> = Vec::new();
    for (repeated, there) in repeated.into_iter().zip(there) {
        let value = (there == 1).then(|| numbers.next().unwrap());
        let text = |value: i64| texts[usize::try_from(value).unwrap()].clone();
        match (is_list, cells.last_mut()) {
            (true, Some(Cell::Texts(list))) if repeated == 1 => list.push(text(value.unwrap())),
            (true, _) => cells.push(Cell::Texts(value.map(text).into_iter().collect())),
            (false, _) if is_text => cells.push(value.map_or(Cell::Missing, |value| Cell::Text(text(value)))),
            (false, _) => cells.push(value.map_or(Cell::Missing, Cell::Number)),
        }
    }
    cells
}

/// The sum of a column of numbers.
pub(super) fn sum(cells: &[Cell]) -> i64 {
    let number = |cell: &Cell| if let Cell::Number(number) = cell { *number } else { 0 };
    cells.iter().map(number).sum()
}
