//! A table as a Parquet file, for DuckDB, pandas, Spark and data warehouses: columns of texts, lists of texts, numbers and times.
//!
//! <https://parquet.apache.org/docs/file-format>, its first version, which every reader knows: texts by number in a dictionary, numbers
//! plain, pages gzipped. Any value may be missing. Rows come in groups, so that a long table need not be in memory whole. The library of
//! that name is not used: it and what it needs take 23 CPU seconds to build, a tenth of what all tests may take.
//!
//! * `pages`: values to bytes; `footer`: where they lie, in Thrift's compact encoding (`thrift`).
//!
//! Leaves out reading, statistics of pages, and what tables hold (`export/parquet.rs`, `study_tables/dataset.rs`).

mod footer;
mod pages;
#[cfg(test)]
mod tests;
mod thrift;

use footer::{Chunk, Group};
use pages::Column;
use std::io::{self, Write};

/// Rows of a group: enough to compress well, few enough for memory.
pub const GROUP: usize = 100_000;
/// What a file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";

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
}

/// A table in the making.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Kind)>,
    bytes: Vec<u8>,
    groups: Vec<Group>,
}

impl Table {
    /// An empty table with these columns, whose names are different.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Kind)>) -> Self {
        let columns = columns.into_iter().map(|(name, kind)| (name.to_owned(), kind));
        Self { columns: columns.collect(), bytes: MAGIC.to_vec(), groups: Vec::new() }
    }

    /// Adds a group of rows: the values of all columns, in their order.
    ///
    /// # Errors
    /// When these are not the columns of the table, or have different lengths; or there are more than the format can count.
    pub fn add(&mut self, columns: &[Values<'_>]) -> io::Result<()> {
        let rows = columns.first().map_or(0, Values::rows);
        let fits = self.columns.iter().zip(columns).all(|((_, kind), values)| values.is_of(*kind));
        if !fits || columns.len() != self.columns.len() || columns.iter().any(|of| of.rows() != rows) {
            return Err(io::Error::other("the columns of a table and their values do not go together"));
        }
        let mut group = Group { rows, chunks: Vec::with_capacity(columns.len()) };
        for values in columns {
            let offset = self.bytes.len();
            let chunk: Chunk = Column::of(values).put(&mut self.bytes)?;
            group.chunks.push(chunk.at(offset));
        }
        self.groups.push(group);
        Ok(())
    }

    /// Writes the table with its end.
    ///
    /// # Errors
    /// When the writer refuses, or the table is larger than the format can say.
    pub fn write(self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.bytes)?;
        let footer = footer::footer(&self.columns, &self.groups);
        out.write_all(&footer)?;
        out.write_all(&u32::try_from(footer.len()).map_err(io::Error::other)?.to_le_bytes())?;
        out.write_all(MAGIC)?;
        out.flush()
    }
}
