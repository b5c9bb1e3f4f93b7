//! The difference of two recordings, or of two sets of them, in joules of functions: what changed by more than chance explains.
//!
//! What is compared are functions or calls by name (`diff_parts.rs`). Of a set its mean counts, with the variance of that mean:
//!
//! ```text
//! of a run    u = (half of its 95 % interval / 1.96)²       what the run does not show of itself
//! n > 1 runs  v = max(s² / n, mean of the runs' u / n)      s²: variance from run to run
//! changed     |B − A| > t(1 − 0.05 / 2m, ν) · √(v_A + v_B)   Welch 1947, ν by Satterthwaite; m functions are asked (Bonferroni)
//! ```
//!
//! So that of two equal programs one pair of sets in twenty, or fewer, shows any function as changed. One run of a side says nothing of how
//! much the next would differ, and then nothing is called a change: six of nine pairs of single runs of one Python program differed by more
//! than their own intervals. Where joules are CPU time times a constant, u is that of sampling. Leaves out the table (`diff_table.rs`), JSON
//! (`diff_json.rs`), the flame graph (`diff_flame.rs`), and how files are read.

use super::apart::PathDepths;
use super::counts::calls_named;
use super::diff_doubts::is_any_cut;
use super::diff_parts::{LongestNames, OTHER_FILES, Part, is_inclusive, name_of_both, parts, path_depths};
use super::sampling_error;
use super::summary_rows::own_name;
use super::uncertainty::{self, LOW_SAMPLES, UNIDENTIFIED, Uncertainties};
use super::{By, run};
use energy_trace_certainty::Uncertainty;
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Quality;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::BEHIND;
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_names::shown::shown;
use energy_trace_statistics::student;
use std::collections::{BTreeMap, BTreeSet};

/// Chance that equal programs show any function as changed.
const ALPHA: f64 = 0.05;
/// 97.5 % of a normal distribution lie below this.
const Z: f64 = 1.959_964;
/// Functions below one in so many joules of either side are not asked: the more are asked, the less each can show. Of what holds what it calls
/// there is more above any limit.
const CRUMB: f64 = 500.0;
const INCLUSIVE_CRUMB: f64 = 100.0;
/// What holds all but one in so many joules of the program on both sides says what the program says.
const WHOLE: f64 = 200.0;
/// Beyond so many degrees of freedom the distribution is the normal one.
const MANY: f64 = 200.0;

/// What joules are divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divisor<'a> {
    /// Work that was done in a run of each side.
    Counts([f64; 2]),
    /// Calls of this name that each run made, as `record --count` counted them.
    Calls(&'a str),
    /// Units of this name that each run did, as `record --work` counted them.
    Units(&'a str),
}

impl Divisor<'_> {
    /// What a run did, and whether it may have done more.
    #[expect(clippy::cast_precision_loss, reason = "a divisor")]
    fn of(self, profile: &Profile, side: usize) -> Result<(f64, bool), NotCounted> {
        let is_unit = |name| profile.work.iter().any(|work| work.series.counter.name == name);
        let not_counted = |name| NotCounted {
            name: shown(name).into_owned(),
            side: if side == 0 { 'A' } else { 'B' },
            instead: if is_unit(name) {
                "for a unit of --work type --per-work "
            } else {
                "record it with --count="
            },
        };
        match self {
            Self::Counts(counts) => Ok((counts[side], false)),
            Self::Calls(name) => calls_named(profile, name)
                .map(|made| (made.outermost() as f64, made.at_least))
                .ok_or_else(|| not_counted(name)),
            // Runs of which nothing was done are refused before.
            Self::Units(_) => Ok(profile
                .per_work
                .as_ref()
                .map_or((1.0, false), |per| (per.units.as_number(), per.at_least))),
        }
    }
}

/// Joules cannot be divided by calls that nobody counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run of {side} has no counted calls of {name}: {instead}{name}")]
pub struct NotCounted {
    /// The call.
    pub name: String,
    /// A or B.
    pub side: char,
    /// What to type, up to the name.
    instead: &'static str,
}

/// What is compared, and how it looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffOptions<'a> {
    /// The recordings of each side, as the user named them.
    pub files: [&'a [String]; 2],
    /// What each run ran, with the arguments that its profile may lack; empty where nobody knows.
    pub commands: [&'a [Vec<String>]; 2],
    /// What joules are divided by.
    pub work: Divisor<'a>,
    /// What is compared: `function`, `python`, `api`, `call` or `line`.
    pub by: By,
    /// Which frames of native code count, by function.
    pub native_frames: NativeFrames,
    /// Most rows of functions that did not change.
    pub rows: usize,
    /// Whether to colour.
    pub color: bool,
    /// Columns of the terminal; `None` where it is none.
    pub width: Option<u16>,
}

/// The energy of one part, or of the program, on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Side {
    /// Mean joules of a run, or of a unit of work.
    pub joules: f64,
    /// Least and most that these can be, where any run does not tell them from other code's.
    pub bounds: Option<[f64; 2]>,
    /// Variance of that mean in J²; `None`: nobody knows, as of one run.
    variance: Option<f64>,
    /// Degrees of freedom of the variance.
    freedom: f64,
}

/// How one part differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The function or call; `None`: the whole program.
    pub name: Option<String>,
    /// Before and after.
    pub sides: [Side; 2],
    /// By how much it may differ by chance, or because runs do not tell whose joules these are; `None`: nobody knows.
    pub by_chance: Option<f64>,
    /// What is doubtful about the numbers of either side, in a report's words.
    pub flags: Vec<&'static str>,
}

impl Change {
    /// B − A, in joules.
    pub fn joules(&self) -> f64 {
        self.sides[1].joules - self.sides[0].joules
    }

    /// Whether that is more than chance explains.
    pub fn is_real(&self) -> bool {
        self.by_chance.is_some_and(|limit| self.joules().abs() > limit)
    }

    /// Whether a run does not tell these joules from other code's.
    pub fn is_unidentified(&self) -> bool {
        self.flags.contains(&UNIDENTIFIED)
    }
}

/// Two sets of runs, held against each other.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// The runs of each side.
    pub sides: [&'a [Profile]; 2],
    /// The whole program first, then functions, those that changed most first.
    pub changes: Vec<Change>,
    /// What the joules of each run are divided by.
    pub(crate) work: [Vec<f64>; 2],
    /// Whether runs of either side may have done more of it, so that their joules are at most so many.
    pub(crate) at_most: [bool; 2],
    /// What tells functions of one name apart in all runs.
    pub(crate) depths: PathDepths,
    /// Whether the joules of each side are known: those of a run without energy are no zeros.
    pub(crate) known: [bool; 2],
    /// How many parts are too small to be asked, where these have half of it together.
    pub(crate) crumbs: Option<usize>,
}

/// What one run says of one part.
#[derive(Clone, Debug, Default)]
struct Seen {
    joules: f64,
    variance: f64,
    bounds: Option<[f64; 2]>,
    samples: u64,
    flags: BTreeSet<&'static str>,
}

impl Seen {
    /// The bounds; where there are none, what was seen.
    fn ends(&self) -> [f64; 2] {
        self.bounds.unwrap_or([self.joules; 2])
    }

    fn add(&mut self, more: Self) {
        let [low, high] = [0, 1].map(|end: usize| self.ends()[end] + more.ends()[end]);
        self.bounds = self.bounds.or(more.bounds).map(|_| [low, high]);
        self.joules += more.joules;
        self.variance += more.variance;
        self.samples = self.samples.saturating_add(more.samples);
        self.flags.extend(more.flags);
    }
}

/// What a run says of each part, by its key, with its name there.
type Run = BTreeMap<String, (Seen, String)>;

/// Compares two sets of runs.
///
/// # Errors
/// When joules are to be divided by calls that were not counted.
pub fn compare<'a>(
    sides: [&'a [Profile]; 2],
    options: &DiffOptions<'_>,
) -> Result<Comparison<'a>, NotCounted> {
    let work = |side: usize| {
        let works = sides[side].iter().map(|profile| options.work.of(profile, side));
        works.collect::<Result<(Vec<f64>, Vec<bool>), NotCounted>>()
    };
    let [(a, a_more), (b, b_more)] = [work(0)?, work(1)?];
    let (work, at_most) = ([a, b], [a_more, b_more].map(|more| more.contains(&true)));
    let depths = path_depths(sides);
    let runs = [0, 1].map(|side| {
        let pairs = sides[side].iter().zip(&work[side]);
        pairs.map(|(profile, work)| of_run(profile, (options, &depths), *work)).collect::<Vec<_>>()
    });
    let of_programs = [0, 1].map(|side: usize| {
        let pairs = sides[side].iter().zip(&work[side]);
        pairs.map(|(profile, work)| of_program(profile, *work)).collect::<Vec<_>>()
    });
    let wholes = of_programs.each_ref().map(|seen| mean(seen));
    let least = least(&wholes, options.by);
    // By file, then by instance of a template.
    let mut runs = with_a_name_less(&with_a_name_less(&runs, least), least);
    if options.by == By::Python {
        runs = with_files_of_one_side(&runs);
    }
    let whole = Change {
        name: None,
        sides: wholes,
        by_chance: by_chance(&wholes, ALPHA),
        flags: flags(&of_programs),
    };
    let known = sides.map(has_energy);
    let (parts, crumbs) = of_parts(&runs, wholes, (least, options.by));
    let changes = std::iter::once(whole).chain(parts);
    let by_chance = |of: &Change| of.by_chance.filter(|_| known == [true; 2] && !is_any_cut(sides));
    let changes = changes.map(|of| Change { by_chance: by_chance(&of), ..of }).collect();
    Ok(Comparison { sides, changes, work, at_most, depths, known, crumbs })
}

/// The same by keys with one name less: the longest where it tells functions apart, else the one before it.
fn with_a_name_less(runs: &[Vec<Run>; 2], least: f64) -> [Vec<Run>; 2] {
    let mut longest = LongestNames::default();
    for (side, run) in
        runs.iter().enumerate().flat_map(|(side, runs)| runs.iter().map(move |run| (side, run)))
    {
        longest.add(side, run.iter().map(|(key, (seen, _))| (key.as_str(), seen.joules > least)));
    }
    renamed(runs, |key| longest.with_one_less(key))
}

/// The same with parts called so that have another name.
fn renamed(runs: &[Vec<Run>; 2], called: impl Fn(&str) -> Option<String>) -> [Vec<Run>; 2] {
    let named = |run: &Run| {
        let mut found = Run::new();
        for (key, (seen, name)) in run {
            let own = || (key.clone(), name.clone());
            let (key, name) = called(key).map_or_else(own, |name| (name.clone(), name));
            add(&mut found, key, name, seen.clone());
        }
        found
    };
    [0, 1].map(|side: usize| runs[side].iter().map(&named).collect())
}

/// So many functions of one name that each side has alone are one: files that a program generates have other names in each run.
const SEVERAL: usize = 3;
/// Stands behind their name.
const OF_ONE_SIDE: &str = "  (files of one side)";

/// The same with such functions as one.
fn with_files_of_one_side(runs: &[Vec<Run>; 2]) -> [Vec<Run>; 2] {
    let of = |side: usize| runs[side].iter().flat_map(|run| run.keys().map(String::as_str)).fill_set();
    let keys: [BTreeSet<&str>; 2] = [0, 1].map(of);
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for side in 0..2 {
        keys[side]
            .difference(&keys[1 - side])
            .for_each(|key| counts.entry(own_name(key)).or_default()[side] += 1);
    }
    let is_one = |key: &str| {
        let is_alone = keys.iter().any(|keys| !keys.contains(key));
        is_alone && counts.get(own_name(key)).is_some_and(|counts| counts.iter().all(|of| *of >= SEVERAL))
    };
    renamed(runs, |key| is_one(key).then(|| own_name(key).to_owned() + OF_ONE_SIDE))
}

/// What has less on both sides is not asked.
fn least(wholes: &[Side; 2], by: By) -> f64 {
    wholes.iter().map(|whole| whole.joules).fold(0.0, f64::max) * crumb(by) / 100.0
}

/// Parts, those that changed most first; and how many are too small, where these have half of it together.
fn of_parts(runs: &[Vec<Run>; 2], wholes: [Side; 2], (least, by): (f64, By)) -> (Vec<Change>, Option<usize>) {
    let mut names: BTreeMap<&String, [Option<&str>; 2]> = BTreeMap::new();
    for (side, run) in
        runs.iter().enumerate().flat_map(|(side, runs)| runs.iter().map(move |run| (side, run)))
    {
        run.iter().for_each(|(key, (_, name))| names.entry(key).or_default()[side] = Some(name));
    }
    let seen = |key: &String| {
        [0, 1].map(|side: usize| {
            let seen = runs[side].iter().map(|run| run.get(key).map(|(seen, _)| seen.clone()));
            seen.map(Option::unwrap_or_default).collect::<Vec<_>>()
        })
    };
    let of = |key: &String| {
        let seen = seen(key);
        (seen.each_ref().map(|side| mean(side)), flags(&seen))
    };
    let is_whole = |sides: &[Side; 2]| {
        let mut pairs = sides.iter().zip(&wholes);
        is_inclusive(by) && pairs.all(|(part, whole)| part.joules >= whole.joules * (1.0 - 1.0 / WHOLE))
    };
    let with_files = names.keys().filter_map(|key| Some(key.rsplit_once(BEHIND)?.0)).fill_set();
    let name = |key: &str, [a, b]: [Option<&str>; 2]| {
        let is_rest = !is_inclusive(by) && with_files.contains(key);
        name_of_both(a, b) + if is_rest { OTHER_FILES } else { "" }
    };
    let pairs = names.iter().map(|(key, names)| (name(key, *names), of(key)));
    let (large, small): (Vec<_>, Vec<_>) =
        pairs.partition(|(_, (sides, _))| sides.iter().any(|of| of.joules > least));
    let asked: Vec<_> = large.into_iter().filter(|(_, (sides, _))| !is_whole(sides)).collect();
    let crumbs = are_half(small.iter().map(|(_, (sides, _))| sides), wholes).then_some(small.len());
    let tests = asked.len().max(1) as f64;
    let change = |(name, (sides, flags)): (String, ([Side; 2], _))| Change {
        name: Some(name),
        sides,
        by_chance: by_chance(&sides, ALPHA / tests),
        flags,
    };
    let mut parts: Vec<Change> = asked.into_iter().map(change).collect();
    parts.order_by(|one, other| {
        let key = |change: &Change| (!change.is_real(), -change.joules().abs());
        key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal)
    });
    (parts, crumbs)
}

/// Whether these parts have half of a side's joules or more.
fn are_half<'a>(parts: impl Iterator<Item = &'a [Side; 2]>, wholes: [Side; 2]) -> bool {
    let sum = parts.fold([0.0; 2], |all: [f64; 2], of| [0, 1].map(|side: usize| all[side] + of[side].joules));
    sum.iter().zip(&wholes).any(|(sum, whole)| 2.0 * sum >= whole.joules && whole.joules > 0.0)
}

/// The part of either side below which nothing is asked, in percent.
pub(crate) fn crumb(by: By) -> f64 {
    100.0 / if is_inclusive(by) { INCLUSIVE_CRUMB } else { CRUMB }
}

/// Energy of the whole program in a run.
fn of_program(profile: &Profile, work: f64) -> Seen {
    let energy = run::target(profile, run::headline(profile));
    // Where nothing says how sure it is, it is taken as it is.
    let of_units = profile.per_work.as_ref().and_then(|per| per.ci95);
    let of_units = of_units.map(|ci95| Uncertainty { ci95, bounds: None });
    let sure = uncertainty::of_program(profile).or(of_units);
    let far = sure.map_or(0.0, |of| half_width(energy, of.ci95));
    let bounds = sure.and_then(|of| in_joules(of.bounds, work));
    Seen {
        joules: energy.as_joules() / work,
        variance: (far / Z / work).powi(2),
        bounds,
        flags: bounds.map(|_| UNIDENTIFIED).into_iter().fill_set(),
        ..Seen::default()
    }
}

fn in_joules(bounds: Option<(MicroJoules, MicroJoules)>, work: f64) -> Option<[f64; 2]> {
    bounds.map(|(low, high)| [low, high].map(|end| end.as_joules() / work))
}

/// The flags of any run of either side; samples are few where they are in all runs of a side together.
fn flags(sides: &[Vec<Seen>; 2]) -> Vec<&'static str> {
    let all: BTreeSet<&str> = sides.iter().flatten().flat_map(|seen| &seen.flags).copied().fill_set();
    let samples = |side: &Vec<Seen>| side.iter().map(|seen| seen.samples).fold(0, u64::saturating_add);
    let few = sides.iter().any(|side| uncertainty::is_few(samples(side)));
    all.into_iter().filter(|flag| *flag != LOW_SAMPLES || few).collect()
}

/// Energy of each part of a run.
fn of_run(profile: &Profile, (options, depths): (&DiffOptions<'_>, &PathDepths), work: f64) -> Run {
    let choice = run::headline(profile);
    let modelled = run::quality(profile, choice) == Some(Quality::Estimated);
    let samples: u64 = profile.rows.iter().map(|row| row.samples).fold(0, u64::saturating_add);
    let uncertainties = Uncertainties::new(profile);
    let mut found = Run::new();
    for Part { key, name, cost, uncertainty } in parts(profile, options, depths) {
        // Of a model's joules no function is surer than another.
        let uncertainty = uncertainty.filter(|_| !modelled);
        let energy = run::chosen(&cost.energy, choice);
        let (low, high) = match uncertainty {
            Some(uncertainty) => uncertainty.ci95,
            None => sampling_error::interval(energy, cost.samples, samples),
        };
        let far = half_width(energy, (low, high)) / Z;
        let seen = Seen {
            joules: energy.as_joules() / work,
            variance: (far / work).powi(2),
            bounds: in_joules(uncertainty.and_then(|of| of.bounds), work),
            samples: cost.samples,
            flags: uncertainties.flags(&cost, uncertainty.as_ref()).into_iter().fill_set(),
        };
        // Lines that are one in the other's eyes: a lambda beside its caller.
        add(&mut found, key, name, seen);
    }
    found
}

fn add(run: &mut Run, key: String, name: String, more: Seen) {
    run.entry(key).or_insert((Seen::default(), name)).0.add(more);
}

/// How far an interval reaches, in joules: to its farther end.
fn half_width(energy: MicroJoules, (low, high): (MicroJoules, MicroJoules)) -> f64 {
    (high - energy).max(energy - low).as_joules()
}

/// The mean of a set, and how sure it is.
fn mean(seen: &[Seen]) -> Side {
    let n = seen.len().max(1) as f64;
    let joules = seen.iter().map(|seen| seen.joules).sum::<f64>() / n;
    let own = seen.iter().map(|seen| seen.variance).sum::<f64>() / n / n;
    let end = |end: usize| seen.iter().map(|seen| seen.ends()[end]).sum::<f64>() / n;
    let bounds = seen.iter().any(|seen| seen.bounds.is_some()).then(|| [end(0), end(1)]);
    if seen.len() < 2 {
        return Side { joules, bounds, variance: None, freedom: MANY };
    }
    let between = seen.iter().map(|seen| (seen.joules - joules).powi(2)).sum::<f64>() / (n - 1.0) / n;
    let freedom = if between >= own { n - 1.0 } else { MANY };
    Side { joules, bounds, variance: Some(between.max(own)), freedom }
}

/// By how much two sides may differ by chance, and by what their bounds leave open, which more runs make no less.
fn by_chance(sides: &[Side; 2], alpha: f64) -> Option<f64> {
    let [a, b] = [sides[0].variance?, sides[1].variance?];
    let all = a + b;
    // Energy that no interval belongs to, such as what no sample saw.
    if all <= 0.0 {
        return None;
    }
    let freedom = all * all / (a * a / sides[0].freedom + b * b / sides[1].freedom);
    let chance = student::exceeded_with(alpha / 2.0, freedom.clamp(1.0, MANY)) * all.sqrt();
    Some(chance.max(left_open(sides)))
}

/// How much nearer to each other both sides may be than they seem.
fn left_open([a, b]: &[Side; 2]) -> f64 {
    let (less, more) = if a.joules <= b.joules { (a, b) } else { (b, a) };
    let below = more.bounds.map_or(0.0, |[low, _]| more.joules - low);
    let above = less.bounds.map_or(0.0, |[_, high]| high - less.joules);
    below + above
}

/// Whether the joules of all runs of a side are known.
fn has_energy(side: &[Profile]) -> bool {
    side.iter().all(|run| worst_quality(std::slice::from_ref(run)).is_some())
}

/// What the joules of a side are worth at the worst; `None`: it has none.
pub(crate) fn worst_quality(side: &[Profile]) -> Option<Quality> {
    side.iter().filter_map(|profile| run::split_quality(profile, run::headline(profile))).max()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{By, Change, DiffOptions, Divisor, NativeFrames, Profile, compare};
    use crate::tests::recording_builder::RecordingBuilder;
    use crate::tests::training_runs::{estimated_training, measured_training};
    use energy_trace_model::profile::over_time::PartOfRun;
    use energy_trace_model::profile::work::PerWork;
    use energy_trace_model::recording::record::{CallCount, DomainClass, Quality, WorkUnits};
    use energy_trace_model::units::MicroJoules;

    pub(crate) const OPTIONS: DiffOptions<'_> = DiffOptions {
        files: [&[]; 2],
        commands: [&[]; 2],
        work: Divisor::Counts([1.0; 2]),
        by: By::Function,
        native_frames: NativeFrames::Libraries,
        rows: 3,
        color: false,
        width: Some(80),
    };

    fn in_uj(joules: f64) -> MicroJoules {
        MicroJoules::from_uj((joules * 1e6) as i64)
    }

    fn scaled(profile: &Profile, row: usize, factor: f64) -> Profile {
        let mut profile = profile.clone();
        for class in DomainClass::ALL {
            let before = profile.rows[row].energy[class];
            let after = in_uj(before.as_joules() * factor);
            profile.rows[row].energy[class] = after;
            profile.ledger.iter_mut().filter(|of| of.class == class).for_each(|of| {
                of.target += after - before;
                of.measured += after - before;
            });
        }
        profile
    }

    fn changes(sides: [&[Profile]; 2], options: &DiffOptions<'_>) -> Vec<Change> {
        compare(sides, options).unwrap().changes
    }

    fn changed(sides: [&[Profile]; 2]) -> Vec<String> {
        let real = changes(sides, &OPTIONS).into_iter().filter(Change::is_real);
        real.filter_map(|change| change.name).collect()
    }

    /// Functions of files that each run generates anew are one, with both sides; a few that each side has alone are not.
    #[test]
    fn files_of_one_side() {
        let of = |files: &[&str]| {
            let mut b = RecordingBuilder::new("python3 run.py", 9);
            let process = b.process(7, "python3", None);
            let thread = b.thread(process, 7, "python3");
            for file in files {
                let frame = b.python(file, "hot", &format!("{file}.py"), 1);
                let stack = b.stack(&[frame]);
                b.spent(thread, Some(stack), 1_000_000, 900, 90);
            }
            b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
            [b.build()]
        };
        let options = DiffOptions { by: By::Python, ..OPTIONS };
        let names = |a: &[Profile], b: &[Profile]| -> Vec<(String, f64)> {
            let parts = changes([a, b], &options).into_iter();
            parts.filter_map(|of| Some((of.name.clone()?, of.joules()))).collect()
        };
        let (a, b) = (of(&["a1", "a2", "a3", "both"]), of(&["b1", "b2", "b3", "b4", "both"]));
        assert_eq!(names(&a, &b), [("hot  (files of one side)".into(), 1.0), ("both.hot".into(), 0.0)]);
        assert_eq!(names(&of(&["a1", "a2", "both"]), &of(&["b1", "b2", "both"])).len(), 5);
    }

    /// The same runs differ in nothing; one function that draws half as much again is found, and no other. Of single runs nothing is known.
    #[test]
    fn one_function() {
        let before = [measured_training(), measured_training()];
        assert_eq!(changed([&before; 2]), [""; 0]);
        let after = [scaled(&before[0], 7, 1.5), scaled(&before[1], 7, 1.5)];
        assert_eq!(changed([&before, &after]), ["[libgomp.so.1]"]);
        for sides in [[&before[..1], &after[..]], [&before[..], &after[..1]]] {
            assert_eq!(changed(sides), [""; 0]);
            assert!(changes(sides, &OPTIONS).iter().all(|change| change.by_chance.is_none()));
        }
    }

    /// What varies from run to run in both sets is no change, however sure each run is of itself; what does not, is.
    #[test]
    fn sets_of_runs() {
        let base = estimated_training();
        let set = |factors: [f64; 4], other: f64| {
            factors.map(|factor| scaled(&scaled(&base, 7, factor), 4, other * (1.0 + (factor - 1.0) / 50.0)))
        };
        let (a, b) = (set([0.8, 1.2, 1.0, 1.3], 1.0), set([1.3, 1.4, 0.9, 1.2], 2.0));
        let found = changed([&a, &b]);
        assert_eq!(found, ["at::native::add_kernel(at::TensorIteratorBase&)"]);
        assert_eq!(changed([&a, &a]), [""; 0]);
    }

    /// Work that was done twice as often may use twice as much.
    #[test]
    fn work() {
        let run = [measured_training()];
        let twice = DiffOptions { work: Divisor::Counts([1.0, 2.0]), ..OPTIONS };
        let whole = &changes([&run, &run], &twice)[0];
        assert!((whole.sides[1].joules * 2.0 - whole.sides[0].joules).abs() < 1e-9);
    }

    /// Of units, how sure a run's energy in their time is counts beside what runs differ by.
    #[test]
    fn runs_that_are_unsure_of_units() {
        let by_chance = |far: i64| {
            let whole = crate::run::target(&measured_training(), crate::DomainChoice::Total).as_uj();
            let ci95 = [-far, far].map(|far| MicroJoules::from_uj(whole + far)).into();
            let per = PerWork { units: WorkUnits::whole(10), ci95: Some(ci95), ..PerWork::default() };
            let run = || Profile {
                per_work: Some(per.clone()),
                part: Some(PartOfRun { from_ns: 0, to_ns: 1, of_ns: 1, bin_ns: 1 }),
                ..measured_training()
            };
            let runs = [run(), run()];
            let options = DiffOptions { work: Divisor::Units("step"), ..OPTIONS };
            changes([&runs, &runs], &options)[0].by_chance
        };
        assert_eq!(by_chance(0), None);
        let [one, two] = [1_000_000, 2_000_000].map(|far| by_chance(far).unwrap());
        assert!(one > 0.0 && (two / one - 2.0).abs() < 1e-6, "{one} {two}");
    }

    /// The run with each line of the program's file so much further down.
    fn moved(profile: &Profile, lines: u32) -> Profile {
        let mut profile = profile.clone();
        for frame in profile.frames.iter_mut().filter(|frame| frame.file == "examples/torch_train.py") {
            (frame.line, frame.first_line) = (frame.line + lines, frame.first_line + lines);
        }
        profile
    }

    /// Each kind of part is found changed in what it calls, though every line of the file has moved; what holds the whole program on both sides
    /// is no part.
    #[test]
    fn parts_with_callees() {
        let before = [measured_training(), measured_training()];
        let hot = moved(&scaled(&before[0], 4, 2.0), 7);
        let after = [hot.clone(), hot];
        for (by, name) in [
            (By::Python, "torch.optim.sgd.SGD.step"),
            (By::Api, "optimizer.step"),
            (By::Call, "torch_train.py:29 → optimizer.step  (in A :22)"),
        ] {
            let options = DiffOptions { by, ..OPTIONS };
            let found = changes([&before, &after], &options);
            let change = found.iter().find(|change| change.name.as_deref() == Some(name));
            let change = change.unwrap_or_else(|| panic!("{name}: {found:?}"));
            assert!(change.is_real() && (change.joules() - 12.0).abs() < 0.1, "{change:?}");
            let same = changes([&before, &[moved(&before[0], 7), moved(&before[0], 7)]], &options);
            assert!(same.iter().all(|change| change.joules() == 0.0), "{same:?}");
        }
        let lines = changes([&before, &after], &DiffOptions { by: By::Line, ..OPTIONS });
        let train =
            lines.iter().find(|change| change.name.as_deref().is_some_and(|name| name.contains(".train ")));
        assert!(train.is_some_and(|change| (change.joules() - 12.0).abs() < 0.1), "{lines:?}");
        let names: Vec<_> = lines.iter().filter_map(|change| change.name.as_deref()).collect();
        assert!(!names.iter().any(|name| name.contains("torch.")), "{names:?}");
    }

    /// Functions of one name in two files of a run are two parts by function of Python and by line as well, on both sides; of a run that has one
    /// of them the other is missing, and is not taken for it.
    #[test]
    fn twins() {
        let run = |folders: &[&str]| {
            let mut b = RecordingBuilder::new("python3 run.py", 9);
            let process = b.process(7, "python3", None);
            let thread = b.thread(process, 7, "python3");
            for folder in folders {
                let frame = b.python("step", "work", &format!("/home/me/{folder}/step.py"), 20);
                let stack = b.stack(&[frame]);
                b.spent(thread, Some(stack), 1_000_000, 900, 90);
            }
            b.ledger("package-0", DomainClass::Package, Quality::Measured, [0, 0, 0]);
            b.build()
        };
        for (by, names) in [
            (By::Python, ["step.work  (a/step.py)", "step.work  (b/step.py)"]),
            (By::Line, ["step.work step.py:22  (a/step.py)", "step.work step.py:22  (b/step.py)"]),
        ] {
            let options = DiffOptions { by, ..OPTIONS };
            let (both, one) = ([run(&["a", "b"])], [run(&["a"])]);
            let joules = |sides| {
                let mut found: Vec<_> = changes(sides, &options)
                    .into_iter()
                    .filter_map(|change| Some((change.name?, change.sides.map(|side| side.joules))))
                    .collect();
                found.sort_by(|one, other| one.0.cmp(&other.0));
                found
            };
            assert_eq!(joules([&both, &both]), names.map(|name| (name.to_owned(), [1.0, 1.0])));
            let found = joules([&both, &one]);
            assert!(found.iter().any(|(name, sides)| name == names[1] && *sides == [1.0, 0.0]), "{found:?}");
        }
    }

    /// Joules of a call: of twice as many calls each takes half; runs in which nobody counted are refused by name.
    #[test]
    fn joules_of_a_call() {
        let frame = measured_training().frames.len() - 1;
        let counted = |calls: u64| {
            let mut profile = measured_training();
            let id = energy_trace_model::ids::FrameId::new(u32::try_from(frame).unwrap());
            let count = CallCount { frame: id, calls, nested: 0, times: None };
            profile.calls = vec![count];
            profile
        };
        let name = energy_trace_names::frame_name(&measured_training().frames[frame]);
        let per = DiffOptions { work: Divisor::Calls(&name), ..OPTIONS };
        let (before, after) = ([counted(10)], [counted(20)]);
        let [a, b] = changes([&before, &after], &per)[0].sides.map(|side| side.joules);
        assert!(a > 0.0 && (a - 2.0 * b).abs() < 1e-9, "{a} {b}");
        let error = compare([&before, &[measured_training()]], &per).unwrap_err();
        assert_eq!((error.side, error.to_string().contains("--count")), ('B', true));
    }
}
