//! Protocol buffers taken apart by their encoding alone: <https://protobuf.dev/programming-guides/encoding>.
//!
//! Knows no message, so that what a message should be is said by the test. Leaves out groups and 32-bit numbers, which nothing here has.

/// A field: its number and what it holds.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Number(u32, u64),
    Bytes(u32, &'a [u8]),
}

/// The fields of a message, in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct Message<'a>(Vec<Field<'a>>);

impl<'a> Message<'a> {
    pub(super) fn of(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let number = u32::try_from(key >> 3).unwrap();
            fields.push(match key & 7 {
                0 => Field::Number(number, varint(&mut bytes)),
                1 => Field::Number(number, u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)).unwrap();
                    Field::Bytes(number, take(&mut bytes, length))
                }
                kind => panic!("wire type {kind}"),
            });
        }
        Self(fields)
    }

    /// What all fields of this number hold.
    pub(super) fn bytes(&self, wanted: u32) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |field| match *field {
            Field::Bytes(number, bytes) if number == wanted => Some(bytes),
            _ => None,
        })
    }

    /// The same as messages.
    pub(super) fn messages(&self, wanted: u32) -> impl Iterator<Item = Message<'a>> {
        self.bytes(wanted).map(Message::of)
    }

    /// A number; 0 where it is not there.
    pub(super) fn number(&self, wanted: u32) -> i64 {
        let found = self.0.iter().find_map(|field| match *field {
            Field::Number(number, value) if number == wanted => Some(value.cast_signed()),
            _ => None,
        });
        found.unwrap_or(0)
    }
}

/// Packed numbers.
pub(super) fn numbers(mut packed: &[u8]) -> Vec<i64> {
    let mut numbers = Vec::new();
    while !packed.is_empty() {
        numbers.push(varint(&mut packed).cast_signed());
    }
    numbers
}

/// The sum of a field of packed numbers.
pub(super) fn sum(message: &Message<'_>, field: u32) -> i64 {
    message.bytes(field).flat_map(numbers).sum()
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}
