//! How much power each call path draws, learned from the run itself.
//!
//! * `paths`: the tree of call paths; `columns`: which of them have a power of their own; `prior`: what is
//!   believed of these beforehand; `carried`: what earlier windows have shown of them.
//! * `training_subset`: which of a long run's intervals are learned from; `windows`: intervals that are long
//!   enough; `design`: expected time of each column in each window; `fit`: the regression; `learn`: both in
//!   order; `lack_of_fit`: whether the windows hold what the powers say.
//! * `corrections`: what else power depends on, and how counters are off, in one list; `settings`: the
//!   numbers of all of them; `adjusted`: intervals and times as they have them; `counter_edges`: how far a
//!   counter's steps put a window off.
//! * `powers`: the order of all that.
//!
//! Leaves out how certain the result is (`uncertainty`) and the split itself (`split`).

pub(crate) mod adjusted;
pub(crate) mod carried;
pub(crate) mod columns;
pub(crate) mod corrections;
pub(crate) mod counter_edges;
pub(crate) mod design;
mod distances;
pub(crate) mod evidence;
pub(crate) mod fit;
pub(crate) mod lack_of_fit;
pub(crate) mod learn;
pub(crate) mod pairs;
pub(crate) mod paths;
pub(crate) mod powers;
pub(crate) mod prior;
pub(crate) mod settings;
pub(crate) mod training_subset;
pub(crate) mod windows;

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) mod toy;
}
