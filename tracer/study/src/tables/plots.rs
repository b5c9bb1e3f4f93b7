//! The pictures of a study's page, as SVG: every run of each program, and growth with a size. Leaves out the page.

use super::numbers::{self, digits};
use crate::data::{Block, Study, Sweep};
use energy_trace_statistics::location::quantile;
use quick_xml::escape::escape;
use std::fmt::Write as _;

/// Left of the plot, for labels.
const LABELS: f64 = 190.0;
const WIDTH: f64 = 760.0;
/// Of one program.
const ROW: f64 = 30.0;
/// Below the rows, for the scale.
const AXIS: f64 = 26.0;
/// Height of a plot of growth.
const HEIGHT: f64 = 260.0;
/// Steps of a scale, at the most.
const TICKS: f64 = 6.0;

/// A scale of numbers on so many pixels, which begins at zero or below.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let low = values.clone().fold(0.0, f64::min);
        let high = values.fold(low, f64::max);
        Self { low, high: if high > low { high } else { low + 1.0 }, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Round numbers on it.
    fn ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / TICKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|of| of * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil();
        let numbers = (0..=20).map(|at| (first + f64::from(at)) * step);
        numbers.take_while(|value| *value <= self.high * 1.000_001).collect()
    }
}

fn text(out: &mut String, class: &str, x: f64, y: f64, words: &str) {
    // Writing into a string cannot fail.
    let _ = write!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(words));
}

fn line(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ =
        write!(out, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

fn dot(out: &mut String, x: f64, y: f64, words: &str) {
    let _ =
        write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}</title></circle>", escape(words));
}

fn open(width: f64, height: f64, name: &str) -> String {
    format!("<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{}\">", escape(name))
}

/// Every run of each program as a dot, with quartiles and median.
pub(super) fn runs(study: &Study, block: &Block, (name, unit): (&str, &numbers::Scale)) -> String {
    let height = ROW * block.cells.len() as f64 + AXIS;
    let mut out = open(WIDTH, height, name);
    let values = block.cells.iter().flat_map(|cell| cell.values.iter().copied());
    let scale = Scale::new(values, LABELS, WIDTH - 20.0);
    for tick in scale.ticks() {
        let x = scale.at(tick);
        line(&mut out, "grid", (x, 0.0), (x, height - AXIS));
        text(&mut out, "tick", x, height - 8.0, &unit.show(tick));
    }
    for (at, cell) in block.cells.iter().enumerate() {
        let middle = ROW * (at as f64 + 0.5);
        let label = study.programs.get(cell.program).map_or("", |program| &program.label);
        text(&mut out, "label", LABELS - 10.0, middle + 4.0, &energy_trace_names::shorten(label, 26));
        if cell.values.is_empty() {
            continue;
        }
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| scale.at(quantile(&cell.values, share)));
        let width = (high - low).max(1.0);
        let top = middle - ROW * 0.3;
        let _ = write!(
            out,
            "<rect x=\"{low:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
            ROW * 0.6
        );
        line(&mut out, "median", (median, top), (median, middle + ROW * 0.3));
        for (run, value) in cell.values.iter().enumerate() {
            // Dots of like values lie beside each other.
            let away = (run % 5) as f64 - 2.0;
            dot(
                &mut out,
                scale.at(*value),
                middle + away * ROW * 0.1,
                &format!("{label}: {}", unit.show(*value)),
            );
        }
    }
    out.push_str("</svg>");
    out
}

/// Every run of each size as a dot, and the line.
pub(super) fn growth(sweep: &Sweep, against: &str, name: &str) -> String {
    let mut out = open(WIDTH, HEIGHT, name);
    let sizes = sweep.points.iter().map(|point| point.size);
    let across = Scale::new(sizes.clone(), 70.0, WIDTH - 30.0);
    let values = sweep.points.iter().flat_map(|point| point.values.iter().copied());
    let up = Scale::new(values, HEIGHT - 40.0, 10.0);
    for tick in up.ticks() {
        line(&mut out, "grid", (70.0, up.at(tick)), (WIDTH - 30.0, up.at(tick)));
        text(&mut out, "label", 62.0, up.at(tick) + 4.0, &digits(tick));
    }
    for tick in across.ticks() {
        text(&mut out, "tick", across.at(tick), HEIGHT - 24.0, &digits(tick));
    }
    text(&mut out, "tick", WIDTH / 2.0, HEIGHT - 6.0, against);
    let (fixed, each) = (sweep.found.fixed.value, sweep.found.each.value);
    let end = |size: f64| (across.at(size), up.at(fixed + each * size));
    let largest = sizes.fold(0.0, f64::max);
    line(&mut out, "fit", end(0.0), end(largest));
    for point in &sweep.points {
        for value in &point.values {
            let words = format!("{}: {}", digits(point.size), digits(*value));
            dot(&mut out, across.at(point.size), up.at(*value), &words);
        }
    }
    out.push_str("</svg>");
    out
}
