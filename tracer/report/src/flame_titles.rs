//! Rewrites the tooltips of a drawn flame graph: joules, share, average watts and seconds in place of a bare count.
//!
//! inferno writes `name (1,234 µJ, 5.67%)` and offers one fixed text a function name (`nameattr`), not one a place in the graph. But it
//! also writes each rectangle's place on the axis, `fg:x` and `fg:w`, in units of weight. The lines below a rectangle are exactly those
//! whose weights fill that place, so their CPU time is a difference of two running sums. Reads nothing else of the picture. The form
//! `name (…)` with one pair of round brackets at the end stays, because the graph's script cuts the name out of it.

use super::ReportError;
use super::table_cells::watts;
use energy_trace_model::units::MicroJoules;
use quick_xml::events::{BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};
use std::io::Write;

/// CPU time in nanoseconds, and the energy that was spent in it: a GPU's is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spent {
    time_ns: u64,
    energy: MicroJoules,
}

/// Running sums over the drawn lines, to look up what lies between two places of the axis.
pub(crate) struct Axis<'a> {
    /// Where each line begins, and the CPU time of all lines before it with what was spent in it.
    marks: Vec<(u64, Spent)>,
    /// Length of the axis.
    end: u64,
    /// The time that the bottom rectangle is said to last: the recording's, because it holds the idle energy too.
    duration_ns: u64,
    /// Put behind each energy: ` estimated`, or nothing.
    word: &'static str,
    /// How sure the energy of a range of lines is, as it stands in the tooltip.
    uncertainty: Box<dyn Fn(std::ops::Range<usize>) -> String + 'a>,
}

impl<'a> Axis<'a> {
    /// `lines`: weight, CPU time and the energy spent in it of each drawn line, in the order in which they are drawn.
    pub(crate) fn new(
        lines: impl Iterator<Item = (u64, u64, MicroJoules)>,
        duration_ns: u64,
        word: &'static str,
    ) -> Self {
        let (mut end, mut spent) = (0_u64, Spent::default());
        let mut marks = Vec::new();
        for (weight, time_ns, energy) in lines {
            marks.push((end, spent));
            end = end.saturating_add(weight);
            spent.time_ns = spent.time_ns.saturating_add(time_ns);
            spent.energy += energy;
        }
        marks.push((end, spent));
        Self { marks, end, duration_ns, word, uncertainty: Box::new(|_| String::new()) }
    }

    /// With words on how sure the energy of a range of lines is.
    pub(crate) fn with_uncertainty(mut self, words: impl Fn(std::ops::Range<usize>) -> String + 'a) -> Self {
        self.uncertainty = Box::new(words);
        self
    }

    /// The lines that begin between two places.
    fn lines(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let from = |place| self.marks.partition_point(|&(start, _)| start < place);
        from(start)..from(end).min(self.marks.len().saturating_sub(1))
    }

    fn spent_before(&self, place: u64) -> Spent {
        let after = self.marks.partition_point(|&(start, _)| start < place);
        self.marks.get(after).or(self.marks.last()).map_or(Spent::default(), |&(_, spent)| spent)
    }

    /// The new tooltip of a rectangle.
    #[expect(clippy::cast_precision_loss, reason = "for showing")]
    fn title(&self, name: &str, start: u64, width: u64, is_root: bool) -> String {
        let energy = MicroJoules::from_uj(i64::try_from(width).unwrap_or(i64::MAX));
        let (before, after) = (self.spent_before(start), self.spent_before(start.saturating_add(width)));
        let between = Spent {
            time_ns: after.time_ns.saturating_sub(before.time_ns),
            energy: after.energy - before.energy,
        };
        let spent = if is_root { Spent { time_ns: self.duration_ns, energy } } else { between };
        let share = 100.0 * width as f64 / self.end.max(1) as f64;
        let seconds = spent.time_ns as f64 / 1e9;
        let sure = (self.uncertainty)(self.lines(start, start.saturating_add(width)));
        format!(
            "{name} ({energy}{}{sure}, {share:.2} %, {}, {seconds:.3} s)",
            self.word,
            power(energy, spent)
        )
    }
}

/// The average watts of what was spent in CPU time, and whose they are where that is not all.
fn power(all: MicroJoules, spent: Spent) -> String {
    match spent.energy {
        MicroJoules::ZERO if all != MicroJoules::ZERO => "- W".to_owned(),
        energy if energy == all => format!("{} W", watts(energy, spent.time_ns)),
        energy => format!("CPU {} W", watts(energy, spent.time_ns)),
    }
}

/// A rectangle's group as it is read: the old tooltip, and what has to wait until the place is known.
#[derive(Default)]
struct Pending<'a> {
    title: Option<String>,
    held: Vec<Event<'a>>,
}

/// Copies the picture from `svg` to `out`, with new tooltips.
pub(crate) fn rewrite(svg: &str, out: impl Write, axis: &Axis<'_>) -> Result<(), ReportError> {
    let mut reader = Reader::from_str(svg);
    let mut writer = Writer::new(out);
    let mut pending = Pending::default();
    let mut in_title = false;
    let mut root_seen = false;
    loop {
        let event = reader.read_event().map_err(|error| ReportError::Svg(error.to_string()))?;
        match event {
            Event::Eof => break,
            Event::Start(start) if start.name().as_ref() == b"title" => {
                in_title = true;
                pending.title = Some(String::new());
            }
            Event::End(end) if end.name().as_ref() == b"title" => in_title = false,
            Event::Text(text) if in_title => pending.add(&String::from_utf8_lossy(&text)),
            Event::GeneralRef(reference) if in_title => {
                pending.add(&format!("&{};", String::from_utf8_lossy(&reference)));
            }
            Event::Empty(rect) if pending.title.is_some() => {
                let (start, width) = place(&rect)?;
                let is_root = !root_seen && start == 0 && width == axis.end;
                root_seen |= is_root;
                let title = pending.title.take().unwrap_or_default();
                let name = title.rsplit_once(" (").map_or(title.as_str(), |(name, _)| name);
                write_title(&mut writer, &axis.title(name, start, width, is_root))?;
                for held in pending.held.drain(..) {
                    writer.write_event(held)?;
                }
                writer.write_event(Event::Empty(rect))?;
            }
            other if pending.title.is_some() => pending.held.push(other),
            other => writer.write_event(other)?,
        }
    }
    Ok(())
}

impl Pending<'_> {
    fn add(&mut self, text: &str) {
        if let Some(title) = &mut self.title {
            title.push_str(text);
        }
    }
}

/// The text is still escaped as it was read, so it is written as it is.
fn write_title(writer: &mut Writer<impl Write>, text: &str) -> Result<(), ReportError> {
    let title = BytesStart::new("title");
    let end = title.to_end().into_owned();
    writer.write_event(Event::Start(title.borrow()))?;
    writer.write_event(Event::Text(BytesText::from_escaped(text)))?;
    writer.write_event(Event::End(end))?;
    Ok(())
}

/// Where a rectangle begins and how wide it is, in units of weight.
fn place(rect: &BytesStart<'_>) -> Result<(u64, u64), ReportError> {
    let number = |name: &str| {
        let attribute = rect.try_get_attribute(name).ok().flatten();
        let value = attribute.and_then(|attribute| String::from_utf8_lossy(&attribute.value).parse().ok());
        value.ok_or_else(|| ReportError::Svg(format!("a rectangle has no number in `{name}`")))
    };
    Ok((number("fg:x")?, number("fg:w")?))
}

#[cfg(test)]
mod tests {
    use super::{Axis, MicroJoules, rewrite};

    fn rewritten(body: &str, axis: &Axis<'_>) -> String {
        let mut out = Vec::new();
        rewrite(&format!("<svg>{body}</svg>"), &mut out, axis).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// A line of CPUs alone.
    fn of_cpus((weight, time_ns): (u64, u64)) -> (u64, u64, MicroJoules) {
        (weight, time_ns, MicroJoules::from_uj(i64::try_from(weight).unwrap()))
    }

    /// A GPU's joules make no watts with the CPU time of who launched: a caller shows its own, a kernel none.
    #[test]
    fn joules_of_gpus_are_no_watts() {
        let lines =
            [(6_000_000, 0, MicroJoules::ZERO), (1_000_000, 500_000_000, MicroJoules::from_uj(1_000_000))];
        let axis = Axis::new(lines.into_iter(), 4_000_000_000, "");
        let rect = |name: &str, start: u64, width: u64| {
            format!("<g><title>{name} (1)</title><rect fg:x=\"{start}\" fg:w=\"{width}\"/></g>")
        };
        let all =
            [rect("all", 0, 7_000_000), rect("main", 0, 7_000_000), rect("gemm", 0, 6_000_000)].concat();
        let text = rewritten(&all, &axis);
        assert!(text.contains("all (7.000 J, 100.00 %, 1.8 W, 4.000 s)"), "{text}");
        assert!(text.contains("main (7.000 J, 100.00 %, CPU 2.0 W, 0.500 s)"), "{text}");
        assert!(text.contains("gemm (6.000 J, 85.71 %, - W, 0.000 s)"), "{text}");
    }

    /// A rectangle over the second and third line has their time; the name keeps its own brackets and escapes.
    #[test]
    fn tooltips_have_the_time_of_their_lines() {
        let lines = [(1_000_000, 250_000_000), (2_000_000, 500_000_000), (1_000_000, 500_000_000)];
        let axis = Axis::new(lines.into_iter().map(of_cpus), 4_000_000_000, " estimated");
        let old = "<g><title>f&lt;int&gt;(x) (3,000,000 µJ, 75.00%)</title><rect fg:x=\"1000000\" fg:w=\"3000000\"/></g>";
        let new = "<title>f&lt;int&gt;(x) (3.000 J estimated, 75.00 %, 3.0 W, 1.000 s)</title>";
        assert!(rewritten(old, &axis).contains(new), "{}", rewritten(old, &axis));
    }

    /// The first rectangle over the whole axis is the root, which lasts as long as the recording.
    #[test]
    fn the_root_lasts_as_long_as_the_recording() {
        let axis = Axis::new([(8_000_000, 1_000_000_000)].into_iter().map(of_cpus), 4_000_000_000, "");
        let rect = "<g><title>all (8,000,000 µJ, 100%)</title><rect fg:x=\"0\" fg:w=\"8000000\"/></g>";
        let text = rewritten(&rect.repeat(2), &axis);
        assert!(text.contains("all (8.000 J, 100.00 %, 2.0 W, 4.000 s)"), "{text}");
        assert!(text.contains("all (8.000 J, 100.00 %, 8.0 W, 1.000 s)"), "{text}");
    }

    /// A picture of another shape is an error, not a wrong number.
    #[test]
    fn unknown_shapes_are_refused() {
        let axis = Axis::new([(1, 1)].into_iter().map(of_cpus), 1, "");
        let old = "<svg><g><title>f (1)</title><rect x=\"0\"/></g></svg>";
        assert!(rewrite(old, Vec::new(), &axis).is_err());
    }
}
