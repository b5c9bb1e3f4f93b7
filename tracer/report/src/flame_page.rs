//! The finished picture: inferno's rectangles with names that fit, tooltips in joules, a header that stays in view, and a style sheet.
//!
//! inferno decides where each rectangle is, and its script zooms. It writes `name (1,234 µJ, 5.67%)` beside a rectangle's place on the axis,
//! `fg:x` and `fg:w`, in units of weight, and its row: that is enough to know which frame of which line it is, and all else is written
//! anew, every text escaped. Reads nothing else of the picture; what is not as expected is an error, never a wrong number.

use super::ReportError;
use super::flame_colors::{Hue, color, css, hue};
use super::flame_header::Header;
use super::flame_names::{fitting, short};
use super::flame_titles::Axis;
use super::folded::{LabelKind, Line};
use quick_xml::events::{BytesCData, BytesEnd, BytesStart, BytesText, Event};
use quick_xml::{Reader, Writer};
use std::collections::BTreeSet;
use std::io::Write;

/// The picture's font, in pixels, as inferno is told.
pub(crate) const FONT_SIZE: usize = 12;
/// A row of frames, in pixels, as inferno is told.
pub(crate) const ROW: usize = 16;
/// Width of a character, in parts of the font's size.
const CHARACTER: f64 = 0.6;
/// Width of the picture before its script fits it into the window, in pixels, and what is left free on each side.
const WIDTH: usize = 1200;
const MARGIN: usize = 10;
/// Height of the header.
const HEADER: usize = 84;
/// Baselines of its four lines.
const LINES: [usize; 4] = [20, 38, 56, 75];

/// Characters of a line above the frames that fit beside the buttons, before the script fits them into the window.
const HEADLINE: usize = 128;
/// What the details say until there are any.
const HINT: &str = "Point at a frame for its joules; click: zoom; Ctrl-F: search";

const STYLE: &str = include_str!("../data/flame.css");
const SCRIPT: &str = include_str!("../data/flame.js");

/// What inferno's picture becomes.
pub(crate) struct Page<'a> {
    /// The lines that were drawn, in their order.
    pub(crate) lines: &'a [Line<'a>],
    pub(crate) axis: Axis<'a>,
    pub(crate) header: Header,
    /// Whether flames go upwards.
    pub(crate) flip: bool,
}

impl Page<'_> {
    /// Copies the picture from `svg` to `out`.
    ///
    /// # Errors
    /// When it has another shape than inferno's, and when the writer refuses.
    pub(crate) fn write(&self, svg: &str, out: impl Write) -> Result<(), ReportError> {
        let mut reader = Reader::from_str(svg);
        let mut copy =
            Copy { page: self, writer: Writer::new(out), height: 0, part: Part::Head, hues: BTreeSet::new() };
        loop {
            match reader.read_event().map_err(|error| ReportError::Svg(error.to_string()))? {
                Event::Eof => return Ok(()),
                event => copy.event(event)?,
            }
        }
    }

    /// How much lower frames are than inferno put them: it leaves four lines and a bit of room above them, or three.
    const fn shift(&self) -> usize {
        HEADER - if self.flip { 3 * FONT_SIZE } else { 4 * FONT_SIZE + 4 }
    }

    /// The row of a rectangle, 0 for the root's, from its upper edge in a picture of this height.
    const fn row(&self, top: usize, height: usize) -> Option<usize> {
        let below = 2 * FONT_SIZE + 10 + ROW;
        let distance = if self.flip {
            (height + 1).checked_sub(below + top)
        } else {
            top.checked_sub(4 * FONT_SIZE + 4)
        };
        match distance {
            Some(distance) if distance.is_multiple_of(ROW) => Some(distance / ROW),
            _ => None,
        }
    }

    /// The frame of a rectangle.
    fn label(&self, row: usize, start: u64, width: u64) -> Option<(LabelKind, &str)> {
        let Some(depth) = row.checked_sub(1) else { return Some((LabelKind::Holder, self.header.whole)) };
        let line = self.lines.get(self.axis.lines(start, start.saturating_add(width)).start)?;
        line.labels.get(depth).map(|(kind, name)| (*kind, name.as_ref()))
    }

    /// Characters that fit into a rectangle.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "for showing"
    )]
    fn room(&self, width: u64) -> usize {
        let pixels = (WIDTH - 2 * MARGIN) as f64 * width as f64 / self.axis.end().max(1) as f64;
        ((pixels - 6.0) / (CHARACTER * FONT_SIZE as f64)).max(0.0) as usize
    }
}

/// Where in the picture the copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Before the frames: only the script is kept.
    Head,
    Script,
    /// Between the groups of rectangles.
    Frames,
    /// In a group, before its rectangle.
    Group,
    /// In a group, behind its rectangle, with the text that fits into it.
    Rectangle(String),
    /// In the old text of a rectangle.
    Text,
    /// Behind the frames.
    Tail,
}

struct Copy<'a, W> {
    page: &'a Page<'a>,
    writer: Writer<W>,
    height: usize,
    part: Part,
    /// The hues that were drawn, for the legend.
    hues: BTreeSet<Hue>,
}

impl<W: Write> Copy<'_, W> {
    fn event(&mut self, event: Event<'_>) -> Result<(), ReportError> {
        match (&self.part, event) {
            (Part::Head, Event::Start(start)) => return self.head(&start),
            (Part::Head, event @ (Event::Decl(_) | Event::DocType(_) | Event::Comment(_))) => {
                self.write(event)?;
            }
            (Part::Head, _) => {}
            (Part::Script, event) => {
                let ends = matches!(event, Event::End(_));
                self.write(event)?;
                if ends {
                    self.script()?;
                    self.part = Part::Head;
                }
            }
            (Part::Frames, Event::Start(start)) if start.name().as_ref() == b"g" => self.part = Part::Group,
            (Part::Frames, end @ Event::End(_)) => {
                self.write(end)?;
                self.header()?;
                self.part = Part::Tail;
            }
            (Part::Group, Event::Empty(rect)) => self.part = Part::Rectangle(self.rectangle(&rect)?),
            (Part::Group, _) => {}
            (Part::Rectangle(text), Event::Start(start)) => {
                let text = text.clone();
                self.write(Event::Start(start))?;
                self.write(Event::Text(BytesText::new(&text)))?;
                self.part = Part::Text;
            }
            (Part::Text, end @ Event::End(_)) => {
                self.write(end)?;
                self.part = Part::Rectangle(String::new());
            }
            (Part::Text, _) => {}
            (Part::Rectangle(_), end @ Event::End(_)) => {
                self.write(end)?;
                self.part = Part::Frames;
            }
            (Part::Tail, end @ Event::End(_)) => self.write(end)?,
            (Part::Frames | Part::Rectangle(_) | Part::Tail, _) => return Err(unknown("an element")),
        }
        Ok(())
    }

    fn write(&mut self, event: Event<'_>) -> Result<(), ReportError> {
        Ok(self.writer.write_event(event)?)
    }

    /// An element before the frames: the picture itself, its script, or the frames.
    fn head(&mut self, start: &BytesStart<'_>) -> Result<(), ReportError> {
        match start.name().as_ref() {
            b"svg" if attribute(start, "id").is_some() => {
                self.empty("rect", &[("class", "paper"), ("width", "100%"), ("height", "100%")])?;
                let shift = self.page.shift().to_string();
                let frames = start.clone().with_attributes([("y", &*shift)]);
                self.write(Event::Start(frames))?;
                self.part = Part::Frames;
            }
            b"svg" => self.picture(start)?,
            b"script" => {
                self.write(Event::Start(start.borrow()))?;
                self.part = Part::Script;
            }
            _ => {}
        }
        Ok(())
    }

    /// The outermost element, with room for the header, and the style sheet.
    fn picture(&mut self, start: &BytesStart<'_>) -> Result<(), ReportError> {
        self.height = number(start, "height")?;
        let height = (self.height + self.page.shift()).to_string();
        let mut picture = BytesStart::new("svg");
        for attribute in start.attributes().flatten() {
            match attribute.key.as_ref() {
                b"height" => picture.push_attribute(("height", &*height)),
                b"viewBox" => picture.push_attribute(("viewBox", &*format!("0 0 {WIDTH} {height}"))),
                _ => picture.push_attribute(attribute),
            }
        }
        self.write(Event::Start(picture))?;
        self.element("style", &[("type", "text/css")], STYLE)
    }

    fn script(&mut self) -> Result<(), ReportError> {
        self.write(Event::Start(BytesStart::new("script").with_attributes([("type", "text/ecmascript")])))?;
        self.write(Event::CData(BytesCData::new(SCRIPT)))?;
        self.write(Event::End(BytesEnd::new("script")))
    }

    /// Writes the beginning of a rectangle's group, and returns the text that fits into it.
    fn rectangle(&mut self, rect: &BytesStart<'_>) -> Result<String, ReportError> {
        let (start, width): (u64, u64) = (number(rect, "fg:x")?, number(rect, "fg:w")?);
        let row = self.page.row(number(rect, "y")?, self.height).ok_or_else(|| unknown("a row"))?;
        let (kind, name) = self.page.label(row, start, width).ok_or_else(|| unknown("a rectangle"))?;
        let hue = hue(kind);
        self.hues.insert(hue);
        let mut group = BytesStart::new("g").with_attributes([("class", hue.class())]);
        let short = short(kind, name);
        if short != name {
            group.push_attribute(("fg:short", &*short));
        }
        self.write(Event::Start(group))?;
        self.element("title", &[], &self.page.axis.title(name, start, width, row == 0))?;
        let fill = css(color(hue, name));
        let mut rectangle = BytesStart::new("rect");
        for attribute in rect.attributes().flatten() {
            match attribute.key.as_ref() {
                b"fill" => rectangle.push_attribute(("fill", &*fill)),
                _ => rectangle.push_attribute(attribute),
            }
        }
        self.write(Event::Empty(rectangle))?;
        Ok(fitting(kind, name, self.page.room(width)))
    }

    /// The header is written last, so that it lies above frames that are scrolled below it.
    fn header(&mut self) -> Result<(), ReportError> {
        let page = self.page;
        self.write(Event::Start(BytesStart::new("g").with_attributes([("id", "header")])))?;
        let height = HEADER.to_string();
        self.empty("rect", &[("class", "paper"), ("width", "100%"), ("height", &height)])?;
        self.fitted("title", 0, &page.header.title)?;
        self.fitted("subtitle", 1, &page.header.ledger)?;
        self.legend()?;
        self.text("details", MARGIN, 3, &[], HINT)?;
        let right = WIDTH - MARGIN;
        self.text("search", right, 0, &[], "Search")?;
        self.text("unzoom", right, 1, &[("class", "hide")], "Reset zoom")?;
        self.text("matched", right, 2, &[("fg:of", page.header.share_of)], " ")?;
        self.write(Event::End(BytesEnd::new("g")))
    }

    /// A line that the script cuts where the window ends, and its whole as tooltip.
    fn fitted(&mut self, id: &str, line: usize, text: &str) -> Result<(), ReportError> {
        self.write(Event::Start(BytesStart::new("g").with_attributes([("class", "fitted")])))?;
        self.element("title", &[], text)?;
        self.text(id, MARGIN, line, &[], &cut(text, HEADLINE))?;
        self.write(Event::End(BytesEnd::new("g")))
    }

    fn legend(&mut self) -> Result<(), ReportError> {
        self.write(Event::Start(BytesStart::new("g").with_attributes([("id", "legend")])))?;
        let hues = std::mem::take(&mut self.hues);
        let words = hues.iter().filter_map(|hue| hue.word().map(|word| (*hue, word)));
        let (mut x, size) = (MARGIN, FONT_SIZE - 2);
        for (hue, word) in words {
            self.swatch(hue, x, size)?;
            let (left, y) = ((x + size + 4).to_string(), LINES[2].to_string());
            self.element("text", &[("x", &left), ("y", &y)], word)?;
            x += size + 20 + word.len() * 8;
        }
        self.write(Event::End(BytesEnd::new("g")))
    }

    fn swatch(&mut self, hue: Hue, x: usize, size: usize) -> Result<(), ReportError> {
        let (x, y, size) = (x.to_string(), (LINES[2] - size + 1).to_string(), size.to_string());
        self.empty(
            "rect",
            &[("x", &*x), ("y", &*y), ("width", &*size), ("height", &*size), ("fill", &*css(hue.sample()))],
        )
    }

    fn text(
        &mut self,
        id: &str,
        x: usize,
        line: usize,
        more: &[(&str, &str)],
        text: &str,
    ) -> Result<(), ReportError> {
        let (x, y) = (x.to_string(), LINES.get(line).copied().unwrap_or_default().to_string());
        let attributes: Vec<_> =
            [("id", id), ("x", &*x), ("y", &*y)].into_iter().chain(more.iter().copied()).collect();
        self.element("text", &attributes, text)
    }

    /// An element with nothing but text, which is escaped.
    fn element(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) -> Result<(), ReportError> {
        let start = BytesStart::new(name).with_attributes(attributes.iter().copied());
        self.write(Event::Start(start))?;
        self.write(Event::Text(BytesText::new(text)))?;
        self.write(Event::End(BytesEnd::new(name)))
    }

    fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) -> Result<(), ReportError> {
        self.write(Event::Empty(BytesStart::new(name).with_attributes(attributes.iter().copied())))
    }
}

/// As much of a text as so many characters hold.
fn cut(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        None => text.to_owned(),
        Some(_) => text.chars().take(room - 1).chain(['…']).collect(),
    }
}

fn unknown(what: &str) -> ReportError {
    ReportError::Svg(format!("{what} is not where it should be"))
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.try_get_attribute(name).ok().flatten()?;
    Some(String::from_utf8_lossy(&attribute.value).into_owned())
}

/// The number in an attribute.
fn number<T: std::str::FromStr>(element: &BytesStart<'_>, name: &str) -> Result<T, ReportError> {
    let value = attribute(element, name).and_then(|value| value.parse().ok());
    value.ok_or_else(|| ReportError::Svg(format!("an element has no number in `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::{Axis, Header, LabelKind, Line, Page};
    use energy_trace_model::recording::record::FrameKind;
    use energy_trace_model::units::MicroJoules;

    fn line(names: &[&'static str], uj: i64) -> Line<'static> {
        let label = |name: &&'static str| (LabelKind::Frame(FrameKind::Python), (*name).into());
        let energy = MicroJoules::from_uj(uj);
        Line { labels: names.iter().map(label).collect(), energy, time_ns: 0, timed: energy, rows: vec![] }
    }

    /// What becomes of some rectangles, in a picture of inferno's shape.
    fn rewritten(lines: &[Line<'_>], groups: &str) -> Result<String, super::ReportError> {
        rewritten_under(lines, groups, "5 J")
    }

    fn rewritten_under(lines: &[Line<'_>], groups: &str, title: &str) -> Result<String, super::ReportError> {
        let weights = lines.iter().map(|line| (line.energy.as_uj().unsigned_abs(), 0, line.timed));
        let header = Header { whole: "program", title: title.to_owned(), ..Header::default() };
        let page = Page { lines, axis: Axis::new(weights, 1, ""), header, flip: false };
        let svg = format!(
            "<svg height=\"200\" viewBox=\"0 0 1200 200\"><style>old</style><script>code</script><text id=\"title\">old</text>\
             <svg id=\"frames\" x=\"10\">{groups}</svg></svg>"
        );
        let mut out = Vec::new();
        page.write(&svg, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn group(x: u64, width: u64, y: usize) -> String {
        format!(
            "<g><title>any (1)</title><rect x=\"0%\" y=\"{y}\" fill=\"red\" fg:x=\"{x}\" fg:w=\"{width}\"/><text>old</text></g>"
        )
    }

    /// A rectangle is known by its place alone; header, style and names are new, and whatever they hold is text.
    #[test]
    fn places_have_names() {
        let lines = [line(&["f", "<script>"], 3_000_000), line(&["g"], 2_000_000)];
        let groups =
            [group(0, 5_000_000, 52), group(0, 3_000_000, 84), group(3_000_000, 2_000_000, 68)].concat();
        let svg = rewritten(&lines, &groups).unwrap();
        for part in [
            "<title>program (5.000 J",
            "<title>&lt;script&gt; (3.000 J, 60.00 %",
            "<title>g (2.000 J",
            ">5 J</text>",
            ">g</text>",
            ">Python</text>",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(
            !svg.contains(">old<") && !svg.contains("fill=\"red\"") && !svg.contains("native</text>"),
            "{svg}"
        );
    }

    /// A long command is cut in the picture, and whole in its tooltip.
    #[test]
    fn long_headlines_are_cut() {
        let whole = "ä".repeat(200);
        let svg = rewritten_under(&[line(&["f"], 5)], &group(0, 5, 52), &whole).unwrap();
        assert!(svg.contains(&format!("<title>{whole}</title>")), "{svg}");
        assert!(svg.contains(&format!(">{}…</text>", "ä".repeat(127))), "{svg}");
        assert_eq!(super::cut("äöü", 3), "äöü");
    }

    /// A picture of another shape is an error, not a wrong name.
    #[test]
    fn unknown_shapes_are_refused() {
        let lines = [line(&["f"], 5)];
        for groups in [
            group(0, 5, 53),
            group(0, 5, 84),
            group(9, 5, 68),
            "<g><rect/></g>".to_owned(),
            "<rect/>".to_owned(),
        ] {
            assert!(rewritten(&lines, &groups).is_err(), "{groups}");
        }
    }
}
