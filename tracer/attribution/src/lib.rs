//! Joules per thread and stack, from a recording.
//!
//! For every domain and every interval between two readings:
//!
//! ```text
//! measured = target + other + idle + uncore + residual + Σ unattributed        to the microjoule
//! ```
//!
//! 1. `time`: on-CPU slices are cut into segments, each owned by a sample's stack. Time is conserved to the nanosecond. `unseen`: what no
//!    sample may stand for. `strangers`: which other processes are told apart.
//! 2. `timeline` (its own room): readings become intervals of energy; a model stands in where there is no counter.
//! 3. `occupancy`: who was on the domain's CPUs in each interval, for how long. The socket is a property of the CPU, not of the process,
//!    so a thread that migrates is charged on each socket for the time it spent there.
//! 4. `line`, `bridge` and `chain`: what threads were probably doing between two samples; `counts`: times that agree with the number of
//!    samples; `design`: the times that this makes of each window. `behind`: how far behind the counter is on average; `late`: how late it
//!    was at each reading, where windows in which nothing ran show it; `conditions`: hardware threads that share a core
//!    (`siblings`), and clocks of CPUs (`frequency`); `company`: CPUs that draw less beside others, whoever shares what.
//! 5. `intensity`: how much power each function draws, where the run shows it; `speed`: when all drew more or less at once; `uncore`: the
//!    shared parts of a socket. `gates`: whether that may be used at all.
//!    `segments`: where a thread's mix changed; `steady`: windows in which no thread changed its function.
//! 6. `share`: idle apart, the rest split by time, in integers; `posterior`: by expected time and watts; `update`: what an interval's
//!    energy says about times; `idle`: what becomes of the baseline.
//! 7. `resample`, `doubt_of_watts` and `lockstep`: how sure all of that is (`profile::certainty`).
//! 8. `behalf`: for whom workers work, where a view asks for it.
//! 9. `rows`: what each thread and stack gets; `ledger`: the row of each domain; `doubts`: what the reader must know about it.
//!
//! DRAM and psys are split by CPU time as packages are: DRAM by the CPUs of its socket, psys by all. A GPU's energy above idle is split by
//! what was launched on it (`gpu`); where no launches are recorded it is `unattributed`. A gap adds nothing to any number, since nothing was measured.
//!
//! Pure: no files, no clock, no symbols. Names are compared (`class`), never read. Sources: the split by CPU time is that of Kepler
//! (CLOUD 2023) and Chappie (FSE 2020), with idle apart and exact time; the conservation law and the weights are explained where they stand.

mod between_samples;
mod delegation;
mod gpu;
mod ledger;
mod numerics;
mod power_model;
mod split;
mod time;
pub mod timeline;
mod uncertainty;

pub use delegation::{AFTER_THE_CALL, ON_BEHALF_OF};

use crate::timeline::Span;
use delegation::{Behalf, Logical};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{CpuId, SocketId};
use energy_trace_model::profile::accounting::Accounting;
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::profile::{EnergyProfile, View};
use energy_trace_model::recording::Recording;
use energy_trace_model::recording::record::Scope;
use ledger::account::{Account, Basis, account};
use ledger::{diagnostics, rows};
use power_model::classes;
use std::collections::{BTreeMap, BTreeSet};
use time::background::Strangers;
use time::conditions::Conditions;
use time::slices::CpuTime;

/// Attributes the energy of a recording: the ledger of each domain and the joules of each thread and stack, in the physical view.
///
/// Exact for every recording whose energy stays below 9.2 TJ: each row's `imbalance` is zero, Σ rows = Σ ledger targets per class, and the
/// rows' time is the target's on-CPU time within the recording's span. Never panics, also on nonsense.
pub fn attribute(recording: &Recording) -> EnergyProfile {
    attribute_as(recording, Accounting::default())
}

/// As `attribute`, accounting as the reader chose.
pub fn attribute_as(recording: &Recording, accounting: Accounting) -> EnergyProfile {
    let found = Found::of(recording, accounting);
    let rows = delegation::physical(&rows::by_owner(&found.time, &found.accounts));
    found.into_profile(rows, View::Physical, accounting)
}

/// The same in the logical view: workers are charged to the Python stack that they work for (`behalf`). The recording gets the joined
/// stacks that the rows name; each thread's sums are those of the physical view, to the microjoule.
pub fn attribute_logically(recording: &mut Recording) -> EnergyProfile {
    attribute_logically_as(recording, Accounting::default())
}

/// As `attribute_logically`, accounting as the reader chose.
pub fn attribute_logically_as(recording: &mut Recording, accounting: Accounting) -> EnergyProfile {
    let found = Found::of(recording, accounting);
    let owners = rows::by_owner(&found.time, &found.accounts);
    let Logical { frames, stacks, rows } = delegation::logical(recording, &found.behalf, &owners);
    recording.frames.extend(frames);
    recording.stacks.extend(stacks);
    found.into_profile(rows, View::Logical, accounting)
}

/// What is found out before anybody asks for rows.
struct Found {
    time: CpuTime,
    behalf: Behalf,
    accounts: Vec<Account>,
    diagnostics: Vec<Diagnostic>,
}

impl Found {
    fn of(recording: &Recording, accounting: Accounting) -> Self {
        let span = span_of(recording);
        let cpus = Cpus::of(recording);
        let strangers = Strangers::of(&recording.slices, &recording.strangers);
        let mut time =
            CpuTime::new(&recording.slices, &recording.samples, &strangers, &recording.unseen, span);
        gpu::enlist(recording, &mut time);
        let behalf = delegation::refine(recording, &mut time, span);
        let class_of = classes::classes_of(recording, &time.owners);
        let woke = &recording.sleeps;
        let launchers = &behalf.launchers;
        let conditions = &Conditions::of(recording, &time.segments);
        let basis = Basis {
            span,
            time: &time,
            class_of: &class_of,
            cpus: &cpus,
            accounting,
            woke,
            recording,
            launchers,
            conditions,
        };
        let mut found: Vec<Diagnostic> =
            recording.diagnostics.iter().cloned().map(Diagnostic::Recorded).collect();
        let accounts: Vec<Account> = recording
            .domains
            .iter()
            .map(|domain| {
                let readings = recording.readings.get(&domain.id).map_or(&[][..], Vec::as_slice);
                let account = account(domain, readings, &basis);
                found.extend(diagnostics::of_domain(domain, &account, span));
                account
            })
            .collect();
        found.extend(diagnostics::of_kernels(&recording.gpu.tiers));
        found.extend(diagnostics::of_launch_stacks(recording.gpu.stacks));
        found.extend(diagnostics::of_recording(time.overlaps, cpus.time_without_socket(&time)));
        Self { time, behalf, accounts, diagnostics: found }
    }

    fn into_profile(
        self,
        rows: Vec<delegation::Sourced>,
        view: View,
        accounting: Accounting,
    ) -> EnergyProfile {
        let (rows, sources): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let certainty = rows::certainty(&self.accounts, &sources);
        let ledger = self.accounts.into_iter().map(|account| account.row).collect();
        EnergyProfile { accounting, ledger, rows, view, certainty, diagnostics: self.diagnostics }
    }
}

/// The recording's time. One that was cut off ends with the last thing in it.
fn span_of(recording: &Recording) -> Span {
    if let Some(summary) = &recording.summary {
        return Span::new(summary.start, summary.end);
    }
    let start = recording.header.anchor.ktime;
    let slices = recording.slices.iter().map(|slice| slice.end);
    let samples = recording.samples.iter().map(|sample| sample.at);
    let readings = recording.readings.values().flatten().map(|reading| reading.at);
    let last = slices.chain(samples).chain(readings).max().unwrap_or(KtimeNs::default());
    Span::new(start, last)
}

/// Which CPUs belong to which socket.
#[derive(Debug)]
struct Cpus {
    sockets: BTreeMap<CpuId, SocketId>,
    /// The socket of all CPUs that the table lacks, where there is one socket only.
    only: Option<SocketId>,
    /// Whether any domain belongs to a socket.
    matters: bool,
}

impl Cpus {
    fn of(recording: &Recording) -> Self {
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

    fn socket(&self, cpu: CpuId) -> Option<SocketId> {
        self.sockets.get(&cpu).copied().or(self.only)
    }

    fn covers(&self, scope: Scope, cpu: CpuId) -> bool {
        match scope {
            Scope::Socket(socket) => self.socket(cpu) == Some(socket),
            Scope::Core(first, last) => cpu == first || cpu == last,
            Scope::Machine => true,
            Scope::Gpu(_) => false,
        }
    }

    /// On-CPU time that no socket's energy can be charged for, where sockets have energy at all.
    fn time_without_socket(&self, time: &CpuTime) -> u64 {
        if !self.matters {
            return 0;
        }
        let unknown = time.segments.iter().filter(|segment| self.socket(segment.cpu).is_none());
        unknown.fold(0, |sum, segment| segment.span.ns().saturating_add(sum))
    }
}
