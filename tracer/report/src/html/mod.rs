//! The HTML report: one file that holds its data, script and style, and asks nobody for anything.
//!
//! Power over time with a range to choose, and for the range a flame graph and tables; the ledger, and what is doubtful. The numbers of a range
//! are those of `report --from --to`. Names are foreign: they go in as JSON in which no `<` stands, come out as text only, and a
//! content security policy lets the browser run the one script by its hash and load nothing at all.
//!
//! * `data`: what the page is told; `flame`, `trees`: its stacks; `gauges`: temperatures and clocks; `work`:
//!   joules per unit; `phases`: what was found; `views`: what its tables are of; `facts`: its words. `hash`: SHA-256.
//!
//! The page itself is in `data/page`. Leaves out how energy comes into bins (`energy-trace-attribution`).

mod data;
mod facts;
mod flame;
mod gauges;
mod hash;
mod phases;
#[cfg(test)]
mod tests;
mod trees;
mod views;
mod work;

pub use hash::source as source_of_style;

use crate::phases::find;
use data::{Data, ROOMS};
use energy_trace_model::profile::{OverTime, Profile};
use energy_trace_names::short_names;
use std::io::{self, Write};
use std::ops::Range;

const PAGE: &str = include_str!("../../data/page/page.html");
const STYLE: &str = include_str!("../../data/page/page.css");
/// In this order, in one script: each needs those before it.
const SCRIPTS: [&str; 11] = [
    include_str!("../../data/page/units.js"),
    include_str!("../../data/page/model.js"),
    include_str!("../../data/page/chart.js"),
    include_str!("../../data/page/gauges.js"),
    include_str!("../../data/page/work.js"),
    include_str!("../../data/page/ranges.js"),
    include_str!("../../data/page/phases.js"),
    include_str!("../../data/page/flame.js"),
    include_str!("../../data/page/table.js"),
    include_str!("../../data/page/facts.js"),
    include_str!("../../data/page/main.js"),
];

/// Most bytes of data.
const LARGEST: usize = 9_500_000;

/// Writes the page; these bins are chosen when it is opened.
///
/// # Errors
/// When the writer refuses.
pub fn write(
    out: &mut dyn Write,
    profile: &Profile,
    over_time: &OverTime,
    chosen: &Range<u32>,
    short: bool,
) -> io::Result<()> {
    let profile = &*short_names::chosen(profile, short);
    let phases = find(profile, over_time);
    let data = |room| serde_json::to_string(&Data::new(profile, (over_time, &phases), chosen, room));
    let mut data_text = data(ROOMS[0])?;
    if data_text.len() > LARGEST {
        data_text = data(ROOMS[1])?;
    }
    let script = format!("\"use strict\";\n(() => {{\n{}\n}})();\n", SCRIPTS.join("\n"));
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        hash::source(&script),
        hash::source(STYLE)
    );
    let parts =
        [("POLICY", policy.as_str()), ("STYLE", STYLE), ("DATA", &harmless(&data_text)), ("SCRIPT", &script)];
    let mut rest = PAGE;
    for (name, part) in parts {
        let (before, behind) = rest.split_once(&format!("%{name}%")).unwrap_or((rest, ""));
        out.write_all(before.as_bytes())?;
        out.write_all(part.as_bytes())?;
        rest = behind;
    }
    out.write_all(rest.as_bytes())
}

/// JSON that cannot end the element it stands in, nor begin a comment in it: `<` is only ever in strings, where it may be escaped.
fn harmless(json: &str) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
