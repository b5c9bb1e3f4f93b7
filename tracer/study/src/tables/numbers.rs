//! Numbers in cells. Leaves out what they mean.

/// A unit with the prefix in which the largest of some values is between 1 and 1000; units that are not of this program's making stay.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    factor: f64,
    /// The unit with its prefix.
    pub(super) unit: String,
}

impl Scale {
    /// The scale of values in this unit: `J`, `s`, `J / steps`.
    pub(super) fn of(unit: &str, values: impl Iterator<Item = f64>) -> Self {
        let largest = values
            .filter(|value| value.is_finite())
            .fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let is_own = ["J", "s", "W"].contains(&unit.split(' ').next().unwrap_or_default());
        let (factor, prefix) = match largest {
            _ if !is_own || largest == 0.0 => (1.0, ""),
            _ if largest >= 1e4 && unit.starts_with('J') => (1e-3, "k"),
            _ if largest >= 1.0 => (1.0, ""),
            _ if largest >= 1e-3 => (1e3, "m"),
            _ if largest >= 1e-6 => (1e6, "µ"),
            _ => (1e9, "n"),
        };
        Self { factor, unit: format!("{prefix}{unit}") }
    }

    /// Four digits of a value.
    pub(super) fn show(&self, value: f64) -> String {
        digits(value * self.factor)
    }
}

/// Four significant digits, without an exponent where it is not needed.
pub(super) fn digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        _ if (1e3..1e9).contains(&size) => format!("{value:.0}"),
        _ if (100.0..1e3).contains(&size) => format!("{value:.1}"),
        _ if (10.0..100.0).contains(&size) => format!("{value:.2}"),
        _ if (1.0..10.0).contains(&size) => format!("{value:.3}"),
        _ if (0.001..1.0).contains(&size) => format!("{value:.4}"),
        _ if size == 0.0 => "0".to_owned(),
        _ => format!("{value:.3e}"),
    }
}

/// A p-value.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }
}

#[cfg(test)]
mod tests {
    use super::Scale;

    /// The largest value has the prefix that reads best; what programs print themselves is left as it is.
    #[test]
    fn prefixes() {
        let of = |unit: &str, value: f64| {
            let scale = Scale::of(unit, [value, value / 1e3, f64::NAN].into_iter());
            format!("{} {}", scale.show(value), scale.unit)
        };
        assert_eq!(of("J", 9.689e-5), "96.89 µJ");
        assert_eq!(of("J / steps", 0.41), "410.0 mJ / steps");
        assert_eq!(of("J", 281.04), "281.0 J");
        assert_eq!(of("J", 23_456.0), "23.46 kJ");
        assert_eq!(of("s", 23_456.0), "23456 s");
        assert_eq!(of("s", 4e-9), "4.000 ns");
        assert_eq!(of("", 0.000_2), "2.000e-4 ");
        assert_eq!(of("J", 0.0), "0 J");
    }
}
