//! `export --format greenlight` of a training whose numbers are known: it is as the schema says, and nothing is lost on the way.
//!
//! Leaves out how arguments' sizes are learned (`live/sizes.rs`).

use super::training_runs::training;
use energy_trace_export::{ExportOptions, Format, Input as Exported};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::{FrameId, SensorId};
use energy_trace_model::profile::over_time::{BinEnergy, Bins, OverTime, RowBin};
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_model::recording::record::{
    CallPlace, DomainClass, Input, InputRole, InputSize, InputSizes, Part, Project, Quality, Sensor,
    SensorQuantity, SensorSeries, SensorValue,
};
use energy_trace_model::units::{MicroJoules, MilliCelsius};
use energy_trace_tests::report::greenlight_errors;
use serde_json::{Value, json};

/// The training with a counter, a sensor, a repository, and sizes of the arguments of `backward`.
fn known_training() -> Profile {
    let mut b = training();
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [7_250_000, 120_000_000, 0]);
    let mut profile = b.build();
    let at = |s: u64| KtimeNs::from_ns(profile.run.start.as_ns() + s * 1_000_000_000);
    let warm = |c: i32| Some(SensorValue::Temperature(MilliCelsius::from_mc(c * 1000)));
    let sensor = Sensor {
        id: SensorId::new(0),
        part: Part::Cpu(0),
        quantity: SensorQuantity::Temperature,
        place: "coretemp Package id 0".into(),
        limit: None,
    };
    let values = vec![(at(0), warm(40)), (at(1), warm(50)), (at(15), warm(60))];
    profile.run.sensors.push(SensorSeries { sensor, values });
    profile.run.project = Some(Project {
        folder: "/home/me/work".into(),
        root: "/home/me/work".into(),
        repository: "https://github.com/me/work.git".into(),
        branch: "main".into(),
        commit: "c0ffee".into(),
        committed_s: Some(1_700_000_000),
    });
    let backward = profile.frames.iter().position(|frame| frame.name == "Tensor.backward").unwrap();
    let frame = FrameId::new(u32::try_from(backward).unwrap());
    let array = |shape: &[u64]| InputSize::Array {
        shape: shape.iter().map(|d| Some(*d)).collect(),
        dtype: "torch.float32".into(),
        bytes: Some(shape.iter().product::<u64>() * 4),
    };
    let input =
        |name: &str, role, size| Input { name: name.into(), role, of_type: "torch.Tensor".into(), size };
    let noted = |rows: u64, seen| InputSizes {
        frame,
        caller: Some(CallPlace { file: "examples/torch_train.py".into(), line: 22 }),
        inputs: vec![
            input("self", InputRole::Object, array(&[])),
            input("gradient", InputRole::Argument, array(&[rows, 8])),
            input("names", InputRole::Keyword, InputSize::Length(3)),
        ],
        seen,
    };
    profile.input_sizes = vec![noted(32, 1), noted(64, 9)];
    profile
}

/// Every row in the second and third bin, the ledger in all.
fn over_time(profile: &Profile) -> OverTime {
    let bins = Bins::over(profile.run.start, profile.run.end);
    let mut over_time = OverTime { bins, firsts: vec![0], ..OverTime::default() };
    for row in &profile.rows {
        for half in 0..2 {
            let mut energy = EnergyByClass::default();
            let package = row.energy[DomainClass::Package].split(&[1, 1]).unwrap();
            energy[DomainClass::Package] = package[half];
            over_time.entries.push(RowBin {
                bin: u32::try_from(half).unwrap() + 1,
                time_ns: row.time_ns / 2,
                energy,
            });
        }
        over_time.firsts.push(over_time.entries.len());
    }
    let even = vec![1; bins.count() as usize];
    let parts = |whole: MicroJoules| whole.split(&even).unwrap();
    let bin = |measured| BinEnergy { measured, ..BinEnergy::default() };
    over_time.domains =
        profile.ledger.iter().map(|row| parts(row.measured).into_iter().map(bin).collect()).collect();
    over_time
}

fn export(profile: &Profile, bins: Option<std::ops::Range<u32>>) -> Value {
    let over_time = over_time(profile);
    let bins = bins.unwrap_or(0..over_time.bins.count());
    let mut out = Vec::new();
    let input = Exported { profile, over_time: Some(&over_time), bins };
    Format::named("greenlight").unwrap().write(&mut out, &input, &ExportOptions::default()).unwrap();
    serde_json::from_slice(&out).unwrap()
}

fn call<'a>(calls: &'a Value, name: &str) -> &'a Value {
    calls
        .as_array()
        .unwrap()
        .iter()
        .find_map(|entry| entry.get(name))
        .unwrap_or_else(|| panic!("{name}: {calls}"))
}

/// Each call of the program has its energy, its series, its arguments' sizes, its line and its commit; all is as the schema says.
#[test]
fn calls_as_the_data_set_has_them() {
    let profile = known_training();
    let calls = export(&profile, None);
    assert_eq!(greenlight_errors(&calls), [""; 0]);
    let backward = call(&calls, "torch.autograd.backward()");
    let joules = 84.123_456 + 1.250_001;
    let cpu = &backward["energy_data"]["cpu"];
    let own: f64 = cpu["data"].as_array().unwrap().iter().map(|row| row[2].as_f64().unwrap()).sum();
    assert!(
        (own - joules).abs() < 1e-9 && (backward["energy"]["cpu_j"].as_f64().unwrap() - joules).abs() < 1e-9
    );
    assert_eq!(cpu["data"].as_array().unwrap().len(), 2, "from its first bin to its last");
    assert_eq!(
        (&backward["energy_data"]["ram"], &backward["energy_data"]["gpu"]),
        (&Value::Null, &Value::Null)
    );
    let project = &backward["project_metadata"];
    assert_eq!(
        *project,
        json!({
            "project_name": "work", "project_repository": "https://github.com/me/work.git", "project_owner": "me",
            "project_branch": "main", "project_commit": "c0ffee", "project_commit_date": "2023-11-14T22:13:20Z",
            "script_path": "/home/me/work/examples/torch_train.py", "api_call_line": 22,
        })
    );
    let warm: Vec<f64> = backward["cpu_temperatures"]["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row[1].as_f64().unwrap())
        .collect();
    assert_eq!(warm, [40.0], "what was read last before the call ended, and not what came later");
    let times = &backward["times"];
    assert_eq!((&times["start_time_perf"], &times["end_time_perf"]), (&json!(0.05), &json!(0.15)));
    assert_eq!(
        times["start_time_execution"].as_u64(),
        times["sys_start_time_perf"].as_u64().map(|start| start + 50_000_000)
    );
}

/// The most frequent call's arrays give the bytes, and all calls that were seen are there, marked as samples. What was not asked has none.
#[test]
fn sizes_of_arguments() {
    let mut profile = known_training();
    let calls = export(&profile, None);
    let sizes = &call(&calls, "torch.autograd.backward()")["input_sizes"];
    assert_eq!(
        [&sizes["args_size"], &sizes["object_size"], &sizes["calls_seen"]],
        [&json!(64 * 8 * 4), &json!(4), &json!(10)]
    );
    assert_eq!((&sizes["kwargs_size"], &sizes["sampled"]), (&Value::Null, &json!(true)));
    let most = &sizes["calls"][0];
    assert_eq!(
        (&most["seen"], &most["inputs"][1]["shape"], &most["inputs"][2]["length"]),
        (&json!(9), &json!([64, 8]), &json!(3))
    );
    profile.input_sizes[1].caller.as_mut().unwrap().line = 23;
    let calls = export(&profile, None);
    assert_eq!(
        call(&calls, "torch.autograd.backward()")["input_sizes"]["calls_seen"],
        1,
        "another line is another call"
    );
    profile.input_sizes.clear();
    let calls = export(&profile, None);
    assert_eq!(greenlight_errors(&calls), [""; 0]);
    assert_eq!(call(&calls, "torch.autograd.backward()")["input_sizes"]["sampled"], false);
}

/// A part of the run has that part's energy; the schema refuses what is wrong; a run without calls is an empty list.
#[test]
fn parts_and_nothing() {
    let profile = known_training();
    let calls = export(&profile, Some(2..3));
    assert_eq!(greenlight_errors(&calls), [""; 0]);
    let backward = call(&calls, "torch.autograd.backward()");
    assert_eq!(backward["energy_data"]["cpu"]["data"].as_array().unwrap().len(), 1);
    assert!((backward["energy"]["cpu_j"].as_f64().unwrap() - 42.686_727).abs() < 2e-6);
    let mut wrong = calls.clone();
    wrong[0].as_object_mut().unwrap().values_mut().next().unwrap()["times"]["extra"] = json!(1);
    assert_eq!(greenlight_errors(&wrong).len(), 1);
    let nothing = Profile { ledger: profile.ledger, ..Profile::default() };
    assert_eq!(export(&nothing, None), json!([]));
}
