//! Colours of a flame graph: the hue says what kind of code a frame is, the shade tells neighbours apart.
//!
//! The hues are those of Okabe and Ito (Color Universal Design, 2008), which people with any kind of colour vision tell apart; shades go
//! from a hue towards white, so that black text can be read on all of them. Leaves out the drawing (`flamegraph.rs`).

use super::folded::LabelKind;
use energy_trace_model::recording::record::FrameKind;

/// Red, green and blue.
pub(crate) type Rgb = [u8; 3];

/// What a hue means, in the order of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Hue {
    Python,
    Native,
    Inlined,
    Kernel,
    Gpu,
    Range,
    Special,
    Holder,
}

impl Hue {
    /// Its word in the legend; holders of stacks need none.
    pub(crate) const fn word(self) -> Option<&'static str> {
        match self {
            Self::Python => Some("Python"),
            Self::Native => Some("native"),
            Self::Inlined => Some("inlined"),
            Self::Kernel => Some("kernel"),
            Self::Gpu => Some("GPU"),
            Self::Range => Some("range"),
            Self::Special => Some("no code"),
            Self::Holder => None,
        }
    }

    /// Its class in the style sheet and the script.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Native => "native",
            Self::Inlined => "inlined",
            Self::Kernel => "kernel",
            Self::Gpu => "gpu",
            Self::Range => "range",
            Self::Special => "special",
            Self::Holder => "holder",
        }
    }

    /// The full colour, and how far its shades go towards white, in 255ths.
    const fn base(self) -> (Rgb, u32) {
        match self {
            Self::Python => ([86, 180, 233], 100),
            Self::Native => ([230, 159, 0], 80),
            // Native code too: the same hue, lighter than any of its shades.
            Self::Inlined => ([250, 226, 160], 40),
            Self::Kernel => ([213, 94, 0], 60),
            Self::Gpu => ([0, 158, 115], 40),
            Self::Range => ([204, 121, 167], 60),
            Self::Special => ([205, 205, 205], 60),
            Self::Holder => ([212, 219, 228], 60),
        }
    }

    /// The colour that the legend shows.
    pub(crate) const fn sample(self) -> Rgb {
        self.base().0
    }
}

/// The hue of a label.
pub(crate) const fn hue(kind: LabelKind) -> Hue {
    match kind {
        LabelKind::Holder => Hue::Holder,
        LabelKind::Frame(FrameKind::Range) => Hue::Range,
        LabelKind::Frame(FrameKind::Python) => Hue::Python,
        LabelKind::Frame(FrameKind::Native) => Hue::Native,
        LabelKind::Frame(FrameKind::Inlined) => Hue::Inlined,
        LabelKind::Frame(FrameKind::Kernel) => Hue::Kernel,
        LabelKind::Frame(FrameKind::Gpu) => Hue::Gpu,
        LabelKind::Frame(FrameKind::Special) | LabelKind::Ledger => Hue::Special,
    }
}

/// The colour of a frame: always the same for the same hue and name.
pub(crate) fn color(hue: Hue, name: &str) -> Rgb {
    let (base, reach) = hue.base();
    let white = shade(name) * reach / 255;
    base.map(|channel| {
        let channel = u32::from(channel);
        u8::try_from(channel + (255 - channel) * white / 255).unwrap_or(u8::MAX)
    })
}

/// A colour as SVG has it.
pub(crate) fn css([r, g, b]: Rgb) -> String {
    format!("rgb({r},{g},{b})")
}

/// A number from 0 to 255 that the name decides: FNV-1a (draft-eastlake-fnv), 32 bits, its upper byte.
fn shade(name: &str) -> u32 {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash >> 24
}

#[cfg(test)]
mod tests {
    use super::{Hue, Rgb, color};

    const HUES: [Hue; 8] = [
        Hue::Python,
        Hue::Native,
        Hue::Inlined,
        Hue::Kernel,
        Hue::Gpu,
        Hue::Range,
        Hue::Special,
        Hue::Holder,
    ];

    /// Linear light of sRGB (IEC 61966-2-1).
    fn linear(color: Rgb) -> [f64; 3] {
        color.map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn luminance([r, g, b]: [f64; 3]) -> f64 {
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    fn times(matrix: [[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum())
    }

    /// CIE 1976 L*a*b* (ISO/CIE 11664-4) of linear sRGB, with white D65.
    fn lab(rgb: [f64; 3]) -> [f64; 3] {
        let xyz = times([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]], rgb);
        let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let [x, y, z] = [f(xyz[0] / 0.9505), f(xyz[1]), f(xyz[2] / 1.089)];
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// What all see, and those without red, green or blue cones: Machado, Oliveira and Fernandes 2009, table of severity 1.0.
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    /// The two ends of each hue's shades.
    fn ends(hue: Hue) -> [Rgb; 2] {
        let (base, reach) = hue.base();
        let light = base.map(|c| u8::try_from(u32::from(c) + (255 - u32::from(c)) * reach / 255).unwrap());
        [base, light]
    }

    /// Black text has a contrast of 4.5 or more on every shade (WCAG 2.1, 1.4.3).
    #[test]
    fn black_text_can_be_read() {
        for color in HUES.into_iter().flat_map(ends) {
            let contrast = (luminance(linear(color)) + 0.05) / 0.05;
            assert!(contrast >= 4.5, "{color:?}: {contrast}");
        }
    }

    /// Shades of different kinds of code differ by ten steps of ΔE*ab or more, whoever looks. Greys stand for no code, and are alike.
    #[test]
    fn kinds_are_told_apart_by_all_eyes() {
        let code = &HUES[..7];
        for eyes in EYES {
            for (at, a) in code.iter().enumerate() {
                for b in &code[at + 1..] {
                    for (x, y) in ends(*a).into_iter().flat_map(|x| ends(*b).map(|y| (x, y))) {
                        let [p, q] =
                            [x, y].map(|color| lab(times(eyes, linear(color)).map(|c| c.clamp(0.0, 1.0))));
                        let distance = p.iter().zip(q).map(|(p, q)| (p - q).powi(2)).sum::<f64>().sqrt();
                        assert!(distance >= 10.0, "{a:?} {x:?} and {b:?} {y:?}: {distance:.1}");
                    }
                }
            }
        }
    }

    /// A colour is decided by hue and name alone.
    #[test]
    fn colors_are_stable() {
        assert_eq!(color(Hue::Python, "f"), color(Hue::Python, "f"));
        assert_ne!(color(Hue::Python, "f"), color(Hue::Python, "another"));
        assert_ne!(color(Hue::Python, "f"), color(Hue::Native, "f"));
    }
}
