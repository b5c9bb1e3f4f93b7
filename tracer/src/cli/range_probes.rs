//! `--range-probes PROVIDER:BEGIN,END=NAME`: ranges between static probes (USDT) of a binary, as they are typed.
//!
//! Leaves out where the probes are (`energy-trace-probe`).

use energy_trace_names::shown::shown;
use energy_trace_probe::{ProbeName, RangeProbe};
use std::collections::BTreeSet;

/// Longest name of a range.
const MOST: usize = 64;
/// Probes that may end a range.
const MOST_ENDS: usize = 16;
/// What it looks like.
const FORM: &str = "write it as PROVIDER:BEGIN,END or PROVIDER:BEGIN,END=NAME, with names of static probes (`readelf -n FILE`)";

/// A range between static probes. Each has the provider of the one before, where it names none; a dash is two underscores, as in DTrace.
pub(super) fn parse(text: &str) -> Result<RangeProbe, String> {
    let (probes, name) = text.split_once('=').map_or((text, None), |(probes, name)| (probes, Some(name)));
    let mut provider = "";
    let mut all = probes.split(',').map(|word| {
        let (of, name) = word.split_once(':').unwrap_or((provider, word));
        provider = of;
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let probe = ProbeName { provider: of.to_owned(), name: name.replace('-', "__") };
        if is_word(of) && is_word(name) { Ok(probe) } else { Err(FORM.to_owned()) }
    });
    let begin = all.next().ok_or(FORM)??;
    let ends: Vec<ProbeName> = all.collect::<Result<_, _>>()?;
    if ends.is_empty() || ends.len() > MOST_ENDS || ends.contains(&begin) {
        return Err(FORM.to_owned());
    }
    let name = name.map_or_else(|| format!("{}:{}", begin.provider, begin.name), str::to_owned);
    let is_name = !name.trim().is_empty() && name.chars().count() <= MOST && shown(&name) == name;
    if !is_name || name.starts_with('[') {
        return Err(format!(
            "the name of a range has 1 to {MOST} visible characters, the first of them no bracket"
        ));
    }
    Ok(RangeProbe { name, begin, ends })
}

/// A probe that is named twice: it begins or ends one range.
pub(super) fn named_twice(ranges: &[RangeProbe]) -> Option<String> {
    let probes = ranges.iter().flat_map(|range| std::iter::once(&range.begin).chain(&range.ends));
    let mut seen = BTreeSet::new();
    probes.map(|probe| format!("{}:{}", probe.provider, probe.name)).find(|word| !seen.insert(word.clone()))
}

#[cfg(test)]
mod tests {
    use super::{named_twice, parse};

    /// The end of one range is not the beginning of another, nor are two ranges begun by one probe.
    #[test]
    fn twice() {
        let of =
            |texts: &[&str]| named_twice(&texts.iter().map(|text| parse(text).unwrap()).collect::<Vec<_>>());
        assert_eq!(of(&["app:a,b", "app:c,d", "lib:a,b"]), None);
        assert_eq!(of(&["app:a,b", "app:b,c"]).as_deref(), Some("app:b"));
        assert_eq!(of(&["app:a-x,b", "app:a__x,c"]).as_deref(), Some("app:a__x"));
    }

    /// A begin and one end or more, of one provider or of several, and a name.
    #[test]
    fn typed() {
        let words = |text: &str| {
            let range = parse(text).unwrap();
            let word = |of: &super::ProbeName| format!("{}:{}", of.provider, of.name);
            (range.name, word(&range.begin), range.ends.iter().map(word).collect::<Vec<_>>())
        };
        let (name, begin, ends) =
            words("postgresql:transaction-start,transaction-commit,transaction__abort=a=b");
        assert_eq!((&*name, &*begin), ("a=b", "postgresql:transaction__start"));
        assert_eq!(ends, ["postgresql:transaction__commit", "postgresql:transaction__abort"]);
        let (name, _, ends) = words("app:begin,lib:end");
        assert_eq!((&*name, &*ends), ("app:begin", &["lib:end".to_owned()][..]));
        for wrong in ["", "app", "app:begin", "begin,end", "app:,end", ":begin,end", "app:begin,", "app:a,a"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", " ", "[more ranges]", "\x1b", &"n".repeat(65)] {
            assert!(parse(&format!("app:begin,end={wrong}")).is_err(), "{wrong}");
        }
    }
}
