//! Row tables of code that processes made at run time: those of each process's functions together, as of a file.
//!
//! They are made anew where functions came or changed; the ones before stay until the probes know of it. What one owner's processes may have has
//! a limit, for such code has no end. Leaves out where rows come from (`stacks/generated_code.rs`).

use super::files::Table;
use energy_trace_bpf::row_maps::{is_one_chunk, table_bytes};
use energy_trace_model::clock::KtimeNs;
use energy_trace_model::ids::Pid;
use energy_trace_model::recording::record::Owner;
use energy_trace_unwind::address_space::Mapping;
use energy_trace_unwind::cfi::FullRules;
use foldhash::HashMap;
use tracer_ebpf::wire::CodeMapping;

/// Bytes of tables of one owner's processes, and of all.
const MOST_OF_ONE: usize = 8 << 20;
const MOST_OF_ALL: usize = 24 << 20;

/// Rows of functions in a stretch of memory.
#[derive(Debug, Default)]
pub(crate) struct RowsOf {
    /// Where the stretch begins: what addresses of rows are relative to.
    pub(crate) base: u64,
    pub(crate) end: u64,
    /// In order.
    pub(crate) rows: Vec<u64>,
    pub(crate) full: FullRules,
}

/// A table in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GeneratedTable {
    pub(super) base: u64,
    pub(super) end: u64,
    pub(super) table: u32,
    pub(super) bytes: usize,
}

/// The version of a process's rows that the probes have, and since when.
pub(crate) type SentRows = (u32, KtimeNs);

/// The tables of all processes.
#[derive(Default)]
pub(super) struct GeneratedTables(HashMap<Pid, OfProcess>);

struct OfProcess {
    owner: Owner,
    /// Bytes that the last ones take, and those that are being made.
    bytes: usize,
    tables: Vec<GeneratedTable>,
    /// Their version; 0: none were made yet.
    number: u32,
    told: Option<SentRows>,
    /// Numbers of tables that the probes still use.
    old: Vec<u32>,
    /// Others are being made, or the probes were not told yet of the last ones.
    is_busy: bool,
}

impl GeneratedTables {
    /// Whether new rows of a process can be taken in now.
    pub(super) fn takes_rows(&self, pid: Pid) -> bool {
        self.0.get(&pid).is_none_or(|of| !of.is_busy)
    }

    /// Whether these rows of a process may have tables; then they are on their way.
    pub(super) fn begin(&mut self, pid: Pid, owner: Owner, rows: &[RowsOf]) -> bool {
        let bytes: usize = rows.iter().map(|of| table_bytes(of.rows.len())).sum();
        let others = |whose: Option<Owner>| -> usize {
            let of = self.0.iter().filter(|(of, all)| **of != pid && whose.is_none_or(|o| o == all.owner));
            of.map(|(_, of)| of.bytes).sum()
        };
        if others(Some(owner)) + bytes > MOST_OF_ONE || others(None) + bytes > MOST_OF_ALL {
            return false;
        }
        let new =
            || OfProcess { owner, bytes, tables: vec![], number: 0, told: None, old: vec![], is_busy: true };
        let of = self.0.entry(pid).or_insert_with(new);
        (of.bytes, of.is_busy) = (bytes, true);
        true
    }

    /// They were made; gives the numbers of tables that nobody is to be told of.
    pub(super) fn made(&mut self, pid: Pid, number: u32, tables: Vec<GeneratedTable>) -> Vec<u32> {
        let Some(of) = self.0.get_mut(&pid) else { return tables.iter().map(|made| made.table).collect() };
        of.number = number;
        let before = std::mem::replace(&mut of.tables, tables);
        of.old.extend(before.iter().map(|made| made.table));
        Vec::new()
    }

    /// What the probes must know of a mapping of such code.
    pub(super) fn mapping(&self, pid: Pid, mapping: &Mapping) -> Option<GeneratedTable> {
        let holds = |made: &&GeneratedTable| made.base < mapping.end && mapping.start < made.end;
        self.0.get(&pid)?.tables.iter().find(holds).copied()
    }

    /// The probes were told; gives the numbers of tables that they do not use any more.
    pub(super) fn told(&mut self, pid: Pid, now: KtimeNs) -> Vec<u32> {
        let Some(of) = self.0.get_mut(&pid).filter(|of| of.is_busy && of.is_news()) else {
            return Vec::new();
        };
        (of.told, of.is_busy) = (Some((of.number, now)), false);
        std::mem::take(&mut of.old)
    }

    /// What the probes were told last.
    pub(super) fn last_told(&self, pid: Pid) -> Option<SentRows> {
        self.0.get(&pid)?.told
    }

    /// A process is another program now, or gone: gives the numbers of its tables.
    pub(super) fn forget(&mut self, pid: Pid) -> Vec<u32> {
        let gone = self.0.remove(&pid);
        gone.map(|of| of.tables.iter().map(|made| made.table).chain(of.old).collect()).unwrap_or_default()
    }
}

impl OfProcess {
    fn is_news(&self) -> bool {
        self.told.map_or(0, |(number, _)| number) != self.number
    }
}

impl GeneratedTable {
    /// Of rows for which there is a table.
    pub(super) fn new(of: &RowsOf, (table, bytes): (Table, usize)) -> Option<Self> {
        let Table::Ready(table) = table else { return None };
        Some(Self { base: of.base, end: of.end, table, bytes })
    }

    /// The mapping with its rows.
    pub(super) fn put_into(&self, mapping: CodeMapping) -> CodeMapping {
        let one_chunk = u32::from(is_one_chunk(self.bytes));
        CodeMapping { bias: self.base, table: self.table, one_chunk, ..mapping }
    }
}
