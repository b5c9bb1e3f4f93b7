//! Which CPUs belong to which socket, and so to which domain.
//!
//! The socket is a property of the CPU, not of the process: a thread that migrates is charged on each socket for the time it spent there.

use crate::time::cpu_time::CpuTime;
use energy_trace_model::ids::{CpuId, SocketId};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::Scope;
use std::collections::{BTreeMap, BTreeSet};

/// Which CPUs belong to which socket.
#[derive(Debug)]
pub(crate) struct Cpus {
    sockets: BTreeMap<CpuId, SocketId>,
    /// The socket of all CPUs that the table lacks, where there is one socket only.
    only: Option<SocketId>,
    /// Whether any domain belongs to a socket.
    matters: bool,
}

impl Cpus {
    pub(crate) fn of(recording: &Recording) -> Self {
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

    pub(crate) fn covers(&self, scope: Scope, cpu: CpuId) -> bool {
        match scope {
            Scope::Socket(socket) => self.socket(cpu) == Some(socket),
            Scope::Core(first, last) => cpu == first || cpu == last,
            Scope::Machine => true,
            Scope::Gpu(_) => false,
        }
    }

    /// On-CPU time that no socket's energy can be charged for, where sockets have energy at all.
    pub(crate) fn time_without_socket(&self, time: &CpuTime) -> u64 {
        if !self.matters {
            return 0;
        }
        let unknown = time.segments.iter().filter(|segment| self.socket(segment.cpu).is_none());
        unknown.fold(0, |sum, segment| segment.span.ns().saturating_add(sum))
    }
}
