//! What goes over the socket: frames, each with a length and a kind, all numbers little-endian.
//!
//! ```text
//! frame   length of what follows: u32   kind: u8   body
//! hello 1 protocol: u32   pid: u32   version of CUPTI: u32 (0: none)   what is wrong, or nothing: UTF-8
//! name  2 number: u32   UTF-8
//! tick  3 at: u64   launches: u64   dropped: u64   untimed: u64   cost: u64   then sums of 48 bytes:
//!         correlation u32   device u32   name u32   count u32   node u64   start u64   end u64   busy u64
//! end   4
//! ```
//!
//! `launches`, `dropped`, `untimed` and `cost` (nanoseconds) count from the beginning. Leaves out the socket (`ship`).

use crate::tally::Sum;

/// The version of this layout.
pub const PROTOCOL: u32 = 3;
/// The longest frame that is believed: more than one of `MOST_SUMS`.
const LONGEST: usize = 1 << 20;
/// The most sums of one tick; more go into several, which say the same counts.
pub const MOST_SUMS: usize = 16 << 10;
/// Bytes of a name or a trouble that are sent.
const LONGEST_TEXT: usize = 16 << 10;
const SUM_BYTES: usize = 48;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first one: who speaks, and what is wrong, in which case nothing else follows.
    Hello {
        /// The process, in its own pid namespace.
        pid: u32,
        /// CUPTI's version as it says it; 0 where there is none.
        cupti: u32,
        /// Why nothing is recorded; empty when all is well.
        trouble: String,
    },
    /// The name behind a number, before its first use.
    Name(u32, String),
    /// What was done since the tick before.
    Tick(Tick),
    /// The program ends.
    End,
}

/// What was done since the tick before, and counts from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// When it was put together, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Launches, copies and sets that were reported.
    pub launches: u64,
    /// Records that CUPTI has dropped.
    pub dropped: u64,
    /// Records without times.
    pub untimed: u64,
    /// Nanoseconds that the library itself has taken in the program: its callbacks with the probe in them, reading records, sending.
    pub cost_ns: u64,
    /// The sums.
    pub sums: Vec<Sum>,
}

/// Appends a frame.
pub fn encode(frame: &Frame, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([0; 4]);
    match frame {
        Frame::Hello { pid, cupti, trouble } => {
            out.push(1);
            for number in [PROTOCOL, *pid, *cupti] {
                out.extend(number.to_le_bytes());
            }
            out.extend(cut(trouble).as_bytes());
        }
        Frame::Name(number, name) => {
            out.push(2);
            out.extend(number.to_le_bytes());
            out.extend(cut(name).as_bytes());
        }
        Frame::Tick(tick) => {
            out.push(3);
            for number in [tick.at_ns, tick.launches, tick.dropped, tick.untimed, tick.cost_ns] {
                out.extend(number.to_le_bytes());
            }
            tick.sums.iter().for_each(|sum| encode_sum(sum, out));
        }
        Frame::End => out.push(4),
    }
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// The beginning of a text, as much of it as is sent.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default()
}

fn encode_sum(sum: &Sum, out: &mut Vec<u8>) {
    for number in [sum.correlation, sum.device, sum.name, sum.count] {
        out.extend(number.to_le_bytes());
    }
    for number in [sum.node, sum.start_ns, sum.end_ns, sum.busy_ns] {
        out.extend(number.to_le_bytes());
    }
}

/// Why bytes are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonsense {
    /// A frame that is too long, too short for its kind, or not text where text belongs.
    Malformed,
    /// Another version of this layout.
    OtherProtocol(u32),
}

/// Takes one frame off the front: the frame and how many bytes it took; `None` while it is not whole.
///
/// # Errors
/// When the bytes are no frame; nothing behind them can be read then.
pub fn decode(bytes: &[u8]) -> Result<Option<(Frame, usize)>, Nonsense> {
    let mut head = Bytes(bytes);
    let Some(length) = head.number() else { return Ok(None) };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length == 0 || length > LONGEST {
        return Err(Nonsense::Malformed);
    }
    let Some(body) = bytes.get(4..4 + length) else { return Ok(None) };
    let frame = decode_body(body)?;
    Ok(Some((frame, 4 + length)))
}

fn decode_body(body: &[u8]) -> Result<Frame, Nonsense> {
    let (&kind, rest) = body.split_first().ok_or(Nonsense::Malformed)?;
    let mut rest = Bytes(rest);
    match kind {
        1 => {
            let protocol = rest.number().ok_or(Nonsense::Malformed)?;
            if protocol != PROTOCOL {
                return Err(Nonsense::OtherProtocol(protocol));
            }
            let (pid, cupti) = rest.number().zip(rest.number()).ok_or(Nonsense::Malformed)?;
            Ok(Frame::Hello { pid, cupti, trouble: rest.text()? })
        }
        2 => {
            let number = rest.number().ok_or(Nonsense::Malformed)?;
            Ok(Frame::Name(number, rest.text()?))
        }
        3 => decode_tick(rest).map(Frame::Tick).ok_or(Nonsense::Malformed),
        4 => Ok(Frame::End),
        _ => Err(Nonsense::Malformed),
    }
}

fn decode_tick(mut bytes: Bytes<'_>) -> Option<Tick> {
    let (at_ns, launches) = (bytes.long()?, bytes.long()?);
    let (dropped, untimed, cost_ns) = (bytes.long()?, bytes.long()?, bytes.long()?);
    if !bytes.0.len().is_multiple_of(SUM_BYTES) {
        return None;
    }
    let mut sums = Vec::with_capacity(bytes.0.len() / SUM_BYTES);
    while !bytes.0.is_empty() {
        let (correlation, device) = (bytes.number()?, bytes.number()?);
        let (name, count) = (bytes.number()?, bytes.number()?);
        let (node, start_ns, end_ns, busy_ns) = (bytes.long()?, bytes.long()?, bytes.long()?, bytes.long()?);
        sums.push(Sum { correlation, device, name, node, count, start_ns, end_ns, busy_ns });
    }
    Some(Tick { at_ns, launches, dropped, untimed, cost_ns, sums })
}

/// Bytes that are taken off the front.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&self) -> Result<String, Nonsense> {
        String::from_utf8(self.0.to_vec()).map_err(|_| Nonsense::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, Nonsense, PROTOCOL, Tick, decode, encode};
    use crate::tally::Sum;
    use proptest::prelude::*;

    fn sum(n: u32) -> Sum {
        let long = u64::from(n) << 33;
        Sum {
            correlation: n,
            device: n + 1,
            name: n + 2,
            node: long + 3,
            count: n + 3,
            start_ns: long,
            end_ns: long + 4,
            busy_ns: long + 5,
        }
    }

    /// Every kind comes back as it went, one after the other, and not before it is whole.
    #[test]
    fn round_trip() {
        let tick =
            Tick { at_ns: 1, launches: 2, dropped: 3, untimed: 4, cost_ns: 5, sums: vec![sum(1), sum(9)] };
        let hello = Frame::Hello { pid: 7, cupti: 130_000, trouble: "no CUPTI".to_owned() };
        let frames = [hello, Frame::Name(3, "gemm".to_owned()), Frame::Tick(tick), Frame::End];
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| encode(frame, &mut bytes));
        let mut rest = bytes.as_slice();
        for frame in &frames {
            let (found, length) = decode(rest).unwrap().unwrap();
            assert_eq!(&found, frame);
            assert_eq!(decode(&rest[..length - 1]).unwrap(), None);
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
        bytes[5] = 9;
        assert_eq!(decode(&bytes), Err(Nonsense::OtherProtocol(9)));
    }

    proptest! {
        /// No bytes make it panic or take more than there is.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some((_, length))) = decode(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }
    }

    /// The script for real GPUs reads this version of the layout.
    #[test]
    fn the_script_for_real_gpus_reads_this() {
        let script = include_str!("../../../tests/gpu_check/parts.py");
        assert!(
            script.contains(&format!("\nPROTOCOL = {PROTOCOL}\n")),
            "tests/gpu_check/parts.py reads another version"
        );
    }
}
