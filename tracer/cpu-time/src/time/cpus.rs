//! Which CPUs belong to which socket, and so to which domain.
//!
//! The socket is a property of the CPU, not of the process: a thread that migrates is charged on each socket
//! for the time it spent there.

use crate::time::cpu_time::CpuTime;
use energy_trace_model::ids::{CpuId, SocketId};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::Scope;
use std::collections::{BTreeMap, BTreeSet};

/// Which CPUs belong to which socket.
#[derive(Debug)]
pub struct Cpus {
    sockets: BTreeMap<CpuId, SocketId>,
    /// The socket of all CPUs that the table lacks, where there is one socket only.
    only: Option<SocketId>,
    /// Whether any domain belongs to a socket.
    matters: bool,
}

impl Cpus {
    /// Of the machine that was recorded.
    pub fn of(recording: &Recording) -> Self {
        let sockets = recording.header.sockets.clone();
        let of_domains = recording.domains.iter().filter_map(|domain| match domain.scope {
            Scope::Socket(socket) => Some(socket),
            Scope::Core(..) | Scope::Machine | Scope::Gpu(_) => None,
        });
        let of_domains: BTreeSet<SocketId> = of_domains.collect();
        let all: BTreeSet<SocketId> = sockets.values().chain(&of_domains).copied().collect();
        let only = if all.len() == 1 { all.first().copied() } else { None };
        Self { sockets, only, matters: !of_domains.is_empty() }
    }

    pub(crate) fn socket(&self, cpu: CpuId) -> Option<SocketId> {
        self.sockets.get(&cpu).copied().or(self.only)
    }

    /// Whether a domain of this scope covers a CPU.
    pub fn covers(&self, scope: Scope, cpu: CpuId) -> bool {
        match scope {
            Scope::Socket(socket) => self.socket(cpu) == Some(socket),
            Scope::Core(first, last) => cpu == first || cpu == last,
            Scope::Machine => true,
            Scope::Gpu(_) => false,
        }
    }

    /// How many of the machine's CPUs a domain has, as far as they are known.
    pub fn count(&self, scope: Scope) -> usize {
        self.sockets.keys().filter(|cpu| self.covers(scope, **cpu)).count()
    }

    /// On-CPU time that no socket's energy can be charged for, where sockets have energy at all.
    pub fn time_without_socket(&self, time: &CpuTime) -> u64 {
        if !self.matters {
            return 0;
        }
        let unknown = time.segments.iter().filter(|segment| self.socket(segment.cpu).is_none());
        unknown.fold(0, |sum, segment| segment.span.ns().saturating_add(sum))
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuId, Cpus, Recording, Scope, SocketId};
    use crate::time::compact_slices::InterSampleSlices;
    use crate::time::cpu_time::CpuTime;
    use crate::time::owners::Segment;
    use crate::timeline::Span;
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::DomainId;
    use energy_trace_model::recording::record::{Domain, DomainClass, Origin};

    /// CPUs 0 and 1 are of these sockets, and each of these scopes has a domain.
    fn cpus(sockets: [u32; 2], scopes: &[Scope]) -> Cpus {
        let mut recording = Recording::default();
        recording.header.sockets = (0..).map(CpuId::new).zip(sockets.map(SocketId::new)).collect();
        let domain = |scope: &Scope| Domain {
            id: DomainId::new(0),
            name: String::new(),
            class: DomainClass::Package,
            scope: *scope,
            origin: Origin::measured("powercap", String::new(), None),
            idle: None,
        };
        recording.domains = scopes.iter().map(domain).collect();
        Cpus::of(&recording)
    }

    /// A CPU that no table has is of the only socket, where there is one only. A core has its two CPUs, the
    /// machine all, a GPU none.
    #[test]
    fn who_is_where() {
        let [zero, one, strange] = [0, 1, 7].map(CpuId::new);
        let first = Scope::Socket(SocketId::new(0));
        let single = cpus([0, 0], &[first]);
        assert!([zero, one, strange].iter().all(|cpu| single.covers(first, *cpu)));
        let two = cpus([0, 1], &[first]);
        assert_eq!([zero, one, strange].map(|cpu| two.covers(first, cpu)), [true, false, false]);
        assert_eq!(two.socket(one), Some(SocketId::new(1)));
        let core = Scope::Core(zero, strange);
        assert_eq!([zero, one, strange].map(|cpu| two.covers(core, cpu)), [true, false, true]);
        assert!(two.covers(Scope::Machine, strange) && !two.covers(Scope::Gpu(0), zero));
    }

    /// Time on CPUs without a socket, 5 and 3 ns, counts where sockets have energy at all.
    #[test]
    fn time_without_a_socket() {
        let at = KtimeNs::from_ns;
        let segment = |cpu, from, until| Segment {
            cpu: CpuId::new(cpu),
            span: Span::new(at(from), at(until)),
            owner: 0,
        };
        let segments = vec![segment(0, 0, 9), segment(7, 2, 7), segment(8, 4, 7)];
        let time = CpuTime {
            segments,
            owners: vec![],
            slices: InterSampleSlices::default(),
            points: vec![],
            overlaps: 0,
        };
        let first = Scope::Socket(SocketId::new(0));
        assert_eq!(cpus([0, 1], &[first]).time_without_socket(&time), 8);
        assert_eq!(cpus([0, 0], &[first]).time_without_socket(&time), 0);
        assert_eq!(cpus([0, 1], &[Scope::Machine]).time_without_socket(&time), 0);
    }
}
