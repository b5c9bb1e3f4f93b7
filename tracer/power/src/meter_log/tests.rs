//! Tests of `replay.rs`: what a log may look like, and what is said where it is wrong.

use super::{Parser, Replay, ReplayError};
use energy_trace_model::clock::{KtimeNs, WallAnchor};
use energy_trace_model::recording::record::{CounterValue, DomainClass, Scope};
use std::path::Path;

fn parse(text: &str) -> Result<Replay, ReplayError> {
    Parser { path: Path::new("meter.csv") }.parse(text.as_bytes())
}

fn counters(replay: &Replay, domain: usize) -> Vec<u64> {
    replay.rows.iter().map(|r| r.counters_uj[domain]).collect()
}

#[track_caller]
fn check_bad(text: &str, parts: &[&str]) {
    let error = parse(text).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "`{error}` does not say `{part}`");
    }
}

/// Counters in both units, a power, spaces, comments and quotes in one file.
#[test]
fn all_units() {
    let text =
        "# a meter\n time_s , package-0_uj,dram-0_j,\"wall_w\"\n0,5,0.5,10\n1, 7 ,1.5,20\n\n2,9,2,20\n";
    let replay = parse(text).unwrap();
    assert_eq!(counters(&replay, 0), [5, 7, 9]);
    assert_eq!(counters(&replay, 1), [500_000, 1_500_000, 2_000_000]);
    // The mean of 10 and 20 W over the first second, 20 W over the next.
    assert_eq!(counters(&replay, 2), [0, 15_000_000, 35_000_000]);
    let classes: Vec<_> = replay.domains.iter().map(|d| d.class).collect();
    assert_eq!(classes, [DomainClass::Package, DomainClass::Dram, DomainClass::Psys]);
    assert_eq!(replay.describe().period_ns, 1_000_000_000);
}

/// What may have no end is not read.
#[test]
fn a_log_is_a_file() {
    let error = Replay::open(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("/dev/zero") && error.contains("not a regular file"), "{error}");
}

/// A power integrates without drift: a third of a microjoule a step is not lost.
#[test]
fn watts_do_not_drift() {
    let mut text = String::from("time_ns,gpu_w\n");
    for ms in 0..=3000_u64 {
        text.push_str(&format!("{},0.000333333\n", ms * 1_000_000));
    }
    let replay = parse(&text).unwrap();
    assert_eq!(counters(&replay, 0).last(), Some(&999));
    assert_eq!(replay.domains[0].scope, Scope::Gpu(0));
}

/// Relative times count from the start of the run; wall times come through the anchor.
#[test]
fn times_on_the_one_clock() {
    let start = WallAnchor { ktime: KtimeNs::from_ns(5_000_000_000), unix_ns: 1_700_000_000_000_000_000 };
    let relative = parse("time_s,psys_j\n0.5,0\n1,1\n").unwrap();
    let readings = relative.readings(0, 0, start);
    assert_eq!(readings.iter().map(|r| r.at.as_ns()).collect::<Vec<_>>(), [5_500_000_000, 6_000_000_000]);
    assert_eq!(readings[1].value, CounterValue::MicroJoules(1_000_000));
    let wall = parse("unix_s,psys_j\n1699999990,0\n1700000001,1\n1700000002,2\n").unwrap();
    let readings = wall.readings(0, 0, start);
    // The first row is from before the machine's start (ten seconds before a clock that stands at five).
    assert_eq!(readings.iter().map(|r| r.at.as_ns()).collect::<Vec<_>>(), [6_000_000_000, 7_000_000_000]);
}

/// The line that a meter is writing is left for the next reading of the file; in a finished log it counts.
#[test]
fn line_being_written() {
    let growing = parse("unix_s,wall_w\n1700000000,1\n1700000001,2\n17000000").unwrap();
    assert_eq!(growing.len(), 2);
    let finished = parse("time_s,wall_w\n0,1\n1,2\n2,3").unwrap();
    assert_eq!(finished.len(), 3);
}

/// A file without rows says what it needs.
#[test]
fn empty() {
    check_bad("", &["meter.csv is empty", "time_s,package-0_uj"]);
    check_bad("# only a comment\n", &["is empty"]);
    check_bad("time_s,package-0_uj\n", &["no row"]);
    check_bad("time_s,package-0_uj\n0,1\n", &["one row only"]);
}

/// Header mistakes name line 1 and the column.
#[test]
fn bad_headers() {
    check_bad("seconds,package-0_uj\n0,1\n", &["line 1", "time_s, time_ns or unix_s"]);
    check_bad("time_s,unix_s,wall_w\n", &["line 1", "column 2 (unix_s)", "second column of times"]);
    check_bad("time_s\n0\n", &["line 1", "no column of a domain"]);
    check_bad("time_s,package-0\n0,1\n", &["line 1, column 2:", "_uj"]);
    check_bad("time_s,fridge_w\n0,1\n", &["column 2:", "named after no domain"]);
    check_bad("time_s,package-x_w\n0,1\n", &["column 2:"]);
    check_bad("time_s,wall_w,wall_j\n0,1\n", &["column 3 (wall_j)", "second column for `wall`"]);
}

/// Unordered and repeated times, bad and missing numbers: line and column.
#[test]
fn bad_rows() {
    let head = "time_s,package-0_uj,wall_w\n0,1,1\n";
    check_bad(&format!("{head}1,2,2\n0.5,3,3\n"), &["line 4, column 1 (time_s)", "earlier than"]);
    check_bad(&format!("{head}0,2,2\n"), &["line 3, column 1 (time_s)", "the same as"]);
    check_bad(&format!("{head}1,2x,2\n"), &["line 3, column 2 (package-0_uj)", "holds no number"]);
    check_bad(&format!("{head}1,-2,2\n"), &["column 2", "holds no number"]);
    check_bad(&format!("{head}1,2,NaN\n"), &["line 3, column 3 (wall_w)", "holds no watts"]);
    check_bad(&format!("{head}1,2,-1\n"), &["column 3", "holds no watts"]);
    check_bad(&format!("{head}-1,2,2\n"), &["column 1", "holds no time"]);
    check_bad(&format!("{head}1,2\n"), &["line 3, column 3 (wall_w)", "nothing where a number belongs"]);
    check_bad(&format!("{head}1,2,3,4\n"), &["line 3", "more fields than column names"]);
    check_bad(&format!("{head}1,2,1e300\n"), &["column 3", "holds no watts"]);
}

/// Bytes that are no text are an error with a line, not a panic.
#[test]
fn not_text() {
    let error = Parser { path: Path::new("meter.csv") }.parse(b"time_s,wall_w\n0,1\n\xff,2\n").unwrap_err();
    assert!(error.to_string().contains("line 3"), "{error}");
}
