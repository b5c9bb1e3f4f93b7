//! What a profile's windows hold: rows by program and stack, the ledger, and units of work.
//!
//! Leaves out how they are written (`objects.rs`).

use super::{ACCOUNTS, Accounts, Done, Fleet, Key, OfStack, Program, Spent, Window, warnings};
use crate::parquet::{number_of, outermost_call};
use crate::stacks::Stacks;
use crate::workloads::workloads_of;
use crate::{ExportOptions, Input};
use energy_trace_certainty::HowSure as _;
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::profile::over_time::{BinEnergy, OverTime};
use energy_trace_model::profile::{EnergyByClass, LedgerRow, Profile, ProfileRow, UnattributedReason};
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::process_name;
use energy_trace_names::shown::shown;
use energy_trace_names::workload::Workload;
use energy_trace_report::agent_page::{OUTSIDE, UNSEEN};
use energy_trace_report::calls::CallTable;
use energy_trace_report::csv::kind_word;
use energy_trace_report::folded::Per;
use energy_trace_report::{DomainChoice, run};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Windows begin with the minutes of UTC, as far as bins of time do.
const WINDOW_NS: u64 = 60_000_000_000;

const SECOND_NS: u64 = 1_000_000_000;
/// On a busy machine clocks are compared to some microseconds, seldom worse.
const APART_NS: u64 = 1_000_000;

/// To the microsecond that tables say; a window that begins with a second of the clock does so here too.
const fn to_microsecond(ns: u64) -> u64 {
    let second = ns.saturating_add(SECOND_NS / 2) / SECOND_NS * SECOND_NS;
    if ns.abs_diff(second) < APART_NS { second } else { ns.saturating_add(500) / 1_000 * 1_000 }
}

pub(super) fn add(fleet: &mut Fleet, input: &Input<'_>, options: &ExportOptions) {
    let first = fleet.windows.len();
    let stretches = stretches(input);
    let start = |at: KtimeNs| to_microsecond(input.profile.run.header.anchor.unix_ns_of(at));
    fleet.windows.extend(
        stretches.iter().map(|of| Window { start_ns: start(of.from), length_ns: of.to.ns_since(of.from) }),
    );
    let stacks = Stacks::of_frames(input.profile, &options.stacks(Per::None));
    let gathering = Gathering {
        input,
        domain: options.domain,
        stretches: &stretches,
        first,
        stacks: &stacks,
        workloads: workloads(input.profile),
    };
    gathering.add_rows(fleet);
    gathering.add_ledger(fleet);
    gathering.add_work(fleet);
}

/// Whose each process is. Where control groups are known, who is in none has the word of an agent's page.
fn workloads(profile: &Profile) -> Vec<Workload> {
    let groups = profile.groups_of_processes();
    let is_known = !profile.control_groups.is_empty();
    let named = |(workload, group): (Workload, &Option<&str>)| {
        let is_nobodys = Workload { rank: None, ..workload.clone() } == Workload::default();
        let word = if *group == Some("") { UNSEEN } else { OUTSIDE };
        let unit = if is_nobodys && is_known { Some(word.to_owned()) } else { workload.unit };
        Workload { unit, ..workload }
    };
    workloads_of(profile).into_iter().zip(&groups).map(named).collect()
}

/// A window of a profile: its time, and its bins, where it has any.
struct Stretch {
    from: KtimeNs,
    to: KtimeNs,
    bins: Range<u32>,
}

/// Bins that begin in the same minute are a window.
fn stretches(input: &Input<'_>) -> Vec<Stretch> {
    let run = &input.profile.run;
    let Some(over_time) = input.over_time else {
        return vec![Stretch { from: run.start, to: run.end, bins: 0..0 }];
    };
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut last = None;
    for bin in input.bins.clone() {
        let (from, to) = over_time.bins.span(bin);
        let minute = to_microsecond(run.header.anchor.unix_ns_of(from)) / WINDOW_NS;
        match stretches.last_mut().filter(|_| last == Some(minute)) {
            Some(stretch) => (stretch.to, stretch.bins.end) = (to, bin + 1),
            None => stretches.push(Stretch { from, to, bins: bin..bin + 1 }),
        }
        last = Some(minute);
    }
    stretches
}

struct Gathering<'a> {
    input: &'a Input<'a>,
    domain: DomainChoice,
    stretches: &'a [Stretch],
    /// The number of the first window.
    first: usize,
    stacks: &'a Stacks<'a>,
    /// By the numbers of processes.
    workloads: Vec<Workload>,
}

/// What a row has in a window.
#[derive(Clone, Copy, Default)]
struct Part {
    energy: EnergyByClass,
    time_ns: u64,
    samples: u64,
}

impl Gathering<'_> {
    fn add_rows(&self, fleet: &mut Fleet) {
        let profile = self.input.profile;
        let classes = self.classes();
        let mut calls = CallTable::new(profile);
        let mut rows_of: HashMap<Key, Vec<usize>> = HashMap::new();
        for (number, row) in profile.rows.iter().enumerate() {
            let parts = self.parts(number, row);
            if parts.is_empty() {
                continue;
            }
            let program = self.program(row, &fleet.facts.namespaces);
            let program = fleet.programs.insert_full(program).0;
            let stack = self.add_stack(fleet, number, row, &mut calls);
            for (window, part) in parts {
                for (class, spent) in spent_of(&part, &classes) {
                    let key = Key { program, stack, window: self.first + window, class };
                    fleet.energy.entry(key).or_default().add(spent);
                    rows_of.entry(key).or_default().push(number);
                }
            }
        }
        self.add_intervals(fleet, &rows_of);
    }

    /// The chosen classes and how good their numbers are.
    fn classes(&self) -> Vec<(DomainClass, Option<&'static str>)> {
        let profile = self.input.profile;
        let mut classes: Vec<_> = run::ledger_of(profile, self.domain).map(|row| row.class).collect();
        classes.order();
        classes.dedup();
        let quality = |class| run::split_quality(profile, DomainChoice::Class(class)).map(run::quality_word);
        classes.into_iter().map(|class| (class, quality(class))).collect()
    }

    /// What a row has in each window in which it has something.
    fn parts(&self, number: usize, row: &ProfileRow) -> Vec<(usize, Part)> {
        let Some(over_time) = self.input.over_time else {
            return vec![(0, Part { energy: row.energy, time_ns: row.time_ns, samples: row.samples })];
        };
        let mut parts = self.parts_over_time(over_time, number);
        let all = over_time.of_row(number).iter().map(|entry| entry.time_ns);
        share_samples(row.samples, all.fold(0, u64::saturating_add), &mut parts);
        parts
    }

    fn parts_over_time(&self, over_time: &OverTime, number: usize) -> Vec<(usize, Part)> {
        let mut parts: Vec<(usize, Part)> = Vec::new();
        for entry in over_time.of_row(number) {
            let window = self.stretches.partition_point(|of| of.bins.end <= entry.bin);
            if self.stretches.get(window).is_none_or(|of| !of.bins.contains(&entry.bin)) {
                continue;
            }
            if parts.last().is_none_or(|(last, _)| *last != window) {
                parts.push((window, Part::default()));
            }
            if let Some((_, part)) = parts.last_mut() {
                part.energy += entry.energy;
                part.time_ns = part.time_ns.saturating_add(entry.time_ns);
            }
        }
        parts
    }

    fn program(&self, row: &ProfileRow, namespaces: &HashMap<String, String>) -> Program {
        let profile = self.input.profile;
        let thread: ThreadKey = row.on_behalf_of.unwrap_or(row.thread);
        let process = profile.threads.get(thread.index()).map(|thread| thread.process);
        let known = process.and_then(|key| profile.processes.get(key.index()));
        let workload = process.and_then(|key| self.workloads.get(key.index())).cloned().unwrap_or_default();
        let namespace = workload.pod_uid.as_deref().and_then(|pod| namespaces.get(pod));
        Program {
            namespace: namespace.map(|name| shown(name).into_owned()),
            workload,
            name: shown(process_name(known)).into_owned(),
        }
    }

    /// The number of a row's stack, which is known from now on. Its frames are folded, its calls are not.
    fn add_stack(&self, fleet: &mut Fleet, at: usize, row: &ProfileRow, calls: &mut CallTable<'_>) -> i64 {
        let folded = self.stacks.profile.rows.get(at).unwrap_or(row);
        let path = self.stacks.path_of_row(folded);
        let frames: Vec<&str> = path.iter().map(|frame| self.stacks.name(*frame)).collect();
        let number = number_of(&frames);
        fleet.stacks.entry(number).or_insert_with(|| {
            let code: Vec<_> = path.iter().filter_map(|frame| self.stacks.frame(*frame)).collect();
            let module = code.last().map(|frame| frame.module.as_str()).filter(|module| !module.is_empty());
            OfStack {
                frames: frames.iter().map(|name| (*name).to_owned()).collect(),
                kinds: code.iter().map(|frame| kind_word(frame.kind)).collect(),
                module: module.map(|module| shown(module).into_owned()),
                api_call: outermost_call(calls, row),
            }
        });
        number
    }

    /// How sure each row is; of a part of a run nobody knows it.
    fn add_intervals(&self, fleet: &mut Fleet, rows_of: &HashMap<Key, Vec<usize>>) {
        let profile = self.input.profile;
        let is_all =
            self.input.over_time.is_none_or(|over_time| self.input.bins == (0..over_time.bins.count()));
        if !is_all
            || self.stretches.len() != 1
            || profile.part.is_some()
            || profile.certainty.domains.is_empty()
        {
            return;
        }
        for (key, rows) in rows_of {
            let Some((spent, class)) = fleet.energy.get_mut(key).zip(key.class) else { continue };
            let energy = MicroJoules::from_uj(spent.uj);
            let (low, high) = profile.certainty.of(rows, |of| of == class, energy).ci95;
            spent.interval = Some((low.as_uj(), high.as_uj()));
        }
    }

    fn add_ledger(&self, fleet: &mut Fleet) {
        let profile = self.input.profile;
        let (of_run, before) = (warnings(profile), fleet.ledger.len());
        let rows = profile.ledger.iter().enumerate().filter(|(_, row)| self.domain.includes(row.class));
        for (number, row) in rows {
            for (window, stretch) in (self.first..).zip(self.stretches) {
                let accounts = self.accounts(number, row, stretch).into_iter();
                fleet.ledger.extend(accounts.map(|(reason, uj)| Accounts {
                    window,
                    domain: shown(&row.domain).into_owned(),
                    class: row.class,
                    quality: run::quality_word(row.quality),
                    uj,
                    reason,
                    lost: 0,
                    tracer_cpu_ns: 0,
                    removed: None,
                    warnings: of_run.clone(),
                }));
            }
        }
        let last = self.first + self.stretches.len().saturating_sub(1);
        if let Some(row) = fleet.ledger.iter_mut().skip(before).find(|row| row.window == last) {
            (row.lost, row.tracer_cpu_ns) = cost_of(profile);
            row.removed = fleet.facts.removed_windows;
        }
    }

    /// A window has no row of what is not known for all of it.
    fn add_work(&self, fleet: &mut Fleet) {
        for series in self.input.profile.work.iter().map(|work| &work.series) {
            let name = shown(&series.counter.name).into_owned();
            for (window, stretch) in (self.first..).zip(self.stretches) {
                let done = series.done(stretch.from, stretch.to);
                fleet.work.extend(done.map(|units| Done { name: name.clone(), window, units }));
            }
        }
    }

    /// What rows of a window and domain hold: nothing where nothing was read, as missing is no zero.
    fn accounts(&self, number: usize, row: &LedgerRow, stretch: &Stretch) -> Vec<Account> {
        let Some(over_time) = self.input.over_time else {
            let parts = [row.measured, row.target, row.other, row.idle, row.uncore, row.residual];
            let is_known = row.measured != MicroJoules::ZERO || !is_missing(self.input.profile, &row.domain);
            return if is_known { rows_of(parts, &row.unattributed) } else { vec![(None, None)] };
        };
        let bins = over_time.domains.get(number).map_or(&[][..], Vec::as_slice);
        let bins = bins.get(stretch.bins.start as usize..stretch.bins.end as usize).unwrap_or_default();
        let sum = |part: fn(&BinEnergy) -> MicroJoules| bins.iter().map(part).sum::<MicroJoules>();
        let is_known = bins.iter().any(|bin| bin.covered_ns > 0 || bin.measured != MicroJoules::ZERO);
        let parts = [
            sum(|bin| bin.measured),
            sum(|bin| bin.target),
            sum(|bin| bin.other),
            sum(|bin| bin.idle),
            sum(|bin| bin.uncore),
            sum(|bin| bin.residual),
        ];
        let mut nobodys = Nobodys::new();
        for (reason, uj) in bins.iter().flat_map(|bin| &bin.unattributed) {
            *nobodys.entry(*reason).or_default() += *uj;
        }
        if is_known { rows_of(parts, &nobodys) } else { vec![(None, None)] }
    }
}

/// Numbers of a ledger's row, and why nobody has those of `unattributed`.
type Account = (Option<&'static str>, Option<[i64; ACCOUNTS]>);
type Nobodys = BTreeMap<UnattributedReason, MicroJoules>;

/// A row, and one more for each further reason: together they are the ledger's.
fn rows_of(parts: [MicroJoules; ACCOUNTS - 1], nobodys: &Nobodys) -> Vec<Account> {
    let zero = MicroJoules::ZERO;
    let mut nobodys = nobodys.iter().filter(|(_, uj)| **uj != zero);
    let first = nobodys.next().map_or((None, zero), |(reason, uj)| (Some(reason.name()), *uj));
    let [measured, target, other, idle, uncore, residual] = parts;
    let mut rows = vec![(first.0, [measured, target, other, idle, uncore, residual, first.1])];
    for (reason, &uj) in nobodys {
        rows.iter_mut().take(1).for_each(|(_, [measured, ..])| *measured -= uj);
        rows.push((Some(reason.name()), [uj, zero, zero, zero, zero, zero, uj]));
    }
    rows.into_iter().map(|(reason, uj)| (reason, Some(uj.map(MicroJoules::as_uj)))).collect()
}

/// Whether nothing is known of a domain in all of a profile.
fn is_missing(profile: &Profile, name: &str) -> bool {
    profile.diagnostics.iter().any(|found| match found {
        Diagnostic::Domain { domain, what: DomainDiagnostic::NoReading { missing_ns, of_ns, .. } } => {
            domain == name && missing_ns == of_ns
        }
        Diagnostic::Domain { domain, what: DomainDiagnostic::NotCounted } => domain == name,
        _ => false,
    })
}

impl Spent {
    pub(super) fn add(&mut self, other: Self) {
        self.uj = self.uj.saturating_add(other.uj);
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.samples = self.samples.saturating_add(other.samples);
        self.quality = other.quality;
    }
}

/// A part by class. CPU time and samples go with the first class, so that all rows may be summed.
fn spent_of(
    part: &Part,
    classes: &[(DomainClass, Option<&'static str>)],
) -> Vec<(Option<DomainClass>, Spent)> {
    let Part { mut time_ns, mut samples, energy } = *part;
    if classes.is_empty() {
        return vec![(None, Spent { cpu_ns: time_ns, samples, ..Spent::default() })];
    }
    let mut list = Vec::new();
    for &(class, quality) in classes {
        let uj = energy[class].as_uj();
        if (uj, time_ns, samples) != (0, 0, 0) {
            list.push((Some(class), Spent { uj, cpu_ns: time_ns, samples, interval: None, quality }));
        }
        (time_ns, samples) = (0, 0);
    }
    list
}

/// Samples go with time, as it is not kept where they fell; those of time outside the windows stay there.
fn share_samples(samples: u64, all_ns: u64, parts: &mut [(usize, Part)]) {
    let inside: u64 = parts.iter().map(|(_, part)| part.time_ns).fold(0, u64::saturating_add);
    let mut weights: Vec<u64> = parts.iter().map(|(_, part)| part.time_ns).collect();
    weights.push(all_ns.saturating_sub(inside));
    let samples = MicroJoules::from_uj(i64::try_from(samples).unwrap_or(i64::MAX));
    let shares = samples.split(&weights).unwrap_or_else(|| vec![samples]);
    for ((_, part), share) in parts.iter_mut().zip(shares) {
        part.samples = share.as_uj().unsigned_abs();
    }
}

/// Events that were lost, and the recorder's CPU time.
fn cost_of(profile: &Profile) -> (u64, u64) {
    profile.run.summary.as_ref().map_or((0, 0), |end| {
        (end.lost.values().fold(0, |sum: u64, lost| sum.saturating_add(*lost)), end.tracer_cpu_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::to_microsecond;

    /// A window that begins some nanoseconds before a minute begins with it.
    #[test]
    fn full_seconds() {
        let minute = 1_795_737_600_000_000_000;
        assert_eq!([minute - 31, minute, minute + 97, minute - 999_999].map(to_microsecond), [minute; 4]);
        let between = minute + 500_000_000;
        assert_eq!([between - 501, between + 501].map(to_microsecond), [between - 1_000, between + 1_000]);
        assert_eq!(to_microsecond(u64::MAX) % 1_000, 0);
    }
}
