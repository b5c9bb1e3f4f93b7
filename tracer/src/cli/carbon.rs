//! `--grid-gco2-kwh`: the carbon intensity of the grid, the same for `report` and `export`.
//!
//! Leaves out what becomes of it (`report`).

use clap::Args;

/// What the user knows of the grid.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct CarbonArgs {
    /// Carbon intensity of the grid in grams of CO2 equivalent per kWh; without it no emissions are told
    #[arg(long, value_name = "N", value_parser = parse_intensity)]
    grid_gco2_kwh: Option<Milligrams>,
}

impl CarbonArgs {
    /// Milligrams of CO₂ equivalent per kilowatt-hour.
    pub(super) fn mg_per_kwh(self) -> Option<u64> {
        self.grid_gco2_kwh.map(|Milligrams(mg)| mg)
    }
}

/// Milligrams of CO₂ equivalent per kilowatt-hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Milligrams(u64);

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a number in this range")]
fn parse_intensity(text: &str) -> Result<Milligrams, String> {
    let grams = text.parse::<f64>().ok().filter(|grams| (0.0..=1e6).contains(grams));
    let grams = grams.ok_or("expected grams per kWh, such as 385")?;
    Ok(Milligrams((grams * 1e3).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::{Milligrams, parse_intensity};

    /// Grams with decimals are taken; what no grid emits is refused.
    #[test]
    fn intensities() {
        assert_eq!(parse_intensity("385.25"), Ok(Milligrams(385_250)));
        for wrong in ["", "-1", "nan", "inf", "385g", "1e7"] {
            assert!(parse_intensity(wrong).is_err(), "{wrong}");
        }
    }
}
