//! What makes a difference say nothing, or less: a recording that ends early, one that is on both sides, other commands, too few runs.
//!
//! Leaves out different meters (`meters.rs`) and runs without energy (`diff.rs`).

use super::diff::{Change, Comparison, DiffOptions};
use super::diff_parts::is_same_recording;
use super::missing::read_ns;
use energy_trace_model::profile::Profile;
use energy_trace_names::shown::shown;

/// The runs of a side whose recordings end before the run did, by their files, with the nanoseconds that they have.
pub(crate) fn cut<'a>(
    side: &'a [Profile],
    files: &'a [String],
) -> impl Iterator<Item = (&'a str, Option<u64>)> {
    side.iter().zip(files).filter_map(|(profile, file)| Some((file.as_str(), read_ns(profile)?)))
}

/// Whether any run of either side is: its joules are of another time than those of whole ones.
pub(crate) fn is_any_cut(sides: [&[Profile]; 2]) -> bool {
    sides.into_iter().flatten().any(|profile| read_ns(profile).is_some())
}

/// A sentence for each.
pub(crate) fn doubts(compared: &Comparison<'_>, options: &DiffOptions<'_>) -> Vec<String> {
    let of = |(side, at): (&str, usize)| {
        let cut = cut(compared.sides[at], options.files[at]);
        cut.map(|(file, ns)| of_cut(side, file, ns)).collect::<Vec<_>>()
    };
    [("A", 0), ("B", 1)]
        .into_iter()
        .flat_map(of)
        .chain(same(compared))
        .chain(other_commands(compared, options))
        .collect()
}

/// Whether equal programs could differ by more than what either side used: that says nothing of the change.
pub(crate) fn is_unknown(change: &Change) -> bool {
    let most = change.sides.iter().fold(0.0, |most: f64, side| most.max(side.joules));
    change.by_chance.is_some_and(|far| far > most)
}

/// Whether a part changed; `None`: these runs do not tell.
pub(crate) fn changed(change: &Change) -> Option<bool> {
    let is_open = change.by_chance.is_none() || is_unknown(change) || change.is_unidentified();
    if change.is_real() { Some(true) } else { (!is_open).then_some(false) }
}

/// `B: b.data ends early (cut off or damaged): …`.
fn of_cut(side: &str, file: &str, ns: Option<u64>) -> String {
    let read = ns.map_or_else(String::new, |ns| format!("; {:.2} s of its run were read", ns as f64 / 1e9));
    format!(
        "{side}: {} ends early (cut off or damaged){read}: its joules are of that part alone, so nothing below is known to be a change; record it \
         again, or leave it out",
        shown(file)
    )
}

/// Whether a recording is on both sides.
pub(crate) fn is_any_same([a, b]: [&[Profile]; 2]) -> bool {
    a.iter().any(|one| b.iter().any(|other| is_same_recording(one, other)))
}

fn same(compared: &Comparison<'_>) -> Option<String> {
    is_any_same(compared.sides).then(|| {
        "a recording is on both sides: it says nothing of a change; name another on one side".to_owned()
    })
}

/// Whether all runs are of one command with the same arguments; `None`: nobody knows, as of processes that were attached to.
pub(crate) fn is_one_command(options: &DiffOptions<'_>) -> Option<bool> {
    let all = || options.commands.into_iter().flatten();
    let first = all().next().filter(|_| all().all(|command| !command.is_empty()))?;
    Some(all().all(|command| command == first))
}

fn other_commands(compared: &Comparison<'_>, options: &DiffOptions<'_>) -> Option<String> {
    let kept = compared.sides.into_iter().flatten().map(|run| &run.run.header.command);
    let is_hidden = !kept.eq(options.commands.into_iter().flatten());
    let advice = if is_hidden { "; --arguments shows them" } else { "" };
    (is_one_command(options) == Some(false)).then(|| {
        format!("not all runs are of the same command and arguments: what these change is part of the difference{advice}")
    })
}

#[cfg(test)]
mod tests {
    use super::{Change, DiffOptions, Profile};
    use crate::By;
    use crate::diff::tests::OPTIONS;
    use crate::diff::{Side, compare};
    use crate::diff_json;
    use crate::diff_table::tests::hotter;
    use crate::diff_table::write;
    use crate::tests::training_runs::measured_training;
    use crate::uncertainty::UNIDENTIFIED;
    use energy_trace_model::profile::diagnostics::Diagnostic;
    use energy_trace_model::recording::record::{CutReason, RecordingDiagnostic};
    use serde_json::Value;

    /// A recording that ends early is named, with how much of it was read, and nothing is called a change; one that is on both sides is named too.
    #[test]
    fn what_says_nothing_of_a_change() {
        let files = [["a1", "a2"], ["b1", "b2"]].map(|side| side.map(str::to_owned));
        let options = DiffOptions { files: [&files[0], &files[1]], by: By::Function, ..OPTIONS };
        let said = |after: &[Profile]| {
            let before = [measured_training(), measured_training()];
            let compared = compare([&before, after], &options).unwrap();
            let (mut out, mut json) = (Vec::new(), Vec::new());
            write(&mut out, &compared, &options).unwrap();
            diff_json::write(&mut json, &compared, &options).unwrap();
            let json: Value = serde_json::from_slice(&json).unwrap();
            (String::from_utf8(out).unwrap(), json)
        };
        let (whole, whole_json) = said(&[hotter(), hotter()]);
        assert!(whole.contains("1 function changed") && !whole.contains("ends early"), "{whole}");
        assert_eq!(whole_json["b"]["cut"], serde_json::json!([]));
        let mut cut = hotter();
        let (whole_bytes, whole_ns) = (Some(9), Some(1_500_000_000));
        let found = RecordingDiagnostic::RecordingCut { whole_bytes, whole_ns, reason: CutReason::Chunk };
        cut.diagnostics.push(Diagnostic::Recorded(found));
        let (_, json) = said(&[hotter(), cut.clone()]);
        assert_eq!(json["same_recording"], true, "a copy that ends early is the same recording");
        cut.run.header.anchor.unix_ns += 1;
        let (table, json) = said(&[hotter(), cut]);
        assert_eq!(json["same_recording"], false);
        assert!(
            table.contains("B: b2 ends early") && table.contains("1.50 s of its run were read"),
            "{table}"
        );
        assert!(!table.contains("function changed") && !table.contains("  *  "), "{table}");
        assert_eq!(json["b"]["cut"], serde_json::json!([{ "file": "b2", "read_ns": 1_500_000_000 }]));
        assert!(json["program"]["changed"].is_null() && json["program"]["chance_j"].is_null(), "{json}");
        let (table, json) = said(&[hotter(), measured_training()]);
        assert!(table.contains("a recording is on both sides") && json["same_recording"] == true, "{table}");
        let before = [measured_training()];
        let compared = compare([&before, &before], &options).unwrap();
        let mut out = Vec::new();
        write(&mut out, &compared, &options).unwrap();
        let table = String::from_utf8(out).unwrap();
        assert!(table.contains("a recording is on both sides") && !table.contains("one run each"), "{table}");
        assert_eq!(
            [&whole_json["same_recording"], &whole_json["same_command"]],
            [&false.into(), &Value::Null]
        );
    }

    /// A run of other arguments is said, though nobody sees which, and no run of the same; of processes that ran before nobody knows.
    #[test]
    fn other_arguments() {
        let said = |last: &[&str]| {
            let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let (a, b) = ([command(&["python3", "a.py", "1"])], [command(last)]);
            let options = DiffOptions { commands: [&a, &b], ..OPTIONS };
            let (before, after) = ([measured_training()], [hotter()]);
            let compared = compare([&before, &after], &options).unwrap();
            let (mut out, mut json) = (Vec::new(), Vec::new());
            write(&mut out, &compared, &options).unwrap();
            diff_json::write(&mut json, &compared, &options).unwrap();
            let json: Value = serde_json::from_slice(&json).unwrap();
            let is_said = String::from_utf8(out).unwrap().contains("not all runs are of the same command");
            (is_said, json["same_command"].clone())
        };
        assert_eq!(said(&["python3", "a.py", "1"]), (false, true.into()));
        assert_eq!(said(&["python3", "a.py", "2"]), (true, false.into()));
        assert_eq!(said(&[]), (false, Value::Null));
    }

    /// What is not shown to have changed is `false` in JSON where that is known, and `null` where it is not.
    #[test]
    fn three_answers() {
        let of = |joules: f64, by_chance, flags: &[&'static str]| {
            let mut sides = [Side::default(); 2];
            (sides[0].joules, sides[1].joules) = (1.0, 1.0 + joules);
            super::changed(&Change { name: None, sides, by_chance, flags: flags.to_vec() })
        };
        assert_eq!([of(0.5, Some(0.2), &[]), of(0.1, Some(0.2), &[])], [Some(true), Some(false)]);
        assert_eq!([of(0.1, Some(2.0), &[]), of(0.1, None, &[])], [None; 2]);
        assert_eq!(of(0.1, Some(0.2), &[UNIDENTIFIED]), None);
        assert_eq!(of(0.5, Some(0.2), &[UNIDENTIFIED]), Some(true));
    }
}
