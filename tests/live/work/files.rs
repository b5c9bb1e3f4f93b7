//! Work by a file and by calls.

use super::{codes, json, place, record, record_units, simulation, spent, work};
use energy_trace_tests::place::{Place, assert_code, text};
use serde_json::Value;
use std::time::{Duration, Instant};

/// What the recording of 20 units counts beside the file: calls; what was never there, a FIFO that nobody writes to, a function that nobody calls.
const BESIDE: [&str; 5] = [
    "--work=call=calls:unit",
    "--work=rename=calls:rename@libc.so",
    "--work=absent=file:absent",
    "--work=stuck=file:fifo",
    "--work=uncalled=calls:nobody",
];

/// What a file counts and what calls count: each unit has the joules that the program spends in it, and the rest of the program is in neither.
/// What was never there, and a FIFO that nobody writes to, are said and keep nobody waiting.
fn a_file_and_calls(summary: &str, report: &Value, truth: f64) {
    assert!(
        summary.contains(" per unit: 20 counted in ")
            && summary.contains(" s, from the first number that was read to the last; idle: ")
            && summary.contains(" per call: 20 calls of unit counted in "),
        "{summary}"
    );
    assert!(
        summary.contains("! no joules per stuck: no number was found (it is no plain file) in file:"),
        "{summary}"
    );
    let (unit, call) = (work(report, "unit"), work(report, "call"));
    assert_eq!((unit["units"].as_f64(), call["units"].as_f64()), (Some(20.0), Some(20.0)));
    super::assert_joules(&unit, truth, 3.0);
    // Calls are of the whole run, with the start of the interpreter.
    assert!(call["uj_per_unit"].as_f64().unwrap() > 0.99 * unit["uj_per_unit"].as_f64().unwrap(), "{call}");
    assert_eq!(call["covered_ns"], report["meta"]["duration_ns"]);
    // Over time too, all of them, those of machine code as well.
    for counted in [&call, &work(report, "rename")] {
        let steps = counted["over_time"].as_array().unwrap().iter();
        let units: Vec<f64> = steps.map(|step| step["units"].as_f64().unwrap()).collect();
        assert_eq!(Some(units.iter().sum::<f64>()), counted["units"].as_f64(), "{counted}");
        assert!(units.len() > 10 && units.iter().all(|units| *units < 10.0), "{counted}");
    }
    for name in ["absent", "stuck", "uncalled"] {
        assert!(work(report, name)["uj_per_unit"].is_null());
    }
    assert_eq!(work(report, "absent")["failure"], "missing");
    let codes = codes(report);
    assert_eq!(codes.iter().filter(|code| **code == "work-not-read").count(), 2, "{codes:?}");
    assert!(codes.contains(&"work-not-counted"), "{codes:?}");
}

/// A counter that begins anew in the middle: the units before and after it count, what lies between two readings around it does not.
#[test]
fn a_counter_that_restarts() {
    let (place, simulation) = (place(), simulation());
    let done = place.path("done");
    let arguments = ["12", "--ms", "200", "--file", done.to_str().unwrap(), "--restart-at", "6"];
    assert_code(&record(&place, &simulation, &["--work=unit=file:done"], &arguments), 0);
    let report = json(&place, &[]);
    let unit = work(&report, "unit");
    // Of the readings around the restart, 100 ms apart, at most one unit of 200 ms is missing on either side.
    assert_eq!(unit["restarts"], 1);
    let units = unit["units"].as_f64().unwrap();
    assert!((10.0..12.0).contains(&units), "{unit}");
    super::assert_joules(&unit, spent(&simulation) / 12.0, 3.0);
    assert!(codes(&report).contains(&"work-in-part"));
}

/// The file is read as the invoking user: what only root may read is not read, and the command ends as fast as without.
#[test]
fn files_are_the_users() {
    let place = place();
    let secret = place.write_secret("7\n");
    let word = format!("--work=x=file:{}", secret.display());
    let mut command = place.sudo(12_345, &["record", "--power", "none", "--no-svg", &word, "--", "true"]);
    let began = Instant::now();
    assert_code(&command.output().unwrap(), 0);
    assert!(began.elapsed() < Duration::from_secs(60));
    let output = place.run(&["report", "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["work"][0]["failure"], &report["work"][0]["readings"]),
        (&"denied".into(), &0.into())
    );
}

/// Two recordings, of 10 units and of 20. By function: the rows' own energy is that of the stretch, and the function that works has nearly all of
/// it. Twice as many units of the same kind are no difference per unit.
#[test]
fn per_unit() {
    let (place, simulation) = (place(), simulation());
    nix::unistd::mkfifo(&place.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (mut truths, mut summaries) = (Vec::<f64>::new(), Vec::new());
    for (units, file, beside) in [("10", "a.data", &[][..]), ("20", "b.data", &BESIDE)] {
        let before = spent(&simulation);
        let options = [&["--work=unit=file:done", "-o", file], beside].concat();
        let output = record_units(&place, &simulation, &options, units);
        truths.push((spent(&simulation) - before) / units.parse::<f64>().unwrap());
        summaries.push(text(&output.stderr));
    }
    a_file_and_calls(&summaries[1], &json(&place, &["b.data"]), truths[1]);
    let part = json(&place, &["b.data", "--per-work", "call", "--to", "2"]);
    assert!((1.0..20.0).contains(&part["meta"]["per_work"]["units"].as_f64().unwrap()), "{}", part["meta"]);
    let phases = json(&place, &["b.data", "--per-work", "call", "--by", "phase"]);
    let units = phases["rows"].as_array().unwrap().iter().map(|row| row["phase"]["units"].as_f64().unwrap());
    assert!((units.sum::<f64>() - 20.0).abs() < 0.01, "{phases}");
    let (whole, per) = (json(&place, &["a.data"]), json(&place, &["a.data", "--per-work", "unit"]));
    let functions = per["functions"].as_array().unwrap();
    let own: i64 = functions.iter().filter_map(|function| function["self_uj"]["package"].as_i64()).sum();
    assert_eq!(own, work(&whole, "unit")["energy_uj"]["package"].as_i64().unwrap());
    of_the_ledger(&place, &whole, &per);
    let works = functions.iter().find(|function| function["symbol"] == "phases.forty_watts").unwrap();
    let each = works["total_uj_per_unit"].as_f64().unwrap() / 1e6;
    // At either end a unit may be under way.
    assert!((each / truths[0] - 1.0).abs() < 0.15, "{works}, {truths:?}");
    let table = place.run(&["report", "a.data", "--per-work", "unit"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains(" per unit: 10 counted in ") && table.contains("phases.forty_watts"), "{table}");
    // As the summary has them.
    assert!(table.contains("  Python function, native included"), "{table}");
    let output = place.run(&["diff", "a.data", "b.data", "--per-work", "unit", "--format", "json"]);
    assert_code(&output, 0);
    let diff: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [a, b] = ["a_j", "b_j"].map(|side| diff["program"][side].as_f64().unwrap());
    assert!((a / truths[0] - 1.0).abs() < 0.15 && (b / truths[1] - 1.0).abs() < 0.10, "{diff}, {truths:?}");
    assert_code(&place.run(&["report", "a.data", "--per-work", "other"]), 2);
    let markdown = place.run(&["report", "a.data", "--per-work", "unit", "--format", "markdown"]);
    let markdown = String::from_utf8_lossy(&markdown.stdout).into_owned();
    for part in
        ["per unit: 10 counted in ", "| J per unit | with callees | function |", "`phases.forty_watts`"]
    {
        assert!(markdown.contains(part), "{part}\n{markdown}");
    }
    merged(&place, &["a.data", "b.data"].map(|file| work(&json(&place, &[file]), "unit")));
}

/// What functions took of ten units and what stands beside them are the ledger's: the program's energy, and the idle baseline of the stretches.
fn of_the_ledger(place: &Place, whole: &Value, per: &Value) {
    let (per_work, beside) = (&per["meta"]["per_work"], &per["beside"]);
    assert_eq!((&per_work["name"], &per_work["units"]), (&"unit".into(), &10.0.into()));
    assert_eq!([0, 1].map(|row| &beside[row]["name"]), ["[idle baseline]", "[rest of the run]"]);
    let of_ledger = |name: &str| {
        let rows = whole["ledger"].as_array().unwrap().iter();
        rows.map(|row| row[name].as_f64().unwrap()).sum::<f64>()
    };
    let functions = per["functions"].as_array().unwrap().iter();
    let own: f64 = functions.map(|function| function["self_uj_per_unit"].as_f64().unwrap()).sum();
    let [idle, rest] = [0, 1].map(|row: usize| beside[row]["self_uj_per_unit"].as_f64().unwrap());
    assert!(rest > 0.0 && ((own + rest) * 10.0 / of_ledger("target_uj") - 1.0).abs() < 1e-9, "{beside}");
    let idle = idle * 10.0;
    let idle_of_stretches = work(whole, "unit")["idle_uj"]["package"].as_f64().unwrap();
    assert!(idle > 0.0 && (idle - idle_of_stretches).abs() < 1.0, "{beside}");
    let lines = place.run(&["report", "a.data", "--per-work", "unit", "--format", "csv"]);
    let lines = String::from_utf8_lossy(&lines.stdout).into_owned();
    assert!(
        lines.contains("\n[idle baseline],[idle baseline],") && lines.contains("\n[rest of the run],"),
        "{lines}"
    );
}

/// Merged, both recordings' units are there with the joules of both; by function they are not shown.
fn merged(place: &Place, alone: &[Value; 2]) {
    assert_code(&place.run(&["merge", "all.data", "a.data", "b.data"]), 0);
    let all = work(&json(place, &["all.data"]), "unit");
    let joules = |unit: &Value| unit["energy_uj"]["package"].as_f64().unwrap();
    assert_eq!(all["units"].as_f64(), Some(30.0), "{all}");
    // Over two recordings steps of time are longer, of which the ends of stretches have parts.
    let ratio = joules(&all) / alone.iter().map(joules).sum::<f64>();
    assert!((ratio - 1.0).abs() < 0.005, "{ratio}");
    let table = String::from_utf8_lossy(&place.run(&["report", "all.data"]).stdout).into_owned();
    assert!(table.contains(" per unit: 30 counted in ") && table.contains(" of 2 recordings"), "{table}");
    assert_code(&place.run(&["report", "all.data", "--per-work", "unit"]), 2);
}
