//! Every number of the room that was chosen and not derived: unit and origin. Numbers of mathematics stand
//! where they are used.
//!
//! Origins: *board*, by a maker's documentation or published measurements; *simulated*, chosen by trying in
//! simulated worlds, where no search over the value is recorded; *usual*, the textbooks' value; *size*, a
//! bound on time or memory; *H100*, found on a real one (`docs/gpu.md`).

// When work was executed.

/// A launch is taken to be executed this much before or after the moment that is known for it, in seconds
/// (simulated).
pub(super) const BLUR: f64 = 1e-3;
/// Length of a cell in which times of kernels are put together: nanoseconds and seconds (size; no meter
/// resolves a millisecond).
pub(super) const CELL_NS: u64 = 1_000_000;
pub(super) const CELL: f64 = CELL_NS as f64 / 1e9;
/// Part of the busy time: less overlap of kernels makes no difference (simulated).
pub(super) const SIDE_BY_SIDE: f64 = 0.02;
/// So much better must the counter be explained by whole times of kernels side by side, as a part of the
/// windows' standard deviation (simulated).
pub(super) const BETTER_WHOLE: f64 = 0.95;
/// An epoch whose wait has less than this part of it does not tell durations: the GPU was starved meanwhile
/// (simulated).
pub(super) const TELLING: f64 = 0.25;
/// A wait shorter than this part of its epoch is no wait (simulated).
pub(super) const WAITED: f64 = 0.02;
/// Epochs: fewer tell nothing of durations (simulated).
pub(super) const FEWEST_EPOCHS: usize = 20;
/// Durations that miss half of the epochs by more than this part are not believed (simulated).
pub(super) const GOOD_DURATIONS: f64 = 0.2;
/// What is believed of durations before: standard deviation in parts of the mean; and of an epoch's time, in
/// parts of it (simulated).
pub(super) const DURATION_SD: f64 = 5.0;
pub(super) const EPOCH_SD: f64 = 0.02;
/// Draws of epochs that show what else durations may be (size).
pub(super) const DRAWS: usize = 12;
/// What a copy or memset is believed to take beforehand: seconds to begin with, and bytes a second (a slow
/// PCIe; *H100*: 128 bytes take 1 to 2 µs).
pub(super) const COPY_SECONDS: f64 = 2e-6;
pub(super) const COPIED_A_SECOND: f64 = 1e10;
/// Columns: more are not told apart by windows of a slow meter; the rarest launches share the last one
/// (size).
pub(super) const MOST_COLUMNS: usize = 48;

// The meter.

/// Seconds over which the driver's averaged power is a mean (board: nvml.h on `nvmlDeviceGetPowerUsage`,
/// Ampere and later).
pub(super) const AVERAGE: f64 = 1.0;
/// Means of such a meter that are shared out together (simulated).
pub(super) const MEANS: f64 = 4.0;
/// Seconds: shorter windows are put together, as the moment of reading would be most of them (simulated).
pub(super) const SHORTEST_WINDOW: f64 = 0.09;
/// Seconds: shorter steps come as fast as readings, and no grid is to be seen (board: steps of 20 ms are the
/// shortest that are known).
pub(super) const SHORTEST_GRID: f64 = 0.015;
/// Intervals of a run in which a grid is looked for (simulated).
pub(super) const FEWEST_ON_GRID: usize = 20;
/// Where a grid's period is looked for, in parts of the usual distance of steps (a lower quartile, and
/// readings may come every second fifth of a step); how many steps say it (size); and Rayleigh's statistic
/// from which on it is one (simulated).
pub(super) const PERIODS: (f64, f64) = (0.55, 1.5);
pub(super) const ENOUGH_STEPS: usize = 600;
pub(super) const AGREEMENT: f64 = 0.5;
/// Lags that are tried, in seconds, from here to there (simulated), and the steps of the search.
pub(super) const LAGS: (f64, f64) = (-0.05, 0.6);
pub(super) const LAG_STEPS: [f64; 4] = [0.02, 0.004, 0.001, 0.000_25];
/// Parts of a step that the meter may look at (board: Yang et al., SC 2024, found 25 of 100 ms), and the part
/// of a whole one's cost that another must stay below (simulated).
pub(super) const DUTIES: [f64; 4] = [1.0, 0.5, 0.25, 0.1];
pub(super) const BETTER_DUTY: f64 = 0.8;
/// Windows: the search for lag and duty needs no more (size).
pub(super) const ENOUGH_WINDOWS: usize = 1_200;
/// Power of the same update differs by no more than this, in watts and in parts: NVML's is in milliwatts, the
/// sum of energy in microjoules, and the times of readings are good to some microseconds.
pub(super) const SAME_POWER: (f64, f64) = (2e-3, 2e-3);
/// Where fewer intervals than this part are like the next one, each reading shows another update (simulated).
pub(super) const ALIKE_READINGS: f64 = 0.3;
/// Power that does not change hides updates: a step that is longer than usual by this factor is several
/// (simulated).
pub(super) const LONGER_STEP: f64 = 1.5;
/// Seconds: looks within such a stretch may go together, as a program's steps and the meter's drift through
/// each other (simulated).
pub(super) const CORRELATED_SECONDS: f64 = 1.0;

// Idle power.

/// Windows without launches: fewer say nothing (simulated).
pub(super) const FEWEST_EMPTY: usize = 5;
/// Windows just before and after all launches: fewer say nothing; and within how many seconds they lie (an
/// H200 is open for 0.2 s or more before its first launch, frees memory for up to 0.5 s at a program's end,
/// and draws the power of an open device for 1.4 s more).
pub(super) const FEWEST_AROUND: usize = 3;
pub(super) const BEFORE_WORK: f64 = 0.5;
pub(super) const AFTER_WORK: f64 = 1.2;
/// Seconds between launches and such a window (simulated).
pub(super) const FAR_FROM_WORK: f64 = 0.01;
/// How far apart such windows may be that agree: watts, and parts of the power; and the part of them that
/// must (simulated).
pub(super) const IDLE_AGREES: (f64, f64) = (3.0, 0.15);
pub(super) const IDLE_COMMON: f64 = 0.15;
/// Watts beyond the baseline: less is not worth a name, and more is not drawn by a board for being open
/// (simulated).
pub(super) const LEAST_IDLE: f64 = 1.0;
/// The same of windows around all work: fewer watts are what windows at rest stray by (an H200 is open at 42
/// W beyond its baseline, an H100 at 45).
pub(super) const LEAST_OPEN: f64 = 10.0;
pub(super) const MOST_OPEN: f64 = 100.0;
/// Watts: no board draws more when nothing runs, where no baseline is known (board: some 75 for an H100, 120
/// when it is open).
pub(super) const MOST_IDLE: f64 = 150.0;
/// The same, where a run does not show what a board draws because it is open: a part of its power limit (an
/// H200: 42 of 700 W; an H100: 45 of 700 W).
pub(super) const OPEN_PART: f64 = 0.08;
/// One standard deviation of idle power that is not known, in parts of the most that it may be.
pub(super) const IDLE_UNKNOWN: f64 = 1.0 / 3.0;

// Energies of launches.

/// Rounds of reweighting, and from how many standard deviations on a window counts less (usual: Huber, 1981).
pub(super) const ROUNDS: usize = 4;
pub(super) const HUBER: f64 = 2.5;
/// Windows: fewer prove nothing (simulated).
pub(super) const FEWEST_WINDOWS: usize = 40;
/// The part of an agent's window that a steady power may seem to explain (simulated).
pub(super) const STEADY: f64 = 0.2;
/// Folds of cross-validation (usual), and neighbouring windows that are left out together (simulated).
pub(super) const FOLDS: usize = 5;
pub(super) const FOLD_BLOCK: usize = 10;
/// What is believed of energies before: standard deviation in parts, with durations and without (simulated).
pub(super) const PRIOR_SD: (f64, f64) = (1.0, 5.0);
/// Windows of a long run that are learned again, and the standard deviation, in parts, by which they may
/// differ from the whole (simulated).
pub(super) const AGAIN: usize = 450;
pub(super) const NEAR_WHOLE: f64 = 0.2;
/// The least part of the prior: what is charged nothing at all has no bounds either.
pub(super) const LEAST_PART: f64 = 1e-3;

// Errors of what runs at the ends of windows.

/// Seconds around an end in which it matters what runs (the length of a cell).
pub(super) const NEAR_END: f64 = 1e-3;
/// How well it is known when a look begins and ends: standard deviation in seconds (the last step of
/// `LAG_STEPS`).
pub(super) const END_SD: f64 = 2.5e-4;

// The split.

/// Seconds that are shared out together, for a meter that looks all the time (simulated).
pub(super) const BLOCK_SECONDS: f64 = 1.0;
/// Standard deviations: what is off by more is not off by chance (usual).
pub(super) const UNLIKELY: f64 = 4.0;
/// More than so many times the prediction, and so many standard deviations of a window beyond it, is not the
/// target's (simulated).
pub(super) const EXCESS: f64 = 2.0;
pub(super) const DEVIATIONS: f64 = 5.0;
/// What is shown within so many seconds of launches is theirs too, but not an interval that is longer than
/// this (simulated).
pub(super) const NEAR_LAUNCHES: f64 = 0.03;
pub(super) const LONG_INTERVAL: f64 = 0.15;

// How sure it is.

/// A column whose energy has a larger relative standard deviation is not identified: where launches are
/// counted, and where kernels are timed (simulated).
pub(super) const IDENTIFIED: f64 = 0.07;
pub(super) const IDENTIFIED_BY_TIME: f64 = 0.025;
/// A window may stray from what was learned by so much of what windows differ by, where kernels are timed and
/// where launches are counted; beyond it nothing is identified: launches differ among themselves, or the
/// meter is no such meter (simulated: 0.02 to 0.07 and 0.02 to 0.35 where all is right, 0.2 to 0.8 and 0.2 to
/// 1.5 where not; *H100*: 0.004 to 0.104 and 0.003 to 0.13 in fifteen runs).
pub(super) const UNEXPLAINED: (f64, f64) = (0.15, 0.4);
/// So much of the windows beside it a window may show, in parts of what they differ from it by (simulated: up
/// to 0.02 where the meter is one of those that are assumed; 0.03 to 0.5 where the sensor follows power with
/// 20 to 300 ms and energies come out wrong).
pub(super) const MOST_OF_NEIGHBOURS: f64 = 0.025;
/// What of a column's launches between two waits must not follow from those of the others, in parts of them
/// (simulated: 0.05 to 0.2 in training steps that differ, 0.0001 where all are alike).
pub(super) const LEAST_APART: f64 = 0.01;
/// A kernel of milliseconds may draw so many times the board's power limit, which holds on average over tens
/// of milliseconds (a guess on the safe side: no window of an H200 was above its limit of 700 W).
pub(super) const BEYOND_LIMIT: f64 = 1.25;
/// Columns whose errors have a correlation below this, or whose rows have a cosine above that, are a group
/// (simulated).
pub(super) const AGAINST: f64 = -0.5;
pub(super) const PARALLEL: f64 = 0.999;
/// Standard deviations within which energies cannot be ruled out (usual).
pub(super) const REACH: f64 = 3.0;
/// Windows that may stray together, at least: two seconds of them, as of a CPU's (simulated).
pub(super) const BLOCK_WINDOWS: usize = 20;
/// Standard deviation of what is known of times, in parts: the meter's lag is known to a millisecond, and
/// what ran to a cell of one.
pub(super) const TIME_SD: f64 = 0.002;
