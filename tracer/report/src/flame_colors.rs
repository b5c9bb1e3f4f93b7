//! Colours of a flame graph: the hue says what kind of code a frame is, the shade tells neighbours apart.
//!
//! Leaves out the drawing (`flamegraph.rs`).

use super::folded::LabelKind;
use energy_trace_model::recording::record::FrameKind;

/// Red, green and blue.
pub(crate) type Rgb = [u8; 3];

/// What the hues mean, for the graph's second line.
pub(crate) const LEGEND: &str = "blue: Python, orange: native, red: kernel, green: GPU, grey: no code";

/// The two ends of a kind's shades.
const fn ends(kind: LabelKind) -> (Rgb, Rgb) {
    match kind {
        LabelKind::Holder => ([196, 204, 214], [208, 214, 222]),
        LabelKind::Frame(FrameKind::Python) => ([104, 160, 220], [150, 194, 238]),
        LabelKind::Frame(FrameKind::Native) => ([240, 150, 60], [250, 196, 112]),
        LabelKind::Frame(FrameKind::Inlined) => ([244, 186, 120], [252, 214, 160]),
        LabelKind::Frame(FrameKind::Kernel) => ([218, 92, 84], [236, 128, 116]),
        LabelKind::Frame(FrameKind::Gpu) => ([96, 180, 96], [146, 210, 136]),
        LabelKind::Frame(FrameKind::Special) | LabelKind::Ledger => ([206, 206, 206], [222, 222, 222]),
    }
}

/// The colour of a frame: always the same for the same kind and name.
pub(crate) fn color(kind: LabelKind, name: &str) -> Rgb {
    let (from, to) = ends(kind);
    let shade = shade(name);
    std::array::from_fn(|channel| {
        let (from, to) = (u32::from(from[channel]), u32::from(to[channel]));
        u8::try_from((from * (255 - shade) + to * shade) / 255).unwrap_or(u8::MAX)
    })
}

/// A number from 0 to 255 that the name decides: FNV-1a (draft-eastlake-fnv), 32 bits, its upper byte.
fn shade(name: &str) -> u32 {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash >> 24
}

#[cfg(test)]
mod tests {
    use super::{FrameKind, LabelKind, color};

    /// A colour is decided by kind and name alone, and kinds never meet.
    #[test]
    fn colors_are_stable_and_apart() {
        let python = color(LabelKind::Frame(FrameKind::Python), "f");
        assert_eq!(python, color(LabelKind::Frame(FrameKind::Python), "f"));
        assert_ne!(python, color(LabelKind::Frame(FrameKind::Python), "another"));
        let [red, _, blue] = python;
        assert!(blue > red);
        let [red, _, blue] = color(LabelKind::Frame(FrameKind::Native), "f");
        assert!(red > blue);
    }
}
