//! What a study will do, fixed before its first run: programs, rounds, and their order. Leaves out doing it.

use super::metrics::{Metric, Pattern};
use crate::data::{Program, Purpose};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A plan. The same plan gives the same steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `energy-trace/study-plan/1`.
    pub schema: String,
    /// Decides the order of runs.
    pub seed: u64,
    /// Rounds; each program runs once in each.
    pub rounds: u32,
    /// Runs of each program before the first round, which do not count.
    pub warm_ups: u32,
    /// How long the idle machine is looked at, before, between and after; zero: not.
    pub idle: Duration,
    /// Pause before each run.
    pub rest: Duration,
    /// After the pause, wait until power varies by no more than this part, such as 0.03.
    pub stable: Option<f64>,
    /// For so long at the most.
    pub stable_within: Duration,
    /// How long a run may take.
    pub limit: Option<Duration>,
    /// What programs print of themselves.
    pub metrics: Vec<Metric>,
    /// What they print that is no number, such as versions.
    #[serde(default)]
    pub facts: Vec<Metric>,
    /// How often they called what, as they print it.
    #[serde(default)]
    pub calls: Option<Pattern>,
    /// The metric or unit of work that counts the work of a run.
    #[serde(default)]
    pub per: Option<String>,
    /// The variable whose values are compared.
    #[serde(default)]
    pub compared: Option<String>,
    /// The variable that is a size.
    #[serde(default)]
    pub against: Option<String>,
    /// What the user noted.
    #[serde(default)]
    pub noted: BTreeMap<String, String>,
    /// Options of each recording.
    pub record: Vec<String>,
    /// What is compared.
    pub programs: Vec<Program>,
    /// What was to be said of the machine at the start.
    pub notes: Vec<String>,
}

/// The schema of this version.
pub const SCHEMA: &str = "energy-trace/study-plan/1";
/// After so many rounds the idle machine is looked at again.
const ROUNDS_BETWEEN_IDLE: u32 = 5;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// From 1.
    pub number: usize,
    /// `None`: the idle machine.
    pub program: Option<usize>,
    /// From 1; 0 before the first.
    pub round: u32,
    /// What for.
    pub purpose: Purpose,
}

impl Plan {
    /// Every step in order. Each second round has the order of the one before it reversed, so that no program is always first.
    pub fn steps(&self) -> Vec<Step> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut order: Vec<usize> = (0..self.programs.len()).collect();
        let mut steps: Vec<(Option<usize>, u32, Purpose)> = Vec::new();
        let idle = |round| (!self.idle.is_zero()).then_some((None, round, Purpose::Idle));
        for _ in 0..self.warm_ups {
            steps.extend(order.iter().map(|&program| (Some(program), 0, Purpose::WarmUp)));
        }
        steps.extend(idle(0));
        for round in 1..=self.rounds {
            if round % 2 == 1 {
                random.shuffle(&mut order);
            } else {
                order.reverse();
            }
            steps.extend(order.iter().map(|&program| (Some(program), round, Purpose::Counted)));
            if round % ROUNDS_BETWEEN_IDLE == 0 || round == self.rounds {
                steps.extend(idle(round));
            }
        }
        let numbered = steps.into_iter().zip(1..);
        numbered.map(|((program, round, purpose), number)| Step { number, program, round, purpose }).collect()
    }

    /// Whether another plan asks for the same runs, whatever their programs are called.
    pub fn is_same(&self, other: &Self) -> bool {
        let of = |plan: &Self| {
            let mut plan = Self { notes: Vec::new(), seed: 0, ..plan.clone() };
            plan.programs.iter_mut().for_each(|program| program.label.clear());
            plan
        };
        of(self) == of(other)
    }

    /// The plan with the names of programs that another one of the same runs has.
    #[must_use]
    pub fn with_labels_of(mut self, other: &Self) -> Self {
        for (program, of) in self.programs.iter_mut().zip(&other.programs) {
            program.label.clone_from(&of.label);
        }
        self
    }
}

/// Programs from a command line: `A -- B -- C`, each with a label.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn programs(words: &[String], labels: &[String]) -> Result<Vec<Program>, String> {
    let commands: Vec<&[String]> = words.split(|word| word == "--").collect();
    if commands.len() < 2 {
        return Err("name two programs or more, each after `--`: compare -- ./a -- ./b".to_owned());
    }
    if commands.iter().any(|command| command.is_empty()) {
        return Err(
            "there is nothing between two `--`; a program that has `--` itself goes into a suite file"
                .to_owned(),
        );
    }
    if !labels.is_empty() && labels.len() != commands.len() {
        return Err(format!("{} labels for {} programs", labels.len(), commands.len()));
    }
    let letter = |at: usize| char::from_u32('A' as u32 + at as u32 % 26).unwrap_or('?');
    let default =
        |at: usize| if at < 26 { letter(at).to_string() } else { format!("{}{}", letter(at), at / 26) };
    let program = |(at, command): (usize, &&[String])| Program {
        label: labels.get(at).cloned().unwrap_or_else(|| default(at)),
        command: command.to_vec(),
        ..Program::default()
    };
    let programs: Vec<Program> = commands.iter().enumerate().map(program).collect();
    check_labels(&programs).map(|()| programs)
}

/// Two programs of one name could not be told apart.
pub(super) fn check_labels(programs: &[Program]) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    match programs.iter().find(|program| !seen.insert(&program.label)) {
        Some(program) => Err(format!("two programs have the label {:?}", program.label)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, Purpose, SCHEMA, programs};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn plan() -> Plan {
        Plan {
            schema: SCHEMA.into(),
            seed: 4,
            rounds: 20,
            warm_ups: 1,
            idle: Duration::from_secs(1),
            rest: Duration::ZERO,
            stable: None,
            stable_within: Duration::ZERO,
            limit: None,
            metrics: Vec::new(),
            facts: Vec::new(),
            calls: None,
            per: None,
            compared: None,
            against: None,
            noted: BTreeMap::new(),
            record: Vec::new(),
            programs: programs(&words("a -- b -x -- c"), &[]).unwrap(),
            notes: Vec::new(),
        }
    }

    /// Every program runs once in each round, is first as often as last, and another seed gives another order.
    #[test]
    fn steps() {
        let plan = plan();
        let steps = plan.steps();
        assert_eq!(steps.len(), 3 + 60 + 5);
        assert_eq!(steps.iter().map(|step| step.number).collect::<Vec<_>>(), (1..=68).collect::<Vec<_>>());
        let counted: Vec<_> = steps.iter().filter(|step| step.purpose == Purpose::Counted).collect();
        let mut balance = BTreeMap::new();
        for round in counted.chunks(3) {
            let mut programs: Vec<_> = round.iter().filter_map(|step| step.program).collect();
            *balance.entry(programs[0]).or_insert(0) += 1;
            *balance.entry(programs[2]).or_insert(0) -= 1;
            programs.sort_unstable();
            assert_eq!(programs, [0, 1, 2]);
        }
        assert!(balance.values().all(|more| *more == 0), "{balance:?}");
        assert_eq!(steps, plan.steps());
        assert_ne!(steps, Plan { seed: 5, ..plan.clone() }.steps());
        // The same runs under other names are the same runs.
        let named =
            Plan { programs: programs(&words("a -- b -x -- c"), &words("x y z")).unwrap(), ..plan.clone() };
        assert!(named.is_same(&plan) && !Plan { rounds: 3, ..named.clone() }.is_same(&plan));
        assert_eq!(plan.with_labels_of(&named), named);
    }

    /// Words between dashes are programs; what is none is refused.
    #[test]
    fn commands() {
        let found = programs(&words("a 1 -- b"), &words("one two")).unwrap();
        assert_eq!((found[0].label.as_str(), found[0].command.as_slice()), ("one", &words("a 1")[..]));
        for (line, labels) in [("a", ""), ("a -- -- b", ""), ("a --", ""), ("a -- b", "x"), ("a -- b", "x x")]
        {
            let labels: Vec<String> = labels.split_whitespace().map(str::to_owned).collect();
            assert!(programs(&words(line), &labels).is_err(), "{line}");
        }
    }
}
