//! What the page is told: bins of every domain and row, the trees of its stacks, names, facts.
//!
//! Numbers lie in long lists, side by side, which is short as JSON and quick to read. A recording with more rows in bins than a browser takes
//! easily keeps those with the most energy; the others go together, thread by thread, and the page says how much that is.

use super::facts::Facts;
use super::flame::Flame;
use super::gauges::{self, GaugeLine, SlowedLine};
use super::phases::{self, PhaseLine};
use super::views::{self, LONGEST, View};
use super::work::{self, UnitLine};
use crate::run;
use energy_trace_model::collections::{Fill as _, Order as _};
use energy_trace_model::ids::{FrameId, StackId};
use energy_trace_model::profile::certainty::Certainty;
use energy_trace_model::profile::over_time::{BinEnergy, RowBin};
use energy_trace_model::profile::phases::Phases;
use energy_trace_model::profile::{LedgerRow, OverTime, Profile, ProfileRow};
use energy_trace_model::recording::record::{DomainClass, Frame, Quality, StackNode};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::native_frames::{self, NativeFrames};
use energy_trace_names::shown::shown;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What rows may take together, in bytes by the estimates below, which are high for most programs: first tried, and what is surely below
/// 10 MB of HTML.
pub(super) const ROOMS: [usize; 2] = [30_000_000, 8_000_000];
/// What a row takes in all tables, an entry, and a node of a stack in all trees, on average.
const OF_ROW: usize = 100;
const OF_ENTRY: usize = 12;
const OF_NODE: usize = 20;
/// In how many tables a name is.
const OF_NAME: usize = 6;

/// Stands for the stacks that are put together.
const SMALL: &str = "[stacks too small for this page]";

/// All of it.
#[derive(Serialize)]
pub(super) struct Data {
    facts: Facts,
    bins: BinsLine,
    /// The bins that are chosen at first: the first, and the one behind the last.
    chosen: [u32; 2],
    /// Classes of domain that rows have energy of; the first ones add up.
    classes: Vec<ClassLine>,
    domains: Vec<DomainLine>,
    /// Temperatures and clocks.
    gauges: Vec<GaugeLine>,
    /// What slowed parts down.
    slowed: Vec<SlowedLine>,
    /// Units of work, and how many more there are.
    work: Vec<UnitLine>,
    more_work: usize,
    /// Where they are several, and how exact their limits are.
    phases: Vec<PhaseLine>,
    phase_step_ns: u64,
    /// CPU time of all but the program in each bin, in microseconds.
    others_us: Vec<u64>,
    flame: Flame,
    views: Vec<View>,
    entries: Entries,
    /// What was put together because it is too much for a page.
    merged: Option<Merged>,
}

#[derive(Serialize)]
struct BinsLine {
    count: u32,
    width_ns: u64,
    length_ns: u64,
}

#[derive(Serialize)]
struct ClassLine {
    name: &'static str,
    adds_up: bool,
}

/// A domain: what it drew in each bin, in microjoules.
#[derive(Serialize)]
struct DomainLine {
    name: String,
    class: &'static str,
    quality: Quality,
    covered_ns: Vec<u64>,
    measured: Vec<i64>,
    target: Vec<i64>,
    other: Vec<i64>,
    idle: Vec<i64>,
    uncore: Vec<i64>,
    residual: Vec<i64>,
    unattributed: BTreeMap<&'static str, Vec<i64>>,
}

/// What rows have in bins, row by row: how many bins, how much further each bin is than the one before, microjoules by class and
/// microseconds.
#[derive(Default, Serialize)]
struct Entries {
    counts: Vec<usize>,
    steps: Vec<u32>,
    time_us: Vec<u64>,
    energy: Vec<Vec<i64>>,
}

#[derive(Serialize)]
struct Merged {
    stacks: usize,
    energy: i64,
}

impl Data {
    pub(super) fn new(
        profile: &Profile,
        (over, phases): (&OverTime, &Phases),
        chosen: &Range<u32>,
        room: usize,
    ) -> Self {
        let (profile, rows, merged) = fewer(profile, over, room);
        let profile = &profile;
        let flame = native_frames::folded(profile, NativeFrames::Libraries);
        let classes = classes(profile);
        let entries = entries(&rows, &classes);
        let named = |class: &DomainClass| ClassLine { name: class.name(), adds_up: class.adds_up() };
        let domains = profile.ledger.iter().zip(&over.domains);
        let (work, more_work) = work::lines(profile, over.bins);
        let (count, width_ns, length_ns) = (over.bins.count(), over.bins.width_ns(), over.bins.length_ns());
        Self {
            facts: Facts::of(profile),
            chosen: [chosen.start, chosen.end],
            bins: BinsLine { count, width_ns, length_ns },
            classes: classes.iter().map(named).collect(),
            domains: domains.map(|(row, bins)| DomainLine::new(row, bins)).collect(),
            gauges: gauges::lines(profile, over.bins),
            slowed: gauges::slowed_lines(profile, over.bins),
            work,
            more_work,
            phases: phases::lines(profile, phases, over.bins),
            phase_step_ns: phases.step_ns,
            others_us: over.others_ns.iter().map(|ns| ns / 1_000).collect(),
            flame: Flame::of(&flame),
            views: views::views(profile),
            entries,
            merged,
        }
    }
}

/// Classes that are in the ledger; where one domain's contains the others', it stands alone.
fn classes(profile: &Profile) -> Vec<DomainClass> {
    let present = |class: &DomainClass| profile.ledger.iter().any(|row| row.class == *class);
    DomainClass::ALL.into_iter().filter(present).collect()
}

impl DomainLine {
    fn new(row: &LedgerRow, bins: &[BinEnergy]) -> Self {
        let list = |part: fn(&BinEnergy) -> MicroJoules| bins.iter().map(|bin| part(bin).as_uj()).collect();
        let reasons: BTreeSet<_> = bins.iter().flat_map(|bin| bin.unattributed.keys()).fill_set();
        let of_reason = |reason| {
            let energy = |bin: &BinEnergy| bin.unattributed.get(reason).map_or(0, |energy| energy.as_uj());
            bins.iter().map(energy).collect()
        };
        Self {
            name: shown(&row.domain).into_owned(),
            class: row.class.name(),
            quality: row.quality,
            covered_ns: bins.iter().map(|bin| bin.covered_ns).collect(),
            measured: list(|bin| bin.measured),
            target: list(|bin| bin.target),
            other: list(|bin| bin.other),
            idle: list(|bin| bin.idle),
            uncore: list(|bin| bin.uncore),
            residual: list(|bin| bin.residual),
            unattributed: reasons.into_iter().map(|reason| (reason.name(), of_reason(reason))).fill_map(),
        }
    }
}

/// The profile with the rows that a page takes, and what each has in bins.
fn fewer(profile: &Profile, over: &OverTime, mut room: usize) -> (Profile, Vec<Vec<RowBin>>, Option<Merged>) {
    let choice = run::headline(profile);
    let energy = |row: usize| run::chosen(&profile.rows[row].energy, choice).as_uj();
    let mut order: Vec<usize> = (0..profile.rows.len()).collect();
    order.order_by_key(|&row| std::cmp::Reverse((energy(row), profile.rows[row].time_ns)));
    let mut known = Known::of(profile);
    let fits = |row: &usize| {
        let stack = known.enter(profile, profile.rows[*row].stack);
        room = room.saturating_sub(OF_ROW + OF_ENTRY * over.of_row(*row).len() + stack);
        room > 0
    };
    let (mut kept, left): (Vec<usize>, Vec<usize>) = order.into_iter().partition(fits);
    let merged = (!left.is_empty())
        .then(|| Merged { stacks: left.len(), energy: left.iter().map(|&row| energy(row)).sum() });
    kept.sort_unstable();
    let mut profile = profile.clone();
    if merged.is_some() {
        // What is known of their certainty is by their old numbers.
        profile.certainty = Certainty::default();
    }
    let mut bins: Vec<Vec<RowBin>> = kept.iter().map(|&row| over.of_row(row).to_vec()).collect();
    let small = together(&profile, over, &left);
    profile.rows = kept.iter().map(|&row| profile.rows[row]).collect();
    if !small.is_empty() {
        let stack = small_stack(&mut profile);
        for (row, of_row) in small {
            profile.rows.push(ProfileRow { stack: Some(stack), ..row });
            bins.push(of_row);
        }
    }
    (profile, bins, merged)
}

/// Which nodes and frames of stacks are in the page.
struct Known {
    nodes: Vec<bool>,
    frames: Vec<bool>,
}

impl Known {
    fn of(profile: &Profile) -> Self {
        Self { nodes: vec![false; profile.stacks.len()], frames: vec![false; profile.frames.len()] }
    }

    /// Enters a stack, and says how many bytes that takes.
    fn enter(&mut self, profile: &Profile, stack: Option<StackId>) -> usize {
        let (mut bytes, mut next) = (0, stack);
        while let Some(node) = next.and_then(|id| profile.stacks.get(id.index()).filter(|_| self.is_new(id)))
        {
            bytes += OF_NODE + self.name(profile, node.frame);
            next = node.parent;
        }
        bytes
    }

    fn is_new(&mut self, node: StackId) -> bool {
        self.nodes.get_mut(node.index()).is_some_and(|known| !std::mem::replace(known, true))
    }

    /// What a frame's name takes: it is in several tables.
    fn name(&mut self, profile: &Profile, frame: FrameId) -> usize {
        let is_new = self.frames.get_mut(frame.index()).is_some_and(|known| !std::mem::replace(known, true));
        let length = profile.frames.get(frame.index()).map_or(0, |frame| frame.name.len().min(LONGEST));
        if is_new { OF_NAME * length } else { 0 }
    }
}

/// A stack of one for what is too small for a page.
fn small_stack(profile: &mut Profile) -> StackId {
    let id = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let (frame, stack) = (FrameId::new(id(profile.frames.len())), StackId::new(id(profile.stacks.len())));
    profile.frames.push(Frame::special(SMALL));
    profile.stacks.push(StackNode { frame, parent: None });
    stack
}

/// Rows as one for each thread.
fn together(profile: &Profile, over: &OverTime, rows: &[usize]) -> Vec<(ProfileRow, Vec<RowBin>)> {
    let mut threads: BTreeMap<_, (ProfileRow, BTreeMap<u32, RowBin>)> = BTreeMap::new();
    for &number in rows {
        let row = profile.rows[number];
        let empty = ProfileRow {
            stack: None,
            on_behalf_of: None,
            energy: <_>::default(),
            by_time: <_>::default(),
            time_ns: 0,
            samples: 0,
            ..row
        };
        let (sum, bins) = threads.entry(row.thread).or_insert((empty, BTreeMap::new()));
        sum.energy += row.energy;
        sum.by_time += row.by_time;
        sum.time_ns = sum.time_ns.saturating_add(row.time_ns);
        sum.samples = sum.samples.saturating_add(row.samples);
        for entry in over.of_row(number) {
            let bin = bins.entry(entry.bin).or_insert(RowBin { bin: entry.bin, ..RowBin::default() });
            bin.energy += entry.energy;
            bin.time_ns = bin.time_ns.saturating_add(entry.time_ns);
        }
    }
    threads.into_values().map(|(row, bins)| (row, bins.into_values().collect())).collect()
}

fn entries(rows: &[Vec<RowBin>], classes: &[DomainClass]) -> Entries {
    let mut entries = Entries { energy: vec![vec![]; classes.len()], ..Entries::default() };
    for row in rows {
        entries.counts.push(row.len());
        let mut last = 0;
        for entry in row {
            entries.steps.push(entry.bin.saturating_sub(last));
            last = entry.bin;
            entries.time_us.push((entry.time_ns + 500) / 1_000);
            for (list, &class) in entries.energy.iter_mut().zip(classes) {
                list.push(entry.energy[class].as_uj());
            }
        }
    }
    entries
}
