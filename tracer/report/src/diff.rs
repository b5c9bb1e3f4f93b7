//! The difference of two recordings, or of two sets of them, in joules of functions: what changed by more than chance explains.
//!
//! A function's energy is its own, by name. Of a set its mean counts, with the variance of that mean:
//!
//! ```text
//! of a run    u = (half of its 95 % interval / 1.96)²       what the run does not show of itself
//! n > 1 runs  v = max(s² / n, mean of the runs' u / n)      s²: variance from run to run
//! changed     |B − A| > t(1 − 0.05 / 2m, ν) · √(v_A + v_B)   Welch 1947, ν by Satterthwaite; m functions are asked (Bonferroni)
//! ```
//!
//! So that of two equal programs one pair of sets in twenty, or fewer, shows any function as changed. One run of a side says nothing of how
//! much the next would differ, and then nothing is called a change: six of nine pairs of single runs of one Python program differed by more
//! than their own intervals. Where joules are CPU time times a constant, u is that of sampling. Leaves out JSON (`diff_json.rs`), the flame
//! graph (`diff_flame.rs`), and how files are read.

use super::counts::times_called;
use super::sampling_error;
use super::shown::shown;
use super::summary_rows::{TopRow, innermost};
use super::table_cells::{EnergyScale, FILE_WIDTH, Grid, GridRow, Look, TITLE, in_unit};
use super::uncertainty;
use super::{names, run};
use crate::native_frames::{self, NativeFrames};
use crate::short_names;
use anstyle::{AnsiColor, Style};
use energy_trace_model::profile::Profile;
use energy_trace_model::recording::record::Quality;
use energy_trace_model::units::MicroJoules;
use energy_trace_statistics::student;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Chance that equal programs show any function as changed.
const ALPHA: f64 = 0.05;
/// 97.5 % of a normal distribution lie below this.
const Z: f64 = 1.959_964;
/// Functions below one in so many joules of either side are not asked: the more are asked, the less each can show.
const CRUMB: f64 = 500.0;
/// Beyond so many degrees of freedom the distribution is the normal one.
const MANY: f64 = 200.0;

/// What joules are divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work<'a> {
    /// Work that was done in a run of each side.
    Counts([f64; 2]),
    /// Calls of this name that each run made, as `record --count` counted them.
    Calls(&'a str),
}

impl Work<'_> {
    fn of(self, profile: &Profile, side: usize) -> Result<f64, NotCounted> {
        match self {
            Self::Counts(counts) => Ok(counts[side]),
            Self::Calls(name) => times_called(profile, name).ok_or_else(|| NotCounted {
                name: shown(name).into_owned(),
                side: if side == 0 { 'A' } else { 'B' },
            }),
        }
    }
}

/// Joules cannot be divided by calls that nobody counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run of {side} has no counted calls of {name}: record it with --count={name}")]
pub struct NotCounted {
    /// The call.
    pub name: String,
    /// A or B.
    pub side: char,
}

/// What is compared, and how it looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiffOptions<'a> {
    /// What joules are divided by.
    pub work: Work<'a>,
    /// Which frames of native code count.
    pub native_frames: NativeFrames,
    /// Most rows of functions that did not change.
    pub rows: usize,
    /// Whether to colour.
    pub color: bool,
    /// Columns of the terminal; `None` where it is none.
    pub width: Option<u16>,
}

/// The energy of one function, or of the program, on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Side {
    /// Mean joules of a run, or of a unit of work.
    pub joules: f64,
    /// Variance of that mean in J²; `None`: nobody knows, as of one run.
    variance: Option<f64>,
    /// Degrees of freedom of the variance.
    freedom: f64,
}

/// How one function differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The function; `None`: the whole program.
    pub name: Option<String>,
    /// Before and after.
    pub sides: [Side; 2],
    /// By how much it may differ by chance, in joules; `None`: nobody knows.
    pub by_chance: Option<f64>,
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
}

/// What one run says of one function.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    joules: f64,
    variance: f64,
}

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
        works.collect::<Result<Vec<f64>, NotCounted>>()
    };
    let work = [work(0)?, work(1)?];
    let runs = [0, 1].map(|side| {
        let pairs = sides[side].iter().zip(&work[side]);
        pairs.map(|(profile, work)| of_run(profile, options, *work)).collect::<Vec<_>>()
    });
    let wholes = [0, 1].map(|side| {
        let pairs = sides[side].iter().zip(&work[side]);
        mean(&pairs.map(|(profile, work)| of_program(profile, *work)).collect::<Vec<_>>())
    });
    let whole = Change { name: None, sides: wholes, by_chance: by_chance(&wholes, ALPHA) };
    let changes = std::iter::once(whole).chain(of_functions(&runs, wholes)).collect();
    Ok(Comparison { sides, changes, work })
}

/// Functions, those that changed most first.
fn of_functions(runs: &[Vec<BTreeMap<String, Seen>>; 2], wholes: [Side; 2]) -> Vec<Change> {
    let least = wholes.iter().map(|whole| whole.joules).fold(0.0, f64::max) / CRUMB;
    let names: BTreeSet<&String> = runs.iter().flatten().flat_map(BTreeMap::keys).collect();
    let of = |name: &String| {
        [0, 1].map(|side: usize| {
            let seen = runs[side].iter().map(|run| run.get(name).copied().unwrap_or_default());
            mean(&seen.collect::<Vec<_>>())
        })
    };
    let pairs = names.into_iter().map(|name| (name, of(name)));
    let asked: Vec<_> = pairs.filter(|(_, sides)| sides.iter().any(|of| of.joules > least)).collect();
    let tests = asked.len().max(1) as f64;
    let change = |(name, sides): (&String, [Side; 2])| Change {
        name: Some(name.clone()),
        sides,
        by_chance: by_chance(&sides, ALPHA / tests),
    };
    let mut functions: Vec<Change> = asked.into_iter().map(change).collect();
    functions.sort_by(|one, other| {
        let key = |change: &Change| (!change.is_real(), -change.joules().abs());
        key(one).partial_cmp(&key(other)).unwrap_or(std::cmp::Ordering::Equal)
    });
    functions
}

/// Energy of the whole program in a run.
fn of_program(profile: &Profile, work: f64) -> Seen {
    let energy = run::target(profile, run::headline(profile));
    // Where nothing says how sure it is, it is taken as it is.
    let far = uncertainty::of_program(profile).map_or(0.0, |of| half_width(energy, of.ci95));
    Seen { joules: energy.as_joules() / work, variance: (far / Z / work).powi(2) }
}

/// Own energy of each function of a run.
fn of_run(profile: &Profile, options: &DiffOptions<'_>, work: f64) -> BTreeMap<String, Seen> {
    let profile = &*short_names::chosen(profile, true);
    let profile = &*native_frames::folded(profile, options.native_frames);
    let choice = run::headline(profile);
    let modelled = run::quality(profile, choice) == Some(Quality::Estimated);
    let samples: u64 = profile.rows.iter().map(|row| row.samples).fold(0, u64::saturating_add);
    let seen = |row: TopRow| {
        let energy = run::chosen(&row.cost.energy, choice);
        let (low, high) = match row.uncertainty {
            Some(uncertainty) if !modelled => uncertainty.ci95,
            _ => sampling_error::interval(energy, row.cost.samples, samples),
        };
        let far = half_width(energy, (low, high)) / Z;
        (row.name, Seen { joules: energy.as_joules() / work, variance: (far / work).powi(2) })
    };
    innermost(profile, names::frame_name).into_iter().map(seen).collect()
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
    if seen.len() < 2 {
        return Side { joules, variance: None, freedom: MANY };
    }
    let between = seen.iter().map(|seen| (seen.joules - joules).powi(2)).sum::<f64>() / (n - 1.0) / n;
    let freedom = if between >= own { n - 1.0 } else { MANY };
    Side { joules, variance: Some(between.max(own)), freedom }
}

/// By how much two sides may differ by chance.
fn by_chance(sides: &[Side; 2], alpha: f64) -> Option<f64> {
    let [a, b] = [sides[0].variance?, sides[1].variance?];
    let all = a + b;
    // Energy that no interval belongs to, such as what no sample saw.
    if all <= 0.0 {
        return None;
    }
    let freedom = all * all / (a * a / sides[0].freedom + b * b / sides[1].freedom);
    Some(student::exceeded_with(alpha / 2.0, freedom.clamp(1.0, MANY)) * all.sqrt())
}

/// Writes the table: the program, what changed, and the largest of the rest.
///
/// # Errors
/// When the writer refuses.
pub fn write(out: &mut dyn Write, compared: &Comparison<'_>, options: &DiffOptions<'_>) -> io::Result<()> {
    let sides = compared.sides;
    let width = options.width.map_or(FILE_WIDTH, usize::from);
    let look = Look { color: options.color, width: Some(width) };
    for (letter, side) in ["A", "B"].into_iter().zip(sides) {
        let what = side.first().map_or_else(String::new, run::what_was_recorded);
        let runs = if side.len() == 1 { "1 run".to_owned() } else { format!("{} runs", side.len()) };
        let line = format!("{letter}  {} ({runs}{})", shown(&what), quality(side));
        look.line(out, TITLE, &names::shorten(&line, width))?;
    }
    if let Work::Calls(name) = options.work {
        look.line(
            out,
            Style::new(),
            &names::shorten(&format!("joules of a call of {}", shown(name)), width),
        )?;
    }
    let all = &compared.changes;
    let (real, rest): (Vec<&Change>, Vec<&Change>) = all.iter().skip(1).partition(|change| change.is_real());
    let rows: Vec<&Change> = all
        .iter()
        .take(1)
        .chain(real.iter().copied())
        .chain(rest.iter().copied().take(options.rows))
        .collect();
    writeln!(out)?;
    grid(&rows).write(out, look)?;
    writeln!(out)?;
    ending(&real, &rest, sides).iter().try_for_each(|line| look.line(out, Style::new(), line))
}

/// What the joules of a side are worth at the worst; `None`: it has none.
pub(crate) fn worst_quality(side: &[Profile]) -> Option<Quality> {
    side.iter().filter_map(|profile| run::split_quality(profile, run::headline(profile))).max()
}

fn quality(side: &[Profile]) -> &'static str {
    match worst_quality(side) {
        None => ", no energy",
        Some(Quality::Estimated) => ", estimated",
        Some(_) => "",
    }
}

fn ending(real: &[&Change], rest: &[&Change], sides: [&[Profile]; 2]) -> Vec<String> {
    let count =
        |count: usize| if count == 1 { "1 function".to_owned() } else { format!("{count} functions") };
    if sides.iter().any(|side| side.len() < 2) {
        return vec![
            "equal programs differ from run to run, and one run does not show by how much:".to_owned(),
            "nothing is known to have changed; several runs of each tell, A… --vs B…".to_owned(),
        ];
    }
    vec![format!(
        "{} changed by more than chance explains (*), {} did not",
        count(real.len()),
        count(rest.len())
    )]
}

fn grid(rows: &[&Change]) -> Grid {
    let energy = |joules: f64| in_uj(joules);
    let largest = rows.iter().flat_map(|change| change.sides.iter().map(|side| energy(side.joules)));
    let scale = EnergyScale::for_largest(largest);
    let row = |change: &&Change| {
        let [a, b] = change.sides.map(|side| scale.show(energy(side.joules)));
        let difference = scale.show(energy(change.joules()));
        let sign =
            if change.joules() > 0.0 && !difference.trim_matches(['0', '.']).is_empty() { "+" } else { "" };
        let chance = change.by_chance.map_or_else(|| "?".to_owned(), |limit| in_unit(limit, "J"));
        let relative = match change.sides[0].joules {
            before if before > 0.0 => format!("{:+.1}%", 100.0 * change.joules() / before),
            _ => "new".to_owned(),
        };
        let name = change.name.as_deref().map_or("the program".into(), shown);
        let mark = if change.is_real() { "*" } else { "" };
        let cells = [
            a,
            b,
            format!("{sign}{difference}"),
            relative,
            format!("±{chance}"),
            mark.to_owned(),
            name.into_owned(),
        ];
        GridRow { cells: cells.into(), style: style(change) }
    };
    let unit = scale.unit;
    let heads = [
        format!("A {unit}"),
        format!("B {unit}"),
        "change".into(),
        "".into(),
        "chance".into(),
        "".into(),
        "function".into(),
    ];
    Grid {
        heads: heads.into(),
        words: 0,
        name_last: true,
        no_rule: true,
        rows: rows.iter().map(row).collect(),
    }
}

/// Red for more and green for less, where it is more than chance.
fn style(change: &Change) -> Style {
    match (change.is_real(), change.joules() > 0.0) {
        (false, _) => Style::new(),
        (true, true) => AnsiColor::Red.on_default(),
        (true, false) => AnsiColor::Green.on_default(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "`as` saturates; for showing")]
fn in_uj(joules: f64) -> MicroJoules {
    MicroJoules::from_uj((joules * 1e6) as i64)
}

#[cfg(test)]
mod tests {
    use super::{Change, DiffOptions, NativeFrames, Profile, Work, compare, write};
    use crate::tests::training_runs::{estimated_training, measured_training};
    use energy_trace_model::recording::record::CallCount;

    const OPTIONS: DiffOptions<'_> = DiffOptions {
        work: Work::Counts([1.0; 2]),
        native_frames: NativeFrames::Libraries,
        rows: 3,
        color: false,
        width: Some(80),
    };

    fn scaled(profile: &Profile, row: usize, factor: f64) -> Profile {
        let mut profile = profile.clone();
        for class in energy_trace_model::recording::record::DomainClass::ALL {
            let before = profile.rows[row].energy[class];
            let after = super::in_uj(before.as_joules() * factor);
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
        changes(sides, &OPTIONS)
            .into_iter()
            .filter(Change::is_real)
            .filter_map(|change| change.name)
            .collect()
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

    /// Work that was done twice as often may use twice as much; and the table fits its width and says what is not known.
    #[test]
    fn work_and_words() {
        let (before, after) = (measured_training(), scaled(&measured_training(), 7, 1.5));
        let twice = DiffOptions { work: Work::Counts([1.0, 2.0]), ..OPTIONS };
        let whole = &changes([std::slice::from_ref(&before), std::slice::from_ref(&before)], &twice)[0];
        assert!((whole.sides[1].joules * 2.0 - whole.sides[0].joules).abs() < 1e-9);
        let mut out = Vec::new();
        let (before, after) = (vec![before; 2], vec![after; 2]);
        for (runs, parts) in [
            (2, ["+50.50", "+50.0%", "  *  ", "1 function changed"]),
            (1, ["+50.50", "+50.0%", "±?", "nothing is known to have changed"]),
        ] {
            out.clear();
            let compared = compare([&before[..runs], &after[..runs]], &OPTIONS).unwrap();
            write(&mut out, &compared, &OPTIONS).unwrap();
            let text = String::from_utf8(out.clone()).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            parts.iter().for_each(|part| assert!(text.contains(part), "{part}\n{text}"));
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
        let name = crate::names::frame_name(&measured_training().frames[frame]);
        let per = DiffOptions { work: Work::Calls(&name), ..OPTIONS };
        let (before, after) = ([counted(10)], [counted(20)]);
        let [a, b] = changes([&before, &after], &per)[0].sides.map(|side| side.joules);
        assert!(a > 0.0 && (a - 2.0 * b).abs() < 1e-9, "{a} {b}");
        let error = compare([&before, &[measured_training()]], &per).unwrap_err();
        assert_eq!((error.side, error.to_string().contains("--count")), ('B', true));
    }
}
