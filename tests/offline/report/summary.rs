//! The summary that a recording ends with: the answer on one screen, whatever was recorded.
//!
//! Leaves out the tables (`outputs.rs`).

use super::outputs::golden;
use super::recording_builder::RecordingBuilder;
use super::training_runs::{estimated_training, gpu_training, measured_training};
use energy_trace_model::profile::certainty::{Certainty, Column, DomainCertainty, InColumn, Pool};
use energy_trace_model::profile::diagnostics::Diagnostic;
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::record::{
    DomainClass, FrameKind, LossReason, PowerDiagnostic, Quality, Runtime, RuntimeRefusal,
};
use energy_trace_report::json::{self, JsonOptions};
use energy_trace_report::summary::{self, SummaryOptions};
use energy_trace_report::table::{self, TableOptions};
use unicode_width::UnicodeWidthStr as _;

fn summary_text(profile: &Profile, width: Option<u16>) -> String {
    let options = SummaryOptions {
        width,
        recording: Some("energy-trace.data".to_owned()),
        flame_graph: Some("energy-trace.svg".to_owned()),
        phases: 3,
        ..SummaryOptions::default()
    };
    let mut out = Vec::new();
    summary::write(&mut out, profile, &options).unwrap();
    String::from_utf8(out).unwrap()
}

/// At most 25 lines, none wider than the terminal, and no line of a file wider than 160 columns, for domains of all kinds.
#[test]
fn one_screen() {
    for run in [estimated_training(), measured_training(), gpu_training(true), crowd(), Profile::default()] {
        for width in [Some(60), Some(80), Some(120), Some(200), None] {
            let text = summary_text(&run, width);
            let most = usize::from(width.unwrap_or(160));
            assert!(text.lines().count() <= 25, "{text}");
            assert_eq!(text.lines().find(|line| line.width() > most), None, "{text}");
        }
    }
}

/// The answer as it is read on terminals.
#[test]
fn what_the_summary_says() {
    golden("summary-80.txt", &summary_text(&estimated_training(), Some(80)));
    golden("summary-120.txt", &summary_text(&estimated_training(), Some(120)));
    golden("summary-measured.txt", &summary_text(&measured_training(), Some(80)));
    golden("summary-gpu.txt", &summary_text(&gpu_training(true), Some(80)));
    golden("summary-system.txt", &summary_text(&crowd(), Some(80)));
}

/// `estimated` stands there once, and not at all where a counter was read.
#[test]
fn estimates_say_so_once() {
    assert_eq!(summary_text(&estimated_training(), Some(80)).matches("estimated").count(), 1);
    assert_eq!(summary_text(&measured_training(), Some(80)).matches("estimated").count(), 0);
}

/// A profile whose rows have their energy in a column that the run shows to a part `sd` (a standard deviation), beside others with as much of another.
fn beside_others(sd: f64) -> Profile {
    let mut run = measured_training();
    let joules = |row: &ProfileRow| row.energy[DomainClass::Package].as_joules();
    let of_row = |row: &ProfileRow| InColumn { joules: joules(row), ..InColumn::default() };
    let all: f64 = run.rows.iter().map(joules).sum();
    let column = Column { identified: true, bounds: (1.0, 1.0), group: None };
    let pool = Pool { joules: all, ..Pool::default() };
    let domain = DomainCertainty {
        class: Some(DomainClass::Package),
        energy: run.rows.iter().map(|row| vec![of_row(row)]).collect(),
        columns: vec![column; 2],
        pools: vec![pool; 2],
        functions: [((0, 0), all)].into(),
        relative: vec![sd * sd, -sd * sd, -sd * sd, sd * sd],
        ..DomainCertainty::default()
    };
    run.certainty = Certainty { domains: vec![domain] };
    run
}

/// The first line says how far the program's energy may be off, JSON gives the interval, and a warning says so where that is much; of a run that
/// says nothing of it, nothing does.
#[test]
fn how_sure_the_whole_is() {
    let says = |run: &Profile| {
        let text = summary_text(run, Some(120));
        let mut json = Vec::new();
        json::write(&mut json, run, &JsonOptions { pretty: false, rows: None, budgets: &[] }).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let row = &json["ledger"][0];
        let warns = json["meta"]["warnings"].to_string().contains("program-uncertain");
        assert_eq!(warns, text.contains("! the program's own energy is known only as"), "{text}");
        let end = |end: usize| Some(row["target_ci95_uj"][end].as_f64()? / row["target_uj"].as_f64()?);
        (text, end(0).zip(end(1)), warns)
    };
    // 1.1 · 1.96 standard deviations of 2 % and of 10 %, as many times up as down.
    let (text, ends, warns) = says(&beside_others(0.02));
    assert!(text.contains(" J ±5% (from energy counters)") && !warns, "{text}");
    let near = |(low, high): (f64, f64), half: f64| (low.ln() + half).abs() + (high.ln() - half).abs() < 1e-4;
    assert!(ends.is_some_and(|ends| near(ends, 0.043_12)), "{ends:?}");
    let (text, ends, warns) = says(&beside_others(0.1));
    assert!(text.contains(" J ±25% (from energy counters)") && warns, "{text}");
    assert!(ends.is_some_and(|ends| near(ends, 0.215_6)), "{ends:?}");
    let (text, ends, warns) = says(&measured_training());
    assert!(text.contains(" J (from energy counters)") && ends.is_none() && !warns, "{text}");
}

/// The mark of a doubtful row is there at every width, and so is how far its number may be off.
#[test]
fn marks_survive_at_every_width() {
    for width in [Some(60), Some(80), Some(120), None] {
        let options = TableOptions { width, ..TableOptions::default() };
        let mut out = Vec::new();
        table::write(&mut out, &measured_training(), &options).unwrap();
        let tables = String::from_utf8(out).unwrap();
        for (text, row) in [(summary_text(&crowd(), width), "(pid 211)"), (tables, "fault_[k]")] {
            let line = text.lines().find(|line| line.contains(row)).unwrap();
            assert!(line.split_whitespace().any(|cell| cell == "~"), "{width:?}\n{text}");
            assert!(line.contains('±') || line.contains(" to "), "{width:?}\n{text}");
        }
    }
}

/// Where joules are CPU time times a constant, no row repeats how far they may be off; few samples are still told.
#[test]
fn models_say_once_how_far_they_are_off() {
    let mut out = Vec::new();
    table::write(&mut out, &estimated_training(), &TableOptions::default()).unwrap();
    let tables = String::from_utf8(out).unwrap();
    for text in [summary_text(&estimated_training(), Some(80)), tables.clone()] {
        assert!(!text.contains(['±', '?']) && !text.contains("95 %"), "{text}");
        assert!(text.contains("times a constant") || text.contains("server averages"), "{text}");
    }
    let rough = tables.lines().find(|line| line.contains("fault_[k]")).unwrap();
    assert!(rough.split_whitespace().any(|cell| cell == "~"), "{tables}");
}

/// Lost names change no number and are no warning; lost samples are, from a hundredth of all on.
#[test]
fn only_what_changes_a_number_warns() {
    let says = |text: &str| ["event was lost", "events were lost"].iter().any(|words| text.contains(words));
    let warns = |reason: LossReason, lost: u64| {
        let mut run = measured_training();
        run.run.summary.as_mut().unwrap().lost = [(reason, lost)].into();
        let tables = |verbose| {
            let mut out = Vec::new();
            table::write(&mut out, &run, &TableOptions { verbose, ..TableOptions::default() }).unwrap();
            says(&String::from_utf8(out).unwrap())
        };
        assert!(tables(true));
        let (shown, summed) = (tables(false), says(&summary_text(&run, Some(80))));
        assert_eq!(shown, summed);
        shown
    };
    assert!(!warns(LossReason::PythonNames, 100_000));
    assert!(!warns(LossReason::Samples, 1));
    assert!(warns(LossReason::Samples, 1_000));
}

/// Who looks for Python functions and finds none is told why, on the screen too; nobody else is.
#[test]
fn python_that_cannot_be_read_is_said() {
    let mut run = measured_training();
    let screen = |run: &Profile| summary_text(run, Some(80));
    let told = |text: &str| {
        text.contains("no Python functions in 100.0 % of the CPU time: CPython 3.11.2 cannot be read\n")
    };
    assert!(!told(&screen(&run)));
    let (version, reason) = (Some("3.11.2".to_owned()), RuntimeRefusal::NoSymbols);
    let refused = Runtime::Refused { version, file: "app".to_owned(), reason };
    run.processes.iter_mut().for_each(|process| process.runtime = Some(refused.clone()));
    assert!(told(&screen(&run)), "{}", screen(&run));
    let mut table = Vec::new();
    table::write(&mut table, &run, &TableOptions::default()).unwrap();
    let table = String::from_utf8(table).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains("CPython 3.11.2 (its file has no symbols"), "{table}");
}

/// Many warnings are all there, each in one line; rows make room for them as far as they can.
#[test]
fn all_warnings_are_there() {
    let mut run = estimated_training();
    for number in 0..20 {
        let (domain, error) = (format!("trouble {number}"), "long ".repeat(40));
        let found = PowerDiagnostic::ReadFailed { domain, failed: 1, readings: 9, error };
        run.diagnostics.push(Diagnostic::Recorded(found.into()));
    }
    let text = summary_text(&run, Some(80));
    for number in 0..20 {
        assert!(text.lines().any(|line| line.starts_with(&format!("! trouble {number}"))), "{text}");
    }
    assert!(!text.contains("more warnings") && text.lines().all(|line| line.width() <= 80), "{text}");
    let few = |text: &str| text.lines().filter(|line| line.contains('%')).count();
    assert!(few(&text) < few(&summary_text(&estimated_training(), Some(80))), "{text}");
}

/// Programs with the same name, as an interpreter and a compiler have them, in a recording of the whole machine.
fn crowd() -> Profile {
    let mut b = RecordingBuilder::new("", 10);
    let hot = b.frame(FrameKind::Native, "/usr/bin/cc1", "hot");
    let stack = b.stack(&[hot]);
    for number in 0..12 {
        let process = b.process(200 + number, "cc1", None);
        let thread = b.thread(process, 200 + number, "cc1");
        b.spent(thread, Some(stack), i64::from(number + 1) * 1_000_000, 100, 90);
    }
    b.ledger("package-0", DomainClass::Package, Quality::Measured, [1_000_000, 60_000_000, 0]);
    let mut run = b.build();
    run.run.header.command.clear();
    run.run.header.system_wide = true;
    for (number, process) in run.processes.iter_mut().enumerate() {
        process.command =
            ["/usr/lib/cc1", "-quiet", &format!("part{number}.c"), "-o", "x.s"].map(str::to_owned).into();
    }
    run
}

/// Programs of one name are told apart by what they were given.
#[test]
fn processes_by_their_arguments() {
    let text = summary_text(&crowd(), Some(80));
    assert!(text.starts_with("whole system"), "{text}");
    assert!(text.contains("part11.c") && text.contains("(pid 211)"), "{text}");
    let at = |what: &str| text.find(what).unwrap();
    assert!(at("part11.c") < at("hot"), "programs come before functions:\n{text}");
}
