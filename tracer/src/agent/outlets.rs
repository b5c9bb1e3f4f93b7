//! What a window becomes beside the page: tables in a folder, profiles for a collector.
//!
//! Leaves out what these hold (`export`), and where they go (`spool.rs`, `sender.rs`).

use super::sender::Sender;
use super::spool::Spool;
use crate::collector::{Collector, Endpoint};
use crate::plan::SpoolPlan;
use energy_trace_export::fleet::{AgentFacts, Fleet};
use energy_trace_export::{ExportOptions, Format, Input, Object};
use energy_trace_model::profile::Profile;
use energy_trace_report::agent_page::{SenderCounts, SpoolCounts};
use std::io;

/// Stacks of a window that have rows of their own.
const MOST_STACKS: usize = 20_000;

/// Where windows go.
#[derive(Default)]
pub(super) struct Outlets {
    spool: Option<Spool>,
    sender: Option<Sender>,
    merged_stacks: u64,
}

impl Outlets {
    /// # Errors
    /// When there is no thread for the collector.
    pub(super) fn start(spool: Option<SpoolPlan>, collector: Option<Endpoint>) -> io::Result<Self> {
        let sender = collector.map(|endpoint| Sender::start(Collector::new(endpoint))).transpose()?;
        Ok(Self { spool: spool.map(Spool::new), sender, merged_stacks: 0 })
    }

    /// Whether anybody wants to know more of a window than the page shows.
    pub(super) const fn are_there(&self) -> bool {
        self.spool.is_some() || self.sender.is_some()
    }

    /// Takes a window, and what else is known of it but what was removed.
    pub(super) fn put(&mut self, window: &Profile, mut facts: AgentFacts) {
        let input = Input { profile: window, over_time: None, bins: 0..0 };
        if let Some(spool) = &mut self.spool {
            facts.removed_windows = Some(spool.untold());
            let tables = tables(&input, facts);
            self.merged_stacks += tables.as_ref().map_or(0, |(_, merged)| *merged as u64);
            spool.put(tables.map(|(objects, _)| objects));
        }
        if let (Some(sender), Some(format)) = (&self.sender, Format::named("otlp")) {
            let mut message = Vec::new();
            // Writing to memory does not fail.
            let _ = format.write(&mut message, &input, &ExportOptions::default());
            sender.put(message);
        }
    }

    pub(super) fn counts(&self) -> (Option<SpoolCounts>, Option<SenderCounts>) {
        let merged_stacks = self.merged_stacks;
        let spool = self.spool.as_ref().map(|spool| SpoolCounts { merged_stacks, ..spool.counts() });
        (spool, self.sender.as_ref().map(Sender::counts))
    }

    /// The last window was taken: what became of all.
    pub(super) fn end(self) -> (Option<SpoolCounts>, Option<SenderCounts>) {
        (self.counts().0, self.sender.map(Sender::end))
    }
}

/// The tables of a window, and how many of its stacks have no rows of their own.
fn tables(input: &Input<'_>, facts: AgentFacts) -> io::Result<(Vec<Object>, usize)> {
    let mut fleet = Fleet::of_agent(facts);
    fleet.add(input, &ExportOptions::default())?;
    let merged = fleet.limit_stacks(MOST_STACKS);
    Ok((fleet.objects()?, merged))
}
