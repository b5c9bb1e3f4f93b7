//! The powers of a CPU domain's functions, and what was found out on the way to them.
//!
//! Leaves out the estimators (`power_model`): here is the order in which they work.

use super::basis::Basis;
use super::metered::Metered;
use crate::power_model::counter_delay::{Aligned, learn_contention, learn_with_delay};
use crate::power_model::evidence::Evidence;
use crate::power_model::learn::{PowerModel, learn};
use crate::power_model::uncore::{Activity, activity, calibrate, shows_contention, take};
use crate::time::contention::Contention;
use crate::time::occupancy::Presence;
use crate::timeline::reading_jitter;
use energy_trace_model::recording::record::{Domain, Origin};
use energy_trace_model::units::MicroJoules;

/// What was learned of a domain.
pub(super) struct Powers<'a> {
    basis: &'a Basis<'a>,
    present: &'a [Presence],
    pub(super) model: PowerModel,
    /// Intervals and times, as the counter saw them.
    pub(super) aligned: Aligned,
    /// Variance of how late the counter was at each reading (`timeline::reading_jitter`).
    reading_jitter: Vec<f64>,
    /// Energy above idle of each interval, without that of the shared parts.
    pub(super) dynamic: Vec<MicroJoules>,
    /// Energy of the shared parts of a socket.
    pub(super) uncore: MicroJoules,
    /// η of CPUs that drew less beside any others (`time::contention`); `None` where that did not show.
    pub(super) contention: Option<f64>,
}

impl<'a> Powers<'a> {
    /// Of a domain, with who was present in its intervals.
    pub(super) fn learn(
        domain: &Domain,
        metered: &Metered,
        present: &'a [Presence],
        basis: &'a Basis<'a>,
    ) -> Self {
        let mut powers = Self {
            basis,
            present,
            model: PowerModel::Single,
            aligned: Aligned::default(),
            reading_jitter: vec![],
            dynamic: metered.dynamic.clone(),
            uncore: MicroJoules::ZERO,
            contention: None,
        };
        // A model gives every CPU the same power: there is nothing to learn from it.
        if let Origin::Counter { .. } = domain.origin {
            powers.align(domain, metered);
            let active = activity(&powers.aligned.intervals, basis.segments_of(domain));
            if !powers.take_uncore(&active) {
                powers.look_for_contention(domain, &active);
            }
        }
        powers
    }

    /// What the powers were learned from.
    pub(super) fn evidence(&self) -> Evidence<'_> {
        self.unaligned().aligned(&self.aligned)
    }

    fn unaligned(&self) -> Evidence<'_> {
        self.basis.evidence(&self.dynamic, self.present, &self.reading_jitter)
    }

    /// Corrects reading jitter, and learns powers together with the counter's delay, η of hardware threads and the exponent of clocks.
    fn align(&mut self, domain: &Domain, metered: &Metered) {
        let intervals = metered.timeline.intervals.as_slice();
        let busy = self.basis.segments_of(domain).map(|segment| segment.span);
        self.reading_jitter = reading_jitter::correct(intervals, metered.idle, &mut self.dynamic, busy);
        let pieces = self.basis.pieces_of(domain);
        (self.aligned, self.model) =
            learn_with_delay(intervals, &pieces, self.basis.conditions, &self.unaligned());
    }

    /// Takes the energy of the shared parts apart, where it shows; whether it does.
    fn take_uncore(&mut self, active: &[Activity]) -> bool {
        let Some(power) = calibrate(&self.model, active, self.basis.accounting) else { return false };
        self.uncore = take(power, active, &mut self.dynamic);
        self.model = learn(&self.evidence());
        true
    }

    /// Learns the powers again where CPUs draw less beside others and the recording does not say which share a core.
    fn look_for_contention(&mut self, domain: &Domain, active: &[Activity]) {
        if !self.basis.recording.cores.is_empty() || !shows_contention(&self.model, active) {
            return;
        }
        let Some(contention) = Contention::of(self.basis.segments_of(domain)) else { return };
        let model = std::mem::replace(&mut self.model, PowerModel::Single);
        let alone = (std::mem::take(&mut self.aligned), model);
        (self.aligned, self.model) = learn_contention(alone, &contention, &self.unaligned());
        self.contention = self.aligned.eta;
    }
}
