//! What makes a difference say nothing: a recording that ends early, or one that is on both sides.
//!
//! Leaves out different meters (`meters.rs`) and runs without energy (`diff.rs`).

use super::diff::{Comparison, DiffOptions};
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
    [("A", 0), ("B", 1)].into_iter().flat_map(of).chain(same(compared)).collect()
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

/// That a recording is on both sides.
fn same(compared: &Comparison<'_>) -> Option<String> {
    let [a, b] = compared.sides;
    let is_one = a.iter().any(|one| b.iter().any(|other| is_same_recording(one, other)));
    is_one.then(|| {
        "a recording is on both sides: it says nothing of a change; name another on one side".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::{DiffOptions, Profile};
    use crate::By;
    use crate::diff::compare;
    use crate::diff::tests::OPTIONS;
    use crate::diff_json;
    use crate::diff_table::tests::hotter;
    use crate::diff_table::write;
    use crate::tests::training_runs::measured_training;
    use energy_trace_model::profile::diagnostics::Diagnostic;
    use energy_trace_model::recording::record::{CutReason, RecordingDiagnostic};

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
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            (String::from_utf8(out).unwrap(), json)
        };
        let (whole, json) = said(&[hotter(), hotter()]);
        assert!(whole.contains("1 function changed") && !whole.contains("ends early"), "{whole}");
        assert_eq!(json["b"]["cut"], serde_json::json!([]));
        let mut cut = hotter();
        let (whole_bytes, whole_ns) = (Some(9), Some(1_500_000_000));
        let found = RecordingDiagnostic::RecordingCut { whole_bytes, whole_ns, reason: CutReason::Chunk };
        cut.diagnostics.push(Diagnostic::Recorded(found));
        let (table, json) = said(&[hotter(), cut]);
        assert!(
            table.contains("B: b2 ends early") && table.contains("1.50 s of its run were read"),
            "{table}"
        );
        assert!(!table.contains("function changed") && !table.contains("  *  "), "{table}");
        assert_eq!(json["b"]["cut"], serde_json::json!([{ "file": "b2", "read_ns": 1_500_000_000 }]));
        assert!(json["program"]["changed"] == false && json["program"]["chance_j"].is_null(), "{json}");
        let (table, _) = said(&[hotter(), measured_training()]);
        assert!(table.contains("a recording is on both sides"), "{table}");
    }
}
