//! A metric in Prometheus's text format (version 0.0.4, and OpenMetrics as far as it is the same):
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.
//!
//! A line is `name{label="value",…} number`, and perhaps a time. Lines that are none are passed over: they are other metrics' trouble. Where
//! several lines are meant their numbers are added, as `sum()` does. Leaves out types, help, and names that need quotes.

use super::number::units;
use energy_trace_model::recording::record::{WorkFailure, WorkUnits};

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

    /// The sum of its lines on a page.
    pub(super) fn read(&self, page: &[u8]) -> Result<WorkUnits, WorkFailure> {
        let lines = page.split(|byte| *byte == b'\n').filter(|line| line.starts_with(self.name.as_bytes()));
        let mut sum = None;
        for line in lines.filter_map(|line| std::str::from_utf8(line).ok()) {
            let Some((name, labels, rest)) = series(line) else { continue };
            if name == self.name && self.labels.iter().all(|wanted| labels.contains(wanted)) {
                let number = units(rest.split_whitespace().next().unwrap_or_default())?;
                sum = Some(number.saturating_add(sum.unwrap_or(WorkUnits::ZERO)));
            }
        }
        sum.ok_or(WorkFailure::NoMetric)
    }
}

/// Labels with their values.
type Labels = Vec<(String, String)>;

/// The name and the labels at the begin of a line, and what is behind them.
fn series(line: &str) -> Option<(&str, Labels, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let (name, rest) = line.split_at(line.find(|c| !is_name(c)).unwrap_or(line.len()));
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
    use super::{Metric, WorkFailure, WorkUnits};

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
spaces_total { model = "a" , } 3 # {trace="x"} 1
"#;

    fn read(metric: &str) -> Result<f64, WorkFailure> {
        Metric::parse(metric).unwrap().read(PAGE).map(WorkUnits::as_number)
    }

    /// A metric is the sum of its lines, of those that have the labels.
    #[test]
    fn metrics() {
        assert_eq!(read("tokens_total"), Ok(1_257.0));
        assert_eq!(read(r#"tokens_total{model="a"}"#), Ok(1_250.0));
        assert_eq!(read(r#"tokens_total{engine="0", model="b \"quoted\\\" }, x=1"}"#), Ok(7.0));
        assert_eq!((read("tokens"), read("spaces_total")), (Ok(5.0), Ok(3.0)));
    }

    /// What is not there, what is no number, and lines that are cut or broken.
    #[test]
    fn hostile_pages() {
        for missing in ["token", "broken", r#"tokens_total{model="d"}"#, r#"tokens_total{other="a"}"#] {
            assert_eq!(read(missing), Err(WorkFailure::NoMetric), "{missing}");
        }
        for none in ["nan_total", "minus_total", "empty_total"] {
            assert_eq!(read(none), Err(WorkFailure::NoNumber), "{none}");
        }
        let metric = Metric::parse("tokens_total").unwrap();
        for end in 0..PAGE.len() {
            let _ = metric.read(&PAGE[..end]);
        }
        for page in [
            &b""[..],
            b"\xff\xfe",
            b"tokens_total",
            b"tokens_total{",
            b"tokens_total{a",
            b"tokens_total{a=\"\\",
        ] {
            assert!(metric.read(page).is_err(), "{page:?}");
        }
        assert_eq!(
            metric.read(b"tokens_total{a=\"\xff\"} 3\ntokens_total 4").map(WorkUnits::as_number),
            Ok(4.0)
        );
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
