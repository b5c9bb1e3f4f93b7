//! A table as a Parquet file, for DuckDB, pandas, Spark and data warehouses: columns of texts, lists of texts, numbers and times.
//!
//! Any value may be missing. Rows come in groups. Leaves out the format itself (crate `parquet`), reading, and what tables hold
//! (`export/parquet.rs`).

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::io::{self, Write};
use std::sync::Arc;

/// Rows of a group: enough to compress well, few enough for memory.
pub const GROUP: usize = 100_000;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A list of texts; empty rather than missing.
    Texts,
    /// Whole numbers.
    Whole,
    /// Numbers.
    Real,
    /// Moments: microseconds since 1970-01-01 UTC.
    Moment,
}

/// The values of a column, one a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Values<'a> {
    /// Of `Kind::Text`.
    Text(Vec<Option<&'a str>>),
    /// Of `Kind::Texts`.
    Texts(Vec<&'a [&'a str]>),
    /// Of `Kind::Whole` and `Kind::Moment`.
    Whole(Vec<Option<i64>>),
    /// Of `Kind::Real`.
    Real(Vec<Option<f64>>),
}

impl Values<'_> {
    fn rows(&self) -> usize {
        match self {
            Self::Text(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Whole(values) => values.len(),
            Self::Real(values) => values.len(),
        }
    }

    const fn is_of(&self, kind: Kind) -> bool {
        matches!(
            (self, kind),
            (Self::Text(_), Kind::Text)
                | (Self::Texts(_), Kind::Texts)
                | (Self::Whole(_), Kind::Whole | Kind::Moment)
                | (Self::Real(_), Kind::Real)
        )
    }

    fn put(&self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::Whole(values) => put_values::<Int64Type>(column, values),
            Self::Real(values) => put_values::<DoubleType>(column, values),
            Self::Text(values) => {
                let texts: Vec<_> = values.iter().map(|text| text.map(ByteArray::from)).collect();
                put_values::<ByteArrayType>(column, &texts)
            }
            Self::Texts(values) => put_lists(column, values),
        }
    }
}

/// Values of which some are missing: a level says which are there.
fn put_values<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[Option<T::T>],
) -> Result<(), ParquetError> {
    let there: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    let values: Vec<T::T> = values.iter().flatten().cloned().collect();
    column.typed::<T>().write_batch(&values, Some(&there), None).map(|_| ())
}

/// Lists: an empty one has one place in which nothing is there, and all elements but the first repeat their row.
fn put_lists(column: &mut SerializedColumnWriter<'_>, lists: &[&[&str]]) -> Result<(), ParquetError> {
    let (mut texts, mut there, mut repeats) = (Vec::new(), Vec::new(), Vec::new());
    for list in lists {
        there.extend(vec![i16::from(!list.is_empty()); list.len().max(1)]);
        repeats.push(0);
        repeats.extend(vec![1; list.len().saturating_sub(1)]);
        texts.extend(list.iter().map(|&text| ByteArray::from(text)));
    }
    column.typed::<ByteArrayType>().write_batch(&texts, Some(&there), Some(&repeats)).map(|_| ())
}

/// A table in the making.
pub struct Table {
    kinds: Vec<Kind>,
    writer: SerializedFileWriter<Vec<u8>>,
}

impl Table {
    /// An empty table with these columns, whose names are different.
    ///
    /// # Errors
    /// When the format has no room for them.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Kind)>) -> io::Result<Self> {
        let columns: Vec<_> = columns.into_iter().collect();
        let fields = columns.iter().map(|&(name, kind)| field(name, kind)).collect::<Result<_, _>>();
        let schema = fields.and_then(|fields| Type::group_type_builder("rows").with_fields(fields).build());
        let schema = schema.map_err(io::Error::other)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties));
        let kinds = columns.into_iter().map(|(_, kind)| kind).collect();
        Ok(Self { kinds, writer: writer.map_err(io::Error::other)? })
    }

    /// Adds a group of rows: the values of all columns, in their order.
    ///
    /// # Errors
    /// When these are not the columns of the table, or have different lengths; or there are more than the format can count.
    pub fn add(&mut self, columns: &[Values<'_>]) -> io::Result<()> {
        let rows = columns.first().map_or(0, Values::rows);
        let fits = self.kinds.iter().zip(columns).all(|(&kind, values)| values.is_of(kind));
        if !fits || columns.len() != self.kinds.len() || columns.iter().any(|of| of.rows() != rows) {
            return Err(io::Error::other("the columns of a table and their values do not go together"));
        }
        self.put(columns).map_err(io::Error::other)
    }

    fn put(&mut self, columns: &[Values<'_>]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for values in columns {
            let Some(mut column) = group.next_column()? else { break };
            values.put(&mut column)?;
            column.close()?;
        }
        group.close().map(|_| ())
    }

    /// Writes the table with its end.
    ///
    /// # Errors
    /// When the writer refuses, or the table is larger than the format can say.
    pub fn write(self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.writer.into_inner().map_err(io::Error::other)?)?;
        out.flush()
    }
}

/// How a column stands in the schema.
fn field(name: &str, kind: Kind) -> Result<TypePtr, ParquetError> {
    let plain = |physical, logical| {
        let of = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        of.with_logical_type(logical).build()
    };
    let moment = LogicalType::timestamp(true, TimeUnit::MICROS);
    let field = match kind {
        Kind::Text => plain(Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Whole => plain(Physical::INT64, None),
        Kind::Real => plain(Physical::DOUBLE, None),
        Kind::Moment => plain(Physical::INT64, Some(moment)),
        Kind::Texts => list(name),
    };
    field.map(Arc::new)
}

/// A list in the three levels that the format asks for.
fn list(name: &str) -> Result<Type, ParquetError> {
    let element = Type::primitive_type_builder("element", Physical::BYTE_ARRAY)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::String))
        .build()?;
    let repeated = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
    let repeated = repeated.with_fields(vec![Arc::new(element)]).build()?;
    let whole = Type::group_type_builder(name).with_repetition(Repetition::REQUIRED);
    whole.with_logical_type(Some(LogicalType::List)).with_fields(vec![Arc::new(repeated)]).build()
}

#[cfg(test)]
mod tests {
    use super::{Kind, Table, Values};
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    fn rows(table: Table) -> Vec<String> {
        let mut file = Vec::new();
        table.write(&mut file).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
    }

    /// What went in comes out: missing values, empty lists, several groups.
    #[test]
    fn what_went_in() {
        let columns = [("n", Kind::Whole), ("x", Kind::Real), ("t", Kind::Text), ("l", Kind::Texts)];
        let mut table = Table::new(columns).unwrap();
        let group = |n, list| {
            let (x, t) = (vec![None, Some(0.5)], vec![Some("a"), None]);
            [Values::Whole(vec![Some(n), None]), Values::Real(x), Values::Text(t), Values::Texts(list)]
        };
        table.add(&group(7, vec![&["a", "b"], &[]])).unwrap();
        table.add(&group(8, vec![&[], &["c"]])).unwrap();
        let expected = [
            r#"{n: 7, x: null, t: "a", l: ["a", "b"]}"#,
            r#"{n: null, x: 0.5, t: null, l: []}"#,
            r#"{n: 8, x: null, t: "a", l: []}"#,
            r#"{n: null, x: 0.5, t: null, l: ["c"]}"#,
        ];
        assert_eq!(rows(table), expected);
    }

    /// Moments are times, and no bare numbers.
    #[test]
    fn moments() {
        let mut table = Table::new([("at", Kind::Moment)]).unwrap();
        table.add(&[Values::Whole(vec![Some(1_500_000)])]).unwrap();
        assert!(rows(table)[0].contains("1970-01-01 00:00:01.500"));
    }

    /// Values that do not fit the columns are refused, and the table stays as it was.
    #[test]
    fn other_columns() {
        let mut table = Table::new([("a", Kind::Whole), ("b", Kind::Text)]).unwrap();
        for wrong in [
            vec![],
            vec![Values::Whole(vec![])],
            vec![Values::Real(vec![]), Values::Text(vec![])],
            vec![Values::Whole(vec![]), Values::Text(vec![None])],
            vec![Values::Whole(vec![]), Values::Text(vec![]), Values::Text(vec![])],
        ] {
            assert!(table.add(&wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(rows(table), [""; 0]);
    }
}
