//! `energy-trace diff A B`: two recordings, or two sets of them, held against each other.
//!
//! Leaves out what counts as a difference (`report::diff`).

use super::accounting::AccountingArgs;
use super::arguments::ArgumentsArgs;
use super::choices;
use super::common::Common;
use super::failure::Failure;
use super::output::{read_recording, write_to};
use super::per_work;
use super::range::RangeArgs;
use clap::{Args, ValueEnum};
use energy_trace_attribution::attribute_owned;
use energy_trace_model::profile::{Options, Profile, View};
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_report::diff::{self, Comparison, DiffOptions};
use energy_trace_report::{By, ReportError, diff_flame, diff_json, diff_parts, diff_table};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the user typed after `diff`.
#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// Two recordings, before and after; or with --vs all recordings of before
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The recordings of after: several runs of a side show how much runs differ
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub vs: Vec<PathBuf>,

    /// Divide joules by the work of a run: one number, or one for before and one for after
    #[arg(long, value_name = "N[,M]", value_parser = parse_per_count, default_value = "1")]
    pub per_count: PerCount,

    /// Joules of a call of this name, as `record --count` counted them: torch.autograd.backward
    #[arg(long, value_name = "CALL", conflicts_with = "per_count")]
    pub per: Option<String>,

    /// Joules per unit of work, as `record --work NAME=…` counted it, of the time alone in which units were done: record
    /// before and after with the same --work, then `diff a.data b.data --per-work NAME`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["per_count", "per"])]
    pub per_work: Option<String>,

    /// Output format
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,

    /// Also draw the difference as a flame graph: width is after, colour what changed
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// What to compare [default: Python functions of Python programs, else functions]
    #[arg(long, value_parser = choices::compared())]
    pub by: Option<By>,

    /// Which frames of native code count, by function
    #[arg(long, value_parser = choices::native_frames(), value_name = "WHICH")]
    pub native_frames: Option<NativeFrames>,

    /// Most rows of what is not known to have changed
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rows: usize,

    /// Where to charge the energy of worker threads
    #[arg(long, value_parser = choices::view(), default_value = "logical")]
    pub view: View,

    #[command(flatten)]
    pub arguments: ArgumentsArgs,

    /// How energy is accounted for
    #[command(flatten)]
    pub accounting: AccountingArgs,
}

/// The form of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Table,
    /// For programs, as docs/contract.md describes
    Json,
}

/// Work of a run, before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PerCount([f64; 2]);

fn parse_per_count(text: &str) -> Result<PerCount, String> {
    let (before, after) = text.split_once(',').unwrap_or((text, text));
    let count =
        |text: &str| text.trim().parse::<f64>().ok().filter(|count| count.is_finite() && *count > 0.0);
    let work = count(before).zip(count(after)).map(|(before, after)| PerCount([before, after]));
    work.ok_or_else(|| "expected a number above zero, or two: 1000 or 1000,1200".into())
}

/// Shows the difference on stdout.
pub(super) fn run(args: &DiffArgs, common: &Common) -> Result<ExitCode, Failure> {
    let (before, after) = match (args.files.as_slice(), args.vs.as_slice()) {
        ([before, after], []) => (std::slice::from_ref(before), std::slice::from_ref(after)),
        (_, []) => return Err(Failure::usage("name two recordings, or sets of them: A1 A2 … --vs B1 B2 …")),
        (before, after) => (before, after),
    };
    let options = Options { view: args.view, accounting: args.accounting.into() };
    let read = |files: &[PathBuf]| {
        files
            .iter()
            .map(|file| {
                let mut profile = match &args.per_work {
                    Some(name) => per_work::read(file, &options, RangeArgs::default(), (name, By::Function))?,
                    None => attribute_owned(read_recording(file)?, &options),
                };
                let command = profile.run.header.command.clone();
                profile.keep_arguments(args.arguments.in_files());
                Ok((profile, command))
            })
            .collect::<Result<(Vec<Profile>, Vec<Vec<String>>), Failure>>()
    };
    let named = |files: &[PathBuf]| -> Vec<String> {
        files.iter().map(|file| file.to_string_lossy().into_owned()).collect()
    };
    let files = [named(before), named(after)];
    let ((before, ran_before), (after, ran_after)) = (read(before)?, read(after)?);
    refuse_repeated(&files, [&before, &after])?;
    let stdout = std::io::stdout();
    let work = match (args.per.as_deref(), args.per_work.as_deref()) {
        (Some(call), _) => diff::Divisor::Calls(call),
        (None, Some(name)) => diff::Divisor::Units(name),
        (None, None) => diff::Divisor::Counts(args.per_count.0),
    };
    let usual = || match args.native_frames {
        Some(_) => By::Function,
        None => diff_parts::usual([&before, &after]),
    };
    let options = DiffOptions {
        files: [&files[0], &files[1]],
        commands: [&ran_before, &ran_after],
        work,
        by: args.by.unwrap_or_else(usual),
        native_frames: args.native_frames.unwrap_or_default(),
        rows: args.rows,
        color: common.color.resolve(stdout.is_terminal()),
        width: terminal_size::terminal_size_of(&stdout).map(|(width, _)| width.0),
    };
    let compared = diff::compare([&before, &after], &options).map_err(|e| Failure::own(&e))?;
    // What cannot be drawn can be read all the same.
    let drawn = draw(args, &compared, options);
    let shown = write_to(None, |out| match args.format {
        Format::Table => diff_table::write(out, &compared, &options),
        Format::Json => diff_json::write(out, &compared, &options),
    })?;
    drawn.map(|()| shown)
}

/// A recording that is named twice on a side would count as two runs that are alike.
fn refuse_repeated(files: &[Vec<String>; 2], sides: [&Vec<Profile>; 2]) -> Result<(), Failure> {
    for (names, runs) in files.iter().zip(sides) {
        for (at, run) in runs.iter().enumerate() {
            let is_it = |other: &Profile| diff_parts::is_same_recording(other, run);
            if let Some(first) = runs.iter().take(at).position(is_it) {
                let text = format!("{} and {} are one recording: name it once", names[first], names[at]);
                return Err(Failure::usage(text));
            }
        }
    }
    Ok(())
}

/// The flame graph, where one is wanted: what is coloured are functions whose own energy changed.
fn draw(args: &DiffArgs, compared: &Comparison<'_>, options: DiffOptions<'_>) -> Result<(), Failure> {
    let Some(path) = args.svg.as_deref() else { return Ok(()) };
    let options = DiffOptions { by: By::Function, ..options };
    let compared = diff::compare(compared.sides, &options).map_err(|e| Failure::own(&e))?;
    let mut svg = Vec::new();
    diff_flame::write(&mut svg, &compared, &options).map_err(|e| not_drawn(&e, path))?;
    write_to(Some(path), |out| out.write_all(&svg)).map(|_| ())
}

fn not_drawn(error: &ReportError, path: &Path) -> Failure {
    let nothing = matches!(error, ReportError::NoEnergy { .. });
    let path = path.display();
    Failure::own(error).advise(nothing.then(|| {
        format!("{path} is not written: the flame graph is of what was recorded after, the table is of both")
    }))
}

#[cfg(test)]
mod tests {
    use super::{PerCount, parse_per_count};

    /// One count is of both sides; nothing, zero and words are none.
    #[test]
    fn work() {
        assert_eq!(parse_per_count("4"), Ok(PerCount([4.0, 4.0])));
        assert_eq!(parse_per_count("4, 8.5"), Ok(PerCount([4.0, 8.5])));
        for wrong in ["", "0", "-1", "nan", "1,0", "1,2,3", "x"] {
            assert!(parse_per_count(wrong).is_err(), "{wrong}");
        }
    }
}
