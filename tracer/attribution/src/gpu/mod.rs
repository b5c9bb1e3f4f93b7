//! A GPU's joules by the stacks that launched its work.
//!
//! A counter steps every 20 to 100 ms, and kernels take microseconds. In the kernel tier it is known when
//! each of them ran; in the launch tier no durations are known, only how many of each were launched when. So
//! the power of each kernel, or the energy of a launch of it, is learned from the run itself, by regression
//! of the counter's steps on what ran, or was launched, in them:
//!
//! 1. `features`: launches that are expected to take the same energy each.
//! 2. `busy`: what ran when, where records tell; `queue_replay`: when queued launches were executed, and how
//!    long each took, where waits tell.
//! 3. `sample_and_hold`, `meter` and `launch_energies`: how late the meter is and what part of each step it
//!    looks at; what a launch costs.
//! 4. `idle`: what the GPU draws beyond its baseline whenever nothing runs, because a program has it open.
//! 5. `estimate`, `split`: each interval's energy by what its launches are predicted to take, in integers.
//!    The sum is the counter's, exactly; where the meter misses a part and records tell all times, launches
//!    have power times time, and the difference has a row of its own.
//! 6. `errors_in_variables`, `uncertainty`, `sensor_blind_spot`, `misfit`: how sure that is, which kernels
//!    cannot be told apart, and whether the counter is one of a meter as is assumed.
//!
//! Launches of a capture execute nothing and are not recorded; replays of a graph are recorded as launches of
//! what was captured. The launch tier takes several streams for one queue. Another process that works at the
//! same time all the time cannot be told from the target: only what is far beyond its launches is seen to be
//! another's.

mod batches;
mod busy;
mod charge;
mod constants;
mod errors_in_variables;
mod estimate;
mod features;
mod idle;
mod launch_energies;
mod meter;
mod misfit;
mod queue_replay;
mod sample_and_hold;
mod scope;
mod sensor_blind_spot;
mod split;
mod timed;
mod uncertainty;

pub(crate) use charge::Gpu;
pub(crate) use idle::power_without_work;
pub(crate) use meter::regular;
