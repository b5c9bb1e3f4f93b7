//! Does a study: what is left of its plan, one step after another, and then the tables. Has no privileges: it asks the launcher for runs.
//!
//! Leaves out what a run's numbers mean (`report::study`).

use super::folder::{Folder, FolderError};
use super::machine::{self, Load};
use super::metrics::{Metric, read_end};
use super::numbers::measured;
use super::order::{Answer, Order};
use super::plan::{Plan, Step};
use crate::data::{Design, Outcome, Run, Study};
use crate::sentences;
use crate::tables::{dataset, markup, page, table};
use energy_trace_system::roles::channel::{Channel, ChannelError};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest answer of the launcher.
const MOST_BYTES: usize = 1 << 16;
/// A look at the idle machine while it becomes stable.
const LOOK: Duration = Duration::from_secs(2);
/// So many looks have to agree.
const LOOKS: usize = 3;
/// A program that has failed so often and never succeeded ends the study.
const HOPELESS: usize = 3;
/// Shortest rest in which the load of the machine can be seen: the kernel counts in hundredths of a second.
const SHORTEST_LOOK: Duration = Duration::from_millis(200);
/// Rows of calls and of functions in files.
const FILE_ROWS: usize = 20;

/// Why a study ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Its folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The launcher.
    #[error("cannot start runs: {0}")]
    Launcher(#[from] ChannelError),
    /// Tables.
    #[error("cannot write the results: {0}")]
    Write(#[from] io::Error),
    /// Somebody wanted it.
    #[error("stopped after {done} of {all} runs; go on with: energy-trace compare -o {}", .folder.display())]
    Interrupted {
        /// Steps that are done.
        done: usize,
        /// Steps of the plan.
        all: usize,
        /// Where it is.
        folder: PathBuf,
    },
    /// Recordings of one study have the same options; whoever only wants to see its tables needs none.
    #[error("this study has runs to make and was begun with other options of recordings; add {}", with_record(.0))]
    OtherOptions(Vec<String>),
    /// A program never succeeds.
    #[error("no run of {label} succeeded ({times} failed); what it wrote is in {}. The tables of all runs so far are in the study's folder; to have \
         it tried again, take the .json files of its failed runs away there", .output.display())]
    Hopeless {
        /// The program.
        label: String,
        /// How often it ran.
        times: usize,
        /// Where its errors are.
        output: PathBuf,
    },
}

fn with_record(options: &[String]) -> String {
    let words = shlex::try_join(options.iter().map(String::as_str)).unwrap_or_default();
    if words.is_empty() { "none: leave --record away".to_owned() } else { format!("--record {words:?}") }
}

/// What is shown while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// A line for each run, on stderr.
    pub progress: bool,
}

/// Which numbers of runs that are done count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Those that were taken when each run ended.
    Known,
    /// Those that its recording and its outputs have now.
    Again,
}

/// Does what is left of a study in a folder, and returns all of it. `wanted`: its plan, where it was told.
///
/// # Errors
/// When the folder cannot be used, the launcher is gone, or somebody interrupts.
pub fn conduct(
    launcher: &Channel,
    folder: &Path,
    wanted: Option<Plan>,
    record: &[String],
    numbers: Numbers,
    shown: Shown,
) -> Result<Study, StudyError> {
    let files = Folder::open(folder)?;
    let noted = wanted.map(|plan| Plan { notes: machine::notes(Path::new("/sys")), ..plan });
    let plan = files.plan(noted)?;
    let steps = plan.steps();
    let is_open = |step: &Step| !matches!(files.run(step.number), Ok(Some(_)));
    // They come from whoever starts this, not from the folder: what is recorded is recorded with privileges.
    if plan.record != record && steps.iter().any(is_open) {
        return Err(StudyError::OtherOptions(plan.record));
    }
    let mut conductor = Conductor {
        launcher,
        path: folder,
        files: &files,
        plan: &plan,
        all: steps.len(),
        runs: Vec::new(),
        facts: machine::facts(),
        made: 0,
        begun: Instant::now(),
        numbers,
        shown,
    };
    let idle = |time: Duration| vec!["sleep".to_owned(), time.as_secs_f64().to_string()];
    let programs = plan.programs.iter().map(|program| program.command.clone());
    conductor.tell(&Order::Programs(programs.chain([idle(plan.idle), idle(LOOK)]).collect()))?;
    let ended = steps.into_iter().try_for_each(|step| conductor.step(step));
    let ended = ended.and_then(|()| conductor.check_hope(1));
    // What was measured before an end that nobody wanted is shown all the same.
    let study = conductor.study();
    let written = write_files(&files, &study);
    ended.and(written).map(|()| study)
}

/// Tells the launcher that the study has ended, with this exit status.
pub fn end(launcher: &Channel, status: u8) {
    // A launcher that is gone needs not be told.
    let _ = launcher.send(&Order::End(status), &[], None);
}

struct Conductor<'a> {
    launcher: &'a Channel,
    path: &'a Path,
    files: &'a Folder,
    plan: &'a Plan,
    all: usize,
    runs: Vec<Run>,
    /// What is written beside each run of this process.
    facts: BTreeMap<String, String>,
    /// Runs made since this process began.
    made: u32,
    begun: Instant,
    numbers: Numbers,
    shown: Shown,
}

impl Conductor<'_> {
    /// One step, unless it is done.
    fn step(&mut self, step: Step) -> Result<(), StudyError> {
        if let Some(done) = self.files.run(step.number)? {
            self.runs.push(match self.numbers {
                Numbers::Known => done,
                Numbers::Again => self.measured_again(done)?,
            });
            return Ok(());
        }
        self.check_hope(HOPELESS)?;
        let busy_cpus = self.rest()?;
        let stable = self.plan.stable.map(|_| self.become_stable(step.number)).transpose()?;
        let celsius = machine::celsius(Path::new("/sys"));
        let program = step.program.unwrap_or(self.plan.programs.len());
        let limit = self.plan.limit.filter(|_| step.program.is_some());
        let outcome = self.run(step.number, program, limit)?;
        let mut run = Run {
            number: step.number,
            program: step.program,
            round: step.round,
            purpose: step.purpose,
            outcome,
            busy_cpus,
            celsius,
            stable,
            facts: self.facts.clone(),
            ..Run::default()
        };
        self.measure(&mut run);
        self.files.finish(&run)?;
        self.made += 1;
        self.say(&run);
        self.runs.push(run);
        self.check_hope(HOPELESS)
    }

    fn tell(&self, order: &Order) -> Result<(), StudyError> {
        Ok(self.launcher.send(order, &[], None)?)
    }

    fn answer(&self) -> Result<Answer, StudyError> {
        match self.launcher.receive::<Answer>(MOST_BYTES, None)?.0 {
            Answer::Interrupted => Err(StudyError::Interrupted {
                done: self.runs.len(),
                all: self.all,
                folder: self.path.to_owned(),
            }),
            answer => Ok(answer),
        }
    }

    /// Rests, and looks how busy others keep the machine.
    fn rest(&self) -> Result<Option<f64>, StudyError> {
        let before = Load::now();
        let ms = u64::try_from(self.plan.rest.as_millis()).unwrap_or(u64::MAX);
        self.tell(&Order::Rest { ms })?;
        self.answer()?;
        let long_enough = self.plan.rest >= SHORTEST_LOOK;
        Ok(before.zip(Load::now()).filter(|_| long_enough).and_then(|(before, now)| now.busy_since(before)))
    }

    /// Waits until the machine's power is the same in a row of looks; whether it became so in time.
    fn become_stable(&self, number: usize) -> Result<bool, StudyError> {
        let limit = self.plan.stable.unwrap_or(f64::INFINITY);
        let end = Instant::now() + self.plan.stable_within;
        let mut watts = Vec::new();
        while Instant::now() < end {
            self.run(number, self.plan.programs.len() + 1, None)?;
            let look = measured(&self.files.of_run(number, "data"), &BTreeSet::new()).ok();
            watts.extend(look.map(|look| look.machine_joules / look.seconds));
            if is_stable(&watts, limit) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has the launcher run a program once.
    fn run(&self, number: usize, program: usize, limit: Option<Duration>) -> Result<Outcome, StudyError> {
        let (out, err) = (self.files.output(number, "out")?, self.files.output(number, "err")?);
        let order = Order::Run {
            program: u32::try_from(program).unwrap_or(u32::MAX),
            recording: self.files.of_run(number, "data").to_string_lossy().into_owned(),
            limit_ms: limit.and_then(|limit| u64::try_from(limit.as_millis()).ok()),
        };
        self.launcher.send(&order, &[out.as_fd(), err.as_fd()], None)?;
        Ok(match self.answer()? {
            Answer::Ended { timed_out: true, .. } => Outcome::TimedOut,
            Answer::Ended { status: 0, .. } => Outcome::Done,
            Answer::Ended { status, .. } => Outcome::Failed(status),
            Answer::NotStarted(why) => Outcome::NotRecorded(why),
            Answer::Rested | Answer::Interrupted => Outcome::NotRecorded("no answer of a run".to_owned()),
        })
    }

    /// Takes a run's numbers from what it printed, and from its recording.
    fn measure(&self, run: &mut Run) {
        if run.program.is_some() {
            self.read_outputs(run);
        }
        let counted = run.counts.keys().cloned().collect();
        match measured(&self.files.of_run(run.number, "data"), &counted) {
            Ok(numbers) => run.measured = Some(numbers),
            Err(why) if run.outcome == Outcome::Done => run.outcome = Outcome::NotRecorded(why),
            Err(_) => (),
        }
    }

    /// A run with the numbers that its recording and its outputs have now; as it was where they are gone.
    fn measured_again(&self, run: Run) -> Result<Run, StudyError> {
        let is_kept = |ending: &&str| self.files.of_run(run.number, ending).exists();
        let mut again = run.clone();
        if run.measured.is_some() && ["data", "out", "err"].iter().all(is_kept) {
            self.measure(&mut again);
        }
        if again.outcome != run.outcome {
            return Ok(run);
        }
        self.files.finish(&again)?;
        Ok(again)
    }

    fn read_outputs(&self, run: &mut Run) {
        let plan = self.plan;
        if plan.metrics.is_empty() && plan.facts.is_empty() && plan.calls.is_none() {
            return;
        }
        let output = |ending| read_end(&self.files.of_run(run.number, ending)).unwrap_or_default();
        let (out, err) = (output("out"), output("err"));
        let number = |of: &Metric| Some((of.name.clone(), of.find(&out).or_else(|| of.find(&err))?));
        let text = |of: &Metric| Some((of.name.clone(), of.find_text(&out).or_else(|| of.find_text(&err))?));
        run.metrics = plan.metrics.iter().filter_map(number).collect();
        run.facts.extend(plan.facts.iter().filter_map(text));
        run.counts = plan.calls.as_ref().map(|calls| calls.find(&out)).unwrap_or_default();
    }

    fn say(&self, run: &Run) {
        if !self.shown.progress {
            return;
        }
        let left = self.all.saturating_sub(self.runs.len() + 1);
        let each = self.begun.elapsed() / self.made.max(1);
        let time = each.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX));
        let label =
            run.program.and_then(|at| self.plan.programs.get(at)).map(|program| program.label.as_str());
        let line = sentences::study_progress(run, label, self.all, time);
        // A closed stderr is nobody's failure.
        let _ = writeln!(io::stderr(), "{line}");
    }

    /// Ends a study with a program that failed so often, and never succeeded.
    fn check_hope(&self, times: usize) -> Result<(), StudyError> {
        (0..self.plan.programs.len()).try_for_each(|program| self.check_program(program, times))
    }

    fn check_program(&self, program: usize, times: usize) -> Result<(), StudyError> {
        let of_program = self.runs.iter().filter(|run| run.program == Some(program));
        let (good, bad): (Vec<&Run>, Vec<&Run>) = of_program.partition(|run| run.outcome == Outcome::Done);
        let Some(last) = bad.last().filter(|_| good.is_empty() && bad.len() >= times) else {
            return Ok(());
        };
        let label = self.plan.programs.get(program).map_or_else(String::new, |of| of.label.clone());
        Err(StudyError::Hopeless { label, times: bad.len(), output: self.files.of_run(last.number, "err") })
    }

    fn study(self) -> Study {
        let mut notes = self.plan.notes.clone();
        notes.extend(sentences::study_notes(&self.runs));
        Study {
            seed: self.plan.seed,
            rounds: self.plan.rounds,
            compared: self.plan.compared.clone(),
            against: self.plan.against.clone(),
            per: self.plan.per.clone(),
            noted: self.plan.noted.clone(),
            programs: self.plan.programs.clone(),
            runs: self.runs,
            notes,
            design: Design {
                warm_ups: self.plan.warm_ups,
                rest_s: self.plan.rest.as_secs_f64(),
                stable: self.plan.stable,
                record: self.plan.record.clone(),
            },
        }
    }
}

/// Whether the last looks vary by no more than a part of their mean.
fn is_stable(watts: &[f64], part: f64) -> bool {
    let Some(last) = watts.len().checked_sub(LOOKS).and_then(|from| watts.get(from..)) else { return false };
    let (least, most) =
        last.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &w| (low.min(w), high.max(w)));
    // A look that took no time has no power.
    last.iter().all(|watts| watts.is_finite()) && most - least <= part * f64::midpoint(least, most)
}

/// Tables and data sets, beside the runs.
fn write_files(files: &Folder, study: &Study) -> Result<(), StudyError> {
    type Format = fn(&mut dyn io::Write, &Study) -> io::Result<()>;
    let formats: [(&str, Format); 9] = [
        ("table.txt", |out, study| {
            table::write(out, study, &table::Options { rows: FILE_ROWS, color: false, width: None })
        }),
        ("table.md", |out, study| markup::markdown(out, study, FILE_ROWS)),
        ("table.tex", |out, study| markup::latex(out, study, FILE_ROWS)),
        ("table.csv", markup::csv),
        ("study.html", |out, study| page::write(out, study, FILE_ROWS)),
        ("dataset.csv", dataset::csv),
        ("dataset.parquet", dataset::parquet),
        ("dataset.json", dataset::rows_json),
        ("study.json", dataset::json),
    ];
    for (name, format) in formats {
        let mut bytes = Vec::new();
        format(&mut bytes, study)?;
        files.write(name, &bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_stable;

    /// Three looks in a row have to agree; what was before them does not matter.
    #[test]
    fn stable_power() {
        assert!(is_stable(&[9.0, 5.0, 5.1, 4.95], 0.03));
        for watts in [&[5.0, 5.0][..], &[5.0, 5.0, 5.2], &[], &[f64::NAN; 3]] {
            assert!(!is_stable(watts, 0.03), "{watts:?}");
        }
    }
}
