//! `compare` from outside: what fails is shown, what is done is not done again, and programs and files are the invoking user's.
//!
//! Leaves out what the tables find (`tracer/study`, `tracer/statistics`).

use energy_trace_tests::place::{Disk, Place, Talk, assert_code, assert_says, run_bounded, text};
use energy_trace_tests::process::tests_dir;
use std::os::unix::fs::MetadataExt as _;

/// Options of studies that do not rest, with these of recordings, in this folder.
const fn fast(record: &'static str, folder: &'static str) -> [&'static str; 12] {
    ["compare", "-q", "--rest", "0", "--idle", "0", "--warm-ups", "0", "--record", record, "-o", folder]
}

const FAST: [&str; 12] = fast("--power none", "study");

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// A program that is not there is refused before the first run of any, and no folder is made.
#[test]
fn a_program_that_is_not_there() {
    let place = place();
    let programs = ["--runs", "2", "--", "touch", "ran", "--", "no-such-program-here"];
    let output = run_bounded(place.command(&[&FAST[..], &programs].concat()));
    assert_code(&output, 125);
    assert_says(&output, &["no-such-program-here: command not found", "it is B; no run was made"]);
    assert!(!place.path("ran").exists() && !place.path("study").exists());
}

fn file(place: &Place, name: &str) -> String {
    std::fs::read_to_string(place.path(name)).unwrap()
}

/// Two rounds of two programs, one of which fails at first: all four runs are there, of the user behind sudo. Then nothing is left to do
/// but tables; a run that is taken away is made again, alone; and other programs are another study.
#[test]
fn a_study_is_done_once() {
    let place = place();
    let script = "echo run >> runs; test -e tried || { touch tried; exit 3; }; echo user=$(id -u)";
    let begin = |program: &str| {
        let mut arguments = FAST.to_vec();
        let programs = ["--", "sh", "-c", script, "--", "sh", "-c", program];
        arguments.extend(["--runs", "2", "--metric", "user=user=([0-9]+)"].iter().chain(&programs));
        run_bounded(place.sudo(2345, &arguments))
    };
    let output = begin("echo run >> runs");
    assert_code(&output, 125);
    let said = text(&output.stdout);
    for part in ["1/2", "it ended with status 3", "no energy", "needs 6"] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let data = file(&place, "study/dataset.csv");
    // The user's number is a cell of its own: the digits of a duration hold it now and then.
    let cells_with_user = data.split([',', '\n']).filter(|cell| *cell == "2345").count();
    assert_eq!((data.lines().count(), cells_with_user), (5, 1), "{data}");
    for name in ["study", "study/runs/0001.data", "study/table.tex", "runs"] {
        assert_eq!(std::fs::metadata(place.path(name)).unwrap().uid(), 2345, "{name}");
    }
    let go_on = || run_bounded(place.sudo(2345, &[&FAST[..], &["--format", "dataset"]].concat()));
    assert_eq!(text(&go_on().stdout), data);
    assert_eq!(file(&place, "runs").lines().count(), 4);
    // Its tables need no options of recordings, runs that are still to be made do.
    let look = || run_bounded(place.sudo(2345, &["compare", "-q", "-o", "study", "--format", "dataset"]));
    assert_eq!(text(&look().stdout), data);
    std::fs::remove_file(place.path("study/runs/0003.json")).unwrap();
    let refused = look();
    assert_code(&refused, 125);
    assert_says(&refused, &["has runs to make", "--record \"--power none\""]);
    assert_code(&go_on(), 125);
    assert_eq!(file(&place, "runs").lines().count(), 5);
    let other = begin("true");
    assert_code(&other, 125);
    assert_says(&other, &["holds another study"]);
}

/// The joules of a function are those of what others do for it while it waits, as in reports; and they can be taken from the recordings again,
/// where these are there.
#[test]
fn workers_count_for_their_callers() {
    let place = place();
    let script = tests_dir().join("workloads/requesters.py");
    let program = format!("/usr/bin/python3 {} 0.6 && echo calls ask_threads 1", script.display());
    let mut arguments = fast("--power model", "study").to_vec();
    arguments.extend(["--runs", "1", "--calls", r"calls (\S+) ([0-9]+)", "--format", "dataset"]);
    arguments.extend(["--", "sh", "-c", &program, "--", "true"]);
    let data = run_bounded(place.command(&arguments)).stdout;
    let number_in = |what: &str| {
        let study: serde_json::Value = serde_json::from_str(&file(&place, "study/study.json")).unwrap();
        let runs = study["runs"].as_array().unwrap();
        let of_program = runs.iter().find(|run| run["counts"]["ask_threads"] == 1.0).unwrap();
        of_program["measured"].pointer(what).unwrap().as_f64().unwrap()
    };
    // A third of the time, and all of it on another thread.
    let (asked, all) = (number_in("/counted/ask_threads"), number_in("/joules"));
    assert!(asked > all / 6.0, "{asked} of {all} J");
    let number = if file(&place, "study/runs/0001.json").contains("ask_threads") { 1 } else { 2 };
    let run = format!("study/runs/{number:04}.json");
    let wrong = file(&place, &run).replace(&format!("\"joules\": {all}"), "\"joules\": 1.0");
    std::fs::write(place.path(&run), &wrong).unwrap();
    let look = |more: &[&str]| {
        let arguments = [&["compare", "-q", "-o", "study", "--format", "dataset"], more].concat();
        run_bounded(place.command(&arguments)).stdout
    };
    assert_ne!(look(&[]), data);
    std::fs::rename(place.path(&run.replace("json", "data")), place.path("away")).unwrap();
    assert_ne!(look(&["--measure-again"]), data);
    std::fs::rename(place.path("away"), place.path(&run.replace("json", "data"))).unwrap();
    assert_eq!(look(&["--measure-again"]), data);
    assert_eq!(look(&[]), data);
}

/// Prints as many steps, of so many hundredths of a second each.
const STEPS: &str = "import sys, time\nfor step in range(11):\n  end = time.process_time() + int(sys.argv[1]) / 100\n  \
     while time.process_time() < end: pass\n  print('step', step, flush=True)";

/// Joules per unit of work are held against each other as those of whole runs are, and are in the data sets;
/// a unit that no run has is said.
#[test]
fn units_of_work() {
    let place = place();
    let mut arguments = fast("--power model", "study").to_vec();
    arguments.extend([
        "--runs",
        "2",
        r"--work=step=stdout:step (\d+)",
        "--work=gone=file:gone",
        "--format",
        "json",
    ]);
    arguments.extend(["--per", "step"]);
    for hundredths in ["2", "6"] {
        arguments.extend(["--", "/usr/bin/python3", "-c", STEPS, hundredths]);
    }
    let output = run_bounded(place.command(&arguments));
    assert_code(&output, 0);
    let study: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let quantities = study["results"][0]["quantities"].as_array().unwrap();
    let medians = |name: &str| {
        let of = quantities
            .iter()
            .find(|of| of["quantity"] == name)
            .unwrap_or_else(|| panic!("{name}: {quantities:?}"));
        [0, 1].map(|program: usize| of["programs"][program]["median"].as_f64())
    };
    let [short, long] = medians("energy per step").map(Option::unwrap);
    assert!(short > 0.0 && long > 1.5 * short, "{short} and {long} J");
    // With the start of the interpreter.
    assert!(medians("energy of the program")[0].unwrap() > short);
    assert_eq!(medians("energy per gone"), [None; 2]);
    assert!(
        study["notes"].to_string().contains("joules per gone are known of 0 of 4 runs"),
        "{}",
        study["notes"]
    );
    let steps = |run: &serde_json::Value| run["measured"]["work"]["step"]["done"].as_f64();
    assert_eq!(study["runs"].as_array().unwrap().iter().filter_map(steps).collect::<Vec<_>>(), [10.0; 4]);
    let data = file(&place, "study/dataset.csv");
    assert!(data.contains(",units:step,unit_joules:step,"), "{data}");
    let twice = [&FAST[..], &["--work=a=file:x", "--work=a=file:y", "--", "true", "--", "true"]].concat();
    assert_code(&run_bounded(place.command(&twice)), 2);
}

/// A run past its limit is ended and shown; a program that never succeeds ends the study; a signal stops it, and says how to go on.
#[test]
fn ends_before_the_end() {
    let place = place();
    let with = |more: &[&str]| place.command(&[&FAST[..], more].concat());
    let output =
        run_bounded(with(&["--runs", "9", "--limit", "300ms", "--", "sleep", "60", "--", "sleep", "61"]));
    assert_code(&output, 125);
    assert_says(&output, &[" succeeded (3 failed)", "study/runs/"]);
    let made = || std::fs::read_dir(place.path("study/runs")).unwrap().count();
    let before = made();
    assert_says(&place.run(&FAST), &[" succeeded (3 failed)"]);
    assert_eq!(made(), before, "a resumption makes no run");
    let runs = std::fs::read_dir(place.path("study/runs")).unwrap().flatten();
    let outcomes = runs.filter(|of| of.path().extension().is_some_and(|ending| ending == "json"));
    let late: Vec<bool> =
        outcomes.map(|of| file(&place, of.path().to_str().unwrap()).contains("timed-out")).collect();
    let table = file(&place, "study/table.txt");
    assert!(table.contains("it ran past its time limit"), "{table}");
    // The third failure of the one is the first or the second run of the third round.
    assert!((5..=6).contains(&late.len()) && !late.contains(&false), "{late:?}");

    let study = place.path("study");
    std::fs::remove_dir_all(&study).unwrap();
    let output = run_bounded(with(&["--runs", "1", "--", "true", "--", "false"]));
    assert_code(&output, 125);
    assert_says(&output, &["no run of B succeeded (1 failed)"]);
    std::fs::remove_dir_all(&study).unwrap();
    let talk = Talk::spawn(with(&["--", "sh", "-c", "touch begun; sleep 60", "--", "sleep", "60"]));
    energy_trace_tests::place::eventually("a run", || study.join("runs/0001.err").exists());
    talk.signal(libc::SIGINT);
    let output = talk.end();
    assert_code(&output, 125);
    assert_says(&output, &["stopped after 0 of 40 runs", "compare -o study"]);
}

/// A study in which a run failed ends with its tables, and with a status that a script sees.
#[test]
fn some_runs_fail() {
    let place = place();
    let script = "echo run >> runs; test $(wc -l < runs) -ne 2";
    let arguments = [&FAST[..], &["--runs", "2", "--", "sh", "-c", script, "--", "true"]].concat();
    for again in [false, true] {
        let output = place.run(&arguments);
        assert_code(&output, 125);
        assert!(text(&output.stderr).contains("1 of 4 runs failed"), "{again}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("it ended with status 1"), "{}", text(&output.stdout));
    }
}

/// A study that is interrupted twice, the second time by an impatient user, makes what is left and nothing twice.
#[test]
fn interrupted_twice() {
    let place = place();
    // The first two runs hang until they are interrupted.
    let script = "echo run >> runs; test $(wc -l < runs) -gt 2 || sleep 60";
    let arguments = [&FAST[..], &["--runs", "2", "--", "sh", "-c", script, "--", "true"]].concat();
    let lines = || std::fs::read_to_string(place.path("runs")).unwrap_or_default().lines().count();
    for (signals, hung) in [(1, 1), (3, 2)] {
        let talk = Talk::spawn(place.command(&arguments));
        energy_trace_tests::place::eventually("a run that hangs", || lines() == hung);
        for _ in 0..signals {
            talk.signal(libc::SIGINT);
        }
        let output = talk.end();
        assert_code(&output, 125);
        assert_says(&output, &["of 4 runs", "compare -o study"]);
    }
    assert_code(&place.run(&arguments), 0);
    let data = file(&place, "study/dataset.csv");
    assert_eq!((lines(), data.lines().count()), (4, 5), "{data}");
    assert!(!file(&place, "study/table.txt").contains("ended with"), "{data}");
}

/// A machine whose power never becomes the same is waited for as long as asked, and that it was not stable is said.
#[test]
fn never_stable() {
    let place = place();
    let more =
        ["--stable", "0.0001%", "--stable-within", "1s", "--runs", "1", "--", "true", "--", "sleep", "0.1"];
    let output = place.run(&[&fast("--power model", "study")[..], &more].concat());
    assert_code(&output, 0);
    let said = text(&output.stdout);
    assert!(said.contains("power was not stable in time before 2 runs"), "{said}");
}

/// A disk that is full ends a study with what to do; with room it goes on, and no run counts as failed.
#[test]
fn disk_full() {
    let place = place();
    let disk = Disk::mount(&place, "size=96k");
    std::fs::write(place.path("disk/ballast"), vec![0; 60 << 10]).unwrap();
    let more = ["--runs", "2", "--", "true", "--", "sleep", "0.1"];
    let arguments = [&fast("--power none", "disk/study")[..], &more].concat();
    let output = place.run(&arguments);
    assert_code(&output, 125);
    assert_says(&output, &["No space left on device", "disk/study"]);
    std::fs::remove_file(place.path("disk/ballast")).unwrap();
    disk.resize("size=64m");
    assert_code(&place.run(&arguments), 0);
    let table = file(&place, "disk/study/table.txt");
    assert!(!table.contains("failed") && !table.contains("ended with"), "{table}");
}

/// What makes no study is refused before anything runs; a wrong suite file with its line.
#[test]
fn wrong_usage() {
    let place = place();
    place.write("suite.toml", 0o644, "runs = 3\nspeed = 2\n");
    for (more, said) in [
        (&["--", "touch", "ran"][..], "two programs"),
        (&["--", "touch", "ran", "--", "--", "touch", "ran"], "nothing between"),
        (&["--suite", "suite.toml"], "line 2"),
        (&["--suite", "none.toml"], "cannot read none.toml"),
        (&["--metric", "x=y", "--", "touch", "ran", "--", "true"], "group"),
    ] {
        let output = place.run(&[&FAST[..], more].concat());
        assert_code(&output, 2);
        assert_says(&output, &[said]);
        assert!(!place.path("ran").exists(), "{more:?}");
    }
    let output = place.run(&FAST);
    assert_code(&output, 125);
    assert_says(&output, &["no study to go on with"]);
}
