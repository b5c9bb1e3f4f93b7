//! What `examples/agent` asks Prometheus for is on an agent's page: each metric, and each label.
//!
//! Leaves out whether Grafana shows it, which was not run.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::ProcessKey;
use energy_trace_model::profile::{DomainByProcess, LedgerRow};
use energy_trace_model::recording::record::{DomainClass, Quality};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::workload::Workload;
use energy_trace_report::agent_page::{Format, OwnCost, SenderCounts, SpoolCounts, page};
use energy_trace_report::agent_totals::{Totals, Who};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];
const DASHBOARD: &str = "examples/agent/grafana-dashboard.json";

/// A page with everything that an agent may show.
fn whole_page() -> String {
    let uj = MicroJoules::from_uj;
    let row = LedgerRow {
        measured: uj(2),
        target: uj(2),
        ..LedgerRow::empty("package-0".into(), DomainClass::Package, Quality::Measured)
    };
    let of_process = [0, 1].map(|key| (ProcessKey::new(key), uj(1))).into();
    let window =
        [DomainByProcess { row, of_process, covered_ns: 1, missing_ns: BTreeMap::new(), by_power: false }];
    let text = |text: &str| Some(text.to_owned());
    let job = Workload { slurm_job: Some(6), slurm_step: text("0"), unit: text("a"), ..Workload::default() };
    let pod = Workload { pod_uid: text("u"), container_id: text("c"), ..Workload::default() };
    let whos = [Who::Known(job, None), Who::Known(pod, text("shop"))];
    let mut totals = Totals::default();
    totals.add(&window, KtimeNs::default(), &|key| whos[key.index()].clone(), &BTreeSet::new());
    let (spool, sender) = (Some(SpoolCounts::default()), Some(SenderCounts::default()));
    page(&totals, &OwnCost { spool, sender, ..OwnCost::default() }, Format::OpenMetrics)
}

/// The words of a query, without what stands between quotes.
fn words(query: &str) -> Vec<&str> {
    let bare = query.split('"').step_by(2);
    bare.flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric() && !"_$".contains(c))).collect()
}

/// The labels of a query: before `=` and in `by (…)`.
fn labels(query: &str) -> Vec<String> {
    let bare: String = query.split('"').step_by(2).collect::<Vec<_>>().join("\"");
    let matched = bare.split(['{', ',']).filter_map(|part| part.split_once(['=', '!']));
    let grouped = bare.split("by (").skip(1).filter_map(|part| part.split(')').next());
    let words = grouped.flat_map(|labels| labels.split(',')).chain(matched.map(|(label, _)| label));
    words.map(|label| label.trim().to_owned()).collect()
}

fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| queries(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => (),
    }
}

#[test]
fn queries_name_what_is_there() {
    let page = whole_page();
    let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
    let metrics: BTreeSet<&str> = samples.iter().filter_map(|line| line.split(['{', ' ']).next()).collect();
    let of_page: BTreeSet<String> = samples.iter().flat_map(|line| labels(line)).collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(DASHBOARD);
    let dashboard: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    assert!(found.len() > 10, "{found:?}");
    for query in found {
        let asked: Vec<&str> =
            words(&query).into_iter().filter(|word| word.starts_with("energy_trace")).collect();
        assert!(
            !asked.is_empty() && asked.iter().all(|metric| metrics.contains(metric)),
            "{query}: {metrics:?}"
        );
        for label in labels(&query) {
            assert!(
                ADDED.contains(&label.as_str()) || of_page.contains(&label),
                "{label} in {query}: {of_page:?}"
            );
        }
    }
}

/// What no machine here could run says so in its first line.
#[test]
fn what_was_not_run_says_so() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/agent");
    let unit = "energy-trace-agent.service";
    for name in
        [unit, "daemonset.yaml", "servicemonitor.yaml", "otel-collector.yaml", "grafana-dashboard.json"]
    {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        assert!(text.lines().next().is_some_and(|first| first.contains("NOT RUN")), "{name}");
    }
}
