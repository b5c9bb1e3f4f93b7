//! The powers of a CPU domain's functions, and what was found out on the way to them.
//!
//! Leaves out the estimators (`power_model`): here is the order in which they work.

use super::basis::Basis;
use super::metered::Metered;
use crate::between_samples::parts::Parts;
use crate::power_model::columns::Columns;
use crate::power_model::counter_delay::{Aligned, earlier, learn_beside, learn_with_delay};
use crate::power_model::evidence::Evidence;
use crate::power_model::excerpt::Excerpt;
use crate::power_model::learn::{PowerModel, learn_of_same_times};
use crate::power_model::uncore::{Activity, activity, calibrate, take};
use crate::time::contention::Contention;
use crate::timeline::EnergyInterval;
use energy_trace_model::recording::record::{Domain, Origin};
use energy_trace_model::units::{MicroJoules, MicroWatts};
use std::ops::Range;

/// What was learned of a domain.
pub(super) struct Powers<'a> {
    basis: &'a Basis<'a>,
    pub(super) model: PowerModel,
    /// The intervals that powers are learned from.
    pub(super) excerpt: Excerpt,
    /// These and the times in them, as the counter saw them, and their energy above idle without that of the shared parts.
    pub(super) aligned: Aligned<'a>,
    looked_at: Vec<MicroJoules>,
    /// The same energy of each interval.
    pub(super) dynamic: Vec<MicroJoules>,
    /// Energy of the shared parts of a socket.
    pub(super) uncore: MicroJoules,
    /// How many CPUs were busy when, where powers are learned beside them.
    contention: Option<Contention>,
}

impl<'a> Powers<'a> {
    /// Of a domain.
    pub(super) fn learn(domain: &Domain, metered: &Metered, basis: &'a Basis<'a>) -> Self {
        let mut powers = Self::nothing(basis, metered.dynamic.clone(), Excerpt::default());
        // A model gives every CPU the same power: there is nothing to learn from it.
        if let Origin::Counter { .. } = domain.origin {
            powers.excerpt = basis.excerpt(domain, metered.dynamic.len());
            powers.align(domain, metered);
            let all = earlier(&metered.timeline.intervals, powers.aligned.delay_ns);
            let active = activity(&all, basis.segments_of(domain).busy());
            if !powers.take_uncore(domain, metered, &active) {
                powers.look_beside(domain);
            }
            powers.find_alternatives();
        }
        powers
    }

    fn nothing(basis: &'a Basis<'a>, dynamic: Vec<MicroJoules>, excerpt: Excerpt) -> Self {
        Self {
            basis,
            model: PowerModel::Single(Columns::default()),
            excerpt,
            aligned: Aligned::default(),
            looked_at: vec![],
            dynamic,
            uncore: MicroJoules::ZERO,
            contention: None,
        }
    }

    /// What the powers were learned from.
    pub(super) fn evidence(&self) -> Evidence<'_> {
        self.unaligned().aligned(&self.aligned)
    }

    /// Energy above idle of the intervals that powers are learned from.
    pub(super) fn looked_at(&self) -> &[MicroJoules] {
        &self.looked_at
    }

    fn unaligned(&self) -> Evidence<'_> {
        self.basis.evidence(&self.looked_at)
    }

    /// The parts of a domain's time in any intervals, as those that powers were learned from.
    pub(super) fn parts_in<'s>(
        &'s self,
        domain: &Domain,
        intervals: &'s [EnergyInterval],
    ) -> impl Fn(Range<usize>) -> Parts<'a> + Sync + 's {
        let pieces = self.basis.pieces_of(domain);
        move |some| {
            let intervals = intervals.get(some).unwrap_or_default();
            self.aligned.parts_of(intervals, &pieces, self.basis.conditions, self.contention.as_ref())
        }
    }

    /// Learns powers together with the counter's delay, η of hardware threads and the exponent of clocks.
    fn align(&mut self, domain: &Domain, metered: &Metered) {
        self.looked_at = self.excerpt.take(&self.dynamic);
        let intervals = self.excerpt.take(&metered.timeline.intervals);
        let pieces = self.basis.pieces_of(domain);
        (self.aligned, self.model) =
            learn_with_delay(&intervals, &pieces, self.basis.conditions, &self.unaligned());
    }

    /// Takes the energy of the shared parts apart, where it shows and what is left is likelier; whether it does. Power that only seemed to lag or to
    /// drift because of them no longer does.
    fn take_uncore(&mut self, domain: &Domain, metered: &Metered, active: &[Activity]) -> bool {
        let Some(power) = self.uncore_of(&self.excerpt.take(active)) else { return false };
        let without = Self::nothing(self.basis, self.dynamic.clone(), self.excerpt.clone());
        let before = std::mem::replace(self, without);
        self.uncore = take(power, active, &mut self.dynamic);
        self.align(domain, metered);
        let likelier = self.likelihood() > before.likelihood();
        if !likelier {
            *self = before;
        }
        likelier
    }

    /// The power of the shared parts, by powers that neither lag nor drift.
    fn uncore_of(&self, active: &[Activity]) -> Option<MicroWatts> {
        let accounting = self.basis.accounting;
        let model = self.model.model()?;
        if model.is_steady() {
            return calibrate(model, active, accounting);
        }
        let still = Aligned { lag_ns: 0, ..self.aligned.clone() };
        let plain =
            learn_of_same_times(model, &Evidence { drifting: false, ..self.unaligned().aligned(&still) });
        calibrate(plain.model()?, active, accounting)
    }

    /// How likely energies are; minus infinity where there are no powers.
    fn likelihood(&self) -> f64 {
        self.model.model().map_or(f64::NEG_INFINITY, |model| model.fit.likelihood)
    }

    fn find_alternatives(&mut self) {
        let mut power_model = std::mem::replace(&mut self.model, PowerModel::Single(Columns::default()));
        if let PowerModel::Known(model) = &mut power_model {
            model.find_alternatives(&self.evidence());
        }
        self.model = power_model;
    }

    /// Learns the powers again, alone and beside busy CPUs, where several were busy at once.
    fn look_beside(&mut self, domain: &Domain) {
        let Some(contention) = Contention::of(self.basis.segments_of(domain).busy()) else { return };
        let Some(alone) = self.model.model() else { return };
        if let Some(found) = learn_beside(alone, self.aligned.clone(), &contention, &self.unaligned()) {
            (self.aligned, self.model) = found;
            self.contention = Some(contention);
        }
    }
}
