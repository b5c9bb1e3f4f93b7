//! A profile in the formats of other tools, one file or folder a format.
//!
//! ```
//! use energy_trace_export::Format;
//!
//! assert!(Format::named("speedscope").is_some_and(|format| !format.is_binary));
//! ```
//!
//! Heavy formats are features of this package, on unless they are left out: `parquet`, `protobuf` (pprof and OpenTelemetry) and `firefox`.
//!
//! To add one: its file here with a `write` as the others have (`stacks_json` is a short one), and its line in `FORMATS`; command line, help and
//! errors follow. `Stacks` has the frames and what each stack spent. A file with room for words says how far its energy can be trusted, and where
//! there is none, that it has CPU time alone (`Stacks::quality`); one without is in the list `silent` of the test `time_alone_is_said`
//! (`tests/offline/report/every_output`). Leaves out folded stacks, CSV and the HTML page, which are package `report`'s.

mod chrome;
mod emissions;
#[cfg(feature = "firefox")]
mod firefox;
#[cfg(feature = "parquet")]
pub mod fleet;
mod greenlight;
#[cfg(feature = "protobuf")]
mod otlp;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
pub mod parquet_file;
#[cfg(feature = "protobuf")]
mod pprof;
mod speedscope;
mod stacks;
mod stacks_json;
mod texts;
mod timed;
#[cfg(any(feature = "parquet", feature = "protobuf"))]
mod workloads;

use energy_trace_model::profile::Profile;
use energy_trace_model::profile::over_time::OverTime;
use energy_trace_names::native_frames::NativeFrames;
use energy_trace_report::folded::{self, FoldedOptions, Per};
use energy_trace_report::rest::Rest;
use energy_trace_report::{DomainChoice, csv, html, run};
use std::io::{self, Write};
use std::ops::Range;

/// What is exported.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// What a recording means.
    pub profile: &'a Profile,
    /// The same over time, where the format asks for it; then the profile is that of the whole run.
    pub over_time: Option<&'a OverTime>,
    /// The part of the run that is exported, where there is a time.
    pub bins: Range<u32>,
}

/// What the user chose, for all formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// The energy that is exported.
    pub domain: DomainChoice,
    /// Without the arguments of templates.
    pub short_names: bool,
    /// Which frames of native code are kept.
    pub native_frames: NativeFrames,
    /// Which roots stacks have; `None` leaves it to the format.
    pub per: Option<Per>,
    /// What stands beside the program.
    pub rest: Rest,
    /// Milligrams of CO₂ equivalent that a kilowatt-hour of the grid costs, where the user says so.
    pub grid_mg_per_kwh: Option<u64>,
}

/// The same with the format's own choice of roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackOptions {
    pub(crate) domain: DomainChoice,
    pub(crate) short_names: bool,
    pub(crate) native_frames: NativeFrames,
    pub(crate) per: Per,
    pub(crate) rest: Rest,
}

impl ExportOptions {
    /// The same for a profile, which may have psys alone.
    fn of(&self, profile: &Profile) -> Self {
        Self { domain: run::or_headline(self.domain, profile), ..*self }
    }

    /// With these roots where the user has not chosen any.
    fn stacks(&self, per: Per) -> StackOptions {
        let Self { domain, short_names, native_frames, rest, .. } = *self;
        StackOptions { domain, short_names, native_frames, per: self.per.unwrap_or(per), rest }
    }
}

/// A file of a format that is a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its path in the folder, made of letters, digits and `-._=`, with `/` between folders.
    pub key: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
enum Writing {
    File(WritingFile),
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "what is a folder is Parquet"))]
    Folder(fn(&Input<'_>, &ExportOptions) -> io::Result<Vec<Object>>),
}

type WritingFile = fn(&mut dyn Write, &Input<'_>, &ExportOptions) -> io::Result<()>;

/// A format, by its place in `FORMATS`.
#[derive(Debug)]
pub struct Format {
    /// Its word on the command line.
    pub name: &'static str,
    /// What it is for, for the help.
    pub help: &'static str,
    /// Whether it is no text.
    pub is_binary: bool,
    /// Whether it has a time axis.
    pub is_timed: bool,
    write: Writing,
}

const fn text(name: &'static str, help: &'static str, write: WritingFile) -> Format {
    Format { name, help, is_binary: false, is_timed: false, write: Writing::File(write) }
}

const fn binary(name: &'static str, help: &'static str, write: WritingFile) -> Format {
    Format { name, help, is_binary: true, is_timed: false, write: Writing::File(write) }
}

const fn timed(name: &'static str, help: &'static str, write: WritingFile) -> Format {
    Format { name, help, is_binary: false, is_timed: true, write: Writing::File(write) }
}

const fn timed_binary(name: &'static str, help: &'static str, write: WritingFile) -> Format {
    Format { name, help, is_binary: true, is_timed: true, write: Writing::File(write) }
}

#[cfg(feature = "parquet")]
const fn timed_folder(
    name: &'static str,
    help: &'static str,
    write: fn(&Input<'_>, &ExportOptions) -> io::Result<Vec<Object>>,
) -> Format {
    Format { name, help, is_binary: true, is_timed: true, write: Writing::Folder(write) }
}

/// All formats, in the order of the help.
pub static FORMATS: &[Format] = &[
    text("folded", "Stacks and microjoules, one a line, for flame graph tools", write_folded),
    #[cfg(feature = "protobuf")]
    binary("pprof", "For `go tool pprof`, Pyroscope, Parca and others", pprof::write),
    text("speedscope", "For speedscope", speedscope::write),
    #[cfg(feature = "firefox")]
    timed("firefox", "For the Firefox Profiler: stacks over time, and power", firefox::write),
    timed("chrome", "Trace events over time, for Perfetto and Chrome", chrome::write),
    #[cfg(feature = "protobuf")]
    binary("otlp", "OpenTelemetry profiles, a protobuf message in a file", otlp::write),
    text("json", "Stacks, for programs", stacks_json::write),
    timed("html", "A page for a browser: power over time, flame graph, tables", write_html),
    timed("greenlight", "API calls as the GreenLight data set has them, JSON", greenlight::write),
    #[cfg(feature = "parquet")]
    timed_binary("parquet", "Stacks over time, for DuckDB, pandas and data warehouses", parquet::write),
    #[cfg(feature = "parquet")]
    timed_binary("parquet-readings", "Each power domain over time, for the same", parquet::write_readings),
    #[cfg(feature = "parquet")]
    timed_binary(
        "parquet-work",
        "Each unit of work over time, with the program's joules, for the same",
        parquet::write_work,
    ),
    #[cfg(feature = "parquet")]
    timed_folder(
        "parquet-fleet",
        "A folder of tables by minutes, workloads and stacks, for questions to many machines",
        fleet::write,
    ),
    text("emissions", "A line as CodeCarbon's emissions.csv", emissions::write),
    text("csv", "Functions, for spreadsheets; as `report --format csv`", write_csv),
];

impl Format {
    /// The format of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Whether it is a folder of files.
    pub const fn is_folder(&self) -> bool {
        matches!(self.write, Writing::Folder(_))
    }

    /// Writes a profile in this format; of one that is a folder, its files behind each other.
    ///
    /// # Errors
    /// When the writer refuses.
    pub fn write(&self, out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
        match self.write {
            Writing::File(write) => write(out, input, &options.of(input.profile)),
            Writing::Folder(_) => {
                self.objects(input, options)?.iter().try_for_each(|object| out.write_all(&object.bytes))
            }
        }
    }

    /// The files of a format that is a folder; of any other, none.
    ///
    /// # Errors
    /// When the profile cannot be written so.
    pub fn objects(&self, input: &Input<'_>, options: &ExportOptions) -> io::Result<Vec<Object>> {
        match self.write {
            Writing::File(_) => Ok(Vec::new()),
            Writing::Folder(write) => write(input, options),
        }
    }
}

fn write_folded(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let StackOptions { domain, short_names, native_frames, per, rest } = options.stacks(Per::Thread);
    folded::write(out, input.profile, &FoldedOptions { domain, short_names, native_frames, per, rest })
}

fn write_html(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let over_time = input.over_time.ok_or_else(|| io::Error::other("energy over time was not asked for"))?;
    html::write(out, input.profile, over_time, &input.bins, options.short_names)
}

fn write_csv(out: &mut dyn Write, input: &Input<'_>, _options: &ExportOptions) -> io::Result<()> {
    csv::write(out, input.profile)
}

#[cfg(test)]
mod tests;
