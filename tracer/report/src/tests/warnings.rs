//! Warnings of every kind in the summary.

use super::all_diagnostics::all;
use crate::diagnostics;
use crate::summary::{self, SummaryOptions};
use energy_trace_model::profile::Profile;
use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic};
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

fn diagnostics_of(profile: &Profile) -> Vec<Diagnostic> {
    let found = diagnostics::diagnostics(profile).into_iter();
    found.filter(|found| diagnostics::changes_numbers(found, profile)).collect()
}
