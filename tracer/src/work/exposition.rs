//! A metric in Prometheus's text format (version 0.0.4, and OpenMetrics as far as it is the same):
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.
//!
//! A line is `name{label="value",…} number`, and perhaps a time. Lines that are none are passed over: they
//! are other metrics' trouble. Where several lines are meant their numbers are added (`series.rs`). A page
//! comes in pieces, of which no more than a line is kept. Leaves out types, help, and names that need quotes.

use super::number::units;
use super::series::{MOST as MOST_SERIES, Series};
use energy_trace_model::collections::Order as _;
use energy_trace_model::recording::record::{WorkFailure, WorkUnits};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write};

/// Bytes of a line that are kept: a longer one is not read.
const MOST_LINE: usize = 64 << 10;

/// What is looked for on a page, which is written in piece by piece.
#[derive(Debug)]
pub(super) struct Search<'a> {
    metrics: &'a [Metric],
    found: Vec<Option<Found>>,
    line: Vec<u8>,
}

/// A metric's lines so far, or why there are none.
type Found = Result<Series, WorkFailure>;

impl<'a> Search<'a> {
    pub(super) fn new(metrics: &'a [Metric]) -> Self {
        Self { metrics, found: vec![None; metrics.len()], line: Vec::new() }
    }

    /// What each metric has, once the page is whole.
    pub(super) fn end(mut self) -> Vec<Found> {
        self.end_line();
        self.found.into_iter().map(|found| found.unwrap_or(Err(WorkFailure::NoMetric))).collect()
    }

    fn end_line(&mut self) {
        let is_wanted = self.metrics.iter().any(|metric| self.line.starts_with(metric.name.as_bytes()));
        if let Some(line) = is_wanted.then(|| Line::parse(&self.line)).flatten() {
            let sums = self.metrics.iter().zip(&mut self.found);
            sums.filter(|(metric, _)| metric.is_on(&line)).for_each(|(_, found)| line.add_to(found));
        }
        self.line.clear();
    }
}

impl Write for Search<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = MOST_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A metric, and labels that its lines must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    name: String,
    labels: Vec<(String, String)>,
}

impl Metric {
    /// As it is typed: `vllm:generation_tokens_total{model_name="x"}`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, labels, rest) = series(text.trim())?;
        rest.trim().is_empty().then(|| Self { name: name.to_owned(), labels })
    }

    fn is_on(&self, line: &Line<'_>) -> bool {
        let has_labels = |labels: &Labels| self.labels.iter().all(|wanted| labels.contains(wanted));
        line.name == self.name && line.labels.as_ref().is_none_or(has_labels)
    }
}

/// A line of a page.
struct Line<'a> {
    name: &'a str,
    /// `None` where it is too long to know.
    labels: Option<Labels>,
    number: Result<WorkUnits, WorkFailure>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        if line.len() >= MOST_LINE {
            let name = line.get(..line.iter().position(|byte| !is_in_name(char::from(*byte)))?)?;
            let number = Err(WorkFailure::TooLong { most: MOST_LINE as u64 });
            return Some(Self { name: std::str::from_utf8(name).ok()?, labels: None, number });
        }
        let (name, labels, rest) = series(std::str::from_utf8(line).ok()?)?;
        let number = units(rest.split_whitespace().next().unwrap_or_default());
        Some(Self { name, labels: Some(labels), number })
    }

    fn add_to(&self, found: &mut Option<Found>) {
        let Ok(series) = found.get_or_insert_with(|| Ok(Series::new())) else { return };
        if series.len() > MOST_SERIES {
            return;
        }
        let of_series = series.entry(self.series()).or_default();
        let sum = self.number.clone().map(|number| of_series.checked_add(number));
        match sum.and_then(|sum| sum.ok_or(WorkFailure::NoNumber)) {
            Ok(sum) => *of_series = sum,
            Err(failure) => *found = Some(Err(failure)),
        }
    }

    /// What tells its labels, in whatever order, from those of others.
    fn series(&self) -> u64 {
        let mut labels: Vec<&(String, String)> = self.labels.iter().flatten().collect();
        labels.order();
        let mut hasher = DefaultHasher::new();
        labels.hash(&mut hasher);
        hasher.finish()
    }
}

const fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | ':')
}

/// Labels with their values.
type Labels = Vec<(String, String)>;

/// The name and the labels at the begin of a line, and what is behind them.
fn series(line: &str) -> Option<(&str, Labels, &str)> {
    let (name, rest) = line.split_at(line.find(|c| !is_in_name(c)).unwrap_or(line.len()));
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let Some(mut rest) = rest.trim_start().strip_prefix('{') else { return Some((name, Vec::new(), rest)) };
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((name, labels, behind));
        }
        let (label, behind) = rest.split_once('=')?;
        let (value, behind) = quoted(behind.trim_start())?;
        labels.push((label.trim().to_owned(), value));
        let behind = behind.trim_start();
        rest = behind.strip_prefix(',').or_else(|| behind.starts_with('}').then_some(behind))?;
    }
}

/// A value in quotes, without its escapes, and what is behind it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.strip_prefix('"')?.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, text.get(at + 2..)?)),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{MOST_LINE, Metric, Search, WorkFailure, WorkUnits};
    use crate::work::series::Sum;
    use std::io::Write as _;

    const VLLM: &str = include_str!("../../../tests/fixtures/metrics/vllm.txt");
    const TGI: &str = include_str!("../../../tests/fixtures/metrics/tgi.txt");
    const SGLANG: &str = include_str!("../../../tests/fixtures/metrics/sglang.txt");
    const TRITON: &str = include_str!("../../../tests/fixtures/metrics/triton.txt");

    const PAGE: &[u8] = br#"# HELP tokens_total Tokens.
# TYPE tokens_total counter
tokens_total{model="a",engine="0"} 1.25e+03
tokens_total{model="b \"quoted\\\" }, x=1",engine="0"} 7 1700000000000
tokens_total_created{model="a"} 99
tokens 5
 tokens_total{model="c"} 1
broken{model="a" 3
nan_total NaN
minus_total -4
empty_total
large_total{model="a"} 1e13
large_total{model="b"} 1e13
spaces_total { model = "a" , } 3 # {trace="x"} 1
"#;

    /// What a metric has on a page that comes in pieces of so many bytes.
    fn read_in(metric: &str, page: &[u8], bytes: usize) -> Result<WorkUnits, WorkFailure> {
        let metrics = [Metric::parse(metric).unwrap()];
        let mut search = Search::new(&metrics);
        page.chunks(bytes).for_each(|piece| search.write_all(piece).unwrap());
        assert!(search.line.capacity() <= 2 * MOST_LINE);
        search.end().pop().unwrap().and_then(|series| Sum::default().take(&series))
    }

    fn read(metric: &str) -> Result<f64, WorkFailure> {
        let read = read_in(metric, PAGE, PAGE.len());
        assert!((1..9).all(|bytes| read_in(metric, PAGE, bytes) == read));
        read.map(WorkUnits::as_number)
    }

    /// A metric is the sum of its lines, of those that have the labels.
    #[test]
    fn metrics() {
        assert_eq!(read("tokens_total"), Ok(1_257.0));
        assert_eq!(read(r#"tokens_total{model="a"}"#), Ok(1_250.0));
        assert_eq!(read(r#"tokens_total{engine="0", model="b \"quoted\\\" }, x=1"}"#), Ok(7.0));
        assert_eq!((read("tokens"), read("spaces_total")), (Ok(5.0), Ok(3.0)));
    }

    /// Pages as inference servers show them: the series that is meant, of all engines or of those with the labels, and not its histograms, times of
    /// creation, buckets, or others whose names begin alike; a histogram's sum and count are counters too.
    #[test]
    fn pages_of_servers() {
        for (page, metric, number) in [
            (VLLM, "vllm:generation_tokens_total", Some(1_001_000.0)),
            (VLLM, r#"vllm:generation_tokens_total{engine="1"}"#, Some(352.0)),
            (
                VLLM,
                r#"vllm:prompt_tokens_total{model_name="meta-llama/Llama-3.1-8B-Instruct"}"#,
                Some(8_129_000.0),
            ),
            (VLLM, r#"vllm:request_success_total{finished_reason="stop"}"#, Some(516.0)),
            (VLLM, "vllm:request_generation_tokens_sum", Some(998_001.0)),
            // Its type is a histogram, whose name ends as those of counters do.
            (VLLM, "vllm:iteration_tokens_total_count", Some(4_021.0)),
            (VLLM, "vllm:iteration_tokens_total", None),
            (VLLM, "vllm:generation_tokens", None),
            (VLLM, r#"vllm:generation_tokens_total{model_name="other"}"#, None),
            (TGI, "tgi_request_generated_tokens_sum", Some(22_841.0)),
            (TGI, "tgi_request_generated_tokens_count", Some(118.0)),
            (TGI, "tgi_request_success", Some(118.0)),
            (TGI, r#"tgi_batch_inference_count{method="decode"}"#, Some(20_311.0)),
            (TGI, "tgi_request_generated_tokens", None),
            (SGLANG, "sglang:generation_tokens_total", Some(7_557_572.0)),
            (SGLANG, r#"sglang:generation_tokens_total{is_streaming="true"}"#, Some(572.0)),
            (SGLANG, "sglang:num_requests_total", Some(10_114.0)),
            (TRITON, r#"nv_inference_request_success{model="resnet50"}"#, Some(8_192.0)),
            (TRITON, "nv_inference_request_success", Some(11_593.0)),
            (TRITON, r#"nv_inference_count{version="1",model="resnet50"}"#, Some(65_536.0)),
            (TRITON, r#"vllm:generation_tokens_total{model="llama"}"#, Some(160.0)),
        ] {
            for bytes in [1, 7, page.len()] {
                let read = read_in(metric, page.as_bytes(), bytes).map(WorkUnits::as_number);
                assert_eq!(read, number.ok_or(WorkFailure::NoMetric), "{metric} in pieces of {bytes}");
            }
        }
    }

    /// What is not there, what is no number, and lines that are cut or broken.
    #[test]
    fn hostile_pages() {
        for missing in ["token", "broken", r#"tokens_total{model="d"}"#, r#"tokens_total{other="a"}"#] {
            assert_eq!(read(missing), Err(WorkFailure::NoMetric), "{missing}");
        }
        for none in ["nan_total", "minus_total", "empty_total", "large_total"] {
            assert_eq!(read(none), Err(WorkFailure::NoNumber), "{none}");
        }
        let read = |page: &[u8]| read_in("tokens_total", page, 7);
        for end in 0..PAGE.len() {
            let _ = read(&PAGE[..end]);
        }
        for page in [
            &b""[..],
            b"\xff\xfe",
            b"tokens_total",
            b"tokens_total{",
            b"tokens_total{a",
            b"tokens_total{a=\"\\",
        ] {
            assert!(read(page).is_err(), "{page:?}");
        }
        assert_eq!(read(b"tokens_total{a=\"\xff\"} 3\ntokens_total 4"), Ok(WorkUnits::whole(4)));
    }

    /// A line without an end is not kept, and is said where it is the metric's; others do no harm.
    #[test]
    fn long_lines() {
        let long = |name: &str| [name.as_bytes(), b"{a=\"", &vec![b'x'; 3 * MOST_LINE], b"\"} 7\n"].concat();
        let page = |name: &str| [&long(name)[..], b"tokens_total 4\n"].concat();
        for other in ["other", "tokens_total_created", "# tokens_total"] {
            assert_eq!(read_in("tokens_total", &page(other), 1_000), Ok(WorkUnits::whole(4)), "{other}");
        }
        let own = read_in("tokens_total", &page("tokens_total"), 1_000);
        assert_eq!(own, Err(WorkFailure::TooLong { most: MOST_LINE as u64 }));
    }

    /// What is typed is a name with labels, and nothing behind them.
    #[test]
    fn typed() {
        for wrong in ["", "{}", "1a", "a b", "a{b}", "a{b=c}", r#"a{b="c"} 4"#, r#"a{b="c""#, "ä"] {
            assert_eq!(Metric::parse(wrong), None, "{wrong}");
        }
        assert!(Metric::parse("vllm:generation_tokens_total{}").is_some());
    }
}
