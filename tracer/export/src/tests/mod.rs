//! Each format, taken apart again without the code that wrote it: its energies sum to what the program was charged with, to the microjoule.
//!
//! Leaves out the programs that open these files (`cargo xtask consumers`).

mod fleet;
mod parquet;
#[path = "../../../../tests/offline/report/recording_builder.rs"]
#[expect(dead_code, reason = "shared with tests that need more of it")]
pub(crate) mod recording_builder;
#[path = "../../../../tests/offline/report/training_runs.rs"]
pub(crate) mod training_runs;
#[path = "../../../../tests/offline/report/warm.rs"]
pub(crate) mod warm;
mod wire;

use super::{ExportOptions, FORMATS, Format, Input};
use crate::tests::recording_builder::RecordingBuilder;
use crate::tests::training_runs::{gpu_training, measured_training};
use crate::tests::warm::warm_training;
use energy_trace_model::profile::over_time::{BinEnergy, Bins, OverTime, RowBin};
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::record::{
    DomainClass, FrameKind, Quality, WorkCounter, WorkReading, WorkSeries, WorkSource, WorkUnits,
};
use energy_trace_model::units::MicroJoules;
use energy_trace_report::rest::Rest;
use parquet::Cell;
use serde_json::Value;
use std::io::Read as _;
use std::time::Duration;
use wire::{Message, numbers, sum};

fn export(profile: &Profile, format: &str, options: ExportOptions) -> Vec<u8> {
    let mut out = Vec::new();
    let over_time = over_time(profile);
    let bins = 0..over_time.bins.count();
    let input = Input { profile, over_time: Some(&over_time), bins };
    Format::named(format).unwrap().write(&mut out, &input, &options).unwrap();
    out
}

/// The profile over time: every row in the first, third and fourth bin, the ledger in all.
fn over_time(profile: &Profile) -> OverTime {
    let bins = Bins::over(profile.run.start, profile.run.end);
    let mut over_time = OverTime { bins, firsts: vec![0], ..OverTime::default() };
    let used = [0, 2, 3].map(|bin: u32| bin.min(bins.count() - 1));
    for row in &profile.rows {
        let thirds = |whole: MicroJoules| whole.split(&[1, 1, 1]).unwrap();
        for (third, bin) in used.into_iter().enumerate() {
            let mut energy = EnergyByClass::default();
            DomainClass::ALL.into_iter().for_each(|class| energy[class] = thirds(row.energy[class])[third]);
            let time = thirds(MicroJoules::from_uj(row.time_ns.cast_signed()))[third].as_uj().cast_unsigned();
            over_time.entries.push(RowBin { bin, time_ns: time, energy });
        }
        over_time.firsts.push(over_time.entries.len());
    }
    let even = vec![1; bins.count() as usize];
    over_time.domains = profile
        .ledger
        .iter()
        .map(|row| {
            let parts = |whole: MicroJoules| whole.split(&even).unwrap();
            let (measured, target) = (parts(row.measured), parts(row.target));
            let bins = measured.into_iter().zip(target);
            bins.map(|(measured, target)| BinEnergy { measured, target, ..BinEnergy::default() }).collect()
        })
        .collect();
    over_time
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

/// Energy and CPU nanoseconds of all stacks of an export.
fn sums(profile: &Profile, format: &str, options: ExportOptions) -> (i64, i64) {
    let bytes = export(profile, format, options);
    let json = || serde_json::from_slice::<Value>(&bytes).unwrap();
    let of = |list: &Value, key: &str| {
        list.as_array().unwrap().iter().filter_map(|entry| entry[key].as_i64()).sum::<i64>()
    };
    match format {
        "pprof" => {
            let raw = gunzip(&bytes);
            let values: Vec<Vec<i64>> = Message::of(&raw)
                .messages(2)
                .map(|sample| numbers(sample.bytes(2).next().unwrap()))
                .collect();
            (values.iter().map(|value| value[0]).sum(), values.iter().map(|value| value[1]).sum())
        }
        "otlp" => {
            let of_resource = |resource: Message<'_>| {
                let scope = resource.messages(2).next().unwrap();
                let profile = |profile: Message<'_>| profile.messages(2).map(|sample| sum(&sample, 4)).sum();
                match *scope.messages(2).map(profile).collect::<Vec<i64>>() {
                    [energy, time] => (energy, time),
                    [time] => (0, time),
                    ref profiles => panic!("{profiles:?}"),
                }
            };
            let resources = Message::of(&bytes).messages(1).map(of_resource).collect::<Vec<_>>();
            (resources.iter().map(|(energy, _)| energy).sum(), resources.iter().map(|(_, time)| time).sum())
        }
        "json" => (of(&json()["stacks"], "energy_uj"), of(&json()["stacks"], "cpu_ns")),
        "speedscope" => {
            let weights =
                |view: &Value| view["weights"].as_array().unwrap().iter().map(|w| w.as_i64().unwrap()).sum();
            match json()["profiles"].as_array().unwrap().as_slice() {
                [energy, time] => (weights(energy), weights(time)),
                [time] => (0, weights(time)),
                views => panic!("{views:?}"),
            }
        }
        "firefox" => {
            let threads = json()["threads"].as_array().unwrap().clone();
            let weights =
                threads.iter().flat_map(|thread| thread["samples"]["weight"].as_array().unwrap().clone());
            (weights.map(|weight| weight.as_i64().unwrap()).sum(), 0)
        }
        "chrome" => {
            let events = json()["traceEvents"].as_array().unwrap().clone();
            (events.iter().filter_map(|event| event["args"]["self_uj"].as_i64()).sum(), 0)
        }
        _ => panic!("{format}"),
    }
}

/// Formats with stacks of both energy and time.
const STACKED: [&str; 4] = ["pprof", "speedscope", "otlp", "json"];

/// Formats with a time axis.
const TIMED: [&str; 2] = ["firefox", "chrome"];

fn target(profile: &Profile) -> i64 {
    profile.ledger.iter().filter(|row| row.class.adds_up()).map(|row| row.target.as_uj()).sum()
}

fn cpu_ns(profile: &Profile) -> i64 {
    i64::try_from(profile.rows.iter().map(|row| row.time_ns).sum::<u64>()).unwrap()
}

/// Whatever is exported sums to what the program was charged with, and to its CPU time.
#[test]
fn sums_are_the_ledgers() {
    for profile in [measured_training(), gpu_training(true)] {
        for format in STACKED {
            let wanted = (target(&profile), cpu_ns(&profile));
            assert_eq!(sums(&profile, format, ExportOptions::default()), wanted, "{format}");
        }
        for format in TIMED {
            assert_eq!(sums(&profile, format, ExportOptions::default()).0, target(&profile), "{format}");
        }
    }
}

/// Where all that is known is what the whole machine drew, by a battery or a server's meter, exports are of that, as reports are.
#[test]
fn a_machine_as_a_whole() {
    let mut profile = measured_training();
    let wanted = target(&profile);
    profile.ledger.retain(|row| row.class.adds_up());
    profile.ledger.iter_mut().for_each(|row| row.class = DomainClass::Psys);
    for row in &mut profile.rows {
        let whole = row.energy.total();
        row.energy = EnergyByClass::default();
        row.energy[DomainClass::Psys] = whole;
    }
    for format in STACKED.into_iter().chain(TIMED) {
        assert_eq!(sums(&profile, format, ExportOptions::default()).0, wanted, "{format}");
    }
    let folded = String::from_utf8(export(&profile, "folded", ExportOptions::default())).unwrap();
    let weights = folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<i64>().ok());
    assert_eq!(weights.sum::<i64>(), wanted, "{folded}");
}

/// With others and idle, sums are all that the domains measured; what is below zero is in formats that can hold it.
#[test]
fn sums_with_the_rest() {
    let profile = measured_training();
    let options = ExportOptions { rest: Rest::ALL, ..ExportOptions::default() };
    let measured: i64 =
        profile.ledger.iter().filter(|row| row.class.adds_up()).map(|row| row.measured.as_uj()).sum();
    for format in ["pprof", "otlp", "json"] {
        assert_eq!(sums(&profile, format, options).0, measured, "{format}");
    }
    assert_eq!(sums(&profile, "speedscope", options).0, measured + 1_750_000);
    let text = String::from_utf8(export(&profile, "speedscope", options)).unwrap();
    assert!(text.contains("left out: 1 stacks below zero, -1750000 together"), "{text}");
}

/// A run without a power source has its time, and says so; one without anything is a file that can be opened.
#[test]
fn without_energy() {
    let mut b = RecordingBuilder::new("true", 1);
    let process = b.process(7, "true", None);
    let thread = b.thread(process, 7, "true");
    let main = b.frame(FrameKind::Native, "/bin/true", "main");
    let stack = b.stack(&[main]);
    b.spent(thread, Some(stack), 0, 900, 90);
    let run = b.build();
    for format in STACKED {
        assert_eq!(sums(&run, format, ExportOptions::default()), (0, 900_000_000), "{format}");
        assert_eq!(sums(&Profile::default(), format, ExportOptions::default()), (0, 0), "{format}");
    }
    assert_eq!(sums(&run, "firefox", ExportOptions::default()), (900_000, 0));
    assert_eq!(sums(&run, "chrome", ExportOptions::default()), (0, 0));
    for format in TIMED {
        assert_eq!(sums(&Profile::default(), format, ExportOptions::default()), (0, 0), "{format}");
    }
    let texts = texts_of_pprof(&run);
    assert!(texts.iter().any(|text| text.contains("no energy was recorded")), "{texts:?}");
    let folded = String::from_utf8(export(&run, "folded", ExportOptions::default())).unwrap();
    assert_eq!(folded, "# energy-trace: no energy was recorded\n");
}

fn texts_of_pprof(profile: &Profile) -> Vec<String> {
    let raw = gunzip(&export(profile, "pprof", ExportOptions::default()));
    Message::of(&raw).bytes(6).map(|text| String::from_utf8(text.to_vec()).unwrap()).collect()
}

/// A tree of pprof: names of the stack with the most energy, innermost first, its file, line, mapping and labels.
#[test]
fn pprof_has_code_and_holders() {
    let raw = gunzip(&export(&measured_training(), "pprof", ExportOptions::default()));
    let (profile, texts) = (Message::of(&raw), texts_of_pprof(&measured_training()));
    let text = |message: &Message<'_>, field| texts[usize::try_from(message.number(field)).unwrap()].as_str();
    let most = profile.messages(2).max_by_key(|sample| numbers(sample.bytes(2).next().unwrap())[0]).unwrap();
    let labels: Vec<&str> = most.messages(3).map(|label| text(&label, 2)).collect();
    assert_eq!(labels, ["python3", "omp worker;1", "", ""]);
    let functions: Vec<(i64, &str, &str, i64)> = profile
        .messages(5)
        .map(|function| (function.number(1), text(&function, 2), text(&function, 4), function.number(5)))
        .collect();
    assert!(
        functions.iter().any(|of| (of.1, of.2, of.3) == ("torch_train.train", "examples/torch_train.py", 20)),
        "{functions:?}"
    );
    let location = numbers(most.bytes(1).next().unwrap())[0];
    let location = profile.messages(4).find(|known| known.number(1) == location).unwrap();
    let mapping = profile.messages(3).find(|known| known.number(1) == location.number(2)).unwrap();
    assert_eq!(text(&mapping, 5), "/usr/lib/x86_64-linux-gnu/libgomp.so.1");
    assert!(location.number(3) < mapping.number(3));
    assert_eq!(texts[usize::try_from(profile.number(14)).unwrap()], "energy");
}

/// Every position in a table of OpenTelemetry's dictionary is there, and entry 0 of each means nothing.
#[test]
fn otlp_tables_are_whole() {
    let bytes = export(&measured_training(), "otlp", ExportOptions::default());
    let data = Message::of(&bytes);
    let dictionary = data.messages(2).next().unwrap();
    let count = |field| i64::try_from(dictionary.bytes(field).count()).unwrap();
    let inside =
        |position: i64, table| assert!((0..count(table)).contains(&position), "{position} of {table}");
    for table in [1, 2, 3, 5, 6, 7] {
        assert!(dictionary.bytes(table).next().unwrap().is_empty(), "{table}");
    }
    for stack in dictionary.messages(7).skip(1) {
        numbers(stack.bytes(1).next().unwrap()).iter().for_each(|&location| inside(location, 2));
    }
    for location in dictionary.messages(2).skip(1) {
        inside(location.number(1), 1);
        location.messages(3).for_each(|line| inside(line.number(1), 3));
    }
    for function in dictionary.messages(3) {
        (1..=3).for_each(|field| inside(function.number(field), 5));
    }
}

/// A container has a resource of its own, which names it, its pod and its machine; what is in none has one a unit or program. No location
/// is there twice.
#[test]
fn otlp_has_a_resource_for_each_container() {
    let profile = fleet::workloads();
    let bytes = export(&profile, "otlp", ExportOptions::default());
    let data = Message::of(&bytes);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let attributes = |resource: &Message<'_>| -> Vec<String> {
        let resource = resource.messages(1).next().unwrap();
        let value = |of: &Message<'_>| text(of.messages(2).next().unwrap().bytes(1).next().unwrap());
        let all =
            resource.messages(1).map(|of| format!("{}={}", text(of.bytes(1).next().unwrap()), value(&of)));
        all.filter(|attribute| !attribute.starts_with("process.command_line")).collect()
    };
    let energy = |resource: &Message<'_>| -> i64 {
        let scope = resource.messages(2).next().unwrap();
        scope.messages(2).next().unwrap().messages(2).map(|sample| sum(&sample, 4)).sum()
    };
    let found: Vec<_> = data.messages(1).map(|of| (attributes(&of), energy(&of))).collect();
    let pod = ["service.name=x", "container.id=web", "k8s.pod.uid=7f1d2e3c-0a1b-4c5d-8e9f-001122334455"];
    let with_host =
        |of: &[&str]| of.iter().chain(&["host.name=node7"]).map(|text| (*text).to_owned()).collect();
    assert_eq!(found, [(with_host(&pod), 21), (with_host(&pod[..1]), 4_300)]);
    let locations: Vec<&[u8]> = data.messages(2).next().unwrap().bytes(2).collect();
    let different: std::collections::BTreeSet<_> = locations.iter().collect();
    assert_eq!(different.len(), locations.len());
}

/// Power tracks hold what domains measured, and slices lie within each other and within the run.
#[test]
fn tracks_and_slices() {
    let profile = measured_training();
    let firefox: Value =
        serde_json::from_slice(&export(&profile, "firefox", ExportOptions::default())).unwrap();
    let counters = firefox["counters"].as_array().unwrap();
    let counter = counters.iter().find(|counter| counter["name"] == "package-0 (measured)").unwrap();
    let pwh: f64 =
        counter["samples"]["count"].as_array().unwrap().iter().map(|count| count.as_f64().unwrap()).sum();
    let wanted = profile.ledger[0].measured.as_joules() / 3600.0 * 1e12;
    assert!((pwh / wanted - 1.0).abs() < 1e-9, "{pwh} {wanted}");
    assert_eq!((counters.len(), &counter["category"]), (8, &Value::from("power")));
    let chrome: Value =
        serde_json::from_slice(&export(&profile, "chrome", ExportOptions::default())).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
    let slices: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    for slice in &slices {
        let (from, to) = (number(slice, "ts"), number(slice, "ts") + number(slice, "dur"));
        assert!(from >= 0.0 && to <= 20e6 + 1.0, "{slice}");
        let crosses = |other: &&&Value| {
            let (start, end) = (number(other, "ts"), number(other, "ts") + number(other, "dur"));
            other["tid"] == slice["tid"] && from < start && start < to - 0.01 && to + 0.01 < end
        };
        assert_eq!(slices.iter().find(crosses), None, "{slice}");
    }
    assert!(slices.iter().any(|slice| slice["name"] == "torch.autograd.backward"), "{slices:?}");
    let joules: f64 = (events.iter())
        .filter(|event| event["name"] == "package-0 (W, measured)")
        .map(|event| event["args"]["this program"].as_f64().unwrap() * 0.05)
        .sum();
    let wanted = profile.ledger[0].target.as_joules();
    assert!((joules / wanted - 1.0).abs() < 1e-9, "{joules} {wanted}");
}

/// Names with separators of formats, marks of pages and characters that move a terminal come out as they may be shown.
#[test]
fn hostile_names() {
    let mut b = RecordingBuilder::new("x", 1);
    let name = "a;b\"'\n</script><script>\u{202e}\u{1b}[2J";
    let process = b.process(7, name, None);
    let thread = b.thread(process, 7, name);
    let frame = b.frame(FrameKind::Native, name, name);
    let stack = b.stack(&[frame]);
    b.spent(thread, Some(stack), 5, 900, 90);
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    let run = b.build();
    for format in FORMATS {
        let bytes = export(&run, format.name, ExportOptions::default());
        let text =
            String::from_utf8_lossy(&if format.name == "pprof" { gunzip(&bytes) } else { bytes.clone() })
                .into_owned();
        assert!(!text.contains('\u{202e}') && !text.contains("\u{1b}[2J"), "{}", format.name);
        if STACKED.contains(&format.name) || TIMED.contains(&format.name) {
            assert_eq!(sums(&run, format.name, ExportOptions::default()).0, 5);
        }
    }
    let table = parquet::columns(&export(&run, "parquet", ExportOptions::default()));
    assert_eq!(parquet::sum(&table["microjoules"]), 5);
    for cell in table.values().flatten() {
        let texts = match cell {
            Cell::Text(text) => std::slice::from_ref(text),
            Cell::Texts(texts) => texts,
            Cell::Missing | Cell::Number(_) | Cell::Real(_) => &[],
        };
        assert!(
            !texts.iter().any(|text| text.contains(|c: char| c.is_control() || c == '\u{202e}')),
            "{cell:?}"
        );
    }
}

/// Without energy a table has CPU time and no domain; of nothing it has no rows.
#[test]
fn parquet_without_energy() {
    let mut profile = measured_training();
    profile.ledger.clear();
    profile.rows.iter_mut().for_each(|row| row.energy = EnergyByClass::default());
    let table = parquet::columns(&export(&profile, "parquet", ExportOptions::default()));
    assert_eq!((parquet::sum(&table["microjoules"]), parquet::sum(&table["cpu_ns"])), (0, cpu_ns(&profile)));
    assert!(table["domain"].iter().all(|domain| *domain == Cell::Missing));
    let nothing = RecordingBuilder::new("x", 1).build();
    for format in ["parquet", "parquet-readings", "parquet-work"] {
        let bytes = export(&nothing, format, ExportOptions::default());
        assert!(bytes.starts_with(b"PAR1") && parquet::columns(&bytes).is_empty());
    }
}

/// Temperatures and clocks stand beside the power: as they were in each bin for Chrome, as differences for Firefox.
#[test]
fn temperatures_and_clocks_are_counters() {
    let profile = warm_training();
    let json = |format| -> Value {
        serde_json::from_slice(&export(&profile, format, ExportOptions::default())).unwrap()
    };
    let chrome = json("chrome");
    let of = |name: &str| {
        let events = chrome["traceEvents"].as_array().unwrap().iter().filter(|event| event["name"] == name);
        let value =
            |event: &Value| event["args"].as_object().unwrap().values().next().unwrap().as_f64().unwrap();
        events.map(value).collect::<Vec<f64>>()
    };
    let warm = of("cpu-0 temperature (°C)");
    assert_eq!((warm.len(), warm[0], warm[499]), (500, 40.0, 60.0));
    assert_eq!(of("gpu-0 clock (MHz)").iter().filter(|&&mhz| mhz == 700.0).count(), 100);
    assert_eq!(of("gpu-0 memory clock (MHz)")[0], 5000.0);
    assert!((of("cpus clock (MHz)")[499] - 2999.0).abs() < 2.0);
    let firefox = json("firefox");
    let counters = firefox["counters"].as_array().unwrap();
    let warm = counters.iter().find(|counter| counter["name"] == "cpu-0 temperature (°C)").unwrap();
    let deltas = warm["samples"]["count"].as_array().unwrap();
    assert_eq!(deltas.iter().map(|delta| delta.as_f64().unwrap()).sum::<f64>(), 60.0);
    assert_eq!(warm["category"], "temperature");
}

/// Thousands of stacks that share nothing are all there, in little more room than their names.
#[test]
fn very_many_stacks() {
    let mut profile = gpu_training(true);
    let (node, row) = (profile.stacks[0], profile.rows[0]);
    for number in 0..5_000_u32 {
        let mut frame = profile.frames[0].clone();
        frame.name = format!("function {number}");
        profile.frames.push(frame);
        let at = u32::try_from(profile.frames.len() - 1).unwrap();
        profile.stacks.push(energy_trace_model::recording::record::StackNode {
            frame: energy_trace_model::ids::FrameId::new(at),
            ..node
        });
        let stack = u32::try_from(profile.stacks.len() - 1).unwrap();
        profile.rows.push(energy_trace_model::profile::ProfileRow {
            stack: Some(energy_trace_model::ids::StackId::new(stack)),
            ..row
        });
    }
    let energy: i64 = profile.rows.iter().map(|row| row.energy.total().as_uj()).sum();
    for format in STACKED {
        assert_eq!(sums(&profile, format, ExportOptions::default()).0, energy, "{format}");
        assert!(export(&profile, format, ExportOptions::default()).len() < 2_000_000, "{format}");
    }
    let table = export(&profile, "parquet", ExportOptions::default());
    assert_eq!(parquet::sum(&parquet::columns(&table)["microjoules"]), energy);
    assert!(table.len() < 2_000_000);
}

/// Rows of Parquet's stacks sum to what the program was charged with and its CPU time, by class too; each has whole frames, innermost last,
/// and one number for them. Rows of its readings sum to the ledger.
#[test]
fn parquet_tables() {
    for profile in [measured_training(), gpu_training(true)] {
        let stacks = parquet::columns(&export(&profile, "parquet", ExportOptions::default()));
        let found = (parquet::sum(&stacks["microjoules"]), parquet::sum(&stacks["cpu_ns"]));
        assert_eq!(found, (target(&profile), cpu_ns(&profile)));
        for class in ["package", "gpu"] {
            let of_class = stacks["domain"].iter().zip(&stacks["microjoules"]);
            let of_class = of_class.filter(|(domain, _)| **domain == Cell::Text(class.into()));
            let sum: i64 = of_class.map(|(_, energy)| parquet::sum(std::slice::from_ref(energy))).sum();
            let rows = profile.ledger.iter().filter(|row| row.class.name() == class);
            assert_eq!(sum, rows.map(|row| row.target.as_uj()).sum::<i64>(), "{class}");
        }
        let mut numbers = std::collections::BTreeMap::new();
        for ((frames, function), number) in
            stacks["frames"].iter().zip(&stacks["function"]).zip(&stacks["stack"])
        {
            let Cell::Texts(frames) = frames else { panic!("{frames:?}") };
            assert_eq!(frames.last().map(|last| Cell::Text(last.clone())), Some(function.clone()));
            assert_eq!(numbers.entry(frames.clone()).or_insert(number), &number);
        }
        assert!(numbers.len() > 1);
        let readings = parquet::columns(&export(&profile, "parquet-readings", ExportOptions::default()));
        let measured: i64 = profile.ledger.iter().map(|row| row.measured.as_uj()).sum();
        assert_eq!(parquet::sum(&readings["measured_uj"]), measured);
    }
}

/// Rows of a unit of work sum to what was done and to the program's energy of that time; a unit of which
/// nothing was done has none.
#[test]
fn parquet_of_work() {
    let mut profile = measured_training();
    let series = |name: &str, step: u64| {
        let reading = |at: u64| WorkReading {
            at: profile.run.start + Duration::from_secs(at),
            within_ns: 0,
            value: Ok(WorkUnits::whole(step * at)),
        };
        let source = WorkSource::File("/run/n".into());
        WorkSeries {
            counter: WorkCounter { name: name.into(), source },
            readings: (0..=18).map(reading).collect(),
        }
    };
    let series = [series("tok\u{1b}en", 3), series("nothing", 0)];
    let (start, end) = (profile.run.start, profile.run.end);
    profile.work = over_time(&profile).work(&series, &profile.ledger, start, end);
    let table = parquet::columns(&export(&profile, "parquet-work", ExportOptions::default()));
    let found = (parquet::sum_of_reals(&table["units"]), parquet::sum(&table["target_uj"]));
    let wanted = profile.work[0].sum(|of| of.energy).total().as_uj();
    assert_eq!(found, (54.0, wanted));
    assert!(wanted > 0 && table["unit"].len() > 10);
    assert!(table["unit"].iter().all(|unit| *unit == Cell::Text("tok\\x1ben".into())), "{:?}", table["unit"]);
}

/// Functions of one name are told apart: by their file where a format has a field for it, else by their names.
#[test]
fn one_name_of_two_libraries() {
    let mut b = RecordingBuilder::new("./prog", 2);
    let process = b.process(7, "prog", None);
    let thread = b.thread(process, 7, "prog");
    for library in ["/t/liba.so", "/t/libb.so"] {
        let frame = b.frame(FrameKind::Native, library, "work");
        let stack = b.stack(&[frame]);
        b.spent(thread, Some(stack), 5_000_000, 900, 90);
    }
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
    let profile = b.build();
    let text = |format| String::from_utf8(export(&profile, format, ExportOptions::default())).unwrap();
    for format in ["firefox", "chrome"] {
        let text = text(format);
        assert!(text.contains("work  (liba.so)") && text.contains("work  (libb.so)"), "{format}: {text}");
    }
    let text = text("speedscope");
    for file in ["/t/liba.so", "/t/libb.so"] {
        assert!(text.contains(&format!(r#""name":"work","file":"{file}""#)), "{text}");
    }
}
