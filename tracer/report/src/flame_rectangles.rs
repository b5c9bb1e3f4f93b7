//! The rectangles of folded stacks, of one side or of two: the only file that names inferno, which places them.
//!
//! Leaves out which stacks there are (`flamegraph.rs`, `diff_flame.rs`) and what is written in and above them (`flame_page.rs`).

use super::ReportError;
use super::flame_page::{FONT_SIZE, ROW};
use inferno::flamegraph::{Direction, Options, from_lines};
use std::io::Write;

/// How one side is drawn.
pub(crate) struct Drawing {
    /// What a note below the picture says.
    pub(crate) note: String,
    /// Narrower parts, in percent of the whole, are left out.
    pub(crate) narrowest: f64,
    /// The root at the bottom.
    pub(crate) flip: bool,
}

/// The picture of `lines`, each a stack and its weight, sorted by frame from the last to the first.
///
/// # Errors
/// When inferno refuses the lines, and when what it wrote is no text.
pub(crate) fn one_side(drawing: Drawing, lines: &[String]) -> Result<String, ReportError> {
    let mut options = Options::default();
    options.notes = drawing.note;
    options.min_width = drawing.narrowest;
    options.font_size = FONT_SIZE;
    options.frame_height = ROW;
    options.name_type = String::new();
    options.direction = if drawing.flip { Direction::Straight } else { Direction::Inverted };
    // inferno checks the order of whole lines as bytes, in which `a;b` comes after `a!`, except for charts in time order, which it reads
    // from the last line to the first.
    options.flame_chart = true;
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)?;
    String::from_utf8(svg).map_err(|error| ReportError::Svg(error.to_string()))
}

/// Writes the picture of `lines`, each a stack, its weight on the first side and on the second: widths are the second's.
///
/// # Errors
/// When inferno refuses the lines, and when the writer does.
pub(crate) fn two_sides(
    out: &mut dyn Write,
    title: String,
    subtitle: String,
    lines: &[String],
) -> Result<(), ReportError> {
    let mut options = Options::default();
    options.title = title;
    options.subtitle = Some(subtitle);
    options.count_name = "µJ".to_owned();
    options.direction = Direction::Inverted;
    Ok(from_lines(&mut options, lines.iter().map(String::as_str), out)?)
}
