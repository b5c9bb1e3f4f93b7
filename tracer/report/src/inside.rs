//! Which rows of a table lie inside of others: what is called below a row is counted in both.
//!
//! Of each stack the nearest row above counts. Leaves out how it is written behind a name (`names.rs`), and what rows are.

use super::run;
use energy_trace_model::collections::Order as _;
use energy_trace_model::profile::{Profile, ProfileRow};
use energy_trace_model::units::MicroJoules;
use energy_trace_names::{INSIDE, PARTLY_INSIDE};
use std::collections::BTreeMap;

/// What holds less than this part of a row is not named.
const LEAST: i64 = 20;
/// Most rows that are named.
const NAMED: usize = 2;

/// For each row the rows right above it, with what of it lies there; `None` where it is outermost.
#[derive(Debug, Default)]
pub(crate) struct Inside {
    above: BTreeMap<usize, BTreeMap<Option<usize>, i64>>,
}

/// What a row of a profile counts: microjoules, or nanoseconds where no energy was measured or the program was charged with none.
pub(crate) fn weight(profile: &Profile) -> impl Fn(&ProfileRow) -> i64 {
    let choice = run::headline(profile);
    let has_energy = run::target(profile, choice) > MicroJoules::ZERO;
    move |row| match has_energy {
        true => run::chosen(&row.energy, choice).as_uj(),
        false => i64::try_from(row.time_ns).unwrap_or(i64::MAX),
    }
}

impl Inside {
    /// Adds a stack: the rows that it is in, root first, and what it spent. Recursion counts once, where a row is outermost.
    pub(crate) fn add(&mut self, path: &[usize], amount: i64) {
        for (at, row) in path.iter().enumerate() {
            let before = path.get(..at).unwrap_or_default();
            if !before.contains(row) {
                *self.above.entry(*row).or_default().entry(before.last().copied()).or_default() += amount;
            }
        }
    }

    /// What stands behind a row's name: nothing where it is outermost.
    pub(crate) fn of(&self, row: usize, short_name: impl Fn(usize) -> String) -> String {
        let Some(above) = self.above.get(&row) else { return String::new() };
        let all: i64 = above.values().sum();
        let matters = |amount: i64| amount > 0 && amount.saturating_mul(LEAST) >= all;
        let mut holders: Vec<(usize, i64)> =
            above.iter().filter_map(|(holder, amount)| Some(((*holder)?, *amount))).collect();
        holders.retain(|(_, amount)| matters(*amount));
        holders.order_by_key(|(holder, amount)| (std::cmp::Reverse(*amount), *holder));
        let mut names: Vec<String> = holders.iter().map(|(holder, _)| short_name(*holder)).collect();
        names.dedup();
        if names.is_empty() {
            return String::new();
        }
        let more = if names.len() > NAMED { ", …" } else { "" };
        names.truncate(NAMED);
        let partly = above.get(&None).is_some_and(|amount| matters(*amount));
        format!("{}{}{more})", if partly { PARTLY_INSIDE } else { INSIDE }, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::Inside;

    /// A row is inside of the nearest one above it, of several in the order of what they hold, and partly where it is outermost too; what holds
    /// next to nothing of it is not named, and a row is not inside of itself.
    #[test]
    fn nearest_rows() {
        let mut inside = Inside::default();
        inside.add(&[0, 1, 2], 60);
        inside.add(&[0, 2], 30);
        inside.add(&[0, 1, 1, 0, 3], 5);
        inside.add(&[3], 95);
        inside.add(&[4, 3], 4);
        let of = |inside: &Inside, row| inside.of(row, |holder| format!(":{holder}"));
        assert_eq!([0, 1, 2].map(|row| of(&inside, row)), ["", "  (in :0)", "  (in :1, :0)"]);
        assert_eq!([3, 4, 9].map(|row| of(&inside, row)), [""; 3]);
        inside.add(&[0, 3], 200);
        assert_eq!(of(&inside, 3), "  (partly in :0)");
        for holder in 5..8 {
            inside.add(&[holder, 2], 50);
        }
        assert_eq!(of(&inside, 2), "  (in :1, :5, …)");
    }
}
