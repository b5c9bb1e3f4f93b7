//! Reads each output as its users do, without the code that wrote it: JSON, CSV, protobuf, Parquet, XML, Markdown, folded lines.
//!
//! Of each it says what it found: the program's energy and CPU time where the output has them, and every text.

use super::super::names::{assert_harmless, assert_well_formed};
use super::messages::{otlp, pprof};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use prost::Message as _;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

/// What an output holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Of the program, in microjoules; `None` where the output has none, or rounds it.
    pub(super) energy: Option<i64>,
    /// Of the program, in nanoseconds; `None` where the output has none.
    pub(super) cpu_ns: Option<i64>,
    /// Everything in it that a program may have named.
    pub(super) texts: Vec<String>,
}

impl Found {
    fn energy(uj: i64) -> Self {
        Self { energy: Some(uj), ..Self::default() }
    }

    fn cpu(self, ns: i64) -> Self {
        Self { cpu_ns: Some(ns), ..self }
    }

    fn texts(self, texts: impl IntoIterator<Item = String>) -> Self {
        Self { texts: texts.into_iter().collect(), ..self }
    }
}

/// An output: the words that ask for it, and who reads it.
pub(super) struct Output {
    pub(super) words: &'static [&'static str],
    pub(super) read: fn(&[u8]) -> Found,
}

/// Every output of one recording, whose file is named behind the first word.
pub(super) const OUTPUTS: [Output; 30] = [
    Output { words: &["report", "--format", "json"], read: report },
    Output { words: &["report", "--format", "json", "--by", "api", "--level", "tree"], read: report },
    Output { words: &["report", "--format", "csv"], read: csv },
    Output { words: &["report", "--format", "csv", "--by", "line"], read: csv },
    Output { words: &["report", "--format", "csv", "--by", "stack"], read: csv },
    Output { words: &["report", "--format", "markdown"], read: markdown },
    Output { words: &["report", "--color", "never", "-v"], read: plain },
    Output { words: &["report", "--color", "never", "--by", "stack"], read: plain },
    Output { words: &["report", "--color", "never", "--by", "api"], read: plain },
    Output { words: &["report", "--color", "never", "--by", "call"], read: plain },
    Output { words: &["report", "--color", "never", "--summary"], read: plain },
    Output { words: &["flamegraph", "-o", "-"], read: svg },
    Output { words: &["flamegraph", "-o", "-", "--by-callee", "--with-others", "--with-idle"], read: svg },
    Output { words: &["export", "--format", "folded"], read: folded },
    Output { words: &["export", "--format", "pprof"], read: pprof },
    Output { words: &["export", "--format", "pprof", "--native-frames", "none"], read: pprof },
    Output { words: &["export", "--format", "speedscope"], read: speedscope },
    Output { words: &["export", "--format", "firefox"], read: firefox },
    Output { words: &["export", "--format", "chrome"], read: chrome },
    Output { words: &["export", "--format", "otlp"], read: otlp },
    Output { words: &["export", "--format", "json"], read: stacks },
    Output { words: &["export", "--format", "html"], read: html },
    Output { words: &["export", "--format", "greenlight"], read: greenlight },
    Output { words: &["export", "--format", "parquet"], read: parquet },
    Output { words: &["export", "--format", "parquet-readings"], read: readings },
    Output { words: &["export", "--format", "parquet-work"], read: units },
    Output { words: &["export", "--format", "emissions", "--grid-gco2-kwh", "400"], read: emissions },
    Output { words: &["export", "--format", "csv"], read: csv },
    Output { words: &["diff", "--color", "never"], read: plain },
    Output { words: &["diff", "--format", "json"], read: difference },
];

/// Classes of domain that no other contains.
const ADDS_UP: [&str; 3] = ["package", "dram", "gpu"];

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error} in {}", utf8(bytes)))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn sum<'a>(values: impl IntoIterator<Item = &'a Value>) -> i64 {
    values.into_iter().filter_map(Value::as_i64).sum()
}

/// All texts of a JSON document, and all its keys.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().flat_map(texts_of).collect(),
        Value::Object(map) => {
            map.iter().flat_map(|(key, value)| [vec![key.clone()], texts_of(value)].concat()).collect()
        }
        _ => vec![],
    }
}

/// Names are as they were in the report; JSON escapes them.
fn report(bytes: &[u8]) -> Found {
    let report = json(bytes);
    assert_harmless("the text of JSON", &utf8(bytes));
    let of_class = |row: &&Value| ADDS_UP.iter().any(|class| row["class"] == *class);
    let target = sum(list(&report["ledger"]).iter().filter(of_class).map(|row| &row["target_uj"]));
    for rows in [Some(&report["functions"]), report.get("rows")].into_iter().flatten() {
        let own = |class| sum(list(rows).iter().map(|row| &row["self_uj"][class]));
        assert_eq!(ADDS_UP.into_iter().map(own).sum::<i64>(), target);
    }
    Found::energy(target).cpu(sum(list(&report["functions"]).iter().map(|row| &row["self_ns"])))
}

/// Rows of a table with a head; as many cells in each.
fn rows(bytes: &[u8]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(bytes);
    let texts = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
    let head = texts(reader.headers().unwrap());
    (head, reader.records().map(|record| texts(&record.unwrap())).collect())
}

fn csv(bytes: &[u8]) -> Found {
    let (head, rows) = rows(bytes);
    let sum = |column: &str| {
        let at = head.iter().position(|name| name == column).unwrap_or_else(|| panic!("no {column}"));
        rows.iter().map(|row| row[at].parse::<i64>().unwrap()).sum::<i64>()
    };
    let energy = ADDS_UP.into_iter().map(|class| sum(&format!("self_{class}_uj"))).sum();
    Found::energy(energy).cpu(sum("self_ns")).texts(rows.into_iter().flatten())
}

/// In kilowatt-hours: of a run of joules a double has them to the microjoule.
fn emissions(bytes: &[u8]) -> Found {
    let (head, rows) = rows(bytes);
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    let of = |column: &str| &row[head.iter().position(|name| name == column).unwrap()];
    let kwh = of("energy_consumed");
    let kg = of("emissions");
    assert_eq!(kwh.is_empty(), kg.is_empty());
    if let (Ok(kwh), Ok(kg)) = (kwh.parse::<f64>(), kg.parse::<f64>()) {
        assert!((kg - kwh * 0.4).abs() <= 1e-9 * kg, "{kg} kg of {kwh} kWh");
        return Found::energy((kwh * 3.6e12).round() as i64).texts(row.clone());
    }
    assert_eq!(of("experiment_id"), "energy-trace: no energy was recorded");
    Found::energy(0).texts(row.clone())
}

/// A text for people.
fn plain(bytes: &[u8]) -> Found {
    let text = utf8(bytes);
    assert!(!text.trim().is_empty());
    Found::default().texts(text.lines().map(str::to_owned))
}

/// Code spans aside, no element is in it but ours; each row of a table has as many cells as its head.
fn markdown(bytes: &[u8]) -> Found {
    let text = utf8(bytes);
    for line in text.lines() {
        let outside: String = line.split('`').step_by(2).collect();
        for (at, _) in outside.match_indices('<') {
            let known = [
                "<details>",
                "</details>",
                "<summary>",
                "</summary>",
                "<sub>",
                "</sub>",
                "<code>",
                "</code>",
                "<!-- -->",
            ];
            assert!(known.iter().any(|element| outside[at..].starts_with(element)), "{line}");
        }
    }
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut head = None;
    for line in text.lines() {
        head = line.starts_with('|').then(|| head.unwrap_or_else(|| cells(line)));
        assert!(head.is_none_or(|wanted| wanted == cells(line)), "{line}");
    }
    plain(bytes)
}

/// XML; what is drawn is said to be the whole.
fn svg(bytes: &[u8]) -> Found {
    let text = utf8(bytes);
    assert_well_formed(&text);
    assert!(text.contains("(100.0%)") || text.contains(" 100.00 %, "), "no root");
    Found::default().texts([text])
}

/// A line a stack.
fn folded(bytes: &[u8]) -> Found {
    let text = utf8(bytes);
    let stacks: Vec<(&str, i64)> = text
        .lines()
        .filter(|line| !line.starts_with("# "))
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(stack, weight)| (stack, weight.parse().unwrap()))
        .collect();
    let distinct: BTreeSet<&str> = stacks.iter().map(|(stack, _)| *stack).collect();
    assert_eq!(distinct.len(), stacks.len(), "a stack stands twice");
    let energy = stacks.iter().map(|(_, weight)| weight).sum();
    Found::energy(energy).texts(stacks.iter().map(|(stack, _)| (*stack).to_owned()))
}

/// Every position is there; values are in the order of their types.
fn pprof(bytes: &[u8]) -> Found {
    let mut raw = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut raw).unwrap();
    let profile = pprof::Profile::decode(raw.as_slice()).unwrap();
    let text = |at: i64| profile.string_table[usize::try_from(at).unwrap()].as_str();
    assert_eq!(profile.string_table[0], "");
    let types: Vec<_> = profile.sample_type.iter().map(|of| (text(of.kind), text(of.unit))).collect();
    let locations: BTreeSet<u64> = profile.location.iter().map(|location| location.id).collect();
    let functions: BTreeSet<u64> = profile.function.iter().map(|function| function.id).collect();
    let lines = profile.location.iter().flat_map(|location| &location.line);
    assert!(lines.into_iter().all(|line| functions.contains(&line.function_id)));
    assert!(profile.function.iter().all(|function| !text(function.name).is_empty()));
    for sample in &profile.sample {
        assert!(sample.location_id.iter().all(|location| locations.contains(location)));
        assert_eq!(sample.value.len(), types.len());
    }
    let of = |kind| {
        let at = types.iter().position(|of| *of == kind)?;
        Some(profile.sample.iter().map(|sample| sample.value[at]).sum::<i64>())
    };
    let found = Found { energy: of(("energy", "microjoules")).or(Some(0)), ..Found::default() };
    let cpu = of(("cpu", "nanoseconds")).unwrap();
    found.cpu(cpu).texts(profile.string_table.clone())
}

fn otlp(bytes: &[u8]) -> Found {
    let data = otlp::ProfilesData::decode(bytes).unwrap();
    let texts = data.dictionary.unwrap().string_table;
    let mut found = Found::energy(0).cpu(0);
    for profile in data.resource_profiles.iter().flat_map(|of| &of.scope_profiles).flat_map(|of| &of.profiles)
    {
        let kind = profile.sample_type.unwrap();
        let text = |at: i32| texts[usize::try_from(at).unwrap()].as_str();
        let sum = profile.samples.iter().flat_map(|sample| &sample.values).sum::<i64>();
        let add = |to: &mut Option<i64>| *to = Some(to.unwrap_or(0) + sum);
        match (text(kind.kind), text(kind.unit)) {
            ("energy", _) => add(&mut found.energy),
            ("cpu", "nanoseconds" | "ns") => add(&mut found.cpu_ns),
            other => panic!("{other:?}"),
        }
    }
    found.texts(texts)
}

fn speedscope(bytes: &[u8]) -> Found {
    let file = json(bytes);
    let frames = list(&file["shared"]["frames"]).len() as u64;
    let mut found = Found::energy(0).cpu(0);
    for profile in list(&file["profiles"]) {
        let stacks = list(&profile["samples"]);
        assert_eq!(stacks.len(), list(&profile["weights"]).len());
        let inside = |frame: &Value| frame.as_u64().is_some_and(|at| at < frames);
        assert!(stacks.iter().flat_map(list).all(inside));
        let weights = sum(list(&profile["weights"]));
        if profile["unit"] == "nanoseconds" {
            found.cpu_ns = Some(weights);
        } else {
            found.energy = Some(weights);
        }
    }
    found.texts(texts_of(&file))
}

/// Without energy its weights are microseconds.
fn firefox(bytes: &[u8]) -> Found {
    let file = json(bytes);
    let weights = sum(list(&file["threads"]).iter().flat_map(|thread| list(&thread["samples"]["weight"])));
    let time_alone = file["meta"]["product"].as_str().unwrap().contains(": weights are microseconds (");
    let found = if time_alone { Found::energy(0) } else { Found::energy(weights) };
    found.texts(texts_of(&file))
}

fn chrome(bytes: &[u8]) -> Found {
    let file = json(bytes);
    let events = list(&file["traceEvents"]);
    Found::energy(sum(events.iter().map(|event| &event["args"]["self_uj"]))).texts(texts_of(&file))
}

/// Names are as they were in the run; JSON escapes them.
fn stacks(bytes: &[u8]) -> Found {
    let file = json(bytes);
    let frames = list(&file["frames"]).len() as u64;
    let stacks = list(&file["stacks"]);
    let inside = |frame: &Value| frame.as_u64().is_some_and(|at| at < frames);
    assert!(stacks.iter().flat_map(|stack| list(&stack["frames"])).all(inside));
    let of = |key: &str| sum(stacks.iter().map(|stack| &stack[key]));
    assert_harmless("the text of JSON", &utf8(bytes));
    Found::energy(of("energy_uj")).cpu(of("cpu_ns"))
}

/// Two scripts, one of which is data; names are in no other place.
fn html(bytes: &[u8]) -> Found {
    const DATA: &str = "<script type=\"application/json\" id=\"data\">";
    let page = utf8(bytes);
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (2, 2));
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    let (_, behind) = page.split_once(DATA).unwrap();
    let text = behind.split_once("</script>").unwrap().0;
    assert!(!text.contains('<'));
    let data: Value = serde_json::from_str(text).unwrap();
    let classes = list(&data["classes"]).iter().zip(list(&data["entries"]["energy"]));
    let energy = classes.filter(|(class, _)| class["adds_up"] == true).map(|(_, uj)| sum(list(uj))).sum();
    Found::energy(energy).texts(texts_of(&data))
}

fn greenlight(bytes: &[u8]) -> Found {
    let file = json(bytes);
    assert!(file.is_array());
    Found::default().texts(texts_of(&file))
}

fn difference(bytes: &[u8]) -> Found {
    let file = json(bytes);
    assert_eq!(file["schema"], "energy-trace/diff/2.0");
    assert_harmless("the text of JSON", &utf8(bytes));
    let functions = list(&file["functions"]);
    assert!(functions.iter().all(|row| row["change_j"] == 0.0 && row["changed"].is_null()));
    Found::energy((file["program"]["a_j"].as_f64().unwrap_or(0.0) * 1e6).round() as i64)
}

/// Whole numbers of each column, and every text.
fn table(bytes: &[u8], mut take: impl FnMut(&str, i64, &[(String, Field)])) -> Vec<String> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let mut texts = Vec::new();
    for row in reader.get_row_iter(None).unwrap() {
        let columns = row.unwrap().into_columns();
        for (name, field) in &columns {
            match field {
                Field::Long(number) => take(name, *number, &columns),
                Field::Str(text) => texts.push(text.clone()),
                Field::ListInternal(of) => texts.extend(of.elements().iter().map(|text| match text {
                    Field::Str(text) => text.clone(),
                    other => panic!("{other:?} is no text"),
                })),
                _ => {}
            }
        }
    }
    texts
}

fn parquet(bytes: &[u8]) -> Found {
    let (mut energy, mut cpu) = (0, 0);
    let texts = table(bytes, |name, number, _| match name {
        "microjoules" => energy += number,
        "cpu_ns" => cpu += number,
        _ => {}
    });
    Found::energy(energy).cpu(cpu).texts(texts)
}

/// No unit of work was counted.
fn units(bytes: &[u8]) -> Found {
    Found { energy: None, ..Found::energy(0).texts(table(bytes, |_, _, _| ())) }
}

fn readings(bytes: &[u8]) -> Found {
    let mut energy = 0;
    let texts = table(bytes, |name, number, columns| {
        let is_of = |(name, field): &(String, Field)| {
            name == "class" && matches!(field, Field::Str(class) if ADDS_UP.contains(&class.as_str()))
        };
        if name == "target_uj" && columns.iter().any(is_of) {
            energy += number;
        }
    });
    Found::energy(energy).texts(texts)
}
