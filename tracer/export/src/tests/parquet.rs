//! Reads the columns of a Parquet table, with the reader of crate `parquet`. DuckDB does so in `cargo xtask consumers`.

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::Field;
use std::collections::BTreeMap;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Missing,
    Number(i64),
    Real(f64),
    Text(String),
    Texts(Vec<String>),
}

/// The columns of a file by name, each with its values; none where there are no rows.
pub(super) fn columns(file: &[u8]) -> BTreeMap<String, Vec<Cell>> {
    let reader = SerializedFileReader::new(bytes::Bytes::copy_from_slice(file)).unwrap();
    let mut columns = BTreeMap::<_, Vec<_>>::new();
    for row in reader.get_row_iter(None).unwrap() {
        for (name, field) in row.unwrap().into_columns() {
            columns.entry(name).or_default().push(cell(field));
        }
    }
    columns
}

fn cell(field: Field) -> Cell {
    match field {
        Field::Null => Cell::Missing,
        Field::Long(number) | Field::TimestampMicros(number) => Cell::Number(number),
        Field::Double(number) => Cell::Real(number),
        Field::Str(text) => Cell::Text(text),
        Field::ListInternal(list) => Cell::Texts(list.elements().iter().map(text).collect()),
        other => panic!("{other:?} is in no table of ours"),
    }
}

fn text(field: &Field) -> String {
    let Field::Str(text) = field else { panic!("{field:?} is no text") };
    text.clone()
}

/// The sum of the numbers.
pub(super) fn sum(cells: &[Cell]) -> i64 {
    let number = |cell: &Cell| if let Cell::Number(number) = cell { *number } else { 0 };
    cells.iter().map(number).sum()
}

/// The sum of the numbers that are not whole.
pub(super) fn sum_of_reals(cells: &[Cell]) -> f64 {
    cells.iter().map(|cell| if let Cell::Real(number) = cell { *number } else { 0.0 }).sum()
}
