//! The tables of a fleet as Parquet files, one of each a day.
//!
//! Rows are sorted, by what compresses best: programs, stacks, then time. Leaves out the format
//! (`crate::parquet_file`).

use super::{ACCOUNTS, Accounts, Done, Fleet, Key, OfStack, Program, Spent, Window};
use crate::Object;
use crate::parquet_file::{GROUP, Kind, Table, Values};
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::recording::record::DomainClass;
use energy_trace_names::shown::shown;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const ENERGY: [(&str, Kind); 19] = [
    ("host", Kind::Text),
    ("window_start", Kind::Moment),
    ("window_ns", Kind::Whole),
    ("class", Kind::Text),
    ("namespace", Kind::Text),
    ("pod_uid", Kind::Text),
    ("container_id", Kind::Text),
    ("unit", Kind::Text),
    ("slurm_job", Kind::Whole),
    ("slurm_step", Kind::Text),
    ("rank", Kind::Whole),
    ("program", Kind::Text),
    ("stack_id", Kind::Whole),
    ("microjoules", Kind::Whole),
    ("cpu_ns", Kind::Whole),
    ("samples", Kind::Whole),
    ("low_uj", Kind::Whole),
    ("high_uj", Kind::Whole),
    ("quality", Kind::Text),
];

const STACKS: [(&str, Kind); 6] = [
    ("stack_id", Kind::Whole),
    ("function", Kind::Text),
    ("module", Kind::Text),
    ("api_call", Kind::Text),
    ("frames", Kind::Texts),
    ("kinds", Kind::Texts),
];

const LEDGER: [(&str, Kind); 24] = [
    ("host", Kind::Text),
    ("window_start", Kind::Moment),
    ("window_ns", Kind::Whole),
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
    ("unattributed_reason", Kind::Text),
    ("lost_events", Kind::Whole),
    ("tracer_cpu_ns", Kind::Whole),
    ("removed_windows", Kind::Whole),
    ("clock_step_ns", Kind::Whole),
    ("clock_error_ns", Kind::Whole),
    ("warnings", Kind::Texts),
    ("boot", Kind::Text),
    ("version", Kind::Text),
    ("cpu_model", Kind::Text),
    ("kernel", Kind::Text),
];

const WORK: [(&str, Kind); 5] = [
    ("host", Kind::Text),
    ("window_start", Kind::Moment),
    ("window_ns", Kind::Whole),
    ("work", Kind::Text),
    ("units", Kind::Real),
];

/// A row of `energy`.
struct EnergyRow<'a> {
    key: Key,
    program: &'a Program,
    spent: Spent,
}

/// Rows of one day.
#[derive(Default)]
struct Day<'a> {
    energy: Vec<EnergyRow<'a>>,
    ledger: Vec<&'a Accounts>,
    work: Vec<&'a Done>,
    first: Option<Window>,
}

pub(super) fn of(fleet: &Fleet) -> io::Result<Vec<Object>> {
    let (mut objects, writer) = (Vec::new(), Writer::new(fleet));
    for day in days(fleet).into_values() {
        let Some(first) = day.first else { continue };
        let mut add = |table, bytes| objects.push(Object { key: fleet.machine.key(table, first), bytes });
        add("energy", writer.energy(&day.energy)?);
        add("stacks", writer.stacks(&day.energy)?);
        add("ledger", writer.ledger(&day.ledger)?);
        // Also where nothing is counted: engines know no table without a file.
        add("work", writer.work(&day.work)?);
    }
    Ok(objects)
}

/// All rows by their days, in order.
fn days(fleet: &Fleet) -> BTreeMap<String, Day<'_>> {
    let mut days: BTreeMap<String, Day<'_>> = BTreeMap::new();
    for window in &fleet.windows {
        let day = days.entry(window.date()).or_default();
        day.first = day.first.min(Some(*window)).or(Some(*window));
    }
    let day_of = |window: usize| fleet.windows.get(window).map(|window| window.date());
    for (key, spent) in &fleet.energy {
        let day = day_of(key.window).and_then(|date| days.get_mut(&date));
        if let Some((day, program)) = day.zip(fleet.programs.get_index(key.program)) {
            day.energy.push(EnergyRow { key: *key, program, spent: *spent });
        }
    }
    for row in &fleet.ledger {
        if let Some(day) = day_of(row.window).and_then(|date| days.get_mut(&date)) {
            day.ledger.push(row);
        }
    }
    for row in &fleet.work {
        let day = day_of(row.window).and_then(|date| days.get_mut(&date));
        day.into_iter().for_each(|day| day.work.push(row));
    }
    for day in days.values_mut() {
        day.energy.order_by_key(|row| (row.program, row.key.stack, row.key.window, row.key.class));
        day.ledger.order();
        day.work.order();
    }
    days
}

/// Writes rows of one machine.
struct Writer<'a> {
    fleet: &'a Fleet,
    host: Option<String>,
    boot: String,
    version: String,
    cpu_model: String,
    kernel: String,
}

impl<'a> Writer<'a> {
    fn new(fleet: &'a Fleet) -> Self {
        let machine = &fleet.machine;
        let text = |text: &str| shown(text).into_owned();
        Self {
            fleet,
            host: machine.host.as_deref().map(text),
            boot: text(&machine.boot),
            version: text(&machine.version),
            cpu_model: text(&machine.cpu_model),
            kernel: text(&machine.kernel),
        }
    }

    /// When a window began, in microseconds, and its length.
    fn window(&self, number: usize) -> (i64, i64) {
        let window = self.fleet.windows.get(number);
        window.map_or((0, 0), |of| (signed(of.start_ns / 1_000), signed(of.length_ns)))
    }

    fn energy(&self, rows: &[EnergyRow<'_>]) -> io::Result<Vec<u8>> {
        let mut table = Table::new(ENERGY)?;
        for rows in rows.chunks(GROUP) {
            table.add(&self.energy_columns(rows))?;
        }
        bytes_of(table)
    }

    fn energy_columns<'b>(&'b self, rows: &'b [EnergyRow<'b>]) -> Vec<Values<'b>> {
        let texts =
            |of: &dyn Fn(&'b EnergyRow<'b>) -> Option<&'b str>| Values::Text(rows.iter().map(of).collect());
        let wholes =
            |of: &dyn Fn(&EnergyRow<'_>) -> Option<i64>| Values::Whole(rows.iter().map(of).collect());
        vec![
            texts(&|_| self.host.as_deref()),
            wholes(&|row| Some(self.window(row.key.window).0)),
            wholes(&|row| Some(self.window(row.key.window).1)),
            texts(&|row| row.key.class.map(DomainClass::name)),
            texts(&|row| row.program.namespace.as_deref()),
            texts(&|row| row.program.workload.pod_uid.as_deref()),
            texts(&|row| row.program.workload.container_id.as_deref()),
            texts(&|row| row.program.workload.unit.as_deref()),
            wholes(&|row| row.program.workload.slurm_job.map(signed)),
            texts(&|row| row.program.workload.slurm_step.as_deref()),
            wholes(&|row| row.program.workload.rank.map(i64::from)),
            texts(&|row| Some(&row.program.name)),
            wholes(&|row| Some(row.key.stack)),
            wholes(&|row| Some(row.spent.uj)),
            wholes(&|row| Some(signed(row.spent.cpu_ns))),
            wholes(&|row| Some(signed(row.spent.samples))),
            wholes(&|row| row.spent.interval.map(|(low, _)| low)),
            wholes(&|row| row.spent.interval.map(|(_, high)| high)),
            texts(&|row| row.spent.quality),
        ]
    }

    /// Each stack of these rows once.
    fn stacks(&self, rows: &[EnergyRow<'_>]) -> io::Result<Vec<u8>> {
        let numbers: BTreeSet<i64> = rows.iter().map(|row| row.key.stack).fill_set();
        let known = numbers.into_iter().filter_map(|number| Some((self.fleet.stacks.get(&number)?, number)));
        let mut stacks: Vec<(&OfStack, i64)> = known.collect();
        stacks.order();
        let mut table = Table::new(STACKS)?;
        for stacks in stacks.chunks(GROUP) {
            let frames: Vec<Vec<&str>> =
                stacks.iter().map(|(stack, _)| stack.frames.iter().map(String::as_str).collect()).collect();
            table.add(&[
                Values::Whole(stacks.iter().map(|(_, number)| Some(*number)).collect()),
                Values::Text(stacks.iter().map(|(stack, _)| Some(stack.frames.last()?.as_str())).collect()),
                Values::Text(stacks.iter().map(|(stack, _)| stack.module.as_deref()).collect()),
                Values::Text(stacks.iter().map(|(stack, _)| stack.api_call.as_deref()).collect()),
                Values::Texts(frames.iter().map(Vec::as_slice).collect()),
                Values::Texts(stacks.iter().map(|(stack, _)| stack.kinds.as_slice()).collect()),
            ])?;
        }
        bytes_of(table)
    }

    fn ledger(&self, rows: &[&Accounts]) -> io::Result<Vec<u8>> {
        let warnings: Vec<Vec<&str>> =
            rows.iter().map(|row| row.warnings.iter().map(String::as_str).collect()).collect();
        let mut table = Table::new(LEDGER)?;
        if !rows.is_empty() {
            table.add(&self.ledger_columns(rows, &warnings))?;
        }
        bytes_of(table)
    }

    fn work(&self, rows: &[&Done]) -> io::Result<Vec<u8>> {
        let mut table = Table::new(WORK)?;
        for rows in rows.chunks(GROUP) {
            let wholes =
                |of: &dyn Fn(&Done) -> i64| Values::Whole(rows.iter().map(|row| Some(of(row))).collect());
            table.add(&[
                Values::Text(vec![self.host.as_deref(); rows.len()]),
                wholes(&|row| self.window(row.window).0),
                wholes(&|row| self.window(row.window).1),
                Values::Text(rows.iter().map(|row| Some(row.name.as_str())).collect()),
                Values::Real(rows.iter().map(|row| Some(row.units.as_number())).collect()),
            ])?;
        }
        bytes_of(table)
    }

    fn ledger_columns<'b>(
        &'b self,
        rows: &'b [&'b Accounts],
        warnings: &'b [Vec<&'b str>],
    ) -> Vec<Values<'b>> {
        let same = |text: Option<&'b str>| Values::Text(vec![text; rows.len()]);
        let wholes =
            |of: &dyn Fn(&Accounts) -> i64| Values::Whole(rows.iter().map(|row| Some(of(row))).collect());
        let part = |part: usize| rows.iter().map(|row| row.uj.and_then(|uj| uj.get(part).copied())).collect();
        let mut columns = vec![
            same(self.host.as_deref()),
            wholes(&|row| self.window(row.window).0),
            wholes(&|row| self.window(row.window).1),
            Values::Text(rows.iter().map(|row| Some(row.domain.as_str())).collect()),
            Values::Text(rows.iter().map(|row| Some(row.class.name())).collect()),
            Values::Text(rows.iter().map(|row| Some(row.quality)).collect()),
        ];
        columns.extend((0..ACCOUNTS).map(part).map(Values::Whole));
        let facts = &self.fleet.facts;
        columns.extend([
            Values::Text(rows.iter().map(|row| row.reason).collect()),
            wholes(&|row| signed(row.lost)),
            wholes(&|row| signed(row.tracer_cpu_ns)),
            Values::Whole(rows.iter().map(|row| row.removed.map(signed)).collect()),
            Values::Whole(vec![facts.clock_step_ns; rows.len()]),
            Values::Whole(vec![facts.clock_error_ns; rows.len()]),
            Values::Texts(warnings.iter().map(Vec::as_slice).collect()),
            same(Some(&self.boot)),
            same(Some(&self.version)),
            same(Some(&self.cpu_model)),
            same(Some(&self.kernel)),
        ]);
        columns
    }
}

fn bytes_of(table: Table) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    table.write(&mut bytes)?;
    Ok(bytes)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
