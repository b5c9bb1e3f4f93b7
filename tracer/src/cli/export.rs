//! `energy-trace export FILE --format FORMAT`: a recording for another tool.
//!
//! Leaves out the formats (`report::export`).

use super::accounting::AccountingArgs;
use super::arguments::ArgumentsArgs;
use super::carbon::CarbonArgs;
use super::choices;
use super::failure::Failure;
use super::output::{part_of, read_recording, write_folder, write_to};
use super::range::RangeArgs;
use super::stacks::StackArgs;
use crate::collector::{Collector, Endpoint, Next, Outbox, Refused};
use clap::Args;
use energy_trace_attribution::attribute_over_time_owned;
use energy_trace_export::{ExportOptions, Format, Input};
use energy_trace_model::profile::{Options, View};
use energy_trace_report::DomainChoice;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a collector is asked again that is busy or away.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the user typed after `export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Recording file
    #[arg(value_name = "FILE", default_value = "energy-trace.data")]
    pub file: PathBuf,

    /// Output format
    #[arg(long, value_parser = choices::export_format())]
    pub format: &'static Format,

    /// Output file, or folder where the format is one; standard output if not given
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,

    /// Send `--format otlp` to an OpenTelemetry collector, such as http://localhost:4318, instead of writing it
    #[arg(long, value_name = "URL", conflicts_with = "output")]
    pub send: Option<Endpoint>,

    /// Drop C++ template arguments, and merge functions that become equal
    #[arg(long)]
    pub short_names: bool,

    /// Which stacks
    #[command(flatten)]
    pub stacks: StackArgs,

    /// Energy to include: total, package, dram, gpu or psys
    #[arg(long, default_value = "total")]
    pub domain: DomainChoice,

    #[command(flatten)]
    pub carbon: CarbonArgs,

    /// Where to charge the energy of worker threads
    #[arg(long, value_parser = choices::view(), default_value = "logical")]
    pub view: View,

    /// Which part of the run
    #[command(flatten)]
    pub range: RangeArgs,

    #[command(flatten)]
    pub arguments: ArgumentsArgs,

    /// How energy is accounted for
    #[command(flatten)]
    pub accounting: AccountingArgs,
}

/// Writes a recording in another format.
pub(super) fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let format = args.format;
    let to_terminal = args.output.is_none() && std::io::stdout().is_terminal();
    if args.send.is_some() && format.name != "otlp" {
        return Err(Failure::usage("--send is for --format otlp, which collectors take"));
    }
    if format.is_folder() {
        check_folder(format, args.output.as_deref())?;
    }
    // A page is megabytes of text that nobody reads.
    if to_terminal && args.send.is_none() && (format.is_binary || format.name == "html") {
        return Err(Failure::usage(format!("{} is not for a terminal: name a file with -o", format.name)));
    }
    let recording = read_recording(&args.file)?;
    let options = Options { view: args.view, accounting: args.accounting.into() };
    let (mut profile, over_time) = match format.is_timed {
        false => (part_of(recording, &options, args.range)?, None),
        true => {
            let (profile, over_time) = attribute_over_time_owned(recording, &options);
            (profile, Some(over_time))
        }
    };
    profile.keep_arguments(args.arguments.in_files());
    let bins = over_time.as_ref().map_or(Ok(0..0), |over_time| args.range.bins_or_all(&over_time.bins))?;
    let options = ExportOptions {
        domain: args.domain,
        short_names: args.short_names,
        native_frames: args.stacks.native_frames,
        per: args.stacks.per,
        rest: args.stacks.rest(),
        grid_mg_per_kwh: args.carbon.mg_per_kwh(),
    };
    let input = Input { profile: &profile, over_time: over_time.as_ref(), bins };
    if let (true, Some(folder)) = (format.is_folder(), &args.output) {
        return write_folder(
            folder,
            &format.objects(&input, &options).map_err(|error| Failure::own(&error))?,
        );
    }
    if let Some(collector) = &args.send {
        let mut message = Vec::new();
        format.write(&mut message, &input, &options).map_err(|error| Failure::own(&error))?;
        return send(message, collector);
    }
    write_to(args.output.as_deref(), |out| format.write(out, &input, &options))
}

/// A format that is a folder goes into one.
fn check_folder(format: &Format, output: Option<&Path>) -> Result<(), Failure> {
    let text = match output {
        None => format!("{} is a folder: name one with -o", format.name),
        Some(file) if file.exists() && !file.is_dir() => {
            format!("{} is a folder, and {} is a file: name a folder with -o", format.name, file.display())
        }
        Some(_) => return Ok(()),
    };
    Err(Failure::usage(text))
}

/// Why profiles did not get to a collector.
#[derive(Debug, thiserror::Error)]
enum NotSent {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("no collector took the profiles within {} s: {}", PATIENCE.as_secs(), .0)]
    Nobody(Refused),
}

/// Sends a message until it is taken or refused.
fn send(message: Vec<u8>, endpoint: &Endpoint) -> Result<ExitCode, Failure> {
    let (collector, start) = (Collector::new(endpoint.clone()), Instant::now());
    let mut outbox = Outbox::new(std::process::id());
    outbox.put(message);
    let mut why = Refused::Silent("not in time".to_owned());
    loop {
        match outbox.next(start.elapsed()) {
            Next::Idle => return Ok(ExitCode::SUCCESS),
            Next::WaitUntil(then) if then > PATIENCE => return Err(Failure::own(&NotSent::Nobody(why))),
            Next::WaitUntil(then) => std::thread::sleep(then.saturating_sub(start.elapsed())),
            Next::Send(message) => match outbox.answered(collector.send(&message), start.elapsed()) {
                Some(refused) if !refused.is_for_now() => {
                    return Err(Failure::own(&NotSent::Refused(refused)));
                }
                refused => why = refused.unwrap_or(why),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, check_folder};
    use std::path::Path;

    /// What is a folder goes into one, which may be new, and over no file.
    #[test]
    fn folders() {
        let format = Format::named("parquet-fleet").unwrap();
        let said = |output: Option<&str>| {
            check_folder(format, output.map(Path::new)).map_err(|failure| failure.to_string())
        };
        assert_eq!((said(Some("/")), said(Some("/no/such/folder"))), (Ok(()), Ok(())));
        assert!(said(None).unwrap_err().contains("name one with -o"));
        let said = said(Some("/proc/self/stat")).unwrap_err();
        assert!(said.contains("/proc/self/stat is a file: name a folder with -o"), "{said}");
    }
}
