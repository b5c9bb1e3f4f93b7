//! Names that fit into a rectangle: without arguments, then without what stands before the last part, then cut off.
//!
//! The tooltip has the whole name. The script of the graph does the same again when the window's width changes (`data/flame.js`), from the
//! short name that is written beside the rectangle. Leaves out how wide a rectangle is (`flame_page.rs`).

use super::folded::LabelKind;
use energy_trace_model::recording::record::FrameKind;
use energy_trace_names::without_brackets;

/// Fewer characters say nothing.
const FEWEST: usize = 3;

/// A name without arguments: of functions, of templates; of Python, without the word for what is inside a function.
pub(crate) fn short(kind: LabelKind, name: &str) -> String {
    match kind {
        LabelKind::Frame(FrameKind::Native | FrameKind::Inlined | FrameKind::Gpu) => without_brackets(name),
        LabelKind::Frame(FrameKind::Python) => name.replace(".<locals>", ""),
        _ => name.to_owned(),
    }
}

/// As much of a name as `room` characters hold; nothing where that is next to nothing.
pub(crate) fn fitting(kind: LabelKind, name: &str, room: usize) -> String {
    let fits = |text: &str| text.chars().count() <= room;
    if room < FEWEST {
        return String::new();
    }
    if fits(name) {
        return name.to_owned();
    }
    let short = short(kind, name);
    let mut rest = &*short;
    while !fits(rest) {
        let Some(after) = separator(kind).and_then(|separator| rest.split_once(separator)) else {
            return rest.chars().take(room - 1).chain(['…']).collect();
        };
        rest = after.1;
    }
    rest.to_owned()
}

/// What divides the parts of a name.
const fn separator(kind: LabelKind) -> Option<&'static str> {
    match kind {
        LabelKind::Frame(FrameKind::Python) => Some("."),
        LabelKind::Frame(FrameKind::Native | FrameKind::Inlined | FrameKind::Gpu) => Some("::"),
        LabelKind::Frame(FrameKind::Kernel | FrameKind::Special | FrameKind::Range)
        | LabelKind::Holder
        | LabelKind::Ledger => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{FrameKind, LabelKind, fitting};

    /// What is left of a name in less and less room.
    #[test]
    fn names_in_little_room() {
        let python = |room| fitting(LabelKind::Frame(FrameKind::Python), "torch.nn.Module._call_impl", room);
        let rooms = [40, 26, 25, 18, 17, 10, 9, 3, 2];
        let names = [
            "torch.nn.Module._call_impl",
            "torch.nn.Module._call_impl",
            "nn.Module._call_impl",
            "Module._call_impl",
            "Module._call_impl",
            "_call_impl",
            "_call_im…",
            "_c…",
            "",
        ];
        assert_eq!(rooms.map(python), names);
        let inner = fitting(LabelKind::Frame(FrameKind::Python), "m.is_prime.<locals>.<genexpr>", 20);
        assert_eq!(inner, "m.is_prime.<genexpr>");
        let native = |room| {
            fitting(LabelKind::Frame(FrameKind::Native), "at::native::conv<float>(at::Tensor const&)", room)
        };
        assert_eq!(
            [42, 41, 18, 13, 5].map(native),
            [
                "at::native::conv<float>(at::Tensor const&)",
                "at::native::conv<…>(…)",
                "native::conv<…>(…)",
                "conv<…>(…)",
                "conv…"
            ]
        );
        assert_eq!(
            fitting(LabelKind::Frame(FrameKind::Native), "libtorch_cpu.so.1.13.0+0x15ebcc0", 12),
            "libtorch_cp…"
        );
        assert_eq!(fitting(LabelKind::Holder, "größere::Namen", 5), "größ…");
    }
}
