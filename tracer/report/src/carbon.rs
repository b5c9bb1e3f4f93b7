//! What the program's energy means in grams of CO₂, by the grid's carbon intensity that the user named.
//!
//! Leaves out guessing one.

use crate::run;
use crate::table_cells::in_unit;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Quality;

/// Microjoules of a kilowatt-hour.
const UJ_PER_KWH: f64 = 3.6e12;

/// `10.7 mg of CO2e: 100 J of the program at 385 g/kWh`; the intensity is in milligrams of CO₂ equivalent per kilowatt-hour.
#[expect(clippy::cast_precision_loss, reason = "for showing")]
pub fn carbon(profile: &Profile, mg_per_kwh: u64) -> String {
    let choice = run::headline(profile);
    let Some(quality) = run::split_quality(profile, choice) else {
        return "no CO2e: no energy of the program was recorded".to_owned();
    };
    let energy = run::target(profile, choice);
    let grams_per_kwh = mg_per_kwh as f64 / 1e3;
    let grams = energy.as_uj() as f64 / UJ_PER_KWH * grams_per_kwh;
    let estimated = if quality == Quality::Estimated { " (estimated)" } else { "" };
    let joules = in_unit(energy.as_joules(), "J");
    format!("{} of CO2e: {joules} of the program{estimated} at {grams_per_kwh} g/kWh", in_unit(grams, "g"))
}

#[cfg(test)]
mod tests {
    use super::carbon;
    use crate::tests::only_an_amd_gpu;
    use crate::tests::training_runs::{estimated_training, measured_training};
    use energy_trace_model::profile::Profile;
    use energy_trace_model::units::MicroJoules;

    /// A kilowatt-hour is what its grid emits for it; without energy there is nothing to say, and what is estimated is called so.
    #[test]
    fn grams() {
        let mut run = measured_training();
        run.ledger.truncate(1);
        run.ledger[0].target = MicroJoules::from_uj(3_600_000_000_000);
        let said = carbon(&run, 385_500);
        assert!(said.contains("386 g of CO2e") && said.contains("at 385.5 g/kWh"), "{said}");
        assert!(carbon(&estimated_training(), 1).contains("(estimated)"));
        assert!(carbon(&only_an_amd_gpu(), 1).starts_with("no CO2e"));
        assert_eq!(carbon(&Profile::default(), 385_000), "no CO2e: no energy of the program was recorded");
    }
}
