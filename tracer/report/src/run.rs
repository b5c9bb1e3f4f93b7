//! Facts about the whole run that every report needs: its sums, how far they can be trusted, how whole its stacks are.
//!
//! Leaves out what is doubtful about them (`diagnostics.rs`).

use super::DomainChoice;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::ids::Pid;
use energy_trace_model::profile::{EnergyByClass, LedgerRow, Profile, UnattributedReason};
use energy_trace_model::recording::record::{
    DomainClass, PythonLoss, Quality, SourceId, StackStatus, Truncation,
};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown;
use energy_trace_names::{process_title, shorten_end};
use std::collections::{BTreeMap, BTreeSet};

/// The command, or what was recorded instead of one.
pub fn what_was_recorded(profile: &Profile) -> String {
    let header = &profile.run.header;
    if !profile.parts.is_empty() {
        let recordings = recordings(profile);
        let command = header.command.join(" ");
        return if command.is_empty() { recordings } else { format!("{command} ({recordings})") };
    }
    match (header.command.is_empty(), header.system_wide) {
        (false, false) => header.command.join(" "),
        (false, true) => format!("{} (and the whole system)", header.command.join(" ")),
        (true, true) => "whole system".to_owned(),
        (true, false) => attached(profile),
    }
}

/// `python3 serve.py (pid 4321, 4322, 4323 and 5 more)`: who ran when the recording began, but for those below one of them, and the command
/// line of the first.
fn attached(profile: &Profile) -> String {
    const NAMED: usize = 3;
    /// With so many of the command line all fits a terminal of 80.
    const COLUMNS: usize = 34;
    let mut ran = profile.processes.iter().filter(|process| process.parent.is_none()).peekable();
    let Some(first) = ran.peek() else { return "attached processes".to_owned() };
    let title = shorten_end(&shown(&process_title(first)), COLUMNS);
    let pids: BTreeSet<Pid> = ran.map(|process| process.pid).fill_set();
    let named: Vec<String> = pids.iter().take(NAMED).map(Pid::to_string).collect();
    let more = pids.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{title} (pid {}{more})", named.join(", "))
}

/// `3 recordings: rank0, rank1, rank2`.
fn recordings(profile: &Profile) -> String {
    const NAMED: usize = 4;
    let labels: Vec<&str> = profile.parts.iter().map(|part| part.label.as_str()).collect();
    let named = labels.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if labels.len() > NAMED { ", …" } else { "" };
    let word = if labels.len() == 1 { "recording" } else { "recordings" };
    format!("{} {word}: {named}{more}", labels.len())
}

/// The energy that a report leads with: the total, or psys where a machine has nothing else.
pub fn headline(profile: &Profile) -> DomainChoice {
    let only_psys =
        !profile.ledger.is_empty() && profile.ledger.iter().all(|row| row.class == DomainClass::Psys);
    if only_psys { DomainChoice::Class(DomainClass::Psys) } else { DomainChoice::Total }
}

/// What a user chose; where that is the total and a machine has psys alone, psys.
pub fn or_headline(choice: DomainChoice, profile: &Profile) -> DomainChoice {
    if choice == DomainChoice::Total { headline(profile) } else { choice }
}

/// The part of an energy that a choice of domains shows.
pub fn chosen(energy: &EnergyByClass, choice: DomainChoice) -> MicroJoules {
    match choice {
        DomainChoice::Total => energy.total(),
        DomainChoice::Class(class) => energy[class],
    }
}

/// The part of an energy that was spent in CPU time, and so gives watts: a GPU works when its launcher does something else.
pub(crate) fn of_cpus(energy: &EnergyByClass, choice: DomainChoice) -> MicroJoules {
    match choice {
        DomainChoice::Total => energy.total() - energy[DomainClass::Gpu],
        DomainChoice::Class(DomainClass::Gpu) => MicroJoules::ZERO,
        DomainChoice::Class(class) => energy[class],
    }
}

/// Whether a choice of domains has some of GPUs.
pub(crate) fn has_gpus(profile: &Profile, choice: DomainChoice) -> bool {
    ledger_of(profile, choice).any(|row| row.class == DomainClass::Gpu)
}

/// Whether it has some of others, whose energy is spent in CPU time.
pub(crate) fn has_others(profile: &Profile, choice: DomainChoice) -> bool {
    ledger_of(profile, choice).any(|row| row.class != DomainClass::Gpu)
}

/// The ledger rows of a choice of domains; of a machine with a meter of its own without its modules, which that one holds.
pub fn ledger_of(profile: &Profile, choice: DomainChoice) -> impl Iterator<Item = &LedgerRow> {
    let is_module = |row: &LedgerRow| profile.run.modules.contains(&row.domain);
    let has_machine = profile.ledger.iter().any(|row| row.class == DomainClass::Psys && !is_module(row));
    profile.ledger.iter().filter(move |row| choice.includes(row.class) && !(has_machine && is_module(row)))
}

/// Energy charged to the target in a choice of domains.
pub fn target(profile: &Profile, choice: DomainChoice) -> MicroJoules {
    ledger_of(profile, choice).map(|row| row.target).sum()
}

/// How far the numbers of a choice of domains can be trusted: as far as the worst of them. `None` without any domain of which some energy is
/// known: a counter that is not believed measures nothing.
pub fn quality(profile: &Profile, choice: DomainChoice) -> Option<Quality> {
    known_rows(profile, choice).map(|row| row.quality).max()
}

/// What a GPU drew above idle whose launches nobody can record.
pub(crate) fn without_launches(profile: &Profile, row: &LedgerRow) -> MicroJoules {
    let is_dark = source_of(profile, &row.domain).is_some_and(|id| *id != SourceId::Nvml);
    let energy = row.unattributed.get(&UnattributedReason::NoLaunchData).filter(|_| is_dark);
    energy.copied().unwrap_or_default()
}

/// What a domain showed that may be the program's and is charged to nobody: that, and what its counter is not believed in.
fn of_nobody(profile: &Profile, row: &LedgerRow) -> MicroJoules {
    let doubted = row.unattributed.get(&UnattributedReason::CounterDoubted).copied();
    without_launches(profile, row) + doubted.unwrap_or_default()
}

/// What reads a domain.
pub(crate) fn source_of<'a>(profile: &'a Profile, domain: &str) -> Option<&'a SourceId> {
    let mut sources = profile.run.header.sources.iter();
    sources.find(|source| source.domains.iter().any(|of| of == domain)).map(|source| &source.id)
}

/// The ledger rows of a choice of domains that measured something.
pub(crate) fn known_rows(profile: &Profile, choice: DomainChoice) -> impl Iterator<Item = &LedgerRow> {
    ledger_of(profile, choice).filter(|row| row.measured != MicroJoules::ZERO)
}

/// Whether all of its numbers are CPU time times a constant. Then how much more one function may draw than another is open for every row
/// alike, which is said once instead of in each.
pub fn is_modelled(profile: &Profile, choice: DomainChoice) -> bool {
    let mut rows = ledger_of(profile, choice).peekable();
    rows.peek().is_some() && rows.all(|row| row.quality == Quality::Estimated)
}

/// The same as `quality` for numbers of the program, of functions, threads and stacks: there a counter is always split by a model, so none is
/// better than `apportioned`. `None` too where all energy above idle is charged to nobody: then zero joules are no joules.
pub fn split_quality(profile: &Profile, choice: DomainChoice) -> Option<Quality> {
    let rows = known_rows(profile, choice).filter(|row| !is_of_nobody(profile, row));
    rows.map(|row| row.quality.max(Quality::Apportioned)).max()
}

/// Whether nobody is charged with any of a domain's energy, though somebody used it.
pub(crate) fn is_of_nobody(profile: &Profile, row: &LedgerRow) -> bool {
    let is_charged = [row.target, row.other].iter().any(|part| *part != MicroJoules::ZERO);
    !is_charged && of_nobody(profile, row) > MicroJoules::ZERO
}

/// The word for a quality.
pub const fn quality_word(quality: Quality) -> &'static str {
    match quality {
        Quality::Measured => "measured",
        Quality::Apportioned => "apportioned",
        Quality::Estimated => "estimated",
    }
}

/// How many stacks are whole, were healed, or end early, by verdict.
pub(crate) fn verdicts(profile: &Profile) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (verdict, count) in &profile.run.stack_statuses {
        let (group, reason) = status_word(*verdict);
        *counts.entry(format!("{group}{reason}")).or_default() += count;
    }
    counts
}

/// The name of a verdict, as its group and its reason.
const fn status_word(status: StackStatus) -> (&'static str, &'static str) {
    match status {
        StackStatus::Complete => ("complete", ""),
        StackStatus::Recovered(_) => ("healed", ""),
        StackStatus::Guessed(_) => ("guessed", ""),
        StackStatus::Truncated(why) => ("truncated:", truncation_word(why)),
        StackStatus::PythonLost(why) => ("python-lost:", python_loss_word(why)),
    }
}

const fn truncation_word(why: Truncation) -> &'static str {
    match why {
        Truncation::NoUnwindInfo => "no-unwind-info",
        Truncation::TablesNotReady => "tables-not-ready",
        Truncation::UnsupportedRule => "unsupported-rule",
        Truncation::PageFault => "page-fault",
        Truncation::TooDeep => "too-deep",
        Truncation::Unmapped => "unmapped",
        Truncation::BadFrame => "bad-frame",
        Truncation::DeeperThanCopy => "deeper-than-copy",
        Truncation::ProcessGone => "process-gone",
        Truncation::Unreadable => "unreadable",
        Truncation::Unanchored => "unanchored",
        Truncation::Bits32 => "32-bit",
    }
}

const fn python_loss_word(why: PythonLoss) -> &'static str {
    match why {
        PythonLoss::UnknownVersion => "unknown-version",
        PythonLoss::PageFault => "page-fault",
        PythonLoss::TooDeep => "too-deep",
        PythonLoss::NotReady => "not-ready",
        PythonLoss::Ambiguous => "several-interpreters",
        PythonLoss::BrokenChain => "broken-chain",
        PythonLoss::Unreadable => "unreadable",
    }
}

#[cfg(test)]
mod tests {
    use super::{Profile, what_was_recorded};
    use energy_trace_model::ids::{Pid, ProcessKey};
    use energy_trace_model::recording::record::Process;
    use unicode_width::UnicodeWidthStr as _;

    fn process(key: u32, pid: u32, parent: Option<u32>, command: &[&str]) -> Process {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let (name, parent) = ("python3".to_owned(), parent.map(ProcessKey::new));
        Process { key: ProcessKey::new(key), pid: Pid::new(pid), parent, name, command, runtime: None }
    }

    /// Who ran when energy-trace came is named with numbers, and not who was forked later; whatever a command line holds, the title
    /// moves no terminal and fits one.
    #[test]
    fn attached_processes() {
        let of = |processes| what_was_recorded(&Profile { processes, ..Profile::default() });
        assert_eq!(of(vec![]), "attached processes");
        let server = || process(0, 4321, None, &["/usr/bin/python3", "serve.py"]);
        let forked = process(1, 4400, Some(0), &[]);
        assert_eq!(of(vec![server(), forked]), "python3 serve.py (pid 4321)");
        let worker = |number| process(number, 4_194_300 + number, None, &[]);
        let all = std::iter::once(server()).chain((1..=1_234).map(worker)).collect();
        assert_eq!(of(all), "python3 serve.py (pid 4321, 4194301, 4194302 and 1232 more)");
        let long = "x\u{1b}[2J\u{202e}".repeat(99);
        let hostile = (0..2_000).map(|number| process(number, 4_194_000 - number, None, &[&long])).collect();
        let title = of(hostile);
        assert!(title.width() <= 80 && !title.contains(['\u{1b}', '\u{202e}']), "{title}");
    }
}
