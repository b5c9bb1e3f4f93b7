//! Sets a recording's clock: every time in it later by the same, so that recordings of several machines have one clock.
//!
//! Leaves out by how much (attribution).

use super::tables::Recording;
use crate::clock::KtimeNs;
use std::time::Duration;

impl Recording {
    /// The same recording with all its times later by so much. The wall's time of everything stays.
    #[must_use]
    pub fn later_by(mut self, by: Duration) -> Self {
        if by.is_zero() {
            return self;
        }
        let move_all = |times: &mut dyn Iterator<Item = &mut KtimeNs>| times.for_each(|at| *at = *at + by);
        move_all(&mut std::iter::once(&mut self.header.anchor.ktime));
        move_all(&mut self.readings.values_mut().flatten().map(|reading| &mut reading.at));
        move_all(&mut self.clocks.values_mut().flatten().map(|(at, _)| at));
        move_all(&mut self.sleeps.iter_mut());
        move_all(&mut self.sensors.iter_mut().flat_map(|of| &mut of.values).map(|(at, _)| at));
        move_all(&mut self.work.iter_mut().flat_map(|of| &mut of.readings).map(|reading| &mut reading.at));
        move_all(&mut self.slices.iter_mut().flat_map(|of| [&mut of.start, &mut of.end]));
        move_all(&mut self.unsampled.iter_mut().flat_map(|of| [&mut of.start, &mut of.end]));
        move_all(&mut self.samples.iter_mut().map(|sample| &mut sample.at));
        move_all(&mut self.spans.values_mut().flatten().map(|(at, _)| at));
        move_all(&mut self.requests.waits.iter_mut().map(|wait| &mut wait.at));
        move_all(&mut self.requests.wakes.iter_mut().map(|wake| &mut wake.at));
        move_all(&mut self.gpu.launches.iter_mut().flat_map(|of| [&mut of.from, &mut of.until]));
        move_all(&mut self.gpu.waits.iter_mut().flat_map(|of| [&mut of.from, &mut of.until]));
        let busy = self.gpu.busy.iter_mut();
        move_all(&mut busy.flat_map(|of| [&mut of.launched, &mut of.from, &mut of.until]));
        let uses = self.gpu_facts.uses.values_mut().flatten();
        move_all(&mut uses.flat_map(|of| [&mut of.from, &mut of.to]));
        let summary = self.summary.iter_mut();
        move_all(&mut summary.flat_map(|of| [&mut of.start, &mut of.end]));
        self
    }
}
