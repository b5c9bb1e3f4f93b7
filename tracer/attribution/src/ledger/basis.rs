//! What all domains of a recording share: who ran when, and how energy is accounted for.

use crate::power_model::classes::ClassId;
use crate::power_model::evidence::Evidence;
use crate::time::conditions::Conditions;
use crate::time::cpu_time::CpuTime;
use crate::time::cpus::Cpus;
use crate::time::launchers::Launchers;
use crate::time::occupancy::Presence;
use crate::time::owners::Segment;
use crate::time::pieces::Piece;
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
    pub(crate) class_of: &'a [ClassId],
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
    pub(super) fn segments_of(&self, domain: &Domain) -> impl Iterator<Item = &'a Segment> + use<'a> {
        let (cpus, scope) = (self.cpus, domain.scope);
        self.time.segments.iter().filter(move |segment| cpus.covers(scope, segment.cpu))
    }

    /// The same between samples.
    pub(super) fn pieces_of(&self, domain: &Domain) -> impl Iterator<Item = &'a Piece> + Clone + use<'a> {
        let (cpus, scope) = (self.cpus, domain.scope);
        self.time.pieces.iter().filter(move |piece| cpus.covers(scope, piece.cpu))
    }

    /// What a domain's powers are learned from, but for its intervals.
    pub(super) fn evidence(
        &self,
        dynamic: &'a [MicroJoules],
        presences: &'a [Presence],
        reading_jitter: &'a [f64],
    ) -> Evidence<'a> {
        let (marks, class_of) = (self.time.marks.as_slice(), self.class_of);
        let (intervals, parts, delay_ns) = (&[][..], &[][..], 0);
        let start = self.span.start;
        Evidence { intervals, dynamic, presences, parts, marks, start, class_of, reading_jitter, delay_ns }
    }
}
