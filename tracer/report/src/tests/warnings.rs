//! Warnings of every kind in the summary.

use super::all_diagnostics::all;
use crate::diagnostics;
use crate::summary::{self, SummaryOptions};
use crate::tests::training_runs::measured_training;
use energy_trace_model::profile::certainty::{Certainty, Column, DomainCertainty, InColumn};
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::recording::record::{
    AccountDiagnostic, CallDiagnostic, DomainClass, FrameKind, HiddenFile, PythonLoss, RecordingDiagnostic,
    StackStatus, Truncation,
};
use energy_trace_sentences::in_brief;

/// Whatever explains a wrong or missing number has a line of its own in the summary, whole in 80 columns, however much there is; what does not
/// has none, and nothing is only counted. What is so of two domains is one line.
#[test]
fn no_warning_is_hidden() {
    let shown_of = |diagnostics: Vec<Diagnostic>| {
        let profile = Profile { diagnostics, ..Profile::default() };
        let changing: Vec<Diagnostic> = diagnostics_of(&profile);
        let mut out = Vec::new();
        let options = SummaryOptions { width: Some(80), ..SummaryOptions::default() };
        summary::write(&mut out, &profile, &options).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<String> =
            text.lines().filter(|line| line.starts_with("! ")).map(str::to_owned).collect();
        (changing, lines)
    };
    let (changing, lines) = shown_of(all());
    assert!(changing.len() > 45, "{}", changing.len());
    for found in &changing {
        let line = format!("! {}", in_brief(std::iter::once(found)).concat());
        assert!(lines.contains(&line), "{} is hidden or cut: {line}", found.code());
    }
    assert!(
        lines.len() <= changing.len() && !lines.iter().any(|line| line.contains("more warnings")),
        "{lines:#?}"
    );
    let (_, alone) = shown_of(vec![]);
    for found in all().into_iter().filter(|found| !changing.contains(found)) {
        assert_eq!(shown_of(vec![found.clone()]).1, alone, "{}", found.code());
    }
    let twice =
        ["package-0", "package-1"].map(|domain| Diagnostic::of(domain, DomainDiagnostic::NoIdleBaseline));
    let line = "! package-0, package-1: idle power unknown, charged to what ran: --idle-watts".to_owned();
    assert!(shown_of(twice.to_vec()).1.contains(&line));
}

/// What counting took of the program's time is on the first screen where it is a fiftieth of it or more.
#[test]
fn counting_that_costs() {
    let says = |calls| {
        let cost = CallDiagnostic::Cost {
            calls,
            stepped: calls / 2,
            call_ns: 1_000,
            stepped_ns: 9_000,
            functions: 1,
        };
        let mut profile = measured_training();
        profile.rows.truncate(1);
        profile.rows[0].time_ns = 1_000_000_000;
        diagnostics::changes_numbers(&Diagnostic::Recorded(RecordingDiagnostic::Calls(cost)), &profile)
    };
    // 5 µs each.
    assert_eq!([0, 3_990, 4_010].map(says), [false, false, true]);
}

/// That kernel functions have no names is on the first screen where they have a twentieth of the time.
#[test]
fn kernel_functions_without_names() {
    let says = |(name, time_ns): (&str, u64)| {
        let mut profile = measured_training();
        profile.rows.retain(|row| row.stack.is_some());
        profile.rows.truncate(1);
        let stack = profile.rows[0].stack.unwrap();
        let frame = &mut profile.frames[profile.stacks[stack.index()].frame.index()];
        (frame.kind, frame.name) = (FrameKind::Kernel, name.to_owned());
        profile.rows.push(ProfileRow { stack: None, time_ns: 1_000, ..profile.rows[0] });
        profile.rows[0].time_ns = time_ns;
        let hidden = AccountDiagnostic::Hidden { files: vec![HiddenFile::KernelSymbols] };
        diagnostics::changes_numbers(&Diagnostic::Recorded(hidden.into()), &profile)
    };
    assert_eq!([("0x10", 60), ("0x10", 50), ("vfs_read", 60)].map(says), [true, false, false]);
}

/// A program that used no CPU time is said to have waited, but of a recording that is cut.
#[test]
fn a_program_that_waited() {
    let says = |is_cut: bool| {
        let mut profile = measured_training();
        profile.rows.clear();
        profile.run.summary = profile.run.summary.filter(|_| !is_cut);
        diagnostics_of(&profile).iter().any(|found| found.code() == "few-samples")
    };
    assert_eq!([true, false].map(says), [false, true]);
}

/// Rates that show a short loop are named where functions that the run does not show have half of the energy, and nowhere else.
#[test]
fn rates_for_a_short_loop() {
    let says = |identified: bool| {
        let mut profile = with_certainty(measured_training(), identified);
        let found = Diagnostic::ShortLoop { loop_ns: 9_960_000, hz: 2_999, power_hz: Some(1_000) };
        profile.diagnostics.push(found);
        let said = diagnostics_of(&profile);
        in_brief(said.iter().filter(|found| found.code() == "short-loop")).concat()
    };
    let line = "loop of 10 ms, too short for this: record with -F 2999 --power-hz 1000";
    assert_eq!([true, false].map(says), ["", line]);
}

/// The run, as it is where it tells all power, or none.
pub(crate) fn with_certainty(profile: Profile, identified: bool) -> Profile {
    let column = Column { identified, bounds: (0.5, 2.0), group: None };
    let joules = |row: &ProfileRow| row.energy[DomainClass::Package].as_joules();
    let of_row = |row| vec![InColumn { joules: joules(row), ..InColumn::default() }];
    let domain = DomainCertainty {
        class: Some(DomainClass::Package),
        energy: profile.rows.iter().map(of_row).collect(),
        columns: vec![column],
        ..DomainCertainty::default()
    };
    Profile { certainty: Certainty { domains: vec![domain] }, ..profile }
}

fn diagnostics_of(profile: &Profile) -> Vec<Diagnostic> {
    let found = diagnostics::diagnostics(profile).into_iter();
    found.filter(|found| diagnostics::changes_numbers(found, profile)).collect()
}

/// A terminal that is narrower has each warning whole too, in several lines.
#[test]
fn narrow_terminals() {
    let profile = Profile::default();
    let lines = |width| {
        let mut out = Vec::new();
        let options = SummaryOptions { width: Some(width), ..SummaryOptions::default() };
        summary::write(&mut out, &profile, &options).unwrap();
        let text = String::from_utf8(out).unwrap();
        let warnings = text.lines().skip_while(|line| !line.starts_with("! "));
        let warnings = warnings.take_while(|line| !line.starts_with("recording"));
        warnings.map(str::to_owned).collect::<Vec<_>>()
    };
    let words = |lines: &[String]| lines.join(" ").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (wide, narrow) = (lines(80), lines(30));
    assert_eq!(words(&wide), words(&narrow));
    assert!(narrow.len() > wide.len() && narrow.iter().all(|line| line.len() <= 30), "{narrow:#?}");
}

/// Stacks that lack callers are said where they are more than a fifth, with what most of them are; a Python that
/// cannot be read is said by itself.
#[test]
fn stacks_that_are_not_whole() {
    let found = |others: &[(StackStatus, u64)]| {
        let mut profile = Profile::default();
        profile.run.stack_statuses =
            [(StackStatus::Complete, 80)].into_iter().chain(others.iter().copied()).collect();
        let found = diagnostics::diagnostics(&profile);
        found.into_iter().find(|found| found.code() == "stacks-not-whole")
    };
    let bits32 = StackStatus::Truncated(Truncation::Bits32);
    let not_ready = StackStatus::PythonLost(PythonLoss::NotReady);
    assert_eq!(found(&[(bits32, 20)]), None);
    let most = Diagnostic::StacksNotWhole { samples: 30, of: 110, most: bits32 };
    assert_eq!(found(&[(bits32, 20), (not_ready, 10)]), Some(most));
    assert_eq!(found(&[(StackStatus::PythonLost(PythonLoss::UnknownVersion), 900)]), None);
    assert_eq!(found(&[(StackStatus::Guessed(1), 900)]), None);
}
