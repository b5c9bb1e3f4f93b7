//! What is made of a recording when it is over: attributed energy, the flame graph, the summary on stderr.
//!
//! From the recording's own descriptor, as `report` would do it from the file. Leaves out where files go (`outputs.rs`).

use super::outputs::{OutputError, Outputs};
use crate::message;
use crate::plan::{RecordPlan, Screen};
use energy_trace_attribution::attribute_over_time_owned;
use energy_trace_model::profile::arguments::{Arguments, without_arguments};
use energy_trace_model::profile::{Options, Profile};
use energy_trace_model::recording::file::{self, FileError};
use energy_trace_names::shown::shown;
use energy_trace_report::budgets::{self, Verdict};
use energy_trace_report::flamegraph::{self, FlameOptions};
use energy_trace_report::summary::{self, SummaryOptions};
use energy_trace_report::table::{self, TableOptions};
use energy_trace_report::{By, ReportError, budget_line, phases};
use std::io::{self, Write};
use std::path::PathBuf;

/// Rows of each table; `report --rows` shows more.
const ROWS: usize = 20;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResultError {
    /// A file is not where it should be, and cannot be put there.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The recording cannot be read back.
    #[error(transparent)]
    Recording(#[from] FileError),
    /// The flame graph could not be made.
    #[error("cannot draw the flame graph: {0}")]
    FlameGraph(#[source] ReportError),
}

/// What a recording says, and where it is.
pub(super) struct Results {
    profile: Profile,
    /// How many phases the run has.
    phases: usize,
    /// Where the recording is; `None`: none is kept.
    path: Option<PathBuf>,
    /// Where the flame graph is.
    svg: Option<PathBuf>,
    /// Why there is no flame graph, though one was wanted.
    no_flame_graph: Option<String>,
}

impl Results {
    /// Attributes, draws, and sees to it that both files are where the summary says.
    pub(super) fn make(plan: &RecordPlan, outputs: &mut Outputs) -> Result<Self, ResultError> {
        // First of all: whatever goes wrong later, the recording is kept.
        let path = outputs.keep_recording()?;
        let file = outputs.recording().try_clone();
        let file = file.map_err(|source| FileError::Read { path: plan.recording.clone(), source })?;
        let recording = file::read_open(file, &plan.recording)?;
        let (mut profile, over_time) = attribute_over_time_owned(recording, &Options::logical());
        let phases = phases::count(&profile, &over_time);
        drop(over_time);
        profile.keep_arguments(Arguments::OfCommand);
        let (mut svg, mut no_flame_graph) = (None, None);
        if outputs.wants_svg() {
            let options = FlameOptions::default();
            let mut drawn = Vec::new();
            // Pictures are handed on; the summary is for whoever typed the command.
            let pictured = without_arguments(&profile.run.header.command);
            let typed = std::mem::replace(&mut profile.run.header.command, pictured);
            let done = flamegraph::write(&mut drawn, &profile, &options);
            profile.run.header.command = typed;
            match done {
                Ok(()) => svg = outputs.put_svg(&drawn)?,
                // A command that ends at once burns nothing that a counter sees.
                Err(error @ ReportError::NoEnergy { .. }) => no_flame_graph = Some(error.to_string()),
                Err(error) => return Err(ResultError::FlameGraph(error)),
            }
        }
        Ok(Self { profile, phases, path, svg, no_flame_graph })
    }

    /// The summary on stderr, and before it all tables where details are wanted. A closed stderr is nobody's failure: the files are
    /// written.
    pub(super) fn show(&self, plan: &RecordPlan) {
        let mut text = Vec::new();
        let _ = self.write_tables(plan, &mut text).and_then(|()| self.write_summary(plan, &mut text));
        let _ = io::stderr().write_all(&text);
    }

    /// Holds budgets against the run; a line for each on stderr, of those that were kept only where not just errors are wanted.
    pub(super) fn budgets(&self, plan: &RecordPlan) -> Verdict {
        let checked = budgets::check(&self.profile, &plan.budgets);
        for line in checked.iter().filter(|line| !plan.screen.quiet || line.verdict != Verdict::Kept) {
            message::say(&shown(&budget_line::budget(line)));
        }
        budgets::worst(&checked)
    }

    fn write_tables(&self, plan: &RecordPlan, out: &mut Vec<u8>) -> io::Result<()> {
        let Screen { verbose, color, width, .. } = plan.screen;
        if !verbose {
            return Ok(());
        }
        let options =
            TableOptions { by: By::Function, rows: ROWS, color, verbose, width, ..TableOptions::default() };
        table::write(out, &self.profile, &options)?;
        writeln!(out)
    }

    fn write_summary(&self, plan: &RecordPlan, out: &mut Vec<u8>) -> io::Result<()> {
        let name = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let options = SummaryOptions {
            color: plan.screen.color,
            width: plan.screen.width,
            recording: name(&self.path),
            flame_graph: name(&self.svg),
            no_flame_graph: self.no_flame_graph.clone(),
            program: name(&plan.program),
            phases: self.phases,
        };
        summary::write(out, &self.profile, &options)
    }
}
