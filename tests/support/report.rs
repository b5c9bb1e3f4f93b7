//! The JSON report as tests read it: the contract's keys, and nothing of energy-trace's own types.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufWriter;
use std::process::{Command, Output, Stdio};

/// `report --format json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// `energy-trace/report/1.3`.
    pub schema: String,
    /// The run, as it stands in the file.
    pub meta: Value,
    /// One row a domain.
    pub ledger: Vec<LedgerRow>,
    /// Functions by energy.
    pub functions: Vec<Function>,
}

/// Where one domain's energy went, in microjoules.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub struct LedgerRow {
    pub domain: String,
    pub quality: String,
    pub measured_uj: i64,
    pub target_uj: i64,
    pub other_uj: i64,
    pub idle_uj: i64,
    pub uncore_uj: i64,
    pub residual_uj: i64,
    pub unattributed: BTreeMap<String, i64>,
}

/// One function.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub struct Function {
    pub name: String,
    pub kind: String,
    pub self_uj: BTreeMap<String, i64>,
    pub total_uj: BTreeMap<String, i64>,
    pub self_ns: u64,
    pub total_ns: u64,
    pub samples: u64,
    #[serde(default)]
    pub ci95_uj: Option<[i64; 2]>,
    #[serde(default)]
    pub bounds_uj: Option<[i64; 2]>,
    #[serde(default)]
    pub flags: Vec<String>,
}

impl Report {
    /// Reads a report.
    ///
    /// # Errors
    /// When it is not JSON of the contract's shape.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    /// The functions whose name is `name` or ends in `.name` or `::name`, summed over kinds: total energy of a class in microjoules.
    pub fn total_uj(&self, name: &str, class: &str) -> i64 {
        self.named(name).filter_map(|f| f.total_uj.get(class)).sum()
    }

    /// The functions whose name is `name` or ends in `.name` or `::name`.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Function> {
        let qualified =
            move |whole: &str| whole.strip_suffix(name).is_some_and(|path| path.ends_with(['.', ':']));
        self.functions.iter().filter(move |f| f.name == name || qualified(&f.name))
    }

    /// Energy of all functions by themselves in a class: what the ledger's targets of that class sum to.
    pub fn self_uj(&self, class: &str) -> i64 {
        self.functions.iter().filter_map(|f| f.self_uj.get(class)).sum()
    }
}

impl LedgerRow {
    /// What is measured and lies in no part: zero, or the ledger is broken.
    pub fn imbalance_uj(&self) -> i64 {
        let parts = self.target_uj + self.other_uj + self.idle_uj + self.uncore_uj + self.residual_uj;
        self.measured_uj - parts - self.unattributed.values().sum::<i64>()
    }
}

/// What a JSON report has that its schema does not allow, in words; empty where it is valid.
///
/// # Panics
/// As `errors_by`.
pub fn schema_errors(report: &Value) -> Vec<String> {
    errors_by(concat!(env!("CARGO_MANIFEST_DIR"), "/../tracer/report/data/report-1.schema.json"), report)
}

/// The same of `export --format greenlight`.
///
/// # Panics
/// As `errors_by`.
pub fn greenlight_errors(calls: &Value) -> Vec<String> {
    errors_by(concat!(env!("CARGO_MANIFEST_DIR"), "/../tracer/export/data/greenlight-1.schema.json"), calls)
}

/// By Debian's python3-jsonschema (`cargo xtask setup` names it): the checker in Rust took as long to build as all offline tests to run.
///
/// # Panics
/// Where that is not installed, or cannot read the schema.
#[expect(clippy::unwrap_used, reason = "a test without its checker has failed")]
fn errors_by(schema: &str, value: &Value) -> Vec<String> {
    const CHECK: &str = "import json, sys
from jsonschema import Draft202012Validator as Validator
schema = json.load(open(sys.argv[1]))
Validator.check_schema(schema)
errors = Validator(schema).iter_errors(json.load(sys.stdin))
json.dump([f'{error.json_path}: {error.message}' for error in errors], sys.stdout)";
    let mut check = Command::new("/usr/bin/python3");
    check.args(["-c", CHECK, schema]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut check = check.spawn().unwrap();
    serde_json::to_writer(BufWriter::new(check.stdin.take().unwrap()), value).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success(), "no checker of schemas: apt-get install python3-jsonschema");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// CPU time in a recording by `record -v` that its threads did not have by the scheduler's account, in nanoseconds: what the host took from
/// their CPUs, and interrupts. It is the time of whatever it fell into, so that any one part may have all of it too much. Nothing where it is not said.
pub fn taken_ns(record: &Output) -> Option<f64> {
    let said = String::from_utf8_lossy(&record.stderr);
    let (_, account) = said.split_once("CPU time of targets: ")?;
    let mut seconds = account.split(' ').filter_map(|word| word.parse::<f64>().ok());
    Some((seconds.next()? - seconds.next()?) * 1e9)
}
