//! What goes wrong with a counter, and when.

use std::str::FromStr;

/// A fault of one zone, from a time on or for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The zone's directory: `intel-rapl:0`.
    pub zone: String,
    /// When it begins, in seconds after the first read of any counter.
    pub from_s: f64,
    /// When it ends; `None`: never.
    pub to_s: Option<f64>,
    /// What happens.
    pub kind: FaultKind,
}

/// What happens to a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The file is gone: open gives ENOENT, and reading an open one ENODEV, as when a driver is unloaded.
    Vanish,
    /// Opening and reading give EACCES.
    Unreadable,
    /// Reading gives EIO.
    Error,
    /// The value stays what it was.
    Stuck,
    /// The value is smaller by this many microjoules.
    Backwards(u64),
    /// The value is larger by this many microjoules.
    Ahead(u64),
    /// The value is always this one.
    Constant(u64),
    /// It counts so many times as fast.
    Times(u64),
    /// The file holds a text that is no number.
    Text,
    /// The file is empty.
    Empty,
}

impl Fault {
    /// Whether it holds at this time.
    pub fn holds(&self, zone: &str, at_s: f64) -> bool {
        self.zone == zone && at_s >= self.from_s && self.to_s.is_none_or(|to| at_s < to)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not ZONE@FROM[..TO]:KIND, as in intel-rapl:0@2..3:vanish");
        let (zone, rest) = text.split_once('@').ok_or_else(wrong)?;
        let (times, kind) = rest.split_once(':').ok_or_else(wrong)?;
        let (from, to) = times.split_once("..").map_or((times, None), |(from, to)| (from, Some(to)));
        let seconds = |s: &str| s.parse::<f64>().ok().filter(|s| s.is_finite()).ok_or_else(wrong);
        let kind = match kind {
            "vanish" => FaultKind::Vanish,
            "unreadable" => FaultKind::Unreadable,
            "error" => FaultKind::Error,
            "stuck" => FaultKind::Stuck,
            "text" => FaultKind::Text,
            "empty" => FaultKind::Empty,
            _ => with_number(kind).ok_or_else(wrong)?,
        };
        let to_s = to.map(seconds).transpose()?;
        Ok(Self { zone: zone.to_owned(), from_s: seconds(from)?, to_s, kind })
    }
}

/// `backwards=70`.
fn with_number(kind: &str) -> Option<FaultKind> {
    let (word, number) = kind.split_once('=')?;
    let number = number.parse().ok()?;
    match word {
        "backwards" => Some(FaultKind::Backwards(number)),
        "ahead" => Some(FaultKind::Ahead(number)),
        "constant" => Some(FaultKind::Constant(number)),
        "times" => Some(FaultKind::Times(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultKind};

    /// Faults as they are written on the command line, and when they hold.
    #[test]
    fn parse() {
        let fault: Fault = "intel-rapl:0:1@2..3.5:backwards=70".parse().unwrap();
        assert_eq!((fault.zone.as_str(), fault.kind), ("intel-rapl:0:1", FaultKind::Backwards(70)));
        assert!(fault.holds("intel-rapl:0:1", 2.0) && !fault.holds("intel-rapl:0:1", 3.5));
        assert!(!fault.holds("intel-rapl:0", 2.0));
        let fault: Fault = "intel-rapl:0@0:vanish".parse().unwrap();
        assert!(fault.holds("intel-rapl:0", 1e6));
        let kinds = ["text", "empty", "ahead=5", "constant=0", "times=10"].map(|kind| {
            let fault: Fault = format!("z@0:{kind}").parse().unwrap();
            fault.kind
        });
        let expected = [
            FaultKind::Text,
            FaultKind::Empty,
            FaultKind::Ahead(5),
            FaultKind::Constant(0),
            FaultKind::Times(10),
        ];
        assert_eq!(kinds, expected);
        for wrong in ["", "z@1", "z@x:vanish", "z@1:explode", "z:vanish", "z@1:backwards=-1", "z@1:ahead"] {
            assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
        }
    }
}
