//! The flame graph: width is energy, the program is the whole.
//!
//! Rectangles are placed in `flame_rectangles.rs`; what is written in and above them is made afterwards (`flame_page.rs`). Leaves out
//! energy below zero, as `folded.rs` says; a note in the picture counts it.

use super::apart::told_apart;
use super::flame_header::Header;
use super::flame_page::Page;
use super::flame_rectangles::{Drawing, one_side};
use super::flame_titles::Axis;
use super::folded::{Folded, Line, Per, Selection};
use super::rest::Rest;
use super::uncertainty::tooltip;
use super::{DomainChoice, ReportError, run};
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Quality;
use energy_trace_names::frame_name;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::short_names;
use std::collections::BTreeSet;
use std::io::Write;

/// What is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlameOptions {
    /// The energy that widths are of.
    pub domain: DomainChoice,
    /// Without the arguments of templates.
    pub short_names: bool,
    /// Which frames of native code are drawn.
    pub native_frames: NativeFrames,
    /// Which roots stacks have; unless chosen, processes where there are several programs, else none.
    pub per: Option<Per>,
    /// What is drawn beside the program.
    pub rest: Rest,
    /// Innermost functions first, with their callers behind them.
    pub by_callee: bool,
    /// The root at the bottom.
    pub flip: bool,
}

/// Narrower parts of the whole, in percent, are never drawn: half a pixel of 1,200. A run with 50,000 different stacks stays small enough
/// for a browser.
const NARROWEST: f64 = 0.05;
/// Parts as wide as this are drawn however few samples there are.
const WIDE_ENOUGH: f64 = 0.25;

/// Writes the flame graph as SVG.
///
/// # Errors
/// When the writer refuses, and when there is no energy to draw.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &FlameOptions) -> Result<(), ReportError> {
    let profile = &*short_names::chosen(profile, options.short_names);
    let profile = &*native_frames::folded(profile, options.native_frames);
    let domain = run::or_headline(options.domain, profile);
    let per = options.per.unwrap_or_else(|| roots(profile, domain));
    let selection = Selection { domain, per, rest: options.rest, by_callee: options.by_callee };
    let folded = Folded::new(profile, &selection, told_apart(profile, frame_name));
    if folded.lines.is_empty() {
        let measured = run::ledger_of(profile, domain).next().is_some();
        return Err(ReportError::NoEnergy { domain, measured });
    }
    let picture = picture(profile, &folded, options.flip)?;
    let page = Page {
        lines: &folded.lines,
        axis: axis(profile, &folded, domain),
        header: Header::new(profile, &folded, domain, options.rest),
        flip: options.flip,
    };
    let mut buffered = std::io::BufWriter::new(out);
    page.write(&picture, &mut buffered)?;
    buffered.flush()?;
    Ok(())
}

/// Processes where programs of several names spent energy; one program needs no such row.
fn roots(profile: &Profile, domain: DomainChoice) -> Per {
    let spent = profile.rows.iter().filter(|row| run::chosen(&row.energy, domain).as_uj() > 0);
    let thread = |row: &energy_trace_model::profile::ProfileRow| {
        profile.threads.get(row.on_behalf_of.unwrap_or(row.thread).index())
    };
    let programs =
        spent.filter_map(thread).filter_map(|thread| profile.processes.get(thread.process.index()));
    let names: BTreeSet<&str> = programs.map(|process| &*process.name).fill_set();
    if names.len() > 1 { Per::Process } else { Per::None }
}

fn picture(profile: &Profile, folded: &Folded<'_>, flip: bool) -> Result<String, ReportError> {
    let drawing = Drawing { note: folded.note().unwrap_or_default(), narrowest: narrowest(profile), flip };
    let text = |line: &Line<'_>| format!("{} {}", line.stack(), line.energy.as_uj());
    // The lines are sorted by frame.
    let lines: Vec<String> = folded.lines.iter().rev().map(text).collect();
    one_side(drawing, &lines)
}

/// What is known of each stretch of the picture.
fn axis<'a>(profile: &'a Profile, folded: &'a Folded<'_>, domain: DomainChoice) -> Axis<'a> {
    let estimated = run::quality(profile, domain) == Some(Quality::Estimated);
    let word = if estimated { " estimated" } else { "" };
    let lines = folded.lines.iter();
    let weights = lines.map(|line| (line.energy.as_uj().unsigned_abs(), line.time_ns, line.timed));
    let uncertainty = move |lines: std::ops::Range<usize>| {
        let lines = folded.lines.get(lines).unwrap_or_default();
        let rows: Vec<usize> = lines.iter().flat_map(|line| line.rows.iter().copied()).collect();
        tooltip(profile, domain, &rows)
    };
    Axis::new(weights, profile.run.duration_ns(), word).with_uncertainty(uncertainty)
}

/// What a stack is worth that was seen once says little, and a deep one makes the picture tall: drawn is what is worth one and a half
/// samples, in percent of the whole.
#[expect(clippy::cast_precision_loss, reason = "a width on the screen")]
fn narrowest(profile: &Profile) -> f64 {
    let samples: u64 = profile.rows.iter().map(|row| row.samples).sum();
    (150.0 / samples.max(1) as f64).clamp(NARROWEST, WIDE_ENOUGH)
}
