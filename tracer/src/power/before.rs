//! What is learned of the meters before the start: idle power, how they step and lag, and whether two drivers agree.
//!
//! Leaves out which sources there are (`set.rs`) and the readings of the run (`reader.rs`).

use super::cross_check::CrossCheck;
use super::reader::Live;
use super::set::PowerSet;
use super::{Remark, idle, powercap};
use crate::background::on_thread;
use energy_trace_model::recording::record::{IdleBaseline, Source, Warning};
use std::time::Duration;
use tokio::sync::oneshot;

impl PowerSet {
    /// Measures the idle power of every counter that has none yet, over a period before the run starts. Returns at once when there is
    /// none. Needs a tokio runtime.
    pub async fn measure_idle(&mut self, over: Duration) {
        if over.is_zero() || !self.live.iter().any(|live| self.lacks_idle(live)) {
            return;
        }
        let mut tracks: Vec<Vec<idle::Track>> =
            self.live.iter().map(|live| vec![idle::Track::new(); live.domains.len()]).collect();
        if let Some((live, check)) = self.checked() {
            check.begin(live.source.as_mut());
        }
        let calibrations = self.start_calibrations(over);
        let ticks_before = idle::read_cpu_ticks();
        let end = tokio::time::Instant::now() + over;
        let mut interval = tokio::time::interval(Duration::from_millis(idle::STEP_MS));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while interval.tick().await < end {
            for (live, tracks) in self.live.iter_mut().zip(&mut tracks) {
                let mut attempts = Vec::new();
                live.source.read(&mut attempts);
                idle::extend(tracks, &attempts);
            }
        }
        let mut how = format!("measured over {:.1} s before the start", over.as_secs_f64());
        if let Some((before, after)) = ticks_before.zip(idle::read_cpu_ticks()) {
            how.push_str(&busy_remark(idle::busy_percent(before, after)));
        }
        self.finish_calibrations(calibrations, &how).await;
        self.set_idle(&tracks, &how);
        self.finish_check();
    }

    /// Lets every source that can read its meters quickly do so meanwhile, on threads of their own.
    fn start_calibrations(&self, over: Duration) -> Vec<(usize, oneshot::Receiver<Vec<idle::Track>>)> {
        let able = self.live.iter().enumerate();
        let able = able.filter_map(|(place, live)| Some((place, live.source.calibrator()?)));
        // Without a thread a meter is as if it could not be read quickly.
        able.filter_map(|(place, calibrator)| {
            Some((place, on_thread("energy-meter", move || calibrator(over)).ok()?))
        })
        .collect()
    }

    /// Hands what was read to its source, and what that has learned to the report and the baselines.
    async fn finish_calibrations(
        &mut self,
        calibrations: Vec<(usize, oneshot::Receiver<Vec<idle::Track>>)>,
        how: &str,
    ) {
        for (place, reading) in calibrations {
            let (Ok(tracks), Some(live)) = (reading.await, self.live.get_mut(place)) else { continue };
            let learned = live.source.learn(tracks);
            add_notes(&mut self.sources, &live.name, learned.notes);
            for ((id, _), power) in live.domains.iter().zip(learned.idle) {
                let domain = self.domains.get_mut(id.index()).filter(|d| d.idle.is_none());
                if let (Some(domain), Some(power)) = (domain, power) {
                    domain.idle = Some(IdleBaseline { power, how: how.to_owned() });
                }
            }
        }
    }

    /// Watches the meters that can be read quickly for a moment, and returns the sources with what can be said of them, and the remarks.
    pub(super) fn examine(mut self, over: Duration) -> (Vec<Source>, Vec<Remark>) {
        for live in &mut self.live {
            let Some(calibrator) = live.source.calibrator() else { continue };
            let notes = live.source.learn(calibrator(over)).notes;
            add_notes(&mut self.sources, &live.name, notes);
        }
        (self.sources, self.remarks)
    }

    fn checked(&mut self) -> Option<(&mut Live, &mut CrossCheck)> {
        let (place, check) = self.check.as_mut()?;
        Some((self.live.get_mut(*place)?, check))
    }

    /// Says in the source's notes how well perf agrees with powercap, and warns where it does not.
    fn finish_check(&mut self) {
        let Some((live, check)) = self.checked() else { return };
        let agreements = check.compare(live.source.as_mut());
        for agreement in &agreements {
            let (domain, percent) = (&agreement.domain, agreement.percent());
            let text = format!(
                "{domain}: perf differs from powercap by {percent:+.1} %, as compared before the start"
            );
            if agreement.is_broken() {
                let advice = "one of the two drivers has the wrong unit; --power perf reads the other one";
                let text = format!("{text}; {advice}");
                self.warnings.push(Warning { code: "sources-disagree".to_owned(), text });
            } else if let Some(source) = self.sources.iter_mut().find(|s| s.name == powercap::NAME) {
                source.notes.push(text);
            }
        }
        self.check = None;
    }

    fn lacks_idle(&self, live: &Live) -> bool {
        live.domains.iter().any(|(id, _)| self.domains.get(id.index()).is_some_and(|d| d.idle.is_none()))
    }

    fn set_idle(&mut self, tracks: &[Vec<idle::Track>], how: &str) {
        for (live, tracks) in self.live.iter().zip(tracks) {
            for ((id, _), track) in live.domains.iter().zip(tracks) {
                if let Some(domain) = self.domains.get_mut(id.index()).filter(|d| d.idle.is_none()) {
                    domain.idle =
                        idle::baseline(track).map(|power| IdleBaseline { power, how: how.to_owned() });
                }
            }
        }
    }
}

/// Gives what was learned to the source of that name.
fn add_notes(sources: &mut [Source], name: &str, notes: Vec<String>) {
    if let Some(source) = sources.iter_mut().find(|source| source.name == name) {
        source.notes.extend(notes);
    }
}

/// What a baseline is worth that was measured on CPUs this busy; a tenth is what a desktop does at rest.
fn busy_remark(percent: u64) -> String {
    if percent < 10 {
        return String::new();
    }
    format!(", while the CPUs were {percent} % busy: too high, so stop other work or give --idle-watts")
}
