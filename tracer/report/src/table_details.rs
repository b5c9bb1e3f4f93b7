//! What `-v` adds to the summary: where the numbers came from, whether learned watts split them, what the tracing itself cost, how whole the
//! stacks are.

use super::table_cells::{Look, TITLE, percent, seconds};
use super::{diagnostics, missing_unwind_info, run};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::certainty::DomainCertainty;
use energy_trace_model::profile::run::GpuFact;
use energy_trace_model::profile::validity::CheckResult;
use energy_trace_model::profile::{LedgerRow, Profile};
use energy_trace_model::recording::record::{GpuMeter, GpuUse, Jitter, SampleEvent, Source};
use energy_trace_names::is_nameless;
use energy_trace_sentences::{copy_outcome, counted, ignored_reason, runtime, source_note};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// How much the distances of samples vary; nothing where they do not.
fn jitter(jitter: Jitter) -> String {
    match jitter.as_permille() {
        0 => String::new(),
        permille => format!(", one period ± {} % apart", permille / 10),
    }
}

/// Writes the details.
pub(crate) fn write(out: &mut dyn Write, profile: &Profile, look: Look) -> io::Result<()> {
    writeln!(out)?;
    look.line(out, TITLE, "Machine and sources")?;
    let header = &profile.run.header;
    let event = header.sample_event.map_or("an unknown event", SampleEvent::name);
    let mut facts = vec![
        format!(
            "kernel {}, {}, {}",
            header.kernel,
            header.cpu_model,
            counted(header.sockets.len() as u64, "CPU")
        ),
        format!("stacks sampled by {event} at {} Hz{}", header.sample_hz, jitter(header.jitter)),
    ];
    facts.extend(header.sources.iter().flat_map(source_facts));
    facts.extend(gpu_facts(profile));
    facts.extend(runtimes(profile).into_iter().map(|runtime| format!("interpreter: {runtime}")));
    look.bullets(out, "-", &facts)?;
    let weights = weights_facts(profile);
    if !weights.is_empty() {
        writeln!(out)?;
        look.line(out, TITLE, "Power of functions, learned from the run")?;
        look.bullets(out, "-", &weights)?;
    }
    let nameless = nameless_libraries(profile);
    if !nameless.is_empty() {
        writeln!(out)?;
        look.line(out, TITLE, "Libraries with unnamed functions, and their build ids")?;
        look.bullets(out, "-", &nameless)?;
    }
    writeln!(out)?;
    look.line(out, TITLE, "Samples and overhead")?;
    look.bullets(out, "-", &sampling_facts(profile))
}

/// The interpreters of the recording's processes, each once.
pub fn runtimes(profile: &Profile) -> Vec<String> {
    let runtimes = profile.processes.iter().filter_map(|process| process.runtime.as_ref().map(runtime));
    runtimes.fill_set().into_iter().collect()
}

/// Libraries with frames that no symbol was found for: what their debug files are to be found by.
fn nameless_libraries(profile: &Profile) -> Vec<String> {
    let nameless = profile.frames.iter().filter(|frame| is_nameless(frame) && !frame.module.is_empty());
    let modules: std::collections::BTreeSet<&str> = nameless.map(|frame| frame.module.as_str()).fill_set();
    let fact = |module: &str| match profile.build_ids.get(module) {
        Some(id) => format!("{module}: {id}"),
        None => format!("{module}: build id unknown"),
    };
    modules.into_iter().filter(|module| module.starts_with('/')).map(fact).collect()
}

/// What the checks of learned power found, a line a domain.
fn weights_facts(profile: &Profile) -> Vec<String> {
    let of_domains = profile.ledger.iter().zip(&profile.certainty.domains);
    let fact = |(row, domain): (&LedgerRow, &DomainCertainty)| {
        let weights = domain.weights?;
        let verdict = match (weights.used, weights.validity.usable()) {
            (true, _) => "used to split the energy",
            (false, true) => "not used (--attribution time)",
            (false, false) => "not used: it differs too much from moment to moment",
        };
        let [misfit, fluctuation] = weights.validity.each();
        Some(format!(
            "{}: learned power {verdict}; the variance of intervals is {:.1} times the expected ({}); a function's power varies by {:.1} % ({}){}{}",
            row.domain,
            misfit.value,
            check_fact(&misfit, 1.0, ""),
            100.0 * fluctuation.value,
            check_fact(&fluctuation, 100.0, " %"),
            weights.siblings.map_or_else(String::new, siblings_fact),
            weights.frequency.map_or_else(String::new, frequency_fact)
        ))
    };
    of_domains.filter_map(fact).collect()
}

/// What hardware threads that share a core were taken to draw.
fn siblings_fact(eta: f64) -> String {
    format!("; two busy hardware threads of a core draw {:.2} times the power of one", 1.0 + eta)
}

/// How power was taken to go with the clocks of CPUs.
fn frequency_fact(exponent: f64) -> String {
    if exponent > 0.0 {
        format!("; power grows with CPU frequency to the power of {exponent}")
    } else {
        "; CPU frequencies differ but do not explain the power".to_owned()
    }
}

fn check_fact(check: &CheckResult, scale: f64, unit: &str) -> String {
    let failed = if check.passed { "" } else { ", failed" };
    format!("required: less than {}{unit}{failed}", scale * check.limit)
}

fn source_facts(source: &Source) -> Vec<String> {
    let word = run::quality_word(source.quality);
    let domains =
        if source.domains.is_empty() { "nothing used".to_owned() } else { source.domains.join(", ") };
    let mut facts = vec![format!("{} ({word}): {domains}", source.id)];
    facts.extend(source.notes.iter().map(|note| format!("{}: {}", source.id, source_note(note))));
    let ignored = source.ignored.iter();
    facts.extend(ignored.map(|ignored| {
        let reason = ignored_reason(&ignored.reason);
        format!("{}: {} not used: {reason}", source.id, ignored.domain)
    }));
    facts
}

/// What the run has shown of each GPU's meter, and which processes the driver saw on it.
fn gpu_facts(profile: &Profile) -> Vec<String> {
    let mut facts = Vec::new();
    for GpuFact { domain, meter, uses } in &profile.run.gpus {
        if let Some(GpuMeter { lag_ns: Some(lag), window_ns: Some(window), .. }) = meter {
            facts.push(format!(
                "{domain}: the counter lags the driver's power samples by {} ms and covers the last {} ms of each step",
                lag / 1_000_000,
                window / 1_000_000
            ));
        }
        facts.extend(busy_by_pid(uses).into_iter().map(|(pid, percent)| {
            format!("{domain}: process {pid} kept it {percent} % busy, by the driver's samples")
        }));
    }
    facts
}

/// How busy each process was over all of its samples, in percent of their time.
fn busy_by_pid(uses: &[GpuUse]) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::<u32, (u64, u64)>::new();
    for one in uses {
        let ns = one.to.ns_since(one.from);
        let sum = sums.entry(one.pid.get()).or_default();
        *sum = (sum.0 + ns, sum.1 + ns.saturating_mul(u64::from(one.sm_percent)));
    }
    sums.into_iter().map(|(pid, (ns, busy))| (pid, busy / ns.max(1))).fill_map()
}

/// What code without unwind information costs, of all that the program used: in all, then by library, as many as cost a thousandth.
fn bare_code_facts(profile: &Profile) -> Option<String> {
    const SHOWN: usize = 5;
    let domain = run::headline(profile);
    let (all, found) =
        (run::target(profile, domain).as_uj(), missing_unwind_info::by_library(profile, domain));
    let sum: i64 = found.iter().map(|(_, energy)| energy.as_uj()).sum();
    let counts = |energy: i64| energy.saturating_mul(1000) >= all;
    let libraries = found.iter().filter(|(_, energy)| counts(energy.as_uj())).take(SHOWN);
    let libraries = libraries.map(|(library, energy)| format!("{library} {}", percent(energy.as_uj(), all)));
    let libraries = libraries.collect::<Vec<_>>().join(", ");
    (sum > 0 && counts(sum)).then(|| {
        let of_all = percent(sum, all);
        let mut fact =
            format!("callers missing or guessed for want of unwind information: {of_all} of the energy");
        if !libraries.is_empty() {
            fact += &format!(" ({libraries})");
        }
        fact
    })
}

fn sampling_facts(profile: &Profile) -> Vec<String> {
    let all = profile.run.samples;
    let mut facts = vec![format!(
        "{}, {} lost",
        counted(all, "sample"),
        counted(diagnostics::lost_total(profile), "event")
    )];
    let launches = profile.run.launch_stacks.named().into_iter();
    facts.extend(launches.map(|(whose, count)| format!("stacks of GPU launches, {whose}: {count}")));
    let verdicts = run::verdicts(profile);
    facts.extend(verdicts.iter().map(|(verdict, count)| format!("stacks {verdict}: {count}")));
    facts.extend(bare_code_facts(profile));
    if let Some(summary) = &profile.run.summary {
        let copies = summary.copies.iter().map(|(what, count)| (copy_outcome(what), count));
        facts.extend(copies.map(|(what, count)| format!("stacks unwound in user space, {what}: {count}")));
        facts.push(format!("CPU time of energy-trace itself: {} s", seconds(summary.tracer_cpu_ns)));
        let bpf = summary.bpf_ns.map_or_else(
            || "unknown; `sysctl kernel.bpf_stats_enabled=1` makes the kernel count it".to_owned(),
            |ns| format!("{} s", seconds(ns)),
        );
        facts.push(format!("CPU time of its BPF programs: {bpf}"));
    }
    facts
}
