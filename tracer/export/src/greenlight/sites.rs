//! Calls by the program's lines: their rows, and what each has in bins of time. Leaves out how they are written.

use energy_trace_model::clock::KtimeNs;
use energy_trace_model::collections::Fill as _;
use energy_trace_model::profile::over_time::{OverTime, RowBin};
use energy_trace_model::profile::{EnergyByClass, Profile};
use energy_trace_report::By;
use energy_trace_report::call_rows::{Made, made_path};
use energy_trace_report::calls::{CallTable, Kind, Step};
use energy_trace_report::fold::Interner;
use energy_trace_report::row::Row;
use energy_trace_report::rows::rows;
use std::collections::BTreeMap;
use std::ops::Range;

/// A call at a line.
pub(super) struct Site {
    /// The public name of what is called.
    pub(super) api: String,
    /// The program's file and line; none where a package's own thread called.
    pub(super) place: Option<(String, u32)>,
    pub(super) row: Row,
    /// What it has in bins.
    pub(super) bins: BTreeMap<u32, EnergyByClass>,
    /// The begin of its first bin and the end of its last.
    pub(super) window: (KtimeNs, KtimeNs),
}

type Key = (Option<(String, u32)>, String);

/// All calls of a part of the run, those with the most energy of their own first.
/// `whole` is the profile of the whole run, `part` that of these bins.
pub(super) fn sites(whole: &Profile, part: &Profile, over_time: &OverTime, here: &Range<u32>) -> Vec<Site> {
    let mut of_sites = in_bins(whole, over_time, here);
    let calls = rows(part, By::Call).into_iter().filter(|row| row.kind == Some(Kind::Call));
    calls
        .filter_map(|row| {
            let place = row.site.as_ref().map(|site| (site.file.clone(), site.line));
            let api = row.site.as_ref().map_or_else(|| row.name.clone(), |site| site.api.clone());
            let bins = of_sites.remove(&(place.clone(), api.clone()))?;
            let (first, last) = (*bins.keys().next()?, *bins.keys().next_back()?);
            let window = (over_time.bins.span(first).0, over_time.bins.span(last).1);
            Some(Site { api, place, row, bins, window })
        })
        .collect()
}

/// What each call has in the bins that are exported.
fn in_bins(
    profile: &Profile,
    over_time: &OverTime,
    here: &Range<u32>,
) -> BTreeMap<Key, BTreeMap<u32, EnergyByClass>> {
    let mut table = CallTable::new(profile);
    let (mut made, mut steps, mut path): (Interner<Made>, Vec<Step>, Vec<usize>) =
        (Interner::new(), Vec::new(), Vec::new());
    let mut of_made: BTreeMap<usize, BTreeMap<u32, EnergyByClass>> = BTreeMap::new();
    for (number, row) in profile.rows.iter().enumerate() {
        table.steps(row, &mut steps);
        path.clear();
        made_path(profile, &steps, &mut made, &mut path);
        let is_here = |entry: &&RowBin| {
            here.contains(&entry.bin) && **entry != RowBin { bin: entry.bin, ..RowBin::default() }
        };
        let entries: Vec<&RowBin> = over_time.of_row(number).iter().filter(is_here).collect();
        for call in path.iter().copied().fill_set() {
            let bins = of_made.entry(call).or_default();
            entries.iter().for_each(|entry| *bins.entry(entry.bin).or_default() += entry.energy);
        }
    }
    let key = |number: usize| {
        let (file, line, label) = made.labels().get(number)?;
        let api = table.labels().get(*label)?.name.clone();
        Some(((!file.is_empty()).then(|| (file.clone(), *line)), api))
    };
    of_made.into_iter().filter_map(|(number, bins)| Some((key(number)?, bins))).fill_map()
}
