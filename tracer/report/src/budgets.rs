//! Budgets: how many joules a run, or a call in it, may use.
//!
//! What counts is the energy that the program was charged with, as the report shows it; its interval is said beside it. Leaves out the
//! sentences (`sentences/budgets.rs`) and the exit status (the program).

use super::uncertainty::{of_total, times_model};
use super::{named, ranges, run};
use crate::missing::{NotKnown, Uncharged, is_idle_contradicted};
use energy_trace_certainty::Uncertainty;
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Quality;
use energy_trace_model::units::MicroJoules;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The most energy that something may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The API call or function that it is for; `None`: the whole program.
    pub call: Option<String>,
    /// The range that it is for.
    pub range: Option<String>,
    /// How much.
    pub limit: MicroJoules,
    /// Whether a run may be without the call.
    pub optional: bool,
}

/// What became of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// No more was used.
    Kept,
    /// A counter says too little to tell, or the run leaves open whose energy it was.
    NotJudged,
    /// No sample shows a call of that name: it is another one, or it was not made.
    Unknown,
    /// More was used.
    Exceeded,
    /// Nobody knows: the recording has no energy.
    NotMeasured,
}

impl Verdict {
    /// Its word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Unknown => "unknown-call",
            Self::Exceeded => "exceeded",
            Self::NotMeasured => "not-measured",
            Self::NotJudged => "not-judged",
        }
    }
}

/// A budget held against a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The budget.
    pub budget: Budget,
    /// What was used.
    pub used: MicroJoules,
    /// How sure that is; `None` for the whole program, whose energy is the ledger's, and for a part of a run, of which nobody knows it.
    pub uncertainty: Option<Uncertainty>,
    /// What it may have been, where that is wide.
    pub possible: Option<Possible>,
    /// Whether the run shows the call at all.
    pub seen: bool,
    /// A call that the run shows, whose name is nearly the one that it does not show.
    pub meant: Option<String>,
    /// Where the energy comes from.
    pub quality: Option<Quality>,
    /// What GPUs used that nobody is charged with: it may be this one's.
    pub uncharged: MicroJoules,
    /// What is not known of the energy that it is held against, where that decides.
    pub unknown: Option<NotKnown>,
    /// What became of it.
    pub verdict: Verdict,
}

/// What an energy may have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possible {
    /// At least.
    pub least: MicroJoules,
    /// At most.
    pub most: MicroJoules,
    /// Why it is so wide.
    pub why: Wide,
}

/// Why an energy is not known better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// The run leaves open whose it was.
    Shared,
    /// A model has the watts.
    Model,
    /// Idle power was more than all that was measured.
    Idle,
}

/// Holds each budget against a run.
pub fn check(profile: &Profile, budgets: &[Budget]) -> Vec<Checked> {
    budgets.iter().map(|budget| check_one(profile, budget)).collect()
}

/// The worst of what became of budgets.
pub fn worst(checked: &[Checked]) -> Verdict {
    checked.iter().map(|checked| checked.verdict).max().unwrap_or(Verdict::Kept)
}

fn check_one(profile: &Profile, budget: &Budget) -> Checked {
    let choice = run::headline(profile);
    let quality = run::split_quality(profile, choice);
    let of_call = || budget.call.as_ref().map(|name| named::used(profile, name));
    let of_part = budget.range.as_ref().map(|name| ranges::used(profile, name)).or_else(of_call);
    let (used, uncertainty, seen) = match of_part {
        None => (run::target(profile, choice), of_total(profile), true),
        Some(Some((used, uncertainty))) => (used, uncertainty, true),
        Some(None) => (MicroJoules::ZERO, None, false),
    };
    let whole = possible(profile, quality, run::target(profile, choice), of_total(profile).as_ref());
    let possible = possible(profile, quality, used, uncertainty.as_ref()).filter(|_| seen);
    let possible = possible.map(|of| of.within(whole));
    let uncharged = Uncharged::of(profile).map_or(MicroJoules::ZERO, |of| of.energy);
    let unknown = NotKnown::of(profile, budget.limit - used);
    let verdict = match (run::quality(profile, choice), &unknown) {
        (Some(_), _) if is_open(possible, budget.limit) => Verdict::NotJudged,
        (Some(_), _) if used > budget.limit => Verdict::Exceeded,
        (Some(_), _) if !seen && !budget.optional => Verdict::Unknown,
        (Some(_), Some(_)) | (None, Some(NotKnown::Gap(_))) => Verdict::NotJudged,
        (None, _) => Verdict::NotMeasured,
        (Some(_), None) => Verdict::Kept,
    };
    let unknown = unknown.filter(|_| verdict == Verdict::NotJudged);
    let typed = budget.call.as_ref().filter(|_| verdict == Verdict::Unknown);
    let meant = typed.and_then(|name| named::meant(profile, name));
    let budget = budget.clone();
    Checked { budget, used, uncertainty, possible, seen, meant, quality, uncharged, unknown, verdict }
}

impl Possible {
    /// No part is more than the whole.
    fn within(self, whole: Option<Self>) -> Self {
        Self { most: whole.map_or(self.most, |whole| self.most.min(whole.most)), ..self }
    }
}

fn possible(
    profile: &Profile,
    quality: Option<Quality>,
    used: MicroJoules,
    sure: Option<&Uncertainty>,
) -> Option<Possible> {
    let bounds = sure.and_then(|sure| sure.bounds);
    let of = |why, (least, most)| Possible { least, most, why };
    if is_idle_contradicted(profile) {
        // Less idle power leaves more to the program, or less where it is handed out; and no more than there was.
        let all = run::ledger_of(profile, run::headline(profile)).map(|row| row.measured).sum();
        return Some(of(Wide::Idle, (MicroJoules::ZERO, used.max(all))));
    }
    if quality == Some(Quality::Estimated) {
        return Some(of(Wide::Model, times_model(profile, bounds.unwrap_or((used, used)))));
    }
    bounds.map(|bounds| of(Wide::Shared, bounds))
}

/// Whether it is left open on which side of the limit the energy was.
fn is_open(possible: Option<Possible>, limit: MicroJoules) -> bool {
    possible.is_some_and(|Possible { least, most, .. }| least <= limit && limit < most)
}

/// Why a text is no budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBudget {
    /// The energy is not understood.
    #[error("write energy as 10J, 500mJ, 2kJ or 1.5Wh")]
    Energy,
    /// There is no `=`.
    #[error("write NAME=ENERGY, such as torch.autograd.backward=2J")]
    Name,
}

const UNITS: [(&str, f64); 7] =
    [("uJ", 1.0), ("µJ", 1.0), ("mJ", 1e3), ("kJ", 1e9), ("mWh", 3.6e6), ("Wh", 3.6e9), ("J", 1e6)];

/// An energy as people write it: a number and its unit.
fn energy(text: &str) -> Result<MicroJoules, NoBudget> {
    let text = text.trim();
    let split =
        |(unit, uj): &(&str, f64)| Some((text.strip_suffix(unit)?.trim_end().parse::<f64>().ok()?, *uj));
    let (number, unit) = UNITS.iter().find_map(split).ok_or(NoBudget::Energy)?;
    let uj = (number * unit).floor();
    if !uj.is_finite() || number < 0.0 || uj >= 9e18 {
        return Err(NoBudget::Energy);
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above")]
    let uj = uj as i64;
    Ok(MicroJoules::from_uj(uj))
}

impl FromStr for Budget {
    type Err = NoBudget;

    /// `10J`: of the whole program.
    fn from_str(text: &str) -> Result<Self, NoBudget> {
        Ok(Self { call: None, range: None, limit: energy(text)?, optional: false })
    }
}

fn named_energy(text: &str) -> Result<(String, MicroJoules), NoBudget> {
    // Names may hold `=` (`operator==`), energies never do.
    let (name, limit) = text.rsplit_once('=').ok_or(NoBudget::Name)?;
    if name.trim().is_empty() {
        return Err(NoBudget::Name);
    }
    Ok((name.trim().to_owned(), energy(limit)?))
}

impl Budget {
    /// `NAME=2J`: of a call.
    ///
    /// # Errors
    /// When it is not of this form.
    pub fn of_call(text: &str) -> Result<Self, NoBudget> {
        let (name, limit) = named_energy(text)?;
        Ok(Self { call: Some(name), range: None, limit, optional: false })
    }

    /// The same of a range.
    ///
    /// # Errors
    /// As above.
    pub fn of_range(text: &str) -> Result<Self, NoBudget> {
        let (name, limit) = named_energy(text)?;
        Ok(Self { call: None, range: Some(name), limit, optional: false })
    }

    /// The same of a call that a run may be without.
    #[must_use]
    pub fn that_may_be_absent(self) -> Self {
        Self { optional: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Budget, Checked, MicroJoules, NoBudget, Possible, Profile, Verdict, Wide, check, of_total, run, worst,
    };
    use crate::budget_line::budget;
    use crate::tests::only_an_amd_gpu;
    use crate::tests::training_runs::{estimated_training, measured_training};
    use energy_trace_model::profile::certainty::{Certainty, Column, DomainCertainty, InColumn};
    use energy_trace_model::profile::diagnostics::{Diagnostic, DomainDiagnostic, GapReason};
    use energy_trace_model::profile::{ProfileRow, UnattributedReason};
    use energy_trace_model::recording::record::{CutReason, DomainClass, RecordingDiagnostic, SourceId};

    fn said(profile: &Profile, budgets: &[Budget]) -> Vec<String> {
        check(profile, budgets).iter().map(budget).collect()
    }

    /// The whole program and a call are held against what the report shows; the microjoule above the limit counts.
    #[test]
    fn held_against_a_run() {
        let run = measured_training();
        let used = run.ledger[0].target.as_uj();
        for (limit, verdict) in [(used, Verdict::Kept), (used - 1, Verdict::Exceeded)] {
            let whole: Budget = format!("{limit}uJ").parse().unwrap();
            assert_eq!(worst(&check(&run, &[whole])), verdict);
        }
        let calls = ["torch.autograd.backward=80J", "torch.nn.Module.__call__=1kJ", "no.such.call=1J"];
        let mut calls = calls.map(|text| Budget::of_call(text).unwrap());
        let checked = check(&run, &calls);
        assert_eq!(
            checked.iter().map(|of| (of.used.as_uj(), of.seen)).collect::<Vec<_>>(),
            [(85_373_457, true), (81_750_000, true), (0, false)]
        );
        let verdicts: Vec<Verdict> = checked.iter().map(|of| of.verdict).collect();
        assert_eq!(verdicts, [Verdict::Exceeded, Verdict::Kept, Verdict::Unknown]);
        assert_eq!(worst(&checked), Verdict::Exceeded);
        let lines = said(&run, &calls);
        assert_eq!(lines[0], "budget exceeded: torch.autograd.backward used 85.4 J of 80.0 J (±6%)");
        assert!(
            lines[2].starts_with(
                "budget not checked: no sample shows a call, function or line of the name no.such.call; "
            ),
            "{}",
            lines[2]
        );
        calls[2] = calls[2].clone().that_may_be_absent();
        assert_eq!(said(&run, &calls)[2], "budget kept: no.such.call may use 1.00 J, and no sample shows it");
        assert_eq!(worst(&check(&run, &calls[1..])), Verdict::Kept);
    }

    /// A budget of a name that no sample shows is not kept, and the name that was meant is said; that of the summary's own label is checked.
    #[test]
    fn names_that_no_run_has() {
        let run = measured_training();
        let of = |text| [Budget::of_call(text).unwrap()];
        let wrong = of("torch.autograd.bakcward=1J");
        assert_eq!(worst(&check(&run, &wrong)), Verdict::Unknown);
        assert!(
            said(&run, &wrong)[0].contains("; did you mean torch.autograd.backward? "),
            "{:?}",
            said(&run, &wrong)
        );
        assert_eq!(
            worst(&check(&run, &of("torch_train.py:22 → torch.autograd.backward=1J"))),
            Verdict::Exceeded
        );
        // Without energy nobody knows anything.
        assert_eq!(worst(&check(&Profile::default(), &wrong)), Verdict::NotMeasured);
    }

    /// Two numbers that differ are shown so that they do, and no further.
    #[test]
    fn no_more_digits_than_needed() {
        let run = measured_training();
        let used = run.ledger[0].target.as_uj();
        let whole = |uj: i64| [format!("{uj}uJ").parse().unwrap()];
        assert!(said(&run, &whole(used - 1))[0].contains("used 280.933467 J of 280.933466 J"));
        assert!(said(&run, &whole(used))[0].contains("used 281 J of 281 J"));
    }

    /// An estimate is called one, and without energy nothing is kept.
    #[test]
    fn honest_words() {
        let whole: Budget = "1J".parse().unwrap();
        let said = |run: &Profile| said(run, std::slice::from_ref(&whole)).remove(0);
        assert_eq!(
            said(&estimated_training()),
            "budget exceeded: the program used 281 J of 1.00 J (estimated)"
        );
        assert_eq!(
            said(&Profile::default()),
            "budget cannot be judged: the program may use 1.00 J, and no energy was measured; record without --power none"
        );
        assert_eq!(worst(&check(&Profile::default(), &[whole])), Verdict::NotMeasured);
    }

    /// A counter that stood still for a fifth of a run: a budget that the rest exceeds is exceeded, one far above is kept, and in between nobody can tell; the
    /// worst of several is the one that was exceeded for sure.
    #[test]
    fn what_a_counter_cannot_judge() {
        let mut run = measured_training();
        let row = run.ledger[0].clone();
        let reasons = [(GapReason::StoodStill, 2_000_000_000)].into();
        let what = DomainDiagnostic::NoReading { missing_ns: 2_000_000_000, of_ns: 10_000_000_000, reasons };
        run.diagnostics.push(Diagnostic::of(&row.domain, what));
        let used = run::target(&run, run::headline(&run)).as_uj();
        // Twice the mean of 8 s, for 2 s.
        let missing = row.measured.as_uj() / 2;
        let of = |uj: i64| -> Budget { format!("{uj}uJ").parse().unwrap() };
        let limits = [used - 1, used, used + missing - 1, used + missing];
        let checked = check(&run, &limits.map(of));
        let verdicts: Vec<Verdict> = checked.iter().map(|checked| checked.verdict).collect();
        assert_eq!(verdicts, [Verdict::Exceeded, Verdict::NotJudged, Verdict::NotJudged, Verdict::Kept]);
        assert_eq!(worst(&checked), Verdict::Exceeded);
        let said = budget(&checked[1]);
        assert!(said.contains("at least; ") && said.ends_with("(the counter stood still)"), "{said}");
    }

    /// What is not known of the rest of a recording that ends early may be more than is left: no budget is kept, but exceeded ones are.
    #[test]
    fn a_recording_that_ends_early() {
        let mut run = measured_training();
        let whole_ns = Some(1_500_000_000);
        let found =
            RecordingDiagnostic::RecordingCut { whole_bytes: None, whole_ns, reason: CutReason::Chunk };
        run.diagnostics.push(Diagnostic::Recorded(found));
        let call = Budget::of_call("no.such.call=1J").unwrap().that_may_be_absent();
        let checked = check(&run, &["1kJ".parse().unwrap(), call, "1J".parse().unwrap()]);
        let verdicts: Vec<Verdict> = checked.iter().map(|checked| checked.verdict).collect();
        assert_eq!(verdicts, [Verdict::NotJudged, Verdict::NotJudged, Verdict::Exceeded]);
        let why = "at least; the recording ends early, 1.50 s after its start: the rest is not known";
        assert!(budget(&checked[0]).ends_with(why), "{}", budget(&checked[0]));
    }

    /// A call's range is at most the program's.
    #[test]
    fn a_part_is_at_most_the_whole() {
        let budgets = [Budget::of_call("torch.autograd.backward=1J").unwrap(), "1J".parse().unwrap()];
        let [part, whole] = &check(&estimated_training(), &budgets)[..] else { panic!() };
        let [part, whole] = [part, whole].map(|of| of.possible.unwrap().most);
        assert!(part <= whole, "{part} {whole}");
        let more =
            Possible { most: whole + whole, ..check(&estimated_training(), &budgets)[1].possible.unwrap() };
        assert_eq!(more.within(Some(Possible { most: whole, ..more })).most, whole);
    }

    /// A GPU's energy that nobody is charged with may be the program's, and any call's, where nobody can record launches: what both together
    /// exceed is not kept. Launches on NVIDIA's would be there.
    #[test]
    fn what_nobody_is_charged_with() {
        let mut run = measured_training();
        let used = run::target(&run, run::headline(&run)).as_uj();
        run.ledger[0].unattributed.insert(UnattributedReason::NoLaunchData, MicroJoules::from_uj(5_000_000));
        let of = |uj: i64| -> Budget { format!("{uj}uJ").parse().unwrap() };
        let checked = check(&run, &[used - 1, used, used + 4_999_999, used + 5_000_000].map(of));
        let verdicts: Vec<Verdict> = checked.iter().map(|checked| checked.verdict).collect();
        assert_eq!(verdicts, [Verdict::Exceeded, Verdict::NotJudged, Verdict::NotJudged, Verdict::Kept]);
        let said = budget(&checked[1]);
        let why = "at least; package-0: 5.00 J are charged to nobody, as launches on it cannot be recorded (where the program uses no GPU: --gpu off)";
        assert!(said.ends_with(why), "{said}");
        let said = budget(&checked[3]);
        assert!(said.starts_with("budget kept: the program used at most 286 J of 286 J"), "{said}");
        let seen = Budget::of_call("torch.autograd.backward=90J").unwrap();
        let calls = [seen, Budget::of_call("no.such.call=1J").unwrap().that_may_be_absent()];
        let verdicts = |run: &Profile| check(run, &calls).iter().map(|of| of.verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(&run), [Verdict::NotJudged; 2]);
        run.run.header.sources[0].id = SourceId::Nvml;
        assert_eq!(verdicts(&run), [Verdict::Kept; 2]);
        assert_eq!(worst(&check(&run, &[of(used)])), Verdict::Kept);
    }

    /// Where that is all that was measured, zero joules are no joules: nothing below all that may be the program's is kept.
    #[test]
    fn nothing_but_what_nobody_is_charged_with() {
        let run = only_an_amd_gpu();
        let call = Budget::of_call("torch.autograd.backward=90J").unwrap();
        let checked = check(&run, &["90J".parse().unwrap(), call, "812J".parse().unwrap()]);
        let verdicts: Vec<Verdict> = checked.iter().map(|of| of.verdict).collect();
        assert_eq!(verdicts, [Verdict::NotJudged, Verdict::NotJudged, Verdict::Kept]);
        let said = budget(&checked[0]);
        assert!(
            said.starts_with("budget cannot be judged: the program may use 90.0 J; gpu-0: 812 J are"),
            "{said}"
        );
        let said = budget(&checked[2]);
        assert_eq!(said, "budget kept: the program used at most 812 J of 812 J");
    }

    /// Where the run shows only that half to twice the energy was the program's, limits below and above that are decided, and none between.
    #[test]
    fn what_a_run_leaves_open() {
        let mut run = measured_training();
        let class = DomainClass::Package;
        let of_row = |row: &ProfileRow| {
            vec![InColumn { joules: row.energy[class].as_joules(), ..InColumn::default() }]
        };
        run.certainty.domains = vec![DomainCertainty {
            class: Some(class),
            energy: run.rows.iter().map(of_row).collect(),
            columns: vec![Column { identified: false, bounds: (0.5, 2.0), group: None }],
            ..DomainCertainty::default()
        }];
        let (least, most) = of_total(&run).unwrap().bounds.unwrap();
        assert!(least.as_uj() > 0 && least + least < most, "{least} {most}");
        let one = MicroJoules::from_uj(1);
        let of = |limit: MicroJoules| -> Budget { format!("{}uJ", limit.as_uj()).parse().unwrap() };
        let checked = check(&run, &[least - one, least, most - one, most].map(of));
        let verdicts: Vec<Verdict> = checked.iter().map(|checked| checked.verdict).collect();
        assert_eq!(verdicts, [Verdict::Exceeded, Verdict::NotJudged, Verdict::NotJudged, Verdict::Kept]);
        let said = budget(&checked[1]);
        assert!(said.starts_with("budget cannot be judged: the program used "), "{said}");
        assert!(said.contains(" is within that: a longer run "), "{said}");
        // Of an estimate no run tells more.
        let possible = checked[1].possible.map(|of| Possible { why: Wide::Model, ..of });
        let said = budget(&Checked { possible, ..checked[1].clone() });
        assert!(said.contains(" is within that: the range is the power model's: "), "{said}");
    }

    /// Idle power that comes to more than all that was measured is contradicted by the run: what the program used is not known, and no more than that.
    #[test]
    fn idle_power_above_the_meter() {
        let mut run = measured_training();
        let domain = run.ledger[0].domain.clone();
        let used = run::target(&run, run::headline(&run));
        let all: MicroJoules = run::ledger_of(&run, run::headline(&run)).map(|row| row.measured).sum();
        let one = MicroJoules::from_uj(1);
        let of = |limit: MicroJoules| -> Budget { format!("{}uJ", limit.as_uj()).parse().unwrap() };
        let verdicts = |run: &Profile| {
            let checked = check(run, &[used - one, all - one, all].map(of));
            (checked.iter().map(|of| of.verdict).collect::<Vec<_>>(), budget(&checked[1]))
        };
        assert_eq!(verdicts(&run).0, [Verdict::Exceeded, Verdict::Kept, Verdict::Kept]);
        let what = DomainDiagnostic::IdleAboveCounter { negative: one, run: Some((all + one, all)) };
        run.diagnostics.push(Diagnostic::of(&domain, what));
        let (found, said) = verdicts(&run);
        assert_eq!(found, [Verdict::NotJudged, Verdict::NotJudged, Verdict::Kept]);
        assert!(of_total(&run).is_none());
        assert!(said.contains(" is within that: idle power is above all that was measured"), "{said}");
    }

    /// A limit within what an estimate may be off is neither kept nor exceeded, of the program and of a call: 0.7 to 3.9 times, by the model's watts. It is where
    /// they were given.
    #[test]
    fn a_limit_within_an_estimate() {
        let mut run = estimated_training();
        run.certainty = Certainty::default();
        let used = run::target(&run, run::headline(&run));
        let (least, most) = of_total(&run).unwrap().ci95;
        assert!(least < used && used < most, "{least} {most}");
        let one = MicroJoules::from_uj(1);
        let of = |limit: MicroJoules| -> Budget { format!("{}uJ", limit.as_uj()).parse().unwrap() };
        let limits = [least - one, least, used, most - one, most].map(of);
        let verdicts = |run: &Profile| check(run, &limits).iter().map(|of| of.verdict).collect::<Vec<_>>();
        let open = Verdict::NotJudged;
        assert_eq!(verdicts(&run), [Verdict::Exceeded, open, open, open, Verdict::Kept]);
        let call = Budget::of_call("torch.autograd.backward=100J").unwrap();
        let checked = &check(&run, &[call])[0];
        assert!(checked.used < checked.budget.limit && checked.verdict == open, "{checked:?}");
        run.run.header.sources[0].notes.clear();
        assert_eq!(verdicts(&run)[1..4], [Verdict::Exceeded, Verdict::Kept, Verdict::Kept]);
    }

    /// Energies in the units that people use; without one, below zero or endless they are refused.
    #[test]
    fn energies() {
        let uj = |text: &str| text.parse::<Budget>().map(|budget| budget.limit.as_uj());
        assert_eq!(uj("10J"), Ok(10_000_000));
        assert_eq!(uj(" 1.5 Wh"), Ok(5_400_000_000));
        assert_eq!([uj("2kJ"), uj("500mJ"), uj("0.5uJ")], [Ok(2_000_000_000), Ok(500_000), Ok(0)]);
        for wrong in ["", "10", "J", "-1J", "1e400J", "nanJ", "10 W", "1e30J"] {
            assert_eq!(uj(wrong), Err(NoBudget::Energy), "{wrong}");
        }
    }

    /// The last `=` divides a call from its energy.
    #[test]
    fn calls() {
        let call = |text| Budget::of_call(text).map(|budget| budget.call.unwrap());
        assert_eq!(call("torch.autograd.backward=2J").unwrap(), "torch.autograd.backward");
        assert_eq!(call("operator===2J").unwrap(), "operator==");
        assert_eq!([call("x"), call("=2J")], [Err(NoBudget::Name), Err(NoBudget::Name)]);
        assert_eq!(call("x=2"), Err(NoBudget::Energy));
    }
}
