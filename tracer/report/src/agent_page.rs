//! An agent's page of metrics, as Prometheus reads it: OpenMetrics 1.0, or the older text format for those who
//! ask for no other (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Joules are written from integers, with six digits behind the point: a library's counters are floats, which
//! tell microjoules apart up to 4 GJ. Leaves out adding up (`agent_totals`) and serving.

use super::agent_totals::{Domain, PARTS, Totals, Who};
use super::agent_work::Counted;
use energy_trace_model::profile::diagnostics::GapReason;
use energy_trace_model::recording::record::Quality;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::shown::shown;
use energy_trace_names::workload::Workload;
use energy_trace_sentences::counted;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Write as _};

/// The unit of who is outside of all control groups that mean something, and of who ended before anybody
/// looked. No unit is called so: theirs end in `.service` or `.scope`.
pub const OUTSIDE: &str = "none";
/// The latter.
pub const UNSEEN: &str = "unknown";

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format 0.0.4.
    Text,
}

impl Format {
    /// What the header `Accept` of a request asks for.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }

    /// The header `Content-Type` of its pages.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What the agent itself takes, and what it could not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCost {
    /// CPU time of its processes, in nanoseconds.
    pub cpu_ns: u64,
    /// Their resident memory in bytes.
    pub resident_bytes: u64,
    /// What that is of the machine.
    pub share: OwnShare,
    /// Samples and stretches of CPU time that were lost.
    pub lost: u64,
    /// Windows that ended before their time, as too much was waiting.
    pub early: u64,
    /// Windows that are parts of others, as the agent was too late for their ends.
    pub joined: u64,
    /// What became of tables, where there are any.
    pub spool: Option<SpoolCounts>,
    /// What became of profiles, where they are sent.
    pub sender: Option<SenderCounts>,
    /// The end of the last window, in nanoseconds since 1970 UTC.
    pub window_end_unix_ns: u64,
}

/// An agent's part of the machine's CPU time, how often it samples for it, and what it could not tell apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnShare {
    /// CPU time that its BPF programs have taken of others, in nanoseconds, by what a hundredth of the time shows; `None` where the kernel
    /// does not say.
    pub programs_ns: Option<u64>,
    /// Millionths of the machine's CPU time that all of it took lately, without the programs where that is not known.
    pub millionths: u32,
    /// Samples a second on each CPU; 0: not known yet.
    pub sample_hz: u32,
    /// It takes more than it may, and samples no less.
    pub is_above: bool,
    /// CPU time of others that found no room to be summed by process, in nanoseconds.
    pub no_room_ns: u64,
}

/// Windows of a folder of tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolCounts {
    /// That were written.
    pub written: u64,
    /// That were removed, as they were too many or too old.
    pub removed: u64,
    /// That could not be written.
    pub lost: u64,
    /// Bytes that are there.
    pub bytes: u64,
    /// Stacks that have no rows of their own, as a window had too many.
    pub merged_stacks: u64,
}

/// Messages to a collector, one a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// That were taken.
    pub sent: u64,
    /// That were lost.
    pub dropped: u64,
}

/// What an agent says at its end: how many windows there were, and what became of them elsewhere.
pub fn last_words(windows: u64, spool: Option<SpoolCounts>, sender: Option<SenderCounts>) -> String {
    let spool = spool.map(|SpoolCounts { written, removed, lost, .. }| {
        format!("; spool: {written} written, {removed} removed, {lost} lost")
    });
    let sender =
        sender.map(|SenderCounts { sent, dropped }| format!("; collector: {sent} sent, {dropped} dropped"));
    [counted(windows, "window"), spool.unwrap_or_default(), sender.unwrap_or_default()].concat()
}

/// Labels, the empty ones too.
type Labels<'a> = [(&'a str, &'a str)];

/// The page.
pub fn page(totals: &Totals, cost: &OwnCost, format: Format) -> String {
    let mut page = Page { text: String::new(), format };
    page.domains(totals);
    page.workloads(totals);
    page.ledger(totals);
    page.work(&totals.work.counters);
    page.cost(totals, cost);
    if format == Format::OpenMetrics {
        page.text.push_str("# EOF\n");
    }
    page.text
}

struct Page {
    text: String,
    format: Format,
}

impl Page {
    fn domains(&mut self, totals: &Totals) {
        self.counter(
            "energy_trace_domain_joules",
            "Energy by the domain's counter, or by a model where quality is estimated.",
        );
        for domain in &totals.domains {
            let quality = quality(domain.quality);
            self.of_domain(
                "energy_trace_domain_joules_total",
                domain,
                &[("quality", quality)],
                Joules(domain.energy),
            );
        }
        self.counter("energy_trace_domain_covered_seconds", "Time of which the counter says what was drawn.");
        for domain in &totals.domains {
            self.of_domain(
                "energy_trace_domain_covered_seconds_total",
                domain,
                &[],
                Seconds(domain.covered_ns),
            );
        }
        self.counter("energy_trace_domain_missing_seconds", "Time of which it does not, and why.");
        for domain in &totals.domains {
            for (why, ns) in &domain.missing_ns {
                let why = [("reason", missing(*why))];
                self.of_domain("energy_trace_domain_missing_seconds_total", domain, &why, Seconds(*ns));
            }
        }
        self.gauge(
            "energy_trace_domain_by_power",
            "1: learned powers divided the last window; 0: CPU time or launches alone.",
        );
        for domain in &totals.domains {
            self.of_domain("energy_trace_domain_by_power", domain, &[], u8::from(domain.by_power));
        }
    }

    fn workloads(&mut self, totals: &Totals) {
        self.counter(
            "energy_trace_workload_joules",
            "Energy of a pod's container, a systemd unit or a Slurm step.",
        );
        for (who, held) in &totals.workloads {
            let job = job_of(who);
            let labels = labels_of(who, &job);
            for (domain, energy) in totals.domains.iter().zip(&held.energy) {
                self.of_domain("energy_trace_workload_joules_total", domain, &labels, Joules(*energy));
            }
        }
        self.counter(
            "energy_trace_ended_joules",
            "Energy of workloads that ended, and have no series any more.",
        );
        for domain in &totals.domains {
            self.of_domain("energy_trace_ended_joules_total", domain, &[], Joules(domain.ended));
        }
    }

    fn ledger(&mut self, totals: &Totals) {
        self.counter("energy_trace_ledger_joules", "Energy that is no workload's.");
        for domain in &totals.domains {
            for (part, energy) in PARTS.into_iter().zip(domain.parts) {
                self.of_domain("energy_trace_ledger_joules_total", domain, &[("part", part)], Joules(energy));
            }
        }
    }

    fn work(&mut self, counters: &[Counted]) {
        if counters.is_empty() {
            return;
        }
        self.counter(
            "energy_trace_work_units",
            "Units of work; there is none while their number is not known.",
        );
        for counter in counters.iter().filter(|counter| counter.is_there()) {
            let units = counter.units.as_number();
            self.sample("energy_trace_work_units_total", &[("work", &counter.name)], units);
        }
        self.counter("energy_trace_work_restarts", "How often the number of a unit of work began anew.");
        for counter in counters {
            let of = [("work", counter.name.as_str())];
            self.sample("energy_trace_work_restarts_total", &of, counter.restarts);
        }
        self.gauge(
            "energy_trace_work_state",
            "1, with the state of a unit's number in the last window: moving, still, or why there is none.",
        );
        for counter in counters {
            let of = [("work", counter.name.as_str()), ("state", counter.state())];
            self.sample("energy_trace_work_state", &of, 1);
        }
    }

    /// What is not known without the time of BPF programs.
    fn programs(&mut self, programs_ns: u64, share: &OwnShare) {
        self.counter("energy_trace_agent_bpf_seconds", "CPU time of the agent's BPF programs, estimated.");
        self.sample("energy_trace_agent_bpf_seconds_total", &[], Seconds(programs_ns));
        if share.sample_hz > 0 {
            self.gauge(
                "energy_trace_agent_cpu_ratio",
                "Part of the machine's CPU time that the agent's processes and BPF programs took lately.",
            );
            let ratio = format_args!("{}.{:06}", share.millionths / 1_000_000, share.millionths % 1_000_000);
            self.sample("energy_trace_agent_cpu_ratio", &[], ratio);
        }
    }

    fn cost(&mut self, totals: &Totals, cost: &OwnCost) {
        self.counter("energy_trace_agent_cpu_seconds", "CPU time of the agent's processes.");
        self.sample("energy_trace_agent_cpu_seconds_total", &[], Seconds(cost.cpu_ns));
        if let Some(programs_ns) = cost.share.programs_ns {
            self.programs(programs_ns, &cost.share);
        }
        if cost.share.sample_hz > 0 {
            self.gauge("energy_trace_agent_sample_rate_hertz", "Samples a second on each CPU.");
            self.sample("energy_trace_agent_sample_rate_hertz", &[], cost.share.sample_hz);
            self.gauge(
                "energy_trace_agent_above_limit",
                "1: the agent takes more than --own-cpu at its lowest rate of samples; 0: it does not.",
            );
            self.sample("energy_trace_agent_above_limit", &[], u8::from(cost.share.is_above));
        }
        self.gauge("energy_trace_agent_resident_memory_bytes", "Memory of the agent's processes.");
        self.sample("energy_trace_agent_resident_memory_bytes", &[], cost.resident_bytes);
        self.counter("energy_trace_agent_lost_events", "Samples and stretches of CPU time that were lost.");
        self.sample("energy_trace_agent_lost_events_total", &[], cost.lost);
        self.counter(
            "energy_trace_agent_lost_cpu_seconds",
            "CPU time whose process is not known, as tables of the BPF programs were full; its energy is in the ledger's part other.",
        );
        self.sample("energy_trace_agent_lost_cpu_seconds_total", &[], Seconds(cost.share.no_room_ns));
        self.counter("energy_trace_agent_windows", "Windows that were attributed.");
        self.sample("energy_trace_agent_windows_total", &[], totals.windows);
        self.counter(
            "energy_trace_agent_early_windows",
            "Windows that ended early, as too much was waiting.",
        );
        self.sample("energy_trace_agent_early_windows_total", &[], cost.early);
        self.counter(
            "energy_trace_agent_joined_windows",
            "Windows that are a part of the next, as the agent was late, or a GPU that works was read too seldom.",
        );
        self.sample("energy_trace_agent_joined_windows_total", &[], cost.joined);
        cost.spool.iter().for_each(|counts| self.spool(counts));
        cost.sender.iter().for_each(|counts| self.sender(counts));
        self.gauge("energy_trace_agent_workloads", "Workloads with a series.");
        self.sample("energy_trace_agent_workloads", &[], totals.workloads.len());
        self.gauge("energy_trace_agent_window_end_timestamp_seconds", "End of the last window.");
        let end = Seconds(cost.window_end_unix_ns);
        self.sample("energy_trace_agent_window_end_timestamp_seconds", &[], end);
        self.gauge("energy_trace_agent_build_info", "1, with the agent's version.");
        self.sample("energy_trace_agent_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    }

    fn spool(&mut self, counts: &SpoolCounts) {
        self.counter(
            "energy_trace_agent_spool_windows",
            "Windows of the spool: written, removed (too many or too old), lost (not written).",
        );
        for (outcome, count) in
            [("written", counts.written), ("removed", counts.removed), ("lost", counts.lost)]
        {
            self.sample("energy_trace_agent_spool_windows_total", &[("outcome", outcome)], count);
        }
        self.gauge("energy_trace_agent_spool_bytes", "Bytes of the spool's files.");
        self.sample("energy_trace_agent_spool_bytes", &[], counts.bytes);
        self.counter("energy_trace_agent_merged_stacks", "Stacks of windows that had too many.");
        self.sample("energy_trace_agent_merged_stacks_total", &[], counts.merged_stacks);
    }

    fn sender(&mut self, counts: &SenderCounts) {
        self.counter("energy_trace_agent_otlp_messages", "Windows for the collector: sent, dropped.");
        for (outcome, count) in [("sent", counts.sent), ("dropped", counts.dropped)] {
            self.sample("energy_trace_agent_otlp_messages_total", &[("outcome", outcome)], count);
        }
    }

    /// Announces a counter. In the older format it has the name of its samples.
    fn counter(&mut self, name: &str, help: &str) {
        let total = if self.format == Format::Text { "_total" } else { "" };
        self.put(format_args!("# HELP {name}{total} {help}\n# TYPE {name}{total} counter\n"));
    }

    fn gauge(&mut self, name: &str, help: &str) {
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
    }

    fn of_domain(&mut self, name: &str, domain: &Domain, more: &Labels<'_>, value: impl Display) {
        let domain = [("domain", domain.name.as_str()), ("class", domain.class.name())];
        self.sample(name, &[&domain, more].concat(), value);
    }

    /// A line. A label that is empty is the same as none.
    fn sample(&mut self, name: &str, labels: &Labels<'_>, value: impl Display) {
        self.text.push_str(name);
        let mut before = '{';
        for (label, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            self.put(format_args!("{before}{label}=\"{}\"", Escaped(value)));
            before = ',';
        }
        let end = if before == ',' { "} " } else { " " };
        self.put(format_args!("{end}{value}\n"));
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(text);
    }
}

/// Why energy is missing.
const fn missing(why: GapReason) -> &'static str {
    match why {
        GapReason::NoReading => "no_reading",
        GapReason::WentBack => "went_back",
        GapReason::TooLong => "too_long",
        GapReason::Slept => "slept",
        GapReason::NeverMoved => "never_moved",
        GapReason::StoodStill => "stood_still",
        GapReason::TooMuch => "too_much",
        GapReason::BelowIdle => "below_idle",
    }
}

const fn quality(quality: Quality) -> &'static str {
    match quality {
        Quality::Measured => "measured",
        Quality::Apportioned => "apportioned",
        Quality::Estimated => "estimated",
    }
}

/// The number of a Slurm job in words; empty where there is none.
fn job_of(who: &Who) -> String {
    match who {
        Who::Known(workload, _) => workload.slurm_job.map_or_else(String::new, |job| job.to_string()),
        Who::Unseen | Who::Other => String::new(),
    }
}

/// What tells workloads apart.
fn labels_of<'a>(who: &'a Who, job: &'a str) -> Vec<(&'a str, &'a str)> {
    let (workload, namespace) = match who {
        Who::Known(workload, namespace) => (workload, namespace),
        Who::Unseen => return vec![("unit", UNSEEN)],
        Who::Other => return vec![("unit", "other")],
    };
    if *workload == Workload::default() {
        return vec![("unit", OUTSIDE)];
    }
    let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
    vec![
        ("namespace", text(namespace)),
        ("pod_uid", text(&workload.pod_uid)),
        ("container_id", text(&workload.container_id)),
        ("unit", text(&workload.unit)),
        ("slurm_job", job),
        ("slurm_step", text(&workload.slurm_step)),
    ]
}

/// Microjoules in joules, exactly.
struct Joules(MicroJoules);

impl Display for Joules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uj, sign) = (self.0.as_uj().unsigned_abs(), if self.0 < MicroJoules::ZERO { "-" } else { "" });
        write!(f, "{sign}{}.{:06}", uj / 1_000_000, uj % 1_000_000)
    }
}

/// Nanoseconds in seconds, exactly.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A label's value between its quotes; what would move a terminal is written out.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shown(self.0).chars().try_for_each(|c| match c {
            '\\' | '"' => write!(f, "\\{c}"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::agent_totals::tests::{pod, sums, uj, window};
    use super::super::agent_totals::{Totals, Who};
    use super::{Format, Joules, OwnCost, OwnShare, SenderCounts, SpoolCounts, last_words, page};
    use energy_trace_model::clock::KtimeNs;
    use energy_trace_model::ids::ProcessKey;
    use energy_trace_names::workload::Workload;
    use std::collections::{BTreeMap, BTreeSet};

    fn totals() -> Totals {
        let mut totals = Totals::default();
        let job = Workload { slurm_job: Some(6), slurm_step: Some("0".into()), ..Workload::default() };
        let hostile = Workload { unit: Some("a\"b\\c\n\u{1b}[2J.service".into()), ..Workload::default() };
        let whos = [
            pod(1),
            Who::Known(job, None),
            Who::Known(hostile, None),
            Who::Known(Workload::default(), None),
            Who::Unseen,
            Who::Known(Workload { pod_uid: Some("u".into()), ..Workload::default() }, Some("shop".into())),
        ];
        let who = |process: ProcessKey| whos[process.get() as usize].clone();
        for name in ["package-0", "dram-0"] {
            let shares = [1_000_001, 2, 3, 4, 5, 6];
            totals.add(&[window(name, (0, 7), &shares)], KtimeNs::from_ns(1), &who, &BTreeSet::new());
        }
        totals
    }

    const COST: OwnCost = OwnCost {
        cpu_ns: 1_500_000_000,
        resident_bytes: 77,
        share: OwnShare {
            programs_ns: Some(1_500_000_000),
            millionths: 12_345,
            sample_hz: 9,
            is_above: true,
            no_room_ns: 2_500_000_000,
        },
        lost: 3,
        early: 0,
        joined: 4,
        spool: None,
        sender: None,
        window_end_unix_ns: 60_000_000_000,
    };

    /// What is not there has no series, not even one that is zero.
    #[test]
    fn missing_is_missing() {
        let without = page(&Totals::default(), &COST, Format::OpenMetrics);
        assert!(!without.contains("spool") && !without.contains("otlp"), "{without}");
        let new = page(&Totals::default(), &OwnCost::default(), Format::OpenMetrics);
        assert!(!["hertz", "ratio", "bpf"].iter().any(|word| new.contains(word)), "{new}");
        let share = OwnShare { programs_ns: None, ..COST.share };
        let unknown = page(&Totals::default(), &OwnCost { share, ..COST }, Format::OpenMetrics);
        assert!(
            unknown.contains("hertz") && !unknown.contains("ratio") && !unknown.contains("bpf"),
            "{unknown}"
        );
        let spool = SpoolCounts { written: 5, removed: 1, lost: 2, bytes: 9, merged_stacks: 0 };
        let cost = OwnCost { spool: Some(spool), sender: Some(SenderCounts { sent: 1, dropped: 3 }), ..COST };
        let with = page(&Totals::default(), &cost, Format::OpenMetrics);
        for line in [
            "energy_trace_agent_joined_windows_total 4",
            "energy_trace_agent_bpf_seconds_total 1.500000000",
            "energy_trace_agent_cpu_ratio 0.012345",
            "energy_trace_agent_sample_rate_hertz 9",
            "energy_trace_agent_above_limit 1",
            "energy_trace_agent_lost_cpu_seconds_total 2.500000000",
            r#"energy_trace_agent_spool_windows_total{outcome="lost"} 2"#,
            "energy_trace_agent_spool_bytes 9",
            r#"energy_trace_agent_otlp_messages_total{outcome="dropped"} 3"#,
        ] {
            assert!(with.lines().any(|found| found == line), "{line}\n{with}");
        }
    }

    /// What there is not is not spoken of.
    #[test]
    fn at_the_end() {
        let spool = SpoolCounts { written: 5, removed: 1, lost: 2, bytes: 9, merged_stacks: 0 };
        let said = last_words(7, Some(spool), Some(SenderCounts { sent: 6, dropped: 1 }));
        assert_eq!(said, "7 windows; spool: 5 written, 1 removed, 2 lost; collector: 6 sent, 1 dropped");
        assert_eq!(last_words(1, None, None), "1 window");
    }

    /// Samples by name and labels, in microjoules where they are joules.
    fn samples(page: &str) -> BTreeMap<String, i64> {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
            (
                series.to_owned(),
                whole.parse::<i64>().unwrap() * 1_000_000 + part[..part.len().min(6)].parse::<i64>().unwrap(),
            )
        };
        lines.map(sample).collect()
    }

    /// The sum rule holds on the page, domain by domain; every series is there once, with its labels.
    #[test]
    fn a_page() {
        let totals = totals();
        let text = page(&totals, &COST, Format::OpenMetrics);
        let samples = samples(&text);
        assert_eq!(samples.len(), text.lines().filter(|line| !line.starts_with('#')).count());
        for (number, domain) in ["package-0", "dram-0"].into_iter().enumerate() {
            let label = format!("{{domain=\"{domain}\"");
            let sum = |family: &str| -> i64 {
                let of = samples.iter().filter(|(series, _)| series.starts_with(&format!("{family}{label}")));
                of.map(|(_, value)| value).sum()
            };
            let counter = sum("energy_trace_domain_joules_total");
            let parts: i64 = ["workload", "ended", "ledger"]
                .map(|family| sum(&format!("energy_trace_{family}_joules_total")))
                .iter()
                .sum();
            assert_eq!((parts, counter), (counter, sums(&totals)[number].as_uj()), "{domain}");
            assert_eq!(counter, 1_000_021 + 1_037);
        }
        for line in [
            r#"energy_trace_domain_joules_total{domain="package-0",class="package",quality="measured"} 1.001058"#,
            r#"energy_trace_workload_joules_total{domain="package-0",class="package",pod_uid="pod-00001"} 1.000001"#,
            r#"energy_trace_workload_joules_total{domain="dram-0",class="package",slurm_job="6",slurm_step="0"} 0.000002"#,
            r#"energy_trace_workload_joules_total{domain="dram-0",class="package",unit="a\"b\\c\\x0a\\x1b[2J.service"} 0.000003"#,
            r#"energy_trace_workload_joules_total{domain="dram-0",class="package",unit="none"} 0.000004"#,
            r#"energy_trace_workload_joules_total{domain="dram-0",class="package",unit="unknown"} 0.000005"#,
            r#"energy_trace_workload_joules_total{domain="dram-0",class="package",namespace="shop",pod_uid="u"} 0.000006"#,
            r#"energy_trace_ledger_joules_total{domain="package-0",class="package",part="unattributed"} 0.000007"#,
            r#"energy_trace_domain_missing_seconds_total{domain="dram-0",class="package",reason="no_reading"} 0.000000002"#,
            "energy_trace_agent_cpu_seconds_total 1.500000000",
            "energy_trace_agent_windows_total 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }

    /// Both formats have the same samples; each family is announced once, by the name that the format wants.
    #[test]
    fn formats() {
        let [open, text] = [Format::OpenMetrics, Format::Text].map(|format| page(&totals(), &COST, format));
        assert_eq!(samples(&open), samples(&text));
        assert!(open.contains("\n# TYPE energy_trace_workload_joules counter\n"), "{open}");
        assert!(text.contains("\n# TYPE energy_trace_workload_joules_total counter\n"), "{text}");
        assert!(!text.contains("# EOF"));
        for page in [open, text] {
            let types: Vec<&str> = page.lines().filter(|line| line.starts_with("# TYPE")).collect();
            assert_eq!(types.iter().collect::<BTreeSet<_>>().len(), types.len());
        }
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.3";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        assert_eq!((Format::accepted("*/*"), Format::accepted("")), (Format::Text, Format::Text));
    }

    /// No digit is lost, where a float would lose some too.
    #[test]
    fn joules_are_exact() {
        for (value, text) in [
            (0, "0.000000"),
            (1, "0.000001"),
            (1 << 53, "9007199254.740992"),
            ((1 << 53) + 1, "9007199254.740993"),
            (i64::MAX, "9223372036854.775807"),
            (-1, "-0.000001"),
        ] {
            assert_eq!(Joules(uj(value)).to_string(), text);
        }
    }
}
