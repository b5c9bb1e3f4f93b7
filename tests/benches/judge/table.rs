//! The judge's table as Markdown: a row for everything and for each part left out.
//!
//! Of a part is shown by how much figures are more without it, run by run. Leaves out what is counted (`figures.rs`).

use crate::cases::Group;
use crate::figures::{Figures, Mean, Sums};
use crate::rows::Row;
use std::fmt::Write as _;

type Groups = [(Group, Vec<Sums>)];

/// One of the figures of a run.
type Figure = fn(&Figures) -> f64;

/// A world is named in a row from these differences on: errors, nodes held, energy flagged, in points; nodes far in a run.
const NAMED: [(Figure, f64, &str); 5] = [
    (|run| run.functions, 0.3, "functions"),
    (|run| run.nodes, 0.5, "nodes"),
    (|run| run.covered, 3.0, "held"),
    (|run| run.flagged, 5.0, "flagged"),
    (|run| run.far, 0.5, "far"),
];

/// All of it.
pub(crate) fn text(rows: &[Row], groups: &Groups, seeds: u64) -> String {
    let recorded: Vec<_> =
        groups.iter().filter(|(group, _)| matches!(group, Group::Recorded { .. })).collect();
    let mut text = format!("{seeds} seeds. ");
    text += "Errors are means in % (functions of 5 %; nodes of 1 %), flagged or not, ± their standard error over runs; \
        *held*: nodes with the truth in the interval; *width*: mean half-width over mean error; *factor*: by what all intervals \
        would have to be multiplied to hold 95 %; *flagged*: part of the energy; *far*: nodes of all runs that are not flagged and far off. Of a part: by how much each is more without \
        it (but far), **bold** from two standard errors on.\n\n";
    let head = |title: &str| format!(" {title}: functions; nodes; held; width; factor; flagged; far |");
    let heads: String = recorded.iter().map(|(group, _)| head(&group.title())).collect();
    let _ = writeln!(text, "| left out | lines | time |{heads} worlds that change |");
    let _ = writeln!(text, "|---|---|---|{}---|", "---|".repeat(recorded.len()));
    for (number, row) in rows.iter().enumerate() {
        let cells: String = recorded.iter().map(|(_, sums)| cell(sums, number) + " |").collect();
        let lines = row.lines.map_or_else(|| "–".to_owned(), |lines| lines.to_string());
        let worlds = changed(groups, number);
        let _ = writeln!(text, "| {} | {lines} | {} |{cells} {worlds} |", row.name, time(groups, number));
    }
    text + &of_programs(&recorded) + &of_worlds(groups) + &balance(groups)
}

/// What everything gives in each recorded program.
fn of_programs(recorded: &[&(Group, Vec<Sums>)]) -> String {
    if recorded.is_empty() {
        return String::new();
    }
    let mut text =
        "\n| with everything | functions | nodes | held | half-width | width | factor | flagged | far |\n"
            .to_owned();
    text += "|---|---|---|---|---|---|---|---|---|\n";
    for (group, sums) in recorded {
        for (name, of) in sums[0].by_name() {
            let show = |figure: Figure| format!("{:.1}", of.mean(figure).value);
            let _ = writeln!(
                text,
                "| {name}, {} | {} | {} | {} | {} | {:.1} | {:.2} | {} | {} |",
                group.title(),
                show(|run| run.functions),
                show(|run| run.nodes),
                show(|run| run.covered),
                show(|run| run.half_width),
                of.width_over_error(),
                of.factor(),
                show(|run| run.flagged),
                of.sum(|run| run.far)
            );
        }
    }
    text
}

/// Time of everything in CPU seconds a run, and of others in parts of that.
fn time(groups: &Groups, number: usize) -> String {
    let all = |number: usize| groups.iter().map(|(_, sums)| sums[number].sum(|run| run.seconds)).sum::<f64>();
    let runs: f64 = groups.iter().map(|(_, sums)| sums[number].sum(|_| 1.0)).sum();
    match number {
        0 => format!("{:.2} s", all(0) / runs.max(1.0)),
        _ => format!("{:.2}", all(number) / all(0).max(1e-9)),
    }
}

/// A row's figures in a group: its own, or by how much they are more than everything's.
fn cell(sums: &[Sums], number: usize) -> String {
    let of = &sums[number];
    let (width, factor, far) = (of.width_over_error(), of.factor(), of.sum(|run| run.far));
    if number == 0 {
        let own = |figure: Figure| of.mean(figure);
        let (functions, nodes) = (own(|run| run.functions), own(|run| run.nodes));
        let (held, flagged) = (own(|run| run.covered), own(|run| run.flagged));
        return format!(
            " {:.2} ± {:.2}; {:.2} ± {:.2}; {:.1} ± {:.1}; {width:.1}; {factor:.2}; {:.1} ± {:.1}; {far}",
            functions.value,
            functions.error,
            nodes.value,
            nodes.error,
            held.value,
            held.error,
            flagged.value,
            flagged.error
        );
    }
    let more = |figure: Figure| of.more_than(&sums[0], figure);
    let errors =
        [more(|run| run.functions), more(|run| run.nodes)].map(|mean| difference(mean, 2)).join("; ");
    let (held, flagged) = (difference(more(|run| run.covered), 1), difference(more(|run| run.flagged), 1));
    format!(" {errors}; {held}; {width:.1}; {factor:.2}; {flagged}; {far}")
}

/// With a sign; bold where it is clear.
fn difference(mean: Mean, digits: usize) -> String {
    let Mean { value, error } = mean;
    let text = format!("{value:+.digits$} ± {error:.digits$}");
    // What differs by less than is shown is the same.
    if format!("{:.digits$}", value.abs()) == format!("{:.digits$}", 0.0) {
        return "=".to_owned();
    }
    if mean.is_clear() { format!("**{text}**") } else { text }
}

/// The worlds in which a row differs clearly from everything.
fn changed(groups: &Groups, number: usize) -> String {
    let mut worlds = vec![];
    for (group, sums) in groups.iter().filter(|(group, _)| matches!(group, Group::World { .. })) {
        let mut found = vec![];
        for (figure, least, name) in NAMED.into_iter().filter(|_| number > 0) {
            let more = sums[number].more_than(&sums[0], figure);
            if more.is_clear() && more.value.abs() >= least {
                let before = sums[0].mean(figure).value;
                found.push(format!("{name} {before:.1} → {:.1}", before + more.value));
            }
        }
        if !found.is_empty() {
            worlds.push(format!("{}: {}", group.name(), found.join(", ")));
        }
    }
    if worlds.is_empty() { "–".to_owned() } else { worlds.join("; ") }
}

/// What everything gives in each world.
fn of_worlds(groups: &Groups) -> String {
    let worlds: Vec<_> = groups.iter().filter(|(group, _)| matches!(group, Group::World { .. })).collect();
    if worlds.is_empty() {
        return String::new();
    }
    let mut text =
        "\n| with everything | functions | nodes | by CPU time | held | width | factor | flagged | far |\n"
            .to_owned();
    text += "|---|---|---|---|---|---|---|---|---|\n";
    for (group, sums) in worlds {
        let of = &sums[0];
        let show = |figure: Figure| {
            let Mean { value, error } = of.mean(figure);
            format!("{value:.1} ± {error:.1}")
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.1} | {:.2} | {} | {} |",
            group.title(),
            show(|run| run.functions),
            show(|run| run.nodes),
            show(|run| run.by_time),
            show(|run| run.covered),
            of.width_over_error(),
            of.factor(),
            show(|run| run.flagged),
            of.sum(|run| run.far)
        );
    }
    text
}

/// Whether all energy is there in every run.
fn balance(groups: &Groups) -> String {
    let off: i64 = groups.iter().flat_map(|(_, sums)| sums).map(Sums::imbalance_uj).sum();
    let runs: f64 = groups.iter().flat_map(|(_, sums)| sums).map(|sums| sums.sum(|_| 1.0)).sum();
    format!("\n{runs} attributions; rows and ledgers are off by {off} µJ in all.\n")
}
