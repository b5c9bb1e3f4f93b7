//! A suite file: variables, and the commands that they make. TOML; a key that is not known is named with its line.
//!
//! ```toml
//! runs = 20
//! compare = "framework"            # programs that differ in this alone are held against each other
//! [variables]
//! framework = ["torch", "tensorflow"]
//! batch = [1, 64]
//! [metrics]
//! accuracy = 'acc=([0-9.]+)'
//! [[program]]
//! command = ["python3", "{framework}_resnet.py", "--batch", "{batch}"]
//! ```
//!
//! Leaves out where the file is.

use super::metrics::{Metric, Pattern};
use super::plan::check_labels;
use crate::data::Program;
use energy_trace_model::collections::Fill as _;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

/// Most programs of a suite: each pair of a group is a test.
const MOST_PROGRAMS: usize = 1_000;

/// What a suite file may say. Times are text: `30s`, `5m`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Suite {
    /// Rounds.
    pub runs: Option<u32>,
    /// Runs before the first round.
    pub warm_ups: Option<u32>,
    /// Pause before each run.
    #[serde(default, deserialize_with = "time")]
    pub rest: Option<Duration>,
    /// How long the idle machine is looked at.
    #[serde(default, deserialize_with = "time")]
    pub idle: Option<Duration>,
    /// How long a run may take.
    #[serde(default, deserialize_with = "time")]
    pub limit: Option<Duration>,
    /// Seed of the order.
    pub seed: Option<u64>,
    /// The variable whose values are compared; without it all programs are.
    pub compare: Option<String>,
    /// The variable that is a size: how energy grows with it.
    pub against: Option<String>,
    /// The metric that counts a run's work: energies and times are divided by it.
    pub per: Option<String>,
    /// An expression for calls that programs count: a name and a number.
    #[serde(default, deserialize_with = "pattern")]
    pub calls: Option<Pattern>,
    /// Values of each variable.
    #[serde(default)]
    variables: BTreeMap<String, Vec<Value>>,
    /// Expressions for what programs print.
    #[serde(default)]
    metrics: BTreeMap<String, String>,
    /// Expressions for texts that programs print, such as versions.
    #[serde(default)]
    facts: BTreeMap<String, String>,
    /// Commands.
    #[serde(default)]
    program: Vec<Template>,
}

/// A command with variables in braces.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Template {
    label: Option<String>,
    command: Vec<String>,
    /// Only where variables have these values.
    #[serde(default)]
    when: BTreeMap<String, Value>,
}

/// A value of a variable.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Whole(i64),
    Number(f64),
    Truth(bool),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
        }
    }
}

fn pattern<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Pattern>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = humantime::parse_duration(&text);
    time.map(Some)
        .map_err(|error| serde::de::Error::custom(format!("{text:?} is no time: {error}; write 30s, 5m")))
}

/// Reads a file of text that is no longer than this.
///
/// # Errors
/// When it cannot be read, is longer, or is no text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(most + 1).read_to_string(&mut text)?;
    if read as u64 > most { Err(io::Error::other("it is too long for a suite file")) } else { Ok(text) }
}

impl Suite {
    /// Parses a suite file.
    ///
    /// # Errors
    /// What is wrong and in which line, as text of some lines.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Its metrics.
    ///
    /// # Errors
    /// What is wrong with one, as a sentence.
    pub fn metrics(&self) -> Result<Vec<Metric>, String> {
        self.metrics.iter().map(|(name, pattern)| Metric::new(name, pattern)).collect()
    }

    /// Its expressions for texts.
    ///
    /// # Errors
    /// What is wrong with one, as a sentence.
    pub fn facts(&self) -> Result<Vec<Metric>, String> {
        self.facts.iter().map(|(name, pattern)| Metric::new(name, pattern)).collect()
    }

    /// Every program that the variables make; `{suite}` in commands is this folder.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn programs(&self, folder: &Path) -> Result<Vec<Program>, String> {
        if let Some(wrong) = self.no_size() {
            return Err(wrong);
        }
        if let Some(unknown) = self.unknown_variable() {
            return Err(format!("there is no variable {unknown:?} in [variables]"));
        }
        let combinations = self.combinations()?;
        let mut programs = Vec::new();
        for template in &self.program {
            for variables in combinations.iter().filter(|values| template.fits(values)) {
                let program = self.program_of(template, variables, folder)?;
                // A command that holds not all variables is the same for several values.
                if !programs.contains(&program) {
                    programs.push(program);
                }
            }
        }
        match (programs.len(), &self.compare) {
            (count @ 0..2, _) => {
                Err(format!("a study compares two programs or more, and this suite has {count}"))
            }
            (_, Some(compared)) if !has_pair(&programs) => Err(format!(
                "a study compares two programs or more, and this suite has no two that differ in {compared:?} alone"
            )),
            _ => check_labels(&programs).map(|()| programs),
        }
    }

    fn unknown_variable(&self) -> Option<&String> {
        let of_templates = self.program.iter().flat_map(|template| template.when.keys());
        self.compare
            .iter()
            .chain(&self.against)
            .chain(of_templates)
            .find(|name| !self.variables.contains_key(*name))
    }

    /// Why the variable of `against` is no size.
    fn no_size(&self) -> Option<String> {
        let name = self.against.as_ref()?;
        let values = self.variables.get(name)?;
        let sizes: BTreeSet<String> = values.iter().map(Value::text).fill_set();
        let wrong = sizes.iter().find(|text| !text.parse::<f64>().is_ok_and(f64::is_finite));
        match wrong {
            Some(text) => Some(format!("against {name:?}: {text:?} is no number")),
            None if sizes.len() < 2 => Some(format!("against {name:?}: growth takes two sizes or more")),
            None if self.compare.as_ref() == Some(name) => {
                Some(format!("{name:?} cannot be both compared and a size"))
            }
            None => None,
        }
    }

    fn combinations(&self) -> Result<Vec<BTreeMap<String, String>>, String> {
        let mut all = vec![BTreeMap::new()];
        for (name, values) in &self.variables {
            let with = |before: &BTreeMap<String, String>, value: &Value| {
                let mut after = before.clone();
                after.insert(name.clone(), value.text());
                after
            };
            if all.len().saturating_mul(values.len()) > MOST_PROGRAMS {
                return Err(format!("the variables make more than {MOST_PROGRAMS} programs"));
            }
            all = all.iter().flat_map(|before| values.iter().map(move |value| with(before, value))).collect();
        }
        Ok(all)
    }

    fn program_of(
        &self,
        template: &Template,
        variables: &BTreeMap<String, String>,
        folder: &Path,
    ) -> Result<Program, String> {
        let used: BTreeMap<String, String> = variables
            .iter()
            .filter(|(name, _)| template.uses(name) || template.when.contains_key(*name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .fill_map();
        let folder = folder.to_string_lossy();
        let word = |word: &String| filled(&word.replace("{suite}", &folder), &used);
        let command: Vec<String> = template.command.iter().map(word).collect();
        if command.is_empty() {
            return Err("a [[program]] has an empty command".to_owned());
        }
        let pairs = |of: &dyn Fn(&String) -> bool| -> Vec<String> {
            used.iter().filter(|(name, _)| of(name)).map(|(name, value)| format!("{name}={value}")).collect()
        };
        let default = if used.is_empty() { command.join(" ") } else { label_of(&used) };
        let group = match &self.compare {
            Some(compared) => pairs(&|name| name != compared).join(" "),
            // Sizes of one program are no rivals.
            None if self.against.is_some() => pairs(&|_| true).join(" "),
            None => String::new(),
        };
        Ok(Program {
            label: template.label.as_ref().map_or(default, |label| filled(label, &used)),
            command,
            group,
            variables: used,
        })
    }
}

/// A name for tables: words as they are, what is no word with its variable: `torch, batch=1`.
fn label_of(variables: &BTreeMap<String, String>) -> String {
    let is_word = |value: &str| value.parse::<f64>().is_err() && value.parse::<bool>().is_err();
    let (words, others): (Vec<_>, Vec<_>) = variables.iter().partition(|(_, value)| is_word(value));
    let words: Vec<String> = words.into_iter().map(|(_, value)| value.clone()).collect();
    let words = Some(words.join(" ")).filter(|words| !words.is_empty());
    let others = others.into_iter().map(|(name, value)| format!("{name}={value}"));
    words.into_iter().chain(others).collect::<Vec<_>>().join(", ")
}

/// Whether two programs are held against each other.
fn has_pair(programs: &[Program]) -> bool {
    let mut groups = BTreeSet::new();
    programs.iter().any(|program| !groups.insert(&program.group))
}

impl Template {
    fn fits(&self, values: &BTreeMap<String, String>) -> bool {
        self.when.iter().all(|(name, value)| values.get(name) == Some(&value.text()))
    }

    fn uses(&self, name: &str) -> bool {
        let holder = format!("{{{name}}}");
        self.command.iter().chain(&self.label).any(|word| word.contains(&holder))
    }
}

/// `{name}` becomes the variable's value; other braces stay.
fn filled(word: &str, variables: &BTreeMap<String, String>) -> String {
    variables.iter().fold(word.to_owned(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::Suite;
    use std::path::Path;

    const SUITE: &str = r#"
runs = 3
rest = "10s"
compare = "framework"
[variables]
framework = ["torch", "tf"]
batch = [1, 64]
[metrics]
accuracy = 'acc=([0-9.]+)'
[[program]]
command = ["python3", "{framework}.py", "{batch}", "--", "{other}"]
[[program]]
label = "extra {batch}"
command = ["extra", "{batch}"]
when = { framework = "tf", batch = 64 }
"#;

    /// Every combination is a program, in the group of those that differ in the compared variable alone.
    #[test]
    fn matrix() {
        let suite = Suite::parse(SUITE).unwrap();
        let programs = suite.programs(Path::new("/s")).unwrap();
        let labels: Vec<&str> = programs.iter().map(|of| of.label.as_str()).collect();
        assert_eq!(labels, ["torch, batch=1", "tf, batch=1", "torch, batch=64", "tf, batch=64", "extra 64"]);
        let groups: Vec<&str> = programs.iter().map(|of| of.group.as_str()).collect();
        assert_eq!(groups, ["batch=1", "batch=1", "batch=64", "batch=64", "batch=64"]);
        assert_eq!(programs[3].command, ["python3", "tf.py", "64", "--", "{other}"]);
        assert_eq!(suite.metrics().unwrap().len(), 1);
    }

    /// Sizes of one program are a sweep and no rivals; `{suite}` is the suite's folder; a size is a number, and there are two.
    #[test]
    fn sweeps() {
        let text = "against = 'rows'\n[variables]\nrows = [10, 20]\n[[program]]\ncommand = ['{suite}/a', '{rows}']\n";
        let programs = Suite::parse(text).unwrap().programs(Path::new("/s")).unwrap();
        assert_eq!(programs[1].command, ["/s/a", "20"]);
        assert_ne!(programs[0].group, programs[1].group);
        for (values, why) in [("[10, 'many']", "no number"), ("[10, 10]", "two sizes")] {
            let said = Suite::parse(&text.replace("[10, 20]", values)).unwrap().programs(Path::new("/s"));
            assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{said:?}");
        }
        let said = Suite::parse("calls = 'x ([0-9])'").unwrap_err();
        assert!(said.contains("two groups"), "{said}");
    }

    /// What is not known is named with its line; what makes no study says why.
    #[test]
    fn wrong_files() {
        let said = Suite::parse(&SUITE.replace("rest =", "pause =")).unwrap_err();
        assert!(said.contains("line 3") && said.contains("pause"), "{said}");
        let said = Suite::parse(&SUITE.replace("10s", "soon")).unwrap_err();
        assert!(said.contains("line 3") && said.contains("soon"), "{said}");
        for (from, to, why) in [
            ("compare = \"framework\"", "compare = \"x\"", "no variable \"x\""),
            ("[\"torch\", \"tf\"]", "[\"torch\"]", "this suite has"),
            ("[1, 64]", "[1, 1]", ""),
            ("\"extra\", \"{batch}\"", "", "empty command"),
        ] {
            let suite = Suite::parse(&SUITE.replace(from, to)).unwrap();
            let found = suite.programs(Path::new("/s"));
            assert!(
                found.as_ref().is_err_and(|said| said.contains(why)) || why.is_empty() && found.is_ok(),
                "{to}: {found:?}"
            );
        }
        assert!(
            Suite::parse("runs = 'many'").is_err()
                && Suite::parse("runs = 2").unwrap().programs(Path::new("/s")).is_err()
        );
    }
}
