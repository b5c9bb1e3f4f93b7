//! The flame graph: width is energy.
//!
//! The only file that names inferno, which draws folded stacks. What it is told beyond them: colours by kind of code (its palette map),
//! title and legend. Tooltips are made afterwards (`flame_titles.rs`). Leaves out energy below zero, as `folded.rs` says; a note in the
//! picture counts it.

use super::flame_colors::{LEGEND, color};
use super::flame_titles::{Axis, rewrite};
use super::folded::{Folded, Line};
use super::shown::shown;
use super::uncertainty::tooltip;
use super::{DomainChoice, ReportError, run, short_names};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Quality;
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection, from_lines};
use std::io::Write;

/// What is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlameOptions {
    /// The energy that widths are of.
    pub domain: DomainChoice,
    /// Roots at the top.
    pub inverted: bool,
    /// Without the arguments of templates.
    pub short_names: bool,
}

/// Narrower parts of the whole, in percent, are never drawn: half a pixel of 1,200. A run with 50,000 different stacks stays small enough
/// for a browser.
const NARROWEST: f64 = 0.05;
/// Parts as wide as this are drawn however few samples there are.
const WIDE_ENOUGH: f64 = 0.25;
/// Characters of the command that the second line has room for beside the legend.
const COMMAND_ROOM: usize = 60;

/// Writes the flame graph as SVG.
///
/// # Errors
/// When the writer refuses, and when there is no energy to draw.
pub fn write(out: &mut dyn Write, profile: &Profile, options: &FlameOptions) -> Result<(), ReportError> {
    let profile = &*short_names::chosen(profile, options.short_names);
    // A machine that has psys alone has no total to draw.
    let domain = if options.domain == DomainChoice::Total { run::headline(profile) } else { options.domain };
    let folded = Folded::new(profile, domain);
    if folded.lines.is_empty() {
        let measured = run::ledger_of(profile, domain).next().is_some();
        return Err(ReportError::NoEnergy { domain, measured });
    }
    let estimated = run::quality(profile, domain) == Some(Quality::Estimated);
    let word = if estimated { " estimated" } else { "" };
    let mut palette = palette(&folded.lines);
    let mut drawing = Options::default();
    drawing.title = title(profile, &folded, domain);
    drawing.subtitle = Some(subtitle(profile));
    drawing.count_name = "µJ".to_owned();
    drawing.notes = folded.note().unwrap_or_default();
    drawing.min_width = narrowest(profile);
    drawing.palette_map = Some(&mut palette);
    drawing.bgcolors = Some(BackgroundColor::Flat(Color { r: 255, g: 255, b: 255 }));
    drawing.direction = if options.inverted { Direction::Inverted } else { Direction::Straight };
    drawing.text_truncate_direction = TextTruncateDirection::Right;
    // The lines are sorted by frame. inferno checks the order of whole lines as bytes, in which `a;b` comes after `a!`, except for
    // charts in time order, which it reads from the last line to the first.
    drawing.flame_chart = true;
    let lines: Vec<String> =
        folded.lines.iter().rev().map(|line| format!("{} {}", line.stack(), line.energy.as_uj())).collect();
    let mut svg = Vec::new();
    from_lines(&mut drawing, lines.iter().map(String::as_str), &mut svg)?;
    let svg = String::from_utf8(svg).map_err(|error| ReportError::Svg(error.to_string()))?;
    let weights =
        folded.lines.iter().map(|line| (line.energy.as_uj().unsigned_abs(), line.time_ns, line.timed));
    let uncertainty = |lines: std::ops::Range<usize>| {
        let lines = folded.lines.get(lines).unwrap_or_default();
        let rows: Vec<usize> = lines.iter().flat_map(|line| line.rows.iter().copied()).collect();
        tooltip(profile, domain, &rows)
    };
    let axis = Axis::new(weights, profile.run.duration_ns(), word).with_uncertainty(uncertainty);
    let mut buffered = std::io::BufWriter::new(out);
    rewrite(&svg, &mut buffered, &axis)?;
    buffered.flush()?;
    Ok(())
}

fn title(profile: &Profile, folded: &Folded<'_>, domain: DomainChoice) -> String {
    let quality = run::quality(profile, domain).map_or("", run::quality_word);
    let what = match domain {
        DomainChoice::Total => "package, DRAM and GPU".to_owned(),
        DomainChoice::Class(class) => class.name().to_owned(),
    };
    #[expect(clippy::cast_precision_loss, reason = "for showing")]
    let seconds = profile.run.duration_ns() as f64 / 1e9;
    let note = folded.note().map(|_| ", parts below zero left out").unwrap_or_default();
    format!("Joules ({what}; {quality}): {} in {seconds:.1} s{note}", folded.drawn())
}

/// What a stack is worth that was seen once says little, and a deep one makes the picture tall: drawn is what is worth one and a half
/// samples, in percent of the whole.
#[expect(clippy::cast_precision_loss, reason = "a width on the screen")]
fn narrowest(profile: &Profile) -> f64 {
    let samples: u64 = profile.rows.iter().map(|row| row.samples).sum();
    (150.0 / samples.max(1) as f64).clamp(NARROWEST, WIDE_ENOUGH)
}

fn subtitle(profile: &Profile) -> String {
    let command = profile.run.header.command.join(" ");
    let command = super::names::shorten(&shown(&command), COMMAND_ROOM);
    if command.is_empty() { LEGEND.to_owned() } else { format!("{command}   ({LEGEND})") }
}

/// A colour for each name. Where two kinds share a name, the first kind has it.
fn palette(lines: &[Line<'_>]) -> PaletteMap {
    let mut palette = PaletteMap::default();
    // The bottom rectangle has no name.
    palette.insert("", Color { r: 224, g: 228, b: 234 });
    for (kind, name) in lines.iter().flat_map(|line| &line.labels) {
        if palette.get(name).is_none() {
            let [r, g, b] = color(*kind, name);
            palette.insert(name, Color { r, g, b });
        }
    }
    palette
}
