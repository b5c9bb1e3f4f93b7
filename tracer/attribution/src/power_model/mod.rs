//! How much power each call path draws, learned from the run itself.
//!
//! * `paths`: the tree of call paths; `columns`: which of them have a power of their own; `prior`: what is believed of these beforehand.
//! * `excerpt`: which of a long run's intervals are learned from; `windows`: intervals of energy that are long enough; `design`: expected time of each column in each window; `fit`: the regression;
//!   `learn`: both in order; `lack_of_fit`: whether the windows hold what the powers say.
//! * `counter_edges`: how far a counter's steps put a window off; `counter_delay`: how far behind the counter is on average; `drift`:
//!   when all power rose or fell; `uncore`: the shared parts of a socket.
//!
//! Leaves out how certain the result is (`uncertainty`) and the split itself (`split`).

pub(crate) mod columns;
pub(crate) mod counter_delay;
pub(crate) mod counter_edges;
pub(crate) mod design;
pub(crate) mod drift;
pub(crate) mod evidence;
pub(crate) mod excerpt;
pub(crate) mod fit;
pub(crate) mod lack_of_fit;
pub(crate) mod learn;
pub(crate) mod paths;
pub(crate) mod prior;
pub(crate) mod uncore;
pub(crate) mod windows;

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) mod toy;
}
