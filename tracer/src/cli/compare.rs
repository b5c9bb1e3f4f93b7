//! `energy-trace compare -- A -- B`: programs run in turn, again and again, and held against each other.
//!
//! What runs them keeps the privileges of recording; everything else is done by a process that has given them up. Leaves out both (`study`).

use super::common::Common;
use super::failure::{Failure, OWN_FAILURE};
use super::output::write_to;
use super::record::RecordArgs;
use super::resolve::check_work;
use super::unprivileged::give_up_privileges;
use super::work;
use crate::message;
use crate::session::check_command;
use clap::{Args, FromArgMatches, ValueEnum};
use energy_trace_model::recording::record::WorkCounter;
use energy_trace_study::data::Study;
use energy_trace_study::plan::{self, Plan};
use energy_trace_study::suite::Suite;
use energy_trace_study::tables::layouts::{self, As, Layout};
use energy_trace_study::tables::{dataset, markup, page, table};
use energy_trace_study::{Metric, Numbers, Pattern, Shown, conduct, launcher};
use energy_trace_system::roles::child::{Parent, fork_role};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Longest suite file.
const MOST_BYTES: u64 = 1 << 20;
/// Options of `record` that a study decides itself.
const OWN: [&str; 12] = [
    "command",
    "pid",
    "cgroup",
    "all",
    "duration",
    "output",
    "svg",
    "no_svg",
    "budget",
    "budget_call",
    "budget_call_optional",
    "budget_range",
];

/// What the user typed after `compare`.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// The programs, each after `--`; one that has `--` itself goes into a suite file. None: go on with the study in the folder
    #[arg(last = true, value_name = "A -- B", conflicts_with = "suite")]
    pub programs: Vec<String>,

    /// A file with the commands, and variables that make more of them (TOML)
    #[arg(long, value_name = "FILE")]
    pub suite: Option<PathBuf>,

    /// Rounds; each program runs once in each, in random order [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,

    /// Runs of each program before the first round, which do not count [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub warm_ups: Option<u32>,

    /// Pause before each run [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub rest: Option<Duration>,

    /// After the pause, wait until the machine's power varies by no more than PERCENT in three looks of two seconds
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub stable: Option<f64>,

    /// Wait for it no longer than this
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "5m")]
    pub stable_within: Duration,

    /// End a run that takes longer, as a failed one
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub limit: Option<Duration>,

    /// How long to look at the idle machine before, between and after rounds; 0s: never [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub idle: Option<Duration>,

    /// Seed of the order of runs [default: a random one, which is printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// A number that programs print: the last one that the expression's group holds
    #[arg(long, value_name = "NAME=REGEX")]
    pub metric: Vec<Metric>,

    /// A text that programs print, such as a version, for the data sets
    #[arg(long, value_name = "NAME=REGEX")]
    pub fact: Vec<Metric>,

    /// How often programs called what, as they print it: two groups, a name and a number. Gives the joules of one call
    #[arg(long, value_name = "REGEX")]
    pub calls: Option<Pattern>,

    /// Show joules per unit of work of each program: the option of `record`, for every run
    #[arg(long, value_name = "NAME=SOURCE", value_parser = work::parse)]
    pub work: Vec<WorkCounter>,

    /// Divide energies and times of whole runs by this metric or unit of work
    #[arg(long, value_name = "METRIC")]
    pub per: Option<String>,

    /// Something to remember, which goes into the data sets
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_note)]
    pub note: Vec<(String, String)>,

    /// Names of the programs in tables, in their order [default: A, B, …]
    #[arg(long, value_name = "NAME")]
    pub label: Vec<String>,

    /// Options of `record` for every run: --record '--power rapl --gpu kernel'
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub record: String,

    /// Folder of the study: plan, recordings, tables, data sets
    #[arg(short, long, value_name = "DIR", default_value = "energy-trace.study")]
    pub output: PathBuf,

    /// Take the numbers of all runs from their recordings and outputs again, as after an update of energy-trace
    #[arg(long)]
    pub measure_again: bool,

    /// What to write to stdout; the folder has all of them
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    /// As published studies lay out their tables; for table, markdown, latex and csv
    #[arg(long, value_enum)]
    pub layout: Option<TableLayout>,

    /// Most rows of calls, and of functions
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rows: usize,
}

/// What is written to stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For the terminal.
    Table,
    /// For a page.
    Markdown,
    /// For a paper, with booktabs.
    Latex,
    /// The tables' numbers.
    Csv,
    /// A page with every run as a dot.
    Html,
    /// Everything: schema energy-trace/study/1.0.
    Json,
    /// A row for each run.
    Dataset,
}

/// How tables are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TableLayout {
    /// A model a row, frameworks side by side, with p/p_min
    Models,
    /// Energy with time, for each framework
    Correlations,
    /// A configuration a row, with watts
    Configurations,
    /// A call a row: how often, joules, share, joules of one
    Calls,
    /// Fixed joules, and joules of one more of a size
    Growth,
}

impl From<TableLayout> for Layout {
    fn from(layout: TableLayout) -> Self {
        match layout {
            TableLayout::Models => Self::Models,
            TableLayout::Correlations => Self::Correlations,
            TableLayout::Configurations => Self::Configurations,
            TableLayout::Calls => Self::Calls,
            TableLayout::Growth => Self::Growth,
        }
    }
}

/// Runs the study, or what is left of it.
pub(super) fn run(args: &CompareArgs, common: &Common) -> Result<ExitCode, Failure> {
    let options = record_options(&args.record, &args.work)?;
    if args.layout.is_some() && sheet_format(args.format, None).is_none() {
        return Err(Failure::usage("--layout is for --format table, markdown, latex and csv"));
    }
    if !args.programs.is_empty() {
        plan::programs(&args.programs, &args.label).map_err(Failure::usage)?;
    }
    let conductor = fork_role(c"study", |parent| i32::from(conducted(&parent, args, &options, common)));
    let conductor = conductor.map_err(|error| Failure::own(&error))?;
    launcher::serve(conductor, &options).map(ExitCode::from).map_err(|error| Failure::own(&error))
}

/// The conductor's process.
fn conducted(parent: &Parent, args: &CompareArgs, options: &[String], common: &Common) -> u8 {
    let status = match study(parent, args, options, common) {
        Ok(()) => 0,
        Err(failure) => {
            message::say(&failure.to_string());
            if failure.is_usage() { 2 } else { OWN_FAILURE }
        }
    };
    energy_trace_study::end(&parent.channel, status);
    status
}

fn study(parent: &Parent, args: &CompareArgs, options: &[String], common: &Common) -> Result<(), Failure> {
    give_up_privileges()?;
    parent.die_with_it().map_err(|error| Failure::own(&error))?;
    let plan = wanted(args, options)?;
    plan.iter().try_for_each(check_programs)?;
    let shown = Shown { progress: !common.quiet };
    let numbers = if args.measure_again { Numbers::Again } else { Numbers::Known };
    let study = conduct(&parent.channel, &args.output, plan, options, numbers, shown);
    let study = study.map_err(|error| Failure::own(&error))?;
    show(&study, args, common)?;
    // Its tables hold, but a script that goes by the status would take it for a study without failures.
    match table::failed_title(&study) {
        Some(title) => Err(Failure::incomplete(format!(
            "{title}; why each did is in {}",
            args.output.join("runs").display()
        ))),
        None => Ok(()),
    }
}

/// A program that is not there would fail in every run.
fn check_programs(plan: &Plan) -> Result<(), Failure> {
    let mut first = plan.programs.iter().filter_map(|of| Some((&of.label, of.command.first()?)));
    first.try_for_each(|(label, command)| {
        let checked = check_command(&command.into());
        checked.map_err(|error| Failure::own(&error).advise(Some(format!("it is {label}; no run was made"))))
    })
}

/// How a layout is written in this format, where it can be.
const fn sheet_format(format: Format, width: Option<u16>) -> Option<As> {
    match format {
        Format::Table => Some(As::Text(width)),
        Format::Markdown => Some(As::Markdown),
        Format::Latex => Some(As::Latex),
        Format::Csv => Some(As::Csv),
        Format::Html | Format::Json | Format::Dataset => None,
    }
}

fn show(study: &Study, args: &CompareArgs, common: &Common) -> Result<(), Failure> {
    let stdout = io::stdout();
    let options = table::Options {
        rows: args.rows,
        color: common.color.resolve(stdout.is_terminal()),
        width: terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0),
    };
    if let Some((layout, how)) = args.layout.zip(sheet_format(args.format, options.width)) {
        return write_to(None, |out| layouts::write(out, study, layout.into(), how)).map(|_| ());
    }
    write_to(None, |out| match args.format {
        Format::Table => {
            table::write(out, study, &options)?;
            writeln!(out, "\n{}", folder(&args.output, options.width))
        }
        Format::Markdown => markup::markdown(out, study, args.rows),
        Format::Latex => markup::latex(out, study, args.rows),
        Format::Csv => markup::csv(out, study),
        Format::Html => page::write(out, study, args.rows),
        Format::Json => dataset::json(out, study),
        Format::Dataset => dataset::csv(out, study),
    })
    .map(|_| ())
}

/// Where everything is; a path that has no room has a line of its own, and is never cut.
fn folder(path: &Path, width: Option<u16>) -> String {
    let (said, path) = ("recordings, tables and data sets:", path.display());
    let whole = format!("{said} {path}");
    let fits = width.is_none_or(|width| whole.chars().count() <= usize::from(width));
    if fits { whole } else { format!("{said}\n  {path}") }
}

/// The plan that was typed; `None` where no program was.
fn wanted(args: &CompareArgs, options: &[String]) -> Result<Option<Plan>, Failure> {
    let suite = args.suite.as_deref().map(read_suite).transpose()?;
    let programs = match &suite {
        None if args.programs.is_empty() => return Ok(None),
        None => plan::programs(&args.programs, &args.label),
        Some(suite) => suite.programs(&suite_folder(args.suite.as_deref())),
    };
    let suite = suite.unwrap_or_default();
    let mut metrics = suite.metrics().map_err(Failure::usage)?;
    metrics.extend(args.metric.iter().cloned());
    let mut facts = suite.facts().map_err(Failure::usage)?;
    facts.extend(args.fact.iter().cloned());
    let per = args.per.clone().or(suite.per);
    let mut counting =
        metrics.iter().map(|metric| &metric.name).chain(args.work.iter().map(|work| &work.name));
    if let Some(per) = per.as_ref().filter(|per| !counting.any(|name| name == *per)) {
        return Err(Failure::usage(format!(
            "--per {per}: there is no metric or unit of that name; add --metric '{per}=REGEX' or --work {per}=SOURCE"
        )));
    }
    Ok(Some(Plan {
        schema: plan::SCHEMA.to_owned(),
        seed: args.seed.or(suite.seed).unwrap_or_else(|| u64::from(fastrand::u16(..))),
        rounds: args.runs.or(suite.runs).unwrap_or(20),
        warm_ups: args.warm_ups.or(suite.warm_ups).unwrap_or(1),
        idle: args.idle.or(suite.idle).unwrap_or(Duration::from_secs(5)),
        rest: args.rest.or(suite.rest).unwrap_or(Duration::from_secs(10)),
        stable: args.stable,
        stable_within: args.stable_within,
        limit: args.limit.or(suite.limit),
        metrics,
        facts,
        calls: args.calls.clone().or(suite.calls),
        per,
        compared: suite.compare,
        against: suite.against,
        noted: args.note.iter().cloned().collect(),
        record: options.to_vec(),
        programs: programs.map_err(Failure::usage)?,
        notes: Vec::new(),
    }))
}

/// The folder of a suite file, whole, so that its commands work from any folder.
fn suite_folder(file: Option<&Path>) -> PathBuf {
    let folder = file.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

fn read_suite(path: &Path) -> Result<Suite, Failure> {
    let text = energy_trace_study::read_text(path, MOST_BYTES)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    Suite::parse(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

/// The options of a recording, as `record` will take them, with units of work; what a study decides itself is
/// refused.
fn record_options(text: &str, work: &[WorkCounter]) -> Result<Vec<String>, Failure> {
    let mut words = shlex::split(text).ok_or_else(|| Failure::usage("--record: a quote has no end"))?;
    words.extend(work.iter().map(|unit| format!("--work={}={}", unit.name, unit.source.words())));
    let command = RecordArgs::augment_args(clap::Command::new("record"));
    let line = std::iter::once("record".to_owned()).chain(words.iter().cloned());
    let matches = command.try_get_matches_from(line).map_err(|error| Failure::usage_of("--record", error))?;
    let options = RecordArgs::from_arg_matches(&matches);
    let options = options.map_err(|error| Failure::usage_of("--record", error))?;
    check_work(&options).map_err(|error| Failure::usage(error.to_string()))?;
    let is_own = |id: &&clap::Id| {
        OWN.contains(&id.as_str())
            && matches.value_source(id.as_str()) == Some(clap::parser::ValueSource::CommandLine)
    };
    match matches.ids().find(is_own) {
        Some(own) => Err(Failure::usage(format!("--record: {own} is the study's own; leave it away"))),
        None => Ok(words),
    }
}

fn parse_note(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    if key.trim().is_empty() {
        Err("expected KEY=VALUE".into())
    } else {
        Ok((key.trim().into(), value.trim().into()))
    }
}

/// A time, which may be none.
fn parse_time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.map_or_else(
        || {
            humantime::parse_duration(text)
                .map_err(|error| format!("{error}; write it as 30 (seconds), 500ms or 5m"))
        },
        Ok,
    )
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent =
        text.trim_end_matches('%').parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.map(|percent| percent / 100.0).ok_or_else(|| "expected percent above zero, such as 3".into())
}

#[cfg(test)]
mod tests {
    use super::{parse_percent, parse_time, record_options, work};
    use std::time::Duration;

    /// Options of recordings are `record`'s, without what a study decides.
    #[test]
    fn options_of_recordings() {
        let options = |text| record_options(text, &[]);
        assert_eq!(options("--power model -F '99'").unwrap(), ["--power", "model", "-F", "99"]);
        for wrong in ["--nothing", "-o x", "-a", "-p 1", "true", "--svg x", "'", "-F 0", "--budget 1J"] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
        let unit = work::parse(r"step=stdout:a b=(\d+)").unwrap();
        let with_unit = record_options("-F 99", std::slice::from_ref(&unit));
        assert_eq!(with_unit.unwrap(), ["-F", "99", r"--work=step=stdout:a b=(\d+)"]);
        let many: Vec<_> = (0..=256).map(|n| work::parse(&format!("u{n}=file:/x")).unwrap()).collect();
        let said = record_options("", &many).unwrap_err().to_string();
        assert!(
            record_options("", &many[1..]).is_ok() && said.contains("--work can be given 256 times"),
            "{said}"
        );
        let there = work::parse("x=prometheus:http://192.0.2.1/#y").unwrap();
        for wrong in [[unit.clone(), unit.clone()], [unit, there]] {
            assert!(record_options("", &wrong).is_err(), "{wrong:?}");
        }
    }

    /// No pause is a pause; no percentage is none.
    #[test]
    fn times_and_parts() {
        assert_eq!((parse_time("0"), parse_time("1m")), (Ok(Duration::ZERO), Ok(Duration::from_secs(60))));
        assert!(parse_time("-1").is_err() && parse_time("soon").is_err());
        assert_eq!(parse_percent("3%"), Ok(0.03));
        assert!(parse_percent("0").is_err() && parse_percent("nan").is_err());
    }
}
