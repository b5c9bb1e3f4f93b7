//! What all domains of a recording share: who ran when, and how energy is accounted for.

use crate::parts::LeftOut;
use crate::power_model::carried::CarriedPowers;
use crate::power_model::paths::PathTree;
use crate::power_model::powers::Subject;
use crate::time::conditions::Conditions;
use crate::time::cpu_time::CpuTime;
use crate::time::cpus::Cpus;
use crate::time::launchers::Launchers;
use crate::time::on_cpus::OfDomain;
use crate::time::owners::Segment;
use crate::timeline::{EnergyInterval, Span};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::options::Accounting;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::Domain;

/// What all domains of a recording share.
pub(crate) struct Basis<'a> {
    pub(crate) span: Span,
    pub(crate) time: &'a CpuTime,
    pub(crate) tree: &'a PathTree,
    pub(crate) cpus: &'a Cpus,
    pub(crate) accounting: Accounting,
    /// Parts that are not asked.
    pub(crate) left_out: LeftOut,
    /// When the machine woke up from sleep.
    pub(crate) woke: &'a [KtimeNs],
    pub(crate) recording: &'a Recording,
    pub(crate) launchers: &'a Launchers,
    pub(crate) conditions: &'a Conditions,
    /// What earlier windows have shown.
    pub(crate) carried: Option<&'a CarriedPowers>,
}

impl<'a> Basis<'a> {
    /// On-CPU time on a domain's CPUs.
    pub(super) fn segments_of(&self, domain: &Domain) -> OfDomain<'a, Segment> {
        OfDomain::new(&self.time.segments, |cpu| self.cpus.covers(domain.scope, cpu))
    }

    /// A domain whose powers are learned, with its intervals.
    pub(super) fn subject<'s>(&'s self, domain: &Domain, intervals: &'s [EnergyInterval]) -> Subject<'s> {
        Subject {
            intervals,
            segments: self.segments_of(domain),
            slices: self.time.slices.of_domain(&self.time.points, |cpu| self.cpus.covers(domain.scope, cpu)),
            points: &self.time.points,
            start: self.span.start,
            tree: self.tree,
            carried: self.carried.and_then(|carried| carried.of(&domain.name)),
            conditions: self.conditions,
            method: self.accounting.method,
            left_out: self.left_out,
        }
    }
}
