//! Tables as bytes, against what the format's description says they are; DuckDB opens whole files in `cargo xtask consumers`.

use super::{Kind, Table, Values};

/// A file of one column of numbers and one of lists, byte by byte where the description fixes them: the marks at both ends, and the length
/// of the end before the last.
#[test]
fn both_ends() {
    let mut table = Table::new([("number", Kind::Whole), ("list", Kind::Texts)]);
    table.add(&[Values::Whole(vec![Some(7), None]), Values::Texts(vec![&["a", "b"], &[]])]).unwrap();
    let mut file = Vec::new();
    table.write(&mut file).unwrap();
    assert_eq!(file.first_chunk(), Some(b"PAR1"));
    let (rest, end) = file.split_last_chunk::<4>().unwrap();
    assert_eq!(end, b"PAR1");
    let (rest, length) = rest.split_last_chunk::<4>().unwrap();
    let footer = &rest[rest.len() - u32::from_le_bytes(*length) as usize..];
    // Field 1, a 32-bit number: the format's version 1, zigzag; then field 2, a list of five structs: the root and four fields.
    assert_eq!(footer[..4], [0x15, 2, 0x19, 0x5c]);
}

/// Values that do not fit the columns are refused, and the table stays as it was.
#[test]
fn other_columns() {
    let mut table = Table::new([("a", Kind::Whole), ("b", Kind::Text)]);
    for wrong in [
        vec![],
        vec![Values::Whole(vec![])],
        vec![Values::Real(vec![]), Values::Text(vec![])],
        vec![Values::Whole(vec![]), Values::Text(vec![None])],
        vec![Values::Whole(vec![]), Values::Text(vec![]), Values::Text(vec![])],
    ] {
        assert!(table.add(&wrong).is_err(), "{wrong:?}");
    }
    assert!(table.groups.is_empty());
}
