//! What part of the machine's CPU time an agent takes, its BPF programs too, and fewer samples where that is more than it may.
//!
//! Processes have their account. Of programs the kernel keeps none, as that would cost as much as they do, but for a hundredth of the time,
//! which stands for all of it. Leaves out what samples are (`probe`), and the page (`report::agent_page`).

use crate::agent::Cost;
use energy_trace_probe::Tracer;
use energy_trace_report::agent_page::OwnShare;
use energy_trace_sentences::{costly_agent, faster_agent, slower_agent, unknown_programs};
use std::time::{Duration, Instant};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(10);
/// For so long programs are timed at each look.
const TIMED: Duration = Duration::from_millis(100);
/// One in so many samples is taken, step by step.
const STEPS: [u32; 4] = [1, 2, 4, 8];
/// One look above the limit is a step down, so many far below it a step up.
const UP: usize = 6;

/// An agent's cost, look by look.
pub(super) struct CostWatch {
    cost: Cost,
    steps: Steps,
    due: Instant,
    /// Since when programs are timed, and what they had taken then.
    timing: Option<(Instant, Option<u64>)>,
    /// The look before, and the processes' CPU time then.
    before: (Instant, u64),
    share: OwnShare,
    /// There was no look yet.
    is_new: bool,
    /// It was told that the programs' time is not known.
    is_told: bool,
}

impl CostWatch {
    /// `most`: millionths of the machine's CPU time that the agent may take.
    pub(super) fn new(most: u32) -> Self {
        let mut cost = Cost::of(nix::unistd::getpid());
        let (now, cpu_ns) = (Instant::now(), cost.now().0);
        let (steps, share) = (Steps { most, ..Steps::default() }, OwnShare::default());
        Self {
            cost,
            steps,
            due: now,
            timing: None,
            before: (now, cpu_ns),
            share,
            is_new: true,
            is_told: false,
        }
    }

    /// When the next look is.
    pub(super) fn due(&self) -> tokio::time::Instant {
        self.due.into()
    }

    /// Looks; what is known then, once it is.
    pub(super) fn look(&mut self, tracer: &mut Tracer) -> Option<OwnShare> {
        let now = Instant::now();
        let Some((since, before_ns)) = self.timing.take() else {
            self.due = now + TIMED;
            self.timing = Some((now, tracer.time_programs()));
            return None;
        };
        self.due = now + EVERY;
        let programs_ns =
            tracer.timed_programs().zip(before_ns).map(|(ns, before)| ns.saturating_sub(before));
        self.share.no_room_ns = tracer.live().no_room_ns;
        self.add(now, programs_ns.map(|ns| ns as f64 / (now - since).as_nanos().max(1) as f64), tracer);
        Some(self.share)
    }

    /// Adds the time since the look before, of which programs took `programs` CPUs, where that is known.
    fn add(&mut self, now: Instant, programs: Option<f64>, tracer: &Tracer) {
        let (since, cpu_before) = std::mem::replace(&mut self.before, (now, self.cost.now().0));
        let ns = (now - since).as_nanos() as f64;
        let programs_ns = programs.map(|programs| (ns * programs) as u64);
        let taken = self.before.1.saturating_sub(cpu_before).saturating_add(programs_ns.unwrap_or(0));
        self.share.programs_ns = programs_ns.map(|ns| ns.saturating_add(self.share.programs_ns.unwrap_or(0)));
        if programs.is_none() && !std::mem::replace(&mut self.is_told, true) {
            log::warn!("{}", unknown_programs());
        }
        if std::mem::take(&mut self.is_new) {
            return; // The start takes more than what comes.
        }
        let cpus = tracer.cpus().len().max(1) as f64;
        self.share.millionths = (taken as f64 * 1e6 / ns.max(1.0) / cpus) as u32;
        let noted = self.steps.note(self.share.millionths);
        let one_in = self.steps.one_in();
        let hz = (tracer.sample_hz() / one_in).max(1);
        tracer.slow(one_in);
        if let Some(said) = noted.map(|noted| noted.said(self.steps.most, hz)) {
            log::warn!("{said}");
        }
        (self.share.sample_hz, self.share.is_above) = (hz, self.steps.is_above);
    }
}

/// What is to be said of a look, with the share that made it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noted {
    Slower(u32),
    Faster(u32),
    /// It takes more than it may, and there is no further step.
    Above(u32),
}

impl Noted {
    fn said(self, most: u32, hz: u32) -> String {
        match self {
            Self::Slower(mean) => slower_agent(mean, most, hz),
            Self::Faster(mean) => faster_agent(mean, hz),
            Self::Above(mean) => costly_agent(mean, most, hz),
        }
    }
}

/// Where samples stand on the way down.
#[derive(Debug, Default)]
struct Steps {
    most: u32,
    step: usize,
    /// It takes more than it may at the last step.
    is_above: bool,
    /// That was said since there was another step.
    is_told: bool,
    /// The first look is over, which is of the start: files of all that runs already are read in it.
    has_begun: bool,
    /// Since the last step, the newest last.
    looks: Vec<u32>,
}

impl Steps {
    fn one_in(&self) -> u32 {
        STEPS.get(self.step).copied().unwrap_or(1)
    }

    /// Takes a look's share.
    fn note(&mut self, share: u32) -> Option<Noted> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return None;
        }
        self.looks.push(share);
        let too_many = self.looks.len().saturating_sub(UP);
        self.looks.drain(..too_many);
        let (is_above, is_last) = (share > self.most, self.step + 1 >= STEPS.len());
        // Twice as many samples take twice as much at the most.
        let below = self.mean().filter(|mean| *mean < self.most / 2 && self.step > 0);
        self.is_above = is_last && is_above;
        match below {
            _ if self.is_above => {
                (!std::mem::replace(&mut self.is_told, true)).then_some(Noted::Above(share))
            }
            _ if is_above => Some(Noted::Slower(self.go(self.step + 1, share))),
            Some(mean) => Some(Noted::Faster(self.go(self.step - 1, mean))),
            None => None,
        }
    }

    fn go(&mut self, step: usize, mean: u32) -> u32 {
        (self.step, self.is_told) = (step, false);
        self.looks.clear();
        mean
    }

    /// Of the last looks, where they are as many as a step up takes.
    fn mean(&self) -> Option<u32> {
        let sum = self.looks.iter().map(|share| u64::from(*share)).sum::<u64>();
        let mean = u32::try_from(sum / UP as u64).ok();
        mean.filter(|_| self.looks.len() == UP)
    }
}

#[cfg(test)]
mod tests {
    use super::{Noted, STEPS, Steps};

    fn steps(of: &mut Steps, shares: &[u32]) -> Vec<u32> {
        let note = |share: &u32| {
            of.note(*share);
            of.one_in()
        };
        shares.iter().map(note).collect()
    }

    /// The first look above the limit is a step down and said, a minute far below it one up; what lies between is none.
    #[test]
    fn down_and_up() {
        let mut of = Steps { most: 10_000, has_begun: true, ..Steps::default() };
        assert_eq!([9_000, 37_000].map(|share| of.note(share)), [None, Some(Noted::Slower(37_000))]);
        assert_eq!(steps(&mut of, &[6_000; 9]), [2; 9]);
        assert_eq!(steps(&mut of, &[11_000; 3]), [4, 8, 8]);
        assert_eq!(steps(&mut of, &[4_000; 18]), [[8; 5].as_slice(), &[4; 6], &[2; 6], &[1]].concat());
    }

    /// What the start takes is no reason for fewer samples.
    #[test]
    fn the_start_does_not_count() {
        let mut of = Steps { most: 10_000, ..Steps::default() };
        assert_eq!(steps(&mut of, &[90_000, 9_000, 90_000]), [1, 1, 2]);
    }

    /// There is a last step, and a first.
    #[test]
    fn no_further() {
        let mut of = Steps { most: 1, has_begun: true, ..Steps::default() };
        let last = STEPS[STEPS.len() - 1];
        assert_eq!(steps(&mut of, &[u32::MAX; 50]).last(), Some(&last));
        let mut of = Steps { most: 10_000, has_begun: true, ..Steps::default() };
        assert_eq!(steps(&mut of, &[0; 20]), [1; 20]);
    }

    /// That it takes too much at the last step is said once, shown for as long as it is so, and said again where it comes back to that step.
    #[test]
    fn at_the_last_step() {
        let mut of = Steps { most: 10_000, step: STEPS.len() - 1, has_begun: true, ..Steps::default() };
        let mut look = |share, is_above| {
            let noted = of.note(share);
            assert_eq!(of.is_above, is_above, "{share} {:?}", of.looks);
            noted
        };
        assert_eq!(look(21_000, true), Some(Noted::Above(21_000)));
        assert_eq!([30_000; 5].map(|share| look(share, true)), [None; 5]);
        assert_eq!([0; 6].map(|share| look(share, false)).last(), Some(&Some(Noted::Faster(0))));
        let again = [15_000; 2].map(|share| of.note(share));
        assert_eq!(again, [Some(Noted::Slower(15_000)), Some(Noted::Above(15_000))]);
    }
}
