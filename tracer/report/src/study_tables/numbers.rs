//! Numbers in cells. Leaves out what they mean.

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
