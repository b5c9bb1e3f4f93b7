//! What all domains of a recording share: who ran when, and how energy is accounted for.

use crate::between_samples::parts::Parts;
use crate::power_model::evidence::Evidence;
use crate::power_model::excerpt::Excerpt;
use crate::power_model::paths::PathTree;
use crate::time::conditions::Conditions;
use crate::time::cpu_time::CpuTime;
use crate::time::cpus::Cpus;
use crate::time::launchers::Launchers;
use crate::time::on_cpus::OfDomain;
use crate::time::owners::Segment;
use crate::time::packed_pieces::DomainPieces;
use crate::timeline::Span;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::profile::options::Accounting;
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::Domain;
use energy_trace_model::units::MicroJoules;

/// What all domains of a recording share.
pub(crate) struct Basis<'a> {
    pub(crate) span: Span,
    pub(crate) time: &'a CpuTime,
    pub(crate) tree: &'a PathTree,
    pub(crate) cpus: &'a Cpus,
    pub(crate) accounting: Accounting,
    /// When the machine woke up from sleep.
    pub(crate) woke: &'a [KtimeNs],
    pub(crate) recording: &'a Recording,
    pub(crate) launchers: &'a Launchers,
    pub(crate) conditions: &'a Conditions,
}

impl<'a> Basis<'a> {
    /// On-CPU time on a domain's CPUs.
    pub(super) fn segments_of(&self, domain: &Domain) -> OfDomain<'a, Segment> {
        OfDomain::new(&self.time.segments, |cpu| self.cpus.covers(domain.scope, cpu))
    }

    /// The same between samples.
    pub(super) fn pieces_of(&self, domain: &Domain) -> DomainPieces<'a> {
        self.time.pieces.of_domain(&self.time.marks, |cpu| self.cpus.covers(domain.scope, cpu))
    }

    /// Which of a domain's intervals its powers are learned from.
    pub(super) fn excerpt(&self, domain: &Domain, intervals: usize) -> Excerpt {
        Excerpt::of(intervals, self.pieces_of(domain).on_cpus.count_in(intervals))
    }

    /// What a domain's powers are learned from, but for its intervals.
    pub(super) fn evidence(&self, dynamic: &'a [MicroJoules]) -> Evidence<'a> {
        let marks = self.time.marks.as_slice();
        let (intervals, parts, delay_ns, lag_ns) = (&[][..], Parts::NONE, 0, 0);
        Evidence {
            intervals,
            dynamic,
            parts,
            marks,
            start: self.span.start,
            tree: self.tree,
            delay_ns,
            lag_ns,
            crowded: false,
            drifting: true,
        }
    }
}
