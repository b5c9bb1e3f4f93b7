//! The report for programs: schema `energy-trace/report/1.3` (`data/report-1.schema.json`), energies in integer microjoules.
//!
//! Leaves out stacks: those are in the folded export. Every function is listed, however small, so that sums are exact.

use super::budgets::Checked;
use super::fold::{Cost, Spent};
use super::functions::{Function, functions};
use super::json_calls::{CallsLine, CountedLine, counted_lines};
use super::json_rows::RowsLine;
use super::json_thermal::ThermalLine;
use super::json_work::{WorkLine, work_lines};
use super::outer_line::{OuterLine, outer_line};
use super::per_work::{beside, uj_per_unit};
use super::rows::{by_process, by_thread};
use super::table_details::runtimes;
use super::uncertainty::of_program_in;
use super::{By, Level, diagnostics, run};
use energy_trace_certainty::Uncertainty;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::certainty::Weights;
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::profile::validity::CheckResult;
use energy_trace_model::profile::work::PerWork;
use energy_trace_model::profile::{EnergyByClass, LedgerRow, PartOfRun, Profile};
use energy_trace_model::recording::record::{
    DomainClass, FrameKind, Ignored, Process, Quality, Source, Thread, Unwinding,
};
use energy_trace_names::shown::shown_json;
use energy_trace_sentences as sentences;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

/// The schema's name: its number's second part counts up with keys that are added, the first with keys that change or go.
pub const SCHEMA: &str = "energy-trace/report/1.3";

/// How the JSON is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonOptions<'a> {
    /// Indented, for reading by eye.
    pub pretty: bool,
    /// Rows beside the functions, threads and processes, and which calls are rows.
    pub rows: Option<(By, Level)>,
    /// Budgets that were held against the run.
    pub budgets: &'a [Checked],
}

/// Writes the report as one JSON object and a line end.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &JsonOptions<'_>) -> io::Result<()> {
    let functions = functions(profile);
    let report = Report {
        schema: SCHEMA,
        meta: Meta::new(profile, options.budgets),
        ledger: ledger_lines(profile),
        functions: functions.iter().map(|function| FunctionLine::of(profile, function)).collect(),
        beside: BesideLine::all(profile),
        counted: counted_lines(profile),
        work: work_lines(profile),
        processes: process_lines(profile),
        threads: thread_lines(profile),
        rows: options.rows.map(|(by, level)| RowsLine::of(profile, by, level)),
    };
    let json =
        if options.pretty { serde_json::to_string_pretty(&report)? } else { serde_json::to_string(&report)? };
    writeln!(out, "{}", shown_json(&json))?;
    out.flush()
}

/// Microjoules by class of domain.
pub(super) type ByClass = BTreeMap<&'static str, i64>;

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    meta: Meta<'a>,
    ledger: Vec<LedgerLine<'a>>,
    functions: Vec<FunctionLine<'a>>,
    /// What stands beside the functions, of a unit of work: they are the target without it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    beside: Vec<BesideLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<Vec<CountedLine>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    work: Vec<WorkLine>,
    processes: Vec<ProcessLine<'a>>,
    threads: Vec<ThreadLine<'a>>,
    #[serde(flatten)]
    rows: Option<RowsLine>,
}

#[derive(Serialize)]
struct Meta<'a> {
    command: &'a [String],
    view: &'static str,
    idle: &'static str,
    attribution: &'static str,
    start: String,
    duration_ns: u64,
    kernel: &'a str,
    cpu: &'a str,
    python: Vec<String>,
    sources: Vec<SourceLine<'a>>,
    sampling: Sampling<'a>,
    overhead: Overhead,
    /// Temperatures and clocks, where there are sensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    thermal: Option<ThermalLine>,
    /// What a meter of the whole machine says beside its parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<WholeLine>,
    /// The part of the run that all numbers are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<PartLine>,
    /// The unit of work whose time all numbers are of.
    #[serde(skip_serializing_if = "Option::is_none")]
    per_work: Option<PerWorkLine<'a>>,
    /// What intervals of rows are about; `None` without energy.
    #[serde(skip_serializing_if = "Option::is_none")]
    ci95_of: Option<&'static str>,
    warnings: Vec<WarningLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<BudgetLine<'a>>,
}

/// A meter of the whole machine: `measured_uj` = `explained_uj` + `rest_uj`.
#[derive(Serialize)]
struct WholeLine {
    domains: Vec<String>,
    measured_uj: i64,
    explained_uj: i64,
    rest_uj: i64,
}

#[derive(Serialize)]
struct BudgetLine<'a> {
    call: Option<&'a str>,
    range: Option<&'a str>,
    limit_uj: i64,
    used_uj: i64,
    ci95_uj: Option<[i64; 2]>,
    seen: bool,
    verdict: &'static str,
}

#[derive(Serialize)]
struct PerWorkLine<'a> {
    name: &'a str,
    units: f64,
    units_at_least: bool,
}

/// Nanoseconds since the start of the run, its length, and the step of the ends.
#[derive(Serialize)]
struct PartLine {
    from_ns: u64,
    to_ns: u64,
    of_ns: u64,
    step_ns: u64,
}

#[derive(Serialize)]
struct SourceLine<'a> {
    name: &'a str,
    domains: &'a [String],
    period_ns: u64,
    quality: Quality,
    ignored: Vec<IgnoredLine<'a>>,
}

#[derive(Serialize)]
struct IgnoredLine<'a> {
    domain: &'a str,
    why: String,
}

#[derive(Serialize)]
struct Sampling<'a> {
    hz: u32,
    samples: u64,
    lost: u64,
    verdicts: BTreeMap<String, u64>,
    unwind: Option<Unwinding>,
    copies: BTreeMap<&'a str, u64>,
    launch_stacks: BTreeMap<&'static str, u64>,
    python_whole: u64,
}

#[derive(Serialize)]
struct Overhead {
    bpf_ns: Option<u64>,
    tracer_cpu_ns: Option<u64>,
}

#[derive(Serialize)]
struct WarningLine {
    code: String,
    text: String,
}

#[derive(Serialize)]
struct LedgerLine<'a> {
    domain: &'a str,
    class: &'static str,
    quality: Quality,
    measured_uj: i64,
    target_uj: i64,
    /// `null` where it is not known.
    target_ci95_uj: Option<[i64; 2]>,
    other_uj: i64,
    idle_uj: i64,
    uncore_uj: i64,
    residual_uj: i64,
    unattributed: BTreeMap<&'a str, i64>,
    weights: Option<WeightsLine>,
    /// Domains whose energy is in this one's as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<&'a [String]>,
}

#[derive(Serialize)]
struct WeightsLine {
    used: bool,
    /// η of hardware threads that share a core.
    smt: Option<f64>,
    /// The exponent of CPUs' clocks.
    frequency: Option<f64>,
    validity: BTreeMap<&'static str, CheckLine>,
}

#[derive(Serialize)]
struct CheckLine {
    /// A number that is none, or endless, is `null` in JSON.
    value: f64,
    limit: f64,
    passed: bool,
}

/// What a function or a row spent: itself, and with all that it calls.
#[derive(Serialize)]
pub(super) struct SpentLine {
    self_uj: ByClass,
    total_uj: ByClass,
    self_time_uj: ByClass,
    total_time_uj: ByClass,
    self_ns: u64,
    total_ns: u64,
    samples: u64,
    /// Of a unit of work, where one was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    self_uj_per_unit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_uj_per_unit: Option<f64>,
}

impl SpentLine {
    pub(super) fn of(profile: &Profile, phase: Option<usize>, Spent { own, total }: &Spent) -> Self {
        let choice = run::headline(profile);
        let each = |cost: &Cost| uj_per_unit(profile, phase, run::chosen(&cost.energy, choice));
        Self {
            self_uj_per_unit: each(own),
            total_uj_per_unit: each(total),
            self_uj: by_class(&own.energy),
            total_uj: by_class(&total.energy),
            self_time_uj: by_class(&own.by_time),
            total_time_uj: by_class(&total.by_time),
            self_ns: own.time_ns,
            total_ns: total.time_ns,
            samples: total.samples,
        }
    }
}

#[derive(Serialize)]
struct BesideLine {
    name: &'static str,
    #[serde(flatten)]
    spent: SpentLine,
}

impl BesideLine {
    fn all(profile: &Profile) -> Vec<Self> {
        let line = |(name, spent)| Self { name, spent: SpentLine::of(profile, None, &spent) };
        beside(profile).into_iter().map(line).collect()
    }
}

#[derive(Serialize)]
struct FunctionLine<'a> {
    name: &'a str,
    symbol: &'a str,
    module: &'a str,
    file: &'a str,
    line: u32,
    kind: FrameKind,
    api: bool,
    build_id: Option<&'a str>,
    #[serde(flatten)]
    spent: SpentLine,
    #[serde(flatten)]
    calls: CallsLine,
    ci95_uj: Option<[i64; 2]>,
    bounds_uj: Option<[i64; 2]>,
    flags: &'a [&'static str],
}

#[derive(Serialize)]
struct ProcessLine<'a> {
    /// The label of its recording, where several were merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'a str>,
    pid: u32,
    parent_pid: Option<u32>,
    name: &'a str,
    command: &'a [String],
    runtime: Option<String>,
    energy_uj: ByClass,
    time_ns: u64,
    samples: u64,
}

#[derive(Serialize)]
struct ThreadLine<'a> {
    /// The label of its recording, where several were merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'a str>,
    tid: u32,
    pid: Option<u32>,
    name: &'a str,
    energy_uj: ByClass,
    time_ns: u64,
    samples: u64,
}

impl<'a> Meta<'a> {
    fn new(profile: &'a Profile, budgets: &'a [Checked]) -> Self {
        let header = &profile.run.header;
        let unix = UNIX_EPOCH + Duration::from_nanos(header.anchor.unix_ns_of(profile.run.start));
        let summary = profile.run.summary.as_ref();
        let warnings = diagnostics::diagnostics(profile);
        Self {
            command: &header.command,
            view: profile.options.view.name(),
            idle: profile.options.accounting.idle.name(),
            attribution: profile.options.accounting.method.name(),
            start: humantime::format_rfc3339_nanos(unix).to_string(),
            duration_ns: profile.run.duration_ns(),
            kernel: &header.kernel,
            cpu: &header.cpu_model,
            python: runtimes(profile),
            sources: header.sources.iter().map(SourceLine::from).collect(),
            sampling: Sampling {
                hz: header.sample_hz,
                samples: profile.run.samples,
                lost: diagnostics::lost_total(profile),
                verdicts: run::verdicts(profile),
                unwind: summary.map(|summary| summary.unwinding),
                copies: summary
                    .into_iter()
                    .flat_map(|s| &s.copies)
                    .map(|(what, &count)| (what.code(), count))
                    .fill_map(),
                launch_stacks: profile.run.launch_stacks.named().into_iter().fill_map(),
                python_whole: profile.run.python_whole,
            },
            overhead: Overhead {
                bpf_ns: summary.and_then(|summary| summary.bpf_ns),
                tracer_cpu_ns: summary.map(|summary| summary.tracer_cpu_ns),
            },
            thermal: ThermalLine::of(profile),
            whole: outer_line(profile).filter(OuterLine::is_explained).map(|line| WholeLine::from(&line)),
            part: profile.part.map(PartLine::from),
            per_work: profile.per_work.as_ref().map(PerWorkLine::from),
            ci95_of: ci95_of(profile),
            warnings: warnings.iter().map(WarningLine::from).collect(),
            budgets: budgets.iter().map(BudgetLine::from).collect(),
        }
    }
}

/// Of a model's joules the time is known, and what a function draws is not: an interval is about that alone.
fn ci95_of(profile: &Profile) -> Option<&'static str> {
    let choice = run::headline(profile);
    let modelled = if run::is_modelled(profile, choice) { "watts" } else { "joules" };
    (!profile.ledger.is_empty()).then_some(modelled)
}

impl<'a> From<&'a Checked> for BudgetLine<'a> {
    fn from(checked: &'a Checked) -> Self {
        Self {
            call: checked.budget.call.as_deref(),
            range: checked.budget.range.as_deref(),
            limit_uj: checked.budget.limit.as_uj(),
            used_uj: checked.used.as_uj(),
            ci95_uj: checked.uncertainty.map(|of| [of.ci95.0.as_uj(), of.ci95.1.as_uj()]),
            seen: checked.seen,
            verdict: checked.verdict.name(),
        }
    }
}

impl From<&OuterLine<'_>> for WholeLine {
    fn from(line: &OuterLine<'_>) -> Self {
        Self {
            domains: line.domains().into_iter().map(str::to_owned).collect(),
            measured_uj: line.measured().as_uj(),
            explained_uj: line.explained().as_uj(),
            rest_uj: line.rest().as_uj(),
        }
    }
}

impl<'a> From<&'a PerWork> for PerWorkLine<'a> {
    fn from(per: &'a PerWork) -> Self {
        Self { name: &per.name, units: per.units.as_number(), units_at_least: per.at_least }
    }
}

impl From<PartOfRun> for PartLine {
    fn from(PartOfRun { from_ns, to_ns, of_ns, bin_ns }: PartOfRun) -> Self {
        Self { from_ns, to_ns, of_ns, step_ns: bin_ns }
    }
}

impl From<&Diagnostic> for WarningLine {
    fn from(found: &Diagnostic) -> Self {
        Self { code: found.code().to_owned(), text: sentences::diagnostic(found) }
    }
}

impl<'a> From<&'a Source> for SourceLine<'a> {
    fn from(source: &'a Source) -> Self {
        let ignored = source
            .ignored
            .iter()
            .map(|Ignored { domain, reason }| IgnoredLine { domain, why: sentences::ignored_reason(reason) });
        Self {
            name: source.id.name(),
            domains: &source.domains,
            period_ns: source.period_ns,
            quality: source.quality,
            ignored: ignored.collect(),
        }
    }
}

impl From<&Weights> for WeightsLine {
    fn from(weights: &Weights) -> Self {
        let line =
            |CheckResult { check, value, limit, passed }| (check.name(), CheckLine { value, limit, passed });
        let Weights { used, siblings, frequency, .. } = *weights;
        Self { used, smt: siblings, frequency, validity: weights.validity.each().map(line).into() }
    }
}

fn ledger_lines<'a>(profile: &'a Profile) -> Vec<LedgerLine<'a>> {
    let line = |(number, row): (usize, &'a LedgerRow)| {
        // What is known of domains has their order; a profile that was not attributed has none of it.
        let weights = profile.certainty.domains.get(number).and_then(|domain| domain.weights.as_ref());
        let line = LedgerLine::new(row, weights, of_program_in(profile, number).as_ref());
        // From a GPU's row they were subtracted.
        let holds = profile.run.holds.get(&row.domain).filter(|_| row.class != DomainClass::Gpu);
        LedgerLine { holds: holds.map(Vec::as_slice), ..line }
    };
    profile.ledger.iter().enumerate().map(line).collect()
}

impl<'a> LedgerLine<'a> {
    fn new(row: &'a LedgerRow, weights: Option<&Weights>, target: Option<&Uncertainty>) -> Self {
        Self {
            weights: weights.map(WeightsLine::from),
            holds: None,
            domain: &row.domain,
            class: row.class.name(),
            quality: row.quality,
            measured_uj: row.measured.as_uj(),
            target_uj: row.target.as_uj(),
            target_ci95_uj: ci95_uj(target),
            other_uj: row.other.as_uj(),
            idle_uj: row.idle.as_uj(),
            uncore_uj: row.uncore.as_uj(),
            residual_uj: row.residual.as_uj(),
            unattributed: row
                .unattributed
                .iter()
                .map(|(why, energy)| (why.name(), energy.as_uj()))
                .fill_map(),
        }
    }
}

impl<'a> FunctionLine<'a> {
    fn of(profile: &Profile, function: &'a Function) -> Self {
        Self {
            name: &function.row.name,
            symbol: &function.symbol,
            module: &function.module,
            file: &function.file,
            line: function.line,
            kind: function.kind,
            api: function.api,
            build_id: function.build_id.as_deref(),
            spent: SpentLine::of(profile, None, &function.row.spent),
            calls: CallsLine::of(profile, function.row.calls.as_ref()),
            ci95_uj: ci95_uj(function.row.uncertainty.as_ref()),
            bounds_uj: bounds_uj(function.row.uncertainty.as_ref()),
            flags: &function.row.flags,
        }
    }
}

/// The interval in microjoules, where it is known.
pub(super) fn ci95_uj(uncertainty: Option<&Uncertainty>) -> Option<[i64; 2]> {
    uncertainty.map(|known| [known.ci95.0.as_uj(), known.ci95.1.as_uj()])
}

/// The bounds in microjoules, where there are any.
pub(super) fn bounds_uj(uncertainty: Option<&Uncertainty>) -> Option<[i64; 2]> {
    uncertainty.and_then(|known| known.bounds).map(|(low, high)| [low.as_uj(), high.as_uj()])
}

pub(super) fn by_class(energy: &EnergyByClass) -> ByClass {
    energy.iter().map(|(class, energy)| (class.name(), energy.as_uj())).fill_map()
}

fn process_lines<'a>(profile: &'a Profile) -> Vec<ProcessLine<'a>> {
    let spent = by_process(profile);
    let pid_of = |process: &Process| process.pid.get();
    let line = |process: &'a Process| {
        let cost = spent.get(&Some(process.key)).map_or_else(Cost::default, |spent| spent.own);
        let parent = process.parent.and_then(|parent| profile.processes.get(parent.index()));
        ProcessLine {
            part: profile.label_of(process.key),
            pid: pid_of(process),
            parent_pid: parent.map(pid_of),
            name: &process.name,
            command: &process.command,
            runtime: process.runtime.as_ref().map(sentences::runtime),
            energy_uj: by_class(&cost.energy),
            time_ns: cost.time_ns,
            samples: cost.samples,
        }
    };
    profile.processes.iter().map(line).collect()
}

fn thread_lines<'a>(profile: &'a Profile) -> Vec<ThreadLine<'a>> {
    let spent = by_thread(profile);
    let line = |thread: &'a Thread| {
        let cost = spent.get(&thread.key).map_or_else(Cost::default, |spent| spent.own);
        let process = profile.processes.get(thread.process.index());
        ThreadLine {
            part: profile.label_of(thread.process),
            tid: thread.tid.get(),
            pid: process.map(|process| process.pid.get()),
            name: &thread.name,
            energy_uj: by_class(&cost.energy),
            time_ns: cost.time_ns,
            samples: cost.samples,
        }
    };
    profile.threads.iter().map(line).collect()
}
