//! Hardware threads that share a core: when a CPU's siblings were busy.
//!
//! Leaves out which CPUs share a core, which the recording says, and what that makes of power
//! (`power_model::corrections`).

use crate::time::on_cpus;
use crate::time::owners::Segment;
use crate::timeline::Span;
use energy_trace_model::ids::CpuId;
use std::collections::BTreeMap;

/// When the CPUs of cores with several hardware threads were busy.
#[derive(Debug, Default)]
pub(crate) struct Siblings {
    /// The others of a CPU's core.
    others: BTreeMap<CpuId, Vec<CpuId>>,
    busy: BTreeMap<CpuId, Busy>,
}

/// A CPU's busy times in order, and how long it was busy before each.
#[derive(Debug, Default)]
struct Busy {
    spans: Vec<Span>,
    before: Vec<u64>,
}

impl Siblings {
    /// Of CPUs that share a core, and all segments, ordered by CPU and start.
    pub(crate) fn of(cores: &[Vec<CpuId>], segments: &[Segment]) -> Self {
        let mut this = Self::default();
        for core in cores.iter().filter(|core| core.len() > 1) {
            for &cpu in core {
                this.others.insert(cpu, core.iter().copied().filter(|other| *other != cpu).collect());
            }
        }
        for of_cpu in segments.chunk_by(|a, b| a.cpu == b.cpu) {
            let Some(cpu) = of_cpu.first().map(|first| first.cpu).filter(|cpu| this.others.contains_key(cpu))
            else {
                continue;
            };
            let busy = this.busy.entry(cpu).or_default();
            let mut sum = 0_u64;
            for span in on_cpus::busy(of_cpu) {
                busy.spans.push(span);
                busy.before.push(sum);
                sum = sum.saturating_add(span.ns());
            }
        }
        this
    }

    /// Whether no CPUs share a core.
    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// What part of a time on a CPU a sibling was busy; of several siblings the busiest counts.
    #[expect(clippy::cast_precision_loss, reason = "a part of one")]
    pub(crate) fn shared(&self, cpu: CpuId, span: Span) -> f64 {
        let others = self.others.get(&cpu).into_iter().flatten();
        let busy = others.filter_map(|other| self.busy.get(other)).map(|busy| busy.within(span)).max();
        busy.map_or(0.0, |ns| ns as f64 / span.ns().max(1) as f64)
    }
}

impl Busy {
    fn within(&self, span: Span) -> u64 {
        let until = |at| {
            let Some(i) = self.spans.partition_point(|span| span.start < at).checked_sub(1) else { return 0 };
            let (last, before) = (self.spans[i], self.before[i]);
            before + Span { start: last.start, end: last.end.min(at) }.ns()
        };
        until(span.end) - until(span.start)
    }
}

#[cfg(test)]
mod tests {
    use super::{Segment, Siblings, Span};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::CpuId;

    fn span(from: u64, to: u64) -> Span {
        Span { start: KtimeNs::from_ns(from), end: KtimeNs::from_ns(to) }
    }

    /// CPUs 0 and 2 share a core: a time on CPU 0 is shared as far as CPU 2 is busy in it; CPU 1 is nobody's
    /// sibling.
    #[test]
    fn shared_as_far_as_the_sibling_is_busy() {
        let segment = |cpu, from, to| Segment { cpu: CpuId::new(cpu), span: span(from, to), owner: 1 };
        let segments = [
            segment(0, 0, 100),
            segment(1, 0, 100),
            segment(2, 10, 30),
            segment(2, 30, 40),
            segment(2, 80, 90),
        ];
        let siblings = Siblings::of(&[vec![CpuId::new(0), CpuId::new(2)]], &segments);
        let shared = |cpu, from, to| siblings.shared(CpuId::new(cpu), span(from, to));
        assert_eq!(
            [shared(0, 0, 100), shared(0, 20, 40), shared(0, 40, 80), shared(0, 85, 95)],
            [0.4, 1.0, 0.0, 0.5]
        );
        assert_eq!([shared(1, 0, 100), shared(2, 80, 90)], [0.0, 1.0]);
    }

    /// A core of one CPU has no siblings.
    #[test]
    fn cores_of_one_cpu() {
        let of = |cpus: u32| Siblings::of(&[(0..cpus).map(CpuId::new).collect()], &[]);
        assert!(of(1).is_empty() && !of(2).is_empty());
    }
}
