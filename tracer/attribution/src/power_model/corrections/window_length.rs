//! The assumption that each moment's work is in its own window: nothing corrects it, but longer windows show
//! how much rests on it.
//!
//! Leaves out how powers are fitted to longer windows (`fit`).

use crate::parts::Part;
use crate::power_model::evidence::Evidence;
use crate::power_model::learn::Model;

/// How many windows are one where longer ones are asked.
const LONGER: [usize; 2] = [4, 16];

/// What longer windows say, which would be the same if each moment's work were in its own.
pub(super) fn doubt(model: &Model, _: &Evidence<'_>) -> Vec<Vec<f64>> {
    let Model { design, fit, prior, settings, .. } = model;
    if settings.left_out.has(Part::LongerWindows) || fit.by_pairs.is_some() {
        return vec![];
    }
    fit.solve_longer(design, prior, LONGER).map(|watts| design.energies(&watts)).into()
}
