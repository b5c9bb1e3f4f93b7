//! Bad input and every output: recordings with next to nothing in them, with names that mean harm, with very many stacks, damaged or of another
//! version, and readers that go away; what is written is read again by somebody else, and all outputs tell the same energy.
//!
//! * `recordings`: what is read; `readers`, `messages`: who reads what is written.
//!
//! Leaves out sums over profiles of all kinds (`report::export`'s own tests) and the programs that open these files (`cargo xtask consumers`).

mod messages;
mod readers;
mod recordings;

use super::names::{HOSTILE, assert_harmless, assert_well_formed};
use energy_trace_export::FORMATS;
use energy_trace_tests::place::{Place, assert_code, assert_says, text};
use energy_trace_tests::report::{greenlight_errors, schema_errors};
use readers::{Found, OUTPUTS, Output};
use recordings::Run;
use serde_json::Value;
use std::io::Read as _;
use std::process::Stdio;

fn place() -> Place {
    Place::new(env!("CARGO_BIN_EXE_energy-trace"))
}

/// The words of an output, of this recording: `diff` holds it against itself.
fn line<'a>(output: &Output, file: &'a str) -> Vec<&'a str> {
    let (verb, options) = output.words.split_first().unwrap();
    let files = if *verb == "diff" { 2 } else { 1 };
    [*verb].into_iter().chain(std::iter::repeat_n(file, files)).chain(options.iter().copied()).collect()
}

/// Runs it and reads what it wrote; `None` where there is no energy to draw, which is said.
#[track_caller]
fn found(place: &Place, output: &Output, file: &str) -> Option<Found> {
    let line = line(output, file);
    let done = place.run(&line);
    let said = text(&done.stderr);
    assert!(!said.contains("panicked"), "{line:?}: {said}");
    assert_harmless(&format!("stderr of {line:?}"), &said);
    if line[0] == "flamegraph" && done.status.code() == Some(125) {
        assert!(said.contains("no energy to draw"), "{line:?}: {said}");
        return None;
    }
    assert_eq!(done.status.code(), Some(0), "{line:?}: {said}");
    Some((output.read)(&done.stdout))
}

/// Every output can be read, and all tell the same energy and CPU time, which are returned.
#[track_caller]
fn read_all(place: &Place, file: &str) -> (i64, i64) {
    let first = found(place, &OUTPUTS[0], file).unwrap();
    let (energy, cpu_ns) = (first.energy.unwrap(), first.cpu_ns.unwrap());
    for output in &OUTPUTS {
        let Some(found) = found(place, output, file) else {
            assert_eq!(energy, 0);
            continue;
        };
        let what = format!("{:?} of {file}", output.words);
        assert!(found.energy.is_none_or(|uj| uj == energy), "{what}: {:?}, not {energy} uJ", found.energy);
        assert!(found.cpu_ns.is_none_or(|ns| ns == cpu_ns), "{what}: {:?}, not {cpu_ns} ns", found.cpu_ns);
        found.texts.iter().for_each(|text| assert_harmless(&what, text));
    }
    (energy, cpu_ns)
}

/// The JSON of a recording is as its schema says, and so are its API calls.
#[track_caller]
fn assert_schemas(place: &Place, file: &str) -> Value {
    let of = |line: &[&str]| {
        let output = place.run(line);
        assert_code(&output, 0);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let report = of(&["report", file, "--format", "json"]);
    assert_eq!(schema_errors(&report), [""; 0]);
    assert_eq!(greenlight_errors(&of(&["export", file, "--format", "greenlight"])), [""; 0]);
    report
}

/// Nothing but a header and an end, one sample, no Python, no energy: every output is one that its readers take, and tells the same.
#[test]
fn next_to_nothing() {
    let place = place();
    recordings::empty(&place.path("empty.data"));
    assert_eq!(read_all(&place, "empty.data"), (0, 0));
    assert_schemas(&place, "empty.data");
    let runs = [
        ("usual.data", Run::usual()),
        ("one.data", recordings::one_sample()),
        ("native.data", recordings::no_python()),
        ("time.data", recordings::no_energy()),
    ];
    for (file, run) in runs {
        run.write(&place.path(file));
        let (energy, cpu_ns) = read_all(&place, file);
        assert_eq!(energy > 0, run.has_energy, "{file}");
        assert_eq!(cpu_ns.cast_unsigned(), run.cpu_ns(), "{file}");
        assert_schemas(&place, file);
    }
}

/// No format of `export` is left out but the one that is a folder, which `fleet` reads.
#[test]
fn every_format_is_read() {
    for format in FORMATS.iter().filter(|format| !format.is_folder()) {
        let is_read = |output: &Output| output.words.starts_with(&["export", "--format", format.name]);
        assert!(OUTPUTS.iter().any(is_read), "nobody reads {}", format.name);
    }
}

/// Without energy every output says so in words, where it has room for words.
#[test]
fn time_alone_is_said() {
    let place = place();
    recordings::no_energy().write(&place.path("r.data"));
    let silent = ["csv", "parquet", "parquet-readings", "parquet-work", "greenlight"];
    for output in OUTPUTS.iter().filter(|output| !output.words.iter().any(|word| silent.contains(word))) {
        let line = line(output, "r.data");
        let done = place.run(&line);
        let bytes = if line.contains(&"pprof") { gunzip(&done.stdout) } else { done.stdout };
        let said = text(&bytes) + &text(&done.stderr);
        let words = ["no energy", "no-energy-source", "CPU time", "\"quality\":null", "\"quality\": null"];
        assert!(words.iter().any(|word| said.contains(word)), "{line:?}: {said}");
    }
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut raw = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut raw).unwrap();
    raw
}

/// Names with quotes, separators, line ends, tabs, escapes and elements of pages change nothing but themselves: each output has as much in it
/// as with a harmless name, and no text in it that could move a terminal.
#[test]
fn names_stay_names() {
    let place = place();
    recordings::named(&["plain"]).write(&place.path("plain.data"));
    let wanted = read_all(&place, "plain.data");
    let more =
        ["a;b,c|d", "=1+1", "`code` | \\", "{\"json\": [1, 2]}", "# comment", "'); drop table x; --", " "];
    for names in [HOSTILE.as_slice(), &more].concat().chunks(12) {
        recordings::named(names).write(&place.path("r.data"));
        assert_eq!(read_all(&place, "r.data"), wanted, "{names:?}");
    }
}

/// Ten megabytes of stacks of which no two are equal: all of them are in every output that has all stacks, and the page stays a page.
#[test]
#[ignore = "slow: cargo xtask test --all"]
fn very_many_stacks() {
    let place = place();
    let run = recordings::very_many_stacks();
    run.write(&place.path("r.data"));
    assert!(std::fs::metadata(place.path("r.data")).unwrap().len() > 10_000_000);
    let (_, cpu_ns) = read_all(&place, "r.data");
    assert_eq!(cpu_ns.cast_unsigned(), run.cpu_ns());
    let folded = OUTPUTS.iter().find(|output| output.words.contains(&"folded")).unwrap();
    assert!(found(&place, folded, "r.data").unwrap().texts.len() >= run.stacks.len());
    // More than a pipe holds: it is closed in the middle.
    reader_goes_away(&place, folded, "r.data", 10);
}

/// A reader that closes its end after some bytes is no failure, and nothing is said about it.
#[track_caller]
fn reader_goes_away(place: &Place, output: &Output, file: &str, bytes: u64) {
    let line = line(output, file);
    let mut command = place.command(&line);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = Vec::new();
    child.stdout.take().unwrap().take(bytes).read_to_end(&mut first).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{line:?}, {bytes} bytes: {}", text(&done.stderr));
    assert_eq!(text(&done.stderr), "", "{line:?}, {bytes} bytes");
}

/// `head` closes the pipe, at once or after ten bytes: that is no failure of any output.
#[test]
fn readers_go_away() {
    let place = place();
    Run::usual().write(&place.path("r.data"));
    for output in &OUTPUTS {
        reader_goes_away(&place, output, "r.data", 0);
        reader_goes_away(&place, output, "r.data", 10);
    }
}

/// A recording that was cut anywhere has every output, all of which tell the same and no more than the whole; or it is refused by all.
#[test]
fn cut_anywhere() {
    let place = place();
    Run { steps: 2_000, samples: 2_000, ..Run::usual() }.write(&place.path("whole.data"));
    let bytes = std::fs::read(place.path("whole.data")).unwrap();
    let whole = read_all(&place, "whole.data");
    let cut = |length: usize| std::fs::write(place.path("r.data"), &bytes[..length]).unwrap();
    let mut before = (0, 0);
    for tenth in [3, 6, 9] {
        cut(bytes.len() * tenth / 10);
        let found = read_all(&place, "r.data");
        assert!(before.0 <= found.0 && found.0 <= whole.0, "{found:?} at {tenth}/10, {before:?} before");
        let report = assert_schemas(&place, "r.data");
        let warnings = report["meta"]["warnings"].as_array().unwrap();
        assert!(warnings.iter().any(|warning| warning["code"] == "recording-cut"), "{warnings:?}");
        before = found;
    }
    for length in [0, 5, 13, 20] {
        cut(length);
        refused(&place, &["r.data"]);
    }
}

/// Every output of this file fails with 125 and says these words; nothing goes to stdout.
#[track_caller]
fn refused(place: &Place, words: &[&str]) {
    let others = [&["merge", "out.data", "a=r.data"][..], &["report", "r.data", "--budget", "1J"]];
    for line in OUTPUTS.iter().map(|output| line(output, "r.data")).chain(others.map(<[&str]>::to_vec)) {
        let output = place.run(&line);
        assert_code(&output, 125);
        assert_says(&output, words);
        assert_eq!(text(&output.stdout), "", "{line:?}");
    }
    assert!(!place.path("out.data").exists());
}

/// A recording of a format that this version does not know is refused by name, whatever else is in it.
#[test]
fn an_unknown_version() {
    let place = place();
    Run::usual().write(&place.path("r.data"));
    let mut bytes = std::fs::read(place.path("r.data")).unwrap();
    for (major, minor) in [(u16::MAX, u16::MAX), (1, 9_999), (0, 0)] {
        bytes[8..10].copy_from_slice(&u16::to_le_bytes(major));
        bytes[10..12].copy_from_slice(&u16::to_le_bytes(minor));
        std::fs::write(place.path("r.data"), &bytes).unwrap();
        refused(&place, &["r.data was written by energy-trace", &format!("in format {major}.{minor}")]);
    }
}

/// Recordings of two machines whose labels mean harm, and of which one is cut, become one that every output takes; energy and time are
/// those of both.
#[test]
fn merged_recordings() {
    let place = place();
    Run { host: Some("one"), ..Run::usual() }.write(&place.path("a.data"));
    Run { host: Some("two"), ..recordings::named(&["</script>\n\""]) }.write(&place.path("b.data"));
    let bytes = std::fs::read(place.path("b.data")).unwrap();
    std::fs::write(place.path("b.data"), &bytes[..bytes.len() - 20]).unwrap();
    let parts = ["a.data", "b.data"].map(|file| read_all(&place, file));
    let label = "\u{202e}<script>\"'\t|;\n=b.data";
    assert_code(&place.run(&["merge", "r.data", "a.data", label]), 0);
    let sums = (parts[0].0 + parts[1].0, parts[0].1 + parts[1].1);
    assert_eq!(read_all(&place, "r.data"), sums);
    assert_schemas(&place, "r.data");
    // What merge wrote may be written anew.
    assert_code(&place.run(&["merge", "r.data", "a.data", label]), 0);
    assert_eq!(read_all(&place, "r.data"), sums);
}

/// No output is written over a recording: `merge rank0.data rank1.data`, without a name for the result, would cost the first.
#[test]
fn recordings_are_not_written_over() {
    let place = place();
    for file in ["a.data", "b.data"] {
        Run::usual().write(&place.path(file));
    }
    let before = std::fs::read(place.path("a.data")).unwrap();
    for line in [
        &["merge", "a.data", "b.data"][..],
        &["export", "--format", "folded", "b.data", "-o", "a.data"],
        &["flamegraph", "b.data", "-o", "a.data"],
        &["diff", "b.data", "b.data", "--svg", "a.data"],
    ] {
        let output = place.run(line);
        assert_code(&output, 2);
        assert_says(&output, &["a.data is a recording, which would be lost"]);
        assert_eq!(std::fs::read(place.path("a.data")).unwrap(), before, "{line:?}");
    }
}

/// Budgets and emissions of recordings with next to nothing in them: what nobody measured is kept by nobody, a name that
/// no sample shows is an error of its own, and no emissions are told.
#[test]
fn budgets_and_emissions() {
    let place = place();
    recordings::empty(&place.path("empty.data"));
    recordings::no_energy().write(&place.path("time.data"));
    recordings::one_sample().write(&place.path("one.data"));
    let name = "a\n\"<script>\u{1b}[2J|";
    recordings::named(&[name]).write(&place.path("named.data"));
    let call = format!("{name}=1kJ");
    for (file, code, verdict) in [
        ("empty.data", 123, "not-measured"),
        ("time.data", 123, "not-measured"),
        ("one.data", 121, "kept"),
        ("named.data", 0, "kept"),
    ] {
        for format in ["json", "markdown", "table", "csv"] {
            let line = ["report", file, "--format", format, "--budget", "1kJ", "--budget-call", &call];
            let output = place.run(&[&line[..], &["--grid-gco2-kwh", "400"]].concat());
            assert_code(&output, code);
            assert_harmless(file, &text(&output.stderr));
            let grams = text(&output.stderr).lines().any(|line| line.contains("g of CO2e: "));
            assert_eq!(grams, code != 123, "{file}: {}", text(&output.stderr));
            if format == "json" {
                let report: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(report["meta"]["budgets"][0]["verdict"], verdict, "{file}");
                assert_eq!(report["meta"]["budgets"][1]["call"], *name);
                assert_eq!(schema_errors(&report), [""; 0]);
            }
        }
    }
    let output = place.run(&["report", "one.data", "--budget", "1mJ"]);
    assert_code(&output, 122);
}

/// A difference of unlike recordings can be read and drawn, also where a side has next to nothing; what cannot be drawn is still read.
#[test]
fn differences() {
    let place = place();
    recordings::empty(&place.path("empty.data"));
    recordings::no_energy().write(&place.path("time.data"));
    recordings::named(&["</title>\n<script>\"\u{202e}"]).write(&place.path("named.data"));
    Run::usual().write(&place.path("usual.data"));
    let files = ["empty.data", "time.data", "named.data", "usual.data"];
    let has_energy = |file: &str| ["named.data", "usual.data"].contains(&file);
    for (before, after) in files.iter().flat_map(|before| files.iter().map(move |after| (before, after))) {
        let table = place.run(&["diff", before, after, "--color", "never"]);
        assert_code(&table, 0);
        let said = text(&table.stdout);
        assert_harmless("diff", &said);
        assert_eq!(said.contains("no energy"), !has_energy(before) || !has_energy(after), "{said}");
        let drawn = place.run(&["diff", before, after, "--svg", "d.svg"]);
        assert_harmless("diff --svg", &text(&drawn.stderr));
        if has_energy(after) {
            assert_code(&drawn, 0);
            assert_well_formed(&std::fs::read_to_string(place.path("d.svg")).unwrap());
            std::fs::remove_file(place.path("d.svg")).unwrap();
        } else {
            assert_code(&drawn, 125);
            assert_says(&drawn, &["no energy to draw", "d.svg is not written", "after"]);
            assert_eq!(text(&drawn.stdout), said);
            assert!(!place.path("d.svg").exists());
        }
    }
    // A run that is there twice would look like two that are alike.
    std::fs::copy(place.path("usual.data"), place.path("copy.data")).unwrap();
    let twice = place.run(&["diff", "usual.data", "named.data", "--vs", "usual.data", "copy.data"]);
    assert_code(&twice, 2);
    assert_says(&twice, &["usual.data and copy.data are one recording: name it once"]);
}
