//! Tables for data warehouses (Parquet), long enough to be put below those of other runs and machines: stacks
//! over time (`write`), the power domains over time (`write_readings`), and units of work over time
//! (`write_work`).
//!
//! A stack has a row for each step of time and class of domain in which it used something. Its CPU time stands in the row of one class alone,
//! so that all columns may be summed. Numbers are those of `report --from --to`: all rows of a class are its `target_uj`. Leaves out what a
//! column is in the file (`crate::parquet_file`).

use super::stacks::Stacks;
use super::{ExportOptions, Input};
use crate::parquet_file::{GROUP, Kind, Table, Values};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Order as _;
use energy_trace_model::ids::ThreadKey;
use energy_trace_model::profile::over_time::{BinEnergy, Bins, OverTime, RowBin};
use energy_trace_model::profile::work::Stretch;
use energy_trace_model::profile::{LedgerRow, Profile, ProfileRow};
use energy_trace_model::recording::record::DomainClass;
use energy_trace_model::units::MicroJoules;
use energy_trace_names::part_of;
use energy_trace_names::shown::shown;
use energy_trace_report::calls::{CallTable, Kind as CallKind};
use energy_trace_report::folded::Per;
use energy_trace_report::{DomainChoice, run};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

const STACKS: [(&str, Kind); 20] = [
    ("host", Kind::Text),
    ("run", Kind::Text),
    ("recorded", Kind::Moment),
    ("moment", Kind::Moment),
    ("step_ns", Kind::Whole),
    ("process", Kind::Text),
    ("pid", Kind::Whole),
    ("thread", Kind::Text),
    ("tid", Kind::Whole),
    ("domain", Kind::Text),
    ("quality", Kind::Text),
    ("api_call", Kind::Text),
    ("function", Kind::Text),
    ("module", Kind::Text),
    ("file", Kind::Text),
    ("line", Kind::Whole),
    ("frames", Kind::Texts),
    ("stack", Kind::Whole),
    ("microjoules", Kind::Whole),
    ("cpu_ns", Kind::Whole),
];

const READINGS: [(&str, Kind); 15] = [
    ("host", Kind::Text),
    ("run", Kind::Text),
    ("recorded", Kind::Moment),
    ("moment", Kind::Moment),
    ("step_ns", Kind::Whole),
    ("domain", Kind::Text),
    ("class", Kind::Text),
    ("quality", Kind::Text),
    ("measured_uj", Kind::Whole),
    ("target_uj", Kind::Whole),
    ("other_uj", Kind::Whole),
    ("idle_uj", Kind::Whole),
    ("uncore_uj", Kind::Whole),
    ("residual_uj", Kind::Whole),
    ("unattributed_uj", Kind::Whole),
];

const WORK: [(&str, Kind); 9] = [
    ("host", Kind::Text),
    ("run", Kind::Text),
    ("recorded", Kind::Moment),
    ("moment", Kind::Moment),
    ("step_ns", Kind::Whole),
    ("unit", Kind::Text),
    ("units", Kind::Real),
    ("quality", Kind::Text),
    ("target_uj", Kind::Whole),
];

pub(super) fn write(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let mut table = Table::new(STACKS)?;
    if let Some(over_time) = input.over_time {
        let stacks = Stacks::of_frames(input.profile, &options.stacks(Per::None));
        Writer::new(input, over_time, &stacks, options).fill(&mut table)?;
    }
    table.write(out)
}

/// What all rows of a file have in common.
struct Common<'a> {
    run: String,
    /// The machine; of several, none of them.
    host: Option<Cow<'a, str>>,
    recorded: i64,
    profile: &'a Profile,
    bins: &'a Bins,
}

impl<'a> Common<'a> {
    fn new(input: &Input<'a>, over_time: &'a OverTime) -> Self {
        let (profile, bins) = (input.profile, &over_time.bins);
        let run = shown(&run::what_was_recorded(profile)).into_owned();
        let host = profile.run.host.as_ref().filter(|host| !host.name.is_empty());
        let host = host.map(|host| shown(&host.name));
        let mut common = Self { run, host, recorded: 0, profile, bins };
        common.recorded = common.moment(0);
        common
    }

    /// When a bin begins.
    fn moment(&self, bin: u32) -> i64 {
        self.moment_of(self.bins.span(bin).0)
    }

    fn moment_of(&self, at: KtimeNs) -> i64 {
        let unix_ns = self.profile.run.header.anchor.unix_ns_of(at);
        i64::try_from(unix_ns / 1_000).unwrap_or(i64::MAX)
    }

    /// How long it is; the last one ends with the run.
    fn step_ns(&self, bin: u32) -> i64 {
        let (from, to) = self.bins.span(bin);
        to.ns_since(from).cast_signed()
    }
}

/// What a stack used of a class in a bin.
struct Row {
    /// Its place in the group's stacks.
    stack: usize,
    bin: u32,
    class: Option<DomainClass>,
    energy: MicroJoules,
    cpu_ns: u64,
}

/// A stack as its rows have it.
struct OfStack<'a> {
    holder: ThreadKey,
    /// The outermost call of a package.
    api_call: Option<String>,
    /// Outermost first; never empty.
    frames: Vec<&'a str>,
    module: Option<Cow<'a, str>>,
    file: Option<Cow<'a, str>>,
    line: Option<i64>,
    number: i64,
}

/// A thread as its rows have it.
struct Holder<'a> {
    /// The label of its recording, where several were merged.
    host: Option<Cow<'a, str>>,
    process: String,
    thread: String,
    pid: Option<i64>,
    tid: Option<i64>,
}

struct Writer<'a> {
    common: Common<'a>,
    over_time: &'a OverTime,
    stacks: &'a Stacks<'a>,
    calls: CallTable<'a>,
    from_to: std::ops::Range<u32>,
    classes: Vec<DomainClass>,
    quality: Option<&'static str>,
    holders: HashMap<ThreadKey, Holder<'a>>,
}

impl<'a> Writer<'a> {
    fn new(
        input: &Input<'a>,
        over_time: &'a OverTime,
        stacks: &'a Stacks<'a>,
        options: &ExportOptions,
    ) -> Self {
        let mut classes: Vec<_> =
            run::ledger_of(input.profile, options.domain).map(|row| row.class).collect();
        classes.order();
        classes.dedup();
        Self {
            common: Common::new(input, over_time),
            over_time,
            stacks,
            calls: CallTable::new(input.profile),
            from_to: input.bins.clone(),
            classes,
            quality: run::split_quality(input.profile, options.domain).map(run::quality_word),
            holders: HashMap::new(),
        }
    }

    fn fill(mut self, table: &mut Table) -> io::Result<()> {
        let (mut stacks, mut rows) = (Vec::new(), Vec::new());
        for number in 0..self.stacks.profile.rows.len() {
            let before = rows.len();
            let over_time = self.over_time;
            for entry in over_time.of_row(number).iter().filter(|entry| self.from_to.contains(&entry.bin)) {
                self.rows_of(stacks.len(), entry, &mut rows);
            }
            if rows.len() > before {
                stacks.extend(self.stack(number));
            }
            if rows.len() >= GROUP {
                table.add(&self.columns(&stacks, &rows))?;
                (stacks, rows) = (Vec::new(), Vec::new());
            }
        }
        if rows.is_empty() { Ok(()) } else { table.add(&self.columns(&stacks, &rows)) }
    }

    /// The rows of a stack in a bin; CPU time goes with the first class, which is the CPUs' where they have one.
    fn rows_of(&self, stack: usize, entry: &RowBin, rows: &mut Vec<Row>) {
        let bin = entry.bin;
        let mut cpu_ns = entry.time_ns;
        if self.classes.is_empty() {
            rows.push(Row { stack, bin, class: None, energy: MicroJoules::ZERO, cpu_ns });
        }
        for &class in &self.classes {
            let energy = entry.energy[class];
            if energy != MicroJoules::ZERO || cpu_ns != 0 {
                rows.push(Row { stack, bin, class: Some(class), energy, cpu_ns });
            }
            cpu_ns = 0;
        }
    }

    fn stack(&mut self, number: usize) -> Option<OfStack<'a>> {
        let row = self.stacks.profile.rows.get(number)?;
        let holder = row.on_behalf_of.unwrap_or(row.thread);
        self.know(holder);
        let path = self.stacks.path_of_row(row);
        let innermost = path.last().and_then(|last| self.stacks.frame(*last));
        let frames: Vec<&str> = path.iter().map(|frame| self.stacks.name(*frame)).collect();
        let some = |text: &'a str| (!text.is_empty()).then(|| shown(text));
        Some(OfStack {
            holder,
            api_call: self.api_call(number),
            number: number_of(&frames),
            frames,
            module: innermost.and_then(|frame| some(&frame.module)),
            file: innermost.and_then(|frame| some(&frame.file)),
            line: innermost.map(|frame| i64::from(frame.line)).filter(|line| *line != 0),
        })
    }

    fn api_call(&mut self, number: usize) -> Option<String> {
        outermost_call(&mut self.calls, self.common.profile.rows.get(number)?)
    }

    fn know(&mut self, thread: ThreadKey) {
        let profile = self.common.profile;
        self.holders.entry(thread).or_insert_with(|| {
            let (process, name) = self.stacks.names_of(thread);
            let known = profile.threads.get(thread.index());
            let of = known.and_then(|thread| profile.processes.get(thread.process.index()));
            let number = |number: u32| i64::from(number);
            let (pid, tid) = (of.map(|of| number(of.pid.get())), known.map(|of| number(of.tid.get())));
            Holder { host: part_of(profile, thread).map(shown), process, thread: name, pid, tid }
        });
    }

    fn columns<'b>(&'b self, stacks: &'b [OfStack<'a>], rows: &'b [Row]) -> Vec<Values<'b>> {
        let common = &self.common;
        let stack = |row: &Row| stacks.get(row.stack);
        let holder = |row: &Row| stack(row).and_then(|stack| self.holders.get(&stack.holder));
        let texts = |of: &dyn Fn(&Row) -> Option<&'b str>| Values::Text(rows.iter().map(of).collect());
        let wholes = |of: &dyn Fn(&Row) -> Option<i64>| Values::Whole(rows.iter().map(of).collect());
        let frames = |row: &Row| stack(row).map_or(&[][..], |stack| stack.frames.as_slice());
        vec![
            texts(&|row| holder(row)?.host.as_deref().or(common.host.as_deref())),
            texts(&|_| Some(&common.run)),
            wholes(&|_| Some(common.recorded)),
            wholes(&|row| Some(common.moment(row.bin))),
            wholes(&|row| Some(common.step_ns(row.bin))),
            texts(&|row| Some(&holder(row)?.process)),
            wholes(&|row| holder(row)?.pid),
            texts(&|row| Some(&holder(row)?.thread)),
            wholes(&|row| holder(row)?.tid),
            texts(&|row| row.class.map(DomainClass::name)),
            texts(&|_| self.quality),
            texts(&|row| stack(row)?.api_call.as_deref()),
            texts(&|row| stack(row)?.frames.last().copied()),
            texts(&|row| stack(row)?.module.as_deref()),
            texts(&|row| stack(row)?.file.as_deref()),
            wholes(&|row| stack(row)?.line),
            Values::Texts(rows.iter().map(frames).collect()),
            wholes(&|row| Some(stack(row)?.number)),
            wholes(&|row| Some(row.energy.as_uj())),
            wholes(&|row| Some(row.cpu_ns.cast_signed())),
        ]
    }
}

/// The outermost call of a package in a row's stack.
pub(crate) fn outermost_call(calls: &mut CallTable<'_>, row: &ProfileRow) -> Option<String> {
    let mut steps = Vec::new();
    calls.steps(row, &mut steps);
    let mut labels = steps.iter().filter_map(|step| calls.labels().get(step.label));
    labels.find(|label| label.kind == CallKind::Call).map(|label| shown(&label.name).into_owned())
}

/// The same number for the same frames, in every recording.
pub(crate) fn number_of(frames: &[&str]) -> i64 {
    let mut hash = Sha256::new();
    for frame in frames {
        hash.update(frame.as_bytes());
        hash.update([0]);
    }
    hash.finalize().first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

/// A row for each domain and step of time: what its counter or model says, and where that went.
pub(super) fn write_readings(
    out: &mut dyn Write,
    input: &Input<'_>,
    _options: &ExportOptions,
) -> io::Result<()> {
    let mut table = Table::new(READINGS)?;
    if let Some(over_time) = input.over_time {
        let common = Common::new(input, over_time);
        for (row, bins) in input.profile.ledger.iter().zip(&over_time.domains) {
            let numbered = (0_u32..).zip(bins).filter(|(bin, _)| input.bins.contains(bin));
            table.add(&readings(&common, row, &shown(&row.domain), &numbered.collect::<Vec<_>>()))?;
        }
    }
    table.write(out)
}

fn readings<'a>(
    common: &'a Common<'_>,
    row: &LedgerRow,
    domain: &'a str,
    bins: &[(u32, &BinEnergy)],
) -> Vec<Values<'a>> {
    let text = |text: Option<&'a str>| Values::Text(vec![text; bins.len()]);
    let wholes = |of: &dyn Fn(u32, &BinEnergy) -> i64| {
        Values::Whole(bins.iter().map(|(bin, energy)| Some(of(*bin, energy))).collect())
    };
    let unattributed = |energy: &BinEnergy| energy.unattributed.values().copied().sum::<MicroJoules>();
    vec![
        text(domain.rsplit_once('/').map(|(machine, _)| machine).or(common.host.as_deref())),
        text(Some(&common.run)),
        wholes(&|_, _| common.recorded),
        wholes(&|bin, _| common.moment(bin)),
        wholes(&|bin, _| common.step_ns(bin)),
        text(Some(domain)),
        text(Some(row.class.name())),
        text(Some(run::quality_word(row.quality))),
        wholes(&|_, energy| energy.measured.as_uj()),
        wholes(&|_, energy| energy.target.as_uj()),
        wholes(&|_, energy| energy.other.as_uj()),
        wholes(&|_, energy| energy.idle.as_uj()),
        wholes(&|_, energy| energy.uncore.as_uj()),
        wholes(&|_, energy| energy.residual.as_uj()),
        wholes(&|_, energy| unattributed(energy).as_uj()),
    ]
}

/// A row for each unit of work and step of its counter that ends in the part of the run: what was done, and
/// the program's energy of that time.
pub(super) fn write_work(out: &mut dyn Write, input: &Input<'_>, options: &ExportOptions) -> io::Result<()> {
    let mut table = Table::new(WORK)?;
    if let Some(over_time) = input.over_time {
        let common = Common::new(input, over_time);
        for work in &input.profile.work {
            let is_meant = |step: &&Stretch| input.bins.contains(&over_time.bins.at(step.to));
            let steps: Vec<&Stretch> = work.steps.iter().filter(is_meant).collect();
            if !steps.is_empty() {
                let name = shown(&work.series.counter.name);
                table.add(&of_work(&common, &name, &steps, options.domain))?;
            }
        }
    }
    table.write(out)
}

fn of_work<'a>(
    common: &'a Common<'_>,
    name: &'a str,
    steps: &[&Stretch],
    domain: DomainChoice,
) -> Vec<Values<'a>> {
    let text = |text: Option<&'a str>| Values::Text(vec![text; steps.len()]);
    let wholes =
        |of: &dyn Fn(&Stretch) -> i64| Values::Whole(steps.iter().map(|step| Some(of(step))).collect());
    vec![
        text(common.host.as_deref()),
        text(Some(&common.run)),
        wholes(&|_| common.recorded),
        wholes(&|step| common.moment_of(step.from)),
        wholes(&|step| step.to.ns_since(step.from).cast_signed()),
        text(Some(name)),
        Values::Real(steps.iter().map(|step| Some(step.units.as_number())).collect()),
        text(run::split_quality(common.profile, domain).map(run::quality_word)),
        wholes(&|step| run::chosen(&step.energy, domain).as_uj()),
    ]
}
